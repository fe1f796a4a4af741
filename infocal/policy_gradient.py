"""REINFORCE: how a selector learns from what the masks that it draws cost.

Shapes: B texts, T positions.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional


def mask_log_probability(
    select_logit: Float[Tensor, "B T"], mask: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
) -> Float[Tensor, " B"]:
    """Log p(m | x) of each text's mask, tokens being independent [Lei2016]; in nats, <= 0.

        sum_t  m_t log p_t + (1 - m_t) log(1 - p_t)

    Args:
        select_logit: of p_t.
        mask: 0 or 1.
        is_token: tokens over which is summed.
    """
    log_p = functional.logsigmoid(torch.where(mask > 0, select_logit, -select_logit))
    return (log_p * is_token).sum(dim=1)


def reinforce(
    log_probability: Float[Tensor, " B"], cost: Float[Tensor, " B"], baseline: Float[Tensor, "*S"]
) -> Float[Tensor, ""]:
    """The loss whose gradient is REINFORCE's, averaged over texts.

        (cost(m) - baseline) log p(m | x),  with the factor held constant

    In expectation over masks its gradient is that of E[cost], for any baseline that the masks do not
    decide: E[grad log p] = 0.

    Args:
        log_probability: of the masks drawn.
        cost: what they cost.
        baseline: subtracted from each cost, one for all texts or one for each; changes the variance alone.
    """
    return ((cost - baseline).detach() * log_probability).mean()
