"""Weights in a file: every name comes back, and a tensor with two names is written once."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from infocal.errors import StateError
from pipeline.training.weights import load_weights, save_weights


class Tied(torch.nn.Module):
    """Two layers with one matrix, as of a selector and a predictor that share an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.selector, self.predictor = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.predictor.weight = self.selector.weight


def test_tied_weights_are_written_once_and_come_back_under_both_names(tmp_path: Path):
    model = Tied()
    save_weights(tmp_path / "w", model.state_dict())
    assert "predictor.weight" not in load_file(tmp_path / "w")
    found = load_weights(tmp_path / "w")
    assert found.keys() == model.state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in model.state_dict().items())
    again = Tied()
    again.load_state_dict(found)
    assert again.predictor.weight is again.selector.weight


def test_views_of_one_tensor_are_tensors_of_their_own(tmp_path: Path):
    whole = torch.arange(12.0).reshape(3, 4)
    given = {"whole": whole, "row": whole[0], "column": whole[:, 1], "turned": whole.T, "none": whole[:0]}
    save_weights(tmp_path / "w", given)
    found = load_weights(tmp_path / "w")
    assert all(torch.equal(found[name], value) for name, value in given.items())
    assert found.keys() == given.keys()


def test_equal_tensors_that_are_not_one_stay_two(tmp_path: Path):
    save_weights(tmp_path / "w", {"a": torch.ones(2), "b": torch.ones(2)})
    assert load_file(tmp_path / "w").keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("tied", "message"),
    [
        ("{", "the names of tied weights are not JSON"),
        ("[1]", "expected names of tied weights, but got \\[1\\]"),
        ('{"b": 1}', "expected names of tied weights"),
        ('{"b": "c"}', "`b` shares the weights of `c`, but `c` is not in the file"),
    ],
)
def test_a_damaged_header_is_refused(tmp_path: Path, tied: str, message: str):
    save_file({"a": torch.ones(2)}, tmp_path / "w", metadata={"tied": tied})
    with pytest.raises(StateError, match=message):
        load_weights(tmp_path / "w")
