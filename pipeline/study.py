"""A study: the Tune run of one search, from its settings to the ranked candidates."""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from ray import tune

from infocal.config import MethodConfig
from infocal.errors import StateError
from pipeline import checkpoints
from pipeline.criterion import Candidate, ranked
from pipeline.errors import PipelineError
from pipeline.reading import read_settings
from pipeline.scheduler import ConstrainedOptunaSearch, asha, sampler
from pipeline.settings import RunSettings
from pipeline.storage import Location
from pipeline.study_folder import OPTUNA_DB, SETTINGS, TUNE
from pipeline.trainable import tune_trainable
from search_spaces.base import Space

_MAX_FAILURES = 2
"""Times a trial whose worker died is started again from its last checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StudySettings:
    """Everything that decides what a study does; stored with it, so that it can be resumed."""

    name: str
    run: RunSettings
    space_name: str
    sampler: str
    num_trials: int
    max_concurrent: int
    cpus_per_trial: float
    gpus_per_trial: float
    num_seeds: int
    sample: bool
    model_name: str
    """Registered model that the winner becomes a version of."""
    command: str
    first_points: list[dict[str, float]]
    packs_gpus: bool = False
    """Whether `gpus_per_trial` and `run.gpu_memory_rate` are measured when the study starts, and anew when it
    is resumed: the cards may be others."""

    def save(self, directory: Path) -> None:
        """Write `study.json`, whole or not at all."""
        checkpoints.write_json_whole(directory / SETTINGS, dataclasses.asdict(self))

    @classmethod
    def load(cls, directory: Path) -> "StudySettings":
        """Read `study.json`.

        Raises:
            StateError: if it is missing, not JSON, or not what `save` writes.
        """
        path = directory / SETTINGS
        found = read_settings(cls, path, "the settings of a study")
        if found.name != directory.name:
            raise StateError(f"these are the settings of the study `{found.name[:100]}`", where=str(path))
        return found


class Study:
    """One search in its folder.

    Args:
        settings: what to do.
        space: the ranges.
        directory: the study's folder; holds the settings, Tune's experiment and the results.
        remote: where Tune's experiment is instead, where machines share no disk.
    """

    def __init__(
        self, settings: StudySettings, space: Space, directory: Path, remote: Location | None = None
    ) -> None:
        self.settings, self.space, self.directory, self.remote = settings, space, directory, remote
        self.search: ConstrainedOptunaSearch | None = None
        self.trial_ids: set[str] = set()
        """Every trial that Tune knows of, finished or failed."""
        self.failures: list[str] = []
        """What ended the trials that an exception ended, a line each."""

    @property
    def base_config(self) -> MethodConfig:
        """The hyper-parameters that the search does not vary, with the defaults of those that it does."""
        return self.settings.run.config()

    def run(self, callbacks: Sequence[tune.Callback], resume: bool) -> list[Candidate]:
        """Run, or go on with, the search; returns the candidates, best first.

        Args:
            callbacks: tracking and progress; on a resumed study Tune restores their state.
            resume: go on with the experiment in the folder.

        Raises:
            PipelineError: if there is nothing to resume.
        """
        tuner = self._restored(callbacks) if resume else self._new(callbacks)
        return ranked(self._fit(tuner))

    def replicate(self, winner: Candidate, callbacks: Sequence[tune.Callback]) -> list[Candidate]:
        """Train the winner's configuration again with the further seeds that were asked for."""
        seeds = [self.settings.run.seed + i for i in range(1, self.settings.num_seeds)]
        if not seeds:
            return []
        tuner = tune.Tuner(
            self._trainable(),
            param_space={**winner.config, "seed": tune.grid_search(seeds)},
            tune_config=tune.TuneConfig(
                max_concurrent_trials=self.settings.max_concurrent, reuse_actors=True
            ),
            run_config=self._run_config("replicates", callbacks),
        )
        return self._fit(tuner)

    def _fit(self, tuner: tune.Tuner) -> list[Candidate]:
        results = tuner.fit()
        every = [results[i] for i in range(len(results))]
        self.trial_ids |= {result.metrics["trial_id"] for result in every if result.metrics}
        self.failures += [_reason(str(result.error)) for result in every if result.error]
        return [candidate for result in every if (candidate := _candidate(result)) is not None]

    def export(self) -> Path:
        """Copy the finished Optuna study to SQLite, for optuna-dashboard; replaces an older copy."""
        if self.search is None:
            raise PipelineError(f"study `{self.settings.name}` has not run yet: nothing to export")
        path = self.directory / OPTUNA_DB
        path.unlink(missing_ok=True)
        copy = optuna.create_study(
            storage=f"sqlite:///{path.resolve()}", study_name=self.settings.name, direction="maximize"
        )
        copy.add_trials(self.search.study.get_trials(deepcopy=False))
        return path

    def _trainable(self) -> Any:
        resources = {"cpu": self.settings.cpus_per_trial, "gpu": self.settings.gpus_per_trial}
        return tune.with_resources(tune.with_parameters(tune_trainable, run=self.settings.run), resources)

    @property
    def _tune_root(self) -> str:
        """Folder of Tune's experiments in its file system; pyarrow takes a relative path for a URI."""
        return self.remote.path if self.remote else str(self.directory.resolve())

    def _run_config(self, name: str, callbacks: Sequence[tune.Callback]) -> tune.RunConfig:
        return tune.RunConfig(
            name=name,
            storage_path=self._tune_root,
            storage_filesystem=self.remote and self.remote.filesystem,
            callbacks=list(callbacks),
            failure_config=tune.FailureConfig(max_failures=_MAX_FAILURES),
            # the last one holds the best epoch too; the one before it is what Tune's snapshot may still
            # name where the driver is killed before the next snapshot
            checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
            verbose=0,
        )

    def _new(self, callbacks: Sequence[tune.Callback]) -> tune.Tuner:
        chosen = sampler(self.settings.sampler, self.space, self.settings.run.seed)
        self.search = ConstrainedOptunaSearch(self.space, chosen, self.settings.first_points)
        return tune.Tuner(
            self._trainable(),
            tune_config=tune.TuneConfig(
                num_samples=self.settings.num_trials,
                max_concurrent_trials=self.settings.max_concurrent,
                reuse_actors=True,
                search_alg=self.search,
                scheduler=asha(self.base_config, self.settings.run.num_epochs),
            ),
            run_config=self._run_config(TUNE, callbacks),
        )

    def _restored(self, callbacks: Sequence[tune.Callback]) -> tune.Tuner:
        path, filesystem = f"{self._tune_root}/{TUNE}", self.remote and self.remote.filesystem
        if not tune.Tuner.can_restore(path, filesystem):
            raise PipelineError(
                f"study `{self.settings.name}` holds no search to resume",
                where=str(self.remote / TUNE) if self.remote else path,
                hint="leave out `--resume`",
            )
        tuner: Any = tune.Tuner.restore(
            path,
            trainable=self._trainable(),
            resume_unfinished=True,
            restart_errored=False,
            storage_filesystem=filesystem,
        )
        # Tune reads the search back and hands it out nowhere else; `export` needs it
        self.search = tuner._local_tuner._tune_config.search_alg
        return tuner


def _reason(text: str) -> str:
    """The line of a traceback that says what happened; Ray writes remarks of its own below it."""
    lines = text.strip().splitlines() or [""]
    said = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Failure|Met): ", line)]
    return (said or lines)[-1].strip()


def _candidate(result: tune.Result) -> Candidate | None:
    """A trial's best epoch; None where the trial has none."""
    if result.checkpoint is None or result.metrics is None:
        return None
    checkpoint = Location.of(result.checkpoint)
    if not (checkpoint / checkpoints.BEST).exists():
        return None
    scores = f"{checkpoints.BEST}/{checkpoints.BEST_SCORES}"
    with checkpoint.localised(scores) as folder:
        best = checkpoints.load_scores(folder / checkpoints.BEST)
    return Candidate(
        trial_id=result.metrics["trial_id"],
        config=result.config or {},
        checkpoint=checkpoint,
        epoch=best["epoch"],
        value=best["value"],
        violation=best["violation"],
        scores=best["scores"],
        degenerate=best["degenerate"],
    )
