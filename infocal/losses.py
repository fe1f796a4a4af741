"""One pure function for each equation of [Sha2023]; weights are applied in `objective.py` alone.

Shapes: B texts, T positions, Z dimensions of a feature, C classes. Padding never contributes.
"""

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor
from torch.nn import functional

from infocal.config import DimensionReduction, Task
from infocal.heads import of_head, over_heads

Reduction = Literal["mean", "none"]
"""What becomes of the texts' losses."""


def prediction_loss(
    output: Float[Tensor, "B C"],
    target: Num[Tensor, "B *H"],
    task: Task,
    reduction: Reduction = "mean",
    class_weight: Float[Tensor, " C"] | None = None,
) -> Float[Tensor, "*R"]:
    """L_sp and L_guide, Eq. (5) and (9) of [Sha2023]: negative log-likelihood of the target, in nats.

    Cross-entropy for a classification. For a regression the output is the logit of the predicted
    score and the loss is MSE / (2 Var_train(y)). The mean over texts, or with `none` each text's own. With
    `class_weight` a text counts by the weight of its class; the mean is then the weighted one: of one target
    alone. Of several targets it is the sum over their heads h with weights w_h:

        sum_h w_h L_h(output_h, y_h)

    Differs: the paper takes the MSE itself for beer. Scores in [0, 1] make it about 0.03, far below
    terms measured in nats, so the lambdas would not mean what they mean beside a cross-entropy; a
    Gaussian likelihood with the training variance puts both on one scale.
    """
    if task.sides:
        return over_heads(
            task,
            lambda head, number, columns: prediction_loss(
                output[:, columns], of_head(target, number, head), head, reduction
            ),
        )
    if task.kind == "classification":
        return functional.cross_entropy(output, target, weight=class_weight, reduction=reduction)
    score = torch.sigmoid(output.squeeze(-1))
    return functional.mse_loss(score, target, reduction=reduction) / (2 * task.target_variance)


def information_bottleneck(
    select_logit: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"], prior_selection_rate: float
) -> Float[Tensor, ""]:
    """L_ib, KL from the selector's Bernoulli to the prior, Eq. (11) of [Sha2023].

        sum_t KL( Bern(sigmoid(select_logit_t)) || Bern(prior_selection_rate) )

    summed over real tokens, averaged over texts; in nats, >= 0.
    """
    prior = torch.as_tensor(prior_selection_rate, dtype=select_logit.dtype, device=select_logit.device)
    log_p1 = functional.logsigmoid(select_logit)
    log_p0 = functional.logsigmoid(-select_logit)
    kl = log_p1.exp() * (log_p1 - prior.log()) + log_p0.exp() * (log_p0 - torch.log1p(-prior))
    return (kl * is_token).sum(dim=1).mean()


def mutual_information(
    mu: Float[Tensor, "B Z"], sigma: Float[Tensor, "B Z"], over_dimensions: DimensionReduction = "sum"
) -> Float[Tensor, ""]:
    """L_mi, KL from N(mu, sigma^2) to N(0, 1), Eq. (12) of [Sha2023].

        0.5 (mu^2 + sigma^2 - 1 - 2 log sigma)

    summed over dimensions, or their mean, and averaged over texts; in nats, >= 0.
    """
    each = 0.5 * (mu.square() + sigma.square() - 1 - 2 * sigma.log())
    return (each.sum(dim=1) if over_dimensions == "sum" else each.mean(dim=1)).mean()


def discriminator_loss(
    guider_logit: Float[Tensor, " B"], predictor_logit: Float[Tensor, " B"], form: str
) -> Float[Tensor, ""]:
    """L_d, Eq. (13) of [Sha2023], averaged over texts; in nats.

        standard:  -log D(z) - log(1 - D(z~))
        printed:   -log D(z) + log D(z~)

    Differs: `standard` is the default, because the printed form is unbounded below: D(z~) -> 0 alone
    sends it to minus infinity.
    """
    real = -functional.logsigmoid(guider_logit)
    if form == "printed":
        return (real + functional.logsigmoid(predictor_logit)).mean()
    return (real - functional.logsigmoid(-predictor_logit)).mean()


def generator_loss(predictor_logit: Float[Tensor, " B"]) -> Float[Tensor, ""]:
    """L_g = -log D(z~), Eq. (14) of [Sha2023], averaged over texts; in nats, >= 0."""
    return -functional.logsigmoid(predictor_logit).mean()


def invase_calibration(
    predictor_output: Float[Tensor, "B C"],
    guider_output: Float[Tensor, "B C"],
    target: Num[Tensor, "B *H"],
    task: Task,
) -> Float[Tensor, ""]:
    """Difference of the two models' losses, in place of L_g; in nats, of either sign.

        mean over texts of  sum_h w_h ( -log p(y_h | z~) + log p(y_h | z) )

    the sum being over the targets h with their weights, as in `prediction_loss`.

    Differs: [Yoon2018] has it as a reward (`calibration_loss=policy_gradient`). As a loss, with the guider
    detached, its gradient is that of L_sp: it is kept for studies and models of before 2026-11-29.
    """
    return prediction_loss(predictor_output, target, task) - prediction_loss(guider_output, target, task)


def language_model_regularizer(
    mask: Float[Tensor, "B T"], lm_logit: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
) -> Float[Tensor, ""]:
    """L_lm, Eq. (15) and (18) of [Sha2023].

        -sum_{i>=2} m_{i-1} log sigmoid(m_i s_i),   s_i = h_i' M e_i

    summed over real tokens, averaged over texts; in nats, >= 0. The model is frozen and reads the
    unmasked context, so s_i is a constant of the corpus, `lm_logit`; m_i(h' M e_i) = h' M (m_i e_i).

    Differs: the printed sum starts at i = 1 with an m_0 that does not exist; it starts at 2 here.
    """
    log_p = functional.logsigmoid(mask[:, 1:] * lm_logit[:, 1:])
    return -(mask[:, :-1] * log_p * is_token[:, 1:]).sum(dim=1).mean()


def coherence(
    mask: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"], reduction: Reduction = "mean"
) -> Float[Tensor, "*R"]:
    """Fused lasso sum_t |m_t - m_{t-1}| of [Lei2016] over real tokens, averaged over texts; >= 0.

    With `none`, each text's own.
    Not part of [Sha2023]'s objective: the "HardKuma reg" row of its ablation.
    """
    changes = ((mask[:, 1:] - mask[:, :-1]).abs() * is_token[:, 1:]).sum(dim=1)
    return changes if reduction == "none" else changes.mean()


def expected_language_model_regularizer(
    p_select: Float[Tensor, "B T"], lm_logit: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
) -> Float[Tensor, ""]:
    """Expectation of L_lm, Eq. (15) of [Sha2023], over masks whose tokens are selected independently.

        sum_{i>=2} p_{i-1} ( p_i softplus(-s_i) + (1 - p_i) log 2 )

    summed over real tokens, averaged over texts; in nats, >= 0. `p_select` lies in [0, 1].

    Differs: [Sha2023] takes the loss of one drawn mask, whose straight-through gradient is noisy and biased.
    Eq. (15) is printed for binary masks: m_i = 1 costs softplus(-s_i), m_i = 0 costs -log sigmoid(0) = log 2.
    """
    before, here = p_select[:, :-1], p_select[:, 1:]
    cost = here * functional.softplus(-lm_logit[:, 1:]) + (1 - here) * math.log(2)
    return (before * cost * is_token[:, 1:]).sum(dim=1).mean()


def expected_coherence(p_select: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """Expectation of the fused lasso over masks whose tokens are selected independently [Bastings2019].

        sum_t p_t (1 - p_{t-1}) + (1 - p_t) p_{t-1}

    summed over real tokens, averaged over texts; a number of changes, >= 0. `p_select` lies in [0, 1].
    """
    before, here = p_select[:, :-1], p_select[:, 1:]
    changes = here * (1 - before) + (1 - here) * before
    return (changes * is_token[:, 1:]).sum(dim=1).mean()


def prediction_divergence(
    full: Float[Tensor, "B C"], selected: Float[Tensor, "B C"], task: Task
) -> Float[Tensor, ""]:
    """KL divergence from the prediction from the whole text to that from the rationale [Liu2023c].

        KL( p(y | x) || p(y | z~) )

    of logits, averaged over texts; in nats, >= 0. For a regression both are normal distributions around the
    predicted score, with the variance of the training targets: (a - b)^2 / (2 Var_train(y)). Of several
    targets it is the sum over their heads h with weights w_h: sum_h w_h KL_h.
    """
    if task.sides:
        return over_heads(
            task,
            lambda head, _, columns: prediction_divergence(full[:, columns], selected[:, columns], head),
        )
    if task.kind == "classification":
        log_p, log_q = full.log_softmax(dim=-1), selected.log_softmax(dim=-1)
        return (log_p.exp() * (log_p - log_q)).sum(dim=-1).mean()
    difference = torch.sigmoid(full) - torch.sigmoid(selected)
    return difference.square().mean() / (2 * task.target_variance)


def representation_norm(feature: Float[Tensor, "B Z"]) -> Float[Tensor, ""]:
    """-log ||feature||_2, averaged over texts: small where a representation is long [Liu2025].

    A norm below 1e-6, as of an empty rationale, counts as 1e-6.
    """
    norm: Tensor = feature.norm(dim=-1)
    return -norm.clamp(min=1e-6).log().mean()


def attention_supervision(
    log_attention: Float[Tensor, "B T"],
    human_rationale: Float[Tensor, "B T"],
    is_token: Bool[Tensor, "B T"],
    sharpness: float,
) -> Float[Tensor, ""]:
    """Cross-entropy of a text's attention to what its annotators marked [Mathew2021].

        -sum_t a_t log alpha_t,   a = softmax(sharpness r) over the text's tokens

    averaged over texts; in nats, >= 0. With r_t the share of annotators who marked token t: a text in which
    nobody marked anything asks for attention to all tokens alike.

    Args:
        log_attention: log alpha_t, where alpha sums to 1 over the tokens of a text.
        human_rationale: r_t, in [0, 1].
        is_token: where tokens stand.
        sharpness: >= 0; the published code calls it variance.

    Differs: the published code takes a softmax of alpha, which is a softmax already.
    """
    wanted = (sharpness * human_rationale).masked_fill(~is_token, -torch.inf).softmax(dim=1)
    return -(wanted * log_attention.masked_fill(~is_token, 0.0)).sum(dim=1).mean()


def mean_selection_rate(
    select_logit: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
) -> Float[Tensor, ""]:
    """Expected share of the batch's real tokens that is selected, in (0, 1)."""
    return (torch.sigmoid(select_logit) * is_token).sum() / is_token.sum()


def negative_sampling(
    positive_logit: Float[Tensor, "B T"],
    negative_logit: Float[Tensor, "B T K"],
    is_token: Bool[Tensor, "B T"],
) -> Float[Tensor, ""]:
    """L_pre of the continuous language model, Eq. (19) of [Sha2023]; in nats a token, >= 0.

        -log sigmoid(s_i) - (1/K) sum_k log sigmoid(-s_{j_k}),   j_k ~ training unigram frequencies

    Differs: the printed loss has + E log sigmoid(s_j), unbounded below; this is the negative sampling
    it cites. A mean over K and not a sum: a sum shifts every s by -log K, and L_lm would then punish
    adjacent tokens. The mean is over real tokens of the batch, so that K, B and T do not scale it.
    """
    loss = -functional.logsigmoid(positive_logit) - functional.logsigmoid(-negative_logit).mean(dim=-1)
    return (loss * is_token).sum() / is_token.sum()
