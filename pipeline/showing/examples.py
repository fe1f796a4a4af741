"""Texts to click on: those of a file, else validation texts that a model's run or features hold."""

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from feature_store.sources.lines import filled_lines
from pipeline.base.errors import USER_ERRORS, PipelineError
from pipeline.reporting import markup
from pipeline.tracking.tracking import Tracker
from pipeline.training import checkpoints, origin
from pipeline.training.checkpoints import Package
from pipeline.training.scoring import texts_for_people

logger = logging.getLogger("pipeline.demo")

NUM_EXAMPLES = 6
MOST_EXAMPLES = 50
"""Of a file; more would push the result off the page."""
MAX_TEXT = 100_000
"""Characters of a text; the longest cases of CAIL have a fifth of it."""
_MAX_FILE_BYTES = 1 << 24
_PREDICTIONS = f"{checkpoints.BEST}/{checkpoints.BEST_PREDICTIONS}"
_VALIDATION = "val"


def of_file(path: Path) -> list[str]:
    """The texts of a file, one a line; the first `MOST_EXAMPLES` of more, with a note.

    Raises:
        UserError: if it cannot be read, has no text or one that is too long.
    """
    texts = []
    for number, line in filled_lines(path, max_bytes=_MAX_FILE_BYTES):
        if len(line) > MAX_TEXT:
            raise PipelineError(
                f"expected texts of at most {MAX_TEXT} characters, but got {len(line)}",
                where=f"{path}:{number}",
            )
        texts.append(line.strip())
    if len(texts) > MOST_EXAMPLES:
        logger.warning(
            "note: %s: the page shows the first %d of the %d texts", path, MOST_EXAMPLES, len(texts)
        )
    return texts[:MOST_EXAMPLES]


def of_run(tracker: Tracker, run_id: str) -> list[str]:
    """Validation texts that were stored with a trial's best epoch; none where its run has none."""
    if not run_id:
        return []
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = tracker.download(run_id, _PREDICTIONS, Path(folder))
            found = checkpoints.load_predictions(path)
        except USER_ERRORS as error:
            logger.debug("run %s has no texts to click on: %s", run_id, error)
            return []
    return _chosen([text["tokens"] for text in found], [text.get("target") for text in found])


def of_features(package: Package, cache_dir: Path) -> list[str]:
    """Validation texts of the features that a model was trained on; none where this machine has none."""
    fingerprint = package.metadata.get("data_fingerprint")
    features = origin.cached(fingerprint, cache_dir) if fingerprint else None
    if features is None:
        return []
    table = texts_for_people(features, _VALIDATION)
    return _chosen(table["tokens"].to_pylist(), table["target"].to_pylist())


def _chosen(texts: Sequence[Sequence[str]], targets: Sequence[Any]) -> list[str]:
    """A few texts from the lowest target to the highest."""
    order = sorted(range(len(texts)), key=lambda i: (targets[i] is None, targets[i] or 0, i))
    step = max(len(order) - 1, 1) / max(NUM_EXAMPLES - 1, 1)
    rows = sorted({round(i * step) for i in range(NUM_EXAMPLES)} & set(range(len(order))))
    return [written(texts[order[row]]) for row in rows]


def written(tokens: Sequence[str]) -> str:
    """Tokens as a text that is split into them again: blanks between them, but where they are Chinese."""
    if not markup.is_chinese(tokens):
        return " ".join(tokens)
    return "".join(part for pair in zip(tokens, markup.spaces(tokens), strict=True) for part in pair)
