"""What a page is made of: templates, the reader's language, and headers that let no other script run.

Texts are escaped, and the content security policy lets no script run but the page's own.
"""

import functools
import secrets
from dataclasses import dataclass
from typing import Any

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from pipeline.web.words import CHINESE, OTHER, Words

_LANGUAGE = "language"
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address is a secret
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
}


@functools.cache
def _environment(room: str) -> jinja2.Environment:
    """The templates of a room, and those that rooms have in common."""
    packages = (room, "pipeline.web", "pipeline.reporting")
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one command."""

    room: str
    """Package that has the templates."""
    words: Words
    language: str
    """Of a reader who asks for no other."""
    title: str
    """Of pages that have none of their own."""

    def language_of(self, request: Request) -> str:
        """The language that the address, else a cookie of an earlier page, asks for."""
        asked = request.query_params.get(_LANGUAGE) or request.cookies.get(_LANGUAGE, "")
        return asked if asked in self.words else self.language

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """A page in the reader's language."""
        language = self.language_of(request)
        nonce = secrets.token_urlsafe()
        text = (
            _environment(self.room)
            .get_template(template)
            .render(
                say=self.words[language],
                language="zh-CN" if language == CHINESE else language,
                other=OTHER[language],
                title=self.title,
                nonce=nonce,
                **values,
            )
        )
        policy = f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src data:; "
        policy += "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        return HTMLResponse(text, status, _HEADERS | {"Content-Security-Policy": policy})

    def notice(
        self, request: Request, status: int, name: str, *, target: tuple[str, str] | None = None
    ) -> Response:
        """A page that says `name.title` and `name.text`.

        Args:
            target: address and words of a link to continue by.
        """
        return self.page(request, "notice.html.j2", status, name=name, target=target)

    def remembered(self, request: Request, answer: Response) -> Response:
        """An answer after which the pages speak the language that the address has named."""
        if request.query_params.get(_LANGUAGE) in self.words:
            answer.set_cookie(_LANGUAGE, request.query_params[_LANGUAGE], samesite="lax", httponly=True)
        return answer


def data(content: Any, status: int = 200) -> Response:
    """What a page's script is told; kept by nobody."""
    return JSONResponse(content, status, _HEADERS)
