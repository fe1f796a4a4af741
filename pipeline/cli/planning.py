"""From checked flags to the settings of a run, and to its features: what search and train share."""

import argparse
import dataclasses
import logging
import shlex
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feature_store import targets
from feature_store.class_texts import class_words, read_class_texts
from feature_store.command_line import cache_folder
from feature_store.sources import get_source
from feature_store.sources.base import resolve_aspect, source_options
from feature_store.wording import counted
from infocal.config import MethodConfig, Task
from infocal.encoder_registry import ENCODERS
from infocal.errors import ConfigError, did_you_mean
from infocal.language_model_config import LanguageModelConfig
from pipeline.base.errors import PipelineError
from pipeline.cli import epoch_check, flag_values
from pipeline.study import cluster
from pipeline.study.cluster import LOCAL
from pipeline.study.criterion import criterion_of
from pipeline.training import data_options, naming, settings
from pipeline.training.columns import MEAN, TASK_SCORES, of_target, plain
from search_spaces import lookup
from search_spaces.base import SELECTION_RATE, Criterion
from search_spaces.criteria import PAPER, RELATIVE, RIVAL, and_min_precision, expected
from search_spaces.datasets import out_of_reach
from search_spaces.space import Space

if TYPE_CHECKING:
    from feature_store.store import FeatureRequest
    from feature_store.survey import Survey

logger = logging.getLogger("pipeline.cli.planning")

_GOLD_FREE = frozenset((*TASK_SCORES, "selection_rate"))
"""Scores for which no text need be annotated."""


def run_settings(
    given: argparse.Namespace,
    tracked: Mapping[str, Any],
    num_threads: int = 1,
    *,
    holds_rate: bool = False,
    space: Space = (),
) -> settings.RunSettings:
    """Check the flags and resolve what a worker needs; the features' folder is still missing.

    Hyper-parameters come from the dataset's preset, then `tracked`, then `--config`, then `--set`.

    Args:
        tracked: hyper-parameters of an earlier run to start from.
        holds_rate: whether models are judged at the selection rate that they aim at, where they have one,
            though no flag names it; of real data only: the sample corpus keeps p >= 0.5.
        space: what a search varies.

    Raises:
        UserError: of the room that refuses a name or a value.
    """
    aspect = resolve_aspect(get_source(given.dataset), given.aspect) or ""
    chosen = {**tracked, **flag_values.hyper_parameters(given.config, given.set)}
    base = lookup.preset(given.method, given.dataset, aspect, given.sample) | chosen
    if given.target_selection_rate is not None:
        base["target_selection_rate"] = _target_rate(given)
    for name in ("pretrained", "article_texts"):
        if isinstance(base.get(name), str) and base[name] and Path(base[name]).expanduser().exists():
            # by its whole path: a worker has another current folder
            base[name] = str(Path(base[name]).expanduser().resolve())
    lookup.check_number_of_targets(given.method, given.dataset, aspect, "--method")
    _check_variant(base, given.method)
    _check(base, given, aspect)
    check_pretrained(base.get("encoder", "rcnn"), base.get("pretrained"), _flags(given) or "--method")
    criterion = lookup.criterion(given.dataset, aspect)
    own_rationales = base.get("rationales") == "per_head"
    criterion = _for_target(criterion, aspect, getattr(given, "criterion_target", None), own_rationales)
    if given.min_precision is not None:
        of_what = naming.title(given.dataset, aspect)
        criterion = _with_min_precision(criterion, given.min_precision, of_what)
    language_model = LanguageModelConfig(**lookup.language_model_preset(given.dataset, given.sample))
    run = settings.RunSettings(
        dataset=given.dataset,
        aspect=aspect,
        method=given.method,
        options=source_options(given.option),
        features_dir="",
        language_model=language_model.to_dict(),
        base=base,
        criterion=criterion,
        num_epochs=given.epochs,
        seed=given.seed,
        device=given.device,
        bf16=given.bf16,
        num_threads=num_threads,
        hold_rate=given.target_selection_rate is not None,
    )
    rate = run.config().target_selection_rate
    if holds_rate and 0 < rate < 1 and _holds_by_default(given):
        run = dataclasses.replace(run, hold_rate=True)
    run = with_criterion(run, criterion, _kind(given, run))
    if given.sample:
        epoch_check.note_few(run)
    elif not lookup.depends_on_data(given.dataset):
        epoch_check.check(run, space=space)  # where the start follows from the data, once these are read
    return run


def refuse_gpus_of_the_cpu(given: float | str | None, device: str, flag: str) -> None:
    """Refuse GPUs for trainings on the CPU: they would be reserved, and would idle.

    Args:
        given: GPUs of each training, as given; `auto` is checked by `cluster.check_packing`.

    Raises:
        PipelineError: if GPUs are asked for and the device is the CPU.
    """
    if isinstance(given, float) and given and device == "cpu":
        raise PipelineError(
            f"expected no GPUs with `--device cpu`, but got {given:g}",
            where=f"{flag} {given:g}",
            hint=f"leave out `{flag}`, or leave out `--device cpu`",
        )


def _holds_by_default(given: argparse.Namespace) -> bool:
    return not given.sample or getattr(given, "criterion", None) == RELATIVE


def with_criterion(
    run: settings.RunSettings, criterion: Criterion, kind: str | None = None
) -> settings.RunSettings:
    """The settings with another criterion, which says at what rate models are judged, where it is held.

    Args:
        kind: `relative`, `paper`, or empty where nobody searches; None: as it is.
    """
    rate = run.config().target_selection_rate
    if run.hold_rate and 0 < rate < 1:
        criterion = criterion.at_rate(rate)
    return dataclasses.replace(
        run, criterion=criterion, criterion_kind=run.criterion_kind if kind is None else kind
    )


def _kind(given: argparse.Namespace, run: settings.RunSettings) -> str:
    """Where the threshold on precision comes from, as far as the flags say it; empty where nobody searches.

    Raises:
        PipelineError: if a rival is asked for that no flag lets be measured.
    """
    if not hasattr(given, "criterion"):
        return ""
    if given.min_precision is not None:
        return PAPER
    is_possible = run.hold_rate and not run.config().is_dense and reads_rationales(run.criterion)
    if given.criterion == RELATIVE and not is_possible:
        lack = (
            f"models for {naming.title(run.dataset, run.aspect)} are chosen by their predictions, not by "
            "human rationales"
            if not reads_rationales(run.criterion)
            else "a model without a target selection rate cannot be compared with HardKuma at the same rate"
        )
        raise PipelineError(lack, where="--criterion relative", hint="use `--criterion paper`")
    if given.criterion is not None:
        return str(given.criterion)
    return RELATIVE if is_possible and not given.sample else PAPER


def reads_rationales(criterion: Criterion) -> bool:
    """Whether a criterion reads scores for which texts must be annotated."""
    return not _GOLD_FREE.issuperset(map(plain, criterion.metrics))


def criterion_in_words(run: settings.RunSettings) -> str:
    """The criterion, or what is known of it before its rival was measured."""
    if run.criterion_kind != RELATIVE or run.rival:
        return str(run.criterion)
    return expected(run.criterion, lookup.title(RIVAL))


def _target_rate(given: argparse.Namespace) -> float:
    rate: float = given.target_selection_rate
    if rate == 0:
        raise PipelineError(
            "expected a selection rate above 0, but got 0, which selects nothing",
            where="--target-selection-rate",
            hint="leave out the flag, or use `--set target_selection_rate=0`: then the weights of the losses "
            "decide how much is selected",
        )
    return rate


def _check_variant(base: Mapping[str, Any], method: str) -> None:
    """Refuse to train a variant without what makes it one."""
    for name, value in lookup.fixed_by(method).items():
        if base[name] != value:
            raise PipelineError(
                f"variant `{method}` requires {name} = {value}, but got {base[name]}",
                hint=f"remove `{name}` from `--set` and `--config`, or train another method than `{method}`",
            )


def _with_min_precision(criterion: Criterion, limit: float, of_what: str) -> Criterion:
    """The criterion with a stated threshold on precision, which it gets where it reads human rationales.

    Raises:
        PipelineError: if it reads none.
    """
    if not reads_rationales(criterion):
        raise PipelineError(
            f"models for {of_what} are chosen by their predictions, so no precision of rationales is "
            "measured",
            where="--min-precision",
            hint="leave out the flag",
        )
    return and_min_precision(criterion, limit)


def _for_target(criterion: Criterion, aspect: str, target: str | None, own_rationales: bool) -> Criterion:
    """The criterion with the score of one of several targets, or of their mean, in place of the main one's.

    Where each target has its own rationale, bounds on the selection rate are of that target, too.

    Raises:
        PipelineError: if there are not several targets, or none of that name, or it reads rationales.
    """
    if target is None:
        return criterion
    names, score = targets.names_of(aspect), plain(criterion.metric)
    known = ", ".join(f"`{name}`" for name in (*names, MEAN))
    hint: str | None = "leave out the flag"
    if len(names) < 2:
        lack = f"this flag needs several targets, but the model has only one; got `{target}`"
    elif score not in TASK_SCORES:
        lack = (
            f"models for {naming.title('', aspect)} are chosen by human rationales ({criterion}), not by the "
            "predictions of a target"
        )
    elif target not in (*names, MEAN):
        lack, hint = f"no target `{target}`; the targets are {known}", did_you_mean(target, (*names, MEAN))
    else:
        found = dataclasses.replace(criterion, metric=f"val_{of_target(target, score)}")
        return _with_rate_of(found, target) if own_rationales else found
    raise PipelineError(lack, where="--criterion-target", hint=hint)


def _with_rate_of(criterion: Criterion, target: str) -> Criterion:
    """The criterion with its bounds on the selection rate as bounds on that of a target's rationales."""
    own = f"val_{of_target(target, plain(SELECTION_RATE))}"
    bounds = [
        dataclasses.replace(bound, metric=own) if bound.metric == SELECTION_RATE else bound
        for bound in criterion.bounds
    ]
    return dataclasses.replace(criterion, bounds=tuple(bounds))


def _check(base: Mapping[str, Any], given: argparse.Namespace, aspect: str) -> None:
    """Refuse hyper-parameters of which no config can be made, naming the flags that they may come from."""
    try:
        config = lookup.implementation(given.method).config_class().from_mapping(base)
        _check_weights(config, aspect)
        for file in config.class_texts().values():
            read_class_texts(Path(file))
    except ConfigError as error:
        raise PipelineError(
            error.message,
            where=_flags(given),
            hint=error.hint
            or _as_flag(base, given)
            or f"`{listing(base, given)}` lists every hyper-parameter of `{given.method}`",
        ) from error


def listing(base: Mapping[str, Any], given: argparse.Namespace) -> str:
    """A command that lists the hyper-parameters of the method; it needs no data, and trains nothing."""
    words = ["--dataset", given.dataset, *(["--aspect", given.aspect] if given.aspect else [])]
    encoders = lookup.implementation(given.method).encoders
    if encoders and ENCODERS[encoders[0]].is_pretrained:
        words += ["--set", f"pretrained={base.get('pretrained') or 'FOLDER'}"]
    command = ["python", "-m", "pipeline.search", *words, "--method", given.method, "--sample", "--dry-run"]
    return shlex.join(command)


def _as_flag(base: Mapping[str, Any], given: argparse.Namespace) -> str | None:
    """That what was given as a hyper-parameter is a flag; None where it is none."""
    known = {field.name for field in dataclasses.fields(lookup.implementation(given.method).config_class())}
    found = next((name for name in base if name not in known and hasattr(given, name)), None)
    return found and f"use the flag `--{found.replace('_', '-')}` instead of a hyper-parameter"


def _check_weights(config: MethodConfig, aspect: str) -> None:
    """Refuse targets that the method cannot have, and weights of others, as a trial would.

    Raises:
        ConfigError: as `MethodConfig.weighted`.
    """
    every = [Task(kind="regression", name=name) for name in targets.names_of(aspect)]
    task = dataclasses.replace(every[0], sides=tuple(every[1:])) if every else Task(kind="regression")
    config.weighted(task)


def check_pretrained(encoder: str, pretrained: Any, where: str | None) -> None:
    """Refuse an encoder that starts from pretrained weights where none are named.

    Args:
        where: the flag to mend it.
    """
    if ENCODERS[encoder].is_pretrained and not pretrained:
        raise PipelineError(
            f"the encoder `{encoder}` needs `pretrained`, a folder or a model's name on the hub",
            where=where,
            hint="add `--set pretrained=FOLDER`",
        )


def _flags(given: argparse.Namespace) -> str | None:
    """The flags from which hyper-parameters come."""
    flags = ["--set"] * bool(given.set) + [f"--config {given.config}"] * bool(given.config)
    return " or ".join(flags) or None


def feature_request(given: argparse.Namespace, run: settings.RunSettings) -> "FeatureRequest":
    """The features that a run reads."""
    from feature_store.store import FeatureRequest  # pyarrow takes 0.4 s that --help need not wait for

    return FeatureRequest(
        dataset=run.dataset,
        aspect=run.aspect or None,
        data_dir=Path(given.data_dir) if given.data_dir else None,
        cache_dir=cache_folder(given.cache_dir),
        sample=given.sample,
        options=run.options,
        max_length=run.config().max_length,
        **settings.word_vectors(run.dataset, given.embedding),
    )


def check_device(run: settings.RunSettings, address: str | None = LOCAL) -> None:
    """Look whether device, kernel and pretrained encoder are there, and can do what is asked of them.

    Args:
        address: of the Ray cluster on which trials run; what its nodes can do is asked when it is connected.

    Raises:
        StateError: if the device is not there, or cannot do it.
        ConfigError: if INFOCAL_KERNEL names no kernel.
        PipelineError: if the pretrained encoder is not there, or cannot be read.
    """
    from infocal import kernels  # torch takes seconds that --help need not wait for
    from infocal.trainer import check_bf16, resolve_device

    kernels.asked_for()
    here = cluster.here(run, address)
    config = run.config()
    check_bf16(here.bf16, resolve_device(here.device), config.encoder)
    if name := config.pretrained:
        from pipeline.training import pretrained

        pretrained.opened(name)


def compile_ahead(run: settings.RunSettings, address: str | None = LOCAL) -> None:
    """Start to compile the kernels of a CPU, once on a machine, while data are prepared; trials find them.

    Args:
        address: as for `check_device`.
    """
    from infocal import kernels
    from infocal.trainer import resolve_device

    if resolve_device(cluster.here(run, address).device).type == "cpu":
        threading.Thread(target=kernels.compiled).start()


def check_data(given: argparse.Namespace, run: settings.RunSettings) -> None:
    """Look whether the raw files are there, without reading them.

    Raises:
        MissingDataError: if one is not; names it and what to do.
    """
    from feature_store.store import raw_files

    raw_files(feature_request(given, run))


def with_features(
    given: argparse.Namespace, run: settings.RunSettings, *, is_first: bool = True
) -> settings.RunSettings:
    """The settings with the features' folder, and with a criterion that what they hold has settled.

    Opens or builds the features and says aloud what has to be said about them.

    Args:
        is_first: whether it is said: not where it was for another run on the same data.

    Raises:
        PipelineError: if no validation text has a human rationale, where the criterion reads them.
        UserError: if the method reads texts of classes, and these do not fit the features.
    """
    from feature_store.store import open_features
    from pipeline.training.origin import origin_of

    def check(num_texts: int) -> None:
        _schedule(given, run, num_texts)

    # every digest: a search takes hours, and hashing what it reads a moment
    features = open_features(feature_request(given, run), verify=True, on_rows=check)
    for note in features.notes if is_first else ():
        logger.info("note: %s", note)
    run = dataclasses.replace(
        run,
        features_dir=str(features.directory.resolve()),
        origin=origin_of(features),
        own_title=_own_title(given, features.notes),
    )
    validation = features.annotated_validation()["rationale"]
    marked = features.table("train")["rationale"]
    _check_supervision(run, len(marked), len(marked) - marked.null_count)
    for target, file in run.config().class_texts().items():
        class_words(features, target, Path(file))  # a worker would fail on the same file
    if lookup.depends_on_data(run.dataset):
        num_texts = len(features.table("train"))
        run = _settled(given, run, criterion_of(features), num_texts)
        if is_first:
            logger.info("criterion: %s", criterion_in_words(run))
        if is_first and not given.sample:
            logger.info("%s: %s", counted(num_texts, "training text"), epoch_check.start_of(run))
        return run
    _check_annotated(given, run, len(validation), len(validation) - validation.null_count)
    if is_first and not given.sample:
        _warn_of_bar(run, len(features.table("train")))
    return run


def _own_title(given: argparse.Namespace, notes: Sequence[str]) -> str:
    return data_options.own_title(given.dataset, notes, naming.own_folder(given))


def looked_at(
    given: argparse.Namespace, run: settings.RunSettings, found: "Survey | None" = None
) -> tuple[settings.RunSettings, "Survey"]:
    """The settings as the data files settle them, and what these hold; rows are read, and nothing is built.

    Args:
        found: what the files hold, where another run on the same data has looked already.

    Raises:
        UserError: what `with_features` raises for files that break their format, or too few epochs.
    """
    from feature_store.survey import survey

    is_first = found is None
    found = survey(feature_request(given, run)) if found is None else found
    run = dataclasses.replace(run, own_title=_own_title(given, found.notes))
    if (train := found.sizes.get("train")) is not None:
        _check_supervision(run, train.rows, train.annotated)
    held = found.sizes.get("val_annotated") or found.sizes.get("val")
    if lookup.depends_on_data(run.dataset):
        has_rationales = held is not None and held.marked > 0
        criterion = lookup.settled_criterion(run.dataset, run.aspect, found.kind, has_rationales)
        return _settled(given, run, criterion, found.sizes["train"].rows), found
    if held is not None:
        _check_annotated(given, run, held.rows, held.annotated)
    if is_first and not given.sample and "train" in found.sizes:
        _warn_of_bar(run, found.sizes["train"].rows)
    return run, found


def data_lines(found: "Survey") -> list[str]:
    """What the data files hold, for the plan of a dry run: a line with how much, then the notes."""
    parts = []
    for split, size in found.sizes.items():
        tokens = "" if size.tokens is None else f", {counted(size.tokens, 'token', spec=',')}"
        annotated = f", {size.annotated:,} annotated" if size.annotated else ""
        parts.append(f"{split} {counted(size.rows, 'text', spec=',')}{tokens}{annotated}")
    how = "built features in the cache were read" if found.is_built else "every row was read and checked"
    how += f" in {found.seconds:.1f} s"
    if any(size.tokens is None for size in found.sizes.values()):
        how += "; texts are cut into words later, when features are built"
    lines = [f"data         {'; '.join(parts)}", f"             {how}"]
    return lines + [f"             {note}" for note in found.notes]


def _check_annotated(
    given: argparse.Namespace, run: settings.RunSettings, num_texts: int, num_annotated: int
) -> None:
    """Refuse validation texts without a rationale where the criterion reads them."""
    if not num_annotated and reads_rationales(run.criterion):
        raise PipelineError(
            f"none of the {num_texts} validation texts of {data_options.target_of_run(run)} has a human "
            "rationale, so the criterion cannot choose an epoch",
            where=given.data_dir,
            hint="the criterion needs annotated texts; check that the file of annotations is complete",
        )


def _check_supervision(run: settings.RunSettings, num_texts: int, num_annotated: int) -> None:
    """Refuse a method that learns from human rationales where no training text has one."""
    if lookup.implementation(run.method).is_supervised and not num_annotated:
        raise PipelineError(
            f"`{run.method}` learns from the human rationales of training texts, but none of the "
            f"{counted(num_texts, 'training text')} of {data_options.target_of_run(run)} has one",
            where="--method",
            hint="choose a method that needs no rationales to learn from",
        )


def _warn_of_bar(run: settings.RunSettings, num_texts: int) -> None:
    """Say before anything is trained that no model is known to come as far as the criterion asks."""
    if run.criterion_kind == RELATIVE:
        return
    for bound in run.criterion.bounds:
        known = (
            out_of_reach(run.dataset, run.aspect, num_texts, bound.limit, run.criterion.rate)
            if bound.metric == "val_token_precision"
            else None
        )
        if known is not None:
            logger.warning(
                "note: with %s and %.0f %% of the tokens selected, the highest precision that we measured "
                "was %.2f (%s). You have %d, so %s is probably out of reach. Set another threshold with "
                "`--min-precision`%s",
                counted(known.num_texts, "training text"),
                100 * known.rate,
                known.precision,
                known.why,
                num_texts,
                bound,
                " now, or with `python -m pipeline.register` after the search" if run.criterion_kind else "",
            )


def _settled(
    given: argparse.Namespace, run: settings.RunSettings, criterion: Criterion, num_texts: int
) -> settings.RunSettings:
    """The settings with what follows from data of one's own.

    Raises:
        PipelineError: if precision is to be read, and nobody marked a rationale.
    """
    kind = run.criterion_kind
    if given.min_precision is not None:
        criterion = _with_min_precision(criterion, given.min_precision, naming.title(run.dataset, run.aspect))
    if kind == RELATIVE and not reads_rationales(criterion):
        if given.criterion == RELATIVE:
            raise PipelineError(
                "no validation text has a human rationale, so no precision can be measured",
                where="--criterion relative",
                hint="use `--criterion paper`: without human rationales, it chooses models by their "
                "predictions",
            )
        kind = PAPER
    return with_criterion(dataclasses.replace(run, base=_schedule(given, run, num_texts)), criterion, kind)


def _schedule(given: argparse.Namespace, run: settings.RunSettings, num_texts: int) -> dict[str, Any]:
    """The hyper-parameters with a start as long as so many texts need; what the user has set stays.

    Raises:
        PipelineError: if too few epochs follow that start.
    """
    if given.sample or not lookup.depends_on_data(run.dataset):
        return run.base
    chosen = flag_values.hyper_parameters(given.config, given.set)
    known = run.config().to_dict()
    settled = lookup.settled_preset(run.dataset, num_texts)
    # a method that does not start dense has no such epochs to settle
    base = run.base | {name: value for name, value in settled.items() if name in known} | chosen
    epoch_check.check(dataclasses.replace(run, base=base), f"{counted(num_texts, 'training text')}: ")
    return base
