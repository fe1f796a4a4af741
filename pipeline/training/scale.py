"""How the scale of a score is said."""


def of_scale(low: float, high: float) -> str:
    """What follows a score of a regression: `of 10`, or `(from 1 to 5)` where the lowest score is not 0."""
    return f"of {high:g}" if low == 0 else f"(from {low:g} to {high:g})"
