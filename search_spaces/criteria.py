"""What a dataset's best model is: its criterion by aspect, and the definitions that its scores follow."""

from dataclasses import dataclass, replace

from search_spaces.base import Bound, Criterion, at_rate

PAPER, RELATIVE = "paper", "relative"
"""Kinds of criterion: with fixed thresholds, and by the paper's rule, which reads a rival's precision."""
RIVAL = "hardkuma"
"""The method whose precision the rule reads; a best rival in [Sha2023], table 2, on all three aspects."""
MARGIN = 0.02
"""How far below the rival's precision a model may lie: [Sha2023] section 4.2."""
PRECISION = "val_token_precision"


def for_rival(stated: Criterion) -> Criterion:
    """By what the rival's own best epoch is chosen: the same, without a bound on precision."""
    return replace(stated, bounds=tuple(bound for bound in stated.bounds if bound.metric != PRECISION))


def relative(stated: Criterion, precision: float, rival: str, told: str) -> Criterion:
    """The criterion whose threshold on precision is the rival's, less `MARGIN`.

    Args:
        stated: the data set's own, with or without a threshold of its own, which gives way.
        precision: the rival's on the annotated validation texts, in [0, 1].
        rival: how it is called.
        told: how it was measured.
    """
    bound = Bound(metric=PRECISION, limit=round(max(0.0, precision - MARGIN), 3), kind="at_least")
    why = f"threshold {bound.limit:g} = {rival}'s {precision:.3f} on validation - {MARGIN:g}, {told}"
    fixed = paper_bar(stated)
    return replace(
        stated,
        bounds=(bound, *for_rival(stated).bounds),
        why=why if fixed is None else f"{why}; the paper's threshold: {fixed:g}",
    )


def paper_bar(stated: Criterion) -> float | None:
    """The fixed threshold on precision; None where a data set has none."""
    return next((bound.limit for bound in stated.bounds if bound.metric == PRECISION), None)


def expected(stated: Criterion, rival: str) -> str:
    """The relative criterion in words, before the rival was measured."""
    bounds = [f"{PRECISION} >= {rival}'s - {MARGIN:g}", *map(str, for_rival(stated).bounds)]
    rate = "" if stated.rate is None else f", {at_rate(stated.rate)}"
    return f"best {stated.metric} with {', '.join(bounds)}{rate}"


def _recall_at(precision: float) -> Criterion:
    return Criterion(
        metric="val_token_recall",
        bounds=(Bound(metric="val_token_precision", limit=precision, kind="at_least"),),
        why="[Sha2023] section 4.2: best recall where precision is at most 2 points below the previous best",
    )


BEER = {
    # HardKuma's 98.1, Bernoulli's and HardKuma's 96.8, HardKuma's 89.8, each less 2 points
    "appearance": _recall_at(0.961),
    "smell": _recall_at(0.948),
    "palate": _recall_at(0.878),
}


def _macro_f1_within(selection_rate: float) -> Criterion:
    return Criterion(
        metric="val_macro_f1",
        bounds=(
            Bound(metric="val_selection_rate", limit=selection_rate, kind="at_most"),
            # Ours: without it a model that selects nothing, and guesses, would meet the criterion
            Bound(metric="val_selection_rate", limit=0.01, kind="at_least"),
        ),
        why="[Sha2023] table 5: macro F1 at the share of tokens that its rows of InfoCal select",
    )


CAIL_SMALL = {
    "charges": _macro_f1_within(0.14),
    "articles": _macro_f1_within(0.14),
    "terms": _macro_f1_within(0.30),
}
CAIL_BIG = {
    "charges": _macro_f1_within(0.20),
    "articles": _macro_f1_within(0.20),
    "terms": _macro_f1_within(0.30),
}

HATEXPLAIN = {
    "": Criterion(
        metric="val_hatexplain_token_f1",
        bounds=(
            Bound(metric="val_accuracy", limit=0.61, kind="at_least"),
            Bound(metric="val_selection_rate", limit=0.5, kind="at_most"),
        ),
        why="ours, [Sha2023] states none: accuracy at most 2 points below its InfoCal's 0.630; without a "
        "bound on the rate, selecting every token wins (token F1 .50 on the real posts)",
    )
}

METRIC_MODES = {"beer": "paper", "hatexplain": "hatexplain"}
"""Dataset -> mode of `infocal.metrics.scores` in which published tables give its rationale scores."""

DEFAULT_METRIC_MODE = "eraser"
"""Of every other dataset [DeYoung2020]."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How far models came on a corpus of some size, as measured."""

    num_texts: int
    """Training texts."""
    precision: float
    """Highest token precision on validation at a useful recall."""
    why: str
    """Where it was measured."""


REACHED = {
    ("beer", "palate"): Reached(
        9000, 0.82, "docs/experiments.md, 2026-11-28: trials of a search on 8,981 reviews"
    )
}
"""By data set and aspect; of the others nothing was measured that rules a threshold out."""


def out_of_reach(dataset: str, aspect: str, num_texts: int, precision: float) -> Reached | None:
    """What was measured where it says that a threshold is out of reach of so many training texts; else None.

    Args:
        dataset: its name.
        aspect: target of the data set.
        num_texts: training texts; twice as many as were measured may come further.
        precision: the threshold, in [0, 1].
    """
    known = REACHED.get((dataset, aspect))
    if known is None or num_texts >= 2 * known.num_texts or precision <= known.precision:
        return None
    return known
