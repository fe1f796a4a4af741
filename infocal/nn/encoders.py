"""What an encoder is, and the recurrent ones: bidirectional, carried through positions that are gated off.

The input projection has no bias, so it is done once per distinct word of the batch and gathered.

Shapes: B texts, T positions, U distinct words, E embedding dimensions, H hidden units, Z = 2 H for both
directions, I = P H inputs of a step for P projections, W = 2 I for both directions.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from infocal import kernels
from infocal.config import MethodConfig
from infocal.encoder_registry import ENCODERS
from infocal.errors import ConfigError
from infocal.kernels import lstm_cpp, rcnn_cpp, rcnn_torch
from infocal.nn.pieces import Layout, Pretrained

GIVEN = "model."
"""Before the names of weights that an encoder was given, in its `state_dict`."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """The words of a batch: the vectors of its distinct words, and which word stands where."""

    vectors: Float[Tensor, "U E"]
    """Vectors of the U distinct words."""
    index: Int[Tensor, "B T"]
    """Row of `vectors` at each position."""
    pieces: Layout | None = None
    """The same texts as pieces in windows, for an encoder that reads these; `vectors` then are empty."""
    hides_unselected: bool = False
    """Whether a pretrained encoder sees nothing of words that are gated off, not even their places."""

    def repeated(self, num: int) -> "Embedded":
        """All texts of the batch, then all of them again, `num` times in all."""
        pieces = None if self.pieces is None else self.pieces.repeated(num, self.index.numel())
        return replace(self, index=self.index.repeat(num, 1), pieces=pieces)

    def text(self, row: int, length: int) -> "Embedded":
        """One text alone, without padding.

        Args:
            row: of the text.
            length: number of its tokens.
        """
        pieces = None if self.pieces is None else self.pieces.text(row, length, *self.index.shape)
        return replace(self, index=self.index[row : row + 1, :length], pieces=pieces)

    def detached(self) -> "Embedded":
        """The same words, whose vectors no gradient reaches."""
        return replace(self, vectors=self.vectors.detach())


class Encoder(nn.Module):
    """Reads a text: one state for each of its words.

    Selector, predictor and guider are given theirs. Two of them may be given the same one: its weights are
    then trained by both, and saved once.
    """

    output_size: int
    """Dimensions of a state."""

    is_pretrained: ClassVar[bool] = False
    """Whether training starts from weights that are given, at a learning rate of their own."""

    carries_state: ClassVar[bool] = False
    """Whether a text may be read without the tokens that are gated off, and every other state stays as it is.
    """

    @classmethod
    def of(cls, config: MethodConfig, embedding_size: int, pretrained: Pretrained | None) -> "Encoder":
        """The encoder of this config.

        Args:
            config: the hyper-parameters.
            embedding_size: E, dimensions of a word vector.
            pretrained: for an encoder that starts from given weights; None for any other.
        """
        raise NotImplementedError(f"{cls.__name__} cannot be made from a config")

    def given_weights(self) -> list[str]:
        """Names of the tensors that are as they were given, because no part of the encoder is trained.

        Those of `Pretrained.weights`; in `state_dict` they follow `GIVEN`. None where some part is trained.
        """
        return []

    def forward(self, embedded: Embedded, gate: Float[Tensor, "B T"]) -> Float[Tensor, "B T Z"]:
        """State of each word, zero where `gate` is zero; differentiable by the gate.

        What a gate does to the other states is the encoder's own. A token that is gated off must not show
        in them, and the gradient by its gate must say what it would have changed, were it seen.

        Args:
            embedded: the words of the batch.
            gate: 1 where a token is seen, 0 at padding and at unselected tokens; may lie between.
        """
        raise NotImplementedError(f"{type(self).__name__} reads nothing")


class Recurrent(Encoder):
    """A bidirectional recurrent layer; a subclass is one kind of cell.

    Args:
        embedding_size: E, dimensions of a word vector.
        hidden_size: H, units of each direction.
    """

    carries_state = True
    num_projections: int
    """Projections of the input (each H wide) that a step of the cell takes."""

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size, self.output_size = hidden_size, 2 * hidden_size
        self.input_weight = nn.Parameter(torch.empty(embedding_size, 2 * self.num_projections * hidden_size))
        columns = self.input_weight.data.split(hidden_size, dim=1)
        for column in columns:
            nn.init.xavier_uniform_(column)

    @classmethod
    def of(cls, config: MethodConfig, embedding_size: int, pretrained: Pretrained | None) -> "Recurrent":
        """See `Encoder.of`."""
        return cls(embedding_size, config.hidden_size)

    def forward(self, embedded: Embedded, gate: Float[Tensor, "B T"]) -> Float[Tensor, "B T Z"]:
        """States of both directions, zero where `gate` is zero.

            c_t = gate_t c_new + (1 - gate_t) c_{t-1}  (every state),   output_t = gate_t h_t

        so a token that is gated off neither shows nor advances the state, and the gradient by its
        gate still says what it would have changed.

        Args:
            embedded: the words of the batch.
            gate: 1 where a token is seen, 0 at padding and at unselected tokens; may lie between.

        Differs: the input is not multiplied by the gate as well (m_i x_i of [Sha2023]). Where gates are 0
        or 1 the states are the same, but so the gradient by the gate of an unseen token knows its word.
        """
        return self.layer(embedded.vectors @ self.input_weight, embedded.index, gate)

    def layer(
        self, projected: Float[Tensor, "U W"], index: Int[Tensor, "B T"], gate: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T Z"]:
        """`forward` from the projections of the distinct words on."""
        return self.run(projected, index, gate, self.recurrence)

    def run(
        self,
        projected: Float[Tensor, "U W"],
        index: Int[Tensor, "B T"],
        gate: Float[Tensor, "B T"],
        recurrence: Callable[[Tensor, Tensor], Tensor],
    ) -> Float[Tensor, "B T Z"]:
        """`layer` by a form of `recurrence`: spread the words over their positions and run it."""
        width = self.num_projections * self.hidden_size
        projected = functional.embedding(index.T, projected)  # T B 2PH
        gates = gate.T.unsqueeze(-1)  # T B 1
        # D = 2 directions side by side; the second one reads the text from its end
        inputs = torch.stack([projected[..., :width], projected[..., width:].flip(0)], dim=1)  # T D B PH
        both_gates = torch.stack([gates, gates.flip(0)], dim=1)  # T D B 1
        states = recurrence(inputs, both_gates)
        return torch.cat([states[:, 0], states[:, 1].flip(0)], dim=-1).transpose(0, 1)

    def recurrence(
        self, inputs: Float[Tensor, "T 2 B I"], gates: Float[Tensor, "T 2 B 1"]
    ) -> Float[Tensor, "T 2 B H"]:
        """Run the cell over time; the plain form, one step after the other."""
        raise NotImplementedError(f"{type(self).__name__} has no recurrence")


class RCNN(Recurrent):
    """Recurrent convolution of bigrams [Lei2016], the encoder of [Sha2023] for beer.

        lambda_t = sigmoid(W_l x_t + U_l h_{t-1} + b_l)
        c1_t = lambda_t c1_{t-1} + (1 - lambda_t) W_1 x_t
        c2_t = lambda_t c2_{t-1} + (1 - lambda_t) (c1_{t-1} + W_2 x_t)
        h_t = tanh(c2_t + b)

    with weights of its own for each direction.
    """

    num_projections = 3

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__(embedding_size, hidden_size)
        self.recurrent_weight = nn.Parameter(torch.empty(2, hidden_size, hidden_size))  # U_l transposed
        for weight in self.recurrent_weight.data:
            nn.init.xavier_uniform_(weight)
        self.gate_bias = nn.Parameter(torch.zeros(2, 1, hidden_size))
        self.output_bias = nn.Parameter(torch.zeros(2, 1, hidden_size))

    def layer(
        self, projected: Float[Tensor, "U W"], index: Int[Tensor, "B T"], gate: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T Z"]:
        """`forward` from the projections of the distinct words on, by the fastest form that can run here."""
        form = kernels.choose(projected, self.recurrent_weight)
        if form == "plain":
            return super().layer(projected, index, gate)
        weights = (self.recurrent_weight, self.gate_bias, self.output_bias)
        if form == "cpp":
            return rcnn_cpp.layer(projected, index, gate, *weights)
        if form == "triton":
            from infocal.kernels import rcnn_triton  # only where that package is

            return rcnn_triton.layer(projected, index, gate, *weights)
        run_torch = functools.partial(rcnn_torch.recurrence, weights=weights)
        return self.run(projected, index, gate, run_torch)

    def recurrence(
        self, inputs: Float[Tensor, "T 2 B I"], gates: Float[Tensor, "T 2 B 1"]
    ) -> Float[Tensor, "T 2 B H"]:
        """Run the cell over time; the plain form, one step after the other."""
        # one unbind per projection: a slice per step would cost the backward pass a full-size zero tensor
        gate_in, first_in, second_in = (part.unbind(0) for part in inputs.split(self.hidden_size, dim=-1))
        first = second = hidden = torch.zeros_like(first_in[0])
        outputs = []
        for t, keep in enumerate(gates.unbind(0)):
            forget = torch.sigmoid(torch.baddbmm(gate_in[t] + self.gate_bias, hidden, self.recurrent_weight))
            new_second = torch.lerp(first + second_in[t], second, forget)
            new_first = torch.lerp(first_in[t], first, forget)
            new_hidden = torch.tanh(new_second + self.output_bias)
            outputs.append(new_hidden * keep)
            first, second = torch.lerp(first, new_first, keep), torch.lerp(second, new_second, keep)
            hidden = torch.lerp(hidden, new_hidden, keep)
        return torch.stack(outputs)


class LSTM(Recurrent):
    """Long short-term memory, the encoder of [Sha2023] for CAIL; gates in the order i, f, g, o."""

    num_projections = 4

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__(embedding_size, hidden_size)
        self.recurrent_weight = nn.Parameter(torch.empty(2, hidden_size, 4 * hidden_size))
        bound = 1 / math.sqrt(hidden_size)
        nn.init.uniform_(self.recurrent_weight, -bound, bound)
        self.bias = nn.Parameter(torch.zeros(2, 1, 4 * hidden_size))

    def layer(
        self, projected: Float[Tensor, "U W"], index: Int[Tensor, "B T"], gate: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T Z"]:
        """`forward` from the projections of the distinct words on, by the fastest form that can run here."""
        if kernels.choose(projected, self.recurrent_weight, known=("cpp", "plain")) == "cpp":
            return lstm_cpp.layer(projected, index, gate, self.recurrent_weight, self.bias)
        return super().layer(projected, index, gate)

    def recurrence(
        self, inputs: Float[Tensor, "T 2 B I"], gates: Float[Tensor, "T 2 B 1"]
    ) -> Float[Tensor, "T 2 B H"]:
        """Run the cell over time; the plain form, one step after the other."""
        hidden = cell = inputs.new_zeros(2, inputs.shape[2], self.hidden_size)
        outputs = []
        for step_input, keep in zip(inputs.unbind(0), gates.unbind(0), strict=True):
            parts = torch.baddbmm(step_input + self.bias, hidden, self.recurrent_weight)
            enter, forget, candidate, leave = parts.chunk(4, dim=-1)
            new_cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
            new_hidden = torch.sigmoid(leave) * torch.tanh(new_cell)
            outputs.append(new_hidden * keep)
            cell, hidden = torch.lerp(cell, new_cell, keep), torch.lerp(hidden, new_hidden, keep)
        return torch.stack(outputs)


def build_encoder(config: MethodConfig, embedding_size: int, pretrained: Pretrained | None = None) -> Encoder:
    """The encoder that the config names.

    Args:
        config: the hyper-parameters.
        embedding_size: E, dimensions of a word vector.
        pretrained: where it starts, if it is a pretrained one.

    Raises:
        ConfigError: if it is pretrained and nothing is given, or the other way round.
    """
    kind = ENCODERS[config.encoder]
    if kind.is_pretrained != (pretrained is not None):
        given = "word vectors" if pretrained is None else "a pretrained encoder"
        raise ConfigError(f"`encoder` {config.encoder} cannot be made from {given}")
    made = kind.encoder_class().of(config, embedding_size, pretrained)
    assert isinstance(made, Encoder)
    return made


def pool(
    states: Float[Tensor, "B T Z"], gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"], how: str
) -> Float[Tensor, "B Z"]:
    """One vector a text: `mean` or `max` of each unit over seen tokens, or each direction's `last` state.

    `last` takes the first half of a state for the direction that ends at the last token, as it is in the
    recurrent encoders.

    Unselected tokens are zeros in `states` and take part in the maximum: an empty selection gives
    the zero vector, and the gradient by the mask of an unselected token is not lost. Padding does not.
    """
    if how == "max":
        # not amax: it would share a gradient among all zeros of the row
        return states.masked_fill(~is_token.unsqueeze(-1), -torch.inf).max(dim=1).values
    if how == "mean":
        return states.sum(dim=1) / gate.sum(dim=1, keepdim=True).clamp(min=1)
    batch, length, width = states.shape
    position = torch.arange(length, device=states.device)
    seen = gate > 0
    last = torch.where(seen, position, 0).amax(dim=1)
    first = torch.where(seen, position, length - 1).amin(dim=1)
    row = torch.arange(batch, device=states.device)
    half = width // 2
    return torch.cat([states[row, last, :half], states[row, first, half:]], dim=-1)
