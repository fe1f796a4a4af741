"""A data set is one file, one line in the registry of sources, and a preset: nothing else knows its name."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from feature_store.sources import REGISTRY
from pipeline import compare, search
from pipeline.base.errors import run_command
from pipeline.training import columns
from search_spaces import datasets, lookup
from search_spaces.base import Bound, Criterion

NAME = "letters"

SOURCE = '''
"""Letters that people wrote, and whether they are glad: a made-up data set."""

from feature_store.sources.base import Example, FeatureDefaults, TaskSpec
from feature_store.sources.locate import find_inputs
from feature_store.sources.reads_rows import ReadsRows


class Letters(ReadsRows):
    name = "letters"
    title = "letters, glad or dull"
    aspects = ("mood",)
    aliases = {"tone": "mood"}
    splits = ("train", "val", "test")
    shares_texts = False
    options = ()
    defaults = FeatureDefaults(max_length=64)
    tokenizer = "whitespace"
    version = 1
    sample_version = 1
    remote_files = ()

    def inputs(self, data_dir, aspect, options={}):
        return find_inputs(data_dir, self.name, {"letters": ("letters.tsv",)})

    def task(self, query, report):
        return TaskSpec(kind="classification", class_names=("dull", "glad"))

    def examples(self, query, task, report):
        for number, line in enumerate(query.inputs["letters"].read_text().splitlines()):
            split, label, text = line.split("\\t")
            tokens = text.split()
            marked = None if split == "train" else [tokens.index(label)]
            yield Example(
                example_id=str(number),
                split=split,
                tokens=tokens,
                target=task.class_names.index(label),
                rationale=marked,
            )

    def write_sample(self, data_dir, seed):
        lines = []
        for split, count in (("train", 400), ("val", 80), ("test", 80)):
            for i in range(count):
                label = ("dull", "glad")[i % 2]
                lines.append(f"{split}\\t{label}\\tletter {split} {i} of {seed} is {label} from me")
        (data_dir / self.name).mkdir(parents=True)
        (data_dir / self.name / "letters.tsv").write_text("\\n".join(lines) + "\\n")
'''

PRESET = """
[dataset]
metric_mode = "hatexplain"
example = "a letter that is glad"
first_points = [{ lambda_ib = 0.03 }]

[dataset.criterion]
why = "a test"
mood = "best val_token_f1 with val_accuracy >= 0.5"

[dataset.spaces.paper]
lambda_ib = { low = 0.01, high = 0.05, step = 0.01, why = "a test" }

[dataset.spaces.wide]
lambda_ib = { low = 0.001, high = 0.5, log = true, why = "a test" }

[all]
hidden_size = 24
target_selection_rate = 0.125
"""


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of raw files of a data set that is registered for the test."""
    file = tmp_path / "letters.py"
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("letters", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(REGISTRY, NAME, module.Letters())
    presets = tmp_path / "presets"
    shutil.copytree(datasets.PRESETS, presets)
    (presets / f"{NAME}.toml").write_text(PRESET)
    monkeypatch.setattr(datasets, "PRESETS", presets)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INFOCAL_CACHE", str(tmp_path / "cache"))
    module.Letters().write_sample(tmp_path / "data", seed=0)
    return tmp_path / "data"


def test_every_look_up_knows_a_new_data_set(letters: Path):
    bound = Bound(metric="val_accuracy", limit=0.5, kind="at_least")
    stated = Criterion(metric="val_token_f1", bounds=(bound,), why="a test")
    assert lookup.criterion(NAME, "mood") == stated
    assert lookup.metric_mode(NAME) == "hatexplain"
    assert columns.columns(NAME) == columns.columns("hatexplain")
    assert [(r.name, r.low, r.high) for r in lookup.space("infocal", NAME, "wide")] == [
        ("lambda_ib", 0.001, 0.5)
    ]
    assert lookup.first_points("infocal", NAME) == [{"lambda_ib": 0.03}]
    assert lookup.space("hardkuma", NAME, "paper") == lookup.space("hardkuma", "beer", "paper")
    assert lookup.preset("infocal", NAME, "mood", sample=False) == {
        "hidden_size": 24,
        "target_selection_rate": 0.125,
        "max_length": 64,
    }
    assert {method for method, place in lookup.methods_and_datasets() if place == NAME} == set(
        lookup.method_names()
    )
    assert datasets.dataset(NAME).example == "a letter that is glad"


@pytest.mark.parametrize("place", [["--data-dir", "data"], ["--sample"]])
def test_a_search_on_a_new_data_set_is_planned(
    letters: Path, place: list[str], capsys: pytest.CaptureFixture[str]
):
    asked = ["--dataset", NAME, "--aspect", "tone", "--embedding", "random", "--device", "cpu", "--dry-run"]
    assert run_command(search.main, [*asked, *place, "--criterion", "paper"]) == 0
    plan = capsys.readouterr().out
    assert "(infocal on letters/mood)" in plan
    assert "train 400 texts" in plan
    assert "criterion    best val_token_f1 with val_accuracy >= 0.5" in plan
    assert "\n  lambda_ib                   0.01 .. 0.05, step 0.01  (a test)" in plan


def test_a_comparison_on_a_new_data_set_is_planned(letters: Path, capsys: pytest.CaptureFixture[str]):
    asked = ["--dataset", NAME, "--aspect", "mood", "--data-dir", "data", "--embedding", "random"]
    assert run_command(compare.main, [*asked, "--device", "cpu", "--dry-run", "--methods", "all"]) == 0
    plan = capsys.readouterr().out
    assert "selection    12.5% of the tokens" in plan
    for method in lookup.unaided_names():
        assert f"\n  {method} " in plan


def test_a_new_data_set_without_a_table_of_its_own_is_judged_like_data_of_ones_own(letters: Path):
    (letters.parent / "presets" / f"{NAME}.toml").write_text("[all]\nhidden_size = 24\n")
    datasets._record.cache_clear()
    assert lookup.depends_on_data(NAME)
    assert lookup.criterion(NAME, "mood") == lookup.criterion("jsonl", "")
    assert lookup.space("infocal", NAME, "wide") == lookup.space("infocal", "jsonl", "wide")
    assert lookup.metric_mode(NAME) == "eraser"
