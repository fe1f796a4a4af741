"""Where the parts of a chart stand, in pixels; the template `chart.svg.j2` draws them.

A chart is described in the units of its data and placed here, so that what a page shows can be checked as
numbers. Colour never tells two lines apart alone: each style has its own dash and marker too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

_MARGIN_LEFT, _MARGIN_TOP, _MARGIN_BOTTOM = 52, 14, 42
_LABEL_GAP = 14.0
"""Least distance of two labels at the ends of lines, in pixels: the height of their type."""

_NUM_TICKS = 6

_INSIDE = (-1e-9, 1 + 1e-9)
"""Places on an axis that count as inside, with room for rounding."""

MARKERS = {
    "circle": "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "square": "M-3.5,-3.5h7v7h-7z",
    "triangle": "M0,-4.6L4.4,3.4H-4.4z",
    "diamond": "M0,-5L5,0L0,5L-5,0z",
    "cross": "M-4,-4L4,4M-4,4L4,-4",
    "star": "M0,-8L2.1,-2.7L7.6,-2.5L3.3,1L4.7,6.5L0,3.4L-4.7,6.5L-3.3,1L-7.6,-2.5L-2.1,-2.7z",
}
"""SVG paths around the origin."""

Anchor = Literal["start", "middle", "end"]

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""

_CHARACTER_WIDTH = 7.0
"""Of the chart's type, in pixels, on the wide side."""

_SIDES: tuple[tuple[float, float, Anchor], ...] = (
    (10, 0, "start"),
    (-10, 0, "end"),
    (0, -14, "middle"),
    (0, 14, "middle"),
    (9, -11, "start"),
    (9, 11, "start"),
    (-9, -11, "end"),
    (-9, 11, "end"),
)
"""Where a dot's name may stand, best first: shift in pixels and anchor."""

_LINE_MARKERS = ("circle", "square", "triangle", "diamond")


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """One axis: the values it spans, evenly or by their logarithm.

    Raises:
        ValueError: if the ends are crossed or not finite, or a log scale starts at 0.
    """

    low: float
    high: float
    label: str
    log: bool = False
    percent: bool = False
    """Whether ticks are written in percent; the values stay fractions."""
    whole: bool = False
    """Whether only whole numbers get a tick, as for epochs."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"axis `{self.label}`: expected finite low < high, got {self.low}, {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"axis `{self.label}`: a log scale needs low > 0, got {self.low}")

    @classmethod
    def around(cls, values: Sequence[float], label: str, **options: bool) -> "Axis":
        """An axis that holds all values with a little air; [0, 1] where there is none."""
        if not values:
            return cls(low=0, high=1, label=label)
        low, high = min(values), max(values)
        if options.get("log"):
            return cls(low=low / 1.25, high=high * 1.25, label=label, **options)
        air = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        floor = low - air if low < 0 or low - air > 0 else 0.0
        return cls(low=floor, high=high + air, label=label, **options)

    def place(self, value: float) -> float:
        """Where the value stands between the ends, 0 to 1; outside for values outside."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Round values with their text, from the low end on."""
        values = list(_log_ticks(self.low, self.high) if self.log else self._even_ticks())
        return [(value, self.text(value)) for value in values]

    def text(self, value: float) -> str:
        """A value as it is written on this axis."""
        return f"{100 * value:.6g} %" if self.percent else f"{value:.6g}"

    def _even_ticks(self) -> Iterator[float]:
        step = _round_step((self.high - self.low) / _NUM_TICKS)
        if self.whole:
            step = max(1.0, round(step))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return (round(i * step, 12) for i in range(first, last + 1))


def _round_step(width: float) -> float:
    """The smallest of 1, 2, 5, 10 x 10^n that is not below the width."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= width * (1 - 1e-9))


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 x 10^n between the ends; powers of ten alone over more than three decades."""
    factors = (1.0,) if math.log10(high / low) > 3 else (1.0, 2.0, 5.0)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [round(factor * 10.0**power, 12) for power in powers for factor in factors]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """Values along x; a missing value (None or not finite) leaves a gap."""

    name: str
    points: Sequence[tuple[float, float | None]]
    style: int = 0
    """Colour, dash and marker, 0 to 7."""
    label: bool = True
    """Whether the name stands at its right end."""
    markers: bool = True
    kind: str = ""
    """A further CSS class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """One marked point."""

    x: float
    y: float
    name: str
    """Shown when pointed at, and read aloud."""
    kind: str
    """CSS class: what the point is."""
    marker: str = "circle"
    label: str = ""
    """Text beside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A straight line across the chart at one value, with what it means."""

    value: float
    label: str
    axis: Literal["x", "y"] = "y"
    kind: str = "threshold"


@dataclass(frozen=True, slots=True)
class Text:
    """Words at a place in pixels."""

    x: float
    y: float
    text: str
    kind: str = ""
    anchor: Anchor = "start"


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker at a place in pixels."""

    x: float
    y: float
    path: str
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Stroke:
    """A path in pixels."""

    path: str
    kind: str
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart in the units of its data, and where each part of it stands.

    Values outside the axes are left out; a line is broken there.
    """

    title: str
    description: str
    """What it shows, in a sentence: for those who do not see it."""
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    rules: Sequence[Rule] = ()
    width: int = 640
    height: int = 340
    margin_right: int = 110
    """Room for the names at the ends of lines."""
    axis_names: bool = True
    """Whether the axes are named; a small chart is by its heading."""
    name: str = "chart"
    """Id of the drawing; one page needs different ones."""

    @property
    def left(self) -> int:
        """Pixel of the low end of x."""
        return _MARGIN_LEFT

    @property
    def right(self) -> int:
        """Pixel of the high end of x."""
        return self.width - self.margin_right

    @property
    def top(self) -> int:
        """Pixel of the high end of y."""
        return _MARGIN_TOP

    @property
    def bottom(self) -> int:
        """Pixel of the low end of y."""
        return self.height - (_MARGIN_BOTTOM if self.axis_names else _MARGIN_BOTTOM - 16)

    def at(self, x: float, y: float | None) -> tuple[float, float] | None:
        """Pixels of a point, or None where it is missing or outside."""
        if y is None or not math.isfinite(y) or not math.isfinite(x) or (self.x.log and x <= 0):
            return None
        across, up = self.x.place(x), self.y.place(y)
        if not (_INSIDE[0] <= across <= _INSIDE[1] and _INSIDE[0] <= up <= _INSIDE[1]):
            return None
        return (
            round(self.left + across * (self.right - self.left), 1),
            round(self.bottom - up * (self.bottom - self.top), 1),
        )

    def x_ticks(self) -> list[Text]:
        """Labels below the axis."""
        places = ((self.at(value, self.y.low), text) for value, text in self.x.ticks())
        return [Text(place[0], self.bottom + 17, text, "tick", "middle") for place, text in places if place]

    def y_ticks(self) -> list[Text]:
        """Labels left of the axis."""
        places = ((self.at(self.x.low, value), text) for value, text in self.y.ticks())
        return [Text(self.left - 8, place[1], text, "tick", "end") for place, text in places if place]

    def strokes(self) -> list[Stroke]:
        """Paths of the lines."""
        return [
            Stroke(_path(run), f"line s{line.style} {line.kind}".strip(), line.name)
            for line in self.lines
            for run in self._runs(line)
        ]

    def marks(self) -> list[Mark]:
        """Markers of lines, then dots."""
        marks = []
        for line in self.lines:
            path = MARKERS[_LINE_MARKERS[line.style % len(_LINE_MARKERS)]]
            for x, y in line.points if line.markers else ():
                if (place := self.at(x, y)) and y is not None:
                    text = f"{line.name}: {self.y.text(round(y, 5))} at {self.x.label} {self.x.text(x)}"
                    marks.append(Mark(*place, path, f"mark s{line.style} {line.kind}".strip(), text))
        for dot in self.dots:
            if place := self.at(dot.x, dot.y):
                marks.append(Mark(*place, MARKERS[dot.marker], f"dot {dot.kind}", dot.name))
        return marks

    def rule_strokes(self) -> list[Stroke]:
        """Paths of the straight lines."""
        strokes = []
        for rule in self.rules:
            upright = rule.axis == "x"
            place = self.at(rule.value, self.y.low) if upright else self.at(self.x.low, rule.value)
            if place:
                across = f"M{self.left},{place[1]}H{self.right}"
                path = f"M{place[0]},{self.top}V{self.bottom}" if upright else across
                strokes.append(Stroke(path, f"rule {rule.kind}", rule.label))
        return strokes

    def labels(self) -> list[Text]:
        """Names of lines and levels at the right end, pushed apart; names of upright lines and of dots."""
        ends = list(self._level_labels())
        for line in self.lines:
            placed = [place for x, y in line.points if (place := self.at(x, y))]
            if line.label and placed:
                ends.append(Text(placed[-1][0] + 9, placed[-1][1], line.name, f"name s{line.style}"))
        return [*_pushed_apart(ends, self.top, self.bottom - 8), *self._upright_labels(), *self._dot_labels()]

    def _level_labels(self) -> Iterator[Text]:
        for rule in self.rules:
            if rule.axis == "y" and rule.label and (place := self.at(self.x.low, rule.value)):
                yield Text(self.right + 9, place[1], rule.label, f"rulename {rule.kind}")

    def _upright_labels(self) -> Iterator[Text]:
        for rule in self.rules:
            if rule.axis == "x" and rule.label and (place := self.at(rule.value, self.y.low)):
                near_end = place[0] > (self.left + self.right) / 2
                x = place[0] - 5 if near_end else place[0] + 5
                anchor: Anchor = "end" if near_end else "start"
                yield Text(x, self.bottom - 8, rule.label, f"rulename {rule.kind}", anchor)

    def _dot_labels(self) -> Iterator[Text]:
        """Names of dots, each on the first side where it covers nothing; a name without room is left out."""
        places = [(dot, place) for dot in self.dots if (place := self.at(dot.x, dot.y))]
        taken = [(x - 5, y - 5, x + 5, y + 5) for _, (x, y) in places]
        # the last drawn is on top, so its name comes first
        for dot, (x, y) in reversed(places):
            width = _CHARACTER_WIDTH * len(dot.label)
            for dx, dy, anchor in _SIDES if dot.label else ():
                left = x + dx - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
                box = (left, y + dy - 7, left + width, y + dy + 7)
                if (
                    self.left < box[0]
                    and box[2] < self.width
                    and not any(_overlap(box, other) for other in taken)
                ):
                    taken.append(box)
                    yield Text(x + dx, y + dy, dot.label, f"dotname {dot.kind}", anchor)
                    break

    def _runs(self, line: Line) -> Iterator[list[tuple[float, float]]]:
        """Stretches of a line without a gap, of two points or more."""
        run: list[tuple[float, float]] = []
        for x, y in line.points:
            if place := self.at(x, y):
                run.append(place)
                continue
            if len(run) > 1:
                yield run
            run = []
        if len(run) > 1:
            yield run


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x},{y}" for x, y in points)


def _pushed_apart(labels: Sequence[Text], top: float, bottom: float) -> list[Text]:
    """The labels with at least `_LABEL_GAP` between them, as near to their own height as that allows."""
    placed: list[Text] = []
    for label in sorted(labels, key=lambda label: label.y):
        y = max(label.y, placed[-1].y + _LABEL_GAP) if placed else max(label.y, top)
        placed.append(Text(label.x, y, label.text, label.kind, label.anchor))
    limit = bottom
    for i in range(len(placed) - 1, -1, -1):
        label = placed[i]
        if label.y > limit:
            placed[i] = Text(label.x, limit, label.text, label.kind, label.anchor)
        limit = placed[i].y - _LABEL_GAP
    return placed
