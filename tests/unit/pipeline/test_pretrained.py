"""Pretrained encoders from folders: pieces of words, what is refused, and a trial to its answers."""

import dataclasses
import json
import logging
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from infocal.config import InfoCalConfig
from infocal.methods.hardkuma import HardKumaConfig
from infocal.nn.pieces import Pretrained
from pipeline import search as search_command
from pipeline import train as train_command
from pipeline.base.errors import PipelineError, run_command
from pipeline.training import checkpoints, pretrained
from pipeline.training.epochs import Epoch
from pipeline.training.explainer import Explainer
from pipeline.training.loaders import embeddings_of
from pipeline.training.trainable import train
from tests.small_encoder import CLS, SEP, UNKNOWN, write_encoder
from tests.small_study import run_settings, sample_features

ADVICE = "a folder with config.json, model.safetensors and tokenizer.json"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder that knows some words and all letters."""
    return write_encoder(tmp_path_factory.mktemp("encoders") / "small", ["the", "beer", "good", "!"])


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    return Path(shutil.copytree(written, tmp_path / "small"))


# ---------------------------------------------------------------- pieces


def test_the_marks_and_the_architecture_are_read(written: Path):
    source = pretrained.opened(str(written))
    assert (source.prefix, source.suffix) == ([CLS], [SEP])
    assert source.architecture["model_type"] == "bert"
    assert source.architecture["hidden_size"] == 8
    json.dumps(source.architecture)  # it stands in a package
    assert str(written) not in json.dumps(source.architecture)


def test_words_are_split_by_themselves(written: Path):
    source = pretrained.opened(str(written))
    known = source.tokenizer.get_vocab()
    words = ["<pad>", "<unk>", "beer", "Beer", "good!", "abc", "[SEP]", "\u200b", "酒", "beerx"]
    assert pretrained.split_words(words, source) == [
        [],
        [UNKNOWN],
        [known["beer"]],
        [known["beer"]],  # this tokenizer knows no capitals
        [known["good"], known["!"]],
        [known["a"], known["##b"], known["##c"]],
        [UNKNOWN],  # a text that spells a mark has none
        [UNKNOWN],  # a word of which nothing is left
        [UNKNOWN],
        [known["beer"], known["##x"]],
    ]


def test_a_tokenizer_of_another_language_is_said(written: Path, caplog: pytest.LogCaptureFixture):
    source = pretrained.opened(str(written))
    with caplog.at_level(logging.WARNING, logger="pipeline.training.pretrained"):
        pretrained.split_words(["<pad>", "<unk>", *["good"] * 19, "酒"], source)
        assert caplog.messages == []
        pretrained.split_words(["<pad>", "<unk>", *["good"] * 9, "酒"], source)
    assert caplog.messages == [
        f"the tokenizer of `{written}` cannot represent 1 of the 10 words: check that it was made for this "
        "language"
    ]


def test_pieces_are_cached_under_the_tokenizer(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    features, source = sample_features(), pretrained.opened(str(written))
    ids, first = pretrained.pieces(features, source)
    words = features.vocabulary.tokens
    assert len(first) == len(words) + 1
    rows = [row.tolist() for row in ids.split(first.diff().tolist())]
    assert rows == pretrained.split_words(list(words), source)

    def fail(*_: object) -> None:
        raise AssertionError("split again")

    other = pretrained.opened(str(write_encoder(tmp_path / "other", ["the", "beer", "quite"])))
    assert other.tokenizer_digest != source.tokenizer_digest
    monkeypatch.setattr(pretrained, "split_words", fail)
    again_ids, again_first = pretrained.pieces(features, pretrained.opened(str(written)))
    assert torch.equal(ids, again_ids)
    assert torch.equal(first, again_first)
    with pytest.raises(AssertionError, match="split again"):
        pretrained.pieces(features, other)


def test_what_a_model_is_given(written: Path):
    features = sample_features()
    vectors = pretrained.inputs_of(features, InfoCalConfig())
    assert torch.equal(vectors, embeddings_of(features))
    given = pretrained.inputs_of(features, InfoCalConfig(encoder="transformer", pretrained=str(written)))
    assert isinstance(given, Pretrained)
    assert given.num_words == len(features.vocabulary)
    stored = load_file(written / "model.safetensors")
    assert given.weights.keys() == stored.keys()
    assert all(torch.equal(given.weights[name], value) for name, value in stored.items())


# ---------------------------------------------------------------- what is refused


def refused(name: Path | str, message: str) -> PipelineError:
    with pytest.raises(PipelineError, match=message) as caught:
        pretrained.read_weights(pretrained.opened(str(name)))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("--set pretrained")
    return caught.value


def test_no_such_folder(tmp_path: Path):
    assert ADVICE in refused(tmp_path / "none", "no folder `.*none`$").hint


def test_a_file_instead_of_a_folder(written: Path):
    refused(written / "config.json", "config.json` is a file, but a folder is needed$")


def test_a_folder_of_something_else(tmp_path: Path):
    error = refused(tmp_path, "expected config.json in `.*`, but there is none$")
    assert error.hint == "give the folder that directly contains the model's files"


def test_a_folder_without_weights(folder: Path):
    (folder / "model.safetensors").unlink()
    error = refused(folder, "expected model.safetensors in `.*`, but it holds no weights$")
    assert error.hint == f"name {ADVICE}, as `save_pretrained` writes them"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "tf_model.h5"])
def test_pickled_weights(folder: Path, name: str):
    (folder / "model.safetensors").rename(folder / name)
    error = refused(folder, f"but got {name}, which may run code when it is read$")
    assert "save_pretrained" in error.hint


def test_pickled_weights_beside_the_others_are_not_read(folder: Path):
    (folder / "pytorch_model.bin").write_bytes(b"no pickle")
    assert pretrained.read_weights(pretrained.opened(str(folder)))


@pytest.mark.parametrize("num_vectors", [20, 56, 64, 30_522])
def test_the_tokenizer_of_another_model(tmp_path: Path, num_vectors: int):
    folder = write_encoder(tmp_path / "small", ["beer"], num_vectors=num_vectors)
    error = refused(folder, f"the tokenizer has 57 pieces, but the encoder has {num_vectors} vectors$")
    assert error.hint == "the folder must hold the tokenizer that the encoder was trained with"


def test_an_encoder_may_have_vectors_to_spare(tmp_path: Path):
    pretrained.opened(str(write_encoder(tmp_path / "small", ["beer"], num_vectors=60)))


def test_damaged_weights(folder: Path):
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:500])
    refused(folder, "cannot read the weights: ")


def test_weights_of_another_architecture(folder: Path):
    path = folder / "model.safetensors"
    held = load_file(path)
    del held["encoder.layer.1.output.dense.weight"]
    save_file(held, path, metadata={"format": "pt"})
    refused(
        folder,
        "1 tensor of the architecture is missing from the weights, such as "
        "`encoder.layer.1.output.dense.weight`$",
    )


def test_an_architecture_that_nobody_knows(folder: Path):
    (folder / "config.json").write_text('{"model_type": "none_such"}')
    refused(folder, "config.json names no architecture that transformers knows: ")


@pytest.mark.parametrize("content", [None, "{", "{}"])
def test_a_tokenizer_that_cannot_be_read(folder: Path, content: str | None):
    (folder / "tokenizer.json").unlink()
    if content is not None:
        (folder / "tokenizer.json").write_text(content)
    refused(folder, "cannot (read the|use a) tokenizer")


def test_a_name_on_the_hub_without_a_network(monkeypatch: pytest.MonkeyPatch):
    import huggingface_hub

    asked = []

    def unreachable(name: str, **options: object) -> str:
        asked.append((name, options.get("local_files_only", False)))
        raise OSError("Name or service not known\nand more lines")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    error = refused("someone/small-bert", "cannot be fetched from the hub: Name or service not known$")
    assert error.hint == f"without a network, name {ADVICE}"
    assert asked == [("someone/small-bert", True), ("someone/small-bert", False)]


def test_a_model_that_was_fetched_before_needs_no_network(written: Path, monkeypatch: pytest.MonkeyPatch):
    import huggingface_hub

    def cached(name: str, *, local_files_only: bool = False, **_: object) -> str:
        assert local_files_only
        return str(written)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", cached)
    assert pretrained.opened("someone/small-bert").folder == written


def test_without_the_extra(written: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "transformers.utils", raising=False)
    with pytest.raises(
        PipelineError, match="needs the package transformers, which is not installed"
    ) as caught:
        pretrained.opened(str(written))
    assert caught.value.hint == "pip install 'infocal-pipeline[transformers]'"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["pretrained=/none/such"], "error: --set pretrained: no folder `/none/such`"),
        (
            [],
            "error: --set: the encoder `transformer` needs `pretrained`, a folder or a model's name",
        ),
    ],
)
def test_a_command_says_it_in_one_line(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture
):
    settings = [word for flag in ["encoder=transformer", *flags] for word in ("--set", flag)]
    arguments = [
        "--sample",
        "--aspect",
        "palate",
        "--epochs",
        "1",
        "--storage",
        str(tmp_path / "runs"),
        *settings,
    ]
    assert run_command(train_command.main, arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(message)
    assert "hint: " in said
    assert not (tmp_path / "runs").exists()


def test_a_method_whose_encoder_is_pretrained_names_its_flag(capsys: pytest.CaptureFixture):
    arguments = ["--sample", "--dataset", "hatexplain", "--method", "bert"]
    assert run_command(train_command.main, arguments) == 2
    assert capsys.readouterr().err.startswith("error: --method: the encoder `transformer` needs `pretrained`")


def test_a_model_that_names_no_weights():
    with pytest.raises(PipelineError, match="^the encoder `transformer` needs `pretrained`, a folder or a"):
        pretrained.inputs_of(sample_features(), InfoCalConfig(encoder="transformer"))


SPACE = """
[encoder]
choices = ["rcnn", "transformer"]
"""
FOLDERS = """
[pretrained]
choices = ["{folder}", "{other}"]
when.encoder = ["transformer"]
"""


def searched(space: str, flags: list[str], tmp_path: Path) -> int:
    file = tmp_path / "space.toml"
    file.write_text(space)
    return run_command(
        search_command.main, ["--sample", "--aspect", "palate", "--space", str(file), "--dry-run", *flags]
    )


def test_a_search_may_choose_the_encoder(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    assert searched(SPACE, [], tmp_path) == 2
    assert "space.toml: the encoder `transformer` needs `pretrained`, a folder or" in capsys.readouterr().err
    assert searched(SPACE, ["--set", f"pretrained={written}"], tmp_path) == 0
    assert str(written) in capsys.readouterr().out
    both = SPACE + FOLDERS.format(folder=written, other="nreimers/MiniLM-L6-H384-uncased")
    assert searched(both, [], tmp_path) == 0


@pytest.mark.parametrize("other", ["/none/such", "./small"])
def test_a_searched_folder_that_is_not_there(
    other: str, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture
):
    assert searched(SPACE + FOLDERS.format(folder=written, other=other), [], tmp_path) == 2
    said = capsys.readouterr().err
    assert f"space.toml: no folder `{other}` of a pretrained encoder\n" in said
    assert "hint: give the absolute path of the folder" in said


# ---------------------------------------------------------------- a whole trial


@pytest.mark.parametrize(("method", "is_shared"), [("infocal", False), ("hardkuma", True)])
def test_a_trial_from_training_to_an_answer(method: str, is_shared: bool, written: Path, tmp_path: Path):
    kind = {"infocal": InfoCalConfig, "hardkuma": HardKumaConfig}[method]
    config = kind(
        encoder="transformer",
        pretrained=str(written),
        shared_encoder=is_shared,
        encoder_learning_rate=0.01,
        warmup_epochs=0.5,
        decay_epochs=2.0,
        dense_epochs=0.5,
        ramp_epochs=0.25,
        target_selection_rate=0.18,
        batch_size=256,
        window_size=16,
    )
    run = dataclasses.replace(
        run_settings(method=method, num_epochs=1, hold_rate=True), base=config.to_dict()
    )
    results = []
    best = train({}, run, lambda result, _: results.append(result), tmp_path).best
    assert [type(result) for result in results] == [Epoch]
    assert best.scores["val_selection_rate"] == pytest.approx(0.18, abs=0.03)
    features = sample_features()
    model = checkpoints.load_best(tmp_path / "best", embeddings_of(features))
    assert model.config == config
    metadata = {"tokenizer": features.tokenizer}
    package = checkpoints.Package(model, list(features.vocabulary.tokens), metadata, features.tokenizer_files)
    checkpoints.save_package(tmp_path / "package", package)
    assert checkpoints.is_pretrained(tmp_path / "package")
    shutil.rmtree(tmp_path / "best")
    read = checkpoints.load_package(tmp_path / "package")
    assert (read.model.selector.encoder is read.model.predictor.encoder) == is_shared
    texts = ["the beer is good , a soft and creamy palate " * 5, "beer"]
    mine, theirs = Explainer(package).explain(texts), Explainer(read).explain(texts)
    assert mine == theirs
    assert len(mine[0].tokens) == 50
