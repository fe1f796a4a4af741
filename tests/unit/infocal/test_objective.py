"""J_total, the ramp and the control of the selection rate."""

import dataclasses

import pytest
import torch

from infocal.config import InfoCalConfig
from infocal.objective import RateControl, pressure, total
from tests.small_model import small_config

TERMS = {
    "sp": 2.0,
    "guide": 3.0,
    "g": 5.0,
    "mi": 7.0,
    "ib": 11.0,
    "lm": 13.0,
    "coherence": 17.0,
    "rate": 19.0,
}
WEIGHTS = {
    "lambda_ib": "ib",
    "lambda_g": "g",
    "lambda_mi": "mi",
    "lambda_lm": "lm",
    "lambda_coherence": "coherence",
}


def j_total(press=1.0, terms=TERMS, **weights):
    tensors = {name: torch.tensor(value, dtype=torch.float64) for name, value in terms.items()}
    return total(tensors, InfoCalConfig.from_mapping(weights), press).item()


# ---------------------------------------------------------------- J_total


def test_golden_value():
    # 2 + .0003*11 + 1*5 + 3 + .1*7 + .005*13 at the paper's weights, without what it does not have
    papers = {"lambda_ib": 0.0003, "lambda_g": 1.0, "lambda_mi": 0.1, "lambda_lm": 0.005}
    value = j_total(terms=TERMS | {"rate": 0.0}, lambda_coherence=0.0, **papers)
    assert value == pytest.approx(10.7683, abs=1e-12)


@pytest.mark.parametrize(("weight", "term"), WEIGHTS.items())
@pytest.mark.parametrize("press", [0.0, 0.25, 1.0])
def test_each_weight_applies_once_and_by_name(weight, term, press):
    start = getattr(InfoCalConfig(), weight)
    slope = j_total(press, **{weight: start + 1}) - j_total(press, **{weight: start})
    assert slope == pytest.approx(TERMS[term] * press, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("term", TERMS)
def test_each_term_enters_with_its_weight(term):
    names = {v: k for k, v in WEIGHTS.items()}
    config = InfoCalConfig(lambda_coherence=0.3)
    weight = getattr(config, names[term]) if term in names else 1.0
    more = TERMS | {term: TERMS[term] + 1}
    slope = j_total(terms=more, lambda_coherence=0.3) - j_total(lambda_coherence=0.3)
    assert slope == pytest.approx(weight, abs=1e-9)


@pytest.mark.parametrize("press", [0.0, 0.25])
@pytest.mark.parametrize("term", ["sp", "guide", "rate"])
def test_what_has_no_weight_is_under_no_pressure(term, press):
    more = TERMS | {term: TERMS[term] + 1}
    assert j_total(press, terms=more) - j_total(press) == pytest.approx(1.0, abs=1e-9)


def test_a_weight_is_whatever_a_config_calls_a_lambda():
    assert set(WEIGHTS) == {f.name for f in dataclasses.fields(InfoCalConfig) if f.name.startswith("lambda_")}


# ---------------------------------------------------------------- the ramp


@pytest.mark.parametrize(
    ("epochs_done", "expected"),
    [(0.0, 0.0), (0.999, 0.0), (1.0, 0.0), (1.5, 1 / 3), (1.75, 0.5), (2.5, 1.0), (9.0, 1.0)],
)
def test_pressure_is_zero_then_rises_then_stays(epochs_done, expected):
    config = InfoCalConfig(dense_epochs=1.0, ramp_epochs=1.5)
    assert pressure(config, epochs_done) == pytest.approx(expected, abs=1e-12)


def test_no_ramp_is_a_step():
    config = InfoCalConfig(dense_epochs=2.0, ramp_epochs=0.0)
    assert [pressure(config, e) for e in (0.0, 1.99, 2.0, 3.0)] == [0.0, 0.0, 1.0, 1.0]


def test_no_dense_start_and_no_ramp_is_full_pressure_at_once():
    assert pressure(small_config(), 0.0) == 1.0


# ---------------------------------------------------------------- the rate control


def rate_control(**changes):
    values = {
        "target_selection_rate": 0.2,
        "start_selection_rate": 0.9,
        "rate_penalty": 5.0,
        "rate_step_size": 0.5,
    }
    return RateControl(small_config(**values | changes))


def push(controller, rate, press=1.0):
    """The loss at a rate and its derivative by the rate."""
    x = torch.tensor(rate, requires_grad=True)
    loss = controller(x, press)
    loss.backward()
    return loss.item(), x.grad.item()


def test_golden_values_of_two_updates():
    controller = rate_control()
    # excess .3: multiplier .15; loss .15*.3 + 5*.09 = .495, slope .15 + 2*5*.3 = 3.15
    assert push(controller, 0.5) == pytest.approx((0.495, 3.15), rel=1e-5)
    # excess -.1: multiplier .15 - .05 = .1; loss -.01 + .05 = .04, slope .1 - 1 = -.9
    assert push(controller, 0.1) == pytest.approx((0.04, -0.9), rel=1e-4)


def test_nothing_when_off():
    controller = rate_control(target_selection_rate=0.0)
    rate = torch.tensor(0.7, requires_grad=True)
    assert controller(rate, 1.0).item() == 0.0
    assert controller.multiplier.item() == 0.0


@pytest.mark.parametrize(("rate", "sign"), [(0.6, 1), (0.21, 1), (0.19, -1), (0.01, -1)])
def test_pushes_towards_the_target_from_both_sides(rate, sign):
    assert push(rate_control(), rate)[1] * sign > 0


def test_rests_at_the_target():
    assert push(rate_control(), 0.2) == pytest.approx((0.0, 0.0), abs=1e-6)


@pytest.mark.parametrize(("press", "target"), [(0.0, 0.9), (0.5, 0.55), (1.0, 0.2)])
def test_the_target_falls_from_the_start_as_the_pressure_rises(press, target):
    assert push(rate_control(), target + 0.02, press)[1] > 0
    assert push(rate_control(), target - 0.02, press)[1] < 0


@pytest.mark.parametrize("start", [0.5, 0.99])
def test_while_dense_it_rests_at_the_start(start):
    # at a target of 1 every p would be driven to where it has no gradient
    controller = rate_control(start_selection_rate=start)
    assert push(controller, start, press=0.0) == pytest.approx((0.0, 0.0), abs=1e-6)
    assert push(controller, start + 0.005, press=0.0)[1] > 0


@pytest.mark.parametrize(("rate", "limit"), [(1.0, 30.0), (0.0, -30.0)])
def test_the_multiplier_is_clamped(rate, limit):
    controller = rate_control(rate_step_size=100.0)
    for _ in range(5):
        push(controller, rate)
    assert controller.multiplier.item() == limit == (RateControl.LIMIT if rate else -RateControl.LIMIT)


def test_a_standing_error_pushes_harder_with_time():
    controller = rate_control()
    slopes = [push(controller, 0.4)[1] for _ in range(3)]
    assert slopes == sorted(set(slopes))


def test_a_loss_is_not_changed_by_later_updates():
    # autograd would refuse a multiplier that was overwritten before the backward pass
    controller = rate_control()
    rate = torch.tensor(0.5, requires_grad=True)
    (controller(rate, 1.0) + controller(rate, 1.0)).backward()
    assert rate.grad.item() == pytest.approx(0.15 + 0.3 + 2 * 3.0, rel=1e-5)


def test_state_survives():
    controller, other = rate_control(), rate_control()
    push(controller, 0.9)
    other.load_state_dict(controller.state_dict())
    assert other.multiplier.item() == controller.multiplier.item() != 0.0
    assert push(other, 0.3) == push(controller, 0.3)


@pytest.mark.parametrize(("num_rationales", "shape"), [(1, ()), (2, (2,)), (3, (3,))])
def test_each_rationale_has_a_multiplier_of_its_own(num_rationales: int, shape: tuple[int, ...]):
    assert RateControl(small_config(), num_rationales).multiplier.shape == shape
