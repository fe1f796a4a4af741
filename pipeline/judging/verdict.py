"""What a sheet came to: every number once, for the tables and for machines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.judging import ratings as rated
from pipeline.judging.book import Book
from pipeline.judging.guide import SCALES
from pipeline.judging.ratings import Estimate, PairDifference, Repeats
from pipeline.judging.sheet import Sheet


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """How one judge scored."""

    number: int
    num_done: int
    num_slots: int
    means: Mapping[str, float | None]
    """By scale, over what was scored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The results of a sheet; mappings are by scale."""

    title: str
    methods: list[str]
    num_texts: int
    num_judges: int
    num_done: int
    num_slots: int
    means: Mapping[str, list[Estimate]]
    """A method each."""
    differences: Mapping[str, list[PairDifference]]
    alpha: Mapping[str, Estimate]
    """Krippendorff's, for intervals."""
    alpha_ordinal: Mapping[str, Estimate]
    repeats: Mapping[str, Repeats]
    people: list[Person]
    provenance: Mapping[str, Any]


def conclude(sheet: Sheet, book: Book) -> Verdict:
    """The results of what has been answered so far.

    Raises:
        PipelineError: if nothing has been.
    """
    given = rated.ratings_of(sheet, book)
    methods, num_judges = range(len(sheet.methods)), len(sheet.plan)
    tables = {scale: rated.reliability(given, num_judges, scale) for scale in SCALES}
    done = book.num_complete()
    people = []
    for judge, plan in enumerate(sheet.plan):
        own = [one for one in given if one.judge == judge]
        means = {
            scale: rated.mean([one.scores[scale] for one in own if scale in one.scores]).value
            for scale in SCALES
        }
        people.append(Person(number=judge + 1, num_done=done[judge], num_slots=len(plan), means=means))
    return Verdict(
        title=sheet.title,
        methods=sheet.methods,
        num_texts=len(sheet.texts),
        num_judges=num_judges,
        num_done=sum(done),
        num_slots=sheet.num_slots,
        means={
            scale: [rated.mean([*rated.text_means(given, method, scale).values()]) for method in methods]
            for scale in SCALES
        },
        differences={scale: rated.differences(given, len(methods), scale) for scale in SCALES},
        alpha={scale: rated.alpha(table) for scale, table in tables.items()},
        alpha_ordinal={scale: rated.alpha(table, "ordinal") for scale, table in tables.items()},
        repeats={scale: rated.repeats(given, scale) for scale in SCALES},
        people=people,
        provenance=sheet.provenance,
    )
