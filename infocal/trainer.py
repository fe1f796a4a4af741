"""One training step, one pass over the data, one evaluation; no file, no log, no scheduler of trials."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from infocal import losses
from infocal.batch import Batch
from infocal.config import InfoCalConfig, Task
from infocal.discriminator import Discriminator
from infocal.errors import StateError, TrainingFailure
from infocal.model import Forward, InfoCal
from infocal.objective import RateControl, Terms, pressure, total

# A discriminator whose every logit stays below the first or beyond the second has stopped to learn:
# its D is 0.5 for all, or 0 and 1 to float32's last digit.
_STUCK_LOGIT = (1e-5, 16.0)
_LEARNING_RATE_MILESTONES = (25, 50, 75)


def check_bf16(bf16: bool, device: torch.device) -> None:
    """Refuse bfloat16 autocast where it is not meant to run.

    Raises:
        StateError: if it is asked for on another device than CUDA.
    """
    if bf16 and device.type != "cuda":
        raise StateError(f"bf16 autocast needs a CUDA device, but the device is {device}", where="--bf16")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What the model says about one text of n tokens."""

    index: int
    """Row of the text in its table."""
    select_probability: np.ndarray
    """p_i of each token, float32 [n]."""
    output: np.ndarray
    """Score, or class probabilities, predicted from the rationale, float32 [C]."""
    guider_output: np.ndarray
    """The same predicted by the guider from the whole text, float32 [C]."""
    target: float


def predict(model: InfoCal, batches: Iterable[Batch], device: torch.device) -> Iterator[Prediction]:
    """A model's rationale and prediction of each text, in the order of the batches."""
    was_training = model.training
    model.eval()
    try:
        for batch in batches:
            yield from _predict_batch(model, batch, device)
    finally:
        model.train(was_training)


@torch.no_grad()
def _predict_batch(model: InfoCal, batch: Batch, device: torch.device) -> list[Prediction]:
    placed = batch.to(device)
    inference = model.infer(placed.words, placed.is_token)
    guided = model.guide(placed.words, placed.is_token).cpu().numpy()
    probability, output = inference.select_probability.cpu().numpy(), inference.output.cpu().numpy()
    return [
        Prediction(
            index=int(batch.index[row]),
            select_probability=probability[row, :length],
            output=output[row],
            guider_output=guided[row],
            target=float(batch.target[row]),
        )
        for row, length in enumerate(batch.is_token.sum(dim=1).tolist())
    ]


def resolve_device(name: str) -> torch.device:
    """The device that `auto`, `cpu`, `cuda` or `cuda:N` names; `auto` takes CUDA where there is one.

    Raises:
        StateError: if CUDA is asked for and is not there, or the name is none of these.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise StateError(f"unknown device `{name}`; known are auto, cpu, cuda, cuda:N", where="--device")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise StateError(
            f"device `{name}` was asked for, but torch {torch.__version__} sees no CUDA device",
            where="--device",
            hint="use `--device auto`",
        )
    return torch.device(name)


class Trainer:
    """The model, the discriminator, their optimisers and everything else that a checkpoint must hold.

    Args:
        config: hyper-parameters.
        task: what is predicted.
        embeddings: word vectors, float32 [V E].
        steps_per_epoch: updates in one pass over the training texts, >= 1.
        seed: seed of weights, dropout, masks and noise.
        device: where to train.
        bf16: autocast the forward pass to bfloat16; CUDA only.
    """

    def __init__(
        self,
        config: InfoCalConfig,
        task: Task,
        embeddings: Tensor,
        *,
        steps_per_epoch: int,
        seed: int,
        device: torch.device,
        bf16: bool = False,
    ) -> None:
        check_bf16(bf16, device)
        torch.manual_seed(seed)
        self.config, self.task, self.device, self.bf16 = config, task, device, bf16
        self.steps_per_epoch = steps_per_epoch
        self.model = InfoCal(config, task, embeddings).to(device)
        self.discriminator = Discriminator(config.feature_size, config.discriminator_slope).to(device)
        self.rate_control = RateControl(config).to(device)
        self.optimizer, self.discriminator_optimizer = (
            torch.optim.Adam(part.parameters(), lr=rate, weight_decay=config.weight_decay, fused=True)
            for part, rate in (
                (self.model, config.learning_rate),
                (self.discriminator, config.discriminator_learning_rate),
            )
        )
        self.schedulers = [
            # not the bound method, whose attributes LambdaLR would write into the checkpoint
            torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: self._learning_rate_factor(epoch))
            for o in (self.optimizer, self.discriminator_optimizer)
        ]
        self.average = self._start_average()
        self.epoch = 0
        """Epochs finished."""
        self.position = 0
        """Updates done in the current epoch."""

    def _learning_rate_factor(self, epoch: int) -> float:
        passed = sum(epoch >= milestone for milestone in _LEARNING_RATE_MILESTONES)
        floor = min(1.0, self.config.min_learning_rate / self.config.learning_rate)
        return max(self.config.learning_rate_decay**passed, floor)

    def _start_average(self) -> AveragedModel | None:
        if self.config.average_decay == 0:
            return None
        return AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(self.config.average_decay))

    @property
    def evaluated_model(self) -> InfoCal:
        """The weights that are evaluated and saved: the moving average where there is one."""
        model = self.model if self.average is None else self.average.module
        assert isinstance(model, InfoCal)
        return model

    @property
    def epochs_done(self) -> float:
        """Epochs done, with the fraction of the current one."""
        return self.epoch + self.position / self.steps_per_epoch

    def train_epoch(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Train on the batches that are left of this epoch.

        Returns:
            The mean of each loss and of each figure of `train_step` over these batches.

        Raises:
            TrainingFailure: if a loss is not finite or the discriminator stands still.
        """
        sums: Terms = {}
        steps = 0
        for batch in batches:
            for name, value in self.train_step(batch).items():
                sums[name] = sums[name] + value if name in sums else value
            steps += 1
        if steps == 0:
            raise StateError(f"epoch {self.epoch} has no batch left to train on")
        # the one wait for the device in an epoch
        means = dict(zip(sums, (torch.stack(list(sums.values())) / steps).tolist(), strict=True))
        self._check(means)
        self.epoch, self.position = self.epoch + 1, 0
        for scheduler in self.schedulers:
            scheduler.step()
        return means

    def _check(self, means: dict[str, float]) -> None:
        broken = {name: value for name, value in means.items() if not np.isfinite(value)}
        if broken:
            raise TrainingFailure("non_finite", f"epoch {self.epoch}: {broken}")
        size = means["discriminator_logit_size"]
        if self.config.lambda_g > 0 and not _STUCK_LOGIT[0] < size < _STUCK_LOGIT[1]:
            raise TrainingFailure(
                "discriminator_stuck", f"epoch {self.epoch}: mean |logit of D| is {size:.2g}"
            )

    def train_step(self, batch: Batch) -> Terms:
        """One update of the generator by J_total, then one of the discriminator by L_d.

        Returns:
            Every loss term, unweighted, and figures to watch; on the device, detached.
        """
        batch = batch.to(self.device)
        press = pressure(self.config, self.epochs_done)
        with self._autocast():
            forward = self.model(batch.words, batch.is_token)
            terms = self._terms(batch, forward, press)
            objective = total(terms, self.config, press)
        self.optimizer.zero_grad(set_to_none=True)
        objective.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update_parameters(self.model)
        terms |= {"objective": objective, "pressure": objective.new_full((), press)}
        terms |= self._discriminator_step(forward)
        terms["sampled_selection_rate"] = forward.mask.sum() / batch.is_token.sum()
        self.position += 1
        return {name: value.detach().float() for name, value in terms.items()}

    def _terms(self, batch: Batch, forward: Forward, press: float) -> Terms:
        rate = losses.mean_selection_rate(forward.select_logit, batch.is_token)
        return {
            "sp": losses.prediction_loss(forward.predictor_output, batch.target, self.task),
            "guide": losses.prediction_loss(forward.guider_output, batch.target, self.task),
            "ib": losses.information_bottleneck(
                forward.select_logit, batch.is_token, self.config.prior_selection_rate
            ),
            "g": losses.generator_loss(self.discriminator(forward.predictor_feature)),
            "mi": losses.mutual_information(forward.gaussian.mu, forward.gaussian.sigma),
            "lm": losses.language_model_regularizer(forward.mask, batch.lm_logit, batch.is_token),
            "coherence": losses.coherence(forward.mask, batch.is_token),
            "rate": self.rate_control(rate, press),
        }

    def _discriminator_step(self, forward: Forward) -> Terms:
        with self._autocast():
            of_guider = forward.gaussian.mu if self.config.calibrate_to == "mean" else forward.guider_feature
            guider_logit = self.discriminator(of_guider.detach())
            predictor_logit = self.discriminator(forward.predictor_feature.detach())
            loss = losses.discriminator_loss(guider_logit, predictor_logit, self.config.discriminator_loss)
        # also clears what L_g left in the discriminator's gradients
        self.discriminator_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.discriminator_optimizer.step()
        return {
            "d": loss,
            "p_guider_real": torch.sigmoid(guider_logit).mean(),
            "p_predictor_real": torch.sigmoid(predictor_logit).mean(),
            "discriminator_logit_size": (guider_logit.abs().mean() + predictor_logit.abs().mean()) / 2,
        }

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        if self.bf16:
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def predict(self, batches: Iterable[Batch]) -> Iterator[Prediction]:
        """The evaluated model's rationale and prediction of each text, in the order of the batches."""
        yield from predict(self.evaluated_model, batches, self.device)

    def state_dict(self) -> dict[str, Any]:
        """The full state: weights, optimisers, schedulers, rate control, random generators, position.

        Only tensors, numbers, strings and containers of these, so that it can be read without pickle.
        """
        state = {name: part.state_dict() for name, part in self._parts().items()}
        state |= {"epoch": self.epoch, "position": self.position, "config": self.config.to_dict()}
        state["rng"] = torch.get_rng_state()
        if self.device.type == "cuda":
            state["cuda_rng"] = torch.cuda.get_rng_state(self.device)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken.

        Raises:
            StateError: if the state belongs to another config.
        """
        if state["config"] != self.config.to_dict():
            theirs, mine = state["config"], self.config.to_dict()
            names = [name for name in theirs | mine if theirs.get(name) != mine.get(name)]
            other = {name: (theirs.get(name), mine.get(name)) for name in names}
            raise StateError(f"the checkpoint has other hyper-parameters (checkpoint's, this run's): {other}")
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.epoch, self.position = state["epoch"], state["position"]
        torch.set_rng_state(state["rng"].cpu())
        if self.device.type == "cuda" and "cuda_rng" in state:
            torch.cuda.set_rng_state(state["cuda_rng"].cpu(), self.device)

    def _parts(self) -> dict[str, Any]:
        parts = {
            "model": self.model,
            "discriminator": self.discriminator,
            "rate_control": self.rate_control,
            "optimizer": self.optimizer,
            "discriminator_optimizer": self.discriminator_optimizer,
            "scheduler": self.schedulers[0],
            "discriminator_scheduler": self.schedulers[1],
        }
        return parts if self.average is None else parts | {"average": self.average}
