"""The registered model: text in, prediction and rationale out, through MLflow's generic interface.

MLflow copies this file into each logged model and runs it to load one ("models from code"), so nothing is
pickled; the packages of this project have to be installed where it runs.

    model = mlflow.pyfunc.load_model("models:/infocal-beer-palate@champion")
    model.predict(["a smooth and creamy body ."])
    model.predict(["a smooth and creamy body ."], params={"all_tokens": True})
"""

import os
from pathlib import Path
from typing import Any, cast

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")

from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from pydantic import BaseModel

from pipeline.checkpoints import load_package
from pipeline.explainer import ExplainedToken, Explainer, Explanation, NoTokenError

PACKAGE_ARTIFACT = "package"
ALL_TOKENS = "all_tokens"


class TokenAnswer(BaseModel):
    """A token with its place in the text as given."""

    token: str
    start: int
    end: int
    probability: float


class Answer(BaseModel):
    """What is said about one text."""

    prediction: float
    """Score in [0, 1], or number of the class."""
    probabilities: list[float]
    """Of each class; empty for a score."""
    label: str
    """Name of the class; empty for a score."""
    rationale: list[TokenAnswer]
    """The selected tokens."""
    tokens: list[TokenAnswer] | None = None
    """Every token, where `all_tokens` is asked for."""


class ServedModel(PythonModel):  # type: ignore[misc,unused-ignore]
    """MLflow's side of an `Explainer`."""

    def load_context(self, context: PythonModelContext) -> None:
        """Read the package that was logged with the model.

        A server says that it is ready after this: what the first request would wait for is done here, once,
        and not by as many threads as there are first requests.
        """
        self.explainer = Explainer(load_package(Path(context.artifacts[PACKAGE_ARTIFACT])))
        self.explainer.warm_up()

    # MLflow reads the schemas from these annotations; answers travel as dicts of that form
    def predict(
        self,
        context: PythonModelContext,
        model_input: list[str],
        params: dict[str, Any] | None = None,
    ) -> list[Answer]:
        """Predict from texts of any length; of a table MLflow hands over the first column alone.

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
                f"expected texts, but of the {len(model_input)} given those at position {listed} (from 0) "
                "hold no token"
            ) from error
        return cast("list[Answer]", [as_answer(explanation, all_tokens) for explanation in found])


def as_answer(explanation: Explanation, all_tokens: bool) -> dict[str, Any]:
    """What the server says about a text, in the form of `Answer`."""
    answer: dict[str, Any] = {
        "prediction": explanation.prediction,
        "probabilities": explanation.probabilities,
        "label": explanation.label,
        "rationale": [_token(token) for token in explanation.rationale],
    }
    if all_tokens:
        answer["tokens"] = [_token(token) for token in explanation.tokens]
    return answer


def _token(token: ExplainedToken) -> dict[str, Any]:
    return {
        "token": token.token,
        "start": token.start,
        "end": token.end,
        "probability": token.probability,
    }


set_model(ServedModel())
