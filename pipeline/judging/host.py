"""Serving a sheet: the address, everybody's link, and a server until it is interrupted."""

import logging
import sys
from pathlib import Path

from pipeline.judging import sheet as sheets
from pipeline.judging.book import Book
from pipeline.web import host as web_host

logger = logging.getLogger("pipeline.judge")


def serve(folder: Path, host: str, port: int, url: str | None) -> str:
    """Serve a sheet until the process is interrupted; prints everybody's link first.

    Args:
        port: to listen at; 0: a free one.
        url: under which others reach this server, where that is another address.

    Returns:
        How far everybody came.
    """
    from pipeline.judging.web import make_app

    sheet = sheets.load(folder, "--sheet")
    book = Book(folder, sheet)
    with web_host.listening(host, port) as listener:
        address = web_host.address(listener, host, url)
        for number, token in enumerate(book.tokens(), start=1):
            print(f"{who(sheet)} {number}: {address}/j/{token}/")
        sys.stdout.flush()
        if web_host.is_unencrypted(host, url):
            logger.warning(
                "the links are sent over the network unencrypted, and everyone who reads a link can answer "
                "in the judge's name; put a proxy with HTTPS in front of the server, and give its address "
                "with `--url`"
            )
        logger.info("Ctrl-C ends the server; answers are on the disk as soon as a page says `saved`")
        web_host.run(make_app(sheet, book), listener)
    told = progress(sheet, book)
    book.close()
    return told


def who(sheet: sheets.Sheet) -> str:
    """What the people of a sheet are called."""
    return "judge" if sheet.kind == sheets.JUDGE else "annotator"


def progress(sheet: sheets.Sheet, book: Book) -> str:
    """How far everybody has come, a line each."""
    counts = zip(book.num_complete(), sheet.plan, strict=True)
    return "\n".join(
        f"{who(sheet)} {number}: {count} of {len(plan)} done"
        for number, (count, plan) in enumerate(counts, start=1)
    )
