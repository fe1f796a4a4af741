"""Search spaces of the classifiers of legal cases, the same on every data set."""

from search_spaces.space import Range, Search

_OURS = "ours: the loss has no weight for rationales, so the dropout is tuned"
_ARTICLE = "ours: around the .1 of [Luo2017]"
_TEXT = "ours: [Zhong2018] has no dropout, [Yang2019] .5"

SEARCH = Search(
    spaces={
        "paper": (
            Range(name="embedding_dropout", low=0.0, high=0.5, step=0.05, role="nuisance", why=_OURS),
            Range(name="fc_dropout", low=0.0, high=0.5, step=0.05, role="nuisance", why=_TEXT),
        ),
        "wide": (
            Range(name="embedding_dropout", low=0.0, high=0.8, role="nuisance", why=_OURS),
            Range(name="fc_dropout", low=0.0, high=0.8, role="nuisance", why=_TEXT),
        ),
    },
    first_points=[
        {"embedding_dropout": 0.2, "fc_dropout": 0.0},
        {"embedding_dropout": 0.2, "fc_dropout": 0.5},
    ],
)

FLA_SEARCH = Search(
    spaces={
        "paper": (
            *SEARCH.spaces["paper"],
            Range(name="lambda_article", low=0.0, high=1.0, step=0.1, role="scientific", why=_ARTICLE),
        ),
        "wide": (
            *SEARCH.spaces["wide"],
            Range(name="lambda_article", low=0.01, high=10.0, log=True, role="scientific", why=_ARTICLE),
        ),
    },
    first_points=[{"embedding_dropout": 0.2, "fc_dropout": 0.2, "lambda_article": 0.1}],
)
