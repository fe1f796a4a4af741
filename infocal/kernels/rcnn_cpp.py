"""The RCNN layer as one operation in C++ (`rcnn.cpp`), with its backward pass; float32 on CPU.

Shapes: B texts, T positions, U distinct words, H hidden units, Z = 2 H for both directions, W = 6 H.
"""

import ctypes
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from infocal.kernels import build


def layer(
    projected: Float[Tensor, "U W"],
    index: Int[Tensor, "B T"],
    gate: Float[Tensor, "B T"],
    recurrent_weight: Float[Tensor, "2 H H"],
    gate_bias: Float[Tensor, "2 1 H"],
    output_bias: Float[Tensor, "2 1 H"],
) -> Float[Tensor, "B T Z"]:
    """States of both directions, as `infocal.encoders.RCNN.layer` says; differentiable once.

    A position whose gate is 0 costs no product. What stands there reaches nothing but the gradient by its
    own gate, so that a NaN in its word does not spread, as it would in the plain form (0 times NaN).

    Args:
        projected: the three projections of each distinct word, for one direction after the other.
        index: row of `projected` at each position.
        gate: 1 where a token is seen, 0 where the state is carried; may lie between.
        recurrent_weight: U_l transposed.
        gate_bias: b_l of lambda.
        output_bias: b of the output.

    Raises:
        IndexError: an index is no row of `projected`.
    """
    if index.numel():
        low, high = index.aminmax()
        if low < 0 or high >= len(projected):
            raise IndexError(f"index {int(low)}..{int(high)} leaves the {len(projected)} projected words")
    arguments = (projected, gate, recurrent_weight, gate_bias, output_bias)
    training = torch.is_grad_enabled() and any(argument.requires_grad for argument in arguments)
    states: Tensor = _Layer.apply(*arguments, index, training)  # type: ignore[no-untyped-call]
    return states


_SIZES = ("length", "batch", "size", "threads", "by_gate", "training")
_INPUTS = ("projected", "index", "gate", "weight", "gate_bias", "output_bias", "output")
_SAVED = ("forget", "first", "second", "hidden", "closed")
_GRADIENTS = ("grad", "grad_projected", "grad_gate", "grad_forget", "grad_gate_bias", "grad_output_bias")


class Call(ctypes.Structure):
    """The arguments of a call, as in `rcnn.cpp`, where they are explained."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _SIZES),
        *((name, ctypes.c_void_p) for name in (*_INPUTS, *_SAVED, *_GRADIENTS)),
    )

    def give(self, **tensors: Tensor) -> None:
        """Set pointers; the tensors must be dense, and outlive the call."""
        for name, tensor in tensors.items():
            setattr(self, name, tensor.data_ptr())


def _function(name: str) -> Any:
    library = build.library()
    assert library is not None, build.failure()
    return getattr(library, f"infocal_rcnn_{name}")


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        gate: Tensor,
        weight: Tensor,
        gate_bias: Tensor,
        output_bias: Tensor,
        index: Tensor,
        training: bool,
    ) -> Tensor:
        inputs = [t.contiguous() for t in (projected, index, gate, weight, gate_bias, output_bias)]
        batch, length = gate.shape
        size = weight.shape[-1]
        by_gate = training and ctx.needs_input_grad[1]
        output = gate.new_empty(batch, length, 2 * size)
        call = Call(length, batch, size, torch.get_num_threads(), by_gate, training)
        call.give(**dict(zip(_INPUTS, (*inputs, output), strict=True)))
        ctx.lines = (ctypes.c_int64 * 2)()
        _function("lines")(ctypes.byref(call), ctx.lines)
        saved = []
        if training:
            saved = [gate.new_empty(sum(ctx.lines), size) for _ in _SAVED[: 5 if by_gate else 4]]
            call.give(**dict(zip(_SAVED, saved, strict=False)))
        _function("forward")(ctypes.byref(call))
        if training:
            ctx.sizes = tuple(getattr(call, name) for name in _SIZES)
            ctx.save_for_backward(*inputs, output, *saved)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors = dict(zip((*_INPUTS, *_SAVED), ctx.saved_tensors, strict=False))
        call = Call(*ctx.sizes)
        hidden = tensors["hidden"]
        batch, length, size = call.batch, call.length, call.size
        grad = grad.contiguous()
        grad_projected = torch.zeros_like(tensors["projected"])
        grad_gate = grad.new_zeros(2, batch, length) if call.by_gate else grad.new_empty(0)
        grad_forget = torch.empty_like(hidden)
        grad_biases = grad.new_zeros(2, 2, 1, size)
        gradients = (grad, grad_projected, grad_gate, grad_forget, *grad_biases)
        call.give(**tensors, **dict(zip(_GRADIENTS, gradients, strict=True)))
        _function("backward")(ctypes.byref(call))
        per_direction = zip(hidden.split(list(ctx.lines)), grad_forget.split(list(ctx.lines)), strict=True)
        grad_weight = torch.stack([before.T @ by_forget for before, by_forget in per_direction])
        by_gate = grad_gate.sum(0) if call.by_gate else None
        return (grad_projected, by_gate, grad_weight, *grad_biases, None, None)
