"""Fixed thresholds, and those that a rival gives."""

import re

import pytest

from infocal.metrics.scores import DEFINITIONS
from search_spaces import criteria
from search_spaces.base import Bound, Criterion
from search_spaces.lookup import criterion


def test_the_relative_threshold_is_the_rivals_precision_less_two_points():
    stated = criterion("beer", "palate").at_rate(0.08)
    found = criteria.relative(
        stated, 0.7614, "HardKuma", "at 8 % of the tokens, best of 10 epochs, cached", 0.1
    )
    assert str(found) == "best val_token_recall with val_token_precision >= 0.741, at 8 % of the tokens"
    assert found.why == (
        "threshold 0.741: HardKuma's validation precision of 0.761 minus 0.02, at 8 % of the tokens, best of "
        "10 epochs, cached (the paper's threshold is 0.878)"
    )


def test_a_criterion_without_a_threshold_on_precision_gets_one_and_keeps_its_bounds():
    stated = criterion("hatexplain", "").at_rate(0.5)
    found = criteria.relative(stated, 0.5, "HardKuma", "told", 0.4)
    assert str(found) == (
        "best val_hatexplain_token_f1 with val_token_precision >= 0.48, val_accuracy >= 0.61, "
        "val_selection_rate <= 0.52, at 50 % of the tokens"
    )
    assert found.why == "threshold 0.48: HardKuma's validation precision of 0.500 minus 0.02, told"


@pytest.mark.parametrize("precision", [0.01, 0.1, 0.115])
def test_a_rival_at_chance_asks_for_the_precision_of_random_rationales(precision: float):
    found = criteria.relative(criterion("beer", "palate"), precision, "HardKuma", "told", 0.1)
    assert found.bounds == (Bound(metric="val_token_precision", limit=0.1, kind="at_least"),)
    assert found.why.startswith(
        f"threshold 0.1: HardKuma's validation precision of {precision:.3f} minus 0.02, raised to 0.100, "
        "the precision of random rationales, told"
    )


@pytest.mark.parametrize(("dataset", "aspect"), [("beer", "palate"), ("hatexplain", ""), ("jsonl", "")])
def test_a_rival_is_chosen_without_a_threshold_on_precision(dataset: str, aspect: str):
    stated = criterion(dataset, aspect)
    own = criteria.for_rival(stated)
    assert isinstance(own, Criterion) and own.metric == stated.metric
    assert {bound.metric for bound in own.bounds} == {b.metric for b in stated.bounds} - {criteria.PRECISION}


def test_before_it_is_measured_the_criterion_names_the_rival():
    assert criteria.expected(criterion("beer", "palate").at_rate(0.08), "HardKuma") == (
        "best val_token_recall with val_token_precision >= (HardKuma's val_token_precision - 0.02), "
        "at 8 % of the tokens"
    )


@pytest.mark.parametrize(("density", "limit"), [(0.0, 0.0), (0.1, 0.15), (0.5, 0.75), (0.8, 0.9), (1.0, 1.0)])
def test_without_a_rival_the_threshold_lies_above_a_random_mask(density: float, limit: float):
    """A model no better than chance is not to be registered because its rival's training failed."""
    own = Criterion.parse("best val_token_f1 with val_selection_rate <= 0.5")
    found = criteria.above_chance(own, density)
    assert [str(bound) for bound in found.bounds] == [
        f"val_token_precision >= {limit:g}",
        "val_selection_rate <= 0.5",
    ]
    stated = Criterion.parse("best val_token_recall with val_token_precision >= 0.878")
    assert criteria.above_chance(stated, density) == stated


@pytest.mark.parametrize(
    "name",
    [
        "val_mse",
        "val_mae",
        "val_palate/mse",
        "val_sufficiency",
        "val_sufficiency_kl",
        "val_calibrated_sufficiency",
    ],
)
def test_what_is_lower_for_a_better_model_is_not_maximised(name: str):
    with pytest.raises(ValueError, match=f"`{name}` is lower where a model is better.*with {name} <= NUMBER"):
        criteria.as_stated(f"best {name} with val_token_precision >= 0.5")
    bounded = criteria.as_stated(f"best val_token_f1 with {name} <= 0.03")
    assert bounded.bounds[0].kind == "at_most"


@pytest.mark.parametrize(
    ("name", "meant"), [("mse", "val_mse"), ("test_mse", "val_mse"), ("val/charges/mae", "val_charges/mae")]
)
def test_the_bound_that_is_offered_is_on_validation(name: str, meant: str):
    with pytest.raises(ValueError, match=f"`with {meant} <= NUMBER`"):
        criteria.as_stated(f"best {name}")


def test_every_error_that_scores_define_is_known_as_one():
    lower = [name for name, text in DEFINITIONS.items() if re.search(r"\berror\b|rationale alone", text)]
    assert {"mse", "mae", "sufficiency"} <= set(lower)
    for name in lower:
        with pytest.raises(ValueError, match="is lower where a model is better"):
            criteria.as_stated(f"best val_{name}")
