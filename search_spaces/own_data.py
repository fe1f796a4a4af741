"""Data of one's own: a criterion and a start that follow what the data hold."""

import dataclasses
import math
from typing import Literal

from search_spaces.base import Bound, Criterion

_NOT_EMPTY = Bound(metric="val_selection_rate", limit=0.01, kind="at_least")
"""A model that selects next to nothing shows no reason."""

_EXPLAINS = Bound(metric="val_explained_rate", limit=0.05, kind="at_least")
"""A regression that has learnt something of the scores."""


def _at_most(rate: float) -> Bound:
    return Bound(metric="val_selection_rate", limit=rate, kind="at_most")


WITH_RATIONALES = Criterion(
    metric="val_token_f1",
    bounds=(_NOT_EMPTY, _at_most(0.5)),
    why="agreement with the human rationales; without a bound on the selection rate, a model that selects "
    "all tokens could be the best",
)
"""Where humans marked something in a validation text; also what is said before anybody has looked."""


_DENSE_UPDATES, _RAMP_UPDATES = 280, 420
"""Updates that beer's one dense epoch, and its one and a half of rising weights, are on 9,000 reviews."""
_EPOCH_UPDATES = 100
"""Updates an epoch should have, as far as the smallest batch allows."""
_BATCH_SIZES = (32, 16, 8)


def schedule(num_texts: int) -> dict[str, float | bool]:
    """Batch size, length of the start and kind of word vectors for a corpus of `num_texts` training texts.

    A few hundred texts are a dozen batches an epoch: with the presets' start, all weights would act before
    anything is learnt, and the mask would end at all tokens. word2vec tells few words apart from so few
    texts: then the vectors are trained with the model.
    """
    enough = [size for size in _BATCH_SIZES if num_texts >= size * _EPOCH_UPDATES]
    batch_size = (enough or _BATCH_SIZES[-1:])[0]
    updates = math.ceil(num_texts / batch_size)
    return {
        "batch_size": batch_size,
        "dense_epochs": max(1.0, _half_epochs(_DENSE_UPDATES / updates)),
        "ramp_epochs": max(1.5, _half_epochs(_RAMP_UPDATES / updates)),
        "train_embeddings": batch_size < _BATCH_SIZES[0],
    }


def _half_epochs(epochs: float) -> float:
    return math.ceil(2 * epochs) / 2


def criterion(kind: Literal["classification", "regression"], has_rationales: bool) -> Criterion:
    """The criterion of data of one's own.

    Args:
        kind: of the task.
        has_rationales: whether humans marked something in a validation text.
    """
    # a rationale of a prediction that is no better than the mean explains nothing
    learnt = () if kind == "classification" else (_EXPLAINS,)
    if has_rationales:
        return dataclasses.replace(WITH_RATIONALES, bounds=(*WITH_RATIONALES.bounds, *learnt))
    return Criterion(
        metric="val_macro_f1" if kind == "classification" else "val_explained_rate",
        bounds=(_NOT_EMPTY, _at_most(0.3), *learnt),
        why="nobody marked a rationale, so the best prediction from at most three of ten tokens",
    )
