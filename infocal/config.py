"""The hyper-parameters, each declared once with its meaning, range and source.

What every method has stands in `MethodConfig`, what those with a selector share in `SelectorConfig`.
InfoCal's own are here too; another method's stand with the method, in `infocal/methods/`.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

from infocal.encoder_registry import ENCODERS
from infocal.errors import ConfigError, did_you_mean

Sampling = Literal["straight_through", "relaxed"]
DiscriminatorLoss = Literal["standard", "printed"]
Calibration = Literal["mean", "sample"]
CalibrationLoss = Literal["discriminator", "policy_gradient", "invase"]
DimensionReduction = Literal["sum", "mean"]
RegularizerForm = Literal["drawn", "expected"]
Pooling = Literal["mean", "max", "last"]
WordState = Literal["mean", "first"]
Unselected = Literal["removed", "zeroed"]
Rationales = Literal["shared", "per_head"]
TaskKind = Literal["regression", "classification"]

_Config = TypeVar("_Config", bound="MethodConfig")
_RANGE, _CHOICES = "range", "choices"
_DENSE_RATE = 1.0
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?")


def _ranged(default: int | float, text: str, fits: Callable[[float], bool]) -> Any:
    """A field with this default that refuses what does not fit, saying `text`."""
    return dataclasses.field(default=default, metadata={_RANGE: (text, fits)})


def non_negative(default: int | float) -> Any:
    """A hyper-parameter that must be >= 0."""
    return _ranged(default, "be >= 0", lambda value: value >= 0)


def positive(default: int | float) -> Any:
    """A hyper-parameter that must be > 0."""
    return _ranged(default, "be > 0", lambda value: value > 0)


def open_unit(default: int | float) -> Any:
    """A hyper-parameter that must lie in (0, 1)."""
    return _ranged(default, "lie strictly between 0 and 1", lambda value: 0 < value < 1)


def half_open_unit(default: int | float) -> Any:
    """A hyper-parameter that must lie in [0, 1)."""
    return _ranged(default, "be >= 0 and < 1", lambda value: 0 <= value < 1)


def closed_unit(default: int | float) -> Any:
    """A hyper-parameter that must lie in [0, 1]."""
    return _ranged(default, "be >= 0 and <= 1", lambda value: 0 <= value <= 1)


def positive_unit(default: int | float) -> Any:
    """A hyper-parameter that must lie in (0, 1]."""
    return _ranged(default, "be > 0 and <= 1", lambda value: 0 < value <= 1)


def one_of(default: str, choices: Iterable[str]) -> Any:
    """A hyper-parameter that must be one of these names."""
    return dataclasses.field(default=default, metadata={_CHOICES: tuple(choices)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What is predicted: one target, or the main target with side targets, each by a head of its own.

    The heads are slices of one output layer, `columns`; they read one feature of one rationale. Where there
    are side targets, the other fields are those of the main one.

    Raises:
        ConfigError: if the variance is not positive, a classification has fewer than two classes, a weight is
            below 0, all weights are 0, several targets have not each a name of their own, or a class has no
            text where there are texts.
    """

    kind: TaskKind
    num_classes: int = 1
    """Number of classes; 1 for regression."""

    target_mean: float = 0.5
    """Mean of the training targets (regression only)."""

    target_variance: float = 1.0
    """Variance of the training targets (regression only), > 0."""

    name: str = ""
    """Of the target, where there are several."""

    weight: float = 1.0
    """Weight of its loss in the sum over targets, >= 0."""

    sides: tuple["Task", ...] = ()
    """The side targets, which have none themselves."""

    texts: tuple[tuple[int, ...], ...] = ()
    """Of each class, the numbers of the words of a text that describes it; empty: there are no such texts."""

    @property
    def heads(self) -> tuple["Task", ...]:
        """Each target by itself, the main one first."""
        return (dataclasses.replace(self, sides=()), *self.sides) if self.sides else (self,)

    @property
    def num_outputs(self) -> int:
        """Columns of the output layer, C: the classes of each classification, 1 for each score."""
        return sum(head.num_classes for head in self.heads)

    @property
    def columns(self) -> tuple[slice, ...]:
        """The columns of each head in the output layer."""
        ends = list(itertools.accumulate((head.num_classes for head in self.heads), initial=0))
        return tuple(slice(start, end) for start, end in itertools.pairwise(ends))

    def weighted(self, weights: Mapping[str, float]) -> "Task":
        """The same with these weights of targets, by name; a target that is not named keeps its own.

        Raises:
            ConfigError: if there is no such target, or all weights are 0.
        """
        known = [head.name for head in self.heads]
        for name in weights:
            if not self.sides:
                raise ConfigError(
                    f"`target_weights` names `{name}`, but weights need several targets, and there is one",
                    hint="leave it out, or name several targets with `--aspect A,B`",
                )
            if name not in known:
                there = ", ".join(f"`{one}`" for one in known)
                raise ConfigError(
                    f"`target_weights`: no target `{name}`; the targets are {there}",
                    hint=did_you_mean(name, known),
                )
        first, *others = (
            dataclasses.replace(head, weight=weights.get(head.name, head.weight)) for head in self.heads
        )
        return dataclasses.replace(first, sides=tuple(others)) if others else self

    def to_dict(self) -> dict[str, Any]:
        """The task as JSON values; of one target what was written before there could be several."""
        found = {name: getattr(self, name) for name in _OF_ONE_TARGET}
        if self.sides or self.name:
            found |= {"name": self.name, "weight": self.weight}
        if self.sides:
            found["sides"] = [side.to_dict() for side in self.sides]
        if self.texts:
            found["texts"] = [list(text) for text in self.texts]
        return found

    @classmethod
    def of_dict(cls, stored: Mapping[str, Any]) -> "Task":
        """What `to_dict` gave."""
        sides = tuple(cls.of_dict(side) for side in stored.get("sides", ()))
        return cls(**{**stored, "sides": sides, "texts": tuple(map(tuple, stored.get("texts", ())))})

    def __post_init__(self) -> None:
        _check_types(self)
        if self.weight < 0:
            raise ConfigError(f"the weight of a target must be >= 0, but got {self.weight} for `{self.name}`")
        if self.sides:
            names = [self.name, *(side.name for side in self.sides)]
            if not all(names) or len(set(names)) < len(names) or any(side.sides for side in self.sides):
                raise ConfigError(f"expected a different name for each target, but got {names}")
            if self.weight + sum(side.weight for side in self.sides) == 0:
                raise ConfigError(
                    f"all target weights are 0, so nothing would be learnt ({', '.join(names)})",
                    hint="give at least one target a weight above 0",
                )
        if self.kind == "regression" and not (
            self.target_variance > 0 and math.isfinite(self.target_variance)
        ):
            raise ConfigError(
                "all training scores are equal, so there is nothing to learn (target variance 0)"
                if self.target_variance == 0
                else f"`target_variance` must be a positive number, but got {self.target_variance}"
            )
        if self.kind == "classification" and self.num_classes < 2:
            raise ConfigError(f"a classification needs at least 2 classes, but got {self.num_classes}")
        if self.texts and (len(self.texts) != self.num_classes or not all(self.texts)):
            raise ConfigError(
                f"expected a text of at least one word for each of {self.num_classes} classes, but got "
                f"{len(self.texts)} texts with {sum(map(len, self.texts))} words"
            )


_OF_ONE_TARGET = ("kind", "num_classes", "target_mean", "target_variance")


def parse_weights(text: str) -> dict[str, float]:
    """Weights of targets by name, from `NAME=NUMBER,NAME=NUMBER`; none of an empty text.

    Raises:
        ConfigError: if the text is another one, or a weight is below 0.
    """
    found: dict[str, float] = {}
    for part in text.split(",") if text else ():
        name, _, number = (piece.strip() for piece in part.partition("="))
        weight = float(number) if _NUMBER.fullmatch(number) else -1.0
        if not name or name in found or not 0 <= weight < math.inf:
            raise ConfigError(
                f"`target_weights` must be NAME=NUMBER,NAME=NUMBER with numbers >= 0, but got {text!r}"
            )
        found[name] = weight
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodConfig:
    """Hyper-parameters that every method has: of its encoders, of its heads and of Adam.

    The defaults are those of the published HardKuma and InfoCal recipes.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    reads_language_model: ClassVar[bool] = False
    """Whether the method's loss reads the scores of a language model."""

    predicts_several: ClassVar[bool] = True
    """Whether a model of the method can have several targets."""

    predicts_one: ClassVar[bool] = True
    """Whether a model of the method can have one target alone."""

    selects_per_head: ClassVar[bool] = False
    """Whether each of several targets can have a rationale of its own."""

    target_selection_rate: float = closed_unit(0.0)
    """Share of tokens that the selection is held at, in [0, 1]; 0: it is not held, 1: nothing is left out."""

    encoder: str = one_of("rcnn", ENCODERS)
    """Encoder of every part: `rcnn` (the paper: beer, HateXplain), `lstm` (CAIL), `cnn` or `transformer`."""

    pretrained: str = ""
    """Weights and tokenizer of a `transformer`: a folder, or a model's name on the Hugging Face hub.

    Other encoders have no use for it, so that a search may choose among all of them.
    """

    encoder_learning_rate: float = positive(2e-5)
    """Adam's step size for pretrained weights, > 0; `learning_rate` is that of all others ([Devlin2019])."""

    frozen_layers: int = non_negative(0)
    """Blocks of a `transformer` that are not trained, from the first one on, >= 0; with them its vectors."""

    gradient_checkpointing: bool = False
    """Whether training computes each block of a `transformer` again in the backward pass.

    That takes less memory and more time; the gradients are the same.
    """

    window_size: int = non_negative(0)
    """Pieces that a `transformer` reads at once, marks included, >= 0; 0: as many as it can."""

    window_stride: int = non_negative(0)
    """Pieces from the start of one window to the next where a text needs several, >= 0; 0: half a window."""

    word_state: WordState = "mean"
    """State of a word of several pieces: their `mean`, or that of the `first` one."""

    unselected: Unselected = "removed"
    """What a `transformer` sees of unselected words where no gradient passes the mask, as at inference.

    `removed`: nothing; `zeroed`: their places, as in training through the mask.
    """

    shared_encoder: bool = False
    """Whether all parts of a model read through one encoder, whose weights they train together."""

    pooling: Pooling = "mean"
    """How a text is reduced to one vector: `mean`, `max` or `last` over the states of its seen tokens."""

    hidden_size: int = positive(200)
    """Hidden units of each direction of a recurrent encoder, half the filters of a `cnn`, >= 1."""

    feature_size: int = positive(32)
    """Dimensions of the feature that the output layer reads (z_nero), >= 1; the paper does not state them."""

    train_embeddings: bool = False
    """Whether the word vectors are trained with the model (the paper: frozen for beer, trained for CAIL)."""

    embedding_dropout: float = half_open_unit(0.2)
    """Share of a word's embedding dimensions set to zero in training, in [0, 1); per word type of a batch.

    A `transformer` has dropout of its own, which its configuration states.
    """

    learning_rate: float = positive(0.0004)
    """Adam's step size, > 0."""

    weight_decay: float = non_negative(2e-6)
    """Adam's L2 penalty, >= 0."""

    clip_norm: float = positive(5.0)
    """Largest norm of the model's gradient, > 0."""

    learning_rate_decay: float = positive_unit(0.97)
    """Factor on the learning rate at each milestone (epochs 25, 50, 75), in (0, 1]."""

    min_learning_rate: float = non_negative(5e-5)
    """Floor of the learning rate, >= 0; never above `learning_rate`."""

    warmup_epochs: float = non_negative(0.0)
    """Epochs over which the learning rate first rises linearly from 0, >= 0."""

    decay_epochs: float = non_negative(0.0)
    """Epochs after which the learning rate has fallen linearly to its floor, >= 0; 0: milestones instead."""

    average_decay: float = half_open_unit(0.0)
    """Decay of the moving average of weights that is evaluated and saved, in [0, 1); 0: no average."""

    batch_size: int = positive(256)
    """Texts per update, >= 1."""

    max_length: int = positive(256)
    """Tokens a training text is cut at, >= 1."""

    target_weights: str = ""
    """Weights of the losses of several targets, `NAME=NUMBER,NAME=NUMBER`, each >= 0; 1 if not named."""

    rationales: Rationales = "shared"
    """With several targets, one rationale for all of them (`shared`) or one for each (`per_head`)."""

    def __post_init__(self) -> None:
        _check_types(self)
        parse_weights(self.target_weights)
        for field in dataclasses.fields(self):
            if _RANGE in field.metadata:
                text, fits = field.metadata[_RANGE]
                value = getattr(self, field.name)
                if not fits(value):
                    raise ConfigError(f"`{field.name}` must {text}, but got {value}")
        self._check_together()

    def _check_together(self) -> None:
        """Refuse values that do not go together."""
        if 0 < self.decay_epochs <= self.warmup_epochs:
            raise ConfigError(
                f"`decay_epochs` must be above `warmup_epochs`, but got {self.decay_epochs} and "
                f"{self.warmup_epochs}"
            )

    def weighted(self, task: Task) -> Task:
        """The task with the weights of `target_weights`.

        Raises:
            ConfigError: if the method cannot have so many or so few targets, or `Task.weighted` refuses the
                weights.
        """
        if task.sides and not self.predicts_several:
            names = ", ".join(f"`{head.name}`" for head in task.heads)
            raise ConfigError(
                f"this method predicts one target, but got {names}", hint="name one of them with `--aspect`"
            )
        if not task.sides and not self.predicts_one:
            raise ConfigError(
                f"this method predicts several targets, but got {f'`{task.name}`' if task.name else 'one'}",
                hint="name several targets with `--aspect A,B`, for example `--task charges,articles,terms`",
            )
        if self.rationales == "per_head":
            self._check_per_head(task)
        return task.weighted(parse_weights(self.target_weights))

    def _check_per_head(self, task: Task) -> None:
        """Refuse a rationale for each target where there is one, or where the method cannot select them."""
        if not task.sides:
            raise ConfigError(
                "`rationales` = per_head needs several targets, but there is one",
                hint="leave it out, or name several targets with `--aspect A,B`",
            )
        if not self.selects_per_head:
            raise ConfigError(
                "`rationales` = per_head needs a method with a selector; this method has one rationale for "
                "all targets",
                hint="leave it out, or use a method with a selector, such as `infocal` (in a comparison: "
                "`--set infocal.rationales=per_head`)",
            )

    def num_rationales(self, task: Task) -> int:
        """Rationales of a text: 1, or the number of targets where each has its own."""
        return len(task.heads) if self.rationales == "per_head" else 1

    @classmethod
    def from_mapping(cls: type[_Config], values: Mapping[str, Any]) -> _Config:
        """Build a config from names and values; what is not named keeps its default.

        Raises:
            ConfigError: on an unknown name (with the nearest known one) or a bad value.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                guess = did_you_mean(name, names) or f"the hyper-parameters are {', '.join(names)}"
                raise ConfigError(f"unknown hyper-parameter `{name}`; {guess}")
        return cls(**values)

    @classmethod
    def defaults_for(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The defaults of those hyper-parameters that `values` lacks: it was written before they existed."""
        return {field.name: field.default for field in dataclasses.fields(cls) if field.name not in values}

    def to_dict(self) -> dict[str, Any]:
        """Every hyper-parameter by name; `from_mapping` is the inverse."""
        return dataclasses.asdict(self)

    def class_texts(self) -> Mapping[str, str]:
        """Files with a text for each class of a target that the method reads, by the target's name."""
        return {}

    def remarks(self) -> list[str]:
        """What tables have to say of the method with these hyper-parameters."""
        return []

    @property
    def start_epochs(self) -> float:
        """Epochs of the start, in which the selection is not yet what the method aims at."""
        return 0.0

    @property
    def is_dense(self) -> bool:
        """Whether every token is selected, always: a row without selection, not a mask that fell to one."""
        return self.target_selection_rate == _DENSE_RATE


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectorConfig(MethodConfig):
    """What methods share whose selector is trained: start dense, then press.

    The defaults are our own experiments' (docs/experiments.md): the published recipes collapse.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    selects_per_head: ClassVar[bool] = True

    start_selection_rate: float = open_unit(0.9)
    """Selection probability of every token before training (the selector's bias), in (0, 1)."""

    dense_epochs: float = non_negative(1.0)
    """Epochs trained dense by L_sp and L_guide alone, before any weight acts, >= 0."""

    ramp_epochs: float = non_negative(1.5)
    """Epochs over which all weights then rise linearly to their full value, >= 0."""

    @property
    def start_epochs(self) -> float:
        """Epochs until every weight has its full value."""
        return self.dense_epochs + self.ramp_epochs


@dataclass(frozen=True, kw_only=True, slots=True)
class RateConfig(SelectorConfig):
    """What methods share that hold their selection rate in training, by a multiplier on its excess.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    lambda_coherence: float = non_negative(0.0)
    """Weight of the fused lasso on the mask, >= 0; not in the paper's objective, see docs/fidelity.md."""

    rate_penalty: float = non_negative(10.0)
    """Weight of the quadratic part of the rate control, >= 0."""

    rate_step_size: float = non_negative(0.1)
    """Step of the rate control's Lagrange multiplier per update, >= 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InfoCalConfig(RateConfig):
    """Hyper-parameters of InfoCal.

    The defaults are the paper's best values for beer where the paper states them, the published
    HardKuma and InfoCal recipes where it is silent, and our own experiments (docs/experiments.md)
    where the published recipe collapses.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    reads_language_model: ClassVar[bool] = True

    lambda_ib: float = non_negative(0.0003)
    """Weight of the selector's information bottleneck, >= 0; 0 turns it off. Eq. (21) of [Sha2023]."""

    lambda_g: float = non_negative(1.0)
    """Weight of the adversarial generator loss, >= 0; 0 turns it off. Eq. (20) of [Sha2023]."""

    lambda_mi: float = non_negative(0.1)
    """Weight of the guider's information bottleneck, >= 0; 0 turns it off. Eq. (20) of [Sha2023]."""

    lambda_lm: float = non_negative(0.005)
    """Weight of the language-model regularizer, >= 0; 0 turns it off. Eq. (21) of [Sha2023]."""

    mi_reduction: DimensionReduction = "sum"
    """L_mi as the `sum` over the dimensions of z_nero, or their `mean`.

    Differs: Eq. (12) of [Sha2023] has one dimension. The sum over 32 takes so much from the guider that it
    predicts worse than the rationale (docs/experiments.md); the presets of beer and HateXplain take the mean.
    """

    lm_form: RegularizerForm = "drawn"
    """L_lm of the mask `drawn` by the pass, Eq. (15) of [Sha2023], or its `expected` value over all masks."""

    coherence_form: RegularizerForm = "drawn"
    """The fused lasso of the mask `drawn` by the pass, or its `expected` value over all masks.

    Differs: the drawn form's gradient passes straight through the draw. Its noise is 3.6 times its signal,
    and its mean has a cosine of .57 to the exact gradient; docs/experiments.md compares the two forms.
    """

    prior_selection_rate: float = open_unit(0.001)
    """Prior probability that a token is selected, r(z=1) of Eq. (11), in (0, 1); the paper's for beer."""

    temperature: float = positive(1.0)
    """Temperature tau of the Gumbel-softmax, Eq. (2) of [Sha2023], > 0."""

    sampling: Sampling = "straight_through"
    """`straight_through`: hard masks with the relaxed gradient; `relaxed`: masks in (0, 1)."""

    calibration_loss: CalibrationLoss = "discriminator"
    """L_g: the `discriminator`'s, Eq. (14), or `policy_gradient`, [Sha2023]'s row "INVASE reg".

    With `policy_gradient` the selector learns of the prediction as in [Yoon2018] alone, see `InfoCalTrainer`.
    `invase` is what that row was before 2026-11-29, for studies and models of then: the difference itself
    as a loss. Its gradient is that of L_sp, which so has the weight 1 + lambda_g.
    """

    discriminator_loss: DiscriminatorLoss = "standard"
    """`standard` cross-entropy, or Eq. (13) as `printed`, which is unbounded below."""

    discriminator_slope: float = positive(0.05)
    """Largest slope of the discriminator's logit (its Lipschitz constant), > 0."""

    calibrate_to: Calibration = "mean"
    """What the discriminator sees of the guider: the `mean` of z_nero, or a `sample` of it.

    Differs: [Sha2023] takes the sample. At its lambda_mi that is mostly noise (docs/experiments.md).
    """

    discriminator_learning_rate: float = positive(0.001)
    """Adam's step size for the discriminator, > 0."""

    def __post_init__(self) -> None:
        # not super(): a dataclass with slots is another class than the one that it was written as
        RateConfig.__post_init__(self)
        if self.calibration_loss == "policy_gradient" and self.sampling != "straight_through":
            raise ConfigError(
                "`calibration_loss` = policy_gradient needs hard masks (`sampling` = straight_through), but "
                f"`sampling` is {self.sampling}",
                hint="set `sampling` to straight_through",
            )


def _check_types(config: Task | MethodConfig) -> None:
    """Accept only the declared type of each field; an int where a float is declared is made one."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if get_origin(field.type) is tuple:
            continue  # of tasks, each of which has checked itself, or of words
        choices = field.metadata.get(_CHOICES, ())
        if get_origin(field.type) is Literal:
            choices = get_args(field.type)
        if choices:
            if value not in choices:
                raise ConfigError(f"`{field.name}` must be one of {', '.join(choices)}, but got {value!r}")
        elif field.type is float and isinstance(value, int) and not isinstance(value, bool):
            object.__setattr__(config, field.name, _as_float(field.name, value))
        elif type(value) is not field.type:
            wanted = field.type.__name__ if isinstance(field.type, type) else str(field.type)
            raise ConfigError(f"`{field.name}` must be of type {wanted}, but got {value!r}")
        elif isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"`{field.name}` must be finite, but got {value}")


def _as_float(name: str, value: int) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ConfigError(
            f"`{name}` must be finite, but got a number that is too large for a float"
        ) from error
