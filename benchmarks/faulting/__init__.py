"""Faults that a search has to survive, one module for each family."""

from benchmarks.faulting import driver, failures, interrupt, worker
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
        *(
            Fault(f"failure-{reason}", inject, f"trials that fail as {reason}", _ONCE, short=0)
            for reason, inject in failures.REASONS
        ),
        Fault("interrupt", interrupt.once, "Ctrl-C", _FEW, short=1),
        Fault("interrupt-twice", interrupt.twice, "Ctrl-C, and again within a second", _FEW),
        Fault("terminate", interrupt.terminated, "SIGTERM to the driver", _FEW),
    )
}
"""By name, in the order of the table."""
