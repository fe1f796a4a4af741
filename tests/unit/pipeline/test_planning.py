import argparse
import dataclasses
import json
import logging
import re
import shlex
import threading
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from feature_store import targets
from feature_store.errors import RequestError
from feature_store.sample import write_beer
from feature_store.sample_posts import write_hatexplain
from infocal import kernels, trainer
from infocal.config import InfoCalConfig
from infocal.errors import ConfigError, StateError, UserError
from infocal.language_model_config import LanguageModelConfig
from pipeline.base.errors import PipelineError
from pipeline.cli import epoch_check, planning, search_settings
from pipeline.search import build_parser
from pipeline.study import cluster
from pipeline.training import data_options
from pipeline.training.origin import origin_of
from pipeline.training.settings import RunSettings
from search_spaces import datasets, lookup
from search_spaces.base import Bound, Criterion
from tests.own_corpora import own_records, write_own
from tests.small_store import sample_cache, sample_features
from tests.small_study import criterion, run_settings


def flags(*more: str, aspect: str | None = "palate") -> argparse.Namespace:
    return build_parser().parse_args([*(["--aspect", aspect] if aspect else []), *more])


def test_the_flags_reach_the_settings():
    given = flags("--epochs", "7", "--seed", "3", "--device", "cpu", "--bf16")
    run = planning.run_settings(given, {}, num_threads=2)
    assert (run.dataset, run.aspect, run.method) == ("beer", "palate", "infocal")
    assert (run.num_epochs, run.seed, run.device, run.bf16, run.num_threads) == (7, 3, "cpu", True, 2)
    assert run.features_dir == "", "nothing is built while flags are checked"
    assert run.criterion == lookup.criterion("beer", "palate")


def test_a_flag_that_was_given_as_a_hyper_parameter_is_named():
    with pytest.raises(PipelineError, match="unknown hyper-parameter `bf16`") as caught:
        planning.run_settings(flags("--set", "bf16=true"), {})
    assert caught.value.hint == "use the flag `--bf16` instead of a hyper-parameter"


@pytest.mark.parametrize(("epochs", "is_told"), [(2, True), (3, True), (4, False)])
def test_too_few_epochs_on_the_sample_are_told(epochs: int, is_told: bool, caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO"):
        planning.run_settings(flags("--sample", "--epochs", str(epochs)), {})
    told = [
        record.getMessage()
        for record in caplog.records
        if "rationales cannot be used yet" in record.getMessage()
    ]
    assert bool(told) == is_told
    assert all(one.endswith("use `--epochs 4` or more") for one in told)


def test_an_alias_of_an_aspect_becomes_its_name():
    assert planning.run_settings(flags(aspect="aroma"), {}).aspect == "smell"


def test_each_source_of_hyper_parameters_wins_over_the_one_before(tmp_path: Path):
    preset = lookup.preset("infocal", "beer", "palate", sample=False)
    file = tmp_path / "run.toml"
    file.write_text("batch_size = 3\naverage_decay = 0.3\n")
    tracked = {"batch_size": 2, "average_decay": 0.2, "learning_rate": 0.2}
    given = flags("--config", str(file), "--set", "batch_size=4")
    base = planning.run_settings(given, tracked).base
    assert base["batch_size"] == 4  # --set
    assert base["average_decay"] == 0.3  # --config
    assert base["learning_rate"] == 0.2  # tracked run
    assert base["target_selection_rate"] == preset["target_selection_rate"]  # preset


def test_the_sample_has_presets_of_its_own():
    real, sample = (planning.run_settings(flags(*more), {}) for more in ([], ["--sample"]))
    assert sample.base == lookup.preset("infocal", "beer", "palate", sample=True)
    assert sample.base != real.base
    assert LanguageModelConfig(**sample.language_model).hidden_size < real.language_model["hidden_size"]


def test_another_threshold_is_the_criterions():
    run = planning.run_settings(flags("--min-precision", "0.4"), {})
    assert [(bound.metric, bound.limit) for bound in run.criterion.bounds] == [("val_token_precision", 0.4)]
    # 0 is a threshold too, not "none given"
    zero = planning.run_settings(flags("--min-precision", "0"), {})
    assert zero.criterion.bounds[0].limit == 0


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [("palat", "no aspect `palat` in dataset `beer`", "--aspect palate"), ("aroma2", "it has", "aroma")],
)
def test_a_wrong_aspect_is_answered_with_the_nearest(name: str, message: str, hint: str):
    with pytest.raises(RequestError, match=message) as caught:
        planning.run_settings(flags(aspect=name), {})
    assert hint in str(caught.value.hint)


def test_a_wrong_dataset_is_answered_with_the_nearest():
    with pytest.raises(RequestError, match="no dataset `bear`; the data sets are `beer`, ") as caught:
        planning.run_settings(flags("--dataset", "bear"), {})
    assert caught.value.hint == "did you mean `--dataset beer`?"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("hiden_size=4", "unknown hyper-parameter `hiden_size`; did you mean `hidden_size`?"),
        ("zzz=4", "unknown hyper-parameter `zzz`; the hyper-parameters are target_selection_rate,"),
        ("hidden_size=0", "`hidden_size` must be > 0, but got 0"),
        ("learning_rate=-0.1", "`learning_rate` must be > 0, but got -0.1"),
        ("embedding_dropout=1.0", "`embedding_dropout` must be >= 0 and < 1, but got 1.0"),
    ],
)
def test_a_hyper_parameter_that_is_refused_names_its_flag(assignment: str, message: str):
    with pytest.raises(UserError, match=f"^--set: {message}") as caught:
        planning.run_settings(flags("--set", assignment), {})
    assert "--dry-run" in str(caught.value.hint)


LAW = "charges,articles,terms"


@pytest.mark.parametrize(
    ("dataset", "aspect"),
    [("beer", "palate"), ("hatexplain", None), ("cail-small", "charges"), ("cail-big", LAW), ("jsonl", None)],
)
def test_the_command_that_lists_the_hyper_parameters_works_as_it_is_printed(dataset: str, aspect: str | None):
    several = targets.joined((aspect or "").split(","))
    for method in filter(lambda name: lookup.can_predict(name, several), lookup.method_names()):
        given = argparse.Namespace(dataset=dataset, aspect=aspect, method=method)
        command = shlex.split(planning.listing({"pretrained": "."}, given))
        assert command[:3] == ["python", "-m", "pipeline.search"]
        prepared = search_settings.new_study(build_parser().parse_args(command[3:]), command[3:])
        assert (prepared.run.dataset, prepared.run.method) == (dataset, method)


@pytest.mark.parametrize(
    ("dataset", "method", "aspect", "message", "hint"),
    [
        ("beer", "fla", "palate", "got one: `palate`", "`--aspect palate,appearance,smell`"),
        ("cail-small", "topjudge", "charges", "got one: `charges`", "`--aspect charges,articles,terms`"),
        ("hatexplain", "fla", None, "but got one$", "`--aspect label,group`"),
        ("jsonl", "fla", None, "but got one$", "`--aspect label,NAME`"),
        ("eraser", "fla", None, "but got one$", "choose another method"),
        ("beer", "birnn", "palate,smell", "names 2: `palate`, `smell`", "`--aspect palate`"),
    ],
)
def test_a_wrong_number_of_targets_names_the_flag_and_targets_of_this_data_set(
    dataset: str, method: str, aspect: str | None, message: str, hint: str
):
    given = flags("--dataset", dataset, "--method", method, "--sample", aspect=aspect)
    with pytest.raises(ConfigError, match=f"^--method {method}: `{method}` predicts .*{message}") as caught:
        planning.run_settings(given, {})
    assert hint in str(caught.value.hint)


def test_a_hyper_parameter_that_is_refused_names_its_file(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text("hiden_size = 8\n")
    with pytest.raises(UserError, match=f"^--config {file}: unknown hyper-parameter `hiden_size`"):
        planning.run_settings(flags("--config", str(file)), {})
    with pytest.raises(UserError, match=f"^--set or --config {file}: unknown"):
        planning.run_settings(flags("--config", str(file), "--set", "hidden_size=8"), {})


def test_a_rate_that_is_asked_for_is_aimed_at_and_held():
    run = planning.run_settings(flags("--target-selection-rate", "0.07"), {})
    assert (run.base["target_selection_rate"], run.hold_rate) == (0.07, True)
    assert not planning.run_settings(flags(), {}).hold_rate


def test_a_rate_of_nothing_is_refused():
    with pytest.raises(
        PipelineError,
        match="^--target-selection-rate: expected a selection rate above 0, but got 0, which selects "
        "nothing$",
    ):
        planning.run_settings(flags("--target-selection-rate", "0"), {})


def test_a_variant_fixes_what_makes_it_one():
    run = planning.run_settings(flags("--method", "infocal-no-adv"), {})
    config = run.config()
    assert isinstance(config, InfoCalConfig)
    assert (run.method, config.lambda_g, config.lambda_mi) == ("infocal-no-adv", 0.0, 0.0)


@pytest.mark.parametrize(
    ("method", "asked", "message"),
    [
        (
            "infocal-no-adv",
            ["--set", "lambda_g=1.0"],
            "lambda_g = 0.0, but got 1.0",
        ),
        (
            "infocal-dense",
            ["--target-selection-rate", "0.1"],
            "target_selection_rate = 1.0, but got 0.1",
        ),
    ],
)
def test_a_variant_without_what_makes_it_one_is_refused(method: str, asked: list[str], message: str):
    with pytest.raises(PipelineError, match=f"^variant `{method}` requires {message}$") as caught:
        planning.run_settings(flags("--method", method, *asked), {})
    assert f"remove `{message.partition(' ')[0]}` from `--set`" in (caught.value.hint or "")


def test_an_unknown_method_gets_a_suggestion():
    with pytest.raises(ConfigError, match="^--method: unknown method `infocl`") as caught:
        planning.run_settings(flags("--method", "infocl"), {})
    assert caught.value.hint == "did you mean `--method infocal`?"


def test_a_dataset_without_criterion_is_refused(monkeypatch: pytest.MonkeyPatch):
    bare = dataclasses.replace(datasets.dataset("beer"), criteria={})
    monkeypatch.setattr(datasets, "dataset", lambda name: bare)
    with pytest.raises(ConfigError, match="--aspect: no criterion for aspect `palate`"):
        planning.run_settings(flags(), {})


def test_features_are_opened_with_the_given_flags_and_their_notes_said(caplog: pytest.LogCaptureFixture):
    given = flags("--sample", "--embedding", "random", "--cache-dir", str(sample_cache()))
    expected = sample_features()
    run = planning.run_settings(given, {})
    assert InfoCalConfig.from_mapping(run.base).max_length == 256
    with caplog.at_level(logging.INFO, "pipeline.cli.planning"):
        made = planning.with_features(given, run)
    assert made == dataclasses.replace(
        run, features_dir=str(expected.directory.resolve()), origin=origin_of(expected)
    )
    folder = made.features_dir
    assert Path(folder) == expected.directory.resolve()
    assert Path(folder).is_absolute(), "workers stand in another folder"
    # other tests may have left the feature store's own logger at work
    said = [record.getMessage() for record in caplog.records if record.name == "pipeline.cli.planning"]
    assert said == [f"note: {note}" for note in expected.notes]
    assert "made-up sample corpus" in said[0]


def test_a_shorter_cut_makes_other_features():
    given = flags(
        "--sample", "--embedding", "random", "--cache-dir", str(sample_cache()), "--set", "max_length=40"
    )
    folder = planning.with_features(given, planning.run_settings(given, {})).features_dir
    assert Path(folder) != sample_features().directory.resolve()


def test_data_without_a_human_rationale_are_refused_before_training(tmp_path: Path):
    source = tmp_path / "data" / "beer"
    write_beer(source, seed=0)
    reviews = [json.loads(line) for line in (source / "annotations.json").read_text().splitlines()]
    (source / "annotations.json").write_text("".join(json.dumps(r | {"2": []}) + "\n" for r in reviews))
    cache = str(tmp_path / "cache")
    given = flags("--data-dir", str(tmp_path / "data"), "--embedding", "random", "--cache-dir", cache)
    with pytest.raises(
        PipelineError, match="none of the 46 validation texts of beer/palate has a human rationale"
    ):
        planning.with_features(given, planning.run_settings(given, {}))


def own_flags(folder: Path, *more: str) -> argparse.Namespace:
    places = ["--data-dir", str(folder / "data"), "--cache-dir", str(folder / "cache")]
    return build_parser().parse_args(["--dataset", "jsonl", "--embedding", "random", *places, *more])


@pytest.mark.parametrize(
    ("rationale", "metric"), [([[0, 2]], "val_token_f1"), ([], "val_macro_f1"), (None, "val_macro_f1")]
)
def test_the_criterion_of_own_data_is_settled_by_what_val_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rationale: list[list[int]] | None, metric: str
):
    records = own_records()
    records["val"][0] |= {"rationale": rationale}
    records["test"][0] |= {"rationale": [[0, 2]]}  # of which nothing is to be known before the end
    write_own(tmp_path / "data", records)
    given = own_flags(tmp_path, "--epochs", "300")
    run = planning.run_settings(given, {})
    assert run.criterion == lookup.criterion("jsonl", "")
    with caplog.at_level(logging.INFO, "pipeline.cli.planning"):
        settled = planning.with_features(given, run)
    assert settled.criterion.metric == metric
    assert f"criterion: {settled.criterion}" in caplog.messages
    assert data_options.target_of_run(settled) == "data", "the folder's name"
    caplog.clear()
    with caplog.at_level(logging.INFO, "pipeline.cli.planning"):
        assert planning.with_features(given, run, is_first=False) == settled
    assert not caplog.messages, "it was said for the first method of a comparison"


def test_a_small_corpus_of_ones_own_gets_small_batches_and_a_long_start(tmp_path: Path):
    write_own(tmp_path / "data", own_records(num_train=100))
    given = own_flags(tmp_path, "--epochs", "60", "--set", "ramp_epochs=9.0")
    base = planning.with_features(given, planning.run_settings(given, {})).base
    assert (base["batch_size"], base["dense_epochs"]) == (8, 22.0)
    assert base["ramp_epochs"] == 9.0, "what the user has set stays"


def test_epochs_that_end_before_the_weights_are_in_force_are_refused(tmp_path: Path):
    write_own(tmp_path / "data", own_records(num_train=100))
    given = own_flags(tmp_path)
    with pytest.raises(
        PipelineError,
        match="--epochs: .* at least 57 epochs, but got 50: .* reach their full weight after 54.5 epochs",
    ) as e:
        planning.with_features(given, planning.run_settings(given, {}))
    assert e.value.hint == (
        "use `--epochs 57` or more (109 or more is better), or shorten the start phase: "
        "`--set dense_epochs=EPOCHS --set ramp_epochs=EPOCHS`. 57 is the sum of 22 epochs in which all "
        "tokens are selected (`dense_epochs`) + 32.5 epochs in which the weights of the losses rise "
        "(`ramp_epochs`) + 2 epochs after the start phase, rounded up"
    )
    assert not list((tmp_path / "cache" / "features").glob("jsonl*")), "before features are built"


@hypothesis.given(st.integers(1, 20_000), st.sampled_from(["infocal", "bernoulli", "fresh", "attention"]))
@hypothesis.settings(max_examples=40, deadline=None)
def test_the_epochs_that_are_asked_for_are_the_fewest_that_are_accepted(num_texts: int, method: str):
    run = planning.run_settings(own_flags(Path("nowhere"), "--method", method, "--epochs", "1"), {})
    known = run.config().to_dict()
    settled = lookup.settled_preset("jsonl", num_texts)
    base = run.base | {name: value for name, value in settled.items() if name in known}
    run = dataclasses.replace(run, base=base)
    if not run.config().start_epochs:
        epoch_check.check(run)
        return
    with pytest.raises(PipelineError, match="but got 1: the (losses|classifier)") as caught:
        epoch_check.check(run)
    found = re.search(r"`--epochs (\d+)` or more \((\d+) or more is better\),", caught.value.hint or "")
    assert found is not None
    fewest, better = map(int, found.groups())
    assert better > fewest
    epoch_check.check(dataclasses.replace(run, num_epochs=fewest))
    with pytest.raises(PipelineError, match=f"but got {fewest - 1}: the (losses|classifier)"):
        epoch_check.check(dataclasses.replace(run, num_epochs=fewest - 1))


@pytest.mark.parametrize(
    ("target", "fewest"),
    [
        (["--dataset", "cail-small", "--aspect", "charges"], 5),
        (["--dataset", "cail-big", "--aspect", "terms"], 5),
    ],
)
def test_too_few_epochs_are_told_before_the_official_files_are_looked_for(target: list[str], fewest: int):
    few, enough = ([*target, "--epochs", str(n)] for n in (fewest - 1, fewest))
    with pytest.raises(PipelineError, match=f"but got {fewest - 1}: the (losses|classifier)"):
        planning.run_settings(build_parser().parse_args(few), {})
    assert planning.run_settings(build_parser().parse_args(enough), {}).num_epochs == fewest


def post_flags(*more: str) -> argparse.Namespace:
    return build_parser().parse_args(["--dataset", "hatexplain", *more])


def test_a_dataset_without_aspects_needs_none():
    run = planning.run_settings(post_flags("--option", "gold=majority"), {})
    assert (run.dataset, run.aspect, run.options) == ("hatexplain", "", {"gold": "majority"})
    assert run.criterion == lookup.criterion("hatexplain", "")


def test_a_threshold_on_precision_is_added_where_the_criterion_reads_rationales():
    run = planning.run_settings(post_flags("--min-precision", "0.5"), {})
    own = lookup.criterion("hatexplain", "")
    assert run.criterion.metric == own.metric
    assert [str(bound) for bound in run.criterion.bounds] == [
        "val_token_precision >= 0.5",
        *map(str, own.bounds),
    ]
    assert run.criterion.why == "threshold 0.5 was stated with `--min-precision`"


def test_a_threshold_on_precision_is_refused_where_predictions_decide():
    given = build_parser().parse_args(
        ["--dataset", "cail-small", "--aspect", "charges", "--min-precision", "0.5"]
    )
    with pytest.raises(
        PipelineError, match="--min-precision: models for cail-small/charges are chosen by their predictions"
    ):
        planning.run_settings(given, {})


def without_rationales(folder: Path) -> argparse.Namespace:
    write_hatexplain(folder / "data" / "hatexplain", seed=0)
    path = folder / "data" / "hatexplain" / "dataset.json"
    posts = json.loads(path.read_text())
    path.write_text(json.dumps({i: post | {"rationales": []} for i, post in posts.items()}))
    places = ("--data-dir", str(folder / "data"), "--cache-dir", str(folder / "cache"))
    return post_flags("--embedding", "random", *places)


def test_posts_without_a_rationale_are_refused_only_where_the_criterion_reads_them(tmp_path: Path):
    given = without_rationales(tmp_path)
    run = planning.run_settings(given, {})
    with pytest.raises(
        PipelineError,
        match="none of the 200 validation texts of hatexplain has a human rationale",
    ):
        planning.with_features(given, run)
    bound = Bound(metric="val_selection_rate", limit=0.5, kind="at_most")
    criterion = Criterion(metric="val_macro_f1", bounds=(bound,), why="a test")
    other = planning.with_features(given, dataclasses.replace(run, criterion=criterion))
    assert Path(other.features_dir).is_dir() and other.criterion == criterion


@pytest.mark.parametrize(("device", "compiles"), [("cpu", True), ("meta", False)])
def test_kernels_are_compiled_ahead_for_a_cpu_alone(
    device: str, compiles: bool, monkeypatch: pytest.MonkeyPatch
):
    compiled = threading.Event()
    monkeypatch.setattr(kernels, "compiled", compiled.set)
    monkeypatch.setattr(trainer, "resolve_device", lambda name: torch.device(device))
    planning.compile_ahead(run_settings())
    assert compiled.wait(timeout=30 if compiles else 0.2) == compiles


# ----------------------------------------------------------------------------- what is out of reach


@pytest.mark.parametrize(
    ("aspect", "num_texts", "limit", "rate", "is_told"),
    [
        ("palate", 8981, 0.878, 0.08, True),
        ("palate", 8981, 0.878, 0.13, True),
        ("palate", 8981, 0.75, 0.08, False),
        ("palate", 70_000, 0.878, 0.08, False),
        ("appearance", 8981, 0.961, 0.13, False),
        # fewer tokens can be more precise, and so can a model that chooses how many it selects
        ("palate", 8981, 0.878, 0.03, False),
        ("palate", 8981, 0.878, None, False),
    ],
)
def test_a_bar_that_is_known_to_be_out_of_reach_is_told_before_training(
    aspect: str,
    num_texts: int,
    limit: float,
    rate: float | None,
    is_told: bool,
    caplog: pytest.LogCaptureFixture,
):
    stated = dataclasses.replace(criterion(limit), rate=rate)
    planning._warn_of_bar(run_settings(aspect=aspect, criterion=stated), num_texts)
    assert (
        f"You have {num_texts}, so val_token_precision >= {limit} is probably out of reach" in caplog.text
    ) == is_told
    assert ("--min-precision" in caplog.text) == is_told
    assert (
        "with 9000 training texts and 8 % of the tokens selected, the highest precision that we measured "
        "was 0.82" in caplog.text
    ) == is_told


# ----------------------------------------------------------------------- what trials on other nodes can do


@pytest.mark.parametrize("asked", [{"device": "cuda"}, {"device": "cuda:1"}, {"bf16": True}])
def test_the_gpus_of_a_cluster_are_not_looked_for_on_this_machine(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    run = run_settings(**({"device": "auto"} | asked))
    planning.check_device(run, "10.0.0.1:6379")
    for address in (None, "local"):
        with pytest.raises(StateError, match="CUDA device"):
            planning.check_device(run, address)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    planning.check_device(run, None)
    here = cluster.here(run, None)
    assert (here.device.startswith("cuda"), here.bf16) == (False, False)


def test_a_start_that_is_searched_is_said_with_its_longest():
    run = planning.run_settings(flags("--method", "fresh", "--set", "support_epochs=3.0"), {})
    assert "the classifier is trained after 3 epochs" in epoch_check.start_of(run)
    space = lookup.space("fresh", "beer", "paper")
    assert epoch_check.start_of(run, space).endswith(
        "after the start phase, whose length is searched (at most 6 epochs)"
    )


def test_too_few_epochs_for_the_longest_start_that_is_searched_are_told_at_once():
    space = lookup.space("fresh", "beer", "paper")
    with pytest.raises(PipelineError, match="at least 7 epochs, .* 6 epochs, but got 1") as caught:
        planning.run_settings(flags("--method", "fresh", "--epochs", "1"), {}, space=space)
    assert (caught.value.hint or "").endswith(
        "7 is the sum of 6 epochs for the support model (`support_epochs`; the search tries at most "
        "this value) + 1 epoch after the start phase"
    )
    planning.run_settings(flags("--method", "fresh", "--epochs", "7"), {}, space=space)


# ------------------------------------------------------------------------- the criterion that a search has


def searched(*more: str, aspect: str = "palate") -> RunSettings:
    return planning.run_settings(flags(*more, aspect=aspect), {}, holds_rate=True)


def test_a_search_on_real_data_holds_its_rate_and_reads_a_rival():
    run = searched()
    assert (run.hold_rate, run.criterion_kind, run.rival) == (True, "relative", {})
    assert run.criterion == lookup.criterion("beer", "palate").at_rate(0.08)
    assert planning.criterion_in_words(run) == (
        "best val_token_recall with val_token_precision >= (HardKuma's val_token_precision - 0.02), "
        "at 8 % of the tokens"
    )


def test_a_search_on_the_sample_keeps_its_fixed_criterion_and_rate():
    run = searched("--sample")
    assert (run.hold_rate, run.criterion_kind) == (False, "paper")
    assert run.criterion == lookup.criterion("beer", "palate")
    assert planning.criterion_in_words(run) == str(run.criterion)
    asked = searched("--sample", "--criterion", "relative")
    assert (asked.hold_rate, asked.criterion_kind, asked.criterion.rate) == (True, "relative", 0.18)


@pytest.mark.parametrize("more", [["--criterion", "paper"], ["--min-precision", "0.6"]])
def test_a_fixed_threshold_is_asked_for(more: list[str]):
    run = searched(*more)
    assert (run.hold_rate, run.criterion_kind) == (True, "paper")
    limit = 0.6 if "--min-precision" in more else 0.878
    assert [bound.limit for bound in run.criterion.bounds] == [limit]
    both = searched("--min-precision", "0.6", "--criterion", "relative")
    assert both.criterion_kind == "paper", "a threshold that is stated wins"


def test_data_judged_by_predictions_keep_their_criterion():
    given = build_parser().parse_args(["--dataset", "cail-small", "--aspect", "charges"])
    run = planning.run_settings(given, {}, holds_rate=True)
    assert (run.hold_rate, run.criterion_kind, run.criterion.rate) == (True, "paper", 0.13)
    given.criterion = "relative"
    with pytest.raises(PipelineError, match="--criterion relative: models for cail-small/charges are chosen"):
        planning.run_settings(given, {}, holds_rate=True)


@pytest.mark.parametrize("no_rate", [["--set", "target_selection_rate=0.0"], ["--method", "infocal-dense"]])
def test_without_a_rate_there_is_no_rival(no_rate: list[str]):
    run = searched(*no_rate)
    assert (run.hold_rate, run.criterion_kind, run.criterion.rate) == (False, "paper", None)
    with pytest.raises(PipelineError, match="a model without a target selection rate cannot be compared"):
        searched(*no_rate, "--criterion", "relative")


@pytest.mark.parametrize("marked", [True, False])
def test_own_data_have_a_rival_where_somebody_marked_a_rationale(tmp_path: Path, marked: bool):
    records = own_records()
    records["val"][0] |= {"rationale": [[0, 2]] if marked else None}
    write_own(tmp_path / "data", records)
    given = own_flags(tmp_path, "--epochs", "300")
    run = planning.run_settings(given, {}, holds_rate=True)
    for settled in (planning.with_features(given, run), planning.looked_at(given, run)[0]):
        assert settled.criterion_kind == ("relative" if marked else "paper")
        assert settled.criterion.rate == 0.2
        assert settled.criterion.metric == ("val_token_f1" if marked else "val_macro_f1")
    given.criterion = "relative"
    asked = planning.run_settings(given, {}, holds_rate=True)
    if marked:
        assert planning.with_features(given, asked).criterion_kind == "relative"
        return
    with pytest.raises(PipelineError, match="--criterion relative: no validation text has a human rationale"):
        planning.with_features(given, asked)


def test_the_note_of_a_bar_out_of_reach_is_of_fixed_bars_alone(caplog: pytest.LogCaptureFixture):
    planning._warn_of_bar(searched(), 9000)
    assert caplog.messages == []
    planning._warn_of_bar(searched("--criterion", "paper"), 9000)
    assert "You have 9000, so val_token_precision >= 0.878 is probably out of reach" in caplog.messages[0]
    assert caplog.messages[0].endswith(" now, or with `python -m pipeline.register` after the search")
    planning._warn_of_bar(dataclasses.replace(searched("--criterion", "paper"), criterion_kind=""), 9000)
    assert caplog.messages[1].endswith("Set another threshold with `--min-precision`"), "nobody searches"
