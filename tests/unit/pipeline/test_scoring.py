import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from infocal.batch import Batch
from infocal.config import Task
from infocal.faithfulness import model_faithfulness
from infocal.metrics import resampling
from infocal.metrics import scores as metrics
from infocal.trainer import Prediction, predict
from pipeline.training import scoring
from pipeline.training.loaders import Loader
from pipeline.training.scoring import Scores, ValidationData, score_test, task_scores, validate
from tests.small_store import post_features, post_model, sample_features, sample_model
from tests.unit.pipeline.test_loaders import make_table

REGRESSION = Task(kind="regression")
CLASSES = Task(kind="classification", num_classes=3)


def prediction(index: int, probability: list[float], output: list[float], target: float = 0.0) -> Prediction:
    return Prediction(
        index=index,
        select_probability=np.array(probability, np.float32),
        output=np.array(output, np.float32),
        guider_output=np.array(output[::-1], np.float32),
        target=target,
    )


def by_place(batches: Iterable[Batch]) -> Iterator[Prediction]:
    """p of a token falls with its place: .9, .6, .4, .2, ..."""
    for batch in batches:
        for row, length in enumerate(batch.is_token.sum(dim=1).tolist()):
            yield prediction(
                int(batch.index[row]), [0.9, 0.6, 0.4, 0.2][:length], [0.5], float(batch.target[row])
            )


def data(val: list[int], annotated: list[int], rationales: list[list[int] | None]) -> ValidationData:
    return ValidationData(
        REGRESSION,
        Loader(make_table(val), REGRESSION),
        Loader(make_table(annotated, rationales), REGRESSION),
        "paper",
    )


# ------------------------------------------------------------------------------------------ validation


def test_rationale_scores_come_from_the_annotated_set_and_errors_from_the_other():
    found = validate(by_place, data([4, 4], [4, 3], [[0], [0, 1]]), target_rate=0.0)
    # annotated, p >= 0.5: two of four and two of three tokens are selected; gold 1 and 2 of them
    assert found.scores["val_token_precision"] == pytest.approx(3 / 4)
    assert found.scores["val_token_recall"] == 1.0
    assert found.scores["val_selection_rate"] == pytest.approx(4 / 7)
    # val: targets 0 and 0.01, prediction 0.5
    assert found.scores["val_mse"] == pytest.approx((0.5**2 + 0.49**2) / 2, abs=1e-6)
    assert not any(name.startswith("val_calibrated") for name in found.scores)


def test_the_calibrated_threshold_is_that_of_val_applied_to_the_annotated_set():
    # val has one text of four tokens, so the rate 1/4 puts the threshold above .6; on the annotated
    # texts of two tokens that selects one of two, not one of four
    found = validate(by_place, data([4, 4], [2, 2, 2], [[0], [1], [0]]), target_rate=0.25)
    threshold = found.scores["val_calibrated_threshold"]
    expected = metrics.threshold_for_rate([np.array([0.9, 0.6, 0.4, 0.2])] * 2, 0.25)
    assert threshold == pytest.approx(expected)
    assert 0.6 < threshold <= 0.9
    assert found.scores["val_calibrated_selection_rate"] == pytest.approx(0.5)
    assert found.scores["val_calibrated_token_precision"] == pytest.approx(2 / 3)
    assert found.scores["val_selection_rate"] == 1.0, "at p >= 0.5 both are selected"


def test_predictions_come_in_the_order_of_the_table():
    # batches are sorted by length
    found = validate(by_place, data([1], [4, 1, 3, 2], [[0]] * 4), target_rate=0.0)
    assert [p.index for p in found.predictions] == [0, 1, 2, 3]
    assert [len(p.select_probability) for p in found.predictions] == [4, 1, 3, 2]


@pytest.mark.parametrize(
    ("probability", "kind"), [(0.9, "degenerate_all"), (0.1, "degenerate_none"), (None, None)]
)
def test_a_trivial_mask_on_val_is_named(probability: float | None, kind: str | None):
    def constant(batches: Iterable[Batch]) -> Iterator[Prediction]:
        for one in by_place(batches):
            p = one.select_probability if probability is None else [probability] * len(one.select_probability)
            yield prediction(one.index, list(p), [0.5])

    assert validate(constant, data([4, 4], [4], [[0]]), target_rate=0.0).degenerate == kind


def test_task_scores_of_a_regression_with_those_of_the_guider():
    found = task_scores([prediction(0, [1.0], [0.5], 0.5), prediction(1, [1.0], [0.8], 0.6)], REGRESSION)
    assert found["mse"] == pytest.approx(0.02)
    assert found["mae"] == pytest.approx(0.1)
    assert found["guider_mse"] == pytest.approx(0.02)


def test_task_scores_of_classes_take_the_likeliest():
    task = Task(kind="classification", num_classes=2)
    predictions = [prediction(0, [1.0], [0.9, 0.1], 0.0), prediction(1, [1.0], [0.6, 0.4], 1.0)]
    found = task_scores(predictions, task)
    assert found["accuracy"] == 0.5
    # the guider's output is the reverse
    assert found["guider_accuracy"] == 0.5
    assert "mse" not in found


# ------------------------------------------------------------------------------------------------ test


def test_a_reading_is_logged_before_it_is_returned():
    logged: list[Scores] = []
    reading = score_test(sample_model(), sample_features(), 0.9, logged.append)
    assert logged == [reading.scores]


def test_nothing_is_returned_where_the_log_fails():
    def fail(scores: Scores):
        raise ConnectionError("the store is gone")

    with pytest.raises(ConnectionError, match="the store is gone"):
        score_test(sample_model(), sample_features(), None, fail)


@pytest.fixture(scope="module")
def reading() -> scoring.TestReading:
    return score_test(sample_model(), sample_features(), 0.9, lambda scores: None)


def test_the_reading_is_that_of_the_test_split(reading: scoring.TestReading):
    features = sample_features()
    table = features.table("test")
    assert reading.example_ids == table["example_id"].to_pylist()
    assert [p.index for p in reading.predictions] == list(range(len(table)))
    lengths = [len(ids) for ids in table["token_ids"].to_pylist()]
    assert [len(p.select_probability) for p in reading.predictions] == lengths
    np.testing.assert_allclose([p.target for p in reading.predictions], table["target"].to_numpy())
    own = scoring.rationale_scores(reading.predictions, Loader(table, REGRESSION).golds(), 0.9, "paper")
    assert {name: reading.scores[f"test_{name}"] for name in own} == own


def test_annotated_scores_are_those_of_validation_and_test_together(reading: scoring.TestReading):
    features = sample_features()
    loaders = [Loader(features.table(split), REGRESSION) for split in ("test", "val_annotated")]
    predictions = [
        one
        for loader in loaders
        for one in sorted(
            predict(sample_model(), loader.in_order(16), torch.device("cpu")), key=lambda p: p.index
        )
    ]
    golds = [gold for loader in loaders for gold in loader.golds()]
    own = scoring.rationale_scores(predictions, golds, None, "paper")
    assert own["token_precision"] != reading.scores["test_token_precision"]
    for name in ("token_precision", "token_recall", "selection_rate"):
        assert reading.scores[f"annotated_{name}"] == pytest.approx(own[name], abs=1e-6)


def test_the_calibrated_scores_are_those_at_the_given_threshold(reading: scoring.TestReading):
    selected = np.concatenate([p.select_probability >= 0.9 for p in reading.predictions])
    assert reading.scores["test_calibrated_selection_rate"] == pytest.approx(selected.mean())
    assert 0 < selected.mean() < reading.scores["test_selection_rate"]


def test_the_trivial_lines_stand_at_the_models_own_rate(reading: scoring.TestReading):
    rate = reading.scores["test_selection_rate_annotated"]
    assert {"all_tokens", "random_k", "oracle_k"} <= reading.trivial.keys()
    assert reading.trivial["all_tokens"]["token_recall"] == 1.0
    assert reading.trivial["all_tokens"]["selection_rate"] == 1.0
    for line in ("random_k", "oracle_k"):
        assert reading.trivial[line]["selection_rate"] == pytest.approx(rate, abs=0.01)
    golds = Loader(sample_features().table("test"), REGRESSION).golds()
    share = np.concatenate([gold for gold in golds if gold is not None]).mean()
    assert reading.trivial["all_tokens"]["token_precision"] == pytest.approx(share)


# ------------------------------------------------------------------------------ posts: a classification


@pytest.fixture(scope="module")
def post_reading() -> scoring.TestReading:
    return score_test(post_model(), post_features(), None, lambda scores: None)


def test_one_answer_for_all_texts_is_the_class_that_most_training_texts_have():
    train, val = (Loader(post_features().table(split), CLASSES).targets for split in ("train", "val"))
    answer = np.bincount(train).argmax()
    share = np.mean(val == answer)
    found = scoring.constant_answer(post_features())
    assert found["val_accuracy"] == share
    assert found["val_macro_f1"] == pytest.approx(2 * share / (1 + share) / len(np.unique(val)))
    assert scoring.constant_answer(sample_features()) == {"val_explained_rate": 0.0}


def test_one_validation_set_serves_for_both_and_is_read_once():
    data = ValidationData.of(post_features())
    assert data.annotated is data.val and data.mode == "hatexplain"
    passes = []

    def counted(batches: Iterable[Batch]) -> Iterator[Prediction]:
        passes.append(1)
        return predict(post_model(), batches, torch.device("cpu"))

    found = validate(counted, data, target_rate=0.3)
    assert passes == [1]
    assert [p.index for p in found.predictions] == list(range(len(data.val)))
    # accuracy over every post, rationale scores over the toxic ones, the rate over both
    classes = np.array([p.output.argmax() for p in found.predictions])
    assert found.scores["val_accuracy"] == np.mean(classes == data.val.targets)
    toxic = data.val.annotated_rows()
    assert found.scores["val_num_documents"] - found.scores["val_num_skipped"] == len(toxic)
    rate = np.concatenate([found.predictions[i].select_probability >= 0.5 for i in toxic]).mean()
    assert found.scores["val_selection_rate_annotated"] == pytest.approx(rate)
    assert found.scores["val_hatexplain_token_f1"] == found.scores["val_token_f1_macro"]
    assert {"val_auroc_ovo", "val_auroc_ovr", "val_guider_auroc_ovo"} <= found.scores.keys()
    assert not any("comprehensiveness" in name for name in found.scores), "not at every epoch"


def test_a_set_without_annotated_validation_has_no_scores_of_both(post_reading: scoring.TestReading):
    assert not any(name.startswith("annotated_") for name in post_reading.scores)
    wanted = {"accuracy", "macro_precision", "macro_recall", "macro_f1", "auroc_ovo", "auroc_ovr"}
    wanted |= {"hatexplain_iou_f1", "hatexplain_token_f1", "auprc", "average_precision"}
    wanted |= {"comprehensiveness", "sufficiency", "comprehensiveness_aopc", "sufficiency_aopc"}
    assert {f"test_{name}" for name in wanted} <= post_reading.scores.keys()


def test_trivial_lines_have_the_scores_that_stand_beside_the_model(post_reading: scoring.TestReading):
    for line in ("all_tokens", "no_tokens", "random_k", "first_k", "oracle_k"):
        scores = post_reading.trivial[line]
        assert {"hatexplain_iou_f1", "hatexplain_token_f1", "auprc", "average_precision"} <= scores.keys()
    golds = [gold for gold in Loader(post_features().table("test"), CLASSES).golds() if gold is not None]
    everything = np.mean([2 * gold.mean() / (1 + gold.mean()) for gold in golds])
    assert post_reading.trivial["all_tokens"]["hatexplain_token_f1"] == pytest.approx(everything)
    assert post_reading.trivial["no_tokens"]["hatexplain_token_f1"] == 0


def test_trivial_lines_select_what_the_model_selects_of_the_annotated_posts(
    post_reading: scoring.TestReading,
):
    scores = post_reading.scores
    rate = scores["test_selection_rate_annotated"]
    assert rate != pytest.approx(scores["test_selection_rate"], abs=1e-3), "the case tells them apart"
    for line in ("random_k", "first_k"):
        assert post_reading.trivial[line]["selection_rate"] == pytest.approx(rate, abs=1e-3)
    assert scoring.rate_of_lines({"val_selection_rate": 0.25}, "val_") == 0.25, "where nobody annotated"


def test_faithfulness_is_that_of_the_annotated_posts():
    loader = Loader(post_features().table("val"), CLASSES)
    rows = loader.annotated_rows()
    assert 0 < len(rows) < len(loader)
    (expected,) = model_faithfulness(post_model(), [loader.batch(rows)], torch.device("cpu"))
    assert scoring.faithfulness(post_model(), loader) == pytest.approx(expected, abs=1e-5)
    named = {f"val_{name}": value for name, value in expected.items()}
    assert scoring.final_validation(post_model(), post_features()) == pytest.approx(named, abs=1e-5)


def test_faithfulness_where_nobody_annotated_is_that_of_all_posts():
    table = post_features().table("val")
    bare = table.set_column(
        table.schema.get_field_index("rationale"), "rationale", pa.nulls(len(table), pa.list_(pa.uint16()))
    )
    loader = Loader(bare, CLASSES)
    (everything,) = model_faithfulness(post_model(), loader.in_order(64), torch.device("cpu"))
    assert scoring.faithfulness(post_model(), loader) == pytest.approx(everything, abs=1e-6)


def test_a_regression_has_no_faithfulness():
    assert scoring.final_validation(sample_model(), sample_features()) == {}


def test_groups_are_scored_on_their_own_posts(post_reading: scoring.TestReading):
    members = post_features().table("test")["groups"].to_pylist()
    sizes = {g: sum(g in named for named in members) for g in {g for named in members for g in named}}
    large = sorted((g for g, size in sizes.items() if size >= 30), key=lambda g: (-sizes[g], g))
    assert list(post_reading.groups) == large and large
    for group, scores in post_reading.groups.items():
        rows = [i for i, named in enumerate(members) if group in named]
        hits = [p.output.argmax() == p.target for p in (post_reading.predictions[i] for i in rows)]
        assert scores["accuracy"] == pytest.approx(np.mean(hits))
        assert scores["num_documents"] == sizes[group]
        assert 0 < scores["hatexplain_token_f1"] <= 1


def test_a_group_of_a_few_texts_has_no_scores():
    predictions = [prediction(i, [0.9], [0.5]) for i in range(31)]
    groups = [["a", "b"]] * 29 + [["a"], []]
    found = scoring.group_scores(predictions, [None] * 31, groups, REGRESSION, "paper")
    assert list(found) == ["a"]
    assert found["a"]["num_documents"] == 30


# ----------------------------------------------------------------------------------------- architecture


NO_SPLITS = {
    "pa.table({LM_STEP: pa.ListArray.from_arrays(offsets, values)})",
    "mlflow_view.table(experiment_id, found.run_id)",
    "mlflow_view.table(experiment_id, tracking.study_run_id)",
    "mlflow_view.table(experiment_id, run_id)",
}
"""Calls of a `table` that is none of a split."""


def opened_splits(path: Path) -> set[str]:
    """Every text that a module could open the test split with."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    opened = {
        constant.value
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "table"
        for argument in call.args
        for constant in ast.walk(argument)
        if isinstance(constant, ast.Constant)
    }
    unclear = {
        ast.unparse(call)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "table"
        and call.args
        and not isinstance(call.args[0], ast.Constant)
    }
    return opened | unclear


def test_only_this_module_opens_the_test_split():
    folder = Path(scoring.__file__).parents[1]
    known = {"train", "val", "val_annotated", "pool"}
    others = {path.name: opened_splits(path) - known for path in sorted(folder.rglob("*.py"))}
    reader = others.pop("scoring.py")
    assert "test" in reader, "the scan itself works"
    others = {name: found - NO_SPLITS for name, found in others.items()}
    assert {name: found for name, found in others.items() if found} == {}


def test_counts_give_the_scores_again():
    found = validate(by_place, data([4, 4], [4, 3], [[0], [0, 1]]), target_rate=0.0)
    assert found.counts is not None
    for name in ("token_precision", "token_recall", "token_f1", "selection_rate", "mse"):
        assert resampling.score(name, found.counts) == pytest.approx(found.scores[f"val_{name}"])


def test_counts_of_a_classification_give_its_scores_again():
    reading = score_test(post_model(), post_features(), None, lambda scores: None)
    assert reading.counts is not None
    for name in ("hatexplain_token_f1", "token_f1", "accuracy", "macro_f1", "selection_rate_annotated"):
        assert resampling.score(name, reading.counts) == pytest.approx(reading.scores[f"test_{name}"])
    again = resampling.TextCounts.of_lists(reading.counts.as_lists())
    assert again.as_lists() == reading.counts.as_lists()
