"""What is predicted: one target, or several with a head each."""

import pytest
import torch

from infocal.config import InfoCalConfig, Task, parse_weights
from infocal.errors import ConfigError
from infocal.nn.rationalizer import output_layer
from tests.small_model import CLASSES, REGRESSION, SEVERAL

ONE = Task(kind="classification", num_classes=3, name="charge")
OTHER = Task(kind="regression", name="term")


def test_one_target_is_one_head_without_a_name():
    assert REGRESSION.heads == (REGRESSION,)
    assert (CLASSES.num_outputs, CLASSES.columns) == (3, (slice(0, 3),))
    assert (CLASSES.name, CLASSES.weight, CLASSES.sides) == ("", 1.0, ())


def test_heads_are_slices_of_one_output_layer_in_their_order():
    assert [head.name for head in SEVERAL.heads] == ["charge", "term", "article"]
    assert not any(head.sides for head in SEVERAL.heads)
    assert SEVERAL.num_outputs == 3 + 1 + 2
    assert SEVERAL.columns == (slice(0, 3), slice(3, 4), slice(4, 6))


def test_one_target_is_written_as_before_there_could_be_several():
    # packages of before have these four entries, and are read by their names
    assert CLASSES.to_dict() == {
        "kind": "classification",
        "num_classes": 3,
        "target_mean": 0.5,
        "target_variance": 1.0,
    }
    assert Task.of_dict(CLASSES.to_dict()) == CLASSES


def test_several_targets_survive_the_way_through_json_values():
    weighted = SEVERAL.weighted({"term": 0.5})
    assert Task.of_dict(weighted.to_dict()) == weighted != SEVERAL


def test_a_weight_is_that_of_its_target_alone():
    weighted = SEVERAL.weighted({"article": 0.25, "charge": 2.0})
    assert [head.weight for head in weighted.heads] == [2.0, 1.0, 0.25]
    assert SEVERAL.weighted({}) == SEVERAL
    assert CLASSES.weighted({}) is CLASSES


@pytest.mark.parametrize(
    ("task", "weights", "message"),
    [
        (SEVERAL, {"charges": 1.0}, r"no target `charges`; the targets are `charge`, `term`, `article`"),
        (CLASSES, {"charge": 1.0}, "`target_weights` names `charge`, but weights need several targets"),
        (
            SEVERAL,
            {"charge": 0.0, "term": 0.0, "article": 0.0},
            "all target weights are 0, so nothing would be learnt",
        ),
        (SEVERAL, {"charge": -1.0}, r"must be >= 0, but got -1.0 for `charge`"),
    ],
)
def test_wrong_weights(task, weights, message):
    with pytest.raises(ConfigError, match=message):
        task.weighted(weights)


@pytest.mark.parametrize("sides", [(ONE,), (Task(kind="regression"),), (SEVERAL,)])
def test_targets_need_names_of_their_own(sides):
    with pytest.raises(ConfigError, match="expected a different name for each target"):
        Task(kind="classification", num_classes=3, name="charge", sides=sides)


def test_weights_as_text():
    assert parse_weights("") == {}
    assert parse_weights("term=0.5, article = 2e-1") == {"term": 0.5, "article": 0.2}
    assert InfoCalConfig(target_weights="term=0").target_weights == "term=0"


def test_each_head_starts_as_it_would_alone():
    torch.manual_seed(0)
    weight = torch.stack([output_layer(2, SEVERAL).weight.detach() for _ in range(200)])
    for columns, head in zip(SEVERAL.columns, SEVERAL.heads, strict=True):
        # the bound of Xavier's draw counts the outputs of the head, and not those of all heads
        bound = 0.1 * (6 / (2 + head.num_classes)) ** 0.5
        assert 0.97 * bound < weight[:, columns].abs().max().item() <= bound
    bias = output_layer(2, SEVERAL).bias.tolist()
    assert bias == pytest.approx([0, 0, 0, torch.logit(torch.tensor(0.4)).item(), 0, 0])
