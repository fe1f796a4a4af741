"""Faults that a search has to survive, one module for each family."""

from benchmarks.faulting import cache, driver, failures, interrupt, storage, tracking, upload, worker
from benchmarks.faulting.frame import Fault

_FEW = 0.25
"""Of the moments, where a fault has a narrow window."""
_ONCE = 0.01

FAULTS = {
    fault.name: fault
    for fault in (
        Fault("driver", driver.anywhere, "kill -9 of the driver's process group at random moments", short=1),
        Fault("driver-early", driver.early, "the same before the first trial, nothing cached", _FEW),
        Fault("driver-late", driver.late, "the same while the winner is packed and registered", _FEW),
        Fault("driver-twice", driver.twice, "the same, and again while it is resumed", _FEW),
        Fault("worker", worker.killed, "kill -9 of the process that trains a trial", 0.5, short=1),
        Fault("mlflow-stopped", tracking.stopped, "MLflow's server does not answer for a while", _FEW),
        Fault("mlflow-restarted", tracking.restarted, "it is ended and started again", _FEW, short=1),
        Fault("mlflow-gone", tracking.gone, "it is ended, and comes back after the search", _FEW),
        Fault("mlflow-locked", tracking.locked, "another process locks MLflow's SQLite file", _FEW),
        Fault("mlflow-full", tracking.full, "the disk of MLflow's database and artifacts fills", _FEW),
        Fault("storage-full", storage.full, "the disk of all results fills", _FEW),
        Fault("upload-torn", upload.broken_off, "an upload to an object store is broken off", _FEW, short=1),
        Fault("mlflow-shared", tracking.shared, "two searches at once on one new SQLite file", _FEW),
        Fault("cache-together", cache.together, "two processes build the same at once", 0.4, short=1),
        Fault("cache-killed", cache.killed, "a builder is killed at a random moment", 1.0, short=1),
        Fault("cache-full", cache.full, "the disk fills, then there is room", 0.4, short=1),
        Fault(
            "cache-damaged", cache.damaged, "each kind of file cut short, or a bit flipped", _ONCE, short=0
        ),
        *(
            Fault(f"failure-{reason}", inject, f"trials that fail as {reason}", _ONCE)
            for reason, inject in failures.REASONS
        ),
        Fault("interrupt", interrupt.once, "Ctrl-C", _FEW, short=1),
        Fault("interrupt-twice", interrupt.twice, "Ctrl-C, and again within a second", _FEW),
        Fault("terminate", interrupt.terminated, "SIGTERM to the driver", _FEW),
    )
}
"""By name, in the order of the table."""
