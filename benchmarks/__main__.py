"""All benchmarks in one command, at fixed seeds.

python -m benchmarks --data-dir DATA --json FILE
"""

import argparse
import dataclasses
import json
import logging
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.timing import Figure
from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import common_flags, flag_values
from pipeline.study import cluster

PARTS = (
    "encoders",
    "step",
    "data",
    "segmentation",
    "search",
    "serving",
    "transformers",
    "driver",
    "search-efficiency",
)
_WITHOUT_TEXTS = {"transformers", "driver", "search-efficiency"}
"""Parts that read no texts: they need neither `--data-dir` nor `--sample`."""


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_flags.parser("benchmarks", "Measure encoders, step, data path, search and answers.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--data-dir", metavar="DIR", type=Path, help="folder that holds beer/ (default: INFOCAL_DATA)"
    )
    which.add_argument("--sample", action="store_true", help="measure on the made-up corpus")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="PART",
        choices=PARTS,
        default=PARTS,
        help=f"parts to run: {', '.join(PARTS)} (default: all)",
    )
    parser.add_argument(
        "--rounds", type=flag_values.positive_int, default=7, help="rounds of each (default: %(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures there")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    if given.json and not given.json.parent.is_dir():
        raise PipelineError(
            f"there is no folder `{given.json.parent}`", where="--json", hint="create it first"
        )
    _become_like_a_worker(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    print(f"{_machine()}\n{'name':<34}{'ours':>12}{'reference':>12}{'ratio':>8}  unit")
    figures = []
    with tempfile.TemporaryDirectory(prefix="infocal-benchmarks-") as folder:
        for figure in _figures(given, Path(folder)):
            figures.append(dataclasses.asdict(figure))
            cells = (f"{figure.ours:12.4g}", _cell(figure.reference, 12), _cell(figure.ratio, 8))
            print(f"{figure.name:<34}{''.join(cells)}  {figure.unit}  ({figure.note})", flush=True)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def _figures(given: argparse.Namespace, work: Path) -> Iterator[Figure]:
    from benchmarks import driver, pretrained, search_efficiency

    if set(given.only) - _WITHOUT_TEXTS:
        yield from _figures_of_texts(given, _data_dir(given), work)
    if "transformers" in given.only:
        yield from pretrained.run(given.rounds)
    if "driver" in given.only:
        yield from driver.run(work / "driver")
    if "search-efficiency" in given.only:
        yield from search_efficiency.run(given.rounds)


def _figures_of_texts(given: argparse.Namespace, data_dir: Path | None, work: Path) -> Iterator[Figure]:
    from benchmarks import data, encoders, search, segmentation, serving, step
    from benchmarks.corpus import open_corpus

    corpus = open_corpus(data_dir, work / "cache")
    parts: dict[str, Callable[[], Iterator[Figure]]] = {
        "encoders": lambda: encoders.run(corpus, given.rounds),
        "step": lambda: step.run(corpus, given.rounds),
        "data": lambda: data.run(corpus, given.rounds, work / "data"),
        "segmentation": lambda: segmentation.run(data_dir, min(given.rounds, 3), work / "texts"),
        "search": lambda: search.run(work / "search"),
        "serving": lambda: serving.run(corpus, given.rounds, work / "serving"),
    }
    for name, figures in parts.items():
        if name in given.only:
            yield from figures()


def _become_like_a_worker(arguments: Sequence[str]) -> None:
    """Start again with the environment of a search's workers, which a C library reads only at its start."""
    before = dict(os.environ)
    cluster.prepare_environment()
    if os.environ.get("GLIBC_TUNABLES") != before.get("GLIBC_TUNABLES"):
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *arguments])


def _data_dir(given: argparse.Namespace) -> Path | None:
    """Folder of real data; None for the made-up corpus, which has to be asked for.

    Raises:
        PipelineError: if neither is named.
    """
    if given.sample:
        return None
    named = given.data_dir or os.environ.get("INFOCAL_DATA")
    if not named:
        raise PipelineError(
            "on which texts?", where="--data-dir", hint="name the folder that holds beer/, or add `--sample`"
        )
    return Path(named)


def _machine() -> str:
    """The machine in one line."""
    names = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    load = os.getloadavg()[0]
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {names[0] if names else 'unknown processor'}, "
        f"load {load:.1f}, Python {platform.python_version()}"
    )


def _cell(value: float | None, width: int) -> str:
    return " " * width if value is None else f"{value:{width}.4g}"


if __name__ == "__main__":
    sys.exit(run_command(main))
