"""The command line: results on stdout, progress on stderr, errors in two lines, fast answers."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from feature_store import __main__ as cli
from feature_store import fetch as fetch_module
from feature_store import sample

ROOT = Path(cli.__file__).parents[1]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Status, stdout and stderr of a command."""
    for name in ("INFOCAL_DATA", "INFOCAL_CACHE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def build(run: Run, corpus: Path, cache_dir: Path) -> Callable[..., tuple[int, str, str]]:
    def call(*more: object) -> tuple[int, str, str]:
        vectors = ("--embedding", "random", "--embedding-size", 4)
        return run("build", "--data-dir", corpus, "--cache-dir", cache_dir, *vectors, *more)

    return call


def test_build_prints_folder_sizes_and_notes(build: Run, cache_dir: Path):
    status, out, err = build("--aspect", "palate")
    assert status == 0
    lines = out.splitlines()
    (folder,) = (cache_dir / "features").iterdir()
    assert lines[0] == str(folder)
    assert lines[1].endswith(" words, vectors of 4")
    assert [line.split(":")[0].strip() for line in lines[2:6]] == ["train", "val", "val_annotated", "test"]
    assert "with a human rationale (" in lines[5]
    assert all(line.startswith("  note: ") for line in lines[6:])
    assert "building features of beer/palate in" in err


def test_a_note_names_a_flag_of_this_command(build: Run):
    status, out, _ = build("--aspect", "palate", "--max-length", 20)
    (note,) = [line for line in out.splitlines() if "of `train` are longer than 20 tokens" in line]
    assert status == 0
    flag, value = re.findall(r"`(--max-length) (\w+)`", note)[0]
    assert "--set" not in note
    assert value == "N" or build("--aspect", "palate", flag, value)[0] == 0


def test_a_second_build_finds_it_whole(build: Run):
    _, first, _ = build("--aspect", "palate")
    assert build("--aspect", "palate") == (0, first, "")


def test_build_takes_all_aspects_unless_one_is_named(build: Run, cache_dir: Path):
    assert build()[0] == 0
    assert sorted(path.name.split("-")[1] for path in (cache_dir / "features").iterdir()) == [
        "appearance",
        "palate",
        "smell",
    ]


def test_a_task_is_an_aspect_and_what_was_left_out_is_a_table(run: Run, cache_dir: Path):
    vectors = ("--embedding", "random", "--embedding-size", 4)
    status, out, _ = run(
        *(
            "build",
            "--dataset",
            "cail-small",
            "--task",
            "terms",
            "--sample",
            "--cache-dir",
            cache_dir,
            *vectors,
        )
    )
    assert status == 0
    lines = out.splitlines()
    table = next(i for i, line in enumerate(lines) if line.split() == ["left", "out", "train", "val", "test"])
    assert lines[table + 1].startswith("  with no charge or several")
    assert all(line[-10:].strip().isdecimal() for line in lines[table + 1 : table + 8])
    assert lines[table + 8].startswith("  note: made-up sample corpus")


def test_build_mends_a_flipped_bit(build: Run, cache_dir: Path):
    build("--aspect", "palate")
    (path,) = cache_dir.rglob("train.arrow")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    status, _, err = build("--aspect", "palate")
    assert status == 0
    assert "train.arrow: the content differs from its sha256 in the manifest: expected" in err
    assert ": building it again" in err


def test_verify(build: Run, run: Run, cache_dir: Path):
    build("--aspect", "palate")
    build("--aspect", "smell")
    status, out, _ = run("verify", "--cache-dir", cache_dir)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["ok", "ok"]
    status, out, _ = run("verify", "--cache-dir", cache_dir, "--aspect", "aroma")
    assert [Path(line.split()[1]).name.split("-")[1] for line in out.splitlines()] == ["smell"]


def test_verify_of_an_aspect_that_no_source_has(run: Run, cache_dir: Path):
    status, _, err = run("verify", "--cache-dir", cache_dir, "--aspect", "aromma")
    assert status == 2
    assert "no aspect `aromma` in dataset `beer`" in err


def test_nothing_is_fetched_where_there_is_nothing_official(run: Run, tmp_path: Path):
    status, _, err = run("fetch", "--dataset", "jsonl", "--data-dir", tmp_path)
    assert status == 2
    assert "dataset `jsonl` has no official files: there is nothing to download" in err
    assert "name their folder with `--data-dir`" in err


def test_verify_names_what_is_damaged(build: Run, run: Run, cache_dir: Path):
    build("--aspect", "palate")
    (path,) = cache_dir.rglob("val.arrow")
    path.write_bytes(path.read_bytes()[:-8])
    status, out, err = run("verify", "--cache-dir", cache_dir)
    assert status == 2
    assert out.splitlines()[0] == f"damaged  {path.parent}"
    assert "val.arrow: expected" in out
    assert f"error: {cache_dir}: 1 of 1 built folders are damaged: {path.parent.name}" in err
    assert "hint: run `python -m feature_store build` with the same options" in err


def test_verify_with_nothing_built(run: Run, tmp_path: Path):
    assert run("verify", "--cache-dir", tmp_path) == (
        2,
        "",
        f"error: {tmp_path}: no features are built in this folder\n\n"
        "hint: run `python -m feature_store build`\n",
    )


def test_list_shows_raw_files_and_what_is_built(build: Run, run: Run, corpus: Path, cache_dir: Path):
    build("--aspect", "palate")
    (corpus / "beer" / "reviews.aspect0.heldout.txt").unlink()
    status, out, _ = run("list", "--data-dir", corpus, "--cache-dir", cache_dir)
    assert status == 0
    assert "beer: BeerAdvocate reviews" in out
    assert "aspects: appearance, smell, palate; aroma = smell" in out
    assert "raw files of appearance: dataset `beer`, aspect `appearance`: no file" in out
    assert f"raw files of palate: {corpus / 'beer' / 'reviews.aspect2.heldout.txt'}" in out
    (folder,) = (cache_dir / "features").iterdir()
    assert f"built: {folder}" in out


def test_list_without_data(run: Run, cache_dir: Path):
    _, out, _ = run("list", "--cache-dir", cache_dir)
    assert "raw files of palate: not known: name the data folder with `--data-dir` or INFOCAL_DATA" in out


def test_list_reads_the_environment(run: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("INFOCAL_DATA", str(corpus))
    assert f"raw files of palate: {corpus}" in run("list")[1]


def test_fetch_prints_the_files(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, str | None, Path]] = []

    def fetch(source: object, aspect: str | None, data_dir: Path) -> list[Path]:
        asked.append((source.name, aspect, data_dir))  # type: ignore[attr-defined]
        return [data_dir / "beer" / "f"]

    monkeypatch.setattr(fetch_module, "fetch", fetch)
    assert run("fetch", "--aspect", "aroma", "--data-dir", tmp_path) == (0, f"{tmp_path}/beer/f\n", "")
    assert asked == [("beer", "smell", tmp_path)]


def test_fetch_needs_a_place(run: Run):
    assert run("fetch") == (
        2,
        "",
        "error: no folder for the files was named\n\nhint: add `--data-dir DIR` or set INFOCAL_DATA\n",
    )


def test_the_sample_is_built_when_asked_for(run: Run, cache_dir: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sample.write_beer, "__kwdefaults__", {"num_reviews": 40, "num_annotated": 30})
    monkeypatch.setenv("INFOCAL_CACHE", str(cache_dir))
    status, out, _ = run("build", "--sample", "--aspect", "palate", "--embedding", "random")
    assert status == 0
    assert "note: made-up sample corpus (seed 0)" in out
    assert (cache_dir / "sample" / "beer-1-0" / "beer" / "annotations.json").exists()


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (
            ["build", "--aspect", "palete"],
            "no aspect `palete` in dataset `beer`; it has `appearance`, `smell`, `palate`",
            "did you mean `--aspect palate`?",
        ),
        (
            ["build", "--dataset", "bear"],
            "no dataset `bear`; the data sets are `beer`",
            "did you mean `--dataset beer`?",
        ),
        (
            ["verify", "--dataset", "bear"],
            "no dataset `bear`; the data sets are `beer`",
            "did you mean `--dataset beer`?",
        ),
        (
            ["build", "--aspct", "palate"],
            "unrecognized arguments: --aspct palate",
            "did you mean `--aspect`?",
        ),
        (["build", "--asp", "palate"], "unrecognized arguments: --asp palate", "did you mean `--aspect`?"),
        (
            ["bild"],
            "unknown command `bild`; the commands are `list`, `fetch`, `build`, `verify`",
            "did you mean `build`?",
        ),
        *(
            (
                ["build", flag, "0"],
                f"argument {flag}: expected a whole number above 0, but got '0'",
                "`python -m feature_store build --help` lists the flags",
            )
            for flag in ("--max-length", "--min-count", "--embedding-size")
        ),
        (
            ["build", "--seed", "x"],
            "argument --seed: expected a whole number from 0 to 2**32 - 1, but got 'x'",
            "`python -m feature_store build --help` lists the flags",
        ),
        ([], "the following arguments are required", "`python -m feature_store --help` lists the flags"),
    ],
)
def test_wrong_arguments(run: Run, arguments: list[str], error: str, hint: str):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {error}")
    assert err.split("\n\n")[1].startswith(f"hint: {hint}")


def test_bad_data_is_an_error_in_two_lines(build: Run, heldout: Path, change_line: Callable[..., None]):
    change_line(heldout, 4, "0.1 0.2\ta b")
    status, out, err = build("--aspect", "palate")
    assert (status, out) == (2, "")
    assert f"error: {heldout}:4: expected 5 scores, but got 2" in err
    assert "Traceback" not in err


def test_debug_shows_the_traceback(build: Run, heldout: Path, change_line: Callable[..., None]):
    from feature_store.errors import BadInputError

    change_line(heldout, 4, "0.1 0.2\ta b")
    with pytest.raises(BadInputError, match=":4: expected 5 scores"):
        build("--aspect", "palate", "--debug")


def test_an_interrupt_is_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch):
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_list", stop)
    assert run("list") == (130, "", "stopped\n")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["build", "--help"], ["build", "--aspect", "palete"], ["list"]]
)
def test_quick_answers_import_nothing_heavy(arguments: list[str]):
    code = (
        "import sys\nfrom feature_store.__main__ import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'pyarrow', 'polars', 'gensim', 'pooch', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stderr.splitlines()[-1] == "[]"


def test_the_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Run):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run("verify")[2].startswith(f"error: {tmp_path / 'infocal'}: no features are built in this folder")


def test_it_runs_as_a_module():
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "feature_store", "--help"]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert "list | fetch | build | verify" in run.stdout
