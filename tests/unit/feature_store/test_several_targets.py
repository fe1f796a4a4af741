"""Features of several targets: the rows of one target, with columns more."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from feature_store import targets
from feature_store.cache import MANIFEST
from feature_store.checks import check_features
from feature_store.errors import BadInputError, DamagedCacheError, RequestError
from feature_store.sources import get_source
from feature_store.sources.base import resolve_aspect
from feature_store.store import (
    FeatureRequest,
    Features,
    fingerprint_of,
    load_features,
    open_features,
)
from feature_store.task_info import TaskInfo
from tests.small_store import sample_cache
from tests.unit.feature_store.cail_corpus import cases, record, write

LAW, BEER = get_source("cail-small"), get_source("beer")

SINGLE = {
    ("beer", "palate"): "c70828ffd5086d673f79f4c2e23fb9c6709a0fca318d5db7c4671d99d2bed3fb",
    ("cail-small", "charges"): "001b889d80bb18fc895ebe0701441ef336d5730c09e7942e704ae29ea93b6d08",
    ("cail-small", "terms"): "eb155c73bc0026b5fcabb92a82e23d46d0604f0d8f2b3de4558bdc7a8dbb2f43",
    ("cail-big", "articles"): "27d820e4070bd73043f037682ad4ade51cdd7a827ac2d4b0978a10bb0ddedd3c",
    ("hatexplain", None): "b394373ed29ca7c875bdcf16c42e96234eb85b624874f7ed32232487f810caf2",
}
"""Fingerprints of sample features with random vectors, as commit ed31864, which had one target, made them."""


def sample(dataset: str, aspect: str | None, **changes: object) -> Features:
    return open_features(
        FeatureRequest(
            dataset=dataset,
            aspect=aspect,
            sample=True,
            embedding="random",
            cache_dir=sample_cache(),
            **changes,
        )
    )


@pytest.mark.parametrize(("dataset", "aspect"), SINGLE)
def test_features_of_one_target_keep_their_fingerprint(dataset: str, aspect: str | None):
    request = FeatureRequest(
        dataset=dataset, aspect=aspect, sample=True, embedding="random", cache_dir=sample_cache()
    )
    assert fingerprint_of(request) == SINGLE[dataset, aspect]


def test_features_of_one_target_are_described_as_before():
    found = json.loads((sample("cail-small", "charges").directory / MANIFEST).read_text())["meta"]["task"]
    assert set(found) == {"kind", "class_names", "target_mean", "target_variance", "score_range"}


def test_each_target_of_a_case_is_that_of_its_own_features():
    several = sample("cail-small", "terms,charges,articles")
    assert several.aspect == "terms+charges+articles"
    assert several.directory.name.startswith("cail-small-terms-charges-articles-")
    assert [several.task.name, *several.task.side_kinds] == ["terms", "charges", "articles"]
    assert check_features(several) == []
    alone = {name: sample("cail-small", name) for name in ("terms", "charges", "articles")}
    infos = dict(zip(alone, (several.task, *several.task.sides), strict=True))
    for split in several.splits:
        table = several.table(split)
        for name, column in zip(alone, ("target", "target_charges", "target_articles"), strict=True):
            own = alone[name].table(split)
            assert table["example_id"].equals(own["example_id"])
            assert table["token_ids"].equals(own["token_ids"])
            assert table[column].equals(own["target"])
    for name, info in infos.items():
        own = alone[name].task
        assert (info.class_names, info.kind) == (own.class_names, own.kind)
        assert (info.target_mean, info.target_variance) == (own.target_mean, own.target_variance)


def test_other_scores_of_a_review_are_side_targets():
    several, alone = sample("beer", "palate,smell,taste"), sample("beer", "palate")
    smell = sample("beer", "smell")
    assert several.task.side_kinds == {"smell": "regression", "taste": "regression"}
    for split in several.splits:
        table, own = several.table(split), alone.table(split)
        for name in ("example_id", "tokens", "target", "rationale"):
            assert table[name].equals(own[name])
    # an annotated review is the same in the features of each aspect
    of_smell = dict(zip(*(smell.table("test")[c].to_pylist() for c in ("example_id", "target")), strict=True))
    for row in several.table("test").select(["example_id", "target_smell", "target_taste"]).to_pylist():
        assert row["target_smell"] == of_smell[row["example_id"]]
        assert 0 <= row["target_taste"] <= 1
    lines = Path(sample_cache() / "sample" / "beer-1-0" / "beer").glob("reviews.aspect2.heldout.txt*")
    first = several.table("train")["example_id"][0].as_py()
    scores = next(lines).read_text().splitlines()[int(first.split(":")[1]) - 1].split("\t")[0].split()
    row = several.table("train").slice(0, 1).to_pylist()[0]
    assert [row["target_smell"], row["target_taste"]] == pytest.approx([float(scores[1]), float(scores[3])])


@pytest.mark.parametrize("pool", ["plain", "vectors"])
def test_a_pool_has_the_side_targets_too(pool: str):
    found = sample("beer", "palate,smell", options={"pool": pool})
    assert check_features(found) == []
    assert found.task.side_kinds == {"smell": "regression"}


def test_side_targets_beside_two_classes_are_scores():
    found = sample("beer", "palate,smell", options={"target": "polar"})
    assert check_features(found) == []
    assert (found.task.kind, found.task.side_kinds) == ("classification", {"smell": "regression"})


def test_adjusted_targets_are_of_one_target():
    with pytest.raises(RequestError, match="`pool=adjusted` works only with one target"):
        sample("beer", "palate,smell", options={"pool": "adjusted"})


@pytest.mark.parametrize(
    ("source", "given", "name"),
    [
        (LAW, "charges,articles,terms", "charges+articles+terms"),
        (LAW, "charge, law, term".replace("law", "laws"), "charges+articles+terms"),
        (LAW, "terms+charges", "terms+charges"),
        (BEER, "aroma,taste,overall", "smell+taste+overall"),
        (BEER, "palate", "palate"),
    ],
)
def test_names_of_several_targets(source, given: str, name: str):
    assert resolve_aspect(source, given) == resolve_aspect(source, name) == name
    assert targets.joined(targets.names_of(name)) == name
    assert (targets.main_of(name), *targets.sides_of(name)) == targets.names_of(name)


@pytest.mark.parametrize(
    ("source", "given", "message"),
    [
        (LAW, "charges,terms,charge", "aspect `charges` is named twice"),
        (LAW, "charges,article_", "no aspect `article_` in dataset `cail-small`"),
        (BEER, "taste,palate", "no aspect `taste` in dataset `beer`; it has `appearance`, `smell`, `palate`"),
        (BEER, "palate,price", "no side target `price` in dataset `beer`; it has .*`taste`, `overall`"),
        (BEER, "palate,", "no side target `` in dataset `beer`"),
        (get_source("hatexplain"), "a,b", "expected `label` as the first target of dataset"),
        (get_source("eraser"), "a,b", "has no aspects"),
    ],
)
def test_wrong_names_of_several_targets(source, given: str, message: str):
    with pytest.raises(RequestError, match=message):
        resolve_aspect(source, given)


def test_an_aspect_without_a_data_set_of_several_targets_names_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(LAW), "side_targets", ())
    with pytest.raises(
        RequestError, match=r"expected one aspect of dataset `cail-small`, but got `charges,terms`"
    ):
        resolve_aspect(LAW, "charges,terms")


def test_a_side_target_that_is_always_the_same_teaches_nothing(tmp_path: Path):
    both = [*cases("盗窃", 264, 100), *cases("诈骗", 266, 100)]
    write(tmp_path, train=both, val=[record()], test=[record()])
    request = FeatureRequest(
        dataset="cail-small",
        aspect="charges,terms",
        data_dir=tmp_path,
        cache_dir=tmp_path / "cache",
        embedding="random",
    )
    with pytest.raises(
        BadInputError, match=r"all 200 training targets of `terms` are 9: nothing to learn"
    ) as caught:
        open_features(request)
    assert caught.value.hint == "leave out the target `terms`"


def test_numbers_of_a_side_target_that_are_out_of_range_are_damage(tmp_path: Path):
    request = FeatureRequest(
        dataset="cail-small",
        aspect="charges,articles",
        sample=True,
        embedding="random",
        cache_dir=tmp_path,
    )
    directory = open_features(request).directory
    path = directory / "val.arrow"
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    column = table.schema.get_field_index("target_articles")
    wrong = pa.array(np.full(len(table), 99, np.int32))
    table = table.set_column(column, table.schema.field(column), wrong)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DamagedCacheError, match="numbers in `target_articles` are out of range"):
        load_features(directory).table("val")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "expected a name of its own for each target"),
        ({"name": "terms"}, "expected a name of its own for each target"),
        ({"name": 3}, "expected names of targets"),
    ],
)
def test_descriptions_that_no_build_writes(change: dict[str, object], message: str):
    whole = json.loads((sample("cail-small", "charges,terms").directory / MANIFEST).read_text())["meta"][
        "task"
    ]
    assert TaskInfo.of_json(whole).side_kinds == {"terms": "classification"}
    with pytest.raises(ValueError, match=message):
        TaskInfo.of_json({**whole, **change})
