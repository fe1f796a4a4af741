"""What a search makes of its cores, from when its epochs were reported."""

import pickle
from types import SimpleNamespace

import pytest

from pipeline.study.utilisation import Stopwatch, TimedEpoch, Utilisation, utilisation


def epoch(trial: str, worker: str, reported: float, epoch_s: float = 2.0, train_s: float = 1.5) -> TimedEpoch:
    return TimedEpoch(trial, worker, reported, epoch_s, train_s)


def test_training_between_the_first_and_the_last_report_counts():
    # on one core: report at 10, then epochs 10..12 and 13..15, of which 1.5 s each are training
    found = utilisation([epoch("a", "1", 10.0), epoch("a", "1", 12.0), epoch("a", "1", 15.0)], 1, 1)
    assert found is not None
    assert found.useful_rate == pytest.approx(3 / 5)
    assert found.trial_overhead_s is None


def test_an_epoch_that_began_before_the_first_report_counts_from_there():
    # the second worker trained from 9.5 to 11
    found = utilisation([epoch("a", "1", 10.0), epoch("b", "2", 11.5)], 2, 1)
    assert found is not None
    assert found.useful_rate == pytest.approx(1 / (2 * 1.5))


@pytest.mark.parametrize(("cores", "threads", "rate"), [(1, 1, 0.75), (2, 1, 0.375), (4, 2, 0.375)])
def test_cores_that_nobody_uses_count(cores: int, threads: int, rate: float):
    found = utilisation([epoch("a", "1", 10.0), epoch("a", "1", 12.0)], cores, threads)
    assert found is not None
    assert found.useful_rate == pytest.approx(rate)


def test_the_overhead_is_the_median_gap_between_trials_of_a_worker():
    rows = [
        ("a", "1", 2.0),
        ("b", "2", 2.5),
        ("a", "1", 4.0),
        ("c", "1", 6.5),
        ("d", "2", 5.5),
        ("e", "2", 8.5),
    ]
    found = utilisation([epoch(*row) for row in rows], 2, 1)
    assert found is not None
    # gaps: a -> c 0.5, b -> d 1.0, d -> e 1.0
    assert found.trial_overhead_s == pytest.approx(1.0)


@pytest.mark.parametrize("epochs", [[], [epoch("a", "1", 1.0)], [epoch("a", "1", 1.0), epoch("b", "2", 1.0)]])
def test_nothing_is_said_where_nothing_lies_between(epochs: list[TimedEpoch]):
    assert utilisation(epochs, 2, 1) is None


def test_words_and_metrics():
    assert str(Utilisation(0.875, 0.256)) == (
        "training used 88% of the CPU time between the first and the last finished epoch; starting another "
        "trial on the same worker took 0.26 s"
    )
    assert Utilisation(0.5, None).metrics() == {"useful_rate": 0.5}
    assert Utilisation(0.5, 0.1).metrics() == {"useful_rate": 0.5, "trial_overhead_s": 0.1}


def test_the_stopwatch_notes_epochs_and_no_failure():
    watch, trial = Stopwatch(), SimpleNamespace(trial_id="a")
    result = {"hostname": "here", "pid": 7, "epoch_s": 2.0, "train_s": 1.5}
    watch.on_trial_result(0, [], trial, result)
    watch.on_trial_result(1, [], trial, {"hostname": "here", "pid": 7, "failure": "non_finite"})
    (noted,) = watch.epochs
    assert (noted.trial_id, noted.worker, noted.epoch_s, noted.train_s) == ("a", "here:7", 2.0, 1.5)
    assert isinstance(pickle.loads(pickle.dumps(watch)), Stopwatch), "Tune pickles its callbacks"
