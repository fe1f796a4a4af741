"""Where a table that is derived from features lies beside them, and how it is written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from feature_store import cache
from feature_store.fingerprint import fingerprint

DERIVED_FILE = "table.arrow"


def folder_below(features_dir: Path, step: str, key: str) -> Path:
    """Folder of a derived table; its key is the fingerprint of step, version, parameters and features."""
    return features_dir / "derived" / f"{step}-{key[:16]}"


def fill(
    directory: Path, key: str, step: str, version: int, parameters: Mapping[str, Any], table: pa.Table
) -> None:
    """Write the table and its manifest into an empty folder; arguments as for `store.derived`."""
    cache.write_table(directory / DERIVED_FILE, table)
    files = cache.describe_files(directory, [DERIVED_FILE])
    meta = {"step": step, "version": version, "parameters": dict(parameters)}
    cache.write_manifest(directory / cache.MANIFEST, cache.Manifest(fingerprint=key, files=files, meta=meta))


def write_staged(
    stage: Path, features_key: str, step: str, version: int, parameters: Mapping[str, Any], table: pa.Table
) -> None:
    """Write a derived table of features that are being built; arguments as for `store.derived`."""
    key = fingerprint(step, version, parameters, [features_key])
    directory = folder_below(stage, step, key)
    directory.mkdir(parents=True)
    fill(directory, key, step, version, parameters, table)
