"""How far a prediction rests on the rationale: comprehensiveness, sufficiency and AOPC of a model."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from infocal.batch import Batch
from infocal.heads import repeated
from infocal.metrics.scores import AOPC_SHARES, aopc_scores, faithfulness_scores, top_share_masks
from infocal.nn.rationalizer import Rationalizer


def model_faithfulness(
    model: Rationalizer, batches: Iterable[Batch], device: torch.device
) -> list[dict[str, float]]:
    """Comprehensiveness, sufficiency and AOPC of each target under their flat names; the main one's first.

    The predictor reads each text whole, without its rationale and on its rationale alone; for AOPC the same
    with the tokens that the selector ranks highest, by share.

    Args:
        model: of which at least one target is a classification.
        batches: at least one.
        device: where the model is.

    Returns:
        What `faithfulness_scores` and `aopc_scores` give; nothing for a score, which has no class.
    """
    was_training = model.training
    model.eval()
    try:
        rows = [_class_probabilities(model, batch.to(device)) for batch in batches]
    finally:
        model.train(was_training)
    found, heads = np.concatenate(rows, axis=1), zip(model.task.heads, model.task.columns, strict=True)
    return [_scores(found[..., its]) if head.kind == "classification" else {} for head, its in heads]


def _scores(outputs: NDArray[np.float32]) -> dict[str, float]:
    """Those of one target from its columns of what `_class_probabilities` gives."""
    full, without, only, *shares = outputs
    num = len(AOPC_SHARES)
    scores = faithfulness_scores(full, without, only)
    return scores | aopc_scores(full, np.stack(shares[:num]), np.stack(shares[num:]))


@torch.no_grad()
def _class_probabilities(model: Rationalizer, batch: Batch) -> NDArray[np.float32]:
    """(3 + 2 S, B, C): on all tokens, without the rationale, on it, without each share, on each share.

    Where each target has its own rationale, it is predicted from that one, or without it.
    """
    inference = model.infer(batch.words, batch.is_token)
    is_token = repeated(batch.is_token, model.num_rationales)
    rationale, everything = inference.mask, is_token.to(inference.mask.dtype)
    tops = _top_masks(inference.select_probability, is_token)
    masks = [everything, everything - rationale, rationale, *(everything - top for top in tops), *tops]
    outputs = [model.predict_from(batch.words, batch.is_token, mask) for mask in masks]
    found: NDArray[np.float32] = torch.stack(outputs).float().cpu().numpy()
    return found


def _top_masks(probability: Tensor, is_token: Tensor) -> Sequence[Tensor]:
    """For each share of AOPC, the tokens that are ranked highest, [R T] as floats."""
    lengths = is_token.sum(dim=1).tolist()
    rows = [row[:length] for row, length in zip(probability.cpu().numpy(), lengths, strict=True)]
    found = []
    for share in AOPC_SHARES:
        mask = np.zeros(is_token.shape, np.float32)
        for row, top in enumerate(top_share_masks(rows, share)):
            mask[row, : len(top)] = top
        found.append(torch.from_numpy(mask).to(probability.device))
    return found
