import argparse
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from pipeline import search
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.training import settings


@pytest.mark.parametrize(
    ("given", "sample", "folder"),
    [
        (None, False, "runs"),
        (None, True, "runs/sample"),
        ("elsewhere", False, "elsewhere"),
        ("elsewhere", True, "elsewhere"),
    ],
)
def test_results_of_the_sample_stay_apart(given: str | None, sample: bool, folder: str):
    assert settings.storage(given, sample).folder == Path(folder)


def test_tracking_goes_to_the_flag_then_the_environment_then_sqlite_in_the_storage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    # absolute: a worker or a later command may stand in another folder
    own = f"sqlite:///{tmp_path.resolve()}/runs/mlflow.db"
    assert settings.tracking_uri(None, Storage("runs")) == own
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking:5000")
    assert settings.tracking_uri(None, Storage("runs")) == "http://tracking:5000"
    assert settings.tracking_uri("sqlite:///x.db", Storage("runs")) == "sqlite:///x.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    assert settings.tracking_uri(None, Storage("runs")) == own


def test_results_at_a_uri_need_a_tracking_server(monkeypatch: pytest.MonkeyPatch):
    storage = Storage("s3://bucket/x")
    with pytest.raises(PipelineError, match="expected an MLflow server to go with `--storage s3://bucket/x`"):
        settings.tracking_uri(None, storage)
    assert settings.tracking_uri("sqlite:///own.db", storage) == "sqlite:///own.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking:5000")
    assert settings.tracking_uri(None, storage) == "http://tracking:5000"


def test_the_cache_is_named_by_the_flag_then_infocal_cache_then_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name in ("INFOCAL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert settings.cache_dir(None) == tmp_path / ".cache" / "infocal"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert settings.cache_dir(None) == Path("/xdg/infocal")
    monkeypatch.setenv("INFOCAL_CACHE", "/shared/cache")
    assert settings.cache_dir(None) == Path("/shared/cache")
    assert settings.cache_dir("mine") == Path("mine")


def test_a_default_name_says_what_is_searched_and_when():
    assert re.fullmatch(r"beer-palate-20\d{6}-\d{6}", settings.default_name("beer", "palate"))


# ----------------------------------------------------------------------------------------------- flags


@pytest.mark.parametrize("text", ["0", "-3", "2.5", "many", "", "1e3"])
def test_a_count_that_is_none_is_quoted(text: str):
    with pytest.raises(
        argparse.ArgumentTypeError, match=f"expected a whole number above 0, but got {re.escape(repr(text))}"
    ):
        settings.positive_int(text)


@pytest.mark.parametrize(
    ("convert", "text", "wanted"),
    [
        (settings.fraction, "1.5", "a number from 0 to 1"),
        (settings.fraction, "-0.1", "a number from 0 to 1"),
        (settings.fraction, "nan", "a number from 0 to 1"),
        (settings.fraction, "half", "a number from 0 to 1"),
        (settings.positive_float, "0", "a number above 0"),
        (settings.positive_float, "inf", "a number above 0"),
        (settings.num_gpus, "-1", "`auto` or a number of 0 or more"),
        (settings.num_gpus, "nan", "`auto` or a number of 0 or more"),
        (settings.num_gpus, "Auto", "`auto` or a number of 0 or more"),
        # Ray gives out parts of one GPU, or whole ones
        (settings.num_gpus, "1.5", "whole GPUs or a part of one"),
        (settings.num_gpus, "0.00009", "at least 0.0001 of a GPU"),
        (settings.device, "tpu", "auto, cpu, cuda or cuda:N"),
        (settings.device, "cuda:", "auto, cpu, cuda or cuda:N"),
    ],
)
def test_a_value_out_of_range_is_quoted(convert: Any, text: str, wanted: str):
    with pytest.raises(argparse.ArgumentTypeError, match=f"^expected {wanted}, but got '{text}'$"):
        convert(text)


@pytest.mark.parametrize(("text", "rounded"), [("0.16667", 0.1666), ("0.3", 0.3), ("0.0003", 0.0003)])
def test_a_part_of_a_gpu_is_rounded_down_to_rays_step(text: str, rounded: float):
    """Ray would round 0.16667 up, and a sixth trial would find no place."""
    assert settings.num_gpus(text) == rounded


def test_gpus_can_be_left_to_a_measurement():
    assert settings.num_gpus("auto") == settings.AUTO


def test_values_at_the_ends_of_their_ranges_are_taken():
    assert (settings.fraction("0"), settings.fraction("1")) == (0.0, 1.0)
    assert settings.positive_int("1") == 1
    assert settings.positive_float("0.5") == 0.5
    assert [settings.num_gpus(text) for text in ("0", "0.0001", "1", "8")] == [0.0, 0.0001, 1.0, 8.0]
    assert [settings.device(name) for name in ("auto", "cpu", "cuda", "cuda:12")][-1] == "cuda:12"


def all_flags() -> argparse.ArgumentParser:
    parser = settings.parser("pipeline.some", "Does something.")
    settings.add_data_arguments(parser)
    settings.add_training_arguments(parser)
    settings.add_storage_arguments(parser)
    return parser


def test_shared_flags_default_to_the_papers_length_on_beer():
    given = all_flags().parse_args([])
    assert (given.dataset, given.aspect, given.epochs, given.seed) == ("beer", None, 50, 0)
    assert (given.device, given.embedding, given.set, given.config) == ("auto", None, [], None)
    assert (given.sample, given.bf16, given.debug) == (False, False, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "argument --epochs: expected a whole number above 0, but got '0'"),
        (["--seed", "one"], "argument --seed: expected a whole number from 0 to 2**32 - 1, but got 'one'"),
        (["--seed", "-1"], "argument --seed: expected a whole number from 0 to 2**32 - 1, but got '-1'"),
        (["--seed", "4294967296"], "argument --seed: expected a whole number from 0 to 2**32 - 1"),
        (["--device", "tpu"], "argument --device: expected auto, cpu, cuda or cuda:N, but got 'tpu'"),
    ],
)
def test_a_bad_flag_is_named_like_every_mistake(arguments: list[str], message: str):
    with pytest.raises(PipelineError, match=re.escape(message)) as caught:
        all_flags().parse_args(arguments)
    assert caught.value.hint == "`python -m pipeline.some --help` lists the flags"


def test_a_flag_is_not_abbreviated_but_its_name_is_said():
    with pytest.raises(PipelineError, match=r"^unrecognized arguments: --epoch 3$") as caught:
        all_flags().parse_args(["--epoch", "3"])
    assert caught.value.hint == "did you mean `--epochs`"


# ------------------------------------------------------------------------------------ hyper-parameters


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("hidden_size=64", 64),
        ("learning_rate=1e-3", 0.001),
        ("train_embeddings=true", True),
        ("encoder=lstm", "lstm"),
        ('encoder="lstm"', "lstm"),
        (" encoder = lstm ", "lstm"),
        ("encoder=a=b", "a=b"),
        ("encoder=", ""),
    ],
)
def test_an_assignment_is_a_toml_value_or_a_bare_word(assignment: str, value: object):
    (found,) = settings.hyper_parameters(None, [assignment]).values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("assignment", ["hidden_size", "=64", "hidden_size:64"])
def test_an_assignment_without_name_or_sign_is_quoted_with_its_flag(assignment: str):
    with pytest.raises(PipelineError, match=f"^--set: expected KEY=VALUE, but got `{assignment}`$") as caught:
        settings.hyper_parameters(None, [assignment])
    assert caught.value.hint == "for instance `--set hidden_size=64`"


def test_set_wins_over_the_file_and_the_last_set_wins(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text("hidden_size = 8\nlambda_ib = 0.5\n")
    found = settings.hyper_parameters(str(file), ["hidden_size=16", "hidden_size=32"])
    assert found == {"hidden_size": 32, "lambda_ib": 0.5}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"hidden_size = = 4", "Invalid value"),
        (b"hidden_size = " + b"9" * 5000, "not TOML: Exceeds the limit"),
        (b"hidden_size = 0x" + b"f" * 5000, "not TOML: a whole number of more than 64 bits"),
        (b"a = " + b"[" * 100_000, "not TOML: nested too deeply"),
        (b"#" * (2**20 + 1), "more than 1048576 bytes, the most that is accepted"),
        (b"encoder = 'caf\xe9'", "invalid continuation byte|unexpected end of data|can't decode byte"),
    ],
    ids=range(7),
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, reason: str):
    file = tmp_path / "run.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PipelineError, match=reason) as caught:
        settings.hyper_parameters(str(file), [])
    assert str(caught.value).startswith(f"--config {file}: cannot read the file: ")
    assert "TOML" in str(caught.value.hint)


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path):
    with pytest.raises(PipelineError, match=f"--config {tmp_path}: cannot read the file: .*Is a directory"):
        settings.hyper_parameters(str(tmp_path), [])


@pytest.mark.parametrize("text", ["../x", "a/b", ".hidden", "-x", "", "a b", "x" * 129, "名"])
def test_a_study_is_named_like_a_folder(text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="starting with a letter or digit, but got"):
        settings.study_name(text)


@pytest.mark.parametrize("text", ["palate-6x8", "a", "beer-palate-20261128-024153", "v1.2_b"])
def test_ordinary_names_of_studies_are_taken(text: str):
    assert settings.study_name(text) == text


def test_a_folder_that_cannot_be_made_is_named_with_its_flag(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        PipelineError, match="--storage: cannot make the folder .*file/studies`: Not a directory"
    ):
        settings.make_folder(tmp_path / "file" / "studies", "--storage")


def test_a_folder_is_made_with_those_above_it(tmp_path: Path):
    settings.make_folder(tmp_path / "a" / "b", "--storage")
    settings.make_folder(tmp_path / "a" / "b", "--storage")
    assert (tmp_path / "a" / "b").is_dir()


def test_word_vectors_are_those_of_the_preset_unless_named():
    assert settings.word_vectors("beer", None) == {}
    assert settings.word_vectors("beer", "random") == {"embedding": "random"}
    assert settings.word_vectors("cail-small", None) == {"embedding": "word2vec", "embedding_size": 100}
    assert settings.word_vectors("cail-big", "v.txt") == {"embedding": "v.txt", "embedding_size": 100}


@pytest.mark.parametrize(
    ("arguments", "aspect", "name"),
    [
        (["--dataset", "beer"], "palate", "infocal-beer-palate"),
        (["--dataset", "hatexplain", "--data-dir", "data"], "", "infocal-hatexplain"),
        (["--dataset", "jsonl", "--data-dir", "data/my tickets (2)"], "", "infocal-jsonl-my-tickets-2"),
        (["--dataset", "eraser", "--data-dir", "movies/"], "", "infocal-eraser-movies"),
        (["--dataset", "jsonl", "--sample"], "", "infocal-jsonl"),
        (["--dataset", "jsonl", "--data-dir", "data", "--model-name", "triage"], "", "triage"),
    ],
)
def test_a_model_is_named_after_the_corpus(
    arguments: list[str], aspect: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("INFOCAL_DATA", raising=False)
    parser = settings.parser("pipeline.some", "Does something.")
    settings.add_data_arguments(parser)
    settings.add_model_name(parser)
    assert settings.model_name(parser.parse_args(arguments), aspect) == name


def test_the_folder_of_own_data_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("INFOCAL_DATA", "/data/tickets")
    parser = settings.parser("pipeline.some", "Does something.")
    settings.add_data_arguments(parser)
    settings.add_model_name(parser)
    assert settings.model_name(parser.parse_args(["--dataset", "jsonl"]), "") == "infocal-jsonl-tickets"


def test_what_is_to_be_typed_is_quoted_and_holds_no_password():
    commands = settings.commands(
        "first", Storage("my runs/ä"), "http://me:secret@host:5000", address="10.0.0.1:6379"
    )
    places = ["--name", "first", "--storage", "my runs/ä", "--tracking-uri", "http://me:***@host:5000"]
    cluster = ["--address", "10.0.0.1:6379"]
    assert shlex.split(commands.resume) == ["python", "-m", "pipeline.search", "--resume", *places, *cluster]
    assert shlex.split(commands.sync) == ["python", "-m", "pipeline.sync", *places]
    short = settings.commands("first", Storage("runs"), None, module="pipeline.compare")
    assert short.resume == "python -m pipeline.compare --resume --name first"
    with pytest.raises(PipelineError, match="the password of `http://me:\\*\\*\\*@host:5000` is not stored"):
        settings.tracking_uri(places[-1], Storage("runs"))


def test_a_command_to_go_on_names_the_tracking_that_the_environment_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@host:5000")
    found = settings.commands("first", Storage("runs"), None)
    for command in (found.resume, found.sync, found.register):
        assert command.endswith("--name first --tracking-uri 'http://me:***@host:5000'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", settings.of_sqlite(Path("runs/mlflow.db").resolve()))
    assert settings.commands("first", Storage("runs"), None).sync == "python -m pipeline.sync --name first"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ([], ["--data-dir=/corpora/all mine"]),
        (["--data-dir", "here"], ["--data-dir", "here"]),
        (["--data-dir=here"], ["--data-dir=here"]),
        (["--sample"], ["--sample"]),
    ],
)
def test_the_data_folder_of_the_environment_is_part_of_what_is_stored(
    given: list[str], stored: list[str], monkeypatch: pytest.MonkeyPatch
):
    parser = settings.parser("pipeline.search", "a test")
    settings.add_data_arguments(parser)
    monkeypatch.setenv("INFOCAL_DATA", "/corpora/all mine")
    assert search.with_data_dir(given, parser.parse_args(given)) == stored
    monkeypatch.delenv("INFOCAL_DATA")
    assert search.with_data_dir(given, parser.parse_args(given)) == given


def test_a_stored_command_holds_no_password_and_means_the_same_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    given = ["--tracking-uri=http://me:secret@host", "--tracking-uri", "sqlite:///a b.db?timeout=5"]
    given += ["--optuna-storage", "journal:///deep/o.log", "--storage", "runs", "--set", "encoder=lstm"]
    command = settings.stored_command("pipeline.search", given)
    assert shlex.split(command) == [
        *["python", "-m", "pipeline.search", "--tracking-uri=http://me:***@host"],
        *["--tracking-uri", f"sqlite:///{tmp_path}/a b.db?timeout=5"],
        *[
            "--optuna-storage",
            f"journal:///{tmp_path}/deep/o.log",
            "--storage",
            "runs",
            "--set",
            "encoder=lstm",
        ],
    ]
    again = settings.stored_command("pipeline.search", shlex.split(command)[3:])
    assert again == command
    assert "--storage=-lead" in settings.commands("first", Storage("-lead"), None).resume


def test_a_model_of_another_method_has_its_name_in_place_of_infocal():
    parser = settings.parser("pipeline.search", "a test")
    settings.add_data_arguments(parser)
    settings.add_training_arguments(parser)
    settings.add_model_name(parser)
    given = parser.parse_args(["--method", "infocal-no-lm"])
    assert settings.model_name(given, "palate") == "infocal-no-lm-beer-palate"
