"""Answers to texts: a model server asked by one and by many at once, and `pipeline.explain`."""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.corpus import Corpus
from benchmarks.server import Reply, Server, model_server
from benchmarks.timing import Figure, alternate
from infocal.config import InfoCalConfig
from infocal.methods.infocal.model import InfoCal
from pipeline.cli.explanations import BATCH, explained
from pipeline.cli.text_input import WINDOW, Line
from pipeline.tracking import model_registry
from pipeline.tracking.tracking import Tracker
from pipeline.training.checkpoints import Package, load_package, save_package
from pipeline.training.explainer import Explainer
from search_spaces.lookup import first_points, preset

_AT_ONCE = 200
_NUM_TEXTS = WINDOW
_SELECTED = 0.15
"""Share of tokens in rationales: what a model of beer's palate selects."""


def run(corpus: Corpus, rounds: int, work: Path) -> Iterator[Figure]:
    """Figures of a server of its own and of this process, with beer's preset and weights of no training."""
    texts = corpus.texts(_NUM_TEXTS)
    work.mkdir(parents=True, exist_ok=True)
    save_package(work / "package", _package(corpus))
    yield from _explaining(corpus.label, Explainer(load_package(work / "package"), BATCH), texts, rounds)
    tracker = Tracker(f"sqlite:///{work / 'mlflow.db'}")
    experiment = tracker.experiment("beer", "palate")
    model_registry.register(
        tracker,
        work / "package",
        name="infocal-beer-palate",
        run_id=tracker.start_run(experiment, "untrained", {}, {}),
        tags={},
        alias=model_registry.CHAMPION,
    )
    (work / "server").mkdir()
    # the environment that a reader of the README has, not that of a search's workers
    environment = {"OMP_NUM_THREADS": "1", "GLIBC_TUNABLES": ""}
    uri = f"models:/infocal-beer-palate@{model_registry.CHAMPION}"
    with model_server(uri, tracker.uri, work / "server", environment) as server:
        yield from _serving(corpus.label, server, texts[:_AT_ONCE], rounds)


def _package(corpus: Corpus) -> Package:
    """A model that costs what a trained one does: as large, and with rationales as long."""
    config = InfoCalConfig.from_mapping(
        preset("infocal", "beer", "palate", sample=False) | first_points("infocal", "beer")[0]
    )
    torch.manual_seed(0)
    model = InfoCal(config, corpus.task, corpus.embeddings).eval()
    with torch.no_grad():
        batch = next(corpus.loader.in_order(BATCH))
        logit = model.selector(model.embed(batch.words), batch.is_token)[batch.is_token]
        model.selector.output.bias.sub_(logit.quantile(1 - _SELECTED))
    return Package(model, corpus.words, {"tokenizer": "whitespace", "dataset": "beer", "aspect": "palate"})


def _explaining(label: str, explainer: Explainer, texts: Sequence[str], rounds: int) -> Iterator[Figure]:
    window = [Line(text, None) for text in texts]
    seconds = alternate(
        {
            "ours": lambda: list(explained(window, explainer)),
            "one": lambda: [list(explained([line], explainer)) for line in window],
        },
        rounds,
    )
    ratio = statistics.median(one / ours for ours, one in zip(seconds["ours"], seconds["one"], strict=True))
    ours, one = (len(texts) / statistics.median(seconds[name]) for name in ("ours", "one"))
    note = f"{label}, {len(texts)} texts, against one text at a time"
    yield Figure("explain_texts_per_s", ours, one, ratio, "texts/s", note)


def _serving(label: str, server: Server, texts: Sequence[str], rounds: int) -> Iterator[Figure]:
    payloads = [{"inputs": [text]} for text in texts]
    yield Figure("serving_ready_s", server.ready_s, None, None, "s", "from the command to the first ping")
    first = server.ask(payloads[0])
    yield Figure("serving_first_ms", 1000 * first.seconds, None, None, "ms", "the very first request")
    alone: list[Reply] = []
    at_once: list[Reply] = []
    seconds = alternate(
        {
            "at_once": lambda: at_once.extend(server.ask_at_once(payloads)),
            "alone": lambda: alone.extend(server.ask(payload) for payload in payloads),
        },
        rounds,
    )
    for suffix, replies, note in (
        ("", alone, f"{label}, one request after the other"),
        (f"_c{_AT_ONCE}", at_once, f"{label}, {len(payloads)} requests sent at one moment"),
    ):
        _check(replies)
        cuts = statistics.quantiles((1000 * reply.seconds for reply in replies), n=20)
        yield Figure(f"serving_p50_ms{suffix}", cuts[9], None, None, "ms", note)
        yield Figure(f"serving_p95_ms{suffix}", cuts[18], None, None, "ms", note)
    ratio = statistics.median(
        one / many for one, many in zip(seconds["alone"], seconds["at_once"], strict=True)
    )
    many, one = (len(payloads) / statistics.median(seconds[name]) for name in ("at_once", "alone"))
    note = f"{len(payloads)} at one moment, against one after the other"
    yield Figure("serving_requests_per_s", many, one, ratio, "requests/s", note)


def _check(replies: Sequence[Reply]) -> None:
    """A figure of refused requests would say nothing.

    Raises:
        RuntimeError: if one failed; with what the server said.
    """
    for reply in replies:
        if reply.status != 200:
            raise RuntimeError(f"the server answered {reply.status}: {reply.body[:500]}")
