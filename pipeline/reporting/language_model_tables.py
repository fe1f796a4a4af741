"""The table of language models: perplexities measured here beside the published ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from feature_store.sources import get_source
from feature_store.wording import counted
from pipeline.reporting import published
from pipeline.reporting.paper_tables import (
    LANGUAGE_MODELS,
    NOT_MEASURED,
    PaperRow,
    PaperSection,
    PaperTable,
    published_protocol,
)
from pipeline.reporting.published import PublishedRow
from pipeline.reporting.results import number
from pipeline.training.data_options import target
from pipeline.training.language_models import LanguageModelData, LanguageModelOutcome
from pipeline.training.naming import target_flags

PERPLEXITY = "perplexity"
_MODELS = (
    ("kneser-ney", "plain", "Kneser-Ney 5-gram", "KenLM"),
    ("rnnlm", "plain", "RNNLM", "RNNLM"),
    ("continuous", "ratio", "Our LM", "Our LM"),
    ("continuous", "softmax", "Our LM, scores alone", None),
)
"""Model, reading, name here, and name of the published row below it."""
_OURS = "Our LM"
_DEFINITION = (
    "perplexity: exp of the mean negative log probability of the test tokens that are known words, from the "
    "second token of each text on; every model gives a distribution over the same known words; unknown words "
    "are not scored",
    "our LM gives scores s instead of probabilities. Row `Our LM`: word frequency times exp(s), normalised, "
    "because Eq. (19) trains exp(s) towards p(word | context) / p(word). Row `Our LM, scores alone`: exp(s), "
    "normalised. The paper does not say how it computed its perplexity",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredModels:
    """The language models of a table, finished or not."""

    name: str
    dataset: str
    aspect: str
    options: Mapping[str, str]
    is_sample: bool
    data: LanguageModelData
    outcomes: Sequence[LanguageModelOutcome]
    command: str

    @property
    def is_complete(self) -> bool:
        """Whether every model was measured."""
        return {model for model, *_ in _MODELS} <= {one.model for one in self.outcomes}


def section(found: Sequence[MeasuredModels], datasets: Sequence[str] = (), places: str = "") -> PaperSection:
    """The tables of language models.

    Args:
        datasets: for which a published table without ours is shown where none was measured.
        places: flags with which a printed command fills this page, quoted for a shell.
    """
    printed = [row for row in published.all_rows() if row.dataset == LANGUAGE_MODELS]
    tables = [_table(one, [row for row in printed if row.task == one.dataset]) for one in found]
    known = {one.dataset for one in found}
    tables += [
        _unmeasured(dataset, [row for row in printed if row.task == dataset], places)
        for dataset in datasets
        if dataset not in known
    ]
    label = printed[0].source.partition("] ")[2].capitalize()
    return PaperSection(label=label, title=f"{label} of the paper: language models", tables=tables)


def _table(one: MeasuredModels, printed: Sequence[PublishedRow]) -> PaperTable:
    by_model = {outcome.model: outcome for outcome in one.outcomes}
    rows, values = [], {}
    for model, reading, name, theirs in _MODELS:
        outcome = by_model.get(model)
        if outcome is None:
            rows.append(PaperRow(name=name, kind="missing", cells=[NOT_MEASURED]))
        else:
            scored = outcome.scored(reading)
            ends, values[name] = scored.interval(), scored.perplexity
            cell = f"{number(values[name], 1)} [{number(ends.low, 1)}, {number(ends.high, 1)}]"
            rows.append(PaperRow(name=name, kind="ours", cells=[cell]))
        rows += [_published(row) for row in printed if row.method == theirs]
    data = one.data
    rows.append(PaperRow(name="word frequencies alone", kind="trivial", cells=[number(data.frequencies, 1)]))
    rows.append(PaperRow(name="every word equally likely", kind="trivial", cells=[f"{data.num_words:,}"]))
    return PaperTable(
        title=f"{target(one.dataset, one.aspect, one.options)}: language models",
        head=["", PERPLEXITY],
        rows=rows,
        protocol=[_protocol(one), *published_protocol(printed)],
        first=[_first(values, by_model), *_first_published(printed)],
        notes=_DEFINITION,
        is_unfinished=not one.is_complete,
        is_sample=one.is_sample,
    )


def _unmeasured(dataset: str, printed: Sequence[PublishedRow], places: str) -> PaperTable:
    aspect = next(iter(get_source(dataset).aspects), "")
    flags = " ".join(filter(None, [target_flags(dataset, aspect), places]))
    command = f"python -m pipeline.compare --table language-models {flags}"
    return PaperTable(
        title=f"{dataset}: language models",
        head=["", PERPLEXITY],
        rows=[_published(row) for row in printed],
        protocol=published_protocol(printed),
        first=[
            f"nothing of this table was measured here; this command measures it: `{command}`",
            *_first_published(printed),
        ],
    )


def _published(row: PublishedRow) -> PaperRow:
    return PaperRow(name=f"{row.method}, published", kind="paper", cells=[number(row.value(PERPLEXITY), 0)])


def _protocol(one: MeasuredModels) -> str:
    data = one.data
    share = data.num_unknown / max(1, data.num_unknown + data.num_scored)
    seconds = ", ".join(f"{outcome.model} {outcome.seconds:.0f} s" for outcome in one.outcomes)
    return (
        f"ours, `{one.name}`: trained on {counted(data.num_train_texts, 'text', spec=',')} "
        f"({counted(data.num_train_tokens, 'token', spec=',')}); "
        f"{counted(data.num_scored, 'scored token', spec=',')} of "
        f"{counted(data.num_texts, 'test text', spec=',')}, and "
        f"{counted(data.num_unknown, 'unknown word', spec=',')} ({share:.1%}) without a score; "
        f"{counted(data.num_words, 'known word', spec=',')}; intervals of 95 % "
        f"over bootstrap resamples of test texts; training and scoring took: {seconds or 'nothing yet'}"
    )


def _first(values: Mapping[str, float], by_model: Mapping[str, LanguageModelOutcome]) -> str:
    """Whether our model has the lowest perplexity here, and which model has it otherwise."""
    if len(values) < 2:
        return "here: fewer than two models are measured"
    if _OURS not in values:
        best = min(values, key=lambda name: values[name])
        return f"here: {best} has the lowest perplexity of those measured; our LM is not measured"
    return f"here: {_lowest(values)}"


def _first_published(printed: Sequence[PublishedRow]) -> list[str]:
    values = {row.method: value for row in printed if (value := row.value(PERPLEXITY)) is not None}
    return [f"published, {printed[0].source}: {_lowest(values)}"] if values else []


def _lowest(values: Mapping[str, float]) -> str:
    best = min(values, key=lambda name: values[name])
    if best == _OURS:
        return "our LM has the lowest perplexity"
    against = f"{number(values[best], 1)} against {number(values[_OURS], 1)}"
    return f"our LM is not first: {best} has the lowest perplexity ({against})"
