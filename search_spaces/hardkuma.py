"""Search space of HardKuma, the same on every data set."""

from search_spaces.space import Range, Search

_OURS = "ours, because [Bastings2019] has a second Lagrange multiplier in place of this weight: "
_PENALTY = "weight of the control of the selection rate; the range is ours: "
PENALTY = Range(
    name="rate_penalty",
    low=5.0,
    high=20.0,
    step=2.5,
    role="nuisance",
    why=_PENALTY + "0.5 to 2 times the default",
)
WIDE_PENALTY = Range(
    name="rate_penalty",
    low=1.0,
    high=100.0,
    log=True,
    role="nuisance",
    why=_PENALTY + "0.1 to 10 times the default",
)
"""How hard a rate is held, of every method that searches over it."""

SEARCH = Search(
    spaces={
        "paper": (
            Range(
                name="lambda_coherence",
                low=0.0,
                high=0.1,
                step=0.01,
                why=_OURS + "the range ends where the masks become empty on beer; .03 was best there",
            ),
            PENALTY,
        ),
        "wide": (
            Range(
                name="lambda_coherence",
                low=0.001,
                high=0.5,
                log=True,
                why=_OURS + "a factor of 15 or more around .03",
            ),
            WIDE_PENALTY,
        ),
    },
    first_points=[{"lambda_coherence": 0.03, "rate_penalty": 10.0}],
)
