"""Hyper-parameters: ranges, types, names; and the errors that users meet."""

import dataclasses
import importlib.util
import math
import pickle
import re
import sys

import pytest

from infocal import config as checked
from infocal.errors import TRAINING_FAILURES, ConfigError, StateError, TrainingFailure, UserError


def without_hook(module):
    """The module as users get it: the suite's run-time check of types would answer before its own errors."""
    spec = importlib.util.spec_from_file_location("infocal_config_without_hook", module.__file__)
    plain = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    return plain


config = without_hook(checked)
InfoCalConfig, Task = config.InfoCalConfig, config.Task

NON_NEGATIVE = ([-1e-9, -1.0], ">= 0")
POSITIVE = ([0.0, -1e-9], "> 0")
COUNT = ([0, -1], "> 0")
OPEN_UNIT = ([0.0, 1.0, -0.1, 1.1], "strictly between 0 and 1")
HALF_OPEN_UNIT = ([-0.1, 1.0, 2.0], ">= 0 and < 1")
OUT_OF_RANGE = {
    "lambda_ib": NON_NEGATIVE,
    "lambda_g": NON_NEGATIVE,
    "lambda_mi": NON_NEGATIVE,
    "lambda_lm": NON_NEGATIVE,
    "lambda_coherence": NON_NEGATIVE,
    "prior_selection_rate": OPEN_UNIT,
    "target_selection_rate": ([-0.1, 1.1], ">= 0 and <= 1"),
    "rate_penalty": NON_NEGATIVE,
    "rate_step_size": NON_NEGATIVE,
    "start_selection_rate": OPEN_UNIT,
    "dense_epochs": NON_NEGATIVE,
    "ramp_epochs": NON_NEGATIVE,
    "temperature": POSITIVE,
    "sampling": (["hard", "Relaxed"], "one of straight_through, relaxed"),
    "mi_reduction": (["none"], "one of sum, mean"),
    "lm_form": (["exact"], "one of drawn, expected"),
    "coherence_form": (["exact"], "one of drawn, expected"),
    "calibration_loss": (["critic"], "one of discriminator, policy_gradient, invase"),
    "discriminator_loss": (["wgan"], "one of standard, printed"),
    "discriminator_slope": POSITIVE,
    "calibrate_to": (["mu", True], "one of mean, sample"),
    "encoder": (["gru", None], "one of rcnn, lstm, cnn, transformer"),
    "encoder_learning_rate": POSITIVE,
    "frozen_layers": ([-1], ">= 0"),
    "window_size": ([-1], ">= 0"),
    "window_stride": ([-1], ">= 0"),
    "word_state": (["max"], "one of mean, first"),
    "unselected": (["masked"], "one of removed, zeroed"),
    "rationales": (["each"], "one of shared, per_head"),
    "warmup_epochs": NON_NEGATIVE,
    "decay_epochs": NON_NEGATIVE,
    "pooling": (["min", "Mean"], "one of mean, max, last"),
    "hidden_size": COUNT,
    "feature_size": COUNT,
    "embedding_dropout": HALF_OPEN_UNIT,
    "learning_rate": POSITIVE,
    "discriminator_learning_rate": POSITIVE,
    "weight_decay": NON_NEGATIVE,
    "clip_norm": POSITIVE,
    "learning_rate_decay": ([0.0, 1.01], "> 0 and <= 1"),
    "min_learning_rate": NON_NEGATIVE,
    "average_decay": HALF_OPEN_UNIT,
    "batch_size": COUNT,
    "max_length": COUNT,
    "target_weights": (["a", "a=", "=1", "a=-1", "a=1,a=2", "a=nan", "a=1;b=2"], "with numbers >= 0"),
}
FIELDS = {field.name: field.type for field in dataclasses.fields(InfoCalConfig)}
FLOATS = [name for name, kind in FIELDS.items() if kind is float]
INTS = [name for name, kind in FIELDS.items() if kind is int]


def build(name, value):
    return InfoCalConfig.from_mapping({name: value})


def test_every_hyper_parameter_has_a_range():
    # a bool's type is its range, and whether a name is one of a model is seen when it is opened
    assert set(OUT_OF_RANGE) == set(FIELDS) - {
        "train_embeddings",
        "shared_encoder",
        "gradient_checkpointing",
        "pretrained",
    }


@pytest.mark.parametrize(
    ("name", "value", "range_"), [(n, v, text) for n, (vs, text) in OUT_OF_RANGE.items() for v in vs]
)
def test_out_of_range(name, value, range_):
    with pytest.raises(ConfigError, match=rf"^`{name}` must .*{re.escape(range_)}, but got {value!r}$"):
        build(name, value)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_not_finite(name, value):
    with pytest.raises(ConfigError, match=f"^`{name}` must be finite, but got {value}$"):
        build(name, value)


def test_a_whole_number_too_large_for_a_float():
    with pytest.raises(
        ConfigError, match="^`lambda_ib` must be finite, but got a number that is too large for a float$"
    ):
        build("lambda_ib", 10**400)


def test_a_message_is_one_line_that_ends():
    error = ConfigError("got\n" + "9" * 5000, where="run.toml")
    assert str(error) == "run.toml: got " + "9" * 996 + " ... (5004 characters)"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, True) for name in FLOATS + INTS),
        *((name, "1") for name in FLOATS + INTS),
        *((name, 2.0) for name in INTS),
        ("train_embeddings", 1),
        ("train_embeddings", None),
        ("shared_encoder", "yes"),
        ("pretrained", None),
    ],
)
def test_wrong_type(name, value):
    wanted = FIELDS[name].__name__
    with pytest.raises(ConfigError, match=f"^`{name}` must be of type {wanted}, but got {value!r}$"):
        build(name, value)


@pytest.mark.parametrize("name", [n for n in FLOATS if OUT_OF_RANGE[n] in (NON_NEGATIVE, POSITIVE)])
def test_a_whole_number_is_a_float(name):
    value = getattr(build(name, 1), name)
    assert type(value) is float
    assert value == 1.0


@pytest.mark.parametrize("name", [n for n in FLOATS if OUT_OF_RANGE[n] in (NON_NEGATIVE, HALF_OPEN_UNIT)])
def test_zero_turns_off(name):
    assert getattr(build(name, 0.0), name) == 0.0


@pytest.mark.parametrize(
    ("name", "near"),
    [("lamda_ib", "lambda_ib"), ("learning_rates", "learning_rate"), ("hidden", "hidden_size")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, near):
    with pytest.raises(ConfigError, match=rf"^unknown hyper-parameter `{name}`; did you mean `{near}`\?$"):
        build(name, 1)


def test_a_name_like_no_other_is_answered_with_all():
    with pytest.raises(
        ConfigError,
        match="^unknown hyper-parameter `xyzzy`; the hyper-parameters are target_selection_rate, encoder,",
    ):
        build("xyzzy", 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"warmup_epochs": 2.0, "decay_epochs": 2.0},
            r"^`decay_epochs` must be above `warmup_epochs`, but got 2\.0 and 2\.0$",
        ),
    ],
)
def test_values_that_do_not_go_together(values, message):
    with pytest.raises(ConfigError, match=message):
        InfoCalConfig.from_mapping(values)


def test_mapping_round_trip():
    config = InfoCalConfig(lambda_ib=0.002, encoder="lstm", hidden_size=7, train_embeddings=True)
    values = config.to_dict()
    assert list(values) == list(FIELDS)
    assert InfoCalConfig.from_mapping(values) == config
    assert config != InfoCalConfig()


def test_what_is_not_named_keeps_its_default():
    assert build("temperature", 0.5) == dataclasses.replace(InfoCalConfig(), temperature=0.5)


def test_defaults_are_the_papers():
    config = InfoCalConfig()
    assert (config.lambda_ib, config.lambda_g, config.lambda_mi, config.lambda_lm) == (0.0003, 1, 0.1, 0.005)
    assert config.prior_selection_rate == 0.001


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'lambda_ib'"):
        InfoCalConfig().lambda_ib = 1.0


def test_changes_are_checked_too():
    with pytest.raises(ConfigError, match="`temperature` must be > 0, but got -1.0"):
        dataclasses.replace(InfoCalConfig(), temperature=-1.0)


# ---------------------------------------------------------------- task


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "ranking"}, "`kind` must be one of regression, classification, but got 'ranking'"),
        (
            {"kind": "regression", "target_variance": 0.0},
            "all training scores are equal, so there is nothing to learn",
        ),
        ({"kind": "regression", "target_variance": -1.0}, "`target_variance` must be a positive .* got -1.0"),
        (
            {"kind": "regression", "target_variance": math.nan},
            "`target_variance` must be finite, but got nan",
        ),
        ({"kind": "classification"}, "a classification needs at least 2 classes, but got 1"),
        ({"kind": "classification", "num_classes": "3"}, "`num_classes` must be of type int, but got '3'"),
    ],
)
def test_task_errors(values, message):
    with pytest.raises(ConfigError, match=message):
        Task(**values)


# ---------------------------------------------------------------- errors


def test_a_user_error_says_where():
    assert str(UserError("too long")) == "too long"
    assert str(StateError("too long", where="--device", hint="shorten it")) == "--device: too long"


@pytest.mark.parametrize("reason", TRAINING_FAILURES)
def test_a_training_failure_says_why(reason):
    assert str(TrainingFailure(reason, "epoch 3")) == f"{reason}: epoch 3"


def test_an_unknown_reason_is_refused():
    with pytest.raises(
        ValueError, match="unknown reason `tired`; the reasons are non_finite, degenerate_all"
    ):
        TrainingFailure("tired", "epoch 3")


@pytest.mark.parametrize(
    "error",
    [
        TrainingFailure("non_finite", "epoch 3"),
        ConfigError("bad", where="--space", hint="another one"),
    ],
)
def test_errors_survive_the_way_between_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
