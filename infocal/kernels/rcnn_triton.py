"""The RCNN layer as one Triton kernel a pass, for CUDA; the weight's gradient is one product afterwards.

A program takes a block of rows in one direction through the whole text. Its states stay in registers. Only
the hidden one (in the backward pass: the gradient by lambda's input) is also written to global memory at each
step and read back in slices, because Triton cannot slice registers, and the recurrent weight of 200 units
does not fit into the shared memory of a multiprocessor at once. Every sum has a fixed order: results repeat.

Shapes: B texts, T positions, U distinct words, H hidden units, Z = 2 H for both directions, W = 6 H.
"""

import functools
import math
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from infocal.kernels import rcnn_torch

ROWS = 16
"""Rows of a program: the fewest that `tl.dot` takes, so that a batch spreads over many multiprocessors."""
DEEP = 32
"""Rows of the weight that are multiplied at once: 35 KB of shared memory at 256 units."""


def layer(
    projected: Float[Tensor, "U W"],
    index: Int[Tensor, "B T"],
    gate: Float[Tensor, "B T"],
    recurrent_weight: Float[Tensor, "2 H H"],
    gate_bias: Float[Tensor, "2 1 H"],
    output_bias: Float[Tensor, "2 1 H"],
) -> Float[Tensor, "B T Z"]:
    """States of both directions, as `infocal.nn.encoders.RCNN.layer` says, in the type of the weight.

    Computes in float32 whatever the types are; in TensorFloat-32 where torch's float32 matmul precision is
    not `highest`. Differentiable once. An index that is no row of `projected` is not noticed.

    Args:
        projected: the three projections of each distinct word, for one direction after the other.
        index: row of `projected` at each position.
        gate: 1 where a token is seen, 0 where the state is carried; may lie between.
        recurrent_weight: U_l transposed.
        gate_bias: b_l of lambda.
        output_bias: b of the output.
    """
    arguments = (projected, gate, recurrent_weight, gate_bias, output_bias)
    training = torch.is_grad_enabled() and any(argument.requires_grad for argument in arguments)
    states: Tensor = _Layer.apply(*arguments, index, training)  # type: ignore[no-untyped-call]
    return states


@functools.cache
def failure(device: torch.device, size: int) -> str | None:
    """Why a layer of this size cannot run on that device, in one line; None where it can.

    The first call tries: it compiles the kernels, which takes seconds and needs a C compiler, and compares
    a small batch with `rcnn_torch`: a GPU or a Triton that computes something else is noticed.
    """
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            difference = _difference(device, size)
    except Exception as error:  # Triton has no common error: missing compiler, resources, driver, versions
        return f"{type(error).__name__}: " + " ".join(str(error).split())[:300]
    limit = 1e-4 if _exact() else 1e-2  # of the largest value; TensorFloat-32 has 3 digits
    return None if difference < limit else f"it differs from the torch form by {difference:.1e}"


def _difference(device: torch.device, size: int) -> float:
    """The largest difference from `rcnn_torch`, relative to the largest value of its kind."""

    def wave(*shape: int) -> Tensor:  # fixed numbers: torch's random state is not ours
        number = torch.arange(math.prod(shape), device=device, dtype=torch.float32)
        return number.add_(1).mul_(0.7).sin_().view(shape).requires_grad_()

    batch, length = 3, 4
    projected, gate = wave(batch * length, 6 * size), wave(batch, length)
    weights = (wave(2, size, size), wave(2, 1, size), wave(2, 1, size))
    index = torch.arange(batch * length, device=device).view(batch, length)
    towards = wave(batch, length, 2 * size).detach()
    inputs = projected.view(batch, length, 2, 3 * size).permute(1, 2, 0, 3)  # T D B I
    inputs = torch.stack([inputs[:, 0], inputs[:, 1].flip(0)], dim=1)
    gates = torch.stack([gate.T, gate.T.flip(0)], dim=1).unsqueeze(-1)
    turned = rcnn_torch.recurrence(inputs, gates, weights)
    expected = torch.cat([turned[:, 0], turned[:, 1].flip(0)], dim=-1).transpose(0, 1)
    actual = layer(projected, index, gate, *weights)
    arguments = (projected, gate, *weights)
    pairs = [(actual, expected)]
    pairs += zip(*(torch.autograd.grad(out, arguments, towards) for out in (actual, expected)), strict=True)
    return max(float((a - e).abs().max() / e.abs().max()) for a, e in pairs)


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
        output = weight.new_empty(batch, length, 2 * size)
        # without training two slots take turns, for the hidden state alone
        slots = length if training else 2
        states = weight.new_empty(4 if training else 1, batch, slots, 2, size, dtype=torch.float32)
        hidden, first, second, forget = states if training else states.expand(4, -1, -1, -1, -1)
        if output.numel():
            buffers = (*inputs, output, hidden, first, second, forget)
            _forward[_grid(batch)](*buffers, batch, length, slots, TRAINING=training, **_options(size))
        if training:
            ctx.save_for_backward(*inputs, hidden, first, second, forget)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        projected, index, gate, weight, gate_bias, output_bias, hidden, *others = ctx.saved_tensors
        batch, length = gate.shape
        size = weight.shape[-1]
        grad_inputs = hidden.new_empty(batch, length, 2, 3 * size)
        grad_gate = hidden.new_empty(2, batch, length)
        grad_output_bias = hidden.new_zeros(2, triton.cdiv(batch, ROWS), size)
        by_gate = bool(ctx.needs_input_grad[1])
        if grad_inputs.numel():
            transposed = weight.transpose(1, 2).contiguous()
            buffers = (projected, index, gate, transposed, output_bias, hidden, *others, grad.contiguous())
            gradients = (grad_inputs, grad_gate, grad_output_bias)
            sizes = {"BY_GATE": by_gate, **_options(size)}
            _backward[_grid(batch)](*buffers, *gradients, batch, length, **sizes)
        # of a fixed order, unlike index_add
        grad_projected = torch.ops.aten.embedding_dense_backward(
            grad_inputs.flatten(2), index, len(projected), -1, False
        )
        by_forget = grad_inputs[..., :size].flatten(0, 1).transpose(0, 1)  # D BT H
        grad_weight = torch.bmm(hidden.flatten(0, 1).permute(1, 2, 0), by_forget)
        return (
            grad_projected.to(projected.dtype),
            grad_gate.sum(0).to(gate.dtype) if by_gate else None,
            grad_weight.to(weight.dtype),
            by_forget.sum(1, keepdim=True).to(gate_bias.dtype),
            grad_output_bias.sum(1, keepdim=True).to(output_bias.dtype),
            None,
            None,
        )


def _grid(batch: int) -> tuple[int, int]:
    return triton.cdiv(batch, ROWS), 2


def _exact() -> bool:
    return torch.get_float32_matmul_precision() == "highest"


def _options(size: int) -> dict[str, Any]:
    """What a kernel is compiled for."""
    wide = max(16, triton.next_power_of_2(size))
    # one stage: a pipeline would fetch ahead, and nothing may be fetched before the barrier of its step
    return {
        **{
            "SIZE": size,
            "ROWS": ROWS,
            "WIDE": wide,
            "DEEP": DEEP,
            "PRECISION": "ieee" if _exact() else "tf32",
        },
        **{"num_warps": 8 if wide > 128 else 4, "num_stages": 1},
    }


# ------------------------------------------------------------------------------------------------ on the GPU
# Not type-checked, nor checked at run time: Triton reads the source of these functions and compiles it.


@triton.jit
@no_type_check
def _tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))  # no overflow: 1 - 2 / inf is 1


@triton.jit
@no_type_check
def _times(
    rows,
    here,
    weight,
    SIZE,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
    DEEP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Rows, given by pointers to their first units, times a matrix of SIZE x SIZE."""
    units = tl.arange(0, WIDE)
    total = tl.zeros((ROWS, WIDE), tl.float32)
    for start in range(0, SIZE, DEEP):
        inner = start + tl.arange(0, DEEP)
        inside = inner < SIZE
        left = tl.load(rows[:, None] + inner[None, :], mask=here[:, None] & inside[None, :], other=0.0)
        place = inner[:, None] * SIZE + units[None, :]
        right = tl.load(weight + place, mask=inside[:, None] & (units < SIZE)[None, :], other=0.0)
        total = tl.dot(left, right.to(tl.float32), total, input_precision=PRECISION)
    return total


@triton.jit(do_not_specialize=["batch", "length", "slots"])
@no_type_check
def _forward(
    projected,
    index,
    gate,
    weight,
    gate_bias,
    output_bias,
    output,
    hiddens,
    firsts,
    seconds,
    forgets,
    batch,
    length,
    slots,
    TRAINING: tl.constexpr,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
    DEEP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    direction = tl.program_id(1)
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    unit = tl.arange(0, WIDE)
    here = row < batch
    cell = here[:, None] & (unit < SIZE)[None, :]
    bias = tl.load(gate_bias + direction * SIZE + unit, mask=unit < SIZE, other=0.0).to(tl.float32)[None, :]
    shift = tl.load(output_bias + direction * SIZE + unit, mask=unit < SIZE, other=0.0).to(tl.float32)[
        None, :
    ]
    first = tl.zeros((ROWS, WIDE), tl.float32)
    second = tl.zeros((ROWS, WIDE), tl.float32)
    hidden = tl.zeros((ROWS, WIDE), tl.float32)
    for place in range(length):
        t = tl.where(direction == 0, place, length - 1 - place)
        at = row * length + t
        slot = ((row * slots + t % slots) * 2 + direction) * SIZE
        saved = slot[:, None] + unit[None, :]
        tl.store(hiddens + saved, hidden, mask=cell)
        if TRAINING:
            tl.store(firsts + saved, first, mask=cell)
            tl.store(seconds + saved, second, mask=cell)
        tl.debug_barrier()  # other threads read what was stored
        product = _times(
            hiddens + slot, here, weight + direction * SIZE * SIZE, SIZE, ROWS, WIDE, DEEP, PRECISION
        )
        keep = tl.load(gate + at, mask=here, other=0.0).to(tl.float32)[:, None]
        word = tl.load(index + at, mask=here, other=0)
        inputs = projected + (word * 2 + direction)[:, None] * 3 * SIZE + unit[None, :]
        gate_in = tl.load(inputs, mask=cell, other=0.0).to(tl.float32)
        first_in = tl.load(inputs + SIZE, mask=cell, other=0.0).to(tl.float32)
        second_in = tl.load(inputs + 2 * SIZE, mask=cell, other=0.0).to(tl.float32)
        forget = tl.sigmoid(product + gate_in + bias)
        new_second = forget * second + (1.0 - forget) * (first + second_in)
        new_first = forget * first + (1.0 - forget) * first_in
        new_hidden = _tanh(new_second + shift)
        tl.store(
            output + ((at * 2 + direction) * SIZE)[:, None] + unit[None, :], new_hidden * keep, mask=cell
        )
        if TRAINING:
            tl.store(forgets + saved, forget, mask=cell)
        first = first * (1.0 - keep) + new_first * keep
        second = second * (1.0 - keep) + new_second * keep
        hidden = hidden * (1.0 - keep) + new_hidden * keep


@triton.jit(do_not_specialize=["batch", "length"])
@no_type_check
def _backward(
    projected,
    index,
    gate,
    transposed,
    output_bias,
    hiddens,
    firsts,
    seconds,
    forgets,
    grad,
    grad_inputs,
    grad_gate,
    grad_output_bias,
    batch,
    length,
    BY_GATE: tl.constexpr,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
    DEEP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    direction = tl.program_id(1)
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    unit = tl.arange(0, WIDE)
    here = row < batch
    cell = here[:, None] & (unit < SIZE)[None, :]
    shift = tl.load(output_bias + direction * SIZE + unit, mask=unit < SIZE, other=0.0).to(tl.float32)[
        None, :
    ]
    # gradients by the states after the step
    by_first = tl.zeros((ROWS, WIDE), tl.float32)
    by_second = tl.zeros((ROWS, WIDE), tl.float32)
    by_hidden = tl.zeros((ROWS, WIDE), tl.float32)
    by_shift = tl.zeros((ROWS, WIDE), tl.float32)
    for step in range(length):
        t = tl.where(direction == 0, length - 1 - step, step)
        at = row * length + t
        line = ((at * 2 + direction) * SIZE)[:, None] + unit[None, :]
        keep = tl.load(gate + at, mask=here, other=0.0).to(tl.float32)[:, None]
        word = tl.load(index + at, mask=here, other=0)
        inputs = projected + (word * 2 + direction)[:, None] * 3 * SIZE + unit[None, :]
        first_in = tl.load(inputs + SIZE, mask=cell, other=0.0).to(tl.float32)
        second_in = tl.load(inputs + 2 * SIZE, mask=cell, other=0.0).to(tl.float32)
        first = tl.load(firsts + line, mask=cell, other=0.0)
        second = tl.load(seconds + line, mask=cell, other=0.0)
        forget = tl.load(forgets + line, mask=cell, other=0.0)
        by_output = tl.load(grad + line, mask=cell, other=0.0).to(tl.float32)
        admit = 1.0 - forget
        new_second = forget * second + admit * (first + second_in)
        new_hidden = _tanh(new_second + shift)
        if BY_GATE:
            new_first = forget * first + admit * first_in
            hidden = tl.load(hiddens + line, mask=cell, other=0.0)
            change = by_first * (new_first - first) + by_second * (new_second - second)
            change += by_hidden * (new_hidden - hidden) + by_output * new_hidden
            tl.store(grad_gate + direction * batch * length + at, tl.sum(change, 1), mask=here)
        through = keep * (by_hidden + by_output) * (1.0 - new_hidden * new_hidden)
        by_new_first = keep * by_first
        by_new_second = keep * by_second + through
        slope = by_new_first * (first - first_in) + by_new_second * (second - first - second_in)
        by_inputs = grad_inputs + ((at * 2 + direction) * 3 * SIZE)[:, None] + unit[None, :]
        tl.store(by_inputs, slope * forget * admit, mask=cell)
        tl.store(by_inputs + SIZE, by_new_first * admit, mask=cell)
        tl.store(by_inputs + 2 * SIZE, by_new_second * admit, mask=cell)
        tl.debug_barrier()  # other threads read what was stored
        by_product = grad_inputs + (at * 2 + direction) * 3 * SIZE
        product = _times(
            by_product, here, transposed + direction * SIZE * SIZE, SIZE, ROWS, WIDE, DEEP, PRECISION
        )
        by_shift += through
        by_first = by_new_first * forget + by_new_second * admit + (1.0 - keep) * by_first
        by_second = by_new_second * forget + (1.0 - keep) * by_second
        by_hidden = product + (1.0 - keep) * by_hidden
    place = (direction * tl.num_programs(0) + tl.program_id(0)) * SIZE + unit
    tl.store(grad_output_bias + place, tl.sum(by_shift, 0), mask=unit < SIZE)
