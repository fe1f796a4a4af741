"""The cells against published numbers and torch's own LSTM; gates, padding and directions of every form."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from infocal import kernels
from infocal.kernels import build
from infocal.nn.encoders import LSTM, RCNN, Embedded, Recurrent, pool

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "golden" / "rcnn_cell.json").read_text())
COMPILED = pytest.param(
    "cpp",
    marks=pytest.mark.skipif(
        build.compiler() is None, reason="no C++ compiler here: the kernel cannot be built"
    ),
)
FORMS = ["plain", "torch", COMPILED]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(kernels.VARIABLE, request.param)
    return request.param


def encoder(kind: str, seed: int = 0) -> Recurrent:
    torch.manual_seed(seed)
    made = {"rcnn": RCNN, "lstm": LSTM}[kind](4, 6)
    for parameter in made.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return made


def whole(vectors: Tensor) -> Embedded:
    """Vectors B T E as the words of a batch that repeats none."""
    batch, length, _ = vectors.shape
    return Embedded(vectors.flatten(0, 1), torch.arange(batch * length).view(batch, length))


def golden_cell() -> RCNN:
    weights = {name: torch.tensor(value) for name, value in GOLDEN["weights"].items()}
    cell = RCNN(2, 2)
    projection = weights["input_projection_rows_lambda_W1_W2"].T.float()
    cell.input_weight.data = torch.cat([projection, projection], dim=1)
    cell.recurrent_weight.data = weights["U_l"].T.expand(2, 2, 2).contiguous()
    cell.gate_bias.data = weights["b_l"].expand(2, 1, 2).contiguous()
    cell.output_bias.data = weights["b"].expand(2, 1, 2).contiguous()
    return cell


@pytest.mark.parametrize("case", range(len(GOLDEN["cases"])))
def test_rcnn_gives_the_published_cell_s_numbers(form: str, case: int) -> None:
    values = GOLDEN["cases"][case]
    vectors, expected = torch.tensor([values["x"]]).float(), torch.tensor(values["h"]).float()
    gate = torch.tensor([values.get("mask", [1] * len(expected))]).float()
    states = golden_cell()(whole(vectors), gate)[0]
    torch.testing.assert_close(states[:, :2], expected, rtol=0, atol=1e-6)
    # the same weights stand in both directions: the second one gives the same for the text turned round
    turned = golden_cell()(whole(vectors.flip(1)), gate.flip(1))[0]
    torch.testing.assert_close(turned[:, 2:].flip(0), expected, rtol=0, atol=1e-6)


def test_lstm_with_open_gates_is_torch_s_lstm(form: str) -> None:
    ours = encoder("lstm")
    assert isinstance(ours, LSTM)
    theirs = nn.LSTM(4, 6, bidirectional=True, batch_first=True)
    for direction, suffix in enumerate(("", "_reverse")):
        columns = ours.input_weight.data[:, direction * 24 : (direction + 1) * 24]
        getattr(theirs, f"weight_ih_l0{suffix}").data = columns.T.contiguous()
        getattr(theirs, f"weight_hh_l0{suffix}").data = ours.recurrent_weight.data[direction].T.contiguous()
        getattr(theirs, f"bias_ih_l0{suffix}").data = ours.bias.data[direction, 0].clone()
        getattr(theirs, f"bias_hh_l0{suffix}").data.zero_()
    vectors = torch.randn(3, 7, 4)
    expected, _ = theirs(vectors)
    torch.testing.assert_close(ours(whole(vectors), torch.ones(3, 7)), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["rcnn", "lstm"])
def test_padding_changes_nothing(form: str, kind: str) -> None:
    made = encoder(kind)
    vectors, gate, towards = torch.randn(1, 5, 4), torch.ones(1, 5), torch.randn(1, 5, 12)

    def alone() -> tuple[Tensor, list[Tensor]]:
        return outcome(made, vectors, gate, towards)

    def in_company() -> tuple[Tensor, list[Tensor]]:
        # padded by three positions of a word that must not count, beside a longer text that is not looked at
        padded = torch.cat([torch.cat([vectors, torch.full((1, 3, 4), 9.0)], 1), torch.randn(1, 8, 4)])
        gates = torch.cat([torch.cat([gate, torch.zeros(1, 3)], 1), torch.ones(1, 8)])
        wanted = torch.zeros(2, 8, 12)
        wanted[:1, :5] = towards
        return outcome(made, padded, gates, wanted)

    states, gradients = alone()
    padded_states, padded_gradients = in_company()
    torch.testing.assert_close(padded_states[:1, :5], states, rtol=0, atol=1e-6)
    assert padded_states[0, 5:].abs().max() == 0
    for got, expected in zip(padded_gradients, gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def outcome(made: Recurrent, vectors: Tensor, gate: Tensor, towards: Tensor) -> tuple[Tensor, list[Tensor]]:
    states = made(whole(vectors), gate)
    return states.detach(), list(torch.autograd.grad((states * towards).sum(), list(made.parameters())))


@pytest.mark.parametrize("kind", ["rcnn", "lstm"])
def test_gated_off_tokens_leave_the_state_of_the_rest(form: str, kind: str) -> None:
    made, vectors = encoder(kind), torch.randn(1, 6, 4)
    keep = torch.tensor([True, False, False, True, True, False])
    states = made(whole(vectors), keep.float().unsqueeze(0))
    without = made(whole(vectors[:, keep]), torch.ones(1, 3))
    torch.testing.assert_close(states[:, keep], without, rtol=0, atol=1e-6)
    assert states[:, ~keep].abs().max() == 0


@pytest.mark.parametrize("kind", ["rcnn", "lstm"])
def test_the_second_direction_reads_from_the_end(form: str, kind: str) -> None:
    made, vectors = encoder(kind), torch.randn(1, 5, 4)
    before = made(whole(vectors), torch.ones(1, 5))[0].detach()
    vectors[0, 2] += 1
    changed = (made(whole(vectors), torch.ones(1, 5))[0] - before).abs() > 1e-6
    assert changed[:, :6].any(1).tolist() == [False, False, True, True, True]
    assert changed[:, 6:].any(1).tolist() == [True, True, True, False, False]


@pytest.mark.parametrize("kind", ["rcnn", "lstm"])
def test_repeated_words_add_up_their_gradients(form: str, kind: str) -> None:
    made, words = encoder(kind), torch.randn(3, 4, requires_grad=True)
    index = torch.tensor([[0, 2, 0, 1], [1, 1, 2, 0]])
    towards = torch.randn(2, 4, 12)
    (made(Embedded(words, index), torch.ones(2, 4)) * towards).sum().backward()
    apart = words.detach()[index].requires_grad_()
    (made(whole(apart), torch.ones(2, 4)) * towards).sum().backward()
    expected = torch.zeros(3, 4).index_add(0, index.flatten(), apart.grad.flatten(0, 1))
    torch.testing.assert_close(words.grad, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["rcnn", "lstm"])
def test_the_gradient_by_a_closed_gate_knows_the_word(form: str, kind: str) -> None:
    made, vectors, towards = encoder(kind), torch.randn(1, 5, 4), torch.randn(1, 5, 12)

    def states_and_gradient() -> tuple[Tensor, Tensor]:
        gate = torch.tensor([[1.0, 0.0, 0.0, 1.0, 0.0]], requires_grad=True)
        states = made(whole(vectors), gate)
        return states.detach(), torch.autograd.grad((states * towards).sum(), gate)[0][0]

    states, gradient = states_and_gradient()
    vectors[0, 1] += 1
    swapped_states, swapped = states_and_gradient()
    assert torch.equal(swapped_states, states)
    changed = (swapped - gradient).abs() > 1e-4
    assert changed.tolist() == [False, True, False, False, False]


def test_an_encoder_without_a_cell_says_so() -> None:
    class Nothing(Recurrent):
        num_projections = 1

    with pytest.raises(NotImplementedError, match="Nothing has no recurrence"):
        Nothing(4, 6)(whole(torch.randn(1, 2, 4)), torch.ones(1, 2))


IS_TOKEN = torch.tensor([[True, True, True, False]])


def test_pool_takes_the_maximum_of_tokens_and_the_last_state_of_each_direction() -> None:
    states = torch.tensor([[[1.0, -5.0], [3.0, -2.0], [0.0, 0.0], [9.0, 9.0]]])
    gate = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    assert pool(states, gate, IS_TOKEN, "max").tolist() == [[3.0, 0.0]]
    assert pool(states, gate, IS_TOKEN, "last").tolist() == [[3.0, -5.0]]


def test_pool_by_the_mean_divides_by_the_seen_tokens_alone() -> None:
    states = torch.tensor([[[1.0, -5.0], [3.0, -2.0], [0.0, 0.0], [0.0, 0.0]]])
    # two of three tokens are seen: (1 + 3) / 2, (-5 - 2) / 2
    assert pool(states, torch.tensor([[1.0, 1.0, 0.0, 0.0]]), IS_TOKEN, "mean").tolist() == [[2.0, -3.5]]
    # tokens seen in part count in part: 4 / 1.25, -7 / 1.25
    part = pool(states, torch.tensor([[1.0, 0.25, 0.0, 0.0]]), IS_TOKEN, "mean")
    torch.testing.assert_close(part, torch.tensor([[3.2, -5.6]]))
    # less than one token in all is not blown up to one
    assert pool(states, torch.tensor([[0.25, 0.25, 0.0, 0.0]]), IS_TOKEN, "mean").tolist() == [[4.0, -7.0]]


@pytest.mark.parametrize("how", ["mean", "max", "last"])
def test_pool_gives_zero_where_nothing_is_seen(how: str) -> None:
    assert pool(torch.zeros(1, 4, 2), torch.zeros(1, 4), IS_TOKEN, how).tolist() == [[0.0, 0.0]]
