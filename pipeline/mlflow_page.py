"""Where MLflow's pages of a tracking store are read."""

import shlex

from pipeline.uris import without_password


def how_to_open(tracking_uri: str) -> str:
    """The command that shows a store's pages, or the address of the server that does.

    The command carries the switch that keeps MLflow, and its pages in the browser, from sending usage data.

    Args:
        tracking_uri: of the store; its password is left out.
    """
    shown = without_password(tracking_uri)
    if shown.startswith(("http://", "https://")):
        return shown
    return f"MLFLOW_DISABLE_TELEMETRY=true mlflow ui --backend-store-uri {shlex.quote(shown)}"
