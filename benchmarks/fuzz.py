"""Every reader on thousands of damaged files: python -m benchmarks.fuzz --inputs 10000 [--only READER ...].

An input is refused rightly with an error of our own that names its file. What else a reader raises, a file
outside its output, code that is run, memory beyond the limit, a crash of the interpreter and a read that does
not end are findings. Each is printed with the numbers that repeat it. Readers run in a process of their own,
which is started again where it dies.
"""

import argparse
import dataclasses
import json
import logging
import os
import re
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import common_flags, flag_values
from pipeline.study import cluster

LIMIT_S = 30.0
"""No read takes longer, on a machine with other work too."""

READY_S = 300.0
"""Nor do a reader's imports and its valid files."""

MEMORY_BYTES = 2**30
"""What a reader may take beside what it holds after a valid input."""

_SHOWN = 3
"""Findings of a reader that are printed whole."""


@dataclasses.dataclass
class Row:
    """What became of one reader's inputs."""

    reader: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    foreign: int = 0
    hangs: int = 0
    seconds: float = 0.0
    findings: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def add(self, number: int, kind: str, detail: str) -> None:
        """Count an outcome; keep what tells a finding from others."""
        self.inputs += 1
        if kind in ("accepted", "refused"):
            setattr(self, kind, getattr(self, kind) + 1)
            return
        if kind == "hang":
            self.hangs += 1
        else:
            self.foreign += 1
        self.findings.append({"number": number, "detail": detail})


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_flags.parser("benchmarks.fuzz", "Feed damaged files to every reader.")
    count = flag_values.positive_int
    parser.add_argument("--inputs", type=count, default=1000, help="for each reader (default: %(default)s)")
    parser.add_argument(
        "--only", nargs="+", metavar="READER", default=[], help="readers to try (default: all)"
    )
    parser.add_argument(
        "--seed", type=flag_values.seed, default=0, help="of the damage (default: %(default)s)"
    )
    parser.add_argument("--first", type=flag_values.seed, default=0, help="number of the first input")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="write the inputs there, read nothing")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures there")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 where there is a finding."""
    given = build_parser().parse_args(arguments)
    cluster.prepare_environment()
    # a thread that waits for others on a busy machine waits longer than the work takes
    os.environ |= {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    from benchmarks.fuzzing.readers import READERS

    if unknown := [name for name in given.only if name not in READERS]:
        raise PipelineError(f"no reader `{unknown[0]}`; the readers are {', '.join(READERS)}", where="--only")
    if given.json and not given.json.parent.is_dir():
        raise PipelineError(
            f"there is no folder `{given.json.parent}`", where="--json", hint="create it first"
        )
    names = given.only or list(READERS)
    if given.keep:
        _keep(given, names)
        return 0
    print(
        f"{'reader':<22}{'inputs':>8}{'accepted':>10}{'refused':>9}{'foreign':>9}{'hangs':>7}{'seconds':>9}"
    )
    rows = []
    for name in names:
        row = Row(name)
        started = time.monotonic()
        for number, kind, detail in outcomes(name, READERS[name], given.seed, given.first, given.inputs):
            row.add(number, kind, detail)
        row.seconds = time.monotonic() - started
        rows.append(row)
        if given.json:  # after each: a run of hours may be stopped
            _write(given.json, rows)
        numbers = f"{row.inputs:>8}{row.accepted:>10}{row.refused:>9}{row.foreign:>9}{row.hangs:>7}"
        print(f"{name:<22}{numbers}{row.seconds:>9.0f}", flush=True)
        _show(row, given.seed)
    return 1 if any(row.findings for row in rows) else 0


def _write(path: Path, rows: Sequence[Row]) -> None:
    path.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


def _show(row: Row, seed: int) -> None:
    """The first finding of each kind, with what repeats it; kinds are told apart by the error's last line."""
    kinds: Counter[str] = Counter()
    for finding in row.findings:
        kind = re.sub(r"\d+|'[^']*'|`[^`]*`", "N", finding["detail"].strip().rsplit("\n", 1)[-1])[:80]
        kinds[kind] += 1
        if kinds[kind] == 1 and len(kinds) <= _SHOWN:
            again = f"--only {row.reader} --seed {seed} --first {finding['number']} --inputs 1"
            print(f"\n{again}\n{finding['detail'][-3000:]}", file=sys.stderr, flush=True)
    if kinds:
        print("\n".join(f"{count:>6} x {kind}" for kind, count in kinds.most_common()), file=sys.stderr)


def _random(name: str, seed: int, number: int) -> Random:
    return Random(f"{name} {seed} {number}")


def _keep(given: argparse.Namespace, names: Sequence[str]) -> None:
    from benchmarks.fuzzing.readers import READERS

    for name in names:
        reader = READERS[name]()
        for number in range(given.first, given.first + given.inputs):
            for file, content in reader.damaged(_random(name, given.seed, number)).items():
                path = given.keep / name / str(number) / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


# ------------------------------------------------------------------------------------------------ processes


def outcomes(
    name: str, make: Callable[[], Any], seed: int, first: int, count: int
) -> Iterator[tuple[int, str, str]]:
    """Number, kind and detail of each input of a reader; its process is started again where it dies."""
    number, stop = first, first + count
    while number < stop:
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=_read_all, args=(theirs, name, make, seed, number, stop), daemon=True
        )
        process.start()
        theirs.close()
        try:
            _await_ready(ours, name)
            while number < stop:
                kind, detail = _next(ours, LIMIT_S)
                yield number, kind, detail
                number += 1
        except TimeoutError:
            yield number, "hang", f"no end after {LIMIT_S:g} s"
            number += 1
        except EOFError:
            process.join(LIMIT_S)
            yield number, "crash", f"the interpreter died: exit code {process.exitcode}"
            number += 1
        finally:
            process.kill()
            process.join()


def _await_ready(connection: Connection, name: str) -> None:
    """Wait until imports are done and the valid files were read."""
    try:
        _next(connection, READY_S)
    except (EOFError, TimeoutError) as error:
        raise RuntimeError(f"reader {name} does not take its own valid files") from error


def _next(connection: Connection, limit_s: float) -> Any:
    if not connection.poll(limit_s):
        raise TimeoutError
    return connection.recv()


def _read_all(
    connection: Connection, name: str, make: Callable[[], Any], seed: int, first: int, stop: int
) -> None:
    """Body of the process: read every input, and say what became of each."""
    from benchmarks.fuzzing.reader import attempt

    logging.disable(logging.ERROR)
    warnings.simplefilter("error")  # a warning of a library is not an answer to bad input
    reader = make()
    with tempfile.TemporaryDirectory(prefix="infocal-fuzz-") as folder:
        valid = attempt(reader, reader.files, Path(folder))
        if valid.kind != "accepted":
            raise AssertionError(f"valid files were not accepted: {valid}")
        _limit_memory()
        connection.send(None)
        for number in range(first, stop):
            outcome = attempt(reader, reader.damaged(_random(name, seed, number)), Path(folder))
            connection.send((outcome.kind, "" if outcome.kind == "refused" else outcome.detail))


def _limit_memory() -> None:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^VmSize:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    most = int(found[1]) * 1024 + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    sys.exit(run_command(main))
