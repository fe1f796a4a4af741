"""A study: the Tune run of one search, from its settings to the ranked candidates."""

import dataclasses
import logging
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from ray import tune

from infocal.config import MethodConfig
from infocal.errors import StateError
from pipeline.base.storage import STAGED
from pipeline.base.uris import of_sqlite
from pipeline.study import race
from pipeline.study.criterion import Candidate, ranked
from pipeline.study.engine import Engine
from pipeline.study.ledger import Ledger, TrialRecord
from pipeline.study.scheduler import ConstrainedOptunaSearch, Listed, asha, resumed, sampler
from pipeline.study.study_folder import OPTUNA_DB, REPLICATES, TUNE, StudyFolder
from pipeline.study.study_settings import StudySettings
from pipeline.training import checkpoints
from search_spaces.space import Space, num_points

logger = logging.getLogger("pipeline.study.study")


class Study:
    """One search in its folder.

    Args:
        folder: the study's; Tune's experiments lie in it, too.
        ledger: of the study; what it has is not done again.
    """

    def __init__(self, settings: StudySettings, space: Space, folder: StudyFolder, ledger: Ledger) -> None:
        self.settings, self.space = settings, space
        self.folder, self.ledger = folder, ledger
        self.notify: Callable[[], None] = lambda: None
        """Called when the ledger has grown."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it says that it has made each study

    @classmethod
    def in_folder(cls, settings: StudySettings, folder: StudyFolder) -> "Study":
        """The study with the ledger of its folder and the ranges that its settings name."""
        return cls(settings, settings.space, folder, Ledger(folder.directory, folder.publish))

    @property
    def base_config(self) -> MethodConfig:
        """The hyper-parameters that the search does not vary, with the defaults of those that it does."""
        return self.settings.run.config()

    @property
    def engine(self) -> Engine:
        """What trains, as the settings have it now."""
        settings = self.settings
        return Engine(
            folder=self.folder,
            ledger=self.ledger,
            runs={"": settings.run},
            cpus_per_trial=settings.cpus_per_trial,
            gpus_per_trial=settings.gpus_per_trial,
            max_concurrent=settings.max_concurrent,
            notify=self.notify,
        )

    @property
    def searched(self) -> list[TrialRecord]:
        """The trials of the search, in the order in which they were begun."""
        return [record for record in self.ledger.trials() if record.begin.proposal is not None]

    @property
    def replicates(self) -> list[TrialRecord]:
        """The trainings of the best trials with further seeds."""
        return [record for record in self.ledger.trials() if record.begin.proposal is None]

    @property
    def num_trials(self) -> int:
        """Trials of the search: as many as were asked for, or as the space has points if these are fewer."""
        there = num_points(self.space)
        return self.settings.num_trials if there is None else min(there, self.settings.num_trials)

    @property
    def is_exhausted(self) -> bool:
        """Whether no more trials can be asked for: every point of the space is one."""
        return num_points(self.space) == self.num_trials

    @property
    def num_missing(self) -> int:
        """Trials of the search that have not ended, those not begun included.

        Where every point of the space is tried, one that an older version trained twice counts once.
        """
        begun = self.searched
        if self.num_trials < (num_points(self.space) or math.inf):
            return self.num_trials - sum(record.is_over for record in begun)
        points = {tuple(record.begin.config.get(one.name) for one in self.space) for record in begun}
        return sum(not record.is_over for record in begun) + max(0, self.num_trials - len(points))

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to train."""
        if self.num_missing > 0:
            return False
        candidates = self.candidates(self.searched)
        return not candidates or not self._again(candidates)

    @property
    def failures(self) -> list[str]:
        """What ended the trials that failed, a line each."""
        return [record.failure.message for record in self.ledger.trials() if record.failure is not None]

    def run(self, callbacks: Sequence[tune.Callback]) -> None:
        """Run the search, or what is missing of it."""
        past = self.searched
        if self.num_missing <= 0:
            return
        halving = asha(self.base_config, self.settings.run.num_epochs, past, self.space)
        self.engine.train(TUNE, self.searcher(past), self.num_missing, callbacks, halving)

    def replicate(self, candidates: Sequence[Candidate], callbacks: Sequence[tune.Callback]) -> None:
        """Train the best trials again with the further seeds that were asked for.

        Args:
            candidates: trials of the search, best first; at least one.
        """
        for _ in race.ROUNDS if self.settings.is_raced else range(1):
            missing = self._again(candidates)
            if not missing:
                return
            there = {_key(record.begin.config): record for record in self.replicates}
            configs = [
                config if (record := there.get(_key(config))) is None else resumed(config, record)
                for config in missing
            ]
            self.engine.train(REPLICATES, Listed(configs), len(configs), callbacks)

    def racers(self, candidates: Sequence[Candidate]) -> Sequence[race.Racer]:
        """The trials that were trained with further seeds, and these trainings; the winner first.

        Args:
            candidates: trials of the search, best first; at least one.
        """
        if self.settings.is_raced:
            return self._race(candidates).racers
        return [race.Racer(candidates[0], self.candidates(self.replicates))]

    def _again(self, candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
        """Configs with further seeds that have to be trained next; empty where nothing is left to train."""
        if self.settings.is_raced:
            return [dict(config) for config in self._race(candidates).missing]
        over = {record.begin.config["seed"] for record in self.replicates if record.is_over}
        seeds = [self.settings.run.seed + i for i in range(1, self.settings.num_seeds)]
        return [{**candidates[0].config, "seed": seed} for seed in seeds if seed not in over]

    def _race(self, candidates: Sequence[Candidate]) -> race.Race:
        there = {_key(record.begin.config): record for record in self.replicates}

        def again(config: Mapping[str, Any]) -> race.SeedOutcome:
            record = there.get(_key(config))
            if record is None or not record.is_over:
                return race.SeedOutcome(is_over=False)
            return race.SeedOutcome(is_over=True, result=self._candidate(record))

        return race.stands(candidates, self.settings.run.seed, again)

    def say_defaults(self) -> None:
        """Say which hyper-parameters the checkpoints of trials that continue were written without.

        The worker that reads such a checkpoint fills in the defaults, but nobody sees what a worker says.
        """
        for record in self.ledger.trials():
            if record.is_over or not record.checkpoints:
                continue
            checkpoint = self.folder.place / record.checkpoints[0]
            part = f"{checkpoints.BEST}/{checkpoints.CONFIG}"
            if not (checkpoint / part).exists():
                continue
            with checkpoint.localised(part) as folder:
                stored = checkpoints.config_of_best(folder)
            where = f"the checkpoint of trial {record.begin.number:02d}"
            checkpoints.say_defaults(self.base_config.defaults_for(stored), where)

    def candidates(self, records: Sequence[TrialRecord]) -> list[Candidate]:
        """The best epochs of trials that have one, best first."""
        every = [candidate for record in records if (candidate := self._candidate(record)) is not None]
        return ranked(every)

    def lost(self) -> list[TrialRecord]:
        """Trials of the search that reported epochs, and whose best epoch's weights are gone."""
        return [record for record in self.searched if record.epochs and self._candidate(record) is None]

    def export(self) -> Path:
        """Write the ended trials as an Optuna study in SQLite, for optuna-dashboard; replaces a former."""
        path = self.folder.directory / OPTUNA_DB
        over = [record for record in self.searched if record.is_over]
        with tempfile.TemporaryDirectory(dir=self.folder.directory, prefix=STAGED) as working:
            staged = Path(working) / OPTUNA_DB
            copy = optuna.create_study(
                storage=of_sqlite(staged.resolve()), study_name=self.settings.name, direction="maximize"
            )
            copy.add_trials(self.searcher(over, first_points=[]).study.get_trials(deepcopy=False))
            staged.replace(path)
        return path

    def searcher(
        self, past: Sequence[TrialRecord], first_points: list[dict[str, Any]] | None = None
    ) -> ConstrainedOptunaSearch:
        """The search as it stood after these trials.

        Args:
            first_points: to try first; None: the study's.

        Raises:
            StateError: if they are no points of the space.
        """
        settings = self.settings
        chosen = sampler(settings.sampler, self.space, settings.run.seed, num_past=len(past))
        points = settings.first_points if first_points is None else first_points
        try:
            return ConstrainedOptunaSearch(self.space, chosen, points, settings.run.num_epochs, past)
        except (ValueError, TypeError, LookupError) as error:
            raise StateError(
                f"the stored trials of this study do not fit its search space: "
                f"{' '.join(str(error).split())[:200]}",
                where=str(self.ledger.directory),
            ) from error

    def _candidate(self, record: TrialRecord) -> Candidate | None:
        """A trial's best epoch; None where the trial has none."""
        if not record.epochs:
            return None
        checkpoint = self.folder.place / record.checkpoints[0]
        if not (checkpoint / checkpoints.BEST).exists():
            return None
        parts = (f"{checkpoints.BEST}/{name}" for name in (checkpoints.BEST_SCORES, checkpoints.DIGESTS))
        with checkpoint.localised(*parts) as folder:
            best = checkpoints.load_scores(folder / checkpoints.BEST)
        ended = record.ended_early(self.settings.run.num_epochs)
        return Candidate(
            **{one.name: getattr(best, one.name) for one in dataclasses.fields(best)},
            trial_id=record.trial_id,
            config=record.begin.config,
            checkpoint=checkpoint,
            ended=f"{ended} after {len(record.epochs)}" if ended else "",
        )


def _key(config: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What tells configs apart, whatever the order of their values."""
    return tuple(sorted(config.items()))
