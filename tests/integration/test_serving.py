"""A model server in a process of its own, asked by many at once, and by those who ask wrongly."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.server import Server, model_server
from infocal.config import Task
from pipeline.tracking import model_registry
from pipeline.tracking.served_model import as_answer
from pipeline.training.checkpoints import load_package
from pipeline.training.explainer import Explainer
from tests.small_store import NAME, WORDS, new_store, registered, sample_package, small_package

pytestmark = pytest.mark.slow

CLASSES = ["盗窃", "抢劫", "fraud"]
CASES = [
    "被告人张某盗窃手机。",
    "被告人持刀抢劫现金3,000元！",
    "Zhang 盗窃 two phones 📱。",
    "𠮷野家\u3000被盗",
]
JSON = {"Content-Type": "application/json"}


def serve(folder: Path, package: Path) -> Iterator[tuple[Server, Explainer]]:
    """A server of a champion, with nothing compiled yet, and the same model in this process."""
    tracker = new_store(folder)
    version, _ = registered(tracker, package)
    model_registry.promote(tracker, model_registry.find(tracker, NAME, version))
    (folder / "server").mkdir()
    nothing_compiled = {"XDG_CACHE_HOME": str(folder / "compiled")}
    with model_server(f"models:/{NAME}@champion", tracker.uri, folder / "server", nothing_compiled) as server:
        yield server, Explainer(load_package(package))


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Explainer]]:
    """Of a model that gives scores of English texts."""
    folder = tmp_path_factory.mktemp("scores")
    yield from serve(folder, sample_package(folder / "package"))


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Explainer]]:
    """Of a model that gives classes of Chinese texts."""
    folder = tmp_path_factory.mktemp("classes")
    task = Task(kind="classification", num_classes=len(CLASSES))
    yield from serve(folder, small_package(folder / "package", task, tokenizer="jieba", class_names=CLASSES))


def expected(explainer: Explainer, text: str, all_tokens: bool = False) -> Any:
    (explanation,) = explainer.explain([text])
    return approximately(as_answer(explanation, all_tokens))


def approximately(value: Any) -> Any:
    """The same with tolerance at each number; strings and positions stay exact."""
    if isinstance(value, dict):
        return {name: approximately(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [approximately(entry) for entry in value]
    return pytest.approx(value, abs=1e-6) if isinstance(value, float) else value


def test_200_requests_at_once_each_get_their_own_answer(scores: tuple[Server, Explainer]):
    server, explainer = scores
    rng = random.Random(0)
    texts = [" ".join(rng.choices([*WORDS[2:], "zebra"], k=rng.randint(1, 300))) for _ in range(200)]
    replies = server.ask_at_once(
        [{"inputs": [text], "params": {"all_tokens": i % 2 == 0}} for i, text in enumerate(texts)]
    )
    assert [reply.status for reply in replies] == [200] * 200, server.log.read_text()
    for i, (text, reply) in enumerate(zip(texts, replies, strict=True)):
        assert reply.predictions() == [expected(explainer, text, i % 2 == 0)]


def test_the_recurrent_layers_are_compiled_before_the_server_says_that_it_is_ready(
    scores: tuple[Server, Explainer],
):
    assert list((scores[0].log.parents[1] / "compiled").rglob("kernels-*.sha256"))


def test_many_texts_of_one_request_keep_their_order(scores: tuple[Server, Explainer]):
    server, explainer = scores
    texts = [" ".join(WORDS[2:] * (1 + i % 7)) for i in range(500)]
    found = server.ask({"inputs": texts}).predictions()
    assert found == [expected(explainer, text) for text in texts]


def test_a_huge_text_is_answered_whole(scores: tuple[Server, Explainer]):
    server, _ = scores
    reply = server.ask({"inputs": ["smooth body . " * 20_000], "params": {"all_tokens": True}})
    (found,) = reply.predictions()
    assert len(found["tokens"]) == 60_000
    assert found["tokens"][-1]["end"] == len("smooth body . " * 20_000) - 1


def test_chinese_texts_and_classes(classes: tuple[Server, Explainer]):
    server, explainer = classes
    replies = server.ask_at_once([{"inputs": [text]} for text in CASES * 10])
    for text, reply in zip(CASES * 10, replies, strict=True):
        assert reply.predictions() == [expected(explainer, text)]
        (found,) = reply.predictions()
        assert found["label"] == CLASSES[int(found["prediction"])]
        assert sum(found["probabilities"]) == pytest.approx(1)
        for token in found["rationale"]:
            assert text[token["start"] : token["end"]] == token["token"]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"inputs": []}, "expected at least one text, but got none"),
        (
            {"inputs": ["thin", ""]},
            "of the 2 given texts, those at position 1 (counted from 0) have no token",
        ),
        ({"inputs": ["\u200b"]}, "of the 1 given texts, those at position 0 (counted from 0) have no token"),
        ({"inputs": [" \n"]}, "of the 1 given texts, those at position 0 (counted from 0) have no token"),
        ({"inputs": "thin"}, "Expected list, but got str"),
        ({"inputs": None}, "Expected list, but got NoneType"),
        ({"inputs": ["thin", 1]}, "Expected type str, but got int"),
        ({"inputs": ["thin", None]}, "Expected type str, but got NoneType"),
        ({"inputs": [["thin"]]}, "Expected type str, but got list"),
        ({"inputs": {"text": ["thin"]}}, "Expected list, but got dict"),
        ({"texts": ["thin"]}, "must be a dictionary with 'inputs' key"),
        ({"dataframe_split": {"columns": ["text"], "data": [["thin"]]}}, "dictionary with 'inputs' key"),
        ({}, "must be a dictionary with 'inputs' key"),
        (["thin"], "Received a list"),
        ({"inputs": ["thin"], "params": {"all_tokens": "yes"}}, "Invalid parameters found"),
        ({"inputs": ["thin"], "params": ["all_tokens"]}, "Parameters must be a dictionary"),
    ],
)
def test_a_malformed_request_is_told_what_is_wrong(
    scores: tuple[Server, Explainer], payload: object, message: str
):
    reply = scores[0].ask(payload)
    assert reply.status == 400
    assert message in json.loads(reply.body)["message"]
    assert "Traceback" not in reply.body


@pytest.mark.parametrize(
    ("body", "kind", "status", "message"),
    [
        (b'{"inputs": ["thin"', "application/json", 400, "valid JSON"),
        (b'{"inputs": ["\xff"]}', "application/json", 400, "invalid start byte"),
        (b"", "application/json", 400, "valid JSON"),
        (b"thin", "text/plain", 415, "only supports the following content types"),
    ],
)
def test_a_malformed_body_is_told_what_is_wrong(
    scores: tuple[Server, Explainer], body: bytes, kind: str, status: int, message: str
):
    reply = scores[0].send(body, {"Content-Type": kind})
    assert (reply.status, message in reply.body, "Traceback" in reply.body) == (status, True, False)


def test_a_column_of_texts_is_taken_as_csv(scores: tuple[Server, Explainer]):
    server, explainer = scores
    reply = server.send(b'text\nthin\n"smooth, creamy"\n', {"Content-Type": "text/csv"})
    assert reply.predictions() == [expected(explainer, text) for text in ("thin", "smooth, creamy")]


@pytest.mark.parametrize("first", ["title", "stars"])  # MLflow reads every column of CSV as texts
def test_of_several_columns_of_csv_none_is_guessed(scores: tuple[Server, Explainer], first: str):
    reply = scores[0].send(f"{first},text\n3,smooth\n".encode(), {"Content-Type": "text/csv"})
    assert reply.status == 400
    assert f"2 columns of texts, {first}, text: name one" in json.loads(reply.body)["message"]


def test_a_parameter_that_the_model_does_not_know_changes_nothing(scores: tuple[Server, Explainer]):
    server, explainer = scores
    reply = server.ask({"inputs": ["thin"], "params": {"temperature": 1}})
    assert reply.predictions() == [expected(explainer, "thin")]
    assert "Unrecognized params ['temperature'] are ignored" in server.log.read_text()


@pytest.mark.parametrize("text", ["a \ud800 b", "a \x00 b", "a \u200b b", "👍🏽 thin", "e\u0301"])
def test_any_character_is_answered(scores: tuple[Server, Explainer], text: str):
    server, explainer = scores
    reply = server.send(json.dumps({"inputs": [text]}).encode(), JSON)
    assert reply.predictions() == [expected(explainer, text)]
