"""What a fresh clone holds: nothing of one machine, working targets, and commands that answer."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = ROOT / "README.md"

# Built from pieces, so that this file does not match itself.
MACHINE_PATHS = [
    rf"(?<![\w.])/{name}/" for name in ("work", "farm", "root", "Users", r"home/\w+", "opt/(?:pypi|wheels)")
]
REGISTRY_HOSTS = [
    rf"{first}{second}\.{end}"
    for first, second, end in (
        *(("py", "pi", "org"), ("python", "hosted", "org")),
        *(("npm", "js", "(?:org|com)"), ("deb\\.", "debian", "org")),
    )
]
FOREIGN = re.compile("|".join(MACHINE_PATHS + REGISTRY_HOSTS))


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip(f"{ROOT} is not a git checkout, so nothing says which files belong to it")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_nothing_of_one_machine_is_tracked():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked_files()
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        )
        if FOREIGN.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/" + "work/main/x", True),
        ("at /" + "home/ann/data", True),
        ("https://" + "pypi" + ".org/simple", True),
        ("feature_store/" + "work/x", False),
        ("runs/" + "root/a", False),
        ("models:/infocal-beer-palate@champion", False),
    ],
)
def test_foreign_text_is_recognised(text: str, expected: bool):
    assert bool(FOREIGN.search(text)) is expected


def test_results_and_environments_are_not_tracked():
    kinds = {".db", ".arrow", ".safetensors", ".pt", ".pkl", ".pyc"}
    folders = {".venv", "runs", "mlruns", "__pycache__"}
    names = [path.relative_to(ROOT) for path in tracked_files()]
    found = [name for name in names if name.suffix in kinds or folders & set(name.parts)]
    # what a benchmark replays is an input of it, which takes hours to train
    assert [str(name) for name in found if name.parent != Path("benchmarks/tables")] == []


# ---------------------------------------------------------------------------------------- requirements


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"]
    lines = PROJECT["dependencies"] + [line for extra in extras.values() for line in extra]
    parsed = [Requirement(line) for line in lines]
    return [one for one in parsed if one.name != PROJECT["name"]]


FOR_TESTS = ("test", "cluster-test", "dev", "mutate")
"""Extras that a user does not install."""
BROUGHT = {"triton": "torch for CUDA", "tokenizers": "transformers"}
"""Packages that others bring, which tests name because they need them without those."""


def test_what_is_imported_is_not_for_tests_alone():
    """A user who installs without the extras of tests has all that the four packages import."""
    extras = PROJECT["optional-dependencies"]
    lines = PROJECT["dependencies"] + [
        line for name, extra in extras.items() if name not in FOR_TESTS for line in extra
    ]
    for_users = {canonicalize_name(Requirement(line).name) for line in lines} | {PROJECT["name"], *BROUGHT}
    for_tests = {canonicalize_name(Requirement(line).name) for name in FOR_TESTS for line in extras[name]}
    makers = {
        module: {canonicalize_name(one) for one in found}
        for module, found in metadata.packages_distributions().items()
    }
    wrong = []
    for package in ("feature_store", "infocal", "pipeline", "search_spaces"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                named = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                for module in {name.partition(".")[0] for name in named}:
                    makes = makers.get(module, set())
                    if makes & for_tests and not makes & for_users:
                        wrong.append(f"{path.relative_to(ROOT)}: {module}")
    assert wrong == []


def constraint_lines() -> list[str]:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_constraints_are_plain_pins():
    odd = [
        line for line in constraint_lines() if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)
    ]
    assert odd == []


@pytest.mark.parametrize("requirement", requirements(), ids=lambda one: one.name)
def test_pin_lies_within_the_bounds(requirement: Requirement):
    pins = {
        canonicalize_name(name): version
        for name, version in (line.split("==") for line in constraint_lines())
    }
    assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])
    assert "<" in str(requirement.specifier) or "==" in str(requirement.specifier), "no upper bound"


# --------------------------------------------------------------------------------------------- make, CI


def dry_run(*arguments: str) -> str:
    make = shutil.which("make")
    assert make, "make is not installed"
    done = subprocess.run([make, "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("search", "python -m pipeline.search --dataset beer --aspect palate --sample"),
        ("test", "python -m pytest"),
        ("lint", "ruff check"),
        ("lint", "ruff format --check"),
        ("lint", "mypy"),
        ("lint", "lint-imports"),
        ("clean", "rm -rf"),
        ("help", "awk"),
    ],
)
def test_make_target_runs(target: str, command: str):
    assert command in dry_run(target)


@pytest.mark.parametrize("target", ["setup", "search", "test", "faults", "lint"])
def test_make_target_sets_itself_up(target: str):
    """As on a fresh machine (-W: as if pyproject.toml had changed): torch by its pin, then the project."""
    commands = dry_run("-W", "pyproject.toml", target)
    torch, project = commands.find("^torch=="), commands.find("install -e '.[dev]'")
    assert 0 <= torch < project


def test_ci_runs_lint_and_test():
    script = ROOT / ".ci" / "run"
    text = script.read_text(encoding="utf-8")
    assert script.stat().st_mode & 0o111, ".ci/run is not executable"
    assert text.startswith("#!/usr/bin/env bash\n") and "set -euo pipefail" in text
    for target in ("lint", "test", "faults"):
        assert re.search(rf"^make {target}$", text, re.M), target


# ---------------------------------------------------------------------------------------------- README


def readme_commands() -> list[str]:
    if not README.exists():
        return []
    text = README.read_text(encoding="utf-8")
    return sorted(set(re.findall(r"python3? -m ((?:pipeline|feature_store)(?:\.\w+)*)", text)))


def test_readme_shows_commands():
    if not README.exists():
        pytest.skip("README.md is not written yet")
    assert "pipeline.search" in readme_commands()


@pytest.mark.parametrize("module", readme_commands())
def test_readme_command_answers_help(module: str):
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


def test_no_change_is_listed_twice_in_other_words():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## [")[1]
    entries = [" ".join(entry.split()) for entry in re.split(r"\n- ", changes)[1:]]
    words = [set(re.findall(r"[\w./-]+", entry.lower())) for entry in entries]
    assert len(entries) > 100
    assert [
        (entries[i][:60], entries[j][:60])
        for i in range(len(entries))
        for j in range(i)
        if len(words[i] & words[j]) >= 0.4 * len(words[i] | words[j])
    ] == []


def test_setup_is_quiet_and_says_what_it_takes(tmp_path: Path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    pip = tmp_path / ".venv" / "bin" / "pip"
    pip.parent.mkdir(parents=True)
    pip.write_text('#!/bin/sh\necho "$@" >> calls\n')
    pip.chmod(0o755)
    outer = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = [shutil.which("make") or "make", "setup", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, env=outer, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert re.search(r"minutes, [0-9.]+ GB on disk", line)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["--quiet", "--quiet"]
