"""The names under which models that older versions registered import the explainer."""

from pipeline.training.explainer import ExplainedToken as ExplainedToken
from pipeline.training.explainer import Explainer as Explainer
from pipeline.training.explainer import Explanation as Explanation
from pipeline.training.explainer import NoTokenError as NoTokenError
