"""Which cases of CAIL2018 are kept, and the classes of terms: the two published ways of preparing it.

They differ in the edges of the classes of terms, which gives many cases another class, in who is counted for
a rare label, and in cases with several defendants; so a result says which recipe it was measured with.
"""

from dataclasses import dataclass

MIN_CASES = 100
"""Charges and articles of fewer cases are left out: [Sha2023] section 4.3, [Zhong et al. 2018]."""

FIRST_ARTICLE, LAST_ARTICLE = 102, 452
"""The articles of the criminal code that name crimes; the ones before are its general part."""

LIFE_OR_DEATH = "life or death"


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A line of the official files."""

    fact: str
    charges: tuple[str, ...]
    """Different ones, without brackets."""

    articles: tuple[int, ...]
    num_defendants: int
    months: int
    """Months of imprisonment, 0 for none; means nothing where `life_or_death`."""

    life_or_death: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseRecipe:
    """A way of preparing the cases."""

    name: str
    least_months: tuple[int, ...]
    """The fewest months of each class of terms, from the longest to 0; life and death are class 0."""

    max_defendants: int | None
    """None where it does not matter."""

    counts_everywhere: bool
    """Whether a label's cases are counted in all files, or in the train file only."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why `refuses` may leave out a case, in the order of the filters."""
        in_code = f"with an article outside {FIRST_ARTICLE}-{LAST_ARTICLE}"
        every = ("with no charge or several", "with no article or several", in_code)
        return every if self.max_defendants is None else (*every, "with several defendants")

    def refuses(self, case: Case) -> str | None:
        """The first reason why the case is left out, whatever the others hold; None where there is none."""
        one_charge, one_article, in_code, *single = self.reasons
        if len(case.charges) != 1:
            return one_charge
        if len(case.articles) != 1:
            return one_article
        if not FIRST_ARTICLE <= case.articles[0] <= LAST_ARTICLE:
            return in_code
        if self.max_defendants is not None and case.num_defendants > self.max_defendants:
            return single[0]
        return None

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of the classes of terms, in the order of their numbers."""
        names = [LIFE_OR_DEATH, f"{self.least_months[0]} months or more"]
        for above, least in zip(self.least_months, self.least_months[1:], strict=False):
            names.append("no imprisonment" if least == 0 else f"{least}-{above - 1} months")
        return tuple(names)

    def term_class(self, case: Case) -> int:
        """Number of the class of a case's term."""
        if case.life_or_death:
            return 0
        return 1 + next(number for number, least in enumerate(self.least_months) if case.months >= least)


_TOPJUDGE = CaseRecipe(
    name="topjudge",
    least_months=(121, 85, 61, 37, 25, 13, 10, 7, 1, 0),  # more than 10, 7, 5, 3, 2, 1 years, 9, 6, 0 months
    max_defendants=None,
    counts_everywhere=True,
)
"""[Zhong et al. 2018], as the numbers of the paper's tables."""

_INFOCAL = CaseRecipe(
    name="infocal",
    least_months=(120, 84, 60, 36, 24, 12, 9, 6, 1, 0),
    max_defendants=1,
    counts_everywhere=False,
)
"""The code that the authors of [Sha2023] published."""

RECIPES = {recipe.name: recipe for recipe in (_TOPJUDGE, _INFOCAL)}
