"""Numbers and what they count."""

import pytest

from pipeline.base.wording import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 trials"), (1, "1 trial"), (2, "2 trials"), (1200, "1,200 trials")]
)
def test_one_is_no_plural(number: int, said: str):
    assert counted(number, "trial") == said
