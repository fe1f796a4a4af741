"""What the trainers of all methods share: the step, the epoch, the evaluation; no file, no log."""

import contextlib
import dataclasses
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from infocal import gradient_shares, losses
from infocal.batch import Batch
from infocal.config import MethodConfig, RateConfig, SelectorConfig, Task
from infocal.encoder_registry import ENCODERS
from infocal.errors import StateError, TrainingFailure
from infocal.gradient_shares import Heard
from infocal.heads import of_head, over_rationales
from infocal.nn.encoders import Encoder
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import Rationalizer
from infocal.objective import OF_TARGET, RateControl, Terms, pressure, total

_LEARNING_RATE_MILESTONES = (25, 50, 75)


_BF16_OF_CPUS = ("avx512_bf16", "amx_bf16", "bf16")
"""The names that torch gives to a CPU's instructions for bfloat16; the last is ARM's."""


def check_bf16(bf16: bool, device: torch.device, encoder: str) -> None:
    """Refuse bfloat16 autocast where training is not faster with it.

    On a CPU, a transformer is faster, if the CPU has instructions for bfloat16. The kernels of the recurrent
    encoders compute in float32 there.

    Args:
        encoder: name of the encoder that is trained.

    Raises:
        StateError: if it is asked for on the CPU with another encoder, or on a CPU without such instructions.
    """
    if not bf16 or device.type == "cuda":
        return
    if not ENCODERS[encoder].is_pretrained:
        raise StateError(
            f"bf16 autocast needs a CUDA device if the encoder is `{encoder}`, but the device is {device}",
            where="--bf16",
            hint="leave out the flag",
        )
    found = getattr(torch.cpu, "get_capabilities", dict[str, object])()  # not in torch 2.11
    if not any(found.get(name) for name in _BF16_OF_CPUS):
        raise StateError(
            "bf16 autocast needs a CUDA device or a CPU with bfloat16 instructions, but torch reports "
            f"none of {', '.join(_BF16_OF_CPUS)}",
            where="--bf16",
            hint="leave out the flag",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What the model says about one text of n tokens."""

    index: int
    """Row of the text in its table."""
    select_probability: np.ndarray
    """p_i of each token, float32 [n]."""
    output: np.ndarray
    """Score, or class probabilities, predicted from the rationale, float32 [C]; of the main target."""
    guider_output: np.ndarray | None
    """The same predicted by the guider from the whole text, float32 [C]; None where there is none."""
    target: float
    has_own_rationale: bool = False
    """Of a side target: whether its rationale is another one than that of the main target."""
    sides: tuple["Prediction", ...] = ()
    """The same text with output and target of each side target."""


def predict(model: Rationalizer, batches: Iterable[Batch], device: torch.device) -> Iterator[Prediction]:
    """A model's rationale and prediction of each text, in the order of the batches."""
    was_training = model.training
    model.eval()
    try:
        for batch in batches:
            yield from _predict_batch(model, batch, device)
    finally:
        model.train(was_training)


@torch.no_grad()
def _predict_batch(model: Rationalizer, batch: Batch, device: torch.device) -> list[Prediction]:
    placed = batch.to(device)
    inference = model.infer(placed.words, placed.is_token)
    guided = model.guide(placed.words, placed.is_token)
    guider_output = None if guided is None else guided.cpu().numpy()
    shown = [probability.cpu().numpy() for probability, _ in inference.rationales()]
    output = inference.output.cpu().numpy()
    targets = batch.target.reshape(len(batch), -1)

    def of_head(row: int, length: int, head: int, columns: slice) -> Prediction:
        return Prediction(
            index=int(batch.index[row]),
            select_probability=shown[head if len(shown) > 1 else 0][row, :length],
            output=output[row, columns],
            guider_output=None if guider_output is None else guider_output[row, columns],
            target=float(targets[row, head]),
            has_own_rationale=head > 0 and len(shown) > 1,
        )

    found = []
    for row, length in enumerate(batch.is_token.sum(dim=1).tolist()):
        main, *sides = (of_head(row, length, head, its) for head, its in enumerate(model.task.columns))
        found.append(dataclasses.replace(main, sides=tuple(sides)) if sides else main)
    return found


@torch.no_grad()
def probabilities_of_rationales(
    model: Rationalizer, batches: Iterable[Batch], device: torch.device
) -> list[list[np.ndarray]]:
    """p_i of the tokens of each text, before any threshold, in the order of the batches.

    Returns:
        A list for each rationale of a text, that of the main target first.
    """
    was_training = model.training
    model.eval()
    found: list[list[np.ndarray]] = [[] for _ in range(model.num_rationales)]
    try:
        for batch in batches:
            placed = batch.to(device)
            rows = model.select_probability(model.embed(placed.words), placed.is_token)
            lengths = batch.is_token.sum(dim=1).tolist()
            for own, part in zip(found, rows.chunk(model.num_rationales), strict=True):
                own += [row[:length] for row, length in zip(part.cpu().numpy(), lengths, strict=True)]
    finally:
        model.train(was_training)
    return found


def resolve_device(name: str) -> torch.device:
    """The device that `auto`, `cpu`, `cuda` or `cuda:N` names; `auto` takes CUDA where there is one.

    Raises:
        StateError: if CUDA is asked for and is not there, or the name is none of these.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise StateError(
            f"unknown device `{name}`; the devices are auto, cpu, cuda, cuda:N", where="--device"
        )
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise StateError(
            f"device `{name}` was asked for, but torch {torch.__version__} sees no CUDA device",
            where="--device",
            hint="use `--device auto`",
        )
    return torch.device(name)


class Trainer:
    """A model, its optimiser and everything else that a checkpoint must hold.

    A method's trainer names its model, says in `step_terms` what a batch costs and in `objective` how these
    terms are weighted; what else it trains it adds to `parts`, and does in `finish_step`. `heard` says which
    of several terms reach which part.

    Args:
        config: hyper-parameters.
        task: what is predicted; the config's `target_weights` become those of its targets.
        embeddings: word vectors, float32 [V E]; or a pretrained encoder.
        steps_per_epoch: updates in one pass over the training texts, >= 1.
        seed: seed of weights, dropout, masks and noise.
        device: where to train.
        bf16: autocast the forward pass to bfloat16; see `check_bf16`.
        class_counts: number of training texts of each class, for methods that weigh classes by it.
    """

    model_class: ClassVar[type[Rationalizer]]
    """Made of (config, task, embeddings)."""

    optimizer_class: ClassVar[type[torch.optim.Adam]] = torch.optim.Adam

    config: MethodConfig
    model: Rationalizer

    def __init__(
        self,
        config: MethodConfig,
        task: Task,
        embeddings: Tensor | Pretrained,
        *,
        steps_per_epoch: int,
        seed: int,
        device: torch.device,
        bf16: bool = False,
        class_counts: Sequence[int] | None = None,
    ) -> None:
        check_bf16(bf16, device, config.encoder)
        task = config.weighted(task)
        torch.manual_seed(seed)
        self.config, self.task, self.device, self.bf16 = config, task, device, bf16
        self.steps_per_epoch, self.class_counts = steps_per_epoch, class_counts
        self.model = self.model_class(config, task, embeddings).to(device)
        self.model.forget_weights()
        self.schedulers: list[torch.optim.lr_scheduler.LambdaLR] = []
        self.optimizer = self.make_optimizer(self.model, config.learning_rate)
        self.average = self._start_average()
        self.epoch = 0
        """Epochs finished."""
        self.position = 0
        """Updates done in the current epoch."""
        self.sums: Terms = {}
        """Sums of what `train_step` gave in the current epoch."""
        self.measured_shares: dict[str, list[Tensor]] = {}
        """Gradient shares of the current epoch's batches that were measured, by term."""
        self.gradient_shares: dict[str, float] = {}
        """Median of each term's share in the last epoch that was finished; see `infocal.gradient_shares`."""

    def make_optimizer(self, part: nn.Module, learning_rate: float) -> torch.optim.Adam:
        """Adam for a part of the method, with the schedule of every part."""
        optimizer = self.optimizer_class(
            self.parameter_groups(part), lr=learning_rate, weight_decay=self.config.weight_decay, fused=True
        )
        # not the bound method, whose attributes LambdaLR would write into the checkpoint
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda e: self._learning_rate_factor(float(e))
        )
        self.schedulers.append(schedule)
        return optimizer

    def parameter_groups(self, part: nn.Module) -> list[dict[str, Any]]:
        """The parameters of a part; what was pretrained is a group with a learning rate of its own."""
        pretrained = [
            parameter
            for module in part.modules()
            if isinstance(module, Encoder) and module.is_pretrained
            for parameter in module.parameters()
        ]
        theirs = {id(parameter) for parameter in pretrained}
        groups: list[dict[str, Any]] = [{"params": [p for p in part.parameters() if id(p) not in theirs]}]
        if pretrained:
            mine = list({id(parameter): parameter for parameter in pretrained}.values())
            groups.append({"params": mine, "lr": self.config.encoder_learning_rate})
        return groups

    def _learning_rate_factor(self, epoch: float) -> float:
        """Share of each learning rate that is in force after so many epochs."""
        config = self.config
        passed = sum(epoch >= milestone for milestone in _LEARNING_RATE_MILESTONES)
        floor = min(1.0, config.min_learning_rate / config.learning_rate)
        factor = config.learning_rate_decay**passed
        if config.decay_epochs:
            factor = 1 - (epoch - config.warmup_epochs) / (config.decay_epochs - config.warmup_epochs)
        factor = max(min(factor, 1.0), floor)
        return factor * min(1.0, epoch / config.warmup_epochs) if config.warmup_epochs else factor

    def learning_rates(self, schedule: torch.optim.lr_scheduler.LambdaLR) -> list[float]:
        """Those of the update that follows, of each group of an optimiser."""
        if not (self.config.warmup_epochs or self.config.decay_epochs):
            return [float(rate) for rate in schedule.get_last_lr()]
        # of the end of this update: the first one would else change nothing
        factor = self._learning_rate_factor(self.epoch + (self.position + 1) / self.steps_per_epoch)
        return [float(base) * factor for base in schedule.base_lrs]

    def _set_learning_rates(self) -> None:
        """Where learning rates change within an epoch, set those of the update that follows."""
        if self.config.warmup_epochs or self.config.decay_epochs:
            for schedule in self.schedulers:
                rates = self.learning_rates(schedule)
                for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate

    def _start_average(self) -> AveragedModel | None:
        if self.config.average_decay == 0:
            return None
        return AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(self.config.average_decay))

    @property
    def evaluated_model(self) -> Rationalizer:
        """The weights that are evaluated and saved: the moving average where there is one."""
        model = self.model if self.average is None else self.average.module
        assert isinstance(model, Rationalizer)
        return model

    @property
    def is_presentable(self) -> bool:
        """Whether the model as it is could be the method's result: all of it has been trained."""
        return True

    @property
    def epochs_done(self) -> float:
        """Epochs done, with the fraction of the current one."""
        return self.epoch + self.position / self.steps_per_epoch

    def train_epoch(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Train on the batches that are left of this epoch.

        When the next batch is asked for, `state_dict` is whole: the epoch can be broken off there and gone on
        with from that state.

        Returns:
            The mean of each loss and of each figure of `train_step` over all batches of the epoch.

        Raises:
            TrainingFailure: if a loss is not finite, or a part of the method stands still.
        """
        for batch in batches:
            for name, value in self.train_step(batch).items():
                self.sums[name] = self.sums[name] + value if name in self.sums else value
        if self.position == 0:
            raise StateError(f"epoch {self.epoch + 1} has no batch left to train on")
        # here, and for the shares, an epoch waits for the device
        sums = torch.stack(list(self.sums.values()))
        means = dict(zip(self.sums, (sums / self.position).tolist(), strict=True))
        self.check(means)
        self.gradient_shares, self.measured_shares = gradient_shares.medians(self.measured_shares), {}
        self.epoch, self.position, self.sums = self.epoch + 1, 0, {}
        with warnings.catch_warnings():
            # where all updates of this epoch were done before the state was loaded
            warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step")
            for scheduler in self.schedulers:
                scheduler.step()
        return means

    def check(self, means: dict[str, float]) -> None:
        """Refuse an epoch whose means say that training has failed.

        Raises:
            TrainingFailure: if a loss is not finite.
        """
        broken = {name: value for name, value in means.items() if not np.isfinite(value)}
        if broken:
            said = ", ".join(f"{name} = {value}" for name, value in broken.items())
            raise TrainingFailure(
                "non_finite", f"epoch {self.epoch + 1}: these losses are not finite: {said}"
            )

    def train_step(self, batch: Batch) -> Terms:
        """One update of the model by the method's objective, then `finish_step`.

        Returns:
            Every loss term, unweighted, and figures to watch; on the device, detached.
        """
        batch = batch.to(self.device)
        self._set_learning_rates()
        with self.autocast():
            terms, mask, rest = self.step_terms(batch)
            objective = self.objective(terms)
        if self.position % gradient_shares.EVERY == 0:
            self._measure_shares(terms, rest)
        self.optimizer.zero_grad(set_to_none=True)
        objective.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update_parameters(self.model)
        terms |= {"objective": objective, **self.finish_step(rest), **self.sampled_rates(mask, batch)}
        self.position += 1
        return {name: value.detach().float() for name, value in terms.items()}

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """What a batch costs: the loss terms by name, the mask [R T] it was trained with, the pass."""
        raise NotImplementedError(f"{type(self).__name__} has no loss")

    def prediction_terms(self, output: Tensor, batch: Batch, name: str = "sp") -> Terms:
        """The prediction's loss under its name; of several targets, beside it that of each, to watch.

        Args:
            output: logits [B C].
            batch: the texts with their targets.
            name: `sp`, or that of another prediction of the targets.
        """
        loss = losses.prediction_loss(output, batch.target, self.task)
        return {name: loss} | self.terms_of_targets(output, batch, name)

    @torch.no_grad()
    def terms_of_targets(self, output: Tensor, batch: Batch, name: str) -> Terms:
        """The prediction's loss of each of several targets as `TARGET/NAME`; see `prediction_terms`."""
        if not self.task.sides:
            return {}
        each = zip(self.task.heads, self._losses_of_targets(output, batch), strict=True)
        return {f"{head.name}{OF_TARGET}{name}": own.mean() for head, own in each}

    def _losses_of_targets(self, output: Tensor, batch: Batch) -> list[Tensor]:
        """L_h [B] of each of several targets, in nats, without its weight; see `losses.prediction_loss`."""
        every = enumerate(zip(self.task.heads, self.task.columns, strict=True))
        return [
            losses.prediction_loss(output[:, its], of_head(batch.target, i, head), head, "none")
            for i, (head, its) in every
        ]

    def over_rationales(self, loss: Callable[..., Tensor], *parts: Tensor) -> Tensor:
        """See `infocal.heads.over_rationales`."""
        return over_rationales(self.task, self.model.num_rationales, loss, *parts)

    def costs_of_rationales(self, output: Tensor, batch: Batch) -> Tensor:
        """The prediction's loss from each rationale, [R]: of all targets, or of the one that has it.

        Args:
            output: logits [B C].
            batch: the texts with their targets.
        """
        if self.model.num_rationales == 1:
            return losses.prediction_loss(output, batch.target, self.task, reduction="none")
        return torch.cat(self._losses_of_targets(output, batch))

    def sampled_rates(self, mask: Tensor, batch: Batch) -> Terms:
        """Share of the tokens that the masks of this step select, [R T]; of each target's own beside it."""
        tokens = batch.is_token.sum()
        if self.model.num_rationales == 1:
            return {"sampled_selection_rate": mask.sum() / tokens}
        rates = [own.sum() / tokens for own in mask.chunk(self.model.num_rationales)]
        named = zip(self.task.heads, rates, strict=True)
        found = {f"{head.name}{OF_TARGET}sampled_selection_rate": rate for head, rate in named}
        return {"sampled_selection_rate": torch.stack(rates).mean()} | found

    def objective(self, terms: Terms) -> Tensor:
        """The terms, weighted."""
        return total(terms, self.config, 1.0)

    def heard(self, terms: Terms, rest: Any) -> list[Heard]:
        """What each part of the model is trained by in this step; nothing where the method has one term.

        Args:
            terms: what `step_terms` gave.
            rest: the last of what it gave.
        """
        return []

    def _measure_shares(self, terms: Terms, rest: Any) -> None:
        for part in self.heard(terms, rest):
            for name, share in gradient_shares.shares(part).items():
                self.measured_shares.setdefault(name, []).append(share)

    def finish_step(self, rest: Any) -> Terms:
        """What follows the model's update; the last of what `step_terms` gave. Returns figures to watch."""
        return {}

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """The type of numbers that forward passes run in."""
        if self.bf16:
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def predict(self, batches: Iterable[Batch]) -> Iterator[Prediction]:
        """The evaluated model's rationale and prediction of each text, in the order of the batches."""
        yield from predict(self.evaluated_model, batches, self.device)

    def state_dict(self) -> dict[str, Any]:
        """The full state: weights, optimisers, schedulers, controls, random generators, place in the epoch.

        Only tensors, numbers, strings and containers of these, so that it can be read without pickle.
        """
        state = {name: part.state_dict() for name, part in self.parts().items()}
        state |= {"epoch": self.epoch, "position": self.position, "config": self.config.to_dict()}
        state["sums"] = dict(self.sums)
        state["measured_shares"] = {name: list(values) for name, values in self.measured_shares.items()}
        state["rng"] = torch.get_rng_state()
        if self.device.type == "cuda":
            state["cuda_rng"] = torch.cuda.get_rng_state(self.device)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken.

        A hyper-parameter that the state does not know, because it did not exist then, had its default.

        Raises:
            StateError: if the state belongs to another config.
        """
        theirs, mine = dict(state["config"]), self.config.to_dict()
        theirs = self.config.defaults_for(theirs) | theirs
        if theirs != mine:
            names = [name for name in theirs | mine if theirs.get(name) != mine.get(name)]
            other = [
                f"{name} is {theirs.get(name)!r} in the checkpoint and {mine.get(name)!r} in this run"
                for name in names
            ]
            raise StateError(f"the checkpoint has other hyper-parameters: {'; '.join(other)}")
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        self.epoch, self.position = state["epoch"], state["position"]
        # states of before these were kept are all of whole epochs
        self.sums = {name: value.to(self.device) for name, value in state.get("sums", {}).items()}
        self.measured_shares = {
            name: [value.to(self.device) for value in values]
            for name, values in state.get("measured_shares", {}).items()
        }
        torch.set_rng_state(state["rng"].cpu())
        if self.device.type == "cuda" and "cuda_rng" in state:
            torch.cuda.set_rng_state(state["cuda_rng"].cpu(), self.device)

    def parts(self) -> dict[str, Any]:
        """Everything with a state of its own, by its name in a checkpoint."""
        parts = {"model": self.model, "optimizer": self.optimizer, "scheduler": self.schedulers[0]}
        return parts if self.average is None else parts | {"average": self.average}


class SelectorTrainer(Trainer):
    """A trainer that starts dense and presses by and by."""

    config: SelectorConfig

    @property
    def pressure(self) -> float:
        """Share of the weights in force, in [0, 1]."""
        return pressure(self.config, self.epochs_done)

    def objective(self, terms: Terms) -> Tensor:
        """The terms, weighted by what is in force of their weights."""
        return total(terms, self.config, self.pressure)

    def finish_step(self, rest: Any) -> Terms:
        """Nothing but the pressure, to watch."""
        return {"pressure": torch.full((), self.pressure, device=self.device)}


class RateTrainer(SelectorTrainer):
    """One that holds the selection rate as well; the term is called `rate`."""

    config: RateConfig

    def __init__(self, config: RateConfig, task: Task, embeddings: Tensor | Pretrained, **rest: Any) -> None:
        super().__init__(config, task, embeddings, **rest)
        self.rate_control = self.new_rate_control()

    def new_rate_control(self) -> RateControl:
        """One for the rationales of a selector."""
        return RateControl(self.config, self.model.num_rationales).to(self.device)

    def selection_terms(self, select_logit: Tensor, control: RateControl, batch: Batch) -> Terms:
        """The expected fused lasso and the rate control of a selector's logits, [R T]."""
        is_token = batch.is_token
        return {
            "coherence": self.over_rationales(
                lambda logit: losses.expected_coherence(torch.sigmoid(logit), is_token), select_logit
            ),
            "rate": self.held(
                control, lambda logit: losses.mean_selection_rate(logit, is_token), select_logit
            ),
        }

    def held(self, control: RateControl, rate: Callable[..., Tensor], *parts: Tensor) -> Tensor:
        """What a rate control costs.

        Args:
            control: of the rationales.
            rate: expected share of the tokens that one rationale of each text selects, from its rows.
            parts: tensors of R rows; see `infocal.heads`.
        """
        num = self.model.num_rationales
        if num == 1:
            cost: Tensor = control(rate(*parts), self.pressure)
            return cost
        rates = [rate(*own) for own in zip(*(part.chunk(num) for part in parts), strict=True)]
        costs = control(torch.stack(rates), self.pressure)
        return self.over_rationales(torch.sum, costs)

    def parts(self) -> dict[str, Any]:
        """With the rate control, whose multiplier is learnt."""
        return super().parts() | {"rate_control": self.rate_control}
