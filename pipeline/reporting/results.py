"""What a study found, as plain values: gathered from the tracker by `findings`, shown by `pages`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.training.best import Standing, best_first, prediction_of
from pipeline.training.epochs import EpochMetrics
from search_spaces.base import Criterion

MISSING = "–"


def number(value: float | None, digits: int = 3, missing: str = MISSING) -> str:
    """A number to so many places, never -0.0; a dash where it is missing or not finite."""
    return missing if value is None or not math.isfinite(value) else f"{value:z.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction in percent; a dash where it is missing or not finite."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{number(100 * value, digits)}\N{NO-BREAK SPACE}%"


_MOST_PLACES = 6


def rough(value: float | None) -> str:
    """A size, >= 0, to two significant digits and without an exponent: `0.012`, `1.5`, `300`.

    Whole numbers keep all their digits. A dash stands where the size is missing or not finite.
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if 0 < value < 10.0**-_MOST_PLACES:
        return f"< {10.0**-_MOST_PLACES:.{_MOST_PLACES}f}"
    exponent = math.floor(math.log10(value)) if value > 0 else 0
    places = min(max(1 - exponent, 0), _MOST_PLACES)
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def rough_percent(value: float | None) -> str:
    """A fraction that may be far from 1, in percent: `0.012 %`, `300 %`."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{rough(100 * value)}\N{NO-BREAK SPACE}%"


def setting(value: float | str | None, digits: int = 4, missing: str = MISSING) -> str:
    """A hyper-parameter's value to so many digits; a dash where it has none."""
    if value is None:
        return missing
    if isinstance(value, str | bool):
        return str(value)
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < _LARGE else f"{value:.{digits}g}"


_LARGE = 1e9
"""From here on a whole number is written with an exponent."""


def give_or_take(value: str, error: str) -> str:
    """A figure with its standard error: `0.612 ± 0.034`."""
    return f"{value} ± {error}" if error else value


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialResult:
    """One trial and the scores of its best epoch on validation; None: not known."""

    run_id: str
    name: str
    status: str
    """FINISHED, FAILED, KILLED or RUNNING, as the tracker says it."""
    failure: str = ""
    """Why it ended before its time; empty where it did not."""
    is_stopped_early: bool = False
    seed: str = ""
    """Seed of a trial that repeats the winner; empty for a trial of the search."""
    searched: Mapping[str, float | str] = field(default_factory=dict)
    """The hyper-parameters that the search varied: numbers, and choices as texts. One that applies to some
    trials only is left out of the others."""
    epoch: int | None = None
    """Best epoch, from 0."""
    objective: float | None = None
    """The criterion's value at the best epoch: below 0 where a bound is broken."""
    lower_bound: float | None = None
    """The low end of what the criterion maximises, over bootstrap resamples of validation texts."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores of the best epoch by their flat names, without `val_`."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Their standard errors over bootstrap resamples of validation texts, where they were drawn."""
    started: float | None = None
    """Seconds since 1970."""
    ended: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    """Weight -> share of the gradient that its term has in the last epoch; see `infocal.gradient_shares`."""
    is_won_by_discriminator: bool = False
    """Whether InfoCal's discriminator told all features apart in the last epoch."""

    @property
    def precision(self) -> float | None:
        """Token precision."""
        return self.scores.get("token_precision")

    @property
    def recall(self) -> float | None:
        """Token recall."""
        return self.scores.get("token_recall")

    @property
    def standing(self) -> Standing:
        """What it is ranked by, where it has a value of the criterion."""
        return Standing(
            value=self.objective or 0.0,
            epoch=self.epoch or 0,
            lower_bound=self.lower_bound,
            prediction=prediction_of(self.scores, ""),
        )

    @property
    def is_complete(self) -> bool:
        """Whether it was trained to its end and has a value of the criterion."""
        return self.objective is not None and not self.is_stopped_early and self.status == "FINISHED"

    @property
    def seconds(self) -> float | None:
        """How long it took; None where its end is not known."""
        return None if self.started is None or self.ended is None else self.ended - self.started

    @property
    def is_met(self) -> bool:
        """Whether its best epoch keeps the criterion's bounds."""
        return self.objective is not None and self.objective >= 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreRow:
    """A row of the comparison; what nobody measured is left out."""

    name: str
    scores: Mapping[str, float] = field(default_factory=dict)
    """By their flat names, without a prefix."""
    note: str = ""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Standard errors of the scores, where they are known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Searched:
    """A hyper-parameter that the search varied."""

    name: str
    log: bool = False
    high: float | None = None
    """Highest value of its range; None: not known, or no range."""
    is_choice: bool = False
    """Whether its values are no numbers on a scale, but chosen from a list."""
    is_conditional: bool = False
    """Whether some trials only varied it: it depends on another hyper-parameter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Links:
    """Where more is shown of a trial; empty where there is none."""

    run: str
    """Its run in MLflow."""
    rationales: str = ""
    """Its texts with their rationales."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """Everything that a study's page shows."""

    study: str
    run_id: str
    dataset: str
    aspect: str
    status: str
    is_sample: bool
    """Whether the corpus was the made-up one."""
    criterion: Criterion | None
    notes: Sequence[str]
    """What must be said aloud about the data."""
    facts: Mapping[str, str]
    """How the study was run: command, seed, fingerprint of the data, commit; what is unknown is left out."""
    searched: Sequence[Searched]
    trials: Sequence[TrialResult]
    """In the order in which they started; without repetitions of the winner."""
    winner: TrialResult | None
    """The best trial by the criterion, whether or not it meets it."""
    replicates: Sequence[TrialResult] = ()
    spread: Sequence[tuple[str, float, float]] = ()
    """Flat name of a score, mean and deviation of the winner over its seeds."""
    num_seeds: int = 1
    importance: Mapping[str, float] = field(default_factory=dict)
    """Share of the objective's variance, by hyper-parameter; they sum to 1."""
    importance_note: str = ""
    """How it was computed, or why it was not."""
    unheard: Sequence[str] = ()
    """What is to be said of weights that cannot matter; names stand between backticks."""
    curves: Mapping[str, Sequence[EpochMetrics]] = field(default_factory=dict)
    """Trial's name -> its epochs, the best trials first."""
    predictions: Sequence[Mapping[str, Any]] = ()
    """The winner's `best/predictions.json`."""
    trivial: Sequence[ScoreRow] = ()
    """Trivial rationales at the winner's selection rate."""
    trivial_note: str = ""
    """On which texts they were computed."""
    readings: Sequence[ScoreRow] = ()
    """The winner on the test split, where that was read."""

    links: Mapping[str, Links] = field(default_factory=dict)
    """By the id of a trial's run."""
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Id of a trial's run -> registered models that it became, with their aliases, and by
    which criterion, where that is not the study's."""
    model_names: Sequence[str] = ()
    """Registered models that its trials may be versions of."""
    title: str = ""
    """How own data are called; empty where the data set says it all."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the data set that differ from its defaults."""
    advice: str = ""
    """What to do where no trial meets the criterion; commands stand between backticks."""
    evaluate: str = ""
    """The command that scores the winner on the test split; empty: there is no winner."""
    table: str = ""
    """Where MLflow shows the trials as a table; empty where it has no such view."""

    @property
    def is_winner_by_interval(self) -> bool:
        """Whether the winner meets the criterion and its interval begins highest.

        Not so where no interval was drawn, and where `--seeds auto` chose the winner by its mean over seeds.
        """
        scored = [trial for trial in self.trials if trial.objective is not None]
        if self.winner is None or not scored or self.winner.lower_bound is None or not self.winner.is_met:
            return False
        return best_first(scored, lambda trial: trial.standing)[0].run_id == self.winner.run_id

    @property
    def front(self) -> list[TrialResult]:
        """Trials trained to their end that no other beats in precision and recall, by rising recall."""
        scored = [
            t
            for t in self.trials
            if t.precision is not None and t.recall is not None and not t.is_stopped_early
        ]
        front: list[TrialResult] = []
        best = float("-inf")
        for trial in sorted(scored, key=lambda t: (-(t.recall or 0), -(t.precision or 0))):
            if (trial.precision or 0) > best:
                best = trial.precision or 0
                front.append(trial)
        return front[::-1]
