"""Where comparisons are, in the storage of all results."""

from pipeline.study.ledger import LEDGER
from pipeline.study.study_folder import Kind

SETTINGS, OUTCOMES = "comparison.json", "outcomes"
"""In the folder of each: what is to be done, there once it was started; and what its trainings came to."""
COMPARISON = Kind("comparison", "comparisons", SETTINGS, (SETTINGS, LEDGER, OUTCOMES), "comparison-claims")
"""Their folders."""
