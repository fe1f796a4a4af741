"""InfoCal as a whole: what reaches what, and what a text's rationale depends on."""

import dataclasses

import pytest
import torch
from jaxtyping import TypeCheckError

from infocal.batch import Words
from infocal.losses import generator_loss, prediction_loss
from infocal.methods.infocal.discriminator import Discriminator
from infocal.methods.infocal.model import InfoCal
from tests.small_encoder import WORD_ENCODERS
from tests.small_model import CLASSES, REGRESSION, random_batch, random_embeddings, small_config

FORMS = [{"encoder": e, "pooling": p} for e in WORD_ENCODERS for p in ("mean", "max", "last")]
every_form = pytest.mark.parametrize("form", FORMS, ids=lambda f: f"{f['encoder']}-{f['pooling']}")
every_encoder = pytest.mark.parametrize("encoder", WORD_ENCODERS)
BATCH = random_batch([6, 2, 4])


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def model(task=REGRESSION, **changes):
    torch.manual_seed(0)
    return InfoCal(small_config(**{"start_selection_rate": 0.5} | changes), task, random_embeddings())


def forward(net, seed=1, batch=BATCH):
    torch.manual_seed(seed)
    return net(batch.words, batch.is_token)


def reached(part):
    """Parameters of a part that carry a gradient other than zero, and how many there are."""
    parameters = list(part.parameters())
    return sum(p.grad is not None and bool(p.grad.any()) for p in parameters), len(parameters)


# ---------------------------------------------------------------- a training pass


def test_the_mask_is_zero_or_one_and_zero_at_padding():
    mask = forward(model()).mask
    assert set(mask.unique().tolist()) == {0.0, 1.0}
    assert (mask[~BATCH.is_token] == 0).all()


def test_relaxed_masks_lie_between():
    mask = forward(model(sampling="relaxed")).mask[BATCH.is_token]
    assert ((mask > 0) & (mask < 1)).all()


@pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["regression", "classification"])
def test_guider_and_predictor_share_their_output_layer(task):
    net = model(task)
    assert [name for name, _ in net.named_parameters() if name.startswith("output.")] == [
        "output.weight",
        "output.bias",
    ]
    with torch.no_grad():
        net.output.weight.copy_(torch.randn_like(net.output.weight))
        net.output.bias.fill_(0.25)
    result = forward(net)
    for feature, output in [
        (result.predictor_feature, result.predictor_output),
        (result.guider_feature, result.guider_output),
    ]:
        assert torch.allclose(output, feature @ net.output.weight.T + 0.25, atol=1e-6)
        assert output.shape == (3, task.num_classes)


def test_the_guiders_feature_is_a_sample_around_its_mean():
    net = model()
    torch.nn.init.constant_(net.guider.sigma.bias, -1000.0)
    result = forward(net)
    assert torch.allclose(result.guider_feature, result.gaussian.mu, atol=1e-3)
    assert not torch.equal(result.guider_feature, result.gaussian.mu)


@every_form
def test_the_prediction_loss_reaches_the_selector_through_hard_masks(form):
    net = model(**form)
    prediction_loss(forward(net).predictor_output, BATCH.target, REGRESSION).backward()
    some, all_ = reached(net.selector)
    assert some == all_
    assert reached(net.predictor)[0] > 0
    assert reached(net.guider)[0] == 0


@every_form
def test_no_loss_has_a_gradient_by_the_selection_of_padding(form):
    net = model(**form)
    result = forward(net)
    result.select_logit.retain_grad()
    (result.predictor_output.square().sum() + result.predictor_feature.square().sum()).backward()
    assert result.select_logit.grad[BATCH.is_token].any()
    assert not result.select_logit.grad[~BATCH.is_token].any()


@every_form
def test_the_generator_loss_reaches_selector_and_predictor_but_never_the_guider(form):
    net = model(**form)
    discriminator = Discriminator(net.config.feature_size, slope=1.0)
    generator_loss(discriminator(forward(net).predictor_feature)).backward()
    assert reached(net.selector)[0] == len(list(net.selector.parameters()))
    assert reached(net.predictor)[0] == len(list(net.predictor.parameters()))
    assert all(p.grad is None for p in net.guider.parameters())
    assert all(p.grad is None for p in net.output.parameters())


@every_form
def test_the_guide_loss_reaches_the_guider_alone(form):
    net = model(**form)
    prediction_loss(forward(net).guider_output, BATCH.target, REGRESSION).backward()
    assert reached(net.guider)[0] == len(list(net.guider.parameters()))
    assert reached(net.output) == (2, 2)
    assert all(p.grad is None for part in (net.selector, net.predictor) for p in part.parameters())


# ---------------------------------------------------------------- before training


@pytest.mark.parametrize("mean", [0.1, 0.5, 0.83])
@pytest.mark.parametrize("feature_size", [4, 32])
def test_a_fresh_model_predicts_about_the_mean_target(mean, feature_size):
    task = dataclasses.replace(REGRESSION, target_mean=mean)
    net = model(task, feature_size=feature_size, hidden_size=8).eval()
    for score in (
        net.infer(BATCH.words, BATCH.is_token).output,
        net.guide(BATCH.words, BATCH.is_token),
    ):
        assert torch.allclose(score, torch.full_like(score, mean), atol=0.05)
    # exactly the mean where the feature says nothing
    assert net.activate(net.output(torch.zeros(1, feature_size))).item() == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize(("mean", "predicted"), [(0.0, 0.01), (1.0, 0.99)])
def test_a_mean_at_the_end_of_the_scale_leaves_a_gradient(mean, predicted):
    net = model(dataclasses.replace(REGRESSION, target_mean=mean))
    assert torch.sigmoid(net.output.bias).item() == pytest.approx(predicted, abs=1e-6)


def test_a_fresh_model_prefers_no_class():
    net = model(CLASSES).eval()
    assert net.output.bias.tolist() == [0.0, 0.0, 0.0]
    p = net.infer(BATCH.words, BATCH.is_token).output
    assert torch.allclose(p, torch.full_like(p, 1 / 3), atol=0.05)


def test_the_output_layer_starts_at_a_tenth_of_xaviers_bound():
    # sqrt(6 / (inputs + outputs)) = sqrt(6 / (600 - 3 + 3)) = .1, times .1
    weight = model(CLASSES, feature_size=597).output.weight
    assert 0.0095 < weight.abs().max().item() <= 0.01


@pytest.mark.parametrize("feature_size", [1, 7])
def test_the_feature_has_its_size(feature_size):
    result = forward(model(feature_size=feature_size))
    for value in (result.predictor_feature, result.guider_feature, *result.gaussian):
        assert value.shape == (3, feature_size)


# ---------------------------------------------------------------- embeddings


def test_frozen_embeddings_are_no_part_of_the_state():
    net = model()
    assert not net.embeddings.requires_grad
    assert "embeddings" not in net.state_dict()


def test_trained_embeddings_are():
    table = random_embeddings()
    net = InfoCal(small_config(train_embeddings=True), REGRESSION, table)
    prediction_loss(forward(net).predictor_output, BATCH.target, REGRESSION).backward()
    assert "embeddings" in net.state_dict()
    assert net.embeddings.grad.any()
    with torch.no_grad():
        net.embeddings.zero_()
    assert table.any(), "training must not write into the features' table"


def test_dropout_falls_on_a_word_wherever_it_stands():
    net = model(embedding_dropout=0.5)
    token_ids = torch.tensor([[3, 4, 3], [4, 3, 3]])
    words = net.embed(Words.of(token_ids))
    vectors = words.vectors[words.index]
    assert torch.equal(vectors[0, 0], vectors[1, 2])
    scaled = random_embeddings()[token_ids] * 2  # kept dimensions are scaled by 1 / (1 - .5)
    assert torch.equal(vectors, torch.where(vectors == 0, 0.0, scaled))
    assert (vectors == 0).any()


def test_no_dropout_at_inference():
    net = model(embedding_dropout=0.5).eval()
    words = net.embed(BATCH.words)
    assert torch.equal(words.vectors[words.index], random_embeddings()[BATCH.token_ids])


# ---------------------------------------------------------------- inference


@every_form
def test_inference_is_deterministic(form):
    net = model(embedding_dropout=0.5, **form).eval()
    first, second = (net.infer(BATCH.words, BATCH.is_token) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(net.guide(BATCH.words, BATCH.is_token), net.guide(BATCH.words, BATCH.is_token))


@every_form
def test_a_text_does_not_depend_on_its_batch(form):
    net = model(**form).eval()
    together = net.infer(BATCH.words, BATCH.is_token)
    guided = net.guide(BATCH.words, BATCH.is_token)
    assert 0 < together.mask.sum() < BATCH.is_token.sum()
    for row, length in enumerate([6, 2, 4]):
        token_ids, is_token = BATCH.token_ids[[row], :length], BATCH.is_token[[row], :length]
        alone = net.infer(Words.of(token_ids), is_token)
        assert torch.allclose(alone.output[0], together.output[row], atol=1e-6)
        assert torch.equal(alone.mask[0], together.mask[row, :length])
        probability = together.select_probability[row]
        assert torch.allclose(alone.select_probability[0], probability[:length], atol=1e-6)
        assert not probability[length:].any()
        assert torch.allclose(net.guide(Words.of(token_ids), is_token)[0], guided[row], atol=1e-6)


@every_form
def test_unselected_tokens_do_not_reach_the_prediction(form):
    net = model(**form).eval()
    mask = torch.zeros(3, 6)
    mask[:, 1] = 1
    output = net.predict_from(BATCH.words, BATCH.is_token, mask)
    others = torch.where(mask.bool() | ~BATCH.is_token, BATCH.token_ids, BATCH.token_ids % 11 + 1)
    assert torch.equal(net.predict_from(Words.of(others), BATCH.is_token, mask), output)
    seen = torch.where(mask.bool(), BATCH.token_ids % 11 + 1, BATCH.token_ids)
    assert not torch.allclose(net.predict_from(Words.of(seen), BATCH.is_token, mask), output)


@every_encoder
def test_the_prediction_is_made_from_the_selected_tokens(encoder):
    net = model(encoder=encoder).eval()
    inference = net.infer(BATCH.words, BATCH.is_token)
    assert torch.equal(inference.mask, ((inference.select_probability >= 0.5) & BATCH.is_token).float())
    again = net.predict_from(BATCH.words, BATCH.is_token, inference.mask)
    assert torch.equal(again, inference.output)


def test_scores_and_class_probabilities():
    score = model().eval().infer(BATCH.words, BATCH.is_token).output
    assert score.shape == (3, 1)
    assert ((score > 0) & (score < 1)).all()
    classes = model(CLASSES).eval().infer(BATCH.words, BATCH.is_token).output
    assert torch.allclose(classes.sum(dim=1), torch.ones(3))


def test_activation_golden_values():
    # sigmoid(ln 3) = 3/4; softmax(ln 3, 0, 0) = (3/5, 1/5, 1/5)
    logit = torch.tensor([[3.0, 1.0, 1.0]]).log()
    assert model().activate(logit[:, :1]).item() == pytest.approx(0.75)
    assert model(CLASSES).activate(logit)[0].tolist() == pytest.approx([0.6, 0.2, 0.2])


def test_the_guiders_prediction_is_made_at_the_mean():
    net = model()
    mu = net.guider(net.embed(BATCH.words), BATCH.is_token).mu
    expected = torch.sigmoid(net.output(mu))
    assert torch.equal(net.guide(BATCH.words, BATCH.is_token), expected)


def test_shapes_are_held():
    net = model()
    net(BATCH.words, BATCH.is_token)
    with pytest.raises(TypeCheckError, match=r"parameter 'gate'\.\nActual value: f32\[3,5\]"):
        net(BATCH.words, BATCH.is_token[:, :-1])
