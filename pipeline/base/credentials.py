"""Checks of the user name and the password in a URI that a user gave."""

from pipeline.base import uris
from pipeline.base.errors import PipelineError

_HINT = (
    "percent-encode the user name and the password: `@` is %40, `/` is %2F, `#` is %23, `?` is %3F, `%` is "
    "%25, a blank is %20. Encode an `@` in a path in the same way. This command prints an encoded password: "
    "`python -c \"import getpass, urllib.parse as u; print(u.quote(getpass.getpass(), safe=''))\"`"
)


def check(uri: str | None, flag: str) -> None:
    """Refuse a URI whose password is masked, or would be read as another one.

    Args:
        uri: None: there is none.

    Raises:
        PipelineError: if it is refused; the message holds no password.
    """
    if not uri:
        return
    if uris.is_masked(uri):
        raise PipelineError(
            f"the password of `{uri}` is not stored",
            where=flag,
            hint="set MLFLOW_TRACKING_URI to the address with its password: the same command then works"
            if flag == "--tracking-uri"
            else "give the address again, with its password",
        )
    _, found = uris.split(uri)
    if found is not None and not found.are_encoded:
        raise PipelineError(
            # the address stands last: whatever prints this masks an address up to the last `@` that follows
            "expected a percent-encoded user name and password, but got an unencoded `@`, `/`, `#`, `?`, `%` "
            f"or blank in `{uris.without_password(uri)}`",
            where=flag,
            hint=_HINT,
        )
