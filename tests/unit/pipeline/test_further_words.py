"""Words that the vocabulary lacks, to a model that reads pieces: in new texts, features and packages."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from infocal.batch import Batch, Words
from infocal.config import InfoCalConfig
from infocal.methods.infocal.model import InfoCal
from infocal.nn.pieces import Lexicon, Pretrained
from infocal.splitting import UNKNOWN, Splitter, numbered
from pipeline.training import checkpoints, pretrained, scoring
from pipeline.training.checkpoints import Package, load_package, save_package
from pipeline.training.explainer import Explainer
from pipeline.training.loaders import Loader
from tests.small_encoder import write_encoder
from tests.small_model import CLASSES
from tests.small_study import sample_features

WORDS = ["<pad>", "<unk>", "the", "beer", "is", "good", "soft"]
NEW = ["creamy", "palate", "goodish", "B", "beer"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> pretrained.PretrainedFiles:
    folder = write_encoder(tmp_path_factory.mktemp("encoder") / "small", ["the", "beer", "good", "is", "!"])
    # as the files of sentence encoders have it
    read = json.loads((folder / "tokenizer.json").read_text())
    cut = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    pad = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None}
    pad |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    (folder / "tokenizer.json").write_text(json.dumps(read | {"truncation": cut, "padding": pad}))
    return pretrained.opened(str(folder))


def given(source: pretrained.PretrainedFiles, words: list[str], *, has_tokenizer: bool = True) -> Pretrained:
    """What a model of this vocabulary is made from."""
    rows = pretrained.split_words(words, source)
    first = torch.tensor([0, *np.cumsum([len(row) for row in rows]).tolist()])
    return Pretrained(
        source.architecture,
        source.prefix,
        source.suffix,
        torch.tensor([piece for row in rows for piece in row]),
        first,
        pretrained.read_weights(source),
        source.tokenizer.backend_tokenizer.to_str() if has_tokenizer else "",
    )


def package(source: pretrained.PretrainedFiles, words: list[str], folder: Path, **more: bool) -> Package:
    config = InfoCalConfig(
        encoder="transformer", pretrained="small", start_selection_rate=0.5, window_size=16, feature_size=4
    )
    torch.manual_seed(0)
    model = InfoCal(config, CLASSES, given(source, words, **more)).eval()
    save_package(folder, Package(model, words, {"tokenizer": "whitespace"}))
    return load_package(folder)


def answers(package: Package, *texts: str) -> list[tuple[list[float], list[float]]]:
    found = Explainer(package).explain(texts)
    return [(one.probabilities, [token.probability for token in one.tokens]) for one in found]


def approximately(found: list[tuple[list[float], list[float]]]) -> list[object]:
    return [pytest.approx(part, abs=1e-6) for one in found for part in one]


@pytest.mark.parametrize(
    "word", ["beer", "Beer", "good!", "abc", "[SEP]", "\u200b", "酒", "beerx", "a" * 600]
)
def test_a_word_is_split_as_those_of_the_vocabulary(source: pretrained.PretrainedFiles, word: str):
    splitter = given(source, WORDS).splitter
    assert splitter is not None
    assert list(splitter.pieces(word)) == pretrained.split_words(["<pad>", "<unk>", word], source)[2]
    assert splitter.knows(word) == (word not in ("[SEP]", "\u200b", "酒"))


def test_a_new_word_is_read_as_if_the_vocabulary_had_it(source: pretrained.PretrainedFiles, tmp_path: Path):
    lacking = package(source, WORDS, tmp_path / "a")
    having = package(source, WORDS + NEW[:-1], tmp_path / "b")
    texts = ["the creamy beer", "palate goodish palate B", "the beer is good"]
    found = [part for one in answers(lacking, *texts) for part in one]
    assert found == approximately(answers(having, *texts))
    first, second = answers(lacking, "the creamy beer", "the palate beer")
    assert first[0] != pytest.approx(second[0], abs=1e-6), "two new words are told apart"


def test_texts_together_are_answered_as_alone(source: pretrained.PretrainedFiles, tmp_path: Path):
    read = package(source, WORDS, tmp_path / "a")
    texts = ["creamy", "the beer is goodish and chewy", "palate creamy"]
    alone = [answers(read, text)[0] for text in texts]
    assert [part for one in answers(read, *texts) for part in one] == approximately(alone)
    explainer = Explainer(read)
    tokens = explainer.tokenize("the creamy beer")
    whole, part = (explainer.predict_from(tokens, marks)[0].probabilities for marks in ([0, 1, 2], [0, 2]))
    assert whole != pytest.approx(part, abs=1e-6)


def test_a_word_of_600_pieces_is_read_whole(source: pretrained.PretrainedFiles, tmp_path: Path):
    read = package(source, WORDS, tmp_path / "a")
    (found,) = answers(read, "a" * 600)
    (other,) = answers(read, "a" * 590 + "b" * 10)
    assert found[0] != pytest.approx(other[0], abs=1e-7), "its last pieces count"
    (explained,) = Explainer(read).explain(["a" * 600])
    assert [token.token for token in explained.tokens] == ["a" * 600]


def test_only_words_without_a_piece_are_called_unknown(source: pretrained.PretrainedFiles, tmp_path: Path):
    explainer = Explainer(package(source, WORDS, tmp_path / "a"))
    found = explainer.explain(["the creamy beer", "the 酒 beer", "[SEP] good"])
    assert [one.num_unknown for one in found] == [0, 1, 1]
    assert explainer.knows("creamy") and not explainer.knows("酒")


def test_a_package_without_a_tokenizer_reads_one_word_for_all_that_it_lacks(
    source: pretrained.PretrainedFiles, tmp_path: Path
):
    older = package(source, WORDS, tmp_path / "a", has_tokenizer=False)
    config = json.loads((tmp_path / "a" / checkpoints.CONFIG).read_text())
    assert set(config["pretrained"]) == {"architecture", "prefix", "suffix"}
    assert older.model.splitter is None
    first, second = answers(older, "the creamy beer", "the palate beer")
    assert first == second
    assert [one.num_unknown for one in Explainer(older).explain(["the creamy beer"])] == [1]


def table(texts: list[list[str]], vocabulary: list[str]) -> pa.Table:
    number = {word: i for i, word in enumerate(vocabulary)}
    ids = [[number.get(word, UNKNOWN) for word in text] for text in texts]
    return pa.table(
        {
            "tokens": texts,
            "token_ids": pa.array(ids, pa.list_(pa.int32())),
            "target": pa.array([0] * len(texts), pa.int32()),
            "rationale": pa.nulls(len(texts), pa.list_(pa.uint16())),
        }
    )


TEXTS = [
    ["the", "creamy", "beer"],
    ["palate"],
    ["is", "good", "goodish", "creamy", "palate"],
    ["the", "beer"],
]


def layout(batch: Batch, made: Pretrained) -> tuple[list[list[int]], list[list[int]]]:
    found = Lexicon(made, InfoCalConfig(encoder="transformer", pretrained="x", window_size=16))(batch.words)
    return found.ids.tolist(), found.word.tolist()


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [3], [2, 0]])
def test_features_give_new_words_their_pieces(source: pretrained.PretrainedFiles, rows: list[int]):
    lacking, having = given(source, WORDS), given(source, WORDS + NEW[:-1])
    batch = Loader(table(TEXTS, WORDS), CLASSES, splitter=lacking.splitter).batch(np.array(rows))
    whole = Loader(table(TEXTS, WORDS + NEW[:-1]), CLASSES).batch(np.array(rows))
    assert layout(batch, lacking) == layout(whole, having)
    moved = batch.to(torch.device("cpu"))
    assert layout(moved, lacking) == layout(whole, having)
    plain = Loader(table(TEXTS, WORDS), CLASSES).batch(np.array(rows))
    assert torch.equal(plain.token_ids, batch.token_ids), "the numbers of words stay those of the vocabulary"
    assert plain.words.further is None


def test_a_text_of_known_words_has_no_further_ones(source: pretrained.PretrainedFiles):
    splitter = given(source, WORDS).splitter
    assert splitter is not None
    ids = torch.tensor([[2, 3, 0]])
    assert numbered(ids, [[]], splitter) == (ids, None)
    assert Words.of(ids).further is None


def test_a_splitter_forgets_what_files_say_of_whole_texts(source: pretrained.PretrainedFiles):
    text = json.dumps(
        json.loads(source.tokenizer.backend_tokenizer.to_str())
        | {"truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}}
    )
    assert len(Splitter(text, UNKNOWN, 7).pieces("a" * 600)) == 600


def test_scores_on_validation_read_new_words(
    source: pretrained.PretrainedFiles, monkeypatch: pytest.MonkeyPatch
):
    """What a trial and `evaluate` score with has the splitter of the model."""
    seen = []

    class Spy(Loader):
        def __init__(self, *given: object, **more: object) -> None:
            seen.append(more.get("splitter"))
            raise InterruptedError("seen")

    monkeypatch.setattr(scoring, "Loader", Spy)
    made = given(source, WORDS)
    model = dataclasses.make_dataclass("Model", ["splitter"])(made.splitter)
    for call in (
        lambda: scoring.ValidationData.of(sample_features(), None, made.splitter),
        lambda: scoring.score_test(model, sample_features(), None, lambda scores: None),
        lambda: scoring.final_validation(model, sample_features()),
    ):
        with pytest.raises(InterruptedError, match="seen"):
            call()
    assert seen == [made.splitter] * 3
