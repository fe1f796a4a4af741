"""Words of messages that depend on a number."""


def counted(number: int, noun: str) -> str:
    """A number and what it counts: `1 trial`, `3 trials`; of nouns that take an `s`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
