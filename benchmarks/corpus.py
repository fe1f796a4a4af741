"""The texts that benchmarks run on: palate reviews, or the made-up corpus where there are none."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import torch

from feature_store.store import FeatureRequest, open_features
from infocal.config import Task
from pipeline.training.loaders import Loader, embeddings_of, task_of


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts as raw files and as tensors."""

    label: str
    data_dir: Path
    """Folder that holds `beer/`."""
    task: Task
    loader: Loader
    """Training texts, with zeros as the language model's scores: they cost the same."""
    embeddings: torch.Tensor
    words: list[str]
    """The vocabulary."""

    def texts(self, num_texts: int) -> list[str]:
        """The first training texts, their tokens joined by blanks; over again where there are fewer."""
        rows = itertools.islice(itertools.cycle(range(len(self.loader))), num_texts)
        return [" ".join(self.words[number] for number in self.loader.token_ids[row]) for row in rows]


def open_corpus(data_dir: Path | None, cache_dir: Path) -> Corpus:
    """Palate features; random word vectors, for no time depends on their values.

    Args:
        data_dir: folder that holds `beer/`; None: the made-up corpus.
        cache_dir: where features are built.
    """
    request = FeatureRequest(
        dataset="beer",
        aspect="palate",
        data_dir=data_dir,
        sample=data_dir is None,
        cache_dir=cache_dir,
        embedding="random",
    )
    features = open_features(request)
    task = task_of(features)
    label = "made-up sample" if data_dir is None else "beer/palate"
    if data_dir is None:
        (data_dir,) = (cache_dir / "sample").glob("beer-*")
    loader = Loader(features.table("train"), task)
    words = list(features.vocabulary.tokens)
    return Corpus(label, data_dir, task, loader, embeddings_of(features), words)
