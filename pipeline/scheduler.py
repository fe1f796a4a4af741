"""Early stopping and the choice of points: ASHA, and Optuna told what Tune alone would not tell it."""

import math
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch

from infocal.config import MethodConfig
from pipeline.errors import PipelineError
from pipeline.settings import SAMPLERS
from search_spaces.base import Range, Space

OBJECTIVE = "best_objective"
"""The criterion's value of a trial's best epoch so far; what search and early stopping maximise."""
VIOLATION = "criterion_violation"
"""How far that epoch is from meeting the criterion's bounds; 0 where it meets them."""
FAILURE = "failure"
"""Stands in a trial's last result where training failed in a way that has a name."""

_REDUCTION_FACTOR = 3


def grace_epochs(config: MethodConfig) -> int:
    """Epochs before a trial may be stopped: the method's start, and one more."""
    return math.ceil(config.start_epochs) + 1


def asha(config: MethodConfig, num_epochs: int) -> ASHAScheduler:
    """The one owner of early stopping: successive halving on the best objective so far."""
    return ASHAScheduler(
        metric=OBJECTIVE,
        mode="max",
        max_t=num_epochs,
        grace_period=min(grace_epochs(config), num_epochs),
        reduction_factor=_REDUCTION_FACTOR,
    )


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Optuna's form of a space."""
    return {r.name: FloatDistribution(r.low, r.high, step=r.step, log=r.log) for r in space}


def sampler(name: str, space: Space, seed: int) -> optuna.samplers.BaseSampler:
    """The sampler of that name.

    Raises:
        PipelineError: if there is no such sampler, or a grid is asked of a continuous range.
    """
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed)
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    if name == "gp":
        return optuna.samplers.GPSampler(seed=seed)
    if name == "grid":
        try:
            return optuna.samplers.GridSampler({r.name: list(r.grid) for r in space}, seed=seed)
        except ValueError as error:
            raise PipelineError(f"{error}", where="--sampler grid", hint="use `--space paper`") from error
    raise PipelineError(f"no sampler `{name}`; there is {', '.join(SAMPLERS)}", where="--sampler")


class ConstrainedOptunaSearch(OptunaSearch):
    """OptunaSearch that passes the criterion's bounds on as a constraint and failures on as failures.

    Ray's own hands Optuna the objective alone, and leaves a trial whose objective is NaN running for ever.

    Args:
        space: the ranges.
        optuna_sampler: chooses the points.
        first_points: points to try first.
    """

    def __init__(
        self, space: Space, optuna_sampler: optuna.samplers.BaseSampler, first_points: list[dict[str, float]]
    ) -> None:
        self._ranges = {r.name: r for r in space}
        super().__init__(
            space=distributions(space),
            metric=OBJECTIVE,
            mode="max",
            points_to_evaluate=first_points or None,
            sampler=optuna_sampler,
        )

    @property
    def study(self) -> optuna.Study:
        """The live study, in memory."""
        study: optuna.Study | None = self._ot_study  # None until Tune sets the search up
        if study is None:
            raise PipelineError(f"the search over {', '.join(self._ranges)} has not started")
        return study

    def suggest(self, trial_id: str) -> dict[str, float] | None:
        """The next point, without floating-point noise."""
        point = super().suggest(trial_id)
        if point is None:
            return None
        return {name: Range.clean(value) for name, value in point.items()}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Tell Optuna how the trial ended: its value and constraint, or that it failed."""
        trial = self._ot_trials.get(trial_id)
        failed = error or bool(
            result and (FAILURE in result or not math.isfinite(result.get(OBJECTIVE, math.nan)))
        )
        if trial is not None and result and not failed and trial_id not in self._completed_trials:
            trial.set_constraint(VIOLATION, float(result[VIOLATION]))
        super().on_trial_complete(trial_id, result=None if failed else result, error=failed)
