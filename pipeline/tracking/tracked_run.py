"""A run as MLflow has it, under the names of this project."""

import contextlib
import getpass
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.tracking import sections


def written(value: Any) -> str:
    """A parameter as MLflow stores it: text as it is, all else as JSON, so that numbers parse back equal."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def read_back(text: str) -> Any:
    """The value that `written` wrote."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def made_by() -> dict[str, str]:
    """Tags by which MLflow's pages say who made a run, and with what."""
    tags = {"mlflow.source.type": "LOCAL", "mlflow.source.name": Path(sys.argv[0]).name}
    with contextlib.suppress(KeyError, OSError):  # in a container whose user has no name
        tags["mlflow.user"] = getpass.getuser()
    return tags


def milliseconds(seconds: float | None) -> int | None:
    """A time as MLflow takes it."""
    return None if seconds is None else int(seconds * 1000)


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """What MLflow knows about a run."""

    run_id: str
    experiment_id: str
    name: str
    status: str
    """RUNNING, FINISHED, FAILED or KILLED."""
    params: dict[str, str]
    metrics: dict[str, float]
    """Last value of each, by its flat name."""
    tags: dict[str, str]
    started: float
    """Seconds since 1970."""
    ended: float | None

    @classmethod
    def of(cls, run: Any) -> "TrackedRun":
        """Take over what is needed of MLflow's own `Run`."""
        info, data = run.info, run.data
        return cls(
            run_id=info.run_id,
            experiment_id=info.experiment_id,
            name=info.run_name or info.run_id,
            status=info.status,
            params=dict(data.params),
            metrics=sections.all_flat(data.metrics),
            tags=dict(data.tags),
            started=info.start_time / 1000,
            ended=None if info.end_time is None else info.end_time / 1000,
        )
