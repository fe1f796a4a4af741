"""A study at a URI belongs to one process at a time, on file systems that know no locks.

A process writes a claim of its own and then lists all claims: of two that start at once, the one that lists
last sees the other's, so never both continue; it may be that neither does. This holds where a list shows what
was written before it, as S3, Google's and Azure's stores and local file systems promise. A claim is renewed
while its process lives, and void when it was not for `LIFE_S` seconds by the file system's own clock: a
process that was asleep for longer may find its study taken over, and says so.
"""

import contextlib
import json
import logging
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from typing import Any

from pipeline.base.errors import PipelineError
from pipeline.base.storage import Location

logger = logging.getLogger("pipeline.base.claim")

LIFE_S, RENEWAL_S = 90.0, 20.0


@contextlib.contextmanager
def held(claims: Location, name: str, kind: str = "study") -> Iterator[None]:
    """Keep a study for this process while the block runs.

    Args:
        kind: what it is called, where it is no study.

    Raises:
        PipelineError: if another process has it.
    """
    mine = claims / f"{secrets.token_hex(8)}.json"
    document = json.dumps(_owner()).encode()
    mine.write(document)
    try:
        _refuse_others(claims, mine, f"{kind} `{name}`")
        with _renewed(mine, document):
            yield
    finally:
        mine.remove()


def _owner() -> dict[str, Any]:
    """Who we are: a process number means something within its namespace only."""
    namespace = None
    with contextlib.suppress(OSError):  # only Linux says it
        namespace = os.readlink("/proc/self/ns/pid")
    return {"host": socket.gethostname(), "pid": os.getpid(), "namespace": namespace}


def _refuse_others(claims: Location, mine: Location, study: str) -> None:
    now = mine.modified()
    for other in (claims / name for name in claims.names()):
        if other.path == mine.path:
            continue
        age_s = now - other.modified()
        owner = _read(other)
        if age_s > LIFE_S or _has_ended(owner):
            other.remove()
            continue
        raise PipelineError(
            f"the {study} is already being run by process {owner.get('pid')} on `{owner.get('host')}` "
            f"(last seen {max(age_s, 0):.0f} s ago)",
            where="--name",
            hint="choose another name, or wait until that process has ended; if it has crashed, try again in "
            f"{LIFE_S:.0f} s",
        )


def _read(claim: Location) -> dict[str, Any]:
    try:
        found = json.loads(claim.read())
    except (PipelineError, ValueError, RecursionError):  # given up this moment, or not ours
        found = None
    # without an owner its age alone counts
    return found if isinstance(found, dict) else {}


def _has_ended(owner: dict[str, Any]) -> bool:
    """Whether the owner was a process of this machine that is no more."""
    ours = _owner()
    if owner.get("namespace") is None or any(owner.get(key) != ours[key] for key in ("host", "namespace")):
        return False
    return not os.path.exists(f"/proc/{owner.get('pid')}")


@contextlib.contextmanager
def _renewed(mine: Location, document: bytes) -> Iterator[None]:
    over = threading.Event()

    def renew() -> None:
        while not over.wait(RENEWAL_S):
            try:
                if not mine.exists():
                    logger.error(
                        "another process has taken over this study, so stop this process, which prints this "
                        "line (%s)",
                        mine,
                    )
                    return
                mine.write(document)
            except PipelineError as error:
                logger.warning("cannot renew this process's lock on the study: %s", error)

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
