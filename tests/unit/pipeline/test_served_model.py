import dataclasses
import importlib
import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow.pyfunc
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from mlflow.exceptions import MlflowException

from infocal.config import Task
from pipeline.tracking import model_registry, served_model
from pipeline.tracking.served_model import ServedModel
from pipeline.training.checkpoints import load_package, save_package
from pipeline.training.explainer import Explainer
from tests.small_store import NAME, WORDS, new_store, registered, small_package

TEXT = "A smooth, creamy body"


def served(folder: Path, **changes: Any) -> ServedModel:
    package = small_package(folder / "package", **changes)
    model = ServedModel()
    model.load_context(SimpleNamespace(artifacts={served_model.PACKAGE_ARTIFACT: str(package)}))
    return model


@pytest.fixture
def model(tmp_path: Path) -> ServedModel:
    return served(tmp_path)


def test_prediction_and_rationale_with_offsets(model: ServedModel):
    (answer,) = model.predict(None, [TEXT])
    assert set(answer) == {"prediction", "probabilities", "label", "num_unknown", "rationale"}
    assert 0 < answer["prediction"] < 1
    assert answer["probabilities"] == []
    assert len(answer["rationale"]) > 0
    for token in answer["rationale"]:
        assert TEXT[token["start"] : token["end"]].lower() == token["token"]
        assert 0.5 <= token["probability"] <= 1


def test_all_tokens_on_request(model: ServedModel):
    (answer,) = model.predict(None, [TEXT], params={"all_tokens": True})
    assert [token["token"] for token in answer["tokens"]] == ["a", "smooth", ",", "creamy", "body"]
    (without,) = model.predict(None, [TEXT], params={"all_tokens": False})
    assert "tokens" not in without


def test_answers_have_the_form_that_the_schema_states(model: ServedModel):
    for answer in model.predict(None, [TEXT, "thin"], params={"all_tokens": True}):
        assert served_model.Answer.model_validate(answer, strict=True).model_dump() == answer


def test_texts_of_any_length_keep_their_order(model: ServedModel):
    texts = ["thin", "a smooth body . " * 300, "creamy !"]
    together = model.predict(None, texts)
    assert [answer["prediction"] for answer in together] == pytest.approx(
        [model.predict(None, [text])[0]["prediction"] for text in texts], abs=1e-6
    )


def test_a_data_frame_of_one_column_is_taken(model: ServedModel):
    frame = pd.DataFrame({"text": [TEXT, "thin"]})
    assert model.predict(None, frame) == model.predict(None, [TEXT, "thin"])


TEXTS = [TEXT, "thin"]


@pytest.mark.parametrize(
    "given",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object)[:, None],
        pd.Series(TEXTS),
        pl.Series("text", TEXTS),
        pa.array(TEXTS),
        pd.DataFrame({"text": TEXTS}),
        pl.DataFrame({"id": [1, 2], "text": TEXTS}),
        pd.DataFrame({"id": [1, 2], "text": TEXTS, "stars": [0.5, 1.0]}),
        pl.LazyFrame({"id": [1, 2], "text": TEXTS}),
        pa.table({"id": [1, 2], "text": TEXTS}),
        pd.Series(TEXTS, dtype="category"),
    ],
    ids=lambda given: type(given).__module__ + "." + type(given).__name__,
)
def test_texts_come_in_whatever_holds_them(model: ServedModel, given: Any):
    assert model.predict(None, given) == model.predict(None, TEXTS)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_of_several_columns_of_texts_one_is_named(model: ServedModel, kind: Any):
    table = kind({"title": ["smooth", "thin"], "body": TEXTS})
    with pytest.raises(MlflowException, match="2 columns of texts, title, body: name one in `params`, as in"):
        model.predict(None, table)
    assert model.predict(None, table, params={"column": "body"}) == model.predict(None, TEXTS)
    with pytest.raises(MlflowException, match="no column `bdy`; the columns are title, body"):
        model.predict(None, table, params={"column": "bdy"})


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("titles", [[None, "thin"], ["smooth", None]])
def test_a_text_that_is_missing_does_not_choose_the_other_column(model: ServedModel, kind: Any, titles: Any):
    with pytest.raises(MlflowException, match="2 columns of texts, title, body: name one"):
        model.predict(None, kind({"title": titles, "body": TEXTS}))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "several columns of one name: text, text"),
        (pd.DataFrame({"text": []}), "expected at least one text, but got none"),
        (pd.DataFrame(), "expected a column of texts, but the table has none; columns: none"),
        (pl.DataFrame({"id": [1], "stars": [0.5]}), "the table has none; columns: id, stars"),
        (pd.DataFrame({"id": [1]}), "Expected type str, but got int"),
    ],
)
def test_a_table_without_texts_of_one_column_is_refused(model: ServedModel, table: Any, message: str):
    with pytest.raises(MlflowException, match=message):
        model.predict(None, table)


def test_a_model_that_mlflow_loads_takes_the_column_that_is_named(tmp_path: Path):
    """MLflow would hand over the first column of texts of a DataFrame of pandas, without a word."""
    tracker = new_store(tmp_path)
    version, _ = registered(tracker, small_package(tmp_path / "package"))
    found = model_registry.find(tracker, NAME, version)
    loaded = mlflow.pyfunc.load_model(tracker.client.get_model_version_download_uri(NAME, str(found.version)))
    table = pd.DataFrame({"title": ["creamy .", "a"], "body": TEXTS})
    expected = loaded.predict(TEXTS)
    assert loaded.predict(table, params={"column": "body"}) == expected
    assert loaded.predict(table[["body"]]) == expected
    with pytest.raises(MlflowException, match="2 columns of texts, title, body: name one in `params`"):
        loaded.predict(table)
    with pytest.raises(MlflowException, match="no column `bdy`; the columns are title, body"):
        loaded.predict(table, params={"column": "bdy"})


def test_class_probabilities_add_up(tmp_path: Path):
    (answer,) = served(tmp_path, task=Task(kind="classification", num_classes=3)).predict(None, [TEXT])
    assert sum(answer["probabilities"]) == pytest.approx(1, abs=1e-6)
    assert answer["probabilities"][int(answer["prediction"])] == max(answer["probabilities"])


@pytest.mark.parametrize("empty", ["", " \n\t", "\u200b", " \ufeff "])
def test_an_empty_text_is_named_by_its_position(model: ServedModel, empty: str):
    with pytest.raises(MlflowException, match="those at position 0, 2 .counted from 0. have no token"):
        model.predict(None, [empty, "thin", empty])


def test_no_text_is_refused(model: ServedModel):
    with pytest.raises(MlflowException, match="expected at least one text, but got none"):
        model.predict(None, [])


def test_a_text_of_stop_words_alone_is_refused_as_an_empty_one_is(tmp_path: Path):
    folder = small_package(tmp_path / "package", tokenizer="jieba")
    package = dataclasses.replace(load_package(folder), tokenizer_files={"stop_words": "。\n被告人\n"})
    save_package(tmp_path / "chinese", package)
    model = ServedModel()
    model.load_context(SimpleNamespace(artifacts={served_model.PACKAGE_ARTIFACT: str(tmp_path / "chinese")}))
    assert len(model.predict(None, ["被告人盗窃手机。"])) == 1
    with pytest.raises(MlflowException, match="those at position 1 .counted from 0. have no token"):
        model.predict(None, ["被告人盗窃手机。", "被告人。"])


def test_what_a_first_answer_needs_is_made_when_the_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    warmed: list[Explainer] = []
    monkeypatch.setattr(Explainer, "warm_up", lambda explainer: warmed.append(explainer))
    assert warmed == [served(tmp_path).explainer]


@pytest.mark.parametrize("kernel", ["auto", "plain"])
def test_threads_get_the_answers_to_their_own_texts(
    model: ServedModel, kernel: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("INFOCAL_KERNEL", kernel)
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS[2:], k=rng.randint(1, 60))) for _ in range(200)]
    expected = [model.predict(None, [text]) for text in texts]
    start = threading.Barrier(20)

    def ask(first: int) -> list[list[dict[str, Any]]]:
        start.wait()
        return [model.predict(None, [text]) for text in texts[first::20]]

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(ask, range(20)))
    assert answers == [expected[first::20] for first in range(20)]


@pytest.mark.parametrize(
    ("given", "message"), [("thin", "Expected list, but got str"), ([1], "Expected type str, but got int")]
)
def test_what_is_no_list_of_texts_is_refused(model: ServedModel, given: Any, message: str):
    with pytest.raises(MlflowException, match=message):
        model.predict(None, given)


def test_the_file_can_be_run_again_as_mlflow_does():
    """MLflow runs a copy of the file; what it finds then is the model that the file sets."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert importlib.reload(served_model).PACKAGE_ARTIFACT == "package"
