"""Sel and Pred: which tokens are chosen, and that the others stay unseen."""

import pytest
import torch

from infocal.nn.encoders import Embedded, build_encoder
from infocal.nn.predictor import Predictor, selected_only
from infocal.nn.selector import Selector
from tests.small_encoder import WORD_ENCODERS
from tests.small_model import EMBEDDING_SIZE, random_batch, random_embeddings, small_config

CARRYING = ("rcnn", "lstm")
"""Encoders that carry their state over unselected tokens."""
FORMS = [{"encoder": e, "pooling": p} for e in WORD_ENCODERS for p in ("mean", "max", "last")]
every_form = pytest.mark.parametrize("form", FORMS, ids=str)
every_carrying_form = pytest.mark.parametrize("form", [f for f in FORMS if f["encoder"] in CARRYING], ids=str)
BATCH = random_batch([5, 3])
MASK = torch.tensor([[1.0, 0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]])


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def embedded(token_ids=BATCH.token_ids, table=None):
    return Embedded(random_embeddings() if table is None else table, token_ids)


def predictor(**changes):
    torch.manual_seed(0)
    config = small_config(**changes)
    return Predictor(config, build_encoder(config, EMBEDDING_SIZE))


def selector(**changes):
    torch.manual_seed(0)
    config = small_config(**changes)
    return Selector(config, build_encoder(config, EMBEDDING_SIZE))


def changed(row, position):
    """The batch's words with another one at this place."""
    token_ids = BATCH.token_ids.clone()
    token_ids[row, position] = token_ids[row, position] % 11 + 1
    return token_ids


# ---------------------------------------------------------------- selector


@pytest.mark.parametrize("encoder", WORD_ENCODERS)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_starts_at_the_start_selection_rate(encoder, rate):
    # words without a vector leave every state at zero: the logit is the bias
    words = embedded(table=torch.zeros(12, EMBEDDING_SIZE))
    p = torch.sigmoid(selector(encoder=encoder, start_selection_rate=rate)(words, BATCH.is_token))
    assert torch.allclose(p, torch.full_like(p, rate), atol=1e-6)


def test_starts_around_the_rate_whatever_the_words():
    p = torch.sigmoid(selector(start_selection_rate=0.9, hidden_size=8)(embedded(), BATCH.is_token))
    assert 0.75 < p[BATCH.is_token].mean().item() < 0.97
    assert p[BATCH.is_token].std().item() > 1e-3


@pytest.mark.parametrize("encoder", WORD_ENCODERS)
def test_reads_both_directions(encoder):
    model = selector(encoder=encoder)
    before, after = (model(embedded(ids), BATCH.is_token) for ids in (BATCH.token_ids, changed(0, 2)))
    differs = (before != after)[0].tolist()
    assert differs == [True] * 5
    assert torch.equal(before[1, :3], after[1, :3])


# ---------------------------------------------------------------- predictor


@every_form
def test_unselected_tokens_do_not_reach_the_feature(form):
    model = predictor(**form)
    feature = model(embedded(), mask=MASK, is_token=BATCH.is_token)
    for row, position in [(0, 1), (0, 3), (0, 4), (1, 0), (1, 2)]:
        other = model(embedded(changed(row, position)), mask=MASK, is_token=BATCH.is_token)
        assert torch.equal(other, feature), (row, position)


@every_form
def test_every_selected_token_reaches_the_feature(form):
    model = predictor(**form | {"hidden_size": 8})
    feature = model(embedded(), mask=MASK, is_token=BATCH.is_token)
    for row, position in [(0, 0), (0, 2), (1, 1)]:
        other = model(embedded(changed(row, position)), mask=MASK, is_token=BATCH.is_token)
        assert not torch.allclose(other[row], feature[row]), (row, position)
        assert torch.equal(other[1 - row], feature[1 - row])


@every_carrying_form
def test_unselected_tokens_leave_no_gap(form):
    # m = 1 0 1 over a b c is the text a c: the state is carried, it does not advance
    model = predictor(**form)
    token_ids = BATCH.token_ids[:1, [0, 2]]
    real = torch.ones(1, 2, dtype=torch.bool)
    if form["pooling"] == "max":  # the zeros of unselected tokens take part in the maximum
        states = model.encoder(embedded(token_ids), real.float())
        alone = model.feature(states.amax(dim=1).clamp(min=0))
    else:
        alone = model(embedded(token_ids), mask=real.float(), is_token=real)
    with_gap = model(embedded(), mask=MASK, is_token=BATCH.is_token)
    assert torch.allclose(with_gap[0], alone[0], atol=1e-6)


@every_form
def test_an_empty_selection_is_the_bias_alone(form):
    model = predictor(**form | {"feature_size": 6})
    with torch.no_grad():
        model.feature.bias.copy_(torch.arange(6.0))
    feature = model(embedded(), mask=torch.zeros_like(MASK), is_token=BATCH.is_token)
    assert feature.tolist() == [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]] * 2


@every_form
def test_the_mask_has_a_gradient_at_selected_tokens(form):
    mask = MASK.clone().requires_grad_()
    predictor(**form)(embedded(), mask=mask, is_token=BATCH.is_token).square().sum().backward()
    has_gradient = mask.grad.abs() > 1e-6
    if form["pooling"] == "mean":  # the mean of a lone token is that token, whatever its weight
        assert has_gradient[0, MASK[0] == 1].all()
        assert not has_gradient[1, 1]
    else:
        assert has_gradient[MASK == 1].all()


@every_form
def test_the_mask_has_a_gradient_at_unselected_tokens(form):
    # what an unselected token would change is what lets it back in
    mask = MASK.clone().requires_grad_()
    predictor(**form)(embedded(), mask=mask, is_token=BATCH.is_token).square().sum().backward()
    assert mask.grad[(MASK == 0) & BATCH.is_token].any()
    # the mean counts what the mask shows; the model multiplies the mask by `is_token` itself
    assert form["pooling"] == "mean" or not mask.grad[~BATCH.is_token].any()


@pytest.mark.parametrize("encoder", WORD_ENCODERS)
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_the_gradient_at_an_unselected_token_depends_on_its_word(encoder, pooling):
    # a word that does not show must still say what it would change: else no word is let in before another
    model = predictor(encoder=encoder, pooling=pooling, hidden_size=8)

    def feature_and_gradient(token_ids):
        mask = MASK.clone().requires_grad_()
        feature = model(embedded(token_ids), mask=mask, is_token=BATCH.is_token)
        return feature.detach(), torch.autograd.grad(feature.square().sum(), mask)[0]

    feature, gradient = feature_and_gradient(BATCH.token_ids)
    for row, position in [(0, 1), (0, 3), (1, 2)]:
        other_feature, other_gradient = feature_and_gradient(changed(row, position))
        assert torch.equal(other_feature, feature)
        assert (other_gradient - gradient)[row, position].abs() > 1e-4, (row, position)
        # and says so at its own place alone
        differs = (other_gradient - gradient).abs() > 1e-6
        assert differs.nonzero().tolist() == [[row, position]]


# ---------------------------------------------------------------- the selected tokens alone


def test_these_encoders_carry_their_state():
    """Of these alone, texts may be shortened to their selected tokens."""
    made = {name: build_encoder(small_config(encoder=name), EMBEDDING_SIZE) for name in WORD_ENCODERS}
    assert [name for name, encoder in made.items() if encoder.carries_state] == list(CARRYING)


@every_carrying_form
@pytest.mark.parametrize(
    "mask",
    [
        [[0, 1, 0, 0, 1], [1, 0, 0, 0, 0]],
        [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]],
        [[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]],
        [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
        [[0.25, 0, 0, 0.5, 0], [0, 0.75, 0, 0, 0]],
    ],
)
def test_unselected_tokens_may_be_left_out_of_a_prediction(form, mask):
    model, words, mask = predictor(**form), embedded(), torch.tensor(mask, dtype=torch.float32)
    whole = model(words, mask=mask, is_token=BATCH.is_token)
    short, seen, stands = selected_only(words, mask, BATCH.is_token)
    most = int((mask > 0).sum(dim=1).max())
    assert short.index.shape[1] == seen.shape[1] == stands.shape[1] == min(5, most + 1)
    assert torch.allclose(model(short, mask=seen, is_token=stands), whole, atol=1e-6)
