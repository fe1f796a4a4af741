"""Every reader, on files damaged as hypothesis draws and shrinks it: it reads them or says what is wrong.

`python -m benchmarks.fuzz` does the same on thousands of inputs, in processes with limits of time and memory.
"""

import functools
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.fuzzing.reader import Reader, attempt
from benchmarks.fuzzing.readers import READERS


@functools.cache
def reader(name: str) -> Reader:
    return READERS[name]()


@pytest.mark.parametrize("name", READERS)
def test_valid_files_are_accepted(name: str, tmp_path: Path):
    assert attempt(reader(name), reader(name).files, tmp_path).kind == "accepted"


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_damaged_files_are_read_or_refused_with_their_name(
    name: str, tmp_path_factory: pytest.TempPathFactory, random: Random
):
    outcome = attempt(reader(name), reader(name).damaged(random), tmp_path_factory.mktemp("work"))
    assert outcome.kind in ("accepted", "refused"), outcome.detail
