"""The pretrained encoder: equal to transformers' own model; gates, windows, gradients, what is trained."""

import copy
import dataclasses
import subprocess
import sys

import pytest
import torch

from infocal.encoder_registry import ENCODERS
from infocal.errors import ConfigError
from infocal.methods.fresh import FreshConfig, FreshModel
from infocal.methods.infocal.model import InfoCal
from infocal.methods.infocal.trainer import InfoCalTrainer
from infocal.nn.encoders import build_encoder
from infocal.nn.pieces import Lexicon, longest_window
from infocal.nn.transformer import Transformer
from tests.small_encoder import CLS, SEP, given_to, naming, small_pretrained
from tests.small_model import REGRESSION, random_batch, random_batches, small_config

BATCH = random_batch([6, 3, 2, 5])
OPEN = BATCH.is_token.float()
MASK = torch.tensor([[1.0, 0, 1, 0, 0, 1], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0]])


def config(**changes):
    return small_config(encoder="transformer", pretrained="small", **changes)


def parts(pretrained=None, **changes):
    """An encoder, and the texts of `BATCH` as it reads them."""
    torch.manual_seed(0)
    pretrained = pretrained or small_pretrained()
    net = InfoCal(config(**changes), REGRESSION, pretrained).eval()
    return net.selector.encoder, net.embed(BATCH.words)


def words_of(pretrained, row):
    """The pieces of each word of a text of `BATCH`."""
    bounds = pretrained.first_piece.tolist()
    ids = BATCH.token_ids[row][BATCH.is_token[row]].tolist()
    return [pretrained.piece_ids[bounds[word] : bounds[word + 1]].tolist() for word in ids]


def naive(encoder, pretrained, gate, *, is_hidden, first=False):
    """The same text by text, by transformers' model alone, for texts that fit one window."""
    found = torch.zeros(*gate.shape, encoder.output_size)
    for row in range(len(gate)):
        words = words_of(pretrained, row)
        ids = torch.tensor([[CLS, *(piece for word in words for piece in word), SEP]])
        gates = torch.tensor(
            [1.0, *(g for g, word in zip(gate[row], words, strict=False) for _ in word), 1.0]
        )
        vectors = encoder.model.get_input_embeddings()(ids) * gates[:, None]
        attended = (gates > 0 if is_hidden else torch.ones_like(gates)).long()[None]
        states = encoder.model(inputs_embeds=vectors, attention_mask=attended).last_hidden_state[0, 1:-1]
        for place, part in enumerate(states.split([len(word) for word in words])):
            found[row, place] = gate[row, place] * (part[0] if first else part.mean(dim=0))
    return found


@pytest.mark.parametrize("is_hidden", [False, True], ids=["zeroed", "removed"])
@pytest.mark.parametrize("word_state", ["mean", "first"])
@pytest.mark.parametrize("gate", [OPEN, MASK, 0.5 * OPEN], ids=["open", "hard", "between"])
def test_equals_the_naive_form(is_hidden, word_state, gate):
    pretrained = small_pretrained()
    encoder, embedded = parts(pretrained, word_state=word_state)
    embedded = dataclasses.replace(embedded, hides_unselected=is_hidden)
    expected = naive(encoder, pretrained, gate, is_hidden=is_hidden, first=word_state == "first")
    torch.testing.assert_close(encoder(embedded, gate), expected)


def test_gradient():
    encoder, embedded = parts()
    gate = torch.rand(OPEN.shape, dtype=torch.float64) * OPEN
    embedded = dataclasses.replace(
        embedded, pieces=dataclasses.replace(embedded.pieces, share=embedded.pieces.share.double())
    )
    encoder.double()
    assert torch.autograd.gradcheck(lambda g: encoder(embedded, g * OPEN), (gate.requires_grad_(),))


def test_both_forms_agree_where_every_word_is_seen_and_differ_where_not():
    encoder, embedded = parts()
    hidden = dataclasses.replace(embedded, hides_unselected=True)
    assert torch.equal(encoder(embedded, OPEN), encoder(hidden, OPEN))
    zeroed, removed = encoder(embedded, MASK), encoder(hidden, MASK)
    assert (zeroed - removed)[0].abs().max() > 1e-3
    torch.testing.assert_close(zeroed[3], removed[3])  # every word of this text is selected
    assert not zeroed[2].any()  # and none of this one


def other_piece(pretrained, first, last, shift):
    """Give a word other pieces, as many as before."""
    pretrained.piece_ids[first:last] = (pretrained.piece_ids[first:last] - 4 + shift) % 20 + 4


@pytest.mark.parametrize("is_hidden", [False, True], ids=["zeroed", "removed"])
def test_a_word_that_is_gated_off_does_not_show(is_hidden):
    """Where the number of its pieces stays the same: its place shows."""
    encoder, _ = parts()
    found = []
    for shift in (0, 1):
        pretrained = small_pretrained()
        bounds = pretrained.first_piece.tolist()
        hidden_words = set(BATCH.token_ids[(MASK == 0)].tolist()) - set(BATCH.token_ids[MASK > 0].tolist())
        assert hidden_words - {0}
        for word in hidden_words:
            other_piece(pretrained, bounds[word], bounds[word + 1], shift)
        lexicon = Lexicon(pretrained, config())
        embedded = dataclasses.replace(parts()[1], pieces=lexicon(BATCH.words), hides_unselected=is_hidden)
        found.append(encoder(embedded, MASK))
    torch.testing.assert_close(*found)


def test_the_gradient_by_a_closed_gate_knows_the_word():
    """If another word of the text is seen, whose state it would change."""
    encoder, _ = parts()
    slopes = []
    for shift in (0, 1):
        pretrained = small_pretrained()
        start = int(pretrained.first_piece[BATCH.token_ids[0, 1]])
        other_piece(pretrained, start, start + 1, shift)
        gate = MASK.clone().requires_grad_()
        embedded = dataclasses.replace(parts()[1], pieces=Lexicon(pretrained, config())(BATCH.words))
        states = encoder(embedded, gate)
        (slope,) = torch.autograd.grad((states * torch.arange(8.0)).sum(), gate)
        slopes.append(slope)
    assert abs(slopes[0][0, 1] - slopes[1][0, 1]) > 1e-4


# ---------------------------------------------------------------- windows


def test_a_text_that_fits_is_one_window():
    _, embedded = parts()
    assert len(embedded.pieces.ids) == len(BATCH)


@pytest.mark.parametrize("stride", [0, 1, 2, 5])
def test_long_texts_are_read_in_windows_that_overlap(stride):
    """Each window by transformers' model alone; the states of a piece in several windows are averaged."""
    pretrained = small_pretrained()
    encoder, embedded = parts(pretrained, window_size=7, window_stride=stride)
    room, step = 5, stride or 2
    found = encoder(embedded, OPEN)
    for row in range(len(BATCH)):
        words = words_of(pretrained, row)
        pieces = torch.tensor([piece for word in words for piece in word])
        sums, times = torch.zeros(len(pieces), 8), torch.zeros(len(pieces), 1)
        start = 0
        while True:
            window = pieces[start : start + room]
            ids = torch.cat([torch.tensor([CLS]), window, torch.tensor([SEP])])[None]
            sums[start : start + room] += encoder.model(input_ids=ids).last_hidden_state[0, 1:-1]
            times[start : start + room] += 1
            if start + room >= len(pieces):
                break
            start += step
        # all appearances of all pieces of a word count alike
        sizes = [len(word) for word in words]
        for place, (total, seen) in enumerate(zip(sums.split(sizes), times.split(sizes), strict=True)):
            torch.testing.assert_close(found[row, place], total.sum(dim=0) / seen.sum())


def test_nothing_is_cut():
    """A word of more pieces than a window holds: its last piece counts."""
    pretrained = small_pretrained()
    many = torch.randint(4, 24, (600,))
    first = pretrained.first_piece.clone()
    word = int(BATCH.token_ids[1, 0])
    place = int(first[word])
    first[word + 1 :] += 600
    found = []
    for last in (5, 6):
        many[-1] = last
        ids = torch.cat([pretrained.piece_ids[:place], many, pretrained.piece_ids[place:]])
        encoder, embedded = parts(dataclasses.replace(pretrained, piece_ids=ids, first_piece=first))
        found.append(encoder(embedded, OPEN)[1])
    assert torch.isfinite(found[0]).all()
    assert not torch.equal(found[0][0], found[1][0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window_size": 2}, "^`window_size` must be above 2 and at most 32 for this encoder, but got 2$"),
        ({"window_size": 33}, "^`window_size` must be above 2 and at most 32 for this encoder, but got 33$"),
        (
            {"window_size": 8, "window_stride": 7},
            r"^`window_stride` must be at most 6 \(a window has 8 pieces, 2 of them special tokens\), but "
            "got 7$",
        ),
    ],
)
def test_windows_that_leave_gaps_or_are_too_large_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        parts(**changes)


def test_roberta_counts_positions_from_behind_the_padding_on():
    roberta = {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    assert longest_window(roberta) == 512
    assert longest_window({"model_type": "bert", "max_position_embeddings": 512, "pad_token_id": 0}) == 512
    with pytest.raises(ConfigError, match="does not say how many pieces it reads at once"):
        longest_window({"model_type": "t5"})


# ---------------------------------------------------------------- what is trained, and how


def test_every_encoder_starts_from_the_given_weights_and_is_trained_apart():
    weights = copy.deepcopy(parts()[0].model.state_dict())
    net = InfoCal(config(), REGRESSION, small_pretrained(weights=weights))
    encoders = [net.selector.encoder, net.predictor.encoder, net.guider.encoder]
    for name, value in weights.items():
        held = [encoder.model.state_dict()[name] for encoder in encoders]
        assert all(torch.equal(other, value) for other in held), name
        assert len({other.data_ptr() for other in held}) == 3
    assert net.pretrained.weights is weights
    net.forget_weights()
    assert net.pretrained.weights is None


def test_a_shared_encoder_is_one():
    apart, shared = (InfoCal(config(shared_encoder=s), REGRESSION, small_pretrained()) for s in (False, True))
    assert shared.selector.encoder is shared.predictor.encoder is shared.guider.encoder
    own = sum(parameter.numel() for parameter in shared.selector.encoder.parameters())
    numbers = [sum(p.numel() for p in net.parameters()) for net in (apart, shared)]
    assert numbers[0] - numbers[1] == 2 * own
    assert apart.state_dict().keys() == shared.state_dict().keys()


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("is_shared", [False, True], ids=["apart", "shared"])
def test_one_pass_over_the_whole_text_serves_selector_and_guider(name, is_shared):
    torch.manual_seed(0)
    net = InfoCal(small_config(**naming(name), shared_encoder=is_shared), REGRESSION, given_to(name))
    assert (net.selector.encoder is net.guider.encoder) == is_shared
    passes = []
    for encoder in {net.selector.encoder, net.predictor.encoder, net.guider.encoder}:
        encoder.register_forward_hook(lambda *_: passes.append(1))
    found = net(BATCH.words, BATCH.is_token)
    assert len(passes) == (2 if is_shared else 3)
    embedded = net.embed(BATCH.words)
    torch.testing.assert_close(found.select_logit, net.selector(embedded, BATCH.is_token))
    torch.testing.assert_close(found.gaussian, net.guider(embedded, BATCH.is_token))


def trainer(**changes):
    made = InfoCalTrainer(
        config(**changes),
        REGRESSION,
        small_pretrained(),
        steps_per_epoch=4,
        seed=0,
        device=torch.device("cpu"),
    )
    return made


def test_pretrained_weights_have_a_learning_rate_of_their_own():
    made = trainer(encoder_learning_rate=3e-5, learning_rate=1e-3)
    heads, pretrained = made.optimizer.param_groups
    assert (heads["lr"], pretrained["lr"]) == (1e-3, 3e-5)
    inside = {id(p) for m in made.model.modules() if isinstance(m, Transformer) for p in m.parameters()}
    assert {id(p) for p in pretrained["params"]} == inside
    assert {id(p) for p in heads["params"]} == {id(p) for p in made.model.parameters()} - inside


def test_learning_rates_rise_and_fall_linearly():
    made = trainer(learning_rate=1e-3, min_learning_rate=1e-4, warmup_epochs=0.5, decay_epochs=2.0)
    found = []
    for batches in (random_batches(4), random_batches(4), random_batches(4)):
        for batch in batches:
            made.train_step(batch)
            found.append([group["lr"] / group["initial_lr"] for group in made.optimizer.param_groups])
        made.position, made.epoch = 0, made.epoch + 1
    # four updates an epoch: up over two, then down over the six up to the second epoch's end, floor .1
    rise, fall = [0.5, 1.0], [1 - k / 6 for k in range(1, 6)]
    expected = rise + fall + [0.1] * 5
    assert [group[0] for group in found] == pytest.approx(expected)
    assert [group[1] for group in found] == pytest.approx(expected)


def test_without_a_schedule_of_its_own_nothing_changes_within_an_epoch():
    made = trainer()
    for batch in random_batches(3):
        made.train_step(batch)
    assert [group["lr"] for group in made.optimizer.param_groups] == [4e-4, 2e-5]


def test_frozen_blocks_and_vectors_stay_as_they_are():
    made = trainer(frozen_layers=1, encoder_learning_rate=0.01)
    before = {name: value.clone() for name, value in made.model.selector.encoder.named_parameters()}
    for batch in random_batches(2):
        made.train_step(batch)
    still = {
        name
        for name, value in made.model.selector.encoder.named_parameters()
        if torch.equal(value, before[name])
    }
    expected = {name for name in before if ".embeddings." in name or ".layer.0." in name}
    assert still == expected
    assert expected


def test_more_frozen_blocks_than_there_are():
    with pytest.raises(ConfigError, match="^`frozen_layers` must be at most 2 for this encoder, but got 3$"):
        parts(frozen_layers=3)


def test_fresh_extracts_without_the_encoders_own_dropout():
    torch.manual_seed(0)
    fresh = FreshConfig(encoder="transformer", pretrained="small", target_selection_rate=0.4)
    model = FreshModel(fresh, REGRESSION, small_pretrained(hidden_dropout_prob=0.5)).train()
    masks = [model.extract(BATCH.words, BATCH.is_token) for _ in range(5)]
    assert all(torch.equal(mask, masks[0]) for mask in masks)
    assert model.support.encoder.training


# ---------------------------------------------------------------- what is refused


def test_word_vectors_are_no_pretrained_encoder_and_the_other_way_round():
    with pytest.raises(ConfigError, match="^`encoder` transformer cannot be made from word vectors$"):
        build_encoder(config(), 4)
    with pytest.raises(ConfigError, match="^`encoder` rcnn cannot be made from a pretrained encoder$"):
        build_encoder(small_config(), 4, small_pretrained())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "no_such_model"},
            "^transformers builds no model of the architecture `no_such_model`",
        ),
        ({"hidden_size": 7}, "^transformers builds no model of the architecture `bert`"),
        ({"is_decoder": True}, "architecture `bert` cannot be used: expected an encoder such as BERT"),
    ],
)
def test_architectures_that_cannot_be_used(changes, message):
    with pytest.raises(ConfigError, match=message):
        Transformer(small_pretrained(**changes))


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match="needs the package transformers, which is not installed") as caught:
        Transformer(small_pretrained())
    assert caught.value.hint == "pip install 'infocal-pipeline[transformers]'"


def test_other_encoders_do_not_import_transformers():
    code = "import sys, pipeline.training.trainable, infocal.nn.transformer; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "transformers" not in done.stdout.split()


def test_blocks_that_are_computed_again_give_the_same_gradients():
    plain, embedded = parts()
    again, _ = parts(gradient_checkpointing=True)
    again.load_state_dict(plain.state_dict())
    found, calls = [], []
    for encoder in (plain, again):
        counted: list[int] = []
        encoder.train()
        encoder.model.encoder.layer[0].attention.register_forward_hook(lambda *_, own=counted: own.append(1))
        gate = MASK.clone().requires_grad_()
        encoder(embedded, gate).square().sum().backward()
        found.append([gate.grad, *(p.grad for p in encoder.parameters())])
        calls.append(len(counted))
    assert calls == [1, 2]
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_an_encoder_that_cannot_compute_its_blocks_again(monkeypatch):
    from transformers import BertModel

    monkeypatch.setattr(BertModel, "supports_gradient_checkpointing", False)
    with pytest.raises(
        ConfigError, match="^`gradient_checkpointing` must be false: encoder BertModel does not support it"
    ):
        parts(gradient_checkpointing=True)
