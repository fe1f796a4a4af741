"""Rationale data sets as memory-mapped tables: sources, schema, vocabulary, embeddings, cache.

`feature_store.store.open_features` is the way in; `python -m feature_store` lists, fetches, builds and
verifies. This package imports no torch, and importing it loads nothing heavy.
"""

import sys
from types import TracebackType


def _say_interrupted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("error: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # Ctrl-C while a command loads its modules, before `run_command` answers it
    sys.excepthook = _say_interrupted
