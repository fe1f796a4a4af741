"""Which scores the reports of a data set show, how they are called and in which order."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from feature_store.targets import main_of, sides_of
from search_spaces import lookup


@dataclass(frozen=True, slots=True)
class Column:
    """One score of a table."""

    score: str
    """Flat name, without the prefix of its split; `infocal.metrics.scores.DEFINITIONS` says what it means."""
    label: str
    published: str = ""
    """The same in `published.toml`; empty where no table has it."""
    is_share: bool = True
    """Whether it is shown in percent; an error is shown as it is."""

    @property
    def heading(self) -> str:
        """The label with its unit."""
        return f"{self.label} %" if self.is_share else self.label

    @property
    def scale(self) -> tuple[int, int]:
        """What a value is multiplied by where it is shown, and its digits there."""
        return (100, 1) if self.is_share else (1, 4)


MASKS = {
    "degenerate_all": "(nearly) all tokens are selected",
    "degenerate_none": "(nearly) no token is selected",
}
"""Trivial masks (`infocal.metrics.scores.DegenerateKind`), and how they are called."""

_PRECISION = Column("token_precision", "precision", "precision")
_RECALL = Column("token_recall", "recall", "recall")
_SELECTED = Column("selection_rate", "selected", "selected")
_SELECTED_OF_ANNOTATED = Column("selection_rate_annotated", "of annotated")
_SELECTED_OF_TOXIC = Column("selection_rate_annotated", "of toxic")
_ACCURACY = Column("accuracy", "accuracy", "accuracy")
_TWO_CLASSES = Column("accuracy", "accuracy")  # beer with `target=polar`; no published table has it
_MACRO_F1 = Column("macro_f1", "macro F1", "macro_f1")
_MSE = Column("mse", "MSE", is_share=False)
_FAITHFULNESS = (
    Column("comprehensiveness", "comprehensiveness", "comprehensiveness"),
    Column("sufficiency", "sufficiency", "sufficiency"),
)

_COLUMNS = {
    "paper": (_PRECISION, _RECALL, Column("token_f1", "F1", "f1"), _SELECTED, _TWO_CLASSES, _MSE),
    "hatexplain": (
        _ACCURACY,
        _MACRO_F1,
        Column("auroc_ovo", "AUROC (ovo)", "auroc"),
        Column("hatexplain_iou_f1", "IOU F1", "iou_f1"),
        Column("hatexplain_token_f1", "token F1", "token_f1"),
        Column("auprc", "AUPRC", "auprc"),
        *_FAITHFULNESS,
        _SELECTED,
        _SELECTED_OF_TOXIC,
    ),
    "eraser": (
        _ACCURACY,
        Column("macro_precision", "macro precision", "macro_precision"),
        Column("macro_recall", "macro recall", "macro_recall"),
        _MACRO_F1,
        Column("explained_rate", "explained"),
        Column("iou_f1", "IOU F1", "iou_f1"),
        Column("token_f1", "token F1", "token_f1"),
        Column("auprc", "AUPRC", "auprc"),
        *_FAITHFULNESS,
        _SELECTED,
        _MSE,
    ),
}
"""Metric mode -> columns; where a column has no value in any row, the tables leave it out."""

_RATIONALE_COLUMNS = {
    "paper": (_PRECISION, _RECALL, Column("token_f1", "F1"), Column("iou_f1", "IOU F1"), _SELECTED),
    "hatexplain": (
        Column("hatexplain_token_f1", "token F1"),
        Column("hatexplain_iou_f1", "IOU F1"),
        Column("auprc", "AUPRC"),
        Column("average_precision", "AP"),
        _PRECISION,
        _RECALL,
        _SELECTED,
        _SELECTED_OF_TOXIC,
    ),
    "eraser": (
        _PRECISION,
        _RECALL,
        Column("token_f1", "F1"),
        Column("iou_f1", "IOU F1"),
        Column("auprc", "AUPRC"),
        _SELECTED,
    ),
}
"""Metric mode -> what a mask alone is scored by: the table in which the trivial lines stand."""

_HEADLINES = ("token_f1", "hatexplain_token_f1", "macro_f1", "explained_rate")

TASK_SCORES = (
    "mse",
    "mae",
    "explained_rate",
    "accuracy",
    "macro_precision",
    "macro_recall",
    "macro_f1",
    "auroc_ovo",
    "auroc_ovr",
)
"""Scores of the prediction, whatever the rationale."""

MEAN = "mean"
"""In place of a target's name: the mean over several targets."""

_OF_TARGETS = ("macro_f1", "mse")
"""The one score of each of several targets that tables show; MLflow has all."""

_SMALL = ("mse", "mae")
"""Errors of scores in [0, 1]: three digits would leave one of them that says something."""

_CHOSEN_BY = ("token_precision", "token_recall", "token_f1", "selection_rate")
"""Scores that are repeated for every data set: the chart of precision and recall is made of them."""


def of_target(target: str, score: str) -> str:
    """Flat name of a score of one of several targets, without the prefix of its split."""
    return f"{target}/{score}"


def plain(score: str) -> str:
    """Flat name of a score without the prefix of validation and without the name of a target."""
    return score.removeprefix("val_").rpartition("/")[2]


def target_of(score: str) -> str:
    """The target that a score is of, or `mean`; empty where it has no such name."""
    return score.removeprefix("val_").rpartition("/")[0]


def _titled(score: str) -> Column:
    """The column of a score that no table lists: of a target, or of a criterion."""
    known = (column for group in _COLUMNS.values() for column in group if column.score == plain(score))
    target, found = target_of(score), next(known, None)
    label = plain(score).replace("_", " ") if found is None or not target else found.label
    is_share = found is None or found.is_share
    return Column(score, f"{target} {label}".strip(), is_share=is_share)


def of_targets(scores: Iterable[str]) -> list[str]:
    """Those scores of several targets that tables show, of all flat names that are there."""
    return [name for name in scores if target_of(name) and plain(name) in _OF_TARGETS]


def shortfall(violation: float) -> str:
    """By how much a criterion is missed, > 0, in words that never say `0.000`."""
    written = f"{violation:.3f}"
    return "less than 0.001" if float(written) == 0 else written


def digits_of(score: str) -> int:
    """Digits after the point of a score in running text; more would be noise.

    Args:
        score: flat name, with or without the prefix of its split.
    """
    return 4 if plain(score) in _SMALL else 3


def with_error(score: str, value: float, error: float | None = None) -> str:
    """A score in running text, with its standard error where that is known: `0.612 ± 0.034`.

    Args:
        score: flat name, with or without the prefix of its split.
    """
    digits = digits_of(score)
    return f"{value:z.{digits}f}" if error is None else f"{value:z.{digits}f} ± {error:.{digits}f}"


def columns(dataset: str, decisive: Collection[str] = ()) -> tuple[Column, ...]:
    """Every column of a data set's tables.

    Args:
        decisive: flat names of validation scores that a criterion reads: where the data set's tables lack
            one, it has a column before what is selected.
    """
    every = _COLUMNS[lookup.metric_mode(dataset)]
    known = {column.score for column in every}
    read = dict.fromkeys(name.removeprefix("val_") for name in decisive)
    added = tuple(_titled(name) for name in read if name not in known)
    place = every.index(_SELECTED)
    return (*every[:place], *added, *every[place:])


def compared(
    dataset: str, aspect: str = "", *, first: str = "", has_own_rates: bool = False
) -> tuple[Column, ...]:
    """Columns of a comparison: every one, and how much is selected of the annotated texts alone.

    The rate is held on all texts, those included in which nobody marked anything; precision and recall are of
    the others. Where methods divide their tokens between the two in different ways, only both shares say so.
    Of several targets, the scores of each prediction and its faithfulness have columns of their own, which
    name it.

    Args:
        aspect: the target, or the targets.
        first: of several targets, the one by whose prediction models are chosen, or `mean`: its columns stand
            before those of the others; empty: the main one.
        has_own_rates: whether different shares are selected for different targets: each has a column then.
    """
    every = columns(dataset)
    if not any(column.score == _SELECTED_OF_ANNOTATED.score for column in every):
        place = every.index(_SELECTED) + 1
        every = (*every[:place], _SELECTED_OF_ANNOTATED, *every[place:])
    main, sides = main_of(aspect) or "", sides_of(aspect)
    if not sides:
        return every
    targets = sorted((main, *sides), key=lambda name: name != first)
    if first == MEAN:
        targets = [MEAN, *targets]
    predicted = [column for column in every if column.score in TASK_SCORES]
    found = _for_each(targets, main, every, predicted)
    found = _for_each(targets, main, found, [column for column in _FAITHFULNESS if column in every])
    return tuple(_for_each(targets, main, found, [_SELECTED]) if has_own_rates else found)


def _for_each(
    targets: Sequence[str], main: str, every: Sequence[Column], repeated: Sequence[Column]
) -> list[Column]:
    """The columns with some of them once for each target, all together where the first of these stood.

    Args:
        targets: in the order of their columns.
        main: the main one, whose scores have plain names.
    """
    if not repeated:
        return [*every]
    place = every.index(repeated[0])
    found = [column for column in every if column not in repeated]
    found[place:place] = [
        replace(column, label=f"{main} {column.label}") if name == main else of_side(name, column)
        for name in targets
        for column in repeated
    ]
    return found


def of_side(side: str, column: Column) -> Column:
    """The column of the same score of a side target."""
    return replace(column, score=of_target(side, column.score), label=f"{side} {column.label}")


def rationale_columns(dataset: str) -> tuple[Column, ...]:
    """The columns that a mask without a model has."""
    return _RATIONALE_COLUMNS[lookup.metric_mode(dataset)]


def shown(dataset: str) -> tuple[str, ...]:
    """Flat names of the scores that every report of a data set repeats."""
    return tuple(dict.fromkeys([*(column.score for column in columns(dataset)), *_CHOSEN_BY]))


def of_validation(dataset: str, scores: Iterable[str], decisive: Collection[str] = ()) -> dict[str, str]:
    """Column's name in small letters -> flat name of the validation score, of those scores that are there.

    Scores that need another evaluation than an epoch's are not.

    Args:
        scores: flat names that are there.
        decisive: of the scores that a criterion reads; see `columns`.
    """
    there = dict.fromkeys(scores)
    every = columns(dataset, [*decisive, *of_targets(there)])
    found = {column.label.lower(): f"val_{column.score}" for column in every}
    return {label: name for label, name in found.items() if name in there}


def label_of(score: str, dataset: str) -> str:
    """How tables call a score, with or without `val_`: those of the data set first, then all others."""
    if target := target_of(score):
        return f"{target} {label_of(plain(score), dataset)}"
    bare = plain(score)
    # beside a column of macro precision, one of tokens has to say so
    own = columns(dataset, [bare] if bare in _CHOSEN_BY else ())
    every = [*own, *(column for group in _COLUMNS.values() for column in group)]
    return next((column.label for column in every if column.score == bare), score)


def headline_of(shown: Sequence[Column]) -> Column | None:
    """The column that methods are compared by: agreement with people, else the quality of the prediction.

    Returns:
        None where `shown` has no such column.
    """
    return next((column for name in _HEADLINES for column in shown if column.score == name), None)
