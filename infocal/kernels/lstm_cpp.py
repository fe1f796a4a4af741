"""The LSTM layer as one operation in C++ (`lstm.cpp`); float32 on CPU.

Shapes: B texts, T positions, U distinct words, H hidden units, Z = 2 H for both directions, G = 4 H, W = 8 H.
"""

from jaxtyping import Float, Int
from torch import Tensor

from infocal.kernels import layer_cpp

_CELL = layer_cpp.Cell("lstm", states=2, gates=4)


def layer(
    projected: Float[Tensor, "U W"],
    index: Int[Tensor, "B T"],
    gate: Float[Tensor, "B T"],
    recurrent_weight: Float[Tensor, "2 H G"],
    bias: Float[Tensor, "2 1 G"],
) -> Float[Tensor, "B T Z"]:
    """States of both directions: `layer_cpp.layer` of this cell.

    Args:
        projected: the projections of each distinct word (i, f, g, o), for one direction after the other.
        index: row of `projected` at each position.
        gate: 1 where a token is seen, 0 where the state is carried; may lie between.
        recurrent_weight: of the gates i, f, g, o.
        bias: of the same.
    """
    return layer_cpp.layer(_CELL, projected, index, gate, recurrent_weight, bias)
