"""Language models trained on the texts of features and scored on the test texts, one after the other.

`infocal.metrics.perplexity` defines the score, `infocal.language_models` the models.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from feature_store.store import Features
from infocal.language_model_config import LanguageModelConfig
from infocal.language_models import continuous
from infocal.language_models.kneser_ney import KneserNey
from infocal.language_models.recurrent import RecurrentConfig, RecurrentTrainer
from infocal.metrics import perplexity
from infocal.metrics.perplexity import TextLogP
from pipeline.training.loaders import Loader, language_model_texts, task_of, trained_language_model
from pipeline.training.scoring import BATCH_SIZE, texts_of_language_models

logger = logging.getLogger("pipeline.training.language_models")

KNESER_NEY, RNNLM, CONTINUOUS = "kneser-ney", "rnnlm", "continuous"
MODELS = (KNESER_NEY, RNNLM, CONTINUOUS)
ORDER = 5
"""Longest n-gram of Kneser-Ney."""
PLAIN = "plain"
"""The one reading of a model whose output is a distribution."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageModelRun:
    """What decides the language models of a table."""

    continuous: Mapping[str, Any]
    """Of a `LanguageModelConfig`: the model that InfoCal reads."""
    recurrent: Mapping[str, Any]
    """Of a `RecurrentConfig`."""
    device: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageModelOutcome:
    """What one model came to on the test texts; as it lies in the table's folder."""

    model: str
    log_p: Mapping[str, list[float]]
    """Reading -> sum of log p of the scored tokens of each text, in nats; `CONTINUOUS` has two."""
    num_scored: list[int]
    """Scored tokens of each text."""
    seconds: float
    """It took to train and to score it."""
    facts: Mapping[str, float] = field(default_factory=dict)
    """Of its training, by name."""

    def scored(self, reading: str) -> TextLogP:
        """What a perplexity is made of."""
        return TextLogP(np.array(self.log_p[reading]), np.array(self.num_scored, dtype=np.int64))


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageModelData:
    """What all models of a table have in common; as it lies in the table's folder."""

    num_words: int
    """V, the known words."""
    num_train_texts: int
    num_train_tokens: int
    num_texts: int
    num_tokens: int
    """Of the test texts."""
    num_scored: int
    num_unknown: int
    """Test tokens from the second of a text on that are no known words, and so are not scored."""
    frequencies: float
    """Perplexity of the words' frequencies alone."""


_Readings = dict[str, TextLogP]


def data_of(features: Features) -> LanguageModelData:
    """Vocabulary and texts of the models."""
    learnt, test = language_model_texts(features), texts_of_language_models(features)
    texts, counts = _rows(test), features.token_counts
    scored = perplexity.frequencies(texts, counts)
    num_scored = int(scored.num_scored.sum())
    return LanguageModelData(
        num_words=len(counts) - perplexity.NUM_SPECIAL,
        num_train_texts=len(learnt),
        num_train_tokens=int(learnt.token_ids.lengths.sum()),
        num_texts=len(test),
        num_tokens=int(test.token_ids.lengths.sum()),
        num_scored=num_scored,
        num_unknown=int((test.token_ids.lengths - 1).sum()) - num_scored,
        frequencies=scored.perplexity,
    )


def measure(
    model: str, features: Features, run: LanguageModelRun, device: torch.device
) -> LanguageModelOutcome:
    """Train a model and score it on the test texts.

    Args:
        model: one of `MODELS`.
        device: where to train; Kneser-Ney counts on the CPU.
    """
    started = time.monotonic()
    found, facts = _MEASURES[model](features, run, device)
    return LanguageModelOutcome(
        model=model,
        log_p={reading: scored.log_p.tolist() for reading, scored in found.items()},
        num_scored=next(iter(found.values())).num_scored.tolist(),
        seconds=time.monotonic() - started,
        facts=facts,
    )


def _kneser_ney(
    features: Features, run: LanguageModelRun, device: torch.device
) -> tuple[_Readings, dict[str, float]]:
    model = KneserNey(_rows(language_model_texts(features)), len(features.token_counts), ORDER)
    texts = _rows(texts_of_language_models(features))
    return {PLAIN: perplexity.of_texts(texts, model.log_p(texts))}, {
        f"num_{k}_grams": len(order.keys) for k, order in enumerate(model.orders, start=1)
    }


def _rnnlm(
    features: Features, run: LanguageModelRun, device: torch.device
) -> tuple[_Readings, dict[str, float]]:
    config = RecurrentConfig(**run.recurrent)
    trainer = RecurrentTrainer(config, torch.tensor(features.token_counts), device)
    learnt, val = language_model_texts(features), Loader(features.table("val"), task_of(features))
    losses = []
    for loss in trainer.train(
        lambda epoch: learnt.shuffled(config.batch_size, seed=config.seed, epoch=epoch),
        lambda: val.in_order(BATCH_SIZE),
    ):
        losses.append(loss)
        epoch = f"{len(losses)}/{config.num_epochs}"
        logger.info("RNNLM: epoch %s, perplexity %.1f on validation", epoch, np.exp(loss))
    test = texts_of_language_models(features)
    found = perplexity.of_texts(_rows(test), trainer.log_p(test.in_order(BATCH_SIZE)))
    return {PLAIN: found}, {"num_epochs": len(losses), "val_perplexity": float(np.exp(min(losses)))}


def _continuous(
    features: Features, run: LanguageModelRun, device: torch.device
) -> tuple[_Readings, dict[str, float]]:
    config = LanguageModelConfig(**run.continuous)
    model = trained_language_model(features, config, device).model.eval()
    test, frequency = texts_of_language_models(features), perplexity.log_frequencies(features.token_counts)
    found: _Readings = {}
    for reading in (continuous.RATIO, continuous.SOFTMAX):
        log_p = continuous.log_p(model, test.in_order(BATCH_SIZE), torch.from_numpy(frequency), reading)
        found[reading] = perplexity.of_texts(_rows(test), log_p)
    return found, {"num_epochs": config.num_epochs}


_Measure = Callable[[Features, LanguageModelRun, torch.device], tuple[_Readings, dict[str, float]]]
_MEASURES: Mapping[str, _Measure] = {KNESER_NEY: _kneser_ney, RNNLM: _rnnlm, CONTINUOUS: _continuous}


def _rows(loader: Loader) -> list[NDArray[np.int64]]:
    """(T,) ids of each text."""
    return [loader.token_ids[row].astype(np.int64) for row in range(len(loader))]


def default_run(
    device: str, continuous_config: Mapping[str, Any], seed: int, *, is_sample: bool
) -> LanguageModelRun:
    """The hyper-parameters of a table; on the sample corpus, those of a network of few units.

    Args:
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        continuous_config: of the model that InfoCal reads.
        is_sample: whether the corpus is the made-up one.
    """
    small: dict[str, Any] = {}
    if is_sample:
        small = {"embedding_size": 32, "hidden_size": 32, "batch_size": 16, "num_epochs": 3}
        small["learning_rate"] = 0.02
    recurrent = dataclasses.asdict(RecurrentConfig(**small, seed=seed))
    return LanguageModelRun(
        continuous={**continuous_config, "seed": seed}, recurrent=recurrent, device=device
    )
