import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import PipelineError
from pipeline.study.packing import MAX_TRIALS, SAFETY_RATE, Measurement, described, packing, smallest

GIB = 2**30
CARD = Measurement(card="T4", total=16 * GIB, reserved=2 * GIB, overhead=GIB // 2, num_cpus=64.0)


def card(**changes: Any) -> Measurement:
    return dataclasses.replace(CARD, **changes)


def rays(fraction: float) -> int:
    """What Ray makes of a fraction: ten-thousandths, rounded."""
    return round(fraction * 10_000)


@pytest.mark.parametrize(
    ("measured", "cpus_per_trial", "num_trials"),
    [
        (CARD, 1.0, 5),  # 0.9 x 16 / 2.5 = 5.76
        (card(reserved=6 * GIB), 1.0, 2),  # 14.4 / 6.5
        (card(reserved=7 * GIB), 1.0, 1),  # 14.4 / 7.5
        (card(reserved=int(15.4 * GIB)), 1.0, 1),  # more than is given out, less than there is
        (card(num_cpus=8.0), 2.0, 4),  # of its node's cores
        (card(num_cpus=0.3), 0.1, 3),  # 0.3 / 0.1 lies just below 3
        (card(num_cpus=1.0), 2.0, 1),  # Ray decides whether it starts
        (card(reserved=1, overhead=1), 1.0, MAX_TRIALS),
    ],
)
def test_as_many_trials_as_memory_cores_and_the_bound_allow(
    measured: Measurement, cpus_per_trial: float, num_trials: int
):
    assert packing(measured, cpus_per_trial).num_trials == num_trials


@pytest.mark.parametrize("num_trials", range(1, MAX_TRIALS + 1))
def test_ray_lets_just_so_many_share_a_card(num_trials: int):
    chosen = packing(card(reserved=1, overhead=1, num_cpus=float(num_trials)), 1.0)
    assert chosen.num_trials == num_trials
    assert num_trials * rays(chosen.fraction) <= 10_000 < (num_trials + 1) * rays(chosen.fraction)
    assert num_trials * chosen.fraction <= 1


@given(
    total=st.integers(1, 200 * GIB),
    reserved_rate=st.floats(0.001, 0.9),
    overhead_rate=st.floats(0.0, 0.1),
    num_cpus=st.floats(0.5, 256),
    cpus_per_trial=st.floats(0.1, 16),
)
def test_the_trials_of_a_card_never_exceed_it_and_each_gets_what_it_needs(
    total: int, reserved_rate: float, overhead_rate: float, num_cpus: float, cpus_per_trial: float
):
    reserved, overhead = int(reserved_rate * total), int(overhead_rate * total)
    if reserved + overhead == 0:
        reserved = 1
    one = card(total=total, reserved=reserved, overhead=overhead, num_cpus=num_cpus)
    chosen = packing(one, cpus_per_trial)
    held = chosen.memory_rate * total
    assert held >= reserved * (1 - 1e-9)
    if chosen.num_trials > 1:
        assert chosen.num_trials * (held + overhead) <= total * SAFETY_RATE * (1 + 1e-9)
        assert chosen.num_trials * cpus_per_trial <= num_cpus * (1 + 1e-6)
    else:
        assert (chosen.fraction, chosen.memory_rate) == (1.0, 1.0)


def test_trials_that_the_cores_bound_share_the_whole_memory():
    chosen = packing(card(num_cpus=2.0), 1.0)
    assert chosen.memory_rate == pytest.approx(0.9 / 2 - 0.5 / 16)
    assert chosen.memory_rate * CARD.total > 3 * CARD.reserved


def test_a_trial_that_no_card_holds_is_refused():
    message = r"^--gpus-per-trial auto: one trial needs 16.5 GiB, but the smallest GPU \(T4\) has 16.0 GiB$"
    with pytest.raises(PipelineError, match=message) as caught:
        packing(card(reserved=16 * GIB), 1.0)
    assert "--set batch_size=16" in caught.value.hint


def test_of_different_cards_the_smallest_decides_and_the_largest_need_counts():
    large = card(card="A100", total=80 * GIB, reserved=3 * GIB, overhead=GIB, num_cpus=8.0)
    worst = smallest([large, CARD])
    assert worst == Measurement(
        card="T4", total=16 * GIB, reserved=3 * GIB, overhead=GIB, num_cpus=CARD.num_cpus
    )
    chosen = packing(worst, 1.0)
    assert chosen.num_trials == 3
    for one in (large, CARD):
        assert chosen.memory_rate * one.total >= one.reserved
        assert chosen.num_trials * (chosen.memory_rate * one.total + one.overhead) <= one.total


@pytest.mark.parametrize(
    ("reserved", "line"),
    [
        (2 * GIB, "GPUs: a trial takes 2.50 GiB of 16.0 GiB (T4): 5 trials share a card"),
        (9 * GIB, "GPUs: a trial takes 9.50 GiB of 16.0 GiB (T4): each trial has a card"),
    ],
)
def test_what_was_measured_is_said(reserved: int, line: str):
    one = card(reserved=reserved)
    assert described(one, packing(one, 1.0)) == line
