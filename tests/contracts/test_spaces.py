"""What holds for every registered method, dataset, aspect and search space."""

import dataclasses
import itertools

import optuna
import pytest

from feature_store.sources import REGISTRY
from infocal.config import MethodConfig
from infocal.methods.infocal.language_model import LanguageModelConfig
from infocal.metrics.scores import MODES, definition
from search_spaces import datasets, lookup
from search_spaces.space import Space

PAIRS = lookup.methods_and_datasets()
SPACES = [(m, d, name) for m, d in PAIRS for name in lookup.space_names(m, d)]
SHARED: dict[tuple[str, str, str], tuple[Space, list[str]]] = {}
"""Method, name and ranges of a space -> the space, and the datasets that share it."""
for _method, _dataset, _name in SPACES:
    _space = lookup.space(_method, _dataset, _name)
    SHARED.setdefault((_method, _name, repr(_space)), (_space, []))[1].append(_dataset)
ASPECTS = {d: REGISTRY[d].aspects or ("",) for _, d in PAIRS}
TARGETS = [(d, aspect) for d, aspects in ASPECTS.items() for aspect in aspects]
every_space = pytest.mark.parametrize(("method", "dataset", "name"), SPACES)
every_pair = pytest.mark.parametrize(("method", "dataset"), PAIRS)
every_target = pytest.mark.parametrize(("dataset", "aspect"), TARGETS)


def draws(space: Space, count: int) -> list[dict[str, float]]:
    """Points that Optuna draws from a space."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    trials = (study.ask() for _ in range(count))
    return [{r.name: r.suggest(trial) for r in space} for trial in trials]


def config_class(method: str) -> type[MethodConfig]:
    return lookup.implementation(method).config_class()


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(optuna.logging.get_logger("optuna.study.study"), "disabled", True)


@pytest.mark.parametrize(
    ("method", "space", "datasets"),
    [(method, *shared) for (method, _, _), shared in SHARED.items()],
    ids=[f"{method}-{name}-{datasets[0]}" for (method, name, _), (_, datasets) in SHARED.items()],
)
def test_every_draw_is_a_valid_config_with_every_preset(method, space, datasets):
    points = draws(space, 200)
    presets = [
        lookup.preset(method, dataset, aspect, sample)
        for dataset in datasets
        for aspect, sample in itertools.product(ASPECTS[dataset], (False, True))
    ]
    assert len(presets) < len(points)
    for point, preset in zip(points, itertools.cycle(presets), strict=False):
        config = config_class(method).from_mapping(preset | point)
        assert {name: getattr(config, name) for name in point} == point
    for range_ in space:
        values = {point[range_.name] for point in points}
        assert all(range_.contains(value) for value in values), range_.name
        assert len(values) > 5, f"`{range_.name}` hardly varies"


@every_space
def test_a_space_names_each_hyper_parameter_once_and_says_why(method, dataset, name):
    space = lookup.space(method, dataset, name)
    names = [r.name for r in space]
    assert len(names) == len(set(names))
    assert set(names) <= {field.name for field in dataclasses.fields(config_class(method))}
    assert all(r.why.strip() and r.role in ("scientific", "nuisance") for r in space)


@every_space
def test_a_preset_never_fixes_what_a_space_varies(method, dataset, name):
    varied = {r.name for r in lookup.space(method, dataset, name)}
    for aspect in ASPECTS[dataset]:
        assert not varied & set(lookup.preset(method, dataset, aspect, sample=True))


@every_space
def test_every_space_holds_a_point_to_try_first(method, dataset, name):
    points = lookup.first_points(method, dataset)
    space = lookup.space(method, dataset, name)
    assert all(set(point) == {r.name for r in space} for point in points)
    assert any(all(r.contains(point[r.name]) for r in space) for point in points)


@every_pair
def test_the_papers_space_is_offered_as_a_grid(method, dataset):
    assert all(len(r.grid) > 1 for r in lookup.space(method, dataset, "paper"))


@every_target
def test_the_criterion_reads_scores_that_are_defined(dataset, aspect):
    for name in lookup.criterion(dataset, aspect).metrics:
        assert definition(name.removeprefix("val_"))
    assert lookup.metric_mode(dataset) in MODES


@every_target
@pytest.mark.parametrize("sample", [False, True])
def test_presets_are_valid_configs(dataset, aspect, sample):
    for method in lookup.method_names():
        preset = lookup.preset(method, dataset, aspect, sample)
        config = config_class(method).from_mapping(preset)
        assert {name: getattr(config, name) for name in preset} == preset
    language_model = lookup.language_model_preset(dataset, sample)
    assert LanguageModelConfig(**language_model).to_dict().items() >= language_model.items()


@pytest.mark.parametrize("dataset", datasets.preset_names())
def test_each_table_of_a_preset_is_read(dataset):
    known = {
        *("all", "sample", "language_model", "sample_language_model"),
        *ASPECTS[dataset],
        *lookup.method_names(),
    }
    assert set(datasets.dataset(dataset).preset) <= known


@every_target
def test_every_aspect_has_a_criterion_that_refuses_the_empty_selection(dataset, aspect):
    criterion = lookup.criterion(dataset, aspect)
    assert criterion.why
    empty = dict.fromkeys((criterion.metric, *(bound.metric for bound in criterion.bounds)), 0.0)
    assert not criterion.is_met(empty)
    assert criterion.value(empty) < 0
