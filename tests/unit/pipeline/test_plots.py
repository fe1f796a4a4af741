"""Charts hold the numbers that they were made of, in the page's colours, and no HTML of others."""

import dataclasses
import html
import json
import math
import re

import plotly.graph_objects as go
import pytest

from infocal.metrics.resampling import Difference, Interval
from pipeline.reporting import comparison_plots, epoch_plots, optuna_plots, plots, trial_plots
from pipeline.reporting.plots import Plot
from pipeline.reporting.published import rows as published_rows
from pipeline.reporting.results import Findings, ScoreRow, Searched, TrialResult
from pipeline.reporting.standings import MeanScore, Standings, StandingsRow
from pipeline.training.columns import Column
from pipeline.training.epochs import EpochMetrics
from search_spaces.base import Bound, Criterion

CRITERION = Criterion(
    metric="val_token_recall",
    bounds=(Bound(metric="val_token_precision", limit=0.8, kind="at_least"),),
    why="a test",
)


def entry(epoch, precision, recall, **more):
    found = {"val_token_precision": precision, "val_token_recall": recall, **more}
    return EpochMetrics(number=epoch, metrics={n: value for n, value in found.items() if value is not None})


def trial(
    number, objective, precision, recall, *, status="FINISHED", stopped=False, **searched
) -> TrialResult:
    return TrialResult(
        run_id=f"run{number}",
        name=f"trial-{number:02d}",
        status=status,
        is_stopped_early=stopped,
        started=1_700_000_000.0 + 60 * number,
        ended=1_700_000_050.0 + 60 * number,
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


# ------------------------------------------------------------------------------------------ over epochs


def traces(plot: Plot) -> dict:
    """Name -> trace."""
    return {trace.name: trace for trace in plot.figure.data}


def points(trace) -> list[tuple[float, float]]:
    return list(zip(trace.x, trace.y, strict=True))


def test_epochs_are_counted_from_one():
    plot = epoch_plots.score_plot([entry(0, 0.5, 0.9), entry(1, 0.9, 0.5)], CRITERION, best=1, dataset="beer")
    assert points(traces(plot)["precision"]) == [(1, 0.5), (2, 0.9)]
    bound, best = plot.figure.layout.shapes
    assert (bound.y0, best.x0) == (0.8, 2)
    assert "the best epoch is 2" in plot.description and "The dotted line is epoch 2" in plot.caption
    assert "A dashed line across the chart is a bound" in plot.caption
    unread = [EpochMetrics(number=0, metrics={"val_token_recall": 0.5})]
    assert "dashed" not in epoch_plots.score_plot(unread, CRITERION, best=0, dataset="beer").caption


def test_upper_bounds_are_drawn_as_such():
    criterion = Criterion(
        metric="val_token_f1",
        bounds=(Bound(metric="val_selection_rate", limit=0.14, kind="at_most"),),
        why="a test",
    )
    history = [EpochMetrics(number=0, metrics={"val_selection_rate": 0.1})]
    plot = epoch_plots.score_plot(history, criterion, best=None, dataset="beer")
    assert [text.text for text in plot.figure.layout.annotations] == ["selected ≤ 0.14"]
    assert "No epoch has every score that the criterion reads." in plot.caption


def test_a_missing_value_leaves_a_gap():
    history = [entry(0, 0.5, 0.9), entry(1, None, 0.8), entry(2, math.nan, 0.7), entry(3, 0.6, 0.6)]
    line = traces(epoch_plots.score_plot(history, CRITERION, None, "beer"))["precision"]
    assert line.y == (0.5, None, None, 0.6) and not line.connectgaps
    assert len(line.hovertext) == 4 and line.hovertext[3] == "precision: 0.6000<br>epoch 4"


def test_lines_differ_in_more_than_colour():
    looks = {
        (line.line.dash, line.marker.symbol)
        for line in (plots.line(str(i), [(0, 0.1), (1, 0.2)], i) for i in range(6))
    }
    assert len(looks) == 6


def test_only_what_was_recorded_has_a_panel():
    history = [entry(0, 0.5, 0.9, val_mse=0.05, val_guider_mse=0.04, train_d=1.3, train_lm=float("nan"))]
    panels = epoch_plots.loss_plots(history, best=0)
    assert [panel.title for panel in panels] == ["MSE on validation", "L_d, discriminator (Eq. 13)"]
    assert list(traces(panels[0])) == ["rationale", "guider"]


# ------------------------------------------------------------------------------- precision against recall


def test_scatter_shows_trials_by_what_they_reach():
    made = findings(trial(0, 0.5, 0.9, 0.5, lambda_ib=0.001), trial(1, -0.1, 0.7, 0.6))
    plot = trial_plots.precision_recall_plot(made, [])
    assert points(traces(plot)["does not meet it"]) == [(0.6, 0.7)]
    assert points(traces(plot)["best trial"]) == [(0.5, 0.9)]
    assert plot.figure.data[-1].name == "best trial", "the winner is drawn over the others"
    (said,) = traces(plot)["best trial"].hovertext
    assert said == "trial-00, epoch 3<br>criterion 0.500<br>precision 0.900, recall 0.500<br>lambda_ib 0.001"
    assert plot.description.startswith("2 trials, the criterion met by 1;")


def test_scatter_calls_a_winner_below_the_threshold_nearest():
    plot = trial_plots.precision_recall_plot(findings(trial(0, -0.1, 0.7, 0.6)), [])
    assert "nearest to the criterion" in traces(plot) and "best trial" not in traces(plot)


def test_scatter_holds_the_region_of_the_criterion_the_front_and_published_rows():
    made = findings(trial(0, 0.5, 0.9, 0.5), trial(1, -0.1, 0.7, 0.6), trial(2, -0.2, 0.6, 0.4))
    plot = trial_plots.precision_recall_plot(made, published_rows("beer", "palate"))
    region, bound = plot.figure.layout.shapes
    assert (region.type, region.y0, region.y1, bound.y0) == ("rect", 0.8, 1, 0.8)
    assert points(traces(plot)["front"]) == [(0.5, 0.9), (0.6, 0.7)]
    papers = [trace for trace in plot.figure.data if trace.marker.color in plots.COLOURS[2:]]
    assert points(traces(plot)["InfoCal"]) == [(0.598, 0.896)]
    names = {trace.name for trace in papers}
    assert len(names) == 6, "one mark a method, from table 2 alone"
    for name in names:
        ((x, y),) = points(traces(plot)[name])
        assert plot.figure.layout.xaxis.range[0] <= x <= plot.figure.layout.xaxis.range[1]
        assert plot.figure.layout.yaxis.range[0] <= y <= plot.figure.layout.yaxis.range[1]


def test_scatter_leaves_out_trivial_rationales_of_another_part_of_the_plane():
    rows = [
        ScoreRow(name="random k", scores={"token_precision": 0.1, "token_recall": 0.1}),
        ScoreRow(name="near", scores={"token_precision": 0.88, "token_recall": 0.52}),
        ScoreRow(name="nothing"),
    ]
    plot = trial_plots.precision_recall_plot(findings(trial(0, 0.5, 0.9, 0.5), trivial=rows), [])
    assert "near" in traces(plot) and not {"random k", "nothing"} & set(traces(plot))


def test_curves_of_equal_f1_have_that_f1():
    plot = trial_plots.precision_recall_plot(findings(criterion=None), [])
    levels = [trace for name, trace in traces(plot).items() if name.startswith("F1 ")]
    assert len(levels) == 9
    for trace in levels:
        level = float(trace.name.removeprefix("F1 "))
        assert trace.text[-1] == trace.name
        for recall, precision in points(trace):
            assert 2 * precision * recall / (precision + recall) == pytest.approx(level)


def test_trials_without_precision_have_no_scatter():
    bare = TrialResult(run_id="a", name="a", status="FINISHED", scores={"macro_f1": 0.5}, objective=0.5)
    assert trial_plots.precision_recall_plot(findings(bare), []) is None


# ------------------------------------------------------------------------------------------ Optuna's charts


def searched(number, objective, **more) -> TrialResult:
    values = {"lambda_ib": 0.001 * (number + 1), "lambda_g": 2.0**number}
    return trial(number, objective, 0.9, 0.5, **(values | more))


def all_of_optuna(made: Findings) -> list[Plot]:
    drawn = [
        optuna_plots.history_plot(made),
        optuna_plots.timeline_plot(made),
        optuna_plots.importance_plot(made),
        optuna_plots.parallel_plot(made),
        optuna_plots.contour_plot(made),
        *optuna_plots.slice_plots(made),
    ]
    return [plot for plot in drawn if plot is not None]


def test_trials_are_told_to_optuna_as_they_ended():
    ended = [
        searched(0, 0.4),
        searched(1, -0.25),
        searched(2, 0.3, stopped=True),
        trial(3, None, None, None, status="FAILED", lambda_ib=0.2),
        searched(4, 0.5, status="RUNNING"),
    ]
    study = optuna_plots.frozen_study(ended, findings().searched)
    found = study.get_trials()
    assert [t.state.name for t in found] == ["COMPLETE", "COMPLETE", "PRUNED", "FAIL", "RUNNING"]
    assert [t.number for t in found] == [0, 1, 2, 3, 4]
    assert [t.constraints for t in found[:2]] == [{"criterion": 0.0}, {"criterion": 0.25}]
    assert found[1].params == {"lambda_ib": 0.002, "lambda_g": 2.0}
    assert found[0].distributions["lambda_g"].log and not found[0].distributions["lambda_ib"].log
    assert (found[0].datetime_complete - found[0].datetime_start).total_seconds() == 50


def test_hyper_parameters_have_a_chart_each_with_what_the_trial_was():
    by_ib, by_g = optuna_plots.slice_plots(findings(searched(0, 0.4), searched(1, -0.1), searched(2, 0.3)))
    assert points(traces(by_ib)["meets the criterion"]) == [(0.001, 0.4), (0.003, 0.3)]
    assert points(traces(by_ib)["does not meet it"]) == [(0.002, -0.1)]
    assert traces(by_ib)["does not meet it"].hovertext[0].startswith("trial-01, epoch 3<br>criterion -0.100")
    assert "lambda_g 4" in traces(by_ib)["meets the criterion"].hovertext[1]
    assert (by_ib.figure.layout.xaxis.type, by_g.figure.layout.xaxis.type) == (None, "log")
    assert [shape.y0 for shape in by_ib.figure.layout.shapes] == [0], "where the bounds begin to hold"


def test_where_every_bound_is_met_there_is_no_line_at_zero():
    for plot in optuna_plots.slice_plots(findings(searched(0, 0.93), searched(1, 0.94))):
        assert not plot.figure.layout.shapes


def test_a_value_of_zero_has_no_logarithm():
    made = findings(searched(0, 0.4, lambda_g=0.0), searched(1, 0.5))
    assert [plot.figure.layout.xaxis.type for plot in optuna_plots.slice_plots(made)] == [None, None]


def test_trials_that_were_stopped_early_are_left_out_but_for_the_timeline():
    made = findings(searched(0, 0.4), searched(1, 0.5), searched(2, 0.9, stopped=True))
    for plot in (optuna_plots.history_plot(made), *optuna_plots.slice_plots(made)):
        assert 0.9 not in [y for trace in plot.figure.data for y in trace.y]
    names = {trace.name: list(trace.y) for trace in optuna_plots.timeline_plot(made).figure.data}
    assert names == {"meets the criterion": [0, 1], "stopped early": [2]}


@pytest.mark.parametrize(
    "trials",
    [
        [],
        [searched(0, 0.4)],
        [searched(i, 0.4, stopped=True) for i in range(3)],
        [trial(i, None, None, None, status="FAILED", lambda_ib=0.1) for i in range(3)],
        [searched(i, 0.4, status="RUNNING") for i in range(3)],
    ],
    ids=["none", "one", "all stopped early", "all failed", "all running"],
)
def test_there_is_no_empty_chart(trials):
    made = findings(*trials)
    drawn = [
        optuna_plots.history_plot(made),
        optuna_plots.parallel_plot(made),
        optuna_plots.contour_plot(made),
    ]
    assert drawn == [None] * 3
    assert optuna_plots.importance_plot(made) is None and optuna_plots.slice_plots(made) == []
    timeline = optuna_plots.timeline_plot(made)
    assert (timeline is None) == (len([t for t in trials if t.status != "RUNNING"]) < 2)


def test_hyper_parameters_that_all_trials_share_have_no_chart():
    made = findings(*(searched(i, 0.1 * i, lambda_g=1.0) for i in range(3)))
    assert [plot.title for plot in optuna_plots.slice_plots(made)] == ["lambda_ib"]
    assert optuna_plots.parallel_plot(made) is None


def test_the_history_follows_the_best_trial_that_meets_the_criterion():
    made = findings(searched(0, -0.2), searched(1, 0.3), searched(2, 0.2), searched(3, 0.5))
    plot = optuna_plots.history_plot(made)
    assert points(traces(plot)["highest value so far"]) == [(0, None), (1, 0.3), (2, 0.3), (3, 0.5)]
    assert points(traces(plot)["does not meet it"]) == [(0, -0.2)]
    assert "Infinity" not in plot.json
    missed = optuna_plots.history_plot(findings(searched(0, -0.2), searched(1, -0.3)))
    assert set(traces(missed)) == {"does not meet it", "nearest to the criterion"}
    assert "The line is" in plot.caption and "The line is" not in missed.caption, "no line without a value"


def test_parallel_coordinates_tell_the_trial_of_each_line():
    made = findings(searched(0, 0.4), searched(1, 0.5), searched(2, -0.1))
    plot = optuna_plots.parallel_plot(made)
    lines = [trace for trace in plot.figure.data if trace.mode == "lines" and trace.x[0] is not None]
    assert [line.hovertext.split(",")[0] for line in lines] == ["trial-00", "trial-01", "trial-02"]
    assert [line.line.dash for line in lines] == ["solid", "solid", "dot"]
    assert [line.line.color for line in lines] == ["var(--q3)", "var(--q4)", "var(--q0)"]


def many() -> Findings:
    trials = [searched(i, 0.01 * (i * 7 % 20), lambda_g=2.0 ** (i % 5)) for i in range(20)]
    shares = optuna_plots.importance(trials, findings().searched)
    return findings(*trials, importance=shares, importance_note="over 20 trials")


def test_importance_and_contour_are_of_what_was_found():
    made = many()
    bars = optuna_plots.importance_plot(made).figure.data[0]
    assert dict(zip(bars.y, bars.x, strict=True)) == made.importance
    contour = optuna_plots.contour_plot(made)
    assert contour.title == f"{' and '.join(made.importance)} together"
    assert len(traces(contour)["meets the criterion"].x) == 20
    assert len(all_of_optuna(made)) == 7


def where_another_is_highest(**changes) -> Findings:
    """Twenty trials; trial-02 has the highest value, trial-05 the interval that begins highest."""
    made = many()
    trials = [dataclasses.replace(one, lower_bound=0.05) for one in made.trials]
    trials[2] = dataclasses.replace(trials[2], objective=0.95)
    trials[5] = dataclasses.replace(trials[5], objective=0.94, lower_bound=0.9)
    return dataclasses.replace(made, **{"trials": trials, "winner": trials[5], **changes})


def with_marks(made: Findings) -> list[Plot]:
    return [plot for plot in all_of_optuna(made) if plot.name not in ("importance", "timeline")]


def stars(plot: Plot) -> list:
    return [trace for trace in plot.figure.data if trace.type == "scatter" and trace.marker.symbol == "star"]


def test_each_chart_of_trials_has_the_star_of_the_winner():
    made = where_another_is_highest()
    drawn = with_marks(made)
    assert len(drawn) == 5
    for plot in drawn:
        (star,) = stars(plot)
        assert star.name == "best trial" and star.hovertext[0].startswith("trial-05"), plot.name
        others = [t for t in plot.figure.data if t.type == "scatter" and t.x is not None and t is not star]
        marks = [point for trace in others for point in points(trace)]
        assert points(star)[0] in marks, f"{plot.name}: over its other mark"


def test_a_caption_says_which_trial_has_the_highest_value_where_it_is_not_the_winner():
    for plot in with_marks(where_another_is_highest()):
        assert re.search(r"The star is [^.]*the best trial\b.*: its interval begins highest\.", plot.caption)
        assert "trial-02 has the highest value" in plot.caption, plot.name
    by_ib, _ = optuna_plots.slice_plots(where_another_is_highest())
    assert by_ib.caption == (
        "The star is the best trial, at 0.006: its interval begins highest. "
        "trial-02 has the highest value, at 0.003."
    )
    raced = where_another_is_highest(winner=where_another_is_highest().trials[4])
    by_ib, _ = optuna_plots.slice_plots(raced)
    assert by_ib.caption == "The star is the best trial, at 0.005. trial-02 has the highest value, at 0.003."


def test_a_caption_speaks_of_the_winner_alone_where_its_value_is_the_highest():
    met = optuna_plots.slice_plots(findings(searched(0, 0.4), searched(1, 0.3)))[0]
    assert met.caption == "The star is the best trial, at 0.001."
    missed = optuna_plots.slice_plots(findings(searched(0, -0.1), searched(1, -0.3)))[0]
    assert missed.caption == "The star is the trial nearest to the criterion, at 0.001."
    assert [star.name for star in stars(missed)] == ["nearest to the criterion"]


def test_a_winner_that_a_chart_does_not_show_has_no_star_and_the_caption_says_so():
    stopped = searched(0, 0.9, stopped=True)
    made = findings(stopped, searched(1, 0.4), searched(2, 0.3))
    for plot in (optuna_plots.history_plot(made), *optuna_plots.slice_plots(made)):
        assert stars(plot) == []
        assert "trial-01 has the highest value" in plot.caption
        assert plot.caption.endswith("The best trial has no mark in this chart.")


# ----------------------------------------------------------------------------------- curves of the best


def test_curves_have_a_chart_for_each_score():
    rates = [{"val_token_f1": 0.6, "val_selection_rate": rate} for rate in (0.2, 0.1)]
    curves = {
        "trial-00": [entry(0, 0.5, 0.9, **rates[0]), entry(1, 0.9, 0.5, **rates[1])],
        "trial-01": [entry(0, 0.4, 0.8)],
    }
    made = epoch_plots.curve_plots(findings(curves=curves))
    assert [plot.title for plot in made] == [
        "precision by epoch",
        "recall by epoch",
        "F1 by epoch",
        "selected by epoch",
    ]
    assert points(traces(made[0])["trial-00"]) == [(1, 0.5), (2, 0.9)]
    assert points(traces(made[0])["trial-01"]) == [(1, 0.4)]
    assert [len(plot.figure.layout.shapes) for plot in made] == [1, 0, 0, 0]
    assert made[0].caption == "After the last epoch: trial-00 0.900, trial-01 0.400."
    assert epoch_plots.curve_plots(findings(curves={})) == []


def test_a_score_that_was_not_recorded_has_no_chart():
    made = epoch_plots.curve_plots(findings(curves={"trial-00": [entry(0, 0.5, 0.9)]}))
    assert [plot.title for plot in made] == ["precision by epoch", "recall by epoch"]


def test_posts_have_charts_for_the_scores_of_their_mode():
    scores = {"val_accuracy": 0.6, "val_hatexplain_token_f1": 0.4, "val_mse": 0.1}
    curves = {"trial-00": [EpochMetrics(number=0, metrics=scores)]}
    made = epoch_plots.curve_plots(findings(dataset="hatexplain", curves=curves))
    assert [plot.title for plot in made] == ["accuracy by epoch", "token F1 by epoch"]


def test_the_caption_speaks_of_the_thick_line_where_it_can_be_seen():
    apart = findings(trial(0, 0.5, 0.9, 0.5), trial(1, 0.4, 0.7, 0.8))
    close = findings(trial(0, 0.5, 0.9, 0.500), trial(1, 0.4, 0.899, 0.502), trial(2, -0.5, 0.2, 0.1))
    alone = findings(trial(0, 0.5, 0.9, 0.5))
    said = ["thick line" in trial_plots.precision_recall_plot(f, []).caption for f in (apart, close, alone)]
    assert said == [True, False, False]
    assert "Published" not in trial_plots.precision_recall_plot(alone, []).caption


def test_marks_of_published_methods_are_told_apart():
    printed = published_rows("beer", "palate")
    plot = trial_plots.precision_recall_plot(findings(trial(0, 0.5, 0.9, 0.5)), printed)
    names = {row.method for row in printed if row.source == trial_plots.MAIN_SOURCE}
    shapes = [trace.marker.symbol.removesuffix("-open") for trace in plot.figure.data if trace.name in names]
    assert len(shapes) > 4 and len(set(shapes)) == len(shapes)
    assert not {"circle", "pentagon", "hexagon", "star"} & set(shapes), "trials are circles and a star"


# --------------------------------------------------------------------------------------- comparisons

F1 = Column("token_f1", "F1")


def table(*rows: StandingsRow) -> Standings:
    return Standings(title="t", columns=[F1], rows=rows, headline=F1, notes=[])


def row(name, mean, kind="ours", deviation=None, gap=None) -> StandingsRow:
    cells = {"token_f1": MeanScore(mean, deviation)}
    return StandingsRow(
        name=name, kind=kind, cells=cells, differences={} if gap is None else {"token_f1": gap}
    )


def test_methods_stand_in_the_order_of_the_table_with_their_deviation():
    plot = comparison_plots.score_plot(
        table(row("InfoCal", 0.6, deviation=0.02), row("HardKuma", 0.5), row("random k", 0.1, "trivial"))
    )
    ours = traces(plot)["trained here"]
    assert points(ours) == [(60.0, "InfoCal"), (50.0, "HardKuma")]
    (bars,) = (trace for trace in plot.figure.data if trace.error_x.array is not None)
    assert (points(bars), list(bars.error_x.array)) == ([(60.0, "InfoCal")], [2.0]), "no bar without a length"
    assert not bars.showlegend
    assert list(plot.figure.layout.yaxis.categoryarray) == ["InfoCal", "HardKuma", "random k"]
    assert "The highest of those trained here is InfoCal." in plot.caption


def test_one_seed_has_no_bars():
    plot = comparison_plots.score_plot(table(row("InfoCal", 0.6), row("HardKuma", 0.5, deviation=0.0)))
    assert all(trace.error_x.array is None for trace in plot.figure.data)
    assert "deviation" not in plot.caption


@pytest.mark.parametrize("num_seeds", [1, 2, 7])
def test_a_chart_claims_nothing_where_the_seeds_are_too_few(num_seeds: int):
    gap = Difference(0.1, Interval(0.05, 0.15, 0.02), 0.01)
    made = table(row("InfoCal", 0.5), row("HardKuma", 0.6, gap=gap))
    few = comparison_plots.difference_plot(dataclasses.replace(made, num_seeds=num_seeds))
    assert "That holds for" not in few.caption + few.description
    seeds = "1 seed is" if num_seeds == 1 else f"{num_seeds} seeds are"
    assert f"But {seeds} too few for a claim" in few.caption
    enough = comparison_plots.difference_plot(dataclasses.replace(made, num_seeds=8))
    assert "That holds for HardKuma." in enough.caption


def test_rows_of_one_name_keep_a_line_each():
    plot = comparison_plots.score_plot(table(row("Lei", 0.6, "paper"), row("Lei", 0.5, "paper")))
    assert len(set(plot.figure.data[0].y)) == 2


def test_a_table_without_scores_or_intervals_has_no_chart_of_them():
    assert comparison_plots.score_plot(table()) is None
    assert comparison_plots.difference_plot(table(row("InfoCal", 0.5))) is None


# ----------------------------------------------------------------------------------------- every chart

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>%{x}&lt;"


def every_plot(name: str) -> list[Plot]:
    """A chart of each sort, with a name from data in all of them."""
    trials = [
        TrialResult(
            run_id=f"run{i}",
            name=f"{name}{i}",
            status="FINISHED",
            epoch=1,
            searched={name: 0.1 * (i + 1), "lambda_g": 0.2 * (i * 3 % 20 + 1)},
            objective=0.01 * (i * 7 % 20) - 0.05,
            scores={"token_precision": 0.9 - 0.01 * i, "token_recall": 0.5},
            shares={name: 0.01 * (i + 1)},
            started=60.0 * i,
            ended=60.0 * i + 30,
        )
        for i in range(20)
    ]
    ranges = [Searched(name=name, high=9.0), Searched(name="lambda_g", log=True)]
    made = findings(
        *trials,
        searched=ranges,
        importance=optuna_plots.importance(trials, ranges),
        importance_note=name,
        trivial=[ScoreRow(name=name, scores={"token_precision": 0.8, "token_recall": 0.5})],
        curves={name: [entry(0, 0.5, 0.9), entry(1, 0.6, 0.8)]},
    )
    history = [entry(0, 0.5, 0.9, train_ib=1.0), entry(1, 0.6, 0.8, train_ib=0.5)]
    return [
        *all_of_optuna(made),
        trial_plots.precision_recall_plot(made, published_rows("beer", "palate")),
        *trial_plots.share_plots(made),
        *epoch_plots.curve_plots(made),
        epoch_plots.score_plot(history, CRITERION, 1, "beer"),
        *epoch_plots.loss_plots(history, 1),
        comparison_plots.score_plot(table(row(name, 0.5), row("b", 0.4, "trivial"))),
    ]


def texts(part) -> list[str]:
    """Every text of a figure that plotly shows."""
    if isinstance(part, dict):
        return [text for value in part.values() for text in texts(value)]
    if isinstance(part, list):
        return [text for value in part for text in texts(value)]
    return [part] if isinstance(part, str) else []


def test_names_from_data_are_no_html_to_plotly_or_to_the_browser():
    drawn = every_plot(EVIL)
    shown = []
    for plot in drawn:
        assert "<" not in plot.json and ">" not in plot.json
        shown += texts(json.loads(plot.json))
    holding = [text for text in shown if "alert" in text]
    assert len(holding) > 50
    for text in holding:
        assert not re.search(r"<(?!br>)", text), text
    assert any(html.escape(EVIL, quote=False) in text for text in holding), "it is shown letter by letter"


def test_a_name_from_data_is_in_no_template_of_plotly():
    for plot in every_plot(EVIL):
        for trace in plot.figure.data:
            template = trace.hovertemplate if "hovertemplate" in trace else None
            assert "alert" not in str(template), plot.name


def test_every_colour_is_the_pages():
    for plot in every_plot("lambda_ib"):
        named = [
            text for text in texts(json.loads(plot.json)) if re.match(r"#[0-9a-fA-F]{3,8}$|rgba?\(", text)
        ]
        assert set(named) <= {"rgba(0,0,0,0)"}, (plot.name, named)


def test_every_chart_has_a_text_alternative_and_an_id_of_its_own():
    drawn = every_plot("lambda_ib")
    for plot in drawn:
        assert plot.title and re.search(r"\d", plot.description), plot.name
        assert plot.figure.layout.title.text is None, "the page has the heading"


@pytest.mark.parametrize(
    ("xs", "is_log", "ends"),
    [
        ([0.005, 0.005], False, (0.0025, 0.0075)),
        ([0.005, 0.005, None], True, (0.0025, 0.01)),
        ([64], False, (32, 96)),
        ([-2.0, -2.0], False, (-3, -1)),
        ([0.0, 0.0], False, (-0.5, 0.5)),
    ],
)
def test_an_axis_of_one_value_lies_around_it(xs: list[float], is_log: bool, ends: tuple[float, float]):
    figure = go.Figure(go.Scatter(x=xs, y=[0.1 * i for i in range(len(xs))]))
    figure.update_xaxes(title_text="lambda_lm", type="log" if is_log else None)
    figure.update_yaxes(title_text="criterion")
    drawn = shown_layout(figure)
    found = [10**end if is_log else end for end in drawn["xaxis"]["range"]]
    assert found == pytest.approx(ends)
    assert ("range" in drawn["yaxis"]) == (len(xs) == 1)


def shown_layout(figure: go.Figure) -> dict:
    plot = Plot(name="n", title="t", caption="", description="1", figure=figure)
    return json.loads(plot.json)["layout"]


def test_what_else_is_on_an_axis_of_one_value_stays_in_sight():
    figure = go.Figure(go.Scatter(x=[1, 2], y=[0.4, 0.4]))
    figure.update_xaxes(title_text="x")
    figure.update_yaxes(title_text="y")
    plots.level(figure, 0, "")
    assert "range" not in shown_layout(figure)["yaxis"], "a line at 0 and marks at 0.4"


@pytest.mark.parametrize(
    "trace",
    [
        go.Scatter(x=["a", "a"], y=[1, 2]),
        go.Scatter(x=["2026-11-29 10:00", "2026-11-29 10:00"], y=[1, 2]),
        go.Bar(x=[5.0, 5.0], y=["a", "b"], orientation="h"),
        go.Scatter(x=[5.0, 5.0], y=[1, 2], error_x={"type": "data", "array": [9.0, 1.0]}),
    ],
    ids=["names", "times", "bars from 0", "error bars"],
)
def test_an_axis_that_shows_more_than_one_value_is_left_to_plotly(trace):
    figure = go.Figure(trace)
    figure.update_xaxes(title_text="x")
    assert "range" not in shown_layout(figure)["xaxis"]


def test_a_weight_that_no_trial_varied_has_an_axis_around_it():
    trials = [searched(i, 0.1 * i, lambda_lm=0.005) for i in range(3)]
    trials = [dataclasses.replace(one, shares={"lambda_lm": 0.2 + 0.1 * i}) for i, one in enumerate(trials)]
    (plot,) = trial_plots.share_plots(findings(*trials, searched=[Searched(name="lambda_lm")]))
    assert json.loads(plot.json)["layout"]["xaxis"]["range"] == pytest.approx([0.0025, 0.0075])


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("is_upright", [False, True])
def test_a_line_and_its_name_are_at_one_place(is_log: bool, is_upright: bool):
    figure = go.Figure(go.Scatter(x=[1, 100], y=[1, 100]))
    figure.update_xaxes(type="log" if is_log else None)
    figure.update_yaxes(type="log" if is_log else None)
    plots.level(figure, 20.0, "here", is_upright=is_upright)
    key = "x" if is_upright else "y"
    (line,), (name,) = figure.layout.shapes, figure.layout.annotations
    assert line[f"{key}0"] == 20.0
    assert (10 ** name[key] if is_log else name[key]) == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("xs", "ends", "value", "side"),
    [
        ([1, 6], [0.85, 6.15], 6, "left"),
        ([1, 6], [0.85, 6.15], 1, "right"),
        ([1, 6], [0.85, 6.15], 3, "right"),
        ([-5, -2], None, 0, "left"),
        ([2, 5, None], None, 0, "right"),
        (["a"], [-0.5, 0.5], 0.4, "left"),
    ],
)
def test_the_name_of_an_upright_line_stands_where_there_is_room(xs: list, ends, value: float, side: str):
    figure = go.Figure(go.Scatter(x=xs, y=[0] * len(xs)))
    figure.update_xaxes(range=ends)
    plots.level(figure, value, "best epoch", is_upright=True)
    (name,) = figure.layout.annotations
    # a text to the left of the line ends at it
    assert (name.x, name.xanchor) == (value, "right" if side == "left" else "left")


def test_the_last_epoch_is_named_inside_the_chart():
    history = [entry(i, 0.5, 0.9) for i in range(6)]
    for best, anchor in ((5, "right"), (0, "left")):
        figure = epoch_plots.score_plot(history, CRITERION, best, "beer").figure
        (name,) = [one for one in figure.layout.annotations if one.text == "best epoch"]
        assert name.xanchor == anchor


def test_the_title_of_an_upright_axis_is_no_longer_than_the_axis():
    history = [entry(0, 0.5, 0.9, train_guider_minus_predictor=0.1, train_sp=0.2)]
    shown = {plot.name: json.loads(plot.json)["layout"] for plot in epoch_plots.loss_plots(history, 0)}
    titles = {name: layout["yaxis"]["title"]["text"] for name, layout in shown.items()}
    assert titles == {
        "loss-train_guider_minus_predictor": "train_guider_<br>minus_predictor",
        "loss-train_sp": "train_sp",
    }


def test_a_title_is_folded_once_and_only_where_it_is_too_long():
    figure = go.Figure(go.Scatter(x=[1, 2], y=[1, 2]))
    figure.update_yaxes(title_text="a share of the gradient of a loss")
    plot = Plot(name="n", title="t", caption="", description="1", figure=figure, height=230)
    found = [json.loads(plot.json)["layout"]["yaxis"]["title"]["text"] for _ in range(2)]
    assert found == ["a share of the<br>gradient of a loss"] * 2
    high = Plot(name="n", title="t", caption="", description="1", figure=go.Figure(figure), height=420)
    high.figure.update_yaxes(title_text="a share of the gradient of a loss")
    assert "<br>" not in json.loads(high.json)["layout"]["yaxis"]["title"]["text"]


def test_the_script_is_plotlys_own():
    import base64
    import zlib
    from importlib import resources

    source = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    assert zlib.decompress(base64.b64decode(plots.script())) == source
    assert b"MIT license" in source[:400], "the notice of its licence comes with it"
