import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.reporting.significance import holm, smallest_difference, smallest_paired_difference


def test_holm_is_that_of_the_textbook():
    # four tests: 4 x .01, 3 x .013, 2 x .03 and .04, each at least the one before it
    found = holm({"a": 0.04, "b": 0.01, "c": 0.03, "d": 0.013})
    assert found == pytest.approx({"a": 0.06, "b": 0.04, "c": 0.06, "d": 0.04})
    assert list(found) == ["a", "b", "c", "d"]
    assert holm({}) == {} and holm({"a": 0.2}) == {"a": 0.2}
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_the_step_down_procedure_rejects(values: list[float]):
    found = holm({str(i): p for i, p in enumerate(values)})
    rejected = set()
    for rank, i in enumerate(sorted(range(len(values)), key=lambda i: values[i])):
        if (len(values) - rank) * values[i] > 0.05:
            break
        rejected.add(str(i))
    assert {name for name, p in found.items() if p <= 0.05} == rejected


@pytest.mark.parametrize(("num_pairs", "points"), [(3, 4.9), (5, 2.5), (8, 1.7), (10, 1.5)])
def test_the_smallest_difference_of_a_paired_t_test_is_that_of_the_audit(num_pairs: int, points: float):
    assert smallest_paired_difference(1.5, num_pairs) == pytest.approx(points, abs=0.06)


def test_a_t_test_finds_the_smallest_difference_in_four_of_five_experiments():
    from scipy.stats import ttest_1samp

    gap = smallest_paired_difference(1.0, 8)
    experiments = np.random.default_rng(0).normal(gap, 1.0, (20_000, 8))
    found = (ttest_1samp(experiments, 0, axis=1).pvalue < 0.05).mean()
    assert found == pytest.approx(0.8, abs=0.01)


def test_with_a_known_error_it_is_2_80_errors():
    assert smallest_difference(1.0) == pytest.approx(1.959964 + 0.841621, abs=1e-6)
    # many pairs know their deviation
    assert smallest_paired_difference(1.0, 4000) == pytest.approx(2.801585 / math.sqrt(4000), rel=1e-3)
    assert smallest_difference(0.0) == 0.0


def test_one_pair_has_no_deviation():
    with pytest.raises(ValueError, match="at least 2 pairs, but got 1"):
        smallest_paired_difference(1.0, 1)
