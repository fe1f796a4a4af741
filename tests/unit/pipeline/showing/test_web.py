"""What the demo's server lets through: link, sizes, texts, marks; it answers while a model thinks."""

import json
import threading
from collections.abc import Iterator

import pytest

from infocal.config import Task
from pipeline.showing import models, web
from pipeline.showing.models import ShownModel
from tests import web_server
from tests.small_store import small_package
from tests.unit.pipeline.showing.test_models import given

TOKEN = "secret-secret-secret"
MARKUP = "<script>alert(1)</script> smooth </script> {{7*7}}"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[ShownModel]:
    folder = tmp_path_factory.mktemp("models")
    score = small_package(folder / "score")
    task = Task(kind="classification", num_classes=3)
    classes = small_package(folder / "classes", task, tokenizer="whitespace", class_names=["a", "b", "<b>c"])
    return models.load(given("--package", str(score), "--package", str(classes)))[0]


@pytest.fixture(scope="module")
def port(shown: list[ShownModel]) -> Iterator[int]:
    with web_server.in_thread(web.make_app(shown, [MARKUP], TOKEN, "en")) as found:
        yield found


def post(port: int, name: str, body: object) -> tuple[int, dict[str, object]]:
    status, headers, text = web_server.ask(port, "POST", f"/d/{TOKEN}/{name}", body)
    assert headers["cache-control"] == "no-store"
    return status, json.loads(text)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "HEAD"])
@pytest.mark.parametrize(
    "path",
    [
        *("/", "/d", "/d/", "/d/wrong", "/d/wrong/", "/d/wrong/read", "/d/wrong/predict", "/favicon.ico"),
        *(
            "/docs",
            "/openapi.json",
            "/redoc",
            "/static/page.css",
            "/d/%00/",
            "/d/%C3%A9/",
            "/d/../etc/passwd",
        ),
        *(f"/d/{TOKEN[:-1]}/", f"/d/{TOKEN}x/", f"/{TOKEN}/"),
    ],
)
def test_nothing_is_there_without_the_token(port: int, method: str, path: str):
    body = {"text": "smooth", "model": 0, "marks": []} if path.endswith("predict") else {"text": "smooth"}
    status, _, text = web_server.ask(port, method, path, body if method == "POST" else None)
    assert status == 404
    assert "infocal" not in text and "score" not in text and f"{TOKEN}/" not in text
    if method == "GET":
        assert "This link leads nowhere." in text


def test_the_page_is_kept_by_nobody_and_runs_no_script_but_its_own(port: int):
    status, headers, text = web_server.ask(port, "GET", f"/d/{TOKEN}/")
    assert status == 200
    assert "<script>alert" not in text and "<b>c" not in text
    assert headers["referrer-policy"] == "no-referrer" and headers["x-frame-options"] == "DENY"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert web_server.ask(port, "GET", f"/d/{TOKEN}")[1]["location"] == f"./{TOKEN}/"


def test_the_page_speaks_the_language_that_is_asked_for(port: int):
    _, headers, text = web_server.ask(port, "GET", f"/d/{TOKEN}/?language=zh")
    assert "哪些词起了决定作用" in text and 'lang="zh-CN"' in text
    cookie = {"Cookie": headers["set-cookie"].partition(";")[0]}
    assert "哪些词" in web_server.ask(port, "GET", f"/d/{TOKEN}/", headers=cookie)[2]
    assert "Which words" in web_server.ask(port, "GET", f"/d/{TOKEN}/?language=xx")[2]


def test_a_text_is_read_by_each_model_with_its_own_tokenizer(port: int, shown: list[ShownModel]):
    status, found = post(port, "read", {"text": "isn't smooth."})
    assert status == 200
    words = [[token["text"] for token in one["tokens"]] for one in found["models"]]
    assert words == [["is", "n't", "smooth", "."], ["isn't", "smooth."]]
    assert found["models"] == [model.read("isn't smooth.") for model in shown]


def test_other_marks_are_predicted_from(port: int, shown: list[ShownModel]):
    for number, model in enumerate(shown):
        body = {"text": "a smooth body", "model": number, "marks": [1]}
        assert post(port, "predict", body) == (200, model.predict("a smooth body", [1]))


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("", 422, "empty"),
        (" \n\t\u3000", 422, "empty"),
        ("a" * (web.MAX_TEXT + 1), 413, "long"),
        ("文" * (web.MAX_TEXT + 1), 413, "long"),
        ("\ud800", 422, "bad"),
        (None, 422, "bad"),
        (7, 422, "bad"),
        (["a"], 422, "bad"),
    ],
)
def test_a_text_that_cannot_be_read_is_answered_with_why(port: int, text: object, status: int, message: str):
    assert post(port, "read", {"text": text}) == (status, {"message": message})
    assert post(port, "predict", {"text": text, "model": 0, "marks": []}) == (status, {"message": message})


def test_the_longest_text_is_read(port: int):
    status, found = post(port, "read", {"text": "文 " * (web.MAX_TEXT // 2)})
    assert status == 200
    assert [one["num_unread"] for one in found["models"]] == [web.MAX_TEXT // 2 - 256] * 2


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"\xff\xfe", {}, {"text": "a", "more": 1}),
        *(
            {"text": "smooth body"} | change
            for change in (
                {"model": 2, "marks": []},
                {"model": -1, "marks": []},
                {"model": "0", "marks": []},
                {"model": 0, "marks": [2]},
                {"model": 0, "marks": [-1]},
                {"model": 0, "marks": [0.5]},
                {"model": 0, "marks": "all"},
                {"model": 0},
            )
        ),
    ],
)
def test_what_is_no_question_is_refused(port: int, body: object):
    assert post(port, "predict", body) == (422, {"message": "bad"})


def test_a_request_is_bounded_whether_it_states_its_size_or_not(port: int):
    large = b" " * (web.MAX_BODY_BYTES + 1)
    assert post(port, "read", large) == (413, {"message": "large"})
    assert web_server.ask_in_chunks(port, "POST", f"/d/{TOKEN}/read", web.MAX_BODY_BYTES) == 413
    assert post(port, "read", {"text": "smooth"})[0] == 200


def test_the_page_is_there_while_models_think(
    port: int, monkeypatch: pytest.MonkeyPatch, shown: list[ShownModel]
):
    are_busy, may_end = threading.Semaphore(0), threading.Event()
    read = ShownModel.read

    def slow(model: ShownModel, text: str) -> object:
        are_busy.release()
        assert may_end.wait(60)
        return read(model, text)

    monkeypatch.setattr(ShownModel, "read", slow)
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(post(port, "read", {"text": "smooth"})[0]))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            assert are_busy.acquire(timeout=60)
        assert web_server.ask(port, "GET", f"/d/{TOKEN}/")[0] == 200
        assert answers == []
    finally:
        may_end.set()
        for thread in threads:
            thread.join(60)
    assert answers == [200] * 5


def test_a_fault_of_ours_is_answered_without_its_details(port: int, monkeypatch: pytest.MonkeyPatch):
    def broken(model: ShownModel, text: str) -> object:
        raise RuntimeError("tensor of secret size")

    monkeypatch.setattr(ShownModel, "read", broken)
    assert post(port, "read", {"text": "smooth"}) == (500, {"message": "failed"})
