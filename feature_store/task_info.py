"""What built features say of their targets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from feature_store.sources.base import TargetSpec, TaskKind
from feature_store.wording import counted


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskInfo(TargetSpec):
    """What is predicted; mean and variance are those of the training targets, the name is for several."""

    target_mean: float
    target_variance: float
    sides: tuple["TaskInfo", ...] = ()
    """The side targets."""

    @property
    def side_classes(self) -> Mapping[str, int | None]:
        """Name -> number of classes of each side target; None for a regression."""
        return {side.name: side.num_classes for side in self.sides}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> "TaskInfo":
        """What a manifest says of the targets.

        Raises:
            KeyError, TypeError, ValueError: if it is something else.
        """
        found = {**stored, "sides": tuple(cls.of_json(side) for side in stored.get("sides", ()))}
        names = stored["class_names"]
        found["class_names"] = None if names is None else tuple(names)
        if "score_range" in found:  # features of before it was kept are of [0, 1]
            found["score_range"] = tuple(found["score_range"])
        return cls(**found)

    def __post_init__(self) -> None:
        """Refuse what no build writes."""
        titles = [self.name, *(side.name for side in self.sides)]
        if self.sides and (not all(titles) or len(set(titles)) < len(titles)):
            raise ValueError(f"expected a name of its own for each target, but got {titles}")
        if not all(isinstance(title, str) for title in titles):
            raise ValueError(f"expected names of targets, but got {titles}")
        if len(self.score_range) != 2 or not all(type(end) is float for end in self.score_range):
            raise ValueError(f"expected the lowest and the highest score, but got {self.score_range}")
        if not self.score_range[0] < self.score_range[1] < math.inf:
            raise ValueError(f"expected scores that differ, but got {self.score_range}")
        names, numbers = self.class_names or (), (self.target_mean, self.target_variance)
        if self.kind not in get_args(TaskKind) or (self.kind == "classification") != bool(names):
            raise ValueError(f"no task of kind {self.kind!r} with {counted(len(names), 'class')}")
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"expected names of classes, but got {names}")
        if not all(type(number) is float and math.isfinite(number) for number in numbers):
            raise ValueError(f"expected mean and variance of the targets, but got {numbers}")
