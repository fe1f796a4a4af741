import argparse
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from feature_store import __main__ as store
from feature_store.command_line import Parser, cache_folder, nearest
from feature_store.errors import MissingDataError, RequestError
from pipeline import __main__ as listing
from pipeline import search
from pipeline.base.errors import PipelineError, run_command

MODULES = [importlib.import_module(f"pipeline.{name}") for name in listing.commands()]
COMMANDS = {module.__name__: module.main for module in MODULES}
BUILDERS = {module.__name__: module.build_parser for module in MODULES}


def test_every_command_is_tried_here():
    files = {
        path.stem for path in Path(listing.__file__).parent.glob("*.py") if "\ndef main(" in path.read_text()
    }
    assert {name.removeprefix("pipeline.") for name in COMMANDS} == files - {"__main__"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_names_the_flag_that_was_meant(name: str):
    flags = [flag for flag in BUILDERS[name]()._option_string_actions if len(flag) > 5]
    for flag in flags:
        wrong = flag[:4] + flag[5:]  # a letter is missing
        with pytest.raises(
            PipelineError, match=rf"(unrecognized arguments: {re.escape(wrong)}|required)"
        ) as caught:
            COMMANDS[name]([wrong, "x"])
        by = f" instead of `{wrong}`" if "required" in caught.value.message else ""
        assert caught.value.hint == f"did you mean `{flag}`{by}?"


@pytest.mark.parametrize("command", ["list", "fetch", "build", "verify"])
def test_every_command_of_the_feature_store_does(command: str, capsys: pytest.CaptureFixture[str]):
    assert store.main([command, "--datset", "beer"]) == 2
    assert capsys.readouterr().err.endswith("hint: did you mean `--dataset`?\n")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (["--aspct", "palate"], "did you mean `--aspect`?"),
        (["--aspct=palate"], "did you mean `--aspect`?"),
        (["--epoch", "3"], "did you mean `--epochs`?"),
        (["palate", "--sampel"], "did you mean `--sample`?"),
        (["--ASPECT", "palate"], "did you mean `--aspect`?"),
        (["-name", "x"], "did you mean `--name`?"),
        (["--sampler", "tep"], "did you mean `--sampler tpe`?"),
        (["--sampler", "xxxx"], "`python -m pipeline.search --help` lists the flags"),
        (["--zzz"], "`python -m pipeline.search --help` lists the flags"),
        (["--epochs"], "`python -m pipeline.search --help` lists the flags"),
        (["--method", "fresh", "palate"], "`python -m pipeline.search --help` lists the flags"),
    ],
)
def test_what_is_meant_by_wrong_arguments_of_search(given: list[str], hint: str):
    with pytest.raises(PipelineError, match=r"^(unrecognized arguments|argument --)") as caught:
        search.main(given)
    assert caught.value.hint == hint


def test_a_flag_of_another_subcommand_says_whose_it_is(capsys: pytest.CaptureFixture[str]):
    assert store.main(["fetch", "--sample"]) == 2
    assert capsys.readouterr().err.endswith("hint: `--sample` is a flag of `build`\n")


@pytest.mark.parametrize(
    ("given", "near"),
    [("bild", "did you mean `build`?"), ("xyz", "`python -m feature_store --help` lists the flags")],
)
def test_a_wrong_subcommand(given: str, near: str, capsys: pytest.CaptureFixture[str]):
    assert store.main([given]) == 2
    assert capsys.readouterr().err.endswith(f"hint: {near}\n")


def test_a_command_that_there_is_not(capsys: pytest.CaptureFixture[str]):
    assert run_command(listing.main, ["serch"]) == 2
    assert "hint: did you mean `python -m pipeline.search`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "known", "near"),
    [
        ("--trials", ["--threads", "--task"], None),  # of another command: no flag here is like it
        ("--asp", ["--aspect", "--asset-name"], "--aspect"),
        ("", ["--aspect"], None),
        ("--", [], None),
    ],
)
def test_what_is_near(given: str, known: list[str], near: str | None):
    assert nearest(given, known) == near


def test_a_parser_raises_the_error_of_its_commands():
    class Mine(Parser):
        failure = MissingDataError

    with pytest.raises(RequestError, match="unrecognized arguments: --x"):
        Parser("prog", "does").parse_args(["--x"])
    with pytest.raises(MissingDataError, match="unrecognized arguments: --x"):
        Mine("prog", "does").parse_args(["--x"])


@pytest.mark.parametrize("make", BUILDERS.values(), ids=BUILDERS)
def test_nothing_is_abbreviated(make: Callable[[], argparse.ArgumentParser]):
    assert not make().allow_abbrev


def test_a_slip_is_answered_at_once_without_torch():
    code = (
        "import sys\nfrom pipeline import search\nfrom pipeline.base.errors import run_command\n"
        "code = run_command(search.main, ['--aspct', 'palate'])\n"
        "sys.exit(code if 'torch' not in sys.modules and 'rich' not in sys.modules else 3)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 3)


def test_the_cache_is_named_by_the_flag_then_infocal_cache_then_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name in ("INFOCAL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder(None) == tmp_path / ".cache" / "infocal"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder(None) == Path("/xdg/infocal")
    monkeypatch.setenv("INFOCAL_CACHE", "/shared/cache")
    assert cache_folder(None) == Path("/shared/cache")
    assert cache_folder("mine") == Path("mine")
