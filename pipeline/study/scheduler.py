"""Early stopping by ASHA, and the choice of points by Optuna, which hears more here than Tune tells it."""

import contextlib
import datetime
import functools
import math
import random
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState, create_trial
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch

from infocal.config import MethodConfig
from pipeline.base.errors import PipelineError
from pipeline.study.ledger import Proposal, TrialRecord
from pipeline.training.epochs import EPOCHS, FAILURE, OBJECTIVE, VIOLATION
from pipeline.training.settings import SAMPLERS
from pipeline.training.trainable import RESUMED
from search_spaces import lookup
from search_spaces import space as spaces
from search_spaces.space import Choice, Parameter, Space, num_points

REDUCTION_FACTOR = 3
"""One trial of so many continues from a rung."""
_EPOCHS_AFTER_START = 2
"""Epochs of every trial between its start and the first rung. After one of them, the order of 192 trained
points is not that of the last epoch (rank correlation -.17), and a stop loses the best points. After two, the
correlation is .44, and searches reach the best points (docs/performance.md)."""
_TUNES_COUNT = "training_iteration"
_MAX_DRAWS = 20
"""Points that are asked of a sampler for one trial, before one that was not tried is taken at random."""


def trial_id_of(trial: Trial) -> str:
    """The id by which the ledger and MLflow know a trial: the first one that Tune gave it."""
    return str(trial.config.get(RESUMED, {}).get("trial_id", trial.trial_id))


def config_of(trial: Trial) -> dict[str, Any]:
    """A trial's own hyper-parameters."""
    return {name: value for name, value in trial.config.items() if name != RESUMED}


def resumed(point: Mapping[str, Any], record: TrialRecord) -> dict[str, Any]:
    """The config with which Tune resumes a trial."""
    return {**point, RESUMED: {"trial_id": record.trial_id, "checkpoints": record.checkpoints}}


def grace_epochs(config: MethodConfig, space: Space = ()) -> int:
    """Epochs before a trial may be stopped: the longest start that a trial can have, and some more.

    Args:
        config: what the search does not vary.
        space: what it varies.
    """
    start = math.ceil(lookup.slowest(config, space).start_epochs)
    return start + _EPOCHS_AFTER_START if start else 1


class Halving(ASHAScheduler):
    """Successive halving that knows what the trials of a study had reached when its driver died.

    Args:
        grace_period: epochs before a trial may be stopped.
        past: trials of the study so far.
        reduction_factor: one of so many trials continues from each rung.
    """

    def __init__(
        self,
        grace_period: int,
        max_t: int,
        past: Sequence[TrialRecord],
        reduction_factor: int = REDUCTION_FACTOR,
    ) -> None:
        super().__init__(
            time_attr=EPOCHS,
            metric=OBJECTIVE,
            mode="max",
            max_t=max_t,
            grace_period=grace_period,
            reduction_factor=reduction_factor,
        )
        reached = [(reported, record.trial_id) for record in past for reported in record.epochs.values()]
        for reported, trial_id in sorted(reached, key=lambda pair: pair[0].time):
            known: Any = SimpleNamespace(trial_id=trial_id)
            self._brackets[0].on_result(known, reported.number + 1, reported.epoch.best.value)

    # a trial that is resumed has another id for Tune, and stands on its rungs already
    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """A trial begins or resumes."""
        super().on_trial_add(tune_controller, _known(trial))

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Whether a trial continues; a failed trial's last result decides nothing and stands on no rung."""
        if FAILURE in result:
            return str(self.CONTINUE)
        return str(super().on_trial_result(tune_controller, _known(trial), result))

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """A trial has ended."""
        if FAILURE not in result:
            super().on_trial_complete(tune_controller, _known(trial), result)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """A trial is taken out."""
        super().on_trial_remove(tune_controller, _known(trial))


def _known(trial: Trial) -> Any:
    """As much of a trial as the scheduler reads."""
    return SimpleNamespace(trial_id=trial_id_of(trial))


def asha(
    config: MethodConfig, num_epochs: int, past: Sequence[TrialRecord] = (), space: Space = ()
) -> Halving:
    """The one owner of early stopping: successive halving on the best objective so far.

    Args:
        config: what the search does not vary.
        num_epochs: of a trial that is not stopped.
        past: trials of the study so far.
        space: what the search varies; a start in it delays the first stop.
    """
    grace = min(grace_epochs(config, space), num_epochs)
    return Halving(grace_period=grace, max_t=num_epochs, past=past)


def rungs(config: MethodConfig, num_epochs: int, space: Space = ()) -> list[int]:
    """Numbers of epochs after which `asha` may stop a trial, lowest first; empty where it stops none."""
    found = [min(grace_epochs(config, space), num_epochs)]
    while found[-1] < num_epochs:
        found.append(found[-1] * REDUCTION_FACTOR)
    return found[:-1]


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Optuna's form of a space."""
    return {one.name: _distribution(one) for one in space}


def _distribution(one: Parameter) -> BaseDistribution:
    if isinstance(one, Choice):
        return CategoricalDistribution(one.choices)
    if one.is_integer:
        return IntDistribution(int(one.low), int(one.high), step=int(one.step or 1), log=one.log)
    return FloatDistribution(one.low, one.high, step=one.step, log=one.log)


def sampler(name: str, space: Space, seed: int, num_past: int = 0) -> optuna.samplers.BaseSampler:
    """The sampler of that name.

    Args:
        name: one of `SAMPLERS`.
        num_past: points that it has drawn before, in a process that died: it does not draw them again.

    Raises:
        PipelineError: if there is no such sampler, or a grid is asked of a continuous range.
    """
    further = seed if num_past == 0 else int(np.random.SeedSequence([seed, num_past]).generate_state(1)[0])
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=further)
    if name == "random":
        return optuna.samplers.RandomSampler(seed=further)
    if name == "gp":
        return optuna.samplers.GPSampler(seed=further)
    if name == "grid":  # knows from the study which points it has drawn
        try:
            return optuna.samplers.GridSampler({one.name: list(one.grid) for one in space}, seed=seed)
        except ValueError as error:
            raise PipelineError(f"{error}", where="--sampler grid", hint="use `--space paper`") from error
    raise PipelineError(f"no sampler `{name}`; the samplers are {', '.join(SAMPLERS)}", where="--sampler")


class ConstrainedOptunaSearch(OptunaSearch):
    """OptunaSearch that tells Optuna all that it should know of a trial, and tries no point twice.

    The criterion's bounds are passed on as a constraint, failures as failures, and trials that were stopped
    early as pruned. Ray's own hands Optuna the objective alone, as if each trial had come to its end, and
    leaves a trial whose objective is NaN running for ever. A trial is seeded, so that a point trained again
    would give the same numbers.

    Args:
        first_points: points to try first.
        num_epochs: epochs of a trial that is not stopped early.
        past: trials of the study before its driver died: Optuna knows those that have ended, the others are
            suggested again, first of all, with what is needed to continue.
    """

    def __init__(
        self,
        space: Space,
        optuna_sampler: optuna.samplers.BaseSampler,
        first_points: list[dict[str, Any]],
        num_epochs: int,
        past: Sequence[TrialRecord] = (),
    ) -> None:
        self._searched = {one.name: one for one in space}
        self._num_points, self._num_epochs = num_points(space), num_epochs
        self._tried = {self._key(record.begin.config) for record in past}
        self._unfinished: dict[int, TrialRecord] = {}
        self._steps: dict[str, int] = {}
        # a function where what is varied depends on what was drawn: Optuna asks for one value after the other
        asked = functools.partial(_ask, space) if spaces.has_conditions(space) else distributions(space)
        super().__init__(space=asked, metric=OBJECTIVE, mode="max", sampler=optuna_sampler)
        for record in sorted(past, key=lambda record: not record.is_over):
            self.study.add_trial(_frozen(record, space, num_epochs))
            if not record.is_over:
                self._unfinished[len(self.study.get_trials(deepcopy=False)) - 1] = record
        tried = [record.begin.config for record in past]
        for point in first_points:
            if point not in tried:
                self.study.enqueue_trial(point)

    @property
    def study(self) -> optuna.Study:
        """The live study, in memory."""
        study: optuna.Study | None = self._ot_study  # None until Tune sets the search up
        if study is None:
            raise PipelineError(f"the search over {', '.join(self._searched)} has not started")
        return study

    def suggest(self, trial_id: str) -> Any:
        """The next point that was not tried, without floating-point noise; FINISHED where none is left."""
        if not self._unfinished and len(self._tried) == self._num_points:
            return Searcher.FINISHED
        for draws_left in reversed(range(_MAX_DRAWS)):
            point = super().suggest(trial_id) or {}
            clean = {name: self._searched[name].clean(value) for name, value in point.items()}
            record = self._unfinished.pop(self._ot_trials[trial_id].number, None)
            if record is not None:
                for reported in record.epochs.values():
                    self._report(trial_id, reported.epoch.best.value, reported.number + 1)
                return resumed(clean, record)
            if self._key(clean) not in self._tried:
                self._tried.add(self._key(clean))
                return clean
            self._drop(trial_id)
            if draws_left == 1:
                self.study.enqueue_trial(self._untried())
        raise PipelineError(f"found no point that differs from the {len(self._tried)} points already tried")

    def _key(self, point: Mapping[str, Any]) -> tuple[Any, ...]:
        """What tells points apart."""
        return tuple(point.get(name) for name in self._searched)

    def _drop(self, trial_id: str) -> None:
        """Take back a point: samplers leave failed trials out, and continue with other random numbers."""
        trial = self._ot_trials.pop(trial_id)
        # the grid's sampler wants to stop a loop of Optuna's own once each of its points was drawn
        with contextlib.suppress(RuntimeError):
            self.study.tell(trial, state=TrialState.FAIL)

    def _untried(self) -> dict[str, Any]:
        """A point of the space that was not tried, for a sampler that insists on others."""
        chance = random.Random(len(self._tried))
        while True:
            point = spaces.draw(tuple(self._searched.values()), chance)
            if self._key(point) not in self._tried:
                return point

    def proposal(self, trial_id: str) -> Proposal:
        """What Optuna knows of a trial that was suggested, for the ledger."""
        frozen = self.study.get_trials(deepcopy=False)[self._ot_trials[trial_id].number]
        return Proposal(dict(frozen.params), dict(frozen.system_attrs))

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Tell Optuna how far the trial is."""
        if FAILURE not in result and trial_id not in self._completed_trials:
            self._report(trial_id, result[OBJECTIVE], result[EPOCHS])

    def _report(self, trial_id: str, objective: float, step: int) -> None:
        # an epoch that was trained again, after a worker died, is told once
        if step > self._steps.get(trial_id, 0):
            self._steps[trial_id] = step
            super().on_trial_result(trial_id, {OBJECTIVE: objective, _TUNES_COUNT: step})

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
            self._report(trial_id, result[OBJECTIVE], result[EPOCHS])
        is_pruned = result is not None and not failed and result[EPOCHS] < self._num_epochs
        # without a result and without an error Tune's searcher tells that the trial was pruned
        super().on_trial_complete(trial_id, result=None if failed or is_pruned else result, error=failed)


def _ask(space: Space, trial: optuna.Trial) -> None:
    """Let Optuna draw a point, one value after the other; Ray reads the values off the trial."""
    spaces.suggest(space, trial)


def _frozen(record: TrialRecord, space: Space, num_epochs: int) -> FrozenTrial:
    """A trial of the ledger as Optuna knew it; one that has not ended waits to be asked for."""
    proposal, last = record.begin.proposal or Proposal({}, {}), record.last
    params, attributes = proposal.params, proposal.system_attrs
    if not record.is_over:
        return create_trial(state=TrialState.WAITING, system_attrs={**attributes, "fixed_params": params})
    steps = {reported.number + 1: reported.epoch.best.value for reported in record.epochs.values()}
    value = math.nan if last is None or record.failure else last.epoch.best.value
    has_value = last is not None and math.isfinite(value)
    is_pruned = last is not None and last.number + 1 < num_epochs
    ended = TrialState.PRUNED if is_pruned else TrialState.COMPLETE
    trial = create_trial(
        state=ended if has_value else TrialState.FAIL,
        value=value if has_value else None,
        params=params,
        distributions=distributions(spaces.applying(space, params)),
        system_attrs=dict(attributes),  # Optuna writes the constraint into it
        intermediate_values=steps,
        constraints={VIOLATION: last.epoch.best.violation} if last is not None and has_value else None,
    )
    trial.datetime_start = datetime.datetime.fromtimestamp(record.begin.time)
    trial.datetime_complete = datetime.datetime.fromtimestamp(record.last_heard)
    return trial


class Listed(Searcher):
    """Suggests the given configs, one after the other: a winner's with further seeds."""

    def __init__(self, configs: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(metric=OBJECTIVE, mode="max")
        self._left = [dict(config) for config in configs]

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """The next config; None when all are under way."""
        return self._left.pop(0) if self._left else None

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing follows from how a trial ends."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing is kept: the ledger knows what is left."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing is kept."""
