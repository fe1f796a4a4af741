"""Search space of attention, the same on every data set."""

from search_spaces.space import Range, Search

_OURS = "ours: the loss has no weight for rationales, so the dropout is tuned"

SEARCH = Search(
    spaces={
        "paper": (Range(name="embedding_dropout", low=0.0, high=0.5, step=0.05, role="nuisance", why=_OURS),),
        "wide": (Range(name="embedding_dropout", low=0.0, high=0.8, role="nuisance", why=_OURS),),
    },
    first_points=[{"embedding_dropout": 0.2}],
)
