"""Search space of Sparse IB, the same on every data set."""

from search_spaces.space import Range, Search

_OURS = (
    "ours, because beta of [Paranjape2020] weighs a mean over tokens and here it weighs a sum, and "
    "L_sp is in nats: "
)

SEARCH = Search(
    spaces={
        "paper": (
            Range(
                name="lambda_ib",
                low=0.0005,
                high=0.005,
                step=0.0005,
                why=_OURS + "0.5 to 5 times the best value on beer",
            ),
        ),
        "wide": (
            Range(
                name="lambda_ib",
                low=0.0001,
                high=0.01,
                log=True,
                why=_OURS + "a factor of 10 below and above the best value on beer",
            ),
        ),
    },
    first_points=[{"lambda_ib": 0.001}],
)
