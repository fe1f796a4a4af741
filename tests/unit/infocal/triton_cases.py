"""Run by test_rcnn_triton.py in a process of its own: Triton decides at import whether it interprets.

    triton_cases.py interpret | compile

Prints one JSON object: what was measured, case by case.
"""

import json
import os
import sys

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from infocal import kernels
from infocal.errors import ConfigError
from infocal.kernels import rcnn_torch, rcnn_triton
from infocal.nn.encoders import RCNN, Embedded

# rows, positions, units, kind of gate: blocks of rows and units that are full, and ones that are not
CASES = {
    "open": (3, 5, 16, "open"),
    "hard": (20, 6, 21, "hard"),
    "closed": (2, 4, 5, "closed"),
    "between": (17, 7, 40, "between"),
    "one position": (2, 1, 8, "between"),
    "paper's size": (2, 3, 200, "between"),
}


def gates(kind: str, batch: int, length: int) -> Tensor:
    gate = {
        "open": torch.ones(batch, length),
        "hard": (torch.rand(batch, length) < 0.3).float(),
        "closed": torch.zeros(batch, length),
        "between": (1.5 * torch.rand(batch, length) - 0.25).clamp(0, 1),
    }[kind]
    if kind == "hard":
        gate[0, length // 2 :] = gate[1] = 0  # a padded text, an empty one
    return gate


def encoder(size: int) -> RCNN:
    made = RCNN(5, size)
    for parameter in made.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return made


def run(form: str, made: RCNN, embedded: Embedded, gate: Tensor, towards: Tensor) -> dict[str, Tensor]:
    os.environ[kernels.VARIABLE] = form
    made.zero_grad()
    words, gate = embedded.vectors.clone().requires_grad_(), gate.clone().requires_grad_()
    states = made(Embedded(words, embedded.index), gate)
    (states * towards).sum().backward()
    values = {"states": states.detach(), "words": words.grad, "gate": gate.grad}
    return values | {name: parameter.grad.clone() for name, parameter in made.named_parameters()}


def differences(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    return {
        name: float((actual[name] - value).abs().max() / value.abs().max().clamp(min=1e-3))
        for name, value in expected.items()
    }


def case(batch: int, length: int, size: int, kind: str) -> dict[str, float]:
    torch.manual_seed(0)
    embedded = Embedded(torch.randn(7, 5), torch.randint(0, 7, (batch, length)))
    made, towards = encoder(size), torch.randn(batch, length, 2 * size)
    arguments = (made, embedded, gates(kind, batch, length), towards)
    values = run("triton", *arguments)
    with torch.no_grad():
        alone = made(embedded, arguments[2])
    again = run("triton", *arguments)
    same = torch.equal(alone, values["states"]) and all(torch.equal(values[n], again[n]) for n in values)
    return differences(values, run("plain", *arguments)) | {"repeats": same}


def mixed() -> dict[str, object]:
    """Projections in bfloat16, as under autocast, against the same numbers in float32."""
    torch.manual_seed(1)
    os.environ[kernels.VARIABLE] = "triton"
    projected, index = torch.randn(6, 6 * 16).bfloat16(), torch.randint(0, 6, (4, 5))
    weights = (torch.randn(2, 16, 16), torch.randn(2, 1, 16), torch.randn(2, 1, 16))
    results = []
    for given in (projected, projected.float()):
        given = given.requires_grad_()
        states = rcnn_triton.layer(given, index, gates("between", 4, 5).fill_(0.5), *weights)
        states.square().sum().backward()
        results.append((states.detach(), given.grad))
    (states, grad), (expected, expected_grad) = results
    return {
        "form": kernels.choose(projected, weights[0]),
        "types": [str(states.dtype), str(grad.dtype)],
        "states": float((states - expected).abs().max()),
        "grad": float((grad - expected_grad).abs().max() / expected_grad.abs().max()),
    }


def choice() -> dict[str, object]:
    weight = torch.zeros(2, 8, 8)
    os.environ[kernels.VARIABLE] = "triton"
    found: dict[str, object] = {
        "forced": kernels.choose(weight, weight),
        "too large": kernels.choose(weight, torch.zeros(2, 300, 300)),
        "double": kernels.choose(weight.double(), weight.double()),
        "no such form": kernels.choose(weight, weight, known=("cpp", "plain")),
    }
    os.environ[kernels.VARIABLE] = "auto"
    found["automatic on CPU"] = kernels.choose(weight, weight) == "triton"
    # another form that computes something else, and one that fails
    true_recurrence = rcnn_torch.recurrence
    os.environ[kernels.VARIABLE] = "triton"
    for name, broken in (("wrong", lambda *a: 2 * true_recurrence(*a)), ("failing", lambda *a: 1 / 0)):
        rcnn_torch.recurrence = broken
        rcnn_triton.failure.cache_clear()
        kernels._triton_failure.cache_clear()
        try:
            kernels.choose(weight, weight)
        except ConfigError as error:
            found[name] = str(error)
    return found


def compiled(name: str, capability: int, projected: str) -> dict[str, object]:
    """Compile for a GPU that need not be here, at the paper's size."""
    function = getattr(rcnn_triton, name)
    options = rcnn_triton._options(200) | {"TRAINING" if name == "_forward" else "BY_GATE": True}
    constants = {key: value for key, value in options.items() if key.isupper()}
    types = dict.fromkeys(("batch", "length", "slots"), "i32") | dict.fromkeys(constants, "constexpr")
    types |= {"index": "*i64", "projected": projected}
    signature = {argument: types.get(argument, "*fp32") for argument in function.arg_names}
    made = triton.compile(
        ASTSource(fn=function, signature=signature, constexprs=constants),
        target=GPUTarget("cuda", capability, 32),
        options={key: value for key, value in options.items() if key.islower()},
    )
    return {
        "shared": made.metadata.shared,
        "cubin": len(made.asm["cubin"]),
        "barrier": "bar.sync" in made.asm["ptx"],
    }


def main() -> None:
    if sys.argv[1] == "interpret":
        found: dict[str, object] = {name: case(*arguments) for name, arguments in CASES.items()}
        found |= {"mixed": mixed(), "choice": choice()}
    else:
        found = {
            f"{name} {capability} {projected}": compiled(name, capability, projected)
            for name, capability, projected in (
                *(("_forward", 80, "*fp32"), ("_backward", 80, "*fp32")),
                *(("_forward", 90, "*bf16"), ("_backward", 90, "*bf16")),
            )
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
