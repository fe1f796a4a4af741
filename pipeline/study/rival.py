"""The rival that a relative criterion reads: HardKuma, trained once and kept beside the features.

It is trained on the same features, for the same number of epochs and at the same held selection rate as the
trials of a search, with a seed of its own. What is kept are its best epoch's weights and scores.
"""

import dataclasses
import json
import logging
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from feature_store import cache, terminal
from feature_store.errors import DamagedCacheError
from feature_store.store import Features, derived_dir
from feature_store.wording import counted
from infocal.config import MethodConfig
from infocal.errors import StateError
from infocal.nn.rationalizer import Rationalizer
from pipeline.base.errors import PipelineError
from pipeline.base.trajectories import Failure
from pipeline.study.lone_board import LoneBoard
from pipeline.training import checkpoints, columns, data_options
from pipeline.training.epochs import BestEpoch, Epoch
from pipeline.training.loaders import embeddings_of
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import train
from search_spaces import criteria, lookup
from search_spaces.base import Criterion, at_rate

logger = logging.getLogger("pipeline.study.rival")

STEP, VERSION = "rival", 1
"""Raise the version when the same settings would train another rival."""
SEED = 0
_CLOSE = 0.01
"""Difference of two selection rates up to which they are compared as equal."""


class RivalFailed(PipelineError):  # noqa: N818 - named by what happened, as `CriterionNotMet`
    """The rival's training came to no result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """A measured rival, and what it takes to train it again; plain values."""

    method: str
    config: dict[str, Any]
    num_epochs: int
    rate: float
    """Selection rate that its threshold holds on validation texts, in (0, 1)."""
    criterion: str
    """By which its best epoch was chosen, as JSON."""
    seed: int = SEED
    precision: float = 0.0
    """Token precision of that epoch on the annotated validation texts, in [0, 1]; see `precision_at`."""
    own_rate: float | None = None
    """Share of the tokens that it selects itself, where this is clearly below `rate`; else None."""
    epoch: int = 0
    """Its number, from 0."""

    @classmethod
    def of_tag(cls, text: str, where: str) -> "Rival":
        """The rival that `as_tag` wrote.

        Raises:
            StateError: if the text is anything else.
        """
        try:
            return TypeAdapter(cls).validate_json(text, strict=True)
        except ValidationError as error:
            raise StateError(f"expected a rival as JSON, but got {text[:100]!r}", where=where) from error

    def as_tag(self) -> str:
        """The rival as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @property
    def name(self) -> str:
        """How tables call it."""
        return lookup.title(self.method)

    @property
    def key(self) -> dict[str, Any]:
        """Everything besides the features that its training depends on."""
        values = dataclasses.asdict(self)
        return {
            name: value for name, value in values.items() if name not in ("precision", "own_rate", "epoch")
        }

    def folder(self, features: Features) -> Path:
        """Where it is kept, whether it is there or not."""
        return derived_dir(features, STEP, VERSION, self.key)


def planned(run: RunSettings, features: Features, *, sample: bool) -> Rival:
    """The rival of a search, not measured yet.

    Its hyper-parameters are its preset's; what every method has in common, and the length of a start that
    follows from the data, it shares with the search.

    Args:
        run: of the search, with its features settled and its rate held.
        sample: whether these are those of the made-up corpus.
    """
    searched = run.config()
    method = lookup.implementation(criteria.RIVAL).config_class()
    values = lookup.preset(criteria.RIVAL, run.dataset, run.aspect, sample)
    settled = lookup.settled_preset(run.dataset, len(features.table("train")))
    known = {field.name for field in dataclasses.fields(method)}
    if not sample:
        values |= {name: getattr(searched, name, settled[name]) for name in settled if name in known}
    values |= {field.name: getattr(searched, field.name) for field in dataclasses.fields(MethodConfig)}
    return Rival(
        method=criteria.RIVAL,
        config=method.from_mapping(values).to_dict(),
        num_epochs=run.num_epochs,
        rate=searched.target_selection_rate,
        criterion=criteria.for_rival(run.criterion).to_json(),
    )


def settled(run: RunSettings, features: Features, *, sample: bool, is_asked_for: bool) -> RunSettings:
    """The settings with the threshold that the rival's precision gives; what was measured before stays.

    Args:
        sample: whether these are those of the made-up corpus.
        is_asked_for: whether the user named this kind of criterion; otherwise the fixed one does where the
            rival cannot be trained, and that is said.

    Raises:
        PipelineError: if the rival cannot be trained.
    """
    if run.criterion_kind != criteria.RELATIVE or run.rival:
        return run
    asked = planned(run, features, sample=sample)
    try:
        found, is_cached = measured(
            asked, features, run.device, bf16=run.bf16, num_threads=run.num_threads, own_title=run.own_title
        )
    except RivalFailed as error:
        if is_asked_for:
            raise RivalFailed(error.message, where="--criterion relative", hint=error.hint) from error
        fixed = criteria.above_chance(run.criterion, _density(features))
        logger.warning("note: %s; the fixed criterion is used instead: %s (%s)", error, fixed, fixed.why)
        return dataclasses.replace(run, criterion=fixed, criterion_kind=criteria.PAPER)
    told = f"{at_rate(found.rate)}, best of {counted(found.num_epochs, 'epoch')}" + (
        ", cached" if is_cached else ""
    )
    if found.own_rate is not None:
        told += f"; {filled_up(found.own_rate, found.rate)}"
    criterion = criteria.relative(run.criterion, found.precision, found.name, told, _density(features))
    logger.info("criterion: %s\n  %s", criterion, criterion.why)
    return dataclasses.replace(run, criterion=criterion, rival=dataclasses.asdict(found))


def _density(features: Features) -> float:
    """Share of the tokens of annotated validation texts that people marked, in [0, 1]."""
    table = features.annotated_validation()
    annotated = table.filter(pc.is_valid(table["rationale"]))
    marked, every = (
        pc.sum(pc.list_value_length(annotated[name])).as_py() or 0 for name in ("rationale", "tokens")
    )
    return float(marked / max(1, every))


def measured(
    asked: Rival,
    features: Features,
    device: str = "auto",
    *,
    bf16: bool = False,
    num_threads: int = 1,
    own_title: str = "",
) -> tuple[Rival, bool]:
    """The rival with its precision, and whether it was there already.

    Args:
        asked: which rival.
        features: on which it is trained, and beside which it is kept.
        device, bf16, num_threads: with which it is trained, where it is not there.
        own_title: how own data are called; empty for other data sets.

    Raises:
        RivalFailed: if its training comes to no result.
    """
    folder = asked.folder(features)
    if (kept := _kept(folder, warns=False)) is not None:
        return _with_scores(asked, kept), True
    # as for the language model: one process trains, and the others wait for it
    with cache.locked(features.directory.parent.parent, f"{features.directory.name}-{folder.name}"):
        if (kept := _kept(folder, warns=True)) is not None:
            return _with_scores(asked, kept), True
        with tempfile.TemporaryDirectory(prefix="infocal-") as working:
            run = RunSettings(
                dataset=features.dataset,
                aspect=features.aspect or "",
                method=asked.method,
                options={},
                features_dir=str(features.directory),
                language_model={},
                base=asked.config,
                criterion=Criterion.from_json(asked.criterion),
                num_epochs=asked.num_epochs,
                seed=asked.seed,
                device=device,
                bf16=bf16,
                num_threads=num_threads,
                hold_rate=True,
                own_title=own_title,
            )
            _train(run, Path(working))
            _keep(folder, Path(working) / checkpoints.BEST, asked)
    return _with_scores(asked, checkpoints.load_scores(folder)), False


def model_of(asked: Rival, features: Features) -> Rationalizer:
    """The rival's best epoch, in evaluation mode; it is trained again where it is not kept any more.

    Raises:
        RivalFailed: if that comes to no result.
    """
    measured(asked, features)
    return checkpoints.load_best(asked.folder(features), embeddings_of(features))


def precision_at(rate: float, scores: Mapping[str, float], prefix: str) -> tuple[float, float | None]:
    """Token precision at a selection rate, also where a threshold cannot hold it.

    Tokens of equal probability are selected together or not at all, so the rate of a threshold may lie far
    below the asked one, and its precision far above what any mask of the asked size can have. The tokens that
    are missing are counted as taken at random from the others.

    Args:
        rate: asked for, in (0, 1).
        scores: at the threshold.
        prefix: of their names, such as `val_`.

    Returns:
        The precision, and the share that the threshold selects where it is more than one point below `rate`.
    """
    precision = float(scores[f"{prefix}token_precision"])
    own = scores.get(f"{prefix}selection_rate_annotated", rate)
    density = scores.get(f"{prefix}gold_density")
    if density is None or own >= rate - _CLOSE:
        return precision, None
    among_others = (density - own * precision) / (1 - own)
    return (own * precision + (rate - own) * among_others) / rate, own


def filled_up(own_rate: float, rate: float) -> str:
    """How tokens were counted that a rival's threshold does not select, up to the rate."""
    return (
        f"it selects only {100 * own_rate:.1f} % of the tokens, so its precision is computed as if random "
        f"tokens were added up to {100 * rate:g} %"
    )


def _with_scores(asked: Rival, best: BestEpoch) -> Rival:
    precision, own_rate = precision_at(asked.rate, best.scores, "val_")
    return dataclasses.replace(asked, precision=precision, own_rate=own_rate, epoch=best.epoch)


def _kept(folder: Path, *, warns: bool) -> BestEpoch | None:
    """The kept epoch's scores; None where there is none, or it is damaged, which is said on request."""
    if not folder.is_dir():
        return None
    try:
        cache.verify_files(folder, cache.read_manifest(folder / cache.MANIFEST))
    except DamagedCacheError as error:
        if warns:
            logger.warning("%s: the rival is trained again", error)
        return None
    return checkpoints.load_scores(folder)


def _keep(folder: Path, best: Path, asked: Rival) -> None:
    """Put an epoch beside the features, whole or not at all."""
    with cache.staging(folder) as stage:
        names = sorted(path.name for path in best.iterdir())
        for name in names:
            shutil.copyfile(best / name, stage / name)
        meta = {"step": STEP, "version": VERSION, "parameters": asked.key}
        manifest = cache.Manifest(
            fingerprint=folder.name, files=cache.describe_files(stage, names), meta=meta
        )
        cache.write_manifest(stage / cache.MANIFEST, manifest)


def _train(run: RunSettings, working: Path) -> None:
    """Train a rival; its best epoch is left in the working folder.

    Raises:
        RivalFailed: if the training comes to no result.
    """
    name = lookup.title(run.method)
    logger.info(
        "training %s first, on %s, %s, for %s: its precision sets the threshold of the criterion. Later "
        "searches reuse the result, which is stored beside the features",
        name,
        data_options.target_of_run(run),
        at_rate(run.config().target_selection_rate),
        counted(run.num_epochs, "epoch"),
    )

    decisive = (*run.criterion.metrics, criteria.PRECISION)
    board = LoneBoard(run.dataset, run.num_epochs, logger, name=name, decisive=decisive)

    def report(result: Epoch | Failure, folder: Path) -> None:
        if isinstance(result, Failure):
            _fail(result.message)
        board.take(result)

    with terminal.showing(board):
        best = train({}, run, report, working).best
    if best is not None and best.degenerate is not None:
        _fail(
            f"in every epoch, it selects (nearly) all or no tokens (last epoch: "
            f"{columns.MASKS[best.degenerate]})"
        )
    if best is not None and not best.is_result:
        _fail("its start phase is not over in the last epoch")


def _fail(reason: str) -> NoReturn:
    name = lookup.title(criteria.RIVAL)
    raise RivalFailed(
        f"could not train {name}, whose precision sets the criterion's threshold: {reason}",
        hint="in `search`, use `--criterion paper`, which has fixed thresholds, or more `--epochs`; in "
        "`promote`, give a threshold with `--min-precision`",
    )
