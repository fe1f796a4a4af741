"""HardKuma [Bastings2019]: golden values of the published code, sampling, and expectations in closed form."""

import json
from pathlib import Path

import pytest
import torch

from infocal.losses import expected_coherence
from infocal.methods.hardkuma import (
    HardKumaConfig,
    HardKumaModel,
    Kuma,
    expected_l0,
    kuma_cdf,
    kuma_quantile,
    p_one,
    p_zero,
    rectified,
)
from tests.small_model import REGRESSION, random_batch, random_embeddings

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "data" / "golden" / "hardkuma.json").read_text(encoding="utf-8")
)["cases"]
every_case = pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['a']}-{case['b']}")
GRID = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000


def kuma(a, b, like=GRID):
    return Kuma(torch.full_like(like, a), torch.full_like(like, b))


@every_case
def test_golden_probabilities(case):
    shapes = kuma(case["a"], case["b"], like=GRID[:1])
    zero, one = p_zero(shapes).item(), p_one(shapes).item()
    # the published code computes in float32 and clamps: its .00058 of a = 3, b = 1 is (1/12)^3 = .000579
    assert zero == pytest.approx(case["p0"], abs=2e-6)
    assert one == pytest.approx(case["p1"], abs=2e-6)
    assert 1 - zero - one == pytest.approx(case["pc"], abs=2e-6)


@every_case
def test_gates_that_are_drawn_follow_the_golden_values(case):
    """The quantile function on an even grid is the distribution: no random number, no luck."""
    drawn = kuma_quantile(kuma(case["a"], case["b"]), GRID)
    assert drawn.mean().item() == pytest.approx(case["mean"], abs=1e-4)
    gates = rectified(drawn)
    assert (gates == 0).double().mean().item() == pytest.approx(case["p0"], abs=1e-4)
    assert (gates == 1).double().mean().item() == pytest.approx(case["p1"], abs=1e-4)
    assert ((gates >= 0) & (gates <= 1)).all()


@pytest.mark.parametrize("k", [0.05, 0.5, 0.9])
def test_the_quantile_undoes_the_distribution(k):
    shapes = kuma(0.7, 2.5, like=GRID[:1])
    assert kuma_quantile(shapes, kuma_cdf(shapes, k)).item() == pytest.approx(k, rel=1e-12)


@pytest.mark.parametrize("shape", [0.01, 1.0, 100.0])
def test_float32_stays_finite_at_the_ends_of_the_shapes(shape):
    for other in (0.01, 100.0):
        a, b = (torch.full((3,), s, requires_grad=True) for s in (shape, other))
        gates = rectified(kuma_quantile(Kuma(a, b), torch.tensor([1e-6, 0.5, 1 - 1e-6])))
        (gates.sum() + p_zero(Kuma(a, b)).sum() + p_one(Kuma(a, b)).sum()).backward()
        assert torch.isfinite(gates).all()
        assert torch.isfinite(a.grad).all() and torch.isfinite(b.grad).all()


def test_gradients():
    a, b = (torch.tensor(v).double().requires_grad_() for v in ([0.5, 1.0, 3.0], [0.5, 3.0, 1.0]))
    u = torch.tensor([0.3, 0.6, 0.8]).double()
    assert torch.autograd.gradcheck(lambda a, b: kuma_quantile(Kuma(a, b), u), (a, b))
    assert torch.autograd.gradcheck(lambda a, b: (p_zero(Kuma(a, b)), p_one(Kuma(a, b))), (a, b))


def test_golden_l0():
    zero, is_token = torch.tensor([[0.25, 0.5, 0.9]]), torch.tensor([[True, True, False]])
    assert expected_l0(zero, is_token).item() == pytest.approx((0.75 + 0.5) / 2)


def test_the_expected_changes_are_those_that_are_drawn():
    """Gates are independent: count the changes of many draws."""
    generator = torch.Generator().manual_seed(0)
    shapes = Kuma(torch.tensor([[0.5, 1.0, 3.0]]), torch.tensor([[0.5, 3.0, 1.0]]))
    u = torch.rand(40_000, 3, generator=generator)
    shown = rectified(kuma_quantile(Kuma(*(s.expand(40_000, 3) for s in shapes)), u)) > 0
    is_token = torch.ones(1, 3, dtype=torch.bool)
    changes = (shown[:, 1:] != shown[:, :-1]).double().sum(dim=1).mean().item()
    assert expected_coherence(1 - p_zero(shapes), is_token).item() == pytest.approx(changes, abs=0.02)
    assert expected_l0(p_zero(shapes), is_token).item() == pytest.approx(
        shown.double().mean().item(), abs=0.01
    )


@pytest.mark.parametrize("start", [0.5, 0.9])
def test_it_starts_at_the_rate_it_is_told(start):
    config = HardKumaConfig(hidden_size=3, start_selection_rate=start, embedding_dropout=0.0)
    torch.manual_seed(0)
    model = HardKumaModel(config, REGRESSION, 0.01 * random_embeddings())
    batch = random_batch([6, 3, 2, 5])
    p = model.select_probability(model.embed(batch.words), batch.is_token)[batch.is_token]
    assert p.mean().item() == pytest.approx(start, abs=0.02)
