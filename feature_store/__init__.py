"""Rationale data sets as memory-mapped tables: sources, schema, vocabulary, embeddings, cache.

`feature_store.store.open_features` is the way in; `python -m feature_store` lists, fetches, builds and
verifies. This package imports no torch, and importing it loads nothing heavy.
"""
