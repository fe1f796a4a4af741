"""Search space of MCD, the same on every data set."""

from search_spaces.space import Range, Search

_OURS = "ours: the published codes weigh the fused lasso of the drawn mask, in other units; "


SEARCH = Search(
    spaces={
        "paper": (
            Range(
                name="lambda_coherence",
                low=0.0,
                high=0.1,
                step=0.01,
                why=_OURS + "the range of HardKuma's expected form",
            ),
            Range(
                name="lambda_kl",
                low=0.5,
                high=2.0,
                step=0.25,
                why="the divergence beside the regularizers, ours: half to twice the published weight",
            ),
        ),
        "wide": (
            Range(name="lambda_coherence", low=0.001, high=0.5, log=True, why=_OURS + "two decades"),
            Range(name="lambda_kl", low=0.1, high=10.0, log=True, why="ours: a decade on each side"),
        ),
    },
    first_points=[{"lambda_coherence": 0.03, "lambda_kl": 1.0}],
)
