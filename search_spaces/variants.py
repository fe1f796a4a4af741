"""Rows of published tables that are a method with some hyper-parameters fixed; no code of their own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """A named configuration of a method: `--method NAME` trains it as if it were one."""

    method: str
    """The method that it is a configuration of."""
    title: str
    """Its row in the published tables."""
    fixed: Mapping[str, Any]
    """The hyper-parameters that make it what it is; neither searched nor set."""
    why: str
    """Which row it is, and why these values."""


VARIANTS: dict[str, Variant] = {
    "infocal-no-adv": Variant(
        method="infocal",
        title="InfoCal - L_adv",
        fixed={"lambda_g": 0.0, "lambda_mi": 0.0},
        why="InfoCal - L_adv: Eq. (20) weights L_g and L_mi; the guider is trained beside it, and unheard",
    ),
    "infocal-no-lm": Variant(
        method="infocal",
        title="InfoCal - L_lm",
        fixed={"lambda_lm": 0.0, "lambda_coherence": 0.0},
        why="InfoCal - L_lm: nothing binds adjacent tokens; the fused lasso of our recipe goes with "
        "L_lm, for with it alone the row would be that of the HardKuma regularizer",
    ),
    "infocal-dense": Variant(
        method="infocal",
        title="InfoCal - L_adv - L_ib (w/o)",
        fixed={"lambda_g": 0.0, "lambda_mi": 0.0, "lambda_ib": 0.0, "target_selection_rate": 1.0},
        why="InfoCal - L_adv - L_ib: nothing makes the rationale short, so that every token is read",
    ),
    "infocal-hardkuma-reg": Variant(
        method="infocal",
        title="InfoCal (HardKuma reg)",
        fixed={"lambda_lm": 0.0, "coherence_form": "drawn", "lambda_coherence": 0.1},
        why="InfoCal (HardKuma reg): the fused lasso in place of L_lm, at the weight that was best on beer",
    ),
    "infocal-invase-reg": Variant(
        method="infocal",
        title="InfoCal (INVASE reg)",
        fixed={"calibration_loss": "policy_gradient"},
        why="InfoCal (INVASE reg): the selector's reward is the difference of the two cross-entropies, as in "
        "[Yoon2018], in place of the discriminator",
    ),
    "fr": Variant(
        method="rnp",
        title="FR",
        fixed={"shared_encoder": True},
        why="FR [Liu2022]: selector and predictor read through one encoder. Its layer normalisation is left "
        "out: the state of an unselected token is zero here, and must stay so",
    ),
    "dr": Variant(
        method="rnp",
        title="DR",
        fixed={"pace": "sparsity"},
        why="DR [Liu2023b]: the predictor's learning rate is the selector's times the share of tokens "
        "selected",
    ),
    "mgr": Variant(
        method="rnp",
        title="MGR",
        fixed={"num_selectors": 3},
        why="MGR [Liu2023a]: three selectors teach one predictor; the first one selects at inference",
    ),
    "n2r": Variant(
        method="rnp",
        title="N2R",
        fixed={"lambda_norm": 1.0},
        why="N2R [Liu2025]: the selector is also rewarded by the norm of the rationale's representation, "
        "with the predictor frozen",
    ),
}
