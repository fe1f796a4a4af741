"""Which space, first point, criterion and defaults belong to a method, a dataset and an aspect."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from feature_store.errors import quoted
from feature_store.sources import get_source
from feature_store.sources.base import FeatureDefaults
from feature_store.targets import main_of, names_of
from infocal.config import MethodConfig
from infocal.encoder_registry import ENCODERS
from infocal.errors import ConfigError, did_you_mean
from infocal.explainers import ATTENTION, GRADIENT_X_INPUT, INTEGRATED_GRADIENTS, LIME
from infocal.methods.registry import METHODS, Method
from search_spaces import (
    attention,
    bernoulli,
    classifiers,
    datasets,
    fresh,
    hardkuma,
    law,
    mcd,
    own_data,
    rnp,
    sparse_ib,
)
from search_spaces.base import Criterion
from search_spaces.space import Search, Space, Value
from search_spaces.variants import VARIANTS

_SEARCHES: dict[str, Search | None] = {
    "infocal": None,
    "bernoulli": bernoulli.SEARCH,
    "hardkuma": hardkuma.SEARCH,
    "attention": attention.SEARCH,
    "sparse_ib": sparse_ib.SEARCH,
    "rnp": rnp.SEARCH,
    "mcd": mcd.SEARCH,
    "fresh": fresh.SEARCH,
    "cnn_gru": classifiers.SEARCH,
    "birnn": classifiers.SEARCH,
    "birnn_attn": classifiers.SEARCH,
    "birnn_hatexplain": classifiers.SUPERVISED_SEARCH,
    "fla": law.FLA_SEARCH,
    "topjudge": law.SEARCH,
    "mpbfn_wca": law.SEARCH,
    "bert": classifiers.PRETRAINED_SEARCH,
    "bert_hatexplain": classifiers.SUPERVISED_PRETRAINED_SEARCH,
}
"""Method -> what is searched, on every data set; None: the data set's own ranges."""

_T = TypeVar("_T")


def _find(table: Mapping[str, _T], name: str, lack: str, where: str) -> _T:
    if name in table:
        return table[name]
    raise ConfigError(
        f"{lack} `{name}`; known: {', '.join(f'`{known}`' for known in table)}",
        where=where,
        hint=did_you_mean(name, table, f"{where} "),
    )


def _search(method: str, dataset: str) -> Search:
    """The registered search of that name; a variant's is its method's, less what the variant fixes."""
    if method in VARIANTS:
        whole, fixed = _search(VARIANTS[method].method, dataset), VARIANTS[method].fixed
        return Search(
            spaces={n: tuple(r for r in space if r.name not in fixed) for n, space in whole.spaces.items()},
            first_points=[{n: v for n, v in p.items() if n not in fixed} for p in whole.first_points],
        )
    found = _named(dataset, "no search space for dataset")
    own = _SEARCHES[_known_method(method, "--method")]
    return datasets.dataset(found).search if own is None else own


def _named(dataset: str, lack: str) -> str:
    """The name of a data set that can be searched on; raises ConfigError, naming the nearest one."""
    return _find({name: name for name in datasets.names()}, dataset, lack, "--dataset")


def _known_method(name: str, where: str) -> str:
    """The name of a method or a variant; raises ConfigError, naming the nearest one."""
    return _find({known: known for known in method_names()}, name, "unknown method", where)


def _method_of(name: str) -> str:
    """The method that a variant is a configuration of; a method's own name otherwise."""
    return VARIANTS[name].method if name in VARIANTS else name


def method_names() -> list[str]:
    """Every name that `--method` takes: the methods, then the variants."""
    return [*_SEARCHES, *VARIANTS]


def needs_pretrained(method: str) -> bool:
    """Whether a method has no encoder but pretrained ones, so that `pretrained` must be given."""
    encoders = implementation(method).encoders
    return bool(encoders) and all(ENCODERS[known].is_pretrained for known in encoders)


def unaided_names(aspect: str = "") -> list[str]:
    """The methods and variants that need nothing but texts and targets, and can predict these targets.

    The others learn from the human rationales of training texts, or start from a pretrained encoder.

    Args:
        aspect: the targets; some methods predict one target alone, some only several.
    """
    return [
        name
        for name in method_names()
        if not implementation(name).is_supervised and not needs_pretrained(name) and can_predict(name, aspect)
    ]


def can_predict(method: str, aspect: str) -> bool:
    """Whether a model of a method can have so many targets as an aspect names."""
    kind = implementation(method).config_class()
    return kind.predicts_several if len(names_of(aspect)) > 1 else kind.predicts_one


def check_number_of_targets(method: str, dataset: str, aspect: str, where: str) -> None:
    """Refuse one target of a method that predicts several together, and several of one that predicts one.

    Args:
        aspect: the targets; empty where the data set has one.
        where: flag that named the method.

    Raises:
        ConfigError: says for this data set how `--aspect` names as many as the method needs.
    """
    if can_predict(method, aspect):
        return
    names = names_of(aspect)
    if len(names) > 1:
        raise ConfigError(
            f"`{method}` predicts one target, but `--aspect` names {len(names)}: {quoted(names)}",
            where=f"{where} {method}",
            hint=f"name one of them, for example `--aspect {names[0]}`",
        )
    source = get_source(dataset)
    sides = source.aspects or source.side_targets or ("NAME",)
    several = dict.fromkeys((*(names or source.main_targets[:1]), *sides))
    raise ConfigError(
        f"`{method}` predicts several targets together, but got one{f': `{aspect}`' if aspect else ''}",
        where=f"{where} {method}",
        hint=f"name several targets, for example `--aspect {','.join(several)}`"
        if len(several) > 1 and (source.aspects or source.main_targets)
        else f"dataset `{dataset}` has one target only: choose another method",
    )


def chosen_methods(text: str, dataset: str, where: str, aspect: str = "") -> list[str]:
    """The methods that a comma list names, each once and in its order; `all` stands for `unaided_names`.

    Args:
        text: names between commas, or `all`.
        dataset: on which they are to be trained.
        where: flag that the text was given with.
        aspect: the targets that they are to predict.

    Raises:
        ConfigError: if the dataset cannot be searched on, or there is no such method, naming the nearest one;
            or if a method cannot have so many or so few targets.
    """
    _named(dataset, "no search space for dataset")
    if text.strip() == "all":
        return unaided_names(aspect)
    names = list(dict.fromkeys(_known_method(name.strip(), where) for name in text.split(",")))
    for name in names:
        check_number_of_targets(name, dataset, aspect, where)
    return names


def title(method: str) -> str:
    """How the published tables call a method or variant."""
    return VARIANTS[method].title if method in VARIANTS else METHODS[method].title


_EXPLAINED = {
    ATTENTION: "Attn",
    LIME: "LIME",
    INTEGRATED_GRADIENTS: "integrated gradients",
    GRADIENT_X_INPUT: "gradient x input",
}
"""Explainer -> how published tables call it behind a method."""


def title_with(method: str, config: MethodConfig) -> str:
    """How the published tables call a method whose tokens the config's explainer ranks: `BERT [LIME]`."""
    explainer = getattr(config, "explainer", None)
    own = {field.name: field.default for field in dataclasses.fields(config)}.get("explainer")
    if explainer == own:
        return title(method)
    return f"{title(method).partition(' [')[0]} [{_EXPLAINED[str(explainer)]}]"


def fixed_by(method: str) -> dict[str, Any]:
    """The hyper-parameters that make a variant what it is; none of a method's own name."""
    return dict(VARIANTS[method].fixed) if method in VARIANTS else {}


def implementation(method: str) -> Method:
    """Where the code of a method or variant of that name is.

    Raises:
        ConfigError: if there is no such method, naming the nearest one.
    """
    return METHODS[_method_of(_known_method(method, "--method"))]


def methods_and_datasets() -> list[tuple[str, str]]:
    """Every registered pair of a method and a dataset."""
    return [(name, dataset) for name in method_names() for dataset in datasets.names()]


def space_names(method: str, dataset: str) -> list[str]:
    """Names of the spaces of a method on a dataset."""
    return list(_search(method, dataset).spaces)


def space(method: str, dataset: str, name: str) -> Space:
    """The ranges of one search.

    Raises:
        ConfigError: if there is no such method, dataset or space, naming the nearest one.
    """
    spaces = _search(method, dataset).spaces
    return _find(spaces, name, "unknown search space", "--space")


def first_points(method: str, dataset: str) -> list[dict[str, Value]]:
    """Points to try first where a space holds them, the published best values before our own.

    Raises:
        ConfigError: if there is no such method or dataset, naming the nearest one.
    """
    return [dict(point) for point in _search(method, dataset).first_points]


def criterion(dataset: str, aspect: str) -> Criterion:
    """The criterion of a dataset's aspect; of several targets that of the main one.

    Raises:
        ConfigError: if the dataset or the aspect has none, naming the nearest one.
    """
    main = main_of(aspect) or ""
    return _find(
        datasets.dataset(_named(dataset, "no criterion for dataset")).criteria,
        "" if main in get_source(dataset).main_targets else main,
        "no criterion for aspect",
        "--aspect",
    )


def depends_on_data(dataset: str) -> bool:
    """Whether a dataset's criterion follows from what its data hold: see `settled_criterion`."""
    return datasets.dataset(_named(dataset, "no criterion for dataset")).follows_data


def settled_criterion(
    dataset: str, aspect: str, kind: Literal["classification", "regression"], has_rationales: bool
) -> Criterion:
    """The criterion of a dataset's aspect, once its data are read.

    It is what `criterion` gives, but for data of one's own, whose criterion follows from what they hold.

    Args:
        dataset: name of the dataset.
        aspect: name of the aspect; empty where there is none.
        kind: of the task.
        has_rationales: whether humans marked something in a validation text.

    Raises:
        ConfigError: if the dataset or the aspect has none, naming the nearest one.
    """
    stated = criterion(dataset, aspect)
    return own_data.criterion(kind, has_rationales) if depends_on_data(dataset) else stated


def settled_preset(dataset: str, num_texts: int) -> dict[str, Any]:
    """Hyper-parameters that follow from how many training texts there are; of data of one's own alone."""
    return own_data.schedule(num_texts) if depends_on_data(dataset) else {}


def metric_mode(dataset: str) -> str:
    """The mode of `infocal.metrics.scores` in which a dataset's rationales are scored."""
    known = dataset in datasets.names()
    return datasets.dataset(dataset).metric_mode if known else datasets.DEFAULT_METRIC_MODE


def preset(method: str, dataset: str, aspect: str, sample: bool) -> dict[str, Any]:
    """Hyper-parameters in which a dataset differs from the defaults of a method (`presets/DATASET.toml`).

    How many tokens of a text are read is the data set's own. Then come the preset's tables: `all`, the
    aspect's (of several targets the main one's), `sample` where the sample corpus is used (these hold what
    every method has), the method's; last the method's own encoder where it cannot have the preset's, and what
    a variant fixes.

    Raises:
        ConfigError: if the dataset has no presets, or there is no such method, naming the nearest one.
    """
    of_data = ["all", main_of(aspect) or "", *(["sample"] if sample else [])]
    tables = _tables(dataset, [*of_data, _method_of(method)])
    _search(method, dataset)
    length = get_source(dataset).defaults.length(sample)
    of_features = {} if length == FeatureDefaults().max_length else {"max_length": length}
    known = implementation(method).encoders
    own = {"encoder": known[0]} if known and tables.get("encoder") not in known else {}
    return of_features | tables | own | fixed_by(method)


def features_preset(dataset: str) -> dict[str, Any]:
    """Word vectors in which a dataset differs from `FeatureRequest`'s defaults: what its source states.

    Raises:
        ConfigError: if the dataset has no presets, naming the nearest one that has.
    """
    _tables(dataset, [])
    own, others = get_source(dataset).defaults, FeatureDefaults()
    stated = {"embedding": own.embedding, "embedding_size": own.embedding_size}
    return (
        stated if stated != {"embedding": others.embedding, "embedding_size": others.embedding_size} else {}
    )


def language_model_preset(dataset: str, sample: bool) -> dict[str, Any]:
    """The same for the language model: tables `language_model` and, for the sample, `sample_...`.

    Raises:
        ConfigError: if the dataset has no presets, naming the nearest one that has.
    """
    return _tables(dataset, ["language_model", *(["sample_language_model"] if sample else [])])


def _tables(dataset: str, names: list[str]) -> dict[str, Any]:
    known = {name: name for name in datasets.preset_names()}
    tables = datasets.dataset(_find(known, dataset, "no preset for dataset", "--dataset")).preset
    return {key: value for name in names for key, value in tables.get(name, {}).items()}


def slowest(config: MethodConfig, space: Space = ()) -> MethodConfig:
    """The config of a trial that has the longest start.

    Args:
        config: what the search does not vary.
        space: what it varies; the start of every trial grows or falls with each range.
    """
    for searched in space:
        ends = [config.from_mapping(config.to_dict() | {searched.name: end}) for end in searched.ends]
        unvaried = [config] if searched.when else []
        config = max([*ends, *unvaried], key=lambda end: end.start_epochs)
    return config
