"""BeerAdvocate reviews with scores per aspect and human rationales [Lei et al. 2016].

`DATA_DIR/beer/` holds `reviews.aspect{0,1,2}.{train,heldout}.txt.gz` (or without .gz), de-correlated for one
aspect each, with one review a line: five scores in [0, 1] (appearance, smell, palate, taste, overall), a tab,
and the tokens; and `annotations.json` with one JSON object a line: `x` tokens, `y` scores, `"0"`, `"1"`,
`"2"` lists of [start, end) spans of an aspect's rationale, `rid` the review's number.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from feature_store.errors import BadInputError, MissingDataError
from feature_store.fingerprint import unit_interval
from feature_store.sources.base import (
    SPLITS,
    Example,
    Query,
    RemoteFile,
    Report,
    SourceOption,
    TaskSpec,
)
from feature_store.sources.lines import read_lines

NUM_SCORES = 5
"""Appearance, smell, palate, taste, overall."""

VAL_RATE = 0.1
"""Share of the held-out reviews cut off as `val` when there is no train file."""

VAL_ANNOTATED_RATE = 0.2
"""Share of the annotated reviews on which models are chosen; the rest is the sealed test."""

_URL = "http://people.csail.mit.edu/taolei/beer/"  # the address that the paper and Lei et al. (2016) name
_HELDOUT_SHA256 = (
    "c1cdef0b9e3b08eceb4dd57d87787b6523b3ddae39da9f9977a32f5c288393dd",
    "d5dd1d719f80a7637316ebe41e75bb2993557f25e7ccbad5b772d5b6be4e23c4",
    "8170d0c5b2804e9ed703e9541ff86319a92bb4e69c60e7c780b2e76f732f1c10",
)
_ANNOTATIONS = "annotations.json"
_VECTORS = "review+wiki.filtered.200.txt.gz"  # the 200-d word vectors of Lei et al.: `--embedding FILE`
_ASPECTS = ("appearance", "smell", "palate")


def _reviews_file(number: int, part: str) -> RemoteFile:
    name = f"reviews.aspect{number}.{part}.txt.gz"
    heldout = part == "heldout"
    return RemoteFile(
        name=name,
        url=f"{_URL}{name}",
        sha256=_HELDOUT_SHA256[number] if heldout else None,
        optional=not heldout,
        aspect=_ASPECTS[number],
    )


class Beer:
    """The source `beer`: regression of one aspect's score in [0, 1].

    Splits: `train` is the train file where there is one, with the held-out file as `val`; otherwise the
    held-out file is cut 90/10 by a hash of each line. The annotated reviews are cut 20/80 into
    `val_annotated` and `test` by a hash of `rid`. A review of the annotated set that also stands in a review
    file is dropped there, and counted.
    """

    name = "beer"
    title = "BeerAdvocate reviews, one score per aspect (Lei et al. 2016)"
    aspects: tuple[str, ...] = _ASPECTS
    aliases: Mapping[str, str] = {"aroma": "smell", "look": "appearance"}
    splits: tuple[str, ...] = SPLITS
    shares_texts = False
    options: tuple[SourceOption, ...] = ()
    tokenizer = "english"
    version = 1
    sample_version = 1
    remote_files = (
        *(_reviews_file(number, "heldout") for number in range(3)),
        *(_reviews_file(number, "train") for number in range(3)),
        RemoteFile(name=_ANNOTATIONS, url=f"{_URL}{_ANNOTATIONS}"),
        RemoteFile(name=_VECTORS, url=f"{_URL}{_VECTORS}", optional=True),
    )

    def inputs(self, data_dir: Path, aspect: str | None) -> dict[str, Path]:
        """Files by role: `heldout`, `annotations`, and `train` where there is one."""
        folder = data_dir / self.name
        number = self._number(aspect)
        names = {
            "train": _plain_or_gz(f"reviews.aspect{number}.train.txt"),
            "heldout": _plain_or_gz(f"reviews.aspect{number}.heldout.txt"),
            "annotations": (_ANNOTATIONS,),
        }
        found: dict[str, Path] = {}
        missing: list[str] = []
        for role, candidates in names.items():
            present = [folder / name for name in candidates if (folder / name).exists()]
            if present:
                found[role] = present[0]
            elif role != "train":
                missing.append(" or ".join(str(folder / name) for name in candidates))
        if missing:
            raise MissingDataError(
                f"dataset `{self.name}`, aspect `{aspect}`: no file " + "; no file ".join(missing),
                hint=_did_you_mean_parent(data_dir, self.name)
                + f"point `--data-dir` (or INFOCAL_DATA) at the folder that holds `{self.name}/`, "
                f"or download it with `python -m feature_store fetch --dataset {self.name} "
                f"--data-dir {data_dir}`, or try the made-up corpus with `--sample`",
            )
        return found

    def task(self, query: Query, report: Report) -> TaskSpec:
        """A score, whatever the files hold."""
        return TaskSpec(kind="regression")

    def examples(self, query: Query, task: TaskSpec, report: Report) -> Iterator[Example]:
        """Annotated reviews first, then those of the review files; see `Source.examples`."""
        inputs, max_bytes = query.inputs, query.max_bytes
        number = self._number(query.aspect)
        annotated: set[str] = set()
        for example in _annotated(inputs["annotations"], number, max_bytes, report):
            annotated.add(" ".join(example.tokens))
            yield example
        if unmarked := report.counts["annotated_without_rationale"]:
            report.notes.append(
                f"{unmarked} of {report.counts['annotated']} annotated reviews have no rationale "
                f"for `{query.aspect}`: left out of precision, recall and F1"
            )
        heldout = inputs["heldout"]
        if "train" in inputs:
            yield from _reviews(inputs["train"], number, "train", annotated, max_bytes, report)
            yield from _reviews(heldout, number, "val", annotated, max_bytes, report)
        else:
            report.notes.append(
                f"no reviews.aspect{number}.train.txt.gz: train and val are cut 90/10 from {heldout.name}"
            )
            yield from _reviews(heldout, number, None, annotated, max_bytes, report)
        if dropped := report.counts["dropped_annotated_in_reviews"]:
            report.notes.append(
                f"{dropped} reviews of the annotated set also stand in the review files: dropped there"
            )

    def write_sample(self, data_dir: Path, seed: int) -> None:
        """Write the made-up corpus of `feature_store.sample`."""
        from feature_store import sample

        sample.write_beer(data_dir / self.name, seed=seed)

    def _number(self, aspect: str | None) -> int:
        return self.aspects.index(str(aspect))


def _did_you_mean_parent(data_dir: Path, name: str) -> str:
    return f"did you mean `--data-dir {data_dir.parent}`? otherwise " if data_dir.name == name else ""


def _plain_or_gz(name: str) -> tuple[str, str]:
    return f"{name}.gz", name


def _reviews(
    path: Path, aspect: int, split: str | None, annotated: set[str], max_bytes: int, report: Report
) -> Iterator[Example]:
    """Reviews of one file; a split of None cuts it into `train` and `val`."""
    stem = path.name.removesuffix(".gz").removesuffix(".txt")
    for number, line in read_lines(path, max_bytes=max_bytes):
        where = f"{path}:{number}"
        scores, tokens = _parse_review(line, where)
        text = " ".join(tokens)
        if text in annotated:
            report.counts["dropped_annotated_in_reviews"] += 1
            continue
        yield Example(
            example_id=f"{stem}:{number}",
            # equal reviews fall on the same side, because the hash is one of the content
            split=split or ("val" if unit_interval(text) < VAL_RATE else "train"),
            tokens=tokens,
            target=scores[aspect],
            rationale=None,
        )


def _parse_review(line: str, where: str) -> tuple[list[float], list[str]]:
    head, tab, text = line.partition("\t")
    if not tab:
        given = "an empty line" if not line else f"no tab in {line[:40]!r}"
        raise BadInputError(
            f"expected {NUM_SCORES} scores, a tab and the tokens, but got {given}", where=where
        )
    scores = _check_scores(head.split(), where)
    tokens = [token for token in text.split(" ") if token]
    if not tokens:
        raise BadInputError("no tokens after the tab", where=where)
    return scores, tokens


def _check_scores(values: list[str] | object, where: str) -> list[float]:
    if not isinstance(values, list) or len(values) != NUM_SCORES:
        given = f"{len(values)}: {values}" if isinstance(values, list) else repr(values)
        raise BadInputError(f"expected {NUM_SCORES} scores, but got {given}", where=where)
    scores = []
    for value in values:
        try:
            score = float("nan" if isinstance(value, bool) else value)
        except (TypeError, ValueError) as error:
            raise BadInputError(f"expected a score in [0, 1], but got {value!r}", where=where) from error
        if not 0 <= score <= 1:  # also refuses NaN
            raise BadInputError(f"expected a score in [0, 1], but got {value}", where=where)
        scores.append(score)
    return scores


def _annotated(path: Path, aspect: int, max_bytes: int, report: Report) -> Iterator[Example]:
    first_line: dict[str, int] = {}
    for number, line in read_lines(path, max_bytes=max_bytes):
        where = f"{path}:{number}"
        record = _parse_record(line, where, (str(aspect), "rid", "x", "y"))
        rid = _check_rid(record["rid"], where)
        if rid in first_line:
            raise BadInputError(f"`rid` {rid} stands on line {first_line[rid]} already", where=where)
        first_line[rid] = number
        tokens = _check_tokens(record["x"], where)
        rationale = _positions(record[str(aspect)], len(tokens), f'"{aspect}"', where)
        report.counts["annotated"] += 1
        report.counts["annotated_without_rationale"] += rationale is None
        yield Example(
            example_id=rid,
            split="val_annotated" if unit_interval(rid) < VAL_ANNOTATED_RATE else "test",
            tokens=tokens,
            target=_check_scores(record["y"], where)[aspect],
            rationale=rationale,
        )


def _parse_record(line: str, where: str, keys: tuple[str, ...]) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"not JSON: {error}", where=where) from error
    if not isinstance(record, dict):
        raise BadInputError(f"expected a JSON object, but got {str(record)[:40]!r}", where=where)
    for key in keys:
        if key not in record:
            raise BadInputError(f"no key `{key}`; there is {sorted(record)}", where=where)
    return record


def _check_rid(rid: object, where: str) -> str:
    if isinstance(rid, bool) or not isinstance(rid, int | str) or rid == "":
        raise BadInputError(f"expected a number or text as `rid`, but got {rid!r}", where=where)
    return str(rid)


def _check_tokens(tokens: object, where: str) -> list[str]:
    if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
        raise BadInputError(f"expected a list of words as `x`, but got {str(tokens)[:60]}", where=where)
    if not tokens:
        raise BadInputError("no tokens in `x`", where=where)
    try:
        "".join(tokens).encode()
    except UnicodeEncodeError as error:
        raise BadInputError(f"a token of `x` is not valid text: {error}", where=where) from error
    return tokens


def _positions(spans: object, num_tokens: int, key: str, where: str) -> list[int] | None:
    """Token positions inside [start, end) spans; None when there is none: nobody marked anything."""
    if not isinstance(spans, list):
        raise BadInputError(f"expected a list of [start, end) spans as {key}, but got {spans!r}", where=where)
    chosen: set[int] = set()
    for span in spans:
        if not isinstance(span, list) or len(span) != 2 or not all(type(edge) is int for edge in span):
            raise BadInputError(f"expected a span [start, end) in {key}, but got {span!r}", where=where)
        start, end = span
        if not 0 <= start <= end <= num_tokens:
            raise BadInputError(
                f"span {span} of {key} does not fit the review's {num_tokens} tokens", where=where
            )
        chosen.update(range(start, end))
    return sorted(chosen) if chosen else None
