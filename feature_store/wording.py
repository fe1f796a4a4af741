"""Words that follow from a number: `1 text is cut`, but `2 texts are cut`."""


def counted(number: float, one: str, several: str | None = None, *, spec: str = "") -> str:
    """A number and what it counts.

    Args:
        one: what follows the number 1, such as `text` or `text is`.
        several: what follows every other number; None: `one` with its plural's ending.
        spec: how the number is written, as in a format string.
    """
    return f"{number:{spec}} {one if number == 1 else several or _plural(one)}"


def _plural(one: str) -> str:
    if one.endswith(("s", "x", "sh")):
        return f"{one}es"
    if one.endswith("y") and one[-2:-1] not in "aeiou":
        return f"{one[:-1]}ies"
    return f"{one}s"
