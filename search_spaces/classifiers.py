"""Search spaces of the classifiers of [Mathew2021], the same on every data set."""

from search_spaces.space import Range, Search

_OURS = "ours: the loss has no weight for rationales, so the dropout is tuned"
_DROPOUTS = "the values of [Mathew2021] are .1, .2 and .5"
_WEIGHT = "ours: around the values that [Mathew2021] chose, 100 for BiRNN and .001 for BERT"
_PIECES = "ours: around the .1 of [Devlin2019]"

_OF_FC = Range(name="fc_dropout", low=0.05, high=0.5, step=0.05, role="nuisance", why=_PIECES)
_ANY_FC = Range(name="fc_dropout", low=0.0, high=0.8, role="nuisance", why=_PIECES)


def _lambda(low: float, high: float, step: float | None = None) -> Range:
    return Range(
        name="lambda_attention",
        low=low,
        high=high,
        step=step,
        log=step is None,
        role="scientific",
        why=_WEIGHT,
    )


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

SUPERVISED_SEARCH = Search(
    spaces={
        "paper": (*SEARCH.spaces["paper"], _lambda(20.0, 200.0, 20.0)),
        "wide": (*SEARCH.spaces["wide"], _lambda(1e-4, 1e3)),
    },
    first_points=[{"embedding_dropout": 0.5, "fc_dropout": 0.2, "lambda_attention": 100.0}],
)

PRETRAINED_SEARCH = Search(
    spaces={"paper": (_OF_FC,), "wide": (_ANY_FC,)},
    first_points=[{"fc_dropout": 0.1}],
)

SUPERVISED_PRETRAINED_SEARCH = Search(
    spaces={
        "paper": (_OF_FC, _lambda(0.0005, 0.005, 0.0005)),
        "wide": (_ANY_FC, _lambda(1e-4, 1e3)),
    },
    first_points=[{"fc_dropout": 0.1, "lambda_attention": 0.001}],
)
