"""Your own data: one JSON object a line, and a `task.toml` that names the task.

`DIR/jsonl/`, or `DIR` itself where there is no such folder, holds `train.jsonl`, `test.jsonl`, where you have
it `val.jsonl` (or `dev`, `valid`, `validation`; each plain or .gz), and `task.toml`. A line has

    text | tokens       a text, or a list of words: one of the two
    label | score       name (or whole number) of the class, or a number in the task's `score_range`
    rationale           optional: [start, end) spans, of characters where `text` is given and of tokens where
                        `tokens` is; or a 0/1 mask with one entry per token. null: nobody annotated the text;
                        []: an annotator found nothing to mark
    id                  optional: a number or text, different for each line of all files
    groups              optional: a list of names of groups that the text is about

A span may have a name behind it, as doccano writes it: [start, end, label].

A character is a Unicode code point. A token that a span of characters touches is in the rationale. A null
stands for a key that is not there; 2.0 is as good as 2; blanks around a label do not count. `task.toml`:

    kind = "classification"               # or "regression"
    classes = ["no", "yes"]               # default: those of train.jsonl, sorted (numbers by their value)
    score_range = [1, 5]                  # of a regression, scaled to [0, 1]; default [0, 1]
    tokenizer = "english"                 # or "english_cased", "chinese" (jieba), "whitespace", "posts"
    title = "what it is"

    [targets.group]                       # a side target: the key `group` of each line, with a kind, and
    kind = "classification"               # `classes` or `score_range` as above

Side targets are read where they are asked for, as in `--aspect label,group` (`score,group` of a regression).
Where no `tokenizer` is named, it is `english`, or jieba where the training texts are Chinese, or
`english_cased` where all texts are given as `tokens` and these have capital letters. A corpus that
mixes them has to name one; Japanese, Thai, Lao, Burmese and Khmer texts have to be given as `tokens`.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from feature_store.errors import BadInputError, RequestError, keys_in_words, shown
from feature_store.fingerprint import unit_interval
from feature_store.scripts import CHINESE, language
from feature_store.segmenter import DICTIONARY, STOP_WORDS
from feature_store.sources.base import (
    NO_OPTIONS,
    Example,
    Query,
    Report,
    TaskSpec,
)
from feature_store.sources.fields import (
    SeenExamples,
    check_encodable,
    check_id,
    check_spans,
    check_text,
    check_tokens,
    is_mask,
    mask_positions,
    positions,
    unread_keys,
)
from feature_store.sources.labels import check_label, class_names
from feature_store.sources.lines import filled_lines, parse_record, read_records
from feature_store.sources.locate import own_files
from feature_store.sources.own_targets import OwnTarget, sides_of
from feature_store.sources.own_words import read_own_words, word_options
from feature_store.sources.reads_rows import ReadsRows
from feature_store.sources.span_check import SpanCheck, form_that_fits
from feature_store.sources.task_file import KEYS, MAIN_KEYS, TASK_FILE, TaskFile, read_task_file
from feature_store.tokenize import ChineseTokenizer, Token, Tokenizer, make_tokenizer
from feature_store.tokens import touched
from feature_store.wording import counted

VAL_RATE = 0.1
"""Share of the training texts cut off as `val` where there is no such file."""

_KEYS = ("text", "tokens", "label", "score", "rationale", "id", "groups")
"""Keys of a line that mean the same in every corpus."""


class Jsonl(ReadsRows):
    """The source `jsonl`: classification or regression of a corpus of one's own.

    Texts may stand in several files: they are left there, counted and said aloud.
    """

    name = "jsonl"
    title = "your own data: JSON lines with a text, a label or score, and perhaps a rationale; and task.toml"
    main_targets = tuple(MAIN_KEYS.values())
    task_keys = KEYS
    shares_texts = True
    options = word_options(
        "for Chinese: words of your own for jieba, `WORD [FREQUENCY] [TAG]` a line (UTF-8)",
        "for Chinese: words to leave out, one a line (UTF-8)",
    )
    tokenizer = "english"
    version = 4
    sample_version = 1

    def inputs(
        self, data_dir: Path, aspect: str | None, options: Mapping[str, str] = NO_OPTIONS
    ) -> dict[str, Path]:
        """Files by role: `task`, `train`, `test`, and `val` where there is one."""
        return own_files(
            self.name,
            data_dir,
            {"task": (TASK_FILE,)},
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
        targets = [stated.main, *sides_of(query, stated, query.inputs["task"])]
        tokenizer = stated.tokenizer
        unnamed = [t.name for t in targets if t.kind == "classification" and t.class_names is None]
        if unnamed or tokenizer is None:
            survey = _Survey(query, unnamed)
            names = {key: class_names(survey.labels[key], query.inputs["train"]) for key in unnamed}
            targets = [dataclasses.replace(t, class_names=names.get(t.name, t.class_names)) for t in targets]
            tokenizer = tokenizer or survey.tokenizer(self.tokenizer, report)
        if tokenizer != "jieba" and (
            files := [name for name in (DICTIONARY, STOP_WORDS) if name in query.inputs]
        ):
            raise RequestError(
                f"option `{files[0]}` is for Chinese texts, but these are split by `{tokenizer}`",
                hint=f'leave out this option, or write `tokenizer = "chinese"` in {TASK_FILE}',
            )
        main, *sides = targets
        return TaskSpec(
            name=main.name,
            kind=main.kind,
            class_names=main.class_names,
            score_range=main.score_range,
            tokenizer=tokenizer,
            sides=tuple(sides),
        )

    def examples(self, query: Query, task: TaskSpec, report: Report) -> Iterator[Example]:
        """The files in the order train, val, test; see `Source.frames`."""
        stated = read_task_file(query.inputs["task"])
        own = read_own_words(query)
        is_changed = DICTIONARY in query.inputs or STOP_WORDS in query.inputs
        tokenize = ChineseTokenizer(own) if is_changed else make_tokenizer(str(task.tokenizer), {})
        reader = _Reader(stated, task, tokenize)
        seen = SeenExamples()
        if "val" not in query.inputs:
            name = query.inputs["train"].name
            report.notes.append(
                f"no val.jsonl: {VAL_RATE:.0%} of {name} is used as val instead (chosen by a hash of the "
                "tokens, so another tokenizer, dictionary or list of stop words gives another split)"
            )
        for split in self.splits:
            if split not in query.inputs:
                continue
            path = query.inputs[split]
            spans = reader.span_check = SpanCheck()
            for number, line in filled_lines(path, max_bytes=query.max_bytes):
                where = f"{path}:{number}"
                example = reader.example(line, where, split, f"{split}:{number}")
                if split == "train" and "val" not in query.inputs:
                    example = _cut(example)
                seen.add(example.example_id, example.split, example.tokens, where)
                yield example
            if note := spans.note(path.name):
                report.notes.append(note)
        seen.tell(report)
        reader.tell(report, query.inputs["train"].name)
        report.notes += own.notes()

    def write_sample(self, data_dir: Path, seed: int) -> None:
        """Write the made-up corpus of `feature_store.sample`."""
        from feature_store import sample

        sample.write_jsonl(data_dir / self.name, seed=seed)


_CASED = "english_cased"
_MOST, _SOME = 0.9, 0.1
"""Shares of the training texts from which on they count as all Chinese, and as more than a few."""


class _Survey:
    """What the training file holds: its labels, and in what script its texts are.

    Args:
        keys: of the labels that are asked for.
    """

    def __init__(self, query: Query, keys: Sequence[str]) -> None:
        self._path = query.inputs["train"]
        self.labels: dict[str, set[str]] = {key: set() for key in keys}
        self._languages: Counter[str | None] = Counter()
        self._as_tokens: Counter[str | None] = Counter()
        self._num_cased = 0
        for where, record in read_records(self._path, keys, max_bytes=query.max_bytes):
            for key in keys:
                self.labels[key].add(check_label(record[key], key, where))
            text, tokens = record.get("text"), record.get("tokens")
            found = language(text if isinstance(text, str) else " ".join(map(str, _list(tokens))))
            self._languages[found] += 1
            self._as_tokens[found] += not isinstance(text, str)
            self._num_cased += any(token != token.lower() for token in map(str, _list(tokens)))

    def tokenizer(self, default: str, report: Report) -> str:
        """Name of the tokenizer that the texts need.

        Raises:
            BadInputError: if some are Chinese and some are not, or there is none for them.
        """
        total, chinese = self._languages.total(), self._languages[CHINESE]
        for name, count in (self._languages - self._as_tokens).most_common():
            if name not in (None, CHINESE) and count >= _SOME * total:
                raise BadInputError(
                    f"{count} of {total} texts are {name}, which puts no spaces between words, and no "
                    "tokenizer supports this language",
                    where=str(self._path),
                    hint="give `tokens` instead of `text`: the words, as a tool of your choice cuts them",
                )
        if chinese >= _MOST * total:
            report.notes.append(self._note(CHINESE, "jieba splits them into words"))
            return "jieba"
        if chinese >= _SOME * total:
            raise BadInputError(
                f"{chinese} of {total} texts are Chinese and the others are not, so the tokenizer must be "
                "stated",
                where=str(self._path),
                hint=f'write `tokenizer = "chinese"` in {TASK_FILE} (jieba; words of other scripts stay '
                f'whole and keep their case), or "{default}", which makes one token of each Chinese clause',
            )
        for found in self._languages:
            if found is not None:
                report.notes.append(self._note(found, f"`{default}` makes a token of each clause"))
        # lower-cased, the words of a free text would not be those of the corpus
        is_split = self._as_tokens.total() == total
        return _CASED if is_split and self._num_cased >= _SOME * total else default

    def _note(self, script: str, treatment: str) -> str:
        """How many texts are of a script, and what is done with those that are not given as tokens."""
        count, given = self._languages[script], self._as_tokens[script]
        if given == count:
            treatment = "their tokens are used as given"
        elif given:
            treatment += f", except {counted(given, 'text that is', 'texts that are')} given as tokens"
        return f"{count} of {self._languages.total()} texts are {script}: {treatment}"


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


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
    text: str
    """Empty where tokens were given."""


class _Reader:
    """Turns lines into examples of one task."""

    def __init__(self, stated: TaskFile, task: TaskSpec, tokenize: Tokenizer) -> None:
        self._targets = [OwnTarget(one) for one in (task, *task.sides)]
        self._target_keys = tuple(target.key for target in self._targets)
        self._known = tuple(dict.fromkeys((*_KEYS, *stated.targets)))
        self._tokenizer = str(task.tokenizer)
        self._tokenize = tokenize
        self.span_check = SpanCheck()
        self._is_stated = stated.tokenizer is not None
        self._unread: Counter[str] = Counter()
        self._num_as_tokens = 0

    def example(self, line: str, where: str, split: str, default_id: str) -> Example:
        """The example of one line."""
        record = parse_record(line, where, self._target_keys)
        record = {k: value for k, value in record.items() if value is not None or k in self._target_keys}
        self._unread.update(record.keys() - set(self._known))
        words = self._words(record, where)
        is_train = split == "train"
        target, *sides = (one.of(record[one.key], where, is_train=is_train) for one in self._targets)
        return Example(
            example_id=check_id(record["id"], "id", where) if "id" in record else default_id,
            split=split,
            tokens=words.tokens,
            target=target,
            rationale=self._rationale(record.get("rationale"), words, where),
            groups=_groups(record.get("groups"), where),
            side_targets=tuple(sides),
        )

    def tell(self, report: Report, train: str) -> None:
        """Say what classes the file `train` has, which keys were not read, and what splits a free text."""
        for target in self._targets:
            target.tell(report, train)
        if self._unread:
            report.notes.append(unread_keys(self._unread, self._known))
        if self._num_as_tokens:
            report.counts["given_as_tokens"] = self._num_as_tokens
        if self._num_as_tokens and not self._is_stated:
            report.notes.append(
                f"{counted(self._num_as_tokens, 'text is', 'texts are')} given as tokens; "
                f"later, the model will split new texts with `{self._tokenizer}`. If this does not match "
                f"your tokens, write `tokenizer = ...` in {TASK_FILE}"
            )

    def _words(self, record: Mapping[str, object], where: str) -> _Words:
        given = [key for key in ("text", "tokens") if key in record]
        if len(given) != 1:
            both = "both" if given else f"neither; {keys_in_words(record)}"
            raise BadInputError(f"expected either `text` or `tokens`, but got {both}", where=where)
        if given == ["tokens"]:
            self._num_as_tokens += 1
            return _Words(check_tokens(record["tokens"], "tokens", where), None, "")
        text = check_text(record["text"], "text", where)
        pieces = self._tokenize(text)
        if not pieces:
            raise BadInputError(f"`{self._tokenizer}` finds no token in `text`", where=where)
        return _Words([piece.text for piece in pieces], pieces, text)

    def _rationale(self, value: object, words: _Words, where: str) -> list[int] | None:
        if value is None:
            return None
        if is_mask(value):
            return mask_positions(cast("list[int]", value), len(words.tokens), where)
        size = len(words.tokens if words.pieces is None else words.text)
        unit = "tokens" if words.pieces is None else "characters"
        try:
            spans = check_spans(value, size, "`rationale`", where, unit)
        except BadInputError as error:
            error.hint = form_that_fits(value, words.text)
            raise
        if words.pieces is None:
            return positions(spans)
        self.span_check.add(spans, words.text, words.pieces)
        return touched(spans, words.pieces)


def _groups(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise BadInputError(f"expected a list of names as `groups`, but got {shown(value)}", where=where)
    return tuple(check_encodable(name, "a name in `groups`", where) for name in value)
