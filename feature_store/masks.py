"""Mask files: which tokens of which texts are in a rationale, as humans or a method chose them.

A plain file is one JSON object a line (a name that ends in .gz is decompressed):

    id                  number or text; may be left out where `tokens` is given
    tokens | num_tokens the text's tokens, or how many there are; may be left out where `rationale` is a
                        0/1 mask, or where the other file states it
    rationale           a 0/1 mask with one entry per token, or [start, end) spans of tokens; []: nothing is
                        selected; null, in a file of human rationales: nobody annotated the text
    scores              optional: a number per token, larger means rather selected

A `text` in place of its tokens is split at blanks, one in Chinese by jieba, and spans then count its
characters; a text of another language without blanks between words needs its tokens. Beside a file with
tokens of the same text, its mask is one of these tokens (`split_as`). The spans of doccano's exports
(`label`, `labels` or `entities`) are read where there is no `rationale`. A span may have a name behind
it: [start, end, label].

Besides, in their own formats: ERASER's predictions and annotations (`feature_store.eraser_masks`), the beer
corpus's `annotations.json`, and files like `lei2016_rationales.jsonl`
(`rid`, and a list of positions under the name of each aspect).
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from feature_store.eraser_masks import OF_PREDICTIONS, EraserFile
from feature_store.errors import (
    BadInputError,
    RequestError,
    did_you_mean,
    keys_in_words,
    shown,
    slip_of_key,
)
from feature_store.fingerprint import file_digest
from feature_store.mask_records import MaskRecord, check_scores
from feature_store.scripts import CHINESE, lacks_blanks
from feature_store.sources import get_source
from feature_store.sources.base import Report, resolve_aspect
from feature_store.sources.beer import Beer, annotated_reviews
from feature_store.sources.fields import (
    MAX_TOKENS,
    check_id,
    check_spans,
    check_text,
    check_tokens,
    is_mask,
    mask_positions,
    positions,
    unread_keys,
    whole,
)
from feature_store.sources.lines import read_records
from feature_store.targets import main_of
from feature_store.tokenize import TOKENIZERS, Token, split_at_blanks
from feature_store.tokens import touched
from feature_store.wording import counted

MAX_BYTES = 4 * 2**30
"""Most bytes to accept from one mask file, after decompression."""

MAX_SELECTED, MAX_ALL_TOKENS = 20_000_000, 500_000_000
"""Most selected tokens, and tokens of texts, to accept from one mask file: a short line can state many."""

_DOCCANO = ("label", "labels", "entities")
"""Keys under which doccano's exports have spans; which of them depends on its version."""

_PLAIN_FIELDS = ("id", "tokens", "num_tokens", "rationale", "scores")


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskFile:
    """A mask file, read whole."""

    path: Path
    sha256: str
    records: list[MaskRecord]
    notes: list[str]


def check_dataset(dataset: str | None, aspect: str | None) -> str | None:
    """The aspect's own name, for a data set whose files have a format of their own.

    Raises:
        RequestError: for a data set that has none here, or an aspect that it has not.
    """
    if dataset is None:
        if aspect is not None:
            raise RequestError(
                f"`{aspect}` is an aspect of a data set, but no data set was named",
                where="--aspect",
                hint="add `--dataset beer`",
            )
        return None
    if dataset != Beer.name:
        raise RequestError(
            f"expected `beer`, the only data set whose raw files this command reads, but got `{dataset}`",
            where="--dataset",
            hint=did_you_mean(dataset, (Beer.name,), "--dataset ")
            or "leave out the flag, and give the rationales as JSON lines (see docs/scoring.md)",
        )
    return main_of(resolve_aspect(get_source(dataset), aspect))


def read_masks(path: Path, *, aspect: str | None, max_bytes: int = MAX_BYTES) -> MaskFile:
    """A mask file; its format is told by the keys of the first line.

    Args:
        aspect: of beer, for the corpus's own formats; None where a plain file is expected.

    Raises:
        MissingDataError: if there is no such file.
        BadInputError: at the first line that breaks the format, or repeats an id.
        RequestError: for a file of the beer corpus without an aspect.
    """
    _, first = next(read_records(path, max_bytes=max_bytes))
    unread: Counter[str] = Counter()
    records: Iterator[MaskRecord]
    file = EraserFile(path, max_bytes) if "annotation_id" in first else None
    if file is not None:
        records = file.masks()
    elif "rid" not in first:
        lines = read_records(path, max_bytes=max_bytes)
        records = (_plain(record, where, unread) for where, record in lines)
    elif aspect is None:
        raise RequestError(
            "this is a file of the beer corpus, which has several aspects",
            where=str(path),
            hint="add `--dataset beer --aspect ASPECT` (appearance, smell or palate)",
        )
    elif "x" in first:
        records = _annotations(path, main_of(aspect) or "", max_bytes)
    else:
        main = main_of(aspect) or ""
        lines = read_records(path, ("rid", main), max_bytes=max_bytes)
        records = (_aspect_positions(record, where, main) for where, record in lines)
    checked = list(_checked(records))
    notes = [f"{path.name}: {unread_keys(unread, _PLAIN_FIELDS)}"] if unread else []
    return MaskFile(
        path=path, records=checked, sha256=file_digest(path), notes=notes if file is None else file.notes()
    )


def _checked(records: Iterator[MaskRecord]) -> Iterator[MaskRecord]:
    """The records, once each is known to have an id of its own and all of them to fit in memory."""
    places: dict[str, str] = {}
    num_selected = num_tokens = 0
    for record in records:
        num_selected += len(record.positions or ())
        num_tokens += record.num_tokens or 0
        for what, number, most in (
            ("rationales", num_selected, MAX_SELECTED),
            ("texts", num_tokens, MAX_ALL_TOKENS),
        ):
            if number > most:
                raise BadInputError(
                    f"expected at most {counted(most, 'token', spec=',')} in all {what} of a file, "
                    f"but there are {number:,} up to this line",
                    where=record.where,
                    hint="check spans and `num_tokens`, or score the file in parts",
                )
        if record.example_id is not None:
            if record.example_id in places:
                raise BadInputError(
                    f"the id `{record.example_id[:60]}` is in {places[record.example_id]} already",
                    where=record.where,
                )
            places[record.example_id] = record.where
        yield record


def _annotations(path: Path, aspect: str, max_bytes: int) -> Iterator[MaskRecord]:
    reviews = annotated_reviews(path, Beer.aspects.index(aspect), max_bytes, Report())
    for number, review in enumerate(reviews, start=1):
        yield MaskRecord(
            where=f"{path}:{number}",
            example_id=review.example_id,
            tokens=review.tokens,
            num_tokens=len(review.tokens),
            positions=review.rationale,
        )


def _aspect_positions(record: Mapping[str, object], where: str, aspect: str) -> MaskRecord:
    found = record[aspect]
    entries = [-1 if isinstance(e, bool) else whole(e) for e in found] if isinstance(found, list) else [-1]
    if any(entry is None or entry < 0 for entry in entries):
        raise BadInputError(
            f"expected a list of positions from 0 as `{aspect}`, but got {shown(found)}", where=where
        )
    return MaskRecord(
        where=where,
        example_id=check_id(record["rid"], "rid", where),
        tokens=None,
        num_tokens=None,
        positions=sorted(set(cast("list[int]", entries))),
    )


def _plain(record: dict[str, object], where: str, unread: Counter[str]) -> MaskRecord:
    given: str | None = None
    characters: Sequence[Sequence[int]] = ()
    if "text" in record and record.get("tokens") is None:
        given = check_text(record["text"], "text", where)
        record, characters = _of_text(given, record, where)
    if "rationale" not in record:
        raise BadInputError(
            f"no key `rationale`; {keys_in_words(record)}", where=where, hint=_without_rationale(record)
        )
    unread.update(record.keys() - set(_PLAIN_FIELDS))
    example_id = None if record.get("id") is None else check_id(record["id"], "id", where)
    tokens = None if record.get("tokens") is None else check_tokens(record["tokens"], "tokens", where)
    if example_id is None and tokens is None:
        raise BadInputError(
            f"expected `id` or `tokens`, to find the text in the other file; {keys_in_words(record)}",
            where=where,
        )
    text = MaskRecord(
        where=where,
        example_id=example_id,
        tokens=tokens,
        num_tokens=_num_tokens(record, tokens, where),
        positions=None,
        text=given,
        characters=characters,
    )
    rationale = record["rationale"]
    found = _positions(rationale, text.num_tokens, where)
    last = None
    if text.num_tokens is None and isinstance(rationale, list):
        last = max(rationale, key=lambda span: float(span[1]), default=None)
    scores = check_scores(record.get("scores"), text.num_tokens, where)
    return replace(text, positions=found, scores=scores, last_span=last)


def _without_rationale(record: Mapping[str, object]) -> str:
    """What to do about a line without a rationale, by the format that its keys belong to."""
    if record.keys() & {"annotation_id", *OF_PREDICTIONS}:
        return (
            "in ERASER predictions, every line needs `annotation_id` and `rationales` (or "
            f"`{OF_PREDICTIONS[-1]}`)"
        )
    others = record.keys() - set(_PLAIN_FIELDS)
    return slip_of_key("rationale", others) or (
        "each line needs `rationale`: a 0/1 mask or [start, end) spans. A line of ERASER's predictions needs "
        f"`annotation_id` and `rationales` with `{OF_PREDICTIONS[-1]}` instead (see docs/scoring.md)"
    )


def _num_tokens(record: dict[str, object], tokens: list[str] | None, where: str) -> int | None:
    """From `tokens` or `num_tokens`, else the length of what has an entry per token."""
    given = record.get("num_tokens")
    stated = None if isinstance(given, bool) else whole(given)
    if given is not None and (stated is None or stated < 1):
        raise BadInputError(
            f"expected a whole number above 0 as `num_tokens`, but got {shown(given)}", where=where
        )
    if tokens is not None:
        if stated not in (None, len(tokens)):
            raise BadInputError(
                f"`num_tokens` is {shown(stated)}, but there are {counted(len(tokens), 'token')}", where=where
            )
        return len(tokens)
    if stated is not None and stated > MAX_TOKENS:
        raise BadInputError(
            f"expected at most {MAX_TOKENS:,} as `num_tokens`, but got {shown(given)}",
            where=where,
            hint="a longer text needs its `tokens` in the file",
        )
    if stated is not None:
        return stated
    per_token = (record["rationale"] if is_mask(record["rationale"]) else None), record.get("scores")
    return next((len(entries) for entries in per_token if isinstance(entries, list)), None)


def _positions(value: object, size: int | None, where: str) -> list[int] | None:
    if value is None:
        return None
    if is_mask(value):
        mask = cast("list[int]", value)
        return mask_positions(mask, len(mask) if size is None else size, where)
    return positions(check_spans(value, size, "`rationale`", where))


def _of_text(
    text: str, record: dict[str, object], where: str
) -> tuple[dict[str, object], Sequence[Sequence[int]]]:
    """A record with the text's tokens and a mask of them; and the spans of characters that are marked."""
    pieces = _pieces(text, where)
    key = next((key for key in ("rationale", *_DOCCANO) if key in record), "rationale")
    others = {name: value for name, value in record.items() if name not in ("text", *_DOCCANO)}
    found = others | {"tokens": [piece.text for piece in pieces]}
    value = record.get(key)
    if value is None:
        return found, ()
    if key == "rationale" and is_mask(value):
        marks = zip(pieces, cast("list[int]", value), strict=False)  # its length is checked later
        return found, [(piece.start, piece.end) for piece, mark in marks if mark]
    spans = check_spans(_offsets(value), len(text), f"`{key}`", where, "characters")
    chosen = set(touched(spans, pieces))
    return found | {"rationale": [int(i in chosen) for i in range(len(pieces))]}, spans


def split_as(record: MaskRecord, tokens: Sequence[str]) -> MaskRecord | None:
    """The mask of a `text`, on the tokens that another file gives of it.

    Returns:
        None if no tokenizer splits the text into these tokens, or tokens were given.
    """
    if record.text is None:
        return None
    every = (tokenize(record.text) for tokenize in TOKENIZERS.values())
    pieces = next((found for found in every if [piece.text for piece in found] == [*tokens]), None)
    if pieces is None:
        return None
    scores = record.scores
    if scores is not None:
        starts = [piece.start for piece in _pieces(record.text, record.where)]
        scores = [scores[max(bisect_right(starts, piece.start) - 1, 0)] for piece in pieces]
    return replace(
        record,
        tokens=[*tokens],
        num_tokens=len(pieces),
        positions=None if record.positions is None else touched(record.characters, pieces),
        scores=scores,
    )


def _pieces(text: str, where: str) -> list[Token]:
    """The text's tokens, equal for equal texts."""
    found = lacks_blanks(text)
    if found is None:
        return split_at_blanks(text)
    if found != CHINESE:
        raise BadInputError(
            f"this text is {found}, which puts no spaces between words, and no tokenizer supports this "
            "language",
            where=where,
            hint="give `tokens` instead of `text`, and spans that count tokens",
        )
    return TOKENIZERS["jieba"](text)


def _offsets(value: object) -> object:
    """Spans as lists, where they are objects, as in doccano's `entities`."""
    if not isinstance(value, list):
        return value
    return [
        [span["start_offset"], span["end_offset"]]
        if isinstance(span, dict) and {"start_offset", "end_offset"} <= span.keys()
        else span
        for span in value
    ]
