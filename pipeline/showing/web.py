"""The page of one or two models, behind a secret link, and what it asks the models.

Nothing is there without the link's token. Texts are neither stored nor logged. The models answer in threads
of their own, so that the page is there while they think.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import anyio
import anyio.to_thread
from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from pipeline.showing.examples import MAX_TEXT
from pipeline.showing.models import ShownModel
from pipeline.showing.words import WORDS
from pipeline.web import app as web_app
from pipeline.web.app import Bounded, Refused
from pipeline.web.pages import Pages, data
from pipeline.web.tokens import same

MAX_BODY_BYTES = 1 << 20
"""Of a request; a text of the most characters has 0.4 MB, and as much again for marks."""
_THREADS = 2
"""Requests that the models work on at once; further ones wait."""

T = TypeVar("T")


class Asked(BaseModel):
    """A text to read."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str


class Changed(Asked):
    """A text whose marks a person has changed."""

    model: Annotated[int, Field(ge=0)]
    """Which model, from 0."""
    marks: Annotated[list[int], Field(max_length=MAX_TEXT)]
    """Positions of the marked tokens."""


def make_app(models: Sequence[ShownModel], examples: Sequence[str], token: str, language: str) -> Bounded:
    """The application that shows the models.

    Args:
        models: one or two.
        token: secret part of the link.
        language: of a reader who asks for no other.
    """
    stand = Stand(models, examples, token, language)
    app = web_app.new_app(stand.refuse, stand.is_known)
    app.add_api_route("/d/{token}", stand.with_slash, methods=["GET"])
    app.add_api_route("/d/{token}/", stand.show, methods=["GET"])
    app.add_api_route("/d/{token}/read", stand.read, methods=["POST"])
    app.add_api_route("/d/{token}/predict", stand.predict, methods=["POST"])
    return Bounded(app, MAX_BODY_BYTES)


class Stand:
    """What the addresses answer; arguments as for `make_app`."""

    def __init__(
        self, models: Sequence[ShownModel], examples: Sequence[str], token: str, language: str
    ) -> None:
        self._models = models
        self._examples = examples
        self._token = token
        self._limiter = anyio.CapacityLimiter(_THREADS)
        title = ", ".join(model.name for model in models)
        self._pages = Pages("pipeline.showing", WORDS, language, title)

    async def with_slash(self, token: str) -> Response:
        """To the page of a link that lacks its last slash."""
        self._check(token)
        return web_app.with_slash(token)

    async def show(self, request: Request, token: str) -> Response:
        """The page."""
        self._check(token)
        page = self._pages.page(
            request,
            "demo.html.j2",
            models=self._models,
            facts=[model.facts() for model in self._models],
            examples=self._examples,
            max_text=MAX_TEXT,
        )
        return self._pages.remembered(request, page)

    async def read(self, token: str, asked: Asked) -> Response:
        """What each model marks in a text, and predicts."""
        self._check(token)
        text = _checked(asked.text)
        return data({"models": await self._computed(lambda: [model.read(text) for model in self._models])})

    async def predict(self, token: str, changed: Changed) -> Response:
        """What a model predicts from other marks."""
        self._check(token)
        if changed.model >= len(self._models):
            raise Refused(422, "bad")
        model, text = self._models[changed.model], _checked(changed.text)
        found = await self._computed(functools.partial(model.predict, text, changed.marks))
        if found is None:
            raise Refused(422, "bad")
        return data(found)

    async def _computed(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    def is_known(self, token: str) -> bool:
        """Whether it is the token of the link."""
        return same(self._token, token)

    def _check(self, token: str) -> None:
        if not self.is_known(token):
            raise Refused(404, "unknown")

    def refuse(self, request: Request, error: Exception) -> Response:
        """What is told of an error: a page, or a message to the page's script."""
        status, name = web_app.reason(error)
        if request.method == "POST":
            return data({"message": name}, status)
        return self._pages.notice(request, status, name)


def _checked(text: str) -> str:
    """A text that is neither blank nor too long, nor holds half of a character.

    Raises:
        Refused: if it does.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(422, "bad") from error
    if not text.strip():
        raise Refused(422, "empty")
    if len(text) > MAX_TEXT:
        raise Refused(413, "long")
    return text
