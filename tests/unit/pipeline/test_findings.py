"""What a study's page is made of, gathered from a tracker that holds only what it was given."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from pipeline.base.errors import PipelineError
from pipeline.reporting.results import Searched, TrialResult
from pipeline.study import findings
from pipeline.study.criterion import CRITERION_TAG
from pipeline.tracking.sealed_split import READINGS_TAG
from pipeline.tracking.tracking import PARENT_TAG, STUDY_TAG, TrackedRun
from pipeline.training.epochs import EpochMetrics
from search_spaces.base import Bound, Criterion

PARAMS = {
    "method": "infocal",
    "dataset": "beer",
    "aspect": "palate",
    "space_name": "paper",
    "sampler": "tpe",
    "num_trials": "6",
    "num_epochs": "8",
    "command": "python -m pipeline.search --dataset beer --aspect palate",
    "criterion": "best val_token_recall with val_token_precision >= 0.8",
}
TAGS = {STUDY_TAG: "study-1", "seed": "7", "data_fingerprint": "f00d", "git_commit": "abc", "corpus": "real"}

TEXTS = [
    {"example_id": "r1", "tokens": list("abcdefgh"), "human": [1, 1, 0, 0, 0, 0, 0, 0]},
    {"example_id": "r2", "tokens": list("abcdefgh"), "human": [0, 0, 0, 0, 0, 0, 1, 1]},
    {"example_id": "r3", "tokens": list("abcd"), "human": None},
]


def tracked(run_id, params, metrics, tags, name="", started=0.0, **changes) -> TrackedRun:
    made = {"experiment_id": "1", "status": "FINISHED", "ended": started + 3725}
    return TrackedRun(
        run_id=run_id,
        name=name or run_id,
        params=params,
        metrics=metrics,
        tags=tags,
        started=started,
        **(made | changes),
    )


def child(number, objective, precision=0.9, params=None, tags=None, **metrics) -> TrackedRun:
    scores = {
        "best_objective": objective,
        "best_epoch": 2.0,
        "best_val_token_precision": precision,
        "best_val_token_recall": 0.5,
        "best_val_token_f1": 0.6,
        "best_val_selection_rate": 0.25,
        "best_val_mse": 0.04,
    }
    values = {
        "lambda_ib": str(0.0001 * (number + 1)),
        "lambda_g": "1.0",
        "lambda_mi": "0.1",
        "lambda_lm": "0.005",
    }
    return tracked(
        f"run{number}",
        values | (params or {}),
        {name: value for name, value in (scores | metrics).items() if value is not None},
        {PARENT_TAG: "parent"} | (tags or {}),
        name=f"trial-{number:02d}",
        started=float(number),
    )


class HeldTracker:
    """Answers as `Tracker` does, from what it was given."""

    def __init__(self, study, children=(), histories=None, artifacts=None):
        self.study, self.trials = study, list(children)
        self.histories, self.artifacts = histories or {}, artifacts or {}

    def run(self, run_id):
        return next(run for run in (self.study, *self.trials) if run.run_id == run_id)

    def children(self, study_run_id):
        return self.trials if study_run_id == self.study.run_id else []

    def history(self, run_id, metric):
        return self.histories.get((run_id, metric), [])

    def download(self, run_id, artifact_path, destination: Path):
        if run_id not in self.artifacts:
            raise PipelineError(f"run {run_id} has no artifact `{artifact_path}`")
        path = destination / "predictions.json"
        path.write_text(self.artifacts[run_id], encoding="utf-8")
        return path


def study(metrics=None, tags=None, params=None, **changes) -> TrackedRun:
    return tracked(
        "parent", PARAMS | (params or {}), metrics or {}, TAGS | (tags or {}), name="study-1", **changes
    )


def gather(*children, study_run=None, **given):
    return findings.gather(HeldTracker(study_run or study(), children, **given), "parent")


# ---------------------------------------------------------------------------------------------- the study


def test_what_a_study_is_comes_from_its_run():
    found = gather()
    assert (found.study, found.dataset, found.aspect, found.status) == (
        "study-1",
        "beer",
        "palate",
        "FINISHED",
    )
    assert [one.name for one in found.searched] == ["lambda_ib", "lambda_g", "lambda_mi", "lambda_lm"]
    assert found.facts == {
        "command": PARAMS["command"],
        "method": "infocal",
        "search space": "paper",
        "sampler": "tpe",
        "trials asked for": "6",
        "epochs of a trial": "8",
        "seed": "7",
        "data fingerprint": "f00d",
        "git commit": "abc",
        "MLflow run": "parent",
        "started": "1970-01-01 00:00 UTC",
        "took": "1:02:05",
    }
    assert found.is_sample is False and found.notes == []


def test_notes_corpus_and_logarithmic_ranges():
    found = gather(
        study_run=study(
            tags={"notes": "cut 90/10\nno fetch; none", "corpus": "sample"}, params={"space_name": "wide"}
        )
    )
    assert found.notes == ["cut 90/10", "no fetch; none"]
    assert found.is_sample is True
    assert {one.log for one in found.searched} == {True}


def test_unregistered_space_falls_back_to_the_lambdas(caplog):
    found = gather(study_run=study(params={"space_name": "gone"}))
    assert [one.name for one in found.searched] == ["lambda_ib", "lambda_g", "lambda_mi", "lambda_lm"]
    assert "no search space `gone` of infocal on beer" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "best val_token_recall",
        "best val_token_recall with val_token_precision >= 0.878",
        "best val_token_recall with val_token_precision >= 1e-07",
        "best val_token_f1 with val_accuracy >= 0.61, val_selection_rate <= 0.5",
    ],
)
def test_criterion_is_read_back_as_it_was_written(text):
    criterion = gather(study_run=study(params={"criterion": text})).criterion
    assert str(criterion) == text


@pytest.mark.parametrize(
    "bounds",
    [
        (),
        (Bound(metric="val_token_precision", limit=0.8784999, kind="at_least"),),
        (
            Bound(metric="val_accuracy", limit=1e-7, kind="at_least"),
            Bound(metric="val_selection_rate", limit=0.5, kind="at_most"),
        ),
    ],
)
def test_criterion_is_read_from_its_json_to_the_last_digit(bounds):
    stated = Criterion(metric="val_token_recall", bounds=bounds, why="a test, with a >= b, and more")
    found = gather(study_run=study(tags={CRITERION_TAG: stated.to_json()}))
    assert found.criterion == stated


def test_a_damaged_criterion_names_its_tag():
    with pytest.raises(PipelineError, match="expected a criterion as JSON, but got '{}'") as caught:
        gather(study_run=study(tags={CRITERION_TAG: "{}"}))
    assert f"tag `{CRITERION_TAG}` of run" in str(caught.value.where)


@pytest.mark.parametrize("text", ["", "best", "best val_a with", "best val_a with val_b > 1", "the nearest"])
def test_unknown_criterion_stays_unknown(text):
    assert gather(study_run=study(params={"criterion": text})).criterion is None


@pytest.mark.parametrize(
    ("run", "message", "hint"),
    [
        (
            tracked("parent", {}, {}, {}),
            "run parent (`parent`) is not the run of a study",
            "name the run of a search",
        ),
        (
            tracked("parent", {}, {}, TAGS | {PARENT_TAG: "above"}, name="trial-03"),
            "run parent (`trial-03`) is not the run of a study",
            "name the run of the study: `--run above`",
        ),
    ],
)
def test_a_run_that_is_no_study_is_refused(run, message, hint):
    with pytest.raises(PipelineError, match=re.escape(message)) as caught:
        gather(study_run=run)
    assert caught.value.hint == hint


# -------------------------------------------------------------------------------------------------- trials


def test_a_trial_has_the_scores_of_its_best_epoch():
    (trial,) = gather(child(0, 0.5)).trials
    assert trial == TrialResult(
        run_id="run0",
        name="trial-00",
        status="FINISHED",
        searched={"lambda_ib": 0.0001, "lambda_g": 1.0, "lambda_mi": 0.1, "lambda_lm": 0.005},
        epoch=2,
        objective=0.5,
        started=0.0,
        ended=3725.0,
        scores={
            "token_precision": 0.9,
            "token_recall": 0.5,
            "token_f1": 0.6,
            "selection_rate": 0.25,
            "mse": 0.04,
        },
    )


def test_a_trial_without_scores_has_none():
    run = tracked(
        "run0", {"lambda_ib": "0.001"}, {}, {PARENT_TAG: "parent", "failure": "non_finite"}, status="FAILED"
    )
    found = gather(run)
    (trial,) = found.trials
    assert (trial.epoch, trial.objective, trial.precision, trial.scores) == (None, None, None, {})
    assert (trial.failure, trial.status, trial.searched) == ("non_finite", "FAILED", {"lambda_ib": 0.001})
    assert found.winner is None and found.curves == {}


def test_the_winner_is_the_one_that_the_study_named():
    runs = [child(0, 0.5), child(1, 0.7)]
    assert gather(*runs, study_run=study(tags={"winner_run_id": "run0"})).winner.run_id == "run0"


def test_without_a_named_winner_the_highest_value_wins_and_of_equals_the_first():
    assert gather(child(0, 0.5), child(1, 0.7), child(2, 0.7)).winner.run_id == "run1"
    assert gather(child(0, 0.7), child(1, 0.7, best_epoch=1.0)).winner.run_id == "run1", "the earlier epoch"


def test_repetitions_of_the_winner_are_kept_apart():
    again = child(1, 0.9, params={"seed": "8"}, tags={"seed": "8"})
    found = gather(child(0, 0.5), again)
    assert [trial.name for trial in found.trials] == ["trial-00"]
    assert [(trial.name, trial.seed) for trial in found.replicates] == [("trial-01", "8")]
    assert found.winner.run_id == "run0", "a repetition is no candidate"


def test_spread_over_seeds():
    metrics = {
        "num_seeds": 3.0,
        "val_token_recall_mean": 0.5,
        "val_token_recall_sd": 0.02,
        "val_token_f1_mean": 0.6,
    }
    found = gather(child(0, 0.5), study_run=study(metrics))
    assert (found.num_seeds, list(found.spread)) == (3, [("token_recall", 0.5, 0.02)])


def test_curves_of_the_five_best_join_their_scores_by_epoch():
    histories = {
        ("run1", "val_token_precision"): [(0, 0.2), (1, 0.9)],
        ("run1", "val_token_recall"): [(1, 0.5)],
    }
    found = gather(*(child(i, 0.1 * i) for i in range(7)), histories=histories)
    assert list(found.curves) == [f"trial-0{i}" for i in (6, 5, 4, 3, 2)]
    found = gather(child(1, 0.5), histories=histories)
    assert found.curves == {
        "trial-01": [
            EpochMetrics(number=0, metrics={"val_token_precision": 0.2}),
            EpochMetrics(number=1, metrics={"val_token_precision": 0.9, "val_token_recall": 0.5}),
        ]
    }


def test_a_study_of_posts_has_the_scores_of_its_mode_and_what_was_computed_once():
    trial = child(0, 0.5, best_val_hatexplain_token_f1=0.45, best_val_accuracy=0.62)
    logged = {
        "val_comprehensiveness": 0.2,
        "val_accuracy": 0.1,
        "trivial_all_tokens_token_f1": 0.4,
        "trivial_all_tokens_hatexplain_token_f1": 0.5,
    }
    run = study(logged, params={"dataset": "hatexplain", "aspect": ""})
    found = gather(trial, study_run=run)
    assert found.trials[0].scores["hatexplain_token_f1"] == 0.45
    assert "mse" not in found.trials[0].scores
    assert found.winner.scores["comprehensiveness"] == 0.2
    assert found.winner.scores["accuracy"] == 0.62, "the trial's own score comes first"
    rows = {row.name: row.scores for row in found.trivial}
    assert rows["all tokens"] == {"hatexplain_token_f1": 0.5, "token_f1": 0.4}


# ------------------------------------------------------------------------------- predictions, trivial, test


def test_predictions_come_from_the_winner():
    found = gather(child(0, 0.5), artifacts={"run0": json.dumps(TEXTS)})
    assert found.predictions == TEXTS


def test_missing_predictions_are_said_and_empty(caplog):
    assert gather(child(0, 0.5)).predictions == []
    assert "cannot show example rationales: run run0 has no artifact `best/predictions.json`" in caplog.text


def test_damaged_predictions_are_an_error():
    for content in (
        "[{",
        "[" * 100_000,
        "3",
        '[{"tokens": 3}]',
        '[{"tokens": [1]}]',
        '[{"tokens": [], "human": "x"}]',
    ):
        with pytest.raises(PipelineError, match="`best/predictions.json` of run run0 cannot be read"):
            gather(child(0, 0.5), artifacts={"run0": content})


def test_logged_trivial_lines_come_first():
    metrics = {"trivial_random_k_token_precision": 0.125, "trivial_random_k_token_f1": 0.1}
    found = gather(child(0, 0.5), study_run=study(metrics), artifacts={"run0": json.dumps(TEXTS)})
    assert (
        found.trivial_note
        == "on the annotated validation texts, selecting as many of their tokens as the best trial"
    )
    rows = {row.name: row.scores for row in found.trivial}
    assert rows["random k"] == {"token_precision": 0.125, "token_f1": 0.1}
    assert rows["all tokens"] == {}, "what was not logged stays missing"


def test_otherwise_trivial_lines_are_computed_on_the_shown_texts():
    # by hand, at a rate of 1/4: two of eight tokens in each annotated text; four of sixteen are marked
    found = gather(child(0, 0.5), artifacts={"run0": json.dumps(TEXTS)})
    names = ("token_precision", "token_recall", "selection_rate")
    rows = {row.name: tuple(row.scores[name] for name in names) for row in found.trivial}
    assert rows["first k"] == (0.5, 0.5, 0.25)
    assert rows["oracle k, the ceiling"] == (1.0, 1.0, 0.25)
    assert rows["random k"] == (0.25, 0.25, 0.25)
    assert rows["all tokens"] == (0.25, 1.0, 1.0)
    assert rows["no tokens"][1:] == (0.0, 0.0)
    assert found.trivial_note == "3 validation texts, at the winner's selection rate"


def test_without_any_annotation_there_are_no_trivial_lines():
    found = gather(child(0, 0.5), artifacts={"run0": json.dumps(TEXTS[2:])})
    assert (found.trivial, found.trivial_note) == ([], "")


def test_readings_of_the_test_split_are_those_logged_on_the_winner():
    read = child(
        0,
        0.5,
        tags={READINGS_TAG: "2"},
        test_token_precision=0.8,
        test_token_recall=0.4,
        test_token_f1=0.53,
        annotated_token_f1=0.55,
    )
    rows = gather(read, child(1, 0.1, test_token_f1=0.9)).readings
    assert [(row.name, row.scores, row.note) for row in rows] == [
        ("test", {"token_precision": 0.8, "token_recall": 0.4, "token_f1": 0.53}, "last of 2 readings"),
        ("all annotated texts", {"token_f1": 0.55}, "includes validation"),
    ]
    assert gather(child(0, 0.5)).readings == []


# ---------------------------------------------------------------------------------------------- importance


def trials(values, objectives) -> list[TrialResult]:
    return [
        TrialResult(run_id=str(i), name=str(i), status="FINISHED", searched=searched, objective=objective)
        for i, (searched, objective) in enumerate(zip(values, objectives, strict=True))
    ]


AB = [Searched(name="a"), Searched(name="b")]


def test_importance_finds_what_the_criterion_depends_on():
    grid = [{"a": a / 4, "b": b / 4} for a in range(5) for b in range(5)]
    shares, note = findings.importance(trials(grid, [value["a"] for value in grid]), AB)
    assert list(shares) == ["a", "b"]
    assert shares["a"] > 0.95 and sum(shares.values()) == pytest.approx(1)
    assert "(fANOVA over 25 trials)" in note
    assert findings.importance(trials(grid, [value["a"] for value in grid]), AB)[0] == shares, "seeded"


@pytest.mark.parametrize(
    ("values", "objectives", "reason"),
    [
        ([], [], "it needs 20 trials that were trained to the end, but there are 0."),
        ([{"a": 1, "b": 2}] * 25, [0.1, *[None] * 24], "but there is 1."),
        ([{"a": i, "b": 2} for i in range(19)], [i / 10 for i in range(19)], "but there are 19."),
        (
            [{"a": i, "b": 2} for i in range(20)],
            [0.5] * 20,
            "all 20 trials have the same value of the criterion",
        ),
        (
            [{"a": 1, "b": 2}] * 20,
            [i / 10 for i in range(20)],
            "all 20 trials have the same hyper-parameters",
        ),
    ],
)
def test_importance_says_why_there_is_none(values, objectives, reason):
    shares, note = findings.importance(trials(values, objectives), AB)
    assert shares == {} and note.startswith("Importance is not computed: ") and reason in note


def test_importance_leaves_out_what_was_not_varied():
    values = [{"a": i, "b": 2} for i in range(20)]
    shares, note = findings.importance(trials(values, [0.1 * i for i in range(20)]), AB)
    assert shares == {"a": pytest.approx(1)}
    assert note.endswith("Not varied: b.")


def test_importance_leaves_out_trials_that_were_stopped_early():
    grid = [{"a": a / 4, "b": b / 4} for a in range(5) for b in range(5)]
    ended = trials(grid, [value["a"] for value in grid])
    stopped = [dataclasses.replace(one, is_stopped_early=True, objective=-9.0) for one in ended]
    assert findings.importance([*ended, *stopped], AB) == findings.importance(ended, AB)
    assert findings.importance(stopped, AB)[1].endswith("but there are 0.")


def test_the_page_and_the_choice_agree_on_the_best_trial():
    found = [
        TrialResult(run_id="l", name="l", status="FINISHED", objective=0.64, lower_bound=0.5, epoch=1),
        TrialResult(run_id="s", name="s", status="FINISHED", objective=0.62, lower_bound=0.57, epoch=1),
        TrialResult(run_id="m", name="m", status="FINISHED", objective=-0.1, lower_bound=0.6, epoch=1),
        TrialResult(run_id="r", name="r", status="RUNNING"),
    ]
    assert [trial.run_id for trial in findings.ranked(found)] == ["s", "l", "m"]
