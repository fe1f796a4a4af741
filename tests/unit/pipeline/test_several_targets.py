"""A model of several targets from loaded batches to scores, answers and pages."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from feature_store.store import FeatureRequest, Features, open_features
from infocal.config import Task
from infocal.errors import ConfigError, StateError
from infocal.methods.infocal.model import InfoCal
from infocal.metrics import resampling
from infocal.metrics.resampling import TextCounts
from infocal.trainer import Prediction, predict
from pipeline.base.errors import USER_ERRORS, PipelineError
from pipeline.cli import planning
from pipeline.cli.explanations import as_json
from pipeline.reporting import epoch_plots, markup
from pipeline.search import build_parser
from pipeline.study.criterion_on_test import on_test
from pipeline.study.outcome import package_metadata
from pipeline.tracking import assessment, sections, served_model
from pipeline.training import columns, naming, scoring
from pipeline.training.checkpoints import Package, load_package, save_package
from pipeline.training.epochs import EpochMetrics
from pipeline.training.explainer import Explainer
from pipeline.training.loaders import Loader, embeddings_of, task_of
from pipeline.training.trainable import Trial, epoch_of, shown_predictions, with_intervals
from search_spaces import lookup
from search_spaces.base import Criterion
from tests.small_model import SEVERAL
from tests.small_store import CONFIG, sample_cache
from tests.small_study import run_settings

NAME = "charges+articles+terms"


@pytest.fixture(scope="module")
def features() -> Features:
    return open_features(
        FeatureRequest(
            dataset="cail-small", aspect=NAME, sample=True, embedding="random", cache_dir=sample_cache()
        )
    )


@pytest.fixture(scope="module")
def model(features: Features) -> InfoCal:
    torch.manual_seed(0)
    config = dataclasses.replace(CONFIG, start_selection_rate=0.5)
    return InfoCal(config, task_of(features), embeddings_of(features)).eval()


@pytest.fixture(scope="module")
def package(model: InfoCal, features: Features, tmp_path_factory: pytest.TempPathFactory) -> Package:
    run = run_settings(dataset="cail-small", aspect=NAME)
    metadata = package_metadata(run, features, 0, {})
    folder = tmp_path_factory.mktemp("several") / "model"
    save_package(folder, Package(model, features.vocabulary.tokens, metadata))
    return load_package(folder)


def flags(*more: str, aspect: str = "charges,articles,terms", dataset: str = "cail-small"):
    return build_parser().parse_args(["--dataset", dataset, "--task", aspect, "--sample", *more])


# ---------------------------------------------------------------------------------------------- flags


def test_the_main_target_gives_preset_and_criterion():
    run = planning.run_settings(flags(), {})
    assert run.aspect == NAME
    assert run.criterion == lookup.criterion("cail-small", "charges")
    assert run.base == lookup.preset("infocal", "cail-small", "charges", sample=True)
    assert planning.run_settings(flags(aspect="terms,charges"), {}).criterion == lookup.criterion(
        "cail-small", "terms"
    )


@pytest.mark.parametrize("target", ["articles", "mean"])
def test_another_target_may_choose_the_model(target: str):
    run = planning.run_settings(flags("--criterion-target", target), {})
    stated = lookup.criterion("cail-small", "charges")
    assert run.criterion == dataclasses.replace(stated, metric=f"val_{target}/macro_f1")
    assert Criterion.parse(str(run.criterion), run.criterion.why) == run.criterion
    assert Criterion.from_json(run.criterion.to_json()) == run.criterion
    assert on_test(run.criterion.metric) == f"test_{target}/macro_f1"
    assert not planning.reads_rationales(run.criterion)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (flags("--criterion-target", "article"), "no target `article`; the targets are `charges`, .*`mean`"),
        (
            flags("--criterion-target", "charges", aspect="charges"),
            "this flag needs several targets, but the model has only one",
        ),
        (
            flags("--criterion-target", "smell", aspect="palate,smell", dataset="beer"),
            "palate.smell are chosen by human rationales",
        ),
    ],
)
def test_a_criterion_of_a_target_that_is_none(given, message: str):
    with pytest.raises(PipelineError, match=message) as caught:
        planning.run_settings(given, {})
    assert caught.value.where == "--criterion-target"


@pytest.mark.parametrize(
    ("weights", "aspect", "message"),
    [
        ("term=1", "charges,terms", "no target `term`; the targets are `charges`, `terms`"),
        ("charges=0,terms=0", "charges,terms", "all target weights are 0"),
        ("charges=2", "charges", "`target_weights` names `charges`, but weights need several targets"),
        ("charges", "charges,terms", "must be NAME=NUMBER,NAME=NUMBER"),
    ],
)
def test_wrong_weights_are_refused_before_anything_is_built(weights: str, aspect: str, message: str):
    with pytest.raises(PipelineError, match=message) as caught:
        planning.run_settings(flags("--set", f"target_weights={weights}", aspect=aspect), {})
    assert caught.value.where == "--set"


def test_a_method_of_one_target_is_refused_before_anything_is_built():
    with pytest.raises(ConfigError, match="`birnn` predicts one target, but `--aspect` names 2: `charges`, "):
        planning.run_settings(flags("--method", "birnn", aspect="charges,terms"), {})


def test_names_of_studies_models_and_commands():
    assert naming.default_model_name("cail-small", NAME) == "infocal-cail-small-charges-articles-terms"
    assert naming.default_name("cail-small", NAME).startswith("cail-small-charges-articles-terms-")
    assert naming.target_flags("cail-small", NAME) == "--dataset cail-small --aspect charges,articles,terms"
    assert naming.title("cail-small", NAME) == "cail-small/charges+articles+terms"


# ------------------------------------------------------------------------------------- batches, scores


def test_a_batch_holds_every_target(features: Features):
    table = features.table("val")
    batch = Loader(table, task_of(features)).batch(np.array([5, 2]))
    columns_of = ["target", "target_articles", "target_terms"]
    assert batch.target.tolist() == [[table[name][row].as_py() for name in columns_of] for row in (5, 2)]
    assert [head.num_classes for head in task_of(features).heads] == [6, 6, 11]


def said(
    main: list[float], term: float, article: list[float], targets: tuple[float, float, float]
) -> Prediction:
    def one(output: list[float], target: float, **more: object) -> Prediction:
        return Prediction(
            index=0,
            select_probability=np.array([0.9], np.float32),
            output=np.array(output, np.float32),
            guider_output=None,
            target=target,
            **more,
        )

    return one(main, targets[0], sides=(one([term], targets[1]), one(article, targets[2])))


PREDICTIONS = [
    said([0.6, 0.2, 0.2], 0.5, [0.9, 0.1], (0.0, 0.75, 0.0)),
    said([0.1, 0.8, 0.1], 0.5, [0.8, 0.2], (2.0, 0.25, 1.0)),
]


def test_scores_of_each_target_and_their_mean():
    found = scoring.task_scores(PREDICTIONS, SEVERAL)
    assert (found["accuracy"], found["charge/accuracy"], found["article/accuracy"]) == (0.5, 0.5, 0.5)
    assert found["term/mse"] == 1 / 16 and "mse" not in found
    # charge: F1 of 1, 0 and 0 for the classes 0, 1 and 2; article: 2/3 and 0
    assert (found["macro_f1"], found["article/macro_f1"]) == pytest.approx((1 / 3, 1 / 3))
    assert found["mean/macro_f1"] == pytest.approx(1 / 3)
    assert "mean/mse" not in found, "one target alone has an error"
    assert "charge/accuracy" not in scoring.task_scores(PREDICTIONS, SEVERAL.heads[0])


def test_names_in_mlflow_have_the_target_in_their_section():
    for flat, shown in (
        ("val_charges/macro_f1", "val/charges/macro_f1"),
        ("test_mean/macro_f1", "test/mean/macro_f1"),
        ("best_val_terms/macro_f1", "best/terms/macro_f1"),
    ):
        assert sections.in_mlflow(flat) == shown and sections.flat(shown) == flat


def test_columns_of_targets():
    scores = ["val_macro_f1", "val_charges/macro_f1", "val_charges/accuracy", "val_mean/macro_f1"]
    found = columns.of_validation("cail-small", scores, ["val_charges/macro_f1"])
    assert found == {
        "macro f1": "val_macro_f1",
        "charges macro f1": "val_charges/macro_f1",
        "mean macro f1": "val_mean/macro_f1",
    }
    assert columns.label_of("val_mean/macro_f1", "cail-small") == "mean macro F1"
    assert columns.digits_of("val_smell/mse") == 4


def test_the_interval_of_a_mean_is_drawn_over_the_same_texts():
    generator = np.random.default_rng(0)
    target = generator.integers(0, 3, 60)

    def counts(predicted: np.ndarray) -> TextCounts:
        masks = [np.ones(2, bool)] * len(target)
        return TextCounts.of(masks, [None] * len(target), predicted, target)

    right, wrong = counts(target), counts((target + 1) % 3)
    mixed = counts(np.where(generator.random(60) < 0.5, target, (target + 1) % 3))
    alone = resampling.intervals(mixed, ["accuracy"])["accuracy"]
    same = resampling.interval_over_targets([mixed, mixed], "accuracy")
    assert same is not None and dataclasses.astuple(same) == pytest.approx(dataclasses.astuple(alone))
    # the mean with what never varies moves half as much
    half = resampling.interval_over_targets([mixed, right], "accuracy")
    assert half is not None and half.error == pytest.approx(alone.error / 2)
    assert resampling.interval_over_targets([right, wrong], "mse") is None
    assert resampling.interval_over_targets([right], "accuracy") is None


def test_an_epoch_has_intervals_of_the_targets_that_reports_show(features: Features, model: InfoCal):
    data = scoring.ValidationData.of(features)
    found = scoring.validate(lambda batches: predict(model, batches, torch.device("cpu")), data, 0.0)
    criterion = Criterion(metric="val_mean/macro_f1", bounds=(), why="a test")
    run = run_settings(dataset="cail-small", aspect=NAME, criterion=criterion)
    epoch = with_intervals(epoch_of(criterion, found, 0, is_result=True), run, found)
    names = [f"val_{target}/macro_f1" for target in (*NAME.split("+"), "mean")]
    assert set(names) <= epoch.intervals.keys()
    assert epoch.value == found.scores["val_mean/macro_f1"]
    assert epoch.lower_bound == epoch.intervals["val_mean/macro_f1"].low <= epoch.value
    mean = np.mean([found.scores[name] for name in names[:3]])
    assert found.scores["val_mean/macro_f1"] == pytest.approx(mean)


# ------------------------------------------------------------------------------------- answers, pages


def test_an_answer_names_each_target(package: Package):
    (found,) = Explainer(package).explain(["被告人盗窃手机"])
    assert list(found.targets) == ["charges", "articles", "terms"]
    main, article = found.targets["charges"], found.targets["articles"]
    assert (main.label, main.probabilities) == (found.label, found.probabilities)
    assert article.prediction == float(article.label), "an article is a number"
    assert found.said.startswith(
        f"predicted charges: {main.label} ({max(main.probabilities):.3f}), articles: "
    )
    line = json.loads(as_json("text", found))
    assert list(line["targets"]) == list(found.targets)
    assert line["targets"]["terms"]["label"] == found.targets["terms"].label


def test_a_served_answer_keeps_to_its_schema(package: Package):
    (found,) = Explainer(package).explain(["被告人盗窃手机"])
    answer = served_model.as_answer(found, all_tokens=True)
    assert served_model.Answer.model_validate(answer, strict=True).model_dump() == answer
    assert set(answer["targets"]) == {"charges", "articles", "terms"}


@pytest.mark.parametrize(
    "targets", [None, [], "charge", [{"name": "charge"}, {"name": "article"}, {"name": "term"}]]
)
def test_a_package_of_other_targets_is_refused(package: Package, targets: object):
    with pytest.raises(StateError, match="expected the targets charges, articles, terms, but got"):
        Package(package.model, package.vocabulary, package.metadata | {"targets": targets})


def test_names_of_classes_that_do_not_fit_a_side_target_are_refused(package: Package):
    targets = [dict(one) for one in package.metadata["targets"]]
    targets[1]["class_names"] = ["264"]
    with pytest.raises(StateError, match="expected 6 class names, but got 1"):
        Package(package.model, package.vocabulary, package.metadata | {"targets": targets})


def test_pages_show_the_side_targets_of_a_text(features: Features, model: InfoCal):
    data = scoring.ValidationData.of(features)
    found = scoring.validate(lambda batches: predict(model, batches, torch.device("cpu")), data, 0.0)
    shown = shown_predictions(found, features)
    row = features.table("val").slice(0, 1).to_pylist()[0]
    sides = features.task.sides
    assert shown[0]["name"] == "charges"
    assert [side["name"] for side in shown[0]["sides"]] == ["articles", "terms"]
    for side, info in zip(shown[0]["sides"], sides, strict=True):
        assert info.class_names is not None
        assert side["target"] == info.class_names[row[f"target_{info.name}"]]
    (text, *_) = markup.marked_texts(shown)
    assert (text.name, [side.name for side in text.sides]) == ("charges", ["articles", "terms"])
    assert text.sides[0].target == shown[0]["sides"][0]["target"]


def test_curves_have_a_chart_of_the_targets():
    history = [
        EpochMetrics(number=i, metrics={"val_charges/macro_f1": 0.1 * i, "val_terms/macro_f1": 0.2})
        for i in range(3)
    ]
    (plot,) = epoch_plots.loss_plots(history, 1)
    assert plot.title == "macro F1 of each target on validation"
    assert "charges ends at 0.2" in plot.description and "terms ends at 0.2" in plot.description
    assert "/" not in plot.name


def test_the_text_of_a_reading_has_a_line_for_each_target(features: Features, model: InfoCal):
    scores = {"test_selection_rate": 0.1, "test_charges/accuracy": 0.5, "test_mean/accuracy": 0.25}
    scores["test_terms/guider_accuracy"] = 0.125
    reading = scoring.TestReading(scores, {}, {}, [], [])
    subject = assessment.Subject("m", model, features, None, "run", {})
    text = assessment.describe(subject, reading)
    assert "charges: prediction from the rationale: accuracy 0.5000" in text
    assert "terms: prediction by the guider, from the whole text: accuracy 0.1250" in text
    assert "mean: prediction from the rationale: accuracy 0.2500" in text


def test_weights_of_targets_reach_the_model(features: Features):
    task = task_of(features).weighted({"terms": 0.5})
    assert [head.weight for head in task.heads] == [1.0, 1.0, 0.5]
    with pytest.raises(ConfigError, match="no target `term`"):
        task_of(features).weighted({"term": 1.0})
    assert isinstance(task, Task)


# ------------------------------------------------------------------------------- methods of several targets


def law_flags(*more: str, method: str = "fla", **where: str):
    return flags("--method", method, *more, **where)


@pytest.mark.parametrize("method", ["fla", "topjudge", "mpbfn_wca"])
def test_one_target_of_a_method_of_several_is_refused_with_the_flag_to_mend_it(method: str):
    with pytest.raises(ConfigError, match="predicts several targets together, but got one: `ch") as caught:
        planning.run_settings(law_flags(method=method, aspect="charges"), {})
    assert "`--aspect charges,articles,terms`" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (
            law_flags(method="topjudge", aspect="charges,terms"),
            "`dependencies` charges=articles,terms=articles.charges names the target `articles`, but the t",
            "state what these targets read: `--set dependencies=",
        ),
        (
            law_flags(aspect="charges,terms"),
            "FLA attends to the classes of the target `articles`, but the targets are `charges`, `terms`",
            "name the target of the articles: `--set articles=TARGET`",
        ),
        (
            law_flags("--set", "article_texts=none.json"),
            "expected a file, but it does not exist",
            'the file holds a JSON object, {"CLASS": "TEXT", ...}',
        ),
    ],
)
def test_targets_and_texts_that_a_method_cannot_use_are_refused_before_training(given, message, hint):
    with pytest.raises(USER_ERRORS, match=message) as caught:
        planning.run_settings(given, {})
    assert hint in (caught.value.hint or "")


def law_file(folder: Path, features: Features) -> Path:
    names = features.task.sides[0].class_names or ()
    path = folder / "law.json"
    path.write_text(json.dumps({name: f"被告人 财物 第{name}条" for name in names}), encoding="utf-8")
    return path


def test_the_file_of_texts_is_named_by_its_whole_path(
    features: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A worker has another current folder."""
    path = law_file(tmp_path, features)
    monkeypatch.chdir(tmp_path)
    run = planning.run_settings(law_flags("--set", "article_texts=law.json"), {})
    assert run.base["article_texts"] == str(path)


@pytest.mark.parametrize(
    ("texts", "message"),
    [({"999": "被告人"}, "classes of `articles` have no text"), ({}, "no word in the text of class")],
)
def test_texts_that_do_not_fit_the_classes_are_refused_before_a_worker_starts(
    features: Features, tmp_path: Path, texts: dict[str, str], message: str
):
    names = features.task.sides[0].class_names or ()
    path = tmp_path / "law.json"
    path.write_text(json.dumps(texts or dict.fromkeys(names, "whoever steals")), encoding="utf-8")
    given = law_flags(
        *("--set", f"article_texts={path}", "--embedding", "random", "--cache-dir", str(sample_cache()))
    )
    with pytest.raises(USER_ERRORS, match=message):
        planning.with_features(given, planning.run_settings(given, {}))


def test_a_trial_reads_the_texts_of_the_articles(features: Features, tmp_path: Path):
    path = law_file(tmp_path, features)
    base = {"hidden_size": 3, "encoder": "lstm", "article_texts": str(path)}
    run = dataclasses.replace(
        run_settings(method="fla", dataset="cail-small", aspect=NAME, features_dir=str(features.directory)),
        base=base,
    )
    trial = Trial(run.config(), run, 0, tmp_path)
    task = trial.trainer.task
    assert task.texts == ()
    articles = next(side for side in task.sides if side.name == "articles")
    assert len(articles.texts) == articles.num_classes
    words = features.vocabulary.tokens
    assert [words[number] for number in articles.texts[0]][:2] == ["被告人", "财物"]
    assert not dataclasses.replace(run, base={"hidden_size": 3, "encoder": "lstm"}).config().class_texts()
