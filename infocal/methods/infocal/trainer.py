"""InfoCal [Sha2023]: the generator's step by J_total, then the discriminator's by L_d."""

from typing import Any

import torch
from torch import Tensor

from infocal import losses
from infocal.batch import Batch
from infocal.config import InfoCalConfig, Task
from infocal.errors import TrainingFailure
from infocal.gradient_shares import Heard
from infocal.heads import repeated
from infocal.methods.infocal.discriminator import Discriminator, Discriminators
from infocal.methods.infocal.model import Forward, InfoCal
from infocal.nn.pieces import Pretrained
from infocal.objective import Terms, weighted
from infocal.policy_gradient import mask_log_probability, reinforce
from infocal.trainer import RateTrainer

_SAME, _SILENT = 1e-4, 1e-6
"""Deviation of its logit, in slopes and as it is, up to which D says the same of every feature."""


class InfoCalTrainer(RateTrainer):
    """The trainer of InfoCal; the discriminator has an optimiser of its own.

    With `calibration_loss=policy_gradient` there is no discriminator to listen to. As in [Yoon2018] the
    selector draws a mask, the predictor is trained on it, and the selector's reward is how much smaller the
    loss of the predictor is than that of a baseline with all tokens, here the guider:

        L_g = (L_sp - L_guide) log p(m | x),  the factor held constant

    Of several targets, L_sp and L_guide are sums over their heads h with weights w_h, sum_h w_h L_h; so is
    their difference. Predictor and guider have one feature each for all heads, which the discriminator tells
    apart: L_g = -log D(z~) and L_d of Eq. (13) and (14) stand once, whatever the number of targets.

    With `rationales=per_head`, each target has its own mask, features and discriminator, and J_total is
    sum_h w_h J_h: that of the targets alone, whose encoders and layer to the feature are the same.

    so that no gradient passes from L_sp to the selector. The other terms reach it as ever.
    """

    model_class = InfoCal
    config: InfoCalConfig
    model: InfoCal

    def __init__(
        self, config: InfoCalConfig, task: Task, embeddings: Tensor | Pretrained, **rest: Any
    ) -> None:
        super().__init__(config, task, embeddings, **rest)
        of_features = (config.feature_size, config.discriminator_slope)
        num = self.model.num_rationales
        made = Discriminator(*of_features) if num == 1 else Discriminators(num, *of_features)
        self.discriminator = made.to(self.device)
        self.discriminator_optimizer = self.make_optimizer(
            self.discriminator, config.discriminator_learning_rate
        )

    def check(self, means: dict[str, float]) -> None:
        """Refuse an epoch whose means say that training has failed.

        Raises:
            TrainingFailure: if a loss is not finite, or the discriminator says the same of every feature.
                A balanced accuracy of .5 is no failure: it is where Eq. (13) has its optimum. Nor is one of
                1: with the bounded slope L_g keeps its gradient, and such trainings reach good rationales
                (docs/fidelity.md).
        """
        super().check(means)
        is_heard = self.config.lambda_g > 0 and self.config.calibration_loss == "discriminator"
        if not is_heard:
            return
        deviation = means["discriminator_deviation"]
        if deviation < max(_SAME * self.config.discriminator_slope, _SILENT):
            raise TrainingFailure(
                "discriminator_stuck",
                f"epoch {self.epoch + 1}: the discriminator gives (nearly) the same output for all features "
                f"(standard deviation of its logit: {deviation:.2g})",
            )

    def train_step(self, batch: Batch) -> Terms:
        """See `Trainer.train_step`; with how far the guider is ahead of the predictor, below 0, or behind."""
        found = super().train_step(batch)
        return found | {"guider_minus_predictor": found["guide"] - found["sp"]}

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Forward]:
        """The terms of J_total, Eq. (20) and (21) of [Sha2023]."""
        forward = self.model(batch.words, batch.is_token)
        return self._terms(batch, forward), forward.mask, forward

    def heard(self, terms: Terms, rest: Any) -> list[Heard]:
        """At the selector's logits beside L_sp; L_mi, which does not reach them, at the guider's Gaussian.

        By policy gradient the selector hears of the prediction through L_g: the others stand beside it.
        """
        found = weighted(terms, self.config, self.pressure)
        reference = "g" if self.config.calibration_loss == "policy_gradient" else "sp"
        return [Heard((rest.select_logit,), reference, found), Heard(tuple(rest.gaussian), "guide", found)]

    def finish_step(self, rest: Any) -> Terms:
        """One update of the discriminator by L_d."""
        return super().finish_step(rest) | self._discriminator_step(rest)

    def _terms(self, batch: Batch, forward: Forward) -> Terms:
        config, is_token, each = self.config, batch.is_token, self.over_rationales
        # the first of the terms by the selector's logits: their gradients are summed in this order
        rate = self.held(
            self.rate_control,
            lambda logit: losses.mean_selection_rate(logit, is_token),
            forward.select_logit,
        )
        return {
            **self.prediction_terms(forward.predictor_output, batch),
            **self.prediction_terms(forward.guider_output, batch, "guide"),
            "ib": each(
                lambda logit: losses.information_bottleneck(logit, is_token, config.prior_selection_rate),
                forward.select_logit,
            ),
            "g": self._calibration(batch, forward),
            "mi": each(
                lambda mu, sigma: losses.mutual_information(mu, sigma, config.mi_reduction), *forward.gaussian
            ),
            "lm": each(
                lambda *own: self._language_model_regularizer(batch, *own), forward.mask, forward.select_logit
            ),
            "coherence": each(lambda *own: self._coherence(batch, *own), forward.mask, forward.select_logit),
            "rate": rate,
        }

    def _language_model_regularizer(self, batch: Batch, mask: Tensor, select_logit: Tensor) -> Tensor:
        """L_lm in the form that the config names."""
        if self.config.lm_form == "drawn" or self.config.is_dense:
            return losses.language_model_regularizer(mask, batch.lm_logit, batch.is_token)
        p_select = torch.sigmoid(select_logit)
        return losses.expected_language_model_regularizer(p_select, batch.lm_logit, batch.is_token)

    def _coherence(self, batch: Batch, mask: Tensor, select_logit: Tensor) -> Tensor:
        """The fused lasso in the form that the config names."""
        if self.config.coherence_form == "drawn" or self.config.is_dense:
            return losses.coherence(mask, batch.is_token)
        return losses.expected_coherence(torch.sigmoid(select_logit), batch.is_token)

    def _calibration(self, batch: Batch, forward: Forward) -> Tensor:
        """L_g; it reaches selector and predictor, never the guider."""
        if self.config.calibration_loss == "invase":
            guided = forward.guider_output.detach()
            return losses.invase_calibration(forward.predictor_output, guided, batch.target, self.task)
        if self.config.calibration_loss == "policy_gradient":
            return self._reward(batch, forward)
        return self.over_rationales(losses.generator_loss, self.discriminator(forward.predictor_feature))

    def _reward(self, batch: Batch, forward: Forward) -> Tensor:
        """REINFORCE on the difference of losses; the baseline predicts from the mean of z_nero."""
        with torch.no_grad():
            of_guider = self.model.logits_of(forward.gaussian.mu, len(batch))
            cost, baseline = (
                self.costs_of_rationales(output, batch) for output in (forward.predictor_output, of_guider)
            )
        is_real = repeated(batch.is_token, self.model.num_rationales)
        log_p = mask_log_probability(forward.select_logit, forward.mask, is_real)
        return self.over_rationales(reinforce, log_p, cost, baseline)

    def _discriminator_step(self, forward: Forward) -> Terms:
        with self.autocast():
            of_guider = forward.gaussian.mu if self.config.calibrate_to == "mean" else forward.guider_feature
            guider_logit = self.discriminator(of_guider.detach())
            predictor_logit = self.discriminator(forward.predictor_feature.detach())
            loss = losses.discriminator_loss(guider_logit, predictor_logit, self.config.discriminator_loss)
        with torch.no_grad():
            is_right = (guider_logit > 0).float().mean() + (predictor_logit <= 0).float().mean()
            deviation = torch.cat([guider_logit, predictor_logit]).float().std()
        # also clears what L_g left in the discriminator's gradients
        self.discriminator_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.discriminator_optimizer.step()
        return {
            "d": loss,
            "p_guider_real": torch.sigmoid(guider_logit).mean(),
            "p_predictor_real": torch.sigmoid(predictor_logit).mean(),
            "discriminator_accuracy": is_right / 2,
            "discriminator_deviation": deviation,
            "discriminator_logit_size": (guider_logit.abs().mean() + predictor_logit.abs().mean()) / 2,
        }

    def parts(self) -> dict[str, Any]:
        """With the discriminator, its optimiser and its schedule."""
        return super().parts() | {
            "discriminator": self.discriminator,
            "discriminator_optimizer": self.discriminator_optimizer,
            "discriminator_scheduler": self.schedulers[1],
        }
