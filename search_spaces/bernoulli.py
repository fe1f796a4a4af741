"""Search space of Bernoulli, the same on every data set."""

from search_spaces.space import Range, Search

_OURS = "ours, because [Lei2016] states only the weights of its best models, in other units of the loss: "

SEARCH = Search(
    spaces={
        "paper": (
            Range(
                name="lambda_coherence",
                low=0.0,
                high=0.04,
                step=0.004,
                why=_OURS + "the range ends at twice the best value on beer, as .05 was too large there",
            ),
            Range(
                name="lambda_sparsity",
                low=0.0,
                high=0.01,
                step=0.001,
                why=_OURS + "the range is small, because with a fixed selection rate this weight only "
                "makes training reach it sooner",
            ),
        ),
        "wide": (
            Range(
                name="lambda_coherence", low=0.0, high=0.1, why=_OURS + "the range ends above that of `paper`"
            ),
            Range(
                name="lambda_sparsity",
                low=0.0,
                high=0.05,
                why=_OURS + "the range ends at five times that of `paper`",
            ),
        ),
    },
    first_points=[{"lambda_coherence": 0.02, "lambda_sparsity": 0.0}],
)
