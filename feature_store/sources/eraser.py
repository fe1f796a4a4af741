"""Corpora in the format of the ERASER benchmark [DeYoung2020].

`DIR/eraser/`, or `DIR` itself where there is no such folder, holds `train.jsonl`, `val.jsonl`, `test.jsonl`
(plain or .gz) and the documents: `docs/`, one file per docid, or `docs.jsonl`, a `{"docid", "document"}` a
line. A document has blanks between its tokens and a sentence a line. A line of a split has

    annotation_id     a name, different for each line of all files
    classification    name of the class
    evidences         groups of spans, [[{"docid", "start_token", "end_token", ...}, ...], ...]
    docids            optional: the documents; default: those of the evidences, in their order, else the one
                      that is called as the annotation is
    query             optional: what the documents were asked

A text is its documents in order, one after another. Each group of evidences is enough for its annotator; the
rationale is the union of all. Without any, nobody annotated the text.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from feature_store.errors import BadInputError, did_you_mean, quoted, shown
from feature_store.fingerprint import files_below
from feature_store.sources.base import (
    NO_OPTIONS,
    Example,
    FeatureDefaults,
    Query,
    Report,
    SourceOption,
    TaskSpec,
)
from feature_store.sources.fields import (
    SeenExamples,
    check_id,
    check_spans,
    check_text,
    class_number,
    positions,
)
from feature_store.sources.labels import LabelCount, check_label, class_names
from feature_store.sources.lines import read_lines, read_records, require_keys
from feature_store.sources.locate import own_files, plain_or_gz
from feature_store.sources.reads_rows import ReadsRows
from feature_store.tokenize import split_at_blanks
from feature_store.wording import counted

_KEYS = ("annotation_id", "classification", "evidences")
_IGNORE, _PREPEND, _APPEND = "ignore", "prepend", "append"


class Eraser(ReadsRows):
    """The source `eraser`: classification of documents with evidence.

    Texts may stand in several files, as a document does that is asked about twice: they are left there,
    counted and said aloud.
    """

    name = "eraser"
    title = "a corpus in the format of the ERASER benchmark (DeYoung et al. 2020)"
    # documents are long: ERASER's movie reviews have 774 tokens on average [DeYoung2020]
    defaults = FeatureDefaults(max_length=1024)
    shares_texts = True
    options = (
        SourceOption(
            name="query",
            default=_IGNORE,
            choices=(_IGNORE, _PREPEND, _APPEND),
            help="use of the query: ignore, prepend to the text, or append to the text (appended words are "
            "cut off first where a training text exceeds `max_length`)",
        ),
    )
    tokenizer = "whitespace"
    version = 2
    sample_version = 1

    def inputs(
        self, data_dir: Path, aspect: str | None, options: Mapping[str, str] = NO_OPTIONS
    ) -> dict[str, Path]:
        """Files by role: `train`, `val`, `test`, and `docs`, a file or a folder."""
        return own_files(
            self.name,
            data_dir,
            {"docs": ("docs", *plain_or_gz("docs.jsonl"))},
            hint="`--data-dir` names the folder that holds train.jsonl, val.jsonl, test.jsonl and docs "
            f"(or holds them in a folder `{self.name}`); or try the made-up corpus with `--sample`",
        )

    def task(self, query: Query, report: Report) -> TaskSpec:
        """The classes of the training file, sorted by name."""
        path = query.inputs["train"]
        found: set[str] = set()
        for where, record in read_records(path, ("classification",), max_bytes=query.max_bytes):
            found.add(check_label(record["classification"], "classification", where))
        return TaskSpec(kind="classification", class_names=class_names(found, path))

    def examples(self, query: Query, task: TaskSpec, report: Report) -> Iterator[Example]:
        """The files in the order train, val, test; see `Source.frames`."""
        reader = _Reader(query, task)
        seen = SeenExamples()
        for split in self.splits:
            path = query.inputs[split]
            for where, record in read_records(path, _KEYS, max_bytes=query.max_bytes):
                example = reader.example(record, where, split)
                report.counts[f"{split}_without_evidence"] += example.rationale is None
                seen.add(example.example_id, split, example.tokens, where)
                yield example
        seen.tell(report)
        reader.tell(report)

    def write_sample(self, data_dir: Path, seed: int) -> None:
        """Write the made-up corpus of `feature_store.sample`."""
        from feature_store import sample

        sample.write_eraser(data_dir / self.name, seed=seed)


class Documents:
    """Documents by their docid; those of a `docs.jsonl` are held in memory."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._files = files_below(path) if path.is_dir() else {}
        self._texts = {} if path.is_dir() else _read_documents(path, max_bytes)

    def __contains__(self, docid: str) -> bool:
        return docid in self._files or docid in self._texts

    def tokens(self, docid: str, where: str) -> list[str]:
        """Tokens of a document.

        Raises:
            BadInputError: if there is none of that name, or it is empty.
        """
        if docid in self._files:
            lines = read_lines(self._files[docid], max_bytes=self._max_bytes)
            tokens = [token.text for _, line in lines for token in split_at_blanks(line)]
        elif docid in self._texts:
            tokens = [token.text for token in split_at_blanks(self._texts[docid])]
        else:
            near = did_you_mean(docid, (*self._files, *self._texts))
            raise BadInputError(f"no document `{docid[:60]}` in {self._path}", where=where, hint=near)
        if not tokens:
            raise BadInputError(f"the document `{docid[:60]}` is empty", where=where)
        return tokens


def _read_documents(path: Path, max_bytes: int) -> dict[str, str]:
    texts: dict[str, str] = {}
    for where, record in read_records(path, ("docid", "document"), max_bytes=max_bytes):
        docid = check_id(record["docid"], "docid", where)
        if docid in texts:
            raise BadInputError(f"the docid `{docid[:60]}` is in an earlier line already", where=where)
        texts[docid] = check_text(record["document"], "document", where)
    return texts


class _Reader:
    """Turns lines into examples."""

    def __init__(self, query: Query, task: TaskSpec) -> None:
        self._documents = Documents(query.inputs["docs"], query.max_bytes)
        self._numbers = {name: number for number, name in enumerate(task.class_names or ())}
        self._use = query.options["query"]
        self._queries: set[str] = set()
        self._labels, self._train = LabelCount(), query.inputs["train"].name
        self._num_evidences = self._num_misplaced = 0

    def example(self, record: Mapping[str, object], where: str, split: str) -> Example:
        """The example of one line."""
        name = check_id(record["annotation_id"], "annotation_id", where)
        evidences = evidences_of(record["evidences"], where)
        texts = {
            docid: self._documents.tokens(docid, where) for docid in self._docids(record, evidences, where)
        }
        label = check_label(record["classification"], "classification", where)
        self._labels.add(record["classification"], label, is_train=split == "train")
        query = self._query(record, where)
        before = query if self._use == _PREPEND else []
        after = query if self._use == _APPEND else []
        return Example(
            example_id=name,
            split=split,
            tokens=[*before, *(token for text in texts.values() for token in text), *after],
            target=class_number(label, self._numbers, where),
            rationale=self._rationale(evidences, texts, len(before), where),
        )

    def tell(self, report: Report) -> None:
        """Say what classes there are, that queries were left out, and that evidence seems misplaced."""
        self._labels.tell(report, tuple(self._numbers), self._train)
        if len(self._queries) > 1:
            report.notes.append(
                "the texts come with different queries, which are ignored: with `--option "
                f"query={_PREPEND}`, each query is put before its text"
            )
        if self._num_misplaced:
            report.counts["misplaced_evidences"] = self._num_misplaced
            those = f"of {self._num_evidences} evidences"
            report.notes.append(
                f"{counted(self._num_misplaced, f'{those} has', f'{those} have')} a `text` that differs "
                "from the tokens of the span; the span is used; check that the documents are the ones that "
                "were annotated"
            )

    def _rationale(
        self,
        evidences: Sequence[Mapping[str, object]],
        texts: Mapping[str, list[str]],
        start: int,
        where: str,
    ) -> list[int] | None:
        """Positions of all evidence in the joint text, whose first document begins at `start`."""
        offsets: dict[str, int] = {}
        for docid, tokens in texts.items():
            offsets[docid] = start
            start += len(tokens)
        spans: list[tuple[int, int]] = []
        for evidence in evidences:
            docid = str(evidence["docid"])
            if docid not in texts:
                raise BadInputError(
                    f"evidence is in document `{docid[:60]}`, but `docids` are {quoted(texts)}", where=where
                )
            span = [[evidence["start_token"], evidence["end_token"]]]
            ((first, last),) = check_spans(span, len(texts[docid]), "`evidences`", where)
            self._compare(evidence.get("text"), texts[docid][first:last])
            spans.append((first + offsets[docid], last + offsets[docid]))
        return positions(spans) or None

    def _compare(self, text: object, covered: list[str]) -> None:
        """Count evidence whose own text is not what its span covers: a sign of other documents."""
        self._num_evidences += 1
        if isinstance(text, str) and text:
            self._num_misplaced += "".join(covered) != "".join(text.split())

    def _docids(
        self, record: Mapping[str, object], evidences: Sequence[Mapping[str, object]], where: str
    ) -> list[str]:
        """Names of the documents in order, each once."""
        given = record.get("docids")
        if given is not None and not isinstance(given, list):
            raise BadInputError(f"expected a list as `docids`, but got {shown(given)}", where=where)
        entries = given or [evidence["docid"] for evidence in evidences]
        names = list(dict.fromkeys(check_id(entry, "docid", where) for entry in entries))
        own = str(record["annotation_id"])
        if not names and own not in self._documents:
            raise BadInputError(
                "no document is given: expected `docids`, an evidence with a `docid`, or a document named "
                f"`{own[:60]}`",
                where=where,
            )
        return names or [own]

    def _query(self, record: Mapping[str, object], where: str) -> list[str]:
        query = record.get("query")
        if self._use == _IGNORE:
            if len(self._queries) < 2:
                self._queries.add(str(query))
            return []
        return [token.text for token in split_at_blanks(check_text(query, "query", where))]


def evidences_of(groups: object, where: str) -> list[dict[str, object]]:
    """All evidences of all groups."""
    if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
        raise BadInputError(f"expected a list of lists as `evidences`, but got {shown(groups)}", where=where)
    found = [evidence for group in groups for evidence in group]
    for evidence in found:
        if not isinstance(evidence, dict):
            raise BadInputError(f"expected an object as evidence, but got {shown(evidence)}", where=where)
        require_keys(evidence, ("docid", "start_token", "end_token"), where, " in an evidence")
    return found
