"""Where comparisons are, in the storage of all results."""

from pipeline.study.ledger import LEDGER
from pipeline.study.study_folder import Kind

SETTINGS, OUTCOMES = "comparison.json", "outcomes"
"""In the folder of each: what is to be done, there once it was started; and what its trainings came to."""
COMPARISON = Kind("comparison", "comparisons", SETTINGS, (SETTINGS, LEDGER, OUTCOMES), "comparison-claims")
"""Their folders."""

LANGUAGE_MODEL_SETTINGS = "language_models.json"
"""In the folder of each table of language models: what is to be done."""
LANGUAGE_MODELS = Kind(
    "table of language models",
    "language-models",
    LANGUAGE_MODEL_SETTINGS,
    (LANGUAGE_MODEL_SETTINGS, "data.json", OUTCOMES),
    "language-model-claims",
)
"""Folders of tables of language models."""
