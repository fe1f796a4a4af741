"""The MLflow run of one configuration that is trained without a search."""

import contextlib
import dataclasses
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from feature_store.store import Features
from feature_store.wording import counted
from pipeline.base.errors import USER_ERRORS
from pipeline.base.trajectories import Failure
from pipeline.study.criterion import CRITERION_TAG
from pipeline.tracking import descriptions, epoch_steps, model_registry
from pipeline.tracking.tracked_dataset import dataset_of
from pipeline.tracking.tracking import CONFIG_ARTIFACT, MAX_TAG, NOTE_TAG, Tracker
from pipeline.training import checkpoints, data_options
from pipeline.training.epochs import FAILURE, FAILURE_MESSAGE, Epoch
from pipeline.training.settings import RunSettings
from search_spaces.lookup import metric_mode

logger = logging.getLogger("pipeline.study.lone_run")


def tags_of(run: RunSettings, features: Features, *, sample: bool, comparison: str = "") -> dict[str, str]:
    """Tags of a training that belongs to no search.

    Args:
        sample: whether the features are those of the made-up corpus.
        comparison: that it is part of; empty: it stands alone.
    """
    target = data_options.target_of_run(run)
    return {
        NOTE_TAG: descriptions.of_training(
            target, run.method, run.seed, run.num_epochs, run.criterion, comparison
        ),
        "method": run.method,
        "seed": str(run.seed),
        "data_fingerprint": features.fingerprint,
        "criterion": str(run.criterion),
        CRITERION_TAG: run.criterion.to_json(),
        "metric_mode": metric_mode(run.dataset),
        **data_options.tags(run.dataset, run.options),
        **model_registry.corpus_tag(sample),
    }


class LoneRun:
    """A run that is started with its settings, so that it can be trained again however it ends.

    MLflow that is away costs no training: what it lacks is written after a later epoch, or at the end.

    Args:
        tags: besides those of every training: the command, the commit.
        sample: whether the features are those of the made-up corpus.
    """

    def __init__(
        self,
        tracker: Tracker,
        run: RunSettings,
        features: Features,
        *,
        name: str,
        tags: Mapping[str, str],
        sample: bool,
    ) -> None:
        self.tracker = tracker
        self._waiting: list[Epoch] = []
        self._is_ended = False
        config = run.config().to_dict()
        every = {
            **tags,
            **epoch_steps.FROM_ONE,
            **tags_of(run, features, sample=sample),
        }
        self.run_id = tracker.start_run(tracker.experiment(run.dataset, run.aspect), name, config, every)
        document = {"config": config, "run": dataclasses.asdict(run)}
        with self.closing():
            tracker.log_dataset(self.run_id, dataset_of(features, run.own_title))
            text = json.dumps(document, indent=1, default=str) + "\n"
            tracker.log_artifact(self.run_id, text, CONFIG_ARTIFACT)

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """End the run as KILLED where the body does not come to its end, unless it has ended."""
        try:
            yield
        except BaseException:
            if not self._is_ended:
                # MLflow may be away; what the body says has to be told
                with contextlib.suppress(OSError, *USER_ERRORS):
                    self.tracker.finish(self.run_id, "KILLED")
            raise

    def log(self, epoch: Epoch) -> None:
        """Log an epoch, and those before it that MLflow lacks."""
        self._waiting.append(epoch)
        try:
            self._write()
        except USER_ERRORS as error:
            epochs = counted(len(self._waiting), "epoch is", "epochs are")
            logger.warning("%s not in MLflow yet: %s", epochs, error)

    def _write(self) -> None:
        while self._waiting:
            epoch_steps.log(self.tracker, self.run_id, self._waiting[0])
            self._waiting.pop(0)

    def fail(self, failure: Failure) -> None:
        """End the run as FAILED, with the reason of a training that failed.

        Raises:
            PipelineError: if MLflow is away.
        """
        self._write()
        tags = {FAILURE: failure.reason, FAILURE_MESSAGE: failure.message[:MAX_TAG]}
        self.tracker.finish(self.run_id, "FAILED", tags=tags)
        self._is_ended = True

    def finish(
        self, directory: Path, metrics: Mapping[str, float], pages: Callable[[], Mapping[str, str]]
    ) -> None:
        """Log the best epoch with its pages, and end the run.

        Args:
            directory: the working folder of the training.
            metrics: of the best epoch that are computed once, at the end.

        Raises:
            PipelineError: if MLflow is away.
        """
        self._write()
        artifacts: dict[str, Any] = {checkpoints.BEST: directory / checkpoints.BEST, **pages()}
        self.tracker.finish(self.run_id, metrics=metrics, artifacts=artifacts)
        self._is_ended = True
