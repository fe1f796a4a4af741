"""Look-ups by name, the paper's grids and criteria, presets."""

import tomllib
from pathlib import Path

import pytest

from infocal.errors import ConfigError
from infocal.language_model_config import LanguageModelConfig
from search_spaces import lookup
from search_spaces.base import Bound
from search_spaces.infocal import BEER_SHARES
from search_spaces.variants import VARIANTS

PRESETS = tomllib.loads((Path(lookup.__file__).parent / "presets" / "beer.toml").read_text(encoding="utf-8"))
DATASETS = ", ".join(f"`{dataset}`" for dataset in dict.fromkeys(d for _, d in lookup.methods_and_datasets()))
METHODS = ", ".join(f"`{name}`" for name in lookup.method_names())
PRESET_NAMES = ", ".join(
    f"`{path.stem}`" for path in sorted((Path(lookup.__file__).parent / "presets").glob("*.toml"))
)
ASPECTS = ("appearance", "smell", "palate")


def test_spaces_by_name():
    assert ("infocal", "beer") in lookup.methods_and_datasets()
    assert lookup.space_names("infocal", "beer") == ["paper", "wide"]


@pytest.mark.parametrize(
    ("name", "points", "count"),
    [
        # [Sha2023], section 4.2: (0, .001] by .0001; [.2, 2] by .2; [0, 1] by .1; [0, .010] by .001
        ("lambda_ib", [i / 10_000 for i in range(1, 11)], 10),
        ("lambda_g", [i / 10 for i in range(2, 21, 2)], 10),
        ("lambda_mi", [i / 10 for i in range(11)], 11),
        ("lambda_lm", [i / 1000 for i in range(11)], 11),
    ],
)
def test_the_papers_grids(name, points, count):
    ranges = {r.name: r for r in lookup.space("infocal", "beer", "paper")}
    assert len(ranges) == 4
    assert list(ranges[name].grid) == pytest.approx(points, abs=1e-15)
    assert len(points) == count


def test_the_papers_best_point():
    point, of_wide = lookup.first_points("infocal", "beer")
    assert all(r.contains(of_wide[r.name]) for r in lookup.space("infocal", "beer", "wide"))
    assert point == {"lambda_ib": 0.0003, "lambda_g": 1.0, "lambda_mi": 0.1, "lambda_lm": 0.005}
    point["lambda_ib"] = 9.0
    assert lookup.first_points("infocal", "beer")[0]["lambda_ib"] == 0.0003


@pytest.mark.parametrize(("aspect", "limit"), [("appearance", 0.961), ("smell", 0.948), ("palate", 0.878)])
def test_the_papers_criteria(aspect, limit):
    found = lookup.criterion("beer", aspect)
    assert found.metric == "val_token_recall"
    assert list(found.bounds) == [Bound(metric="val_token_precision", limit=limit, kind="at_least")]


@pytest.mark.parametrize(
    ("look_up", "message", "hint"),
    [
        (
            lambda: lookup.space("infocal", "beer", "papr"),
            "--space: unknown search space `papr`; known: `paper`, `wide`",
            "did you mean `--space paper`?",
        ),
        *(
            (
                look_up,
                f"--dataset: no search space for dataset `bear`; known: {DATASETS}",
                "did you mean `--dataset beer`?",
            )
            for look_up in (
                lambda: lookup.space("infocal", "bear", "paper"),
                lambda: lookup.space_names("infocal", "bear"),
                lambda: lookup.first_points("infocal", "bear"),
            )
        ),
        *(
            (
                look_up,
                f"--method: unknown method `infocl`; known: {METHODS}",
                "did you mean `--method infocal`?",
            )
            for look_up in (
                lambda: lookup.space("infocl", "beer", "paper"),
                lambda: lookup.space_names("infocl", "beer"),
                lambda: lookup.first_points("infocl", "beer"),
            )
        ),
        *(
            (
                look_up,
                f"--dataset: no preset for dataset `bear`; known: {PRESET_NAMES}",
                "did you mean `--dataset beer`?",
            )
            for look_up in (
                lambda: lookup.preset("infocal", "bear", "palate", sample=False),
                lambda: lookup.language_model_preset("bear", sample=True),
            )
        ),
        (
            lambda: lookup.preset("infocal", "../presets/beer", "palate", sample=False),
            f"--dataset: no preset for dataset `../presets/beer`; known: {PRESET_NAMES}",
            None,
        ),
        (
            lambda: lookup.criterion("bear", "palate"),
            f"--dataset: no criterion for dataset `bear`; known: {DATASETS}",
            "did you mean `--dataset beer`?",
        ),
        (
            lambda: lookup.criterion("beer", "palete"),
            "--aspect: no criterion for aspect `palete`; known: `appearance`, `smell`, `palate`",
            "did you mean `--aspect palate`?",
        ),
        (
            lambda: lookup.criterion("beer", "xyzzy"),
            "--aspect: no criterion for aspect `xyzzy`; known: `appearance`, `smell`, `palate`",
            None,
        ),
    ],
)
def test_unknown_names(look_up, message, hint):
    with pytest.raises(ConfigError) as caught:  # noqa: PT011 - the whole message is compared
        look_up()
    assert str(caught.value) == message
    assert caught.value.hint == hint


@pytest.mark.parametrize("aspect", ASPECTS)
def test_an_aspects_preset_goes_before_the_datasets(aspect):
    preset = lookup.preset("infocal", "beer", aspect, sample=False)
    assert PRESETS[aspect]["target_selection_rate"] > 0
    assert PRESETS[aspect].items() <= preset.items()
    rest = {name: value for name, value in PRESETS["all"].items() if name not in PRESETS[aspect]}
    assert rest
    assert preset == PRESETS[aspect] | rest | PRESETS["infocal"]


def test_the_aspects_select_as_different_shares_as_the_papers():
    rates = [
        lookup.preset("infocal", "beer", aspect, sample=False)["target_selection_rate"] for aspect in ASPECTS
    ]
    # table 2 of [Sha2023]: 13, 7 and 7 %
    assert rates == pytest.approx([0.13, 0.07, 0.07], abs=0.02)


@pytest.mark.parametrize("aspect", ASPECTS)
def test_the_samples_preset_goes_before_both(aspect):
    full, sample = (lookup.preset("infocal", "beer", aspect, sample=s) for s in (False, True))
    # every aspect of the sample corpus has the same share of rationale, by construction
    assert sample["target_selection_rate"] == 0.18 != full["target_selection_rate"]
    assert PRESETS["sample"].items() <= sample.items()
    rest = {name: value for name, value in full.items() if name not in PRESETS["sample"]}
    assert rest
    assert sample == PRESETS["sample"] | rest


def test_the_language_models_preset():
    assert lookup.language_model_preset("beer", sample=False) == PRESETS.get("language_model", {})
    sample = lookup.language_model_preset("beer", sample=True)
    assert sample == PRESETS.get("language_model", {}) | PRESETS["sample_language_model"]
    assert sample["hidden_size"] < LanguageModelConfig().hidden_size


CAIL_LIMITS = {
    ("cail-small", "charges"): 0.14,
    ("cail-small", "articles"): 0.14,
    ("cail-small", "terms"): 0.30,
    ("cail-big", "charges"): 0.20,
    ("cail-big", "articles"): 0.20,
    ("cail-big", "terms"): 0.30,
}
"""Share of tokens that InfoCal selects in [Sha2023], table 5."""


@pytest.mark.parametrize(("dataset", "aspect"), CAIL_LIMITS)
def test_criteria_of_cail(dataset, aspect):
    limit = CAIL_LIMITS[dataset, aspect]
    found = lookup.criterion(dataset, aspect)
    assert found.value({"val_macro_f1": 0.7, "val_selection_rate": limit}) == 0.7
    assert found.value({"val_macro_f1": 0.7, "val_selection_rate": limit + 0.05}) == pytest.approx(-0.05)
    assert found.value({"val_macro_f1": 0.7, "val_selection_rate": 0.0}) == pytest.approx(-0.01)


@pytest.mark.parametrize(("dataset", "aspect"), CAIL_LIMITS)
def test_the_rate_that_cail_aims_at_meets_the_criterion(dataset, aspect):
    target = lookup.preset("infocal", dataset, aspect, sample=False)["target_selection_rate"]
    assert lookup.criterion(dataset, aspect).is_met({"val_macro_f1": 0.0, "val_selection_rate": target})


@pytest.mark.parametrize("dataset", ["cail-small", "cail-big"])
def test_the_papers_space_of_cail(dataset):
    # [Sha2023], section 4.3: [0, .10] by .01; the other three as for beer
    ranges = {r.name: r for r in lookup.space("infocal", dataset, "paper")}
    assert list(ranges["lambda_ib"].grid) == pytest.approx([i / 100 for i in range(11)], abs=1e-15)
    beer = {r.name: r for r in lookup.space("infocal", "beer", "paper")}
    assert all(ranges[name] == beer[name] for name in ("lambda_g", "lambda_mi", "lambda_lm"))
    best = {"lambda_ib": 0.05, "lambda_g": 1.0, "lambda_mi": 0.5, "lambda_lm": 0.005}
    assert lookup.first_points("infocal", dataset)[0] == best


@pytest.mark.parametrize("dataset", ["cail-small", "cail-big"])
def test_the_papers_architecture_of_cail(dataset):
    stated = {"encoder": "lstm", "hidden_size": 100, "train_embeddings": True, "max_length": 1000}
    preset = lookup.preset("infocal", dataset, "charges", sample=False)
    assert preset.items() >= (stated | {"prior_selection_rate": 0.1}).items()
    # not the random vectors of [Sha2023]: see the preset
    assert lookup.features_preset(dataset) == {"embedding": "word2vec", "embedding_size": 100}


def test_word_vectors_of_beer_are_the_defaults():
    assert lookup.features_preset("beer") == {}


OWN = ("jsonl", "eraser")


@pytest.mark.parametrize("dataset", OWN)
@pytest.mark.parametrize(
    ("kind", "has_rationales", "metric", "most"),
    [
        ("classification", True, "val_token_f1", 0.5),
        ("regression", True, "val_token_f1", 0.5),
        ("classification", False, "val_macro_f1", 0.3),
        ("regression", False, "val_explained_rate", 0.3),
    ],
)
def test_the_criterion_of_own_data_follows_what_they_hold(dataset, kind, has_rationales, metric, most):
    assert lookup.depends_on_data(dataset)
    found = lookup.settled_criterion(dataset, "", kind, has_rationales)
    assert found.metric == metric
    scores = {"val_explained_rate": 0.5, metric: 0.7, "val_selection_rate": most}
    assert found.value(scores) == 0.7
    assert found.value(scores | {"val_selection_rate": most + 0.1}) == pytest.approx(-0.1)
    assert found.value(scores | {"val_selection_rate": 0.0}) == pytest.approx(-0.01), "nothing is no reason"
    unlearnt = scores | {"val_explained_rate": 0.0}
    assert found.is_met(unlearnt) == (kind == "classification"), "no better than the mean score"


def test_every_other_criterion_is_settled_from_the_start():
    stated = lookup.criterion("beer", "palate")
    assert not lookup.depends_on_data("beer")
    assert lookup.settled_criterion("beer", "palate", "regression", False) is stated


@pytest.mark.parametrize("dataset", OWN)
def test_own_data_have_beers_grid_with_a_reason_of_their_own(dataset):
    own, beer = (lookup.space("infocal", which, "paper") for which in (dataset, "beer"))
    assert [(r.name, r.low, r.high, r.step, r.log) for r in own] == [
        (r.name, r.low, r.high, r.step, r.log) for r in beer
    ]
    assert all("own" in r.why for r in own)


@pytest.mark.parametrize("dataset", OWN)
def test_own_data_have_a_decade_on_each_side_of_beers_best(dataset):
    best = lookup.first_points("infocal", "beer")[0]
    own = lookup.space("infocal", dataset, "wide")
    assert {r.name for r in own} == set(best)
    for r in own:
        assert (r.low, r.high) == pytest.approx((best[r.name] / 10, best[r.name] * 10))
        assert r.log and "own" in r.why


def test_the_wide_space_of_beer_reaches_from_hardly_heard_to_as_loud_as_the_prediction():
    best = lookup.first_points("infocal", "beer")[0]
    for r in lookup.space("infocal", "beer", "wide"):
        share = BEER_SHARES[r.name] / best[r.name]
        # the ends are rounded to one digit
        assert share * r.low == pytest.approx(0.03, rel=0.2)
        assert share * r.high == pytest.approx(1.0, rel=0.3)


def test_hatexplains_criterion_and_definitions():
    found = lookup.criterion("hatexplain", "")
    assert found.metric == "val_hatexplain_token_f1"
    assert [(b.metric, b.limit, b.kind) for b in found.bounds] == [
        ("val_accuracy", 0.61, "at_least"),
        ("val_selection_rate", 0.5, "at_most"),
    ]
    assert found.metrics == ("val_hatexplain_token_f1", "val_accuracy", "val_selection_rate")
    everything = {"val_hatexplain_token_f1": 0.5, "val_accuracy": 0.7, "val_selection_rate": 1.0}
    assert found.value(everything) == -0.5, "selecting every token does not win"


@pytest.mark.parametrize(
    ("dataset", "mode"), [("beer", "paper"), ("hatexplain", "hatexplain"), ("one of its own", "eraser")]
)
def test_the_metric_mode_of_each_dataset(dataset, mode):
    assert lookup.metric_mode(dataset) == mode


def test_no_space_of_hatexplain_is_called_the_papers_without_saying_that_it_is_ours():
    for range_ in lookup.space("infocal", "hatexplain", "paper"):
        assert range_.why.startswith("ours, because [Sha2023] states no range for HateXplain")


@pytest.mark.parametrize(
    ("num_texts", "batch_size", "dense_epochs", "ramp_epochs"),
    [
        (9000, 32, 1, 1.5),  # beer's size: the presets' start
        (3200, 32, 3, 4.5),
        (3199, 16, 1.5, 2.5),
        (400, 8, 6, 8.5),
        (100, 8, 22, 32.5),
    ],
)
def test_the_start_on_own_data_is_as_many_updates_as_on_beer(
    num_texts, batch_size, dense_epochs, ramp_epochs
):
    settled = lookup.settled_preset("jsonl", num_texts)
    assert settled == {
        "batch_size": batch_size,
        "dense_epochs": dense_epochs,
        "ramp_epochs": ramp_epochs,
        "train_embeddings": num_texts < 3200,
    }
    assert lookup.settled_preset("beer", num_texts) == {}


# ---------------------------------------------------------------- methods and variants


def test_a_preset_of_a_method_goes_over_those_of_all():
    assert PRESETS["infocal"].items() <= lookup.preset("infocal", "beer", "palate", sample=True).items()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_its_method_with_what_it_fixes(name):
    variant = VARIANTS[name]
    assert lookup.implementation(name) is lookup.implementation(variant.method)
    own = lookup.preset(name, "beer", "palate", sample=False)
    assert own == lookup.preset(variant.method, "beer", "palate", sample=False) | variant.fixed
    ranges = {r.name for r in lookup.space(variant.method, "beer", "paper")}
    assert {r.name for r in lookup.space(name, "beer", "paper")} == ranges - set(variant.fixed)
    assert lookup.fixed_by(name) == variant.fixed
    assert lookup.fixed_by(variant.method) == {}


def test_variants_are_rows_of_their_own():
    configs = [
        lookup.implementation(name).config_class().from_mapping(lookup.preset(name, "beer", "palate", False))
        for name in ("infocal", *VARIANTS)
    ]
    assert len(set(configs)) == len(configs)
    assert [config.is_dense for config in configs].count(True) == 1


@pytest.mark.parametrize(
    ("method", "explainer", "title"),
    [
        ("birnn_attn", "attention", "BiRNN-Attn [Attn]"),
        ("birnn_attn", "lime", "BiRNN-Attn [LIME]"),
        ("cnn_gru", "gradient_x_input", "CNN-GRU"),
        ("cnn_gru", "lime", "CNN-GRU [LIME]"),
        ("birnn", "integrated_gradients", "BiRNN [integrated gradients]"),
        ("attention", "gradient_x_input", "Attention [gradient x input]"),
    ],
)
def test_a_classifier_is_called_by_its_explainer(method: str, explainer: str, title: str):
    config = lookup.implementation(method).config_class()
    assert lookup.title_with(method, config(explainer=explainer)) == title
    assert lookup.title_with("infocal", lookup.implementation("infocal").config_class()()) == "InfoCal"
