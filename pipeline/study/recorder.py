"""Tune's side of a study's ledger: what Tune reports is written down before anybody else hears of it."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.result import AUTO_RESULT_KEYS, DEBUG_METRICS

from pipeline.base import full_disk
from pipeline.base.errors import PipelineError, shortened
from pipeline.base.trajectories import Failure
from pipeline.study.ledger import Ledger
from pipeline.study.scheduler import ConstrainedOptunaSearch, config_of, trial_id_of
from pipeline.training.epochs import EPOCHS, FAILURE, Epoch, reported

_OF_TUNE = {*AUTO_RESULT_KEYS, *DEBUG_METRICS, "done", "should_checkpoint"}
"""Names in a result that Tune has added to a worker's report."""
_SAYS = re.compile(r"[\w.]+(Error|Exception|Failure|Met): ")
_LACKS_MEMORY = re.compile(r"killing policy|OutOfMemoryError")
"""What stands in a report of Ray's memory monitor; what the kernel kills looks like any other kill."""
OUT_OF_MEMORY = "out_of_memory"
"""Reason of a trial whose workers were killed for want of memory; see `infocal.errors.TRAINING_FAILURES`."""
ERROR = "error"
"""Reason of a trial that an exception ended which has no name."""


class UnsavedCallback(tune.Callback):
    """A callback whose state is not in Tune's snapshots: a study is resumed from the ledger."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Recorder(UnsavedCallback):
    """Tune callback on the driver.

    Args:
        search: that proposed the trials; None: Optuna did not.
        num_epochs: epochs of a trial that is not stopped early.
        notify: called when the ledger has grown.
        forget: called with the id of a trial that has ended.
    """

    def __init__(
        self,
        ledger: Ledger,
        search: ConstrainedOptunaSearch | None,
        num_epochs: int,
        notify: Callable[[], None],
        forget: Callable[[str], None] = lambda trial_id: None,
    ) -> None:
        self.ledger, self.search, self.num_epochs, self.notify = ledger, search, num_epochs, notify
        self.forget = forget
        self.running: set[str] = set()
        """Ids of the trials that train now."""
        self.fault: PipelineError | None = None
        """Why nothing can be written any more; Tune ends with an error of its own."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial begins, or resumes.

        Trials are numbered as they were proposed. The worker of a later trial may be ready first: then those
        before it begin with it.
        """
        earlier = [] if self.search is None else trials[: trials.index(trial)]
        with self._kept():
            for one in [*earlier, trial]:
                if not self.ledger.has(trial_id_of(one)):
                    proposal = None if self.search is None else self.search.proposal(one.trial_id)
                    self.ledger.begin(trial_id_of(one), config_of(one), proposal)
        self.running.add(trial_id_of(trial))
        self.notify()

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """An epoch has ended, or training has failed in a way that has a name."""
        epoch = heard(result)
        if isinstance(epoch, Failure):
            self._fail(trial, epoch.reason, epoch.message)
            return
        storage = trial.storage
        assert storage is not None  # Tune sets it before it starts a trial
        with self._kept():
            self.ledger.epoch(
                trial_id_of(trial),
                epoch,
                f"{storage.experiment_dir_name}/{storage.trial_dir_name}/{result['checkpoint_dir_name']}",
                is_last=bool(result.get("done")) or int(result[EPOCHS]) >= self.num_epochs,
            )
        self.notify()

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has ended."""
        self._end(trial)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """An exception has ended a trial for good.

        Raises:
            PipelineError: if there is no room for its checkpoints: no trial can continue, but none failed.
        """
        # the driver's own copy: the one that `Trial.get_error` reads is not in the storage yet
        file = Path(trial.error_file) if trial.error_file else None
        text = file.read_text(encoding="utf-8") if file is not None and file.is_file() else ""
        if (fault := self.lack_of_room(text)) is not None:
            self.fault = fault
            raise fault
        self._end(trial)
        self._fail(trial, OUT_OF_MEMORY if _LACKS_MEMORY.search(text) else ERROR, said(text))

    def lack_of_room(self, text: str) -> PipelineError | None:
        """What to tell of a full disk; None where a traceback is of something else."""
        if not full_disk.is_said(said(text)):
            return None
        return PipelineError(
            f"checkpoints of trials can no longer be written: {shortened(said(text))}",
            where=str(self.ledger.directory.parent),
            hint=f"{full_disk.remedy(said(text), 'this disk and on the disk of TMPDIR')}, then resume with "
            "`--resume`: nothing that was written is lost",
        )

    def _end(self, trial: Trial) -> None:
        self.running.discard(trial_id_of(trial))
        self.forget(trial_id_of(trial))

    def _fail(self, trial: Trial, reason: str, message: str) -> None:
        with self._kept():
            self.ledger.fail(trial_id_of(trial), reason, message)
        self.notify()

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        """Keep the error with which the search ends."""
        try:
            yield
        except PipelineError as error:
            self.fault = error
            raise


def heard(result: Mapping[str, Any]) -> Epoch | Failure:
    """What a worker reported, of the result that Tune hands to its callbacks."""
    of_ours = {name: value for name, value in result.items() if name not in _OF_TUNE}
    if FAILURE in of_ours:
        return reported(of_ours)
    numbers = {name: value for name, value in of_ours.items() if type(value) in (int, float)}
    return reported(numbers)


def said(text: str) -> str:
    """The line of a traceback that says what happened; Ray writes remarks of its own below it."""
    lines = text.strip().splitlines() or ["no message"]
    named = [line for line in lines if _SAYS.match(line)]
    return (named or lines)[-1].strip()
