"""Search space of Sparse IB, the same on every data set."""

from search_spaces.base import Range, Search

_OURS = "ours: beta of [Paranjape2020] weighs a mean over tokens, ours a sum, and L_sp is in nats; "

SEARCH = Search(
    spaces={
        "paper": (
            Range(
                name="lambda_ib",
                low=0.002,
                high=0.02,
                step=0.002,
                why=_OURS + "a fifth of the default to twice as much",
            ),
        ),
        "wide": (
            Range(name="lambda_ib", low=0.001, high=0.1, log=True, why=_OURS + "a decade on each side"),
        ),
    },
    first_points=[{"lambda_ib": 0.01}],
)
