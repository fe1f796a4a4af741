"""Headless Chromium for tests: what a page says, what it asks for, and what it complains about."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PAGE_TIMEOUT_MS = 60_000


@dataclass
class Visited:
    """A page that is open."""

    page: Any
    """Playwright's own."""
    requests: list[str] = field(default_factory=list)
    """Every address that was asked for."""
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, and exceptions that nobody caught."""

    def wait_for(self, *texts: str) -> None:
        """Wait until each of the texts can be seen."""
        for text in texts:
            self.page.get_by_text(text).filter(visible=True).first.wait_for(timeout=PAGE_TIMEOUT_MS)

    def foreign_requests(self) -> list[str]:
        """Addresses outside this machine, and none of the page's own data."""
        at_home = ("http://127.0.0.1:", "file://", "data:", "blob:")
        return [url for url in self.requests if not url.startswith(at_home)]

    def is_cut_off(self) -> bool:
        """Whether the page as a whole has to be moved sideways to be read."""
        width = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(self.page.evaluate(width))


class Browser:
    """Opens pages, each in a context of its own, and keeps a picture of each."""

    def __init__(self, chromium: Any, pictures: Path) -> None:
        self._chromium = chromium
        self._pictures = pictures

    @contextlib.contextmanager
    def visit(
        self,
        url: str,
        name: str,
        *,
        width: int = 1500,
        scheme: str = "light",
        full: bool = False,
        javascript: bool = True,
    ) -> Iterator[Visited]:
        """A page, until the block ends; then its picture is taken.

        Args:
            url: where it is.
            name: of the picture.
            width: of the window, in pixels.
            scheme: `light` or `dark`.
            full: take the whole page, not what fits the window.
            javascript: whether scripts run.
        """
        viewport = {"width": width, "height": 1000}
        context = self._chromium.new_context(
            viewport=viewport, color_scheme=scheme, java_script_enabled=javascript
        )
        with contextlib.closing(context):
            visited = Visited(context.new_page())
            visited.page.on("request", lambda request: visited.requests.append(request.url))
            visited.page.on("pageerror", lambda error: visited.complaints.append(str(error)))
            visited.page.on("console", lambda message: _note(visited, message))
            visited.page.goto(url, wait_until="domcontentloaded", timeout=PAGE_TIMEOUT_MS)
            try:
                yield visited
            finally:
                visited.page.screenshot(path=str(self._pictures / f"{name}.png"), full_page=full)


def _note(visited: Visited, message: Any) -> None:
    if message.type in ("error", "warning"):
        visited.complaints.append(f"{message.text} ({message.location.get('url', '')})")


@contextlib.contextmanager
def browser(pictures: Path) -> Iterator[Browser]:
    """Chromium, until the block ends; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is installed (`apt-get install chromium`)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # root, as in containers, has no user namespaces to put its sandbox in
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        with contextlib.closing(chromium):
            yield Browser(chromium, pictures)
