"""Where MLflow's pages of a tracking store are read."""

import shlex

from pipeline.base.locations import TRACKING_VARIABLE
from pipeline.base.uris import is_masked, split, without_password

UI_ADDRESS = "http://127.0.0.1:5000"
"""Where `mlflow ui` shows its pages, unless told otherwise."""


def address(tracking_uri: str) -> str:
    """Where a browser finds a store's pages: its server, or `mlflow ui` on this machine."""
    if tracking_uri.startswith(("http://", "https://")):
        return split(tracking_uri)[0].rstrip("/")
    return UI_ADDRESS


def how_to_open(tracking_uri: str) -> str:
    """The command that shows a store's pages, or the address of the server that does.

    The command carries the switch that keeps MLflow, and its pages in the browser, from sending usage data.

    Args:
        tracking_uri: of the store; one with a password is read from MLFLOW_TRACKING_URI.
    """
    if tracking_uri.startswith(("http://", "https://")):
        return split(tracking_uri)[0]  # a browser asks for user and password
    shown = _in_shell(tracking_uri)
    return f"MLFLOW_DISABLE_TELEMETRY=true mlflow ui --backend-store-uri {shown}"


def how_to_serve(model: str, tracking_uri: str) -> str:
    """The command that serves a registered model, with the same switch.

    Args:
        model: its URI, as in `models:/NAME@champion`.
        tracking_uri: of the store; one with a password is read from MLFLOW_TRACKING_URI.
    """
    store, served = _in_shell(tracking_uri), shlex.quote(model)
    return (
        f"MLFLOW_DISABLE_TELEMETRY=true MLFLOW_TRACKING_URI={store} mlflow models serve -m {served} "
        "--env-manager local -p 5001"
    )


def _in_shell(uri: str) -> str:
    shown = without_password(uri)
    return f'"${TRACKING_VARIABLE}"' if is_masked(shown) else shlex.quote(shown)
