"""What may rank the tokens of a text for a classifier that selects none, by name; torch is not needed here.

Sources: [Sundararajan2017] integrated gradients (ICML 2017), [Ribeiro2016] LIME (KDD 2016).
"""

import importlib.util

from infocal.errors import ConfigError

ATTENTION = "attention"
"""The explanation of a classifier that has attention."""
GRADIENT_X_INPUT, INTEGRATED_GRADIENTS, LIME = "gradient_x_input", "integrated_gradients", "lime"
AFTER_TRAINING = (GRADIENT_X_INPUT, INTEGRATED_GRADIENTS, LIME)
"""Explanations that any classifier has."""
EXPLAINERS = (ATTENTION, *AFTER_TRAINING)
EXTRA = "infocal-pipeline[explain]"
"""What `pip install` has to be given for integrated gradients and LIME."""


def check_installed(name: str) -> None:
    """Refuse an explanation whose package is missing.

    Raises:
        ConfigError: if captum is not installed.
    """
    if name in (INTEGRATED_GRADIENTS, LIME) and importlib.util.find_spec("captum") is None:
        raise ConfigError(
            f"`explainer` {name} needs the package captum, which is not installed",
            hint=f"pip install '{EXTRA}'",
        )
