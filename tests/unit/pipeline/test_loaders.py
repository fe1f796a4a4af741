import itertools
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from feature_store.store import FeatureRequest, Features, load_features, open_features
from infocal.batch import Batch
from infocal.config import Task
from infocal.language_model_config import LanguageModelConfig
from infocal.methods.infocal.language_model import LanguageModelTrainer
from pipeline.base.errors import PipelineError
from pipeline.training import loaders
from pipeline.training.loaders import (
    Loader,
    Ragged,
    embeddings_of,
    language_model_scores,
    prefetched,
    task_of,
)
from tests.small_store import sample_features
from tests.small_study import LANGUAGE_MODEL

REGRESSION = Task(kind="regression")
CPU = torch.device("cpu")


def make_table(
    lengths: list[int], rationales: list[list[int] | None] | None = None, targets: Any = None
) -> pa.Table:
    """Row i holds the tokens 100 i + 1, 100 i + 2, ...: a token says which row and place it is from."""
    ids = [[100 * i + j + 1 for j in range(length)] for i, length in enumerate(lengths)]
    values = [i / 100 for i in range(len(lengths))] if targets is None else targets
    return pa.table(
        {
            "example_id": [str(i) for i in range(len(lengths))],
            "tokens": pa.array([[str(i) for i in row] for row in ids], pa.list_(pa.string())),
            "token_ids": pa.array(ids, pa.list_(pa.int32())),
            "target": pa.array(values, pa.float32() if targets is None else pa.int32()),
            "rationale": pa.array(rationales or [None] * len(lengths), pa.list_(pa.uint16())),
        }
    )


def random_lengths(num: int) -> list[int]:
    return np.random.default_rng(0).integers(1, 30, num).tolist()


def rows(batches: Any) -> list[list[int]]:
    return [batch.index.tolist() for batch in batches]


# ---------------------------------------------------------------------------------------------- ragged


def test_ragged_rows_of_a_column():
    column = pa.chunked_array([pa.array([[1, 2], [], [3]], pa.list_(pa.int32()))])
    ragged = Ragged(column)
    assert len(ragged) == 3
    assert ragged.lengths.tolist() == [2, 0, 1]
    assert [ragged[i].tolist() for i in range(3)] == [[1, 2], [], [3]]


@pytest.mark.parametrize("chunks", [1, 2])
def test_ragged_rows_of_a_slice_are_the_slices_own(chunks: int):
    part = pa.array([[1, 2], [3], [4, 5, 6], [7]], pa.list_(pa.int32()))
    column = pa.chunked_array([part] * chunks).slice(1, 2)
    ragged = Ragged(column)
    assert ragged.lengths.tolist() == [1, 3]
    assert [ragged[i].tolist() for i in range(2)] == [[3], [4, 5, 6]]


def test_ragged_rows_run_on_over_chunks():
    chunks = [pa.array(part, pa.list_(pa.int32())) for part in ([[1, 2], []], [], [[3]], [[4, 5, 6], [7]])]
    ragged = Ragged(pa.chunked_array(chunks))
    assert [ragged[i].tolist() for i in range(len(ragged))] == [[1, 2], [], [3], [4, 5, 6], [7]]
    assert ragged.lengths.tolist() == [2, 0, 1, 3, 1]


def test_ragged_views_its_chunks_without_a_copy():
    arrays = [pa.array(part, pa.list_(pa.int32())) for part in ([[1, 2], [3]], [[4], [5, 6]])]
    ragged = Ragged(pa.chunked_array(arrays))
    first, second = (array.values.buffers()[1].address for array in arrays)
    assert ragged[1].__array_interface__["data"][0] == first + 2 * 4
    assert ragged[2].__array_interface__["data"][0] == second


# --------------------------------------------------------------------------------------------- batches


def test_an_epoch_holds_every_row_once():
    loader = Loader(make_table(random_lengths(101)), REGRESSION)
    found = rows(loader.shuffled(8, seed=0, epoch=0))
    assert sorted(itertools.chain(*found)) == list(range(101))
    assert len(found) == loader.num_batches(8) == 13
    assert sorted(len(batch) for batch in found) == [5] + [8] * 12


def test_the_order_is_fixed_by_seed_and_epoch():
    loader = Loader(make_table(random_lengths(64)), REGRESSION)

    def order(seed: int, epoch: int) -> list[list[int]]:
        return rows(loader.shuffled(8, seed=seed, epoch=epoch))

    assert order(0, 1) == order(0, 1)
    others = [order(0, 1), order(0, 2), order(1, 1), order(1, 0), order(2, 0)]
    assert all(a != b for i, a in enumerate(others) for b in others[:i])


@pytest.mark.parametrize("start", [0, 1, 5, 8])
def test_start_gives_the_tail_of_the_same_epoch(start: int):
    loader = Loader(make_table(random_lengths(64)), REGRESSION)
    whole = rows(loader.shuffled(8, seed=3, epoch=2))
    assert rows(loader.shuffled(8, seed=3, epoch=2, start=start)) == whole[start:]


def test_texts_of_like_length_share_a_batch_but_batches_come_in_random_order():
    lengths = random_lengths(400)
    loader = Loader(make_table(lengths), REGRESSION)
    found = rows(loader.shuffled(8, seed=0, epoch=0))
    spread = [max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in found]
    assert np.mean(spread) < 2
    means = [np.mean([lengths[i] for i in batch]) for batch in found]
    assert means != sorted(means)


def test_rows_beyond_one_pool_of_batches_are_all_there():
    # a pool is 50 batches; 2 * 50 + 1 batches of one row
    loader = Loader(make_table([2] * 101), REGRESSION)
    assert sorted(itertools.chain(*rows(loader.shuffled(1, seed=0, epoch=0)))) == list(range(101))


def test_in_order_gives_all_texts_once_the_longest_last():
    lengths = [5, 1, 3, 3, 2]
    loader = Loader(make_table(lengths), REGRESSION)
    assert rows(loader.in_order(2)) == [[1, 4], [2, 3], [0]]


def test_a_batch_holds_the_rows_own_values_and_padding_is_never_real():
    loader = Loader(make_table([3, 1, 2], [[0, 2], None, []]), REGRESSION)
    batch = loader.batch(np.array([1, 0, 2]))
    assert batch.token_ids.tolist() == [[101, 0, 0], [1, 2, 3], [201, 202, 0]]
    assert batch.is_token.tolist() == [[True, False, False], [True, True, True], [True, True, False]]
    assert batch.human_rationale.tolist() == [[False] * 3, [True, False, True], [False] * 3]
    assert batch.index.tolist() == [1, 0, 2]
    assert batch.target.tolist() == pytest.approx([0.01, 0.0, 0.02])
    assert batch.target.dtype == torch.float32


def test_every_batch_of_an_epoch_is_padded_with_zeros_only():
    loader = Loader(make_table(random_lengths(50), [[0]] * 50), REGRESSION, some_scores(random_lengths(50)))
    for batch in loader.shuffled(8, seed=0, epoch=0):
        padding = ~batch.is_token
        assert not batch.token_ids[padding].any()
        assert not batch.lm_logit[padding].any()
        assert not batch.human_rationale[padding].any()
        assert (batch.token_ids[batch.is_token] > 0).all()
        assert batch.is_token[:, -1].any(), "padded further than the longest text"


def test_targets_of_classes_are_whole_numbers():
    task = Task(kind="classification", num_classes=3)
    batch = Loader(make_table([1, 1, 1], targets=[2, 0, 1]), task).batch(np.arange(3))
    assert (batch.target.tolist(), batch.target.dtype) == ([2, 0, 1], torch.int64)


def test_a_slice_of_a_table_gives_the_slices_rows():
    rationales: list[list[int] | None] = [[0], None, [1], [0, 1]]
    whole = make_table([2, 1, 3, 2], rationales)
    loader = Loader(whole.slice(1, 2), REGRESSION)
    assert len(loader) == 2
    batch = loader.batch(np.array([0, 1]))
    assert batch.token_ids.tolist() == [[101, 0, 0], [201, 202, 203]]
    assert batch.human_rationale.tolist() == [[False] * 3, [False, True, False]]
    assert [None if gold is None else gold.tolist() for gold in loader.golds()] == [
        None,
        [False, True, False],
    ]


# -------------------------------------------------------------------------------------------- prefetching


def test_prefetched_batches_are_the_same_in_order_each_prepared_once():
    loader = Loader(make_table([3, 1, 2, 5, 4, 2, 6, 1, 3, 2]), REGRESSION)
    prepared: list[Batch] = []

    def prepare(batch: Batch) -> Batch:
        prepared.append(batch)
        return batch

    ahead = list(prefetched(loader.shuffled(3, seed=0, epoch=0), prepare))
    assert rows(ahead) == rows(loader.shuffled(3, seed=0, epoch=0))
    assert rows(prepared) == rows(ahead)


def test_the_next_batch_is_prepared_while_one_is_used():
    made = threading.Event()
    numbers = iter(range(5))

    def source() -> Any:
        for number in numbers:
            if number == 1:
                made.set()
            yield number

    batches = prefetched(source(), lambda batch: batch)
    assert next(batches) == 0
    assert made.wait(timeout=60)
    batches.close()
    assert next(numbers) <= 3  # nobody reads on once the batches are not wanted any more


def test_an_error_in_the_thread_reaches_the_trainer():
    def source() -> Any:
        yield 1
        raise ValueError("a bad row")

    batches = prefetched(source(), lambda batch: batch)
    assert next(batches) == 1
    with pytest.raises(ValueError, match="a bad row"):
        next(batches)


# ------------------------------------------------------------------------------- language-model scores


def some_scores(lengths: list[int]) -> Ragged:
    """Row i, token j: i + j / 1000."""
    rows = [(i + np.arange(n) / 1000).tolist() for i, n in enumerate(lengths)]
    return Ragged(pa.chunked_array([pa.array(rows, pa.list_(pa.float32()))]))


def test_scores_land_on_their_tokens():
    lengths = [3, 1, 2]
    loader = Loader(make_table(lengths), REGRESSION, some_scores(lengths))
    batch = loader.batch(np.array([2, 0]))
    assert batch.lm_logit[0].tolist() == pytest.approx([2.0, 2.001, 0.0])
    assert batch.lm_logit[1].tolist() == pytest.approx([0.0, 0.001, 0.002])


def test_without_scores_they_are_zero():
    assert not Loader(make_table([3]), REGRESSION).batch(np.array([0])).lm_logit.any()


@pytest.mark.parametrize("lengths", [[3, 1], [3, 2, 1], [3, 1, 2, 2]])
def test_scores_of_other_texts_are_refused(lengths: list[int]):
    with pytest.raises(
        ValueError, match=f"language-model scores of {len(lengths)} texts do not fit the 3 texts"
    ):
        Loader(make_table([3, 1, 2]), REGRESSION, some_scores(lengths))


def test_golds_equal_the_table():
    features = sample_features()
    for split in ("train", "val_annotated"):
        table = features.table(split)
        golds = Loader(table, task_of(features)).golds()
        stored = table["rationale"].to_pylist()
        found = [None if gold is None else np.flatnonzero(gold).tolist() for gold in golds]
        assert found == stored
        assert [len(g) for g in golds if g is not None] == [
            len(ids) for ids, s in zip(table["token_ids"].to_pylist(), stored, strict=True) if s is not None
        ]
    assert any(gold is not None and gold.any() for gold in golds), "the annotated split has rationales"


def test_the_task_and_vectors_of_features():
    features = sample_features()
    task = task_of(features)
    assert task.kind == "regression"
    assert (task.target_mean, task.target_variance) == (
        features.task.target_mean,
        features.task.target_variance,
    )
    vectors = embeddings_of(features)
    np.testing.assert_array_equal(vectors.numpy(), features.embeddings)
    vectors[0] = 1.0  # the copy may be written to, the cache may not
    assert not features.embeddings[0].any()


@pytest.fixture(scope="module")
def scored() -> tuple[Features, Ragged]:
    features = sample_features()
    return features, language_model_scores(features, LanguageModelConfig(**LANGUAGE_MODEL), CPU)


def test_every_training_token_is_scored(scored: tuple[Features, Ragged]):
    features, scores = scored
    loader = Loader(features.table("train"), task_of(features), scores)  # refuses scores that do not fit
    batch: Batch = next(loader.shuffled(16, seed=0, epoch=0))
    # the first token has no context, hence no score; the others have one
    assert not batch.lm_logit[:, 0].any()
    assert (batch.lm_logit[:, 1:][batch.is_token[:, 1:]] != 0).float().mean() > 0.99
    assert all(np.isfinite(scores[row]).all() for row in range(len(scores)))


def refuse(*args: object, **kwargs: object):
    raise AssertionError("the language model was trained again")


def test_the_language_model_is_trained_once(scored: tuple[Features, Ragged], monkeypatch: pytest.MonkeyPatch):
    features, first = scored
    monkeypatch.setattr(loaders, "LanguageModelTrainer", refuse)
    config = LanguageModelConfig(**LANGUAGE_MODEL)
    # opened anew, as a worker does
    again = language_model_scores(load_features(Path(features.directory)), config, CPU)
    assert all(np.array_equal(again[row], first[row]) for row in range(len(first)))
    with pytest.raises(AssertionError, match="trained again"):
        language_model_scores(features, LanguageModelConfig(**LANGUAGE_MODEL | {"seed": 1}), CPU)


def test_the_language_model_learns_from_a_pool_and_scores_the_training_texts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    request = FeatureRequest(
        aspect="palate", sample=True, embedding="random", options={"pool": "vectors"}, cache_dir=tmp_path
    )
    features = open_features(request)
    learnt = []
    train_epoch = LanguageModelTrainer.train_epoch
    monkeypatch.setattr(
        LanguageModelTrainer,
        "train_epoch",
        lambda trainer, batches: train_epoch(trainer, watched(batches, learnt)),
    )
    scores = language_model_scores(features, LanguageModelConfig(**LANGUAGE_MODEL), CPU)
    texts = [features.table(split)["token_ids"].to_pylist() for split in ("train", "pool")]
    assert sorted(learnt) == sorted(texts[0] + texts[1])
    assert scores.lengths.tolist() == [len(text) for text in texts[0]]


def watched(batches: Iterable[Batch], texts: list[list[int]]) -> Iterator[Batch]:
    """The batches; keeps the tokens of each text."""
    for batch in batches:
        texts += [row[real].tolist() for row, real in zip(batch.token_ids, batch.is_token, strict=True)]
        yield batch


def test_a_machine_that_may_not_train_it_says_what_is_missing(scored: tuple[Features, Ragged]):
    features, _ = scored
    other = LanguageModelConfig(**LANGUAGE_MODEL | {"seed": 1})
    folder = loaders.language_model_dir(features, other)
    with pytest.raises(PipelineError, match=f"{features.directory}: the folder of the features lacks"):
        language_model_scores(features, other, CPU, may_train=False)
    assert not folder.exists()
