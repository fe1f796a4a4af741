"""Sheets of models: a registered one and a folder, on texts of the sample corpus."""

import json
from pathlib import Path

import pytest

from feature_store.tokens import Token
from pipeline import judge
from pipeline.base.errors import PipelineError
from pipeline.judging import sheet as sheets
from pipeline.judging.material import Named, named
from pipeline.tracking.sealed_split import READINGS_TAG
from pipeline.training.checkpoints import load_package
from pipeline.training.explainer import Explainer
from tests.small_store import (
    NAME,
    law_features,
    new_store,
    registered,
    sample_cache,
    several_package,
    small_package,
)


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
        PipelineError, match="was trained with `--dataset beer --aspect palate --sample`, but this"
    ):
        judge.main(given)
    assert not (tmp_path / "sheet").exists()


@pytest.mark.parametrize("uris", ["models/a", "a=models:/a/1,b=models/b"])
def test_a_uri_that_is_none_is_told_with_the_flag_of_this_command(tmp_path: Path, uris: str):
    given = flags(tmp_path, "--models", uris, "--dataset", "beer", "--aspect", "palate")
    with pytest.raises(PipelineError, match="expected `models:/NAME@ALIAS` or") as caught:
        judge.main([*given, "--tracking-uri", new_store(tmp_path / "store").uri])
    assert caught.value.where == "--models"


def several(folder: Path, rationales: str, *more: str) -> sheets.Sheet:
    """A sheet of a model of palate and smell."""
    package = several_package(folder / "model", rationales)
    given = flags(folder, "--package", str(package), "--aspect", "palate,smell", *more)
    assert judge.main(given) == 0
    return sheets.load(folder / "sheet", "--sheet")


@pytest.mark.parametrize("target", ["palate", "smell"])
def test_the_rationale_of_a_target_is_judged_beside_the_value_of_that_target(tmp_path: Path, target: str):
    sheet = several(tmp_path, "per_head", "--target", target)
    assert (sheet.title, sheet.provenance["dataset"]) == (f"beer/{target}", "beer/palate+smell")
    assert sheet.provenance["target"] == target
    texts = [[Token(token, i, i + 1) for i, token in enumerate(text.tokens)] for text in sheet.texts]
    found = Explainer(load_package(tmp_path / "model")).explain_tokens(texts)
    for text, spans, one in zip(sheet.texts, sheet.rationales[0], found, strict=True):
        chosen = [i for i, token in enumerate(one.tokens_of[target]) if token.selected]
        assert spans == sheets.spans_of(chosen)
        assert text.shown == f"{target} {text.record['score']:.2f} (0 – 1)"
    assert any(
        [a.selected for a in one.tokens_of["palate"]] != [b.selected for b in one.tokens_of["smell"]]
        for one in found
    ), "the case tells them apart"


@pytest.mark.parametrize("rationales", ["shared", "per_head"])
def test_without_a_name_it_is_the_main_target(tmp_path: Path, rationales: str):
    sheet = several(tmp_path / "a", rationales)
    named_one = several(tmp_path / "b", rationales, "--target", "palate")
    assert (sheet.rationales, sheet.texts, sheet.plan) == (
        named_one.rationales,
        named_one.texts,
        named_one.plan,
    )
    assert sheet.title == "beer/palate"


def test_targets_that_share_a_rationale_have_it_beside_the_value_of_each(tmp_path: Path):
    palate, smell = (several(tmp_path / name, "shared", "--target", name) for name in ("palate", "smell"))
    assert palate.rationales == smell.rationales
    pairs = zip(palate.texts, smell.texts, strict=True)
    assert any(one.record["score"] != other.record["score"] for one, other in pairs)


def test_people_mark_words_for_a_side_target_of_classes(tmp_path: Path):
    given = ["--dataset", "cail-small", "--task", "charges,terms", "--annotate", "--target", "terms"]
    assert judge.main(flags(tmp_path, *given)) == 0
    sheet = sheets.load(tmp_path / "sheet", "--sheet")
    names = law_features().task.sides[1].class_names
    assert all(text.record["label"] in names for text in sheet.texts)
    assert all(text.shown == f"terms: {text.record['label']}" for text in sheet.texts)
    assert sheet.title == "cail-small/terms"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["--aspect", "palate,smell", "--target", "smel"],
            "no target `smel`; the targets are `palate`, `smell`",
        ),
        (["--aspect", "palate", "--target", "smell"], "no target `smell`; the models have one target"),
        (["--dataset", "hatexplain", "--target", "group"], "no target `group`; the models have one target"),
        (["--input", "texts.jsonl", "--target", "smell"], "texts from a file have no targets"),
    ],
)
def test_a_target_that_is_not_there_is_refused_before_anything_is_made(
    tmp_path: Path, given: list[str], message: str
):
    with pytest.raises(PipelineError, match=message) as caught:
        judge.main(flags(tmp_path, "--annotate", *given))
    assert caught.value.where == "--target" and caught.value.hint
    assert not (tmp_path / "sheet").exists()


def test_names_of_models():
    found = named(["a,b@challenger", "L=models:/c/3"], [], ["runs/masks.jsonl"])
    assert found == [
        Named("a", "models:/a@champion", "--models"),
        Named("b@challenger", "models:/b@challenger", "--models"),
        Named("L", "models:/c/3", "--models"),
        Named("masks.jsonl", "runs/masks.jsonl", "--rationales"),
    ]


def test_masks_in_the_beer_corpus_own_format_are_those_of_the_aspect(tmp_path: Path):
    at_once = flags(tmp_path / "first", "--annotate", "--aspect", "palate")
    (tmp_path / "first").mkdir()
    assert judge.main(at_once) == 0
    texts = sheets.load(tmp_path / "first" / "sheet", "--sheet").texts
    masks = [{"rid": text.example_id, "palate": [0, 2], "smell": [1]} for text in texts]
    file = tmp_path / "masks.jsonl"
    file.write_text("".join(json.dumps(mask) + "\n" for mask in masks))
    for name, more, expected in (
        ("palate", ["--aspect", "palate"], [[0, 1], [2, 3]]),
        ("smell", ["--aspect", "palate,smell", "--target", "smell"], [[1, 2]]),
    ):
        (tmp_path / name).mkdir()
        given = flags(tmp_path / name, "--rationales", f"Lei={file}", *more)
        assert judge.main(given) == 0
        assert sheets.load(tmp_path / name / "sheet", "--sheet").rationales == [[expected] * len(texts)]
