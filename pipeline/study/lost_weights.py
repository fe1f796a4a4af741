"""Studies some of whose trials have lost their weights: what is refused, and the commands that continue."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence

from feature_store.wording import counted
from infocal.errors import StateError
from pipeline.base.errors import PipelineError
from pipeline.study import summary
from pipeline.study.criterion import Candidate, within_reach
from pipeline.study.study import Study
from pipeline.training.best import best_first
from search_spaces.base import Criterion


def flag_to_register(candidate: Candidate, criterion: Criterion) -> str:
    """The flag, after a blank, that states a criterion which a trial meets; empty where it meets this one."""
    reached = None if candidate.is_met else within_reach([candidate], criterion)
    return "" if reached is None else f" {summary.stated(reached[0], criterion)}"


def command_for_nearest(
    study: Study, candidates: Sequence[Candidate], criterion: Criterion, command: str
) -> str:
    """The command that registers the trial nearest to a criterion that is missed, but for the limits stated.

    It names the trial if another one has lost its weights: that one may be the best by the limits stated.

    Args:
        candidates: the trials that have weights.
        command: registers a trial of the study.
    """
    nearest = within_reach(candidates, criterion)
    if nearest is None or not study.lost():
        return command
    return f"{command} --trial {study.ledger.number(nearest[1].trial_id)}"


def check_nothing_better(
    study: Study, winner: Candidate, command: str, *, is_own_criterion: bool = True
) -> None:
    """Refuse to take the next best trial for the best one.

    Args:
        winner: the best one that has weights, with its value by the study's criterion.
        command: registers a trial of the study, but for `--trial`.
        is_own_criterion: whether it is the best by the study's criterion. By another one nobody knows whether
            a trial that has lost its weights would be better.

    Raises:
        PipelineError: if a trial that reported a better epoch has lost its weights.
    """
    own = winner.standing
    if not is_own_criterion:
        own = dataclasses.replace(own, value=-math.inf)
    lost = [(record.last.epoch.best.standing, record) for record in study.lost() if record.last is not None]
    best, record = best_first([(own, None), *lost], lambda pair: pair[0])[0]
    if record is not None and best.value > -math.inf:
        number = study.ledger.number(winner.trial_id)
        standing = "is the best one" if is_own_criterion else "may be the best one"
        raise PipelineError(
            f"the weights of trial-{record.begin.number:02d} (best epoch) are missing; this trial {standing}",
            where=str(study.folder.place / record.checkpoints[0]),
            hint=_past_loss(f"{command} --trial {number}"),
        )


def check_not_all(study: Study) -> None:
    """Tell a study of which nothing is left apart from one that never finished an epoch.

    Raises:
        PipelineError: if trials reported epochs, and no weights of any trial are there.
    """
    if lost := study.lost():
        raise PipelineError(
            f"the weights of every trial are missing ({counted(len(lost), 'trial')} reported epochs)",
            where=str(study.folder.place / lost[0].checkpoints[0]),
            hint="restore the folders of all trials from a backup and run the command again, or start a new "
            "search with another `--name`",
        )


def _past_loss(command: str) -> str:
    return (
        f"restore the folder from a backup and run the command again, or take the next best trial: {command}"
    )


@contextlib.contextmanager
def offering_next(
    study: Study,
    chosen: Candidate,
    ranked: Sequence[Candidate],
    criterion: Criterion,
    command: str,
    flag: str,
) -> Iterator[None]:
    """Add to the error of a trial that cannot be packaged the command that registers the next best one.

    Args:
        chosen: the trial that is packaged.
        ranked: every trial with weights, best first by the criterion.
        criterion: by which they are ranked.
        command: registers a trial of the study, but for its flags.
        flag: states the criterion, after a blank, for a trial that meets it; empty: it is the study's.
    """
    try:
        yield
    except StateError as error:
        others = [one for one in ranked if one.trial_id != chosen.trial_id]
        if not others:
            raise
        stated = flag_to_register(others[0], criterion) or flag
        raise PipelineError(
            f"trial-{study.ledger.number(chosen.trial_id):02d} cannot be packaged: {error.message}",
            where=error.where,
            hint=_past_loss(f"{command}{stated} --trial {study.ledger.number(others[0].trial_id)}"),
        ) from error
