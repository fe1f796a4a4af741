"""Search space of Sparse IB, the same on every data set."""

from search_spaces.space import Range, Search

_OURS = "ours: beta of [Paranjape2020] weighs a mean over tokens, ours a sum, and L_sp is in nats; "

SEARCH = Search(
    spaces={
        "paper": (
            Range(
                name="lambda_ib",
                low=0.0005,
                high=0.005,
                step=0.0005,
                why=_OURS + "half of what was best on beer to five times as much",
            ),
        ),
        "wide": (
            Range(name="lambda_ib", low=0.0001, high=0.01, log=True, why=_OURS + "a decade on each side"),
        ),
    },
    first_points=[{"lambda_ib": 0.001}],
)
