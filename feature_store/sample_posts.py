"""A small made-up HateXplain corpus in the official format, without one abusive word.

Invented words stand for abuse (`zorgle`, `blimfish`) and invented peoples for the groups it is aimed at. A
post is a few harmless remarks from our own lists; a toxic one has a phrase of abuse among them, and that
phrase is its rationale, known by construction. Abuse of a person makes a post offensive, abuse of a people
makes it hate speech. A people may be named without abuse, and some invented words are praise, so neither a
group's name nor an odd word alone gives a class away.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NUM_POSTS = {"train": 1300, "val": 200, "test": 300}
NUM_UNDECIDED = 60

_P_DISSENT = 0.25
"""Share of posts on which one of the three annotators has another label."""

_P_CORE_ONLY = 0.4
"""Probability that an annotator marks the abusive words alone and not the phrase."""

_P_PRAISE = 0.25
_P_GROUP_NAMED = 0.35
"""Probability that a post without abuse of a people names one."""

_CLASSES = ("hatespeech", "offensive", "normal")
_WEIGHTS = (0.31, 0.28, 0.41)
"""As in the real corpus."""

GROUPS = {
    "Dunefolk": ("dunefolk", "dunelings"),
    "Hillfolk": ("hillfolk", "hilltoppers"),
    "Lakefolk": ("lakefolk", "lakers"),
    "Moonfolk": ("moonfolk", "moonlings"),
}
"""Invented peoples, and what they are called."""

_ABUSE_TEXT = """
    zorgle blimfish snorkwad grumblefid quonkish drabblet plonkard vermwort
    skrunk moldrip fizzlebrat gloomsnout wretchle bogspawn nurgish clodwick
"""
ABUSE = tuple(_ABUSE_TEXT.split())
PRAISE = ("sparklish", "glimmery", "bravish", "wondrel", "shinely", "cheerful", "splendish", "merrily")

_PERSONS = ("you", "he", "she", "this guy", "my boss", "that driver", "our mayor", "the ref")

_AT_PERSON = (
    "{who} is such a {abuse}",
    "what a {abuse} {abuse} {who} is",
    "{who} acts like a {abuse}",
    "shut up {who} you {abuse}",
    "{who} is a total {abuse} and a {abuse}",
    "only a {abuse} like {who}",
)
_AT_GROUP = (
    "all {group} are {abuse}",
    "get the {abuse} {group} out",
    "{group} are nothing but {abuse} {abuse}",
    "no more {group} they are {abuse}",
    "those {abuse} {group} again",
    "never trust a {abuse} {group}",
)
_ABOUT_GROUP = (
    "the {group} opened a bakery here",
    "met two {group} at the station",
    "a film about {group} is on tonight",
    "my neighbours are {group}",
)
_PRAISING = (
    "what a {praise} day",
    "feeling {praise} about it",
    "{who} made a {praise} cake",
    "so {praise} today",
)
_REMARKS = tuple(
    line.strip()
    for line in """
    the bus was late again this morning
    i had soup for lunch with <user>
    watching the game on the big screen
    it rained for <number> hours straight
    does anyone know a good book shop
    my phone battery died at <time>
    just finished painting the old fence
    they moved the market to the north gate
    coffee is <percent> of my diet
    the new song is stuck in my head
    cannot find my left shoe anywhere
    <user> did you see the long queue
    we planted beans behind the house
    the train to town costs <money> now
    i will call my sister on <date>
    that recipe needs more salt and time
    three dogs ran across the field
    not sure why the lights went out
    reading about bridges all week
    our team won by one point
    the museum closes early on monday
    i left my umbrella at work
    <user> <user> thanks for the map
    somebody parked on the grass 😂
    """.strip().splitlines()
)


@dataclass(frozen=True, slots=True)
class Post:
    """A made-up post with everything that is known about it."""

    tokens: list[str]
    label: str
    phrase: tuple[int, int] | None
    """[start, end) of the abuse; None in a normal post."""

    group: str | None
    """The people it is about."""


def write_hatexplain(
    folder: Path, *, seed: int, num_posts: dict[str, int] | None = None, num_undecided: int = NUM_UNDECIDED
) -> None:
    """Write `dataset.json` and `post_id_divisions.json`; equal arguments give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(f"posts {seed}")
    wanted = num_posts or NUM_POSTS
    places = [split for split, count in wanted.items() for _ in range(count)] + [None] * num_undecided
    rng.shuffle(places)
    numbers = rng.sample(range(10_000_000, 30_000_000), len(places))
    posts: dict[str, Any] = {}
    texts: set[tuple[str, ...]] = set()
    divisions: dict[str, list[str]] = {split: [] for split in wanted}
    for number, split in zip(numbers, places, strict=True):
        post_id = f"{number}_{rng.choice(('gab', 'twitter'))}"
        posts[post_id] = _record(rng, post_id, _new_post(rng, texts), undecided=split is None)
        if split is not None:
            divisions[split].append(post_id)
    for name, content in (("dataset.json", posts), ("post_id_divisions.json", divisions)):
        text = json.dumps(content, ensure_ascii=False)
        (folder / name).write_text(text, encoding="utf-8")


def _new_post(rng: random.Random, texts: set[tuple[str, ...]]) -> Post:
    """A post whose text is not among the given ones; it is added to them."""
    post = make_post(rng)
    while tuple(post.tokens) in texts:
        post = make_post(rng)
    texts.add(tuple(post.tokens))
    return post


def make_post(rng: random.Random) -> Post:
    """One post."""
    label = rng.choices(_CLASSES, _WEIGHTS)[0]
    group = rng.choice(tuple(GROUPS)) if label == "hatespeech" or rng.random() < _P_GROUP_NAMED else None
    parts = [rng.choice(_REMARKS).split() for _ in range(rng.choice((1, 2, 2, 3)))]
    if label != "hatespeech" and group is not None:
        parts.append(_filled(rng, rng.choice(_ABOUT_GROUP), group))
    if rng.random() < _P_PRAISE:
        parts.append(_filled(rng, rng.choice(_PRAISING), group))
    rng.shuffle(parts)
    if label == "normal":
        return Post([token for part in parts for token in part], label, None, group)
    phrase = _filled(rng, rng.choice(_AT_GROUP if label == "hatespeech" else _AT_PERSON), group)
    place = rng.randrange(len(parts) + 1)
    start = sum(len(part) for part in parts[:place])
    parts.insert(place, phrase)
    return Post([token for part in parts for token in part], label, (start, start + len(phrase)), group)


def _filled(rng: random.Random, template: str, group: str | None) -> list[str]:
    words = {
        "abuse": ABUSE,
        "praise": PRAISE,
        "who": _PERSONS,
        "group": GROUPS[group] if group else ("people",),
    }
    tokens = []
    for word in template.split():
        filled = rng.choice(words[word[1:-1]]) if word.startswith("{") else word
        tokens += filled.split()
    return tokens


def _record(rng: random.Random, post_id: str, post: Post, *, undecided: bool) -> dict[str, Any]:
    """A post as the official file has it, with three annotators."""
    labels = [post.label] * 3
    if undecided:
        labels = list(_CLASSES)
    elif rng.random() < _P_DISSENT:
        labels[rng.randrange(3)] = rng.choice([name for name in _CLASSES if name != post.label])
    targets = [[post.group or "None"] for _ in labels]
    if post.group and rng.random() < _P_DISSENT:
        targets[rng.randrange(3)] = ["None"]
    return {
        "post_id": post_id,
        "annotators": [
            {"label": label, "annotator_id": rng.randrange(1, 200), "target": target}
            for label, target in zip(labels, targets, strict=True)
        ],
        "rationales": _masks(rng, post, sum(label != "normal" for label in labels)),
        "post_tokens": post.tokens,
    }


def _masks(rng: random.Random, post: Post, num_toxic: int) -> list[list[int]]:
    """A mask from each annotator who found it toxic; one marks the whole phrase, so that is the union."""
    if post.phrase is None:
        return []
    start, end = post.phrase
    phrase = [int(start <= i < end) for i in range(len(post.tokens))]
    core = [int(mark and token in ABUSE) for mark, token in zip(phrase, post.tokens, strict=True)]
    masks = [phrase] + [core if rng.random() < _P_CORE_ONLY else phrase for _ in range(num_toxic - 1)]
    rng.shuffle(masks)
    return masks
