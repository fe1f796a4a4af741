"""The targets of a corpus of one's own: a class or a score under a key of each line."""

from pathlib import Path

from feature_store.errors import BadInputError, RequestError, did_you_mean, quoted, shown
from feature_store.sources.base import Query, Report, TargetSpec
from feature_store.sources.fields import class_number
from feature_store.sources.labels import LabelCount, check_label
from feature_store.sources.task_file import MAIN_KEYS, TASK_FILE, TaskFile


class OwnTarget:
    """Reads one target of each line, and counts its classes."""

    def __init__(self, target: TargetSpec) -> None:
        self.key = target.name
        self._numbers = {name: number for number, name in enumerate(target.class_names or ())}
        self._low, self._high = target.score_range
        self._labels = LabelCount()
        self._is_main = self.key in MAIN_KEYS.values()

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
        named = "" if self._is_main else f" as `{self.key}`"
        raise BadInputError(
            f"expected a score in [{_number(self._low)}, {_number(self._high)}]{named}, "
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
        return f"`score_range = [LOWEST, HIGHEST]` in {TASK_FILE} sets the range of the scores"

    def tell(self, report: Report, train: str) -> None:
        """Say what classes the file `train` has."""
        if self._numbers:
            of = "" if self._is_main else f" for `{self.key}`"
            self._labels.tell(report, tuple(self._numbers), f"{train}{of}")


def sides_of(query: Query, stated: TaskFile, path: Path) -> list[TargetSpec]:
    """What the task file says of the side targets that are asked for.

    Raises:
        RequestError: if the main target has another name, or the file does not describe a side target.
    """
    if not query.sides:
        return []
    main = stated.main.name
    if query.aspect != main:
        raise RequestError(
            f"expected `{main}` as the main target of a {stated.main.kind}, but got `{query.aspect}`",
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
    return [stated.targets[name] for name in query.sides]


def _number(edge: float) -> str:
    return str(int(edge)) if edge.is_integer() else str(edge)
