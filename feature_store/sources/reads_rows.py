"""Sources that read one example at a time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from feature_store.sources.base import Example, Query, Report, TaskSpec

if TYPE_CHECKING:
    import polars as pl


class ReadsRows:
    """A source that reads one example at a time."""

    side_targets: tuple[str, ...] = ()
    """None, where the source does not say otherwise."""

    main_targets: tuple[str, ...] = ()
    """None, where the source does not say otherwise."""

    def examples(self, query: Query, task: TaskSpec, report: Report) -> Iterator[Example]:
        """Examples of all splits; otherwise as `Source.frames`."""
        raise NotImplementedError

    def frames(self, query: Query, task: TaskSpec, report: Report) -> "Iterator[pl.DataFrame]":
        """The examples in frames; see `Source.frames`."""
        from feature_store.sources.frames import frames_of  # polars: not before it is needed

        return frames_of(self.examples(query, task, report), task.kind, task.side_kinds)
