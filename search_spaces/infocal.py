"""Search spaces of InfoCal: the paper's grids, and wider ones around them."""

import dataclasses
from collections.abc import Mapping

from search_spaces.space import Range, Search, Space, without_noise

_BEER_GRID = "the grid of [Sha2023] for beer, section 4.2"

PAPER_BEER: tuple[Range, ...] = (
    Range(
        name="lambda_ib",
        low=0.0001,
        high=0.001,
        step=0.0001,
        why=_BEER_GRID,
    ),
    Range(name="lambda_g", low=0.2, high=2.0, step=0.2, why=_BEER_GRID),
    Range(name="lambda_mi", low=0.0, high=1.0, step=0.1, why=_BEER_GRID),
    Range(
        name="lambda_lm",
        low=0.0,
        high=0.01,
        step=0.001,
        why=_BEER_GRID,
    ),
)

PAPER_BEER_BEST = {"lambda_ib": 0.0003, "lambda_g": 1.0, "lambda_mi": 0.1, "lambda_lm": 0.005}
"""The best values that [Sha2023] found for beer; the first point every search tries."""


def _decade_around(best: Mapping[str, float], whose: str = "the paper's best") -> Space:
    """Log scales from a tenth of each value to ten times it."""
    return tuple(
        Range(
            name=name,
            low=without_noise(value / 10),
            high=without_noise(value * 10),
            log=True,
            why=f"a decade on each side of {whose}, {value:g}",
        )
        for name, value in best.items()
    )


WIDE_OWN = _decade_around(PAPER_BEER_BEST)

BEER_SHARES = {"lambda_ib": 0.010, "lambda_g": 0.043, "lambda_mi": 0.072, "lambda_lm": 0.018}
"""Gradient shares of the paper's best values, palate, our preset, fifth epoch (docs/experiments.md)."""

_LEAST_SHARE, _MOST_SHARE = 0.03, 1.0


def _audible(values: Mapping[str, float], measured: Mapping[str, float]) -> Space:
    """Log scales from where a term is hardly heard to where it is as loud as the prediction's loss.

    Args:
        values: of the weights.
        measured: share of the gradient that each has there; it grows with the weight.
    """
    found = []
    for one in PAPER_BEER:
        value, share = values[one.name], measured[one.name]
        low, high = (float(f"{value * s / share:.1g}") for s in (_LEAST_SHARE, _MOST_SHARE))
        grid = one.grid
        num_below = sum(point < low for point in grid)
        why = (
            f"weights at which the term's gradient is {_LEAST_SHARE:g} to {_MOST_SHARE:g} times that of the "
            f"prediction loss (at {value:g}: {share:g} times); {num_below} of the {len(grid)} values of the "
            "paper's grid are below this range"
        )
        found.append(Range(name=one.name, low=low, high=high, log=True, why=why))
    return tuple(found)


WIDE_BEER = _audible(PAPER_BEER_BEST, BEER_SHARES)

WIDE_BEER_FIRST = {"lambda_ib": 0.00095, "lambda_g": 1.0, "lambda_mi": 0.1, "lambda_lm": 0.0085}
"""Ours: near the lower ends of the wide space, and not on the paper's grid."""

_OTHER_PAPER_GRIDS = PAPER_BEER[1:]

PAPER_CAIL: Space = (
    Range(
        name="lambda_ib",
        low=0.0,
        high=0.1,
        step=0.01,
        why="[Sha2023] section 4.3: [0.00, 0.10] with step 0.01; the other grids are those of beer",
    ),
    *_OTHER_PAPER_GRIDS,
)

PAPER_CAIL_BEST = {"lambda_ib": 0.05, "lambda_g": 1.0, "lambda_mi": 0.5, "lambda_lm": 0.005}
"""The best values that [Sha2023] found for CAIL, all three tasks alike."""

CAIL_FIRST = PAPER_CAIL_BEST | {"lambda_ib": 0.002, "lambda_mi": 0.1}
"""Ours: L_ib is a sum over tokens, and 0.05 for each costs more than it earns (docs/experiments.md)."""

WIDE_CAIL = _decade_around(CAIL_FIRST, "our first point")

_OURS = "ours, because [Sha2023] states no range for HateXplain: "

PAPER_HATEXPLAIN: Space = (
    Range(
        name="lambda_ib",
        low=0.001,
        high=0.01,
        step=0.001,
        why=_OURS + "ten times that of beer, because L_ib is a sum over tokens, and posts have a fifth of a "
        "review's tokens",
    ),
    Range(name="lambda_g", low=0.2, high=2.0, step=0.2, why=_OURS + "that of beer and CAIL"),
    Range(name="lambda_mi", low=0.0, high=1.0, step=0.1, why=_OURS + "that of beer and CAIL"),
    Range(name="lambda_lm", low=0.0, high=0.01, step=0.001, why=_OURS + "that of beer and CAIL"),
)

HATEXPLAIN_FIRST = {"lambda_ib": 0.003, "lambda_g": 1.0, "lambda_mi": 0.1, "lambda_lm": 0.005}
"""Where a search on HateXplain starts: beer's best, with lambda_ib as its range is shifted."""

WIDE_HATEXPLAIN = _decade_around(HATEXPLAIN_FIRST, "our first point")

BEER = Search(
    spaces={"paper": PAPER_BEER, "wide": WIDE_BEER}, first_points=[PAPER_BEER_BEST, WIDE_BEER_FIRST]
)
CAIL = Search(spaces={"paper": PAPER_CAIL, "wide": WIDE_CAIL}, first_points=[PAPER_CAIL_BEST, CAIL_FIRST])
HATEXPLAIN = Search(
    spaces={"paper": PAPER_HATEXPLAIN, "wide": WIDE_HATEXPLAIN}, first_points=[HATEXPLAIN_FIRST]
)

_OWN = "no range is known for your own data, so this is "


def _with_reason(space: Space, why: str) -> Space:
    return tuple(dataclasses.replace(range_, why=f"{_OWN}{why}") for range_ in space)


OWN_DATA = Search(
    spaces={
        "paper": _with_reason(PAPER_BEER, _BEER_GRID),
        "wide": _with_reason(WIDE_OWN, "a decade on each side of what [Sha2023] found best for beer"),
    },
    first_points=[PAPER_BEER_BEST],
)

OWN = "own"
SEARCHES = {"beer": BEER, "hatexplain": HATEXPLAIN, "cail": CAIL, OWN: OWN_DATA}
"""By the name that a data set's preset gives as `ranges`; without one, they are `own`."""
