import dataclasses
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from feature_store.store import Features, load_features, verify_derived
from infocal.config import MethodConfig
from infocal.errors import StateError
from pipeline.base.trajectories import Failure
from pipeline.cli.planning import with_criterion
from pipeline.study import rival
from pipeline.study.lone_board import LoneBoard
from pipeline.study.rival import Rival, RivalFailed
from pipeline.training.epochs import BestEpoch
from pipeline.training.loaders import Loader, task_of
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import Progress
from search_spaces import criteria
from search_spaces.base import Criterion
from search_spaces.lookup import criterion
from tests.small_store import sample_features
from tests.small_study import run_settings

RATE = 0.18


@pytest.fixture
def features(tmp_path: Path) -> Features:
    """The sample features in a folder of one's own, without anything derived."""
    folder = tmp_path / "cache" / "features" / sample_features().directory.name
    shutil.copytree(sample_features().directory, folder, ignore=shutil.ignore_patterns("derived"))
    return load_features(folder)


def searched(features: Features, **changes: Any) -> RunSettings:
    """A search whose criterion is relative, before its rival was measured."""
    run = run_settings(
        features_dir=str(features.directory),
        base={"target_selection_rate": RATE},
        hold_rate=True,
        criterion_kind=criteria.RELATIVE,
        **{"num_epochs": 4, **changes},
    )
    return with_criterion(run, criterion("beer", "palate"))


def settled(run: RunSettings, features: Features, *, is_asked_for: bool = True) -> RunSettings:
    return rival.settled(run, features, sample=True, is_asked_for=is_asked_for)


def scored(precision: float) -> BestEpoch:
    """What `train` remembers of a best epoch."""
    return BestEpoch(epoch=1, value=0.5, violation=0.0, scores={"val_token_precision": precision})


def at_rate_of(own: float, precision: float, density: float) -> dict[str, float]:
    return {
        "val_token_precision": precision,
        "val_selection_rate_annotated": own,
        "val_gold_density": density,
    }


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        # 15 of 100 tokens selected, 14 of them among the 14 marked ones: 5 more add none
        (at_rate_of(0.15, 14 / 15, 0.14), (0.7, 0.15)),
        # 10 selected and 5 right, 9 of the other 90 marked: 10 more add one
        (at_rate_of(0.1, 0.5, 0.14), (0.3, 0.1)),
        (at_rate_of(0.195, 0.6, 0.14), (0.6, None)),
        (at_rate_of(0.25, 0.6, 0.14), (0.6, None)),
        ({"val_token_precision": 0.6}, (0.6, None)),
    ],
    ids=["none left", "some left", "close", "above", "an older rival"],
)
def test_a_precision_at_a_lower_rate_than_asked_is_filled_up(
    scores: dict[str, float], found: tuple[float, float | None]
):
    precision, own = rival.precision_at(0.2, scores, "val_")
    assert precision == pytest.approx(found[0]) and own == found[1]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[RunSettings]:
    """What the rival was trained with, in place of the training."""
    asked: list[RunSettings] = []

    def train(values: Any, run: RunSettings, report: Any, directory: Path) -> Progress:
        assert values == {}
        asked.append(run)
        (directory / "best").mkdir()
        (directory / "best" / "weights").write_text("of HardKuma")
        return Progress(best=scored(0.761))

    monkeypatch.setattr(rival, "train", train)
    monkeypatch.setattr(rival.checkpoints, "load_scores", lambda folder: scored(0.761))
    return asked


def test_the_rival_is_trained_once_and_sets_the_threshold(
    features: Features, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO, "pipeline.study.rival"):
        first = settled(searched(features), features)
    found = Rival(**first.rival)
    bound = first.criterion.bounds[0]
    assert bound.metric == "val_token_precision"
    chance = rival._density(features)
    assert 0 < found.precision - 0.02 < chance, "four epochs teach this rival nothing"
    assert bound.limit == pytest.approx(chance, abs=0.001)
    assert first.criterion.rate == RATE and "at 18 % of the tokens" in str(first.criterion)
    said = f"threshold {bound.limit:g}: HardKuma's validation precision of {found.precision:.3f} minus 0.02, "
    said += f"raised to {bound.limit:.3f}, the precision of random rationales, "
    assert first.criterion.why.startswith(said + "at 18 % of the tokens, best of 4 epochs")
    assert first.criterion.why.endswith(" (the paper's threshold is 0.878)")
    assert any("HardKuma epoch 2/4" in message for message in caplog.messages), "progress is shown"
    second = settled(searched(features), features)
    assert (second.criterion.bounds, second.rival) == (first.criterion.bounds, first.rival)
    assert second.criterion.why.startswith(said + "at 18 % of the tokens, best of 4 epochs, cached (")
    verify_derived(features)
    # what is kept selects at the rate, on the texts that it was set on
    model = rival.model_of(found, features)
    assert model.threshold != 0.5
    assert len(Loader(features.annotated_validation(), task_of(features))) > 0


def test_the_rival_shares_what_every_method_has_and_the_budget(
    features: Features, trained: list[RunSettings]
):
    run = searched(features, num_epochs=7, seed=5)
    settled(run, features)
    asked, own = trained[0].config(), run.config()
    shared = [field.name for field in dataclasses.fields(MethodConfig)]
    assert {name: getattr(asked, name) for name in shared} == {name: getattr(own, name) for name in shared}
    assert (trained[0].method, trained[0].num_epochs, trained[0].hold_rate) == ("hardkuma", 7, True)
    assert trained[0].seed == rival.SEED, "the figure does not hang on the search's seed"
    assert trained[0].criterion.bounds == (), "its best epoch has no threshold to meet"


@pytest.mark.parametrize(
    "other", [{"num_epochs": 5}, {"base": {"target_selection_rate": 0.2}}, {"base": {"hidden_size": 5}}]
)
def test_what_changes_the_figure_makes_another_rival(
    features: Features, trained: list[RunSettings], other: dict[str, Any]
):
    settled(searched(features), features)
    settled(searched(features), features)
    assert len(trained) == 1
    changed = dict(other)
    run = searched(features)
    run = dataclasses.replace(run, base=run.base | changed.pop("base", {}), **changed)
    settled(run, features)
    assert len(trained) == 2


def test_a_study_keeps_the_number_that_it_began_with(features: Features, trained: list[RunSettings]):
    first = settled(searched(features), features)
    shutil.rmtree(features.directory / "derived")
    assert settled(first, features) == first and len(trained) == 1


@pytest.mark.parametrize(
    "stated",
    [
        "best val_hatexplain_token_f1 with val_accuracy >= 0.61, val_token_precision >= 0.3",
        "best val_token_recall with val_token_precision >= 0.5",
    ],
)
def test_the_rivals_table_has_room_for_every_score_of_the_criterion(
    features: Features, trained: list[RunSettings], monkeypatch: pytest.MonkeyPatch, stated: str
):
    boards: list[LoneBoard] = []

    class Seen(LoneBoard):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            boards.append(self)

    monkeypatch.setattr(rival, "LoneBoard", Seen)
    settled(dataclasses.replace(searched(features), criterion=Criterion.parse(stated)), features)
    (board,) = boards
    assert set(board.decisive) == set(Criterion.parse(stated).metrics)


def test_an_interrupted_training_leaves_nothing(features: Features, monkeypatch: pytest.MonkeyPatch):
    def stops(board: LoneBoard, result: Any, beside: str = "") -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LoneBoard, "take", stops)
    with pytest.raises(KeyboardInterrupt):
        settled(searched(features), features)
    assert not list(features.directory.glob("derived/*")) and not list(features.directory.glob("derived/.*"))


def test_a_damaged_rival_is_trained_again(
    features: Features, trained: list[RunSettings], caplog: pytest.LogCaptureFixture
):
    settled(searched(features), features)
    next(features.directory.glob("derived/rival-*/weights")).write_text("of HardKumo")
    settled(searched(features), features)
    assert len(trained) == 2
    assert sum("the rival is trained again" in message for message in caplog.messages) == 1


FAILED = Failure(1, "not_finite", "not_finite: epoch 1: the loss is nan")


@pytest.mark.parametrize("trivial", [True, False])
def test_a_rival_that_cannot_be_trained_is_an_error_where_it_was_asked_for(
    features: Features, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, trivial: bool
):
    def train(values: Any, run: RunSettings, report: Any, directory: Path) -> Progress:
        if not trivial:
            report(FAILED, directory)
        return Progress(best=dataclasses.replace(scored(0.9), violation=1.0, degenerate="degenerate_all"))

    monkeypatch.setattr(rival, "train", train)
    said = (
        "in every epoch, it selects .nearly. all or no tokens .last epoch: .nearly. all tokens are selected"
        if trivial
        else "epoch 1: the loss is nan"
    )
    with pytest.raises(RivalFailed, match=f"--criterion relative: could not train HardKuma, .*{said}") as e:
        settled(searched(features), features)
    assert "--criterion paper" in str(e.value.hint)
    run = searched(features)
    other = settled(run, features, is_asked_for=False)
    assert other == dataclasses.replace(run, criterion_kind=criteria.PAPER)
    assert f"the fixed criterion is used instead: {run.criterion}" in caplog.messages[-1]
    with pytest.raises(RivalFailed) as trained_again:  # as a promotion does, which has no such flag
        rival._train(run, features.directory)
    assert trained_again.value.where is None and "--min-precision" in str(trained_again.value.hint)


def test_a_fixed_criterion_needs_no_rival(features: Features, trained: list[RunSettings]):
    for kind in (criteria.PAPER, ""):
        run = dataclasses.replace(searched(features), criterion_kind=kind)
        assert settled(run, features) == run
    assert trained == []


def test_a_rival_is_the_same_after_its_tag():
    one = Rival(
        method="hardkuma",
        config={"hidden_size": 4},
        num_epochs=4,
        rate=RATE,
        criterion=Criterion(metric="val_token_recall", bounds=(), why="a test", rate=RATE).to_json(),
        precision=0.761,
        epoch=2,
    )
    assert Rival.of_tag(one.as_tag(), "a tag") == one
    assert one.name == "HardKuma"
    with pytest.raises(StateError, match="^a tag: expected a rival as JSON, but got '{}'"):
        Rival.of_tag("{}", "a tag")


def test_the_threshold_says_what_the_rival_selects_itself(
    trained: list[RunSettings], features: Features, monkeypatch: pytest.MonkeyPatch
):
    few = dataclasses.replace(scored(0.9), scores=at_rate_of(RATE / 2, 0.9, RATE / 2))
    monkeypatch.setattr(rival.checkpoints, "load_scores", lambda folder: few)
    found = settled(searched(features), features)
    bound = next(one for one in found.criterion.bounds if one.metric == "val_token_precision")
    # a tenth of the marked tokens, 0.9 %, lies among the other 91 %
    rest = 0.1 * (RATE / 2) / (1 - RATE / 2)
    assert bound.limit == pytest.approx((0.9 + rest) / 2 - 0.02, abs=1e-3)
    assert "it selects only 9.0 % of the tokens, so its precision is computed as if" in found.criterion.why
    assert Rival(**found.rival).own_rate == RATE / 2
