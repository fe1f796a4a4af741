"""Comprehensiveness, sufficiency and AOPC of a model, against the same read text by text and mask by mask."""

import numpy as np
import pytest
import torch

from infocal.batch import Batch, Words
from infocal.faithfulness import model_faithfulness
from infocal.methods.infocal.model import InfoCal
from infocal.metrics.scores import AOPC_SHARES, aopc_scores, faithfulness_scores
from tests.small_model import CLASSES, random_batches, random_embeddings, small_config

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model() -> InfoCal:
    """Weights so large that masks and predictions differ from text to text."""
    torch.manual_seed(3)
    made = InfoCal(small_config(start_selection_rate=0.5), CLASSES, random_embeddings())
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3)
    return made.eval()


def alone(batch: Batch, row: int) -> tuple[Words, torch.Tensor]:
    length = int(batch.is_token[row].sum())
    return Words.of(batch.token_ids[row : row + 1, :length]), batch.is_token[row : row + 1, :length]


@torch.no_grad()
def naive(model: InfoCal, batches: list[Batch]) -> dict[str, float]:
    full, without, only = [], [], []
    shares: dict[tuple[float, bool], list[np.ndarray]] = {}
    for batch in batches:
        for row in range(len(batch)):
            words, is_token = alone(batch, row)
            found = model.infer(words, is_token)

            def p(mask: torch.Tensor, words=words, is_token=is_token) -> np.ndarray:
                return model.predict_from(words, is_token, mask)[0].numpy()

            full.append(p(torch.ones_like(found.mask)))
            without.append(p(1 - found.mask))
            only.append(p(found.mask))
            order = np.argsort(-found.select_probability[0].numpy(), kind="stable")
            for share in AOPC_SHARES:
                top = torch.zeros_like(found.mask)
                top[0, order[: int(np.ceil(share * len(order)))]] = 1
                shares.setdefault((share, False), []).append(p(1 - top))
                shares.setdefault((share, True), []).append(p(top))
    kept, removed = (
        np.stack([np.array(shares[share, keep]) for share in AOPC_SHARES]) for keep in (True, False)
    )
    return faithfulness_scores(np.array(full), np.array(without), np.array(only)) | aopc_scores(
        np.array(full), removed, kept
    )


def test_it_is_what_each_text_gives_alone(model: InfoCal):
    batches = random_batches(3, CLASSES)
    (found,) = model_faithfulness(model, batches, CPU)
    assert found == pytest.approx(naive(model, batches), abs=1e-5)
    assert abs(found["comprehensiveness"]) > 1e-3, "the case tells removing from keeping"
    assert found["comprehensiveness"] != pytest.approx(found["sufficiency"], abs=1e-3)


def test_the_selector_reads_each_batch_once(model: InfoCal, monkeypatch: pytest.MonkeyPatch):
    """The selection is the same for all 13 masks that are tried."""
    calls = []
    select = model.select_probability
    monkeypatch.setattr(model, "select_probability", lambda *given: (calls.append(1), select(*given))[1])
    model_faithfulness(model, random_batches(2, CLASSES), CPU)
    assert len(calls) == 2


def test_a_model_that_ignores_its_text_rests_on_nothing(model: InfoCal):
    deaf = InfoCal(small_config(), CLASSES, random_embeddings())
    torch.nn.init.zeros_(deaf.output.weight)
    (found,) = model_faithfulness(deaf, random_batches(1, CLASSES), CPU)
    assert found["comprehensiveness"] == found["sufficiency"] == found["comprehensiveness_aopc"] == 0


def test_the_model_is_left_in_the_mode_it_was_in(model: InfoCal):
    model.train()
    model_faithfulness(model, random_batches(1, CLASSES), CPU)
    assert model.training
    model.eval()
    model_faithfulness(model, random_batches(1, CLASSES), CPU)
    assert not model.training
