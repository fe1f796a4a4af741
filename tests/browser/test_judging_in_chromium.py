"""The pages of `pipeline.judge` in headless Chromium, by keyboard and mouse, with two people at once."""

import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import playwright.sync_api
import pytest

from pipeline.judging import gold, results_files
from pipeline.judging.sheet import ANNOTATE
from tests.browser.chromium import NAMES, Browser, browser
from tests.integration.servers import free_port
from tests.judging_server import Pages, fill, make_room, pages_of, small_sheet, started, written

pytestmark = [pytest.mark.slow, pytest.mark.browser]

# Usefulness: 9 texts (2, 2), 9 texts (4, 4), 2 texts (2, 4), so that of 40 scores 20 are 2 and 20 are 4.
# Observed disagreement: 2 texts x 2 ordered pairs x (4 - 2)^2 / 40 = 0.4; expected: 2 x 20 x 20 x 4 / (40 x
# 39), which is 3200 / 1560; alpha = 1 - 0.4 x 1560 / 3200 = 0.805. Completeness: both give 1 to ten texts and
# 5 to the rest. Fluency: nothing but 3, for which alpha is not defined.
USEFULNESS = [{t: 2 if t < n else 4 for t in range(20)} for n in (11, 9)]


def keys(judge: int, text: int) -> list[str]:
    return [str(USEFULNESS[judge][text]), "1" if text % 2 else "5", "3"]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("pictures")) as found:
        yield found


@contextlib.contextmanager
def own_chromium(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Another process of Chromium, which can be killed, and the address that drives it."""
    found = next(filter(None, map(shutil.which, NAMES)))
    port = free_port()
    command = [found, "--headless", "--no-sandbox", f"--remote-debugging-port={port}"]
    process = subprocess.Popen(
        [*command, f"--user-data-dir={folder}", "about:blank"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if b"listening on" in line:
                break
        process.stderr.close()
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def number_of(page: Any) -> int:
    found = re.search(r"word(\d+)", page.locator("#read").inner_text())
    assert found is not None
    return int(found[1])


def judge_one(page: Any, judge: int) -> None:
    """Score what is shown by the keyboard and go on."""
    before = page.url
    for key in keys(judge, number_of(page)):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url != before)


def test_two_people_judge_at_once_and_nothing_is_lost_when_a_browser_and_the_server_are_killed(
    chromium: Browser, tmp_path: Path
):
    folder, port = tmp_path / "sheet", free_port()
    written(folder, small_sheet([f"a word{i} and three more here" for i in range(20)])).close()
    server, links = started(folder, port, 2)
    try:
        with (
            chromium.visit(links[0], "judging") as first,
            own_chromium(tmp_path / "profile") as (process, url),
        ):
            second_browser = first.page.context.browser.browser_type.connect_over_cdp(url)
            second = second_browser.contexts[0].new_page()
            second.goto(links[1])
            for _ in range(10):
                judge_one(first.page, 0)
                judge_one(second, 1)
            for key in keys(1, number_of(second))[:2]:
                second.keyboard.press(key)
            second.get_by_text("Saved").wait_for()
            process.kill()
            server.kill()
            server.wait()
            first.page.keyboard.press("2")  # nobody is there to save it
            first.page.get_by_text("Not saved yet: the server does not answer.").wait_for()
            server, again = started(folder, port, 2)
            assert again == links
            first.page.get_by_text("Saved", exact=True).wait_for()  # it was tried again
            first.page.keyboard.press("ArrowUp")
            with chromium.visit(links[1], "elsewhere") as other:
                other.wait_for("This sheet is open in another window.")
                take_over(other.page)
                other.wait_for("Text 11 of 20")
                given = [
                    other.page.locator(f"[data-scale={s}] output").inner_text()
                    for s in ("usefulness", "completeness")
                ]
                assert given == keys(1, number_of(other.page))[:2]
                for _ in range(10):
                    judge_one(other.page, 1)
                    judge_one(first.page, 0)
                other.wait_for("Thank you, that was all.")
            first.wait_for("Thank you, that was all.")
            assert first.foreign_requests() == []
    finally:
        server.kill()
        server.wait()
    results_files.write(folder, "majority")
    found = json.loads((folder / "results.json").read_text())
    assert found["num_done"] == 40
    assert found["alpha"]["usefulness"]["value"] == pytest.approx(0.805, abs=1e-12)
    assert found["alpha"]["completeness"]["value"] == 1.0
    assert found["alpha"]["fluency"]["value"] is None
    assert found["means"]["usefulness"][0]["value"] == pytest.approx(3.0)


def press(page: Any, *names: str) -> None:
    for name in names:
        page.keyboard.press(name)


def take_over(page: Any) -> None:
    """Answer by Enter that this window takes the sheet over, once its button has the focus."""
    page.wait_for_load_state("load")
    page.locator("#take:focus").wait_for()
    page.keyboard.press("Enter")


def scores(pages: Pages) -> list[float | None]:
    """Of the first showing of the first judge."""
    return [*pages.book.answers(0)[0].content.values()]


def test_of_two_tabs_of_one_browser_only_the_one_that_took_over_last_saves(chromium: Browser, tmp_path: Path):
    sheet = small_sheet([f"a word{i} b" for i in range(3)], 1)
    with (
        pages_of(tmp_path / "sheet", sheet) as pages,
        chromium.visit(f"{pages.link(0)}1", "first-tab") as first,
    ):
        second = first.page.context.new_page()
        question = "This sheet is open in another window."
        press(first.page, "3", "3", "3")
        first.wait_for("Saved")
        second.goto(f"{pages.link(0)}1")
        second.get_by_text(question).wait_for()
        assert scores(pages) == [3, 3, 3]
        take_over(second)
        second.get_by_text("Text 1 of 3").wait_for()
        first.wait_for(question)  # at once, before anything is typed there in vain
        press(second, "5")
        second.get_by_text("Saved", exact=True).wait_for()
        assert scores(pages) == [5, 3, 3]
        take_over(first.page)
        first.wait_for("Text 1 of 3")
        assert first.page.locator("[data-scale=usefulness] output").inner_text() == "5"
        second.get_by_text(question).wait_for()
        second.reload()
        second.get_by_text(question).wait_for()
        first.page.goto(f"{pages.link(0)}end")  # it answers no more
        second.reload()
        second.get_by_text("Text 1 of 3").wait_for()


def test_a_tab_that_another_browser_took_over_from_overwrites_nothing(chromium: Browser, tmp_path: Path):
    with (
        pages_of(tmp_path / "sheet", small_sheet(["a b c"], 1)) as pages,
        chromium.visit(f"{pages.link(0)}1", "stale") as stale,
    ):
        press(stale.page, "1")
        stale.wait_for("Saved")
        with chromium.visit(f"{pages.link(0)}1", "newer") as newer:
            newer.wait_for("This sheet is open in another window.")
            take_over(newer.page)
            newer.wait_for("Text 1 of 1")
            press(newer.page, "4", "4", "4")
            newer.wait_for("Saved")
        press(stale.page, "2")
        stale.wait_for("This sheet is open in another window.")
        assert scores(pages) == [1, 4, 4]


def reload(page: Any, until: str) -> None:
    """Reload a page that may be leaving for another one: Chromium refuses while it replaces the page."""
    for _ in range(100):
        try:
            page.reload(wait_until=until)
            return
        except playwright.sync_api.Error as error:
            if "Not attached to an active page" not in error.message:
                raise
            page.wait_for_timeout(50)
    raise AssertionError("the page is still being replaced after five seconds")


def test_a_tab_that_is_loaded_again_or_opened_after_it_was_closed_asks_nothing(
    chromium: Browser, tmp_path: Path
):
    sheet = small_sheet([f"a word{i} b" for i in range(3)], 1)
    with (
        pages_of(tmp_path / "sheet", sheet) as pages,
        chromium.visit(f"{pages.link(0)}end", "reload") as visited,  # a page that takes nothing over
    ):
        page = visited.page.context.new_page()
        page.goto(pages.link(0))
        for _ in range(3):  # also in the middle of entering
            reload(page, "commit")
        reload(page, "load")
        press(page, "3")
        page.get_by_text("Saved", exact=True).wait_for()
        page.goto(f"{pages.link(0)}2")
        page.go_back()
        page.get_by_text("Text 1 of 3").wait_for()
        press(page, "2")
        page.get_by_text("Saved", exact=True).wait_for()
        page.close()
        visited.page.goto(pages.link(0))
        press(visited.page, "1")
        visited.wait_for("Saved")
        assert scores(pages) == [3, 2, 1]


CHINESE = "被告人 王某 于 2016 年 3 月 在 某市 一 超市 内 盗窃 手机 一部 ， 价值 人民币 3000 元 。"
MARKUP = "<script>alert(1)</script> <img/src=x/onerror=alert(1)> </script><b>bold</b> & '\" {{7*7}} end ."


def test_rationales_are_marked_by_keys_and_by_mouse_into_files_that_are_read_back(
    chromium: Browser, tmp_path: Path
):
    sheet = small_sheet([CHINESE, MARKUP], 1, kind=ANNOTATE, language="zh")
    chinese = [slot.text for slot in sheet.plan[0]].index(0) + 1
    with pages_of(tmp_path / "sheet", sheet) as pages:
        with chromium.visit(f"{pages.link(0)}{chinese}", "annotate-zh") as visited:
            page = visited.page
            visited.wait_for("请标出能说明标签的词")
            for key in (
                "ArrowRight",
                "Space",
                "ArrowRight",
                "ArrowRight",
                "Shift+ArrowRight",
                "Shift+ArrowRight",
            ):
                page.keyboard.press(key)
            boxes = [page.locator(f"#w{i}").bounding_box() for i in (11, 13)]
            page.mouse.move(boxes[0]["x"] + 3, boxes[0]["y"] + 5)
            page.mouse.down()
            page.mouse.move(boxes[1]["x"] + 3, boxes[1]["y"] + 5, steps=5)
            page.mouse.up()
            page.locator("#w18").click()
            page.locator("#w18").click()
            page.locator("#state").get_by_text("已保存").wait_for()
            page.reload()
            assert page.locator("#count").inner_text() == "7"
            page.screenshot(path=str(tmp_path / "annotate.png"))
            page.keyboard.press("Enter")
            page.wait_for_url(lambda url: not url.endswith(f"/{chinese}"))
        with chromium.visit(f"{pages.link(0)}{3 - chinese}", "elsewhere-zh") as visited:
            visited.page.locator("button.go").click()
            visited.wait_for("alert(1)")
            assert visited.page.locator("#words").inner_text().startswith("<script>alert(1)</script>")
            assert visited.page.locator("#words b, #words img, #words script").count() == 0
            visited.page.keyboard.press("Enter")
            visited.wait_for("没有标出任何词")
            visited.page.keyboard.press("Enter")
            visited.page.wait_for_url(lambda url: not url.endswith(f"/{3 - chinese}"))
            visited.page.goto(pages.link(0))
            visited.wait_for("全部完成")
            assert [said for said in visited.complaints if "409" not in said] == []
        found = gold.gold(gold.annotations(sheet, pages.book), sheet.texts, "majority")
    assert [record["rationale"] for record in found] == [[[1, 2], [3, 6], [11, 14]], []]


def test_a_full_disk_is_said_and_what_was_chosen_is_saved_once_there_is_room(
    chromium: Browser, tmp_path: Path
):
    sheet = small_sheet([f"{MARKUP} {'long ' * 40}", "a smooth body"], 1, language="zh")
    with pages_of(tmp_path / "sheet", sheet) as pages:
        with chromium.visit(f"{pages.link(0)}1", "judge-zh", full=True) as visited:
            page = visited.page
            fill(pages.book._connection)
            page.keyboard.press("4")
            page.get_by_text("尚未保存：服务器磁盘已满。").wait_for()
            make_room(pages.book._connection)
            page.locator("#state").get_by_text("已保存").wait_for()
            for key in (".", "2", "ArrowDown", "ArrowDown", "1", "ArrowUp", "5"):
                page.keyboard.press(key)
            page.locator("#state").get_by_text("已保存").wait_for()
            page.locator("a.other").click()
            visited.wait_for("Do the marked words help to explain the label?")
        content = pages.book.answers(0)[0].content
    assert content == {"usefulness": 4.2, "completeness": 5.0, "fluency": 1.0}
