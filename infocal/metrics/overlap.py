"""Overlap of rationales with human ones: tokens, spans and rankings, on numpy arrays.

A text is one array without padding; a corpus is a sequence of such arrays, of any lengths:

    masks:  bool (T_i,), True where the token is in the rationale
    golds:  bool (T_i,), True where a human marked the token; None where nobody annotated the text
    scores: float (T_i,), how strongly the selector wants the token

Micro: over the whole corpus at once; macro: an average over texts.

Sources: [DeYoung2020] ERASER benchmark, [Bastings2019] HardKuma, [Sha2023] InfoCal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Masks = Sequence[Mask]
Golds = Sequence[Mask | None]
Scores = Sequence[NDArray[np.floating[Any]]]
Counts = NDArray[np.int64]
Values = NDArray[np.float64]

IOU_THRESHOLD = 0.5  # [DeYoung2020]; reached, not passed: an IOU of exactly one half is a match


class PrecisionRecallF1(NamedTuple):
    """Three numbers in [0, 1], or all nan where no text is annotated.

    Against spans recall and F1 may pass 1, as [DeYoung2020] counts every predicted span that meets a marked
    one.
    """

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenScores:
    """Agreement of masks with human ones, token by token.

    Rates lie in [0, 1]. Those that need annotated texts are nan where there is none: a 0 would claim that
    something was measured.
    """

    micro: PrecisionRecallF1
    """Over all tokens of annotated texts at once."""
    macro: PrecisionRecallF1
    """Means over annotated texts with a selected or a marked token [DeYoung2020]."""
    precision_macro_selected: float
    """Mean precision over annotated texts with a selected token [Bastings2019]; 0 if there is none."""
    selection_rate: float
    """Selected tokens / tokens, over all texts, annotated or not."""
    selection_rate_per_document: float
    """Mean of the texts' selection rates, over all texts that have a token."""
    empty_rationale_rate: float
    """Share of the texts with no selected token, of all texts that have a token."""
    selection_rate_annotated: float
    """Selected tokens / tokens, over annotated texts."""
    gold_density: float
    """Marked tokens / tokens, over annotated texts."""
    num_documents: int
    """Texts given."""
    num_skipped: int
    """Texts nobody annotated: not in any score but the selection rates."""

    @property
    def precision(self) -> float:
        """Micro precision; 0 for an empty selection."""
        return self.micro.precision

    @property
    def recall(self) -> float:
        """Micro recall."""
        return self.micro.recall

    @property
    def f1(self) -> float:
        """Micro F1."""
        return self.micro.f1


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanScores:
    """Agreement of predicted spans with marked ones, `micro` over the corpus and `macro` over texts."""

    micro: PrecisionRecallF1
    macro: PrecisionRecallF1


@dataclass(frozen=True, kw_only=True, slots=True)
class RankingScores:
    """How well token scores rank marked tokens first; means over texts, nan where no text counts."""

    auprc: float
    """Area by trapezoids, over texts with a marked token."""
    average_precision: float
    """Area by steps, over texts with a marked and an unmarked token."""
    num_without_positives: int
    """Annotated texts without a marked token: left out of both."""
    num_all_positives: int
    """Texts marked throughout: their auprc is 1, and they are left out of average_precision."""
    num_skipped: int
    """Texts nobody annotated."""


@dataclass(frozen=True, slots=True)
class _Corpus:
    """Masks and golds laid end to end; unannotated texts are False in `gold`."""

    mask: Mask  # (N,)
    gold: Mask  # (N,)
    lengths: Counts  # (D,)
    annotated: Mask  # (D,)


def lay_out(arrays: Sequence[NDArray[Any]], name: str, kind: type[np.generic]) -> tuple[NDArray[Any], Counts]:
    """The arrays end to end, and their lengths, once each is known to be flat and of the right kind."""
    if not len(arrays):
        raise ValueError(f"`{name}` must hold at least one text, but it is empty")
    allowed = {dtype for dtype in {array.dtype for array in arrays} if np.issubdtype(dtype, kind)}
    for i, array in enumerate(arrays):
        if array.ndim != 1:
            raise ValueError(f"{name}[{i}] must have one dimension, but its shape is {array.shape}")
        if array.dtype not in allowed:
            hint = "; `apply_threshold` makes masks of probabilities" if kind is np.bool_ else ""
            given = f"it holds {array.dtype}{hint}"
            raise TypeError(f"{name}[{i}] must be an array of {kind.__name__}, but {given}")
    return np.concatenate(arrays), np.array([len(array) for array in arrays], dtype=np.int64)


def lay_out_golds(golds: Golds, lengths: Counts, name: str) -> tuple[Mask, Mask]:
    """Golds end to end (N,), False for a text without one, and which texts are annotated (D,).

    Args:
        golds: one for each text of `name`.
        lengths: int (D,), the tokens each must have.
        name: the argument that the lengths come from, for messages.
    """
    if len(golds) != len(lengths):
        raise ValueError(f"`golds` must hold the {len(lengths)} texts of `{name}`, but it holds {len(golds)}")
    arrays: list[Mask] = []
    for i, (gold, length) in enumerate(zip(golds, lengths.tolist(), strict=True)):
        if gold is not None and len(gold) != length:
            given = f"it has {len(gold)}"
            raise ValueError(f"golds[{i}] must have the {length} tokens of {name}[{i}], but {given}")
        arrays.append(np.zeros(length, dtype=np.bool_) if gold is None else gold)
    flat, _ = lay_out(arrays, "golds", np.bool_)
    return flat, np.array([gold is not None for gold in golds], dtype=np.bool_)


def _pair(masks: Masks, golds: Golds) -> _Corpus:
    mask, lengths = lay_out(masks, "masks", np.bool_)
    gold, annotated = lay_out_golds(golds, lengths, "masks")
    return _Corpus(mask=mask, gold=gold, lengths=lengths, annotated=annotated)


def sum_by_document(flat: NDArray[Any], lengths: Counts) -> Counts:
    """(N,) and (D,) -> (D,): sums that also hold for texts without a token."""
    running = np.concatenate(([0], np.cumsum(flat, dtype=np.int64)))
    return np.diff(running[np.concatenate(([0], np.cumsum(lengths)))])


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Values:
    """(D,), (D,) -> (D,): quotients, and 0 where whole is 0."""
    result: Values = np.divide(part, whole, out=np.zeros(np.shape(whole)), where=whole > 0)
    return result


def _ratio_of_sums(part: NDArray[Any], whole: NDArray[Any]) -> float:
    total = float(whole.sum())
    return float(part.sum()) / total if total else 0.0


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 0.0


def harmonic_mean(precision: float, recall: float) -> float:
    """F1 of one precision and one recall, 0 where one of them is."""
    return 2 * precision * recall / (precision + recall) if precision > 0 and recall > 0 else 0.0


def _micro(hits: NDArray[Any], predicted: Counts, marked: Counts) -> PrecisionRecallF1:
    """Of the sums over texts; a ratio with nothing below the line is 0."""
    wholes = predicted, marked, (predicted + marked) / 2
    return PrecisionRecallF1(*(_ratio_of_sums(hits, whole) for whole in wholes))


def mean_of_documents(hits: NDArray[Any], predicted: Counts, marked: Counts) -> PrecisionRecallF1:
    """Means over the texts that have anything predicted or marked [DeYoung2020]."""
    some = (predicted + marked) > 0
    hits, predicted, marked = hits[some], predicted[some], marked[some]
    f1 = _ratio(2 * hits, predicted + marked)
    return PrecisionRecallF1(_mean(_ratio(hits, predicted)), _mean(_ratio(hits, marked)), _mean(f1))


UNDEFINED = PrecisionRecallF1(float("nan"), float("nan"), float("nan"))


def scores_of_counts(
    lengths: Counts, annotated: Mask, selected: Counts, marked: Counts, hits: NDArray[Any]
) -> TokenScores:
    """Token scores from the five counts of each text.

    Args:
        lengths: int (D,), tokens.
        annotated: bool (D,), whether a human annotated the text.
        selected: int (D,), selected tokens, at most `lengths`.
        marked: int (D,), tokens marked by a human.
        hits: (D,), tokens both selected and marked. May be an expectation over masks of these sizes: every
            score is linear in it, F1 = 2 hits / (selected + marked) too.
    """
    if not lengths.sum():
        raise ValueError(f"the {len(lengths)} texts hold no token at all")
    a = annotated
    micro = macro = UNDEFINED
    precision_macro_selected = density = rate_annotated = float("nan")
    if a.any():
        micro, macro = (f(hits[a], selected[a], marked[a]) for f in (_micro, mean_of_documents))
        chosen = a & (selected > 0)
        precision_macro_selected = _mean(_ratio(hits[chosen], selected[chosen]))
        density, rate_annotated = (_ratio_of_sums(n[a], lengths[a]) for n in (marked, selected))
    filled = lengths > 0
    return TokenScores(
        micro=micro,
        macro=macro,
        precision_macro_selected=precision_macro_selected,
        selection_rate=_ratio_of_sums(selected, lengths),
        selection_rate_per_document=_mean(_ratio(selected[filled], lengths[filled])),
        empty_rationale_rate=_mean(selected[filled] == 0),
        selection_rate_annotated=rate_annotated,
        gold_density=density,
        num_documents=len(lengths),
        num_skipped=int((~a).sum()),
    )


def token_scores(masks: Masks, golds: Golds) -> TokenScores:
    """Precision, recall and F1 of selected tokens [DeYoung2020], with the selection rate.

    Texts with gold None are counted as skipped and enter only `selection_rate`, `selection_rate_per_document`
    and `empty_rationale_rate`. The precision of an empty selection is 0, as is the recall where nothing is
    marked. The macro averages leave out texts with neither a selected nor a marked token.

    Args:
        masks: bool (T_i,) for each text, without padding.
        golds: bool (T_i,) or None for each text.

    Raises:
        ValueError: for no text, no token, or lengths that differ; the message names the text.
        TypeError: for an array that is not boolean.
    """
    corpus = _pair(masks, golds)
    flats = corpus.mask, corpus.gold, corpus.mask & corpus.gold
    selected, marked, hits = (sum_by_document(flat, corpus.lengths) for flat in flats)
    return scores_of_counts(corpus.lengths, corpus.annotated, selected, marked, hits)


class _Spans(NamedTuple):
    start: Counts  # (S,) first position, on a line with a gap after each text, so that no span crosses texts
    end: Counts  # (S,) one past the last position
    document: Counts  # (S,)


def _spans(flat: Mask, lengths: Counts, single_tokens: bool = False) -> _Spans:
    """Maximal runs of True within a text, in order; or each True token as a span of its own."""
    document = np.repeat(np.arange(len(lengths)), lengths)
    line = np.zeros(len(flat) + len(lengths) + 1, dtype=np.int8)
    line[np.arange(len(flat)) + document + 1] = flat
    if single_tokens:
        start = np.flatnonzero(line)
        end = start + 1
    else:
        step = np.diff(line)
        start, end = np.flatnonzero(step == 1) + 1, np.flatnonzero(step == -1) + 1
    first = np.concatenate(([0], np.cumsum(lengths)[:-1])) + np.arange(len(lengths)) + 1
    return _Spans(start, end, np.searchsorted(first, start, side="right") - 1)


def _best_iou(predicted: _Spans, marked: _Spans) -> Values:
    """(S,) largest |intersection| / |union| of each predicted span with a marked one; 0 if it meets none."""
    low = np.searchsorted(marked.end, predicted.start, side="right")
    count = np.maximum(np.searchsorted(marked.start, predicted.end, side="left") - low, 0)
    p = np.repeat(np.arange(len(predicted.start)), count)
    m = np.arange(len(p)) - np.repeat(np.cumsum(count) - count, count) + low[p]
    both = np.minimum(predicted.end[p], marked.end[m]) - np.maximum(predicted.start[p], marked.start[m])
    union = predicted.end[p] - predicted.start[p] + marked.end[m] - marked.start[m] - both
    best = np.zeros(len(predicted.start))
    np.maximum.at(best, p, both / union)
    return best


class SpanCounts(NamedTuple):
    """Spans of A annotated texts, and how well each of the S predicted ones meets a marked one."""

    best_iou: Values  # (S,) of each predicted span
    document: Counts  # (S,) its text
    predicted: Counts  # (A,) spans of each annotated text
    marked: Counts  # (A,)

    def hits(self, threshold: float) -> Counts:
        """(A,) predicted spans that reach the threshold."""
        return np.bincount(self.document[self.best_iou >= threshold], minlength=len(self.predicted))


def span_counts(masks: Masks, golds: Golds, single_tokens: bool) -> SpanCounts:
    """Counts over annotated texts only; no text at all if none is annotated."""
    corpus = _pair(masks, golds)
    lengths, keep = corpus.lengths[corpus.annotated], np.repeat(corpus.annotated, corpus.lengths)
    predicted = _spans(corpus.mask[keep], lengths, single_tokens)
    marked = _spans(corpus.gold[keep], lengths)
    num_predicted, num_marked = (np.bincount(s.document, minlength=len(lengths)) for s in (predicted, marked))
    return SpanCounts(_best_iou(predicted, marked), predicted.document, num_predicted, num_marked)


def iou_of_counts(counts: SpanCounts, threshold: float) -> SpanScores:
    """`iou_scores` of spans already counted."""
    if not len(counts.marked):
        return SpanScores(micro=UNDEFINED, macro=UNDEFINED)
    hits = counts.hits(threshold)
    precision, recall = (_mean(_ratio(hits[n > 0], n[n > 0])) for n in (counts.predicted, counts.marked))
    return SpanScores(
        micro=_micro(hits, counts.predicted, counts.marked),
        macro=PrecisionRecallF1(precision, recall, harmonic_mean(precision, recall)),
    )


def exact_of_counts(counts: SpanCounts) -> SpanScores:
    """`span_scores` of spans already counted."""
    if not len(counts.marked):
        return SpanScores(micro=UNDEFINED, macro=UNDEFINED)
    parts = counts.hits(1.0), counts.predicted, counts.marked
    return SpanScores(micro=_micro(*parts), macro=mean_of_documents(*parts))


def iou_scores(
    masks: Masks, golds: Golds, *, threshold: float = IOU_THRESHOLD, single_tokens: bool = False
) -> SpanScores:
    """Partial match of spans: a predicted span counts if its IOU with some marked span reaches the threshold.

    The macro precision is a mean over texts with a predicted span, the macro recall over texts with a marked
    span, and the macro F1 their harmonic mean [DeYoung2020]. Several predicted spans may match one marked
    span, so recall and F1 can pass 1 at thresholds below one half, and with `single_tokens` at one half
    too.

    Differs: spans are the maximal runs of a mask, so human spans that touch are one.

    Args:
        masks, golds: as for `token_scores`.
        threshold: smallest IOU that is a match, in (0, 1].
        single_tokens: take each selected token as a predicted span of its own instead of maximal runs.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"`threshold` must lie in (0, 1], but got {threshold}")
    return iou_of_counts(span_counts(masks, golds, single_tokens), threshold)


def span_scores(masks: Masks, golds: Golds, *, single_tokens: bool = False) -> SpanScores:
    """Precision, recall and F1 of spans that agree exactly [DeYoung2020]; arguments as for `iou_scores`."""
    return exact_of_counts(span_counts(masks, golds, single_tokens))


def ranking_scores(scores: Scores, golds: Golds) -> RankingScores:
    """AUPRC and average precision of token scores, per text, then averaged [DeYoung2020].

    The curve has a point for each distinct score and starts at recall 0, precision 1, as scikit-learn's
    `precision_recall_curve`; AUPRC joins the points by straight lines, average precision by steps. A text
    without a marked token has no curve. Where all scores of a text are equal, its AUPRC is (1 + density) /
    2; where all tokens are marked it is 1.

    Args:
        scores: float (T_i,) for each text, finite; larger means rather selected.
        golds: as for `token_scores`.
    """
    flat, lengths = lay_out(scores, "scores", np.floating)
    check_each(flat, lengths, "scores", np.isfinite(flat), "be finite")
    gold, annotated = lay_out_golds(golds, lengths, "scores")
    positives = sum_by_document(gold, lengths)
    counted = positives > 0
    keep = np.repeat(counted, lengths)
    areas, steps = _areas(flat[keep].astype(np.float64), gold[keep], lengths[counted], positives[counted])
    mixed = positives[counted] < lengths[counted]
    return RankingScores(
        auprc=_mean(areas) if len(areas) else float("nan"),
        average_precision=_mean(steps[mixed]) if mixed.any() else float("nan"),
        num_without_positives=int((annotated & ~counted).sum()),
        num_all_positives=int((~mixed).sum()),
        num_skipped=int((~annotated).sum()),
    )


def _areas(scores: Values, gold: Mask, lengths: Counts, positives: Counts) -> tuple[Values, Values]:
    """(N,), (N,), (D,), (D,) -> (D,), (D,): areas under each text's curve, by trapezoids and by steps."""
    if not len(lengths):
        return np.zeros(0), np.zeros(0)
    document = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((-scores, document))
    score, first = scores[order], np.cumsum(lengths) - lengths
    running = np.cumsum(gold[order])
    hits = running - (running[first] - gold[order][first])[document]
    rank = np.arange(len(score)) - first[document] + 1
    last_of_tie = np.append((np.diff(score) != 0) | (np.diff(document) != 0), True)
    d = document[last_of_tie]
    precision, recall = hits[last_of_tie] / rank[last_of_tie], hits[last_of_tie] / positives[d]
    starts = np.append(True, np.diff(d) != 0)  # where a text's curve starts, the point before is (0, 1)
    before_precision = np.where(starts, 1.0, np.roll(precision, 1))
    width = recall - np.where(starts, 0.0, np.roll(recall, 1))
    areas = width * (precision + before_precision) / 2, width * precision
    trapezoids, steps = (np.bincount(d, area).astype(np.float64) for area in areas)
    return trapezoids, steps


def check_each(flat: NDArray[Any], lengths: Counts, name: str, good: Mask, must: str) -> None:
    """Raise a ValueError that names the first token whose `good` is False, of arrays laid end to end."""
    if good.all():
        return
    bad = int(np.argmin(good))
    document = int(np.searchsorted(np.cumsum(lengths), bad, side="right"))
    token = bad - int(lengths[:document].sum())
    raise ValueError(f"{name}[{document}] must {must}, but its token {token} has {flat[bad]}")


def paper_iou_f1(f1: float) -> float:
    """F / (2 - F), printed as IOU F1 on beer in [Sha2023]: the IOU of all selected with all marked tokens."""
    return f1 / (2 - f1)


PAPER_AUPRC_END = 0.10
"""Precision at recall 1 in what [Sha2023] prints as AUPRC, the same for each aspect of beer."""


def paper_auprc(precision: float, recall: float, end: float = PAPER_AUPRC_END) -> float:
    """What [Sha2023] prints as AUPRC on beer: the trapezoid through (0, 1), (R, P) and (1, 0.10).

    It is a function of one threshold's precision and recall and no area under a curve: scores do not enter.

    Args:
        precision, recall: micro, in [0, 1].
        end: precision where every token is selected; the share of marked tokens, were it measured.
    """
    return recall * (1 + precision) / 2 + (1 - recall) * (precision + end) / 2
