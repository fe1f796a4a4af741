"""What the server of a sheet lets through: links, sizes, answers, windows."""

import dataclasses
import html
import http.client
import itertools
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from feature_store.tokenize import tokenize
from pipeline.judging import web
from pipeline.judging.book import IDLE_S
from pipeline.judging.sheet import ANNOTATE, JUDGE, Text
from tests import web_server
from tests.judging_server import Pages, fill, make_room, pages_of, small_sheet

SCORES = {"usefulness": 4.5, "completeness": None, "fluency": 1}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    with pages_of(
        tmp_path_factory.mktemp("judge"), small_sheet(["a <script>x</script> b", "d e f"])
    ) as pages:
        yield pages


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    sheet = small_sheet(["a b c"], 1, kind=ANNOTATE)
    with pages_of(tmp_path_factory.mktemp("annotate"), sheet) as pages:
        yield pages


def ask(
    pages: Pages, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], str]:
    return web_server.ask(pages.port, method, path, body, headers)


def path_of(pages: Pages, judge: int, rest: str = "") -> str:
    return urlsplit(pages.link(judge)).path + rest


WINDOWS = itertools.count()


def enter(pages: Pages, judge: int, **more: object) -> tuple[int, dict[str, str]]:
    """What a page that is opened sends; gives the answer's status, and what its later requests have."""
    window = f"window-{next(WINDOWS)}"
    status, _, _ = ask(pages, "POST", path_of(pages, judge, "1"), {"window": window, **more})
    return status, {"X-Window": window}


def entered(pages: Pages, judge: int) -> dict[str, str]:
    """Headers of a window that goes on with the sheet, whoever else does."""
    status, headers = enter(pages, judge, insist=True)
    assert status == 200
    return headers


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "HEAD"])
@pytest.mark.parametrize(
    "path",
    [
        *("/", "/j", "/j/", "/j/wrong/", "/j/wrong/1", "/j/wrong/end", "/j/wrong/open", "/favicon.ico"),
        *(
            "/docs",
            "/openapi.json",
            "/redoc",
            "/static/page.css",
            "/j/%00/1",
            "/j/%C3%A9/1",
            "/j/../etc/passwd",
        ),
    ],
)
def test_nothing_is_there_without_a_token(judged: Pages, method: str, path: str):
    status, _, text = ask(judged, method, path, SCORES if method == "PUT" else None)
    assert status == 404
    assert method in ("PUT", "HEAD") or "This link leads nowhere." in text
    assert not any(token in text for token in judged.book.tokens())


@pytest.mark.parametrize("rest", ["0", "3", "-1", "1/", "x", "99999999999999999999", "end/"])
def test_a_number_that_is_not_there_is_no_page(judged: Pages, rest: str):
    status, _, text = ask(judged, "GET", path_of(judged, 0, rest), headers=entered(judged, 0))
    assert status == 404
    assert "This link leads nowhere." in text


def test_a_page_is_kept_by_nobody_and_runs_no_script_of_a_text(judged: Pages):
    cookie = entered(judged, 0)
    pages = [ask(judged, "GET", path_of(judged, 0, number), headers=cookie) for number in ("1", "2")]
    _, headers, text = next(page for page in pages if "&lt;script&gt;" in page[2])
    assert "<script>x" not in text
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "method-0" not in text


def test_scores_are_kept_before_it_is_said(judged: Pages):
    status, _, text = ask(judged, "PUT", path_of(judged, 0, "1"), SCORES, entered(judged, 0))
    assert (status, json.loads(text)) == (200, {"num_done": 0})
    assert judged.book.answers(0)[0].content == SCORES
    whole = SCORES | {"completeness": 2}
    _, _, text = ask(judged, "PUT", path_of(judged, 0, "1"), whole, entered(judged, 0))
    assert json.loads(text) == {"num_done": 1}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        {},
        SCORES | {"usefulness": 0.9},
        SCORES | {"usefulness": 5.1},
        SCORES | {"usefulness": 3.14},
        SCORES | {"usefulness": "4"},
        SCORES | {"usefulness": True},
        b'{"usefulness": NaN, "completeness": 1, "fluency": 1}',
        b'{"usefulness": Infinity, "completeness": 1, "fluency": 1}',
        SCORES | {"is_done": True},
    ],
)
def test_what_are_no_scores_changes_nothing(judged: Pages, body: object):
    before = judged.book.answers(0)
    status, _, text = ask(judged, "PUT", path_of(judged, 0, "1"), body, entered(judged, 0))
    assert (status, json.loads(text)) == (422, {"message": "bad"})
    assert judged.book.answers(0) == before


@pytest.mark.parametrize(
    ("spans", "status"),
    [
        ([], 200),
        ([[0, 1], [2, 3]], 200),
        ([[0, 2], [2, 3]], 422),
        ([[2, 3], [0, 1]], 422),
        ([[0, 4]], 422),
        ([[-1, 1]], 422),
        ([[1, 1]], 422),
        ([[0]], 422),
        ([[0.5, 1]], 422),
        ("all", 422),
        (None, 422),
    ],
)
def test_marks_are_spans_of_the_text(marked: Pages, spans: object, status: int):
    body = {"rationale": spans, "is_done": True}
    found, _, _ = ask(marked, "PUT", path_of(marked, 0, "1"), body, entered(marked, 0))
    assert found == status
    if status == 200:
        assert marked.book.answers(0)[0].content == {"rationale": spans}


def test_a_request_is_bounded_whether_it_states_its_size_or_not(judged: Pages):
    cookie, path = entered(judged, 0), path_of(judged, 0, "1")
    large = b" " * (web.MAX_BODY_BYTES + 1)
    assert ask(judged, "PUT", path, large, cookie)[0] == 413
    connection = http.client.HTTPConnection("127.0.0.1", judged.port, timeout=30)
    chunks = (b" " * 65536 for _ in range(web.MAX_BODY_BYTES // 65536 + 2))
    connection.request(
        "PUT", path, chunks, {"Content-Type": "application/json", **cookie}, encode_chunked=True
    )
    assert connection.getresponse().status == 413
    connection.close()
    status, _, _ = ask(judged, "PUT", path, SCORES, cookie)
    assert status == 200


def test_a_second_window_is_asked_and_the_first_one_then_stops(judged: Pages):
    path = path_of(judged, 1, "1")
    first = entered(judged, 1)
    assert ask(judged, "PUT", path, SCORES, first)[0] == 200
    refused, second = enter(judged, 1)
    assert refused == 409
    assert ask(judged, "PUT", path, {**SCORES, "fluency": 2}, second)[0] == 409
    assert "This sheet is open in another window." in ask(judged, "GET", path_of(judged, 1, "elsewhere"))[2]
    second = entered(judged, 1)
    stale = {**SCORES, "fluency": 3}
    for headers in (first, {}, {"X-Window": ""}):
        assert ask(judged, "PUT", path, stale, headers)[0] == 409
    assert judged.book.answers(1)[0].content == SCORES
    assert ask(judged, "PUT", path, {**SCORES, "fluency": 2}, second)[0] == 200


def test_the_next_page_of_a_window_follows_the_one_before_and_no_page_of_another(judged: Pages):
    first = entered(judged, 1)["X-Window"]
    status, second = enter(judged, 1, before=[first])
    assert status == 200
    assert enter(judged, 1, before=[first])[0] == 409  # a copy of the window, in which the first page was
    assert enter(judged, 1, before=[first, second["X-Window"]])[0] == 200


def test_after_a_quarter_of_an_hour_a_window_takes_over_unasked(
    judged: Pages, monkeypatch: pytest.MonkeyPatch
):
    first = entered(judged, 1)
    later = time.time() + IDLE_S + 1
    monkeypatch.setattr(web.time, "time", lambda: later)
    status, second = enter(judged, 1)
    assert status == 200
    assert ask(judged, "PUT", path_of(judged, 1, "1"), SCORES, first)[0] == 409
    assert ask(judged, "PUT", path_of(judged, 1, "1"), SCORES, second)[0] == 200


def test_whoever_only_looks_at_a_link_takes_no_sheet_over(tmp_path: Path):
    with pages_of(tmp_path / "sheet", small_sheet(["a b", "c d"])) as pages:
        for rest in ("", "1", "2", "end", "elsewhere"):  # as a chat does that shows a link's title
            assert ask(pages, "GET", path_of(pages, 0, rest))[0] in (200, 303)
        assert enter(pages, 0)[0] == 200


def test_the_page_that_is_entered_is_told_what_answer_is_kept(judged: Pages):
    path, window = path_of(judged, 1, "1"), entered(judged, 1)
    ask(judged, "PUT", path, SCORES, window)
    shown = re.search(r'data-version="(\w+)"', ask(judged, "GET", path)[2])
    again = {"window": window["X-Window"]}
    assert shown is not None and json.loads(ask(judged, "POST", path, again)[2]) == {"version": shown[1]}
    ask(judged, "PUT", path, {**SCORES, "fluency": 5}, window)
    assert json.loads(ask(judged, "POST", path, again)[2]) != {"version": shown[1]}


@pytest.mark.parametrize(
    "body", [b"", [], {}, {"window": ""}, {"window": "x" * 65}, {"window": 1}, {"window": "x", "before": "x"}]
)
def test_what_enters_without_a_name_is_refused(judged: Pages, body: object):
    assert ask(judged, "POST", path_of(judged, 1, "1"), body)[0] == 422


def test_a_window_of_one_judge_is_none_of_another(judged: Pages):
    entered(judged, 1)
    assert ask(judged, "PUT", path_of(judged, 1, "1"), SCORES, entered(judged, 0))[0] == 409


@pytest.mark.parametrize("kind", [JUDGE, ANNOTATE])
def test_a_text_is_shown_as_its_file_has_it(tmp_path: Path, kind: str):
    original = '"It" — now,  it WORKS.'
    pieces = tokenize(original)
    text = Text(
        example_id="1",
        tokens=[piece.text for piece in pieces],
        shown="",
        record={},
        original=original,
        places=[[piece.start, piece.end] for piece in pieces],
    )
    assert "".join(text.tokens) not in original.replace(" ", "")
    sheet = dataclasses.replace(small_sheet(["a b"], kind=kind), texts=[text])
    with pages_of(tmp_path / "sheet", sheet) as pages:
        page = ask(pages, "GET", path_of(pages, 0, "1"))[2]
    assert original in html.unescape(re.sub("<[^>]*>", "", page))


def test_a_judge_without_texts_is_told_so_and_led_nowhere(tmp_path: Path):
    sheet = small_sheet(["a b"])
    with pages_of(tmp_path / "sheet", dataclasses.replace(sheet, plan=[sheet.plan[0], []])) as pages:
        status, headers, _ = ask(pages, "GET", path_of(pages, 1))
        assert (status, headers["location"]) == (303, "end")
        text = ask(pages, "GET", path_of(pages, 1, "end"))[2]
    assert "There are no texts for you on this sheet." in text and "href" not in text.split("<main>")[1]


def test_a_disk_that_is_full_is_logged_once_and_that_it_is_not_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", "pipeline.judge")
    sheet = small_sheet(["a b", "c d"])
    with pages_of(tmp_path / "sheet", sheet) as pages:
        path, window = path_of(pages, 0, "1"), entered(pages, 0)
        fill(pages.book._connection)
        found = [ask(pages, "PUT", path, SCORES, window) for _ in range(3)]
        assert [(status, json.loads(text)) for status, _, text in found] == [(507, {"message": "full"})] * 3
        make_room(pages.book._connection)
        assert [ask(pages, "PUT", path, SCORES, window)[0] for _ in range(2)] == [200, 200]
    said = [record.getMessage() for record in caplog.records if record.name == "pipeline.judge"]
    place = tmp_path / "sheet" / "answers.db"
    assert said == [
        f"cannot save answers in {place}: its disk is full; the pages try again",
        "answers are saved again",
    ]


def test_a_page_speaks_the_language_that_is_asked_for(judged: Pages):
    cookie = entered(judged, 0)
    _, headers, text = ask(judged, "GET", path_of(judged, 0, "1?language=zh"), headers=cookie)
    assert "有用性" in text and "language=zh" in headers["set-cookie"] + str(headers)
    assert "Usefulness" in ask(judged, "GET", path_of(judged, 0, "1?language=xx"), headers=cookie)[2]


@pytest.mark.parametrize("token", ["https:evil.example", "javascript:alert(1)", "%0d%0aSet-Cookie:%20a=b"])
def test_an_invented_link_without_its_last_slash_leads_nowhere(judged: Pages, token: str):
    status, headers, _ = ask(judged, "GET", f"/j/{token}")
    assert status == 404
    assert "set-cookie" not in headers and "location" not in headers


def test_a_link_without_its_last_slash_leads_to_its_page(judged: Pages):
    token = judged.book.tokens()[0]
    status, headers, _ = ask(judged, "GET", f"/j/{token}")
    assert (status, headers["location"]) == (303, f"./{token}/")


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("body", [b"{", b"", [], SCORES, b" " * (web.MAX_BODY_BYTES + 1)])
def test_without_a_token_nothing_is_said_of_what_is_sent(judged: Pages, method: str, body: object):
    assert ask(judged, method, "/j/wrong/1", body)[0] == 404
