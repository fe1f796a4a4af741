"""The plain forms that ours is compared with: the published loop over time, and torch's LSTM."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from infocal.methods.infocal.trainer import InfoCalTrainer
from infocal.nn.encoders import RCNN, Embedded

Pass = Callable[[], Tensor]


class LoopRCNN(RCNN):
    """The RCNN as published: each direction is a Python loop over time that projects its word at each step.

    The same parameters and the same function as the RCNN of `infocal/nn/encoders.py`. Fair to the loop: words
    are looked up once a batch, and split by `unbind`, whose backward pass fills no full-size tensor a step.
    """

    def forward(self, embedded: Embedded, gate: Float[Tensor, "B T"]) -> Float[Tensor, "B T Z"]:
        """States of both directions, zero where `gate` is zero."""
        words = functional.embedding(embedded.index, embedded.vectors).unbind(1)
        gates = gate.unsqueeze(-1).unbind(1)
        forward = self._loop(0, words, gates)
        backward = self._loop(1, words[::-1], gates[::-1])[::-1]
        return torch.cat([torch.stack(forward, dim=1), torch.stack(backward, dim=1)], dim=-1)

    def _loop(self, direction: int, words: tuple[Tensor, ...], gates: tuple[Tensor, ...]) -> list[Tensor]:
        size = self.hidden_size
        weights = self.input_weight.split(size, dim=1)[3 * direction : 3 * direction + 3]
        recurrent, gate_bias = self.recurrent_weight[direction], self.gate_bias[direction]
        first = second = hidden = words[0].new_zeros(len(words[0]), size)
        outputs = []
        for word, keep in zip(words, gates, strict=True):
            forget = torch.sigmoid(word @ weights[0] + hidden @ recurrent + gate_bias)
            new_second = forget * second + (1 - forget) * (first + word @ weights[2])
            new_first = forget * first + (1 - forget) * (word @ weights[1])
            new_hidden = torch.tanh(new_second + self.output_bias[direction])
            first, second = keep * new_first + (1 - keep) * first, keep * new_second + (1 - keep) * second
            hidden = keep * new_hidden + (1 - keep) * hidden
            outputs.append(keep * new_hidden)
        return outputs


def as_loop(encoder: RCNN) -> LoopRCNN:
    """The plain form of an encoder, with the very same parameters."""
    loop = LoopRCNN(encoder.input_weight.shape[0], encoder.hidden_size)
    for name, parameter in encoder.named_parameters():
        setattr(loop, name, parameter)
    return loop


def use_loops(trainer: InfoCalTrainer) -> None:
    """Let every encoder of a trainer run in its plain form."""
    for part in (trainer.model.selector, trainer.model.predictor, trainer.model.guider):
        assert isinstance(part.encoder, RCNN)
        part.encoder = as_loop(part.encoder)


class TorchLSTM(nn.Module):
    """torch's own bidirectional LSTM of the same size, from the batch's words on."""

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(embedding_size, hidden_size, bidirectional=True, batch_first=True)

    def forward(self, embedded: Embedded, gate: Float[Tensor, "B T"]) -> Float[Tensor, "B T Z"]:
        """States of both directions, zero at padding."""
        states: Tensor = self.recurrent(functional.embedding(embedded.index, embedded.vectors))[0]
        return states * gate.unsqueeze(-1)


def every_position(token_ids: Int[Tensor, "B T"], table: Float[Tensor, "V E"]) -> Embedded:
    """The words of a batch without the distinct-word trick: one row for each position."""
    index = torch.arange(token_ids.numel()).view_as(token_ids)
    return Embedded(functional.embedding(token_ids.flatten(), table), index)
