"""Who is shown what: blind and balanced, whatever the numbers."""

import itertools
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import PipelineError
from pipeline.judging import sheet as sheets
from pipeline.judging.sheet import Slot, plan, spans_of
from tests.judging_server import small_sheet


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 6), st.data(), st.integers(0, 99))
def test_a_plan_is_balanced(texts: int, methods: int, judges: int, data: st.DataObject, seed: int):
    per_text = data.draw(st.integers(-(-judges // texts), judges))
    found = plan(texts, methods, judges, per_text, 0.0, seed)
    assert all(found)
    assert found == plan(texts, methods, judges, per_text, 0.0, seed)
    counts = Counter((slot.text, slot.method) for own in found for slot in own)
    assert counts == {(t, m): per_text for t in range(texts) for m in range(methods)}
    sizes = [len(own) for own in found]
    assert max(sizes) - min(sizes) <= methods
    for own in found:
        assert len(set(own)) == len(own)
        every = Counter(slot.text for slot in own)
        assert set(every.values()) <= {methods}  # with every method, or not at all
        if len(every) > 1:
            assert all(a.text != b.text for a, b in itertools.pairwise(own))
            third = len(own) // methods
            assert len({slot.text for slot in own[:third]}) == third  # each text once before any comes again


@given(st.integers(4, 40), st.integers(1, 4), st.floats(0, 1), st.integers(0, 99))
def test_showings_come_back_later(texts: int, methods: int, rate: float, seed: int):
    (found,) = plan(texts, methods, 1, 1, rate, seed)
    num = texts * methods
    again = [i for i, slot in enumerate(found) if slot.is_repeat]
    assert len(again) == min(round(rate * num), num // 2)
    for i in again:
        first = found.index(Slot(found[i].text, found[i].method))
        assert first < num // 2 < i
    by_method = Counter(found[i].method for i in again)
    if len(again) <= num // 4:
        assert max(by_method.values(), default=0) <= 2 + len(again) // methods


def test_methods_are_spread_over_the_sheet():
    found = plan(60, 3, 6, 2, 0.0, 0)
    early = Counter(slot.method for own in found for slot in own[:20])
    assert max(early.values()) - min(early.values()) <= 8


def test_more_judges_for_a_text_than_there_are_is_refused():
    with pytest.raises(PipelineError, match="expected from 1 to 2 judges for each text, but got 3"):
        plan(4, 1, 2, 3, 0.0, 0)


@pytest.mark.parametrize(
    ("texts", "judges", "per_text", "message"),
    [
        (1, 7, 2, "expected at most 2 judges, but got 7: with 1 text and 2 judges for each text"),
        (3, 4, 1, "expected at most 3 judges, but got 4: with 3 texts and 1 judge for each text"),
    ],
)
def test_a_judge_who_would_have_no_text_is_refused(texts: int, judges: int, per_text: int, message: str):
    assert all(plan(texts, 2, texts * per_text, per_text, 0.0, 0))
    with pytest.raises(PipelineError, match=message):
        plan(texts, 2, judges, per_text, 0.0, 0)


def test_spans_cover_positions():
    assert spans_of([0, 1, 4, 6, 7]) == [[0, 2], [4, 5], [6, 8]]
    assert spans_of([]) == []


def test_a_sheet_is_read_as_it_was_written(tmp_path: Path):
    sheet = small_sheet(["a b c", "被告人 王某"], methods=2)
    sheets.save(sheet, tmp_path)
    assert sheets.load(tmp_path, "--sheet") == sheet


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"a"', '"z"'), "the sheet was altered after it was made"),
        (lambda text: text[:-40], "not a sheet of this version"),
        (lambda text: "[]", "not a sheet of this version"),
        (lambda text: text.replace('"plan"', '"plans"'), "not a sheet of this version"),
    ],
)
def test_a_sheet_that_was_altered_is_refused(tmp_path: Path, change, message: str):
    sheets.save(small_sheet(["a b c"]), tmp_path)
    path = tmp_path / sheets.SHEET
    path.write_text(change(path.read_text()))
    with pytest.raises(PipelineError, match=message):
        sheets.load(tmp_path, "--sheet")


def test_a_missing_sheet_is_told_with_what_makes_one(tmp_path: Path):
    with pytest.raises(PipelineError, match="no sheet in") as caught:
        sheets.load(tmp_path, "--sheet")
    assert "--models" in str(caught.value.hint)
