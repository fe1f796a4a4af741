"""Search space of FRESH, the same on every data set."""

from search_spaces.space import Range, Search

_OURS = "ours: the extractor has no weight, so the dropout of support model and classifier is tuned"
_EPOCHS = "ours, not measured on real data: the classifier needs what is left of the epochs"

SEARCH = Search(
    spaces={
        "paper": (
            Range(name="embedding_dropout", low=0.0, high=0.5, step=0.05, role="nuisance", why=_OURS),
            Range(name="support_epochs", low=1.0, high=6.0, step=0.5, role="nuisance", why=_EPOCHS),
        ),
        "wide": (
            Range(name="embedding_dropout", low=0.0, high=0.8, role="nuisance", why=_OURS),
            Range(name="support_epochs", low=1.0, high=12.0, role="nuisance", why=_EPOCHS),
        ),
    },
    first_points=[{"embedding_dropout": 0.2, "support_epochs": 3.0}],
)
