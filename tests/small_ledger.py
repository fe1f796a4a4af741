"""Ledgers with trials in them, for tests."""

from pathlib import Path
from typing import Any

from pipeline.study.ledger import Ledger, Proposal
from pipeline.training.epochs import OBJECTIVE, VIOLATION, Epoch
from tests.small_study import POINT


def an_epoch(number: int, **more: float) -> Epoch:
    """What an epoch gave: an objective that rises; `more` by flat names."""
    rising = {OBJECTIVE: 0.1 * (number + 1), "objective": 0.1 * (number + 1), VIOLATION: 0.0}
    return Epoch.of_numbers(number, {**rising, "val_mse": 0.02, "epoch_s": 1.5, **more})


def checkpoint(trial_id: str, epoch: int) -> str:
    """Where the checkpoint of an epoch lies, below the study's folder."""
    return f"tune/{trial_id}/checkpoint_{epoch:06d}"


def train(
    ledger: Ledger,
    trial_id: str,
    num_epochs: int,
    *,
    of: int = 2,
    config: dict[str, Any] | None = None,
    is_replicate: bool = False,
    failure: tuple[str, str] | None = None,
    **more: float,
) -> None:
    """Let a trial train epochs up to a number, from where it is.

    Args:
        ledger: of the study.
        trial_id: of the trial; it is begun where it is new.
        num_epochs: epochs that it has then.
        of: epochs of a whole trial.
        config: its hyper-parameters.
        is_replicate: Optuna did not propose it.
        failure: reason and message that end it.
        more: numbers of each epoch.
    """
    point = POINT if config is None else config
    proposal = None if is_replicate else Proposal(dict(point), {})
    ledger.begin(trial_id, point, proposal)
    known = next(record for record in ledger.trials() if record.trial_id == trial_id)
    for epoch in range(len(known.epochs), num_epochs):
        given = an_epoch(epoch, **more)
        ledger.epoch(trial_id, given, checkpoint(trial_id, epoch), is_last=epoch + 1 == of)
    if failure is not None:
        ledger.fail(trial_id, *failure)


def a_ledger(folder: Path) -> Ledger:
    """Of a study with a trial that is over, one that is not, and one that failed."""
    ledger = Ledger(folder)
    train(ledger, "over", 2)
    train(ledger, "open", 1)
    train(ledger, "failed", 1, failure=("non_finite", "epoch 1: the loss is nan"))
    return ledger
