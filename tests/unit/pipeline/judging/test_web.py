"""What the server of a sheet lets through: links, sizes, answers, windows."""

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from pipeline.judging import web
from pipeline.judging.sheet import ANNOTATE
from tests import web_server
from tests.judging_server import Pages, pages_of, small_sheet

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


def entered(pages: Pages, judge: int) -> dict[str, str]:
    """The cookie of a window that goes on with the sheet."""
    _, headers, _ = ask(pages, "POST", path_of(pages, judge, "open"))
    return {"Cookie": headers["set-cookie"].partition(";")[0]}


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
    assert status in (404, 405)
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
    assert ask(judged, "GET", path, headers=first)[0] == 200
    status, headers, text = ask(judged, "GET", path)
    assert status == 409 and "set-cookie" not in headers
    assert "This sheet is open in another window." in text
    assert ask(judged, "PUT", path, SCORES)[0] == 409
    assert judged.book.answers(1) == {}
    second = entered(judged, 1)
    assert ask(judged, "PUT", path, SCORES, first)[0] == 409
    assert ask(judged, "PUT", path, SCORES, second)[0] == 200


def test_a_cookie_of_one_judge_is_none_of_another(judged: Pages):
    entered(judged, 1)
    assert ask(judged, "GET", path_of(judged, 1, "1"), headers=entered(judged, 0))[0] == 409


def test_a_page_speaks_the_language_that_is_asked_for(judged: Pages):
    cookie = entered(judged, 0)
    _, headers, text = ask(judged, "GET", path_of(judged, 0, "1?language=zh"), headers=cookie)
    assert "有用性" in text and "language=zh" in headers["set-cookie"] + str(headers)
    assert "Usefulness" in ask(judged, "GET", path_of(judged, 0, "1?language=xx"), headers=cookie)[2]


@pytest.mark.parametrize("token", ["https:evil.example", "javascript:alert(1)", "%0d%0aSet-Cookie:%20a=b"])
def test_a_link_without_its_last_slash_leads_to_no_other_place(judged: Pages, token: str):
    status, headers, _ = ask(judged, "GET", f"/j/{token}")
    assert status == 303 and headers["location"].startswith("./")
    assert "set-cookie" not in headers and headers["location"].endswith("/")
