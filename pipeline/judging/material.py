"""What a sheet is made of: texts, of a data set or a file, and each method's rationales on them."""

import argparse
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from feature_store.command_line import cache_folder
from feature_store.mask_records import MaskRecord
from feature_store.masks import MAX_BYTES, check_dataset, read_masks, split_as
from feature_store.scripts import CHINESE, language
from feature_store.sources.base import source_options
from feature_store.sources.beer import Beer
from feature_store.sources.fields import check_id, check_text, check_tokens
from feature_store.sources.lines import filled_lines, parse_record
from feature_store.targets import column_of, names_of
from feature_store.tokenize import ALIASES, TOKENIZERS, Tokenizer, make_tokenizer
from feature_store.tokens import Token
from feature_store.wording import counted
from infocal.errors import did_you_mean
from pipeline.base.errors import PipelineError
from pipeline.cli.models import model_uri, registered, tracker_of
from pipeline.judging.sheet import ANNOTATE, JUDGE, Sheet, Spans, Text, plan, spans_of
from pipeline.reporting import markup
from pipeline.training import naming, settings
from pipeline.web import words

if TYPE_CHECKING:
    from feature_store.store import Features
    from pipeline.tracking.tracking import Tracker
    from pipeline.training.checkpoints import Package

logger = logging.getLogger("pipeline.judge")

_TEST = "test"


@dataclass(frozen=True, slots=True)
class Named:
    """A method as a flag names it."""

    name: str
    """Under which the results show it."""
    place: str
    """URI of a registered model, folder of a package, or file of masks."""
    flag: str


def named(models: Sequence[str], packages: Sequence[str], masks: Sequence[str]) -> list[Named]:
    """The methods that the flags name, each `LABEL=PLACE` or `PLACE` alone.

    Raises:
        PipelineError: if two have one name, or there is none.
    """
    given = [("--models", name) for entry in models for name in entry.split(",") if name]
    given += [("--package", name) for name in packages] + [("--rationales", name) for name in masks]
    found = []
    for flag, entry in given:
        label, equals, place = entry.partition("=")
        place = place if equals else label
        name = label if equals or flag == "--models" else Path(place).name
        place = model_uri(place) if flag == "--models" else place
        found.append(Named(name.removeprefix("models:/").strip(), place, flag))
    names = [one.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PipelineError(
            f"two methods are called `{twice[0]}`",
            where=found[names.index(twice[0])].flag,
            hint="give each a name: LABEL=...",
        )
    if not found:
        raise PipelineError(
            "no method was named",
            hint="`--models NAME[@ALIAS],...` takes registered models, `--package DIR` a model's folder, "
            "`--rationales FILE` masks; `--annotate` lets people mark their own",
        )
    return found


def make_sheet(given: argparse.Namespace) -> Sheet:
    """The sheet that the command line asks for.

    Args:
        given: flags of `pipeline.judge`.

    Raises:
        UserError: if texts or methods cannot be read, or do not go together.
    """
    methods = [] if given.annotate else named(given.models, given.package, given.rationales)
    chosen = _from_file(Path(given.input), given) if given.input else _from_data(given, methods)
    rationales = [_rationales(method, chosen, given) for method in methods]
    num_methods = max(len(methods), 1)
    rate = 0.0 if given.annotate else given.repeats
    return Sheet(
        kind=ANNOTATE if given.annotate else JUDGE,
        title=chosen.title,
        language=given.language or _language(chosen.texts),
        texts=chosen.texts,
        methods=[method.name for method in methods],
        rationales=rationales,
        plan=plan(len(chosen.texts), num_methods, given.judges, given.per_text, rate, given.seed),
        provenance=chosen.provenance | {"seed": given.seed, "methods": [vars_of(one) for one in methods]},
    )


def vars_of(method: Named) -> dict[str, str]:
    """A method as the sheet's provenance has it."""
    return {"name": method.name, "place": method.place}


def _language(texts: Sequence[Text]) -> str:
    chinese = sum(markup.is_chinese(text.tokens) for text in texts)
    return words.CHINESE if 2 * chinese > len(texts) else words.ENGLISH


# ------------------------------------------------------------------------------------------------ texts


@dataclass(frozen=True, slots=True)
class Chosen:
    """Texts that were drawn, and how a model is brought to them."""

    title: str
    texts: list[Text]
    provenance: dict[str, Any]
    packages: Mapping[str, "Package"]
    """By the method's name."""
    target: str = ""
    """The target whose rationales are shown, where there are several; else empty."""


def drawn(lengths: Sequence[int], given: argparse.Namespace) -> list[int]:
    """Numbers of the texts that are shown, drawn at random.

    Raises:
        PipelineError: if none is short enough.
    """
    short = [i for i, length in enumerate(lengths) if given.max_tokens is None or length <= given.max_tokens]
    if not short:
        raise PipelineError(
            f"none of the {len(lengths)} texts has at most {counted(given.max_tokens, 'token')}",
            where="--max-tokens",
        )
    if len(short) < given.texts:
        logger.warning(
            "expected %s, but there are only %d: all are used", counted(given.texts, "text"), len(short)
        )
        return short
    return random.Random(given.seed).sample(short, given.texts)


def _from_file(path: Path, given: argparse.Namespace) -> Chosen:
    """Texts of a file: `text` or `tokens`, perhaps `id`, `label`, `score`."""
    split = _splitter(given.option)
    texts = []
    for number, line in filled_lines(path, max_bytes=MAX_BYTES):
        where = f"{path}:{number}"
        record = parse_record(line, where, ())
        original, places = "", list[list[int]]()
        if record.get("tokens") is not None:
            tokens = check_tokens(record["tokens"], "tokens", where)
        else:
            original = check_text(record.get("text"), "text", where)
            pieces = split(original)
            tokens = [piece.text for piece in pieces]
            places = [[piece.start, piece.end] for piece in pieces]
        if not tokens:
            raise PipelineError("the text has no token", where=where)
        name = f"{number}" if record.get("id") is None else check_id(record["id"], "id", where)
        kept = {
            key: record[key] for key in ("label", "score") if isinstance(record.get(key), str | int | float)
        }
        shown = str(next(iter(kept.values()), ""))
        texts.append(
            Text(
                example_id=name,
                tokens=tokens,
                shown=shown,
                record=cast("dict[str, str | float]", kept),
                original=original,
                places=places,
            )
        )
    names = [text.example_id for text in texts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise PipelineError(f"two texts have the id `{twice}`", where=str(path))
    rows = drawn([len(text.tokens) for text in texts], given)
    return Chosen(path.name, [texts[row] for row in rows], {"input": path.name}, {})


def _splitter(assignments: Sequence[str]) -> Tokenizer:
    """What splits the texts of a file: the tokenizer of `--option`, else one for the script of each text.

    Raises:
        UserError: for another option, or an unknown tokenizer.
    """
    options = source_options(assignments)
    if other := next((name for name in options if name != "tokenizer"), None):
        raise PipelineError(
            f"texts from a file have one option, `tokenizer`, but got `{other}`",
            where="--option",
            hint="leave out this option, or leave out `--input`",
        )
    if "tokenizer" not in options:
        return lambda text: TOKENIZERS["jieba" if language(text) == CHINESE else "english"](text)
    return make_tokenizer(ALIASES.get(options["tokenizer"], options["tokenizer"]), {})


def _from_data(given: argparse.Namespace, methods: Sequence[Named]) -> Chosen:
    """Texts of a split of a data set; the models are loaded first, since they say how it was built."""
    target = _target(given)
    packages, readings = _packages(given, methods)
    features = _features(given, packages)
    from pipeline.training.scoring import texts_for_people

    table = texts_for_people(features, given.split)
    rows = drawn([len(tokens) for tokens in table["tokens"]], given)
    texts = [_text(features, target, row) for row in table.take(rows).to_pylist()]
    title = naming.title(features.dataset, target or features.aspect)
    if given.split == _TEST:
        for record in readings:
            record()
    whole = naming.title(features.dataset, features.aspect)
    provenance = {"dataset": whole, "split": given.split, "data_fingerprint": features.fingerprint}
    if target:
        provenance["target"] = target
    return Chosen(title, texts, provenance, packages, target)


def _target(given: argparse.Namespace) -> str:
    """The one of several targets that is judged; empty where there is one.

    Raises:
        PipelineError: if the data set is not read with the target that `--target` names.
    """
    from feature_store.sources import get_source
    from feature_store.sources.base import resolve_aspect

    names = names_of(resolve_aspect(get_source(given.dataset), given.aspect))
    if given.target and given.target not in names:
        there = f"the targets are {', '.join(f'`{name}`' for name in names)}"
        raise PipelineError(
            f"no target `{given.target}`; {there if len(names) > 1 else 'the models have one target'}",
            where="--target",
            hint=did_you_mean(given.target, names if len(names) > 1 else ())
            or "name all targets of the models with `--aspect A,B`, and one of these with `--target`",
        )
    return (given.target or names[0]) if len(names) > 1 else ""


def _text(features: "Features", target: str, row: Mapping[str, Any]) -> Text:
    """A text with the value of a target; `target` is empty where there is one."""
    task, value = features.task, row["target"]
    if target and target != task.name:
        task, value = next(side for side in task.sides if side.name == target), row[column_of(target)]
    record: dict[str, str | float]
    if task.class_names is not None:
        record = {"label": task.class_names[value]}
        shown = f"{target}: {record['label']}" if target else str(record["label"])
    else:
        low, high = task.score_range
        score = round(low + (high - low) * value, 6)
        name = target or features.aspect or "score"
        record, shown = {"score": score}, f"{name} {score:.2f} ({low:g} – {high:g})"
    return Text(example_id=row["example_id"], tokens=row["tokens"], shown=shown, record=record)


def _features(given: argparse.Namespace, packages: Mapping[str, "Package"]) -> "Features":
    """The data set, built as the models' own where there are some; else with vectors that cost nothing."""
    from feature_store.sources import get_source
    from feature_store.store import FeatureRequest, open_features

    source = get_source(given.dataset)
    built: dict[str, Any] = {
        "max_length": source.defaults.length(given.sample),
        "options": source_options(given.option),
        "embedding": "random",
    }
    for name, package in packages.items():
        _check_target(name, package.metadata, given)
        built = {
            "max_length": package.metadata["max_length"],
            "options": package.metadata["options"],
            **settings.word_vectors(given.dataset, given.embedding),
        }
    return open_features(
        FeatureRequest(
            dataset=given.dataset,
            aspect=given.aspect,
            data_dir=Path(given.data_dir) if given.data_dir else None,
            cache_dir=cache_folder(given.cache_dir),
            sample=given.sample,
            **built,
        )
    )


def _check_target(name: str, metadata: Mapping[str, Any], given: argparse.Namespace) -> None:
    """A model of another target would be judged for explaining what it never learnt."""
    from feature_store.sources import get_source
    from feature_store.sources.base import resolve_aspect

    wanted = (given.dataset, resolve_aspect(get_source(given.dataset), given.aspect) or "", given.sample)
    found = (metadata["dataset"], metadata["aspect"] or "", metadata["sample"])
    if found != wanted:
        expected, got = (
            naming.target_flags(dataset, aspect) + " --sample" * sample
            for dataset, aspect, sample in (found, wanted)
        )
        raise PipelineError(
            f"model `{name}` was trained with `{expected}`, but this command was given `{got}`",
            where="--models",
        )


# ----------------------------------------------------------------------------------------------- models


def _packages(
    given: argparse.Namespace, methods: Sequence[Named]
) -> tuple[dict[str, "Package"], list[Callable[[], object]]]:
    """Each model by its method's name, and what records that the test split was read."""
    models = [method for method in methods if method.flag != "--rationales"]
    packages: dict[str, Package] = {}
    readings: list[Callable[[], object]] = []
    if not models:
        return packages, readings
    from pipeline.training.checkpoints import load_package

    uris = [method.place for method in models if method.flag != "--package"]
    tracker = tracker_of(given, uris, "--models") if uris else None
    for method in models:
        if tracker is None or method.flag == "--package":
            packages[method.name] = load_package(Path(method.place))
            continue
        packages[method.name], version = registered(tracker, method.place)
        readings.append(_reading(tracker, version.run_id, method.name))
    return packages, readings


def _reading(tracker: "Tracker", run_id: str, name: str) -> Callable[[], object]:
    from pipeline.tracking.sealed_split import log_test_reading

    def record() -> None:
        if run_id:
            count = log_test_reading(tracker, run_id, {})
            logger.info(
                "the test split was read by `%s` for run %s: %s so far", name, run_id, counted(count, "time")
            )

    return record


def _rationales(method: Named, chosen: Chosen, given: argparse.Namespace) -> list[Spans]:
    """A method's rationale on each text."""
    if method.flag == "--rationales":
        return _from_masks(Path(method.place), chosen.texts, _beer_aspect(given, chosen.target))
    if method.name not in chosen.packages:
        raise PipelineError(
            "models explain only the texts of a data set, not of a file",
            where="--input",
            hint="leave out `--input`, or give masks with `--rationales NAME=FILE`",
        )
    from pipeline.training.explainer import Explainer

    rows = [[Token(token, i, i + 1) for i, token in enumerate(text.tokens)] for text in chosen.texts]
    found = Explainer(chosen.packages[method.name]).explain_tokens(rows)
    every = [one.tokens_of.get(chosen.target, one.tokens) for one in found]
    return [spans_of([token.start for token in tokens if token.selected]) for tokens in every]


def _beer_aspect(given: argparse.Namespace, target: str) -> str | None:
    """Whose masks are read from a file of the beer corpus; None where another corpus is judged."""
    if given.dataset != Beer.name or given.aspect is None:
        return None
    return target or check_dataset(given.dataset, given.aspect)


def _from_masks(path: Path, texts: Sequence[Text], aspect: str | None) -> list[Spans]:
    """A mask file's rationale on each text, found by its id, else by its tokens or its original.

    Args:
        aspect: whose masks are read from a file of the beer corpus; None: such a file is refused.

    Raises:
        PipelineError: if a text is missing, is another one there, or has no mask.
    """
    records = read_masks(path, aspect=aspect).records
    by_id = {record.example_id: record for record in records if record.example_id is not None}
    by_tokens = {tuple(record.tokens): record for record in records if record.tokens is not None}
    by_text = {record.text: record for record in records if record.text is not None}
    found = []
    for text in texts:
        record = by_id.get(text.example_id) or by_tokens.get(tuple(text.tokens)) or by_text.get(text.original)
        if record is None:
            raise PipelineError(f"text `{text.example_id}` is missing", where=str(path))
        found.append(spans_of(_positions(record, text)))
    return found


def _positions(record: MaskRecord, text: Text) -> list[int]:
    """Which tokens of a text a mask selects.

    Raises:
        PipelineError: if there is no mask, or one of another text.
    """
    if record.tokens not in (None, text.tokens):
        record = split_as(record, text.tokens) or record
    if record.positions is None:
        raise PipelineError(f"expected a mask of text `{text.example_id}`, but got null", where=record.where)
    size = len(text.tokens)
    is_other = record.tokens not in (None, text.tokens) or record.num_tokens not in (None, size)
    if is_other or max(record.positions, default=0) >= size:
        raise PipelineError(
            f"text `{text.example_id}` has different tokens here than on the sheet",
            where=record.where,
            hint="give the same `text` or `tokens` as the file or the data set from which the sheet is made",
        )
    return record.positions
