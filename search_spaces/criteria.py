"""The two kinds of criterion: with the paper's fixed thresholds, and relative to a rival's precision."""

import math
import re
from dataclasses import replace

from search_spaces.base import Bound, Criterion, at_rate

PAPER, RELATIVE = "paper", "relative"
"""Kinds of criterion: with fixed thresholds, and by the paper's rule, which reads a rival's precision."""
RIVAL = "hardkuma"
"""The method whose precision the rule reads; a best rival in [Sha2023], table 2, on all three aspects."""
MARGIN = 0.02
"""How far below the rival's precision a model may lie: [Sha2023] section 4.2."""
PRECISION = "val_token_precision"
_LOWER_IS_BETTER = re.compile(r"([\w/]*[_/])?(mse|mae|sufficiency\w*)")
"""Names of errors, and of what a rationale fails to keep of a prediction."""


def as_stated(text: str) -> Criterion:
    """The criterion that a user states in the form of `Criterion.parse`.

    Raises:
        ValueError: if the text has another form, or asks for the highest value of an error.
    """
    found = Criterion.parse(text)
    if _LOWER_IS_BETTER.fullmatch(found.metric):
        raise ValueError(
            f"`{found.metric}` is lower where a model is better, so it cannot be maximised; state a bound on "
            f"it: `with {_on_validation(found.metric)} <= NUMBER`"
        )
    return found


def _on_validation(metric: str) -> str:
    """The validation score that a name means which lacks its split, or names the test split."""
    return f"val_{re.sub(r'^(val|test)[_/]', '', metric)}"


def for_rival(stated: Criterion) -> Criterion:
    """By what the rival's own best epoch is chosen: the same, without a bound on precision."""
    return replace(stated, bounds=tuple(bound for bound in stated.bounds if bound.metric != PRECISION))


def below_rival(precision: float, density: float) -> tuple[float, str]:
    """The threshold on precision that a rival sets, and how it follows from the rival's precision.

    Args:
        precision: the rival's, in [0, 1].
        density: share of the annotated texts' tokens that humans marked, in [0, 1]. It is the precision that
            is expected of a random mask, and the threshold is not below it.
    """
    told = f" of {precision:.3f} minus {MARGIN:g}"
    limit, chance = round(precision - MARGIN, 3), math.floor(1000 * density) / 1000
    if limit >= chance:
        return limit, told
    return chance, f"{told}, raised to {chance:.3f}, the precision of random rationales"


def relative(stated: Criterion, precision: float, rival: str, told: str, density: float) -> Criterion:
    """The criterion whose threshold on precision is the rival's, less `MARGIN`.

    Args:
        stated: the data set's own, with or without a threshold of its own, which gives way.
        precision: the rival's on the annotated validation texts, in [0, 1].
        rival: how it is called.
        told: how it was measured.
        density: of the same texts; see `below_rival`.
    """
    limit, reason = below_rival(precision, density)
    bound = _at_least(limit)
    why = f"threshold {limit:g}: {rival}'s validation precision{reason}, {told}"
    fixed = paper_bar(stated)
    return replace(
        stated,
        bounds=(bound, *for_rival(stated).bounds),
        why=why if fixed is None else f"{why} (the paper's threshold is {fixed:g})",
    )


def with_min_precision(criterion: Criterion, limit: float) -> Criterion:
    """The criterion with the threshold on precision that a user states, in place of its own.

    Args:
        criterion: the data set's or a study's own.
        limit: in [0, 1].

    Raises:
        ValueError: if it has no threshold on precision.
    """
    return criterion.with_limit(PRECISION, limit, _stated(limit))


def and_min_precision(criterion: Criterion, limit: float) -> Criterion:
    """The same, with a threshold on precision also where the criterion has none of its own.

    Args:
        criterion: the data set's own, which reads human rationales.
        limit: in [0, 1].
    """
    if paper_bar(criterion) is not None:
        return with_min_precision(criterion, limit)
    return replace(criterion, bounds=(_at_least(limit), *criterion.bounds), why=_stated(limit))


def _stated(limit: float) -> str:
    return f"threshold {limit:g} was stated with `--min-precision`"


def above_chance(stated: Criterion, density: float) -> Criterion:
    """The criterion where no rival could be measured: with a threshold on precision, if it has none.

    Args:
        stated: the data set's own.
        density: share of the tokens of annotated validation texts that humans marked, in [0, 1]. It is the
            precision that is expected of a random mask; the threshold is half of it higher, or lies half way
            to 1 where that is less.
    """
    if paper_bar(stated) is not None:
        return stated
    limit = round(density + min(density, 1 - density) / 2, 3)
    why = (
        f"threshold {limit:g}: clearly above {density:.3f}, the precision of random rationales (share of the "
        "validation tokens that people marked)"
    )
    return replace(stated, bounds=(_at_least(limit), *stated.bounds), why=why)


def _at_least(precision: float) -> Bound:
    return Bound(metric=PRECISION, limit=precision, kind="at_least")


def paper_bar(stated: Criterion) -> float | None:
    """The fixed threshold on precision; None where a data set has none."""
    return next((bound.limit for bound in stated.bounds if bound.metric == PRECISION), None)


def expected(stated: Criterion, rival: str) -> str:
    """The relative criterion in words, before the rival was measured."""
    bounds = [f"{PRECISION} >= ({rival}'s {PRECISION} - {MARGIN:g})", *map(str, for_rival(stated).bounds)]
    rate = "" if stated.rate is None else f", {at_rate(stated.rate)}"
    return f"best {stated.metric} with {', '.join(bounds)}{rate}"
