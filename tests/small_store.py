"""A tracking store, sample features and an untrained model of a few units, for tests of the MLflow side."""

import atexit
import dataclasses
import functools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from feature_store.store import FeatureRequest, Features, open_features
from infocal.config import InfoCalConfig, Task
from infocal.methods.infocal.model import InfoCal
from pipeline.tracking import model_registry
from pipeline.tracking.model_registry import ModelVersion
from pipeline.tracking.tracking import Tracker
from pipeline.training import checkpoints
from pipeline.training.loaders import embeddings_of, task_of

NAME = "infocal-beer-palate"
WORDS = ["<pad>", "<unk>", "a", "smooth", "creamy", "body", "thin", "."]
CONFIG = InfoCalConfig(hidden_size=4, encoder="lstm")


@functools.cache
def session_folder() -> Path:
    """A folder that lives as long as the process."""
    folder = tempfile.mkdtemp(prefix="infocal-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def empty_database() -> Path:
    """A store's database in a folder of its own, as a tracker makes it where there is none."""
    path = session_folder() / "store" / "mlflow.db"
    Tracker(f"sqlite:///{path}")
    return path


def new_store(folder: Path) -> Tracker:
    """A store of one's own in `folder`; copied, since MLflow needs a second or more to make one."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(empty_database(), folder / "mlflow.db")
    return Tracker(f"sqlite:///{folder / 'mlflow.db'}")


@functools.cache
def sample_features() -> Features:
    """The sample corpus with random word vectors, built once a process."""
    return open_features(
        FeatureRequest(aspect="palate", sample=True, embedding="random", cache_dir=sample_cache())
    )


@functools.cache
def law_features() -> Features:
    """The sample cases with all three targets and random word vectors, built once a process."""
    return open_features(
        FeatureRequest(
            dataset="cail-small",
            aspect="charges+articles+terms",
            sample=True,
            embedding="random",
            cache_dir=sample_cache(),
        )
    )


@functools.cache
def post_features() -> Features:
    """The sample posts of HateXplain with random word vectors, built once a process: a classification."""
    return open_features(
        FeatureRequest(dataset="hatexplain", sample=True, embedding="random", cache_dir=sample_cache())
    )


def post_model() -> InfoCal:
    """An untrained model of the sample posts; it selects about half of their tokens."""
    torch.manual_seed(0)
    features = post_features()
    config = dataclasses.replace(CONFIG, start_selection_rate=0.5)
    return InfoCal(config, task_of(features), embeddings_of(features)).eval()


def sample_cache() -> Path:
    """Cache folder of `sample_features`."""
    return session_folder() / "cache"


def metadata(**changes: Any) -> dict[str, Any]:
    """What a study writes into a package; `changes` on top."""
    return {
        "dataset": "beer",
        "aspect": "palate",
        "method": "infocal",
        "options": {},
        "tokenizer": "english",
        "sample": True,
        "data_fingerprint": "f" * 64,
        "study": "first",
        "run_id": None,
        "epoch": 3,
        "calibrated_threshold": 0.6,
        "criterion": "best recall",
        "min_precision": 0.05,
        "scores": {"val_token_f1": 0.5},
        "max_length": 256,
        "class_names": [],
        **changes,
    }


def small_package(folder: Path, task: Task | None = None, **changes: Any) -> Path:
    """An untrained model of `WORDS`; `changes` go into its metadata."""
    torch.manual_seed(0)
    model = InfoCal(CONFIG, task or Task(kind="regression"), torch.randn(len(WORDS), 5)).eval()
    checkpoints.save_package(folder, checkpoints.Package(model, WORDS, metadata(**changes)))
    return folder


def several_package(folder: Path, rationales: str = "shared", **changes: Any) -> Path:
    """An untrained model of `WORDS` and two targets, a score and three classes; as `small_package`.

    Args:
        rationales: `shared` or `per_head`.
    """
    torch.manual_seed(0)
    side = Task(kind="classification", num_classes=3, name="smell")
    task = Task(kind="regression", name="palate", sides=(side,))
    config = dataclasses.replace(CONFIG, rationales=rationales, start_selection_rate=0.5)
    model = InfoCal(config, task, torch.randn(len(WORDS), 5)).eval()
    targets = [
        {"name": "palate", "score_range": [1, 5]},
        {"name": "smell", "class_names": ["bad", "fair", "good"]},
    ]
    described = metadata(aspect="palate+smell", targets=targets, **changes)
    checkpoints.save_package(folder, checkpoints.Package(model, WORDS, described))
    return folder


def sample_model() -> InfoCal:
    """An untrained model of the sample features; it selects nearly every token."""
    torch.manual_seed(0)
    features = sample_features()
    return InfoCal(CONFIG, task_of(features), embeddings_of(features)).eval()


def sample_package(folder: Path, **changes: Any) -> Path:
    """A package of `sample_model`."""
    features = sample_features()
    described = metadata(data_fingerprint=features.fingerprint, **changes)
    package = checkpoints.Package(sample_model(), features.vocabulary.tokens, described)
    checkpoints.save_package(folder, package)
    return folder


def registered(tracker: Tracker, package: Path, **changes: Any) -> tuple[int, str]:
    """Register a package under a run of its own; returns the version and the run's id."""
    experiment = tracker.experiment("beer", "palate")
    run_id = tracker.start_run(experiment, "trial-00", {"lambda_ib": 0.1}, {})
    version = model_registry.register(tracker, package, name=NAME, run_id=run_id, tags={}, **changes)
    return version, run_id


@functools.cache
def _registered_database() -> Path:
    tracker = new_store(session_folder() / "registered")
    registered(tracker, sample_package(session_folder() / "package"))
    return session_folder() / "registered" / "mlflow.db"


def store_with_model(folder: Path) -> tuple[Tracker, ModelVersion]:
    """A store of one's own whose challenger, version 1, is a sample package; its files are shared."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_registered_database(), folder / "mlflow.db")
    tracker = Tracker(f"sqlite:///{folder / 'mlflow.db'}")
    return tracker, model_registry.find(tracker, NAME, model_registry.CHALLENGER)


def next_version(tracker: Tracker, **tags: str) -> ModelVersion:
    """Register version 1 once more, as challenger; `tags` on top of its own."""
    first = model_registry.find(tracker, NAME, 1)
    source = tracker.client.get_model_version_download_uri(NAME, "1")
    made = tracker.client.create_model_version(NAME, source, first.run_id, {**first.tags, **tags})
    tracker.client.set_registered_model_alias(NAME, model_registry.CHALLENGER, made.version)
    return model_registry.find(tracker, NAME, int(made.version))


def save_trial_checkpoint(folder: Path, model: InfoCal, scores: dict[str, float], **best: Any) -> Path:
    """What a trial's checkpoint holds, but for the state to go on from; `best` is said of its best epoch."""
    folder.mkdir(parents=True)
    known = {"epoch": 1, "value": 0.5, "violation": 0.0, "is_met": True, "degenerate": None, "scores": scores}
    marks = {"human": [1], "selected": [1], "probability": [0.9]}
    said = {"prediction": 0.5, "guider_prediction": 0.4, "target": 0.6}
    shown = [{"example_id": "1", "tokens": ["smooth"], **marks, **said}]
    checkpoints.save_best(folder / checkpoints.BEST, model, {**known, **best}, shown)
    history = [{"epoch": i, "objective": 0.1, "train_objective": 0.3, **scores} for i in range(2)]
    (folder / "history.json").write_text(json.dumps(history))
    return folder
