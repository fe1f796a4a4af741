"""Faults injected with real processes and signals: python -m benchmarks.faults [--only FAULT ...].

Kills, full disks, locked databases, stopped servers, damaged caches: after each the search is completed as
its user would do it, and everything that it left is counted against what it should have left. All figures but
the first have to be zero. Each finding is printed in words.
"""

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from pipeline.base.errors import USER_ERRORS, PipelineError, run_command
from pipeline.cli import common_flags, flag_values
from pipeline.study import cluster

if TYPE_CHECKING:
    from benchmarks.faulting.frame import Bench, Counts, Fault

_NOT_HERE = "not possible here"


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_flags.parser("benchmarks.faults", "Inject faults into searches and count what they cost.")
    parser.add_argument(
        "--only", nargs="+", metavar="FAULT", default=[], help="faults to inject (default: all)"
    )
    parser.add_argument(
        "--seed", type=flag_values.seed, default=0, help="seed of the moments (default: %(default)s)"
    )
    parser.add_argument(
        "--moments",
        type=flag_values.positive_int,
        default=20,
        help="number of moments at which the driver is killed; other faults use a part of this number "
        "(default: %(default)s)",
    )
    parser.add_argument("--short", action="store_true", help="a few faults, once each: about three minutes")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures there")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 where a figure is not zero."""
    given = build_parser().parse_args(arguments)
    if given.json and not given.json.parent.is_dir():
        raise PipelineError(
            f"there is no folder `{given.json.parent}`", where="--json", hint="create it first"
        )
    cluster.prepare_environment()
    os.environ |= {"OMP_NUM_THREADS": "1"}
    from benchmarks.faulting import FAULTS

    if unknown := [name for name in given.only if name not in FAULTS]:
        raise PipelineError(f"no fault `{unknown[0]}`; the faults are {', '.join(FAULTS)}", where="--only")
    chosen = [FAULTS[name] for name in given.only or FAULTS]
    if given.short and not given.only:
        chosen = [fault for fault in chosen if fault.short]
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    return _run(chosen, given)


def _run(chosen: "Sequence[Fault]", given: argparse.Namespace) -> int:
    from benchmarks.faulting.frame import COLUMNS, Bench, as_row
    from benchmarks.faulting.reference import Reference

    titles = "".join(f"{name.replace('_', ' '):>14}" for name in ("injected", *COLUMNS))
    print(f"{'fault':<22}{titles}{'seconds':>9}", flush=True)
    rows, is_clean = [], True
    # a short path: Ray's sockets lie below it
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as work:
        reference = Reference(Path(work) / "reference")
        for number, fault in enumerate(chosen):
            folder = Path(work) / str(number)
            folder.mkdir()
            times = max(1, fault.times(given.moments, given.short))
            random = Random(f"{fault.name} {given.seed}")
            bench = Bench(folder, Path(work) / "cache", random, times, given.short, reference)
            started = time.monotonic()
            counts = _injected(fault, bench)
            seconds = time.monotonic() - started
            rows.append(as_row(fault, counts, seconds))
            is_clean &= counts.is_clean
            figures = "".join(f"{getattr(counts, name):>14}" for name in ("injected", *COLUMNS))
            row = f"{fault.name:<22}{_NOT_HERE if counts.impossible else figures}"
            print(f"{row}{'' if counts.impossible else f'{seconds:>9.0f}'}", flush=True)
            missed = "" if counts.injected or counts.impossible else "never injected: each search was faster"
            for line in filter(None, (*counts.findings, counts.impossible, missed)):
                print(f"  {fault.name}: {line}", file=sys.stderr, flush=True)
            if given.json:  # after each: a run of an hour may be stopped
                given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0 if is_clean else 1


def _injected(fault: "Fault", bench: "Bench") -> "Counts":
    """The fault's counts; a command that did not do what the fault needs is a finding, and so are ruins."""
    from benchmarks.faulting.command import Unexpected, end_all
    from benchmarks.faulting.frame import Counts

    try:
        return fault.inject(bench)
    except (Unexpected, *USER_ERRORS) as error:
        counts = Counts()
        counts.add("trials_lost", 1, f"given up: {error}")
        return counts
    finally:
        end_all()


if __name__ == "__main__":
    sys.exit(run_command(main))
