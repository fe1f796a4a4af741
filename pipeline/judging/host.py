"""Serving a sheet: the address, everybody's link, and a server until it is interrupted."""

import logging
import socket
import sys
from pathlib import Path

from feature_store.cache import write_text
from pipeline.base.errors import PipelineError
from pipeline.judging import sheet as sheets
from pipeline.judging.book import Book
from pipeline.web import host as web_host

PORT = "port"
"""File of a sheet's folder that has the port of its links."""

logger = logging.getLogger("pipeline.judge")


def serve(folder: Path, host: str, port: int, url: str | None) -> str:
    """Serve a sheet until the process is interrupted; prints everybody's link first.

    Args:
        port: to listen at; 0: that of the links which were printed first.
        url: under which others reach this server, where that is another address.

    Returns:
        How far everybody came.
    """
    from pipeline.judging.web import make_app

    sheet = sheets.load(folder, "--sheet")
    book = Book(folder, sheet)
    with listening_for(folder, host, port) as listener:
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


def listening_for(folder: Path, host: str, port: int) -> socket.socket:
    """A socket at the port of the sheet's links, so that these, and the pages that are open, stay of use.

    Args:
        port: another one for the links from now on; 0: none.

    Raises:
        PipelineError: if the port is taken, or the host is not this machine's.
    """
    file = folder / PORT
    known = _port_in(file)
    if port == 0 and known:
        try:
            return web_host.listening(host, known)
        except PipelineError:
            listener = web_host.listening(host, 0)  # fails, too, if the fault is the host's
            logger.warning(
                "note: the links of this sheet have port %d, which is not free; the links that follow have "
                "another port; earlier links and open pages work again once the sheet is served with "
                "`--port %d`",
                known,
                known,
            )
            return listener
    listener = web_host.listening(host, port)
    if (taken := listener.getsockname()[1]) != known:
        write_text(file, f"{taken}\n")
    return listener


def _port_in(file: Path) -> int:
    """The port that a file names; 0 if there is no such file, or it names none."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return 0
    return int(text) if text.isascii() and text.isdigit() and int(text) < 2**16 else 0


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
