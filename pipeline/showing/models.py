"""A model as the page shows it: by which name, what is known of it, how much of a text it reads."""

import argparse
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feature_store.command_line import cache_folder
from feature_store.scripts import CHINESE, language
from feature_store.tokens import Token
from infocal.config import Task
from infocal.methods.registry import INFOCAL
from infocal.nn.rationalizer import Rationalizer
from pipeline.cli.models import model_uri, registered, tracker_of
from pipeline.showing import examples
from pipeline.showing.flags import MAX_MODELS
from pipeline.training import naming
from pipeline.training.checkpoints import Package, load_package
from pipeline.training.explainer import ExplainedToken, Explainer, Explanation, Predicted, Target

logger = logging.getLogger("pipeline.demo")

_DIGITS = 5
_JIEBA = "jieba"
"""The tokenizer of Chinese texts."""
_ABOUT = ("method", "criterion", "study", "run_id", "tokenizer")
"""Entries of a package's metadata that the page shows as they are."""


@dataclass(frozen=True, slots=True)
class ShownModel:
    """A model that is loaded."""

    name: str
    explainer: Explainer
    max_tokens: int
    """Of a text; the model was trained on texts that were cut there."""
    about: Mapping[str, str]
    """Key of what the page says -> value."""
    is_chinese: bool

    @property
    def has_own_rationales(self) -> bool:
        """Whether each of several targets has a rationale of its own."""
        return self.explainer.model.num_rationales > 1

    def facts(self) -> dict[str, Any]:
        """What the page's script has to know of it."""
        every = zip(self.explainer.targets, self.explainer.model.task.heads, strict=True)
        return {
            "name": self.name,
            "targets": [_facts(target, head) for target, head in every],
            "has_own_rationales": self.has_own_rationales,
            "max_tokens": self.max_tokens,
            "reads_whole_texts": self.explainer.reads_whole_texts,
        }

    def read(self, text: str) -> dict[str, Any]:
        """What the model marks in a text and predicts, for the page's script; `problem` where that fails.

        A text is cut at `max_tokens`, as in training; `rest` is what is not read. `rationales` has the marks
        of all targets together, or those of each where each has its own; `predicted` has the prediction of
        each target. The main target is the first in both.
        """
        tokens = self.explainer.tokenize(text)
        if not tokens:
            return {"problem": "no_token"}
        seen = tokens[: self.max_tokens]
        (found,) = self.explainer.explain_tokens([seen])
        own = [i for i, token in enumerate(found.tokens) if token.selected]
        predicted = _of_targets(found)
        from_marks = self.explainer.predict_from(seen, own) if self.explainer.reads_whole_texts else predicted
        return {
            "lead": text[: seen[0].start],
            "tokens": self._pieces(text, seen, len(text) if seen == tokens else seen[-1].end),
            "rest": "" if seen == tokens else text[seen[-1].end :],
            "num_unread": len(tokens) - len(seen),
            "num_unknown": found.num_unknown,
            "rationales": [_marks(marked) for marked in found.tokens_of.values() or [found.tokens]],
            "predicted": _shown(predicted),
            "from_marks": _shown(from_marks),
        }

    def _pieces(self, text: str, tokens: Sequence[Token], end: int) -> list[dict[str, Any]]:
        """Each token as it stands in the text, with what stands behind it."""
        starts = [*(token.start for token in tokens[1:]), end]
        return [
            {
                "text": text[token.start : token.end],
                "gap": text[token.end : start],
                "start": token.start,
                "end": token.end,
                "is_known": self.explainer.knows(token.text),
            }
            for token, start in zip(tokens, starts, strict=True)
        ]

    def predict(self, text: str, marks: Sequence[int]) -> list[dict[str, Any]] | None:
        """What the model predicts of each target from these tokens alone; None where one is not there."""
        tokens = self.explainer.tokenize(text)[: self.max_tokens]
        if not tokens or not all(0 <= mark < len(tokens) for mark in marks):
            return None
        return _shown(self.explainer.predict_from(tokens, marks))


def _facts(target: Target, head: Task) -> dict[str, Any]:
    """What the page's script has to know of a target."""
    low, high = target.score_range
    num_classes = 0 if target.is_score else head.num_classes
    names = target.class_names or [f"class {i}" for i in range(num_classes)]
    return {"name": target.name, "low": low, "high": high, "classes": names[:num_classes]}


def _of_targets(found: Explanation) -> list[Predicted]:
    """The prediction of each target, the main one first."""
    return list(found.targets.values()) or [found]


def _shown(predicted: Sequence[Predicted]) -> list[dict[str, Any]]:
    return [
        {"probabilities": [round(p, _DIGITS) for p in one.probabilities]}
        if one.label
        else {"score": round(one.prediction, _DIGITS)}
        for one in predicted
    ]


def _marks(tokens: Sequence[ExplainedToken]) -> dict[str, Any]:
    """A rationale: what it says of each token."""
    return {
        "p": [round(token.probability, _DIGITS) for token in tokens],
        "is_marked": [token.selected for token in tokens],
    }


def load(given: argparse.Namespace) -> tuple[list[ShownModel], list[str]]:
    """The models that the flags name, and texts to click on.

    Raises:
        UserError: if a model or the file of texts is not there, or cannot be read.
    """
    texts = examples.of_file(Path(given.examples)) if given.examples else []
    is_asked = not (given.examples or given.no_examples)
    cache = cache_folder(given.cache_dir)
    found: list[ShownModel] = []
    uris = [model_uri(place) for place in given.model]
    tracker = tracker_of(given, uris) if uris else None
    for uri in uris:
        assert tracker is not None
        package, version = registered(tracker, uri)
        name = uri.removeprefix("models:/")
        found.append(_shown_model(name, package, {"version": str(version.version)}))
        if is_asked and not texts:
            texts = examples.of_run(tracker, version.run_id) or examples.of_features(package, cache)
    for place in given.package:
        package = load_package(Path(place))
        found.append(_shown_model(Path(place).name or place, package, {}))
        if is_asked and not texts:
            texts = examples.of_features(package, cache)
    assert len(found) <= MAX_MODELS
    return found, texts


def _shown_model(name: str, package: Package, about: Mapping[str, str]) -> ShownModel:
    metadata = package.metadata
    explainer = Explainer(package)
    explainer.warm_up()
    max_tokens = int(metadata.get("max_length") or package.model.config.max_length)
    known = {
        "data": naming.title(metadata["dataset"], metadata.get("aspect")),
        **about,
        **{key: str(metadata[key]) for key in _ABOUT if metadata.get(key)},
        "threshold": _thresholds(package.model),
        "max_tokens": f"{max_tokens}",
        "num_words": f"{len(package.vocabulary):,}",
    }
    logger.info("loaded: %s (%s, %s)", name, metadata.get("method", INFOCAL), known["data"])
    return ShownModel(name, explainer, max_tokens, known, _reads_chinese(metadata, package.vocabulary))


def _thresholds(model: Rationalizer) -> str:
    """The threshold of the rationale; of several rationales that of each target, with its name."""
    every = [f"{value:.3g}" for value in (model.threshold, *model.side_thresholds)]
    if len(every) == 1:
        return every[0]
    return ", ".join(f"{value} ({head.name})" for value, head in zip(every, model.task.heads, strict=True))


def _reads_chinese(metadata: Mapping[str, Any], vocabulary: Sequence[str]) -> bool:
    """Whether most words of the model are Chinese, whatever its tokenizer is called."""
    return metadata["tokenizer"] == _JIEBA or language(" ".join(vocabulary[2:102])) == CHINESE
