import json
import math

from pipeline.cli import json_output


def test_a_number_that_is_not_finite_is_null():
    document = {"scores": {"auprc": math.nan, "mse": 0.5}, "rows": [(1, math.inf), "NaN"]}
    assert json.loads(json_output.dumped(document)) == {
        "scores": {"auprc": None, "mse": 0.5},
        "rows": [[1, None], "NaN"],
    }
