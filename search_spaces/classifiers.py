"""Search spaces of the classifiers of [Mathew2021], the same on every data set."""

from search_spaces.space import Range, Search

_OURS = "ours: nothing weighs the rationale, so what is tuned is how well the whole text is read"
_DROPOUTS = "the values of [Mathew2021] are .1, .2 and .5"

SEARCH = Search(
    spaces={
        "paper": (
            Range(name="embedding_dropout", low=0.1, high=0.5, step=0.05, role="nuisance", why=_DROPOUTS),
            Range(name="fc_dropout", low=0.1, high=0.5, step=0.05, role="nuisance", why=_DROPOUTS),
        ),
        "wide": (
            Range(name="embedding_dropout", low=0.0, high=0.8, role="nuisance", why=_OURS),
            Range(name="fc_dropout", low=0.0, high=0.8, role="nuisance", why=_OURS),
        ),
    },
    first_points=[{"embedding_dropout": 0.2, "fc_dropout": 0.2}],
)
