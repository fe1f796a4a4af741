"""What one build is made of."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feature_store.sources.base import Query, Source, tables_of
from feature_store.targets import main_of, sides_of

VERSION = 4
"""Version of the build; raise it when equal files and parameters give other features."""


TOKENIZER_FILE = "tokenizer.json"
"""The user's files that change how a text is split, in a built folder; there only where there are any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Everything a build needs to know, and the key that it is kept under."""

    source: Source
    aspect: str | None
    """The targets, as `feature_store.targets.joined` writes several."""
    inputs: dict[str, Path]
    """Role -> raw file."""

    options: dict[str, str]
    """A value for each of the source's options."""

    digests: dict[str, str]
    """Role -> SHA-256 of the raw file's content; also that of a file of word vectors, as `embedding`."""

    parameters: dict[str, Any]
    """What the fingerprint is made of besides the digests."""

    embedding_file: Path | None
    max_bytes: int
    """Most bytes to accept from one raw file after decompression."""

    fingerprint: str
    cache_dir: Path
    """Folder of everything that is built."""

    notes: tuple[str, ...] = ()
    """Said aloud on each run, before the source's own notes."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables to build."""
        return tables_of(self.source, self.options)

    @property
    def query(self) -> Query:
        """What the source is asked to read."""
        return Query(
            inputs=self.inputs,
            aspect=main_of(self.aspect),
            sides=sides_of(self.aspect),
            options=self.options,
            max_bytes=self.max_bytes,
            digests=self.digests,
            cache_dir=self.cache_dir,
        )
