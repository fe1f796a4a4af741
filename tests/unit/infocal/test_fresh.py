"""FRESH [Jain2020]: extractors, saliency, and three phases of which each leaves the others alone."""

import math
import random
from fractions import Fraction

import pytest
import torch

from infocal.methods.fresh import FreshConfig, FreshModel, FreshTrainer, best_span
from infocal.nn.ranking import num_taken
from tests.small_encoder import WORD_ENCODERS
from tests.small_model import CLASSES, REGRESSION, random_batch, random_batches, random_embeddings

CPU = torch.device("cpu")
BATCH = random_batch([6, 3, 2, 5])


def config(**changes):
    values = {"hidden_size": 3, "target_selection_rate": 0.4, "support_epochs": 1.0, "learning_rate": 0.01}
    return FreshConfig.from_mapping(values | changes)


def trainer(task=REGRESSION, **changes):
    return FreshTrainer(config(**changes), task, random_embeddings(), steps_per_epoch=2, seed=0, device=CPU)


def test_golden_spans():
    score = torch.tensor([[1.0, 5.0, 1.0, 4.0, 3.0], [2.0, 2.0, 9.0, 9.0, 9.0]])
    is_token = torch.tensor([[True] * 5, [True, True, True, False, False]])
    found = best_span(score, torch.tensor([[2.0], [1.0]]), is_token)
    # 4 + 3 is most; of one token, the third
    assert found.int().tolist() == [[0, 0, 0, 1, 1], [0, 0, 1, 0, 0]]
    assert not best_span(score, torch.zeros(2, 1), is_token).any()


@pytest.mark.parametrize("seed", range(4))
def test_no_other_span_sums_higher(seed):
    score = torch.rand(4, 6, generator=torch.Generator().manual_seed(seed))
    length = num_taken(BATCH.is_token, 0.4)
    found = best_span(score, length, BATCH.is_token)
    for row, num_tokens in enumerate((6, 3, 2, 5)):
        size = int(length[row].item())
        sums = [score[row, i : i + size].sum().item() for i in range(num_tokens - size + 1)]
        assert score[row][found[row]].sum().item() == pytest.approx(max(sums))
        assert not found[row, num_tokens:].any()


@pytest.mark.parametrize("saliency", ["attention", "gradient"])
@pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["score", "classes"])
def test_the_contiguous_extractor_takes_one_span(saliency, task):
    torch.manual_seed(0)
    model = FreshModel(config(saliency=saliency, extractor="contiguous"), task, random_embeddings()).eval()
    with torch.no_grad():
        found = model.infer(BATCH.words, BATCH.is_token)
    sizes = num_taken(BATCH.is_token, 0.4).flatten().tolist()
    for row, size in enumerate(sizes):
        chosen = found.mask[row].nonzero().flatten()
        assert len(chosen) == size
        assert size == 0 or chosen[-1] - chosen[0] + 1 == size


@pytest.mark.parametrize("encoder", WORD_ENCODERS)
def test_the_gradient_is_that_of_showing_a_token(encoder):
    torch.manual_seed(0)
    model = FreshModel(config(saliency="gradient", encoder=encoder), REGRESSION, random_embeddings()).eval()
    embedded = model.embed(BATCH.words)
    found = model.saliency(embedded, BATCH.is_token)
    step = 1e-2
    for token in range(6):
        outputs = []
        for sign in (1, -1):
            gate = BATCH.is_token.float()
            gate[0, token] += sign * step
            feature, _ = model.support(embedded, gate, BATCH.is_token)
            outputs.append(model.support_output(feature)[0, 0].item())
        slope = abs(outputs[0] - outputs[1]) / (2 * step)
        assert found[0, token].item() == pytest.approx(slope, rel=0.05, abs=1e-5)
    assert not found[~BATCH.is_token].any()


@pytest.mark.parametrize("saliency", ["attention", "gradient"])
def test_each_phase_trains_its_own_part(saliency):
    run = trainer(saliency=saliency, train_embeddings=True)

    def state():
        return {name: value.clone() for name, value in run.model.named_parameters()}

    drawn = state()
    run.train_epoch(random_batches(2))
    supported = state()
    assert not run.is_presentable
    run.train_epoch(random_batches(2))
    classified = state()
    assert run.is_presentable
    for name in drawn:
        of_classifier = name.startswith(("classifier", "output"))
        assert torch.equal(drawn[name], supported[name]) == of_classifier, name
        assert torch.equal(supported[name], classified[name]) != of_classifier, name


def test_the_classifier_reads_the_extract_alone():
    run = trainer(embedding_dropout=0.5)
    run.train_epoch(random_batches(2))
    _, mask, _ = run.step_terms(BATCH)
    run.model.eval()
    with torch.no_grad():
        assert torch.equal(mask, run.model.infer(BATCH.words, BATCH.is_token).mask)
    assert mask.sum(dim=1).tolist() == num_taken(BATCH.is_token, 0.4).flatten().tolist()


def test_the_averaged_support_model_is_the_one_that_goes_on():
    run = trainer(average_decay=0.9)
    run.train_epoch(random_batches(2))
    support = {n: v.clone() for n, v in run.average.module.state_dict().items() if n.startswith("support")}
    assert any(not torch.equal(v, run.model.state_dict()[n]) for n, v in support.items())
    for _ in range(2):
        run.train_epoch(random_batches(2))
        for state in (run.model.state_dict(), run.evaluated_model.state_dict()):
            assert all(torch.equal(state[name], value) for name, value in support.items())
    classifier = [n for n in run.model.state_dict() if n.startswith("classifier")]
    trained, averaged = run.model.state_dict(), run.evaluated_model.state_dict()
    assert any(not torch.equal(trained[name], averaged[name]) for name in classifier), "it is set once"


@pytest.mark.parametrize("support_epochs", [1e-9, 0.1, 0.3, 0.7, 1.0, 2.5, 3.0, 3.3])
def test_the_support_model_is_settled_once_whatever_the_number_of_steps(support_epochs):
    run = trainer(support_epochs=support_epochs)
    for steps in range(1, 700):
        run.steps_per_epoch = steps
        expected = max(1, math.ceil(Fraction(str(support_epochs)) * steps))
        assert run.num_support_steps == expected
        if steps > 10 and steps % 20 and steps not in (334, 600):
            continue  # the number of support steps does not depend on the step: some are walked through
        settled, supported = [], 0
        for done in range(int(support_epochs * steps) + 3):
            run.epoch, run.position = divmod(done, steps)
            assert run.num_steps_done == done
            settled += [done] if done == run.num_support_steps else []
            supported += done < run.num_support_steps
        assert settled == [supported], steps
        assert supported == expected


@pytest.mark.parametrize("seed", range(20))
def test_the_number_of_support_steps_is_that_of_exact_arithmetic(seed):
    """Up to six decimal places and 10^9 updates, as the docstring promises; not one step more or less."""
    chance = random.Random(seed)
    run = trainer()
    for _ in range(500):
        places = chance.randint(0, 6)
        tenth = 10**places
        # products that are whole, or miss it by one unit of the last place, are the hard ones
        steps = chance.choice([chance.randint(1, 10**6), tenth * chance.randint(1, 10), 2 * tenth + 1])
        exact = Fraction(chance.randint(1, min(10**9 // steps, 1000) * tenth), tenth)
        run.config = config(support_epochs=float(exact))
        run.steps_per_epoch = steps
        assert run.num_support_steps == max(1, math.ceil(exact * steps)), (exact, steps)


@pytest.mark.parametrize("support_epochs", [0.4, 0.5, 0.999, 1.0, 1.4, 2.001])
def test_nothing_is_a_result_before_the_classifiers_first_update(support_epochs):
    run = trainer(support_epochs=support_epochs)
    classifier = [p for n, p in run.model.named_parameters() if n.startswith(("classifier", "output"))]
    drawn = [parameter.clone() for parameter in classifier]
    for _ in range(4):
        run.train_epoch(random_batches(2))
        has_learnt = not all(torch.equal(p, before) for p, before in zip(classifier, drawn, strict=True))
        assert run.is_presentable == has_learnt
