"""The convolution, by hand and against torch's own; and what every encoder keeps, shared or not."""

import pytest
import torch
from torch.nn import functional

from infocal.encoder_registry import ENCODERS
from infocal.methods.infocal.guider import Guider
from infocal.methods.infocal.model import InfoCal
from infocal.nn.cnn import CNN, WINDOW
from infocal.nn.encoders import Embedded, Encoder, build_encoder
from pipeline.training.weights import load_weights, save_weights
from tests.small_encoder import WORD_ENCODERS
from tests.small_model import CLASSES, EMBEDDING_SIZE, random_batch, random_embeddings, small_config


def encoder(embedding_size=4, hidden_size=3):
    torch.manual_seed(0)
    made = CNN(embedding_size, hidden_size)
    torch.nn.init.normal_(made.bias)
    return made


def whole(vectors):
    """Vectors B T E as the words of a batch that repeats none."""
    batch, length, _ = vectors.shape
    return Embedded(vectors.flatten(0, 1), torch.arange(batch * length).view(batch, length))


def as_convolution(made, inputs):
    """The same by torch's own convolution over the inputs B T E."""
    size = made.output_size
    kernel = torch.stack([part.T for part in made.input_weight.split(size, dim=1)], dim=-1)  # Z E W
    return torch.tanh(functional.conv1d(inputs.mT, kernel, made.bias, padding=WINDOW // 2).mT)


def test_golden_value():
    # one filter pair, one dimension; the weights of the first filter for the words at -2 ... 2
    made = CNN(1, 1)
    with torch.no_grad():
        made.input_weight.copy_(torch.tensor([[0.1, 0, 0.2, 0, 0.3, 0, 0.4, 0, 0.5, 0]]))
        made.bias.copy_(torch.tensor([0.05, 0.0]))
    states = made(whole(torch.tensor([[[1.0], [2.0], [3.0]]])), torch.tensor([[1.0, 0.0, 1.0]]))
    # at 1: .3 * 1 + .5 * 3 + .05; the second token is not seen; at 3: .1 * 1 + .3 * 3 + .05
    expected = torch.tanh(torch.tensor([1.85, 0.0, 1.05]))
    torch.testing.assert_close(states[0, :, 0], expected * torch.tensor([1.0, 0.0, 1.0]))
    assert not states[..., 1].any()


def test_equals_the_naive_form():
    made, vectors, gate = encoder(), torch.randn(2, 9, 4), torch.rand(2, 9).round()
    naive = as_convolution(made, vectors * gate[..., None]) * gate[..., None]
    torch.testing.assert_close(made(whole(vectors), gate), naive)


def test_gradient():
    made, vectors = encoder().double(), torch.randn(1, 4, 4, dtype=torch.float64, requires_grad=True)
    gate = torch.tensor([[1.0, 0.3, 0.0, 0.8]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v, g: made(whole(v), g), (vectors, gate))


def test_padding_changes_nothing():
    made, vectors = encoder(), torch.randn(1, 3, 4)
    alone = made(whole(vectors), torch.ones(1, 3))
    wider = made(
        whole(torch.cat([vectors, torch.randn(1, 4, 4)], dim=1)), torch.tensor([[1.0] * 3 + [0.0] * 4])
    )
    torch.testing.assert_close(wider[:, :3], alone)
    assert not wider[:, 3:].any()


def test_a_text_shorter_than_the_window():
    assert encoder()(whole(torch.randn(2, 1, 4)), torch.ones(2, 1)).shape == (2, 1, 6)


def test_the_gradient_by_a_closed_gate_knows_the_word():
    # alone in its text: no neighbour's state says what it would have changed
    made, gate = CNN(4, 3), torch.zeros(1, 1, requires_grad=True)
    vectors = torch.randn(1, 1, 4)
    (slope,) = torch.autograd.grad(made(whole(vectors), gate).sum(), gate)
    torch.testing.assert_close(slope, made(whole(vectors), torch.ones(1, 1)).sum().view(1, 1))


# ---------------------------------------------------------------- what every encoder keeps


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_every_encoder_says_how_wide_it_is(name):
    made = build_encoder(small_config(encoder=name, hidden_size=5), EMBEDDING_SIZE)
    assert type(made) is ENCODERS[name].encoder_class()
    batch = random_batch([4, 2])
    states = made(Embedded(random_embeddings(), batch.token_ids), batch.is_token.float())
    assert states.shape == (2, 4, made.output_size)
    assert not states[~batch.is_token].any()


def test_an_encoder_without_a_reading_says_so():
    class Nothing(Encoder):
        pass

    with pytest.raises(NotImplementedError, match="^Nothing reads nothing$"):
        Nothing()(whole(torch.randn(1, 2, 4)), torch.ones(1, 2))
    with pytest.raises(NotImplementedError, match="^Nothing cannot be made from a config$"):
        Nothing.of(small_config(), 4, None)


@pytest.mark.parametrize("name", WORD_ENCODERS)
def test_parts_may_share_one_encoder(name, tmp_path):
    """One set of weights, trained by both, and written once."""
    torch.manual_seed(0)
    config, batch = small_config(encoder=name), random_batch([6, 3], task=CLASSES)
    net = InfoCal(config, CLASSES, random_embeddings())
    apart = sum(parameter.numel() for parameter in net.parameters())
    net.guider = Guider(config, net.selector.encoder)
    own = sum(parameter.numel() for parameter in net.selector.encoder.parameters())
    assert sum(parameter.numel() for parameter in net.parameters()) == apart - own
    weight = net.selector.encoder.input_weight
    forward = net(batch.words, batch.is_token)
    (of_guider,) = torch.autograd.grad(forward.guider_output.square().sum(), weight, retain_graph=True)
    (of_predictor,) = torch.autograd.grad(forward.predictor_output.square().sum(), weight, retain_graph=True)
    (of_both,) = torch.autograd.grad(
        forward.guider_output.square().sum() + forward.predictor_output.square().sum(), weight
    )
    assert of_guider.any()
    assert of_predictor.any()
    torch.testing.assert_close(of_both, of_guider + of_predictor)
    save_weights(tmp_path / "shared.safetensors", net.state_dict())
    save_weights(tmp_path / "apart.safetensors", InfoCal(config, CLASSES, random_embeddings()).state_dict())
    shared, separate = ((tmp_path / f"{n}.safetensors").stat().st_size for n in ("shared", "apart"))
    assert separate - shared > 3.5 * own
    assert load_weights(tmp_path / "shared.safetensors").keys() == net.state_dict().keys()
