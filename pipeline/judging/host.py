"""Serving a sheet: the address, everybody's link, and a server until it is interrupted."""

import logging
import socket
import sys
from pathlib import Path

from pipeline.base.errors import PipelineError
from pipeline.judging import sheet as sheets
from pipeline.judging.book import Book

logger = logging.getLogger("pipeline.judge")

LOCAL = "127.0.0.1"
_MAX_CONNECTIONS = 200
_EVERYWHERE = ("0.0.0.0", "::")


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        PipelineError: if the port is taken, or the host is not this machine's.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise PipelineError(
            f"cannot listen there: {getattr(error, 'strerror', None) or error}",
            where=f"--host {host} --port {port}",
            hint="`--port 0` takes a free one; `--host` is an address of this machine",
        ) from error


def _address(listening: socket.socket, host: str, url: str | None) -> str:
    if url:
        return url.rstrip("/")
    name = socket.gethostname() if host in _EVERYWHERE else host
    return f"http://{f'[{name}]' if ':' in name else name}:{listening.getsockname()[1]}"


def serve(folder: Path, host: str, port: int, url: str | None) -> str:
    """Serve a sheet until the process is interrupted; prints everybody's link first.

    Args:
        folder: of the sheet.
        host: address to listen at.
        port: to listen at; 0: a free one.
        url: under which others reach this server, where that is another address.

    Returns:
        How far everybody came.
    """
    import uvicorn

    from pipeline.judging.web import make_app

    sheet = sheets.load(folder, "--sheet")
    book = Book(folder, sheet)
    with _listening(host, port) as listening:
        address = _address(listening, host, url)
        for number, token in enumerate(book.tokens(), start=1):
            print(f"{who(sheet)} {number}: {address}/j/{token}/")
        sys.stdout.flush()
        if host != LOCAL and not (url or "").startswith("https:"):
            logger.warning(
                "the links go over the network unencrypted: whoever reads one may answer in its owner's "
                "name; put a proxy with HTTPS in front and name it by `--url`"
            )
        logger.info("Ctrl-C ends the server; answers are on the disk as soon as a page says `saved`")
        config = uvicorn.Config(
            make_app(sheet, book),
            log_level="warning",
            access_log=False,  # the addresses are secrets
            limit_concurrency=_MAX_CONNECTIONS,
            server_header=False,
            timeout_graceful_shutdown=3,
        )
        try:
            uvicorn.Server(config).run(sockets=[listening])
        except KeyboardInterrupt:  # uvicorn has closed by now and passes the signal on
            logger.info("the server has ended")
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
