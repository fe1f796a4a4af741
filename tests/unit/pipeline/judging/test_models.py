"""Sheets of models: a registered one and a folder, on texts of the sample corpus."""

from pathlib import Path

import pytest

from pipeline import judge
from pipeline.base.errors import PipelineError
from pipeline.judging import sheet as sheets
from pipeline.judging.material import Named, named
from pipeline.tracking.sealed_split import READINGS_TAG
from tests.small_store import NAME, new_store, registered, sample_cache, small_package


def flags(folder: Path, *more: str) -> list[str]:
    found = ["--sheet", str(folder / "sheet"), "--sample", "--cache-dir", str(sample_cache()), "--no-serve"]
    return [*found, "--embedding", "random", "--texts", "5", "--judges", "2", *more]


def test_models_mark_the_texts_of_the_test_split_and_the_reading_is_recorded(tmp_path: Path):
    tracker = new_store(tmp_path / "store")
    version, run_id = registered(tracker, small_package(tmp_path / "model"))
    uri = ["--tracking-uri", tracker.uri, "--models", f"ours={NAME}/{version}"]
    given = flags(
        tmp_path, *uri, "--package", str(tmp_path / "model"), "--dataset", "beer", "--aspect", "palate"
    )
    assert judge.main(given) == 0
    sheet = sheets.load(tmp_path / "sheet", "--sheet")
    assert (sheet.methods, len(sheet.texts), sheet.language) == (["ours", "model"], 5, "en")
    assert sheet.rationales[0] == sheet.rationales[1]  # one and the same weights
    assert all("palate" in text.shown and "score" in text.record for text in sheet.texts)
    assert tracker.run(run_id).tags[READINGS_TAG] == "1"


def test_a_model_of_another_target_is_refused(tmp_path: Path):
    given = flags(tmp_path, "--package", str(small_package(tmp_path / "model")), "--aspect", "smell")
    with pytest.raises(
        PipelineError, match="was trained with `--dataset beer --aspect palate --sample`, but got"
    ):
        judge.main(given)
    assert not (tmp_path / "sheet").exists()


def test_names_of_models():
    found = named(["a,b@challenger", "L=models:/c/3"], [], ["runs/masks.jsonl"])
    assert found == [
        Named("a", "models:/a@champion", "--models"),
        Named("b@challenger", "models:/b@challenger", "--models"),
        Named("L", "models:/c/3", "--models"),
        Named("masks.jsonl", "runs/masks.jsonl", "--rationales"),
    ]
