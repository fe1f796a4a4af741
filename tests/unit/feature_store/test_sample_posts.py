"""The made-up posts: harmless, in the official form, with rationales and labels known by construction."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from feature_store import sample_posts
from feature_store.sample_posts import ABUSE, GROUPS, PRAISE, Post, make_post, write_hatexplain
from feature_store.tokenize_posts import tokenize

SMALL = {"train": 60, "val": 20, "test": 30}


@pytest.fixture(scope="module")
def posts() -> list[Post]:
    rng = random.Random(5)
    return [make_post(rng) for _ in range(1500)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[str]]]:
    folder = tmp_path_factory.mktemp("posts")
    write_hatexplain(folder, seed=1, num_posts=SMALL, num_undecided=7)
    return tuple(  # type: ignore[return-value]
        json.loads((folder / name).read_text()) for name in ("dataset.json", "post_id_divisions.json")
    )


def test_equal_seeds_give_equal_bytes(tmp_path: Path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_hatexplain(tmp_path / name, seed=seed, num_posts=SMALL, num_undecided=3)
    for name in ("dataset.json", "post_id_divisions.json"):
        a, b, c = ((tmp_path / folder / name).read_bytes() for folder in "abc")
        assert a == b != c


def test_the_files_have_the_official_form(written: Any):
    posts, divisions = written
    assert {split: len(ids) for split, ids in divisions.items()} == SMALL
    divided = {post_id for ids in divisions.values() for post_id in ids}
    undecided = set(posts) - divided
    assert len(undecided) == 7
    for post_id, post in posts.items():
        assert set(post) == {"post_id", "annotators", "rationales", "post_tokens"}
        assert post["post_id"] == post_id
        assert [set(a) for a in post["annotators"]] == [{"label", "annotator_id", "target"}] * 3
        votes = Counter(a["label"] for a in post["annotators"]).most_common(1)[0][1]
        assert (votes == 1) == (post_id in undecided)
        assert all(len(mask) == len(post["post_tokens"]) for mask in post["rationales"])


def test_no_text_stands_twice(written: Any):
    texts = [" ".join(post["post_tokens"]) for post in written[0].values()]
    assert len(texts) == len(set(texts))


def test_the_union_of_masks_is_one_phrase_that_holds_all_abuse(written: Any):
    toxic = [post for post in written[0].values() if post["rationales"]]
    assert len(toxic) > 40
    for post in toxic:
        union = [max(marks) for marks in zip(*post["rationales"], strict=True)]
        start, end = union.index(1), len(union) - union[::-1].index(1)
        assert all(union[start:end])
        assert [i for i, t in enumerate(post["post_tokens"]) if t in ABUSE and not start <= i < end] == []
        assert any(t in ABUSE for t in post["post_tokens"][start:end])


def test_the_label_follows_from_the_phrase(posts: list[Post]):
    names = {name for every in GROUPS.values() for name in every}
    for post in posts:
        phrase = [] if post.phrase is None else post.tokens[slice(*post.phrase)]
        expected = "normal" if not phrase else "hatespeech" if names & set(phrase) else "offensive"
        assert post.label == expected
        assert (post.group is not None) == bool(names & set(post.tokens))


def test_classes_and_density_are_like_the_real_ones(posts: list[Post]):
    share = Counter(post.label for post in posts)
    assert share["normal"] / len(posts) == pytest.approx(0.41, abs=0.05)
    toxic = [post for post in posts if post.phrase]
    marked = sum(post.phrase[1] - post.phrase[0] for post in toxic if post.phrase)
    assert 0.2 < marked / sum(len(post.tokens) for post in toxic) < 0.4


def test_group_names_and_praise_stand_in_every_class(posts: list[Post]):
    for label in ("hatespeech", "offensive", "normal"):
        own = [post for post in posts if post.label == label]
        assert sum(post.group is not None for post in own) > 0.2 * len(own)
        assert sum(bool(set(PRAISE) & set(post.tokens)) for post in own) > 0.1 * len(own)


def test_the_tokens_are_in_the_form_that_the_tokenizer_gives(posts: list[Post]):
    for post in posts[:300]:
        assert [token.text for token in tokenize(" ".join(post.tokens))] == post.tokens


def test_every_template_is_filled(posts: list[Post]):
    assert not any("{" in token for post in posts for token in post.tokens)
    templates = (sample_posts._AT_PERSON, sample_posts._AT_GROUP)
    assert all("{abuse}" in template for group in templates for template in group)
