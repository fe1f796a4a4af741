import re
from pathlib import Path

import pytest

from pipeline.tracking.mlflow_page import how_to_open, how_to_serve

ROOT = Path(__file__).resolve().parents[3]


def test_a_database_is_shown_by_a_command_that_sends_no_usage_data():
    assert how_to_open("sqlite:////my runs/mlflow.db") == (
        "MLFLOW_DISABLE_TELEMETRY=true mlflow ui --backend-store-uri 'sqlite:////my runs/mlflow.db'"
    )
    assert how_to_open("postgresql://ada:hush@h/db").endswith('--backend-store-uri "$MLFLOW_TRACKING_URI"')


def test_a_model_is_served_by_a_command_that_sends_no_usage_data():
    assert how_to_serve("models:/tickets@champion", "postgresql://ada:hush@h/db") == (
        'MLFLOW_DISABLE_TELEMETRY=true MLFLOW_TRACKING_URI="$MLFLOW_TRACKING_URI" '
        "mlflow models serve -m models:/tickets@champion --env-manager local -p 5001"
    )


def test_a_server_shows_its_own_pages():
    assert how_to_open("http://ada:hush@host:5000") == "http://host:5000"


def test_mlflow_knows_the_switch(monkeypatch: pytest.MonkeyPatch):
    from mlflow.telemetry.utils import is_telemetry_disabled

    for name in ("DO_NOT_TRACK", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.delenv(name, raising=False)
    is_off_anyway = is_telemetry_disabled()
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    assert is_telemetry_disabled()
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "false")
    assert is_telemetry_disabled() is is_off_anyway


@pytest.mark.parametrize(
    "file", [*ROOT.glob("pipeline/**/*.py"), ROOT / "README.md", *ROOT.glob("docs/*.md")]
)
def test_no_text_names_the_command_without_the_switch(file: Path):
    found = re.findall(r"(.*)mlflow (?:ui|models serve) -.*", file.read_text("utf-8"))
    assert all("MLFLOW_DISABLE_TELEMETRY=true " in before for before in found)
