"""From a folder of one's own to a promoted model that answers, by the flags of the README alone.

The results lie in a folder whose name means something else in a URI.
"""

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import explain, promote
from pipeline.base.errors import run_command
from pipeline.base.uris import of_sqlite
from pipeline.tracking.tracking import Tracker
from tests.integration.commands import run
from tests.own_corpora import write_eraser, write_own

pytestmark = pytest.mark.slow

SIGNS = {"billing": ("charged", "twice"), "technical": ("screen", "black")}
FILLERS = [f"word{number}" for number in range(60)]
SIZES = {"train": 400, "val": 60, "test": 80}
SMALL = [
    *("--set", "hidden_size=16", "--set", "encoder=lstm", "--set", "learning_rate=0.01"),
    # the words stand beside others by chance, of which word2vec can learn nothing
    *("--embedding", "random", "--device", "cpu", "--trials", "2", "--epochs", "18"),
]


STORAGE = "a%41 b%2Fc?d#e ü"
"""A letter, a slash, a query, a fragment, a blank and two bytes, as a URI would read them."""
NEIGHBOURS = ["aA b", "a%41 b", "a%41 b%2Fc"]
"""What is left of the name where one of them is read."""


def tickets(split: str) -> list[tuple[list[str], str, int]]:
    """Texts with two words in a row that tell the class: words, class, where the two stand."""
    made, generator = [], random.Random(split)
    for _ in range(SIZES[split]):
        label = generator.choice(sorted(SIGNS))
        words = generator.choices(FILLERS, k=10)
        place = generator.randrange(9)
        words[place : place + 2] = SIGNS[label]
        made.append((words, label, place))
    return made


def write_jsonl_corpus(folder: Path) -> Path:
    records: dict[str, list[dict[str, Any]]] = {}
    for split in SIZES:
        records[split] = []
        for words, label, place in tickets(split):
            first = len(" ".join([*words[:place], ""]))
            span = [first, first + len(" ".join(words[place : place + 2]))]
            records[split].append({"text": " ".join(words), "label": label, "rationale": [span]})
    folder.mkdir()
    return write_own(folder, records)


def write_eraser_corpus(folder: Path) -> Path:
    records: dict[str, list[dict[str, Any]]] = {}
    documents = {}
    for split in SIZES:
        records[split] = []
        for number, (words, label, place) in enumerate(tickets(split)):
            name = f"{split}{number}"
            documents[name] = " ".join(words) + "\n"
            text = " ".join(words[place : place + 2])
            evidence = {"docid": name, "start_token": place, "end_token": place + 2, "text": text}
            records[split].append(
                {
                    "annotation_id": name,
                    "classification": label,
                    "evidences": [[evidence]],
                    "query": "which ?",
                }
            )
    return write_eraser(folder, records, documents)


@pytest.mark.parametrize(
    ("dataset", "write", "more"),
    [
        ("jsonl", write_jsonl_corpus, []),  # the rival is trained first, and asked again on test
        ("eraser", write_eraser_corpus, ["--criterion", "paper", "--trials", "1"]),
    ],
)
def test_a_corpus_of_ones_own_ends_in_a_champion_that_finds_the_words(
    dataset: str, write: Any, more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    corpus = write(tmp_path / "my tickets")
    target = ["--dataset", dataset, "--data-dir", str(corpus)]
    for neighbour in NEIGHBOURS:
        (tmp_path / neighbour).mkdir()
    storage = tmp_path / STORAGE
    places = ["--storage", str(storage), "--cache-dir", str(tmp_path / "cache")]
    done = run([sys.executable, "-m", "pipeline.search", *target, *SMALL, *more, *places], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = ["my tickets", "cache", STORAGE]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*NEIGHBOURS, *made])
    assert not any(any((tmp_path / neighbour).iterdir()) for neighbour in NEIGHBOURS)
    name = f"infocal-{dataset}-my-tickets"
    assert f"registered {name} version 1 as `challenger`" in done.stdout
    asked = [*target, "--embedding", "random", *places]
    assert run_command(promote.main, asked) == 0
    tracker = Tracker(of_sqlite(storage / "mlflow.db"), create=False)
    assert [model.name for model in tracker.client.search_registered_models()] == [name]
    capsys.readouterr()
    text = "word1 word2 word5 screen black word3"
    question = ["--model", f"models:/{name}@champion", "--tracking-uri", tracker.uri, "--text", text]
    assert run_command(explain.main, question) == 0
    answer = capsys.readouterr().out
    assert answer.startswith("predicted technical") and "[screen" in answer and "[word1" not in answer
