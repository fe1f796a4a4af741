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
from infocal.methods.registry import INFOCAL
from pipeline.cli.models import model_uri, registered, tracker_of
from pipeline.showing import examples
from pipeline.showing.flags import MAX_MODELS
from pipeline.training import naming
from pipeline.training.checkpoints import Package, load_package
from pipeline.training.explainer import Explainer, Explanation, Predicted

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

    def facts(self) -> dict[str, Any]:
        """What the page's script has to know of it."""
        low, high = self.explainer.score_range
        is_score = self.explainer.model.task.kind == "regression"
        num_classes = 0 if is_score else self.explainer.model.task.num_classes
        names = self.explainer.class_names or [f"class {i}" for i in range(num_classes)]
        return {
            "name": self.name,
            "subject": self.explainer.subject,
            "low": low,
            "high": high,
            "classes": names[:num_classes],
            "max_tokens": self.max_tokens,
            "reads_whole_texts": self.explainer.reads_whole_texts,
        }

    def read(self, text: str) -> dict[str, Any]:
        """What the model marks in a text and predicts, for the page's script; `problem` where that fails.

        A text is cut at `max_tokens`, as in training; `rest` is what is not read.
        """
        tokens = self.explainer.tokenize(text)
        if not tokens:
            return {"problem": "no_token"}
        seen = tokens[: self.max_tokens]
        (found,) = self.explainer.explain_tokens([seen])
        own = [i for i, token in enumerate(found.tokens) if token.selected]
        from_marks = self.explainer.predict_from(seen, own) if self.explainer.reads_whole_texts else found
        return {
            "lead": text[: seen[0].start],
            "tokens": self._pieces(text, seen, found, len(text) if seen == tokens else seen[-1].end),
            "rest": "" if seen == tokens else text[seen[-1].end :],
            "num_unread": len(tokens) - len(seen),
            "num_unknown": found.num_unknown,
            "predicted": _shown(found),
            "from_marks": _shown(from_marks),
        }

    def _pieces(
        self, text: str, tokens: Sequence[Token], found: Explanation, end: int
    ) -> list[dict[str, Any]]:
        """Each token as it stands in the text, with what stands behind it."""
        starts = [*(token.start for token in tokens[1:]), end]
        return [
            {
                "text": text[token.start : token.end],
                "gap": text[token.end : start],
                "start": token.start,
                "end": token.end,
                "p": round(said.probability, _DIGITS),
                "is_marked": said.selected,
                "is_known": self.explainer.knows(token.text),
            }
            for token, said, start in zip(tokens, found.tokens, starts, strict=True)
        ]

    def predict(self, text: str, marks: Sequence[int]) -> dict[str, Any] | None:
        """What the model predicts from these tokens alone; None where one of them is not there."""
        tokens = self.explainer.tokenize(text)[: self.max_tokens]
        if not tokens or not all(0 <= mark < len(tokens) for mark in marks):
            return None
        return _shown(self.explainer.predict_from(tokens, marks))


def _shown(predicted: Predicted) -> dict[str, Any]:
    if predicted.label:
        return {"probabilities": [round(p, _DIGITS) for p in predicted.probabilities]}
    return {"score": round(predicted.prediction, _DIGITS)}


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
        "threshold": f"{package.model.threshold:.3g}",
        "max_tokens": f"{max_tokens}",
        "num_words": f"{len(package.vocabulary):,}",
    }
    logger.info("loaded: %s (%s, %s)", name, metadata.get("method", INFOCAL), known["data"])
    return ShownModel(name, explainer, max_tokens, known, _reads_chinese(metadata, package.vocabulary))


def _reads_chinese(metadata: Mapping[str, Any], vocabulary: Sequence[str]) -> bool:
    """Whether most words of the model are Chinese, whatever its tokenizer is called."""
    return metadata["tokenizer"] == _JIEBA or language(" ".join(vocabulary[2:102])) == CHINESE
