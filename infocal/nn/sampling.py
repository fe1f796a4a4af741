"""Random masks that a gradient can pass through."""

import torch
from jaxtyping import Float
from torch import Tensor

# float32 keeps 1 - 6e-8 apart from 1, so neither logarithm of the Gumbel noise meets a zero.
_CLAMP = 6e-8


def gumbel_noise(like: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
    """Standard Gumbel noise -log(-log u), u ~ U(0, 1), Eq. (1) of [Sha2023]; always finite.

    Drawn in float32 whatever the type of `like`: a bfloat16 uniform rounds to 0 or 1 too often.
    """
    uniform = torch.rand(like.shape, dtype=torch.float32, device=like.device).clamp(_CLAMP, 1 - _CLAMP)
    return -torch.log(-torch.log(uniform)).to(like.dtype)


def sample_mask(
    select_logit: Float[Tensor, "B T"], temperature: float, straight_through: bool
) -> Float[Tensor, "B T"]:
    """One mask per text from the two-class Gumbel-softmax, Eq. (2) of [Sha2023].

        m_i = exp((log p_i + g_1) / tau) / (exp((log p_i + g_1) / tau) + exp((log(1 - p_i) + g_0) / tau))

    which is sigmoid((logit_i + g_1 - g_0) / tau). With `straight_through` the value is rounded to
    0 or 1 and keeps the gradient of the relaxed one.

    Differs: Eq. (2) as printed normalises over the sequence, so that all masks of a text sum to 1
    and no two tokens could be selected; here each token chooses between `select` and `not`.
    """
    noise = gumbel_noise(select_logit) - gumbel_noise(select_logit)
    relaxed = torch.sigmoid((select_logit + noise) / temperature)
    if not straight_through:
        return relaxed
    hard = (relaxed >= 0.5).to(relaxed.dtype)
    return hard + (relaxed - relaxed.detach())  # so grouped, the value is 0 or 1 exactly
