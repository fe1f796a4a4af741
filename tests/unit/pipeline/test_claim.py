"""One process at a time has a study, on a file system without locks."""

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.base import claim
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Location, Storage


@pytest.fixture
def claims(tmp_path: Path) -> Location:
    return Storage((tmp_path / "claims").as_uri()).opened()


def leave(claims: Location, age_s: float = 0.0, **owner: Any):
    """A claim that another process renewed so many seconds ago."""
    other = claims / "other.json"
    other.write(json.dumps(claim._owner() | owner).encode())
    os.utime(other.path, (time.time() - age_s,) * 2)


def test_a_claim_is_there_while_it_is_held(claims: Location):
    with claim.held(claims, "first"):
        (name,) = claims.names()
        assert json.loads((claims / name).read())["pid"] == os.getpid()
    assert claims.names() == []


def test_a_claim_is_given_up_at_an_interrupt(claims: Location):
    with pytest.raises(KeyboardInterrupt), claim.held(claims, "first"):
        raise KeyboardInterrupt
    assert claims.names() == []


def test_a_second_process_is_refused_and_the_first_one_keeps_it(claims: Location):
    with claim.held(claims, "first"):
        refused = pytest.raises(
            PipelineError,
            match=rf"the study `first` is already being run by process {os.getpid()} on `\S+` \(last",
        )
        with refused, claim.held(claims, "first"):
            pass
        assert len(claims.names()) == 1


def test_two_that_start_at_once_do_not_both_go_on(claims: Location, monkeypatch: pytest.MonkeyPatch):
    refuse = claim._refuse_others

    def slow(*given: Any):
        leave(claims, host="elsewhere")  # written after ours, before we look
        refuse(*given)

    monkeypatch.setattr(claim, "_refuse_others", slow)
    with pytest.raises(PipelineError, match="on `elsewhere`"), claim.held(claims, "first"):
        pass


def test_a_claim_that_was_not_renewed_is_void(claims: Location):
    leave(claims, age_s=claim.LIFE_S + 5, host="elsewhere")
    with claim.held(claims, "first"):
        assert len(claims.names()) == 1


def test_a_young_claim_of_another_machine_is_respected(claims: Location):
    leave(claims, age_s=claim.LIFE_S - 30, host="elsewhere")
    with pytest.raises(PipelineError, match=r"last seen \d\d s ago"), claim.held(claims, "first"):
        pass
    assert claims.names() == ["other.json"]


def test_a_process_of_this_machine_that_is_no_more_holds_nothing(claims: Location):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    leave(claims, pid=ended.pid)
    with claim.held(claims, "first"):
        assert "other.json" not in claims.names()


@pytest.mark.parametrize("content", ["{", "5", "[1]", "[" * 100_000, "no pid"])
def test_a_claim_that_cannot_be_read_counts_by_its_age(claims: Location, content: str):
    if content == "no pid":
        content = json.dumps({k: v for k, v in claim._owner().items() if k != "pid"})
        (claims / "other.json").write(content.encode())
        with claim.held(claims, "first"):
            assert "other.json" not in claims.names(), "no process has no number"
        return
    (claims / "other.json").write(content.encode())
    with (
        pytest.raises(PipelineError, match="the study `first` is already being run by process"),
        claim.held(claims, "first"),
    ):
        pass


def test_a_claim_is_renewed(claims: Location, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(claim, "RENEWAL_S", 0.02)
    with claim.held(claims, "first"):
        (name,) = claims.names()
        os.utime((claims / name).path, (0, 0))
        deadline = time.monotonic() + 30
        while (claims / name).modified() == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert (claims / name).modified() > 0


def test_a_claim_that_was_taken_is_said(
    claims: Location, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(claim, "RENEWAL_S", 0.02)
    with caplog.at_level(logging.ERROR), claim.held(claims, "first"):
        (name,) = claims.names()
        (claims / name).remove()
        deadline = time.monotonic() + 30
        while not caplog.messages and time.monotonic() < deadline:
            time.sleep(0.02)
    assert caplog.messages[0].startswith("another process has taken over this study")
    assert claims.names() == [], "it is not written again"
