"""The pages: one text at a time, behind a secret link for each person.

Everything below a link is found by its token alone; no page, script or picture is there without one.
"""

import secrets
import sqlite3
import time
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from pipeline.base import full_disk
from pipeline.judging.book import Book
from pipeline.judging.guide import HIGHEST, LOWEST, SCALES, WORDS
from pipeline.judging.sheet import JUDGE, Sheet, Slot, Spans
from pipeline.reporting import markup
from pipeline.web import app as web_app
from pipeline.web.app import Bounded, Refused
from pipeline.web.pages import Pages, data

MAX_BODY_BYTES = 1 << 20
"""Of a request; the spans of the longest text, every second token marked, need 0.5 MB."""
_MAX_SPANS = 1 << 15

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


def make_app(sheet: Sheet, book: Book) -> Bounded:
    """The application that shows a sheet and keeps its answers."""
    desk = Desk(sheet, book)
    app = web_app.new_app(desk.refuse, (sqlite3.Error,))
    app.add_api_route("/j/{token}", web_app.with_slash, methods=["GET"])
    app.add_api_route("/j/{token}/", desk.first, methods=["GET"])
    app.add_api_route("/j/{token}/open", desk.take_over, methods=["POST"])
    app.add_api_route("/j/{token}/end", desk.end, methods=["GET"])
    app.add_api_route("/j/{token}/{number:int}", desk.show, methods=["GET"])
    keep = desk.keep_scores if sheet.kind == JUDGE else desk.keep_marks
    app.add_api_route("/j/{token}/{number:int}", keep, methods=["PUT"])
    return Bounded(app, MAX_BODY_BYTES)


class Desk:
    """What the addresses answer."""

    def __init__(self, sheet: Sheet, book: Book) -> None:
        self._sheet = sheet
        self._book = book
        self._pages = Pages("pipeline.judging", WORDS, sheet.language, sheet.title)
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
        page = self._pages.page(
            request,
            f"{self._sheet.kind}_sheet.html.j2",
            scales=SCALES,
            points=range(HIGHEST, LOWEST - 1, -1),
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
        return self._remembered(request, self._pages.notice(request, 200, name, target=target), judge)

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
        return data({"num_done": self._book.num_complete()[judge]})

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
        return self._pages.remembered(request, answer)

    @staticmethod
    def _keep_cookie(answer: Response, judge: int, session: str) -> None:
        answer.set_cookie(_cookie(judge), session, samesite="lax", httponly=True)

    def refuse(self, request: Request, error: Exception) -> Response:
        """What is told of an error: a page, or a message to the page that saves."""
        status, name = _reason(error)
        if request.method == "PUT":
            return data({"message": name}, status)
        return self._pages.notice(request, status, name)


def _cookie(judge: int) -> str:
    return f"sheet-{judge + 1}"


def _reason(error: Exception) -> tuple[int, str]:
    """Status, and name of the notice."""
    if isinstance(error, sqlite3.Error):
        return (507, "full") if full_disk.is_meant(error) else (503, "busy")
    return web_app.reason(error)


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
