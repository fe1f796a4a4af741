"""Sources that read one example at a time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from feature_store.sources.base import Example, Query, Report, Source, TaskSpec

if TYPE_CHECKING:
    import polars as pl


class ReadsRows(Source):
    """A source that reads one example at a time."""

    def examples(self, query: Query, task: TaskSpec, report: Report) -> Iterator[Example]:
        """Examples of all splits; otherwise as `Source.frames`."""
        raise NotImplementedError

    def frames(self, query: Query, task: TaskSpec, report: Report) -> "Iterator[pl.DataFrame]":
        """The examples in frames; see `Source.frames`."""
        from feature_store.sources.frames import frames_of  # polars: not before it is needed

        return frames_of(self.examples(query, task, report), task.kind, task.side_kinds)
