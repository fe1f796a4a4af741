"""Classes of terms at their edges, and which cases a recipe refuses."""

from typing import Any

import pytest

from feature_store.cail_recipes import RECIPES, Case

TOPJUDGE, INFOCAL = RECIPES["topjudge"], RECIPES["infocal"]


def case(**changes: Any) -> Case:
    given = {
        "charges": ("盗窃",),
        "articles": (264,),
        "num_defendants": 1,
        "months": 6,
        "life_or_death": False,
    }
    return Case(fact="事实", **{**given, **changes})


@pytest.mark.parametrize(
    ("months", "topjudge", "infocal"),
    [
        # > 120, > 84, > 60, > 36, > 24, > 12, > 9, > 6, > 0, 0 months; the other recipe has >= for >
        (0, 10, 10),
        (1, 9, 9),
        (5, 9, 9),
        (6, 9, 8),
        (7, 8, 8),
        (9, 8, 7),
        (10, 7, 7),
        (12, 7, 6),
        (13, 6, 6),
        (24, 6, 5),
        (25, 5, 5),
        (36, 5, 4),
        (37, 4, 4),
        (60, 4, 3),
        (61, 3, 3),
        (84, 3, 2),
        (85, 2, 2),
        (120, 2, 1),
        (121, 1, 1),
        (300, 1, 1),
    ],
)
def test_classes_of_terms_at_their_edges(months: int, topjudge: int, infocal: int):
    assert TOPJUDGE.term_class(case(months=months)) == topjudge
    assert INFOCAL.term_class(case(months=months)) == infocal


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_life_and_death_are_a_class_of_their_own(recipe: Any):
    assert recipe.term_class(case(months=36, life_or_death=True)) == 0
    assert len(recipe.term_names) == len(set(recipe.term_names)) == 11


def test_names_of_the_classes_of_terms():
    assert TOPJUDGE.term_names == (
        *("life or death", "121 months or more", "85-120 months", "61-84 months", "37-60 months"),
        *("25-36 months", "13-24 months", "10-12 months", "7-9 months", "1-6 months", "no imprisonment"),
    )
    assert INFOCAL.term_names[1:4] == ("120 months or more", "84-119 months", "60-83 months")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"charges": ()}, "with no charge or several"),
        ({"charges": ("盗窃", "诈骗"), "articles": ()}, "with no charge or several"),
        ({"articles": ()}, "with no article or several"),
        ({"articles": (264, 266)}, "with no article or several"),
        ({"articles": (101,)}, "with an article outside 102-452"),
        ({"articles": (102,)}, None),
        ({"articles": (452,)}, None),
        ({"articles": (453,)}, "with an article outside 102-452"),
        ({"num_defendants": 0}, None),
        ({}, None),
    ],
)
def test_cases_that_both_recipes_treat_alike(changes: dict[str, Any], reason: str | None):
    assert TOPJUDGE.refuses(case(**changes)) == INFOCAL.refuses(case(**changes)) == reason


def test_several_defendants_matter_to_one_recipe():
    assert TOPJUDGE.refuses(case(num_defendants=2)) is None
    assert INFOCAL.refuses(case(num_defendants=2)) == "with several defendants"
    assert "with several defendants" in INFOCAL.reasons
    assert "with several defendants" not in TOPJUDGE.reasons
