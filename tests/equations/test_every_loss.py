"""What holds for every loss: gradient, padding, batch, and the sum written out in plain Python."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from infocal import losses
from infocal.config import Task
from infocal.methods import hardkuma

IS_TOKEN = torch.tensor([[True, True, True, False], [True, True, False, False]])
REAL = [(row, t) for row, length in enumerate((3, 2)) for t in range(length)]
REGRESSION = Task(kind="regression", target_variance=0.05)
CLASSES = Task(kind="classification", num_classes=3)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def naive_regression(output, target, task):
    squares = [(sigmoid(o[0]) - y) ** 2 for o, y in zip(output, target, strict=True)]
    return sum(squares) / len(squares) / (2 * task.target_variance)


def naive_cross_entropy(output, target, task):
    p = [math.exp(o[y]) / sum(math.exp(v) for v in o) for o, y in zip(output, target, strict=True)]
    return -sum(math.log(v) for v in p) / len(p)


def naive_weighted_cross_entropy(output, target, task, class_weight):
    p = [math.exp(o[y]) / sum(math.exp(v) for v in o) for o, y in zip(output, target, strict=True)]
    weight = [class_weight[y] for y in target]
    return -sum(w * math.log(v) for w, v in zip(weight, p, strict=True)) / sum(weight)


def naive_attention_supervision(log_attention, human_rationale, sharpness):
    total = 0.0
    for b, length in enumerate((3, 2)):
        wanted = [math.exp(sharpness * r) for r in human_rationale[b][:length]]
        total -= sum(a * log_attention[b][t] for t, a in enumerate(wanted)) / sum(wanted)
    return total / 2


def naive_information_bottleneck(select_logit, prior_selection_rate):
    total, r = 0.0, prior_selection_rate
    for row, t in REAL:
        p = sigmoid(select_logit[row][t])
        total += p * math.log(p / r) + (1 - p) * math.log((1 - p) / (1 - r))
    return total / 2


def naive_mutual_information(mu, sigma):
    pairs = [(m, s) for row in (0, 1) for m, s in zip(mu[row], sigma[row], strict=True)]
    return sum(0.5 * (m * m + s * s - 1) - math.log(s) for m, s in pairs) / 2


def naive_mean_mutual_information(mu, sigma, over_dimensions):
    assert over_dimensions == "mean"
    return naive_mutual_information(mu, sigma) / len(mu[0])


def naive_discriminator(guider_logit, predictor_logit, form):
    total = 0.0
    for real, fake in zip(guider_logit, predictor_logit, strict=True):
        second = math.log(sigmoid(fake)) if form == "printed" else -math.log(1 - sigmoid(fake))
        total += -math.log(sigmoid(real)) + second
    return total / 2


def naive_generator(predictor_logit):
    return -sum(math.log(sigmoid(v)) for v in predictor_logit) / 2


def naive_invase(predictor_output, guider_output, target, task):
    losses_of = [naive_cross_entropy(o, target, task) for o in (predictor_output, guider_output)]
    return losses_of[0] - losses_of[1]


def naive_language_model(mask, lm_logit):
    successors = [(mask[b][t - 1], mask[b][t], lm_logit[b][t]) for b, t in REAL if t > 0]
    return -sum(before * math.log(sigmoid(here * s)) for before, here, s in successors) / 2


def naive_coherence(mask):
    return sum(abs(mask[b][t] - mask[b][t - 1]) for b, t in REAL if t > 0) / 2


def naive_expected_l0(zero):
    return sum(1 - zero[b][t] for b, t in REAL) / len(REAL)


def naive_expected_coherence(p_select):
    pairs = [(p_select[b][t - 1], p_select[b][t]) for b, t in REAL if t > 0]
    return sum(p * (1 - q) + (1 - p) * q for p, q in pairs) / 2


def naive_expected_language_model(p_select, lm_logit):
    total = 0.0
    for b, t in REAL:
        if t > 0:
            here = p_select[b][t]
            cost = here * math.log1p(math.exp(-lm_logit[b][t])) + (1 - here) * math.log(2)
            total += p_select[b][t - 1] * cost
    return total / 2


def naive_divergence(full, selected, task):
    total = 0.0
    for a, b in zip(full, selected, strict=True):
        p, q = ([math.exp(v) / sum(math.exp(w) for w in logits) for v in logits] for logits in (a, b))
        total += sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))
    return total / len(full)


def naive_regression_divergence(full, selected, task):
    squares = [(sigmoid(a[0]) - sigmoid(b[0])) ** 2 for a, b in zip(full, selected, strict=True)]
    return sum(squares) / len(squares) / (2 * task.target_variance)


def naive_norm(feature):
    return -sum(math.log(math.sqrt(sum(v * v for v in row))) for row in feature) / len(feature)


def naive_rate(select_logit):
    return sum(sigmoid(select_logit[b][t]) for b, t in REAL) / len(REAL)


def naive_negative_sampling(positive_logit, negative_logit):
    total = 0.0
    for b, t in REAL:
        negatives = negative_logit[b][t]
        total -= math.log(sigmoid(positive_logit[b][t]))
        total -= sum(math.log(sigmoid(-s)) for s in negatives) / len(negatives)
    return total / len(REAL)


@dataclass(frozen=True)
class Case:
    """A loss, the shapes of the inputs it is differentiated by, its other arguments and its naive form."""

    loss: Callable[..., Tensor]
    naive: Callable[..., float]
    shapes: dict[str, tuple[int, ...]]
    fixed: dict[str, Any] = field(default_factory=dict)
    positive: tuple[str, ...] = ()
    """Inputs that have to lie in (0.1, 0.9)."""
    mean_of_texts: bool = True
    """Whether the loss is a mean over texts, and not over tokens."""

    @property
    def has_padding(self) -> bool:
        return "is_token" in inspect.signature(self.loss).parameters

    def inputs(self, seed: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        drawn = {n: torch.randn(s, generator=generator).double() for n, s in self.shapes.items()}
        return {n: 0.1 + 0.8 * torch.sigmoid(x) if n in self.positive else x for n, x in drawn.items()}

    def __call__(self, inputs: dict[str, Tensor], is_token: Tensor = IS_TOKEN) -> Tensor:
        return self.loss(**inputs, **self.fixed, **({"is_token": is_token} if self.has_padding else {}))


TOKENS = (2, 4)
CASES = {
    "regression": Case(
        losses.prediction_loss,
        naive_regression,
        {"output": (2, 1)},
        {"target": torch.tensor([0.2, 0.9]).double(), "task": REGRESSION},
    ),
    "classification": Case(
        losses.prediction_loss,
        naive_cross_entropy,
        {"output": (2, 3)},
        {"target": torch.tensor([2, 0]), "task": CLASSES},
    ),
    "weighted_classification": Case(
        losses.prediction_loss,
        naive_weighted_cross_entropy,
        {"output": (2, 3)},
        {
            "target": torch.tensor([2, 0]),
            "task": CLASSES,
            "class_weight": torch.tensor([0.5, 1.0, 2.0]).double(),
        },
        mean_of_texts=False,
    ),
    "attention_supervision": Case(
        losses.attention_supervision,
        naive_attention_supervision,
        {"log_attention": TOKENS, "human_rationale": TOKENS},
        {"sharpness": 2.0},
    ),
    "ib": Case(
        losses.information_bottleneck,
        naive_information_bottleneck,
        {"select_logit": TOKENS},
        {"prior_selection_rate": 0.2},
    ),
    "mi": Case(
        losses.mutual_information,
        naive_mutual_information,
        {"mu": (2, 3), "sigma": (2, 3)},
        positive=("sigma",),
    ),
    "mi_mean": Case(
        losses.mutual_information,
        naive_mean_mutual_information,
        {"mu": (2, 3), "sigma": (2, 3)},
        {"over_dimensions": "mean"},
        positive=("sigma",),
    ),
    "d_standard": Case(
        losses.discriminator_loss,
        naive_discriminator,
        {"guider_logit": (2,), "predictor_logit": (2,)},
        {"form": "standard"},
    ),
    "d_printed": Case(
        losses.discriminator_loss,
        naive_discriminator,
        {"guider_logit": (2,), "predictor_logit": (2,)},
        {"form": "printed"},
    ),
    "g": Case(losses.generator_loss, naive_generator, {"predictor_logit": (2,)}),
    "invase": Case(
        losses.invase_calibration,
        naive_invase,
        {"predictor_output": (2, 3), "guider_output": (2, 3)},
        {"target": torch.tensor([2, 0]), "task": CLASSES},
    ),
    "lm": Case(
        losses.language_model_regularizer,
        naive_language_model,
        {"mask": TOKENS, "lm_logit": TOKENS},
        positive=("mask",),
    ),
    "coherence": Case(losses.coherence, naive_coherence, {"mask": TOKENS}, positive=("mask",)),
    "rate": Case(losses.mean_selection_rate, naive_rate, {"select_logit": TOKENS}, mean_of_texts=False),
    "expected_l0": Case(
        hardkuma.expected_l0, naive_expected_l0, {"zero": TOKENS}, positive=("zero",), mean_of_texts=False
    ),
    "expected_coherence": Case(
        losses.expected_coherence, naive_expected_coherence, {"p_select": TOKENS}, positive=("p_select",)
    ),
    "expected_lm": Case(
        losses.expected_language_model_regularizer,
        naive_expected_language_model,
        {"p_select": TOKENS, "lm_logit": TOKENS},
        positive=("p_select",),
    ),
    "kl": Case(
        losses.prediction_divergence,
        naive_divergence,
        {"full": (2, 3), "selected": (2, 3)},
        {"task": CLASSES},
    ),
    "regression_kl": Case(
        losses.prediction_divergence,
        naive_regression_divergence,
        {"full": (2, 1), "selected": (2, 1)},
        {"task": REGRESSION},
    ),
    "norm": Case(losses.representation_norm, naive_norm, {"feature": (2, 3)}),
    "negative_sampling": Case(
        losses.negative_sampling,
        naive_negative_sampling,
        {"positive_logit": TOKENS, "negative_logit": (*TOKENS, 3)},
        mean_of_texts=False,
    ),
}
every_loss = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_padded_loss = pytest.mark.parametrize(
    "case", [pytest.param(c, id=name) for name, c in CASES.items() if c.has_padding]
)
per_text = [pytest.param(c, id=n) for n, c in CASES.items() if c.mean_of_texts and "target" not in c.fixed]


def test_every_equation_has_its_case():
    functions = [
        f for _, f in inspect.getmembers(losses, inspect.isfunction) if f.__module__ == losses.__name__
    ]
    assert {f.__name__ for f in functions} <= {case.loss.__name__ for case in CASES.values()}


@every_loss
def test_gradient(case):
    inputs = case.inputs(seed=0)
    leaves = tuple(x.requires_grad_() for x in inputs.values())
    assert torch.autograd.gradcheck(lambda *xs: case(dict(zip(inputs, xs, strict=True))), leaves)


@every_loss
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_naive_form(case, seed):
    inputs = case.inputs(seed)
    plain = {name: value.tolist() for name, value in inputs.items()}
    fixed = {n: v.tolist() if isinstance(v, Tensor) else v for n, v in case.fixed.items()}
    assert case(inputs).item() == pytest.approx(case.naive(**plain, **fixed), rel=1e-12)


@every_padded_loss
def test_what_stands_at_padding_changes_nothing(case):
    inputs = case.inputs(seed=1)
    keep = {name: IS_TOKEN if x.dim() == 2 else IS_TOKEN.unsqueeze(-1) for name, x in inputs.items()}
    other = {name: torch.where(keep[name], x, torch.full_like(x, 9.0)) for name, x in inputs.items()}
    assert case(other).item() == case(inputs).item()


@every_padded_loss
def test_more_padding_changes_nothing(case):
    inputs = case.inputs(seed=2)
    longer = {
        name: functional.pad(x, (0, 3) if x.dim() == 2 else (0, 0, 0, 3), value=-7.0)
        for name, x in inputs.items()
    }
    assert case(longer, functional.pad(IS_TOKEN, (0, 3))).item() == pytest.approx(
        case(inputs).item(), rel=1e-14
    )


@pytest.mark.parametrize(
    "case",
    [c for c in CASES.values() if c.mean_of_texts and "reduction" in inspect.signature(c.loss).parameters],
)
def test_unreduced_it_is_each_texts_own(case):
    inputs = case.inputs(seed=3)
    padding = {"is_token": IS_TOKEN} if case.has_padding else {}
    each = case.loss(**inputs, **case.fixed, **padding, reduction="none")
    assert each.shape == (2,)
    assert each[0].item() != each[1].item()
    assert each.mean().item() == pytest.approx(case(inputs).item(), rel=1e-12)


@pytest.mark.parametrize("case", per_text)
def test_a_batch_costs_the_mean_of_its_texts(case):
    inputs = case.inputs(seed=3)
    alone = [case({n: x[[i]] for n, x in inputs.items()}, IS_TOKEN[[i]]).item() for i in (0, 1)]
    assert alone[0] != alone[1]
    assert case(inputs).item() == pytest.approx(sum(alone) / 2, rel=1e-12)
