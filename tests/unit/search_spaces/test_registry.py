"""Look-ups by name, the paper's grids and criteria, presets."""

import pytest

from infocal.errors import ConfigError
from search_spaces import registry
from search_spaces.base import Bound


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


def test_an_aspects_preset_goes_before_the_datasets():
    palate, smell = (registry.preset("beer", aspect, sample=False) for aspect in ("palate", "smell"))
    assert palate["target_selection_rate"] == 0.08
    assert smell["target_selection_rate"] == 0.07
    assert {k: v for k, v in palate.items() if k != "target_selection_rate"} == {
        k: v for k, v in smell.items() if k != "target_selection_rate"
    }


def test_the_samples_preset_goes_before_both():
    full, sample = (registry.preset("beer", "palate", sample=s) for s in (False, True))
    assert (full["batch_size"], sample["batch_size"], sample["hidden_size"]) == (64, 32, 64)
    assert sample["target_selection_rate"] == full["target_selection_rate"]
    assert "hidden_size" not in full


def test_the_language_models_preset():
    assert registry.language_model_preset("beer", sample=False) == {}
    assert registry.language_model_preset("beer", sample=True) == {"hidden_size": 64, "batch_size": 32}
