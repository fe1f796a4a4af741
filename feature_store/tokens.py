"""A token of a free text, as every tokenizer gives it out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """A token and where it stands: `original[start:end]` is what it was made from."""

    text: str
    """As the tokenizer writes it: lower-cased, or with its own quotation marks or placeholders."""

    start: int
    end: int
