"""One trial: train, evaluate each epoch, keep the best one, report; the same with and without Ray."""

import contextlib
import dataclasses
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feature_store.store import Features
from feature_store.task_info import TaskInfo
from infocal.batch import Batch
from infocal.config import MethodConfig
from infocal.errors import StateError, TrainingFailure
from infocal.language_model_config import LanguageModelConfig
from infocal.metrics import resampling
from infocal.metrics.resampling import TextCounts
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import HALF
from infocal.trainer import Prediction, resolve_device
from pipeline.base import environment
from pipeline.base.errors import USER_ERRORS
from pipeline.base.trajectories import Failure
from pipeline.training import checkpoints, class_texts, columns, feature_copies
from pipeline.training.best import best_first, judged
from pipeline.training.epochs import BestEpoch, BestSoFar, Epoch
from pipeline.training.loaders import language_model_scores, prefetched, task_of, training_loader
from pipeline.training.midway import Midway
from pipeline.training.pretrained import inputs_of
from pipeline.training.scoring import Validation, ValidationData, hold_rate, validate
from pipeline.training.settings import RunSettings
from search_spaces import lookup
from search_spaces.base import Criterion

RESUMED = "resumed"
"""In the config of a trial that resumes after its driver died: `trial_id`, its first, and `checkpoints`."""
_NUM_SHOWN = 50
"""Validation texts whose rationales are kept to be looked at."""

_NO_CPU_MEMORY = re.compile(r"DefaultCPUAllocator: (can't allocate|not enough) memory|std::bad_alloc")
"""What torch says where the machine gives it no memory, on Linux and macOS, and on Windows."""

Report = Callable[[Epoch | Failure, Path], None]
"""Takes an epoch, or the failure that ended the training, and the folder of its checkpoint, which it may read
until it returns."""


@dataclass(slots=True)
class Progress:
    """What the loop remembers beside the trainer."""

    history: list[Epoch] = field(default_factory=list)
    best: BestEpoch | None = None
    """None before the first epoch."""

    @classmethod
    def of_json(cls, kept: Mapping[str, Any], where: Path) -> "Progress":
        """What `as_json` gave to a checkpoint.

        Raises:
            StateError: if the checkpoint kept something else.
        """
        history, best = kept.get("history"), kept.get("best")
        if not isinstance(history, list) or not isinstance(best, dict):
            raise StateError(
                f"expected `history` and `best`, but got {sorted(map(str, kept))}", where=str(where)
            )
        try:
            return cls(list(map(Epoch.of_json, history)), BestEpoch.of_json(best) if best else None)
        except ValueError as error:
            raise StateError(str(error), where=str(where)) from error

    def as_json(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {
            "history": [epoch.as_json() for epoch in self.history],
            "best": {} if self.best is None else self.best.as_json(),
        }


class Trial:
    """One configuration in training.

    Args:
        directory: working folder; the best epoch so far is kept in it.
    """

    def __init__(self, config: MethodConfig, run: RunSettings, seed: int, directory: Path) -> None:
        torch.set_num_threads(run.num_threads)
        self.config, self.run, self.seed, self.directory = config, run, seed, directory
        features = feature_copies.features_of(run)
        self.features = features
        device = resolve_device(run.device)
        limit_memory(device, run.gpu_memory_rate)
        scores = None
        if config.reads_language_model:
            scores = language_model_scores(
                features, LanguageModelConfig(**run.language_model), device, may_train=not run.features_uri
            )
        method = lookup.implementation(run.method)
        inputs = inputs_of(features, config)
        splitter = inputs.splitter if isinstance(inputs, Pretrained) else None
        self.loader = training_loader(features, scores, is_supervised=method.is_supervised, splitter=splitter)
        self.validation = ValidationData.of(features, config, splitter)
        self.trainer = method.trainer_class()(
            config,
            class_texts.told(task_of(features), config, features),
            inputs,
            steps_per_epoch=self.loader.num_batches(config.batch_size),
            seed=seed,
            device=device,
            bf16=run.bf16,
            class_counts=self.loader.class_counts(),
        )
        self.progress = Progress()
        self._started = self._earlier_s = 0.0

    def restore(self, checkpoint: Path) -> None:
        """Go on from a checkpoint that `save` wrote."""
        kept = checkpoints.load_state(checkpoint, self.trainer)
        self.progress = Progress.of_json(kept, checkpoint)
        checkpoints.copy_tree(checkpoint / checkpoints.BEST, self.directory / checkpoints.BEST)

    def save(self, checkpoint: Path) -> None:
        """Write everything needed to continue, to choose the best epoch and to show it."""
        checkpoints.save_state(checkpoint, self.trainer, self.progress.as_json())
        checkpoints.save_history(checkpoint, self.progress.history)
        checkpoints.copy_tree(self.directory / checkpoints.BEST, checkpoint / checkpoints.BEST)

    def save_midway(self, folder: Path) -> None:
        """Write the state between two batches of an epoch."""
        seconds = time.monotonic() - self._started
        checkpoints.save_state(folder, self.trainer, {"seconds": seconds})

    def restore_midway(self, folder: Path) -> None:
        """Go on in mid-epoch, where `save_midway` was called."""
        kept = checkpoints.load_state(folder, self.trainer)
        if not isinstance(kept.get("seconds"), float):
            raise StateError(f"expected `seconds`, but got {sorted(map(str, kept))}", where=str(folder))
        self._earlier_s = kept["seconds"]

    def epoch(self, midway: Midway | None = None) -> Epoch:
        """Train and evaluate one epoch, or the rest of one.

        Args:
            midway: keeps states within the epoch; None: there are none.

        Raises:
            TrainingFailure: if a loss is not finite, the discriminator stands still, or the mask has
                fallen to a trivial one after the ramp.
        """
        trainer, number = self.trainer, self.trainer.epoch
        self._started = started = time.monotonic() - self._earlier_s
        self._earlier_s = 0.0
        rate = trainer.schedulers[0].get_last_lr()[0]
        batches = self.loader.shuffled(
            self.config.batch_size, seed=self.seed, epoch=number, start=trainer.position
        )
        if trainer.device.type == "cuda":
            batches = prefetched(batches, Batch.pin_memory)
        if midway is not None:
            batches = midway.watched(batches, self)
        terms = trainer.train_epoch(batches)
        trained = time.monotonic()
        target = self.config.target_selection_rate
        fallen = hold_rate(trainer, self.validation, target) if self.run.hold_rate else None
        # where the threshold is held already, there is none to calibrate beside it
        found = validate(trainer.predict, self.validation, 0.0 if self.run.hold_rate else target)
        found = dataclasses.replace(found, degenerate=fallen or found.degenerate)
        self._guard(found)
        this = self._choose(found, number)
        epoch = Epoch(
            number=number,
            best=self._best_so_far(),
            objective=this.value,
            metrics={
                **found.scores,
                **{f"train_{name}": value for name, value in terms.items()},
                **{f"gradient_share_{name}": share for name, share in trainer.gradient_shares.items()},
            },
            learning_rate=rate,
            epoch_s=time.monotonic() - started,
            train_s=trained - started,
            tokens_per_s=int(self.loader.token_ids.lengths.sum()) / (trained - started),
        )
        self.progress.history.append(epoch)
        return epoch

    def _guard(self, found: Validation) -> None:
        armed = self.trainer.epoch - 1 >= self.config.start_epochs and not self.config.is_dense
        if armed and found.degenerate is not None:
            rate = found.scores["val_selection_rate"]
            which = "all tokens have" if found.degenerate == "degenerate_all" else "no token has"
            said = f"the selector has collapsed: (nearly) {which} p >= 0.5"
            held = f"; a separate threshold still selects {rate:.1%} of the tokens, but that does not count"
            said += held if self.run.hold_rate else ""
            raise TrainingFailure(found.degenerate, f"epoch {self.trainer.epoch}: {said}")

    def _choose(self, found: Validation, number: int) -> BestEpoch:
        """This epoch by the criterion; its weights are kept where it is the best so far."""
        is_result = self.trainer.is_presentable and (found.degenerate is None or self.config.is_dense)
        this = epoch_of(self.run.criterion, found, number, is_result=is_result)
        earlier = [] if self.progress.best is None else [self.progress.best]
        if best_first([*earlier, this], lambda one: one.standing)[0] is this:
            self.progress.best = with_intervals(this, self.run, found)
            checkpoints.save_best(
                self.directory / checkpoints.BEST,
                self.trainer.evaluated_model,
                self.progress.best.as_json() | {"environment": environment.facts(self.trainer.device)},
                shown_predictions(found, self.features),
            )
        return this

    def _best_so_far(self) -> BestSoFar:
        best, first = self.progress.best, self.run.criterion.metric
        assert best is not None  # `_choose` was called
        shown = best_shown(self.run.dataset, best.scores, self.run.criterion)
        return BestSoFar.of(best, sorted(shown, key=lambda name: name != first))


def limit_memory(device: torch.device, rate: float) -> None:
    """Let this process hold no more than a share of its card: if it grows, it fails, not its neighbour.

    Args:
        device: of the trial; nothing is done on a CPU.
        rate: share of the card's memory, in (0, 1]; the context's own is not counted.
    """
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(rate, device.index)


def best_shown(dataset: str, scores: Mapping[str, float], criterion: Criterion) -> dict[str, float]:
    """Those of an epoch's validation scores that every report repeats, and those that the criterion reads."""
    names = [f"val_{name}" for name in columns.shown(dataset)]
    names += [name for name in columns.of_targets(scores) if name.startswith("val_")]
    return {name: scores[name] for name in dict.fromkeys([*names, *criterion.metrics]) if name in scores}


def epoch_of(criterion: Criterion, found: Validation, epoch: int, *, is_result: bool) -> BestEpoch:
    """What `best/scores.json` says of an epoch, but for its intervals.

    Args:
        is_result: False where it can be no result: of a trivial mask, as while dense, or in mid-start. It
            meets no criterion.

    Raises:
        ValueError: if a score that the criterion reads is not finite.
    """
    criterion.value(found.scores)
    violation, value = judged(criterion, found.scores, is_result=is_result)
    return BestEpoch(
        epoch=epoch,
        value=value,
        violation=violation,
        scores=dict(found.scores),
        degenerate=found.degenerate,
        is_result=is_result,
    )


def with_intervals(epoch: BestEpoch, run: RunSettings, found: Validation) -> BestEpoch:
    """An epoch with how far its scores would move with other validation texts.

    The intervals are of the scores that reports show and the criterion reads, but for the selection rates;
    there is none where the texts' counts are not known.
    """
    if found.counts is None:
        return epoch
    shown = [name.removeprefix("val_") for name in best_shown(run.dataset, found.scores, run.criterion)]
    drawn = resampling.intervals(
        found.counts, [name for name in shown if not columns.plain(name).startswith("selection_rate")]
    )
    drawn |= _target_intervals(found.side_counts, shown)
    own = drawn.get(run.criterion.metric.removeprefix("val_"))
    return dataclasses.replace(
        epoch,
        intervals={f"val_{name}": one for name, one in drawn.items()},
        lower_bound=None if own is None else own.low,
    )


def _target_intervals(
    counts: Mapping[str, TextCounts], shown: Sequence[str]
) -> dict[str, resampling.Interval]:
    """Those of the scores of several targets, and of their mean.

    Args:
        shown: flat names without `val_`; those without a target's name are left out.
    """
    drawn: dict[str, resampling.Interval] = {}
    for name in dict.fromkeys(shown):
        target, _, score = name.rpartition("/")
        if score.startswith("selection_rate"):
            continue
        if target in counts:
            one = resampling.intervals(counts[target], [score]).get(score)
        elif target == columns.MEAN:
            one = resampling.interval_over_targets(list(counts.values()), score)
        else:
            continue
        if one is not None:
            drawn[name] = one
    return drawn


def shown_predictions(found: Validation, features: Features) -> list[dict[str, Any]]:
    """The first annotated validation texts with human and model rationale, as JSON."""
    rows = features.annotated_validation().slice(0, _NUM_SHOWN).to_pylist()
    info = features.task
    ends, is_score = info.score_range, info.class_names is None
    shown = []
    for row, prediction in zip(rows, found.predictions, strict=False):
        human = None
        if row["rationale"] is not None:
            human = [int(i in set(row["rationale"])) for i in range(len(row["tokens"]))]
        shown.append(
            {
                "example_id": row["example_id"],
                "tokens": row["tokens"],
                "human": human,
                **_selection(prediction),
                **_outcome(prediction, info),
                "score_range": list(ends) if is_score else None,
            }
            | _sides(prediction, info)
        )
    return shown


def _outcome(prediction: Prediction, info: TaskInfo) -> dict[str, Any]:
    """What was predicted, by the guider as well, and the target."""
    names, ends, guided = info.class_names, info.score_range, prediction.guider_output
    target = prediction.target
    return {
        "prediction": _said(prediction.output, names, ends),
        "guider_prediction": None if guided is None else _said(guided, names, ends),
        "target": _scaled(target, ends) if names is None else names[int(target)],
    }


def _sides(prediction: Prediction, info: TaskInfo) -> dict[str, Any]:
    """The same of the side targets, each with its name; nothing where there is one target."""
    if not info.sides:
        return {}
    every = zip(info.sides, prediction.sides, strict=True)
    sides = [
        {"name": side.name, **_outcome(one, side), **(_selection(one) if one.has_own_rationale else {})}
        for side, one in every
    ]
    return {"name": info.name, "sides": sides}


def _selection(prediction: Prediction) -> dict[str, Any]:
    """Which tokens the model selects."""
    return {
        "probability": [round(float(p), 4) for p in prediction.select_probability],
        "selected": [int(p >= HALF) for p in prediction.select_probability],
    }


def _said(output: np.ndarray, class_names: Sequence[str] | None, ends: tuple[float, float]) -> float | str:
    """A score on the user's scale, or the likeliest class with its probability."""
    if class_names is None:
        return _scaled(float(output[0]), ends)
    return f"{class_names[int(output.argmax())]} ({output.max():.2f})"


def _scaled(score: float, ends: tuple[float, float]) -> float:
    """A score of [0, 1] on the scale between the two ends."""
    return round(ends[0] + (ends[1] - ends[0]) * score, 4)


def train(
    values: Mapping[str, Any],
    run: RunSettings,
    report: Report,
    directory: Path,
    checkpoint: Path | None = None,
    midway: Midway | None = None,
) -> Progress:
    """Train one configuration to the end, reporting each epoch.

    A failure that has a name is reported after the last epoch.

    Args:
        values: hyper-parameters that differ from `run.base`, and optionally `seed`.
        report: called after each epoch.
        directory: an empty working folder.
        midway: keeps states within an epoch, and may have one to continue from.
    """
    chosen = dict(values)
    seed = int(chosen.pop("seed", run.seed))
    config = run.config(**chosen)
    try:
        with naming_out_of_memory("start"):
            trial = _begun(config, run, seed, directory, checkpoint)
            if midway is not None and not midway.restore(trial):
                trial = _begun(config, run, seed, directory, checkpoint)
    except TrainingFailure as failure:
        return _failed_at_start(failure, report, directory, checkpoint)
    while trial.trainer.epoch < run.num_epochs:
        try:
            with naming_out_of_memory(f"epoch {trial.trainer.epoch + 1}"):
                result: Epoch | Failure = trial.epoch(midway)
        except TrainingFailure as failure:
            result = Failure(len(trial.progress.history), failure.reason, str(failure))
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            trial.save(Path(folder))
            report(result, Path(folder))
        if isinstance(result, Failure):
            break
    return trial.progress


def _begun(
    config: MethodConfig, run: RunSettings, seed: int, directory: Path, checkpoint: Path | None
) -> Trial:
    """A trial at the start of an epoch: its first one, or the one after a checkpoint."""
    trial = Trial(config, run, seed, directory)
    if checkpoint is not None:
        trial.restore(checkpoint)
    return trial


@contextlib.contextmanager
def naming_out_of_memory(when: str) -> Iterator[None]:
    """Turn a lack of memory, of a GPU or of the machine, into the failure of that name.

    Raises:
        TrainingFailure: `out_of_memory`.
    """
    try:
        yield
    except (RuntimeError, MemoryError, *USER_ERRORS) as error:
        lack = _lack_of_memory(error)
        if lack is None:
            raise
        # the first line that says something: numpy's and Python's own MemoryError may be empty
        reason = (str(lack).strip() or "no memory left").splitlines()[0]
        raise TrainingFailure("out_of_memory", f"{when}: {reason}") from error


def _lack_of_memory(error: BaseException | None) -> BaseException | None:
    """The error that says that there is no memory, among this one and what it came from."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return error
        # on a CPU torch raises no class of its own
        if isinstance(error, RuntimeError) and _NO_CPU_MEMORY.search(str(error)):
            return error
        error = error.__cause__
    return None


def _failed_at_start(
    failure: TrainingFailure, report: Report, directory: Path, checkpoint: Path | None
) -> Progress:
    """Report a trial that could not be set up, with the checkpoint that it was to continue from."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        history: list[Epoch] = []
        if checkpoint is not None:
            checkpoints.copy_tree(checkpoint, Path(folder))
            history = checkpoints.load_history(checkpoint)
        report(Failure(len(history), failure.reason, str(failure)), Path(folder))
    return Progress(history)
