"""The pool of an aspect of beer: which reviews of the other aspects' files are learnt from, and how."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from feature_store import embeddings
from feature_store.checks import check_features
from feature_store.embeddings import Matrix
from feature_store.errors import BadInputError, MissingDataError, RequestError
from feature_store.sources import REGISTRY
from feature_store.sources.base import Example, Query, Report, resolve_options
from feature_store.sources.beer_pool import (
    KEY_TOKENS,
    Known,
    Pool,
    adjusted,
    chosen,
    mean_correlations,
    unknown_reviews,
)
from feature_store.store import FeatureRequest, Features, fingerprint_of, open_features, provenance_of
from feature_store.survey import survey
from tests.own_corpora import examples_of

BEER = REGISTRY["beer"]
Ask = Callable[..., FeatureRequest]


def read(corpus: Path, how: str, aspect: str = "palate") -> tuple[list[Example], Report]:
    report, options = Report(), {"pool": how}
    inputs = BEER.inputs(corpus, aspect, options)
    query = Query(inputs=inputs, aspect=aspect, options=options, max_bytes=10**7)
    return examples_of(BEER.frames(query, BEER.task(query, report), report)), report


def of_pool(examples: list[Example]) -> list[Example]:
    return [e for e in examples if e.example_id.startswith(("reviews.aspect0.", "reviews.aspect1."))]


def beginning(tokens: list[str]) -> tuple[str, ...]:
    return tuple(tokens[:10])


def lines_of(corpus: Path, numbers: tuple[int, ...] = (0, 1)) -> list[tuple[str, list[str], list[str]]]:
    """Place, scores and tokens of every line of the files of these aspects."""
    found = []
    for number in numbers:
        path = corpus / "beer" / f"reviews.aspect{number}.heldout.txt"
        for i, line in enumerate(path.read_text().splitlines(), start=1):
            scores, text = line.split("\t")
            found.append((f"reviews.aspect{number}.heldout:{i}", scores.split(), text.split()))
    return found


def other_file(corpus: Path) -> Path:
    return corpus / "beer" / "reviews.aspect0.heldout.txt"


# ------------------------------------------------------------------------------------------- which reviews


def test_plain_takes_every_review_of_the_other_two_files(corpus: Path):
    own, _ = read(corpus, "none")
    every, report = read(corpus, "plain")
    pool = of_pool(every)
    assert every[: len(own)] == own, "the aspect's own reviews stay as they are"
    assert every[len(own) :] == pool and {example.split for example in pool} == {"train"}
    seen = {beginning(example.tokens) for example in own}
    expected = []
    for place, scores, tokens in lines_of(corpus):
        if beginning(tokens) not in seen:
            expected.append((place, tokens, np.float32(scores[2]), None))
        seen.add(beginning(tokens))
    assert [(e.example_id, e.tokens, e.target, e.rationale) for e in pool] == expected
    assert len(expected) > 100
    assert (report.counts["pool"], report.counts["pool_equal"]) == (len(pool), 120 - len(pool))


@pytest.mark.parametrize("aspect", ["appearance", "smell", "palate"])
def test_each_aspect_has_the_files_of_the_other_two(corpus: Path, aspect: str):
    others = {"appearance", "smell", "palate"} - {aspect}
    roles = set(BEER.inputs(corpus, aspect, {"pool": "vectors"})) - set(BEER.inputs(corpus, aspect))
    assert roles == {f"pool_{name}" for name in others}


def test_a_review_that_begins_as_another_one_is_left_out(corpus: Path, heldout: Path, annotations: Path):
    annotated = json.loads(annotations.read_text().splitlines()[3])["x"]
    own = heldout.read_text().splitlines()[5].split("\t")[1].split()
    pooled = other_file(corpus).read_text().splitlines()[0].split("\t")[1].split()
    whole, before = read(corpus, "plain")
    with other_file(corpus).open("a") as stream:
        for text in (annotated, own, pooled):
            changed = [*text[:KEY_TOKENS], "and", "now", "for", "something", "else"]
            stream.write("0.1 0.2 0.3 0.4 0.5\t" + " ".join(changed) + "\n")
        stream.write("0.1 0.2 0.3 0.4 0.5\t" + " ".join([*own[: KEY_TOKENS - 1], "else"]) + "\n")
    examples, report = read(corpus, "plain")
    assert len(of_pool(examples)) == len(of_pool(whole)) + 1
    assert report.counts["pool_equal"] == before.counts["pool_equal"] + 3


def test_a_short_review_counts_by_all_its_tokens():
    known = Known(2)
    texts = [["thin"], ["thin", "."], ["thin"]]
    frame = pl.DataFrame({"place": ["0", "1", "2"], "scores": [[0.0] * 5] * 3, "text": map(" ".join, texts)})
    pool = unknown_reviews(lambda: [frame], known)
    assert (list(pool.places), pool.num_equal) == (["0", "1"], 1)


def test_an_error_in_a_pooled_file_names_its_line(
    corpus: Path, change_line: Callable[[Path, int, str], None]
):
    change_line(other_file(corpus), 7, "0.1 0.2 0.3\tthin body")
    with pytest.raises(BadInputError, match="expected 5 scores, but got 3") as caught:
        read(corpus, "plain")
    assert str(caught.value.where) == f"{other_file(corpus)}:7"
    read(corpus, "none")


def test_a_missing_file_of_the_pool_is_named(corpus: Path):
    other_file(corpus).unlink()
    BEER.inputs(corpus, "palate")
    with pytest.raises(MissingDataError, match=f"no file {other_file(corpus)}.gz or {other_file(corpus)}"):
        BEER.inputs(corpus, "palate", {"pool": "plain"})


def test_an_unknown_pool_gets_a_suggestion():
    message = "takes `none`, `plain`, `residual`, `vectors`, `adjusted`, but got `plane`"
    with pytest.raises(RequestError, match=message) as caught:
        resolve_options(BEER, {"pool": "plane"})
    assert caught.value.hint == "did you mean `--option pool=plain`?"


# ------------------------------------------------------------------------------------ the largest residuals


def test_mean_correlations_are_numpys():
    scores = np.random.default_rng(0).uniform(size=(40, 5))
    found = mean_correlations(scores, 2)
    assert np.isnan(found[0]), "one review has no correlation"
    for count in (2, 3, 17, 40):
        matrix = np.corrcoef(scores[:count].T)
        expected = np.mean([abs(matrix[2, other]) for other in (0, 1, 3, 4)])
        assert found[count - 1] == pytest.approx(expected, abs=1e-9)


def test_a_score_that_does_not_vary_has_no_correlation():
    scores = np.random.default_rng(0).uniform(size=(20, 5))
    scores[:, 4] = 0.3
    assert np.isnan(mean_correlations(scores, 2)).all()


def made(num: int, num_free: int) -> tuple[Pool, Known]:
    """A pool whose palate follows taste but for the first reviews; in own reviews it does so a little."""
    rng = np.random.default_rng(1)
    scores = rng.uniform(size=(num, 5))
    scores[num_free:, 2] = scores[num_free:, 3]
    own = Known(2)
    theirs = rng.uniform(size=(2000, 5))
    theirs[:, 2] = 0.7 * theirs[:, 2] + 0.3 * theirs[:, 3]
    own.scores = theirs.tolist()
    return Pool({f"line {i}": i for i in range(num)}, scores, 0), own


def test_residual_takes_those_that_the_other_scores_do_not_tell():
    pool, own = made(600, 200)
    kept = {int(place.removeprefix("line ")) for place in chosen(pool, own)}
    limit = mean_correlations(np.array(own.scores), 2)[-1]
    inside = pool.scores[sorted(kept)]
    assert mean_correlations(inside, 2)[-1] <= limit < mean_correlations(pool.scores, 2)[-1]
    assert len(kept & set(range(200))) > 2 / 3 * len(kept), "twice their share of the pool"
    target, inputs = pool.scores[:, 2], np.column_stack([np.ones(600), pool.scores[:, [0, 1, 3, 4]]])
    missed = np.abs(target - inputs @ np.linalg.lstsq(inputs, target, rcond=None)[0])
    left = sorted(set(range(600)) - kept)
    assert missed[sorted(kept)].min() >= missed[left].max() - 1e-9


def test_a_pool_of_no_or_one_review_is_left_out():
    own = made(5, 5)[1]
    assert list(chosen(Pool({}, np.empty((0, 5)), 3), own)) == []
    assert list(chosen(Pool({"line 0": 0}, np.full((1, 5), 0.5), 0), own)) == []


def tie(path: Path, step: int) -> None:
    """Let palate's score be taste's in every line, or in one of `step`."""
    lines = path.read_text().splitlines(keepends=True)
    for i in range(0, len(lines), step):
        scores, tab, text = lines[i].partition("\t")
        look, smell, _, taste, overall = scores.split()
        lines[i] = " ".join([look, smell, taste, taste, overall]) + tab + text
    path.write_text("".join(lines))


def test_residual_is_a_part_of_plain(corpus: Path, heldout: Path):
    tie(other_file(corpus), step=1)
    tie(heldout, step=4)
    plain, residual = (of_pool(read(corpus, how)[0]) for how in ("plain", "residual"))
    assert 0 < len(residual) < len(plain)
    assert [example for example in plain if example in residual] == residual, "in the files' order"


# --------------------------------------------------------------------------------------- adjusted targets


def test_adjusted_targets_by_hand():
    # palate is 0.2 + 0.5 taste; the last two reviews lie 0.1 above and below it, at equal scores
    scores = np.full((6, 5), 0.4)
    scores[:, 3] = [0.0, 0.2, 0.8, 1.0, 0.5, 0.5]
    scores[:, 2] = 0.2 + 0.5 * scores[:, 3] + [0, 0, 0, 0, 0.1, -0.1]
    assert adjusted(scores, 2) == pytest.approx([0.45, 0.45, 0.45, 0.45, 0.55, 0.35])


def test_adjusted_targets_are_uncorrelated_with_the_other_scores():
    scores = np.random.default_rng(0).uniform(0.3, 0.7, size=(200, 5))
    scores[:, 2] = 0.5 * scores[:, 2] + 0.5 * scores[:, 3]
    found = adjusted(scores, 2)
    assert found.mean() == pytest.approx(scores[:, 2].mean())
    for other in (0, 1, 3, 4):
        assert np.corrcoef(found, scores[:, other])[0, 1] == pytest.approx(0, abs=1e-5)


def test_adjusted_targets_stay_in_their_range():
    scores = np.random.default_rng(0).integers(0, 2, size=(50, 5)).astype(float)
    assert ((adjusted(scores, 2) >= 0) & (adjusted(scores, 2) <= 1)).all()


def test_only_targets_of_training_texts_are_adjusted(corpus: Path):
    (plain, _), (found, report) = read(corpus, "plain"), read(corpus, "adjusted")
    pairs = list(zip(plain, found, strict=True))
    scores = {place: [float(s) for s in row] for place, row, _ in lines_of(corpus, (0, 1, 2))}
    train = [example.example_id for example in plain if example.split == "train"]
    expected = adjusted(np.array([scores[place] for place in train]), 2)
    assert [e.target for e in found if e.split == "train"] == pytest.approx(expected.tolist())
    assert all(a == b for a, b in pairs if a.split != "train")
    assert all((a.example_id, a.tokens, a.split) == (b.example_id, b.tokens, b.split) for a, b in pairs)
    assert any(
        "minus the part that a linear regression on the other scores predicts" in n for n in report.notes
    )
    assert report.counts["annotated"] == 30, "the files are read twice, and counted once"


# ------------------------------------------------------------------------------------------- what is built


@pytest.mark.parametrize("how", ["plain", "residual", "vectors", "adjusted"])
def test_each_pool_has_features_of_its_own(make_request: Ask, how: str):
    without, request = make_request(), make_request(options={"pool": how})
    assert fingerprint_of(request) != fingerprint_of(without)
    features = open_features(request)
    assert features.provenance["parameters"]["options"] == {"pool": how}
    assert {"pool_appearance", "pool_smell"} <= set(features.provenance["digests"])
    assert check_features(features) == []
    assert [note for note in features.notes if f"`pool={how}`: " in note]


def test_without_a_pool_the_features_are_those_of_before(make_request: Ask):
    stated = make_request(options={"pool": "none"})
    assert fingerprint_of(stated) == fingerprint_of(make_request())
    _, made_of = provenance_of(stated)
    assert made_of["parameters"]["options"] == {}, "as before the option existed"
    assert set(made_of["digests"]) == {"annotations", "heldout"}


def test_a_change_of_a_pooled_file_counts(make_request: Ask, corpus: Path):
    requests = [make_request(options={"pool": how}) for how in ("plain", "none")]
    before = [fingerprint_of(request) for request in requests]
    other_file(corpus).write_text("0.1 0.2 0.3 0.4 0.5\tthin body\n" + other_file(corpus).read_text())
    after = [fingerprint_of(request) for request in requests]
    assert before[0] != after[0] and before[1] == after[1]


def built(make_request: Ask, how: str, **changes: object) -> Features:
    return open_features(make_request(options={"pool": how}, **changes))


def test_vectors_leave_the_training_texts_alone(make_request: Ask):
    without, features = built(make_request, "none"), built(make_request, "vectors")
    assert features.splits == (*without.splits, "pool")
    columns = ["example_id", "tokens", "target", "rationale"]
    for split in without.splits:
        assert features.table(split).select(columns).equals(without.table(split).select(columns))
    assert features.task == without.task
    of_plain = built(make_request, "plain").table("train").slice(len(without.table("train")))
    assert features.table("pool").select(columns).equals(of_plain.select(columns))


def test_the_pool_is_cut_as_training_texts_are(make_request: Ask):
    features = built(make_request, "vectors", max_length=5)
    assert max(map(len, features.table("pool")["tokens"].to_pylist())) == 5


def test_vectors_learn_words_of_the_pool(make_request: Ask, corpus: Path, monkeypatch: pytest.MonkeyPatch):
    read: list[list[str]] = []

    def word2vec(vocabulary, counts, sentences, *, size: int, seed: int) -> Matrix:
        read.extend(sentences)
        return embeddings.random(vocabulary, size=size, seed=seed)

    monkeypatch.setattr(embeddings, "word2vec", word2vec)
    with other_file(corpus).open("a") as stream:
        stream.write("0.1 0.2 0.3 0.4 0.5\tquince quince jelly\n")
    features = built(make_request, "vectors", embedding="word2vec")
    texts = [row for split in ("train", "pool") for row in features.table(split)["tokens"].to_pylist()]
    assert read == texts
    (number,) = features.vocabulary.encode(["quince"])
    assert features.token_counts[number] == 2
    assert features.token_counts.sum() == sum(map(len, texts))
    assert "quince" not in built(make_request, "none", embedding="word2vec").vocabulary.tokens


def test_a_survey_counts_the_pool(make_request: Ask):
    found = survey(make_request(options={"pool": "vectors"}))
    assert 100 < found.sizes["pool"].rows <= 120 and found.sizes["pool"].annotated == 0
    assert any("`pool=vectors`" in note for note in found.notes)
