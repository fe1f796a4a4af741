"""The pages: one text at a time, behind a secret link for each person.

Everything below a link is found by its token alone; no page, script or picture is there without one. Texts
are escaped, and the content security policy lets no script run but the page's own.
"""

import functools
import secrets
import sqlite3
import time
from collections.abc import Sequence
from typing import Annotated, Any

import jinja2
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.base.errors import lacks_room, one_line
from pipeline.judging.book import Book
from pipeline.judging.guide import CHINESE, HIGHEST, LOWEST, OTHER, SCALES, WORDS
from pipeline.judging.sheet import JUDGE, Sheet, Slot, Spans
from pipeline.reporting import markup

MAX_BODY_BYTES = 1 << 20
"""Of a request; the spans of the longest text, every second token marked, need 0.5 MB."""
_MAX_SPANS = 1 << 15
_LANGUAGE = "language"
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address is a secret
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
}

Score = Annotated[float, Field(ge=LOWEST, le=HIGHEST, allow_inf_nan=False)]

Span = Annotated[list[int], Field(min_length=2, max_length=2)]


class Scores(BaseModel):
    """What a page of a sheet to judge sends."""

    model_config = ConfigDict(extra="forbid", strict=True)
    usefulness: Score | None
    completeness: Score | None
    fluency: Score | None


class Marks(BaseModel):
    """What a page of a sheet to annotate sends."""

    model_config = ConfigDict(extra="forbid", strict=True)
    rationale: Annotated[list[Span], Field(max_length=_MAX_SPANS)]
    is_done: bool


class Refused(HTTPException):
    """An answer with a page of its own: `name.title` and `name.text` of the guide."""

    def __init__(self, status: int, name: str) -> None:
        super().__init__(status, name)


@functools.cache
def _environment() -> jinja2.Environment:
    folders = [jinja2.PackageLoader("pipeline.judging"), jinja2.PackageLoader("pipeline.reporting")]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def make_app(sheet: Sheet, book: Book) -> "Bounded":
    """The application that shows a sheet and keeps its answers."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    desk = Desk(sheet, book)
    app.add_api_route("/j/{token}", _with_slash, methods=["GET"])
    app.add_api_route("/j/{token}/", desk.first, methods=["GET"])
    app.add_api_route("/j/{token}/open", desk.take_over, methods=["POST"])
    app.add_api_route("/j/{token}/end", desk.end, methods=["GET"])
    app.add_api_route("/j/{token}/{number:int}", desk.show, methods=["GET"])
    keep = desk.keep_scores if sheet.kind == JUDGE else desk.keep_marks
    app.add_api_route("/j/{token}/{number:int}", keep, methods=["PUT"])
    app.add_exception_handler(HTTPException, desk.refuse)
    app.add_exception_handler(RequestValidationError, desk.refuse)
    app.add_exception_handler(sqlite3.Error, desk.refuse)
    app.add_exception_handler(Exception, desk.refuse)
    return Bounded(app)


def _with_slash(token: str) -> Response:
    return RedirectResponse(f"{token}/", 303)


class Bounded:
    """Lets no request through whose body is larger than `MAX_BODY_BYTES`.

    Args:
        app: that is asked otherwise.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        taken = 0
        stated = dict(scope.get("headers", ())).get(b"content-length", b"0")
        is_large = not stated.isdigit() or int(stated) > MAX_BODY_BYTES

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if is_large or taken > MAX_BODY_BYTES:
                raise Refused(413, "large")
            return message

        await self._app(scope, bounded, send)


class Desk:
    """What the addresses answer.

    Args:
        sheet: that is shown.
        book: that answers are kept in.
    """

    def __init__(self, sheet: Sheet, book: Book) -> None:
        self._sheet = sheet
        self._book = book
        self._spaces = [markup.spaces(text.tokens) for text in sheet.texts]

    # ------------------------------------------------------------------------------------------ pages

    def first(self, request: Request, token: str) -> Response:
        """On to the first showing that is not finished, or to the end."""
        judge, _ = self._entered(request, token)
        return self._remembered(request, RedirectResponse(self._first_open(judge), 303), judge)

    def show(self, request: Request, token: str, number: int) -> Response:
        """A showing."""
        judge, slot = self._entered(request, token, number)
        assert slot is not None
        answers = self._book.answers(judge)
        text, answer = self._sheet.texts[slot.text], answers.get(number - 1)
        last = len(self._sheet.plan[judge])
        page = self._page(
            request,
            f"{self._sheet.kind}_sheet.html.j2",
            number=number,
            last=last,
            num_done=sum(answer.is_complete for answer in answers.values()),
            before=f"{number - 1}" if number > 1 else None,
            after=f"{number + 1}" if number < last else "end",
            shown=text.shown,
            is_chinese=markup.is_chinese(text.tokens),
            pieces=_pieces(text.tokens, self._spaces[slot.text], self._sheet.spans(slot)),
            answer=answer.content if answer else {},
            is_done=answer is not None and answer.is_complete,
        )
        return self._remembered(request, page, judge)

    def end(self, request: Request, token: str) -> Response:
        """The last page: thanks, or which showing is still open."""
        judge, _ = self._entered(request, token)
        is_over = self._first_open(judge) == "end"
        name = "end" if is_over else "open"
        target = ("1", "review") if is_over else (self._first_open(judge), "open.go")
        return self._remembered(request, self._notice(request, 200, name, target=target), judge)

    def take_over(self, request: Request, token: str) -> Response:
        """Go on in this browser; the other one is told so when it saves next."""
        judge = self._judge(token)
        session = secrets.token_urlsafe()
        self._book.enter(judge, session, time.time(), insist=True)
        answer = RedirectResponse("./", 303)
        self._keep_cookie(answer, judge, session)
        return answer

    # ---------------------------------------------------------------------------------------- answers

    def keep_scores(self, request: Request, token: str, number: int, scores: Scores) -> Response:
        """Keep the scores of a showing, those that are missing as None."""
        judge, _ = self._entered(request, token, number)
        content = scores.model_dump()
        self._book.save(judge, number - 1, content, is_complete=None not in content.values())
        return self._kept(judge)

    def keep_marks(self, request: Request, token: str, number: int, marks: Marks) -> Response:
        """Keep the spans that a person marked."""
        judge, slot = self._entered(request, token, number)
        assert slot is not None
        size, end = len(self._sheet.texts[slot.text].tokens), -1
        for start, following in marks.rationale:
            if not end < start < following <= size:
                raise Refused(422, "bad")
            end = following
        self._book.save(judge, number - 1, {"rationale": marks.rationale}, is_complete=marks.is_done)
        return self._kept(judge)

    def _kept(self, judge: int) -> Response:
        return JSONResponse({"num_done": self._book.num_complete()[judge]}, headers=_HEADERS)

    # ----------------------------------------------------------------------------------------- access

    def _judge(self, token: str) -> int:
        judge = self._book.judge_of(token)
        if judge is None:
            raise Refused(404, "unknown")
        return judge

    def _entered(self, request: Request, token: str, number: int | None = None) -> tuple[int, Slot | None]:
        """The judge whose link it is, and the showing; the browser is the one that goes on with the sheet."""
        judge = self._judge(token)
        plan = self._sheet.plan[judge]
        if number is not None and not 1 <= number <= len(plan):
            raise Refused(404, "unknown")
        session = request.cookies.get(_cookie(judge)) or secrets.token_urlsafe()
        if not self._book.enter(judge, session, time.time()):
            raise Refused(409, "elsewhere")
        request.state.session = session
        return judge, None if number is None else plan[number - 1]

    def _first_open(self, judge: int) -> str:
        answers = self._book.answers(judge)
        slots = range(len(self._sheet.plan[judge]))
        found = (slot for slot in slots if not (slot in answers and answers[slot].is_complete))
        return next((f"{slot + 1}" for slot in found), "end")

    def _remembered(self, request: Request, answer: Response, judge: int) -> Response:
        self._keep_cookie(answer, judge, request.state.session)
        if request.query_params.get(_LANGUAGE) in WORDS:
            answer.set_cookie(_LANGUAGE, request.query_params[_LANGUAGE], samesite="lax", httponly=True)
        return answer

    @staticmethod
    def _keep_cookie(answer: Response, judge: int, session: str) -> None:
        answer.set_cookie(_cookie(judge), session, samesite="lax", httponly=True)

    # ---------------------------------------------------------------------------------------- writing

    def _page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        asked = request.query_params.get(_LANGUAGE) or request.cookies.get(_LANGUAGE, "")
        language = asked if asked in WORDS else self._sheet.language
        nonce = secrets.token_urlsafe()
        text = (
            _environment()
            .get_template(template)
            .render(
                say=WORDS[language],
                language="zh-CN" if language == CHINESE else language,
                other=OTHER[language],
                title=self._sheet.title,
                scales=SCALES,
                points=range(HIGHEST, LOWEST - 1, -1),
                nonce=nonce,
                **values,
            )
        )
        policy = f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src data:; "
        policy += "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        return HTMLResponse(text, status, _HEADERS | {"Content-Security-Policy": policy})

    def _notice(
        self, request: Request, status: int, name: str, *, target: tuple[str, str] | None = None
    ) -> Response:
        return self._page(request, "notice.html.j2", status, name=name, target=target)

    def refuse(self, request: Request, error: Exception) -> Response:
        """What is told of an error: a page, or a message to the page that saves."""
        status, name = _reason(error)
        if request.method == "PUT":
            return JSONResponse({"message": name}, status, _HEADERS)
        return self._notice(request, status, name)


def _cookie(judge: int) -> str:
    return f"sheet-{judge + 1}"


def _reason(error: Exception) -> tuple[int, str]:
    """Status, and name of the notice."""
    if isinstance(error, Refused):
        return error.status_code, error.detail
    if isinstance(error, HTTPException):
        return error.status_code, "unknown" if error.status_code in (404, 405) else "bad"
    if isinstance(error, RequestValidationError):
        return 422, "bad"
    if isinstance(error, sqlite3.Error):
        return (507, "full") if lacks_room(one_line(error)) else (503, "busy")
    return 500, "failed"


def _pieces(tokens: Sequence[str], spaces: Sequence[str], spans: Spans) -> list[dict[str, Any]]:
    """Tokens with what stands behind each, and whether they, and the space behind them, are marked."""
    marked = {i for start, end in spans for i in range(start, end)}
    return [
        {
            "text": token,
            "space": space,
            "is_marked": i in marked,
            "goes_on": i in marked and i + 1 in marked,
        }
        for i, (token, space) in enumerate(zip(tokens, [*spaces, ""][: len(tokens)], strict=True))
    ]
