"""A model of several targets with a rationale for each: scores, criterion, pages and printed answers."""

import dataclasses

import numpy as np
import pytest
import torch

from feature_store.store import FeatureRequest, Features, open_features
from infocal.methods.infocal.model import InfoCal
from infocal.trainer import predict
from pipeline import compare
from pipeline.base.errors import PipelineError
from pipeline.cli import compare_settings, planning
from pipeline.reporting import markup, pages
from pipeline.search import build_parser
from pipeline.tracking import assessment
from pipeline.training import scoring
from pipeline.training.loaders import embeddings_of, task_of
from pipeline.training.trainable import epoch_of, shown_predictions, with_intervals
from search_spaces import lookup
from tests.small_model import LAW
from tests.small_store import CONFIG, sample_cache
from tests.small_study import run_settings
from tests.unit.pipeline.html_reader import read

NAME = "charges+articles+terms"
TARGETS = NAME.split("+")


@pytest.fixture(scope="module")
def features() -> Features:
    return open_features(
        FeatureRequest(
            dataset="cail-small", aspect=NAME, sample=True, embedding="random", cache_dir=sample_cache()
        )
    )


@pytest.fixture(scope="module")
def model(features: Features) -> InfoCal:
    torch.manual_seed(0)
    config = dataclasses.replace(CONFIG, start_selection_rate=0.5, rationales="per_head")
    return InfoCal(config, task_of(features), embeddings_of(features)).eval()


@pytest.fixture(scope="module")
def data(features: Features) -> scoring.ValidationData:
    return scoring.ValidationData.of(features)


@pytest.fixture(scope="module")
def found(data: scoring.ValidationData, model: InfoCal) -> scoring.Validation:
    return scoring.validate(lambda batches: predict(model, batches, torch.device("cpu")), data, 0.0)


def flags(*more: str):
    given = ["--dataset", "cail-small", "--task", ",".join(TARGETS), "--sample", *more]
    return build_parser().parse_args(given)


def test_each_target_has_the_scores_of_its_own_rationale(found: scoring.Validation):
    every = [[prediction, *prediction.sides] for prediction in found.predictions]
    rates = []
    for number, target in enumerate(TARGETS):
        chosen = np.concatenate([row[number].select_probability >= 0.5 for row in every])
        rates.append(chosen.mean())
        assert found.scores[f"val_{target}/selection_rate"] == pytest.approx(chosen.mean())
    assert len(set(rates)) == 3, "the case tells them apart"
    assert found.scores["val_selection_rate"] == pytest.approx(rates[0])
    assert found.scores["val_mean/selection_rate"] == pytest.approx(np.mean(rates))
    assert "val_mean/num_documents" not in found.scores


def test_a_shared_rationale_has_one_rate_under_all_names(features: Features, data: scoring.ValidationData):
    config = dataclasses.replace(CONFIG, start_selection_rate=0.5)
    shared = InfoCal(config, task_of(features), embeddings_of(features)).eval()
    scores = scoring.validate(lambda b: predict(shared, b, torch.device("cpu")), data, 0.0).scores
    names = [f"val_{target}/selection_rate" for target in (*TARGETS, "mean")]
    assert {scores[name] for name in names} == {scores["val_selection_rate"]}


def test_a_trivial_rationale_of_a_target_that_counts_is_found(
    features: Features, model: InfoCal, monkeypatch: pytest.MonkeyPatch
):
    bias = model.selector.output.bias.detach().clone()
    with torch.no_grad():
        model.selector.output.bias[2] = -50.0  # nothing is selected for the terms

    def degenerate(weights: str) -> str | None:
        config = dataclasses.replace(model.config, target_weights=weights)
        data = scoring.ValidationData.of(features, config)
        return scoring.validate(
            lambda batches: predict(model, batches, torch.device("cpu")), data, 0.0
        ).degenerate

    assert degenerate("") == "degenerate_none"
    assert degenerate("terms=0") is None
    with torch.no_grad():
        model.selector.output.bias.copy_(bias)


def test_bounds_of_the_criterion_are_of_the_target_that_it_reads(found: scoring.Validation):
    given = flags("--criterion-target", "terms", "--set", "rationales=per_head")
    run = planning.run_settings(given, {})
    stated = lookup.criterion("cail-small", "charges")
    assert run.criterion.metric == "val_terms/macro_f1"
    assert [(b.metric, b.limit, b.kind) for b in run.criterion.bounds] == [
        ("val_terms/selection_rate", b.limit, b.kind) for b in stated.bounds
    ]
    held = run.criterion.at_rate(0.3)
    assert [b.limit for b in held.bounds] == [b.limit for b in stated.at_rate(0.3).bounds]
    epoch = with_intervals(
        epoch_of(run.criterion, found, 0, is_result=True),
        run_settings(dataset="cail-small", aspect=NAME, criterion=run.criterion),
        found,
    )
    assert not any("selection_rate" in name for name in epoch.intervals)
    shared = planning.run_settings(flags("--criterion-target", "terms"), {}).criterion
    assert [bound.metric for bound in shared.bounds] == [bound.metric for bound in stated.bounds]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--method", "attention"], "`rationales` = per_head needs a method with a selector"),
        (["--method", "fresh"], "`rationales` = per_head needs a method with a selector"),
        (["--method", "fresh", "--set", "saliency=gradient"], "per_head needs a method with a selector"),
        (["--method", "topjudge"], "`rationales` = per_head needs a method with a selector"),
        (["--task", "charges"], "`rationales` = per_head needs several targets, but there is one"),
    ],
)
def test_it_is_refused_before_anything_is_built(more: list[str], message: str):
    with pytest.raises(PipelineError, match=message) as caught:
        planning.run_settings(flags("--set", "rationales=per_head", *more), {})
    assert caught.value.where == "--set" and "leave it out, or " in (caught.value.hint or "")


def test_a_comparison_gives_it_to_the_methods_with_a_selector_alone():
    given = ["--dataset", "cail-small", "--task", ",".join(TARGETS), "--sample", "--methods", "infocal,fresh"]
    rate = ["--target-selection-rate", "0.2"]
    parsed = compare.build_parser().parse_args([*given, *rate, "--set", "infocal.rationales=per_head"])
    runs = compare_settings.new_comparison(parsed, []).runs
    assert [run.config().num_rationales(LAW) for run in runs] == [3, 1]
    parsed = compare.build_parser().parse_args([*given, *rate, "--set", "rationales=per_head"])
    with pytest.raises(PipelineError, match="fresh: `rationales` = per_head needs a method") as caught:
        compare_settings.new_comparison(parsed, [])
    assert "`--set infocal.rationales=per_head`" in (caught.value.hint or "")


def test_pages_show_the_rationale_of_each_target(features: Features, found: scoring.Validation):
    shown = shown_predictions(found, features)
    first = found.predictions[0]
    for side, own in zip(shown[0]["sides"], first.sides, strict=True):
        assert side["selected"] == [int(p >= 0.5) for p in own.select_probability]
    (text, *_) = markup.marked_texts(shown[:1])
    for side, own in zip(text.sides, first.sides, strict=True):
        assert side.num_selected == int((own.select_probability >= 0.5).sum())
        assert "".join(word.text for word in side.tokens) == "".join(shown[0]["tokens"])
    words = read(pages.rationale_page(title="t", predictions=shown[:1], note="")).words
    assert "Model, for charges" in words
    for side in text.sides:
        assert f"Model, for {side.name}: {side.num_selected} selected" in words
    shown[0]["sides"][0]["selected"].pop()
    with pytest.raises(PipelineError, match="marks of the model"):
        markup.marked_texts(shown[:1])


def test_a_reading_has_a_row_and_the_faithfulness_of_each_target(features: Features, model: InfoCal):
    scored = scoring.score_test(model, features, None, lambda scores: None)
    for target in TARGETS:
        assert -1 <= scored.scores[f"test_{target}/sufficiency"] <= 1
    assert scored.scores["test_sufficiency"] == scored.scores["test_charges/sufficiency"]
    text = assessment.describe(assessment.Subject("m", model, features, None, "run", {}), scored)
    for side in TARGETS[1:]:
        (row,) = [line for line in text.splitlines() if line.startswith(f"model, for {side}")]
        assert f"{scored.scores[f'test_{side}/selection_rate']:.4f}" in row
        assert f"{side}: faithfulness: " in text
