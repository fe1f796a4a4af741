"""The function that Ray Tune calls in a worker: it trains one trial and reports its epochs."""

import contextlib
import functools
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from infocal.errors import StateError
from pipeline.base.storage import Storage
from pipeline.base.trajectories import Failure
from pipeline.training import checkpoints
from pipeline.training.epochs import Epoch, report_of
from pipeline.training.midway import Midway
from pipeline.training.settings import RUN, RunSettings
from pipeline.training.trainable import RESUMED, train

logger = logging.getLogger("pipeline.study.worker")


def tune_trainable(values: dict[str, Any], runs: Mapping[str, RunSettings], study: str) -> None:
    """The function that Ray Tune calls in a worker.

    Args:
        values: hyper-parameters of the trial; RESUMED says where it continues, RUN which settings it has.
        runs: everything else, by the names that RUN may have; the empty name is that of trials without RUN.
        study: folder or URI of the study.
    """
    from ray import tune

    chosen = dict(values)
    run = runs[chosen.pop(RUN, "")]
    again = chosen.pop(RESUMED, {"trial_id": tune.get_context().get_trial_id(), "checkpoints": []})
    midway = Midway(Storage(study).opened(), again["trial_id"], run.checkpoint_s)

    def report(result: Epoch | Failure, folder: Path) -> None:
        midway.rest()  # nobody would hear the report
        tune.report(report_of(result), checkpoint=tune.Checkpoint.from_directory(str(folder)))
        midway.clear()

    start = tune.get_checkpoint()
    with tempfile.TemporaryDirectory(prefix="infocal-") as working, contextlib.ExitStack() as stack:
        if start is None:
            folder = stack.enter_context(newest_whole(study, again["checkpoints"]))
        else:
            folder = Path(stack.enter_context(start.as_directory()))
        # Ray ends this process without a word to it
        midway.before_rest = functools.partial(shutil.rmtree, working, ignore_errors=True)
        train(chosen, run, report, Path(working), folder, midway)


@contextlib.contextmanager
def newest_whole(study: str, names: Sequence[str]) -> Iterator[Path | None]:
    """The newest checkpoint that is there and agrees with its digests, on this machine; None: there is none.

    Args:
        study: folder or URI of the study.
        names: of the checkpoints below it, the newest first.
    """
    place = Storage(study).opened()
    for name in names:
        with (place / name).localised(*checkpoints.PARTS) as folder:
            try:
                checkpoints.check(folder)
            except StateError as error:
                logger.warning("%s; the checkpoint before it is used", error)
                continue
            yield folder
            return
    yield None
