"""The page of `pipeline.demo` in headless Chromium: by mouse, by keyboard alone, narrow, dark, in Chinese."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from infocal.config import Task
from pipeline.showing import models, web
from pipeline.showing.models import ShownModel
from tests import web_server
from tests.browser.chromium import Browser, Visited, browser
from tests.small_store import several_package, small_package
from tests.unit.pipeline.showing.test_models import given, marks_of

pytestmark = [pytest.mark.slow, pytest.mark.browser]

TOKEN = "secret"
MARKUP = "<script>alert(1)</script> <img/src=x/onerror=alert(1)> smooth </script><b>bold</b> & '\" {{7*7}}"
CHINESE = "被告人王某于2016年3月在某市一超市内盗窃手机一部，价值人民币3000元。"
TEXT = "a smooth creamy body . thin zebra"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("pictures")) as found:
        yield found


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[ShownModel]:
    folder = tmp_path_factory.mktemp("models")
    score = small_package(folder / "score", score_range=[1, 5], max_length=12)
    names = ["intentional injury", "theft", "<b>fraud</b>", "arson", "perjury", "bribery", "smuggling"]
    task = Task(kind="classification", num_classes=len(names))
    classes = small_package(folder / "classes", task, tokenizer="jieba", class_names=names)
    found = models.load(given("--package", str(score), "--package", str(classes)))[0]
    with torch.no_grad():  # untrained as it is, it would predict nearly the same from any words
        found[0].explainer.model.output.weight.mul_(100)
    return found


@pytest.fixture(scope="module")
def link(shown: list[ShownModel]) -> Iterator[str]:
    with web_server.in_thread(web.make_app(shown[:1], [TEXT, MARKUP], TOKEN, "en")) as port:
        yield f"http://127.0.0.1:{port}/d/{TOKEN}/"


@pytest.fixture(scope="module")
def both(shown: list[ShownModel]) -> Iterator[str]:
    with web_server.in_thread(web.make_app(shown, [CHINESE], TOKEN, "zh")) as port:
        yield f"http://127.0.0.1:{port}/d/{TOKEN}/"


def read(visited: Visited, text: str) -> None:
    """Put a text in by the keyboard, and wait for what is said of it."""
    visited.page.locator("#text").fill(text)
    visited.page.locator("#text").press("Control+Enter")
    visited.page.locator("#state").get_by_text(re.compile("Done|完成")).wait_for()


def words(page: Any, number: int = 0) -> Any:
    return page.locator(".passage").nth(number).locator("[role=button]")


def score(page: Any) -> str:
    return page.locator(".outcome .number").first.inner_text()


def test_a_click_changes_a_mark_and_the_prediction_and_back(
    chromium: Browser, link: str, shown: list[ShownModel]
):
    with chromium.visit(link, "demo") as visited:
        page = visited.page
        page.locator("[data-example]").first.click()
        visited.wait_for("palate")
        own = shown[0].read(TEXT)
        (rationale,), (predicted,) = own["rationales"], own["predicted"]
        first, *marks = marks_of(rationale)
        assert score(page) == f"{predicted['score']:.2f}"
        words(page).nth(first).click()
        page.get_by_text("before: ").wait_for()
        (other,) = shown[0].predict(TEXT, marks) or ()
        assert score(page) == f"{other['score']:.2f}"
        said = page.locator(".headline").inner_text()
        assert abs(other["score"] - predicted["score"]) > 0.01
        rounded = [float(f"{answer['score']:.2f}") for answer in (predicted, other)]
        change = f"{rounded[1] - rounded[0]:+.2f}".replace("-", "\u2212")
        assert f"before: {predicted['score']:.2f}; change: {change}" in said
        assert page.locator(".changes").inner_text() == f"Taken out: {own['tokens'][first]['text']}"
        page.get_by_role("button", name="The model's marks").click()
        page.get_by_text("before: ").wait_for(state="detached")
        assert score(page) == f"{predicted['score']:.2f}"
        assert "The model does not know 1 of 7 words" in page.locator(".remarks").inner_text()
        assert visited.complaints == [] and visited.foreign_requests() == []


@pytest.fixture(scope="module")
def of_two_targets(tmp_path_factory: pytest.TempPathFactory) -> list[ShownModel]:
    """A model whose targets share a rationale, and one in which each has its own."""
    folder = tmp_path_factory.mktemp("several")
    packages = [str(several_package(folder / kind, kind)) for kind in ("shared", "per_head")]
    found = models.load(given("--package", packages[0], "--package", packages[1]))[0]
    with torch.no_grad():  # as in `shown`
        for model in found:
            model.explainer.model.output.weight.mul_(100)
    return found


def headlines(page: Any, number: int) -> list[str]:
    """What is said of each target by one of the models."""
    return page.locator(".column").nth(number).locator(".headline").all_inner_texts()


def test_targets_that_share_a_rationale_change_together(chromium: Browser, of_two_targets: list[ShownModel]):
    with web_server.in_thread(web.make_app(of_two_targets[:1], [TEXT], TOKEN, "en")) as port:
        link = f"http://127.0.0.1:{port}/d/{TOKEN}/"
        with chromium.visit(link, "demo-shared-targets", full=True) as visited:
            page = visited.page
            read(visited, TEXT)
            own = of_two_targets[0].read(TEXT)
            best = max(own["predicted"][1]["probabilities"])
            palate, smell = headlines(page, 0)
            assert palate.strip() == f"palate {own['predicted'][0]['score']:.2f} (from 1 to 5)"
            assert smell.startswith("smell: ") and f"({best:.3f})" in smell
            assert "predicts every target from the same marked words" in page.locator(".remarks").inner_text()
            assert page.locator("[data-target]").count() == 0
            words(page).first.click()
            page.get_by_text("before: ").nth(1).wait_for()
            assert page.get_by_role("table", name="Prediction of smell").get_by_role("row").count() == 3
            assert visited.complaints == []


def test_each_target_has_its_own_rationale_behind_a_button(
    chromium: Browser, of_two_targets: list[ShownModel]
):
    with web_server.in_thread(web.make_app(of_two_targets[::-1], [TEXT], TOKEN, "en")) as port:
        link = f"http://127.0.0.1:{port}/d/{TOKEN}/"
        with chromium.visit(link, "demo-own-rationales", full=True) as visited:
            page = visited.page
            read(visited, TEXT)
            found = of_two_targets[1].read(TEXT)
            column = page.locator(".column").first
            choice = column.get_by_role("group", name="Words marked for")

            def shown_marks() -> list[int]:
                pressed = [one.get_attribute("aria-pressed") for one in words(page).all()]
                return [i for i, is_pressed in enumerate(pressed) if is_pressed == "true"]

            for number, name in ((1, "smell"), (0, "palate")):
                choice.get_by_role("button", name=name).click()
                assert choice.locator("[aria-pressed=true]").inner_text() == name
                assert shown_marks() == marks_of(found["rationales"][number])
            choice.get_by_role("button", name="smell").click()
            before, after = headlines(page, 0)
            changed = sorted({0} ^ set(marks_of(found["rationales"][1])))  # the first word, pressed once
            words(page).first.click()
            column.get_by_text("before: ").wait_for()
            (_, other) = of_two_targets[1].predict(TEXT, changed) or ()
            palate, smell = headlines(page, 0)
            assert palate == before and smell != after
            assert f"({max(other['probabilities']):.3f})" in smell
            choice.get_by_role("button", name="palate").click()  # marks of the other target outlive this
            assert shown_marks() == marks_of(found["rationales"][0])
            choice.get_by_role("button", name="smell").click()
            assert shown_marks() == changed
            assert "before: " not in "".join(headlines(page, 1))
            assert visited.complaints == []


def test_the_keyboard_alone_is_enough(chromium: Browser, link: str):
    with chromium.visit(link, "demo-keys") as visited:
        page = visited.page
        page.locator("#text:focus").wait_for()  # of itself, once the page is drawn
        page.keyboard.type("a smooth body")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        visited.wait_for("palate")
        for _ in range(10):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.getAttribute('role')") == "button":
                break
        focused = "document.activeElement.textContent"
        assert page.evaluate(focused) == "a"
        for key, word in (("ArrowRight", "smooth"), ("End", "body"), ("ArrowLeft", "smooth"), ("Home", "a")):
            page.keyboard.press(key)
            assert page.evaluate(focused) == word
        before = [one.get_attribute("aria-pressed") for one in words(page).all()]
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Space")
        page.get_by_text("before: ").wait_for()
        after = [one.get_attribute("aria-pressed") for one in words(page).all()]
        assert (after[0], after[2]) == (before[0], before[2]) and after[1] != before[1]
        assert page.evaluate(focused) == "smooth"
        page.keyboard.press("Enter")
        page.get_by_text("before: ").wait_for(state="detached")


def test_a_screen_reader_is_told_what_each_thing_is(chromium: Browser, link: str):
    with chromium.visit(link, "demo-labels") as visited:
        read(visited, "smooth zebra")
        page = visited.page
        assert page.get_by_role("textbox", name="Text").count() == 1
        group = page.get_by_role("group", name="Words of the text: press one to mark or unmark it")
        assert group.get_by_role("button", name="smooth").count() == 1
        assert "not known to the model" in group.get_by_role("button", name="zebra").get_attribute("title")
        assert page.get_by_role("table", name="Prediction").get_by_role("rowheader").inner_text() == "palate"
        assert page.locator(".headline").get_attribute("role") == "status"


@pytest.mark.parametrize("text", ["", "   \n ", "\u200b"])
def test_a_text_of_nothing_is_said(chromium: Browser, link: str, text: str):
    with chromium.visit(link, "demo-empty") as visited:
        visited.page.locator("#text").fill(text)
        visited.page.keyboard.press("Control+Enter")
        visited.wait_for("finds no word in the text" if text == "\u200b" else "There is no text")
        assert not visited.page.locator(".answer").is_visible()
        assert visited.complaints == []


def test_a_text_is_never_read_as_html_and_too_long_a_one_is_cut_in_sight(chromium: Browser, link: str):
    with chromium.visit(link, "demo-markup", full=True) as visited:
        page = visited.page
        page.locator("[data-example]").nth(1).click()
        visited.wait_for("palate")
        assert page.locator(".passage").inner_text() == MARKUP
        assert page.locator(".passage b, .passage img, .passage script").count() == 0
        read(visited, "smooth " * 30)
        assert words(page).count() == 12
        assert page.locator(".passage .unread").inner_text().split() == ["smooth"] * 18
        assert "reads the first 12, and not the last 18" in page.locator(".remarks").inner_text()
        page.get_by_role("button", name="Mark none").click()
        page.get_by_text("0 of 12 words marked").wait_for()
        assert visited.complaints == []


def test_two_models_side_by_side_in_chinese_with_names_of_classes(
    chromium: Browser, both: str, shown: list[ShownModel]
):
    with chromium.visit(both, "demo-two", full=True) as visited:
        page = visited.page
        page.locator("[data-example]").click()
        page.get_by_text("个词中标记了").nth(1).wait_for()
        boxes = [page.locator(".column").nth(i).bounding_box() for i in (0, 1)]
        assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]
        found = [model.read(CHINESE) for model in shown]
        assert [words(page, i).count() for i in (0, 1)] == [len(one["tokens"]) for one in found]
        assert len(found[0]["tokens"]) != len(found[1]["tokens"]), "two tokenizers"
        rows = page.locator(".column").nth(1).locator(".outcome tr")
        assert rows.count() == 6 and "其余 2 类" in rows.nth(5).inner_text()
        assert "两个模型都标记了" in page.locator("#both").inner_text()
        words(page, 1).first.click()
        page.locator(".column").nth(1).get_by_text("之前：").wait_for()
        assert page.locator(".column").first.get_by_text("之前：").count() == 0
        page.locator("#other").click()  # the text outlives the change of the language
        visited.wait_for("words marked")
        assert page.locator("#text").input_value() == CHINESE
        assert visited.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_needs_no_moving_sideways(chromium: Browser, both: str, scheme: str):
    with chromium.visit(both, f"demo-narrow-{scheme}", width=390, scheme=scheme, full=True) as visited:
        visited.page.locator("[data-example]").click()
        visited.page.get_by_text("个词中标记了").nth(1).wait_for()
        assert not visited.is_cut_off()
        read(visited, "x" * 500)
        assert not visited.is_cut_off()


def test_a_server_that_has_gone_is_said(chromium: Browser, shown: list[ShownModel], tmp_path: Path):
    with web_server.in_thread(web.make_app(shown[:1], [TEXT], TOKEN, "en")) as port:
        link = f"http://127.0.0.1:{port}/d/{TOKEN}/"
        with chromium.visit(f"{link[:-2]}/", "demo-notice") as visited:
            visited.wait_for("This link leads nowhere.")
        context = chromium.visit(link, "demo-away")
        visited = context.__enter__()
    try:
        visited.page.locator("[data-example]").click()
        visited.wait_for("The server does not answer. Is it still running?")
    finally:
        context.__exit__(None, None, None)
