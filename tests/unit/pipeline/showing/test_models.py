"""What the page is told of a text: pieces that make it up again, the cut, unknown words, other marks."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from infocal.config import Task
from infocal.errors import StateError
from pipeline import demo
from pipeline.base.errors import PipelineError
from pipeline.base.stored_files import write_digests
from pipeline.showing import examples, flags, models
from pipeline.showing.models import ShownModel
from pipeline.showing.words import WORDS
from pipeline.training.checkpoints import CONFIG, VOCABULARY, WEIGHTS
from tests.small_store import (
    NAME,
    new_store,
    registered,
    sample_cache,
    sample_features,
    sample_package,
    several_package,
    small_package,
)


def given(*arguments: str) -> argparse.Namespace:
    parsed = demo.build_parser().parse_args([*arguments])
    flags.check(parsed)
    return parsed


def shown(folder: Path, task: Task | None = None, **changes: Any) -> ShownModel:
    found, _ = models.load(given("--package", str(small_package(folder / "model", task, **changes))))
    return found[0]


def marks_of(rationale: dict[str, Any]) -> list[int]:
    return [i for i, is_marked in enumerate(rationale["is_marked"]) if is_marked]


TEXTS = [
    "a smooth body .",
    "  A  smooth\n\n(isn't it creamy?) zebra ...\t",
    "<script>alert(1)</script> & \u200bsmooth\u00ad body",
    "𝒳 emoji 😀 smooth",
    "被告人王某盗窃手机一部，价值人民币3000元。 smooth",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("tokenizer", ["english", "english_cased", "whitespace", "jieba"])
@pytest.mark.parametrize("max_length", [2, 256])
def test_the_pieces_make_the_text(tmp_path: Path, text: str, tokenizer: str, max_length: int):
    found = shown(tmp_path, tokenizer=tokenizer, max_length=max_length).read(text)
    assert found["lead"] + "".join(t["text"] + t["gap"] for t in found["tokens"]) + found["rest"] == text
    assert len(found["tokens"]) <= max_length
    assert (found["rest"] != "") == (found["num_unread"] > 0)
    assert all(text[t["start"] : t["end"]] == t["text"] for t in found["tokens"])


def test_a_long_text_is_read_as_far_as_in_training_and_what_follows_is_given_as_not_read(tmp_path: Path):
    model = shown(tmp_path, max_length=3)
    found, short = model.read("smooth creamy body thin thin ."), model.read("smooth creamy body")
    assert (found["num_unread"], found["rest"]) == (3, " thin thin .")
    assert found["predicted"] == short["predicted"]
    assert model.predict("smooth creamy body thin", [3]) is None, "a word that is not read cannot be marked"


def test_words_that_the_model_does_not_know_are_counted_and_named(tmp_path: Path):
    found = shown(tmp_path).read("smooth zebra body xylophone")
    assert found["num_unknown"] == 2
    assert [token["is_known"] for token in found["tokens"]] == [True, False, True, False]


@pytest.mark.parametrize("text", ["\u200b", "\u00ad\u2060"])
def test_a_text_without_a_word_is_a_problem_of_that_model(tmp_path: Path, text: str):
    assert shown(tmp_path).read(text) == {"problem": "no_token"}
    assert shown(tmp_path / "again").predict(text, []) is None


def test_a_score_is_on_the_users_scale_and_a_class_has_its_name(tmp_path: Path):
    score = shown(tmp_path, score_range=[1, 5])
    (predicted,) = score.read("smooth body")["predicted"]
    assert 1 < predicted["score"] < 5
    assert score.facts()["targets"] == [{"name": "palate", "low": 1, "high": 5, "classes": []}]
    task = Task(kind="classification", num_classes=3)
    named = shown(tmp_path / "named", task, class_names=["bad", "fair", "good"])
    assert named.facts()["targets"][0]["classes"] == ["bad", "fair", "good"]
    (predicted,) = named.read("smooth body")["predicted"]
    assert sum(predicted["probabilities"]) == pytest.approx(1, abs=1e-4)
    plain = shown(tmp_path / "plain", task).facts()
    assert plain["targets"][0]["classes"] == ["class 0", "class 1", "class 2"]


def test_own_marks_again_give_the_same_and_other_marks_another_prediction(tmp_path: Path):
    model, text = shown(tmp_path), "a smooth creamy body . thin"
    found = model.read(text)
    (rationale,) = found["rationales"]
    own = marks_of(rationale)
    assert model.predict(text, own) == found["predicted"] == found["from_marks"]
    assert model.predict(text, own[1:]) != found["predicted"]


def of_several(folder: Path, rationales: str) -> ShownModel:
    (model,), _ = models.load(given("--package", str(several_package(folder / rationales, rationales))))
    return model


@pytest.mark.parametrize("rationales", ["shared", "per_head"])
def test_every_target_is_predicted_in_its_own_terms(tmp_path: Path, rationales: str):
    model = of_several(tmp_path, rationales)
    assert model.facts()["targets"] == [
        {"name": "palate", "low": 1, "high": 5, "classes": []},
        {"name": "smell", "low": 0, "high": 1, "classes": ["bad", "fair", "good"]},
    ]
    score, classes = model.read("a smooth creamy body . thin")["predicted"]
    assert 1 < score["score"] < 5
    assert sum(classes["probabilities"]) == pytest.approx(1, abs=1e-4)
    assert model.about["data"] == "beer/palate+smell"


def test_targets_that_share_a_rationale_are_predicted_from_the_same_marks(tmp_path: Path):
    model, text = of_several(tmp_path, "shared"), "a smooth creamy body . thin"
    found = model.read(text)
    assert not model.facts()["has_own_rationales"]
    (rationale,) = found["rationales"]
    assert model.predict(text, marks_of(rationale)) == found["predicted"]
    changed = model.predict(text, marks_of(rationale)[1:])
    assert all(new != old for new, old in zip(changed, found["predicted"], strict=True))


def test_each_target_is_predicted_from_its_own_rationale_where_it_has_one(tmp_path: Path):
    model, text = of_several(tmp_path, "per_head"), "a smooth creamy body . thin"
    found = model.read(text)
    assert model.facts()["has_own_rationales"]
    palate, smell = found["rationales"]
    assert palate["is_marked"] != smell["is_marked"], "the case tells them apart"
    for number, own in enumerate((palate, smell)):
        assert own["is_marked"] == [p >= 0.5 for p in own["p"]]
        assert model.predict(text, marks_of(own))[number] == found["predicted"][number]
    assert model.predict(text, marks_of(palate))[1] != found["predicted"][1]


def test_what_is_known_of_a_model_has_the_threshold_of_each_rationale(tmp_path: Path):
    folder = several_package(tmp_path / "model", "per_head")
    described = json.loads((folder / CONFIG).read_text())
    described["threshold"], described["side_thresholds"] = 0.25, [0.75]
    (folder / CONFIG).write_text(json.dumps(described))
    write_digests(folder, (WEIGHTS, CONFIG, VOCABULARY))
    (model,), _ = models.load(given("--package", str(folder)))
    assert model.about["threshold"] == "0.25 (palate), 0.75 (smell)"
    assert of_several(tmp_path, "shared").about["threshold"] == "0.5"


def test_the_page_says_that_the_models_own_threshold_is_shown_as_half(tmp_path: Path):
    folder = small_package(tmp_path / "model")
    described = json.loads((folder / CONFIG).read_text())
    described["threshold"] = 0.933
    (folder / CONFIG).write_text(json.dumps(described))
    write_digests(folder, (WEIGHTS, CONFIG, VOCABULARY))
    (model,), _ = models.load(given("--package", str(folder)))
    (rationale,) = model.read("a smooth creamy body . thin")["rationales"]
    assert rationale["is_marked"] == [p >= 0.5 for p in rationale["p"]]
    assert model.about["threshold"] == "0.933"
    for language in WORDS:
        assert "p = 0.5" in WORDS[language]["about.threshold"]
        assert "p ≥ 0.5" in WORDS[language]["nothing"]


# ---------------------------------------------------------------------------------------------- loading


def test_a_registered_model_is_shown_by_its_name_with_version_and_run(tmp_path: Path):
    tracker = new_store(tmp_path / "store")
    version, _ = registered(tracker, small_package(tmp_path / "model"))
    tracker.client.set_registered_model_alias(NAME, "champion", str(version))
    (one, two), _ = models.load(
        given(
            *("--tracking-uri", tracker.uri, "--model", NAME, "--model", f"models:/{NAME}@challenger"),
            "--no-examples",
        )
    )
    assert [one.name, two.name] == [f"{NAME}@champion", f"{NAME}@challenger"]
    assert (one.about["version"], one.about["data"]) == (str(version), "beer/palate")


@pytest.mark.parametrize(
    ("which", "message"),
    [
        (
            "nothing@champion",
            "no alias `champion` of model `nothing`; registered models: `infocal-beer-palate`",
        ),
        (
            NAME,
            "no alias `champion` of model `infocal-beer-palate`; the model has versions 1 and aliases "
            "`challenger` = 1",
        ),
        (f"{NAME}/7", "no version 7 of model"),
        ("runs:/abc/model", "expected `models:/NAME@ALIAS` or `models:/NAME/VERSION`, but got"),
    ],
)
def test_a_model_that_is_not_there_is_named_with_what_is(tmp_path: Path, which: str, message: str):
    tracker = new_store(tmp_path / "store")
    registered(tracker, small_package(tmp_path / "model"))
    with pytest.raises(PipelineError, match=message):
        models.load(given("--tracking-uri", tracker.uri, "--model", which))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "expected format 1, but got 2"),
        ({"method": "infocal-2"}, "infocal-2"),
        ({"config": {"lambda_of_tomorrow": 1.0}}, "lambda_of_tomorrow"),
    ],
)
def test_a_model_of_a_newer_version_says_so(tmp_path: Path, change: dict[str, Any], message: str):
    folder = small_package(tmp_path / "model")
    described = json.loads((folder / CONFIG).read_text())
    for key, value in change.items():
        described[key] = described[key] | value if isinstance(value, dict) else value
    (folder / CONFIG).write_text(json.dumps(described))
    write_digests(folder, (WEIGHTS, CONFIG, VOCABULARY))
    with pytest.raises(StateError, match=message) as caught:
        models.load(given("--package", str(folder)))
    assert caught.value.hint is not None and "newer version of this project" in caught.value.hint


# --------------------------------------------------------------------------------------------- examples


def test_examples_are_validation_texts_of_the_features_that_the_model_was_trained_on(tmp_path: Path):
    folder = sample_package(tmp_path / "model")
    _, texts = models.load(given("--package", str(folder), "--cache-dir", str(sample_cache())))
    known = {" ".join(tokens) for tokens in sample_features().table("val")["tokens"].to_pylist()}
    assert len(texts) == examples.NUM_EXAMPLES and set(texts) <= known
    assert models.load(given("--package", str(folder), "--cache-dir", str(tmp_path)))[1] == []
    asked_for_none = given("--package", str(folder), "--cache-dir", str(sample_cache()), "--no-examples")
    assert models.load(asked_for_none)[1] == []


def test_examples_of_a_file_go_first(tmp_path: Path):
    file = tmp_path / "texts.txt"
    file.write_text("smooth body\n\n  被告人王某 \n")
    _, texts = models.load(given("--package", str(small_package(tmp_path / "m")), "--examples", str(file)))
    assert texts == ["smooth body", "被告人王某"]


def test_of_many_examples_the_first_are_shown_with_a_note(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    file = tmp_path / "texts.txt"
    file.write_text("".join(f"text {number}\n" for number in range(60)))
    assert examples.of_file(file) == [f"text {number}" for number in range(50)]
    assert f"note: {file}: the page shows the first 50 of the 60 texts" in caplog.messages


@pytest.mark.parametrize("uri", ["runs:/abc/model", "models:/runs:/abc/model", "https://host/model"])
def test_a_uri_of_another_kind_is_named_as_it_was_given(uri: str):
    with pytest.raises(PipelineError, match=f"expected `models:/NAME@ALIAS` .*, but got `{uri}`"):
        models.load(given("--model", uri))


def test_an_example_that_is_too_long_is_named(tmp_path: Path):
    file = tmp_path / "texts.txt"
    file.write_text("smooth\n" + "a " * examples.MAX_TEXT)
    with pytest.raises(PipelineError, match="expected texts of at most 100000 characters") as caught:
        examples.of_file(file)
    assert caught.value.where == f"{file}:2"


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["a", "smooth", "body", "."], "a smooth body ."),
        (["被告人", "王某", "盗窃", "，", "价值", "3000", "元"], "被告人王某盗窃，价值3000元"),
    ],
)
def test_tokens_become_a_text_that_is_split_into_them_again(tokens: list[str], text: str):
    assert examples.written(tokens) == text


@pytest.mark.parametrize(("num", "expected"), [(0, 0), (1, 1), (4, 4), (6, 6), (50, 6)])
def test_examples_go_from_the_lowest_target_to_the_highest(num: int, expected: int):
    targets = [(7 * i) % num for i in range(num)]
    found = examples._chosen([[f"text{target}"] for target in targets], targets)
    assert len(found) == expected
    if num:
        assert (found[0], found[-1]) == ("text0", f"text{max(targets)}")
