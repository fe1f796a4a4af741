"""Where comparisons are, in the storage of all results."""

COMPARISONS = "comparisons"
"""The folder of all of them."""
SETTINGS = "comparison.json"
"""In the folder of each: what is to be done; it is there once the comparison was started."""
