"""The recurrence of the RCNN in torch operations, with a backward pass written by hand.

The graph of the plain form holds a dozen nodes a step; this one holds a single node for all steps and
keeps only what the gradient needs.

Shapes: T steps, D directions, B texts, H hidden units, I = 3 H inputs of a step.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def recurrence(
    inputs: Float[Tensor, "T D B I"],
    gates: Float[Tensor, "T D B 1"],
    weights: tuple[Float[Tensor, "D H H"], Float[Tensor, "D 1 H"], Float[Tensor, "D 1 H"]],
) -> Float[Tensor, "T D B H"]:
    """Outputs of the cell over time: the same function as `infocal.nn.encoders.RCNN.recurrence`.

    Any device and floating type; differentiable once by every argument.

    Args:
        inputs: projections of the words, one after the other: of lambda, of c1 and of c2.
        gates: 1 where a token is seen, 0 where the state is carried; may lie between.
        weights: U_l transposed, b_l of lambda and b of the output, for each direction.
    """
    outputs: Tensor = _Recurrence.apply(inputs, gates, *weights)  # type: ignore[no-untyped-call]
    return outputs


def _all_open(gates: Tensor) -> bool:
    """Whether every gate is 1; not asked of a GPU, which would have to be waited for."""
    return gates.device.type == "cpu" and bool((gates == 1).all())


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, gates: Tensor, weight: Tensor, gate_bias: Tensor, output_bias: Tensor
    ) -> Tensor:
        steps, directions, batch, _ = inputs.shape
        size = weight.shape[-1]
        is_open = _all_open(gates)
        outputs = inputs.new_empty(steps, directions, batch, size)
        # a tensor a step: an allocator has pieces of that size at hand, but asks the system for a large one
        forgets = []
        # the states before each step and after the last one: first, second, hidden
        states = [inputs.new_zeros(3, directions, batch, size)]
        for t in range(steps):
            gate_in, first_in, second_in = inputs[t].chunk(3, dim=-1)
            before, after = states[t], torch.empty_like(states[t])
            forget = torch.baddbmm(gate_in + gate_bias, before[2], weight).sigmoid_()
            _open_step(first_in, second_in, output_bias, forget, before, after)
            if is_open:
                outputs[t] = after[2]
            else:
                torch.mul(after[2], gates[t], out=outputs[t])
                torch.lerp(before, after, gates[t], out=after)
            forgets.append(forget)
            states.append(after)
        ctx.is_open = is_open
        ctx.save_for_backward(inputs, gates, weight, output_bias, *forgets, *states)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, gates, weight, output_bias, *steps = ctx.saved_tensors
        forgets, states = steps[: len(gates)], steps[len(gates) :]
        size = weight.shape[-1]
        transposed = weight.transpose(1, 2)
        grad_inputs = torch.empty_like(inputs)
        grad_gates = torch.empty_like(gates) if ctx.needs_input_grad[1] else None
        grad_output_bias = torch.zeros_like(output_bias)
        opened = torch.empty_like(states[0])
        carried = torch.zeros_like(opened)  # gradient by the states after the step
        for t in range(len(gates) - 1, -1, -1):
            keep, before = gates[t], states[t]
            _, first_in, second_in = inputs[t].chunk(3, dim=-1)
            new, by_new, passed = states[t + 1], carried, None
            if not ctx.is_open:
                new = _open_step(first_in, second_in, output_bias, forgets[t], before, opened)
                by_new, passed = carried * keep, carried * (1 - keep)
            if grad_gates is not None:
                changed = (new - before).mul_(carried).sum(0).addcmul_(grad[t], new[2])
                grad_gates[t] = changed.sum(-1, keepdim=True)
            by_new[2] += grad[t] if ctx.is_open else grad[t] * keep
            by_output = (1 - new[2].square()).mul_(by_new[2])
            by_new[1] += by_output
            grad_output_bias += by_output.sum(1, keepdim=True)
            carried = _back(grad_inputs[t], first_in, second_in, forgets[t], before, by_new)
            torch.bmm(grad_inputs[t, ..., :size], transposed, out=carried[2])
            if passed is not None:
                carried += passed
        by_forget = grad_inputs[..., :size].transpose(0, 1).flatten(1, 2)
        hidden = torch.stack([state[2] for state in states[:-1]], dim=1).flatten(1, 2)
        grad_weight = torch.bmm(hidden.transpose(1, 2), by_forget)
        return grad_inputs, grad_gates, grad_weight, by_forget.sum(1, keepdim=True), grad_output_bias


def _open_step(
    first_in: Tensor, second_in: Tensor, output_bias: Tensor, forget: Tensor, before: Tensor, new: Tensor
) -> Tensor:
    """Write to `new` the states that an open gate leads to from the states `before`."""
    torch.lerp(first_in, before[0], forget, out=new[0])
    torch.lerp(before[0] + second_in, before[1], forget, out=new[1])
    torch.add(new[1], output_bias, out=new[2]).tanh_()
    return new


def _back(
    grad_input: Tensor, first_in: Tensor, second_in: Tensor, forget: Tensor, before: Tensor, by_new: Tensor
) -> Tensor:
    """Gradient by the states before a step, the hidden one not yet filled in, from that by the new states.

    Writes the gradient by the inputs of the step to `grad_input`.
    """
    by_gate, by_first, by_second = grad_input.chunk(3, dim=-1)
    admit = 1 - forget
    slope = (before[0] - first_in).mul_(by_new[0])
    slope.addcmul_((before[1] - before[0]).sub_(second_in), by_new[1])
    torch.mul(slope.mul_(forget), admit, out=by_gate)
    torch.mul(by_new[0], admit, out=by_first)
    torch.mul(by_new[1], admit, out=by_second)
    carried = torch.empty_like(by_new)
    torch.addcmul(by_second, by_new[0], forget, out=carried[0])
    torch.mul(by_new[1], forget, out=carried[1])
    return carried
