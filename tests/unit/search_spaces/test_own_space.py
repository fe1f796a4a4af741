"""Search spaces that a user writes as a TOML file."""

import re
from pathlib import Path

import pytest

from infocal.config import InfoCalConfig
from infocal.errors import ConfigError
from search_spaces import own_space
from search_spaces.space import Choice, Range

WHOLE = """
[lambda_ib]
low = 0.0001
high = 0.01
log = true

[encoder]
choices = ["rcnn", "lstm"]
why = "which reads better?"

[hidden_size]
low = 50
high = 200
step = 50
role = "nuisance"
when.encoder = ["lstm"]

[[first]]
lambda_ib = 0.001
encoder = "rcnn"
"""


def read(folder: Path, text: str):
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return own_space.read(path, InfoCalConfig)


def test_a_file_says_what_is_searched(tmp_path):
    found = read(tmp_path, WHOLE)
    assert found.spaces[own_space.NAME] == (
        Range(name="lambda_ib", low=0.0001, high=0.01, log=True, why="as the file says"),
        Choice(name="encoder", choices=("rcnn", "lstm"), why="which reads better?"),
        Range(
            name="hidden_size",
            low=50,
            high=200,
            step=50,
            is_integer=True,
            role="nuisance",
            when={"encoder": ("lstm",)},
            why="as the file says",
        ),
    )
    assert found.first_points == [{"lambda_ib": 0.001, "encoder": "rcnn"}]


@pytest.mark.parametrize(
    ("text", "where", "message", "hint"),
    [
        ("", "mine.toml", "no hyper-parameter is searched", "a table is"),
        ("[lambda_ob]\nlow=0\nhigh=1", "[lambda_ob]", "unknown hyper-parameter `lambda_ob`", "`lambda_ib`"),
        ("lambda_ib = 3", "[lambda_ib]", "expected a table, but got 3", "a table is"),
        ("[lambda_ib]\nlow=0.1\nhigh=1\nsteps=2", "[lambda_ib]", "unknown key `steps`", "`step`"),
        ("[lambda_ib]\nlow=0.1", "[lambda_ib]", "`high` is missing", "a table is"),
        ("[lambda_ib]\nlow='a'\nhigh=1", "[lambda_ib]", "expected a number as `low`, but got a", None),
        ("[lambda_ib]\nlow=true\nhigh=1", "[lambda_ib]", "expected a number as `low`, but got True", None),
        ("[lambda_ib]\nlow=1\nhigh=0.1", "[lambda_ib]", "low 1 must be below high 0.1", None),
        ("[lambda_ib]\nlow=-1.0\nhigh=0.1", "[lambda_ib]", "`lambda_ib` must be >= 0, but got -1.0", None),
        ("[lambda_ib]\nlow=0\nhigh=0.1\nlog=true", "[lambda_ib]", "a log scale needs low > 0", None),
        ("[lambda_ib]\nlow=0\nhigh=1\nlog=1", "[lambda_ib]", "expected true or false as `log`", None),
        ("[lambda_ib]\nlow=0\nhigh=1\nwhy=1", "[lambda_ib]", "expected a text as `why`, but got 1", None),
        ("[lambda_ib]\nlow=0\nhigh=1\nrole='x'", "[lambda_ib]", "expected scientific or nuisance", None),
        ("[hidden_size]\nlow=1.5\nhigh=3", "[hidden_size]", "expected whole numbers, but got 1.5", None),
        ("[encoder]\nlow=1\nhigh=3", "[encoder]", "`encoder` is not a number", '["...'),
        ("[pooling]\nlow=1\nhigh=3", "[pooling]", "`pooling` is not a number", '"max"'),
        ("[train_embeddings]\nlow=1\nhigh=3", "[train_embeddings]", "is not a number", "[true, false]"),
        ("[encoder]\nchoices='rcnn'", "[encoder]", "expected a list as `choices`, but got rcnn", None),
        (
            "[encoder]\nchoices=['rcnn']",
            "[encoder]",
            "expected at least two values, all different, but got rcnn",
            None,
        ),
        ("[encoder]\nchoices=[['rcnn'], {}]", "[encoder]", "unhashable", None),
        (
            "[lambda_ib]\nlow=0\nhigh=1\nwhen=3",
            "[lambda_ib]",
            "expected lists of values as `when`",
            "when.enc",
        ),
        (
            "[lambda_ib]\nlow=0\nhigh=1\nwhen.encoder=['lstm']",
            "mine.toml",
            "names `encoder`, which must be searched too",
            None,
        ),
        (WHOLE + "lambda_g = 2.0", "point 1", "expected a value of each searched hyper-parameter", None),
        (WHOLE + "[[first]]\nencoder='lstm'", "point 2", "but got {'encoder': 'lstm'}", None),
        ("first = 3\n[lambda_ib]\nlow=0\nhigh=1", "first", "expected tables `[[first]]`", "one table"),
        (WHOLE + "[[first]]\nlambda_ib = {a = 1}\nencoder = 'rcnn'", "point 2", "but got {", None),
        (WHOLE + "[[first]]\nlambda_ib = [1]\nencoder = 'rcnn'", "point 2", "but got {", None),
        (WHOLE + "[[first]]\nlambda_ib" + ".a" * 900 + " = 1", "point 2", "expected a value of each", None),
        ("[lambda_ib]\nlow" + ".a" * 900 + " = 1\nhigh=1", "[lambda_ib]", "expected a number as `low`", None),
        ("['a\\nb']\nlow=0\nhigh=1".replace("'", '"'), "[a b]", "unknown hyper-parameter `a b`", None),
        ("[" + "a" * 3000 + "]\nlow=0\nhigh=1", "[" + "a" * 80 + "]", "unknown hyper-parameter `aa", None),
        ("[lambda_ib", "mine.toml", "cannot read the search space: not TOML", None),
    ],
)
def test_what_cannot_be_searched_is_refused_at_its_place(tmp_path, text, where, message, hint):
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read(tmp_path, text)
    assert caught.value.where is not None and where in caught.value.where
    assert "\n" not in str(caught.value)
    assert hint is None or hint in (caught.value.hint or "")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the search space: No such file") as caught:
        own_space.read(tmp_path / "none.toml", InfoCalConfig)
    assert caught.value.where == f"--space {tmp_path / 'none.toml'}"
    assert caught.value.hint == f"give a TOML file: {own_space._HINT}"
