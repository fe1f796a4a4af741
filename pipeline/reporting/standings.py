"""The table of a comparison: means over seeds, the test against InfoCal, and what stands beside."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import mean, median, stdev
from typing import Any

from feature_store.sources.base import NO_OPTIONS
from feature_store.targets import sides_of
from feature_store.wording import counted
from infocal.methods.registry import INFOCAL
from infocal.metrics.resampling import SCORES, Difference, TextCounts, is_defined, paired_difference
from infocal.metrics.trivial import ceiling_f1
from pipeline.reporting import published
from pipeline.reporting.results import number, rough
from pipeline.reporting.significance import (
    ALPHA,
    MIN_SEEDS,
    POWER,
    holm,
    smallest_difference,
    smallest_paired_difference,
)
from pipeline.training import naming
from pipeline.training.columns import (
    TASK_SCORES,
    Column,
    columns,
    compared,
    headline_of,
    label_of,
    of_side,
    of_target,
    target_of,
)
from pipeline.training.data_options import target
from search_spaces import lookup

MAX_OFF_TARGET = 0.01
"""Selection rates further than one point from the target are marked: such rows do not compare."""
OFF_TARGET, DEGENERATE, DENSE, UNFINISHED = "†", "‡", "§", "¶"
MARKS = {
    OFF_TARGET: "with at least one seed, the selection rate on test differs from the target by more than one "
    "point, so the row is not at the same selection rate",
    DEGENERATE: "with at least one seed, (nearly) all or no tokens have p >= 0.5, on validation or on test",
    DENSE: "reads every token by definition, so the selection rate does not apply to it",
    UNFINISHED: "with at least one seed, the best epoch is in the start phase, before all losses had their "
    "full weight",
}
"""What a sign behind a row's name says."""

_F1 = "token_f1"
CEILING_SHARE = Column("ceiling_share", "of the ceiling")
"""Token F1 over that of the oracle which selects the target share of the annotated texts' tokens."""
_OF_MICRO = f"micro F1 {CEILING_SHARE.label}"
_AT_RATE = frozenset({"random_k", "first_k", "oracle_k"})
"""Trivial lines that select the target share."""
NOT_KNOWN = "-"
"""Cell of a table in plain text, where there is no number."""
_RATE = "selection_rate"


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
    texts: dict[str, list[int] | list[float]] = field(default_factory=dict)
    """What the scores are made of, text by text, as `TextCounts.as_lists` gives it; empty in what older
    versions stored."""
    failure: str = ""
    """Name of the failure that ended training; empty where none did."""
    failure_message: str = ""
    title: str = ""
    """Name of its row; empty in what older versions stored: the method's title."""

    @property
    def row(self) -> str:
        """Name of the row that it belongs to."""
        return self.title or lookup.title(self.method)


@dataclass(frozen=True, slots=True)
class MeanScore:
    """A score over seeds."""

    mean: float
    deviation: float | None = None
    """Of the sample, with n - 1; None for one value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StandingsRow:
    """One line of the table."""

    name: str
    kind: str
    """`ours`, `paper` or `trivial`."""
    cells: Mapping[str, MeanScore] = field(default_factory=dict)
    """By the scores' flat names; what nobody measured is left out."""
    p_values: Mapping[str, float] = field(default_factory=dict)
    """Of the paired t-test against InfoCal, by score."""
    differences: Mapping[str, Difference] = field(default_factory=dict)
    """From InfoCal's mean, by score, over bootstrap resamples of texts and seeds."""
    corrected: Mapping[str, float] = field(default_factory=dict)
    """Their p-values, corrected for as many methods, by score."""
    marks: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standings:
    """The whole table."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[StandingsRow]
    headline: Column | None
    """Whose p and difference stand in the last columns."""
    notes: Sequence[str]
    smallest: Mapping[str, float] = field(default_factory=dict)
    """Smallest differences of the headline score that this design finds, by test; empty: not known."""
    ceiling: float | None = None
    """Highest micro F1 at the target rate on the annotated texts."""
    num_seeds: int = 0
    """Seeds that the methods were trained with; 0: not known."""

    def header(self) -> list[str]:
        """Labels of the columns, the rows' names left out."""
        labels = [column.heading for column in self.columns]
        if self.headline is None:
            return labels
        label = self.headline.label
        more = [f"{label} minus InfoCal's [95 %]", "p, Holm"] if self._has_differences else []
        return [*labels, f"p ({label})", *more]

    def texts(self, row: StandingsRow) -> list[str]:
        """The cells of a row as they are printed: shares in percent, `mean ± deviation`."""
        cells = [_text(row.cells.get(column.score), column) for column in self.columns]
        if self.headline is None:
            return cells
        score = self.headline.score
        gap = row.differences.get(score)
        gap_text = NOT_KNOWN if gap is None else difference_text(gap, self.headline)
        more = [gap_text, _p_text(row.corrected.get(score))]
        return [*cells, _p_text(row.p_values.get(score)), *(more if self._has_differences else [])]

    @property
    def _has_differences(self) -> bool:
        """Whether a row has the interval of the headline score."""
        return self.headline is not None and any(self.headline.score in row.differences for row in self.rows)

    def used_marks(self) -> list[str]:
        """The signs that stand in the table, each with what it says."""
        return [f"{sign} {said}" for sign, said in MARKS.items() if any(sign in r.marks for r in self.rows)]

    def as_json(self) -> dict[str, Any]:
        """Everything, for machines; shares as fractions."""
        return asdict(self)


def _text(cell: MeanScore | None, column: Column) -> str:
    if cell is None:
        return NOT_KNOWN
    factor, digits = column.scale
    deviation = "" if cell.deviation is None else f" ± {number(factor * cell.deviation, digits)}"
    return number(factor * cell.mean, digits, NOT_KNOWN) + deviation


def _p_text(p: float | None) -> str:
    if p is None:
        return NOT_KNOWN
    return "<0.001" if p < 0.001 else number(p)


def difference_text(gap: Difference, column: Column) -> str:
    """A difference with its interval: `+1.2 [-0.3, +2.7]`."""
    factor, digits = column.scale
    estimate, low, high = (factor * value for value in (gap.estimate, gap.interval.low, gap.interval.high))
    return f"{estimate:+z.{digits}f} [{low:+z.{digits}f}, {high:+z.{digits}f}]"


def over_seeds(values: Sequence[float]) -> MeanScore:
    """Mean and sample deviation of one value or more."""
    return MeanScore(mean(values), stdev(values) if len(values) > 1 else None)


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
    beside: Sequence[StandingsRow] = (),
    notes: Sequence[str] = (),
    chosen_by: str = "",
    own_title: str = "",
) -> Standings:
    """The table of a comparison.

    Args:
        aspect: its target; empty where there is but one.
        outcomes: every method with every seed, in the order in which the methods are to stand.
        target_rate: selection rate that all were held at.
        options: of the data set; those that differ from its defaults stand in the title.
        beside: rows that stand below: trivial lines, given masks.
        chosen_by: validation score by which each method's best epoch was chosen; if it is that of one of
            several targets, or of their mean, the columns of this target stand first.
        own_title: how own data are called; empty for other data sets.
    """
    methods = list(dict.fromkeys(outcome.method for outcome in outcomes))
    by_method = {name: [o for o in outcomes if o.method == name] for name in methods}
    ceiling = _ceiling(outcomes, target_rate)
    # rows with and without human rationales; no method has a row in both
    tasks = (aspect, published.SUPERVISED)
    printed = [row for task in tasks for row in published.rows(dataset, task, options)]
    of_sides = {side: published.rows(dataset, side, options) for side in sides_of(aspect)}
    rows = [*_own_rows(dataset, printed, of_sides, by_method, target_rate), *beside]
    rows = [_with_share(row, ceiling) for row in rows]
    has_own = any(_has_own_rates(outcome, sides_of(aspect)) for outcome in outcomes)
    every = [*compared(dataset, aspect, first=target_of(chosen_by), has_own_rates=has_own)]
    place = max((i + 1 for i, c in enumerate(every) if c.score in (_F1, "hatexplain_token_f1")), default=0)
    is_shown = any(column.score == _F1 for column in every)  # elsewhere token F1 is a mean over texts
    every.insert(place, CEILING_SHARE if is_shown else replace(CEILING_SHARE, label=_OF_MICRO))
    shown = [c for c in every if any(c.score in row.cells for row in rows)] or list(columns(dataset))
    of = naming.title(own_title, aspect) if own_title else target(dataset, aspect, options)
    headline = headline_of(shown)
    rows = _with_differences(rows, by_method, [c.score for c in shown])
    smallest = {} if headline is None else _smallest(rows, by_method, headline.score)
    return Standings(
        title=f"{of}: methods at {100 * target_rate:g} % of the tokens, on test",
        columns=shown,
        rows=rows,
        headline=headline,
        notes=[
            *_method_notes(by_method),
            *_notes_on_targets(dataset, aspect, chosen_by, headline if len(by_method) > 1 else None),
            *_notes_on_differences(rows, by_method, headline, smallest),
            *_notes_on_ceiling(ceiling, target_rate),
            *notes,
        ],
        smallest=smallest,
        ceiling=ceiling,
        num_seeds=_num_seeds(by_method),
    )


def _own_rows(
    dataset: str,
    printed: Sequence[published.PublishedRow],
    of_sides: Mapping[str, Sequence[published.PublishedRow]],
    by_method: Mapping[str, Sequence[Outcome]],
    target_rate: float,
) -> Iterator[StandingsRow]:
    """A row for each method, the published one below it where there is one.

    `of_sides` holds the published rows of each side target, which stand in the same line.
    """
    reference = by_method.get(INFOCAL, ())
    for name, outcomes in by_method.items():
        label = outcomes[0].row
        finished = [outcome for outcome in outcomes if not outcome.failure]
        scores = list(dict.fromkeys(score for outcome in finished for score in outcome.scores))
        tested = [] if name == INFOCAL else scores
        p_values = {s: paired_p(by_seed(finished, s), by_seed(reference, s)) for s in tested}
        yield StandingsRow(
            name=label,
            kind="ours",
            cells={s: over_seeds(list(by_seed(finished, s).values())) for s in scores},
            p_values={score: p for score, p in p_values.items() if p is not None},
            marks=marks_of(finished, target_rate, list(of_sides)),
            note=failures(outcomes),
        )
        yield from (_published_row(row, of_sides, dataset) for row in printed if row.method == label)


# ------------------------------------------------------------------------------- the share of the ceiling


def _ceiling(outcomes: Sequence[Outcome], target_rate: float) -> float | None:
    """The highest micro F1 at the target rate; None where nobody marked anything."""
    known = [one.scores["gold_density"] for one in outcomes if one.scores.get("gold_density")]
    return ceiling_f1(target_rate, known[0]) if known else None


def _with_share(row: StandingsRow, ceiling: float | None) -> StandingsRow:
    """A row with its F1 over that of the oracle at the target rate, where its masks are held at that."""
    is_held = (row.kind == "ours" and DENSE not in row.marks) or row.name in _AT_RATE
    if ceiling is None or not is_held or _F1 not in row.cells:
        return row
    f1 = row.cells[_F1]
    share = MeanScore(f1.mean / ceiling, None if f1.deviation is None else f1.deviation / ceiling)
    return replace(row, cells={**row.cells, CEILING_SHARE.score: share})


def _notes_on_ceiling(ceiling: float | None, target_rate: float) -> list[str]:
    if ceiling is None:
        return []
    return [
        f"{CEILING_SHARE.label}: micro token F1 (over the tokens of all annotated texts) as a share of "
        f"{100 * ceiling:.1f}, the F1 of an oracle that selects {100 * target_rate:g} % of these tokens. The "
        "rate counts over all texts, so a method that selects few tokens in texts without human marks can "
        f"select more than {100 * target_rate:g} % in the others, and exceed this ceiling"
    ]


# ---------------------------------------------------------------------- differences over texts and seeds


def _with_differences(
    rows: Sequence[StandingsRow], by_method: Mapping[str, Sequence[Outcome]], scores: Sequence[str]
) -> list[StandingsRow]:
    """The rows of methods with their differences from InfoCal, and p-values corrected for their number."""
    methods = {some[0].row: name for name, some in by_method.items() if name != INFOCAL}
    found: dict[str, dict[str, Difference]] = {}
    for title_, name in methods.items():
        pairs = paired_counts(by_method[name], by_method.get(INFOCAL, ()))
        if pairs:
            theirs, ours = zip(*pairs, strict=True)
            defined = [s for s in scores if s in SCORES and is_defined(s, ours[0])]
            found[title_] = {score: paired_difference(score, theirs, ours) for score in defined}
    corrected: dict[str, dict[str, float]] = {name: {} for name in found}
    for score in dict.fromkeys(score for gaps in found.values() for score in gaps):
        for name, p in holm({n: gaps[score].p_value for n, gaps in found.items() if score in gaps}).items():
            corrected[name][score] = p
    return [
        replace(row, differences=found[row.name], corrected=corrected[row.name])
        if row.kind == "ours" and row.name in found
        else row
        for row in rows
    ]


def paired_counts(theirs: Sequence[Outcome], ours: Sequence[Outcome]) -> list[tuple[TextCounts, TextCounts]]:
    """The counts of both methods for each seed that both have; empty where an older version stored none."""
    known, others = ({one.seed: one.texts for one in some if one.texts} for some in (theirs, ours))
    seeds = sorted(known.keys() & others.keys())
    return [(TextCounts.of_lists(known[seed]), TextCounts.of_lists(others[seed])) for seed in seeds]


def _smallest(
    rows: Sequence[StandingsRow], by_method: Mapping[str, Sequence[Outcome]], score: str
) -> dict[str, float]:
    """Smallest differences of a score that the design finds, by test: median over methods, and the ends."""
    gaps = [row.differences[score].interval.error for row in rows if score in row.differences]
    found: dict[str, float] = {}
    if gaps:
        sizes = [smallest_difference(error) for error in gaps]
        found |= {"interval": median(sizes), "interval_least": min(sizes), "interval_most": max(sizes)}
    reference = by_seed(by_method.get(INFOCAL, ()), score)
    sizes = []
    for name, outcomes in by_method.items():
        theirs = by_seed(outcomes, score)
        seeds = sorted(theirs.keys() & reference.keys())
        if name != INFOCAL and len(seeds) > 1:
            deviation = stdev(theirs[seed] - reference[seed] for seed in seeds)
            sizes.append(smallest_paired_difference(deviation, len(seeds)))
    return found | ({"t_test": median(sizes)} if sizes else {})


def _notes_on_differences(
    rows: Sequence[StandingsRow],
    by_method: Mapping[str, Sequence[Outcome]],
    headline: Column | None,
    smallest: Mapping[str, float],
) -> list[str]:
    """What the intervals are, what they can find, and whether anything may be claimed."""
    if headline is None or len(by_method) < 2 or INFOCAL not in by_method:
        return []
    num_seeds = _num_seeds(by_method)
    said = []
    if any(headline.score in row.differences for row in rows):
        said.append(
            f"{headline.label} minus InfoCal's: interval of 95 % over bootstrap resamples of texts and seeds,"
            " both paired; p, Holm: two-sided, of the same resamples, corrected for the number of methods"
        )
    said += _smallest_in_words(smallest, headline, num_seeds)
    if (early := too_few_seeds(num_seeds)) is not None:
        said.append(early)
    older = [some[0].row for some in by_method.values() if any(not o.texts and not o.failure for o in some)]
    if older and len(older) < len(by_method):
        said.append(f"no interval, because an older version stored the results: {', '.join(older)}")
    return said


def _num_seeds(by_method: Mapping[str, Sequence[Outcome]]) -> int:
    return len({outcome.seed for outcomes in by_method.values() for outcome in outcomes})


def too_few_seeds(num_seeds: int) -> str | None:
    """That no claim follows from so few seeds; None where they are enough, or 0: not known."""
    if not 0 < num_seeds < MIN_SEEDS:
        return None
    return (
        f"{counted(num_seeds, 'seed is', 'seeds are')} too few for a claim: intervals over seeds are too "
        f"narrow; use at least {MIN_SEEDS} (`--seeds {MIN_SEEDS}`)"
    )


def _smallest_in_words(smallest: Mapping[str, float], headline: Column, num_seeds: int) -> list[str]:
    if not smallest:
        return []
    factor, unit = (100, " points") if headline.is_share else (1, "")
    parts = []
    if "interval" in smallest:
        least, size, most = (factor * smallest[n] for n in ("interval_least", "interval", "interval_most"))
        spread = f" ({rough(least)} to {rough(most)}, depending on the method)" if most > least else ""
        parts.append(f"{rough(size)}{unit} by the interval{spread}")
    if "t_test" in smallest:
        parts.append(f"{rough(factor * smallest['t_test'])}{unit} by the t-test")
    return [
        f"smallest detectable difference in {headline.label} with {counted(num_seeds, 'seed')} on these "
        f"texts, "
        f"at {POWER:.0%} power and alpha {ALPHA:g} (two-sided, without Holm's correction): {'; '.join(parts)}"
    ]


def by_seed(outcomes: Sequence[Outcome], score: str) -> dict[int, float]:
    """A score of each seed that came to a result and has it."""
    return {o.seed: o.scores[score] for o in outcomes if not o.failure and score in o.scores}


def _published_row(
    row: published.PublishedRow, of_sides: Mapping[str, Sequence[published.PublishedRow]], dataset: str
) -> StandingsRow:
    scores = row.scores(columns(dataset))
    for side, printed in of_sides.items():
        predicted = [of_side(side, column) for column in columns(dataset) if column.score in TASK_SCORES]
        for one in printed:
            if (one.source, one.method) == (row.source, row.method):
                scores |= one.scores(predicted)
    return given_row(f"{row.source}: {row.method}", scores, "paper", row.note)


def _has_own_rates(outcome: Outcome, sides: Sequence[str]) -> bool:
    """Whether another share was selected for a side target than for the main one."""
    known = (outcome.scores.get(name) for name in _rates_of(sides))
    return len({rate for rate in known if rate is not None}) > 1


def _rates_of(sides: Sequence[str]) -> list[str]:
    """Flat names of the selection rates of all targets."""
    return [_RATE, *(of_target(side, _RATE) for side in sides)]


def _notes_on_targets(dataset: str, aspect: str, chosen_by: str, headline: Column | None) -> list[str]:
    """By which of several targets models were chosen, and of which the tests are; else nothing."""
    if not sides_of(aspect):
        return []
    said = f"differences and p-values are of {headline.label}" if headline is not None else ""
    if not target_of(chosen_by):
        return [said] if said else []
    chosen = f"the best epoch of each training is chosen by {label_of(chosen_by, dataset)}"
    return ["; ".join(part for part in (chosen, said) if part)]


def marks_of(finished: Sequence[Outcome], target_rate: float, sides: Sequence[str] = ()) -> str:
    """The signs of a method's row.

    Args:
        finished: the method's seeds that came to a result.
        target_rate: selection rate that they were held at.
        sides: side targets, for which the rate was held as well.
    """
    if any(outcome.is_dense for outcome in finished):
        return DENSE
    names = _rates_of(sides)
    rates = [outcome.scores[name] for outcome in finished for name in names if name in outcome.scores]
    # a rate that is 1 point off to the last digit is not more than one point off
    is_off = any(abs(rate - target_rate) > MAX_OFF_TARGET + 1e-9 for rate in rates)
    signs = OFF_TARGET if is_off else ""
    signs += DEGENERATE if any(outcome.degenerate for outcome in finished) else ""
    return signs + (UNFINISHED if any(not outcome.is_finished for outcome in finished) else "")


def failures(outcomes: Sequence[Outcome]) -> str:
    """How many trainings of a method failed, and why; empty where none did."""
    failed = [outcome for outcome in outcomes if outcome.failure]
    if not failed:
        return ""
    told = (f"{one.failure}: {one.failure_message.removeprefix(f'{one.failure}: ')}" for one in failed)
    reasons = "; ".join(dict.fromkeys(told))
    return f"{len(failed)} of {counted(len(outcomes), 'seed')} failed: {reasons}"


def _method_notes(by_method: Mapping[str, Sequence[Outcome]]) -> list[str]:
    seeds = sorted({outcome.seed for outcomes in by_method.values() for outcome in outcomes})
    spread = "mean ± sample standard deviation over seeds" if len(seeds) > 1 else "one seed"
    said = [
        f"{spread} ({', '.join(map(str, seeds))}); each training's best epoch on validation, scored once on "
        "test",
        "p: two-sided paired t-test over seeds against InfoCal; "
        f"`{NOT_KNOWN}` means: fewer than two common seeds, or no InfoCal",
    ]
    for outcomes in by_method.values():
        if reason := failures(outcomes):
            said.append(f"{outcomes[0].row}: {reason}")
    return said


def trivial_rows(lines: Mapping[str, Mapping[str, float]]) -> list[StandingsRow]:
    """Rows of the trivial lines, by their names; without annotations they have no score, and no row."""
    return [given_row(name, scores, "trivial") for name, scores in lines.items() if _F1 in scores]


def given_row(name: str, scores: Mapping[str, float], kind: str, note: str = "") -> StandingsRow:
    """A row of scores without seeds."""
    return StandingsRow(
        name=name, kind=kind, cells={s: MeanScore(value) for s, value in scores.items()}, note=note
    )
