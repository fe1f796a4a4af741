import dataclasses
from pathlib import Path

import pytest
import torch

from infocal.config import Task
from infocal.errors import StateError
from infocal.methods.registry import METHODS, method
from pipeline.base.errors import PipelineError
from pipeline.training import explainer as explainer_module
from pipeline.training.checkpoints import Package, load_package
from pipeline.training.explainer import Explainer, Explanation, NoTokenError
from tests.small_encoder import naming, small_pretrained
from tests.small_model import fit
from tests.small_store import WORDS, metadata, small_package

TEXT = "A  Smooth body\n(isn't it creamy?)  thin ..."


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return load_package(small_package(tmp_path_factory.mktemp("package") / "model"))


def figures(explanation: Explanation) -> list[float]:
    return [explanation.prediction, *(token.probability for token in explanation.tokens)]


def test_offsets_point_into_the_text_as_given(package: Package):
    (found,) = Explainer(package).explain([TEXT])
    pieces = [TEXT[token.start : token.end] for token in found.tokens]
    assert [piece.lower() for piece in pieces] == [token.token for token in found.tokens]
    assert pieces[:3] == ["A", "Smooth", "body"]
    starts = [token.start for token in found.tokens]
    assert starts == sorted(set(starts))
    # everything but white space is in exactly one token
    assert "".join(pieces) == "".join(TEXT.split())


def test_the_rationale_is_what_is_selected(package: Package):
    (found,) = Explainer(package).explain([TEXT])
    assert found.rationale == [token for token in found.tokens if token.selected]
    assert [token.selected for token in found.tokens] == [token.probability >= 0.5 for token in found.tokens]


def test_a_score_comes_without_class_probabilities(package: Package):
    (found,) = Explainer(package).explain(["a body"])
    assert 0 < found.prediction < 1
    assert (found.probabilities, found.label) == ([], "")


def test_a_class_comes_with_the_probability_of_each(tmp_path: Path):
    task = Task(kind="classification", num_classes=3)
    explainer = Explainer(load_package(small_package(tmp_path / "model", task)))
    for found in explainer.explain(["a smooth body", "thin"]):
        assert sum(found.probabilities) == pytest.approx(1)
        assert found.prediction == found.probabilities.index(max(found.probabilities))
        assert found.label == f"class {found.prediction:.0f}"


def test_a_class_is_named_where_the_package_knows_the_names(tmp_path: Path):
    task, names = Task(kind="classification", num_classes=3), ["bad", "fair", "good"]
    package = load_package(small_package(tmp_path / "model", task, class_names=names))
    (found,) = Explainer(package).explain(["a smooth body"])
    assert found.label == names[int(found.prediction)]


def test_probabilities_are_moved_so_that_the_held_threshold_is_a_half(package: Package):
    package.model.threshold = 0.2
    (found,) = Explainer(package).explain(["a smooth body"])
    assert found.held_threshold == 0.2
    assert [token.selected for token in found.tokens] == [token.probability >= 0.5 for token in found.tokens]


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["-1", "2", "10"], [-1.0, 2.0, 10.0]),
        (["1", "2", "4"], [1.0, 2.0, 4.0]),
        (["+3", "007", "8"], [3.0, 7.0, 8.0]),
        (["1", "2", "many"], [0.0, 1.0, 2.0]),
        (["1", "01", "2"], [0.0, 1.0, 2.0]),
        (["1", "2", "9007199254740993"], [0.0, 1.0, 2.0]),
        (["billing", "other", "technical"], [0.0, 1.0, 2.0]),
    ],
    ids=lambda given: ",".join(map(str, given)),
)
def test_a_class_that_is_a_number_is_predicted_as_that_number(
    names: list[str], numbers: list[float], tmp_path: Path
):
    package = load_package(
        small_package(tmp_path / "m", Task(kind="classification", num_classes=3), class_names=names)
    )
    seen = set()
    for favoured in range(3):
        with torch.no_grad():
            package.model.output.bias.copy_(torch.eye(3)[favoured] * 100)
        (found,) = Explainer(package).explain(["a smooth body"])
        assert (found.label, found.prediction) == (names[favoured], numbers[favoured])
        seen.add(found.prediction)
    assert len(seen) == 3, "no two classes are told by one number"


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_answers_keep_the_order_of_the_texts_whatever_the_batch(package: Package, batch_size: int):
    texts = ["creamy body thin smooth a", "a", "thin thin", "body .", "smooth creamy a", "a"]
    alone = [Explainer(package).explain([text])[0] for text in texts]
    together = Explainer(package, batch_size).explain(texts)
    assert [[t.token for t in e.tokens] for e in together] == [text.split() for text in texts]
    for one, other in zip(alone, together, strict=True):
        assert figures(one) == pytest.approx(figures(other), abs=1e-6)


def test_unknown_words_are_one_word(package: Package):
    first, second, known = Explainer(package).explain(["zebra body", "xylophone body", "smooth body"])
    assert figures(first) == figures(second)
    assert figures(first) != figures(known)
    assert first.tokens[0].token == "zebra"


def test_words_are_looked_up_as_the_corpus_writes_them(package: Package):
    upper, lower = Explainer(package).explain(["SMOOTH Body", "smooth body"])
    assert figures(upper) == figures(lower)


def test_a_text_is_never_cut(package: Package):
    text = " ".join(WORDS[2 + i % 5] for i in range(5000))
    (found,) = Explainer(package).explain([text])
    assert len(found.tokens) == 5000
    assert found.tokens[-1].end == len(text)
    assert found.tokens[-1].probability > 0


@pytest.mark.parametrize("empty", ["", "  \n\t "])
def test_a_text_without_token_is_named_by_its_position(package: Package, empty: str):
    with pytest.raises(NoTokenError, match="text 2 of 4 has no token: '") as caught:
        Explainer(package).explain(["a", empty, "body", empty])
    assert caught.value.positions == [1, 3]


def test_no_text_gives_no_answer(package: Package):
    assert Explainer(package).explain([]) == []


def test_long_texts_share_no_batch_that_would_fill_the_memory(
    package: Package, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(explainer_module, "_MAX_POSITIONS", 12)
    texts = ["a", "thin body", " ".join(["creamy"] * 30), "a a a a a", "smooth", "thin a a a a a"]
    explainer = Explainer(package, batch_size=3)
    batches = list(explainer._batches([len(text.split()) for text in texts]))
    assert batches == [[0, 4, 1], [3, 5], [2]]
    alone = [Explainer(package).explain([text])[0] for text in texts]
    for one, other in zip(alone, explainer.explain(texts), strict=True):
        assert figures(one) == pytest.approx(figures(other), abs=1e-6)


def test_explaining_keeps_no_graph_and_draws_no_number(package: Package):
    state = torch.get_rng_state()
    Explainer(package).explain(["a smooth body"])
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in package.model.parameters())


def test_chinese_is_split_as_the_features_were_with_the_users_own_words(tmp_path: Path):
    package = load_package(small_package(tmp_path / "model", tokenizer="jieba"))
    text = "被告人张某 盗窃手机。"
    (found,) = Explainer(package).explain([text])
    assert [token.token for token in found.tokens] == ["被告人", "张某", "盗窃", "手机", "。"]
    assert [text[token.start : token.end] for token in found.tokens] == [
        token.token for token in found.tokens
    ]
    files = {"dictionary": "盗窃手机\n", "stop_words": "。\n被告人\n"}
    own = Explainer(Package(package.model, package.vocabulary, package.metadata, files))
    assert [token.token for token in own.explain([text])[0].tokens] == ["张某", "盗窃手机"]
    with pytest.raises(PipelineError, match="text 1 of 1 has no token: '被告人。'"):
        own.explain(["被告人。"])


def test_answers_are_on_the_scale_of_the_data(tmp_path: Path):
    scaled = load_package(small_package(tmp_path / "scaled", score_range=[1, 5]))
    plain = load_package(small_package(tmp_path / "plain"))
    (there,), (here,) = (Explainer(one).explain(["a smooth body"]) for one in (scaled, plain))
    assert there.prediction == pytest.approx(1 + 4 * here.prediction)
    assert there.said.startswith("predicted palate: ") and there.said.endswith(" (from 1 to 5)")
    assert plain.metadata.get("score_range") is None, "a package of before this was kept"


@pytest.mark.parametrize("ends", [[1], "ab", [1, "5"], {"low": 1}])
def test_a_scale_that_is_none_is_refused(tmp_path: Path, ends: object):
    with pytest.raises(StateError, match="expected the lowest and the highest score"):
        small_package(tmp_path / "model", score_range=ends)


def test_words_that_the_model_does_not_know_are_counted(package: Package):
    found = Explainer(package).explain(["zebra body", "smooth body", "xylophone zebra"])
    assert [one.num_unknown for one in found] == [1, 0, 2]


def test_a_text_that_spells_a_special_word_holds_an_unknown_one(package: Package):
    """The English tokenizer would split it; a corpus of ready tokens need not."""
    explainer = Explainer(package)
    assert {explainer.number.get(word, 1) for word in ("<pad>", "<unk>", "zebra")} == {1}


# -------------------------------------------------------------------------------------- counterfactual


READERS = (
    *("attention", "cnn_gru", "birnn", "birnn_attn", "birnn_hatexplain", "bert", "bert_hatexplain"),
    *("fla", "topjudge", "mpbfn_wca"),
)
"""Methods whose model predicts from the whole text."""


def of_method(name: str, task: Task) -> Explainer:
    """An untrained model of a method, which selects some of its words."""
    torch.manual_seed(1)
    found = method(name)
    encoder = (found.encoders or ("lstm",))[0]
    config = found.config_class().from_mapping({"hidden_size": 3, **naming(encoder)})
    given = torch.randn(len(WORDS), 5)
    if encoder == "transformer":
        # one piece for each word but the padding
        pieces = 4 + torch.arange(len(WORDS) - 1) % 20
        first = torch.tensor([0, 0, *range(1, len(WORDS))])
        given = dataclasses.replace(small_pretrained(), piece_ids=pieces, first_piece=first)
    task = fit(name, task)
    model = found.trainer_class().model_class(config, task, given).eval()
    targets = {"targets": [{"name": head.name} for head in task.heads]} if task.sides else {}
    return Explainer(Package(model, WORDS, metadata() | targets))


@pytest.mark.parametrize("task", [Task(kind="regression"), Task(kind="classification", num_classes=3)])
@pytest.mark.parametrize("name", METHODS)
def test_the_models_own_marks_give_its_own_prediction_unless_it_reads_whole_texts(name: str, task: Task):
    explainer = of_method(name, task)
    tokens = explainer.tokenize("a smooth creamy body . thin thin body . a smooth thin")
    (found,) = explainer.explain_tokens([tokens])
    own = [i for i, token in enumerate(found.tokens) if token.selected]
    seen = range(len(tokens)) if explainer.reads_whole_texts else own
    again, *sides = explainer.predict_from(tokens, seen)
    assert len(sides) == len(explainer.targets) - 1
    assert again.label == found.label
    assert [again.prediction, *again.probabilities] == pytest.approx(
        [found.prediction, *found.probabilities], abs=1e-6
    )
    assert explainer.reads_whole_texts == (name in READERS)


def test_other_marks_give_another_prediction_and_words_that_are_not_marked_are_not_read(package: Package):
    explainer = Explainer(package)
    tokens, others = (explainer.tokenize(text) for text in ("smooth thin body", "smooth creamy body"))
    every = ([], [0], [1], [0, 1], [0, 1, 2])
    values = [explainer.predict_from(tokens, marks)[0].prediction for marks in every]
    assert len(set(values)) == len(values)
    assert explainer.predict_from(others, [0, 2]) == explainer.predict_from(tokens, [0, 2])


@pytest.mark.parametrize("marks", [[3], [-1], [0, 99]])
def test_a_mark_has_to_be_at_a_token(package: Package, marks: list[int]):
    explainer = Explainer(package)
    with pytest.raises(ValueError, match="expected positions from 0 to 2, but got"):
        explainer.predict_from(explainer.tokenize("smooth thin body"), marks)


def test_which_words_are_known(package: Package):
    explainer = Explainer(package)
    assert [explainer.knows(word) for word in ("smooth", "zebra", "<pad>", "<unk>")] == [
        True,
        False,
        False,
        False,
    ]
