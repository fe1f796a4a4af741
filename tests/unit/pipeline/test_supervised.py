"""Human rationales of training texts: who is given them, and who is refused."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from feature_store.annotators import annotator_shares, shares_dir
from infocal.methods.registry import METHODS
from pipeline import compare, search, train
from pipeline.base.errors import run_command
from pipeline.study import outcome
from pipeline.training.loaders import training_loader
from pipeline.training.trainable import Trial
from search_spaces import lookup
from tests.small_encoder import write_encoder
from tests.small_store import post_features, sample_features
from tests.small_study import run_settings


def trial_of(name: str, folder: Path, **changes: object) -> Trial:
    features = post_features()
    run = run_settings(method=name, dataset="hatexplain", aspect="")
    base = {"hidden_size": 3, "batch_size": 256, "target_selection_rate": 0.2, **changes}
    if "transformer" in METHODS[name].encoders:
        base |= {"encoder": "transformer", "pretrained": str(write_encoder(folder / "encoder", ["bus"]))}
    run = dataclasses.replace(run, base=base, features_dir=str(features.directory))
    return Trial(run.config(), run, 0, folder)


@pytest.mark.parametrize("name", [n for n, one in METHODS.items() if one.config_class().predicts_one])
def test_no_other_trainer_is_given_the_human_rationales_of_training_texts(name: str, tmp_path: Path):
    marked = features_with_marks()
    assert marked > 100
    trial = trial_of(name, tmp_path)
    found = list(trial.loader.in_order(256))
    num = sum(int(batch.human_rationale.any(dim=1).sum()) for batch in found)
    assert num == (marked if METHODS[name].is_supervised else 0)


def features_with_marks() -> int:
    return sum(bool(marks) for marks in post_features().table("train")["rationale"].to_pylist())


def test_data_with_rationales_have_one_target_so_that_others_see_none_of_them():
    """Methods of several targets alone cannot be trained on such data."""
    for name, one in METHODS.items():
        assert one.config_class().predicts_one or not one.is_supervised, name


def test_a_supervised_method_is_given_the_annotators_mean():
    features = post_features()
    loader = training_loader(features, is_supervised=True)
    apart = annotator_shares(features).to_pylist()
    row = next(i for i, share in enumerate(apart) if share and len(set(share)) > 2)
    batch = loader.batch(np.array([row]))
    assert batch.human_rationale[0].tolist() == pytest.approx(apart[row])
    assert 0 < batch.human_rationale[0].mean() < 1


def test_validation_texts_are_scored_all_the_same(tmp_path: Path):
    trial = trial_of("birnn", tmp_path)
    assert any(gold is not None for gold in trial.validation.annotated.golds())


def test_what_a_method_reads_beside_the_features():
    features = post_features()
    run = run_settings(method="birnn_hatexplain", dataset="hatexplain", aspect="")
    assert outcome.prepare_derived(run, features) == [shares_dir(features)]
    assert outcome.prepare_derived(run, sample_features()) == []
    plain = dataclasses.replace(run, method="birnn", base={"hidden_size": 4})
    assert outcome.prepare_derived(plain, features) == []


def test_data_without_a_marked_training_text_are_refused(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = ["--sample", "--aspect", "palate", "--method", "birnn_hatexplain", "--embedding", "random"]
    assert run_command(train.main, [*asked, "--output", "model", "--epochs", "9"]) == 2
    said = capsys.readouterr().err
    assert "error: --method: `birnn_hatexplain` learns from the human rationales of training texts" in said
    assert "of beer/palate has one" in said
    assert "hint: choose a method that needs no rationales to learn from" in said


@pytest.mark.parametrize(("command", "flag"), [(search.main, "--method"), (compare.main, "--methods")])
def test_a_dry_run_refuses_data_without_a_marked_training_text(
    command, flag: str, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    asked = ["--sample", "--aspect", "palate", flag, "birnn_hatexplain", "--epochs", "9", "--dry-run"]
    assert run_command(command, asked) == 2
    said = capsys.readouterr().err
    assert f"error: {flag}: " in said and "learns from the human rationales of training texts" in said


def test_all_means_the_methods_that_need_nothing_but_texts_and_targets():
    left_out = set(lookup.method_names()) - set(lookup.unaided_names())
    needs_several = {"fla", "topjudge", "mpbfn_wca"}
    assert left_out == {"birnn_hatexplain", "bert", "bert_hatexplain", *needs_several}
    several = lookup.chosen_methods("all", "cail-small", "--methods", "charges+terms")
    assert several == lookup.unaided_names("charges+terms")
    assert needs_several < set(several) and "infocal" in several
    assert not {"birnn", "cnn_gru", "birnn_attn"} & set(several), "they predict one target"
    assert lookup.chosen_methods("all", "hatexplain", "--methods") == lookup.unaided_names()
    assert lookup.chosen_methods("bert,birnn", "hatexplain", "--methods") == ["bert", "birnn"]
