"""Command line of the feature store: `python -m feature_store list | fetch | build | verify`.

Results go to stdout, progress to stderr. Heavy packages are imported by the commands, after the arguments
are checked.
"""

import argparse
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from feature_store import encodings, terminal
from feature_store.command_line import ENV_CACHE, Parser, cache_folder, positive_int, seed
from feature_store.errors import (
    DamagedCacheError,
    MissingDataError,
    RequestError,
    UserError,
    let_streams_take_every_text,
)
from feature_store.sources import DEFAULT_DATASET, REGISTRY, aspects_in_words, get_source
from feature_store.sources.base import Source, resolve_aspect, source_options
from feature_store.targets import in_names, main_of
from feature_store.wording import counted

_T = TypeVar("_T")

_ENV_DATA = "INFOCAL_DATA"


def _parser() -> argparse.ArgumentParser:
    text = "Prepares data sets for training."
    parser = Parser(prog="python -m feature_store", description=text)
    commands = parser.add_subparsers(dest="command", required=True, metavar="list | fetch | build | verify")
    for name, run, text in (
        ("list", _list, "list data sets, their raw files and the built features"),
        ("fetch", _fetch, "download raw files"),
        ("build", _build, "build the features; features that are built already are only checked"),
        ("verify", _verify, "read all built features and compare them with their SHA-256"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
        every = name in ("list", "verify")
        default = None if every else DEFAULT_DATASET
        text = f"name of the data set (default: {default or 'all'})"
        command.add_argument("--dataset", default=default, help=text)
        if name != "list":
            text = f"target of the data set ({aspects_in_words()})"
            command.add_argument("--aspect", "--task", help=text)
        if name != "verify":
            text = (
                "folder that contains DATASET/; for jsonl and eraser, the folder of your data "
                f"(default: {_ENV_DATA})"
            )
            command.add_argument("--data-dir", type=Path, help=text)
        if name != "fetch":
            text = f"folder of built features (default: {ENV_CACHE}, else ~/.cache/infocal)"
            command.add_argument("--cache-dir", type=Path, help=text)
        if name == "build":
            _add_build_options(command)
    return parser


def _add_build_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--sample", action="store_true", help="use the made-up corpus instead of real data")
    command.add_argument(
        "--sample-seed", type=seed, default=0, help="seed of the made-up corpus (default: %(default)s)"
    )
    command.add_argument(
        "--max-length",
        type=positive_int,
        help="cut longer texts to this number of tokens: in train and, for beer, in val and pool (reviews "
        "added by `--option pool=`); the other splits stay whole, because models are scored on them "
        "(default: the data set's, as in a search)",
    )
    command.add_argument(
        "--min-count",
        type=positive_int,
        default=1,
        help="training words that occur less often become <unk> (default: %(default)s)",
    )
    command.add_argument(
        "--embedding",
        help="word2vec, random, or a text file, plain or .gz (default: the data set's, as in a search)",
    )
    command.add_argument(
        "--embedding-size",
        type=positive_int,
        help="number of values in each word vector (default: the file's, or the data set's)",
    )
    command.add_argument(
        "--seed", type=seed, default=0, help="seed of the word vectors (default: %(default)s)"
    )
    command.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the data set (`list` shows all); may be repeated",
    )


def _data_dir(args: argparse.Namespace) -> Path | None:
    if args.data_dir is None and os.environ.get(_ENV_DATA):
        return Path(os.environ[_ENV_DATA])
    return args.data_dir  # type: ignore[no-any-return]


def _sources(args: argparse.Namespace) -> list[Source]:
    return list(REGISTRY.values()) if args.dataset is None else [get_source(args.dataset)]


def _list(args: argparse.Namespace) -> None:
    data_dir, cache_dir = _data_dir(args), cache_folder(args.cache_dir)
    for source in _sources(args):
        terminal.answer(f"{source.name}: {source.title}")
        aliases = "".join(f"; {alias} = {name}" for alias, name in source.aliases.items())
        terminal.answer(f"  aspects: {', '.join(source.aspects) or 'none'}{aliases}")
        for option in source.options:
            takes = " | ".join(option.choices) or "FILE"
            terminal.answer(
                f"  option {option.name} = {takes} (default: {option.default or 'none'}): {option.help}"
            )
        for aspect in source.aspects or (None,):
            label = f"  raw files{f' of {aspect}' if aspect else ''}:"
            if data_dir is None:
                terminal.answer(f"{label} not known: name the data folder with `--data-dir` or {_ENV_DATA}")
                continue
            try:
                found = source.inputs(data_dir, aspect)
            except MissingDataError as error:
                terminal.answer(f"{label} {error.message}")
            else:
                terminal.answer(f"{label} {', '.join(str(path) for path in found.values())}")
        for directory in _built(cache_dir, source.name, None):
            terminal.answer(f"  built: {directory}")


def _built(cache_dir: Path, dataset: str, aspect: str | None) -> list[Path]:
    name = "-".join((dataset, *([in_names(aspect)] if aspect else ()), "*"))
    found = (cache_dir / "features").glob(name)
    return sorted(path for path in found if not path.name.startswith("."))


def _fetch(args: argparse.Namespace) -> None:
    source = get_source(args.dataset)
    aspect = resolve_aspect(source, args.aspect) if args.aspect else None
    data_dir = _data_dir(args)
    if data_dir is None:
        raise RequestError(
            "no folder for the files was named", hint=f"add `--data-dir DIR` or set {_ENV_DATA}"
        )
    if not source.remote_files:
        raise RequestError(
            f"dataset `{source.name}` has no official files: there is nothing to download",
            hint="place your own files and name their folder with `--data-dir`",
        )
    from feature_store.fetch import fetch

    for path in fetch(source, main_of(aspect), data_dir):
        print(path)


def _given(value: _T | None, default: _T) -> _T:
    return default if value is None else value


def _build(args: argparse.Namespace) -> None:
    source = get_source(args.dataset)
    if args.aspect is not None or not source.aspects:
        aspects = [resolve_aspect(source, args.aspect)]
    else:
        aspects = list(source.aspects)
    from feature_store.checks import dropped_table, summary
    from feature_store.embeddings import size_in_file
    from feature_store.store import FeatureRequest, open_features

    for aspect in aspects:
        request = FeatureRequest(
            dataset=source.name,
            aspect=aspect,
            data_dir=args.data_dir,
            cache_dir=cache_folder(args.cache_dir),
            sample=args.sample,
            sample_seed=args.sample_seed,
            max_length=_given(args.max_length, source.defaults.length(args.sample)),
            min_count=args.min_count,
            embedding=_given(args.embedding, source.defaults.embedding),
            embedding_size=_given(
                args.embedding_size, size_in_file(args.embedding) or source.defaults.embedding_size
            ),
            seed=args.seed,
            options=source_options(args.option),
        )
        label = source.name if aspect is None else f"{source.name}/{aspect}"
        with terminal.opened(), terminal.step(f"preparing the features of {label}"):
            features = open_features(request, verify=True)
        print(features.directory)
        terminal.answer(
            f"  {counted(len(features.vocabulary), 'word')}, vectors of {features.embeddings.shape[1]}"
        )
        for split, numbers in summary(features).items():
            rate = numbers["rationale_rate"]
            line = f"  {split}: {counted(numbers['rows'], 'text')}, {counted(numbers['tokens'], 'token')}"
            if rate is not None:
                line += f", {numbers['annotated_rows']} with a human rationale ({rate:.1%} of their tokens)"
            terminal.answer(line)
        for line in dropped_table(features):
            terminal.answer(f"  {line}")
        for note in features.notes:
            # a search names the setting in another way
            said = re.sub(r"--set max_length=(\w+)", r"--max-length \1", note)
            terminal.answer(f"  note: {said}")


def _verify(args: argparse.Namespace) -> None:
    cache_dir = cache_folder(args.cache_dir)
    directories: list[Path] = []
    sources = _sources(args)
    if args.aspect and args.dataset is None:
        sources = [s for s in sources if args.aspect in (*s.aspects, *s.aliases)] or sources
    for source in sources:
        aspect = resolve_aspect(source, args.aspect) if args.aspect else None
        directories += _built(cache_dir, source.name, aspect)
    if not directories:
        hint = "run `python -m feature_store build`"
        raise MissingDataError("no features are built in this folder", where=str(cache_dir), hint=hint)
    from feature_store.checks import check_features
    from feature_store.store import load_features, verify_derived

    damaged = []
    for directory in directories:
        try:
            features = load_features(directory, verify=True)
            verify_derived(features)
            problems = check_features(features)
        except DamagedCacheError as error:
            problems = [str(error)]
        print(f"{'damaged' if problems else 'ok'}  {directory}")
        for problem in problems:
            print(f"  {problem}")
        if problems:
            damaged.append(directory.name)
    if damaged:
        raise DamagedCacheError(
            f"{len(damaged)} of {len(directories)} built folders are damaged: {', '.join(damaged)}",
            where=str(cache_dir),
            hint="run `python -m feature_store build` with the same options: damaged folders are built again",
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, or 2 after an error that the user can mend."""
    if argv is None:
        encodings.start_in_utf8()
    arguments = list(sys.argv[1:] if argv is None else argv)
    let_streams_take_every_text()
    handler = terminal.Log()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("feature_store")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        encodings.check_arguments(arguments)
        args = _parser().parse_args(arguments)
        run: Callable[[argparse.Namespace], None] = args.run
        run(args)
    except UserError as error:
        if "--debug" in arguments:
            raise
        return _told(error)
    except UnicodeEncodeError as error:
        if "--debug" in arguments or (of_locale := encodings.of_locale(error)) is None:
            raise
        return _told(of_locale)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    finally:
        logger.removeHandler(handler)
    return 0


def _told(error: UserError) -> int:
    said = f"error: {error}" + (f"\n\nhint: {error.hint}" if error.hint else "")
    print(terminal.fit(said, sys.stderr), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
