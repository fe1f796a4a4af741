"""What a search varies: ranges of numbers, choices among values, and where each of them applies."""

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

Role = Literal["scientific", "nuisance"]
Value = int | float | str | bool
"""What a hyper-parameter may be."""
Point = Mapping[str, Any]
"""A value for each hyper-parameter that a trial varies."""

# Grid values carry float noise (0.30000000000000004); twelve digits remove it and keep every grid here apart.
_DIGITS = 12


def without_noise(value: float) -> float:
    """A number without the noise of floating-point arithmetic."""
    return round(float(value), _DIGITS)


class Suggests(Protocol):
    """The methods of an Optuna trial that a space calls."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """A number of `name` between `low` and `high`."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """A whole number of `name` between `low` and `high`."""

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """One of the values of `name`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parameter:
    """What every kind of searched hyper-parameter has."""

    name: str
    """Field of the method's config."""
    role: Role = "scientific"
    """`scientific`: the question asked; `nuisance`: must be tuned so that the answer is fair."""
    why: str
    """Where the range comes from."""
    when: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """It is searched only where each of these hyper-parameters, which the space has before it, has one of
    these values; elsewhere it keeps the value of the base config."""

    def applies(self, point: Point) -> bool:
        """Whether it is searched, given the values of the hyper-parameters before it."""
        return all(name in point and point[name] in values for name, values in self.when.items())

    @property
    def condition(self) -> str:
        """Its condition in words, ` where encoder is rcnn or lstm`; empty where it is always searched."""
        parts = [f"{name} is {' or '.join(map(str, values))}" for name, values in self.when.items()]
        return f" where {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Range(_Parameter):
    """The numbers that one hyper-parameter may be: low, low + step, ..., high, or all between.

    Raises:
        ValueError: if the bounds are crossed, a step does not divide the width, a log scale starts at 0, or
            an integer range has a bound or step that is no whole number.
    """

    low: float
    high: float
    step: float | None = None
    """Distance of the grid's points; None: continuous, or every whole number of an integer range."""
    log: bool = False
    """Whether the logarithm is what is uniform."""
    is_integer: bool = False
    """Whether the values are whole numbers."""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"range of `{self.name}`: low {self.low} must be below high {self.high}")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError(
                f"range of `{self.name}`: a log scale needs low > 0 and no step, but got low {self.low}, "
                f"step {self.step}"
            )
        for value in (self.low, self.high, self.step or 1):
            if self.is_integer and not float(value).is_integer():
                raise ValueError(f"range of `{self.name}`: expected whole numbers, but got {value}")
        if self.step is not None:
            steps = (self.high - self.low) / self.step if self.step > 0 else math.inf
            if math.isinf(steps) or not math.isclose(steps, round(steps), abs_tol=1e-6):
                width = f"{self.low}..{self.high}"
                raise ValueError(
                    f"range of `{self.name}`: the width of {width} is not a multiple of the step {self.step}"
                )

    @property
    def ends(self) -> tuple[float, ...]:
        """The lowest and the highest value."""
        return self.clean(self.low), self.clean(self.high)

    @property
    def is_continuous(self) -> bool:
        """Whether it has no grid."""
        return self.step is None and not self.is_integer

    @property
    def grid(self) -> tuple[float, ...]:
        """Every value of a stepped or integer range, ends included.

        Raises:
            ValueError: if the range is continuous.
        """
        if self.is_continuous:
            raise ValueError(f"range of `{self.name}` is continuous and has no grid; choose a stepped space")
        step = self.step or 1
        count = round((self.high - self.low) / step) + 1
        return tuple(self.clean(self.low + i * step) for i in range(count))

    def suggest(self, trial: Suggests) -> float:
        """Let an Optuna trial choose a value."""
        if self.is_integer:
            low, high, step = int(self.low), int(self.high), int(self.step or 1)
            return trial.suggest_int(self.name, low, high, step=step, log=self.log)
        return self.clean(trial.suggest_float(self.name, self.low, self.high, step=self.step, log=self.log))

    def draw(self, chance: random.Random) -> float:
        """A value at random."""
        return chance.uniform(self.low, self.high) if self.is_continuous else chance.choice(self.grid)

    def contains(self, value: Any) -> bool:
        """Whether `value` may be drawn from this range."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not self.low <= value <= self.high:
            return False
        return self.is_continuous or any(math.isclose(value, point, abs_tol=1e-9) for point in self.grid)

    def clean(self, value: float) -> float:
        """The value without the noise of floating-point arithmetic on a grid."""
        return round(value) if self.is_integer else without_noise(value)

    def __str__(self) -> str:
        scale = "log scale" if self.log else f"step {self.step:g}" if self.step else "continuous"
        if self.is_integer and not self.step:
            scale = "whole numbers" + (", log scale" if self.log else "")
        return f"{self.low:g} .. {self.high:g}, {scale}{self.condition}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice(_Parameter):
    """The values among which one hyper-parameter is chosen, without an order.

    Raises:
        ValueError: if there are fewer than two values, or one of them twice.
    """

    choices: tuple[Value, ...]

    def __post_init__(self) -> None:
        if len(set(self.choices)) < max(2, len(self.choices)):
            listed = ", ".join(map(str, self.choices))
            raise ValueError(
                f"choices of `{self.name}`: expected at least two values, all different, but got {listed}"
            )

    @property
    def ends(self) -> tuple[Value, ...]:
        """Every value: any may be the extreme."""
        return self.choices

    @property
    def is_continuous(self) -> bool:
        """Never: it is a list of values."""
        return False

    @property
    def grid(self) -> tuple[Value, ...]:
        """Every value."""
        return self.choices

    def suggest(self, trial: Suggests) -> Any:
        """Let an Optuna trial choose a value."""
        return trial.suggest_categorical(self.name, self.choices)

    def draw(self, chance: random.Random) -> Value:
        """A value at random."""
        return chance.choice(self.choices)

    def contains(self, value: Any) -> bool:
        """Whether `value` is one of the choices."""
        return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in self.choices)

    def clean(self, value: Any) -> Any:
        """The value as it is."""
        return value

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.choices))}{self.condition}"


Parameter = Range | Choice
Space = tuple[Parameter, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """What a search of one method on one data set varies, and where it starts."""

    spaces: Mapping[str, Space]
    """By name; `paper` is a grid."""
    first_points: Sequence[Point]
    """Points to try first where a space holds them, the published best values before our own."""


def check(space: Space) -> None:
    """Refuse a space whose names or conditions do not fit together.

    Raises:
        ValueError: if a hyper-parameter stands in it twice, or a condition names one that does not stand
            before it, or a value that this one cannot have.
    """
    before: dict[str, Parameter] = {}
    for one in space:
        if one.name in before:
            raise ValueError(f"`{one.name}` is searched twice")
        for name, values in one.when.items():
            if name not in before:
                raise ValueError(
                    f"the condition of `{one.name}` names `{name}`, which must be searched too, in a table "
                    f"above that of `{one.name}`"
                )
            for value in values:
                if not before[name].contains(value):
                    raise ValueError(
                        f"the condition of `{one.name}` needs {name} = {value}, which is not among the "
                        f"values of `{name}`"
                    )
        before[one.name] = one


def has_conditions(space: Space) -> bool:
    """Whether what is searched depends on values of the search."""
    return any(one.when for one in space)


def applying(space: Space, point: Point) -> Space:
    """The hyper-parameters of a space that a point varies."""
    found: list[Parameter] = []
    drawn: dict[str, Any] = {}
    for one in space:
        if one.applies(drawn):
            found.append(one)
            if one.name in point:
                drawn[one.name] = point[one.name]
    return tuple(found)


def suggest(space: Space, trial: Suggests) -> dict[str, Any]:
    """Let an Optuna trial choose a point."""
    return _point(space, lambda one: one.suggest(trial))


def draw(space: Space, chance: random.Random) -> dict[str, Any]:
    """A point at random."""
    return _point(space, lambda one: one.draw(chance))


def _point(space: Space, value_of: Callable[[Parameter], Any]) -> dict[str, Any]:
    """A point: a value of each hyper-parameter that applies, given those before it."""
    point: dict[str, Any] = {}
    for one in space:
        if one.applies(point):
            point[one.name] = value_of(one)
    return point


def restricted(space: Space, point: Point) -> dict[str, Any] | None:
    """A point as this space would draw it, what it does not vary left out; None where it cannot be drawn."""
    found: dict[str, Any] = {}
    for one in applying(space, point):
        if one.name not in point or not one.contains(point[one.name]):
            return None
        found[one.name] = point[one.name]
    return found


def num_points(space: Space) -> int | None:
    """How many points a space has; None where a range is continuous."""
    if any(one.is_continuous for one in space):
        return None
    return _count(space, {}, {name for one in space for name in one.when})


def _count(space: Space, point: dict[str, Any], deciding: set[str]) -> int:
    if not space:
        return 1
    first, rest = space[0], space[1:]
    if not first.applies(point):
        return _count(rest, point, deciding)
    if first.name in deciding:
        return sum(_count(rest, point | {first.name: value}, deciding) for value in first.grid)
    return len(first.grid) * _count(rest, point, deciding)


def to_json(space: Space) -> str:
    """A space as JSON, for `from_json`."""
    return json.dumps([asdict(one) for one in space], ensure_ascii=False)


def from_json(text: str) -> Space:
    """The space that `to_json` wrote.

    Raises:
        ValueError: if the text is anything else.
    """
    try:
        return tuple(_of_stored(one) for one in json.loads(text))
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise ValueError(f"expected a search space as JSON, but got {text[:100]!r} ({error})") from error


def _of_stored(stored: dict[str, Any]) -> Parameter:
    stored["when"] = {name: tuple(values) for name, values in stored["when"].items()}
    if "choices" in stored:
        return Choice(**stored | {"choices": tuple(stored["choices"])})
    return Range(**stored)
