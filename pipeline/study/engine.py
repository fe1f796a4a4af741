"""The engine: trains trials with Ray Tune, and writes into a ledger what they report."""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ray import tune
from ray.tune import TuneError
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Searcher

from pipeline.study.ledger import Ledger
from pipeline.study.recorder import Recorder
from pipeline.study.scheduler import ConstrainedOptunaSearch, Listed, trial_id_of
from pipeline.study.study_folder import StudyFolder
from pipeline.study.worker import tune_trainable
from pipeline.training import midway
from pipeline.training.settings import RunSettings

_MAX_FAILURES = 2
"""Times a trial whose worker died is started again from its last checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """What all trials of a study have in common."""

    folder: StudyFolder
    """Tune's experiments lie in it, too."""
    ledger: Ledger
    runs: Mapping[str, RunSettings]
    """What a trial is trained with besides its config: the config names it under `RUN`, and one without that
    name means the entry of the empty name. All are of the same number of epochs."""
    cpus_per_trial: float
    gpus_per_trial: float
    max_concurrent: int = 0
    """Trials at once; 0: as many as fit."""
    notify: Callable[[], None] = lambda: None
    """Called when the ledger has grown."""
    trainable: Callable[..., None] | None = None
    """What a worker runs in place of `tune_trainable`, with the same arguments."""

    def train(
        self,
        experiment: str,
        searcher: Searcher,
        num_trials: int,
        callbacks: Sequence[tune.Callback],
        scheduler: TrialScheduler | None = None,
    ) -> None:
        """Train trials to their ends.

        Args:
            experiment: folder of Tune's experiment; a number is added where there is one of that name.
            num_trials: that it is asked for at most.
            scheduler: stops trials early; None: nobody does.

        Raises:
            PipelineError: if the ledger or checkpoints can no longer be written.
        """
        place, num_epochs = self.folder.place, max(run.num_epochs for run in self.runs.values())
        trainable = tune.with_parameters(
            self.trainable or tune_trainable, runs=dict(self.runs), study=place.portable
        )
        forget = functools.partial(midway.clear, place)
        # Tune starts so many workers at the same time; 0: one after the other. Which trials of a search are
        # stopped early follows from their order
        at_once = num_trials if isinstance(searcher, Listed) else 0
        optuna = searcher if isinstance(searcher, ConstrainedOptunaSearch) else None
        recorder = Recorder(self.ledger, optuna, num_epochs, self.notify, forget)
        earlier = [one for one in place.names() if one == experiment or one.startswith(f"{experiment}-")]
        tuner = tune.Tuner(
            tune.with_resources(trainable, {"cpu": self.cpus_per_trial, "gpu": self.gpus_per_trial}),
            tune_config=tune.TuneConfig(
                num_samples=num_trials,
                max_concurrent_trials=self.max_concurrent or at_once,
                reuse_actors=True,
                search_alg=searcher,
                scheduler=scheduler,
                # by the trial's own id; Tune's name lists the hyper-parameters
                trial_dirname_creator=trial_id_of,
            ),
            run_config=tune.RunConfig(
                # what a driver that died has left stays as it is: trials continue from its checkpoints
                name=f"{experiment}-{len(earlier)}" if earlier else experiment,
                storage_path=place.path,
                storage_filesystem=None if place.is_local else place.filesystem,
                callbacks=[recorder, *callbacks],
                failure_config=tune.FailureConfig(max_failures=_MAX_FAILURES),
                # the last one holds the best epoch too; the one before it is for when the last is damaged, or
                # the ledger has not heard of it
                checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
                verbose=0,
            ),
        )
        # it reports snapshots that it could not copy; nobody reads them
        logging.getLogger("ray.tune.execution.experiment_state").setLevel(logging.CRITICAL)
        midway.reset(place)
        try:
            tuner.fit()
        except KeyboardInterrupt:
            midway.stop(place, recorder.running)
            raise
        except (TuneError, OSError) as error:
            # Tune writes files of its own, too
            fault = recorder.fault or recorder.lack_of_room(str(error))
            if fault is None:
                raise
            raise fault from error
