"""What a study's page says of weights that nobody could hear."""

import dataclasses
import re

import pytest

from infocal.gradient_shares import LEAST
from pipeline.reporting import epoch_plots, pages, trial_plots, weight_shares
from pipeline.reporting.results import Searched, TrialResult, percent
from pipeline.training.epochs import EpochMetrics
from tests.unit.pipeline.test_findings import child, gather, study


def trial(value, share, name="lambda_ib"):
    return TrialResult(
        run_id=f"r{value}", name=f"t{value}", status="FINISHED", searched={name: value}, shares={name: share}
    )


IB = Searched(name="lambda_ib", high=0.001)


def test_shares_are_those_of_the_last_epoch_once_every_weight_is_in_force():
    metrics = {"gradient_share_ib": 0.01, "train_pressure": 1.0, "val_mse": 0.1}
    assert weight_shares.of_metrics(metrics) == {"lambda_ib": 0.01}
    assert weight_shares.of_metrics(metrics | {"train_pressure": 0.7}) == {}
    assert weight_shares.of_metrics({"gradient_share_ib": 0.01}) == {"lambda_ib": 0.01}


def test_the_share_at_the_top_of_the_range_follows_from_each_trial():
    # 20, 10 and 30 a unit of weight: the median is 20, at .001 two percent
    trials = [trial(0.0001, 0.002), trial(0.0005, 0.005), trial(0.0002, 0.006), trial(0.0, 0.0)]
    assert weight_shares.at_the_top(IB, trials) == pytest.approx(0.02)
    assert weight_shares.at_the_top(IB, [trial(0.0, 0.0)]) is None
    assert weight_shares.at_the_top(Searched(name="lambda_ib"), trials) is None


def test_a_weight_is_named_only_where_its_whole_range_is_too_low():
    quiet = weight_shares.unheard([IB], [trial(0.0001, 0.002)], {"lambda_ib": 0.01})
    assert quiet == [
        "`lambda_ib` has no effect in this search: even at 0.001, the top of its range, its gradient at the "
        "selector is only 2.0\N{NO-BREAK SPACE}% of the gradient of L_sp. Below 3\N{NO-BREAK SPACE}%, the "
        "trials differ by chance, not because of this weight. `--space wide` reaches further."
    ]
    just = LEAST * 0.0001 / 0.001
    assert weight_shares.unheard([IB], [trial(0.0001, just)], {}) == []
    # one trial heard it, though the others say that it cannot be
    trials = [trial(0.0001, 0.002), trial(0.0002, 0.004), trial(0.001, LEAST)]
    assert weight_shares.at_the_top(IB, trials) < LEAST
    assert weight_shares.unheard([IB], trials, {}) == []
    (guider,) = weight_shares.unheard(
        [Searched(name="lambda_mi", high=1.0)], [trial(0.1, 0.001, "lambda_mi")], {"lambda_mi": 1.0}
    )
    assert "its gradient at the guider is only 1.0\N{NO-BREAK SPACE}% of the gradient of L_guide." in guider
    assert "--space wide" not in guider


def test_a_study_gathers_its_shares_and_says_what_it_could_not_hear():
    found = gather(
        child(0, 0.5, gradient_share_ib=0.001, gradient_share_g=0.04, train_pressure=1.0),
        child(1, 0.4, gradient_share_ib=0.002, gradient_share_g=0.05, train_pressure=1.0),
        child(2, 0.3, gradient_share_ib=9.0, train_pressure=0.5),
    )
    assert [trial.shares for trial in found.trials] == [
        {"lambda_ib": 0.001, "lambda_g": 0.04},
        {"lambda_ib": 0.002, "lambda_g": 0.05},
        {},
    ]
    (sentence,) = found.unheard  # at 2.0 lambda_g has 9 %
    assert sentence.startswith("`lambda_ib` has no effect in this search: even at 0.001")
    page = pages.study_page(found, [])
    assert "Which weights can matter" in page
    assert "<code>lambda_ib</code> has no effect in this search" in page
    drawn = {plot.name: plot.figure for plot in trial_plots.share_plots(found)}
    assert set(drawn) == {"share-lambda_ib", "share-lambda_g"}
    marks = [point for trace in drawn["share-lambda_g"].data for point in zip(trace.x, trace.y, strict=True)]
    assert sorted(marks) == [(1.0, 0.04), (1.0, 0.05)]
    assert weight_shares.summary(found.searched, found.trials)[1] == ("lambda_g", 2, 0.04, 0.045, 0.05)


def test_a_page_says_in_how_many_trials_the_discriminator_won():
    logged = {"gradient_share_g": 0.04, "train_pressure": 1.0}
    found = gather(
        child(0, 0.5, train_discriminator_accuracy=0.999, **logged),
        child(1, 0.4, train_discriminator_accuracy=0.6, **logged),
        child(2, 0.3, train_discriminator_accuracy=1.0, gradient_share_g=0.04, train_pressure=0.5),
    )
    (sentence,) = found.unheard
    assert sentence.startswith(
        "In 1 of 3 trials, the discriminator separated the guider's and the predictor's"
    )
    assert "<code>lambda_g</code> then shifts" in pages.study_page(found, [])
    assert gather(child(0, 0.5, train_discriminator_accuracy=0.9, **logged)).unheard == []


def test_shares_above_one_have_no_exponent():
    found = gather(
        *(
            child(i, 0.5, gradient_share_g=share, train_pressure=1.0)
            for i, share in enumerate((3.0, 1.5, 0.0002))
        )
    )
    words = pages.study_page(found, []).replace("\N{NO-BREAK SPACE}", " ")
    assert "<td>0.02 %</td><td>150 %</td><td>300 %</td>" in words
    assert "e+0" not in re.sub(r"<script.*?</script>", "", words, flags=re.DOTALL)
    (plot,) = trial_plots.share_plots(found)
    assert plot.description.endswith("shares from 0.02\N{NO-BREAK SPACE}% to 300\N{NO-BREAK SPACE}%.")


def test_the_name_of_the_line_stands_at_the_line():
    found = gather(*(child(i, 0.5, gradient_share_g=0.5 + i, train_pressure=1.0) for i in range(2)))
    (plot,) = trial_plots.share_plots(found)
    (line,), (name,) = plot.figure.layout.shapes, plot.figure.layout.annotations
    assert (plot.figure.layout.yaxis.type, line.y0, line.y1) == ("log", LEAST, LEAST)
    assert name.text == percent(LEAST, 0)
    assert 10**name.y == pytest.approx(LEAST), "plotly reads an exponent on a logarithmic axis"


def test_a_study_of_before_there_were_shares_has_no_such_part():
    found = gather(child(0, 0.5), study_run=study())
    assert found.unheard == []
    assert "Which weights can matter" not in pages.study_page(found, [])


def test_a_page_of_curves_shows_the_shares_by_epoch():
    shares = [{"gradient_share_ib": 0.01 * n, "gradient_share_lm": 0.2} for n in (0, 1)]
    history = [EpochMetrics(number=n, metrics={"val_mse": 0.1, **found}) for n, found in enumerate(shares)]
    (panel,) = (p for p in epoch_plots.loss_plots(history, 1) if "share" in p.name)
    assert [line.name for line in panel.figure.data] == ["ib", "lm"]
    bare = EpochMetrics(number=0, metrics={"val_mse": 0.1})
    assert all("share" not in p.name for p in epoch_plots.loss_plots([bare], 0))


def test_the_trial_that_has_no_value_of_a_weight_is_left_out():
    bare = dataclasses.replace(trial(0.1, 0.2), searched={})
    assert weight_shares.measured("lambda_ib", [bare]) == []
