"""A pretrained transformer of Hugging Face's `transformers`; the package is imported where one is built.

Shapes: B texts, T positions, R windows, C places in a window, Z dimensions of a state.
"""

import inspect
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from infocal.config import MethodConfig
from infocal.errors import ConfigError
from infocal.nn.encoders import Embedded, Encoder
from infocal.nn.pieces import EXTRA, Layout, Pretrained


class FirstMark(NamedTuple):
    """What the special token before a text, such as `[CLS]`, makes of it in the last block."""

    state: Float[Tensor, "B Z"]
    attention: Float[Tensor, "B H T"]
    """Of each head to the pieces of each word, summed over them; what goes to marks is left out."""


class Transformer(Encoder):
    """A pretrained encoder over subwords; the state of a word is that of its pieces.

    What a gate does: it multiplies the vectors of the word's pieces where they enter, before positions are
    added, and the state of the word. So a word that is gated off does not show, though its place does: it may
    still be attended to, and the gradient by its gate says what it would have changed. Where
    `embedded.hides_unselected` is set, such a place is taken out of the attention as well; the positions of
    the others stay as they were.

    Args:
        pretrained: architecture and weights.
        num_frozen: blocks from the first one on that are not trained; with them the vectors of the pieces.
        recomputes: whether the backward pass computes each block again, to keep less in memory.

    Raises:
        ConfigError: if the architecture is not known, cannot be read this way, has fewer blocks, or cannot
            compute them again.
    """

    is_pretrained = True

    def __init__(self, pretrained: Pretrained, num_frozen: int = 0, recomputes: bool = False) -> None:
        super().__init__()
        self.model = _built(pretrained)
        self.output_size = self.model.config.hidden_size
        if num_frozen:
            self._freeze(num_frozen)
        if recomputes:
            self._recompute()

    @classmethod
    def of(cls, config: MethodConfig, embedding_size: int, pretrained: Pretrained | None) -> "Transformer":
        """The encoder of this config; it has no use for word vectors."""
        assert pretrained is not None
        return cls(pretrained, config.frozen_layers, config.gradient_checkpointing)

    def _recompute(self) -> None:
        if not self.model.supports_gradient_checkpointing:
            kind = type(self.model).__name__
            raise ConfigError(f"`gradient_checkpointing` must be false: encoder {kind} does not support it")
        # the same under its names of before and after version 6 of transformers was announced
        named = [f"{kind}_checkpointing_enable" for kind in ("activation", "gradient")]
        enable = next(getattr(self.model, name) for name in named if hasattr(self.model, name))
        enable({"use_reentrant": False})

    def _freeze(self, num: int) -> None:
        wanted = self.model.config.num_hidden_layers
        blocks = next(
            (m for m in self.model.modules() if isinstance(m, nn.ModuleList) and len(m) == wanted), None
        )
        if blocks is None or num > wanted:
            raise ConfigError(f"`frozen_layers` must be at most {wanted} for this encoder, but got {num}")
        frozen = [p for block in blocks[:num] for p in block.parameters()]
        inside = {id(p) for block in blocks for p in block.parameters()}
        # whatever stands outside of the blocks lies before them: vectors of pieces and positions
        frozen += [p for p in self.model.parameters() if id(p) not in inside]
        for parameter in frozen:
            parameter.requires_grad_(False)

    def given_weights(self) -> list[str]:
        """See `Encoder.given_weights`."""
        is_trained = any(parameter.requires_grad for parameter in self.model.parameters())
        return [] if is_trained else list(self.model.state_dict())

    def forward(self, embedded: Embedded, gate: Float[Tensor, "B T"]) -> Float[Tensor, "B T Z"]:
        """See `Encoder.forward`."""
        layout, output = self._run(embedded, gate)
        states = self._of_words(layout, output.last_hidden_state * layout.share.unsqueeze(-1), gate)
        return states * gate.unsqueeze(-1)

    def read_by_mark(self, embedded: Embedded, gate: Float[Tensor, "B T"]) -> FirstMark:
        """State and attention of the mark before the text; differentiable by the gates.

        Of a text in several windows, the mean of the windows' states, and the sum of their attention.
        """
        layout, output = self._run(embedded, gate, output_attentions=True)
        # a window's text is that of its words, which come before the number of the marks
        num_slots, num_texts = gate.numel(), len(gate)
        text = layout.word.masked_fill(layout.word >= num_slots, -1).amax(dim=1) // gate.shape[1]
        windows = torch.bincount(text, minlength=num_texts)
        first = output.last_hidden_state[:, 0]
        state = first.new_zeros(num_texts, self.output_size).index_add(0, text, first) / windows[:, None]
        attention = self._of_words(layout, output.attentions[-1][:, :, 0].transpose(1, 2), gate)
        return FirstMark(state, attention.transpose(1, 2))

    def show_attention(self) -> None:
        """Compute attention in the form that can be given out, which is slower; for `read_by_mark`."""
        self.model.set_attn_implementation("eager")

    def _run(self, embedded: Embedded, gate: Float[Tensor, "B T"], **asked: bool) -> tuple[Layout, Any]:
        """The pieces, and what the model gives for them."""
        layout = embedded.pieces
        assert layout is not None
        num_slots = gate.numel()
        # behind the words: the marks around a text are always seen, padding never is
        gates = torch.cat([gate.flatten(), gate.new_tensor([1.0, 0.0])])[layout.word]
        attended = layout.word <= num_slots
        if embedded.hides_unselected:
            attended = attended & (gates > 0)
        vectors = self.model.get_input_embeddings()(layout.ids) * gates.unsqueeze(-1)
        return layout, self.model(inputs_embeds=vectors, attention_mask=attended.long(), **asked)

    def _of_words(
        self, layout: Layout, values: Float[Tensor, "R C V"], gate: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """The sum of the values of each word's pieces."""
        summed = values.new_zeros(gate.numel() + 2, values.shape[-1])
        summed = summed.index_add(0, layout.word.flatten(), values.flatten(0, 1))
        return summed[: gate.numel()].view(*gate.shape, -1)


def _built(pretrained: Pretrained) -> Any:
    """The model, without the head that `transformers` may put on its first state.

    Raises:
        ConfigError: if `transformers` is not installed, does not know the architecture, or its model takes no
            vectors in the place of pieces.
    """
    try:
        from transformers import AutoConfig, AutoModel
    except ImportError as error:
        raise ConfigError(
            "`encoder` transformer needs the package transformers, which is not installed",
            hint=f"pip install '{EXTRA}'",
        ) from error
    kind = str(pretrained.architecture.get("model_type"))
    try:
        config = AutoConfig.for_model(**pretrained.architecture)
        model = AutoModel.from_config(config, trust_remote_code=False)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"transformers builds no model of the architecture `{kind}`: {error}") from error
    takes = inspect.signature(model.forward).parameters
    if not {"inputs_embeds", "attention_mask"} <= takes.keys() or getattr(config, "is_decoder", False):
        raise ConfigError(
            f"a model of the architecture `{kind}` cannot be used: expected an encoder such as BERT that "
            "takes vectors in place of pieces"
        )
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    if pretrained.weights is not None:
        model.load_state_dict(pretrained.weights)
    return model
