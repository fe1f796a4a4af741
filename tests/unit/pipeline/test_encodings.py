"""Commands under a locale that has ASCII alone, and arguments that are no text."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from feature_store import __main__ as feature_store_command
from feature_store import encodings
from pipeline.base.errors import run_command
from tests.small_store import small_package

ROOT = Path(__file__).resolve().parents[3]
FOLDER = "Ergebnisse ü 中文"


def ran(*arguments: str | bytes | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", **environment}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, capture_output=True, env={**kept, **settings}, cwd=ROOT, check=False)


def test_a_model_explains_a_text_beyond_ascii(tmp_path: Path):
    folder = small_package(tmp_path / FOLDER)
    done = ran("pipeline.explain", "--package", folder, "--text", "smooth 😀 ü", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == "smooth 😀 ü"


def test_masks_are_scored_in_a_folder_beyond_ascii(tmp_path: Path):
    folder = tmp_path / FOLDER
    folder.mkdir()
    path, result = folder / "é 😀.jsonl", folder / "ß.json"
    path.write_text('{"id": "ü", "rationale": [1, 0]}\n', encoding="utf-8")
    done = ran("pipeline.score", "--human", path, "--rationale", path, "--json", result)
    assert done.returncode == 0, done.stderr
    assert json.loads(result.read_text(encoding="utf-8"))["human"]["file"] == str(path)


@pytest.mark.parametrize(
    "command",
    [
        ("pipeline.explain", "--model", "models:/ü@champion", "--text", "ok 😀"),
        ("pipeline.report", "--name", "späte-Suche"),
        ("pipeline.evaluate", "--model", "models:/ü@champion"),
        ("pipeline.judge", "--resume", "ü 😀"),
    ],
)
def test_a_storage_beyond_ascii_gives_one_line(tmp_path: Path, command: tuple[str, ...]):
    done = ran(*command, *(() if command[0] == "pipeline.judge" else ("--storage", tmp_path / FOLDER)))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(b"error: ")
    assert b"Traceback" not in done.stderr


def test_the_feature_store_takes_folders_beyond_ascii(tmp_path: Path):
    cache = tmp_path / FOLDER / "😀"
    done = ran("feature_store", "build", "--sample", "--aspect", "palate", "--embedding-size", "5",
               "--embedding", "random", "--cache-dir", cache)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.decode().splitlines()[0]).is_relative_to(cache)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("command", ["pipeline.score", "pipeline.explain", "feature_store"])
def test_an_argument_that_is_no_text_is_refused_in_one_line(command: str, locale: str):
    done = ran(command, b"--text", b"caf\xe9", LC_ALL=locale)
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: expected arguments in UTF-8, but got `caf\\udce9`"), done.stderr


def fails_at(character: str, encoding: str) -> int:
    character.encode(encoding)
    return 0


def test_a_character_that_the_locale_lacks_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    said = "error: the encoding of the locale, ascii, has no character `\\u4e2d`\n\nhint: set PYTHONUTF8=1"
    assert run_command(lambda _: fails_at("中", "ascii"), []) == 2
    assert capsys.readouterr().err.startswith(said)
    monkeypatch.setattr(feature_store_command, "_list", lambda _: fails_at("中", "ascii"))
    assert feature_store_command.main(["list"]) == 2
    assert capsys.readouterr().err.startswith(said)


def test_text_that_no_encoding_has_stays_a_fault_of_ours():
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        run_command(lambda _: fails_at("\ud800", "utf-8"), [])


def test_python_is_not_started_again_twice(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    started: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, environment: started.append(environment))
    monkeypatch.delenv("PYTHONUTF8", raising=False)
    encodings.start_in_utf8()
    monkeypatch.setenv("PYTHONUTF8", "1")
    encodings.start_in_utf8()
    assert [environment["PYTHONUTF8"] for environment in started] == ["1"]
