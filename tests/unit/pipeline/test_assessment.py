import argparse
import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from feature_store import terminal
from feature_store.errors import MissingDataError
from feature_store.store import FeatureRequest, open_features
from infocal.errors import StateError
from infocal.methods.birnn import BirnnConfig, BirnnModel
from infocal.methods.birnn_attn import BirnnAttnConfig, BirnnAttnModel
from pipeline.base.errors import PipelineError
from pipeline.tracking import assessment, model_registry
from pipeline.tracking.studies import start_study
from pipeline.tracking.tracking import CONFIG_ARTIFACT, Tracker
from pipeline.training.loaders import embeddings_of, task_of
from tests.own_corpora import own_records, write_own
from tests.small_store import (
    CONFIG,
    NAME,
    metadata,
    new_store,
    post_features,
    post_model,
    sample_cache,
    sample_features,
    sample_model,
    save_trial_checkpoint,
    store_with_model,
)
from tests.small_study import run_settings


def flags(cache: Path | None = None, **changes: Any) -> argparse.Namespace:
    values = {"data_dir": None, "cache_dir": str(cache or sample_cache()), "embedding": "random"}
    return argparse.Namespace(**{**values, **changes})


def own_corpus(folder: Path, num_train: int) -> Path:
    folder.mkdir(parents=True)
    return write_own(folder, own_records(num_train))


def wanted(**changes: Any) -> dict[str, Any]:
    return metadata(data_fingerprint=sample_features().fingerprint, **changes)


@pytest.fixture
def tracker(tmp_path: Path) -> Tracker:
    return new_store(tmp_path / "store")


# ------------------------------------------------------------------------------------------ features


def test_features_come_from_the_cache_whatever_the_flags_say():
    found = assessment.features_of(wanted(), flags(embedding="word2vec", data_dir="nowhere"))
    assert found.directory == sample_features().directory


def test_features_are_built_again_where_the_cache_is_empty(tmp_path: Path):
    built = assessment.features_of(wanted(), flags(tmp_path))
    assert built.fingerprint == sample_features().fingerprint
    assert built.directory.is_relative_to(tmp_path)


def test_features_of_another_fingerprint_are_refused():
    with pytest.raises(
        PipelineError, match="was trained on features 0{16}, but the given data and flags produce"
    ) as caught:
        assessment.features_of(metadata(data_fingerprint="0" * 64), flags())
    assert sample_features().fingerprint[:16] in str(caught.value)
    assert "--embedding" in (caught.value.hint or "")


def test_real_features_need_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("INFOCAL_DATA", raising=False)
    with pytest.raises(MissingDataError, match="no data folder was named"):
        assessment.features_of(wanted(sample=False) | {"data_fingerprint": "0" * 64}, flags(tmp_path))


def test_own_data_of_another_folder_are_refused_though_the_cache_holds_the_models(tmp_path: Path):
    corpora = [own_corpus(tmp_path / name / "tickets", size) for name, size in (("a", 20), ("b", 21))]
    request = FeatureRequest(
        dataset="jsonl", data_dir=corpora[0], cache_dir=tmp_path / "cache", embedding="random", max_length=256
    )
    features = open_features(request)
    of_first = {
        "dataset": "jsonl",
        "aspect": "",
        "options": {},
        "sample": False,
        "max_length": 256,
        "data_fingerprint": features.fingerprint,
    }
    same, other = (flags(tmp_path / "cache", data_dir=str(corpus)) for corpus in corpora)
    assert assessment.features_of(of_first, same).directory == features.directory
    assert assessment.features_of(of_first, flags(tmp_path / "cache")).directory == features.directory
    with pytest.raises(
        PipelineError,
        match="b/tickets: the data in this folder, or the flags, are not those of .* "
        rf"they give features \w{{16}}, but the model was trained on features {features.fingerprint[:16]};",
    ):
        assessment.features_of(of_first, other)


def test_damaged_features_are_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    cache = tmp_path / "cache"
    shutil.copytree(sample_cache(), cache)
    broken = cache / sample_features().directory.relative_to(sample_cache())
    (broken / "test.arrow").write_bytes(b"short")
    assert assessment.features_of(wanted(), flags(cache)).table("val").num_rows > 0
    assert "the features are built again" in caplog.text


# ------------------------------------------------------------------------------------------- subjects


def stored_trial(tracker: Tracker, folder: Path, tags: dict[str, str] | None = None) -> str:
    """A finished trial in the store, as the tracking callback leaves it."""
    experiment = tracker.experiment("beer", "palate")
    every = {"data_fingerprint": sample_features().fingerprint, "corpus": "sample"} if tags is None else tags
    run_id = tracker.start_run(experiment, "trial-07", {"lambda_ib": 0.1}, every)
    checkpoint = save_trial_checkpoint(
        folder / "checkpoint", sample_model(), {"val_calibrated_threshold": 0.75}
    )
    document = {"config": CONFIG.to_dict(), "run": dataclasses.asdict(run_settings())}
    tracker.finish(run_id, artifacts={"best": checkpoint / "best", CONFIG_ARTIFACT: json.dumps(document)})
    return run_id


def test_a_trial_is_read_from_its_run(tracker: Tracker, tmp_path: Path):
    run_id = stored_trial(tracker, tmp_path)
    subject = assessment.of_run(tracker, run_id, flags(), tmp_path / "out")
    assert subject.label == "run trial-07, epoch 2"
    assert (subject.calibrated_threshold, subject.run_id, subject.version) == (0.75, run_id, None)
    expected = sample_model().state_dict()
    assert all((value == expected[name]).all() for name, value in subject.model.state_dict().items())


@pytest.mark.parametrize(
    "document",
    [
        "[1]",
        "{}",
        "{",
        '{"config": [], "run": null}',
        {"dataset": 7},
        {"options": [1]},
        {"base": {"max_length": 0}},
    ],
)
def test_settings_of_something_else_are_refused(
    tracker: Tracker, tmp_path: Path, document: str | dict[str, Any]
):
    run_id = stored_trial(tracker, tmp_path)
    if isinstance(document, dict):
        settings = dataclasses.asdict(run_settings()) | document
        document = json.dumps({"config": CONFIG.to_dict(), "run": settings})
    tracker.finish(run_id, artifacts={CONFIG_ARTIFACT: document})
    with pytest.raises(StateError, match=f"^`config.json` of run {run_id}: "):
        assessment.of_run(tracker, run_id, flags(), tmp_path / "out")


def test_altered_weights_of_a_run_are_refused_and_the_run_is_named(tracker: Tracker, tmp_path: Path):
    run_id = stored_trial(tracker, tmp_path)
    best = tmp_path / "checkpoint" / "best"
    weights = bytearray((best / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (best / "model.safetensors").write_bytes(weights)
    tracker.finish(run_id, artifacts={"best": best})
    with pytest.raises(StateError, match=f"^`best` of run {run_id}: `model.safetensors` .* its sha256 "):
        assessment.of_run(tracker, run_id, flags(), tmp_path / "out")


def test_a_study_is_no_trial(tracker: Tracker, tmp_path: Path):
    study = start_study(tracker, tracker.experiment("beer", "palate"), "one", {}, {})
    with pytest.raises(PipelineError, match="is the study `one`"):
        assessment.of_run(tracker, study, flags(), tmp_path)


def test_a_run_of_something_else_is_no_trial(tracker: Tracker, tmp_path: Path):
    run_id = stored_trial(tracker, tmp_path, tags={})
    with pytest.raises(PipelineError, match="is not a trial of a search: it has no `data_fingerprint`"):
        assessment.of_run(tracker, run_id, flags(), tmp_path / "out")


def test_a_trial_without_a_model_is_named(tracker: Tracker, tmp_path: Path):
    run_id = tracker.start_run(
        tracker.experiment("beer", "palate"), "trial-00", {}, {"data_fingerprint": "0"}
    )
    with pytest.raises(PipelineError, match=f"run {run_id} has no artifact `best`"):
        assessment.of_run(tracker, run_id, flags(), tmp_path)


def test_a_version_without_a_run_cannot_be_read(tmp_path: Path):
    tracker, _ = store_with_model(tmp_path / "store")
    source = tracker.client.get_model_version_download_uri(NAME, "1")
    tracker.client.create_model_version(NAME, source=source)
    with pytest.raises(PipelineError, match="models:/infocal-beer-palate/2 does not name the run"):
        assessment.of_version(tracker, model_registry.find(tracker, NAME, 2), flags(), tmp_path / "out")


# ------------------------------------------------------------------------------------------- readings


def test_a_reading_is_recorded_on_run_and_version(tmp_path: Path):
    tracker, version = store_with_model(tmp_path / "store")
    run_id = version.run_id
    subject = assessment.of_version(tracker, version, flags(), tmp_path / "out")
    reading = assessment.read_test(tracker, subject)
    assessment.read_test(tracker, subject)
    run, tags = tracker.run(run_id), model_registry.find(tracker, NAME, 1).tags
    assert run.metrics["test_token_f1"] == pytest.approx(reading.scores["test_token_f1"])
    assert len(tracker.history(run_id, "test_token_f1")) == 2
    assert run.tags["test_readings"] == tags["test_readings"] == "2"
    assert float(tags["test_token_precision"]) == pytest.approx(
        reading.scores["test_token_precision"], abs=1e-6
    )
    table = assessment.describe(subject, reading)
    rows = {line.split("  ")[0]: line.split()[-5:] for line in table.splitlines()}
    assert rows["model"][0] == f"{reading.scores['test_token_precision']:.4f}"
    assert rows["all_tokens"][1] == "1.0000"
    assert (
        rows["model at p >= 0.600, set on validation"][-1]
        == f"{reading.scores['test_calibrated_selection_rate']:.4f}"
    )
    assert f"infocal-beer-palate version 1 on test of beer/palate, {len(reading.predictions)} texts" in table
    assert f"mse {reading.scores['test_mse']:.4f}" in table
    assert "note: made-up sample corpus" in table


def test_nothing_is_read_where_it_cannot_be_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tracker, version = store_with_model(tmp_path / "store")
    subject = assessment.of_version(tracker, version, flags(), tmp_path / "out")

    def fail(*args: object, **kwargs: object):
        raise OSError("disk full")

    monkeypatch.setattr(tracker.client, "log_batch", fail)
    with pytest.raises(PipelineError, match="cannot record the reading of the test split .*disk full"):
        assessment.read_test(tracker, subject)


def test_a_reading_of_posts_shows_and_stores_the_scores_of_each_group(tmp_path: Path):
    tracker = new_store(tmp_path / "store")
    run_id = tracker.start_run(tracker.experiment("hatexplain", ""), "trial-00", {}, {})
    subject = assessment.Subject("run trial-00", post_model(), post_features(), 0.6, run_id, {})
    reading = assessment.read_test(tracker, subject)
    path = tracker.download(run_id, assessment.GROUPS_ARTIFACT, tmp_path / "out")
    stored = json.loads(path.read_text())
    assert stored == reading.groups and len(stored) > 1
    text = assessment.describe(subject, reading)
    assert "on test of hatexplain, 300 texts" in text
    lines = text.splitlines()
    head = next(line for line in lines if "iou f1" in line)
    labels = ["token", "f1", "iou", "f1", "auprc", "ap", "precision", "recall", "selected", "of", "toxic"]
    assert head.split() == labels
    for line in ("model", "all_tokens", "no_tokens", "random_k", "first_k", "oracle_k"):
        row = next(found for found in lines if found.startswith(f"{line} "))
        assert len(row.split()) == 9 and "-" not in row.split()
    assert f"auroc_ovo {reading.scores['test_auroc_ovo']:.4f}" in text
    assert f"faithfulness: comprehensiveness {reading.scores['test_comprehensiveness']:.4f}" in text
    for group, scores in reading.groups.items():
        (row,) = [found for found in lines if found.startswith(group)]
        assert row.split()[1] == f"{scores['num_documents']:.0f}"
        assert f"{scores['accuracy']:.4f}" in row and f"{scores['hatexplain_token_f1']:.4f}" in row


def classifier_of_posts() -> BirnnAttnModel:
    """An untrained classifier of the sample posts, which has attention."""
    torch.manual_seed(0)
    features = post_features()
    config = BirnnAttnConfig(hidden_size=4, lime_samples=10)
    return BirnnAttnModel(config, task_of(features), embeddings_of(features)).eval()


def test_another_explanation_is_recorded_under_its_own_names(tmp_path: Path):
    tracker = new_store(tmp_path / "store")
    run_id = tracker.start_run(tracker.experiment("hatexplain", ""), "trial-00", {}, {})
    own = assessment.Subject("run trial-00", classifier_of_posts(), post_features(), None, run_id, {})
    first = assessment.read_test(tracker, assessment.explained_by(own, "attention")).scores
    other = assessment.explained_by(own, "gradient_x_input")
    second = assessment.read_test(tracker, other)
    found = tracker.run(run_id).metrics
    assert found["test_hatexplain_token_f1"] == pytest.approx(first["test_hatexplain_token_f1"])
    assert found["test_gradient_x_input_hatexplain_token_f1"] == pytest.approx(
        second.scores["test_hatexplain_token_f1"]
    )
    assert first["test_hatexplain_token_f1"] != second.scores["test_hatexplain_token_f1"]
    assert first["test_comprehensiveness"] != second.scores["test_comprehensiveness"]
    # the prediction rests on the whole text, whatever explains it
    assert first["test_accuracy"] == second.scores["test_accuracy"]
    text = assessment.describe(other, second)
    assert "run trial-00, explained by gradient_x_input on test of hatexplain, 300 texts" in text
    assert "prediction from the whole text: accuracy" in text


def test_a_model_that_selects_its_own_rationale_has_no_other_explanation():
    own = assessment.Subject("run trial-00", post_model(), post_features(), None, "run", {})
    with pytest.raises(PipelineError, match="the model of run trial-00 selects its own rationale") as caught:
        assessment.explained_by(own, "lime")
    assert "--explainer" in str(caught.value)


def test_an_explanation_that_a_classifier_lacks_is_refused():
    features = post_features()
    model = BirnnModel(BirnnConfig(hidden_size=4), task_of(features), embeddings_of(features))
    own = assessment.Subject("run trial-00", model, features, None, "run", {})
    with pytest.raises(PipelineError, match="`explainer` must be one of gradient_x_input, .*'attention'"):
        assessment.explained_by(own, "attention")


def test_reviews_have_no_groups(tmp_path: Path):
    tracker, version = store_with_model(tmp_path / "store")
    subject = assessment.of_version(tracker, version, flags(), tmp_path / "out")
    reading = assessment.read_test(tracker, subject)
    assert reading.groups == {}
    assert "by group" not in assessment.describe(subject, reading)
    with pytest.raises(PipelineError, match="has no artifact `test/groups.json`"):
        tracker.download(subject.run_id, assessment.GROUPS_ARTIFACT, tmp_path / "groups")


def test_where_nobody_annotated_the_table_has_neither_agreement_nor_trivial_lines(tmp_path: Path):
    tracker, version = store_with_model(tmp_path / "store")
    subject = assessment.of_version(tracker, version, flags(), tmp_path / "out")
    reading = assessment.read_test(tracker, subject)
    task = ("selection_rate", "mse", "calibrated_selection_rate")
    scores = {f"test_{name}": reading.scores[f"test_{name}"] for name in task}
    trivial = {"all_tokens": {"selection_rate": 1.0}}
    table = assessment.describe(subject, dataclasses.replace(reading, scores=scores, trivial=trivial))
    lines = table.splitlines()
    assert lines[2].split() == ["selected"], "one column alone"
    assert "all_tokens" not in table
    assert f"{scores['test_selection_rate']:.4f}" in table


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_is_set_by_the_terminals_width_and_not_torn(width: int):
    labels = ["texts", "annotated", "accuracy", "macro f1", "auroc (ovo)", "iou f1", "token f1", "selected"]
    rows = {name: [f"{i}.{k}" for k in range(8)] for i, name in enumerate(["Arab", "Hispanic", "亚洲人"])}
    lines = assessment._table(labels, rows, width)
    assert all(terminal.columns(line) <= width for line in lines)
    assert len({terminal.columns(line) for line in lines[:4]}) == 1, "wide characters are aligned, too"
    parts = [part.split("\n") for part in "\n".join(lines).split("\n\n")]
    assert len(parts) == {40: 3, 80: 2, 120: 1}[width]
    for i, name in enumerate(rows, start=1):
        found = [cell for part in parts for cell in part[i].removeprefix(name).split()]
        assert found == rows[name]
    assert assessment._table(labels, rows, None) == assessment._table(labels, rows, 10_000)
