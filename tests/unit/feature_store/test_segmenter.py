"""Words of Chinese texts: jieba's own, whichever way they are found."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feature_store import segmenter as module
from feature_store.errors import BadInputError
from feature_store.own_words import OwnWords, never_cut
from feature_store.sample_cail import make_case
from feature_store.segmenter import DictionaryWord, Segmenter, measure, parse_dictionary, parse_stop_words

ROOT = Path(module.__file__).parents[1]
PLAIN, FAST = Segmenter(fast=False), Segmenter()
# two ideographs of the model's table, the last of jieba's range, one just outside it; marks, letters, digits
ODD = "某案窃龥鿖㐀×，。“” \r\n\t\u3000１ａéaZ09+#&._%-"


@pytest.fixture(autouse=True, scope="module")
def _needs_rjieba() -> None:
    pytest.importorskip("rjieba", reason="the extra `fast` is not installed")


def test_words_of_a_text():
    text = "2016年4月18日9时40分许，被告人张某在医院，\r\n窃得iPhone6手机1部 (价值1300.5元、约20%)"
    expected = "2016|年|4|月|18|日|9|时|40|分许|，|被告人|张某|在|医院|，|\r\n|窃得|iPhone6|手机|1|部| |("
    assert FAST.cut(text)[:24] == expected.split("|")
    assert FAST.cut(text) == PLAIN.cut(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\r\n",
        "\r\r\n\n",
        "近半年常在贾某某家",  # rjieba's own model makes another word of the second and third character
        "A股T恤C++与c#和AT&T",
        "1-3点www.x.com和a_b%",
        "3.14%和..5",
        "㐀㐀龥龥鿖鿖",
        "\U00020000\U00020000某",
        "×××于××年",
    ],
)
def test_odd_texts(text: str):
    assert FAST.cut(text) == PLAIN.cut(text)
    assert "".join(FAST.cut(text)) == text


@given(st.text(alphabet=st.sampled_from(ODD), max_size=25))
def test_odd_characters(text: str):
    assert FAST.cut(text) == PLAIN.cut(text)


def test_words_and_characters_of_the_dictionary_in_any_order():
    frequency = module._load_jieba(()).FREQ
    words = [word for word, count in frequency.items() if count]
    with_letters = [word for word in words if re.search("[a-zA-Z0-9]", word)]
    characters = sorted({c for word in words for c in word if "\u4e00" <= c <= "\u9fd5"})
    rng = random.Random(0)

    def piece() -> str:
        kind = rng.random()
        if kind < 0.4:
            return rng.choice(words)
        if kind < 0.5:
            return rng.choice(with_letters)
        return "".join(rng.choices(characters if kind < 0.75 else ODD, k=rng.randint(1, 4)))

    texts = ["".join(piece() for _ in range(rng.randint(1, 9))) for _ in range(3000)]
    assert [text for text in texts if FAST.cut(text) != PLAIN.cut(text)] == []


def test_facts_of_the_sample():
    rng = random.Random(4)
    facts = [make_case(rng)["fact"] for _ in range(300)]
    assert measure(FAST, facts) == measure(PLAIN, facts)


def test_the_markov_model_is_that_of_jieba():
    finalseg = module._import_jieba().finalseg
    model = module._MarkovModel(finalseg)
    characters = [*sorted(finalseg.emit_P["S"])[::40], "鿖", "㐀"]
    rng = random.Random(1)
    for _ in range(2000):
        run = "".join(rng.choices(characters, k=rng.randint(1, 12)))
        _, states = finalseg.viterbi(run, "BMES", finalseg.start_P, finalseg.trans_P, finalseg.emit_P)
        assert model._likeliest_states(run) == states, run


def test_without_rjieba_it_is_jieba(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    found = Segmenter()
    assert found.cut == module._load_jieba(()).lcut


def test_words_of_the_user():
    words = (DictionaryWord("盗窃手机", None), DictionaryWord("张某盗", 5))
    own = Segmenter(words)
    assert own.cut("被告人张某盗窃手机") == ["被告人", "张某", "盗窃手机"]
    assert FAST.cut("被告人张某盗窃手机") == ["被告人", "张某", "盗窃", "手机"]


def test_a_dictionary():
    lines = enumerate(["盗窃手机 3 n", "", "  云计算  ", "创新办 4", "甲 乙 x"], start=1)
    assert parse_dictionary(lines, "f") == (
        DictionaryWord("盗窃手机", 3),
        DictionaryWord("云计算", None),
        DictionaryWord("创新办", 4),
        DictionaryWord("甲 乙", None),
    )


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("创新办\t4\tn", DictionaryWord("创新办", 4)),
        ("创新办\t4", DictionaryWord("创新办", 4)),
        ("创新办 \t 4  nz", DictionaryWord("创新办", 4)),
        ("创新办\tNR", DictionaryWord("创新办", None)),
        ("\ufeff创新办\t\r", DictionaryWord("创新办", None)),
        ("\u3000创新办 7\r", DictionaryWord("创新办", 7)),
        ("iPhone15\t30\teng", DictionaryWord("iPhone15", 30)),
    ],
)
def test_layouts_of_public_dictionaries(line: str, word: DictionaryWord):
    assert parse_dictionary([(1, line)], "f") == (word,)


def test_a_dictionary_with_tabs_cuts_as_one_with_blanks():
    lines = ["盗窃手机 3000 n", "云计算 5", "张某盗"]
    blanks = parse_dictionary(enumerate(lines, start=1), "f")
    tabs = parse_dictionary(((i, line.replace(" ", "\t")) for i, line in enumerate(lines, start=1)), "f")
    assert tabs == blanks
    assert "盗窃手机" in Segmenter(tabs).cut("被告人张某盗窃手机")


def test_entries_that_never_apply_are_those_that_no_text_is_cut_into():
    lines = ["盗窃手机 100000", "甲 乙 x", "云,计算", "我的 1", "e-mail", "：", "被告人盗窃"]
    words = parse_dictionary(enumerate(lines, start=1), "f")
    never = never_cut(words)
    assert never == ["甲 乙", "云,计算", "我的"]
    cut = Segmenter(words).cut
    for word in words:
        seen = any(word.text in cut(text) for text in (word.text, f"被告人{word.text}。", f"在 {word.text}"))
        assert seen is (word.text not in never), word


def test_a_note_counts_what_the_texts_have_and_names_what_they_cannot_have():
    own = OwnWords(
        (DictionaryWord("盗窃手机", None), DictionaryWord("甲 乙", None)), frozenset(["的", "a b", "无"])
    )
    assert own.notes()[0].startswith("dictionary: 0 of 2 words occur in the texts; 1 has no effect")
    own.see(["盗窃手机", "的", "的"])
    apart = "1 has no effect, because the tokenizer always splits it"
    assert own.notes() == [
        f"dictionary: 1 of 2 words occur in the texts; {apart}: `甲 乙`",
        f"stop words: 1 of 3 entries occur in the texts; {apart}: `a b`",
    ]
    assert OwnWords().notes() == []


def test_a_dictionary_that_is_none():
    with pytest.raises(BadInputError, match="f: no word in the dictionary"):
        parse_dictionary([(1, " ")], "f")
    with pytest.raises(BadInputError, match="f:2: expected a frequency of at least 1 .*, but got '乙 0'"):
        parse_dictionary([(1, "甲 1"), (2, "乙 0")], "f")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("乙 " + "9" * 5000, "f:2: expected a frequency of at least 1 and at most 18 digits"),
        ("x" * 200_000, "f:2: a word of 200000 characters; at most 256 are supported"),
    ],
)
def test_an_entry_without_end(line: str, message: str):
    """jieba keeps each beginning of a word: 200,000 characters would take it 20 GB."""
    with pytest.raises(BadInputError, match=message) as caught:
        parse_dictionary([(1, "甲 1"), (2, line)], "f")
    assert len(str(caught.value)) < 300


def test_stop_words():
    assert parse_stop_words([(1, "的 "), (2, ""), (3, "了")]) == {"的", "了"}


def test_jieba_says_nothing_and_leaves_no_file(tmp_path: Path):
    code = (
        "from feature_store.segmenter import Segmenter\n"
        "print(Segmenter(fast=False).cut('我们'), Segmenter().cut('我们.'))"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONWARNINGS": "error"}
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout == "['我们'] ['我们', '.']\n"
    assert found.stderr == ""
    assert not list(tmp_path.iterdir())


def test_nothing_is_loaded_before_a_text_is_cut():
    code = (
        "import sys; from feature_store.tokenize import TOKENIZERS; import feature_store.sources\n"
        "print(sorted({'jieba', 'rjieba', 'pyarrow.dataset', 'polars'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
