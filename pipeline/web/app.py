"""An application that shows nothing without a secret link, and reads no request beyond a size."""

from collections.abc import Callable, Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Refuse = Callable[[Request, Exception], Response]
"""What is answered in place of a page where something is wrong."""

_UNKNOWN = "unknown"


class Refused(HTTPException):
    """An answer with a page of its own: `name.title` and `name.text` of what the pages say."""

    def __init__(self, status: int, name: str) -> None:
        super().__init__(status, name)


def new_app(
    refuse: Refuse, is_known: Callable[[str], bool], errors: Sequence[type[Exception]] = ()
) -> FastAPI:
    """An application without addresses; it shows no documentation of itself.

    Args:
        is_known: whether there is a link with this token. Without one, whatever else is wrong with a request,
            its answer is that the link leads nowhere.
        errors: kinds that are refused besides, and not reported as faults.
    """

    def refused(request: Request, error: Exception) -> Response:
        token = request.path_params.get("token")
        is_astray = token is not None and not is_known(token)
        return refuse(request, Refused(404, _UNKNOWN) if is_astray else error)

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    for kind in (HTTPException, RequestValidationError, *errors, Exception):
        app.add_exception_handler(kind, refused)
    return app


def with_slash(token: str) -> Response:
    """To the page of a link that lacks its last slash; the token is known."""
    # with `./` in front, a token that begins as an address leads nowhere else
    return RedirectResponse(f"./{token}/", 303)


def reason(error: Exception) -> tuple[int, str]:
    """Status of an error, and name of its notice."""
    if isinstance(error, Refused):
        return error.status_code, error.detail
    if isinstance(error, HTTPException):
        return error.status_code, _UNKNOWN if error.status_code in (404, 405) else "bad"
    if isinstance(error, RequestValidationError):
        return 422, "bad"
    return 500, "failed"


class Bounded:
    """Lets no request through whose body is larger than a size."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        taken = 0
        stated = dict(scope.get("headers", ())).get(b"content-length", b"0")
        is_large = not stated.isdigit() or int(stated) > self._max_bytes

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if is_large or taken > self._max_bytes:
                raise Refused(413, "large")
            return message

        await self._app(scope, bounded, send)
