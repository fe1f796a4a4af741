"""Packages whose pretrained encoder nothing was trained of: its name and digest in place of its weights."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from infocal.errors import StateError
from infocal.methods.hardkuma import HardKumaConfig, HardKumaModel
from pipeline.training import checkpoints, pretrained
from pipeline.training.checkpoints import Package, load_package, save_package
from pipeline.training.explainer import Explainer
from tests.small_encoder import write_encoder
from tests.small_model import CLASSES
from tests.small_study import sample_features

BLOCKS = 2


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder") / "small", ["the", "beer"])


@pytest.fixture
def folder(encoder: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    return Path(shutil.copytree(encoder, tmp_path / "small"))


def saved(folder: Path, target: Path, *, frozen_layers: int = BLOCKS, is_shared: bool = False) -> Package:
    config = HardKumaConfig(
        encoder="transformer", pretrained=str(folder), frozen_layers=frozen_layers, shared_encoder=is_shared
    )
    features = sample_features()
    torch.manual_seed(0)
    model = HardKumaModel(config, CLASSES, pretrained.inputs_of(features, config)).eval()
    words, files = list(features.vocabulary.tokens), features.tokenizer_files
    package = Package(model, words, {"tokenizer": features.tokenizer}, files)
    save_package(target, package)
    return package


def of_encoder(target: Path) -> list[str]:
    return [name for name in load_file(target / checkpoints.WEIGHTS) if ".encoder." in name]


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_frozen_encoder_is_named_and_not_copied(folder: Path, tmp_path: Path, is_shared: bool):
    package = saved(folder, tmp_path / "model", is_shared=is_shared)
    assert of_encoder(tmp_path / "model") == []
    reference = json.loads((tmp_path / "model" / checkpoints.CONFIG).read_text())["pretrained"]["reference"]
    assert reference["name"] == str(folder)
    assert reference["digest"] == checkpoints.digest_of(
        {
            name: value
            for name, value in load_file(folder / "model.safetensors").items()
            if not name.startswith("pooler.")
        }
    )
    read = load_package(tmp_path / "model")
    mine, theirs = package.model.state_dict(), read.model.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    texts = ["the beer is creamy", "beer"]
    assert Explainer(package).explain(texts) == Explainer(read).explain(texts)
    save_package(tmp_path / "again", read)
    assert of_encoder(tmp_path / "again") == []


@pytest.mark.parametrize("frozen_layers", [0, 1])
def test_an_encoder_of_which_a_part_is_trained_is_copied(folder: Path, tmp_path: Path, frozen_layers: int):
    saved(folder, tmp_path / "model", frozen_layers=frozen_layers)
    assert of_encoder(tmp_path / "model")
    assert "reference" not in json.loads((tmp_path / "model" / checkpoints.CONFIG).read_text())["pretrained"]
    shutil.rmtree(folder)
    load_package(tmp_path / "model")


def test_an_encoder_that_is_gone_is_said_in_one_line(folder: Path, tmp_path: Path):
    saved(folder, tmp_path / "model")
    shutil.rmtree(folder)
    with pytest.raises(
        StateError, match="whose weights are stored outside the package: no folder `.*small`$"
    ) as caught:
        load_package(tmp_path / "model")
    assert caught.value.hint == f"put the encoder that the model was trained with at `{folder}`"
    assert "\n" not in str(caught.value)


def test_another_encoder_in_its_place_is_refused(folder: Path, tmp_path: Path):
    saved(folder, tmp_path / "model")
    held = load_file(folder / "model.safetensors")
    held["embeddings.word_embeddings.weight"][3, 1] += 1e-6
    save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(StateError, match="is not the encoder that the model was trained with$"):
        load_package(tmp_path / "model")
