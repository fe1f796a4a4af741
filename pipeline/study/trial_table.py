"""Trainings as a table that fits a terminal: a row each, the columns that there is room for."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from feature_store.terminal import Line, columns, cut, fitted
from pipeline.reporting.results import setting
from pipeline.training.columns import of_validation
from search_spaces.space import Value

_SHORT = {"precision": "P", "recall": "R", "selected": "sel"}
_PREFIX = "lambda_"
_LEAST_HEIGHT = 12
"""Lines of the smallest table that has a legend in place of a row."""
_F1 = ("val_token_f1", "val_macro_f1")
"""Scores that follow from others."""
_ERRORS = ("val_mse", "val_mae")
"""Scores that are small, and get a digit more."""
_ALWAYS, _DECIDES, _SEARCHED, _OTHER, _DERIVED = range(5)
"""How much a column is missed where there is no room for it."""


WAITING, STARTING, RUNNING, INTERRUPTED = "waiting", "starting", "running", "interrupted"
"""States of a training that has not ended; it starts until its first epoch has ended."""


def not_ended(num_epochs: int, *, is_over: bool) -> str:
    """The state of a training that has begun and not ended.

    Args:
        num_epochs: that it has behind it.
        is_over: whether the command that trains it ends now.
    """
    if is_over:
        return INTERRUPTED
    return RUNNING if num_epochs else STARTING


def under_way(states: Iterable[str]) -> str:
    """How many trainings are under way, in the words of their rows: `2 running, 1 starting`."""
    counts = Counter(states)
    found = [f"{counts[state]} {state}" for state in (RUNNING, STARTING, INTERRUPTED) if counts[state]]
    return ", ".join(found) or f"0 {RUNNING}"


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One training."""

    name: str
    state: str
    num_epochs: int
    """That it has behind it."""
    scores: Mapping[str, float]
    """Validation scores of its last epoch, by their flat names."""
    searched: Mapping[str, Value] = field(default_factory=dict)
    """Hyper-parameters of its own."""
    is_best: bool = False
    is_running: bool = False


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    short: str
    cells: Sequence[str]
    rank: int
    is_searched: bool = False


def lines(
    rows: Sequence[TrialRow],
    *,
    what: str,
    num_epochs: int,
    dataset: str,
    decisive: Collection[str],
    width: int,
    height: int,
) -> list[Line]:
    """The titles and a line for each row; of rows that do not fit, it is said how many there are.

    Where titles are short, a legend says what they stand for.

    Args:
        rows: in the order in which they are shown.
        decisive: flat names of the scores that decide, for which there is room before others.
        width: columns of a line at most.
        height: lines at most, the titles' included.
    """
    if not rows or height < 2:
        return []

    def within(height: int) -> tuple[list[Line], list[Line]]:
        shown = rows if len(rows) < height else rows[: max(height - 2, 0)]
        texts, legend = _table(_columns(shown, what, num_epochs, dataset, decisive), width)
        found: list[Line] = [(texts[0], "dim")]
        for row, text in zip(shown, texts[1:], strict=True):
            found.append((text, "bold green" if row.is_best else "" if row.is_running else "dim"))
        if len(shown) < len(rows):
            found.append((cut(f"  and {len(rows) - len(shown)} more", width), "dim"))
        return found, [(line, "dim") for line in fitted(legend, width).split("\n") if line]

    found, legend = within(height)
    if len(rows) < height and len(found) + len(legend) <= height:
        return [*found, *legend]
    if len(rows) < height or height - len(legend) < _LEAST_HEIGHT:
        return found
    return [*within(height - len(legend))[0], *legend]


def _columns(
    rows: Sequence[TrialRow], what: str, num_epochs: int, dataset: str, decisive: Collection[str]
) -> list[_Column]:
    names = [f"{'*' if row.is_best else ' '} {row.name}" for row in rows]
    found = [
        _Column(f"  {what}", f"  {what}", names, _ALWAYS),
        _Column("state", "state", [row.state for row in rows], _ALWAYS),
        _Column("epoch", "epoch", [f"{row.num_epochs}/{num_epochs}" for row in rows], _ALWAYS),
    ]
    every = {name: value for row in rows for name, value in row.scores.items()}
    for label, name in of_validation(dataset, every, decisive).items():
        digits = 4 if name in _ERRORS else 3
        cells = [f"{row.scores[name]:z.{digits}f}" if name in row.scores else "" for row in rows]
        rank = _DERIVED if name in _F1 else _OTHER
        if name in decisive or name == "val_selection_rate":
            rank = _DECIDES
        found.append(_Column(label, _SHORT.get(label, label), cells, rank))
    for name in sorted({name for row in rows for name in row.searched}):
        cells = [setting(row.searched.get(name), 6, missing="") for row in rows]
        found.append(_Column(name, name.removeprefix(_PREFIX), cells, _SEARCHED, is_searched=True))
    return found


def _table(found: list[_Column], width: int) -> tuple[list[str], str]:
    """The columns side by side, and what short titles stand for; empty where none does.

    Where there is no room, titles are short, and then some columns are left out.
    """
    short: tuple[bool, ...]
    for short in ((), (True,), (True, False)):
        texts = _aligned(found, short)
        if columns(texts[0]) <= width:
            return texts, _legend(found, short)
    while columns(texts[0]) > width and max(column.rank for column in found) > _ALWAYS:
        least = max(range(len(found)), key=lambda i: (found[i].rank, i))
        found = found[:least] + found[least + 1 :]
        texts = _aligned(found, short)
    return [cut(text, width) for text in texts], _legend(found, short)


def _legend(found: Sequence[_Column], short: Collection[bool]) -> str:
    """What those titles stand for that are short."""
    shown = [one for one in found if one.is_searched in short and one.short != one.title]
    parts = [f"{one.short} = {one.title}" for one in shown if not one.is_searched]
    weights = ", ".join(one.short for one in shown if one.is_searched)
    parts += [f"{weights} = {_PREFIX}..."] if weights else []
    return f"  {'; '.join(parts)}" if parts else ""


def _aligned(found: Sequence[_Column], short: Collection[bool]) -> list[str]:
    """Titles and cells; `short` holds whether short titles are taken for what is searched, and for scores."""
    sides = []
    for column in found:
        title = column.short if column.is_searched in short else column.title
        cells = [title, *column.cells]
        wide = max(map(columns, cells))
        is_text = column.rank == _ALWAYS and title != "epoch"
        gaps = [" " * (wide - columns(cell)) for cell in cells]
        sides.append([c + gap if is_text else gap + c for c, gap in zip(cells, gaps, strict=True)])
    return ["  ".join(row) for row in zip(*sides, strict=True)]
