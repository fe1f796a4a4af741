"""The pages: one text at a time, behind a secret link for each person.

Everything below a link is found by its token alone; no page, script or picture is there without one.
"""

import hashlib
import logging
import sqlite3
import time
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Header, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pipeline.base import full_disk
from pipeline.judging.book import Book, Judgement
from pipeline.judging.guide import HIGHEST, LOWEST, SCALES, WORDS, is_in_tenths
from pipeline.judging.sheet import JUDGE, Sheet, Slot, Spans, Text
from pipeline.reporting import markup
from pipeline.web import app as web_app
from pipeline.web.app import Bounded, Refused
from pipeline.web.pages import Pages, data

logger = logging.getLogger("pipeline.judge")

MAX_BODY_BYTES = 1 << 20
"""Of a request; the spans of the longest text, every second token marked, need 0.5 MB."""
_MAX_SPANS = 1 << 15


def _in_tenths(score: float) -> float:
    if not is_in_tenths(score):
        raise ValueError("not in tenths")
    return score


Score = Annotated[float, Field(ge=LOWEST, le=HIGHEST, allow_inf_nan=False), AfterValidator(_in_tenths)]

Span = Annotated[list[int], Field(min_length=2, max_length=2)]


Name = Annotated[str, Field(min_length=1, max_length=64)]
"""What a page that is open calls itself."""

Window = Annotated[str, Header(alias="X-Window")]
"""The name of the page that saves."""


class Entering(BaseModel):
    """What a page sends when it is opened; arguments of `Book.enter`."""

    model_config = ConfigDict(extra="forbid", strict=True)
    window: Name
    before: Annotated[list[Name], Field(max_length=64)] = []
    insist: bool = False


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
    app = web_app.new_app(desk.refuse, desk.is_known, (sqlite3.Error,))
    app.add_api_route("/j/{token}", desk.with_slash, methods=["GET"])
    app.add_api_route("/j/{token}/", desk.first, methods=["GET"])
    app.add_api_route("/j/{token}/elsewhere", desk.elsewhere, methods=["GET"])
    app.add_api_route("/j/{token}/end", desk.end, methods=["GET"])
    app.add_api_route("/j/{token}/{number:int}", desk.show, methods=["GET"])
    app.add_api_route("/j/{token}/{number:int}", desk.enter, methods=["POST"])
    keep = desk.keep_scores if sheet.kind == JUDGE else desk.keep_marks
    app.add_api_route("/j/{token}/{number:int}", keep, methods=["PUT"])
    return Bounded(app, MAX_BODY_BYTES)


class Desk:
    """What the addresses answer."""

    def __init__(self, sheet: Sheet, book: Book) -> None:
        self._sheet = sheet
        self._book = book
        self._pages = Pages("pipeline.judging", WORDS, sheet.language, sheet.title)
        self._written = [_written(text) for text in sheet.texts]
        self._trouble = ""
        """Why nothing can be written just now; empty if it can."""

    # ------------------------------------------------------------------------------------------ pages

    def with_slash(self, token: str) -> Response:
        """To the page of a link that lacks its last slash."""
        self._judge(token)
        return web_app.with_slash(token)

    def first(self, request: Request, token: str) -> Response:
        """On to the first showing that is not finished, or to the end."""
        target = self._first_open(self._judge(token))
        return self._pages.remembered(request, RedirectResponse(target, 303))

    def show(self, request: Request, token: str, number: int) -> Response:
        """A showing. Looking at it takes the sheet over from nobody; the script of the page does."""
        judge, slot = self._showing(token, number)
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
            pieces=_pieces(*self._written[slot.text], self._sheet.spans(slot)),
            answer=answer.content if answer else {},
            is_done=answer is not None and answer.is_complete,
            version=_version(answer),
        )
        return self._pages.remembered(request, page)

    def end(self, request: Request, token: str) -> Response:
        """The last page: thanks, or which showing is still open."""
        judge = self._judge(token)
        first = self._first_open(judge)
        if not self._sheet.plan[judge]:
            name, target = "empty", None
        elif first == "end":
            name, target = "end", ("1", "review")
        else:
            name, target = "open", (first, "open.go")
        return self._pages.remembered(request, self._pages.notice(request, 200, name, target=target))

    def elsewhere(self, request: Request, token: str) -> Response:
        """Asks whether to take the sheet over from another window."""
        self._judge(token)
        return self._pages.remembered(request, self._pages.notice(request, 200, "elsewhere"))

    # ---------------------------------------------------------------------------------------- answers

    def enter(self, token: str, number: int, entering: Entering) -> Response:
        """Let a page save from now on; it may show an older answer than the one that is kept."""
        judge, _ = self._showing(token, number)
        now, before, insist = time.time(), entering.before, entering.insist
        if not self._book.enter(judge, entering.window, now, before=before, insist=insist):
            raise Refused(409, "elsewhere")
        self._wrote()
        return data({"version": _version(self._book.answers(judge).get(number - 1))})

    def keep_scores(self, token: str, number: int, scores: Scores, window: Window = "") -> Response:
        """Keep the scores of a showing, those that are missing as None."""
        judge, _ = self._showing(token, number)
        content = scores.model_dump()
        return self._keep(judge, number, Judgement(content, None not in content.values()), window)

    def keep_marks(self, token: str, number: int, marks: Marks, window: Window = "") -> Response:
        """Keep the spans that a person marked."""
        judge, slot = self._showing(token, number)
        size, end = len(self._sheet.texts[slot.text].tokens), -1
        for start, following in marks.rationale:
            if not end < start < following <= size:
                raise Refused(422, "bad")
            end = following
        return self._keep(judge, number, Judgement({"rationale": marks.rationale}, marks.is_done), window)

    def _keep(self, judge: int, number: int, answer: Judgement, window: str) -> Response:
        if not self._book.save(judge, number - 1, answer, window, time.time()):
            raise Refused(409, "elsewhere")
        self._wrote()
        return data({"num_done": self._book.num_complete()[judge]})

    # ----------------------------------------------------------------------------------------- access

    def is_known(self, token: str) -> bool:
        """Whether it is the token of somebody's link."""
        return self._book.judge_of(token) is not None

    def _judge(self, token: str) -> int:
        judge = self._book.judge_of(token)
        if judge is None:
            raise Refused(404, "unknown")
        return judge

    def _showing(self, token: str, number: int) -> tuple[int, Slot]:
        """The judge whose link it is, and what the number shows to them."""
        judge = self._judge(token)
        plan = self._sheet.plan[judge]
        if not 1 <= number <= len(plan):
            raise Refused(404, "unknown")
        return judge, plan[number - 1]

    def _first_open(self, judge: int) -> str:
        answers = self._book.answers(judge)
        slots = range(len(self._sheet.plan[judge]))
        found = (slot for slot in slots if not (slot in answers and answers[slot].is_complete))
        return next((f"{slot + 1}" for slot in found), "end")

    def refuse(self, request: Request, error: Exception) -> Response:
        """What is told of an error: a page, or a message to the page that saves."""
        status, name = _reason(error)
        if isinstance(error, sqlite3.Error):
            self._could_not_write("its disk is full" if name == "full" else str(error))
        if request.method == "PUT":
            return data({"message": name}, status)
        return self._pages.notice(request, status, name)

    def _could_not_write(self, trouble: str) -> None:
        """Tell whoever runs the server, once: the pages keep trying."""
        if trouble != self._trouble:
            logger.error("cannot save answers in %s: %s; the pages try again", self._book.path, trouble)
        self._trouble = trouble

    def _wrote(self) -> None:
        if self._trouble:
            logger.info("answers are saved again")
        self._trouble = ""


def _version(answer: Judgement | None) -> str:
    """Two answers that differ have different ones."""
    return hashlib.sha256(repr(answer).encode()).hexdigest()


def _reason(error: Exception) -> tuple[int, str]:
    """Status, and name of the notice."""
    if isinstance(error, sqlite3.Error):
        return (507, "full") if full_disk.is_meant(error) else (503, "busy")
    return web_app.reason(error)


def _written(text: Text) -> tuple[list[str], list[str]]:
    """Words of a text as its file has them, not as its tokenizer writes them; what stands behind each."""
    if not text.original:
        return text.tokens, markup.spaces(text.tokens)
    following = [*(start for start, _ in text.places[1:]), len(text.original)]
    words = [text.original[start:end] for start, end in text.places]
    return words, [text.original[end:after] for (_, end), after in zip(text.places, following, strict=True)]


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
