"""Search space of RNP and of FR, DR, MGR and N2R, which build on it, the same on every data set."""

from search_spaces.hardkuma import PENALTY, WIDE_PENALTY
from search_spaces.space import Range, Search

_OURS = "ours, because the published codes have another form and unit of this weight: "
COHERENCE = Range(name="lambda_coherence", low=0.0, high=0.1, step=0.01, why=_OURS + "HardKuma's range")
WIDE_COHERENCE = Range(
    name="lambda_coherence", low=0.001, high=0.5, log=True, why=_OURS + "HardKuma's wide range"
)
"""Weight of the expected fused lasso, of MCD too."""

SEARCH = Search(
    spaces={"paper": (COHERENCE, PENALTY), "wide": (WIDE_COHERENCE, WIDE_PENALTY)},
    first_points=[{"lambda_coherence": 0.03, "rate_penalty": 10.0}],
)
