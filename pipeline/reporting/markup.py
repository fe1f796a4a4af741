"""Texts with two rationales on them, laid out for a page: words, what each is, and the scores of the text."""

import itertools
import operator
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.base.errors import PipelineError
from pipeline.reporting.results import MISSING
from pipeline.training.scale import of_scale

_CLOSING = frozenset([*",.;:!?%)]}'", "''", "...", "n't", "'s", "'re", "'ve", "'ll", "'d", "'m"])
"""Tokens that follow the word before them without a space, in the beer corpus' way of writing."""
_OPENING = frozenset([*"([{$", "``"])

_MOSTLY = 0.3
"""Share of CJK characters from which a text is taken for Chinese; Latin digits and names are the rest."""

Prediction = Mapping[str, Any]
"""One entry of a trial's `best/predictions.json`."""


@dataclass(frozen=True, slots=True)
class MarkedWord:
    """A token, or several in a row that are the same kind."""

    text: str
    kind: str
    """`hit`, `miss`, `extra`; `sel` where nobody annotated; `gold` for the human side; empty for the rest."""
    space: str
    """What stands between it and the next word."""
    probability: float = 0.0
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """Tokens of one text or of many, by what the model and people say; scores are None where undefined."""

    num_tokens: int
    num_selected: int
    num_hits: int
    num_marked: int
    is_annotated: bool

    @property
    def precision(self) -> float | None:
        """Selected and marked / selected."""
        return self.num_hits / self.num_selected if self.is_annotated and self.num_selected else None

    @property
    def recall(self) -> float | None:
        """Selected and marked / marked."""
        return self.num_hits / self.num_marked if self.is_annotated and self.num_marked else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall; 0 where one is 0 or only one is defined."""
        if not self.is_annotated or not self.num_selected + self.num_marked:
            return None
        return 2 * self.num_hits / (self.num_selected + self.num_marked)

    @property
    def num_missed(self) -> int:
        """Marked by people, not selected."""
        return self.num_marked - self.num_hits if self.is_annotated else 0

    @property
    def num_wrong(self) -> int:
        """Selected, not marked by people."""
        return self.num_selected - self.num_hits if self.is_annotated else 0


_KINDS = {(1, 1): "hit", (1, 0): "miss", (0, 1): "extra", (None, 1): "sel"}
"""Mark of a person, None where nobody annotated, and of the model -> kind of a word."""
_OUTCOMES = ("prediction", "guider_prediction", "target")


@dataclass(frozen=True, slots=True)
class SideOutcome:
    """What was predicted of a side target, and what it is."""

    name: str
    prediction: str
    guider_prediction: str
    target: str
    tokens: list[MarkedWord]
    """The text with the target's own rationale; empty where all targets share one."""
    num_selected: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedText:
    """One text as a page shows it."""

    order: int
    example_id: str
    language: str
    """`zh` for Chinese text, otherwise empty."""
    tokens: list[MarkedWord]
    human_runs: list[MarkedWord]
    """The text again, in stretches marked by people and stretches that are not."""
    counts: Counts
    prediction: str
    guider_prediction: str
    target: str
    error: float | None
    """|prediction - target| of a regression."""
    scale: str = ""
    """What follows a score, such as `(from 1 to 5)`; empty for a class, and where nobody kept the scale."""
    name: str = ""
    """Of the main target, where there are several."""
    sides: tuple[SideOutcome, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Total:
    """Figures of all texts of a page at once."""

    num_annotated: int
    precision: float | None
    recall: float | None
    f1: float | None
    selection_rate: float | None
    gold_density: float | None


def marked_texts(predictions: Sequence[Prediction]) -> list[MarkedText]:
    """The texts of a page, in the order given.

    Raises:
        PipelineError: if the lists of a text are not of one length.
    """
    return [_marked_text(order, prediction) for order, prediction in enumerate(predictions)]


def total(texts: Sequence[MarkedText]) -> Total:
    """Scores over all tokens at once; precision, recall and density over annotated texts only."""
    annotated = [text.counts for text in texts if text.counts.is_annotated]
    together = _sum(annotated, is_annotated=True)
    everything = _sum([text.counts for text in texts], is_annotated=False)
    return Total(
        num_annotated=len(annotated),
        precision=together.precision,
        recall=together.recall,
        f1=together.f1,
        selection_rate=_share(everything.num_selected, everything.num_tokens),
        gold_density=_share(together.num_marked, together.num_tokens),
    )


def _sum(counts: Sequence[Counts], is_annotated: bool) -> Counts:
    return Counts(
        num_tokens=sum(count.num_tokens for count in counts),
        num_selected=sum(count.num_selected for count in counts),
        num_hits=sum(count.num_hits for count in counts),
        num_marked=sum(count.num_marked for count in counts),
        is_annotated=is_annotated,
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _marked_text(order: int, prediction: Prediction) -> MarkedText:
    tokens, human, selected = prediction["tokens"], prediction["human"], prediction["selected"]
    _check_lengths(prediction, prediction)
    behind = spaces(tokens)
    return MarkedText(
        order=order,
        example_id=str(prediction["example_id"]),
        language="zh" if is_chinese(tokens) else "",
        tokens=list(_model_words(tokens, behind, human, selected, prediction["probability"])),
        human_runs=list(_human_runs(tokens, behind, human or [])),
        counts=_counts(human, selected),
        prediction=_outcome(prediction.get("prediction")),
        guider_prediction=_outcome(prediction.get("guider_prediction")),
        target=_outcome(prediction.get("target")),
        error=_error(prediction.get("prediction"), prediction.get("target")),
        scale=of_scale(*prediction["score_range"]) if prediction.get("score_range") else "",
        name=str(prediction.get("name") or ""),
        sides=tuple(_side(side, prediction, behind) for side in prediction.get("sides") or ()),
    )


def _check_lengths(prediction: Prediction, marked: Prediction) -> None:
    """Refuse marks that are not one for each token of a text.

    Args:
        prediction: of the text.
        marked: the same, or one of its side targets.
    """
    tokens, human = prediction["tokens"], prediction["human"]
    selected, probability = marked["selected"], marked["probability"]
    if len({len(tokens), len(selected), len(probability), len(tokens if human is None else human)}) > 1:
        raise PipelineError(
            f"a text of {len(tokens)} tokens has {len(selected)} marks of the model, "
            f"{len(probability)} probabilities and {'no' if human is None else len(human)} human marks",
            where=f"prediction `{prediction['example_id']}`",
        )


def _side(side: Prediction, prediction: Prediction, behind: Sequence[str]) -> SideOutcome:
    """A side target of a text, with its own rationale where it has one."""
    words: list[MarkedWord] = []
    selected = side.get("selected") or []
    if side.get("selected") is not None:
        _check_lengths(prediction, side)
        # nobody annotated a rationale of this target
        words = list(_model_words(prediction["tokens"], behind, None, selected, side["probability"]))
    prediction_of, guided, target = (_outcome(side.get(key)) for key in _OUTCOMES)
    return SideOutcome(str(side["name"]), prediction_of, guided, target, words, sum(selected))


def _counts(human: Sequence[int] | None, selected: Sequence[int]) -> Counts:
    return Counts(
        num_tokens=len(selected),
        num_selected=sum(selected),
        num_hits=sum(map(operator.and_, human or [], selected)),
        num_marked=sum(human or []),
        is_annotated=human is not None,
    )


def _model_words(
    tokens: Sequence[str],
    spaces: Sequence[str],
    human: Sequence[int] | None,
    selected: Sequence[int],
    probability: Sequence[float],
) -> Iterator[MarkedWord]:
    kinds = [_KINDS.get(marks, "") for marks in zip(human or itertools.repeat(None), selected, strict=False)]
    for i, (token, space, kind) in enumerate(zip(tokens, spaces, kinds, strict=True)):
        # the space between two words of a kind belongs to them: their marking runs through
        inside = kind and i + 1 < len(tokens) and kinds[i + 1] == kind
        said = [f"probability {probability[i]:.3f}", "selected" if selected[i] else "not selected"]
        if human is not None:
            said.append("marked by people" if human[i] else "not marked by people")
        yield MarkedWord(
            token + (space if inside else ""), kind, "" if inside else space, probability[i], ", ".join(said)
        )


def _human_runs(tokens: Sequence[str], spaces: Sequence[str], human: Sequence[int]) -> Iterator[MarkedWord]:
    marked = zip(human, tokens, spaces, strict=False)
    for mark, group in itertools.groupby(marked, key=operator.itemgetter(0)):
        *inside, (_, last, space) = group
        text = "".join(token + behind for _, token, behind in inside) + last
        yield MarkedWord(text, "gold" if mark else "", space)


def spaces(tokens: Sequence[str]) -> list[str]:
    """What stands behind each token of a text when it is written out; behind the last one nothing."""
    chinese = is_chinese(tokens)
    return [_space(*pair, chinese) for pair in itertools.pairwise(tokens)] + [""] * bool(tokens)


def _space(token: str, following: str, chinese: bool) -> str:
    """What stands between two tokens: nothing before punctuation or beside Chinese, else a space.

    A Chinese text has spaces between Latin words and numbers only; marks such as `×` and `“` are half as wide
    as ideographs in Unicode's table, but are set like them there.
    """
    if chinese:
        return " " if (token[-1:] + following[:1]).isascii() and _are_words(token, following) else ""
    if following in _CLOSING or token in _OPENING:
        return ""
    return "" if token and following and (_is_cjk(token[-1]) or _is_cjk(following[0])) else " "


def _are_words(*tokens: str) -> bool:
    return all(token[-1:].isalnum() and token[:1].isalnum() for token in tokens)


def is_chinese(tokens: Sequence[str]) -> bool:
    """Whether a text is set as Chinese is: a large part of its characters are ideographs."""
    text = "".join(tokens)
    return bool(text) and sum(map(_is_cjk, text)) >= _MOSTLY * len(text)


def _is_cjk(character: str) -> bool:
    """Whether the character is as wide as an ideograph: ideographs, kana and full-width punctuation.

    Pictures (emoji, and what colours their skin) are as wide, but stand in texts of every language.
    """
    is_picture = unicodedata.category(character) in ("So", "Sk")
    return unicodedata.east_asian_width(character) in "WF" and not is_picture


def _outcome(value: Any) -> str:
    """A score to three places; of class probabilities the likeliest class and its probability."""
    if value is None:
        return MISSING
    if isinstance(value, float):
        return f"{value:z.3f}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        best = max(range(len(value)), key=lambda i: value[i])
        return f"class {best} ({value[best]:.2f})"
    return str(value)


def _error(prediction: Any, target: Any) -> float | None:
    if isinstance(prediction, float) and isinstance(target, int | float):
        return abs(prediction - target)
    return None
