"""Every command that a command prints, or that the documents show, is understood by the command it names."""

import importlib
import re
import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from pipeline.base import command_text, locations
from pipeline.base.storage import Storage
from pipeline.study import promotion, summary
from pipeline.study.study_settings import StudySettings
from pipeline.training import naming
from pipeline.training.epochs import BestEpoch
from tests.small_study import SCORES, candidate, criterion, run_settings, study_settings

ROOT = Path(__file__).resolve().parents[3]
TEXT = 'it\'s "smooth" , $HOME and `creamy` ; not thin !'
STORES = ["sqlite:////data/all runs/mlflow.db", "http://team:pass%40word@tracking.example:5000"]
OWN = {"dataset": "jsonl", "aspect": ""}
STUDIES = {
    "sample": ("--dataset beer --aspect palate --sample", {}),
    "real": ("--dataset beer --aspect palate --data-dir /corpora --embedding vectors.txt", {}),
    "blanks": ("--data-dir 'all my data' --cache-dir '/tmp/a cache'", {}),
    "own": ("--dataset jsonl --data-dir corpora/tickets", OWN),
    "non-ASCII": ("--dataset jsonl --data-dir '/corpora/酒评 2024'", OWN),
    "long": (f"--dataset jsonl --data-dir /corpora/{'x' * 200}", OWN),
    "accents": (
        "--dataset eraser --data-dir /corpora/données --model-name prévu",
        {"dataset": "eraser", "aspect": ""},
    ),
}


def parser_of(module: str) -> ArgumentParser:
    made: ArgumentParser = importlib.import_module(module).build_parser()
    return made


def commands_in(text: str) -> list[list[str]]:
    """The words of each `python -m pipeline.NAME ...` that stands on a line of its own."""
    lines = [line.strip() for line in text.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("python -m pipeline.")]


def parsed(words: list[str]) -> Namespace:
    return parser_of(words[2]).parse_args(words[3:])


def study(flags: str, **changes: object) -> StudySettings:
    """A study that was begun with these flags, with the name of model that the search gave it."""
    words = shlex.split(flags)
    given = parsed(["python", "-m", "pipeline.search", *words])
    run = run_settings(**changes)
    return study_settings(
        run,
        sample=given.sample,
        model_name=naming.model_name(given, run.aspect),
        command=command_text.stored_command("pipeline.search", words),
    )


def printed(prepared: StudySettings, uri: str, version: int | None, limit: float = 0.05) -> str:
    storage = Storage("all runs")
    commands = command_text.next_commands(prepared.name, storage, uri)
    said = summary.of_study(
        prepared,
        [candidate(scores=SCORES, violation=0.0 if version else 0.2)],
        [],
        tracking_uri=uri,
        storage=locations.storage(None, prepared.sample),
        directory=Path("all runs/studies/first"),
        version=version,
        register=commands.register,
        text=TEXT,
    )
    others = [
        commands.resume,
        commands.sync,
        command_text.next_commands(
            prepared.name, storage, uri, "ray://head:10001", module="pipeline.compare"
        ).sync,
        command_text.next_commands(prepared.name, storage, uri, module="pipeline.compare").resume,
        promotion.next_steps(f"models:/{prepared.model_name}@champion", uri, TEXT, Storage("runs")),
        summary.of_one(
            BestEpoch(epoch=1, value=0.25, violation=0.0, scores=SCORES),
            criterion(limit),
            Path("all runs/model"),
            prepared.run.dataset,
            TEXT,
        ),
    ]
    return "\n".join([said, *others])


@pytest.mark.parametrize("uri", STORES)
@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("version", [4, None])
def test_a_printed_command_is_understood_by_the_command_it_names(name: str, uri: str, version: int | None):
    flags, changes = STUDIES[name]
    missed = {} if version else {"criterion": criterion(0.9)}
    prepared = study(flags, **changes, **missed)
    text = printed(prepared, uri, version)
    found = commands_in(text)
    wanted = {"search", "sync", "compare", "explain"} | ({"promote"} if version else {"register"})
    assert {words[2].removeprefix("pipeline.") for words in found} == wanted
    for words in found:
        given = parsed(words)
        if hasattr(given, "text"):
            assert given.text == [TEXT]
        if getattr(given, "tracking_uri", None):
            assert "pass" not in given.tracking_uri
    assert "pass%40word" not in text.split("mlflow ui")[0]


@pytest.mark.parametrize("name", STUDIES)
def test_promotion_gets_the_data_and_the_model_of_the_study(name: str):
    flags, changes = STUDIES[name]
    prepared = study(flags, **changes)
    first = parsed(["python", "-m", "pipeline.search", *shlex.split(flags)])
    (words,) = [words for words in commands_in(printed(prepared, STORES[0], 4)) if "promote" in words[2]]
    given = parsed(words)
    for place in ("data_dir", "cache_dir", "embedding", "sample", "dataset"):
        assert getattr(given, place) == getattr(first, place)
    assert naming.model_name(given, prepared.run.aspect) == prepared.model_name
    # no flag that says what the command would do without it
    assert ("--model-name" in words) == (first.model_name is not None)


def test_a_method_of_another_name_needs_its_model_named():
    prepared = study("--dataset beer --aspect palate --sample --method fresh", method="fresh")
    (words,) = [words for words in commands_in(printed(prepared, STORES[0], 4)) if "promote" in words[2]]
    assert parsed(words).model_name == "fresh-beer-palate"


@pytest.mark.parametrize("limit", [0.9, 0.51])
def test_the_limit_that_is_offered_would_be_met(limit: float):
    prepared = study(STUDIES["sample"][0], criterion=criterion(limit))
    (words,) = [w for w in commands_in(printed(prepared, STORES[0], None)) if w[2] == "pipeline.register"]
    assert parsed(words).min_precision <= SCORES["val_token_precision"]
    assert parsed(words).name == prepared.name


# ------------------------------------------------------- what stands in messages and documents

_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def shown() -> list[tuple[str, str, str]]:
    """File, command and the rest of the line, of every command in the sources' messages and the documents."""
    found = []
    sources = [*sorted((ROOT / "pipeline").rglob("*.py"))]
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for path in [*sources, *documents]:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for match in re.finditer(r"python -m (pipeline\.[a-z_]+)([^`\n|#]*)", text):
            rest = match[2] if path.suffix == ".md" else re.split(r'["{]', match[2])[0]
            found.append((path.name, match[1], rest))
    return found


def test_there_are_commands_to_check():
    assert len(shown()) > 40


@pytest.mark.parametrize(("file", "module", "rest"), shown())
def test_a_command_that_is_shown_has_the_flags_it_is_shown_with(file: str, module: str, rest: str):
    made = parser_of(module)
    for flag in _FLAG.findall(rest):
        assert flag in made._option_string_actions, f"{file}: {module} has no {flag}"
