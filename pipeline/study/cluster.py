"""Ray: a private one on this machine, or the cluster that an address names.

An `address` is of a running cluster; None means RAY_ADDRESS, else a private Ray on this machine.
"""

import contextlib
import dataclasses
import logging
import os
import secrets
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from feature_store import terminal
from feature_store.command_line import ENV_CACHE
from pipeline.base import interruption, reach
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.study import ray_private
from pipeline.training.settings import RunSettings

logger = logging.getLogger("pipeline.study.cluster")

LOCAL = "local"
"""Ray's name for a private instance on this machine."""
_NUM_STARTS = 3
"""Tries to start one."""


@contextlib.contextmanager
def session(address: str | None, num_cpus: int | None = None) -> Iterator[None]:
    """Connect to Ray and leave it at the end, each as a step; a local one is started and stopped.

    Args:
        num_cpus: logical cores of the local one; None: all.

    Raises:
        PipelineError: if the cluster cannot be reached.
    """
    import ray  # 1.5 s that --help need not wait for

    wanted = _wanted(address)
    try:
        with terminal.step("starting Ray" if wanted == LOCAL else "connecting to Ray"):
            if wanted == LOCAL and _ahead:
                _ahead[0].result()
            elif wanted == LOCAL:
                _start(num_cpus)
            else:
                ray.init(address=wanted, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # Ray raises that class itself, as where a node does not start in time
        reason = " ".join(str(error).split())
        if wanted == LOCAL:
            hint = "if other programs keep this machine busy, run the same command again later"
            raise PipelineError(f"cannot start Ray on this machine: {reason}", hint=hint) from error
        where = "--address" if address else "RAY_ADDRESS"
        raise PipelineError(f"cannot reach Ray at `{wanted}`: {reason}", where=where) from error
    interruption.renew()
    try:
        yield
    finally:
        with terminal.step("leaving Ray"):
            ray.shutdown()
            interruption.renew()


_ahead: list[Future[None]] = []
"""The start under way inside of `started_ahead`."""


@contextlib.contextmanager
def started_ahead(address: str | None) -> Iterator[None]:
    """Start a private Ray while the body prepares what it needs; `session` within the body waits for it.

    A cluster is not asked yet. Ray does not run any more at the end, also where the body has not used it.
    """
    if not is_local(address):
        yield
        return
    import ray  # here, so that no two threads load the same package

    # its thread stays until Ray is left: Linux kills Ray's processes when the thread that started them ends
    with ThreadPoolExecutor(1) as other:
        start = other.submit(_start, None)
        _ahead[:] = [start]
        try:
            yield
        finally:
            _ahead.clear()
            if start.exception() is None and ray.is_initialized():
                ray.shutdown()


def _start(num_cpus: int | None) -> None:
    """Start a private Ray; Ray gives it 30 s, too few for a machine that is busy, so it is tried again."""
    import ray

    # a token of our own: other users of this machine cannot talk to it, and no file is left behind
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    # sockets of a long temporary path would not fit their 107 bytes
    temporary = os.path.join(tempfile.gettempdir(), "ray")
    for left in reversed(range(_NUM_STARTS)):
        try:
            with ray_private.without_api_server(), ray_private.in_their_own_groups():
                ray.init(
                    address=LOCAL,
                    num_cpus=num_cpus,
                    runtime_env=_own_python(),
                    _temp_dir=temporary,
                    include_dashboard=False,
                    logging_level=logging.ERROR,
                    log_to_driver=False,
                )
        except Exception as error:
            ray.shutdown()
            if not left or ray_private.STARTS_LATE not in str(error):
                raise
            logger.warning("Ray did not start within 30 s; trying again")
        else:
            return


def _own_python() -> dict[str, str] | None:
    """How a worker starts Python where a shell would not take its path for one word, as with a blank in it.

    Ray writes the path into a line for bash as it is: no worker would start, and Ray would try for ever.
    """
    quoted = shlex.quote(sys.executable)
    return None if quoted == sys.executable else {"py_executable": quoted}


def _wanted(address: str | None) -> str:
    return address or os.environ.get("RAY_ADDRESS") or LOCAL


def share_cache(storage: Storage, cache_dir: str | None) -> None:
    """Let the workers of a private Ray look for features where `--cache-dir` says, if results are at a URI.

    The other machines of a cluster use their own cache folders.
    """
    if storage.is_remote and cache_dir:
        os.environ[ENV_CACHE] = str(Path(cache_dir).resolve())


def check_address(address: str | None) -> None:
    """Find a cluster that is not there before anything is prepared for it.

    Raises:
        PipelineError: if nobody listens at the address, or where there is none at RAY_ADDRESS.
    """
    if not is_local(address):
        reach.check_ray(_wanted(address), "--address" if address else "RAY_ADDRESS")


def is_local(address: str | None) -> bool:
    """Whether an address, or where there is none RAY_ADDRESS, means a private Ray on this machine."""
    return _wanted(address) == LOCAL


def here(run: RunSettings, address: str | None) -> RunSettings:
    """The settings for what this process computes itself: on its CPU where only other nodes may have a GPU.

    Args:
        run: of the trials, which may run on other nodes.
    """
    if is_local(address) or not (run.bf16 or run.device.startswith("cuda")):
        return run
    import torch

    return run if torch.cuda.is_available() else dataclasses.replace(run, device="cpu", bf16=False)


def check_packing(address: str | None, device: str) -> None:
    """Refuse early to measure trials where there can be no GPU to measure on.

    Raises:
        PipelineError: if the trials run on the CPU, or are to run on this machine and it has no GPU.
    """
    import torch  # takes seconds that --help need not wait for

    flag, hint = "--gpus-per-trial auto", "leave out the flag, or name a cluster with `--address`"
    if device not in ("auto", "cuda"):
        raise PipelineError(
            f"this flag needs GPUs that Ray chooses, but `--device` is {device}",
            where=flag,
            hint="use `--device auto`",
        )
    if is_local(address) and not torch.cuda.is_available():
        raise PipelineError(f"torch {torch.__version__} sees no GPU on this machine", where=flag, hint=hint)


def check_machine(cpus: float, gpus: float, what: str) -> None:
    """Refuse what this machine can never run, before anything is prepared.

    Args:
        what: how the flags `--cpus-per-WHAT` and `--gpus-per-WHAT` call it.

    Raises:
        PipelineError: if there are fewer cores or GPUs.
    """
    asked = {"CPU": (cpus, os.cpu_count() or 1), "GPU": (gpus, num_local_gpus() if gpus else 0)}
    _refuse_more(asked, what, "lower the value of this flag")


def num_local_gpus() -> int:
    """GPUs of this machine that torch sees."""
    import torch  # takes seconds that --help need not wait for

    return torch.cuda.device_count()


def _refuse_more(asked: Mapping[str, tuple[float, float]], what: str, hint: str) -> None:
    for kind, (wanted, there) in asked.items():
        if wanted > there:
            raise PipelineError(
                f"one {what} needs {wanted:g} {kind}, but this machine has {there:g}",
                where=f"--{kind.lower()}s-per-{what}",
                hint=hint,
            )


def check_resources(
    address: str | None, cpus_per_trial: float, gpus_per_trial: float, what: str = "trial"
) -> None:
    """Refuse trials that a local Ray can never start; a cluster may still grow.

    Args:
        what: how the flags `--cpus-per-WHAT` and `--gpus-per-WHAT` call it.

    Raises:
        PipelineError: if a trial asks for more cores or GPUs than this machine has.
    """
    import ray

    if not is_local(address):
        return
    there = ray.cluster_resources()
    asked = {"CPU": (cpus_per_trial, there.get("CPU", 0.0)), "GPU": (gpus_per_trial, there.get("GPU", 0.0))}
    hint = "ask for less, or name a cluster with `--address`" if what == "trial" else "ask for less"
    _refuse_more(asked, what, hint)


def num_cores() -> float:
    """Cores of the connected Ray."""
    import ray

    return float(ray.cluster_resources().get("CPU", 0))


def num_slots(cpus_per_trial: float, gpus_per_trial: float, most: int = 0) -> int:
    """Trials that the connected Ray can run at once; at least one, for a cluster may still grow.

    Args:
        most: that are allowed; 0: any number.
    """
    import ray

    there = ray.cluster_resources()
    asked = (("CPU", cpus_per_trial), ("GPU", gpus_per_trial))
    fitting = [int(there.get(kind, 0.0) / wanted + 1e-9) for kind, wanted in asked if wanted > 0]
    return max(1, min([*fitting, *([most] if most else [])], default=1))


def prepare_environment(address: str | None = None) -> None:
    """Set what Ray and MLflow read when they are imported: nothing is sent home, stdout is ours.

    A private Ray listens on 127.0.0.1 alone, as it does by itself on other systems than Linux.

    Must run before either is imported; what the user has set stays.
    """
    defaults = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AIR_NEW_OUTPUT": "0",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        # a line of ours says what became of a trial; the traceback is in its folder
        "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
        "RAY_IGNORE_UNHANDLED_ERRORS": "1",
        # it would print a stack of C++ at SIGTERM, and answer in place of us
        "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",
        # Tune would end the search at an interrupt as if all had been trained
        "TUNE_DISABLE_SIGINT_HANDLER": "1",
        # workers keep freed memory: asking the kernel for it again at each step costs a tenth of the time
        "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4000000000:glibc.malloc.trim_threshold=8000000000",
        # threads that wait for one another by spinning take the cores from whatever else runs beside a search
        "OMP_WAIT_POLICY": "PASSIVE",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        # stdout holds the result alone
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    }
    if _wanted(address) == LOCAL:
        defaults["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray's name for: take part in no cluster
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
