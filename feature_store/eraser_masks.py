"""Mask files of the ERASER benchmark [DeYoung2020]: predictions, and the annotations to hold against.

A line of predictions has `annotation_id` and `rationales`, one for each document: `docid`,
`hard_rationale_predictions` (objects with `start_token` and `end_token`) and `soft_rationale_predictions` (a
number per token). Forks leave out some of it: without `docid` the document has the name of the annotation,
without hard predictions the tokens with a soft one above 0.5 are selected, and the keys may stand in the line
itself. A line of annotations has `annotation_id` and `evidences`; how long the documents are is read from
`docs` or `docs.jsonl` beside the file, where there is one.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from feature_store.errors import BadInputError, keys_in_words, shown
from feature_store.mask_records import MaskRecord, check_scores
from feature_store.sources.eraser import Documents, evidences_of
from feature_store.sources.fields import check_id, check_spans, positions, unread_keys
from feature_store.sources.lines import read_records, require_keys
from feature_store.sources.locate import plain_or_gz
from feature_store.wording import counted

_HARD, SOFT = "hard_rationale_predictions", "soft_rationale_predictions"
OF_PREDICTIONS = ("rationales", SOFT, _HARD)
"""Keys that only the benchmark's predictions have."""
_HALF = 0.5
"""A soft prediction above it selects its token, where nothing else says what is selected."""

_NOT_FOR_MASKS = {
    *("annotation_id", "rationales", "evidences", "docids", "query", "query_type", "classification"),
    *("classification_scores", "comprehensiveness_classification_scores", "docid"),
    *("soft_sentence_predictions", "sufficiency_classification_scores", "thresholded_scores"),
    *("tokens_to_flip", _HARD, SOFT),
}
"""Keys of the benchmark's lines; others are named."""


@dataclass(slots=True)
class EraserFile:
    """Reads one file, and what has to be said of it."""

    path: Path
    max_bytes: int
    unread: Counter[str] = field(default_factory=Counter)
    num_soft_alone: int = 0
    _documents: Documents | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        beside = [self.path.parent / name for name in ("docs", *plain_or_gz("docs.jsonl"))]
        found = [place for place in beside if place.exists()]
        self._documents = Documents(found[0], self.max_bytes) if found else None

    def masks(self) -> Iterator[MaskRecord]:
        """One for each document of each line."""
        for where, record in read_records(self.path, ("annotation_id",), max_bytes=self.max_bytes):
            self.unread.update(record.keys() - _NOT_FOR_MASKS)
            name = check_id(record["annotation_id"], "annotation_id", where)
            is_annotated = "evidences" in record and "rationales" not in record
            yield from (self._annotated if is_annotated else self._predicted)(record, name, where)

    def notes(self) -> list[str]:
        """What was not read, and what was done for want of hard predictions."""
        notes = []
        if self.num_soft_alone:
            notes.append(
                f"{self.path.name}: {counted(self.num_soft_alone, 'document has', 'documents have')} no "
                f"`{_HARD}`: there, tokens with a soft prediction above {_HALF:g} count as selected"
            )
        if self.unread:
            notes.append(f"{self.path.name}: {unread_keys(self.unread, ())}")
        return notes

    def _annotated(self, record: Mapping[str, object], name: str, where: str) -> Iterator[MaskRecord]:
        spans: dict[str, list[list[object]]] = {}
        docids = record.get("docids")
        for docid in docids if isinstance(docids, list) else ():
            spans[check_id(docid, "docid", where)] = []
        for evidence in evidences_of(record["evidences"], where):
            docid = check_id(evidence["docid"], "docid", where)
            spans.setdefault(docid, []).append([evidence["start_token"], evidence["end_token"]])
        for docid, pairs in (spans or {name: []}).items():
            tokens = None if self._documents is None else self._documents.tokens(docid, where)
            size = None if tokens is None else len(tokens)
            example_id, place = _identity(name, docid, len(spans), where)
            yield MaskRecord(
                where=place,
                example_id=example_id,
                tokens=tokens,
                num_tokens=size,
                positions=positions(check_spans(pairs, size, "`evidences`", where)),
                document=docid if spans else None,
            )

    def _predicted(self, record: Mapping[str, object], name: str, where: str) -> Iterator[MaskRecord]:
        entries = record.get("rationales")
        if entries is None and (_HARD in record or SOFT in record):
            entries = [record]
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise BadInputError(
                f"expected a list of objects as `rationales`, but got {shown(entries)}", where=where
            )
        if not entries:
            yield MaskRecord(where=where, example_id=name, tokens=None, num_tokens=None, positions=[])
        found: set[str] = set()
        for entry in entries:
            document = None if entry.get("docid") is None else check_id(entry["docid"], "docid", where)
            docid = document or name
            if docid in found:
                raise BadInputError(f"document `{docid[:60]}` occurs twice in `rationales`", where=where)
            found.add(docid)
            soft, size, chosen = self._document(entry, where)
            example_id, place = _identity(name, docid, len(entries), where)
            yield MaskRecord(
                where=place,
                example_id=example_id,
                tokens=None,
                num_tokens=size,
                positions=chosen,
                scores=check_scores(soft, size, place, SOFT),
                document=document,
            )

    def _document(self, entry: Mapping[str, object], where: str) -> tuple[object, int | None, list[int]]:
        """The soft predictions, not checked yet, how many there are, and the selected positions."""
        soft, hard = entry.get(SOFT), entry.get(_HARD)
        if soft is not None and (not isinstance(soft, list) or not soft):
            raise BadInputError(f"expected a list of numbers as `{SOFT}`, but got {shown(soft)}", where=where)
        size = None if soft is None else len(soft)
        if hard is not None:
            return soft, size, positions(check_spans(_pairs(hard, where), size, f"`{_HARD}`", where))
        if soft is None:
            raise BadInputError(
                f"expected the key `{_HARD}` or `{SOFT}`, but got neither; {keys_in_words(entry)}",
                where=where,
            )
        self.num_soft_alone += 1
        # what is no number is found where the scores are checked
        chosen = [i for i, score in enumerate(soft) if isinstance(score, int | float) and score > _HALF]
        return soft, size, chosen


def _identity(name: str, docid: str, num_documents: int, where: str) -> tuple[str, str]:
    """Id of a document's mask, and where it is: with the document's name where the line has several."""
    return (f"{name}/{docid}", f"{where} ({docid})") if num_documents > 1 else (name, where)


def _pairs(hard: object, where: str) -> object:
    """Spans as pairs, where they are objects."""
    if not isinstance(hard, list):
        return hard
    pairs = []
    for span in hard:
        if isinstance(span, dict):
            require_keys(span, ("start_token", "end_token"), where, f" in a span of `{_HARD}`")
            span = [span["start_token"], span["end_token"]]
        pairs.append(span)
    return pairs
