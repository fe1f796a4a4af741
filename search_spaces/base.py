"""The criterion by which models are chosen, as data."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal, get_args

BoundKind = Literal["at_least", "at_most"]

_CONDITION = re.compile(r"([\w/]+) *([<>]=) *(-?\d*\.?\d+(?:e[-+]?\d+)?)")
_SENTENCE = re.compile(
    r"(?:best +)?(?P<metric>(?!best\b)[\w/]+)(?: +with +(?P<conditions>"
    rf"{_CONDITION.pattern}(?: *, *{_CONDITION.pattern})*))?"
    r"(?: *,? *at +(?P<percent>\d*\.?\d+) *% +of +the +tokens)?"
)
"""What a criterion looks like as a sentence."""

_DIGITS = 12
"""Of a rate as a fraction: without the noise of its division by 100."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """A score that a model must keep, from below or from above.

    Raises:
        ValueError: if the kind is neither `at_least` nor `at_most`.
    """

    metric: str
    limit: float
    kind: BoundKind

    def __post_init__(self) -> None:
        kinds = get_args(BoundKind)
        if self.kind not in kinds:
            raise ValueError(
                f"bound on `{self.metric}`: kind must be one of {', '.join(kinds)}, but got {self.kind!r}"
            )

    def violation(self, scores: Mapping[str, float]) -> float:
        """How far the score lies on the wrong side; 0 where it holds."""
        gap = self.limit - scores[self.metric]
        return max(0.0, gap if self.kind == "at_least" else -gap)

    def __str__(self) -> str:
        return f"{self.metric} {'>=' if self.kind == 'at_least' else '<='} {self.limit:g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """Maximise one validation score subject to bounds on others; beer's is recall at a precision."""

    metric: str
    bounds: tuple[Bound, ...]
    why: str
    rate: float | None = None
    """Share of the tokens that every model selects when it is judged, by a threshold that is set for it, in
    (0, 1); None: a model selects what it selects, at p >= 0.5."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every score that it reads, the one to maximise first."""
        return (self.metric, *(bound.metric for bound in self.bounds))

    def violation(self, scores: Mapping[str, float]) -> float:
        """Sum of the bounds' violations, 0 where all hold."""
        return sum(bound.violation(scores) for bound in self.bounds)

    def is_met(self, scores: Mapping[str, float]) -> bool:
        """Whether every bound holds."""
        return self.violation(scores) == 0

    def value(self, scores: Mapping[str, float]) -> float:
        """One number to maximise: the metric where the bounds hold, else minus the violation (below 0).

        Raises:
            ValueError: if a score that it reads is not finite.
        """
        for name in self.metrics:
            if not math.isfinite(scores[name]):
                raise ValueError(f"the criterion reads `{name}`, which is {scores[name]}")
        violation = self.violation(scores)
        return scores[self.metric] if violation == 0 else -violation

    def with_limit(self, metric: str, limit: float, why: str) -> "Criterion":
        """The same criterion with another limit on `metric`; itself where the limit is what it was.

        Args:
            metric: of the bound.
            limit: the new one.
            why: where the new one comes from.

        Raises:
            ValueError: if it has no bound on that metric.
        """
        if metric not in [bound.metric for bound in self.bounds]:
            raise ValueError(f"the criterion has no bound on `{metric}`: {self}")
        if all(bound.limit == limit for bound in self.bounds if bound.metric == metric):
            return self
        changed = [
            Bound(metric=b.metric, limit=limit, kind=b.kind) if b.metric == metric else b for b in self.bounds
        ]
        return replace(self, bounds=tuple(changed), why=why)

    def at_rate(self, rate: float) -> "Criterion":
        """The same criterion for models that select this share of the tokens, in (0, 1).

        A bound on the selection rate that such models could not keep, or would miss by rounding, moves aside:
        the rate is held on validation texts, and others differ a little.
        """
        return replace(self, bounds=tuple(_around(bound, rate) for bound in self.bounds), rate=rate)

    def to_json(self) -> str:
        """The criterion as JSON, for `from_json`."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Criterion":
        """The criterion that `to_json` wrote.

        Raises:
            ValueError: if the text is anything else.
        """
        try:
            stored = json.loads(text)
            bounds = tuple(
                Bound(metric=str(one["metric"]), limit=float(one["limit"]), kind=one["kind"])
                for one in stored["bounds"]
            )
            rate = stored.get("rate")  # older ones state none
            return cls(
                metric=str(stored["metric"]),
                bounds=bounds,
                why=str(stored["why"]),
                rate=None if rate is None else float(rate),
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"expected a criterion as JSON, but got {text[:100]!r} ({error})") from error

    @classmethod
    def parse(cls, text: str, why: str = "as stated") -> "Criterion":
        """The criterion of a sentence such as `str` gives, `best NAME with NAME >= NUMBER, NAME <= NUMBER`.

        `, at NUMBER % of the tokens` may follow.

        Raises:
            ValueError: if the text is no such sentence.
        """
        found = _SENTENCE.fullmatch(text.strip())
        if found is None:
            raise ValueError(
                f"expected `best NAME with NAME >= NUMBER, NAME <= NUMBER`, but got {text[:100]!r}"
            )
        bounds = tuple(
            Bound(metric=name, limit=float(limit), kind="at_least" if sign == ">=" else "at_most")
            for name, sign, limit in _CONDITION.findall(found["conditions"] or "")
        )
        percent = found["percent"]
        rate = None if percent is None else round(float(percent) / 100, _DIGITS)
        return cls(metric=found["metric"], bounds=bounds, why=why, rate=rate)

    def __str__(self) -> str:
        conditions = ", ".join(str(bound) for bound in self.bounds)
        text = f"best {self.metric}" + (f" with {conditions}" if conditions else "")
        return text if self.rate is None else f"{text}, {at_rate(self.rate)}"


_ROOM = 0.02
"""How far the selection rate of other texts may lie above the one that is held on validation texts."""
SELECTION_RATE = "val_selection_rate"


def _around(bound: Bound, rate: float) -> Bound:
    """A bound that models of this selection rate can keep."""
    if f"val_{bound.metric.removeprefix('val_').rpartition('/')[2]}" != SELECTION_RATE:  # of any target
        return bound
    if bound.kind == "at_most" and bound.limit <= rate:
        return replace(bound, limit=round(rate + _ROOM, _DIGITS))
    if bound.kind == "at_least" and bound.limit >= rate:
        return replace(bound, limit=round(rate / 2, _DIGITS))
    return bound


def at_rate(rate: float) -> str:
    """A held selection rate in words: `at 8 % of the tokens`."""
    return f"at {100 * rate:.6g} % of the tokens"
