"""The targets of a corpus of one's own: a class or a score under a key of each line."""

from collections.abc import Sequence
from pathlib import Path

from feature_store.errors import BadInputError, RequestError, did_you_mean, quoted, shown
from feature_store.sources.base import Query, Report, TaskKind
from feature_store.sources.fields import class_number
from feature_store.sources.labels import LabelCount, check_label
from feature_store.sources.task_file import TargetFile, TaskFile

MAIN_KEYS: dict[TaskKind, str] = {"classification": "label", "regression": "score"}
"""Kind of a task -> key of its main target in a line, and its name where there are several."""


class OwnTarget:
    """Reads one target of each line, and counts its classes.

    Args:
        key: of the target in a line.
        class_names: in the order of their numbers; None: a score.
        score_range: lowest and highest score.
        task_file: name of the file that states them, for messages.
    """

    def __init__(
        self,
        key: str,
        class_names: Sequence[str] | None,
        score_range: tuple[float, float],
        task_file: str,
    ) -> None:
        self.key, self._task_file = key, task_file
        self._numbers = {name: number for number, name in enumerate(class_names or ())}
        self._low, self._high = score_range
        self._labels = LabelCount()

    def of(self, value: object, where: str, *, is_train: bool) -> float:
        """Number of the class, or the score scaled to [0, 1].

        Raises:
            BadInputError: if there is no such class, or the score is out of its range.
        """
        if self._numbers:
            name = check_label(value, self.key, where)
            self._labels.add(value, name, is_train=is_train)
            return class_number(name, self._numbers, where)
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and self._low <= value <= self._high
        ):
            return (value - self._low) / (self._high - self._low)
        raise BadInputError(
            f"expected a score in [{_number(self._low)}, {_number(self._high)}]{self._named}, "
            f"but got {shown(value)}",
            where=where,
            hint=self._hint(value),
        )

    def _hint(self, value: object) -> str:
        """What to do about a value that is no score of the range."""
        if isinstance(value, str):
            return "a number in quotes is a text: remove the quotes"
        if value is None or value != value:  # NaN, which programs write for what is missing
            return "leave out the line: a text without a score can be neither learnt from nor scored"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"a score is one number, such as {_number(self._high)}"
        return f"`score_range = [LOWEST, HIGHEST]` in {self._task_file} sets the range of the scores"

    @property
    def _named(self) -> str:
        return "" if self.key in MAIN_KEYS.values() else f" as `{self.key}`"

    def tell(self, report: Report, train: str) -> None:
        """Say what classes the file `train` has."""
        if self._numbers:
            self._labels.tell(report, tuple(self._numbers), f"{train}{self._of_target}")

    @property
    def _of_target(self) -> str:
        return "" if self.key in MAIN_KEYS.values() else f" for `{self.key}`"


def sides_of(query: Query, stated: TaskFile, path: Path) -> dict[str, TargetFile]:
    """What the task file says of the side targets that are asked for.

    Raises:
        RequestError: if the main target has another name, or the file does not describe a side target.
    """
    if not query.sides:
        return {}
    main = MAIN_KEYS[stated.kind]
    if query.aspect != main:
        raise RequestError(
            f"expected `{main}` as the main target of a {stated.kind}, but got `{query.aspect}`",
            where="--aspect",
            hint=f"use `--aspect {','.join((main, *query.sides))}`",
        )
    for name in query.sides:
        if name not in stated.targets:
            there = f"it describes {quoted(list(stated.targets))}" if stated.targets else "it describes none"
            raise RequestError(
                f"{path} describes no target `{name}`; {there}",
                where="--aspect",
                hint=did_you_mean(name, stated.targets)
                or f'add `[targets.{name}]` with `kind = "classification"` or `kind = "regression"`',
            )
    return {name: stated.targets[name] for name in query.sides}


def _number(edge: float) -> str:
    return str(int(edge)) if edge.is_integer() else str(edge)
