"""What Tune reports stands in the ledger, whatever Tune calls it."""

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infocal.errors import TRAINING_FAILURES
from pipeline.base.errors import PipelineError
from pipeline.study.ledger import Ledger, TrialRecord
from pipeline.study.recorder import Recorder, said
from pipeline.study.scheduler import ConstrainedOptunaSearch, sampler
from pipeline.training.epochs import EPOCHS, FAILURE, FAILURE_MESSAGE, OBJECTIVE, VIOLATION
from pipeline.training.trainable import RESUMED
from search_spaces.infocal import PAPER_BEER
from tests.small_ledger import checkpoint, train
from tests.small_study import POINT


def trial(trial_id: str = "a", config: dict[str, Any] | None = None) -> Any:
    """As much of Tune's Trial as is read."""
    storage = SimpleNamespace(experiment_dir_name="tune", trial_dir_name=trial_id)
    return SimpleNamespace(trial_id=trial_id, config=config or POINT, storage=storage, error_file=None)


def result(epoch: int, **more: Any) -> dict[str, Any]:
    tunes = {"training_iteration": 1, "pid": 12, "time_total_s": 1.0, "hostname": "here", "trial_id": "a"}
    ours = {"epoch": epoch, EPOCHS: epoch + 1, "objective": 0.1, "val_mse": 1, "is_odd": True}
    ours |= {OBJECTIVE: 0.1, VIOLATION: 0.0}
    return {**tunes, **ours, "checkpoint_dir_name": f"checkpoint_{epoch:06d}", **more}


@pytest.fixture
def heard() -> list[None]:
    return []


@pytest.fixture
def recorder(tmp_path: Path, heard: list[None]) -> Recorder:
    return Recorder(Ledger(tmp_path), None, 3, lambda: heard.append(None))


def start(recorder: Recorder, one: Any) -> None:
    recorder.on_trial_start(iteration=0, trials=[one], trial=one)


def report(recorder: Recorder, one: Any, given: dict[str, Any]) -> None:
    recorder.on_trial_result(iteration=0, trials=[one], trial=one, result=given)


def only(recorder: Recorder) -> TrialRecord:
    (record,) = recorder.ledger.trials()
    return record


def test_epochs_are_written_with_their_numbers_and_checkpoints(recorder: Recorder, heard: list[None]):
    one = trial()
    start(recorder, one)
    for epoch in range(3):
        report(recorder, one, result(epoch))
    record = only(recorder)
    wanted = {"objective": 0.1, "val_mse": 1.0, OBJECTIVE: 0.1, VIOLATION: 0.0}
    assert record.epochs[0].epoch.numbers == wanted, "no counts of Tune's, no truth values"
    assert record.checkpoints[0] == checkpoint("a", 2)
    assert [record.epochs[i].is_last for i in range(3)] == [False, False, True]
    assert record.begin.proposal is None
    assert len(heard) == 4


def test_what_was_kept_for_a_trial_is_forgotten_once_it_has_ended(tmp_path: Path):
    forgotten: list[str] = []
    recorder = Recorder(Ledger(tmp_path), None, 3, lambda: None, forgotten.append)
    done, broken, running = (trial(name) for name in "abc")
    for one in (done, broken, running):
        start(recorder, one)
    recorder.on_trial_complete(iteration=0, trials=[], trial=done)
    recorder.on_trial_error(iteration=0, trials=[], trial=broken)
    assert forgotten == ["a", "b"]
    assert recorder.running == {"c"}


def test_a_trial_that_the_scheduler_stops_is_over(recorder: Recorder):
    one = trial()
    start(recorder, one)
    report(recorder, one, result(0, done=True))
    assert only(recorder).is_over
    assert only(recorder).failure is None


def test_a_failure_with_a_name_ends_a_trial(recorder: Recorder):
    one = trial()
    start(recorder, one)
    report(recorder, one, {**result(0), FAILURE: "degenerate_all", FAILURE_MESSAGE: "epoch 0: all"})
    record = only(recorder)
    assert record.failure is not None
    assert (record.failure.reason, record.failure.message) == ("degenerate_all", "epoch 0: all")
    assert record.epochs == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Failure # 1\nTraceback ...\nRuntimeError: boom\n", "RuntimeError: boom"),
        (
            "Traceback\n  in a worker\nerrors.LostError: no disk\n\nAn unexpected error occurred.",
            "errors.LostError: no disk",
        ),
        ("it is dark", "it is dark"),
        ("", "no message"),
    ],
)
def test_an_exception_ends_a_trial_with_the_line_that_says_why(
    recorder: Recorder, tmp_path: Path, text: str, message: str
):
    one = trial()
    (tmp_path / "error.txt").write_text(text)
    one.error_file = str(tmp_path / "error.txt")
    start(recorder, one)
    recorder.on_trial_error(iteration=0, trials=[one], trial=one)
    failure = only(recorder).failure
    assert failure is not None
    assert (failure.reason, failure.message) == ("error", message)
    assert said(text) == message


def test_what_rays_memory_monitor_kills_lacked_memory(recorder: Recorder, tmp_path: Path):
    one = trial()
    (tmp_path / "error.txt").write_text(
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        "Ray killed 1 worker(s) based on the killing policy\n"
    )
    one.error_file = str(tmp_path / "error.txt")
    start(recorder, one)
    recorder.on_trial_error(iteration=0, trials=[one], trial=one)
    failure = only(recorder).failure
    assert failure is not None
    assert failure.reason == "out_of_memory"
    assert failure.reason in TRAINING_FAILURES


@pytest.mark.parametrize(
    "last",
    [
        "OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device",
        "RuntimeError: PytorchStreamWriter failed writing file data/3: file write failed",
        "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 328448 vs 328400",
        "safetensors.SafetensorError: I/O error: No space left on device (os error 28)",
        "OSError: [Errno 122] Disk quota exceeded: 'state.pt'",
        "OSError: [Errno 30] Read-only file system: 'state.pt'",
    ],
)
def test_a_trial_has_not_failed_where_the_disk_is_full(tmp_path: Path, last: str):
    forgotten: list[str] = []
    recorder = Recorder(Ledger(tmp_path), None, 3, lambda: None, forgotten.append)
    one = trial()
    (tmp_path / "error.txt").write_text(f"Traceback (most recent call last):\n  File ...\n{last}\n")
    one.error_file = str(tmp_path / "error.txt")
    start(recorder, one)
    with pytest.raises(
        PipelineError, match=f"^{tmp_path}: checkpoints of trials can no longer be written"
    ) as ended:
        recorder.on_trial_error(iteration=0, trials=[one], trial=one)
    assert ended.value.hint is not None
    assert "`--resume`" in ended.value.hint
    assert recorder.fault is ended.value
    assert only(recorder).failure is None
    assert not only(recorder).is_over
    assert forgotten == [], "its states within an epoch are still wanted"


def test_a_trial_that_left_no_error_file_fails_all_the_same(recorder: Recorder):
    one = trial()
    start(recorder, one)
    recorder.on_trial_error(iteration=0, trials=[one], trial=one)
    failure = only(recorder).failure
    assert failure is not None
    assert failure.message == "no message"


def test_a_trial_that_is_resumed_keeps_its_first_id(tmp_path: Path):
    ledger = Ledger(tmp_path)
    train(ledger, "first", 1, of=3)
    recorder = Recorder(ledger, None, 3, lambda: None)
    one = trial("second", {**POINT, RESUMED: {"trial_id": "first", "checkpoints": []}})
    start(recorder, one)
    report(recorder, one, result(1))
    record = only(recorder)
    assert (record.trial_id, sorted(record.epochs)) == ("first", [0, 1])
    assert record.checkpoints == [checkpoint("second", 1), checkpoint("first", 0)]
    assert record.begin.config == POINT


def test_what_optuna_knows_is_written(tmp_path: Path):
    search = ConstrainedOptunaSearch(PAPER_BEER, sampler("random", PAPER_BEER, 0), [POINT], num_epochs=2)
    point = search.suggest("a")
    recorder = Recorder(Ledger(tmp_path), search, 3, lambda: None)
    start(recorder, trial("a", point))
    proposal = only(recorder).begin.proposal
    assert proposal is not None
    assert proposal.params == POINT
    assert proposal.system_attrs == {"fixed_params": POINT}


def test_trials_are_numbered_as_they_were_proposed_whichever_worker_is_ready_first(tmp_path: Path):
    search = ConstrainedOptunaSearch(PAPER_BEER, sampler("random", PAPER_BEER, 0), [POINT], num_epochs=2)
    proposed = [trial(name, search.suggest(name)) for name in "abcd"]
    recorder = Recorder(Ledger(tmp_path), search, 3, lambda: None)
    for first in ("b", "a", "d", "c"):
        one = next(each for each in proposed if each.trial_id == first)
        recorder.on_trial_start(iteration=0, trials=proposed, trial=one)
    assert [record.trial_id for record in recorder.ledger.trials()] == ["a", "b", "c", "d"]
    configs = [record.begin.config for record in recorder.ledger.trials()]
    assert configs == [each.config for each in proposed]
    for record in recorder.ledger.trials():
        assert record.begin.proposal is not None
        assert record.begin.proposal.params == pytest.approx(record.begin.config)


def test_it_travels_with_snapshots_that_nobody_reads(recorder: Recorder):
    assert isinstance(pickle.loads(pickle.dumps(recorder)), Recorder)
