"""A sheet's results as Markdown, LaTeX, HTML and JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from feature_store.wording import counted
from pipeline.base import text_tables
from pipeline.judging.guide import SCALES, WORDS
from pipeline.judging.ratings import NUM_DRAWS, Estimate
from pipeline.judging.verdict import Verdict

MISSING = "–"
_TITLES = [WORDS["en"][scale] for scale in SCALES]


@dataclass(frozen=True, slots=True)
class TextTable:
    """A heading and rows of texts; the first column names the row."""

    title: str
    head: list[str]
    rows: list[list[str]]


def tables(verdict: Verdict) -> list[TextTable]:
    """All that is shown: means with agreement, pairs, repeats, judges."""
    means = [
        [name, *(_estimate(verdict.means[scale][i], 2) for scale in SCALES)]
        for i, name in enumerate(verdict.methods)
    ]
    means.append(["Krippendorff's alpha", *(_estimate(verdict.alpha[scale], 3) for scale in SCALES)])
    found = [TextTable(f"Human evaluation: {verdict.title}", ["method", *_TITLES], means)]
    pairs = [
        [
            f"{verdict.methods[one.first]} less {verdict.methods[one.second]}",
            title,
            _estimate(one.mean, 2),
            f"{one.mean.count}",
            _p(one.p),
            _p(one.p_holm),
        ]
        for scale, title in zip(SCALES, _TITLES, strict=True)
        for one in verdict.differences[scale]
    ]
    if pairs:
        found.append(TextTable("Differences", ["methods", "scale", "mean", "texts", "p", "p (Holm)"], pairs))
    again = [
        [
            title,
            f"{one.count}",
            _number(one.equal, 2),
            _number(one.within_one, 2),
            _number(one.mean_distance, 2),
        ]
        for title, one in zip(_TITLES, (verdict.repeats[scale] for scale in SCALES), strict=True)
        if one.count
    ]
    if again:
        head = ["scale", "shown twice", "equal", "within 1", "mean distance"]
        found.append(TextTable("Agreement of judges with themselves", head, again))
    people = [
        [f"{one.number}", f"{one.num_done} of {one.num_slots}", *(_number(one.means[s], 2) for s in SCALES)]
        for one in verdict.people
    ]
    found.append(TextTable("Judges", ["judge", "done", *(f"{title}, mean" for title in _TITLES)], people))
    return found


def notes(verdict: Verdict) -> list[str]:
    """What a reader has to know."""
    lines = [
        f"{counted(verdict.num_texts, 'text')}, {counted(verdict.num_judges, 'judge')}, "
        f"{verdict.num_done} of {verdict.num_slots} rationales judged; scores from 1 (lowest) to 5.",
        "A text's score is the mean over its judges; brackets are 95 % intervals, percentiles of "
        f"{NUM_DRAWS} bootstrap resamples of texts (for alpha: of rationales).",
        "p: two-sided paired sign-flip test over the texts scored for both methods; Holm: corrected for all "
        "pairs on a scale.",
        "Alpha (for interval data) uses the rationales that at least two judges scored. If a judge scores a "
        "rationale again, the second score counts only in the agreement of judges with themselves.",
    ]
    if verdict.num_done < verdict.num_slots:
        lines.insert(1, "Not all has been judged yet: these numbers will change.")
    undefined = [title for title, s in zip(_TITLES, SCALES, strict=True) if verdict.alpha[s].value is None]
    if undefined:
        lines.append(
            f"Alpha is not defined for {', '.join(undefined).lower()}: no rationale has scores of two "
            "judges, or all scores are equal."
        )
    return lines


def _number(value: float | None, digits: int) -> str:
    """A number as it is printed; one that rounds to 0 has no sign."""
    return MISSING if value is None else f"{value:z.{digits}f}"


def _estimate(one: Estimate, digits: int) -> str:
    if one.low is None or one.high is None:
        return _number(one.value, digits)
    return f"{_number(one.value, digits)} [{_number(one.low, digits)}, {_number(one.high, digits)}]"


def _p(value: float | None) -> str:
    if value is None:
        return MISSING
    return "< .001" if value < 0.001 else f"{value:.3f}"


def markdown(found: Sequence[TextTable], said: Sequence[str]) -> str:
    """All tables in GitHub's Markdown, with notes behind the last one."""
    parts = []
    for table in found:
        title = text_tables.markdown_escaped(table.title)
        parts += [f"### {title}", "", text_tables.markdown([table.head, *table.rows]), ""]
    return "\n".join([*parts, *(f"- {note}" for note in said), ""])


def latex(found: Sequence[TextTable], said: Sequence[str]) -> str:
    """All tables for a paper, with notes below the first one; needs the package booktabs."""
    set_tables = [
        text_tables.latex(table.title, [table.head, *table.rows], said if table is found[0] else ())
        for table in found
    ]
    return "\n\n".join(set_tables) + "\n"


def as_json(verdict: Verdict, digest: str) -> dict[str, Any]:
    """Every number of the results."""
    return {"format": 1, "sheet": digest, **asdict(verdict)}
