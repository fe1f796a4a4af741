"""The table of a comparison: means over seeds, the test against InfoCal, and what stands beside."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import mean, stdev
from typing import Any

from feature_store.sources.base import NO_OPTIONS
from infocal.methods.registry import INFOCAL
from pipeline import published
from pipeline.columns import Column, columns, compared
from pipeline.data_options import target
from pipeline.results import number
from search_spaces import registry

MAX_OFF_TARGET = 0.01
"""Selection rates further than one point from the target are marked: such rows do not compare."""
OFF_TARGET, DEGENERATE, DENSE, UNFINISHED = "†", "‡", "§", "¶"
MARKS = {
    OFF_TARGET: "with at least one seed, selects more than one point off the target: not at equal selection",
    DEGENERATE: "with at least one seed, the mask is a trivial one, on validation or on test",
    DENSE: "reads every token by definition, so the target does not hold for it",
    UNFINISHED: "with at least one seed, the best epoch lies in the start, before all weights were in force",
}
"""What a sign behind a row's name says."""

_HEADLINES = ("token_f1", "hatexplain_token_f1", "macro_f1", "explained_rate")
"""Scores that the printed t-test is of: the first one that the rows have."""
_MISSING = "-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one method with one seed came to; as it lies in the comparison's folder."""

    method: str
    seed: int
    run_id: str = ""
    """The MLflow run, in which the reading of the test split is recorded."""
    epoch: int | None = None
    """Best epoch on validation, from 0; None where training failed."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """On test, by their flat names without a prefix."""
    validation: Mapping[str, float] = field(default_factory=dict)
    """The best epoch's, `val_NAME`."""
    degenerate: str | None = None
    """The trivial mask that it fell to, on validation or on test."""
    is_dense: bool = False
    is_finished: bool = True
    """Whether the best epoch lies behind the start, in which the selection is not yet what is aimed at."""
    failure: str = ""
    """Name of the failure that ended training; empty where none did."""
    failure_message: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A score over seeds."""

    mean: float
    deviation: float | None = None
    """Of the sample, with n - 1; None for one value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    kind: str
    """`ours`, `paper` or `trivial`."""
    cells: Mapping[str, Cell] = field(default_factory=dict)
    """By the scores' flat names; what nobody measured is left out."""
    p_values: Mapping[str, float] = field(default_factory=dict)
    """Of the paired t-test against InfoCal, by score."""
    marks: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standings:
    """The whole table."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    headline: Column | None
    """Whose p stands in the last column."""
    notes: Sequence[str]

    def header(self) -> list[str]:
        """Labels of the columns, the rows' names left out."""
        labels = [column.label + (" %" if column.is_share else "") for column in self.columns]
        return [*labels, f"p ({self.headline.label})"] if self.headline else labels

    def texts(self, row: Row) -> list[str]:
        """The cells of a row as they are printed: shares in percent, `mean ± deviation`."""
        cells = [_text(row.cells.get(column.score), column) for column in self.columns]
        return [*cells, _p_text(row.p_values.get(self.headline.score))] if self.headline else cells

    def used_marks(self) -> list[str]:
        """The signs that stand in the table, each with what it says."""
        return [f"{sign} {said}" for sign, said in MARKS.items() if any(sign in r.marks for r in self.rows)]

    def as_json(self) -> dict[str, Any]:
        """Everything, for machines; shares as fractions."""
        return asdict(self)


def _text(cell: Cell | None, column: Column) -> str:
    if cell is None:
        return _MISSING
    factor, digits = (100, 1) if column.is_share else (1, 4)
    deviation = "" if cell.deviation is None else f" ± {number(factor * cell.deviation, digits)}"
    return number(factor * cell.mean, digits, _MISSING) + deviation


def _p_text(p: float | None) -> str:
    if p is None:
        return _MISSING
    return "<0.001" if p < 0.001 else number(p)


def over_seeds(values: Sequence[float]) -> Cell:
    """Mean and sample deviation of one value or more."""
    return Cell(mean(values), stdev(values) if len(values) > 1 else None)


def paired_p(ours: Mapping[int, float], theirs: Mapping[int, float]) -> float | None:
    """Two-sided p of the paired t-test over the seeds that both have.

    Args:
        ours, theirs: seed -> score.

    Returns:
        None with fewer than two common seeds, or where every difference is 0: the statistic is undefined.
    """
    seeds = sorted(ours.keys() & theirs.keys())
    if len(seeds) < 2 or all(ours[seed] == theirs[seed] for seed in seeds):
        return None
    from scipy.stats import ttest_rel  # takes a second that --help need not wait for

    with warnings.catch_warnings():
        # differences that are all but equal: p is 0 to the precision there is
        warnings.simplefilter("ignore", RuntimeWarning)
        p = float(ttest_rel([ours[s] for s in seeds], [theirs[s] for s in seeds]).pvalue)
    return p if math.isfinite(p) else None


def standings(
    dataset: str,
    aspect: str,
    outcomes: Sequence[Outcome],
    *,
    target_rate: float,
    options: Mapping[str, str] = NO_OPTIONS,
    beside: Sequence[Row] = (),
    notes: Sequence[str] = (),
) -> Standings:
    """The table of a comparison.

    Args:
        dataset: whose columns are shown.
        aspect: its target; empty where there is but one.
        outcomes: every method with every seed, in the order in which the methods are to stand.
        target_rate: selection rate that all were held at.
        options: of the data set; those that differ from its defaults stand in the title.
        beside: rows that stand below: trivial lines, given masks.
        notes: what else must be said.
    """
    methods = list(dict.fromkeys(outcome.method for outcome in outcomes))
    by_method = {name: [o for o in outcomes if o.method == name] for name in methods}
    rows = [*_own_rows(dataset, aspect, by_method, target_rate), *beside]
    every = compared(dataset)
    shown = [c for c in every if any(c.score in row.cells for row in rows)] or list(columns(dataset))
    of = target(dataset, aspect, options)
    return Standings(
        title=f"{of}: methods at {100 * target_rate:g} % of the tokens, on test",
        columns=shown,
        rows=rows,
        headline=next((c for name in _HEADLINES for c in shown if c.score == name), None),
        notes=[*_method_notes(by_method), *notes],
    )


def _own_rows(
    dataset: str, aspect: str, by_method: Mapping[str, Sequence[Outcome]], target_rate: float
) -> Iterator[Row]:
    """A row for each method, the published one below it where there is one."""
    printed = published.rows(dataset, aspect)
    reference = by_method.get(INFOCAL, ())
    for name, outcomes in by_method.items():
        label = registry.title(name)
        finished = [outcome for outcome in outcomes if not outcome.failure]
        scores = list(dict.fromkeys(score for outcome in finished for score in outcome.scores))
        tested = {} if name == INFOCAL else {s: _p_value(finished, reference, s) for s in scores}
        yield Row(
            name=label,
            kind="ours",
            cells={s: over_seeds(list(_by_seed(finished, s).values())) for s in scores},
            p_values={score: p for score, p in tested.items() if p is not None},
            marks=_marks(finished, target_rate),
            note=_failures(outcomes),
        )
        yield from (_published_row(row, dataset) for row in printed if row.method == label)


def _by_seed(outcomes: Sequence[Outcome], score: str) -> dict[int, float]:
    return {o.seed: o.scores[score] for o in outcomes if not o.failure and score in o.scores}


def _p_value(outcomes: Sequence[Outcome], reference: Sequence[Outcome], score: str) -> float | None:
    return paired_p(_by_seed(outcomes, score), _by_seed(reference, score))


def _published_row(row: published.PublishedRow, dataset: str) -> Row:
    values = {c.score: row.value(c.published) for c in columns(dataset) if c.published}
    cells = {score: Cell(value) for score, value in values.items() if value is not None}
    return Row(name=f"{row.source}: {row.method}", kind="paper", cells=cells, note=row.note)


def _marks(finished: Sequence[Outcome], target_rate: float) -> str:
    """The signs of a method's row."""
    if any(outcome.is_dense for outcome in finished):
        return DENSE
    rates = [outcome.scores["selection_rate"] for outcome in finished if "selection_rate" in outcome.scores]
    # a rate that is 1 point off to the last digit is not more than one point off
    is_off = any(abs(rate - target_rate) > MAX_OFF_TARGET + 1e-9 for rate in rates)
    signs = OFF_TARGET if is_off else ""
    signs += DEGENERATE if any(outcome.degenerate for outcome in finished) else ""
    return signs + (UNFINISHED if any(not outcome.is_finished for outcome in finished) else "")


def _failures(outcomes: Sequence[Outcome]) -> str:
    """What ended the seeds that did not come to a result."""
    failed = [outcome for outcome in outcomes if outcome.failure]
    if not failed:
        return ""
    reasons = "; ".join(dict.fromkeys(f"{o.failure}: {o.failure_message}" for o in failed))
    return f"{len(failed)} of {len(outcomes)} seeds failed: {reasons}"


def _method_notes(by_method: Mapping[str, Sequence[Outcome]]) -> list[str]:
    seeds = sorted({outcome.seed for outcomes in by_method.values() for outcome in outcomes})
    spread = "mean ± sample standard deviation over seeds" if len(seeds) > 1 else "one seed"
    said = [
        f"{spread} ({', '.join(map(str, seeds))}); each the best epoch on validation, read on test once",
        "p: two-sided paired t-test over seeds against InfoCal; "
        f"{_MISSING} with fewer than two common seeds or without InfoCal",
    ]
    for name, outcomes in by_method.items():
        if reason := _failures(outcomes):
            said.append(f"{registry.title(name)}: {reason}")
    return said


def trivial_rows(lines: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Rows of the trivial lines, by their names."""
    return [given_row(name, scores, "trivial") for name, scores in lines.items()]


def given_row(name: str, scores: Mapping[str, float], kind: str, note: str = "") -> Row:
    """A row of scores without seeds."""
    return Row(name=name, kind=kind, cells={s: Cell(value) for s, value in scores.items()}, note=note)
