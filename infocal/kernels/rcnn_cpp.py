"""The RCNN layer as one operation in C++ (`rcnn.cpp`); float32 on CPU.

Shapes: B texts, T positions, U distinct words, H hidden units, Z = 2 H for both directions, W = 6 H.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from infocal.kernels import layer_cpp

_CELL = layer_cpp.Cell("rcnn", states=3, gates=1)


def layer(
    projected: Float[Tensor, "U W"],
    index: Int[Tensor, "B T"],
    gate: Float[Tensor, "B T"],
    recurrent_weight: Float[Tensor, "2 H H"],
    gate_bias: Float[Tensor, "2 1 H"],
    output_bias: Float[Tensor, "2 1 H"],
) -> Float[Tensor, "B T Z"]:
    """States of both directions: `layer_cpp.layer` of this cell.

    Args:
        projected: the three projections of each distinct word, for one direction after the other.
        index: row of `projected` at each position.
        gate: 1 where a token is seen, 0 where the state is carried; may lie between.
        recurrent_weight: U_l transposed.
        gate_bias: b_l of lambda.
        output_bias: b of the output.
    """
    bias = torch.cat([gate_bias, output_bias], dim=-1)
    return layer_cpp.layer(_CELL, projected, index, gate, recurrent_weight, bias)
