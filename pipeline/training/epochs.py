"""What an epoch gave, from the trainer to MLflow: typed here, and plain only where it is stored or sent.

Where it is stored or sent, an epoch is one mapping of numbers by flat names: in `history.json` and in the
reports of workers with the epoch's number, in the ledger and in MLflow without.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from infocal.metrics.resampling import Interval
from pipeline.base.trajectories import Failure
from pipeline.training.best import Standing, prediction_of

NUMBER, EPOCHS = "epoch", "epochs"
"""The number of an epoch, and how many a trial has trained with it: Tune's count starts anew when a trial is
resumed."""
OBJECTIVE = "best_objective"
"""The criterion's value of a trial's best epoch so far; what search and early stopping maximise."""
VIOLATION = "criterion_violation"
"""How far that epoch is from meeting the criterion's bounds; 0 where it meets them."""
FAILURE, FAILURE_MESSAGE = "failure", "failure_message"
"""Stand in a trial's last report where training failed in a way that has a name."""

_THIS, _BEST, _NUMBER_OF_BEST, _LOW = "objective", "best_", "best_epoch", "best_lower_bound"
_ERROR = "_se"
"""Ends the name of a standard error."""
_MEASURED = ("learning_rate", "epoch_s", "train_s", "tokens_per_s")
_FAILED = -1e9
"""Objective of a failed epoch, below all others: Tune wants the metrics that it compares."""


def _was_result(violation: float) -> bool:
    """Whether an epoch can be a result, as its violation alone has it; see `best.judged`."""
    return violation < 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BestEpoch:
    """The best epoch of a trial, as `best/scores.json` has it."""

    epoch: int
    """Counted from 0."""
    value: float
    """The criterion's value: the metric where the bounds hold, else minus the violation."""
    violation: float
    scores: Mapping[str, float]
    """Every validation score of the epoch, by its flat name."""
    degenerate: str | None = None
    """Name of the trivial mask that the epoch has, which meets no criterion."""
    is_result: bool = True
    """False where the epoch can be no result: its mask is trivial, or the start phase is not over."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Score -> its interval over resamples of validation texts; empty in what older versions stored."""
    lower_bound: float | None = None
    """The low end of what the criterion maximises; None where it was not drawn."""

    @property
    def is_met(self) -> bool:
        """Whether the criterion's bounds hold."""
        return self.violation == 0

    @property
    def standing(self) -> Standing:
        """What the epoch is ranked by."""
        return Standing(
            value=self.value,
            epoch=self.epoch,
            lower_bound=self.lower_bound,
            prediction=prediction_of(self.scores),
        )

    def as_json(self) -> dict[str, Any]:
        """The epoch as it is stored."""
        found = {
            "epoch": self.epoch,
            "value": self.value,
            "violation": self.violation,
            "is_met": self.is_met,
            "degenerate": self.degenerate,
            "scores": dict(self.scores),
        }
        if not self.is_result:
            found["is_result"] = False
        if not self.intervals:
            return found
        drawn = {name: [one.low, one.high, one.error] for name, one in self.intervals.items()}
        return found | {"intervals": drawn, "lower_bound": self.lower_bound}

    @classmethod
    def of_json(cls, found: Any) -> "BestEpoch":
        """The epoch that `as_json` wrote, or an older version; what else stands there is left out.

        Raises:
            ValueError: if it is something else.
        """
        if not isinstance(found, Mapping) or not isinstance(found.get("scores"), Mapping):
            raise ValueError(f"expected an epoch with its `scores`, but got {_shown(found)}")
        scores, low, drawn = found["scores"], found.get("lower_bound"), found.get("intervals", {})
        numbers = [found.get("value"), found.get("violation"), *scores.values()]
        if type(found.get("epoch")) is not int or not all(map(_is_number, numbers)):
            raise ValueError(
                f"expected a whole number as `epoch` and numbers as scores, but got {_shown(found)}"
            )
        if not isinstance(found.get("degenerate", 0), str | None):
            raise ValueError(f"expected text or null as `degenerate`, but got {_shown(found['degenerate'])}")
        if not (low is None or _is_number(low)) or not _are_intervals(drawn):
            raise ValueError(f"expected intervals of three numbers, but got {_shown([low, drawn])}")
        return cls(
            epoch=found["epoch"],
            value=found["value"],
            violation=found["violation"],
            scores=dict(scores),
            degenerate=found.get("degenerate"),
            is_result=bool(found.get("is_result", _was_result(found["violation"]))),
            intervals={name: Interval(*ends) for name, ends in drawn.items()},
            lower_bound=low,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BestSoFar:
    """What each epoch repeats of its trial's best one, so that a trial's last epoch is its summary."""

    value: float
    """The criterion's value of the best epoch."""
    violation: float
    epoch: int | None = None
    """Counted from 0; None: not known."""
    lower_bound: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    """The validation scores that reports show, by their flat names, the one that the criterion maximises
    first: MLflow's comparison opens with the first metric."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Their standard errors, as far as they were drawn."""

    @property
    def is_result(self) -> bool:
        """False where the epoch can be no result: its mask is trivial, or the start phase is not over."""
        return _was_result(self.violation)

    @property
    def standing(self) -> Standing:
        """What the trial is ranked by."""
        return Standing(
            value=self.value,
            epoch=self.epoch or 0,
            lower_bound=self.lower_bound,
            prediction=prediction_of(self.scores),
        )

    @classmethod
    def of(cls, best: BestEpoch, shown: Iterable[str]) -> "BestSoFar":
        """What is repeated of a best epoch, with the scores of these names."""
        return cls(
            value=best.value,
            violation=best.violation,
            epoch=best.epoch,
            lower_bound=best.lower_bound,
            scores={name: best.scores[name] for name in shown},
            errors={name: interval.error for name, interval in best.intervals.items()},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochMetrics:
    """What a chart or a table shows of an epoch."""

    number: int
    """Counted from 0."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Validation scores (`val_NAME`), losses (`train_NAME`) and shares of the gradient
    (`gradient_share_NAME`) by their flat names; a method has names of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Epoch(EpochMetrics):
    """What an epoch gave."""

    best: BestSoFar
    """The best epoch of the trial up to this one."""
    objective: float | None = None
    """The criterion's value of this epoch. None, here and below: an older version did not report it."""
    learning_rate: float | None = None
    epoch_s: float | None = None
    """Seconds of training and evaluation."""
    train_s: float | None = None
    """Seconds of training, the first part of `epoch_s`."""
    tokens_per_s: float | None = None
    """Tokens of the training texts for each second of training."""

    @property
    def numbers(self) -> dict[str, float]:
        """Every number by its flat name, as the ledger and MLflow have them."""
        best = self.best
        found: dict[str, float | None] = {f"{_BEST}{name}": value for name, value in best.scores.items()}
        found |= {f"{_BEST}{name}{_ERROR}": error for name, error in best.errors.items()}
        found |= {_LOW: best.lower_bound, _THIS: self.objective, OBJECTIVE: best.value}
        found |= {_NUMBER_OF_BEST: best.epoch, VIOLATION: best.violation, **self.metrics}
        found |= {name: getattr(self, name) for name in _MEASURED}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def of_numbers(cls, number: int, numbers: Mapping[str, float]) -> "Epoch":
        """The epoch of these `numbers`.

        Raises:
            ValueError: if it lacks what the search reads, or has something else than numbers.
        """
        for name in (OBJECTIVE, VIOLATION):
            if name not in numbers:
                raise ValueError(f"an epoch without `{name}`")
        for name, value in numbers.items():
            if not _is_number(value):
                raise ValueError(f"expected a number as `{name}`, but got {_shown(value)}")
        left = dict(numbers)
        objective, value, violation = left.pop(_THIS, None), left.pop(OBJECTIVE), left.pop(VIOLATION)
        low, of_best = left.pop(_LOW, None), left.pop(_NUMBER_OF_BEST, None)
        if of_best is not None and not float(of_best).is_integer():
            raise ValueError(f"expected the number of an epoch as `{_NUMBER_OF_BEST}`, but got {of_best}")
        measured = {name: left.pop(name) for name in _MEASURED if name in left}
        repeated = {name.removeprefix(_BEST): left.pop(name) for name in numbers if _is_repeated(name)}
        best = BestSoFar(
            value=value,
            violation=violation,
            epoch=None if of_best is None else int(of_best),
            lower_bound=low,
            scores={name: score for name, score in repeated.items() if not name.endswith(_ERROR)},
            errors={n.removesuffix(_ERROR): error for n, error in repeated.items() if n.endswith(_ERROR)},
        )
        return cls(number=number, best=best, objective=objective, metrics=left, **measured)

    def as_json(self) -> dict[str, float]:
        """The epoch as `history.json` has it and workers report it."""
        return {NUMBER: self.number, EPOCHS: self.number + 1, **self.numbers}

    @classmethod
    def of_json(cls, found: Any) -> "Epoch":
        """The epoch that `as_json` wrote, or an older version.

        Raises:
            ValueError: if it is something else.
        """
        if not isinstance(found, Mapping) or type(found.get(NUMBER)) is not int:
            raise ValueError(f"expected an epoch with its number, but got {_shown(found)}")
        numbers = {name: value for name, value in found.items() if name not in (NUMBER, EPOCHS)}
        return cls.of_numbers(found[NUMBER], numbers)


def report_of(result: Epoch | Failure) -> dict[str, Any]:
    """An epoch, or the failure that ended a training, as a worker reports it."""
    if isinstance(result, Epoch):
        return result.as_json()
    return {
        NUMBER: result.epoch,
        FAILURE: result.reason,
        FAILURE_MESSAGE: result.message,
        _THIS: _FAILED,
        OBJECTIVE: _FAILED,
        VIOLATION: -_FAILED,
    }


def reported(found: Mapping[str, Any]) -> Epoch | Failure:
    """What `report_of` made a report of.

    Raises:
        ValueError: if it is another one.
    """
    if FAILURE not in found:
        return Epoch.of_json(found)
    return Failure(int(found[NUMBER]), str(found[FAILURE]), str(found.get(FAILURE_MESSAGE, "")))


def _is_repeated(name: str) -> bool:
    return name.startswith(f"{_BEST}val_")


def _shown(value: object) -> str:
    """The start of a wrong value, for a message."""
    return str(value)[:100]


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _are_intervals(found: object) -> bool:
    return isinstance(found, Mapping) and all(
        isinstance(one, list) and len(one) == 3 and all(map(_is_number, one)) for one in found.values()
    )
