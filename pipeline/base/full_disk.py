"""Whether an error says that a disk is full, or cannot be written for another reason.

Where Python knows a number of the system (`errno`) or of SQLite, the number decides. Some writers lose it and
have only words, and of an error in a worker Ray hands over its traceback as text: `WORDS` has what each of
them says. tests/unit/pipeline/test_full_disk.py lets them write on a full disk.
"""

import errno
import re
import sqlite3

_NUMBERS = (errno.ENOSPC, errno.EROFS, errno.EDQUOT)
_LISTED = "|".join(map(str, _NUMBERS))

WORDS = {
    "Python": rf"\[[Ee]rrno ({_LISTED})\]",
    "Rust, as safetensors is": rf"\(os error ({_LISTED})\)",
    "the C library": "No space left on device|Disk quota exceeded|Read-only file system",
    "torch": r"PytorchStreamWriter failed writing|inline_container\.cc:\d+\] \. unexpected pos"
    r"|basic_ios::clear: iostream error",
    "SQLite": "database or disk is full",
}
"""Writer -> what it says."""
_WORDS = re.compile("|".join(WORDS.values()))


_READ_ONLY = re.compile(rf"Read-only file system|\[[Ee]rrno {errno.EROFS}\]|\(os error {errno.EROFS}\)")


def remedy(reason: str, disks: str = "this disk") -> str:
    """What a user can do about a disk that takes nothing.

    Args:
        reason: the words of the error.
        disks: on which there may be something to delete.
    """
    if _READ_ONLY.search(reason):
        return "name a folder in which you may write"
    return f"delete files on {disks}"


def is_said(text: str) -> bool:
    """Whether the text of an error says it."""
    return _WORDS.search(text) is not None


def is_meant(error: BaseException) -> bool:
    """Whether an error says it, by its number or in words."""
    known = getattr(error, "orig", None) or error  # SQLAlchemy's own error of the database's
    if isinstance(known, OSError) and known.errno in _NUMBERS:
        return True
    if isinstance(known, sqlite3.Error) and getattr(known, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return True
    return is_said(str(known))
