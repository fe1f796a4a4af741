"""The one place where an Arrow table becomes tensors."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from feature_store.annotators import annotator_shares
from feature_store.cache import as_numpy
from feature_store.sources.base import POOL
from feature_store.store import Features, derived, derived_dir
from feature_store.targets import column_of
from feature_store.task_info import TaskInfo
from feature_store.wording import counted
from infocal.batch import Batch
from infocal.config import Task
from infocal.language_model_config import LanguageModelConfig
from infocal.methods.infocal.language_model import LanguageModelTrainer
from infocal.splitting import UNKNOWN, FurtherWords, Splitter, numbered
from pipeline.base.errors import PipelineError

logger = logging.getLogger("pipeline.training.loaders")

LM_STEP, LM_VERSION = "lm_logit", 1
_POOL = 50
"""Batches whose texts are sorted by length together: enough to pad little, few enough to keep them random."""


class Ragged:
    """Rows of different lengths, viewed where they lie: a list column of a memory-mapped table is not copied.

    Args:
        column: a list column without nulls.
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._values = [as_numpy(chunk.values) for chunk in column.chunks]
        self._offsets = [as_numpy(chunk.offsets) for chunk in column.chunks]
        self._starts = np.cumsum([0, *map(len, column.chunks)])
        self.lengths: npt.NDArray[np.int64] = np.concatenate(
            [np.empty(0, np.int64), *map(np.diff, self._offsets)]
        )
        """Length of each row."""

    def __getitem__(self, row: int) -> npt.NDArray[np.generic]:
        chunk = int(np.searchsorted(self._starts, row, side="right")) - 1
        first, last = self._offsets[chunk][row - self._starts[chunk] :][:2]
        return self._values[chunk][first:last]

    def __len__(self) -> int:
        return len(self.lengths)


Marks = npt.NDArray[np.float32]
"""Share of annotators who marked each token of a text, in [0, 1]."""


class Loader:
    """Batches of one table.

    Args:
        table: columns as `feature_store.store.Features.table` gives them.
        lm_logit: language-model score of each token, in the order of the table; None: zeros.
        shares: share of its annotators who marked each token of a text, None for a text without; where they
            are not given, the table's own masks.
        splitter: of a model that reads pieces: words that the vocabulary lacks then have pieces of their own.
    """

    def __init__(
        self,
        table: pa.Table,
        task: Task,
        lm_logit: Ragged | None = None,
        shares: Sequence[Marks | None] | None = None,
        splitter: Splitter | None = None,
    ) -> None:
        self._tokens, self._splitter = None if splitter is None else table["tokens"], splitter
        self.token_ids = Ragged(table["token_ids"])
        self.targets = _targets(table, task)
        self.task = task
        # of several targets one is a score, maybe: numbers of classes are exact in float32 up to 2^24
        self.target_type = torch.float32 if task.kind == "regression" or task.sides else torch.int64
        self.rationales = _rationales(table["rationale"])
        self.shares = [_as_shares(g) for g in self.golds()] if shares is None else shares
        self.lm_logit = lm_logit
        if lm_logit is not None and not np.array_equal(lm_logit.lengths, self.token_ids.lengths):
            raise ValueError(
                f"language-model scores of {len(lm_logit)} texts do not fit the {len(self.token_ids)} texts"
            )

    def __len__(self) -> int:
        return len(self.token_ids)

    def num_batches(self, batch_size: int) -> int:
        """Batches in one pass."""
        return -(-len(self) // batch_size)

    def shuffled(self, batch_size: int, *, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        """One epoch in an order fixed by (seed, epoch), texts of like length together.

        Args:
            batch_size: texts a batch; the last one may be smaller.
            start: batches to leave out at the start, to continue in the middle of an epoch.
        """
        generator = np.random.default_rng([seed, epoch])
        order = generator.permutation(len(self))
        lengths = self.token_ids.lengths
        pool = batch_size * _POOL
        groups: list[npt.NDArray[np.int64]] = []
        for first in range(0, len(order), pool):
            part = order[first : first + pool]
            part = part[np.argsort(lengths[part], kind="stable")]
            groups += [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
        for position in generator.permutation(len(groups))[start:]:
            yield self.batch(groups[position])

    def in_order(self, batch_size: int, rows: npt.NDArray[np.int64] | None = None) -> Iterator[Batch]:
        """All texts once, or those of the given rows, the longest last; `Batch.index` says which is which."""
        chosen = np.arange(len(self)) if rows is None else rows
        order = chosen[np.argsort(self.token_ids.lengths[chosen], kind="stable")]
        for first in range(0, len(order), batch_size):
            yield self.batch(order[first : first + batch_size])

    def batch(self, rows: npt.NDArray[np.int64]) -> Batch:
        """The given rows, padded to the longest of them."""
        lengths = self.token_ids.lengths[rows]
        is_token = np.arange(lengths.max()) < lengths[:, None]
        token_ids = np.zeros(is_token.shape, np.int64)
        lm_logit = np.zeros(is_token.shape, np.float32)
        human = np.zeros(is_token.shape, np.float32)
        for i, row in enumerate(rows):
            token_ids[i, : lengths[i]] = self.token_ids[row]
            if self.lm_logit is not None:
                lm_logit[i, : lengths[i]] = self.lm_logit[row]
            share = self.shares[row]
            if share is not None:
                human[i, : lengths[i]] = share
        return Batch(
            token_ids=torch.from_numpy(token_ids),
            numbered=self._numbered(torch.from_numpy(token_ids), rows),
            is_token=torch.from_numpy(is_token),
            target=torch.as_tensor(self.targets[rows], dtype=self.target_type),
            lm_logit=torch.from_numpy(lm_logit),
            human_rationale=torch.from_numpy(human),
            index=torch.from_numpy(rows.astype(np.int64)),
        )

    def _numbered(
        self, token_ids: torch.Tensor, rows: npt.NDArray[np.int64]
    ) -> tuple[torch.Tensor, FurtherWords | None] | None:
        """See `infocal.splitting.numbered`; None where all unknown words are one."""
        if self._splitter is None or self._tokens is None:
            return None
        has_unknown = (token_ids == UNKNOWN).any(dim=1).tolist()
        texts = [
            self._tokens[int(row)].as_py() if some else []
            for row, some in zip(rows, has_unknown, strict=True)
        ]
        return numbered(token_ids, texts, self._splitter)

    def class_counts(self) -> list[int] | None:
        """Number of texts of each class of the main target; None of a regression."""
        if self.task.kind == "regression":
            return None
        classes = self.targets.reshape(len(self), -1)[:, 0].astype(np.int64)
        found: list[int] = np.bincount(classes, minlength=self.task.num_classes).tolist()
        return found

    def annotated_rows(self) -> npt.NDArray[np.int64]:
        """Numbers of the texts that have a human rationale."""
        return np.array([i for i, row in enumerate(self.rationales) if row is not None], np.int64)

    def golds(self) -> list[npt.NDArray[np.bool_] | None]:
        """The human rationale of each text as a mask; None where nobody annotated."""
        masks: list[npt.NDArray[np.bool_] | None] = []
        for length, positions in zip(self.token_ids.lengths, self.rationales, strict=True):
            if positions is None:
                masks.append(None)
                continue
            mask = np.zeros(length, bool)
            mask[positions] = True
            masks.append(mask)
        return masks


def training_loader(
    features: Features,
    lm_logit: Ragged | None = None,
    *,
    is_supervised: bool = False,
    splitter: Splitter | None = None,
) -> Loader:
    """Batches of the training texts; human rationales are in those of a supervised method alone.

    The arguments besides are those of `Loader`.

    Raises:
        MissingDataError: if a supervised method wants them of features that do not have them apart.
    """
    table, task = features.table("train"), task_of(features)
    if not is_supervised:
        return Loader(_unmarked(table), task, lm_logit, splitter=splitter)
    apart = annotator_shares(features)
    if apart is None:
        return Loader(table, task, lm_logit, splitter=splitter)
    shares = [None if row is None else np.asarray(row, np.float32) for row in apart.to_pylist()]
    return Loader(table, task, lm_logit, shares, splitter)


def _unmarked(table: pa.Table) -> pa.Table:
    """The same texts, as if nobody had annotated any."""
    place = table.schema.get_field_index("rationale")
    field = table.schema.field(place)
    return table.set_column(place, field, pa.nulls(len(table), field.type))


def _as_shares(gold: npt.NDArray[np.bool_] | None) -> Marks | None:
    return None if gold is None else gold.astype(np.float32)


def prefetched(batches: Iterable[Batch], prepare: Callable[[Batch], Batch]) -> Iterator[Batch]:
    """The same batches, each made and prepared by a thread while the one before it is used.

    Args:
        batches: where they come from; read by the thread.
        prepare: done to each, for instance `Batch.pin_memory`.
    """
    source = iter(batches)

    def following() -> Batch | None:
        batch = next(source, None)
        return None if batch is None else prepare(batch)

    with ThreadPoolExecutor(1) as thread:
        ahead = thread.submit(following)
        while (batch := ahead.result()) is not None:
            ahead = thread.submit(following)
            yield batch


def _targets(table: pa.Table, task: Task) -> npt.NDArray[np.generic]:
    """Of one target [N]; of several float32 [N H]."""
    if not task.sides:
        return as_numpy(table["target"])
    names = ["target", *(column_of(side.name) for side in task.sides)]
    return np.stack([as_numpy(table[name]).astype(np.float32) for name in names], axis=1)


def _rationales(column: pa.ChunkedArray) -> list[npt.NDArray[np.int64] | None]:
    if column.null_count == len(column):
        return [None] * len(column)
    return [None if row is None else np.asarray(row, np.int64) for row in column.to_pylist()]


def task_of(features: Features) -> Task:
    """What the features' targets ask the model to predict."""
    return _task_of(features.task)


def _task_of(info: TaskInfo) -> Task:
    sides = tuple(_task_of(side) for side in info.sides)
    if info.kind == "classification":
        return Task(
            kind="classification", num_classes=len(info.class_names or ()), name=info.name, sides=sides
        )
    return Task(
        kind="regression",
        target_mean=info.target_mean,
        target_variance=info.target_variance,
        name=info.name,
        sides=sides,
    )


def embeddings_of(features: Features) -> torch.Tensor:
    """Word vectors as a tensor, float32 [V E]; a copy, for torch takes no read-only memory."""
    return torch.from_numpy(np.array(features.embeddings))


def language_model_dir(features: Features, config: LanguageModelConfig) -> Path:
    """Folder of the scores that `language_model_scores` stores, whether they are there or not."""
    return derived_dir(features, LM_STEP, LM_VERSION, config.to_dict())


def language_model_texts(features: Features) -> Loader:
    """What language models learn from: the training texts, and the pool, where there is one."""
    # literal names: a test reads here that the test split is not opened
    words = [features.table("train")]
    if POOL in features.splits:
        words.append(features.table("pool"))
    return Loader(_unmarked(pa.concat_tables(words)), task_of(features))


def trained_language_model(
    features: Features, config: LanguageModelConfig, device: torch.device
) -> LanguageModelTrainer:
    """The language model of Eq. (17) to (19) of [Sha2023], trained on `language_model_texts`."""
    learnt = language_model_texts(features)
    trainer = LanguageModelTrainer(
        config, embeddings_of(features), torch.tensor(features.token_counts), device
    )
    for epoch in range(config.num_epochs):
        texts = counted(len(learnt), "text")
        logger.info("language model: epoch %d/%d on %s", epoch + 1, config.num_epochs, texts)
        trainer.train_epoch(learnt.shuffled(config.batch_size, seed=config.seed, epoch=epoch))
    return trainer


def language_model_scores(
    features: Features, config: LanguageModelConfig, device: torch.device, *, may_train: bool = True
) -> Ragged:
    """s_i of Eq. (18) of [Sha2023] for every training token.

    The language model is trained on the first call for these features and this config, on the training texts
    and on the pool, where there is one; later calls, of any process, map the stored scores.

    Args:
        may_train: otherwise the scores have to be there.

    Raises:
        PipelineError: if they are not, or are damaged.
    """

    def build() -> pa.Table:
        if not may_train:
            raise PipelineError(
                "the folder of the features lacks the scores of the language model",
                where=str(features.directory),
                hint="remove this folder; the features are then fetched again, together with the scores",
            )
        loader = training_loader(features)
        trainer = trained_language_model(features, config, device)
        scores = trainer.score(loader.in_order(config.batch_size))
        rows = [scores[row].numpy() for row in range(len(loader))]
        offsets = pa.array(np.concatenate([[0], np.cumsum([len(row) for row in rows])]), pa.int32())
        values = pa.array(np.concatenate(rows), pa.float32())
        return pa.table({LM_STEP: pa.ListArray.from_arrays(offsets, values)})

    table = derived(features, LM_STEP, LM_VERSION, config.to_dict(), build)
    return Ragged(table[LM_STEP])
