"""Every reader of the project on damaged files: `benchmarks.fuzz` runs them, tests do so in short."""

from benchmarks.fuzzing import corpora, stored
from benchmarks.fuzzing.reader import Make

READERS: dict[str, Make] = {**corpora.READERS, **stored.READERS}
"""What makes each reader, by its name."""
