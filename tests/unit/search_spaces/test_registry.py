"""Look-ups by name, the paper's grids and criteria, presets."""

import tomllib
from pathlib import Path

import pytest

from infocal.config import LanguageModelConfig
from infocal.errors import ConfigError
from search_spaces import registry
from search_spaces.base import Bound

PRESETS = tomllib.loads(
    (Path(registry.__file__).parent / "presets" / "beer.toml").read_text(encoding="utf-8")
)
ASPECTS = ("appearance", "smell", "palate")


def test_spaces_by_name():
    assert ("infocal", "beer") in registry.methods_and_datasets()
    assert registry.space_names("infocal", "beer") == ["paper", "wide"]


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
    ranges = {r.name: r for r in registry.space("infocal", "beer", "paper")}
    assert len(ranges) == 4
    assert list(ranges[name].grid) == pytest.approx(points, abs=1e-15)
    assert len(points) == count


def test_the_papers_best_point():
    point = registry.first_point("infocal", "beer")
    assert point == {"lambda_ib": 0.0003, "lambda_g": 1.0, "lambda_mi": 0.1, "lambda_lm": 0.005}
    point["lambda_ib"] = 9.0
    assert registry.first_point("infocal", "beer")["lambda_ib"] == 0.0003


@pytest.mark.parametrize(("aspect", "limit"), [("appearance", 0.961), ("smell", 0.948), ("palate", 0.878)])
def test_the_papers_criteria(aspect, limit):
    found = registry.criterion("beer", aspect)
    assert found.metric == "val_token_recall"
    assert list(found.bounds) == [Bound(metric="val_token_precision", limit=limit, kind="at_least")]


@pytest.mark.parametrize(
    ("look_up", "message", "hint"),
    [
        (
            lambda: registry.space("infocal", "beer", "papr"),
            "--space: no search space of infocal on beer `papr`; it has `paper`, `wide`",
            "did you mean `--space paper`?",
        ),
        *(
            (
                look_up,
                "--dataset: no search space for dataset `bear`; it has `beer`",
                "did you mean `--dataset beer`?",
            )
            for look_up in (
                lambda: registry.space("infocal", "bear", "paper"),
                lambda: registry.space_names("infocal", "bear"),
                lambda: registry.first_point("infocal", "bear"),
            )
        ),
        *(
            (
                look_up,
                "--method: no search space on beer for method `infocl`; it has `infocal`",
                "did you mean `--method infocal`?",
            )
            for look_up in (
                lambda: registry.space("infocl", "beer", "paper"),
                lambda: registry.space_names("infocl", "beer"),
                lambda: registry.first_point("infocl", "beer"),
            )
        ),
        *(
            (
                look_up,
                "--dataset: no preset for dataset `bear`; it has `beer`",
                "did you mean `--dataset beer`?",
            )
            for look_up in (
                lambda: registry.preset("bear", "palate", sample=False),
                lambda: registry.language_model_preset("bear", sample=True),
            )
        ),
        (
            lambda: registry.preset("../presets/beer", "palate", sample=False),
            "--dataset: no preset for dataset `../presets/beer`; it has `beer`",
            None,
        ),
        (
            lambda: registry.criterion("bear", "palate"),
            "--dataset: no criterion for dataset `bear`; it has `beer`",
            "did you mean `--dataset beer`?",
        ),
        (
            lambda: registry.criterion("beer", "palete"),
            "--aspect: no criterion for aspect `palete`; it has `appearance`, `smell`, `palate`",
            "did you mean `--aspect palate`?",
        ),
        (
            lambda: registry.criterion("beer", "xyzzy"),
            "--aspect: no criterion for aspect `xyzzy`; it has `appearance`, `smell`, `palate`",
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
    preset = registry.preset("beer", aspect, sample=False)
    assert PRESETS[aspect]["target_selection_rate"] > 0
    assert PRESETS[aspect].items() <= preset.items()
    rest = {name: value for name, value in PRESETS["all"].items() if name not in PRESETS[aspect]}
    assert rest
    assert preset == PRESETS[aspect] | rest


def test_the_aspects_select_as_different_shares_as_the_papers():
    rates = [registry.preset("beer", aspect, sample=False)["target_selection_rate"] for aspect in ASPECTS]
    # table 2 of [Sha2023]: 13, 7 and 7 %
    assert rates == pytest.approx([0.13, 0.07, 0.07], abs=0.02)


@pytest.mark.parametrize("aspect", ASPECTS)
def test_the_samples_preset_goes_before_both(aspect):
    full, sample = (registry.preset("beer", aspect, sample=s) for s in (False, True))
    # every aspect of the sample corpus has the same share of rationale, by construction
    assert sample["target_selection_rate"] == 0.18 != full["target_selection_rate"]
    assert PRESETS["sample"].items() <= sample.items()
    rest = {name: value for name, value in full.items() if name not in PRESETS["sample"]}
    assert rest
    assert sample == PRESETS["sample"] | rest


def test_the_language_models_preset():
    assert registry.language_model_preset("beer", sample=False) == PRESETS.get("language_model", {})
    sample = registry.language_model_preset("beer", sample=True)
    assert sample == PRESETS.get("language_model", {}) | PRESETS["sample_language_model"]
    assert sample["hidden_size"] < LanguageModelConfig().hidden_size
