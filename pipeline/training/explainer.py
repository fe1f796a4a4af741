"""Text in, prediction and rationale out: what `pipeline.explain` and the served model share."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from feature_store.targets import main_of
from feature_store.tokenize import Token, make_tokenizer
from infocal.batch import Words
from infocal.config import Task
from infocal.nn.rationalizer import HALF
from infocal.splitting import UNKNOWN, numbered
from pipeline.base.errors import PipelineError
from pipeline.training.checkpoints import Package
from pipeline.training.scale import of_scale

PADDING = 0
"""Number of the word that stands for no token."""
_Found = TypeVar("_Found")
_MAX_POSITIONS = 1 << 16
"""Of one forward pass: a layer of 200 units then gives 100 MB. A longer text has a pass of its own."""


@dataclass(frozen=True, slots=True)
class ExplainedToken:
    """A token of the text with its place and its probability of being part of the rationale."""

    token: str
    start: int
    """First character in the text as given."""
    end: int
    """One past the last character."""
    probability: float
    selected: bool


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction."""

    prediction: float
    """Score of a regression on the user's scale; of a classification the class where classes are whole
    numbers, else its place among their names, from 0."""
    probabilities: list[float]
    """Of each class; empty for a regression."""
    label: str
    """Name of the class; empty for a regression."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is predicted, and how it is called."""

    name: str
    """Of the target, or what a score is called."""
    is_score: bool
    class_names: list[str]
    score_range: tuple[float, float]
    """Lowest and highest score of a regression."""

    @classmethod
    def of(cls, said: Mapping[str, Any], head: Task, name: str) -> "Target":
        """The target that a package's metadata describe."""
        low, high = said.get("score_range") or (0.0, 1.0)
        names = said.get("class_names") or []
        return cls(name, head.kind == "regression", names, (float(low), float(high)))

    def predicted(self, output: list[float]) -> Predicted:
        """The score in (0, 1), or the class probabilities, as the user has them."""
        if self.is_score:
            low, high = self.score_range
            return Predicted(low + (high - low) * output[0], [], "")
        number = int(np.argmax(output))
        numbers = _numbers(self.class_names)
        name = self.class_names[number] if self.class_names else f"class {number}"
        return Predicted(numbers[number] if numbers else float(number), output, name)

    def in_words(self, found: Predicted) -> str:
        """A prediction in words, with the target's name."""
        if found.label:
            return f"{self.name}: {found.label} ({max(found.probabilities):.3f})"
        return f"{self.name}: {found.prediction:.2f} {of_scale(*self.score_range)}"


@dataclass(frozen=True, slots=True)
class Explanation(Predicted):
    """What the model says about one text; of several targets the prediction is that of the main one."""

    tokens: list[ExplainedToken]
    num_unknown: int = 0
    """Tokens that the model does not know: it read one word for all of them."""
    score_range: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest score of a regression."""
    subject: str = "score"
    """What a score is called."""
    held_threshold: float = HALF
    """The model's own threshold; a token's `probability` is moved so that it is 0.5."""
    targets: dict[str, Predicted] = field(default_factory=dict)
    """The prediction of each target by its name, where there are several; the main one first."""
    words: dict[str, str] = field(default_factory=dict)
    """The same in words, with the target's name."""
    tokens_of: dict[str, list[ExplainedToken]] = field(default_factory=dict)
    """The tokens with the rationale of each target by its name, where each has its own; else empty."""

    @property
    def said(self) -> str:
        """The prediction in words, with what a reader should know of it."""
        if self.words:
            text = f"predicted {', '.join(self.words.values())}"
        elif self.label:
            text = f"predicted {self.label} ({max(self.probabilities):.3f})"
        else:
            text = f"predicted {self.subject}: {self.prediction:.2f} {of_scale(*self.score_range)}"
        return text + self._noted(self.tokens)

    def said_of(self, target: str) -> str:
        """The same of one of several targets that have rationales of their own."""
        return f"predicted {self.words[target]}{self._noted(self.tokens_of[target])}"

    def _noted(self, tokens: Sequence[ExplainedToken]) -> str:
        """What a reader should know of a prediction and its rationale."""
        notes = []
        if self.num_unknown:
            notes.append(f"{self.num_unknown} of {len(tokens)} words unknown")
        if not any(token.selected for token in tokens):
            notes.append("no token reaches p >= 0.5")
        return f" ({'; '.join(notes)})" if notes else ""

    @property
    def rationale(self) -> list[ExplainedToken]:
        """The selected tokens."""
        return [token for token in self.tokens if token.selected]


_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
"""A class that is a number; longer ones do not fit a float."""


def _numbers(class_names: Sequence[str]) -> list[float]:
    """Classes that are whole numbers, as numbers; empty where one is not, or two are the same number."""
    if not all(_WHOLE.fullmatch(name) for name in class_names):
        return []
    found = [float(name) for name in class_names]
    return found if len(set(found)) == len(found) else []


class NoTokenError(PipelineError):
    """Texts without a token: empty, or made of stop words alone.

    Args:
        positions: of those without a token, from 0.
    """

    def __init__(self, texts: Sequence[str], positions: Sequence[int]) -> None:
        first = positions[0]
        super().__init__(f"text {first + 1} of {len(texts)} has no token: {texts[first][:80]!r}")
        self.positions = positions


class Explainer:
    """Predicts from raw text; threads may share one.

    Args:
        batch_size: most texts of one forward pass; of long ones it takes fewer.
    """

    def __init__(self, package: Package, batch_size: int = 32) -> None:
        self.model = package.model
        # as in training, a text that spells the padding holds an unknown word
        self.number = {word: i for i, word in enumerate(package.vocabulary) if i != PADDING}
        self.splitter = self.model.splitter
        self.batch_size = batch_size
        subject = main_of(package.metadata.get("aspect")) or "score"
        said = zip(package.targets(), self.model.task.heads, strict=True)
        self.targets = [Target.of(one, head, head.name or subject) for one, head in said]
        self.class_names, self.score_range = self.targets[0].class_names, self.targets[0].score_range
        self.subject = subject
        self.tokenize = make_tokenizer(package.metadata["tokenizer"], package.tokenizer_files)

    def explain(self, texts: Sequence[str]) -> list[Explanation]:
        """Prediction and rationale of each text, of any length, in the order given.

        Raises:
            NoTokenError: if texts have no token.
        """
        tokens = [self.tokenize(text) for text in texts]
        if empty := [i for i, row in enumerate(tokens) if not row]:
            raise NoTokenError(texts, empty)
        return self.explain_tokens(tokens)

    def explain_tokens(self, tokens: Sequence[list[Token]]) -> list[Explanation]:
        """Prediction and rationale of texts that are split into tokens already, in the order given.

        Args:
            tokens: of each text, at least one; as the model's own tokenizer makes them.
        """
        found: dict[int, Explanation] = {}
        for rows in self._batches([len(row) for row in tokens]):
            found |= zip(rows, self._explain([tokens[i] for i in rows]), strict=True)
        return [found[i] for i in range(len(tokens))]

    def predict_from(self, tokens: Sequence[Token], rationale: Collection[int]) -> list[Predicted]:
        """What the model predicts where these tokens, and no others, are its rationale.

        Where the model selects `rationale` itself this is its prediction, but for a model that
        `reads_whole_texts`.

        Args:
            tokens: of a text, at least one; as the model's own tokenizer makes them.
            rationale: positions in `tokens`, from 0; may be none. All targets are predicted from it, even
                where each has a rationale of its own.

        Returns:
            The prediction of each target, the main one first.

        Raises:
            ValueError: if a position is not that of a token.
        """
        if outside := [i for i in rationale if not 0 <= i < len(tokens)]:
            raise ValueError(f"expected positions from 0 to {len(tokens) - 1}, but got {outside[0]}")
        words, _, is_token = self._padded([tokens])
        mask = torch.zeros(is_token.shape)
        mask[0, list(rationale)] = 1.0
        with torch.no_grad():
            output = self.model.predict_from(words, is_token, mask)
        return self._predicted(output[0].tolist())

    @property
    def reads_whole_texts(self) -> bool:
        """Whether the model predicts from every token, whatever it selects."""
        nothing = torch.zeros(1, 1)
        return bool(self.model.seen(nothing, torch.ones(1, 1, dtype=torch.bool)).any())

    def knows(self, token: str) -> bool:
        """Whether the model tells a token from others that it has not learnt.

        It does if the token is a word of its vocabulary, or has pieces that the model reads.
        """
        if self.number.get(token, UNKNOWN) != UNKNOWN:
            return True
        return self.splitter is not None and self.splitter.knows(token)

    def warm_up(self) -> None:
        """Do what would make the first answer slow: load dictionaries, compile the recurrent layers."""
        self.tokenize("a")
        list(self._explain([[Token("a", 0, 1)]]))

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Rows of texts of like length that fit one forward pass."""
        batch: list[int] = []
        for row in sorted(range(len(lengths)), key=lengths.__getitem__):
            full = (len(batch) + 1) * lengths[row] > _MAX_POSITIONS or len(batch) == self.batch_size
            if batch and full:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _padded(self, texts: Sequence[Sequence[Token]]) -> tuple[Words, torch.Tensor, torch.Tensor]:
        """The words; which of them the model does not know, and where there are tokens, each [B T]."""
        lengths = np.array([len(text) for text in texts])
        is_token = np.arange(lengths.max()) < lengths[:, None]
        token_ids = np.zeros(is_token.shape, np.int64)
        for row, text in enumerate(texts):
            token_ids[row, : len(text)] = [self.number.get(token.text, UNKNOWN) for token in text]
        ids = torch.from_numpy(token_ids)
        is_unknown = ids == UNKNOWN
        if self.splitter is None:
            return Words.of(ids), is_unknown, torch.from_numpy(is_token)
        written = [[token.text for token in text] for text in texts]
        for row, place in is_unknown.nonzero().tolist():
            is_unknown[row, place] = not self.splitter.knows(written[row][place])
        return (
            Words.of(*numbered(ids, written, self.splitter)),
            is_unknown,
            torch.from_numpy(is_token),
        )

    @torch.no_grad()
    def _explain(self, texts: list[list[Token]]) -> Iterator[Explanation]:
        words, is_unknown, is_token = self._padded(texts)
        inference = self.model.infer(words, is_token)
        rationales = inference.rationales()
        for row, text in enumerate(texts):
            marked = [_marked(text, probability[row], mask[row]) for probability, mask in rationales]
            found = self._predicted(inference.output[row].tolist())
            yield Explanation(
                found[0].prediction,
                found[0].probabilities,
                found[0].label,
                tokens=marked[0],
                num_unknown=int(is_unknown[row].sum()),
                score_range=self.score_range,
                subject=self.subject,
                held_threshold=self.model.threshold,
                targets=self._by_name(found),
                words=self._in_words(found),
                tokens_of=self._by_name(marked),
            )

    def _predicted(self, output: list[float]) -> list[Predicted]:
        """What a row of the model's output says of each target, the main one first."""
        columns = zip(self.targets, self.model.task.columns, strict=True)
        return [target.predicted(output[its]) for target, its in columns]

    def _by_name(self, found: Sequence[_Found]) -> dict[str, _Found]:
        """What was found of each of several targets, by its name; nothing where there is one for all."""
        if len(found) == 1:
            return {}
        return {target.name: one for target, one in zip(self.targets, found, strict=True)}

    def _in_words(self, found: Sequence[Predicted]) -> dict[str, str]:
        named = zip(self.targets, found, strict=True)
        return self._by_name([target.in_words(one) for target, one in named])


def _marked(text: Sequence[Token], probability: torch.Tensor, mask: torch.Tensor) -> list[ExplainedToken]:
    """The tokens of a text with what a rationale [T] says of each."""
    every = zip(text, probability.tolist(), mask.tolist(), strict=False)  # padding follows
    return [ExplainedToken(t.text, t.start, t.end, p, selected > 0) for t, p, selected in every]
