"""Search space of Bernoulli, the same on every data set."""

from search_spaces.base import Range, Search

_OURS = "ours: [Lei2016] states the weights of its best models only, in other units of the loss; "

SEARCH = Search(
    spaces={
        "paper": (
            Range(
                name="lambda_coherence",
                low=0.0,
                high=0.02,
                step=0.002,
                why=_OURS + "to a tenth of L_sp where a text has five spans",
            ),
            Range(
                name="lambda_sparsity",
                low=0.0,
                high=0.01,
                step=0.001,
                why=_OURS + "beside a rate that is held it only speeds up the way there",
            ),
        ),
        "wide": (
            Range(name="lambda_coherence", low=0.0, high=0.1, why=_OURS + "five times the grid's end"),
            Range(name="lambda_sparsity", low=0.0, high=0.05, why=_OURS + "five times the grid's end"),
        ),
    },
    first_points=[{"lambda_coherence": 0.002, "lambda_sparsity": 0.0}],
)
