"""A recurrent layer as one operation in C++ (`layer.hpp`), with its backward pass; float32 on CPU.

Shapes: B texts, T positions, U distinct words, H hidden units, Z = 2 H for both directions. A cell has G
products of the hidden state, each H wide, K biases and I projections of a word: M = G H, N = K H, W = 2 I H.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from infocal.kernels import build


@dataclass(frozen=True, slots=True)
class Cell:
    """What the caller of a cell in C++ must know of it; its constants there have the same values."""

    name: str
    """Names its file and its functions."""
    states: int
    """S, states that are carried; the last one is the hidden state."""
    gates: int
    """G, products of the hidden state."""


def layer(
    cell: Cell,
    projected: Float[Tensor, "U W"],
    index: Int[Tensor, "B T"],
    gate: Float[Tensor, "B T"],
    weight: Float[Tensor, "2 H M"],
    bias: Float[Tensor, "2 1 N"],
) -> Float[Tensor, "B T Z"]:
    """States of both directions, as `infocal.nn.encoders.Encoder.forward` says; differentiable once.

    A position whose gate is 0 costs no product. What stands there reaches nothing but the gradient by its
    own gate, so that a NaN in its word does not spread, as it would in the plain form (0 times NaN).

    Args:
        cell: which kind of layer it is.
        projected: the projections of each distinct word, for one direction after the other.
        index: row of `projected` at each position.
        gate: 1 where a token is seen, 0 where the state is carried; may lie between.
        weight: the recurrent weight.
        bias: those of the products, then the others.

    Raises:
        IndexError: an index is no row of `projected`.
    """
    if index.numel():
        low, high = index.aminmax()
        if low < 0 or high >= len(projected):
            raise IndexError(
                f"expected indices below {len(projected)}, the number of projected words, but "
                f"got {int(low)}..{int(high)}"
            )
    arguments = (projected, gate, weight, bias)
    training = torch.is_grad_enabled() and any(argument.requires_grad for argument in arguments)
    states: Tensor = _Layer.apply(*arguments, index, cell, training)  # type: ignore[no-untyped-call]
    return states


_SIZES = ("length", "batch", "size", "threads", "by_gate", "training")
_INPUTS = ("projected", "index", "gate", "weight", "bias", "output")
_STATES = ("state_0", "state_1", "state_2")
_SAVED = ("saved", *_STATES, "closed")
_GRADIENTS = ("grad", "grad_projected", "grad_gate", "grad_product", "grad_bias")


class Call(ctypes.Structure):
    """The arguments of a call, as in `lanes.hpp`, where they are explained."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _SIZES),
        *((name, ctypes.c_void_p) for name in (*_INPUTS, *_SAVED, *_GRADIENTS)),
    )

    def give(self, **tensors: Tensor) -> None:
        """Set pointers; the tensors must be dense, and outlive the call."""
        for name, tensor in tensors.items():
            setattr(self, name, tensor.data_ptr())


def _function(cell: Cell, name: str) -> Any:
    library = build.library()
    assert library is not None, build.failure()
    return getattr(library, f"infocal_{cell.name}_{name}")


def _buffers(cell: Cell, lines: int, like: Tensor, size: int, by_gate: bool) -> dict[str, Tensor]:
    """What a forward pass keeps for the backward pass; a tensor each, as an allocator likes it better."""
    widths = {"saved": cell.gates * size} | dict.fromkeys(_STATES[: cell.states], size)
    if by_gate:
        widths["closed"] = cell.gates * size
    return {name: like.new_empty(lines, width) for name, width in widths.items()}


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        gate: Tensor,
        weight: Tensor,
        bias: Tensor,
        index: Tensor,
        cell: Cell,
        training: bool,
    ) -> Tensor:
        inputs = [tensor.contiguous() for tensor in (projected, index, gate, weight, bias)]
        batch, length = gate.shape
        size = weight.shape[1]
        by_gate = training and ctx.needs_input_grad[1]
        output = gate.new_empty(batch, length, 2 * size)
        call = Call(length, batch, size, torch.get_num_threads(), by_gate, training)
        tensors = dict(zip(_INPUTS, (*inputs, output), strict=True))
        if training:
            ctx.lines = (ctypes.c_int64 * 2)()
            call.give(gate=tensors["gate"])
            _function(cell, "lines")(ctypes.byref(call), ctx.lines)
            tensors |= _buffers(cell, sum(ctx.lines), gate, size, by_gate)
        call.give(**tensors)
        _function(cell, "forward")(ctypes.byref(call))
        if training:
            ctx.cell, ctx.names = cell, tuple(tensors)
            ctx.sizes = tuple(getattr(call, name) for name in _SIZES)
            ctx.save_for_backward(*tensors.values())
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        call = Call(*ctx.sizes)
        grad = grad.contiguous()
        grad_projected, grad_bias = torch.zeros_like(tensors["projected"]), torch.zeros_like(tensors["bias"])
        grad_gate = grad.new_zeros(2, call.batch, call.length) if call.by_gate else grad.new_empty(0)
        grad_product = torch.empty_like(tensors["saved"])
        gradients = (grad, grad_projected, grad_gate, grad_product, grad_bias)
        call.give(**tensors, **dict(zip(_GRADIENTS, gradients, strict=True)))
        _function(ctx.cell, "backward")(ctypes.byref(call))
        hidden, lines = tensors[_STATES[ctx.cell.states - 1]], list(ctx.lines)
        per_direction = zip(hidden.split(lines), grad_product.split(lines), strict=True)
        grad_weight = torch.stack([before.T @ by_product for before, by_product in per_direction])
        by_gate = grad_gate.sum(0) if call.by_gate else None
        return (grad_projected, by_gate, grad_weight, grad_bias, None, None, None)
