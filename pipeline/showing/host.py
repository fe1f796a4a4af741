"""Serving the page: the models first, then the link, then an answer to each request until Ctrl-C."""

import argparse
import logging
import sys

from feature_store import terminal
from pipeline.web import host as web_host
from pipeline.web import tokens
from pipeline.web.flags import is_local
from pipeline.web.words import CHINESE, ENGLISH

logger = logging.getLogger("pipeline.demo")


def serve(given: argparse.Namespace) -> None:
    """Serve the page of some models until the process is interrupted; prints its link first.

    Args:
        given: parsed flags of `pipeline.demo`, checked.

    Raises:
        UserError: if the address is taken, or a model cannot be loaded.
    """
    with web_host.listening(given.host, given.port) as listener:  # before the models, which take longer
        with terminal.opened(), terminal.step("loading the models"):
            from pipeline.showing import models
            from pipeline.showing.web import make_app

            shown, texts = models.load(given)
        language = given.language or (CHINESE if shown[0].is_chinese else ENGLISH)
        token = tokens.new_token()
        app = make_app(shown, texts, token, language)
        print(f"{web_host.address(listener, given.host, given.url)}/d/{token}/")
        sys.stdout.flush()
        _say_who(given)
        web_host.run(app, listener)


def _say_who(given: argparse.Namespace) -> None:
    """Who can open the link, and how it ends."""
    if not given.share:
        logger.info(
            "only this machine can open the link; with `--share`, other machines can open it; "
            "Ctrl-C ends the server"
        )
        return
    logger.info("everyone who has the link can open the page, and nobody else; Ctrl-C ends the server")
    if is_local(given.host) and not given.url:
        logger.warning("the server listens on %s, which only this machine can reach", given.host)
    elif web_host.is_unencrypted(given.host, given.url):
        logger.warning(
            "the link and the texts are sent over the network unencrypted; put a proxy with HTTPS in front "
            "of the server, and give its address with `--url`"
        )
