"""What arithmetic allows in a table of scores: cells that cannot be right, and cells that are no measurement.

Of n tokens let s be selected, m marked and h both. Then precision is h / s, recall h / m, F1 2h / (s + m),
the selection rate s / n and the gold density m / n, so that

    F1 = 2 P R / (P + R)        precision x selected / recall = gold density, the same in each row of a corpus

A cell is called impossible only if no numbers that round to the printed ones obey this.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from feature_store.wording import counted
from infocal.metrics.overlap import PAPER_AUPRC_END, harmonic_mean, paper_auprc, paper_iou_f1
from pipeline.marks.printed import PrintedRow, PrintedTable, ValueRange

ASSUMED = (
    "assumed: precision, recall and f1 are micro averages and `selected` is a share of all tokens, over the "
    "same annotated texts in each row of a corpus; numbers are rounded, not cut off. If precision "
    "and recall are means over single texts, precision x selected / recall need not be the gold density."
)

_UNIT = ValueRange(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Finding:
    """Cells of one row that cannot all be right."""

    line: int
    method: str
    columns: tuple[str, ...]
    rule: str
    """One of `range`, `f1`, `macro_f1`, `union`, `density`, `ceiling`, `formula`."""
    reason: str


@dataclass(frozen=True, slots=True)
class Formula:
    """A column whose cells follow from precision and recall alone."""

    column: str
    text: str
    """Which formula, and what the name promises instead."""
    lines: list[int]
    methods: list[str]
    num_comparable: int
    """Rows in which it could be told."""


@dataclass(frozen=True, slots=True)
class Implied:
    """The gold density that one row implies."""

    line: int
    method: str
    span: ValueRange
    agrees: bool
    """Whether the row is one of the largest set that can share a density, of equal ones the first."""


@dataclass(frozen=True, slots=True)
class Density:
    """What the rows of a corpus, which have one gold density, say of it."""

    corpus: str
    span: ValueRange
    """That of the largest set of rows that can share one."""
    num_agreeing: int
    rows: list[Implied]
    """Those that state precision, recall and selected."""

    @property
    def is_contradiction(self) -> bool:
        """Whether the rows cannot all be right."""
        return self.num_agreeing < len(self.rows)


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything that was found."""

    table: PrintedTable
    findings: list[Finding]
    formulas: list[Formula]
    densities: list[Density]
    """Of each corpus whose density is not known."""


def audit(table: PrintedTable, gold_density: ValueRange | None = None) -> Audit:
    """Check a table.

    Args:
        gold_density: share of marked tokens in the annotated texts, where known; a column of that name
            comes first.
    """
    known = {row.line: _known_density(row, gold_density) for row in table.rows}
    findings = [
        Finding(row.line, row.method, *found) for row in table.rows for found in _of_row(row, known[row.line])
    ]
    densities: list[Density] = []
    for corpus in dict.fromkeys(row.corpus for row in table.rows):
        rows = [row for row in table.rows if row.corpus == corpus and known[row.line] is None]
        if (shared := _shared_density(corpus, rows)) is not None:
            densities.append(shared)
    agreed = {one.corpus: one.span for one in densities if not one.is_contradiction}
    ends = {row.line: known[row.line] or agreed.get(row.corpus) for row in table.rows}
    return Audit(table, findings, _formulas(table.rows, ends), densities)


def _known_density(row: PrintedRow, given: ValueRange | None) -> ValueRange | None:
    stated = _spans(row).get("gold_density")
    return given if stated is None else stated


def _spans(row: PrintedRow) -> dict[str, ValueRange]:
    """The row's values, as far as they can be shares at all; others are named by the rule `range`."""
    return {
        name: ValueRange(max(cell.span.low, 0.0), min(cell.span.high, 1.0))
        for name, cell in row.cells.items()
        if cell.span.meets(_UNIT)
    }


# ------------------------------------------------------------------------------------------ within a row

_Found = tuple[tuple[str, ...], str, str]
"""Columns, rule, reason."""


def _of_row(row: PrintedRow, density: ValueRange | None) -> Iterator[_Found]:
    spans = _spans(row)
    for name, cell in row.cells.items():
        if name not in spans:
            yield (name,), "range", f"{cell.text} ({cell.span}) is not a share between 0 and 1"
    yield from _f1(spans, "")
    yield from _f1(spans, "macro_")
    yield from _printed_formulas(spans)
    yield from _densities(spans, density)


def _f1(spans: dict[str, ValueRange], prefix: str) -> Iterator[_Found]:
    """F1 against precision and recall, or against the one of them that is there."""
    names = tuple(prefix + name for name in ("precision", "recall", "f1"))
    f1 = spans.get(names[2])
    there = tuple(name for name in names[:2] if name in spans)
    if f1 is None or not there:
        return
    # where one is not reported it is anything up to 1
    p, r = (spans.get(name, _UNIT) for name in names[:2])
    allowed = ValueRange(harmonic_mean(p.low, r.low), harmonic_mean(p.high, r.high))
    if prefix:
        # of each text or class F <= the harmonic mean, which is concave, and F >= P + R - 1
        allowed = ValueRange(max(p.low + r.low - 1, 0.0), allowed.high)
    if not f1.meets(allowed):
        yield (*there, names[2]), f"{prefix}f1", f"{names[2]} is {f1}, but {_and(there)} allow {allowed}"


def _printed_formulas(spans: dict[str, ValueRange]) -> Iterator[_Found]:
    """Columns whose name says that they follow from a formula."""
    for name, formula, columns in (
        ("paper_iou_f1", _iou_of(spans), ("f1",)),
        (
            "paper_auprc",
            _trapezoid(spans, ValueRange(PAPER_AUPRC_END, PAPER_AUPRC_END)),
            ("precision", "recall"),
        ),
    ):
        if name in spans and formula is not None and not spans[name].meets(formula):
            used = tuple(column for column in columns if column in spans) or ("precision", "recall")
            yield (*used, name), "formula", f"{name} is {spans[name]}, but {_and(used)} give {formula}"


def _densities(spans: dict[str, ValueRange], density: ValueRange | None) -> Iterator[_Found]:
    """Precision, recall and selected against one another and against a known density."""
    columns = ("precision", "recall", "selected")
    implied = _implied_density(spans)
    if implied is not None:
        p, r, s = (spans[name] for name in columns)
        union = s.low * (1 + p.low * (1 / r.high - 1))
        if union > 1:
            yield (
                columns,
                "union",
                f"selected and marked tokens together would be at least {union:.4f} of all tokens, which is "
                "more than 1",
            )
            return
    if density is None:
        return
    beyond = list(_beyond_ceilings(spans, density))
    yield from beyond
    if not beyond and implied is not None and not implied.meets(density):
        yield (
            columns,
            "density",
            f"precision x selected / recall is {implied}, but the gold density is {density}",
        )


def _implied_density(spans: dict[str, ValueRange]) -> ValueRange | None:
    """Precision x selected / recall; None where one is not reported."""
    if not {"precision", "recall", "selected"} <= spans.keys():
        return None
    p, r, s = (spans[name] for name in ("precision", "recall", "selected"))
    high = p.high * s.high / r.low if r.low > 0 else 1.0
    return ValueRange(p.low * s.low / r.high, min(high, 1.0))


def _beyond_ceilings(spans: dict[str, ValueRange], density: ValueRange) -> Iterator[_Found]:
    """What no selection of this size reaches at this density, not even one that knows the marked tokens."""
    s = spans.get("selected")
    if s is None:
        return
    parts: list[tuple[str, float, str, float, str]] = []
    if (p := spans.get("precision")) is not None:
        parts.append(("precision", p.low * s.low, "selected and marked", density.high, "marked"))
        wrong = s.low * (1 - p.high)
        parts.append(("precision", wrong, "selected and not marked", 1 - density.low, "not marked"))
    if (r := spans.get("recall")) is not None:
        parts.append(("recall", r.low * density.low, "selected and marked", s.high, "selected"))
        missed = (1 - r.high) * density.low
        parts.append(("recall", missed, "marked and not selected", 1 - s.low, "not selected"))
    for column, least, part, most, whole in parts:
        if least > most:
            reason = f"at least {least:.4f} of all tokens would be {part}, but at most {most:.4f} are {whole}"
            yield (column, "selected"), "ceiling", reason
    if (f1 := spans.get("f1")) is not None and f1.low > (best := _best_f1(s, density)):
        reason = f"f1 is {f1}, but no selection of this size reaches more than {best:.4f}"
        yield ("f1", "selected"), "ceiling", reason


def _best_f1(selected: ValueRange, density: ValueRange) -> float:
    """Highest F1 = 2 min(s, m) / (s + m) of a selection of that size."""
    if selected.meets(density):
        return 1.0
    small, large = sorted((selected, density), key=lambda span: span.low)
    return 2 * small.high / (small.high + large.low)


# --------------------------------------------------------------------------------------- between the rows


def _shared_density(corpus: str, rows: Sequence[PrintedRow]) -> Density | None:
    """The density that most rows of a corpus share; None where no row implies one."""
    spans = [(row, _implied_density(_spans(row))) for row in rows]
    implied = [(row, span) for row, span in spans if span is not None and span.low <= 1]
    if not implied:
        return None
    # each largest set of intervals that meet has a point in common: one of their lower ends
    points = [span.low for _, span in implied]
    point = max(points, key=lambda point: sum(span.low <= point <= span.high for _, span in implied))
    agreeing = [span for _, span in implied if span.low <= point <= span.high]
    return Density(
        corpus,
        ValueRange(max(span.low for span in agreeing), min(span.high for span in agreeing)),
        len(agreeing),
        [Implied(row.line, row.method, span, span in agreeing) for row, span in implied],
    )


# ------------------------------------------------------------------------------ columns that are a formula


def _iou_of(spans: dict[str, ValueRange]) -> ValueRange | None:
    """F / (2 - F) of the row's F1, or of what precision and recall give."""
    f1 = spans.get("f1")
    if f1 is None:
        if not {"precision", "recall"} <= spans.keys():
            return None
        p, r = spans["precision"], spans["recall"]
        f1 = ValueRange(harmonic_mean(p.low, r.low), harmonic_mean(p.high, r.high))
    return ValueRange(paper_iou_f1(f1.low), paper_iou_f1(f1.high))


def _trapezoid(spans: dict[str, ValueRange], end: ValueRange) -> ValueRange | None:
    """The trapezoid through (recall, precision) = (0, 1), (R, P), (1, end), which rises with R, P and end."""
    if not {"precision", "recall"} <= spans.keys():
        return None
    p, r = spans["precision"], spans["recall"]
    return ValueRange(paper_auprc(p.low, r.low, end.low), paper_auprc(p.high, r.high, end.high))


_IOU_TEXT = (
    "f1 / (2 - f1), the IOU of all selected with all marked tokens. ERASER's IOU F1 counts spans and "
    "does not follow from f1"
)
_AUPRC_TEXT = (
    "the trapezoid through (recall, precision) = (0, 1), (R, P), (1, {end}): a function of one threshold, no "
    "area under a curve of scores"
)


def _formulas(rows: Sequence[PrintedRow], ends: dict[int, ValueRange | None]) -> list[Formula]:
    """Columns of which some cells follow from a formula, told where it says more than 0 = 0 or 1 = 1."""
    paper_end = ValueRange(PAPER_AUPRC_END, PAPER_AUPRC_END)

    def at_density(row: PrintedRow, spans: dict[str, ValueRange]) -> ValueRange | None:
        end = ends[row.line]
        return None if end is None else _trapezoid(spans, end)

    candidates: list[tuple[str, str, Callable[[PrintedRow, dict[str, ValueRange]], ValueRange | None]]] = [
        ("iou_f1", _IOU_TEXT, lambda _, spans: _iou_of(spans)),
        (
            "auprc",
            _AUPRC_TEXT.format(end=f"{PAPER_AUPRC_END:.2f}"),
            lambda _, spans: _trapezoid(spans, paper_end),
        ),
        ("auprc", _AUPRC_TEXT.format(end="gold density"), at_density),
    ]
    found: dict[str, Formula] = {}
    for column, text, formula in candidates:
        told, equal = 0, []
        for row in rows:
            spans = _spans(row)
            expected = formula(row, spans) if column in spans else None
            if expected is None or expected.low < 1e-3 or expected.high > 1 - 1e-3:
                continue
            told += 1
            if spans[column].meets(expected):
                equal.append(row)
        if equal and (column not in found or len(equal) > len(found[column].lines)):
            lines, methods = [row.line for row in equal], [row.method for row in equal]
            found[column] = Formula(column, text, lines, methods, told)
    return list(found.values())


# ------------------------------------------------------------------------------------------------ showing


def as_json(result: Audit) -> dict[str, Any]:
    """Everything a machine may ask for."""
    return {
        "table": str(result.table.path),
        "num_rows": len(result.table.rows),
        "units": result.table.units,
        "notes": result.table.notes,
        "assumed": ASSUMED,
        "impossible": [asdict(finding) for finding in result.findings],
        "formulas": [asdict(formula) for formula in result.formulas],
        "contradictions": [asdict(one) for one in result.densities if one.is_contradiction],
        "gold_density": [asdict(one) for one in result.densities if not one.is_contradiction],
    }


def page(result: Audit) -> str:
    """The findings as text."""
    table = result.table
    units = ", ".join(f"{name} ({unit})" for name, unit in table.units.items())
    lines = [
        f"{table.path}: {counted(len(table.rows), 'row')}; read {units}",
        *(f"note: {note}" for note in table.notes),
    ]
    if result.findings:
        num_rows = len({finding.line for finding in result.findings})
        lines += [
            "",
            f"{num_rows} of {counted(len(table.rows), 'row has', 'rows have')} values that cannot be right:",
        ]
        lines += [f"  {_place(one)}, {_and(one.columns)}: {one.reason}" for one in result.findings]
    contradictions = [one for one in result.densities if one.is_contradiction]
    for density in contradictions:
        lines += ["", *_contradiction(density)]
    if not result.findings and not contradictions:
        lines += ["", "no contradiction found"]
    for density in result.densities:
        if not density.is_contradiction:
            lines += [
                "",
                f"gold density{_of(density)}: {density.span}, computed from "
                f"{counted(len(density.rows), 'row')}",
            ]
    for formula in result.formulas:
        share = f"{len(formula.lines)} of {formula.num_comparable} rows"
        lines += [
            "",
            f"computed from other columns, not measured: in {share}, {formula.column} is {formula.text}",
        ]
        lines += [f"  {_places(formula)}"] if len(formula.lines) < formula.num_comparable else []
    return "\n".join([*lines, "", ASSUMED])


def _contradiction(density: Density) -> list[str]:
    """The rows of a corpus that cannot all be right; a minority is named where most rows agree."""
    head = (
        f"precision, recall and selected contradict each other in the rows{_of(density)}: "
        "precision x selected / recall must give the same gold density in every row, "
    )
    rows = density.rows
    if 2 * density.num_agreeing > len(rows):
        rows = [row for row in rows if not row.agrees]
        agreeing = f"{density.num_agreeing} of {len(density.rows)} rows agree on {density.span}"
        head += f"and {agreeing}; the other rows give"
    else:
        head += f"but at most {density.num_agreeing} of {len(rows)} rows agree on one value; the rows give"
    return [f"{head}:", *(f"  {_place(row)}: {row.span}" for row in rows)]


def _of(density: Density) -> str:
    return f" of {density.corpus}" if density.corpus else ""


def _place(row: Finding | Implied) -> str:
    return f"line {row.line}" + (f" {row.method}" if row.method else "")


def _places(formula: Formula) -> str:
    return ", ".join(
        f"line {line} {method}".rstrip() for line, method in zip(formula.lines, formula.methods, strict=True)
    )


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"
