import json
import pickletools
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from feature_store.fingerprint import file_digest
from infocal.config import Task
from infocal.errors import StateError
from infocal.methods.infocal.model import InfoCal
from pipeline.base import stored_files
from pipeline.base.stored_files import read_settings
from pipeline.training import checkpoints
from pipeline.training import weights as weights_module
from pipeline.training.checkpoints import Package, load_best, load_package, load_state, save_best, save_state
from pipeline.training.weights import load_weights
from tests.small_model import (
    REGRESSION,
    random_batch,
    random_batches,
    random_embeddings,
    small_config,
    small_trainer,
)

WORDS = ["<pad>", "<unk>", *(f"word{i}" for i in range(10))]
FILES = ("model.safetensors", "config.json", "vocabulary.json", "digests.json")


def small_infocal(task: Task = REGRESSION, seed: int = 0, **changes: object) -> InfoCal:
    torch.manual_seed(seed)
    return InfoCal(small_config(**changes), task, random_embeddings()).eval()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages") / "model"
    checkpoints.save_package(
        folder, Package(small_infocal(), WORDS, {"aspect": "palate", "name": "Bière", "tokenizer": "english"})
    )
    return folder


@pytest.fixture
def package(written: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(written, tmp_path / "model"))


# -------------------------------------------------------------------------------------------- packages


@pytest.mark.parametrize("train_embeddings", [False, True])
@pytest.mark.parametrize(
    "task", [REGRESSION, Task(kind="classification", num_classes=3)], ids=["score", "classes"]
)
def test_a_package_predicts_as_the_model_it_was_made_of(tmp_path: Path, task: Task, train_embeddings: bool):
    model = small_infocal(task, train_embeddings=train_embeddings)
    checkpoints.save_package(tmp_path / "model", Package(model, WORDS, {"epoch": 3, "tokenizer": "jieba"}))
    loaded = load_package(tmp_path / "model")
    assert not loaded.model.training
    assert (loaded.vocabulary, loaded.metadata) == (WORDS, {"epoch": 3, "tokenizer": "jieba"})
    assert loaded.model.config == model.config
    assert loaded.model.task == task
    batch = random_batch([6, 3, 2], task=task)
    with torch.no_grad():
        mine, theirs = (m.infer(batch.words, batch.is_token) for m in (model, loaded.model))
    for name in ("select_probability", "mask", "output"):
        assert torch.equal(getattr(mine, name), getattr(theirs, name)), name


def test_a_package_has_four_files_and_its_metadata_is_readable(written: Path):
    assert {path.name for path in written.iterdir()} == set(FILES)
    assert "Bière" in (written / "config.json").read_text(encoding="utf-8")


def is_pickle(content: bytes) -> bool:
    """Whether a pickle machine would run these bytes to an end."""
    try:
        list(pickletools.genops(content))
    except Exception:
        return False
    return True


def test_no_file_of_a_package_or_of_a_best_epoch_is_a_pickle(written: Path, tmp_path: Path):
    assert is_pickle(b"\x80\x04N."), "the scan itself works"
    save_best(tmp_path / "best", small_infocal(), {}, [])
    for path in [*written.iterdir(), *(tmp_path / "best").iterdir()]:
        content = path.read_bytes()
        assert not is_pickle(content), path.name
        assert not content.startswith(b"PK"), f"{path.name} is an archive, as torch.save writes them"


@pytest.mark.parametrize("name", FILES[:3])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_an_altered_byte_is_refused_with_the_files_name(package: Path, name: str, place: str):
    path = package / name
    content = bytearray(path.read_bytes())
    content[{"first": 0, "middle": len(content) // 2, "last": -1}[place]] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        StateError, match=f"`{name}` was changed or is damaged: it does not match its sha256 [0-9a-f]{{64}}$"
    ):
        load_package(package)


def test_an_altered_digest_is_refused(package: Path):
    digests = json.loads((package / "digests.json").read_text())
    digests["model.safetensors"] = "0" * 64
    (package / "digests.json").write_text(json.dumps(digests))
    with pytest.raises(StateError, match="`model.safetensors` .* does not match its sha256 0{64}$"):
        load_package(package)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(package: Path, name: str):
    (package / name).unlink()
    with pytest.raises(StateError, match=name) as caught:
        load_package(package)
    assert str(package) in str(caught.value)


@pytest.mark.parametrize("content", ["{}", "[]", '{"model.safetensors": "x"}', '{"other.json": "x"}'])
def test_digests_that_leave_a_file_out_are_refused(package: Path, content: str):
    # or a package could be altered by shortening its list of digests
    (package / "digests.json").write_text(content)
    with pytest.raises(StateError, match="digests.json: expected a digest for each of .*vocabulary.json"):
        load_package(package)


def test_a_package_of_another_format_is_refused(package: Path):
    description = json.loads((package / "config.json").read_text())
    (package / "config.json").write_text(json.dumps(description | {"format": 99}))
    digests = json.loads((package / "digests.json").read_text())
    digests["config.json"] = file_digest(package / "config.json")
    (package / "digests.json").write_text(json.dumps(digests))
    with pytest.raises(StateError, match=r"config\.json: expected format 1, but got 99"):
        load_package(package)


def test_weights_that_cannot_be_read_are_named(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(StateError, match=f"{path}: cannot read the weights: "):
        checkpoints.load_weights(path)
    path.write_bytes(b"\x00" * 4)
    with pytest.raises(StateError, match=f"{path}: cannot read the weights: "):
        checkpoints.load_weights(path)


# ---------------------------------------------------------------------------------------- a best epoch


def test_a_best_epoch_round_trips_without_the_word_vectors(tmp_path: Path):
    model = small_infocal()
    save_best(tmp_path / "best", model, {"epoch": 2, "value": 0.5}, [{"example_id": "7"}])
    assert checkpoints.read_json(tmp_path / "best" / "scores.json") == {"epoch": 2, "value": 0.5}
    assert checkpoints.read_json(tmp_path / "best" / "predictions.json") == [{"example_id": "7"}]
    assert "embeddings" not in checkpoints.load_weights(tmp_path / "best" / "model.safetensors")
    loaded = load_best(tmp_path / "best", random_embeddings())
    batch = random_batch([5, 2])
    with torch.no_grad():
        mine, theirs = (m.infer(batch.words, batch.is_token) for m in (model, loaded))
    assert torch.equal(mine.select_probability, theirs.select_probability)
    assert torch.equal(mine.output, theirs.output)


def test_trained_word_vectors_are_part_of_a_best_epoch(tmp_path: Path):
    model = small_infocal(train_embeddings=True)
    with torch.no_grad():
        model.embeddings += 1
    save_best(tmp_path / "best", model, {}, [])
    assert torch.equal(load_best(tmp_path / "best", random_embeddings()).embeddings, model.embeddings)


def test_a_new_best_epoch_replaces_the_old_one(tmp_path: Path):
    folder = tmp_path / "best"
    save_best(folder, small_infocal(seed=0), {"epoch": 0}, [])
    (folder / "left over").touch()
    newer = small_infocal(seed=1)
    save_best(folder, newer, {"epoch": 1}, [])
    assert not (folder / "left over").exists()
    loaded = load_best(folder, random_embeddings()).state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in newer.state_dict().items())


def test_a_best_epoch_of_other_features_is_refused(tmp_path: Path):
    save_best(tmp_path / "best", small_infocal(), {}, [])
    with pytest.raises(
        StateError,
        match=r"best: the weights do not match the model: `\S+` has shape \(.*\), but shape \(.*\) was "
        "expected",
    ):
        load_best(tmp_path / "best", torch.randn(12, 7))


def test_a_best_epoch_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(StateError, match=f"{tmp_path / 'digests.json'}: cannot read the file"):
        load_best(tmp_path, random_embeddings())


# ------------------------------------------------------------------------------------- a training state


def flat(value: object, name: str = "") -> dict[str, object]:
    """Every tensor and number of a state by its path."""
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in flat(part, f"{name}/{key}").items()}
    if isinstance(value, list | tuple):
        return {k: v for i, part in enumerate(value) for k, v in flat(part, f"{name}/{i}").items()}
    return {name: value}


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return torch.equal(a, b)
    return a == b


def test_a_state_is_loaded_bit_by_bit(tmp_path: Path):
    trainer = small_trainer(average_decay=0.9, target_selection_rate=0.2)
    trainer.train_epoch(random_batches(3))
    trainer.train_step(random_batches(1)[0])  # in the middle of an epoch
    progress = {"history": [{"epoch": 0, "loss": 0.1}], "best": {"value": float("inf")}}
    save_state(tmp_path, trainer, progress)
    other = small_trainer(seed=9, average_decay=0.9, target_selection_rate=0.2)
    assert load_state(tmp_path, other) == progress
    mine, theirs = flat(trainer.state_dict()), flat(other.state_dict())
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if not same(mine[name], theirs[name])] == []
    assert (other.epoch, other.position) == (1, 1)


def test_a_state_of_other_hyper_parameters_is_refused(tmp_path: Path):
    save_state(tmp_path, small_trainer(lambda_g=1.0), {})
    with pytest.raises(
        StateError, match="other hyper-parameters: .*lambda_g is 1.0 in the checkpoint and 2.0 in"
    ):
        load_state(tmp_path, small_trainer(lambda_g=2.0))


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "text", "other", "middle"])
def test_a_damaged_state_is_refused_and_named(tmp_path: Path, damage: str):
    save_state(tmp_path, small_trainer(), {})
    path = tmp_path / "state.pt"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "other":
        torch.save({"something": 1}, path)
    else:
        middle = bytearray(content)
        middle[200:260] = b"\xff" * 60
        short = content[: len(content) // 2]
        path.write_bytes({"empty": b"", "short": short, "text": b"no state", "middle": middle}[damage])
    fault = (
        "is missing" if damage == "missing" else "was changed or is damaged: it does not match its sha256 "
    )
    with pytest.raises(StateError, match=f"^{tmp_path}: `state.pt` {fault}") as caught:
        load_state(tmp_path, small_trainer())
    assert caught.value.hint == "copy the whole folder again from where it was written"
    if damage == "missing":
        return
    stored_files.write_digests(tmp_path, ["state.pt"])
    with pytest.raises(
        StateError,
        match=f"^{path}: (cannot read the checkpoint: |the file is not a checkpoint, or it contains code$)",
    ):
        load_state(tmp_path, small_trainer())


def test_a_state_of_before_a_hyper_parameter_existed_has_its_default(tmp_path: Path, caplog):
    trainer = small_trainer()
    save_state(tmp_path, trainer, {"n": 1})
    forget(tmp_path, "lm_form", "coherence_form")
    with caplog.at_level("INFO", "pipeline.training.checkpoints"):
        assert load_state(tmp_path, small_trainer()) == {"n": 1}
    assert (
        "was written by an older version without some hyper-parameters; defaults are used: `lm_form` = "
        "drawn, `coherence_form` = drawn" in caplog.text
    )
    with pytest.raises(
        StateError, match="other hyper-parameters: .*lm_form is 'drawn' in the checkpoint and 'expected' in"
    ):
        load_state(tmp_path, small_trainer(lm_form="expected"))


def test_a_state_with_a_hyper_parameter_that_nobody_knows_is_refused(tmp_path: Path):
    save_state(tmp_path, small_trainer(), {})
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    state["trainer"]["config"]["lambda_new"] = 1.0
    torch.save(state, tmp_path / "state.pt")
    stored_files.write_digests(tmp_path, ["state.pt"])
    with pytest.raises(
        StateError, match="other hyper-parameters: .*lambda_new is 1.0 in the checkpoint and None in"
    ):
        load_state(tmp_path, small_trainer())


def forget(folder: Path, *names: str) -> None:
    """Make a state that of an older version, which has no word of these hyper-parameters."""
    state = torch.load(folder / "state.pt", weights_only=True)
    for name in names:
        del state["trainer"]["config"][name]
    torch.save(state, folder / "state.pt")
    stored_files.write_digests(folder, ["state.pt"])


def test_a_package_of_before_a_hyper_parameter_existed_has_its_default(package: Path, caplog):
    path = package / "config.json"
    description = json.loads(path.read_text(encoding="utf-8"))
    del description["config"]["lm_form"]
    path.write_text(json.dumps(description), encoding="utf-8")
    stored_files.write_digests(package, FILES[:3])
    with caplog.at_level("INFO", "pipeline.training.checkpoints"):
        assert load_package(package).model.config.lm_form == "drawn"
    assert (
        "the model's config was written by an older version without some hyper-parameters; defaults are "
        "used: `lm_form` = drawn" in caplog.text
    )


def test_a_package_that_cannot_be_written_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(weights_module, "save_file", full)
    package = Package(small_infocal(), WORDS, {})
    with pytest.raises(StateError, match=f"^{tmp_path}/new: cannot write the package: .* No space left"):
        checkpoints.save_package(tmp_path / "new", package)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's device that is always full")
def test_a_full_disk_is_called_so(tmp_path: Path):
    (tmp_path / "state.pt").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        save_state(tmp_path, small_trainer(), {})


class Harmful:
    """Would write a file when unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.target,)


def test_a_state_cannot_run_code(tmp_path: Path):
    torch.save({"trainer": Harmful(tmp_path / "ran"), "progress": {}}, tmp_path / "state.pt")
    stored_files.write_digests(tmp_path, ["state.pt"])
    with pytest.raises(StateError, match="the file is not a checkpoint, or it contains code$"):
        load_state(tmp_path, small_trainer())  # and not: how to run it
    assert not (tmp_path / "ran").exists()


# ----------------------------------------------------------------------------------------------- files


def test_json_that_is_none_is_named(tmp_path: Path):
    path = tmp_path / "x.json"
    path.write_text("{")
    with pytest.raises(StateError, match=f"{path}: cannot read the file: Expecting property name"):
        checkpoints.read_json(path)


def test_a_folder_is_copied_over_another_and_a_missing_one_is_none(tmp_path: Path):
    source, target = tmp_path / "a", tmp_path / "b"
    checkpoints.copy_tree(source, target)
    assert not target.exists()
    for folder, text in ((source, "new"), (target, "old")):
        folder.mkdir()
        (folder / "file").write_text(text)
    checkpoints.copy_tree(source, target)
    assert (target / "file").read_text() == "new"


def test_the_users_files_travel_with_a_package(tmp_path: Path):
    files = {"stop_words": "的\n", "dictionary": "盗窃手机\n"}
    checkpoints.save_package(
        tmp_path / "model", Package(small_infocal(), WORDS, {"epoch": 3, "tokenizer": "jieba"}, files)
    )
    assert load_package(tmp_path / "model").tokenizer_files == files
    (tmp_path / "model" / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StateError, match="`tokenizer.json` was changed or is damaged: it does not match"):
        load_package(tmp_path / "model")


def test_a_package_without_files_of_the_user_has_none(tmp_path: Path):
    checkpoints.save_package(
        tmp_path / "model", Package(small_infocal(), WORDS, {"epoch": 3, "tokenizer": "jieba"})
    )
    assert not (tmp_path / "model" / "tokenizer.json").exists()
    assert load_package(tmp_path / "model").tokenizer_files == {}


# ------------------------------------------------------------------------- damage, and what means harm


def flip_bit(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "the folder is missing"),
        (lambda path: path.write_text("x"), "got a file"),
        (lambda path: path.mkdir(), "the folder has no file `digests.json`"),
    ],
    ids=["nowhere", "a file", "an empty folder"],
)
def test_a_place_without_a_package_is_said_in_words(
    make: Callable[[Path], object], said: str, tmp_path: Path
):
    place = tmp_path / "place"
    make(place)
    with pytest.raises(StateError, match=f"^{place}: expected a folder with a model, but {said}$") as caught:
        checkpoints.load_package(place)
    assert "`pipeline.train` to its `--output`" in (caught.value.hint or "")


def test_no_message_has_an_errno_or_a_path_twice(tmp_path: Path):
    missing = tmp_path / "no.json"
    for read in (checkpoints.read_json, lambda path: read_settings(dict, path, "a setting"), load_weights):
        with pytest.raises(StateError, match="[Nn]o such file") as caught:
            read(missing)
        assert "Errno" not in str(caught.value)
        assert str(caught.value).count(str(missing)) == 1


def test_a_flipped_bit_of_a_weight_in_a_state_is_found(tmp_path: Path):
    """torch checks no sum of what it reads: without a digest the weight would just be another one."""
    trainer = small_trainer()
    save_state(tmp_path, trainer, {})
    path = tmp_path / "state.pt"
    weight = trainer.model.state_dict()["output.weight"].numpy().tobytes()
    flip_bit(path, path.read_bytes().index(weight) + 2)
    with pytest.raises(
        StateError, match=f"^{tmp_path}: `state.pt` was changed or is damaged: it does not match"
    ):
        load_state(tmp_path, trainer)
    (tmp_path / "digests.json").unlink()
    with pytest.raises(StateError, match=f"^{tmp_path}/digests.json: cannot read the file"):
        load_state(tmp_path, trainer)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "scores.json", "predictions.json"])
def test_a_flipped_bit_of_a_best_epoch_is_found(tmp_path: Path, name: str):
    folder = tmp_path / "best"
    save_best(folder, small_infocal(), {"epoch": 1}, [])
    flip_bit(folder / name, (folder / name).stat().st_size - 2)
    with pytest.raises(StateError, match=f"^{folder}: `{name}` was changed or is damaged: it does not match"):
        load_best(folder, random_embeddings())
    (folder / "digests.json").unlink()
    with pytest.raises(StateError, match=f"^{folder}/digests.json: cannot read the file"):
        load_best(folder, random_embeddings())


def test_scores_of_a_best_epoch_are_read_by_their_digest_alone(tmp_path: Path):
    scores = {"epoch": 1, "value": 0.5, "violation": 0.0, "degenerate": None, "scores": {}}
    save_best(tmp_path / "best", small_infocal(), scores, [])
    (tmp_path / "best" / "model.safetensors").unlink()
    assert checkpoints.load_scores(tmp_path / "best").as_json() == scores | {"is_met": True}
    (tmp_path / "best" / "scores.json").write_text(json.dumps(scores | {"value": 0.6}))
    with pytest.raises(StateError, match="best: `scores.json` was changed or is damaged: it does not match"):
        checkpoints.load_scores(tmp_path / "best")


def reseal(package: Path, name: str, content: object) -> None:
    """Put another content in a package, with digests that agree, as somebody who means harm would."""
    (package / name).write_text(json.dumps(content))
    digests = json.loads((package / "digests.json").read_text())
    stored_files.write_digests(package, digests)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": None}, "expected format 1, but got None"),
        (
            {"config": {"hidden_size": 10**6}},
            "the weights do not match the model: `.*` has shape .*, but shape .*1000000.* was expected",
        ),
        ({"config": {"learning_rate": -1.0}}, "`learning_rate` must be > 0, but got -1.0"),
        ({"config": 3}, "cannot be read: "),
        ({"task": {"kind": "regression", "colour": 1}}, "cannot be read: .*unexpected keyword"),
        ({"metadata": []}, "cannot be read: "),
        ({"metadata": {}}, "cannot be read: 'tokenizer'"),
        ({"metadata": {"tokenizer": "klingon"}}, "no tokenizer `klingon`; the tokenizers are"),
        ({"metadata": {"tokenizer": {}}}, "cannot be read: unhashable"),
        ({"threshold": "high"}, "cannot be read: could not convert"),
        ({"method": "klingon"}, "klingon"),
    ],
)
def test_a_description_that_means_harm_is_refused_before_it_takes_memory(
    package: Path, change: dict[str, object], message: str
):
    description = json.loads((package / "config.json").read_text())
    config = change.get("config")
    if isinstance(config, dict):
        change = {"config": description["config"] | config}
    reseal(package, "config.json", description | change)
    tracemalloc.start()
    with pytest.raises(StateError, match=f"^{package}.*: .*{message}"):
        load_package(package)
    assert tracemalloc.get_traced_memory()[1] < 10**8
    tracemalloc.stop()


@pytest.mark.parametrize("words", [WORDS[:-1], [*WORDS, "more"], [*WORDS[:-1], 3], 3, None])
def test_words_that_do_not_fit_the_vectors_are_refused(package: Path, words: object):
    reseal(package, "vocabulary.json", words)
    with pytest.raises(StateError, match=f"^{package}: "):
        load_package(package)


def test_class_names_that_do_not_fit_the_classes_are_refused():
    model = small_infocal(Task(kind="classification", num_classes=3))
    with pytest.raises(StateError, match="expected 3 class names, but got 2"):
        Package(model, WORDS, {"class_names": ["a", "b"]})


def test_scores_and_predictions_of_something_else_are_refused(tmp_path: Path):
    for content in (
        "[]",
        "{}",
        '{"epoch": "1", "value": 0, "violation": 0, "degenerate": null, "scores": {}}',
    ):
        (tmp_path / "scores.json").write_text(content)
        stored_files.write_digests(tmp_path, ["scores.json"])
        with pytest.raises(StateError, match=f"^{tmp_path}"):
            checkpoints.load_scores(tmp_path)
    path = tmp_path / "predictions.json"
    for content in ("3", "[3]", '[{"tokens": [3]}]', '[{"tokens": ["a"], "human": ["x"]}]', "[" * 100_000):
        path.write_text(content)
        with pytest.raises(StateError, match=f"^{path}"):
            checkpoints.load_predictions(path)
