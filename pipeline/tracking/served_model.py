"""The registered model: text in, prediction and rationale out, through MLflow's generic interface.

MLflow copies this file into each logged model and runs it to load one ("models from code"), so nothing is
pickled; the packages of this project have to be installed where it runs.

    model = mlflow.pyfunc.load_model("models:/infocal-beer-palate@champion")
    model.predict(["a smooth and creamy body ."])
    model.predict(["a smooth and creamy body ."], params={"all_tokens": True})
"""

import copy
import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")

import numpy as np
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from pydantic import BaseModel, Field

from feature_store.wording import counted
from pipeline.training.checkpoints import load_package
from pipeline.training.explainer import ExplainedToken, Explainer, Explanation, NoTokenError

PACKAGE_ARTIFACT = "package"
ALL_TOKENS, COLUMN = "all_tokens", "column"
"""Parameters of a request."""


class TokenAnswer(BaseModel):
    """A token with its place in the text as given."""

    token: str
    start: int
    end: int
    probability: float


class TargetAnswer(BaseModel):
    """What is predicted of one of several targets; the fields are those of `Answer`."""

    prediction: float
    probabilities: list[float]
    label: str
    rationale: list[TokenAnswer] | None = Field(default=None, exclude_if=lambda found: found is None)
    """The selected tokens, where each target has its own rationale."""
    tokens: list[TokenAnswer] | None = Field(default=None, exclude_if=lambda found: found is None)
    """Every token, where `all_tokens` is asked for as well."""


class Answer(BaseModel):
    """What is said about one text; of several targets the prediction is that of the main one."""

    prediction: float
    """Score on the scale of the data; the class where classes are whole numbers, else its place, from 0."""
    probabilities: list[float]
    """Of each class; empty for a score."""
    label: str
    """Name of the class; empty for a score."""
    num_unknown: int
    """Words of the text that the model does not know."""
    rationale: list[TokenAnswer]
    """The selected tokens."""
    tokens: list[TokenAnswer] | None = None
    """Every token, where `all_tokens` is asked for."""
    targets: dict[str, TargetAnswer] | None = Field(default=None, exclude_if=lambda found: found is None)
    """Of each target by its name; only where the model predicts several."""


class ServedModel(PythonModel):  # type: ignore[misc,unused-ignore]
    """MLflow's side of an `Explainer`."""

    def load_context(self, context: PythonModelContext) -> None:
        """Read the package that was logged with the model.

        A server says that it is ready after this: what the first request would wait for is done here, once,
        and not by as many threads as there are first requests.
        """
        self.explainer = Explainer(load_package(Path(context.artifacts[PACKAGE_ARTIFACT])))
        self.explainer.warm_up()

    @property
    def predict_type_hints(self) -> Any:
        """What MLflow reads from `predict`; once a model is loaded nothing of its input.

        To a model that takes `list[str]`, MLflow hands the first text column of a DataFrame of pandas,
        whatever the others hold; to any other model the whole table, which `texts_of` then reads.
        """
        hints = copy.copy(super().predict_type_hints)
        if hasattr(self, "explainer"):
            hints.input = None
        return hints

    # MLflow reads the schemas from these annotations; answers travel as dicts of that form
    def predict(
        self,
        context: PythonModelContext,
        model_input: list[str],
        params: dict[str, Any] | None = None,
    ) -> list[Answer]:
        """Predict from texts of any length: a list, or whatever `texts_of` makes one of.

        Args:
            params: `all_tokens` asks for every token; `column` names the texts of a table.

        Raises:
            MlflowException: if there is no text, or one without a token; names its position. A server
                answers 400.
        """
        if not model_input:
            raise MlflowException.invalid_parameter_value("expected at least one text, but got none")
        all_tokens = bool((params or {}).get(ALL_TOKENS, False))
        try:
            found = self.explainer.explain(model_input)
        except NoTokenError as error:
            listed = ", ".join(map(str, error.positions))
            raise MlflowException.invalid_parameter_value(
                f"expected texts, but of the {len(model_input)} given texts, those at position {listed} "
                "(counted from 0) have no token"
            ) from error
        return cast("list[Answer]", [as_answer(explanation, all_tokens) for explanation in found])


def as_answer(explanation: Explanation, all_tokens: bool) -> dict[str, Any]:
    """What the server says about a text, in the form of `Answer`."""
    answer: dict[str, Any] = {
        "prediction": explanation.prediction,
        "probabilities": explanation.probabilities,
        "label": explanation.label,
        "num_unknown": explanation.num_unknown,
        **_tokens(explanation.tokens, all_tokens),
    }
    if explanation.targets:
        answer["targets"] = {name: dataclasses.asdict(one) for name, one in explanation.targets.items()}
    for name, tokens in explanation.tokens_of.items():
        answer["targets"][name] |= _tokens(tokens, all_tokens)
    return answer


def _tokens(tokens: Sequence[ExplainedToken], all_tokens: bool) -> dict[str, Any]:
    """The selected tokens, and every one if that is asked for."""
    answer = {"rationale": [_token(token) for token in tokens if token.selected]}
    return answer | ({"tokens": [_token(token) for token in tokens]} if all_tokens else {})


def _token(token: ExplainedToken) -> dict[str, Any]:
    return {
        "token": token.token,
        "start": token.start,
        "end": token.end,
        "probability": token.probability,
    }


def texts_of(given: Any, column: str = "") -> Any:
    """A list of the texts in a tuple, an array, a series or a table; anything else as it is.

    Args:
        given: of numpy, pandas, polars or pyarrow.
        column: of a table; empty: its only column of texts.

    Raises:
        MlflowException: if a table has no such column, or several columns of texts and none is named.
    """
    if isinstance(given, tuple):
        return list(given)
    if hasattr(given, "collect"):  # a table of polars that is not computed yet
        given = given.collect()
    if hasattr(given, "columns"):
        return _of_column(given, column)
    if isinstance(given, np.ndarray) and given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    return _listed(given)


def _listed(given: Any) -> Any:
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(given, name):
            return getattr(given, name)()
    return given


def _columns(table: Any) -> list[tuple[str, list[Any]]]:
    """Names and entries of a table's columns, by their places: two may have one name."""
    if hasattr(table, "column_names"):  # pyarrow
        return [(name, _listed(table.column(i))) for i, name in enumerate(table.column_names)]
    if hasattr(table, "iloc"):  # pandas
        return [(str(name), _listed(table.iloc[:, i])) for i, name in enumerate(table.columns)]
    return [(name, _listed(table[name])) for name in table.columns]


def _of_column(table: Any, column: str) -> list[Any]:
    every = _columns(table)
    # a text that is missing makes no other column the one that is meant
    found = [(name, entries) for name, entries in every if any(isinstance(entry, str) for entry in entries)]
    if column:
        found = [(name, entries) for name, entries in every if name == column]
        if not found:
            raise MlflowException.invalid_parameter_value(
                f"the table has no column `{column}`; the columns are "
                f"{', '.join((name for name, _ in every))}"
            )
    elif not found and len(every) == 1:
        found = every
    if len(found) == 1:
        return found[0][1]
    names = ", ".join(name for name, _ in found or every)
    if column or len({name for name, _ in found}) < len(found):
        raise MlflowException.invalid_parameter_value(f"the table has several columns of one name: {names}")
    if not found:
        raise MlflowException.invalid_parameter_value(
            f"expected a column of texts, but the table has none; columns: {names or 'none'}"
        )
    raise MlflowException.invalid_parameter_value(
        f"the table has {counted(len(found), 'column')} of texts, {names}: name one in `params`, "
        f'as in {{"{COLUMN}": "{found[0][0]}"}}'
    )


def _taking_any_texts(predict: Callable[..., Any]) -> Callable[..., Any]:
    """MLflow checks what it is given against the type hint, so that texts have to be a list before."""

    @functools.wraps(predict)
    def taking(
        self: ServedModel, context: PythonModelContext, model_input: Any, params: dict[str, Any] | None = None
    ) -> Any:
        column = str((params or {}).get(COLUMN) or "")
        return predict(self, context, texts_of(model_input, column), params=params)

    return taking


ServedModel.predict = _taking_any_texts(ServedModel.predict)  # type: ignore[method-assign]

set_model(ServedModel())
