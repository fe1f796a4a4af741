import json
import os
import pickletools
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from infocal.errors import StateError
from pipeline import register
from pipeline.base import stored_files
from pipeline.base.errors import PipelineError
from pipeline.cli.models import model_uri, parse_uri
from pipeline.tracking import descriptions, model_registry
from pipeline.tracking.model_registry import CHALLENGER, CHAMPION
from pipeline.tracking.studies import start_study
from pipeline.tracking.tracking import Tracker
from pipeline.training import checkpoints
from tests.small_store import NAME, metadata, new_store, registered, small_package, store_with_model

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def tracker(tmp_path: Path) -> Tracker:
    return new_store(tmp_path)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    """A store with one registered model, to be read only."""
    folder = tmp_path_factory.mktemp("store")
    tracker = new_store(folder)
    version, _ = registered(tracker, small_package(folder / "model"))
    model_registry.promote(tracker, model_registry.find(tracker, NAME, version))
    return tracker


@pytest.fixture(scope="module")
def model_folder(store: Tracker) -> Path:
    source = store.client.get_model_version_download_uri(NAME, "1")
    return Path(source.removeprefix("file://"))


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("models:/infocal-beer-palate@champion", ("infocal-beer-palate", "champion")),
        ("models:/infocal-beer-palate/3", ("infocal-beer-palate", 3)),
    ],
)
def test_uri_names_a_model_and_which(uri: str, expected: tuple[str, object]):
    assert parse_uri(uri) == expected


def test_a_version_in_a_database_needs_no_global_store(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    # as the database of a server is shown that a flag named; the client reads SQLite as before
    tracker.uri = "postgresql://ada:***@host/mlflow"
    version, _ = registered(tracker, small_package(tmp_path / "model"))
    assert version == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".") == [
        "artifacts",
        "mlflow.db",
        "model",
    ]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("infocal-beer-palate", "models:/infocal-beer-palate@champion"),
        ("a/7", "models:/a/7"),
        ("a@b", "models:/a@b"),
        ("models:/a", "models:/a@champion"),
        ("models:/a@b", "models:/a@b"),
    ],
)
def test_a_short_uri_is_completed(given: str, meant: str):
    assert model_uri(given) == meant
    parse_uri(meant)


@pytest.mark.parametrize("uri", ["models:/a/b", "runs:/1/model", "models:/a@b@c", ""])
def test_other_uris_are_refused(uri: str):
    completed = model_uri(uri)
    with pytest.raises(PipelineError, match=f"or `models:/NAME/VERSION`, but got `{completed}`"):
        parse_uri(completed)


def test_registered_version_is_challenger_and_knows_its_run(tracker: Tracker, tmp_path: Path):
    version, run_id = registered(tracker, small_package(tmp_path / "model"))
    found = model_registry.find(tracker, NAME, CHALLENGER)
    assert (found.version, found.run_id, found.aliases) == (version, run_id, (CHALLENGER,))
    assert found.uri == "models:/infocal-beer-palate/1"
    assert found.tags["data_fingerprint"] == "f" * 64
    assert (found.tags["corpus"], found.tags["min_precision"]) == ("sample", "0.05")
    assert "run_id" not in found.tags
    said = tracker.client.get_model_version(NAME, str(version)).description
    assert "**beer/palate**" in said and f"`{run_id}`" in said and "best recall" in said
    run = tracker.client.get_run(run_id)
    assert len(run.outputs.model_outputs) == 1, "the run's page shows the model"
    logged = tracker.client.get_logged_model(run.outputs.model_outputs[0].model_id)
    assert (logged.status, logged.params["lambda_ib"]) == ("READY", "0.1")


@pytest.mark.parametrize(
    ("there", "is_kept"), [("ours", True), ("", False), (descriptions.WHAT_A_MODEL_IS, False)]
)
def test_a_model_says_its_data_set_unless_people_described_it(
    tracker: Tracker, tmp_path: Path, there: str, is_kept: bool
):
    tracker.client.create_registered_model(NAME, description=there)  # as an older version made it
    registered(tracker, small_package(tmp_path / "model"))
    said = tracker.client.get_registered_model(NAME).description
    assert said == "ours" if is_kept else "data set `beer`, target `palate`" in said


def test_a_new_model_says_its_data_set(tracker: Tracker, tmp_path: Path):
    registered(tracker, small_package(tmp_path / "model"))
    said = tracker.client.get_registered_model(NAME).description
    assert "data set `beer`, target `palate`" in said and "made-up sample corpus" in said


def test_versions_count_up_and_the_alias_moves_on_request_only(tracker: Tracker, tmp_path: Path):
    package = small_package(tmp_path / "model")
    assert registered(tracker, package)[0] == 1
    assert registered(tracker, package, alias=None)[0] == 2
    assert model_registry.find(tracker, NAME, CHALLENGER).version == 1
    assert model_registry.find(tracker, NAME, 2).aliases == ()


def test_the_same_weights_of_the_same_run_get_one_version(tracker: Tracker, tmp_path: Path):
    package = small_package(tmp_path / "package")
    first, run_id = registered(tracker, package)
    again = model_registry.register(tracker, package, name=NAME, run_id=run_id, tags={})
    assert again == first
    (logged,) = tracker.client.search_model_versions("name = 'infocal-beer-palate'")
    digests = checkpoints.read_json(package / "digests.json")
    assert logged.tags["weights_sha256"] == digests["model.safetensors"]


class Killed(BaseException):
    """Stands for the end of the process: nothing of ours catches it."""


@pytest.mark.parametrize(
    "at",
    ["create_logged_model", "log_model_artifacts", "create_model_version", "set_registered_model_alias"],
)
def test_who_was_killed_while_registering_does_no_step_twice(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
):
    def dies(*args: object, **rest: object):
        raise Killed

    package = small_package(tmp_path / "package")
    run_id = registered(tracker, small_package(tmp_path / "other"))[1]  # an older model of another run
    run_id = tracker.start_run(tracker.run(run_id).experiment_id, "killed", {}, {})
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(type(tracker.client), at, dies)
        if at == "log_model_artifacts":  # nor does a process that is killed close the model
            patched.setattr(type(tracker.client), "finalize_logged_model", dies)
        model_registry.register(tracker, package, name=NAME, run_id=run_id, tags={})
    version = model_registry.register(tracker, package, name=NAME, run_id=run_id, tags={})
    found = model_registry.find(tracker, NAME, CHALLENGER)
    assert (found.version, found.run_id) == (version, run_id) == (2, run_id)
    experiment = tracker.run(run_id).experiment_id
    models = tracker.client.search_logged_models([experiment], f"source_run_id = '{run_id}'")
    assert [str(model.status) for model in models] == ["READY"]
    assert len(tracker.client.search_model_versions(f"run_id = '{run_id}'")) == 1


def test_an_older_version_does_not_take_the_alias_back(tracker: Tracker, tmp_path: Path):
    package = small_package(tmp_path / "package")
    first, run_id = registered(tracker, package)
    newer, _ = registered(tracker, package)
    assert model_registry.register(tracker, package, name=NAME, run_id=run_id, tags={}) == first
    assert model_registry.find(tracker, NAME, CHALLENGER).version == newer


def test_an_older_version_that_is_asked_for_takes_the_alias(tracker: Tracker, tmp_path: Path):
    package = small_package(tmp_path / "package")
    first, run_id = registered(tracker, package)
    registered(tracker, package)
    again = model_registry.register(tracker, package, name=NAME, run_id=run_id, tags={}, takes_alias=True)
    assert again == first == model_registry.find(tracker, NAME, CHALLENGER).version


def test_weights_that_are_chosen_by_another_criterion_get_a_version_of_their_own(
    tracker: Tracker, tmp_path: Path
):
    package = small_package(tmp_path / "package")
    first, run_id = registered(tracker, package)
    tags = {"criterion": "best val_token_f1"}
    second = model_registry.register(tracker, package, name=NAME, run_id=run_id, tags=tags)
    assert second == first + 1 == model_registry.find(tracker, NAME, CHALLENGER).version
    stated = [model_registry.find(tracker, NAME, number).tags["criterion"] for number in (first, second)]
    assert stated == ["best recall", "best val_token_f1"]
    assert model_registry.register(tracker, package, name=NAME, run_id=run_id, tags=tags) == second
    for number in (first, second):
        assert model_registry.load_version(tracker, NAME, number, tmp_path / f"copy-{number}").metadata[
            "study"
        ]


def test_weights_put_in_the_place_of_registered_ones_are_refused(tracker: Tracker, tmp_path: Path):
    """Whoever can write to the artifacts can make their digests agree, but not the tag of the version."""
    registered(tracker, small_package(tmp_path / "model"))
    folder = model_registry.load_version_package(tracker, NAME, 1, tmp_path / "first")
    (stored,) = [path for path in tmp_path.rglob("model.safetensors") if "artifacts" in path.parts]
    content = bytearray(stored.read_bytes())
    content[-1] ^= 1
    stored.write_bytes(content)
    stored_files.write_digests(stored.parent, checkpoints.read_json(folder / "digests.json"))
    with pytest.raises(
        PipelineError, match="`model.safetensors` of models:/.*/1 was changed after registration"
    ):
        model_registry.load_version_package(tracker, NAME, 1, tmp_path / "second")


def test_champion_is_none_until_a_version_is_promoted(tmp_path: Path):
    tracker, _ = store_with_model(tmp_path)
    assert model_registry.champion(tracker, NAME) is None
    model_registry.promote(tracker, model_registry.find(tracker, NAME, 1))
    holder = model_registry.champion(tracker, NAME)
    assert holder is not None and holder.version == 1
    assert holder.aliases == (CHALLENGER, CHAMPION)


def test_tags_are_written_as_parameters_are(tmp_path: Path):
    tracker, _ = store_with_model(tmp_path)
    model_registry.tag(
        tracker, model_registry.find(tracker, NAME, 1), {"test_token_f1": 0.25, "note": "fine"}
    )
    tags = model_registry.find(tracker, NAME, 1).tags
    assert (tags["test_token_f1"], tags["note"]) == ("0.25", "fine")


@pytest.mark.parametrize(
    ("name", "which", "message"),
    [
        (
            NAME,
            "best",
            "no alias `best` of model `infocal-beer-palate`; the model has versions 1 and aliases "
            "`challenger` = 1",
        ),
        (NAME, 7, "no version 7 of model `infocal-beer-palate`; the model has versions 1 "),
        (
            "infocal-beer-palete",
            "champion",
            "no alias `champion` of .*palete`; registered models: `infocal-beer-palate`",
        ),
    ],
)
def test_what_is_not_there_is_named_with_what_is(store: Tracker, name: str, which: str | int, message: str):
    with pytest.raises(
        PipelineError, match=message.replace("alias `challenger` = 1", "alias .*`challenger` = 1")
    ):
        model_registry.find(store, name, which)


def test_empty_registry_says_so(tracker: Tracker):
    with pytest.raises(PipelineError, match="registered models: none") as caught:
        model_registry.find(tracker, NAME, CHALLENGER)
    assert "pipeline.search" in (caught.value.hint or "")
    with pytest.raises(PipelineError, match=f"cannot read model `{NAME}`"):
        model_registry.champion(tracker, NAME)


def test_package_comes_back_whole(store: Tracker, tmp_path: Path):
    folder = model_registry.load_version_package(store, NAME, CHALLENGER, tmp_path / "out")
    package = checkpoints.load_package(folder)
    assert package.metadata == metadata()
    assert folder.is_relative_to(tmp_path / "out")


@pytest.mark.parametrize("name", ["vocabulary.json", "config.json", "digests.json"])
def test_a_damaged_file_of_a_version_names_the_version_not_its_copy(
    tracker: Tracker, name: str, tmp_path: Path
):
    registered(tracker, small_package(tmp_path / "model"))
    assert model_registry.load_version(tracker, NAME, 1, tmp_path / "whole").metadata == metadata()
    (stored,) = [path for path in tmp_path.rglob(name) if "artifacts" in path.parts]
    stored.write_text("{")
    with pytest.raises(StateError, match=f"^`.*` of models:/{NAME}/1: ") as caught:
        model_registry.load_version(tracker, NAME, 1, tmp_path / "copy")
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("instead", ["nothing", "folder"])
def test_weights_that_are_gone_are_told(tracker: Tracker, instead: str, tmp_path: Path):
    registered(tracker, small_package(tmp_path / "model"))
    (stored,) = [path for path in tmp_path.rglob(checkpoints.WEIGHTS) if "artifacts" in path.parts]
    stored.unlink()
    if instead == "folder":
        stored.mkdir()
    with pytest.raises(PipelineError, match=f"models:/{NAME}/1 has no file `model.safetensors`"):
        model_registry.load_version(tracker, NAME, 1, tmp_path / "copy")


@pytest.mark.parametrize("harm", ["missing", "torn", "folder"])
def test_a_version_whose_files_are_lost_is_registered_anew(tracker: Tracker, harm: str, tmp_path: Path):
    package = small_package(tmp_path / "model")
    first, run_id = registered(tracker, package)
    (stored,) = [path for path in tmp_path.rglob(checkpoints.WEIGHTS) if "artifacts" in path.parts]
    if harm == "folder":
        stored.parent.rename(tmp_path / "away")
    else:
        stored.unlink() if harm == "missing" else stored.write_bytes(b"torn")
    with pytest.raises(model_registry.LostFiles) as caught:
        model_registry.load_version_package(tracker, NAME, first, tmp_path / "copy")
    assert "python -m pipeline.register" in str(caught.value.hint)
    again = model_registry.register(tracker, package, name=NAME, run_id=run_id, tags={})
    assert again == first + 1
    assert model_registry.find(tracker, NAME, CHALLENGER).version == again
    assert model_registry.load_version(tracker, NAME, again, tmp_path / "new").metadata == metadata()


@pytest.mark.parametrize(
    ("home", "storage"), [("runs", None), ("runs/sample", "runs/sample"), ("my runs", "")]
)
def test_the_command_that_registers_a_lost_version_anew_works_when_pasted(
    home: str, storage: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    tracker = new_store(tmp_path / home)
    experiment = tracker.experiment("beer", "palate")
    folder = tmp_path / home / "studies" / "first"
    study = start_study(
        tracker, experiment, "first", {"model_name": "other"}, {"results": f"host:{folder}", "criterion": "a"}
    )
    trial = {"mlflow.parentRunId": study, "registered_criterion": "best b"}
    run_id = tracker.start_run(experiment, "trial-07", {}, trial)
    tags = {"study": "first", "criterion": "best b"}
    model_registry.register(tracker, small_package(tmp_path / "model"), name=NAME, run_id=run_id, tags=tags)
    (stored,) = [path for path in tmp_path.rglob(checkpoints.WEIGHTS) if "artifacts" in path.parts]
    stored.unlink()
    with pytest.raises(model_registry.LostFiles) as caught:
        model_registry.load_version(tracker, NAME, 1, tmp_path / "copy")
    command = str(caught.value.hint).partition("`")[2].removesuffix("`")
    given = register.build_parser().parse_args(shlex.split(command)[3:])
    assert given.storage == (str(tmp_path / home) if storage == "" else storage)
    assert (given.name, given.trial, given.criterion, given.model_name) == ("first", 7, "best b", NAME)
    assert given.tracking_uri is None


def test_a_folder_and_its_copy_are_origins_of_one_model(tracker: Tracker, tmp_path: Path):
    package = small_package(tmp_path / "model")
    for origin, fingerprint in (("/a", "1"), ("/copy of a", "1")):
        run_id = tracker.start_run(tracker.experiment("beer", "palate"), origin, {}, {})
        tags = {"origin": origin, "data_fingerprint": fingerprint, "criterion": origin}
        model_registry.register(tracker, package, name="own", run_id=run_id, tags=tags)
    for origin in ("/a", "/copy of a"):
        model_registry.refuse_another(tracker, "own", {"origin": origin, "data_fingerprint": "2"})
    with pytest.raises(PipelineError, match="the data in /copy of a instead of /b"):
        model_registry.refuse_another(tracker, "own", {"origin": "/b", "data_fingerprint": "2"})


def test_lost_files_are_named(tracker: Tracker, tmp_path: Path):
    registered(tracker, small_package(tmp_path / "model"))
    source = Path(tracker.client.get_model_version_download_uri(NAME, "1").removeprefix("file://"))
    source.rename(tmp_path / "moved")
    with pytest.raises(PipelineError, match="cannot read the files of models:/infocal-beer-palate/1"):
        model_registry.load_version_package(tracker, NAME, 1, tmp_path / "out")


def test_a_folder_that_is_no_package_registers_nothing(tracker: Tracker, tmp_path: Path):
    package = small_package(tmp_path / "model")
    (package / checkpoints.WEIGHTS).write_bytes(b"short")
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "one", {}, {})
    with pytest.raises(StateError, match="`model.safetensors` was changed or is damaged: it does not match"):
        model_registry.register(tracker, package, name=NAME, run_id=run_id, tags={})
    assert list(tracker.client.search_registered_models()) == []


# ------------------------------------------------------------------------------------ what is logged


def is_pickle(content: bytes) -> bool:
    """Whether the bytes are a pickle of protocol 2 or newer, or a zip as torch writes it."""
    if content[:2] == b"PK":
        return True
    if content[:1] != b"\x80":
        return False
    try:
        return all(True for _ in pickletools.genops(content))
    except ValueError:
        return False


def test_a_pickle_is_recognised():
    import pickle

    assert is_pickle(pickle.dumps({"a": 1}))
    assert not is_pickle(b"\x80abc")
    assert not is_pickle(json.dumps({"a": 1}).encode())


def test_nothing_logged_is_a_pickle(model_folder: Path):
    files = [path for path in model_folder.rglob("*") if path.is_file()]
    names = {path.relative_to(model_folder).as_posix() for path in files}
    assert {"MLmodel", "served_model.py", "artifacts/package/model.safetensors"} <= names
    assert [path.name for path in files if path.suffix in {".pkl", ".pickle", ".pt", ".pth", ".bin"}] == []
    assert [path.name for path in files if is_pickle(path.read_bytes())] == []


def test_model_states_its_signature_example_and_code(model_folder: Path):
    described = yaml.safe_load((model_folder / "MLmodel").read_text())
    flavor = described["flavors"]["python_function"]
    assert flavor["loader_module"] == "mlflow.pyfunc.loaders.code_model"
    assert "python_model" not in flavor
    signature = {part: json.loads(described["signature"][part]) for part in ("inputs", "outputs", "params")}
    assert signature["inputs"] == [{"type": "string", "required": True}]
    answer = signature["outputs"][0]["properties"]
    always = {"prediction", "probabilities", "label", "num_unknown", "rationale"}
    assert {name for name, said in answer.items() if said["required"]} == always
    assert set(answer) == always | {"tokens", "targets"}
    assert signature["params"][0]["name"] == "all_tokens"
    assert described["metadata"]["dataset"] == "beer"
    example = json.loads((model_folder / "serving_input_example.json").read_text())
    assert example["params"] == {"all_tokens": False, "column": ""}


def test_requirements_are_pinned_without_their_build(model_folder: Path):
    lines = (model_folder / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if "==" not in line or "+" in line] == []
    assert {"torch", "mlflow", "safetensors"} <= {line.partition("==")[0] for line in lines}


# ------------------------------------------------------------------------------- in another process

LOAD = """
import json, sys
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model("models:/infocal-beer-palate@champion")
print(json.dumps(model.predict(["a smooth body", "Creamy!"])))
"""


def environment() -> dict[str, str]:
    """The project's packages can be imported, as where it is installed; nothing else is known of it."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.slow
def test_model_loads_in_another_process_and_folder(store: Tracker, tmp_path: Path):
    command = [sys.executable, "-c", LOAD, store.uri]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    names = ["label", "num_unknown", "prediction", "probabilities", "rationale"]
    assert [sorted(answer) for answer in answers] == [names] * 2
    assert list(tmp_path.iterdir()) == []
