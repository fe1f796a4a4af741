"""What the README shows of `make search` is what the commands print, up to what another processor rounds."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.commands import ENVIRONMENT, ROOT

pytestmark = pytest.mark.slow

NEAR = 0.03
"""Scores differ in the last digits where kernels are compiled for another processor."""
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def shown(first: str, last: str) -> list[str]:
    """Lines of the README's code blocks from the one that begins so to the one before another."""
    lines = [line.strip() for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith(first))
    end = next(i for i, line in enumerate(lines) if i > start and line.startswith(last))
    return [line for line in lines[start:end] if line]


def run(*command: str, folder: Path) -> str:
    words = [sys.executable, "-m", *command]
    done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def makefile(name: str) -> str:
    """A variable of the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    found = re.search(rf"^{name} [?:]?= (.*)$", text, re.M)
    assert found is not None
    return found[1]


def test_the_first_demonstration_prints_what_is_shown(tmp_path: Path):
    printed = run("pipeline.search", *shlex.split(makefile("SEARCH")), folder=tmp_path).splitlines()
    table = shown("trial  lambda_g  lambda_ib", "registered")
    start = next(i for i, line in enumerate(printed) if line.split() == table[0].split())
    for there, here in zip(table[1:], filter(None, printed[start + 1 :]), strict=False):
        wanted, found = (re.split(r"  +", line.strip()) for line in (there, here))
        if not wanted[0][0].isdigit():
            assert there == here.strip(), "what stands below the table"
            continue
        assert wanted[1:5] == found[1:5], "the points that were tried"
        assert wanted[-1] == found[-1], "whether the criterion is met"
        for one, other in zip(wanted[6:-1], found[6:-1], strict=True):
            assert NUMBER.sub("#", one) == NUMBER.sub("#", other), (
                "figures, and their errors where there are any"
            )
            numbers = [[float(n) for n in NUMBER.findall(cell)] for cell in (one, other)]
            assert numbers[0] == pytest.approx(numbers[1], abs=NEAR)
    assert len(printed) > start + len(table)
    example = makefile("EXAMPLE")
    said = run(
        *("pipeline.explain", "--sample", "--model", "models:/infocal-beer-palate@challenger"),
        *("--text", example),
        folder=tmp_path,
    )
    answer, _, marked = said.partition("\t")
    told, _, text = " ".join(shown("predicted palate:", "Continue with")).partition("\t")
    assert NUMBER.sub("#", answer) == NUMBER.sub("#", told)
    assert [float(n) for n in NUMBER.findall(answer)] == pytest.approx(
        [float(n) for n in NUMBER.findall(told)], abs=2 * NEAR
    )
    assert marked.strip() == text.strip()
    assert "[" in text
