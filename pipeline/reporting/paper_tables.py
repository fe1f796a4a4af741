"""The tables of the paper, filled from every comparison that a storage has: ours beside what was published.

A table holds the comparisons of one protocol: the same data, options and selection rate. A method that two of
them have stands there twice, each time with the name of its comparison.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from feature_store.sources import get_source
from feature_store.sources.base import NO_OPTIONS
from feature_store.sources.beer_polar import POLAR
from feature_store.targets import joined, main_of, names_of
from feature_store.wording import counted
from infocal.methods.registry import INFOCAL
from infocal.metrics.resampling import SCORES, TextCounts, is_defined, mean_interval, paired_difference
from pipeline.reporting import published
from pipeline.reporting.published import PublishedRow
from pipeline.reporting.results import number
from pipeline.reporting.standings import (
    DEGENERATE,
    DENSE,
    MARKS,
    Outcome,
    StandingsRow,
    by_seed,
    difference_text,
    failures,
    given_row,
    marks_of,
    over_seeds,
    paired_counts,
    too_few_seeds,
)
from pipeline.training.columns import TASK_SCORES, Column, columns, headline_of, of_target
from pipeline.training.data_options import target
from pipeline.training.naming import target_flags
from search_spaces import datasets, lookup

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)

NOT_MEASURED, NOT_PRINTED = "not measured", "–"
LANGUAGE_MODELS = "language-models"
"""Stands for a data set in `published.toml`."""
PAPER = "[Sha2023] "
_PAPER_SCORES = {
    "paper": {
        "iou_f1": Column("paper_iou_f1", "IOU F1", "iou_f1"),
        "auprc": Column("paper_auprc", "AUPRC", "auprc"),
    }
}
"""Metric mode -> published columns that a data set's own tables lack, in the paper's definitions."""
_LESS_IS_BETTER = frozenset({"sufficiency", "mse"})
_NO_QUALITY = frozenset({"selection_rate", "selection_rate_annotated"})
_NO_TRIVIAL = "the trivial masks are not here: neither the comparison's table nor its features are"
_ASPECT_OF_TASK = {"supervised": ""}
"""Task of a published table that is no target of its own: the table of HateXplain has two parts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A comparison, finished or not, as far as it is known."""

    name: str
    dataset: str
    aspect: str
    options: Mapping[str, str]
    features: str
    """What tells the texts of its features from others."""
    target_rate: float
    num_epochs: int
    is_sample: bool
    methods: Sequence[str]
    seeds: Sequence[int]
    outcomes: Sequence[Outcome]
    num_all: int
    """Trainings that it consists of."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Texts and tokens of its splits, as `train_rows`; empty where its features are not on this machine."""
    beside: Sequence[StandingsRow] = ()
    """Trivial lines, and masks that others published."""
    command: str = ""
    remarks: Sequence[str] = ()
    """What methods say of themselves with these hyper-parameters."""
    targets: Sequence[str] = ()
    """All that a model predicts, where `aspect` is one of several."""

    @property
    def is_complete(self) -> bool:
        """Whether every training has its outcome."""
        return len(self.outcomes) >= self.num_all

    def title_of(self, method: str) -> str:
        """Name of a method's row."""
        return next((one.row for one in self.outcomes if one.method == method), lookup.title(method))

    @property
    def protocol(self) -> tuple[Any, ...]:
        """Two comparisons may share a table only if this is equal for both."""
        options = tuple(sorted(self.options.items()))
        return self.is_sample, self.features, options, round(self.target_rate, 6)


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperRow:
    """A line of a table."""

    name: str
    kind: str
    """`ours`, `missing`, `paper` or `trivial`."""
    cells: Sequence[str]
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperTable:
    """One table: a target under one protocol."""

    title: str
    head: Sequence[str]
    """Labels of the columns, the one of the names first."""
    rows: Sequence[PaperRow]
    protocol: Sequence[str]
    """On what ours and the published numbers were measured."""
    first: Sequence[str]
    """Who is first."""
    notes: Sequence[str] = ()
    is_unfinished: bool = False
    is_sample: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperSection:
    """What belongs to one table of a publication."""

    label: str
    """Short: `Table 2`."""
    title: str
    tables: Sequence[PaperTable]


@dataclass(frozen=True, slots=True)
class _Own:
    """The outcomes of one method in one comparison."""

    method: str
    of: Compared

    @property
    def title(self) -> str:
        return self.of.title_of(self.method)

    @property
    def every(self) -> list[Outcome]:
        """With those of failed trainings."""
        return [one for one in self.of.outcomes if one.method == self.method]

    @property
    def outcomes(self) -> list[Outcome]:
        """Of the trainings that did not fail."""
        return [one for one in self.every if not one.failure]

    @property
    def marks(self) -> str:
        return marks_of(self.outcomes, self.of.target_rate)

    @property
    def marked(self) -> str:
        return f"{self.title} {self.marks}".rstrip()

    def mean(self, score: str) -> float | None:
        values = [one.scores[score] for one in self.outcomes if score in one.scores]
        return math.fsum(values) / len(values) if values else None


def sections(found: Sequence[Compared], places: str = "") -> list[PaperSection]:
    """Every table of the paper that comparisons can fill, and then the comparisons of other data.

    Args:
        places: flags with which a printed command fills this page, quoted for a shell.
    """
    wanted = {"beer", "cail-small", "hatexplain", *(one.dataset for one in found)}
    rows = [row for row in published.all_rows() if row.dataset in wanted]
    found = [part for one in found for part in _by_target(one)]
    made = []
    for dataset, of_dataset in _grouped(rows, lambda row: row.dataset):
        known = {row.method for row in of_dataset if row.source.startswith(PAPER)}
        # what no table of the paper has stands in the first one of its data set
        spare = {one.title_of(method) for one in found for method in one.methods} - known
        for source, group in _grouped(of_dataset, lambda row: row.source):
            if not source.startswith(PAPER):
                continue
            titles = {row.method for row in group} | spare
            tables: list[PaperTable] = []
            for aspect, printed_rows in _grouped(group, lambda row: _ASPECT_OF_TASK.get(row.task, row.task)):
                chosen = [
                    # whether a comparison is finished is still said of all its methods
                    replace(one, methods=[name for name in one.methods if one.title_of(name) in titles])
                    for one in found
                    if _printed_key(one) == (dataset, aspect, "")
                ]
                others = [row for row in published.rows(dataset, aspect) if not row.source.startswith(PAPER)]
                tables += _tables(dataset, aspect, chosen, [*printed_rows, *others], places)
            label = source.removeprefix(PAPER).capitalize()
            made.append(PaperSection(label=label, title=f"{label} of the paper: {dataset}", tables=tables))
            spare = set()
    if polar := list(_polar_tables(found, rows, places)):
        title = "Rationale models of 2022 to 2025, on the polar reviews of beer"
        made.append(PaperSection(label="Polar reviews", title=title, tables=polar))
    printed = {(row.dataset, row.task, row.protocol) for row in published.all_rows()}
    unprinted = [one for one in found if _printed_key(one) not in printed]
    beyond = [
        table
        for (dataset, aspect), group in _grouped(unprinted, lambda one: (one.dataset, one.aspect))
        for table in _tables(dataset, aspect, group, [], places)
    ]
    if beyond:
        made.append(
            PaperSection(label="Other data", title="Comparisons that are not in the paper", tables=beyond)
        )
    return made


def _by_target(one: Compared) -> list[Compared]:
    """A comparison of several targets as one of each, where the tables of each show predictions alone."""
    names = names_of(one.aspect)
    printed = [published.rows(one.dataset, name, one.options) for name in names]
    shown = {column for rows in printed for row in rows for column in row.printed}
    if len(names) < 2 or not all(printed) or not shown <= {*TASK_SCORES, "selected"}:
        return [one]
    return [replace(one, aspect=name, targets=names, outcomes=_of_target(one, name)) for name in names]


def _of_target(one: Compared, target_name: str) -> list[Outcome]:
    """The outcomes with the scores of one of several targets; those of side targets cannot be drawn again."""
    if target_name == main_of(one.aspect):
        return list(one.outcomes)
    prefix, found = of_target(target_name, ""), []
    for outcome in one.outcomes:
        shared = {n: v for n, v in outcome.scores.items() if n.startswith("selection_rate")}
        # where each target has a rationale of its own, its own rate
        own = {n.removeprefix(prefix): v for n, v in outcome.scores.items() if n.startswith(prefix)}
        scores = shared | own
        found.append(replace(outcome, scores=scores, texts={}))
    return found


def _printed_key(one: Compared) -> tuple[str, str, str]:
    """Data set, aspect and protocol, by which published rows are found that may stand beside a comparison."""
    return one.dataset, one.aspect, published.protocol_of(one.options)


def _polar_tables(
    found: Sequence[Compared], rows: Sequence[PublishedRow], places: str
) -> Iterator[PaperTable]:
    """A table for each aspect whose classes were compared, here or in print."""
    of_polar = [row for row in rows if row.protocol == POLAR]
    for (dataset, aspect), printed in _grouped(of_polar, lambda row: (row.dataset, row.task)):
        chosen = [one for one in found if _printed_key(one) == (dataset, aspect, POLAR)]
        yield from _tables(dataset, aspect, chosen, printed, places, {"target": POLAR})


def _grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> list[tuple[_Key, list[_Item]]]:
    """Items with equal keys together, keys in the order in which they first occur."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.items())


def _tables(
    dataset: str,
    aspect: str,
    found: Sequence[Compared],
    printed: Sequence[PublishedRow],
    places: str,
    options: Mapping[str, str] = NO_OPTIONS,
) -> Iterator[PaperTable]:
    """A table for each protocol; one without our numbers where nothing was compared."""
    shown = _columns(dataset, printed)
    if not found:
        command = _how_to_measure(dataset, aspect, printed, options, places)
        yield PaperTable(
            title=target(dataset, aspect, options),
            head=["", *(column.heading for column in shown)],
            rows=[_published(row, shown, 0) for row in printed],
            protocol=published_protocol(printed),
            first=[
                f"nothing of this table was measured here{command}",
                *_first_published(printed, shown),
            ],
        )
    for _, group in _grouped(found, lambda one: one.protocol):
        yield _table(group, printed, shown)


def _table(group: Sequence[Compared], printed: Sequence[PublishedRow], shown: Sequence[Column]) -> PaperTable:
    one = group[0]
    if not any(row.source.startswith(PAPER) for row in printed):
        # a regression's columns are empty where the scores are classes
        known = {score for of in group for outcome in of.outcomes for score in outcome.scores}
        shown = [column for column in shown if column.score in known] or shown
    headline = headline_of(shown)
    num_gaps = 0 if headline is None else 1
    own = [_Own(method, of) for of in group for method in of.methods]
    rows: list[PaperRow] = []
    titles = [row.method for row in printed]
    paper = {row.method for row in printed if row.source.startswith(PAPER)} or set(titles)
    every = dict.fromkeys([*titles, *(row.title for row in own)])
    for title in every:
        ours = [row for row in own if row.title == title]
        rows += [_own_row(row, shown, headline, is_alone=len(group) == 1) for row in ours]
        if not ours and title in paper:
            cells = [NOT_MEASURED] * (len(shown) + num_gaps)
            rows.append(PaperRow(name=title, kind="missing", cells=cells))
        rows += [_published(row, shown, num_gaps) for row in printed if row.method == title]
    beside = next((of.beside for of in group if of.beside), ())
    rows += [_given(row, shown, num_gaps) for row in beside if row.name not in titles]
    gap = [f"{headline.label} minus InfoCal's [95 %]"] if headline else []
    signs = {sign for row in own for sign in row.marks}
    return PaperTable(
        title=f"{target(one.dataset, one.aspect, one.options)}: "
        f"methods at {100 * one.target_rate:g} % of the tokens",
        head=["", *(column.heading for column in shown), *gap],
        rows=rows,
        protocol=[*map(_own_protocol, group), *published_protocol(printed)],
        first=[*_first_here(own, shown, group), *_first_published(printed, shown)],
        notes=[f"{sign} {said}" for sign, said in MARKS.items() if sign in signs]
        + [f"{row.title}: {said}" for row in own if (said := failures(row.every))]
        + [said if len(group) == 1 else f"`{of.name}`: {said}" for of in group for said in of.remarks]
        + ([_NO_TRIVIAL] if _lacks_trivial(group, beside) else []),
        is_unfinished=not all(of.is_complete for of in group),
        is_sample=one.is_sample,
    )


def _lacks_trivial(group: Sequence[Compared], beside: Sequence[StandingsRow]) -> bool:
    """Whether texts with human rationales have no trivial masks here to compare with."""
    has_marks = any("token_f1" in one.scores for of in group for one in of.outcomes)
    return has_marks and not any(row.kind == "trivial" for row in beside)


# ------------------------------------------------------------------------------------------------- rows


def _columns(dataset: str, printed: Sequence[PublishedRow]) -> list[Column]:
    """The columns that the published table has; without one, those of the data set."""
    own = {column.published: column for column in columns(dataset) if column.published}
    own |= _PAPER_SCORES.get(lookup.metric_mode(dataset), {})
    first = [row for row in printed if row.source.startswith(PAPER)][:1]
    names = [name for row in first for name in row.printed]
    return [own[name] for name in names if name in own] or list(columns(dataset))


def _scaled(value: float, column: Column) -> str:
    factor, digits = column.scale
    return number(factor * value, digits)


def _own_row(row: _Own, shown: Sequence[Column], headline: Column | None, *, is_alone: bool) -> PaperRow:
    name = row.title + (f" ({len(row.of.targets)} targets)" if row.of.targets else "")
    name += "" if is_alone else f", in `{row.of.name}`"
    num, num_seeds = len(row.outcomes), len(row.of.seeds)
    cells = [_own_cell(row, column) for column in shown]
    if headline is not None:
        cells.append(_gap(row, headline))
    kind = "ours" if row.outcomes else "missing"
    note = f"{num} of {counted(num_seeds, 'seed')}" if num < num_seeds else ""
    return PaperRow(name=f"{name} {row.marks}".rstrip(), kind=kind, cells=cells, note=note)


def _own_cell(row: _Own, column: Column) -> str:
    """The mean over seeds, with its interval over texts and seeds, or its deviation over seeds."""
    values = [one.scores[column.score] for one in row.outcomes if column.score in one.scores]
    if not values:
        return NOT_MEASURED
    mean = over_seeds(values)
    text = _scaled(mean.mean, column)
    texts = [TextCounts.of_lists(one.texts) for one in row.outcomes if one.texts]
    can_draw = column.score in SCORES and column.score not in _NO_QUALITY and len(texts) == len(values)
    if can_draw and is_defined(column.score, texts[0]):
        ends = mean_interval(column.score, texts)
        return f"{text} [{_scaled(ends.low, column)}, {_scaled(ends.high, column)}]"
    return text if mean.deviation is None else f"{text} ± {_scaled(mean.deviation, column)}"


def _gap(row: _Own, column: Column) -> str:
    """The difference from InfoCal's mean of the same comparison, over the seeds that both have."""
    if row.method == INFOCAL:
        return NOT_PRINTED
    reference = [one for one in row.of.outcomes if one.method == INFOCAL and not one.failure]
    pairs = paired_counts(row.outcomes, reference)
    if pairs and column.score in SCORES and is_defined(column.score, pairs[0][1]):
        theirs, ours = zip(*pairs, strict=True)
        return difference_text(paired_difference(column.score, theirs, ours), column)
    # without an interval where texts cannot be drawn again
    mine, others = by_seed(row.outcomes, column.score), by_seed(reference, column.score)
    seeds = mine.keys() & others.keys()
    if not seeds:
        return NOT_MEASURED
    factor, digits = column.scale
    gap = factor * math.fsum(mine[s] - others[s] for s in seeds) / len(seeds)
    return f"{gap:+z.{digits}f} (no interval)"


def _published(row: PublishedRow, shown: Sequence[Column], num_gaps: int) -> PaperRow:
    given = given_row(f"{row.method}, published", row.scores(shown), "paper")
    return _given(given, shown, num_gaps)


def _given(row: StandingsRow, shown: Sequence[Column], num_gaps: int) -> PaperRow:
    """A row of scores without a difference from InfoCal."""
    cells = [
        _scaled(row.cells[column.score].mean, column) if column.score in row.cells else NOT_PRINTED
        for column in shown
    ]
    return PaperRow(name=row.name, kind=row.kind, cells=cells + [NOT_PRINTED] * num_gaps, note=row.note)


# --------------------------------------------------------------------------------- what is said of a table


def _own_protocol(one: Compared) -> str:
    """On what the rows of a comparison were measured."""
    sizes = "number of texts not known, because the features are not on this machine"
    if one.counts:
        train, tokens = one.counts["train_rows"], one.counts["train_tokens"]
        sizes = (
            f"trained on {counted(train, 'text', spec=',')} ({counted(tokens, 'token', spec=',')}), "
            f"scored on {counted(one.counts['test_rows'], 'text', spec=',')}"
        )
    if one.targets:
        sizes += f"; each model predicts {_listed(list(one.targets))}, and was chosen by its main target"
    state = "all trainings have ended"
    if not one.is_complete:
        state = f"UNFINISHED: {len(one.outcomes)} of {one.num_all} trainings have ended"
    return (
        f"ours, `{one.name}`: {100 * one.target_rate:g} % of the tokens selected on validation; {sizes}; "
        f"{counted(one.num_epochs, 'epoch')}; {counted(len(one.seeds), 'seed')} "
        f"({', '.join(map(str, one.seeds))}); {state}"
    )


def published_protocol(printed: Sequence[PublishedRow]) -> list[str]:
    """On what published rows were measured."""
    said: dict[str, None] = {}
    for row in printed:
        trained = f"trained on {row.trained_on}" if row.trained_on else "training data not stated"
        said[f"published, {row.source}: {row.note}; {trained}"] = None
    return list(said)


def _pretrained(methods: Sequence[str]) -> str:
    """The flags that the methods need which start from pretrained weights; the reader completes them."""
    return "".join(
        f" --set {name}.pretrained=FOLDER_OR_NAME" for name in methods if lookup.needs_pretrained(name)
    )


def _how_to_measure(
    dataset: str, aspect: str, printed: Sequence[PublishedRow], options: Mapping[str, str], places: str
) -> str:
    titles = {row.method for row in printed}
    known = [name for name in lookup.method_names() if lookup.title(name) in titles]
    if dataset not in datasets.names() or not known:
        return ""
    more = "".join(f" --option {name}={value}" for name, value in options.items())
    alone = [name for name in known if lookup.can_predict(name, aspect)]
    joint = [name for name in known if name not in alone]
    every = joined([aspect, *(one for one in get_source(dataset).side_targets if one != aspect)])
    commands = [
        f"`python -m pipeline.compare {target_flags(dataset, of)}{more} "
        f"--methods {','.join(names)}{_pretrained(names)} --seeds 8{places and f' {places}'}`"
        for of, names in ((aspect, alone), (every, joint))
        if names
    ]
    measure = "this command measures it" if len(commands) == 1 else "these commands measure it"
    return f"; {measure}: {', '.join(commands)}"


# ---------------------------------------------------------------------------------------------- who is first


def _first_here(own: Sequence[_Own], shown: Sequence[Column], group: Sequence[Compared]) -> list[str]:
    """Where InfoCal is first among the rows measured here, and who is first elsewhere."""
    so_far = "" if all(of.is_complete for of in group) else "so far, "
    measured = [row for row in own if row.outcomes]
    infocal = [row for row in measured if row.method == INFOCAL]
    if not infocal:
        return [f"here: {so_far}InfoCal is not measured, so its place is not known"]
    left_out = {row.marked for row in measured if _is_apart(row)}
    rivals = [row for row in measured if row.method != INFOCAL and not _is_apart(row)]
    ours, theirs = (
        [(row.marked, {c.score: row.mean(c.score) for c in shown}) for row in some]
        for some in (infocal, rivals)
    )
    said = _places(ours, theirs, shown)
    said = [
        f"here: {so_far}{text}" for text in said or ["no other measured method can be compared with InfoCal"]
    ]
    if left_out:
        said[-1] += (
            "; left out, because they read or select all tokens, or select none: "
            f"{', '.join(sorted(left_out))}"
        )
    if marks := "".join(dict.fromkeys(sign for row in infocal for sign in row.marks)):
        said[-1] += f"; InfoCal's own row has the mark {marks}"
    num_seeds = len({one.seed for row in infocal for one in row.outcomes})
    if (early := too_few_seeds(num_seeds)) is not None:
        said.append(early)
    return said


def _is_apart(row: _Own) -> bool:
    """Whether a row does not compare with the others: dense, or trivial.

    One that is off the target takes part, with its mark: it may be ahead though it selects less.
    """
    return row.method != INFOCAL and any(sign in row.marks for sign in (DENSE, DEGENERATE))


def _first_published(printed: Sequence[PublishedRow], shown: Sequence[Column]) -> list[str]:
    said = []
    for source, rows in _grouped(printed, lambda row: row.source):
        # a row that selects every token has no rationale
        held = [row for row in rows if row.value("selected") != 1]
        valued = [(row.method, row.scores(shown)) for row in held]
        ours = [one for one in valued if one[0] == lookup.title(INFOCAL)]
        others = [one for one in valued if one[0] != lookup.title(INFOCAL)]
        said += [f"published, {source}: {text}" for text in _places(ours, others, shown)]
    return said


_Valued = tuple[str, Mapping[str, float | None]]


def _places(ours: Sequence[_Valued], others: Sequence[_Valued], shown: Sequence[Column]) -> list[str]:
    """In which columns InfoCal is first, and who is first in the others; empty without both."""
    if not ours or not others:
        return []
    firsts: list[str] = []
    lost: dict[str, list[str]] = {}
    for column in shown:
        sign = -1 if column.score in _LESS_IS_BETTER else 1
        best, rival = (_best(some, column.score, sign) for some in (ours, others))
        if column.score in _NO_QUALITY or best is None or rival is None:
            continue
        if sign * rival[0] > sign * best[0]:
            against = f"{_scaled(rival[0], column)} against {_scaled(best[0], column)}"
            lost.setdefault(rival[1], []).append(f"{column.label} ({against})")
        else:
            firsts.append(column.label)
    if not firsts and not lost:
        return []
    text = f"InfoCal is first in {_listed(firsts)}" if firsts else "InfoCal is not first in any column"
    instead = [f"{name} is first in {_listed(labels)}" for name, labels in lost.items()]
    return ["; ".join([text, *instead])]


def _best(some: Sequence[_Valued], score: str, sign: int) -> tuple[float, str] | None:
    """The best value of a score, and whose it is; None where nobody has one."""
    known = [(value, name) for name, values in some if (value := values.get(score)) is not None]
    return max(known, key=lambda pair: sign * pair[0], default=None)


def _listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def state(table: PaperTable) -> str:
    """How much of a table was measured here."""
    num = sum(row.kind == "ours" for row in table.rows)
    if not num:
        return NOT_MEASURED
    missing = sum(row.kind == "missing" for row in table.rows)
    parts = [counted(num, "row"), *([f"{counted(missing, 'row')} not measured"] if missing else [])]
    return ", ".join([*parts, *(["unfinished"] if table.is_unfinished else [])])
