"""Scores of rationales and predictions under flat names, fit for a tracking server.

A name has one definition in every mode, and `DEFINITIONS` says which. A name with `_macro` is an average over
texts, one without is computed over the whole corpus at once (micro). Arrays are those of
`infocal.metrics.overlap`: one per text, without padding.

Sources: [DeYoung2020] ERASER benchmark, [Mathew2021] HateXplain, [Bastings2019] HardKuma, [Sha2023] InfoCal.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from infocal.metrics.overlap import (
    IOU_THRESHOLD,
    Counts,
    Golds,
    Mask,
    Masks,
    PrecisionRecallF1,
    RankingScores,
    Scores,
    SpanScores,
    TokenScores,
    Values,
    check_each,
    exact_of_counts,
    iou_of_counts,
    iou_scores,
    lay_out,
    mean_of_documents,
    paper_auprc,
    paper_iou_f1,
    ranking_scores,
    span_counts,
    span_scores,
    token_scores,
)

__all__ = [
    "AOPC_SHARES",
    "DEFINITIONS",
    "MODES",
    "Counts",
    "Golds",
    "Mask",
    "Masks",
    "PrecisionRecallF1",
    "RankingScores",
    "Scores",
    "SpanScores",
    "TokenScores",
    "aopc_scores",
    "apply_threshold",
    "auroc_scores",
    "classification_scores",
    "definition",
    "degenerate_kind",
    "faithfulness_scores",
    "iou_scores",
    "mask_scores",
    "paper_auprc",
    "paper_iou_f1",
    "ranked_in_modes",
    "ranked_mask_scores",
    "ranking_scores",
    "rationale_scores",
    "regression_scores",
    "span_scores",
    "threshold_for_rate",
    "token_scores",
    "top_share_masks",
]

MODES = ("eraser", "hatexplain", "paper")

DEFINITIONS: dict[str, str] = {
    "num_documents": "texts given",
    "num_skipped": "texts without human annotation, left out of every score that needs one",
    "num_without_positives": "annotated texts with no marked token, left out of auprc and average_precision",
    "gold_density": "marked tokens / tokens, over annotated texts",
    "selection_rate": "selected tokens / tokens, over all texts, annotated or not",
    "selection_rate_per_document": "mean over all texts of a text's selected tokens / tokens",
    "empty_rationale_rate": "texts with no selected token / texts, annotated or not",
    "selection_rate_annotated": "selected tokens / tokens, over annotated texts",
    "token_precision": "selected and marked / selected, over all annotated texts at once; 0 if no token is "
    "selected",
    "token_recall": "selected and marked / marked, over all annotated texts at once",
    "token_f1": "harmonic mean of token_precision and token_recall",
    "token_precision_macro": "mean of the texts' token precision [DeYoung2020]; 0 for an empty selection",
    "token_recall_macro": "mean of the texts' token recall [DeYoung2020]",
    "token_f1_macro": "mean of the texts' token F1 [DeYoung2020]",
    "iou_precision": "predicted spans with IOU >= 0.5 to some marked span / predicted spans [DeYoung2020]",
    "iou_recall": "predicted spans with IOU >= 0.5 to some marked span / marked spans [DeYoung2020]",
    "iou_f1": "harmonic mean of iou_precision and iou_recall",
    "iou_precision_macro": "mean of the texts' IOU precision over texts with a predicted span [DeYoung2020]",
    "iou_recall_macro": "mean of the texts' IOU recall over texts with a marked span [DeYoung2020]",
    "iou_f1_macro": "harmonic mean of iou_precision_macro and iou_recall_macro [DeYoung2020]",
    "span_f1": "F1 of spans that agree exactly, over all annotated texts at once [DeYoung2020]",
    "span_f1_macro": "mean of the texts' F1 of spans that agree exactly [DeYoung2020]",
    "auprc": "mean over texts of the area under the precision-recall curve, trapezoids [DeYoung2020]",
    "average_precision": "mean over texts of that area in steps; texts marked throughout are left out",
    "precision_micro": "token_precision, under the name of [Bastings2019]",
    "precision_macro": "mean of the texts' token precision over texts with a selected token [Bastings2019]",
    "paper_iou_f1": "F / (2 - F) of token_f1, which [Sha2023] prints as IOU F1 on beer",
    "paper_auprc": "trapezoid through (recall, precision) = (0, 1), (R, P), (1, 0.10), as [Sha2023] on beer",
    "hatexplain_token_f1": "token_f1_macro, the token F1 of [Mathew2021]",
    "hatexplain_iou_f1": "iou_f1_macro, the IOU F1 of [Mathew2021]",
    "hatexplain_auprc": "auprc, under the name of [Mathew2021]",
    "threshold": "probability from which a token is selected",
    "comprehensiveness": "mean fall of the predicted class's probability without the rationale [DeYoung2020]",
    "sufficiency": "mean fall of the predicted class's probability on the rationale alone [DeYoung2020]",
    "comprehensiveness_entropy": "mean of H(p on the full text) - H(p without the rationale), nats",
    "sufficiency_entropy": "mean of H(p on the full text) - H(p on the rationale alone), nats",
    "comprehensiveness_kl": "mean of KL(p without the rationale, p on the full text), nats",
    "sufficiency_kl": "mean of KL(p on the rationale alone, p on the full text), nats",
    "comprehensiveness_aopc": "mean of comprehensiveness over the shares of tokens removed [DeYoung2020]",
    "sufficiency_aopc": "mean of sufficiency over the shares of tokens kept [DeYoung2020]",
    "mse": "mean squared error",
    "mae": "mean absolute error",
    "explained_rate": "share of the targets' variance that is explained: R^2, 0 where it is below 0",
    "accuracy": "share of texts given their own class",
    "macro_precision": "mean precision over classes that occur as target or prediction",
    "macro_recall": "mean recall over classes that occur as target or prediction",
    "macro_f1": "mean F1 over classes that occur as target or prediction",
    "auroc_ovr": "mean over classes of the area under the ROC curve of the class against all others",
    "auroc_ovo": "mean over ordered pairs of classes of that area on the texts of the two classes alone",
}
"""What each flat name means; `calibrated_NAME` is NAME at the threshold that gives the target rate."""

AOPC_SHARES = (0.01, 0.05, 0.10, 0.20, 0.50)
"""Shares of a text's tokens, highest score first, that AOPC removes or keeps [DeYoung2020]."""

DEFINITIONS |= {
    f"{kind}_at_{round(100 * share)}": f"{kind} of the {round(100 * share)} % of tokens scored highest"
    for kind in ("comprehensiveness", "sufficiency")
    for share in AOPC_SHARES
}

_ALIASES: dict[str, dict[str, str]] = {
    "eraser": {},
    "hatexplain": {"hatexplain_token_f1": "token_f1_macro", "hatexplain_iou_f1": "iou_f1_macro"},
    "paper": {"precision_micro": "token_precision"},
}


def definition(name: str) -> str:
    """What the flat name of a score means.

    Raises:
        KeyError: if no function here makes a score of that name.
    """
    plain = name.removeprefix("calibrated_")
    if plain not in DEFINITIONS:
        raise KeyError(f"no score is called `{name}`")
    note = ", at the threshold that gives the target selection rate" if plain != name else ""
    return DEFINITIONS[plain] + note


def _check_probabilities(probabilities: Scores) -> Values:
    """The probabilities end to end, as float64, once each is known to lie in [0, 1]."""
    flat, lengths = lay_out(probabilities, "probabilities", np.floating)
    check_each(flat, lengths, "probabilities", (flat >= 0) & (flat <= 1), "lie in [0, 1]")
    return flat.astype(np.float64)


def apply_threshold(probabilities: Scores, threshold: float) -> list[Mask]:
    """Masks of the tokens whose probability is at least the threshold, compared in float64."""
    return [np.asarray(p, dtype=np.float64) >= threshold for p in probabilities]


def threshold_for_rate(probabilities: Scores, rate: float) -> float:
    """The threshold at which `apply_threshold` selects a share of all tokens as near to the rate as can be.

    It is one of the probabilities given, so at least one token is selected. Tokens of equal probability are
    selected together; of two rates equally near, the lower one is taken. Find it on validation texts and
    apply it to others.

    Args:
        probabilities: float (T_i,) for each text, in [0, 1].
        rate: target selection rate, in (0, 1].
    """
    if not 0 < rate <= 1:
        raise ValueError(f"`rate` must lie in (0, 1], but got {rate}")
    flat = _check_probabilities(probabilities)
    if not len(flat):
        raise ValueError(f"the {len(probabilities)} texts hold no token at all")
    values, counts = np.unique(-flat, return_counts=True)
    return float(-values[np.argmin(np.abs(np.cumsum(counts) - rate * len(flat)))])


DegenerateKind = Literal["degenerate_all", "degenerate_none"]


def degenerate_kind(
    masks: Masks, *, all_above: float = 0.98, none_below: float = 0.002
) -> DegenerateKind | None:
    """Name of the trivial solution that the masks have fallen to, or None.

    Args:
        masks: bool (T_i,) for each text.
        all_above: selection rate over all tokens above which it counts as selecting everything.
        none_below: rate below which it counts as selecting nothing: a quarter of a token in a beer review.
    """
    flat, _ = lay_out(masks, "masks", np.bool_)
    if not len(flat):
        raise ValueError(f"the {len(masks)} texts hold no token at all")
    rate = flat.mean()
    if rate > all_above:
        return "degenerate_all"
    return "degenerate_none" if rate < none_below else None


def mask_scores(masks: Masks, golds: Golds, *, mode: str = "eraser") -> dict[str, float]:
    """Every score of hard masks by its flat name; `DEFINITIONS` says what each means.

    Where no text is annotated only the selection rates are there: an undefined score has no entry.

    Args:
        masks, golds: as for `token_scores`.
        mode: one of `MODES`: `eraser`, or the same with the names of `hatexplain` or `paper` beside it.
            HateXplain scores toxic posts only, against the union of annotators: the caller gives those.
    """
    return _in_modes(masks, golds, (mode,))[mode]


def _in_modes(masks: Masks, golds: Golds, modes: Sequence[str]) -> dict[str, dict[str, float]]:
    """`mask_scores` in several modes, counted once: mode -> flat name -> value."""
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f"`mode` must be one of {', '.join(MODES)}, but got `{mode}`")
    tokens = token_scores(masks, golds)
    flat = {
        "selection_rate": tokens.selection_rate,
        "selection_rate_per_document": tokens.selection_rate_per_document,
        "empty_rationale_rate": tokens.empty_rationale_rate,
    }
    if tokens.num_skipped == tokens.num_documents:
        return {mode: dict(flat) for mode in modes}
    counts = span_counts(masks, golds, single_tokens=False)
    iou, exact = iou_of_counts(counts, IOU_THRESHOLD), exact_of_counts(counts)
    flat["selection_rate_annotated"] = tokens.selection_rate_annotated
    for name, part in (("token", tokens), ("iou", iou)):
        for suffix, triple in (("", part.micro), ("_macro", part.macro)):
            flat |= {f"{name}_{field}{suffix}": value for field, value in triple._asdict().items()}
    flat |= {"span_f1": exact.micro.f1, "span_f1_macro": exact.macro.f1}
    found = {mode: flat | {alias: flat[name] for alias, name in _ALIASES[mode].items()} for mode in modes}
    if "paper" in found:
        found["paper"] |= {
            "precision_macro": tokens.precision_macro_selected,
            "paper_iou_f1": paper_iou_f1(tokens.f1),
            "paper_auprc": paper_auprc(tokens.precision, tokens.recall),
        }
    return found


def ranked_mask_scores(
    masks: Masks, scores: Scores, golds: Golds, *, mode: str = "eraser"
) -> dict[str, float]:
    """`mask_scores` of hard masks; beside them counts, `gold_density` and the ranking scores of token scores.

    The masks need not follow from the scores by a threshold: a file may state both.

    Args:
        masks, golds: as for `token_scores`.
        scores: as for `ranking_scores`.
        mode: as for `mask_scores`.
    """
    return ranked_in_modes(masks, scores, golds, (mode,))[mode]


def ranked_in_modes(
    masks: Masks, scores: Scores, golds: Golds, modes: Sequence[str] = MODES
) -> dict[str, dict[str, float]]:
    """`ranked_mask_scores` in several modes, at the cost of one: mode -> flat name -> value."""
    figures = _gold_figures(scores, golds)
    found = {mode: flat | figures for mode, flat in _in_modes(masks, golds, modes).items()}
    if "hatexplain" in found and "auprc" in figures:
        found["hatexplain"]["hatexplain_auprc"] = figures["auprc"]
    return found


def rationale_scores(
    probabilities: Scores,
    golds: Golds,
    *,
    threshold: float = 0.5,
    target_rate: float | None = None,
    calibrated_threshold: float | None = None,
    mode: str = "eraser",
) -> dict[str, float]:
    """Every score of a selector's probabilities by its flat name: what an evaluation reports.

    Args:
        probabilities: float (T_i,) for each text, in [0, 1].
        golds: as for `token_scores`.
        threshold: a token is selected from this probability on.
        target_rate: adds `calibrated_*` scores at the threshold that gives this selection rate on these very
            texts: for validation.
        calibrated_threshold: adds `calibrated_*` scores at this threshold, found on validation: for test.
        mode: as for `mask_scores`.

    Returns:
        `mask_scores`, counts, `gold_density`, the threshold-free `auprc` and `average_precision`, and
        `calibrated_threshold` with the `calibrated_*` twins of `mask_scores`. What is undefined has no entry.
    """
    if target_rate is not None and calibrated_threshold is not None:
        raise ValueError(
            "give `target_rate` (validation) or `calibrated_threshold` (test), not both: "
            f"got {target_rate} and {calibrated_threshold}"
        )
    _check_probabilities(probabilities)
    masks = apply_threshold(probabilities, threshold)
    flat = {"threshold": threshold, **ranked_mask_scores(masks, probabilities, golds, mode=mode)}
    if target_rate is not None:
        calibrated_threshold = threshold_for_rate(probabilities, target_rate)
    if calibrated_threshold is not None:
        twins = mask_scores(apply_threshold(probabilities, calibrated_threshold), golds, mode=mode)
        flat["calibrated_threshold"] = calibrated_threshold
        flat |= {f"calibrated_{name}": value for name, value in twins.items()}
    return flat


def _gold_figures(scores: Scores, golds: Golds) -> dict[str, float]:
    """What no threshold changes: counts, gold density, and the ranking scores that are defined."""
    ranking = ranking_scores(scores, golds)
    flat = {"num_documents": float(len(golds)), "num_skipped": float(ranking.num_skipped)}
    if ranking.num_skipped == len(golds):
        return flat
    annotated = [gold for gold in golds if gold is not None]
    flat["num_without_positives"] = float(ranking.num_without_positives)
    flat["gold_density"] = float(np.concatenate(annotated).mean())
    for name in ("auprc", "average_precision"):
        if not np.isnan(value := getattr(ranking, name)):
            flat[name] = value
    return flat


def _check_targets(predicted: NDArray[Any], targets: NDArray[Any]) -> None:
    if predicted.shape != targets.shape or predicted.ndim != 1 or not len(predicted):
        raise ValueError(
            "predictions and targets must be two flat arrays of one length, not empty, "
            f"but their shapes are {predicted.shape} and {targets.shape}"
        )


def regression_scores(predictions: NDArray[Any], targets: NDArray[Any]) -> dict[str, float]:
    """`mse` and `mae` of predictions (D,) against targets (D,), in the targets' unit (squared).

    `explained_rate` is R^2, 1 - mse / variance of the targets, but 0 where that is below 0 or where all
    targets are equal: a score to maximise, in [0, 1].
    """
    _check_targets(predictions, targets)
    target = targets.astype(np.float64)
    error = predictions.astype(np.float64) - target
    mse, variance = float(np.mean(error**2)), float(target.var())
    return {
        "mse": mse,
        "mae": float(np.mean(np.abs(error))),
        "explained_rate": max(0.0, 1 - mse / variance) if variance > 0 else 0.0,
    }


def classification_scores(
    predicted: NDArray[np.integer[Any]], targets: NDArray[np.integer[Any]]
) -> dict[str, float]:
    """`accuracy`, `macro_precision`, `macro_recall`, `macro_f1` of class numbers (D,) against (D,).

    The macro averages run over the classes that occur in either array, with 0 for a class never predicted
    or never a target; `macro_f1` is the mean of the classes' F1, not the F1 of the mean precision and
    recall.
    """
    _check_targets(predicted, targets)
    classes, codes = np.unique(np.concatenate((predicted, targets)), return_inverse=True)
    p, t = np.split(codes, 2)
    hits, num_predicted, num_targets = (np.bincount(c, minlength=len(classes)) for c in (p[p == t], p, t))
    macro = mean_of_documents(hits, num_predicted, num_targets)
    return {
        "accuracy": float(np.mean(p == t)),
        "macro_precision": macro.precision,
        "macro_recall": macro.recall,
        "macro_f1": macro.f1,
    }


def auroc_scores(probabilities: NDArray[Any], targets: NDArray[np.integer[Any]]) -> dict[str, float]:
    """`auroc_ovr` and `auroc_ovo` of class probabilities (D, C) against class numbers (D,), in [0, 1].

    One against the rest, and one against one [Hand & Till 2001], averaged without weights; 0.5 is chance.
    [Mathew2021] prints the second. A class that is no text's target has no area and is left out; where all
    texts are of one class there is no score.
    """
    if probabilities.ndim != 2 or targets.shape != probabilities.shape[:1]:
        raise ValueError(
            "probabilities must have the shape (texts, classes) and targets (texts,), "
            f"but their shapes are {probabilities.shape} and {targets.shape}"
        )
    classes = [number for number in range(probabilities.shape[1]) if np.any(targets == number)]
    if len(classes) < 2:
        return {}
    one_vs_rest = [_area(probabilities[:, c], targets == c) for c in classes]
    one_vs_one = []
    for c in classes:
        for other in classes:
            if other != c:
                pair = (targets == c) | (targets == other)
                one_vs_one.append(_area(probabilities[pair, c], targets[pair] == c))
    return {"auroc_ovr": float(np.mean(one_vs_rest)), "auroc_ovo": float(np.mean(one_vs_one))}


def _area(scores: NDArray[Any], positive: NDArray[np.bool_]) -> float:
    """Area under the ROC curve by ranks (Mann and Whitney): equal scores share the mean of their ranks."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[place]
    num_positive = int(positive.sum())
    num_negative = len(positive) - num_positive
    above = rank[positive].sum() - num_positive * (num_positive + 1) / 2
    return float(above / (num_positive * num_negative))


def top_share_masks(scores: Scores, share: float) -> list[Mask]:
    """Masks of each text's highest scores: share x tokens, rounded up; of equal scores the earlier tokens.

    Args:
        scores: float (T_i,) for each text, finite.
        share: in (0, 1].
    """
    if not 0 < share <= 1:
        raise ValueError(f"`share` must lie in (0, 1], but got {share}")
    masks = []
    for values in scores:
        mask = np.zeros(len(values), dtype=np.bool_)
        # 0.07 x 100 is a little above 7 in floating point: no token more for that
        mask[np.argsort(-values, kind="stable")[: int(np.ceil(share * len(values) - 1e-9))]] = True
        masks.append(mask)
    return masks


def _check_predictions(p_full: NDArray[Any], others: dict[str, NDArray[Any]]) -> None:
    """Class probabilities have the shape of `p_full` in their last two dimensions, and are probabilities."""
    if p_full.ndim != 2 or not p_full.size:
        raise ValueError(
            f"`p_full` must have the shape (texts, classes), not empty, but it is {p_full.shape}"
        )
    for name, p in {"p_full": p_full, **others}.items():
        if p.shape[-2:] != p_full.shape:
            raise ValueError(
                f"`{name}` must have the (texts, classes) {p_full.shape}, but its shape is {p.shape}"
            )
        sums = p.sum(axis=-1)
        if not (np.all(p >= 0) and np.allclose(sums, 1, atol=1e-3)):
            raise ValueError(
                f"each row of `{name}` must be probabilities that sum to 1, "
                f"but the least is {p.min():.4g} and the sums reach from {sums.min():.4g} to {sums.max():.4g}"
            )


def _fall(p_full: NDArray[Any], p_changed: NDArray[Any]) -> Values:
    """(N, C), (..., N, C) -> (..., N): fall of the probability of the class predicted on the full text."""
    predicted = p_full.argmax(axis=1)
    rows = np.arange(len(p_full))
    fall: Values = (p_full[rows, predicted] - p_changed[..., rows, predicted]).astype(np.float64)
    return fall


def _negative_entropy(p: Values) -> Values:
    terms: Values = p * np.log(np.maximum(p, 1e-12))
    total: Values = terms.sum(axis=-1)
    return total


def faithfulness_scores(
    p_full: NDArray[np.floating[Any]], p_without: NDArray[np.floating[Any]], p_only: NDArray[np.floating[Any]]
) -> dict[str, float]:
    """Comprehensiveness and sufficiency on the class predicted from the full text [DeYoung2020].

    Both lie in [-1, 1]. A faithful rationale has a high comprehensiveness and a sufficiency near 0. Beside
    them, with `_entropy` and `_kl`, the variants over the whole distribution, in nats.

    Differs: probabilities enter logarithms as at least 1e-12, so that a KL is never infinite.

    Args:
        p_full: (N, C), class probabilities on the full texts.
        p_without: (N, C), on the texts without their rationales.
        p_only: (N, C), on the rationales alone.
    """
    _check_predictions(p_full, {"p_without": p_without, "p_only": p_only})
    full = p_full.astype(np.float64)
    flat: dict[str, float] = {}
    for name, changed in (("comprehensiveness", p_without), ("sufficiency", p_only)):
        q = changed.astype(np.float64)
        cross = (q * np.log(np.maximum(full, 1e-12))).sum(axis=1)
        flat[name] = float(_fall(full, q).mean())
        flat[f"{name}_entropy"] = float((_negative_entropy(q) - _negative_entropy(full)).mean())
        flat[f"{name}_kl"] = float((_negative_entropy(q) - cross).mean())
    return flat


def aopc_scores(
    p_full: NDArray[np.floating[Any]], p_without: NDArray[np.floating[Any]], p_only: NDArray[np.floating[Any]]
) -> dict[str, float]:
    """Area over the perturbation curve: both measures at each of `AOPC_SHARES`, and the mean [DeYoung2020].

    Args:
        p_full: (N, C), class probabilities on the full texts.
        p_without: (5, N, C), on the texts without the masks of `top_share_masks`, by share.
        p_only: (5, N, C), on those masks' tokens alone, by share.
    """
    _check_predictions(p_full, {"p_without": p_without, "p_only": p_only})
    flat: dict[str, float] = {}
    for name, changed in (("comprehensiveness", p_without), ("sufficiency", p_only)):
        if changed.ndim != 3 or len(changed) != len(AOPC_SHARES):
            raise ValueError(
                f"one table for each of {AOPC_SHARES} is needed, but the shape is {changed.shape}"
            )
        points = _fall(p_full, changed).mean(axis=1)
        for share, point in zip(AOPC_SHARES, points, strict=True):
            flat[f"{name}_at_{round(100 * share)}"] = float(point)
        flat[f"{name}_aopc"] = float(points.mean())
    return flat
