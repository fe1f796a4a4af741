"""A finished study, as people see it: MLflow's pages of it and our report, in headless Chromium.

The pictures lie in pytest's temporary folder (`--basetemp DIR` keeps them): look at them after a change.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from infocal.metrics.resampling import Difference, Interval
from pipeline.reporting import language_model_tables, pages, paper_tables
from pipeline.reporting.results import Findings, Links, ScoreRow, Searched, TrialResult
from pipeline.reporting.standings import MeanScore, Standings, StandingsRow
from pipeline.tracking.tracking import TrackedRun
from pipeline.training.columns import compared
from pipeline.training.epochs import EpochMetrics
from search_spaces.base import Criterion
from tests.browser.chromium import PAGE_TIMEOUT_MS, Browser, Visited, browser
from tests.integration.servers import free_port, served
from tests.integration.studies import Searched as FinishedSearch

pytestmark = [pytest.mark.slow, pytest.mark.browser]

MODEL = "infocal-beer-palate"
LAMBDAS = ("lambda_ib", "lambda_g", "lambda_mi", "lambda_lm")
UPSTREAM = ("/users/current", "/static-files/", "GL Driver Message")
"""What is known of MLflow 3.17: a server without users, its own scripts, its plots."""


@dataclass(frozen=True)
class Finished:
    """A study whose winner is registered and promoted, and the server that shows it."""

    url: str
    study: TrackedRun
    trials: list[TrackedRun]
    report: Path

    @property
    def experiment(self) -> str:
        return f"{self.url}/#/experiments/{self.study.experiment_id}"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("pictures")) as found:
        yield found


@pytest.fixture(scope="module")
def finished(chromium: Browser, promoted: FinishedSearch) -> Iterator[Finished]:
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", promoted.tracker.uri]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    url = f"http://127.0.0.1:{port}"
    with served(command, f"{url}/health", promoted.folder / "mlflow.log", environment):
        yield Finished(url, promoted.parent, promoted.children, promoted.directory / "report.html")


def wait_for_charts(visited: Visited) -> None:
    """Until every chart of a page of ours is drawn."""
    visited.page.locator("html[data-plots=drawn]").wait_for(timeout=PAGE_TIMEOUT_MS)


def alone(visited: Visited, page: Path) -> bool:
    """Whether a page asked for nothing but itself, and what it holds."""
    return {url for url in visited.requests if not url.startswith(("data:", "blob:"))} == {page.as_uri()}


def check(visited: Visited) -> None:
    """Nothing was asked of another machine, and nothing of ours went wrong."""
    assert visited.foreign_requests() == []
    ours = [said for said in visited.complaints if not any(known in said for known in UPSTREAM)]
    assert ours == []


def test_the_runs_of_an_experiment_are_nested_under_their_study(chromium: Browser, finished: Finished):
    with chromium.visit(f"{finished.experiment}/runs", "runs") as visited:
        visited.wait_for(finished.study.name, "4 matching runs")
        assert visited.page.get_by_text(finished.trials[0].name).count() == 0
        visited.page.locator(".ag-row").first.locator("button, [role=button]").first.click()
        visited.wait_for(*(trial.name for trial in finished.trials))
    check(visited)


@pytest.mark.parametrize("width", [400, 700, 800, 1280])
def test_the_page_of_all_tables_fits_the_window(chromium: Browser, tmp_path: Path, width: int):
    places = f"--storage {'a' * 200} --sample"
    models = language_model_tables.section([], ["beer", "hatexplain"], places)
    made = [*paper_tables.sections([], places), models]
    page = tmp_path / "tables.html"
    page.write_text(pages.paper_page(title="All tables", sections=made, notes=[]), encoding="utf-8")
    with chromium.visit(page.as_uri(), f"tables-{width}", width=width) as visited:
        visited.wait_for("Table 2 of the paper: beer", "MPBFN-WCA, published", "KenLM, published")
        assert not visited.is_cut_off()
        visited.page.get_by_role("link", name="Table 12: hatexplain").click()
        assert visited.page.evaluate("location.hash").startswith("#table-")
    assert visited.foreign_requests() == [] and visited.complaints == []


def test_trials_are_compared_by_their_lambdas_in_parallel_coordinates(chromium: Browser, finished: Finished):
    trials, experiments = (
        quote(json.dumps(names), safe="")
        for names in ([t.run_id for t in finished.trials], [finished.study.experiment_id])
    )
    objective = "best/token_recall"  # what the criterion maximises
    url = f"{finished.url}/#/compare-runs?runs={trials}&experiments={experiments}"
    with chromium.visit(url, "comparison") as visited:
        visited.wait_for("Comparing 3 Runs from 1 Experiment", "Parallel Coordinates Plot", objective)
        axes = visited.page.locator(".parcoords .axis-title")
        axes.first.wait_for()
        shown = set(axes.all_text_contents())
        assert objective in shown
        assert shown - {objective} <= set(LAMBDAS)
        assert len(shown) == 4
    check(visited)


def test_the_study_says_first_what_became_of_it(chromium: Browser, finished: Finished):
    with chromium.visit(f"{finished.experiment}/runs/{finished.study.run_id}", "study") as visited:
        visited.wait_for("registered as", "shows what the study taught", *(t.name for t in finished.trials))
    check(visited)


def test_the_report_is_shown_among_the_artifacts(chromium: Browser, finished: Finished):
    url = f"{finished.experiment}/runs/{finished.study.run_id}/artifacts/report.html"
    with chromium.visit(url, "artifacts") as visited:
        visited.wait_for("report.html", "optuna.db")
        report = visited.page.frame_locator("iframe")
        report.get_by_text("first: beer palate").wait_for()
        report.get_by_role("heading", name="Scores", exact=True).wait_for()
        report.locator("#chart-precision-recall .main-svg").first.wait_for()
    check(visited)


def test_the_registered_model_has_its_version_and_aliases(chromium: Browser, finished: Finished):
    with chromium.visit(f"{finished.url}/#/models/{MODEL}", "model") as visited:
        visited.wait_for(
            MODEL, "Version 1", "champion", "challenger", "Text in, prediction and rationale out"
        )
    check(visited)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_report_reads_well_on_any_screen(chromium: Browser, finished: Finished, scheme: str, width: int):
    picture = f"report-{scheme}-{width}"
    with chromium.visit(finished.report.as_uri(), picture, width=width, scheme=scheme, full=True) as visited:
        visited.wait_for("first: beer palate", "Precision against recall", "All trials", "To do it again")
        assert not visited.is_cut_off()
        paper = visited.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(22, 23, 26)") == (scheme == "dark")
        assert visited.page.locator("article.text").count() == 10
        wait_for_charts(visited)
        assert not visited.is_cut_off(), "no chart is wider than the page"
    assert alone(visited, finished.report)
    assert visited.complaints == []


def test_the_table_of_trials_is_sorted_by_a_heading(chromium: Browser, finished: Finished):
    with chromium.visit(finished.report.as_uri(), "sorted") as visited:
        column = visited.page.locator("#table tbody td:nth-child(2)")
        before = [float(text) for text in column.all_text_contents()]
        heading = visited.page.get_by_role("button", name="lambda_ib")
        heading.click()
        assert [float(text) for text in column.all_text_contents()] == sorted(before)
        heading.click()
        assert [float(text) for text in column.all_text_contents()] == sorted(before, reverse=True)
    assert visited.complaints == []


def test_a_trial_is_read_by_pointing_at_it(chromium: Browser, finished: Finished):
    with chromium.visit(finished.report.as_uri(), "pointed") as visited:
        wait_for_charts(visited)
        mark = visited.page.locator("#chart-precision-recall .scatterlayer .trace .points path").last
        mark.scroll_into_view_if_needed()
        mark.hover(force=True)
        label = visited.page.locator("#chart-precision-recall .hoverlayer .hovertext")
        label.first.wait_for()
        said = label.first.text_content()
        assert "trial-0" in said and "precision" in said
        assert all(name in said for name in LAMBDAS)
    assert visited.complaints == []


def test_charts_follow_the_page_from_light_to_dark(chromium: Browser, finished: Finished):
    ink = "getComputedStyle(document.querySelector('#chart-precision-recall .xtitle')).fill"
    with chromium.visit(finished.report.as_uri(), "turned-dark") as visited:
        wait_for_charts(visited)
        light = visited.page.evaluate(ink)
        visited.page.emulate_media(color_scheme="dark")
        dark = visited.page.locator("#chart-precision-recall .xtitle[style*='168, 162, 153']")
        dark.wait_for(timeout=PAGE_TIMEOUT_MS)
        assert visited.page.evaluate(ink) == "rgb(168, 162, 153)" != light
    assert visited.complaints == []


def hostile_page(folder: Path, name: str) -> Path:
    """A trial's curves and a study's report, with a name from data that is HTML to a careless page."""
    trials = [
        TrialResult(
            run_id=f"run{i}",
            name=f"{name}{i}",
            status="FINISHED",
            epoch=1,
            searched={name: 0.1 * (i + 1), "lambda_g": 0.2 * (i + 1)},
            objective=0.5 + 0.1 * i,
            scores={"token_precision": 0.9 - 0.1 * i, "token_recall": 0.5},
            started=60.0 * i,
            ended=60.0 * i + 30,
        )
        for i in range(3)
    ]
    findings = Findings(
        study=name,
        run_id="p",
        dataset="beer",
        aspect="palate",
        status="FINISHED",
        is_sample=False,
        criterion=None,
        notes=[],
        facts={},
        searched=[Searched(name=name), Searched(name="lambda_g")],
        trials=trials,
        winner=trials[0],
        curves={name: [EpochMetrics(number=0, metrics={"val_token_precision": 0.5})]},
        trivial=[ScoreRow(name=name, scores={"token_precision": 0.8, "token_recall": 0.5})],
    )
    path = folder / "hostile.html"
    path.write_text(pages.study_page(findings, []), encoding="utf-8")
    return path


def study_of_four_weights(folder: Path) -> Path:
    """The report of a study of four weights, each figure with its error."""
    scores = {
        "token_precision": 0.913,
        "token_recall": 0.612,
        "token_f1": 0.733,
        "selection_rate": 0.12,
        "mse": 0.02,
    }
    trials = [
        TrialResult(
            run_id=f"run{i}",
            name=f"trial-{i:02d}",
            status="FINISHED",
            epoch=11,
            searched=dict.fromkeys(LAMBDAS, 0.0003 * (i + 1)),
            objective=0.612 - i,
            scores=scores,
            errors=dict.fromkeys(scores, 0.034),
        )
        for i in range(3)
    ]
    findings = Findings(
        study="first",
        run_id="p",
        dataset="beer",
        aspect="palate",
        status="FINISHED",
        is_sample=False,
        criterion=None,
        notes=[],
        facts={},
        searched=[Searched(name=name) for name in LAMBDAS],
        trials=trials,
        winner=trials[0],
        links={trial.run_id: Links(run="http://x", rationales="rationales.html") for trial in trials},
    )
    path = folder / "study.html"
    path.write_text(pages.study_page(findings, []), encoding="utf-8")
    return path


def comparison_of_two(folder: Path) -> Path:
    """The page of a comparison with intervals and a published row, of two seeds."""
    columns = compared("beer")
    cells = {column.score: MeanScore(0.751, 0.0123) for column in columns}
    gap = {"token_f1": Difference(0.043, Interval(0.028, 0.059, 0.01), 0.001)}
    rows = [
        StandingsRow(name="InfoCal", kind="ours", cells=cells, marks="†"),
        StandingsRow(
            name="HardKuma", kind="ours", cells=cells, differences=gap, corrected={"token_f1": 0.0001}
        ),
        StandingsRow(
            name="[Sha2023] table 2: HardKuma", kind="paper", cells=cells, note="test, tuned to select 7 %"
        ),
    ]
    headline = next(column for column in columns if column.score == "token_f1")
    table = Standings(title="t", columns=columns, rows=rows, headline=headline, notes=[], num_seeds=2)
    path = folder / "comparison.html"
    path.write_text(pages.comparison_page(table, command="a command", is_sample=False), encoding="utf-8")
    return path


def curve_of_six_epochs(folder: Path) -> Path:
    """A trial's curves; the last epoch is the best, and a loss has a long name."""
    names = ("val_token_precision", "val_token_recall", "train_guider_minus_predictor", "train_sp")
    history = [EpochMetrics(number=i, metrics=dict.fromkeys(names, 0.1 * i)) for i in range(6)]
    criterion = Criterion(metric="val_token_recall", bounds=(), why="a test")
    path = folder / "curve.html"
    made = pages.curve_page(title="t", history=history, criterion=criterion, best=5, dataset="beer")
    path.write_text(made, encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [400, 700, 1300])
@pytest.mark.parametrize("made", [curve_of_six_epochs, study_of_four_weights, comparison_of_two])
def test_no_text_of_a_chart_is_cut_off_and_no_page_is_wider_than_its_window(
    made: Callable[[Path], Path], width: int, chromium: Browser, tmp_path: Path
):
    outside = """[...document.querySelectorAll(".plot")].flatMap(plot => {
      const box = plot.getBoundingClientRect();
      return [...plot.querySelectorAll(".main-svg text")].filter(text => {
        const { left, right, top, bottom, width } = text.getBoundingClientRect();
        const over = [box.left - left, right - box.right, box.top - top, bottom - box.bottom];
        return width && Math.max(...over) > 1;
      }).map(text => `${plot.id}: ${text.textContent}`);
    })"""
    with chromium.visit(made(tmp_path).as_uri(), f"whole-{made.__name__}-{width}", width=width) as visited:
        wait_for_charts(visited)
        assert visited.page.evaluate(outside) == []
        assert not visited.is_cut_off()
    assert visited.complaints == []


@pytest.mark.parametrize("width", [800, 1280])
@pytest.mark.parametrize("made", [study_of_four_weights, comparison_of_two])
def test_tables_are_no_wider_than_the_page(
    made: Callable[[Path], Path], width: int, chromium: Browser, tmp_path: Path
):
    with chromium.visit(
        made(tmp_path).as_uri(), f"{made.__name__}-{width}", width=width, full=True
    ) as visited:
        wait_for_charts(visited)
        over = "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).length"
        assert visited.page.locator(".wide table").count() > 0
        assert visited.page.evaluate(over) == 0
        assert not visited.is_cut_off()
        if made is study_of_four_weights:
            visited.page.get_by_role("button", name="lambda_ib").click()
        else:
            visited.wait_for("But 2 seeds are too few for a claim")
    assert visited.complaints == []


EVIL = '<script>document.title="script"</script><img src=x onerror="document.title=1"><b>bold</b>&amp;'


def test_a_name_that_is_html_is_shown_as_it_is(chromium: Browser, tmp_path: Path):
    path = hostile_page(tmp_path, EVIL)
    with chromium.visit(path.as_uri(), "hostile", full=True) as visited:
        wait_for_charts(visited)
        page = visited.page
        mark = page.locator("#chart-precision-recall .scatterlayer .trace .points path").last
        mark.scroll_into_view_if_needed()
        mark.hover(force=True)
        label = page.locator("#chart-precision-recall .hoverlayer .hovertext")
        label.first.wait_for()
        assert EVIL in label.first.text_content()
        assert EVIL in page.locator("#chart-precision-recall .legend").text_content()
        assert page.title() == f"{EVIL}: beer palate"
        assert page.locator("img").count() == 0
        assert page.locator(".plot b, .plot script").count() == 0
    assert alone(visited, path)
    assert visited.complaints == []


def test_without_javascript_the_report_says_so_and_leaves_no_holes(chromium: Browser, tmp_path: Path):
    path = hostile_page(tmp_path, "lambda_x")
    with chromium.visit(path.as_uri(), "no-javascript", full=True, javascript=False) as visited:
        visited.wait_for("Each circle, and the star, is a trial", "All trials")
        # Playwright looks for no text in a `noscript`, though the page shows it
        hint = visited.page.locator("noscript p").filter(visible=True)
        assert hint.inner_text().startswith("JavaScript is off, so no chart is drawn.")
        assert visited.page.locator(".plot").filter(visible=True).count() == 0
    assert visited.complaints == []


def test_a_browser_that_cannot_unpack_the_charts_says_so(chromium: Browser, tmp_path: Path):
    path = tmp_path / "old.html"
    page = hostile_page(tmp_path, "lambda_x").read_text(encoding="utf-8")
    old = page.replace("<body>", "<body><script>delete window.DecompressionStream;</script>", 1)
    path.write_text(old, encoding="utf-8")
    with chromium.visit(path.as_uri(), "old-browser", full=True) as visited:
        visited.wait_for("This browser cannot draw the charts")
        assert visited.page.locator(".plot").filter(visible=True).count() == 0
