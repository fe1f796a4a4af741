"""Given masks against human ones: which texts are compared, and every score with its definition."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from feature_store.errors import shown
from feature_store.mask_records import MaskRecord
from feature_store.masks import MaskFile, split_as
from feature_store.wording import counted
from infocal.metrics import scores as metrics
from infocal.metrics import trivial as baselines
from infocal.metrics.scores import Mask
from pipeline.base import text_tables
from pipeline.base.errors import PipelineError

SEED, NUM_DRAWS = 0, 10
"""Of the line `random_k`, a mean over draws."""

_SHOWN = 5
"""Texts that the page names of each kind; `--json` has them all."""

_KINDS = {
    "not_annotated": "texts without a human mask, left out of every score but the selection rates",
    "human_alone": "texts of the human file without a rationale in the other file, not scored",
    "rationale_alone": "texts of the rationale file that are not in the human file, not scored",
}

_UNSCALED = ("num_documents", "num_skipped", "num_without_positives")


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which record of the human file belongs to which of the rationale file."""

    pairs: list[tuple[MaskRecord, MaskRecord]]
    """Human, rationale; in the order of the human file."""
    num_by_text: int
    """How many were found by their tokens, for want of a common id."""
    human_alone: list[MaskRecord]
    rationale_alone: list[MaskRecord]


def pair(human: Sequence[MaskRecord], rationales: Sequence[MaskRecord]) -> Pairing:
    """Pair the texts of two files by id, and by their tokens those whose id the other file does not have.

    A text that stands several times in one of the files is not found by its tokens.

    Raises:
        PipelineError: if two records of one id have different tokens.
    """
    partner = _common(human, rationales, lambda record: record.example_id)
    partner = {where: _split_alike(*both) for where, both in partner.items()}
    num_by_id = len(partner)
    taken = {record.where for both in partner.values() for record in both}
    rest = [[record for record in records if record.where not in taken] for records in (human, rationales)]
    by_text = _common(rest[0], rest[1], _tokens)
    partner |= by_text
    taken |= {record.where for both in by_text.values() for record in both}
    return Pairing(
        [partner[record.where] for record in human if record.where in partner],
        len(partner) - num_by_id,
        *([record for record in records if record.where not in taken] for records in rest),
    )


def _split_alike(human: MaskRecord, rationale: MaskRecord) -> tuple[MaskRecord, MaskRecord]:
    """Two records of one id, on the same tokens: where one file gives a text, on those of the other.

    Raises:
        PipelineError: if their tokens are those of different texts.
    """
    if human.tokens is None or rationale.tokens is None or human.tokens == rationale.tokens:
        return human, rationale
    if (fitted := split_as(rationale, human.tokens)) is not None:
        return human, fitted
    if (fitted := split_as(human, rationale.tokens)) is not None:
        return fitted, rationale
    raise PipelineError(
        f"the text `{human.label[:60]}` has other tokens here than in {human.where}",
        where=rationale.where,
        hint="give the same texts in both files, both as `text` or both as `tokens`",
    )


def _tokens(record: MaskRecord) -> str | None:
    return None if record.tokens is None else "\0".join(record.tokens)


def _common(
    human: Sequence[MaskRecord],
    rationales: Sequence[MaskRecord],
    key: Callable[[MaskRecord], str | None],
) -> dict[str, tuple[MaskRecord, MaskRecord]]:
    """Pairs of one key that stands once in each file, by where the human record stands."""
    counts = [Counter(map(key, records)) for records in (human, rationales)]
    other = {key(record): record for record in rationales}
    return {
        record.where: (record, other[name])
        for record in human
        if (name := key(record)) is not None and all(count[name] == 1 for count in counts)
    }


@dataclass(frozen=True, slots=True)
class _Text:
    """One pair in arrays."""

    mask: Mask
    gold: Mask | None
    scores: list[float] | None


def _text(human: MaskRecord, rationale: MaskRecord) -> _Text:
    sizes = [record.num_tokens for record in (human, rationale) if record.num_tokens is not None]
    if not sizes:
        raise PipelineError(
            f"the number of tokens of `{human.label[:60]}` is not given",
            where=human.where,
            hint="add `tokens` or `num_tokens`",
        )
    if sizes[0] != sizes[-1]:
        raise PipelineError(
            f"`{human.label[:60]}` has {counted(sizes[-1], 'token')} here, but {sizes[0]} in {human.where}",
            where=rationale.where,
            hint="both files must be of the same texts, split in the same way",
        )
    of_another = rationale.document not in (None, human.document, rationale.example_id)
    if human.document is not None and of_another:
        raise PipelineError(
            f"the rationale of `{human.label[:60]}` is for document `{rationale.document}` here, but for "
            f"document `{human.document}` in {human.where}",
            where=rationale.where,
            hint="give the same `docid` in both files, or leave `docid` out of one file",
        )
    if rationale.positions is None:
        raise PipelineError(
            "expected a rationale, but got null, which is allowed only in the human file",
            where=rationale.where,
            hint="write `[]` for a text in which nothing is selected",
        )
    gold = None if human.positions is None else _mask(human, human.positions, sizes[0], rationale)
    return _Text(_mask(rationale, rationale.positions, sizes[0], human), gold, rationale.scores)


def _mask(record: MaskRecord, positions: Sequence[int], size: int, other: MaskRecord) -> Mask:
    """The mask of a record.

    Args:
        other: of the same text; it says how many tokens the text has where the record does not.

    Raises:
        PipelineError: if a position is beyond the text; names the span as the file has it.
    """
    if positions and positions[-1] >= size:
        source = other if record.num_tokens is None else record
        what = f"position below {size}", str(positions[-1])
        if record.last_span is not None:
            what = f"span [start, end) with an end of at most {size}", shown(record.last_span)
        raise PipelineError(
            f"expected a {what[0]}, because the text has {counted(size, 'token')} in {source.where}, but got "
            f"{what[1]}",
            where=record.where,
        )
    mask = np.zeros(size, dtype=np.bool_)
    mask[np.asarray(positions, dtype=np.int64)] = True
    return mask


@dataclass(frozen=True, kw_only=True, slots=True)
class Scorecard:
    """Every score of a mask file, with what it was measured on."""

    scores: dict[str, dict[str, float]]
    """Metric mode -> flat name -> value."""
    trivial: dict[str, dict[str, dict[str, float]]]
    """Line -> metric mode -> flat name -> value."""
    rate: float
    """Selection rate of the lines."""
    counts: dict[str, int]
    left_out: dict[str, list[str]]
    """Texts by what is missing: `not_annotated`, `human_alone`, `rationale_alone`."""
    notes: list[str] = field(default_factory=list)

    def definitions(self) -> dict[str, str]:
        """What each flat name means."""
        names = dict.fromkeys(name for scores in self.scores.values() for name in scores)
        return {name: metrics.definition(name) for name in names}


def scorecard(human: MaskFile, rationales: MaskFile) -> Scorecard:
    """Score the masks of one file against those of another, in every metric mode.

    Args:
        rationales: those to score, with `scores` for the ranking scores or without.

    Raises:
        PipelineError: if no text stands in both, if lengths differ, or nobody annotated any of them.
    """
    pairing = pair(human.records, rationales.records)
    if not pairing.pairs:
        size = len(rationales.records)
        raise PipelineError(
            f"no text of this file ({size} in all) occurs in {human.path}; texts are matched by `id`, then "
            "by their tokens",
            where=str(rationales.path),
            hint="check that both files contain the same corpus: the first text of this file is "
            f"`{rationales.records[0].label[:60]}`, the first text of {human.path} is "
            f"`{human.records[0].label[:60]}`",
        )
    texts = [_text(*both) for both in pairing.pairs]
    masks, golds = [text.mask for text in texts], [text.gold for text in texts]
    if all(gold is None for gold in golds):
        raise PipelineError(
            "the only text that both files contain has no human rationale"
            if len(golds) == 1
            else f"none of the {len(golds)} texts that both files contain has a human rationale",
            where=str(human.path),
        )
    ranking, note = _ranking(texts)
    scores = metrics.ranked_in_modes(masks, ranking, golds)
    rate = scores["eraser"]["selection_rate_annotated"]
    lengths = [len(mask) for mask in masks]
    trivial = baselines.trivial_in_modes(golds, lengths, rate, seed=SEED, num_draws=NUM_DRAWS)
    kind = metrics.degenerate_kind(masks)
    selected = "all tokens" if kind == "degenerate_all" else "no token"
    note_of_kind = [f"the masks select (nearly) {selected}"] if kind else []
    return Scorecard(
        scores=scores,
        trivial=trivial,
        rate=rate,
        counts=_counts(human, rationales, pairing, golds),
        left_out={
            "not_annotated": [one.label for one, _ in pairing.pairs if one.positions is None],
            "human_alone": [record.label for record in pairing.human_alone],
            "rationale_alone": [record.label for record in pairing.rationale_alone],
        },
        notes=[*human.notes, *rationales.notes, note, *note_of_kind],
    )


def gold_density(human: MaskFile) -> float:
    """Marked tokens / tokens, over the annotated texts of a file.

    Raises:
        PipelineError: if nobody annotated any, or the length of an annotated text is not stated.
    """
    annotated = [record for record in human.records if record.positions is not None]
    if not annotated:
        size = len(human.records)
        raise PipelineError(
            "its only text has no human rationale"
            if size == 1
            else f"none of its {size} texts has a human rationale",
            where=str(human.path),
        )
    golds = [_text(record, record).mask for record in annotated]
    return metrics.token_scores(golds, golds).gold_density


def _ranking(texts: Sequence[_Text]) -> tuple[list[Any], str]:
    """What the texts' tokens are ranked by, and which that is; scores only where every text has them."""
    num_scored = sum(text.scores is not None for text in texts)
    if num_scored == len(texts):
        return [np.asarray(text.scores) for text in texts], "auprc, average_precision: by the file's `scores`"
    if num_scored:
        bare = f"{len(texts) - num_scored} of {len(texts)} texts have no `scores`"
    else:
        bare = "the file has no `scores`"
    note = f"auprc, average_precision: {bare}, so tokens are ranked by the mask, selected before unselected"
    return [text.mask.astype(np.float64) for text in texts], note


def _counts(
    human: MaskFile, rationales: MaskFile, pairing: Pairing, golds: Sequence[Mask | None]
) -> dict[str, int]:
    return {
        "human_texts": len(human.records),
        "rationale_texts": len(rationales.records),
        "matched": len(pairing.pairs),
        "matched_by_id": len(pairing.pairs) - pairing.num_by_text,
        "matched_by_text": pairing.num_by_text,
        "annotated": sum(gold is not None for gold in golds),
        "human_alone": len(pairing.human_alone),
        "rationale_alone": len(pairing.rationale_alone),
    }


def as_json(card: Scorecard, human: MaskFile, rationales: MaskFile) -> dict[str, Any]:
    """Everything a machine may ask for."""
    return {
        "human": {"file": str(human.path), "sha256": human.sha256},
        "rationale": {"file": str(rationales.path), "sha256": rationales.sha256},
        "counts": card.counts,
        "left_out": card.left_out,
        "notes": card.notes,
        "scores": card.scores,
        "trivial": card.trivial,
        "trivial_rate": card.rate,
        "trivial_random": {"seed": SEED, "num_draws": NUM_DRAWS},
        "definitions": card.definitions(),
    }


def page(card: Scorecard, human: MaskFile, rationales: MaskFile) -> str:
    """The scores as text: what was compared, a table for each metric mode, and what each name means."""
    lines = _provenance(card, human, rationales)
    for mode, names in _new_names(card.scores).items():
        rows = {"": ["masks", *card.trivial]}
        for name in names:
            of_lines = [line[mode].get(name) for line in card.trivial.values()]
            rows[name] = [_cell(name, value) for value in (card.scores[mode][name], *of_lines)]
        lines += ["", f"mode {mode}", *_table(rows)]
    definitions = card.definitions()
    width = max(map(len, definitions))
    lines += [
        "",
        f"random_k, first_k and oracle_k select a share of {card.rate:.4f}, the same as the masks on "
        f"annotated texts; random_k is the mean of {NUM_DRAWS} random masks, oracle_k is the highest micro "
        "token score that this share can reach",
        "",
        *(f"{name:<{width}}  {text}" for name, text in definitions.items()),
    ]
    return "\n".join(lines)


def _provenance(card: Scorecard, human: MaskFile, rationales: MaskFile) -> list[str]:
    counts = card.counts
    matched = (
        f"{counts['matched']} matched ({counts['matched_by_id']} by id, {counts['matched_by_text']} by text)"
    )
    lines = [
        f"human      {human.path}  sha256 {human.sha256}",
        f"rationale  {rationales.path}  sha256 {rationales.sha256}",
        f"texts      {counts['human_texts']} human, {counts['rationale_texts']} of the rationale file; "
        f"{matched}, {counts['annotated']} of them annotated",
    ]
    lines += [
        f"note: {_KINDS[kind]}: {len(labels)} ({_named(labels)})"
        for kind, labels in card.left_out.items()
        if labels
    ]
    return lines + [f"note: {note}" for note in card.notes]


def _named(labels: Sequence[str]) -> str:
    more = len(labels) - _SHOWN
    return ", ".join(labels[:_SHOWN]) + (f" and {more} more (all of them with --json)" if more > 0 else "")


def _new_names(scores: Mapping[str, Mapping[str, float]]) -> dict[str, list[str]]:
    """Names by mode, each in the first mode that has it."""
    seen: set[str] = set()
    found: dict[str, list[str]] = {}
    for mode, flat in scores.items():
        found[mode] = [name for name in flat if name not in seen]
        seen |= flat.keys()
    return found


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if name in _UNSCALED else f"{value:z.4f}"


def _table(rows: Mapping[str, Sequence[str]]) -> list[str]:
    return text_tables.aligned([[name, *cells] for name, cells in rows.items()]).split("\n")
