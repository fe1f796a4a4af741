"""What each annotator marked in training texts, for supervised methods alone."""

from pathlib import Path

import pyarrow as pa

from feature_store.annotator_table import STEP, VERSION
from feature_store.errors import MissingDataError
from feature_store.sources import get_source
from feature_store.sources.base import TellsAnnotatorsApart
from feature_store.store import Features, derived, derived_dir


def annotator_shares(features: Features) -> pa.ChunkedArray | None:
    """For each training text the share of its annotators who marked each token, list<float32>.

    Null where nobody was to mark anything. None where the source does not tell annotators apart: then the
    column `rationale` says all there is.

    Raises:
        MissingDataError: if the features were built before this was kept.
    """
    if not isinstance(get_source(features.dataset), TellsAnnotatorsApart):
        return None

    def missing() -> pa.Table:
        raise MissingDataError(
            "these features were built by an older version, which did not store the marks of each single "
            "annotator of a training text",
            where=str(features.directory),
            hint="remove this folder; the features are then built again",
        )

    return derived(features, STEP, VERSION, {}, missing)[STEP]


def shares_dir(features: Features) -> Path | None:
    """Folder of that table; None where there is none to be had.

    Raises:
        MissingDataError: as `annotator_shares`.
    """
    return None if annotator_shares(features) is None else derived_dir(features, STEP, VERSION, {})
