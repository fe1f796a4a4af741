"""One training step of InfoCal on real batches, whole and in its parts."""

import statistics
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from benchmarks.corpus import Corpus
from benchmarks.reference import use_loops
from benchmarks.timing import Figure, alternate, compare
from infocal import gradient_shares, losses
from infocal.batch import Batch
from infocal.config import InfoCalConfig
from infocal.methods.infocal.trainer import InfoCalTrainer
from search_spaces import lookup

_NUM_BATCHES = 6
_SELECTED = -2.4
"""Logit of p = .08: the selector's bias, so that masks are as sparse as they are after the ramp."""


def run(corpus: Corpus, rounds: int) -> Iterator[Figure]:
    """The step with beer's preset against the same step with plain encoders, and the share of each part."""
    torch.set_num_threads(1)
    base = lookup.preset("infocal", "beer", "palate", sample=False)
    base |= lookup.first_points("infocal", "beer")[0]
    for hidden_size in (int(base["hidden_size"]), 200):
        config = InfoCalConfig.from_mapping(base | {"hidden_size": hidden_size})
        shuffled = corpus.loader.shuffled(config.batch_size, seed=0, epoch=0)
        batches = [next(shuffled) for _ in range(_NUM_BATCHES)]
        suffix = "" if hidden_size == base["hidden_size"] else f"_h{hidden_size}"
        note = f"{corpus.label}, {_NUM_BATCHES} steps of {config.batch_size} texts, hidden {hidden_size}"
        yield from _whole(corpus, config, batches, rounds, suffix, note)
        if not suffix:
            yield from _parts(_trainer(corpus, config), batches, rounds)
            yield _shares_cost(_trainer(corpus, config), batches, rounds)


def _trainer(corpus: Corpus, config: InfoCalConfig) -> InfoCalTrainer:
    trainer = InfoCalTrainer(
        config,
        corpus.task,
        corpus.embeddings,
        steps_per_epoch=corpus.loader.num_batches(config.batch_size),
        seed=0,
        device=torch.device("cpu"),
    )
    trainer.epoch = 5  # every weight is in force
    torch.nn.init.constant_(trainer.model.selector.output.bias, _SELECTED)
    return trainer


def _whole(
    corpus: Corpus, config: InfoCalConfig, batches: list[Batch], rounds: int, suffix: str, note: str
) -> Iterator[Figure]:
    ours, plain = _trainer(corpus, config), _trainer(corpus, config)
    use_loops(plain)
    seconds = alternate(
        {"ours": lambda: _train(ours, batches), "plain": lambda: _train(plain, batches)}, rounds
    )
    found = compare(f"step_vs_plain{suffix}", seconds, "ours", "plain", note)
    yield found
    tokens = sum(int(batch.is_token.sum()) for batch in batches)
    fast, slow = (tokens / statistics.median(seconds[name]) for name in ("ours", "plain"))
    yield Figure(f"step_tokens_per_s{suffix}", fast, slow, found.ratio, "tokens/s", note)


def _train(trainer: InfoCalTrainer, batches: list[Batch]) -> None:
    for batch in batches:
        trainer.train_step(batch)


def _shares_cost(trainer: InfoCalTrainer, batches: list[Batch], rounds: int) -> Figure:
    """What measuring gradient shares adds to training: that of a measured step, spread over those between."""

    def measured() -> None:
        every, gradient_shares.EVERY = gradient_shares.EVERY, 1
        try:
            _train(trainer, batches)
        finally:
            gradient_shares.EVERY = every

    trainer.position = 1  # the first step of an epoch is measured
    taken = alternate({"step": lambda: _train(trainer, batches), "measured": measured}, rounds)
    step, with_shares = (statistics.median(taken[name]) for name in ("step", "measured"))
    note = f"a measured step takes {with_shares / step:.2f} times as long, one in {gradient_shares.EVERY} is"
    cost = (with_shares / step - 1) / gradient_shares.EVERY
    return Figure("gradient_shares_cost", cost, None, None, "of the step", note)


def _parts(trainer: InfoCalTrainer, batches: list[Batch], rounds: int) -> Iterator[Figure]:
    """Time of each part alone, forward and backward, as a share of the whole step."""
    works = [part for batch in batches for part in _alone(trainer, batch).items()]
    ways: dict[str, Callable[[], object]] = {"step": lambda: _train(trainer, batches)}
    for name in dict.fromkeys(name for name, _ in works):
        runs = [run for other, run in works if other == name]
        ways[name] = lambda runs=runs: [run() for run in runs]  # type: ignore[misc]
    seconds = {name: statistics.median(taken) for name, taken in alternate(ways, rounds).items()}
    whole = seconds.pop("step")
    for name, taken in sorted(seconds.items(), key=lambda item: -item[1]):
        yield Figure(f"step_share_{name}", taken / whole, None, None, "of the step")
    rest = 1 - sum(seconds.values()) / whole
    yield Figure(
        "step_share_rest", rest, None, None, "of the step", "output layers, clipping, sampling, bookkeeping"
    )


def _alone(trainer: InfoCalTrainer, batch: Batch) -> dict[str, Callable[[], object]]:
    """Each part of a step on a batch, to be run by itself."""
    model = trainer.model
    embedded = model.embed(batch.words)
    with torch.no_grad():
        forward = model(batch.words, batch.is_token)

    def backward(value: Tensor) -> None:
        value.square().sum().backward()

    def predictor() -> None:
        mask = forward.mask.clone().requires_grad_()
        backward(model.predictor(embedded, mask=mask, is_token=batch.is_token))

    def loss_terms() -> None:
        leaves = [value.clone().requires_grad_() for value in (forward.select_logit, forward.mask)]
        outputs = [o.clone().requires_grad_() for o in (forward.predictor_output, forward.guider_output)]
        rate = losses.mean_selection_rate(leaves[0], batch.is_token)
        terms = [losses.prediction_loss(output, batch.target, trainer.task) for output in outputs]
        terms.append(losses.information_bottleneck(leaves[0], batch.is_token, 0.001))
        terms.append(losses.language_model_regularizer(leaves[1], batch.lm_logit, batch.is_token))
        terms.append(losses.coherence(leaves[1], batch.is_token))
        torch.stack([*terms, rate]).sum().backward()

    def average() -> None:
        if trainer.average is not None:
            trainer.average.update_parameters(model)

    return {
        "embedding": lambda: model.embed(batch.words),
        "selector": lambda: backward(model.selector(embedded, batch.is_token)),
        "predictor": predictor,
        "guider": lambda: backward(model.guider(embedded, batch.is_token).mu),
        "losses": loss_terms,
        "discriminator": lambda: trainer._discriminator_step(forward),
        "optimizer": trainer.optimizer.step,
        "moving_average": average,
    }
