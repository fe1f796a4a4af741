"""BeerAdvocate reviews with scores per aspect and human rationales [Lei et al. 2016].

`DATA_DIR/beer/` holds `reviews.aspect{0,1,2}.{train,heldout}.txt.gz` (or without .gz), de-correlated for one
aspect each, with one review a line: five scores in [0, 1] (appearance, smell, palate, taste, overall), a tab,
and the tokens; and `annotations.json` with one JSON object a line: `x` tokens, `y` scores, `"0"`, `"1"`,
`"2"` lists of [start, end) spans of an aspect's rationale, `rid` the review's number.

Each review has all five scores, so the other two aspects' held-out files are further texts to learn from:
`feature_store.sources.beer_pool`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store.errors import BadInputError, RequestError
from feature_store.fingerprint import unit_interval
from feature_store.sources.base import (
    NO_OPTIONS,
    POOL,
    SPLITS,
    Example,
    Query,
    RemoteFile,
    Report,
    Source,
    SourceOption,
    TargetSpec,
    TaskSpec,
)
from feature_store.sources.beer_polar import CLASS_NAMES, POLAR, SCORE, polar
from feature_store.sources.beer_pool import (
    ADJUSTED,
    NO_POOL,
    RESIDUAL,
    VECTORS,
    Known,
    adjusted,
    chosen,
    note,
    unknown_reviews,
)
from feature_store.sources.beer_scores import check_scores
from feature_store.sources.fields import check_id, check_spans, check_tokens, positions
from feature_store.sources.lines import filled_lines, parse_record
from feature_store.sources.locate import find_inputs, plain_or_gz
from feature_store.targets import column_of
from feature_store.wording import counted

if TYPE_CHECKING:
    import polars as pl

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
_SCORES = (*_ASPECTS, "taste", "overall")
"""What the five scores of a review are of, in their order in the files."""


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


class Beer(Source):
    """The source `beer`: regression of one aspect's score in [0, 1], or two classes of it.

    Splits: `train` is the train file where there is one, with the held-out file as `val`; otherwise the
    held-out file is cut 90/10 by a hash of each line. The annotated reviews are cut 20/80 into
    `val_annotated` and `test` by a hash of `rid`. A review of the annotated set that also stands in a review
    file is dropped there, and counted.
    """

    name = "beer"
    title = "BeerAdvocate reviews, one score per aspect (Lei et al. 2016)"
    aspects = _ASPECTS
    side_targets = _SCORES
    aliases: Mapping[str, str] = {"aroma": "smell", "look": "appearance"}
    splits = SPLITS
    shares_texts = False
    options = (
        SourceOption(
            name="pool",
            default=NO_POOL,
            choices=(NO_POOL, "plain", RESIDUAL, VECTORS, ADJUSTED),
            help="use of the reviews in the held-out files of the other two aspects: none (not used), plain "
            "(as training texts), residual (only those whose score is predicted worst from the other "
            "scores), vectors (only for the word vectors and the language model), adjusted (as plain, but "
            "the part that the other scores predict is subtracted from each target)",
            pool_values=(VECTORS,),
            is_later=True,
        ),
        SourceOption(
            name="target",
            default=SCORE,
            choices=(SCORE, POLAR),
            help="score: predict the aspect's score; polar: predict whether it is at most .4 or at least .6 "
            "(reviews in between are left out; both classes have the same size in train)",
            is_later=True,
        ),
    )
    tokenizer = "english"
    version = 1
    sample_version = 1
    remote_files = (
        *(_reviews_file(number, "heldout") for number in range(3)),
        *(_reviews_file(number, "train") for number in range(3)),
        RemoteFile(name=_ANNOTATIONS, url=f"{_URL}{_ANNOTATIONS}"),
        RemoteFile(name=_VECTORS, url=f"{_URL}{_VECTORS}", optional=True),
    )

    def inputs(
        self, data_dir: Path, aspect: str | None, options: Mapping[str, str] = NO_OPTIONS
    ) -> dict[str, Path]:
        """Files by role: `heldout`, `annotations`, `train` where there is one, `pool_ASPECT` of a pool."""
        number = self._number(aspect)
        if options.get("target") == POLAR and options.get("pool") == ADJUSTED:
            raise RequestError(
                f"`pool={ADJUSTED}` changes scores, but `target={POLAR}` predicts classes",
                hint=f"leave out `--option pool={ADJUSTED}`, or `--option target={POLAR}`",
            )
        names = {
            "train": plain_or_gz(f"reviews.aspect{number}.train.txt"),
            "heldout": plain_or_gz(f"reviews.aspect{number}.heldout.txt"),
            "annotations": (_ANNOTATIONS,),
        }
        if options.get("pool", NO_POOL) != NO_POOL:
            others = (other for other in range(len(self.aspects)) if other != number)
            names |= {
                f"pool_{self.aspects[other]}": plain_or_gz(f"reviews.aspect{other}.heldout.txt")
                for other in others
            }
        return find_inputs(data_dir, f"{self.name}/{aspect}", names, optional=("train",))

    def task(self, query: Query, report: Report) -> TaskSpec:
        """A score or two classes, as the option says, whatever the files hold; side targets are scores.

        Raises:
            RequestError: for side targets beside `pool=adjusted`, whose targets are no scores.
        """
        if query.sides and query.options.get("pool") == ADJUSTED:
            raise RequestError(
                f"`pool={ADJUSTED}` works only with one target, but `--aspect` names several",
                hint=f"name only one target, or use `--option pool={NO_POOL}` or `--option pool=plain`",
            )
        sides = tuple(TargetSpec(name=side, kind="regression") for side in query.sides)
        if query.options.get("target") == POLAR:
            return TaskSpec(kind="classification", class_names=CLASS_NAMES, sides=sides)
        return TaskSpec(kind="regression", sides=sides)

    def frames(self, query: Query, task: TaskSpec, report: Report) -> "Iterator[pl.DataFrame]":
        """Annotated reviews first, then those of the review files, then the pool; see `Source.frames`."""
        import polars as pl  # takes time that a list of the sources need not wait for

        if query.options.get("target") == POLAR:
            yield from polar(lambda told: self._frames(query, told), report)
            return
        frames = self._frames(query, report)
        if query.options.get("pool") != ADJUSTED:
            yield from frames
            return
        targets = self._adjusted(query)
        is_train = pl.col("split") == "train"
        for frame in frames:
            joined = frame.join(targets, on="example_id", how="left", maintain_order="left")
            target = pl.when(is_train).then("adjusted").otherwise("target").alias("target")
            yield joined.with_columns(target).drop("adjusted")

    def _adjusted(self, query: Query) -> "pl.DataFrame":
        """Columns `example_id` and `adjusted`: training targets without what the other scores tell."""
        import polars as pl

        from feature_store.sources.beer_reviews import read_reviews

        train = pl.concat(
            frame.filter(pl.col("split") == "train").select("example_id")
            for frame in self._frames(query, Report())
        )
        files = [path for role, path in query.inputs.items() if role != "annotations"]
        found = pl.concat(
            reviews.select("scores", example_id="place").join(train, on="example_id", how="semi")
            for path in files
            for reviews in read_reviews(path, query.max_bytes)
        )
        targets = adjusted(found["scores"].to_numpy(), self._number(query.aspect))
        return found.select("example_id", adjusted=pl.Series(targets, dtype=pl.Float32))

    def _frames(self, query: Query, report: Report) -> "Iterator[pl.DataFrame]":
        """The same with the scores themselves as targets."""
        import polars as pl

        from feature_store.sources.beer_reviews import example_columns, read_reviews
        from feature_store.sources.frames import frames_of

        inputs, max_bytes = query.inputs, query.max_bytes
        number = self._number(query.aspect)
        texts = pl.Series("text", [], pl.String)
        sides = _side_numbers(query)
        annotated = annotated_reviews(inputs["annotations"], number, max_bytes, report, tuple(sides.values()))
        for frame in frames_of(annotated, "regression", dict.fromkeys(query.sides, "regression")):
            texts.append(frame["tokens"].list.join(" "))
            yield frame
        if unmarked := report.counts["annotated_without_rationale"]:
            report.notes.append(
                f"{unmarked} of {report.counts['annotated']} annotated reviews have no rationale for "
                f"`{query.aspect}`: they are left out of precision, recall and F1"
            )
        heldout = inputs["heldout"]
        files: list[tuple[Path, str | None]] = [(heldout, None)]
        if "train" in inputs:
            files = [(inputs["train"], "train"), (heldout, "val")]
        else:
            report.notes.append(
                f"no reviews.aspect{number}.train.txt.gz: train and val are cut 90/10 from {heldout.name}"
            )
        how = query.options.get("pool", NO_POOL)
        known = None if how == NO_POOL else Known(number)
        if known is not None:
            known.add_texts(texts)
        for path, split in files:
            for reviews in read_reviews(path, max_bytes):
                own = reviews.filter(~pl.col("text").is_in(texts.implode()))
                if dropped := len(reviews) - len(own):
                    report.counts["dropped_annotated_in_reviews"] += dropped
                if known is not None:
                    known.add(own)
                # equal reviews fall on the same side, because the hash is one of the content
                splits = split or [_side(text) for text in own["text"]]
                yield example_columns(own, number, splits, sides)
        if dropped := report.counts["dropped_annotated_in_reviews"]:
            report.notes.append(
                counted(
                    dropped,
                    "review of the annotated set is also in the review files, and is dropped there",
                    "reviews of the annotated set are also in the review files, and are dropped there",
                )
            )
        if known is not None:
            yield from self._pool(query, how, known, report)

    def _pool(self, query: Query, how: str, known: Known, report: Report) -> "Iterator[pl.DataFrame]":
        """The reviews of the other aspects' files that the option `pool` asks for."""
        import polars as pl

        from feature_store.sources.beer_reviews import example_columns, read_reviews

        files = [path for role, path in query.inputs.items() if role.startswith("pool_")]

        def read() -> "Iterator[pl.DataFrame]":
            return (reviews for path in files for reviews in read_reviews(path, query.max_bytes))

        pool = unknown_reviews(read, known)
        kept = chosen(pool, known) if how == RESIDUAL else pool.places
        report.counts["pool"], report.counts["pool_equal"] = len(kept), pool.num_equal
        report.counts["pool_correlated"] = len(pool.places) - len(kept)
        report.notes.append(note(how, query.aspect or "", report.counts, [path.name for path in files]))
        places = pl.Series(list(kept), dtype=pl.String).implode()
        for reviews in read():
            yield example_columns(
                reviews.filter(pl.col("place").is_in(places)),
                known.aspect,
                POOL if how == VECTORS else "train",
                _side_numbers(query),
            )

    def write_sample(self, data_dir: Path, seed: int) -> None:
        """Write the made-up corpus of `feature_store.sample`."""
        from feature_store import sample

        sample.write_beer(data_dir / self.name, seed=seed)

    def _number(self, aspect: str | None) -> int:
        return self.aspects.index(str(aspect))


def _side_numbers(query: Query) -> dict[str, int]:
    """Column of each side target -> number of its score."""
    return {column_of(side): _SCORES.index(side) for side in query.sides}


def _side(text: str) -> str:
    """The split of a review of the one file there is."""
    return "val" if unit_interval(text) < VAL_RATE else "train"


def annotated_reviews(
    path: Path, aspect: int, max_bytes: int, report: Report, sides: Sequence[int] = ()
) -> Iterator[Example]:
    """The reviews of `annotations.json`, one for each line, with the human rationale of one aspect.

    Args:
        report: counts the reviews, and those in which nobody marked anything.
        sides: numbers of the scores that are side targets.

    Raises:
        BadInputError: at the first line that breaks the format.
    """
    first_line: dict[str, int] = {}
    for number, line in filled_lines(path, max_bytes=max_bytes):
        where = f"{path}:{number}"
        record = parse_record(line, where, (str(aspect), "rid", "x", "y"))
        rid = check_id(record["rid"], "rid", where)
        if rid in first_line:
            raise BadInputError(f"`rid` {rid} is on line {first_line[rid]} already", where=where)
        first_line[rid] = number
        tokens = check_tokens(record["x"], "x", where)
        spans = check_spans(record[str(aspect)], len(tokens), f'"{aspect}"', where)
        rationale = positions(spans) or None  # nobody marked anything
        report.counts["annotated"] += 1
        report.counts["annotated_without_rationale"] += rationale is None
        scores = check_scores(record["y"], where)
        yield Example(
            example_id=rid,
            split="val_annotated" if unit_interval(rid) < VAL_ANNOTATED_RATE else "test",
            tokens=tokens,
            target=scores[aspect],
            rationale=rationale,
            side_targets=tuple(scores[side] for side in sides),
        )
