"""Small made-up corpora in the formats of the sources, so that everything runs on a machine with no data.

Each review is put together from sentences of our own: one or two per aspect, whose graded words carry the
aspect's score, and sentences that carry none. The score of an aspect is the mean grade of the graded words in
its sentences, so its rationale (those sentences) is known by construction. Aspects are graded independently
of one another, and many graded words serve every aspect: a word such as "good" says something about an aspect
only with its sentence around it. The samples of `jsonl` and `eraser` are such
reviews, with palate as their target.
"""

import functools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ASPECTS = ("appearance", "smell", "palate", "taste", "overall")
"""In the order of the official scores."""

NATURAL_ORDER = ("appearance", "smell", "taste", "palate", "overall")
"""The order in which reviewers go through a beer."""

NUM_REVIEWS = 1500
NUM_ANNOTATED = 200

_P_SHUFFLED = 0.4
_P_SECOND_SENTENCE = 0.2
_LENGTHS = range(30, 71)
"""Tokens of a review; one that comes out shorter or longer is drawn again."""

_P_SHARED_WORD = 0.4
_P_UNMENTIONED = 0.06
"""Share of annotated reviews that say nothing about a given one of the first three aspects, as in the real
set."""

_GRADES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_SPREAD = 0.12
"""Standard deviation of a graded word around its aspect's level."""

_SHARED = (
    ("awful", "dreadful", "terrible"),
    ("poor", "weak", "lousy"),
    ("average", "plain", "ordinary"),
    ("decent", "fair", "fine"),
    ("good", "nice", "lovely"),
    ("superb", "excellent", "perfect"),
)
"""Words for every aspect, one row per grade."""

_OWN = {
    "appearance": (
        ("murky", "lifeless", "ugly"),
        ("dull", "faded", "thin"),
        ("pale", "hazy", "patchy"),
        ("clear", "even", "tidy"),
        ("bright", "glowing", "fluffy"),
        ("brilliant", "gorgeous", "dazzling"),
    ),
    "smell": (
        ("rancid", "rotten", "foul"),
        ("musty", "stale", "cardboard-like"),
        ("faint", "shy", "muted"),
        ("clean", "mild", "gentle"),
        ("fragrant", "fresh", "rich"),
        ("heavenly", "intoxicating", "divine"),
    ),
    "palate": (
        ("slimy", "gritty", "chalky"),
        ("watery", "flat", "thin"),
        ("light", "prickly", "sticky"),
        ("soft", "rounded", "crisp"),
        ("smooth", "creamy", "lively"),
        ("velvety", "silky", "luscious"),
    ),
    "taste": (
        ("vile", "burnt", "rank"),
        ("bland", "metallic", "flat"),
        ("simple", "sugary", "mellow"),
        ("balanced", "tasty", "clean"),
        ("rich", "flavorful", "bold"),
        ("delicious", "exquisite", "stunning"),
    ),
    "overall": (
        ("undrinkable", "hopeless", "wretched"),
        ("disappointing", "boring", "sloppy"),
        ("forgettable", "passable", "middling"),
        ("drinkable", "solid", "pleasant"),
        ("enjoyable", "impressive", "rewarding"),
        ("outstanding", "world-class", "unbeatable"),
    ),
}
"""Words of one aspect, one row per grade; a few stand in two aspects."""

_TEXT = {
    "appearance": """
        pours a {} amber color with a {} head .
        {} golden body , {} white foam on top .
        the head looks {} and the lacing {} .
        appearance : {} copper color , {} lacing .
        a : {} brown hue under a {} tan head .
        {} color in the glass , {} retention .
        the foam is {} , the lacing {} , the color {} .
        looks {} in the glass , with {} bubbles rising .
        {} ruby highlights and a {} beige cap .
        its color is {} and its foam {} .
        {} orange tint , {} collar of foam .
        visually {} , the lacing is {} .
        a {} mahogany pour with {} head retention .
        the pour gave a {} straw color and {} foam .
        {} lacing sticks to the glass , {} head .
        to the eye it is {} , the foam {} .
        dark body with {} edges and a {} mocha head .
        {} looking beer , {} color , {} foam .
        the tan head is {} and its retention {} .
        {} clarity , {} hue , {} lacing .
        poured with a {} head over a {} yellow body .
        the glass shows {} color and {} lace .
        black body , {} shine , {} espresso foam .
        appearance is {} : {} head , {} lacing .
        a {} sight , amber with {} foam .
    """,
    "smell": """
        the aroma is {} with {} hops .
        s : {} malt aroma , {} citrus scent .
        smells {} , with {} pine on the nose .
        {} nose of caramel and {} toffee scent .
        aroma : {} bread , {} yeast .
        on the nose {} grapefruit and {} floral scents .
        the scent is {} , its hops {} .
        {} aroma of roasted coffee , {} cocoa scent .
        the bouquet seems {} and the yeast {} .
        smell is {} : {} malts , {} hops .
        a {} whiff of clove and {} banana scent .
        the nose brings {} honey and {} grass scents .
        {} scents of pine rise with a {} aroma .
        its bouquet is {} , the citrus scent {} .
        smelling it gives {} malts and {} esters .
        {} hop aroma , {} malt aroma .
        the aromas are {} , {} and {} .
        nose : {} orange peel , {} coriander .
        i smell {} toffee and {} raisins .
        {} perfume of flowers on a {} nose .
        a {} scent of wheat , {} lemon aroma .
        the smell of hops is {} , that of malt {} .
        {} vanilla on the nose , {} oak scent .
        smell : {} smoke , {} molasses .
        sniffing finds {} herbs and a {} bouquet .
    """,
    "palate": """
        the mouthfeel is {} with {} carbonation .
        m : {} body , {} carbonation .
        feels {} on the tongue , {} in the throat .
        {} body with a {} texture .
        mouthfeel : {} texture , {} bubbles .
        the texture is {} and the carbonation {} .
        {} carbonation makes a {} mouthfeel .
        palate is {} , body {} , carbonation {} .
        its body feels {} and its texture {} .
        {} mouthfeel that coats the tongue , {} body .
        the body is {} , the fizz {} .
        on the palate it feels {} , the fizz {} .
        {} texture , {} weight on the tongue .
        a {} mouthfeel , {} fizz , {} body .
        carbonation is {} and mouthfeel {} .
        the feel in the mouth is {} , its weight {} .
        {} bubbles on the tongue give a {} texture .
        body and texture are {} , carbonation {} .
        p : {} feel , {} carbonation , {} body .
        {} tingle on the palate , {} mouthfeel .
        its mouthfeel seems {} and its fizz {} .
        it coats the mouth with a {} , {} texture .
        {} weight , {} carbonation , {} mouthfeel .
        the mouthfeel stays {} , the bubbles {} .
        drying feel with {} texture and {} carbonation .
    """,
    "taste": """
        the taste is {} with {} hop bitterness .
        t : {} malt flavor , {} bitterness .
        tastes {} , with {} caramel flavor .
        {} flavors of chocolate and {} coffee .
        the flavor is {} and the aftertaste {} .
        flavor : {} fruit , {} spice .
        {} sweetness meets a {} bitterness .
        the malt flavor is {} , the hop flavor {} .
        it tastes of {} toffee and {} nuts .
        {} flavor up front , {} aftertaste .
        taste : {} grains , {} hops , {} finish .
        a {} sip of cherry and {} plum flavor .
        the bitterness is {} , its sweetness {} .
        every sip is {} , with {} flavors .
        {} citrus flavor and {} pepper taste .
        the first sip was {} , the finish {} .
        flavors are {} , {} and {} .
        {} tasting malts with {} bitterness .
        the finish tastes {} and the malt {} .
        tart fruit tastes {} , the sugar {} .
        {} licorice flavor , {} bitter finish .
        sips of {} banana and {} clove flavor .
        {} roasted flavor , {} sweetness .
        the taste of oak is {} , of vanilla {} .
        hops taste {} and the grains {} .
    """,
    "overall": """
        overall a {} beer and a {} buy .
        o : {} brew , {} value .
        all in all {} , a {} example of the style .
        drinkability is {} , the value {} .
        overall : {} stuff from a {} brewery .
        in the end a {} beer , {} for the price .
        {} drinkability , {} choice .
        as a whole it is {} and {} .
        d : {} session beer , {} value .
        i would call it {} , a {} purchase .
        {} beer overall , {} effort .
        to sum up , a {} and {} brew .
        a {} take on the style , {} value .
        overall it was {} , the brewery did {} work .
        my verdict : {} brew , {} deal .
        {} effort from this brewer , {} beer .
        altogether {} , with {} drinkability .
        for the style it is {} , for the money {} .
        summing up , {} drinkability , {} brew .
        final thoughts : {} beer , {} buy .
        a {} bottle and a {} experience .
        on the whole {} , a {} choice .
        this brew is {} and the price {} .
        overall impression {} , value {} .
        the verdict is {} : a {} brew .
    """,
}

_WITHOUT_SCORE = """
    i had this at a pub with two friends .
    the bottle came from a shop near work .
    served in a tulip at cellar temperature .
    12 oz . bottle , no date on it .
    thanks to my brother for the trade .
    reviewed from notes taken last summer .
    this one is sold in our state since may .
    we opened it after dinner on the porch .
    the label shows a ship and a lighthouse .
    it is brewed once a year in winter .
    i picked up a single bottle last week .
    the brewery sits by the old harbor .
    poured from a can into a pint glass .
    my second bottle from this brewer .
    shared with a neighbor during the game .
    the cap was hard to remove .
    they list the alcohol at six percent .
    found it on a road trip up north .
    it sat in my fridge for a month .
    i was told to let it warm a bit .
    on tap at the festival , small pour .
    the style is new to me .
    bought it in a mixed pack of six .
    bottled in march according to the neck .
    drank it while the rain came down .
"""


def _split(text: str) -> tuple[list[str], ...]:
    return tuple(line.split() for line in text.strip().splitlines())


_TEMPLATES = {aspect: _split(text) for aspect, text in _TEXT.items()}
_FILLERS = _split(_WITHOUT_SCORE)


@dataclass(frozen=True, slots=True)
class Review:
    """A made-up review with everything that is known about it."""

    tokens: list[str]
    scores: list[float]
    """Five in [0, 1], in the order of `ASPECTS`."""

    spans: dict[str, list[list[int]]]
    """Aspect -> [start, end) of each of its sentences; empty where the review says nothing about it."""


def write_beer(
    folder: Path, *, seed: int, num_reviews: int = NUM_REVIEWS, num_annotated: int = NUM_ANNOTATED
) -> None:
    """Write `reviews.aspect{0,1,2}.heldout.txt` and `annotations.json`; equal arguments give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(3):
        text = _reviews(number, seed, num_reviews)
        (folder / f"reviews.aspect{number}.heldout.txt").write_text(text, encoding="utf-8")
    (folder / "annotations.json").write_text(_annotations(seed, num_annotated), encoding="utf-8")


@functools.lru_cache(4)  # a process that writes several folders, as tests do, draws the reviews once
def _reviews(number: int, seed: int, num_reviews: int) -> str:
    rng = random.Random(f"reviews {number} {seed}")
    return "".join(_review_line(make_review(rng)) for _ in range(num_reviews))


@functools.lru_cache(1)
def _annotations(seed: int, num_annotated: int) -> str:
    rng = random.Random(f"annotations {seed}")
    rids = rng.sample(range(10_000, 1_000_000), num_annotated)
    return "".join(_annotation_line(make_review(rng, p_unmentioned=_P_UNMENTIONED), rid) for rid in rids)


def make_review(rng: random.Random, p_unmentioned: float = 0.0) -> Review:
    """One review; each of the first three aspects is left out with the given probability."""
    while True:
        review = _draw_review(rng, p_unmentioned)
        if len(review.tokens) in _LENGTHS:
            return review


def _draw_review(rng: random.Random, p_unmentioned: float) -> Review:
    scores: dict[str, float] = {}
    sentences: list[tuple[str | None, list[str]]] = []
    for aspect in NATURAL_ORDER:
        own, scores[aspect] = _aspect_sentences(rng, aspect)
        if aspect in ASPECTS[3:] or rng.random() >= p_unmentioned:
            sentences.extend((aspect, sentence) for sentence in own)
    if rng.random() < _P_SHUFFLED:
        rng.shuffle(sentences)
    for _ in range(rng.choice((0, 1, 1, 2))):
        sentences.insert(rng.randrange(len(sentences) + 1), (None, rng.choice(_FILLERS)))
    tokens: list[str] = []
    spans: dict[str, list[list[int]]] = {aspect: [] for aspect in ASPECTS}
    for owner, sentence in sentences:
        if owner is not None:
            spans[owner].append([len(tokens), len(tokens) + len(sentence)])
        tokens.extend(sentence)
    return Review(tokens=tokens, scores=[scores[aspect] for aspect in ASPECTS], spans=spans)


def _aspect_sentences(rng: random.Random, aspect: str) -> tuple[list[list[str]], float]:
    """One or two sentences about an aspect, and its score: the mean grade of their graded words."""
    level = rng.random()
    num_sentences = 2 if rng.random() < _P_SECOND_SENTENCE else 1
    sentences, grades = [], []
    for template in rng.sample(_TEMPLATES[aspect], num_sentences):
        words = list(template)
        for position, word in enumerate(template):
            if word == "{}":
                words[position], grade = _graded_word(rng, aspect, level)
                grades.append(grade)
        sentences.append(words)
    return sentences, round(sum(grades) / len(grades), 2)


def _graded_word(rng: random.Random, aspect: str, level: float) -> tuple[str, float]:
    wanted = level + rng.gauss(0, _SPREAD)
    row = min(range(len(_GRADES)), key=lambda i: abs(_GRADES[i] - wanted))
    words = _SHARED if rng.random() < _P_SHARED_WORD else _OWN[aspect]
    return rng.choice(words[row]), _GRADES[row]


def _review_line(review: Review) -> str:
    return " ".join(f"{score:.2f}" for score in review.scores) + "\t" + " ".join(review.tokens) + "\n"


def _annotation_line(review: Review, rid: int) -> str:
    record: dict[str, Any] = {str(i): review.spans[aspect] for i, aspect in enumerate(ASPECTS)}
    record["raw"] = str({"review/text": " ".join(review.tokens)})
    record.update(y=review.scores, x=review.tokens, rid=rid)
    return json.dumps(record) + "\n"


OWN_ASPECT = "palate"
"""What the corpora of one's own data are about."""

OWN_SIZES = {"train": 1350, "val": 150, "test": 150}
_P_UNANNOTATED = 0.2
"""Share of a split's texts that nobody annotated, to show that there may be such."""

_SCORE_RANGE = (0, 5)


def write_jsonl(folder: Path, *, seed: int, sizes: Mapping[str, int] = OWN_SIZES) -> None:
    """Write a regression in the format of `feature_store.sources.jsonl`; equal arguments give equal bytes."""
    for split, reviews in _own_reviews("jsonl", seed, sizes).items():
        _write_lines(folder / f"{split}.jsonl", [_own_record(*entry) for entry in reviews])
    low, high = _SCORE_RANGE
    text = (
        f'title = "made-up reviews: how a beer feels"\nkind = "regression"\nscore_range = [{low}, {high}]\n'
    )
    (folder / "task.toml").write_text(text, encoding="utf-8")


def write_eraser(folder: Path, *, seed: int, sizes: Mapping[str, int] = OWN_SIZES) -> None:
    """Write a classification in ERASER's format, `docs.jsonl` included; equal arguments give equal bytes."""
    documents: list[dict[str, Any]] = []
    for split, reviews in _own_reviews("eraser", seed, sizes).items():
        records = []
        for number, (review, is_annotated) in enumerate(reviews):
            name = f"{split}_{number:04d}.txt"
            documents.append({"docid": name, "document": " ".join(review.tokens).replace(" . ", " .\n")})
            records.append(_eraser_record(name, review, is_annotated))
        _write_lines(folder / f"{split}.jsonl", records)
    _write_lines(folder / "docs.jsonl", documents)


def _own_reviews(name: str, seed: int, sizes: Mapping[str, int]) -> dict[str, list[tuple[Review, bool]]]:
    """For each split, reviews and whether somebody annotated them."""
    rng = random.Random(f"{name} {seed}")
    return {
        split: [(make_review(rng), rng.random() >= _P_UNANNOTATED) for _ in range(size)]
        for split, size in sizes.items()
    }


def _own_record(review: Review, is_annotated: bool) -> dict[str, Any]:
    starts = [0]
    for token in review.tokens:
        starts.append(starts[-1] + len(token) + 1)
    spans = [[starts[start], starts[end] - 1] for start, end in review.spans[OWN_ASPECT]]
    low, high = _SCORE_RANGE
    score = low + review.scores[ASPECTS.index(OWN_ASPECT)] * (high - low)
    return {
        "text": " ".join(review.tokens),
        "score": round(score, 2),
        "rationale": spans if is_annotated else None,
    }


def _eraser_record(name: str, review: Review, is_annotated: bool) -> dict[str, Any]:
    evidences = [
        {"docid": name, "start_token": start, "end_token": end, "text": " ".join(review.tokens[start:end])}
        for start, end in review.spans[OWN_ASPECT]
    ]
    return {
        "annotation_id": name,
        "classification": "POS" if review.scores[ASPECTS.index(OWN_ASPECT)] >= 0.5 else "NEG",
        "docids": [name],
        "evidences": [evidences] if is_annotated else [],
        "query": f"what is said about the {OWN_ASPECT} ?",
        "query_type": None,
    }


def _write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
