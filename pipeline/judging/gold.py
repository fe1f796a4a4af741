"""What annotators marked: one rationale a text by vote, each annotator's own, and how far they agree."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from feature_store.sources.fields import positions
from pipeline.base.errors import PipelineError
from pipeline.judging import ratings
from pipeline.judging.book import Book
from pipeline.judging.ratings import Estimate
from pipeline.judging.sheet import Sheet, Spans, Text, spans_of

VOTES: Mapping[str, Callable[[int, int], bool]] = {
    "majority": lambda marked, people: 2 * marked > people,
    "any": lambda marked, people: marked > 0,
    "all": lambda marked, people: marked == people,
}
"""Which tokens are gold, by how many of a text's annotators marked them."""

Marks = Mapping[int, frozenset[int]]
"""Positions that are marked, by text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Annotations:
    """What a sheet for annotation came to."""

    by_annotator: list[Marks]
    num_slots: int
    token_f1: Estimate
    """Of two annotators of a text, the mean over pairs and then over texts; 1 where both marked nothing."""
    alpha: Estimate
    """Krippendorff's, nominal, over tokens of texts with two annotators; the interval is over texts."""
    marked: Estimate
    """Share of a text's tokens that an annotator marks."""

    @property
    def num_done(self) -> int:
        """Showings that are finished."""
        return sum(map(len, self.by_annotator))


def annotations(sheet: Sheet, book: Book) -> Annotations:
    """Everything that annotators have finished.

    Raises:
        PipelineError: if that is nothing.
    """
    found = [
        {
            plan[number].text: frozenset(
                positions([(start, end) for start, end in answer.content["rationale"]])
            )
            for number, answer in book.answers(judge).items()
            if answer.is_complete
        }
        for judge, plan in enumerate(sheet.plan)
    ]
    if not any(found):
        raise PipelineError(
            "no annotated text yet: annotators finish a text by pressing Enter",
            where=str(book.path),
            hint="`python -m pipeline.judge --sheet DIR` serves the sheet",
        )
    rates = {
        text: fmean(len(own[text]) / len(sheet.texts[text].tokens) for own in found if text in own)
        for text in sorted(set().union(*found))
    }
    return Annotations(
        by_annotator=[*found],
        num_slots=sheet.num_slots,
        token_f1=ratings.mean([*_pairwise_f1(found).values()]),
        alpha=_alpha(sheet, found),
        marked=ratings.mean([*rates.values()]),
    )


def _pairwise_f1(found: Sequence[Marks]) -> dict[int, float]:
    scores: dict[int, list[float]] = {}
    for one, other in itertools.combinations(found, 2):
        for text in one.keys() & other.keys():
            size = len(one[text]) + len(other[text])
            f1 = 2 * len(one[text] & other[text]) / size if size else 1.0
            scores.setdefault(text, []).append(f1)
    return {text: fmean(values) for text, values in sorted(scores.items())}


def _alpha(sheet: Sheet, found: Sequence[Marks]) -> Estimate:
    """Alpha over tokens; texts, not tokens, are drawn again, since the tokens of a text go together."""
    shared = [text for text in range(len(sheet.texts)) if sum(text in own for own in found) > 1]
    tables = []
    for text in shared:
        table = np.full((len(found), len(sheet.texts[text].tokens)), np.nan)
        for judge, own in enumerate(found):
            if text in own:
                table[judge] = 0.0
                table[judge, sorted(own[text])] = 1.0
        tables.append(table)
    return ratings.alpha_of_groups(tables, "nominal")


def gold(found: Annotations, texts: Sequence[Text], vote: str) -> list[dict[str, Any]]:
    """A record a text, as `--dataset jsonl` and `pipeline.score` read it; null where nobody finished it."""
    records = []
    for number, text in enumerate(texts):
        own = [marks[number] for marks in found.by_annotator if number in marks]
        chosen = [
            i for i in range(len(text.tokens)) if VOTES[vote](sum(i in marks for marks in own), len(own))
        ]
        records.append(_record(text, spans_of(chosen) if own else None))
    return records


def own_records(marks: Marks, texts: Sequence[Text]) -> list[dict[str, Any]]:
    """The texts that one annotator finished, in the same form."""
    return [_record(texts[number], spans_of(sorted(own))) for number, own in sorted(marks.items())]


def _record(text: Text, rationale: Spans | None) -> dict[str, Any]:
    """A text in the form of its file: with `tokens`, or with `text`, whose spans count characters."""
    given: dict[str, Any] = {"tokens": text.tokens}
    if text.original:
        given = {"text": text.original}
        if rationale is not None:
            rationale = [[text.places[start][0], text.places[end - 1][1]] for start, end in rationale]
    return {"id": text.example_id, **given, **text.record, "rationale": rationale}


def jsonl(records: Sequence[Mapping[str, Any]]) -> str:
    """One JSON object a line."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
