"""Charts hold the numbers that they were made of."""

import pytest

from pipeline.reporting import figures
from pipeline.reporting.published import rows as published_rows
from pipeline.reporting.results import Findings, ScoreRow, Searched, TrialResult
from search_spaces.base import Bound, Criterion

CRITERION = Criterion(
    metric="val_token_recall",
    bounds=(Bound(metric="val_token_precision", limit=0.8, kind="at_least"),),
    why="a test",
)


def entry(epoch, precision, recall, **more):
    return {"epoch": epoch, "val_token_precision": precision, "val_token_recall": recall} | more


def trial(number, objective, precision, recall, **searched) -> TrialResult:
    return TrialResult(
        run_id=f"run{number}",
        name=f"trial-{number:02d}",
        status="FINISHED",
        searched=searched,
        epoch=2,
        objective=objective,
        scores={"token_precision": precision, "token_recall": recall},
    )


def findings(*trials: TrialResult, **changes) -> Findings:
    made = {
        "study": "s",
        "run_id": "p",
        "dataset": "beer",
        "aspect": "palate",
        "status": "FINISHED",
        "is_sample": False,
        "criterion": CRITERION,
        "notes": [],
        "facts": {},
        "searched": [Searched(name="lambda_ib"), Searched(name="lambda_g", log=True)],
        "trials": trials,
        "winner": trials[0] if trials else None,
    }
    return Findings(**(made | changes))


# -------------------------------------------------------------------------------------------- best epoch


def test_best_epoch_is_the_first_of_equals_and_skips_gaps():
    history = [entry(0, 0.9, float("nan")), entry(1, 0.9, 0.4), entry(2, 0.85, 0.4), entry(3, None, 0.9)]
    assert figures.best_epoch(history, CRITERION) == 1
    assert figures.best_epoch(history[:1], CRITERION) is None


def test_unmet_epochs_rank_below_met_ones_by_their_violation():
    assert figures.best_epoch([entry(0, 0.5, 0.9), entry(1, 0.7, 0.1)], CRITERION) == 1
    assert figures.objective(entry(0, 0.5, 0.9), CRITERION) == pytest.approx(-0.3)
    assert figures.objective({"epoch": 0}, CRITERION) is None


def test_epochs_are_counted_from_one():
    chart = figures.score_chart([entry(0, 0.5, 0.9), entry(1, 0.9, 0.5)], CRITERION, best=1, dataset="beer")
    assert (chart.x.low, chart.x.high) == (1, 2)
    assert [rule.value for rule in chart.rules] == [0.8, 2]
    assert "the best epoch is 2" in chart.description


def test_upper_bounds_are_drawn_as_such():
    criterion = Criterion(
        metric="val_token_f1",
        bounds=(Bound(metric="val_selection_rate", limit=0.14, kind="at_most"),),
        why="a test",
    )
    chart = figures.score_chart(
        [{"epoch": 0, "val_selection_rate": 0.1}], criterion, best=None, dataset="beer"
    )
    assert [rule.label for rule in chart.rules] == ["selected ≤ 0.14"]


def test_only_what_was_recorded_has_a_panel():
    history = [entry(0, 0.5, 0.9, val_mse=0.05, val_guider_mse=0.04, train_d=1.3, train_lm=float("nan"))]
    panels = figures.loss_panels(history, best=0)
    assert [panel.title for panel in panels] == ["MSE on validation", "L_d, discriminator (Eq. 13)"]
    assert [line.name for line in panels[0].lines] == ["rationale", "guider"]


# --------------------------------------------------------------------------------------- a study's charts


def test_scatter_shows_trials_by_what_they_reach():
    chart = figures.precision_recall_chart(findings(trial(0, 0.5, 0.9, 0.5), trial(1, -0.1, 0.7, 0.6)), [])
    shown = [(dot.x, dot.y, dot.kind, dot.label) for dot in chart.dots]
    assert shown == [(0.6, 0.7, "unmet", ""), (0.5, 0.9, "winner", "best")], "the winner is drawn last"
    assert chart.description.startswith("2 trials, the criterion met by 1;")
    assert chart.dots[1].name.startswith("trial-00, epoch 3: precision 0.900, recall 0.500")


def test_scatter_calls_a_winner_below_the_threshold_nearest():
    chart = figures.precision_recall_chart(findings(trial(0, -0.1, 0.7, 0.6)), [])
    assert [dot.label for dot in chart.dots] == ["nearest"]


def test_scatter_holds_threshold_front_and_published_rows():
    made = findings(trial(0, 0.5, 0.9, 0.5), trial(1, -0.1, 0.7, 0.6), trial(2, -0.2, 0.6, 0.4))
    chart = figures.precision_recall_chart(made, published_rows("beer", "palate"))
    assert [(rule.value, rule.label) for rule in chart.rules] == [(0.8, "precision ≥ 0.8")]
    (front,) = (line for line in chart.lines if line.kind == "front")
    assert list(front.points) == [(0.5, 0.9), (0.6, 0.7)]
    paper = {dot.label: (dot.x, dot.y) for dot in chart.dots if dot.kind == "paper"}
    assert paper["InfoCal"] == (0.598, 0.896) and len(paper) == 6, "one dot a method, from table 2 alone"
    assert all(chart.at(x, y) for x, y in paper.values())


def test_scatter_keeps_trivial_lines_of_another_part_out_of_sight():
    trivial = [
        ScoreRow(name="random k", scores={"token_precision": 0.1, "token_recall": 0.1}),
        ScoreRow(name="nothing"),
    ]
    chart = figures.precision_recall_chart(findings(trial(0, 0.5, 0.9, 0.5), trivial=trivial), [])
    (cross,) = (dot for dot in chart.dots if dot.kind == "trivial")
    assert (cross.x, cross.y) == (0.1, 0.1) and chart.at(cross.x, cross.y) is None


def test_curves_of_equal_f1_have_that_f1():
    chart = figures.precision_recall_chart(findings(), [])
    levels = [line for line in chart.lines if line.kind == "level"]
    assert len(levels) == 9
    for line in levels:
        level = float(line.name.removeprefix("F1 "))
        for recall, precision in line.points:
            assert 2 * precision * recall / (precision + recall) == pytest.approx(level)


def test_hyper_parameters_have_a_panel_each():
    trials = [
        trial(i, value, 0.9, 0.5, lambda_ib=0.001 * i, lambda_g=2.0**i) for i, value in enumerate((0.4, -0.1))
    ]
    by_ib, by_g = figures.hyper_parameter_panels(findings(*trials))
    assert [(dot.x, dot.y, dot.kind) for dot in by_ib.dots] == [(0.001, -0.1, "unmet"), (0.0, 0.4, "winner")]
    assert (by_ib.x.log, by_g.x.log) == (False, True)
    assert [rule.kind for rule in by_ib.rules] == ["zero"]


def test_where_every_bound_is_met_the_dots_fill_their_panel():
    trials = [trial(i, value, 0.9, 0.5, lambda_g=1.0 + i) for i, value in enumerate((0.93, 0.94))]
    (panel,) = figures.hyper_parameter_panels(findings(*trials))
    assert panel.y.low > 0.9
    assert panel.rules == []


def test_a_value_of_zero_has_no_logarithm():
    panels = figures.hyper_parameter_panels(findings(trial(0, 0.4, 0.9, 0.5, lambda_g=0.0)))
    assert [(panel.title, panel.x.log) for panel in panels] == [("lambda_g", False)]


def test_curves_have_a_panel_for_each_score():
    rates = [{"val_token_f1": 0.6, "val_selection_rate": rate} for rate in (0.2, 0.1)]
    curves = {
        "trial-00": [entry(0, 0.5, 0.9) | rates[0], entry(1, 0.9, 0.5) | rates[1]],
        "trial-01": [entry(0, 0.4, 0.8)],
    }
    panels = figures.curve_panels(findings(curves=curves))
    assert [panel.title for panel in panels] == [
        "precision by epoch",
        "recall by epoch",
        "F1 by epoch",
        "selected by epoch",
    ]
    assert [line.points for line in panels[0].lines] == [[(1, 0.5), (2, 0.9)], [(1, 0.4)]]
    assert [len(panel.rules) for panel in panels] == [1, 0, 0, 0]
    assert figures.curve_panels(findings(curves={})) == []


def test_a_score_that_was_not_recorded_has_no_panel():
    panels = figures.curve_panels(findings(curves={"trial-00": [entry(0, 0.5, 0.9)]}))
    assert [panel.title for panel in panels] == ["precision by epoch", "recall by epoch"]


def test_trials_without_precision_have_no_scatter():
    bare = TrialResult(run_id="a", name="a", status="FINISHED", scores={"macro_f1": 0.5}, objective=0.5)
    assert figures.precision_recall_chart(findings(bare), []) is None


def test_posts_have_panels_for_the_scores_of_their_mode():
    curves = {"trial-00": [{"epoch": 0, "val_accuracy": 0.6, "val_hatexplain_token_f1": 0.4, "val_mse": 0.1}]}
    panels = figures.curve_panels(findings(dataset="hatexplain", curves=curves))
    assert [panel.title for panel in panels] == ["accuracy by epoch", "token F1 by epoch"]
