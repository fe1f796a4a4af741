"""Your own data: one JSON object a line, and a `task.toml` that names the task.

`DIR/jsonl/`, or `DIR` itself where there is no such folder, holds `train.jsonl`, `test.jsonl`, where you have
it `val.jsonl` (each plain or .gz), and `task.toml`. A line has

    text | tokens       a text, or a list of words: one of the two
    label | score       name (or whole number) of the class, or a number in the task's `score_range`
    rationale           optional: [start, end) spans, of characters where `text` is given and of tokens where
                        `tokens` is; or a 0/1 mask with one entry per token. null: nobody annotated the text;
                        []: an annotator found nothing to mark
    id                  optional: a number or text, different for each line of all files
    groups              optional: a list of names of groups that the text is about

A span may have a name behind it, as doccano writes it: [start, end, label].

A character is a Unicode code point. A token that a span of characters touches is in the rationale. A null
stands for a key that is not there. `task.toml`:

    kind = "classification"               # or "regression"
    classes = ["no", "yes"]               # default: those of train.jsonl, sorted
    score_range = [1, 5]                  # of a regression, scaled to [0, 1]; default [0, 1]
    tokenizer = "english"                 # or "whitespace", or another of `feature_store.tokenize`
    title = "what it is"
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from feature_store.errors import BadInputError
from feature_store.fingerprint import unit_interval
from feature_store.sources.base import (
    Example,
    FeatureDefaults,
    Query,
    RemoteFile,
    Report,
    SourceOption,
    TaskSpec,
)
from feature_store.sources.fields import (
    Ledger,
    check_encodable,
    check_id,
    check_spans,
    check_text,
    check_tokens,
    class_names,
    class_number,
    is_mask,
    mask_positions,
    positions,
    unread_keys,
)
from feature_store.sources.lines import parse_record, read_lines
from feature_store.sources.locate import own_files, plain_or_gz
from feature_store.sources.task_file import TaskFile, read_task_file
from feature_store.tokenize import TOKENIZERS, Token

VAL_RATE = 0.1
"""Share of the training texts cut off as `val` where there is no such file."""

TASK_FILE = "task.toml"
_SPLITS = ("train", "val", "test")
_KEYS = ("text", "tokens", "label", "score", "rationale", "id", "groups")


class Jsonl:
    """The source `jsonl`: classification or regression of a corpus of one's own.

    Texts may stand in several files: they are left there, counted and said aloud.
    """

    name = "jsonl"
    title = "your own data: JSON lines with a text, a label or score, and perhaps a rationale; and task.toml"
    aspects: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}
    splits: tuple[str, ...] = _SPLITS
    defaults = FeatureDefaults()
    shares_texts = True
    options: tuple[SourceOption, ...] = ()
    tokenizer = "english"
    version = 2
    sample_version = 1
    remote_files: tuple[RemoteFile, ...] = ()

    def inputs(self, data_dir: Path, aspect: str | None) -> dict[str, Path]:
        """Files by role: `task`, `train`, `test`, and `val` where there is one."""
        names: dict[str, tuple[str, ...]] = {split: plain_or_gz(f"{split}.jsonl") for split in _SPLITS}
        return own_files(
            self.name,
            data_dir,
            names | {"task": (TASK_FILE,)},
            optional=("val",),
            hint="`--data-dir` names the folder that holds train.jsonl, test.jsonl and task.toml "
            f"(or holds them in a folder `{self.name}`); `{TASK_FILE}` needs one line, "
            '`kind = "classification"` or `kind = "regression"`; or try the made-up corpus with `--sample`',
        )

    def task(self, query: Query, report: Report) -> TaskSpec:
        """As `task.toml` says; classes that it does not name are read from the training file."""
        stated = read_task_file(query.inputs["task"])
        if stated.title:
            report.notes.append(f"own data: {stated.title}")
        names = stated.classes
        if stated.kind == "classification" and names is None:
            names = _classes_of(query.inputs["train"], query.max_bytes)
        return TaskSpec(
            kind=stated.kind,
            class_names=names,
            score_range=stated.score_range,
            tokenizer=stated.tokenizer or self.tokenizer,
        )

    def examples(self, query: Query, task: TaskSpec, report: Report) -> Iterator[Example]:
        """The files in the order train, val, test; see `Source.examples`."""
        stated = read_task_file(query.inputs["task"])
        reader = _Reader(stated, task)
        ledger = Ledger()
        if "val" not in query.inputs:
            name = query.inputs["train"].name
            report.notes.append(f"no val.jsonl: {VAL_RATE:.0%} of {name} is cut off as val, by content")
        for split in _SPLITS:
            if split not in query.inputs:
                continue
            path = query.inputs[split]
            for number, line in read_lines(path, max_bytes=query.max_bytes):
                where = f"{path}:{number}"
                example = reader.example(line, where, split, f"{split}:{number}")
                if split == "train" and "val" not in query.inputs:
                    example = _cut(example)
                ledger.add(example.example_id, example.split, example.tokens, where)
                yield example
        ledger.tell(report)
        reader.tell(report)

    def write_sample(self, data_dir: Path, seed: int) -> None:
        """Write the made-up corpus of `feature_store.sample`."""
        from feature_store import sample

        sample.write_jsonl(data_dir / self.name, seed=seed)


def _classes_of(path: Path, max_bytes: int) -> tuple[str, ...]:
    found: set[str] = set()
    for number, line in read_lines(path, max_bytes=max_bytes):
        where = f"{path}:{number}"
        found.add(check_id(parse_record(line, where, ("label",))["label"], "label", where))
    return class_names(found, path)


def _cut(example: Example) -> Example:
    """The example in `val` where its content says so: equal texts fall on the same side."""
    is_val = unit_interval(" ".join(example.tokens)) < VAL_RATE
    return dataclasses.replace(example, split="val") if is_val else example


@dataclass(frozen=True, slots=True)
class _Words:
    """A text in tokens, and what its spans count."""

    tokens: list[str]
    pieces: Sequence[Token] | None
    """Where the tokens stand in the text; None where tokens were given."""
    size: int
    """Length of the text in characters, or in tokens where they were given."""


class _Reader:
    """Turns lines into examples of one task."""

    def __init__(self, stated: TaskFile, task: TaskSpec) -> None:
        self._target_key = "label" if task.kind == "classification" else "score"
        self._numbers = {name: number for number, name in enumerate(task.class_names or ())}
        self._low, self._high = stated.score_range
        self._tokenizer = str(task.tokenizer)
        self._tokenize: Callable[[str], list[Token]] = TOKENIZERS[self._tokenizer]
        self._is_stated = stated.tokenizer is not None
        self._unread: Counter[str] = Counter()
        self._num_as_tokens = 0

    def example(self, line: str, where: str, split: str, default_id: str) -> Example:
        """The example of one line."""
        record = parse_record(line, where, (self._target_key,))
        record = {key: value for key, value in record.items() if value is not None or key == self._target_key}
        self._unread.update(record.keys() - set(_KEYS))
        words = self._words(record, where)
        return Example(
            example_id=check_id(record["id"], "id", where) if "id" in record else default_id,
            split=split,
            tokens=words.tokens,
            target=self._target(record[self._target_key], where),
            rationale=self._rationale(record.get("rationale"), words, where),
            groups=_groups(record.get("groups"), where),
        )

    def tell(self, report: Report) -> None:
        """Say which keys were not read, and what a free text would be split by."""
        if self._unread:
            report.notes.append(unread_keys(self._unread, _KEYS))
        if self._num_as_tokens:
            report.counts["given_as_tokens"] = self._num_as_tokens
        if self._num_as_tokens and not self._is_stated:
            report.notes.append(
                f"{self._num_as_tokens} texts are given as tokens; a free text that the model is asked about "
                f"will be split by `{self._tokenizer}`: is that so? say `tokenizer = ...` in {TASK_FILE}"
            )

    def _words(self, record: Mapping[str, object], where: str) -> _Words:
        given = [key for key in ("text", "tokens") if key in record]
        if len(given) != 1:
            both = "both" if given else f"neither; there is {sorted(record)}"
            raise BadInputError(f"expected either `text` or `tokens`, but got {both}", where=where)
        if given == ["tokens"]:
            self._num_as_tokens += 1
            tokens = check_tokens(record["tokens"], "tokens", where)
            return _Words(tokens, None, len(tokens))
        text = check_text(record["text"], "text", where)
        pieces = self._tokenize(text)
        if not pieces:
            raise BadInputError(f"`{self._tokenizer}` finds no token in `text`", where=where)
        return _Words([piece.text for piece in pieces], pieces, len(text))

    def _target(self, value: object, where: str) -> float:
        if self._numbers:
            return class_number(check_id(value, "label", where), self._numbers, where)
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and self._low <= value <= self._high
        ):
            return (value - self._low) / (self._high - self._low)
        raise BadInputError(
            f"expected a score in [{self._low:g}, {self._high:g}], but got {str(value)[:40]}", where=where
        )

    def _rationale(self, value: object, words: _Words, where: str) -> list[int] | None:
        if value is None:
            return None
        if is_mask(value):
            return mask_positions(cast("list[int]", value), len(words.tokens), where)
        unit = "tokens" if words.pieces is None else "characters"
        spans = check_spans(value, words.size, "`rationale`", where, unit)
        if words.pieces is None:
            return positions(spans)
        marked = bytearray(words.size)
        for start, end in spans:
            marked[start:end] = b"\1" * (end - start)
        return [i for i, piece in enumerate(words.pieces) if any(marked[piece.start : piece.end])]


def _groups(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise BadInputError(f"expected a list of names as `groups`, but got {str(value)[:60]}", where=where)
    return tuple(check_encodable(name, "a name in `groups`", where) for name in value)
