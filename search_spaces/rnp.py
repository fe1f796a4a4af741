"""Search space of RNP and of FR, DR, MGR and N2R, which build on it, the same on every data set."""

from search_spaces.space import Range, Search

_OURS = "ours: the published codes weigh the fused lasso of the drawn mask, in other units; "
_PENALTY = "how hard the rate is held, ours: half to twice the default, 10"

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
            Range(name="rate_penalty", low=5.0, high=20.0, step=2.5, role="nuisance", why=_PENALTY),
        ),
        "wide": (
            Range(name="lambda_coherence", low=0.001, high=0.5, log=True, why=_OURS + "two decades"),
            Range(name="rate_penalty", low=1.0, high=100.0, log=True, role="nuisance", why=_PENALTY),
        ),
    },
    first_points=[{"lambda_coherence": 0.03, "rate_penalty": 10.0}],
)
