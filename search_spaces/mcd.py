"""Search space of MCD, the same on every data set."""

from search_spaces.rnp import COHERENCE, WIDE_COHERENCE
from search_spaces.space import Range, Search

_WEIGHT = "weight of the divergence, ours: 0.5 to 2 times the published weight"

SEARCH = Search(
    spaces={
        "paper": (COHERENCE, Range(name="lambda_kl", low=0.5, high=2.0, step=0.25, why=_WEIGHT)),
        "wide": (
            WIDE_COHERENCE,
            Range(
                name="lambda_kl",
                low=0.1,
                high=10.0,
                log=True,
                why="ours: a factor of 10 below and above the published weight",
            ),
        ),
    },
    first_points=[{"lambda_coherence": 0.03, "lambda_kl": 1.0}],
)
