"""Search space of MCD, the same on every data set."""

from search_spaces.rnp import COHERENCE, WIDE_COHERENCE
from search_spaces.space import Range, Search

_WEIGHT = "the divergence beside the regularizers, ours: half to twice the published weight"

SEARCH = Search(
    spaces={
        "paper": (COHERENCE, Range(name="lambda_kl", low=0.5, high=2.0, step=0.25, why=_WEIGHT)),
        "wide": (
            WIDE_COHERENCE,
            Range(name="lambda_kl", low=0.1, high=10.0, log=True, why="ours: a decade on each side"),
        ),
    },
    first_points=[{"lambda_coherence": 0.03, "lambda_kl": 1.0}],
)
