"""The benchmarks run, name what they promise, and compare equal things; no time is asserted."""

import json
import sqlite3
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import building, data, driver, encoders, search, segmentation, serving, step, timing
from benchmarks.corpus import Corpus, open_corpus
from benchmarks.reference import LoopRCNN, as_loop, every_position, use_loops
from benchmarks.server import Reply, model_server
from feature_store.sample import write_beer
from infocal.batch import Words
from infocal.nn.encoders import RCNN, Embedded
from pipeline.base.errors import PipelineError
from pipeline.study.utilisation import Utilisation
from pipeline.training.explainer import Explainer
from tests.small_model import EMBEDDING_SIZE, random_batch, random_embeddings, small_trainer
from tests.small_store import new_store


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return open_corpus(None, tmp_path_factory.mktemp("cache"))


def test_ways_take_turns_and_the_first_round_is_thrown_away():
    seen: list[str] = []
    ways = {"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}
    seconds = timing.alternate(ways, rounds=2)
    assert seen == ["a", "b"] * 3
    assert [len(values) for values in seconds.values()] == [2, 2]


def test_a_ratio_is_the_median_of_the_rounds_ratios():
    seconds = {"ours": [1.0, 2.0, 4.0], "theirs": [3.0, 4.0, 20.0]}
    figure = timing.compare("x", seconds, "ours", "theirs", "")
    assert (figure.ours, figure.reference, figure.ratio) == (2000.0, 4000.0, 3.0)


def test_the_published_loop_is_the_same_function_with_the_same_gradients():
    torch.manual_seed(0)
    layer, table, batch = RCNN(EMBEDDING_SIZE, 3), random_embeddings(), random_batch([6, 2, 4])
    gate = batch.is_token.float() * torch.rand(batch.is_token.shape)
    loop = as_loop(layer)
    words = Words.of(batch.token_ids)
    ours = layer(Embedded(table[words.ids], words.index), gate)
    theirs = loop(every_position(batch.token_ids, table), gate)
    assert torch.allclose(ours, theirs, atol=1e-6)
    parameters, toward = list(layer.parameters()), torch.randn_like(ours)
    assert {id(p) for p in loop.parameters()} == {id(p) for p in parameters}
    pairs = zip(*(torch.autograd.grad(o, parameters, toward) for o in (ours, theirs)), strict=True)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in pairs)


def test_a_step_with_loops_is_the_same_step():
    batch = random_batch([6, 2, 4])
    ours, loops = small_trainer(encoder="rcnn"), small_trainer(encoder="rcnn")
    use_loops(loops)
    assert isinstance(loops.model.guider.encoder, LoopRCNN)
    torch.manual_seed(1)
    first = ours.train_step(batch)
    torch.manual_seed(1)
    second = loops.train_step(batch)
    assert {name: pytest.approx(value.item(), abs=1e-5) for name, value in first.items()} == {
        name: value.item() for name, value in second.items()
    }


def test_encoders_and_step_give_the_promised_names(corpus: Corpus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(encoders, "_NUM_BATCHES", 1)
    monkeypatch.setattr(encoders, "HIDDEN_SIZE", 4)
    monkeypatch.setattr(step, "_NUM_BATCHES", 1)
    figures = {figure.name: figure for figure in [*encoders.run(corpus, 1), *step.run(corpus, 1)]}
    promised = {f"rcnn_vs_{other}_b{size}" for other in ("plain", "lstm") for size in (64, 256)}
    assert promised | {"step_vs_plain", "step_tokens_per_s", "gradient_shares_cost"} <= figures.keys()
    shares = [figure.ours for name, figure in figures.items() if name.startswith("step_share_")]
    assert sum(shares) == pytest.approx(1)
    assert figures["step_tokens_per_s"].unit == "tokens/s"


def test_the_data_path_gives_the_promised_names(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(data, "SIZES", {"10k": None, "200k": 1500})
    figures = {figure.name: figure for figure in data.run(corpus, 1, tmp_path)}
    assert {"warm_open_ms_10k", "warm_open_ms_200k", "padding_waste_rate"} <= figures.keys()
    assert figures["warm_open_ms_200k"].note == "1500 training texts"
    assert 0 <= figures["padding_waste_rate"].ours < 1


def test_segmentation_gives_one_figure_of_equal_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segmentation, "_MAX_TEXTS", 20)
    (figure,) = segmentation.run(None, 1, tmp_path)
    assert figure.name == "segmentation_vs_jieba"
    assert figure.note.startswith("made-up cases, 20 texts")


def test_segmentation_refuses_other_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segmentation, "_MAX_TEXTS", 20)
    monkeypatch.setattr(segmentation, "segment", lambda texts, cores: [([1] * 20, [1] * 20)])
    with pytest.raises(RuntimeError, match="not those of plain jieba"):
        list(segmentation.run(None, 1, tmp_path))


@pytest.mark.slow
def test_serving_gives_the_promised_names(corpus: Corpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(serving, "_NUM_TEXTS", 30)
    monkeypatch.setattr(serving, "_AT_ONCE", 20)
    figures = {figure.name: figure for figure in serving.run(corpus, 1, tmp_path)}
    latencies = {f"serving_{share}_ms{suffix}" for share in ("p50", "p95") for suffix in ("", "_c20")}
    assert latencies | {"serving_ready_s", "serving_first_ms"} <= figures.keys()
    for suffix in ("", "_c20"):
        assert figures[f"serving_p50_ms{suffix}"].ours <= figures[f"serving_p95_ms{suffix}"].ours
    assert figures["explain_texts_per_s"].ratio is not None
    assert figures["serving_requests_per_s"].reference is not None


@pytest.mark.slow
def test_the_driver_gives_the_promised_names(tmp_path: Path):
    figures = {figure.name: figure for figure in driver.run(tmp_path, (2,), 3)}
    assert figures.keys() == {"driver_reports_per_s_2", "driver_memory_2", "mlflow_lag_s_2"}
    assert figures["driver_reports_per_s_2"].ours > 0
    assert figures["mlflow_lag_s_2"].ours > 0
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        (epochs,) = database.execute("select count(*) from metrics where key = 'best_objective'").fetchone()
    assert epochs == 2 * 3


def test_the_model_that_is_served_selects_as_much_as_a_trained_one(corpus: Corpus):
    explainer = Explainer(serving._package(corpus))
    tokens = [token for found in explainer.explain(corpus.texts(64)) for token in found.tokens]
    assert 0.05 < sum(token.selected for token in tokens) / len(tokens) < 0.3


def test_a_refused_request_gives_no_figure():
    with pytest.raises(RuntimeError, match="the server answered 400: no token"):
        serving._check([Reply(200, "", 0.1), Reply(400, "no token", 0.1)])


def test_a_server_that_does_not_start_says_why(tmp_path: Path):
    with (
        pytest.raises(RuntimeError, match="(?s)did not get ready:.*Model with name=none not found"),
        model_server("models:/none@champion", new_store(tmp_path / "store").uri, tmp_path),
    ):
        pass


def test_the_search_reads_what_a_search_says():
    found = search._USED.search(f"table\n\n{Utilisation(0.875, 0.256)}\n")
    assert found is not None
    assert found.groups() == ("88", "0.26")


def test_texts_have_to_be_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("INFOCAL_DATA", raising=False)
    with pytest.raises(PipelineError, match="on which texts"):
        command._data_dir(command.build_parser().parse_args([]))


def test_the_table_and_the_file_hold_every_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    figures = [timing.Figure("a", 1.0, 2.0, 2.0, "ms", "note"), timing.Figure("b", 0.5, None, None, "s")]
    monkeypatch.setattr(command, "_become_like_a_worker", lambda arguments: None)
    monkeypatch.setattr(command, "_figures", lambda given, work: iter(figures))
    assert command.main(["--sample", "--json", str(tmp_path / "f.json")]) == 0
    stored = json.loads((tmp_path / "f.json").read_text())
    assert [set(row) >= {"name", "ours", "reference", "ratio", "unit"} for row in stored] == [True, True]
    assert (stored[1]["name"], stored[1]["reference"]) == ("b", None)
    assert "note" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_found_before_anything_is_measured(tmp_path: Path):
    with pytest.raises(PipelineError, match="there is no folder") as caught:
        command.main(["--sample", "--json", str(tmp_path / "none" / "f.json")])
    assert caught.value.hint == "create it first"


def test_two_checkouts_build_features_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_beer(tmp_path / "beer", seed=0)
    building.main(
        [str(Path(__file__).parents[3]), "--data-dir", str(tmp_path), "--rounds", "1", "--sizes", "10k"]
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["10k", "seconds"], ["10k", "cpu_s"], ["10k", "peak_mb"]]
    assert all(float(line.split()[-1]) > 0 for line in lines)
