"""InfoCal: selector, predictor and guider over one embedding table and one shared output layer."""

from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from infocal.batch import Words
from infocal.config import InfoCalConfig, Task
from infocal.heads import repeated
from infocal.methods.infocal.guider import Gaussian, Guider
from infocal.nn.encoders import Embedded
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import SelectorPredictor, output_layer
from infocal.nn.sampling import sample_mask
from infocal.nn.selector import Selector


class Forward(NamedTuple):
    """Everything one training pass over a batch produces."""

    select_logit: Float[Tensor, "R T"]
    mask: Float[Tensor, "R T"]
    """Sampled selection, zero at padding."""
    predictor_feature: Float[Tensor, "R Z"]
    """z~_nero of Eq. (3)."""
    guider_feature: Float[Tensor, "R Z"]
    """z_nero of Eq. (7)."""
    gaussian: Gaussian
    predictor_output: Float[Tensor, "B C"]
    guider_output: Float[Tensor, "B C"]


class InfoCal(SelectorPredictor):
    """The generator's side of [Sha2023]; the discriminator stands apart, for it has its own optimiser.

    Args:
        config: the hyper-parameters.
        task: regression or classification.
        embeddings: word vectors, row 0 the padding's.
    """

    config: InfoCalConfig
    selector: Selector

    def __init__(
        self, config: InfoCalConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        self.guider = Guider(config, self.new_encoder(), self.num_rationales)
        # W_p and b_p, shared by Eq. (4) and Eq. (8)
        self.output = output_layer(config.feature_size, task)

    def forward(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Forward:
        """One training pass: sample a mask, predict from it, and guide from the whole text."""
        embedded = self.embed(words)
        select_logit, gaussian = self._read(embedded, is_token)
        straight_through = self.config.sampling == "straight_through"
        is_real = repeated(is_token, self.num_rationales)
        mask = sample_mask(select_logit, self.config.temperature, straight_through) * is_real
        if self.config.is_dense:
            mask = is_real.to(mask.dtype)
        # by policy gradient the selector learns from what a mask cost, and not through the predictor
        seen = mask.detach() if self.config.calibration_loss == "policy_gradient" else mask
        predictor_feature = self.feature(embedded, seen, is_token)
        if gaussian is None:
            gaussian = self.guider(embedded, is_token)
        guider_feature = gaussian.sample()
        return Forward(
            select_logit,
            mask,
            predictor_feature,
            guider_feature,
            gaussian,
            self.logits_of(predictor_feature, len(is_token)),
            self.logits_of(guider_feature, len(is_token)),
        )

    def _read(
        self, embedded: Embedded, is_token: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "R T"], Gaussian | None]:
        """What the selector says of whole texts; and the guider, where one encoder serves both at once."""
        if self.guider.encoder is not self.selector.encoder:
            return self.selector(embedded, is_token), None
        states = self.selector.encoder(embedded, is_token.to(embedded.vectors.dtype))
        return self.selector.of_states(states), self.guider.of_states(states, is_token)

    def guide(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B C"]:
        """The guider's prediction from the whole text, at the mean of z_nero."""
        gaussian = self.guider(self.embed(words), is_token)
        return self.activate(self.logits_of(gaussian.mu, len(is_token)))
