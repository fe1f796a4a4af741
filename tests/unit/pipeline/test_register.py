from pathlib import Path

import pytest

from pipeline import register
from pipeline.base.errors import run_command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: --name"),
        (["--name", "a", "--trial", "two"], "expected a whole number of 0 or more, but got 'two'"),
        (["--name", "a", "--min-precision", "79"], "expected a number from 0 to 1, but got '79'"),
        (["--name", "a", "--min-precision", "0.7", "--criterion", "best x"], "not allowed with argument"),
        (["--name", "a", "--criterion", "f1 > 0.5"], "--criterion: expected `best NAME with NAME >= NUMBER"),
        (["--name", "a", "--criterion", ""], "--criterion: expected `best NAME with NAME >= NUMBER"),
        (
            ["--name", "a", "--criterion", "best val_mse"],
            "--criterion: `val_mse` is lower where a model is better",
        ),
        (["--name", "nowhere"], "there is no study `nowhere`"),
    ],
)
def test_mistakes_are_named(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run_command(register.main, [*arguments, "--storage", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.rglob("*.jsonl")) == [], "nothing is written"
