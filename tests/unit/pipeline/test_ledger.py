"""The ledger of a study: nothing that was written is lost, and nothing half written is read."""

import errno
import json
import math
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infocal.errors import StateError
from pipeline.base.errors import PipelineError
from pipeline.study import ledger as module
from pipeline.study.ledger import LEDGER, Ledger, Proposal
from pipeline.training.epochs import OBJECTIVE, VIOLATION, Epoch
from tests.small_ledger import a_ledger, an_epoch, checkpoint, train
from tests.small_study import POINT

ROOT = Path(__file__).resolve().parents[3]


def file_of(folder: Path, trial_id: str) -> Path:
    (path,) = (folder / LEDGER).glob(f"*-{trial_id}.jsonl")
    return path


def test_what_was_written_is_read_back(tmp_path: Path):
    mine = a_ledger(tmp_path)
    again = Ledger(tmp_path)
    assert again.trials() == mine.trials()
    over, still_open, failed = again.trials()
    assert [r.trial_id for r in (over, still_open, failed)] == ["over", "open", "failed"]
    assert [r.begin.number for r in (over, still_open, failed)] == [0, 1, 2]
    assert over.begin.config == POINT
    assert over.begin.proposal == Proposal(POINT, {})
    assert over.epochs[1].epoch == an_epoch(1)
    assert over.checkpoints == [checkpoint("over", 1), checkpoint("over", 0)]
    assert (over.is_over, still_open.is_over, failed.is_over) == (True, False, True)
    assert failed.failure is not None
    assert (failed.failure.reason, failed.failure.message) == ("non_finite", "epoch 1: the loss is nan")
    assert over.begin.time <= over.epochs[0].time <= over.epochs[1].time == over.last_heard


def test_a_trial_knows_whether_it_ended_early(tmp_path: Path):
    over, still_open, failed = a_ledger(tmp_path).trials()
    assert (over.ended_early(2), over.ended_early(3)) == ("", "stopped")
    assert (still_open.ended_early(3), failed.ended_early(3)) == ("", "failed")


def test_a_ledger_that_is_read_again_is_gone_on_with(tmp_path: Path):
    a_ledger(tmp_path)
    again = Ledger(tmp_path)
    train(again, "open", 2)
    train(again, "new", 1)
    third = Ledger(tmp_path)
    assert [(r.trial_id, r.begin.number, len(r.epochs)) for r in third.trials()] == [
        ("over", 0, 2),
        ("open", 1, 2),
        ("failed", 2, 1),
        ("new", 3, 1),
    ]


def test_a_trial_begins_once(tmp_path: Path):
    ledger = Ledger(tmp_path)
    train(ledger, "a", 1)
    before = file_of(tmp_path, "a").read_bytes()
    ledger.begin("a", {"lambda_ib": 9.0}, None)
    assert file_of(tmp_path, "a").read_bytes() == before


def test_an_epoch_that_is_trained_again_only_moves_the_checkpoint(tmp_path: Path):
    ledger = Ledger(tmp_path)
    train(ledger, "a", 1)
    ledger.epoch("a", an_epoch(0, val_mse=0.5), "tune-1/b/checkpoint_000000", is_last=False)
    for one in (ledger, Ledger(tmp_path)):
        (record,) = one.trials()
        assert record.epochs[0].epoch.metrics["val_mse"] == 0.02
        assert record.checkpoints == ["tune-1/b/checkpoint_000000"]


def test_numbers_that_are_not_finite_are_kept(tmp_path: Path):
    ledger = Ledger(tmp_path)
    train(ledger, "a", 1, val_mse=math.nan, val_mae=-math.inf)
    (record,) = Ledger(tmp_path).trials()
    assert math.isnan(record.epochs[0].epoch.metrics["val_mse"])
    assert record.epochs[0].epoch.metrics["val_mae"] == -math.inf


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(min_value=0))
def test_wherever_a_process_died_whole_events_remain(tmp_path_factory: pytest.TempPathFactory, cut: int):
    folder = tmp_path_factory.mktemp("ledger")
    train(Ledger(folder), "a", 2, of=3)
    path = file_of(folder, "a")
    whole = path.read_bytes()
    cut %= len(whole) + 1
    path.write_bytes(whole[:cut])
    num_whole = whole[:cut].count(b"\n")
    found = Ledger(folder)
    assert [len(r.epochs) for r in found.trials()] == ([num_whole - 1] if num_whole else [])
    train(found, "a", 3, of=3)
    (record,) = Ledger(folder).trials()
    assert sorted(record.epochs) == [0, 1, 2]
    assert record.is_over


@settings(max_examples=60, deadline=None)
@given(place=st.integers(min_value=0), mask=st.integers(min_value=1, max_value=255))
def test_a_byte_that_changed_is_never_read(tmp_path_factory: pytest.TempPathFactory, place: int, mask: int):
    folder = tmp_path_factory.mktemp("ledger")
    train(Ledger(folder), "a", 2)
    (whole,) = Ledger(folder).trials()
    path = file_of(folder, "a")
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= mask
    path.write_bytes(content)
    try:
        found = Ledger(folder).trials()
    except StateError as error:
        assert str(path) in str(error)
        return
    for record in found:
        assert record.begin == whole.begin
        assert all(epoch == whole.epochs[number] for number, epoch in record.epochs.items())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"event": "epoch", "number": 0}, "the checksum does not match the line"),
        (
            {"event": "begin"},
            "expected the start of a trial on the first line|not a line of a ledger|Field required",
        ),
        (["begin"], "not a line of a ledger"),
    ],
)
def test_another_line_is_named(tmp_path: Path, line: object, message: str):
    train(Ledger(tmp_path), "a", 2)
    path = file_of(tmp_path, "a")
    lines = path.read_text().splitlines()
    lines[1] = json.dumps(line)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(StateError, match=rf"{path}:2: this line is not a valid event of the trial"):
        Ledger(tmp_path)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_whole_line_that_is_damaged_is_not_taken_for_a_torn_one(tmp_path: Path, number: int):
    train(Ledger(tmp_path), "a", 2)
    path = file_of(tmp_path, "a")
    lines = path.read_text().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace("0.", "1.", 1)
    path.write_text("".join(lines))
    with pytest.raises(StateError, match=f"{path}:{number}: .*checksum does not match the line") as caught:
        Ledger(tmp_path)
    expected = "if a power failure" if number == 3 else "restore this file from a backup"
    assert str(caught.value.hint).startswith(expected), "the last one may be what a power cut left"
    assert path.read_text() == "".join(lines), "nothing is taken away"


def test_a_line_that_is_missing_is_noticed(tmp_path: Path):
    train(Ledger(tmp_path), "a", 3)
    path = file_of(tmp_path, "a")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:1] + lines[2:]))
    with pytest.raises(StateError, match=f"{path}:2: .*epoch 1 does not follow the one before it"):
        Ledger(tmp_path)


@pytest.mark.parametrize("trial_id", ["over", "open"])
def test_a_file_that_is_missing_is_noticed(tmp_path: Path, trial_id: str):
    a_ledger(tmp_path)
    file_of(tmp_path, trial_id).unlink()
    number = ["over", "open"].index(trial_id)
    with pytest.raises(
        StateError,
        match=f"{LEDGER}: the file of trial {number} is missing; expected one file for each trial$",
    ) as caught:
        Ledger(tmp_path)
    assert "another `--name`" in str(caught.value.hint)


def test_two_files_of_a_trial_are_refused(tmp_path: Path):
    train(Ledger(tmp_path), "a", 1)
    path = file_of(tmp_path, "a")
    other = path.with_name("0001-a.jsonl")
    other.write_text(path.read_text())
    with pytest.raises(StateError, match=f"{other}:1: .*trial a already has another file"):
        Ledger(tmp_path)


@pytest.mark.parametrize("time", [1e12, 1e300, -1.0, math.inf, math.nan, None])
def test_a_time_that_no_calendar_has_is_refused(tmp_path: Path, time: float | None):
    train(Ledger(tmp_path), "a", 2)
    path = file_of(tmp_path, "a")
    lines = path.read_text().splitlines()
    event = json.loads(lines[1])
    del event["crc32"]
    text = json.dumps({**event, "time": time})
    lines[1] = f'{text[:-1]}, "crc32": {zlib.crc32(text.encode())}}}'
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(
        StateError, match=rf"{path}:2: this line is not a valid event of the trial .*\(time: "
    ):
        Ledger(tmp_path)


@pytest.mark.parametrize("name", ["/etc/checkpoint", "tune/../../../other"])
def test_a_checkpoint_elsewhere_is_refused(tmp_path: Path, name: str):
    ledger = Ledger(tmp_path)
    train(ledger, "a", 1)
    with pytest.raises(ValueError, match="is outside the study's folder"):
        ledger.epoch("a", an_epoch(1), name, is_last=False)


@pytest.mark.parametrize("name", [OBJECTIVE, VIOLATION])
def test_an_epoch_has_what_the_search_reads(tmp_path: Path, name: str):
    train(Ledger(tmp_path), "a", 1)
    path = file_of(tmp_path, "a")
    first, second = path.read_text().splitlines()
    event = json.loads(second)
    del event["crc32"], event["numbers"][name]
    text = json.dumps(event)
    path.write_text(f'{first}\n{text[:-1]}, "crc32": {zlib.crc32(text.encode())}}}\n')
    with pytest.raises(StateError, match=f"{path}:2: .*an epoch without `{name}`"):
        Ledger(tmp_path)


def test_a_line_is_as_it_was_before_an_epoch_had_a_type(tmp_path: Path):
    """Older studies are resumed, and newer ones read by older versions."""
    ledger = Ledger(tmp_path)
    ledger.begin("a", POINT, None)
    numbers = {
        **{"best_val_token_recall": 0.5, "best_val_mse": 0.02, "best_val_token_recall_se": 0.05},
        **{"best_lower_bound": 0.4, "objective": 0.25, "best_objective": 0.5, "best_epoch": 1.0},
        **{"criterion_violation": 0.0, "val_mse": 0.03, "train_sp": 0.1, "gradient_share_ib": 0.2},
        **{"learning_rate": 0.01, "epoch_s": 2.0, "train_s": 1.5, "tokens_per_s": 800.0},
    }
    ledger.epoch("a", Epoch.of_numbers(2, numbers), checkpoint("a", 2), is_last=True)
    line = json.loads(file_of(tmp_path, "a").read_text().splitlines()[1])
    assert list(line) == ["event", "number", "numbers", "checkpoint", "is_last", "time", "crc32"]
    assert json.dumps(line["numbers"]) == json.dumps(numbers)


def test_a_full_disk_leaves_whole_lines_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ledger = Ledger(tmp_path)
    train(ledger, "a", 1)
    before = file_of(tmp_path, "a").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(module.os, "fsync", full)
        with pytest.raises(PipelineError, match=r"cannot write the study's ledger: No space left") as caught:
            train(ledger, "a", 2)
    assert caught.value.hint is not None
    assert "--resume" in caught.value.hint
    assert file_of(tmp_path, "a").read_bytes() == before
    train(ledger, "a", 2)
    assert len(Ledger(tmp_path).trials()[0].epochs) == 2


LIMITED = """
import resource, sys
from pathlib import Path
from pipeline.base.errors import PipelineError
from pipeline.study.ledger import Ledger
from tests.small_ledger import train
for folder, limit in zip(sys.argv[1::2], sys.argv[2::2]):
    ledger = Ledger(Path(folder))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    try:
        train(ledger, "a", 3, of=4)
    except PipelineError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_a_line_that_does_not_fit_is_taken_back_whole(tmp_path: Path):
    """With real writes that stop in mid-line: a limit on the size of a file does what a full disk does."""
    rates = (0.01, 0.4, 0.6, 0.99)
    folders = [tmp_path / str(rate) for rate in rates]
    for folder in folders:
        train(Ledger(folder), "a", 2, of=4)
    before = [file_of(folder, "a").read_bytes() for folder in folders]
    limits = [len(b) + int(rate * len(b.splitlines()[-1])) for b, rate in zip(before, rates, strict=True)]
    pairs = [str(each) for pair in zip(folders, limits, strict=True) for each in pair]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *pairs], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == len(rates)
    for folder, whole, line in zip(folders, before, said, strict=True):
        assert "cannot write the study's ledger: File too large" in line
        assert file_of(folder, "a").read_bytes() == whole
        train(Ledger(folder), "a", 3, of=4)
        assert len(Ledger(folder).trials()[0].epochs) == 3


def test_files_that_could_not_be_published_are_published_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    published: list[str] = []
    is_away = [True]

    def publish(name: str) -> None:
        if is_away[0]:
            raise PipelineError("the storage is away")
        published.append(name)

    ledger = Ledger(tmp_path, publish)
    train(ledger, "a", 1)
    train(ledger, "b", 1)
    assert len(caplog.messages) == 1, "it is said once"
    assert "the storage is away; the search continues, and tries again at each epoch" in caplog.messages[0]
    with pytest.raises(PipelineError, match="the storage is away"):
        ledger.flush()
    is_away[0] = False
    ledger.flush()
    assert published == [f"{LEDGER}/0000-a.jsonl", f"{LEDGER}/0001-b.jsonl"]
    ledger.flush()
    assert len(published) == 2
