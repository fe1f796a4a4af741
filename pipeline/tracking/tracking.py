"""MLflow runs: one experiment per dataset and aspect, a parent run per study, a child run per trial.

Everything is logged by the driver: a worker never opens MLflow. The tracking URI is always explicit and
MLflow's global state is left alone.
"""

import contextlib
import logging
import math
import os
import re
import shlex
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

# MLflow reads these when it is imported
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
# a server that went away would hold the driver for minutes at every call by default
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")

import filelock
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from sqlalchemy.exc import SQLAlchemyError

from pipeline.base import full_disk, moved, reach, tracking_address, uris
from pipeline.base.errors import PipelineError, one_line, shortened
from pipeline.base.locations import make_folder
from pipeline.tracking import descriptions, new_database, sections
from pipeline.tracking.schema import refuse_another_schema
from pipeline.tracking.tracked_dataset import TrackedDataset
from pipeline.tracking.tracked_run import TrackedRun as TrackedRun
from pipeline.tracking.tracked_run import made_by, milliseconds
from pipeline.tracking.tracked_run import read_back as read_back
from pipeline.tracking.tracked_run import written as written

logger = logging.getLogger("pipeline.tracking.tracking")
_TOLD = ("mlflow.store.db.utils", "urllib3.connectionpool")
"""Loggers that write a traceback, or a line for each try, of what an error of ours says in one line."""

_NO_SUCH_RUN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
"""What MLflow answers to an id that it does not know, or that is none."""
CONFIG_ARTIFACT = "config.json"
"""A trial's hyper-parameters and settings, among its artifacts."""
PARENT_TAG, NAME_TAG = "mlflow.parentRunId", "mlflow.runName"
NOTE_TAG = "mlflow.note.content"
"""Shown as the description of a run, in Markdown."""
STUDY_TAG, COMPARISON_TAG, TRIAL_TAG = "study", "comparison", "tune_trial_id"
RESULTS_TAG = "results"
"""Where a study's results are: tells it from another one of its name on the same server."""

_ADDED_TWICE = re.compile("IntegrityError|UniqueViolation")
"""In what MLflow answers where a row that must be unique is there already: SQLite, MySQL; PostgreSQL."""
_MAX_PARAMS, _MAX_METRICS = 100, 1000
"""Most entries of one MLflow batch."""
MAX_TAG = 500
"""Characters of a tag that holds a message; MLflow takes a few thousand."""
_METRIC_NAME = re.compile(r"[\w\-. :/]{1,250}", re.ASCII)
"""Names that MLflow accepts."""


class Tracker:
    """One MLflow tracking store.

    Args:
        uri: `sqlite:///FILE`, or a server's address; with its password.
        artifact_root: folder of all artifacts where the store is SQLite; None: `artifacts` beside the
            database.
        create: make a missing SQLite database; otherwise it is an error.

    Raises:
        PipelineError: if the store cannot be used.
    """

    def __init__(self, uri: str, artifact_root: Path | None = None, *, create: bool = True) -> None:
        tracking_address.check(uri, tracking_address.named_by(uri))
        self.uri = uris.without_password(uri)
        """As it may be shown and stored."""
        file, (_, question, options) = uris.file_of_sqlite(uri), uri.partition("?")
        self.address = uri if file is None else uris.of_sqlite(file) + question + options
        """As MLflow takes it."""
        self.artifact_root = artifact_root
        self._database: Path | None = None
        self._client: MlflowClient | None = None
        self.before: dict[str, TrackedRun] = {}
        """Studies' runs that were opened again, by id: as they were before that."""
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        for name in _TOLD:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        refuse_another_schema(uri, may_be_empty=create)
        if uri.startswith("sqlite"):
            self._prepare_sqlite(create)
        else:
            reach.check_tracking(uri)
        with self._opening():
            self.client.search_experiments(max_results=1)

    def _prepare_sqlite(self, create: bool) -> None:
        path = uris.file_of_sqlite(self.address)
        if path is None:
            where = tracking_address.named_by(self.address)
            raise PipelineError(f"expected `sqlite:///FILE`, but got `{self.uri}`", where=where)
        if not create and not path.is_file():
            raise PipelineError(
                f"there is no tracking database `{path}`",
                hint="name the results folder with `--storage` (`--sample`: runs/sample) or the MLflow store "
                "with `--tracking-uri`; `python -m pipeline.search` creates a database",
            )
        make_folder(path.parent, tracking_address.FLAG)
        self._database = path
        if self.artifact_root is None:
            self.artifact_root = path.resolve().parent / moved.ARTIFACTS
        with self._opening():
            root = self.artifact_root.absolute().as_uri()
            # as a URI, since MLflow writes it into a statement of SQL as Python would
            new_database.make(path, lambda new: SqlAlchemyStore(uris.of_sqlite(new), root).engine.dispose())

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        message = f"cannot use the tracking store `{self.uri}`"
        with translated(message, hint="check `--tracking-uri`"), self._alone():
            yield

    def _alone(self) -> contextlib.AbstractContextManager[object]:
        """For what processes would disturb one another at: to make the same SQLite database or experiment."""
        if self._database is None:
            return contextlib.nullcontext()
        return filelock.FileLock(self._database.with_name(f".{self._database.name}.lock"))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_client": None}

    @property
    def client(self) -> MlflowClient:
        """MLflow's own client of this store; raises MlflowException."""
        if self._client is None:
            self._client = MlflowClient(self.address, registry_uri=self.address)
        return self._client

    def experiment(self, dataset: str, aspect: str) -> str:
        """Id of the experiment `dataset/aspect`, which is made where it is missing."""
        name = f"{dataset}/{aspect}" if aspect else dataset
        with translated(f"cannot open the experiment `{name}`"), self._alone():
            found = self.client.get_experiment_by_name(name)
            if found is not None:
                if found.lifecycle_stage != "active":
                    raise PipelineError(
                        f"the experiment `{name}` was deleted",
                        where=self.uri,
                        hint=f"restore it with `MLFLOW_TRACKING_URI={shlex.quote(self.uri)} mlflow "
                        f"experiments restore --experiment-id {found.experiment_id}`",
                    )
                if NOTE_TAG not in found.tags:
                    note = descriptions.of_experiment(dataset, aspect)
                    self.client.set_experiment_tag(found.experiment_id, NOTE_TAG, note)
                return str(found.experiment_id)
            location = None
            if self.artifact_root is not None:
                location = (self.artifact_root.resolve() / name.replace("/", "-")).as_uri()
            # without it the MLflow UI opens the experiment among language-model traces
            tags = {"mlflow.experimentKind": "custom_model_development"}
            tags[NOTE_TAG] = descriptions.of_experiment(dataset, aspect)
            try:
                return str(self.client.create_experiment(name, artifact_location=location, tags=tags))
            except MlflowException:
                # another user of the server has made it since we looked
                found = self.client.get_experiment_by_name(name)
                if found is None:
                    raise
                return str(found.experiment_id)

    def start_run(
        self,
        experiment_id: str,
        name: str,
        parameters: Mapping[str, Any],
        tags: Mapping[str, str],
        started: float | None = None,
    ) -> str:
        """Id of a new run that is no study's.

        Args:
            started: in seconds since 1970; None: now.
        """
        with translated(f"cannot start the run `{name}`"):
            run = self.client.create_run(
                experiment_id,
                start_time=milliseconds(started),
                run_name=name,
                tags={**made_by(), **tags},
            )
            self.log_params(run.info.run_id, parameters)
            return str(run.info.run_id)

    def complete_params(self, run_id: str, parameters: Mapping[str, Any]) -> None:
        """Log those parameters that a run has not yet."""
        there = self.run(run_id).params
        with translated(f"cannot log the parameters of run {run_id}"):
            self.log_params(run_id, {k: v for k, v in parameters.items() if k not in there})

    def reopen(self, run_id: str) -> None:
        """Make a run RUNNING, whatever it was."""
        with translated(f"cannot open run {run_id}"):
            self.client.update_run(run_id, status="RUNNING")

    def log_metrics(
        self, run_id: str, values: Mapping[str, Any], step: int, at: float | None = None
    ) -> Counter[str]:
        """Log what is a finite number under a name that MLflow takes, in one batch.

        Args:
            values: by flat name, which MLflow has in its section; what is no number is left out.
            at: when they were measured, in seconds since 1970; None: now.

        Returns:
            How often each name was left out, because its value was not finite or its name not allowed.
        """
        skipped: Counter[str] = Counter()
        metrics, measured = [], milliseconds(at) or int(time.time() * 1000)
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if math.isfinite(value) and _METRIC_NAME.fullmatch(name):
                shown = sections.value_in_mlflow(name, float(value))
                metrics.append(Metric(sections.in_mlflow(name), shown, measured, step))
            else:
                skipped[name] += 1
        with translated(f"cannot log step {step} of run {run_id}"):
            for first in range(0, len(metrics), _MAX_METRICS):
                self.client.log_batch(run_id, metrics=metrics[first : first + _MAX_METRICS])
        return skipped

    def log_dataset(self, run_id: str, dataset: TrackedDataset) -> None:
        """Say on which data a run was trained; may be called again."""
        made = Dataset(source_type="features", **asdict(dataset))
        inputs = [DatasetInput(made, [InputTag("mlflow.data.context", "training")])]
        with translated(f"cannot log the data set of run {run_id}"):
            try:
                self.client.log_inputs(run_id, inputs)
            except MlflowException as error:
                # MLflow looks for the data set, then adds it: another search may add it in between
                if not _ADDED_TWICE.search(str(error)):
                    raise
                self.client.log_inputs(run_id, inputs)

    def describe_experiment(self, experiment_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of an experiment, which MLflow's pages read."""
        with translated(f"cannot write the tags of experiment {experiment_id}"):
            for name, value in tags.items():
                self.client.set_experiment_tag(experiment_id, name, value)

    def has_tag(self, experiment_id: str, name: str) -> bool:
        """Whether an experiment has a tag."""
        with translated(f"cannot read experiment {experiment_id}"):
            return name in self.client.get_experiment(experiment_id).tags

    def log_params(self, run_id: str, parameters: Mapping[str, Any]) -> None:
        """Log parameters of a run; raises MlflowException."""
        params = [Param(name, written(value)) for name, value in parameters.items()]
        for first in range(0, len(params), _MAX_PARAMS):
            self.client.log_batch(run_id, params=params[first : first + _MAX_PARAMS])

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of a run; raises MlflowException."""
        if tags:
            self.client.log_batch(run_id, tags=[RunTag(name, str(value)) for name, value in tags.items()])

    def finish(
        self,
        run_id: str,
        status: str = "FINISHED",
        metrics: Mapping[str, float] | None = None,
        tags: Mapping[str, str] | None = None,
        artifacts: Mapping[str, str | Path] | None = None,
        ended: float | None = None,
    ) -> None:
        """Log what is left and end a run; a figure that is there already is not logged twice.

        Args:
            status: FINISHED, FAILED or KILLED.
            artifacts: path in the run -> text, or a local file or folder to copy there.
            ended: in seconds since 1970; None: now.
        """
        with translated(f"cannot finish run {run_id}"):
            there = self.run(run_id).metrics if metrics else {}
            new = {name: value for name, value in (metrics or {}).items() if there.get(name) != value}
            warn_skipped(self.log_metrics(run_id, new, step=0))
            self.set_tags(run_id, tags or {})
            for path, content in (artifacts or {}).items():
                self.log_artifact(run_id, content, path)
            self.client.set_terminated(run_id, status, end_time=milliseconds(ended))

    def log_artifact(self, run_id: str, content: str | Path, artifact_path: str) -> None:
        """Store a text, a file or a folder at that path of the run."""
        with translated(f"cannot store `{artifact_path}` in run {run_id}"):
            elsewhere = self._moved(run_id)
            if elsewhere is not None:
                moved.store(content, elsewhere / artifact_path)
            elif isinstance(content, str):
                self.client.log_text(run_id, content, artifact_path)
            elif content.is_dir():
                self.client.log_artifacts(run_id, str(content), artifact_path)
            else:
                folder, _, name = artifact_path.rpartition("/")
                with tempfile.TemporaryDirectory() as temporary:
                    copy = shutil.copyfile(content, Path(temporary) / name)
                    self.client.log_artifact(run_id, str(copy), folder or None)

    def run(self, run_id: str) -> TrackedRun:
        """A run by its id.

        Raises:
            PipelineError: if there is no such run, or MLflow is away.
        """
        with translated(f"cannot read the run `{run_id}` of {self.uri}"):
            try:
                return TrackedRun.of(self.client.get_run(run_id))
            except MlflowException as error:
                if error.error_code not in _NO_SUCH_RUN:
                    raise
                raise PipelineError(
                    f"there is no run `{run_id}` in {self.uri}: {error.message}",
                    hint="`mlflow ui` shows the id on the run's page; check whether the run is in another "
                    "store (`--sample`, `--storage`, `--tracking-uri`)",
                ) from error

    def children(self, study_run_id: str) -> list[TrackedRun]:
        """The trials of a study, in the order in which they started."""
        with translated(f"cannot list the trials of run {study_run_id}"):
            parent = self.client.get_run(study_run_id)
            found = self.search([parent.info.experiment_id], f"tags.`{PARENT_TAG}` = '{study_run_id}'")
        return sorted(found, key=lambda run: (run.started, run.name))

    def search(self, experiment_ids: list[str], condition: str) -> list[TrackedRun]:
        """Every run that is not deleted and fits a condition of MLflow's; raises MlflowException."""
        runs: list[TrackedRun] = []
        token = None
        while True:
            page = self.client.search_runs(
                experiment_ids, condition, run_view_type=ViewType.ACTIVE_ONLY, page_token=token
            )
            runs += [TrackedRun.of(run) for run in page]
            token = page.token
            if not token:
                return runs

    def history(self, run_id: str, metric: str) -> list[tuple[int, float]]:
        """Step and value of a metric, in the order of the steps; empty where it was never logged."""
        with translated(f"cannot read `{metric}` of run {run_id}"):
            found = {
                (int(one.step), sections.flat_value(name, float(one.value)))
                for name in sections.names_of(metric)
                for one in self.client.get_metric_history(run_id, name)
            }
        return sorted(found)

    def download(self, run_id: str, artifact_path: str, destination: Path) -> Path:
        """Copy a file or folder of a run into `destination`; returns where it lies then.

        Raises:
            PipelineError: if the run has no such artifact.
        """
        destination.mkdir(parents=True, exist_ok=True)
        with translated(f"run {run_id} has no artifact `{artifact_path}`"):
            elsewhere = self._moved(run_id)
            if elsewhere is None:
                return Path(self.client.download_artifacts(run_id, artifact_path, str(destination)))
            source, target = elsewhere / artifact_path, destination / artifact_path
            target.parent.mkdir(parents=True, exist_ok=True)
            return Path((shutil.copytree if source.is_dir() else shutil.copyfile)(source, target))

    def artifact_paths(self, run_id: str, folder: str | None = None) -> set[str]:
        """Paths of what lies in a folder of a run's artifacts; None: at the top."""
        with translated(f"cannot list the artifacts of run {run_id}"):
            elsewhere = self._moved(run_id)
            if elsewhere is None:
                return {str(one.path) for one in self.client.list_artifacts(run_id, folder)}
            return {str(path.relative_to(elsewhere)) for path in (elsewhere / (folder or "")).glob("*")}

    def artifact_folder(self, run_id: str) -> Path | None:
        """Where a run's artifacts are on this machine; None where a server has them."""
        if self.artifact_root is None:
            return None
        with translated(f"cannot read the run `{run_id}` of {self.uri}"):
            location = self.client.get_run(run_id).info.artifact_uri
        return moved.relocated(location, self.artifact_root) or moved.path_of(location)

    def _moved(self, run_id: str) -> Path | None:
        """Where a run's artifacts are, if their folder was moved together with the database."""
        if self.artifact_root is None:
            return None
        return moved.relocated(self.client.get_run(run_id).info.artifact_uri, self.artifact_root)


_ANSWERED = {
    "401": "the server does not accept this user and password: give them in the address, or in "
    "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
    "403": "this user has no permission on the server: ask the server's owner for it",
    "404": "check the address and its path: the server at this address is not an MLflow server",
}
"""What to do, by the status of a server's answer."""
_STATUS = re.compile(r"\berror code (40[134])\b")
"""In MLflow's message about the answer of a server."""


@contextlib.contextmanager
def translated(message: str, *, hint: str | None = None) -> Iterator[None]:
    """Make MLflow's errors, and those of the files below it, errors that a user can read."""
    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        # the database's own word is short; SQLAlchemy adds the statement to it, MlflowException its code
        own = getattr(error, "orig", None) or getattr(error, "message", None)
        reason, _, _ = (shortened(str(own)) if own else one_line(error)).partition(" [SQL: ")
        if full_disk.is_said(reason):
            hint = hint or full_disk.remedy(reason)
        if status := _STATUS.search(reason):
            hint = _ANSWERED[status[1]]
        raise PipelineError(f"{message}: {reason}", hint=hint) from error


def warn_skipped(skipped: Counter[str]) -> None:
    """Say what could not be logged, and how often; nothing where all could."""
    if skipped:
        listed = ", ".join(f"{name} ({count} x)" for name, count in sorted(skipped.items()))
        logger.warning(
            "not logged, because the value is not finite or MLflow does not accept the name: %s", listed
        )
