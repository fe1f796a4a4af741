"""How loud each term is at the output of the part that it trains."""

import math

import pytest
import torch

from infocal import gradient_shares
from infocal.gradient_shares import Heard, medians, shares
from infocal.methods.infocal.trainer import InfoCalTrainer
from tests.small_model import REGRESSION, random_batch, random_batches, random_embeddings, small_trainer


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def values(heard):
    return {name: share.item() for name, share in shares(heard).items()}


def test_golden_shares():
    # gradients at (x, y): sp (3, 4), of norm 5; a (0, 1); b (2, 0) times its weight 1/2
    x, y = (torch.tensor([1.0], requires_grad=True) for _ in range(2))
    terms = {"sp": (3 * x + 4 * y).sum(), "a": y.sum(), "b": 0.5 * (2 * x).sum()}
    found = values(Heard((x, y), "sp", terms))
    assert found == pytest.approx({"a": 0.2, "b": 0.2})


def test_what_does_not_reach_the_part_has_no_share():
    x, other = (torch.tensor([1.0], requires_grad=True) for _ in range(2))
    terms = {"sp": x.sum(), "elsewhere": other.sum(), "constant": torch.tensor(2.0)}
    assert values(Heard((x,), "sp", terms)) == {}
    assert values(Heard((other,), "sp", terms)) == {}, "the reference does not reach it"


def test_a_reference_without_a_gradient_gives_no_number():
    x = torch.tensor([1.0], requires_grad=True)
    (share,) = shares(Heard((x,), "sp", {"sp": 0 * x.sum(), "a": x.sum()})).values()
    assert share.isnan()
    assert medians({"a": [share]}) == {}


def test_the_median_is_of_what_could_be_measured():
    measured = {"a": [torch.tensor(v) for v in (3.0, math.nan, 1.0, 2.0)]}
    assert medians(measured) == {"a": 2.0}


def test_the_graph_stays_for_the_update():
    x = torch.tensor([2.0], requires_grad=True)
    y = x.exp()
    terms = {"sp": y.square().sum(), "a": y.sum()}
    shares(Heard((y,), "sp", terms))
    sum(terms.values()).backward()
    assert x.grad.item() == pytest.approx(2 * math.exp(4) + math.exp(2), rel=1e-5)


def test_one_batch_in_fifty_is_measured_and_always_the_first(monkeypatch):
    measured = []
    original = InfoCalTrainer._measure_shares
    monkeypatch.setattr(
        InfoCalTrainer,
        "_measure_shares",
        lambda self, terms, rest: (measured.append(self.position), original(self, terms, rest)),
    )
    batches = [random_batch([3, 2], seed) for seed in range(101)]
    small_trainer(num_batches=101).train_epoch(batches)
    assert measured == [0, 50, 100]
    measured.clear()
    small_trainer(num_batches=2).train_epoch(batches[:2])
    assert measured == [0]


def test_an_epoch_has_the_median_of_its_batches(monkeypatch):
    monkeypatch.setattr(gradient_shares, "EVERY", 1)
    trainer = small_trainer(lambda_ib=0.5, average_decay=0.0)
    found = []
    original = trainer._measure_shares

    def watched(terms, rest):
        original(terms, rest)
        found.append({name: given[-1].item() for name, given in trainer.measured_shares.items()})

    monkeypatch.setattr(trainer, "_measure_shares", watched)
    trainer.train_epoch(random_batches(3))
    assert len(found) == 3
    for name, share in trainer.gradient_shares.items():
        assert share == pytest.approx(sorted(one[name] for one in found)[1]), name
    assert trainer.measured_shares == {}


def test_the_shares_of_infocal_are_those_of_their_weights(monkeypatch):
    """Twice the weight is twice the share; L_mi is measured at the guider, all else at the selector."""
    monkeypatch.setattr(gradient_shares, "EVERY", 1)
    weights = {"ib": 0.02, "g": 1.0, "mi": 0.1, "lm": 0.05, "coherence": 0.03}
    batch = random_batch([6, 5, 3])

    def shares_at(factor):
        named = {f"lambda_{name}": factor * weight for name, weight in weights.items()}
        trainer = small_trainer(target_selection_rate=0.2, coherence_form="expected", **named)
        trainer.train_epoch([batch])
        return trainer.gradient_shares

    once, twice = shares_at(1), shares_at(2)
    assert set(once) == {*weights, "rate"}
    assert all(share > 0 for share in once.values())
    for name in weights:
        assert twice[name] == pytest.approx(2 * once[name], rel=1e-4), name
    assert twice["rate"] == pytest.approx(once["rate"], rel=1e-4)


def test_the_share_of_the_bottleneck_is_that_of_its_derivative():
    """By hand: d KL / d logit = p (1 - p) (logit - logit of the prior), divided by the number of texts."""
    trainer = small_trainer(lambda_ib=0.7, prior_selection_rate=0.2, embedding_dropout=0.0)
    batch = random_batch([6, 5, 3])
    terms, _, forward = trainer.step_terms(batch)
    found = trainer.heard(terms, forward)[0]
    logit = forward.select_logit
    p = torch.sigmoid(logit)
    by_hand = 0.7 * p * (1 - p) * (logit - math.log(0.25)) * batch.is_token / 3
    (of_sp,) = torch.autograd.grad(terms["sp"], logit, retain_graph=True)
    assert values(found)["ib"] == pytest.approx((by_hand.norm() / of_sp.norm()).item(), rel=1e-5)


def test_a_dense_row_has_no_selector_to_hear_anything():
    trainer = small_trainer(target_selection_rate=1.0)
    trainer.train_epoch(random_batches(3))
    assert set(trainer.gradient_shares) == {"mi"}


def test_a_state_of_before_there_were_shares_is_read():
    state = small_trainer().state_dict()
    del state["measured_shares"]
    trainer = InfoCalTrainer(
        small_trainer().config,
        REGRESSION,
        random_embeddings(),
        steps_per_epoch=3,
        seed=1,
        device=torch.device("cpu"),
    )
    trainer.load_state_dict(state)
    assert trainer.measured_shares == {}
