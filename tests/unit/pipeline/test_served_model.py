import importlib
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from mlflow.exceptions import MlflowException

from infocal.config import Task
from pipeline import served_model
from pipeline.served_model import ServedModel
from tests.small_store import small_package

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
    assert set(answer) == {"prediction", "probabilities", "label", "rationale"}
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


def test_class_probabilities_add_up(tmp_path: Path):
    (answer,) = served(tmp_path, task=Task(kind="classification", num_classes=3)).predict(None, [TEXT])
    assert sum(answer["probabilities"]) == pytest.approx(1, abs=1e-6)
    assert answer["probabilities"][int(answer["prediction"])] == max(answer["probabilities"])


@pytest.mark.parametrize("empty", ["", " \n\t"])
def test_an_empty_text_is_named_by_its_position(model: ServedModel, empty: str):
    with pytest.raises(MlflowException, match="of the 3 given those at position 0, 2 .from 0. are empty"):
        model.predict(None, [empty, "thin", empty])


def test_no_text_gives_no_answer(model: ServedModel):
    assert model.predict(None, []) == []


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
