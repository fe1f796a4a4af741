"""The secret part of a link."""

import secrets

_BYTES = 24


def new_token() -> str:
    """A secret part of a link."""
    return secrets.token_urlsafe(_BYTES)


def same(known: str, given: str) -> bool:
    """Whether two tokens are one, in a time that does not tell how far they agree."""
    return secrets.compare_digest(known.encode(), given.encode(errors="replace"))
