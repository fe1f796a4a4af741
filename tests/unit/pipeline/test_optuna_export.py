"""The finished study in an Optuna storage: once, whatever was there before."""

from pathlib import Path
from typing import Any

import optuna
import pytest

from pipeline.base.errors import PipelineError
from pipeline.study import optuna_export
from pipeline.study.optuna_export import ORIGIN, Export
from pipeline.tracking import export_place
from tests.integration.servers import free_port
from tests.small_store import new_store

WHERE = "s3://bucket/studies/first"


@pytest.fixture(params=["sqlite", "journal"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:///{tmp_path / 'team'}"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The study's own file, with two trials."""
    path = tmp_path / "optuna.db"
    study = optuna.create_study(storage=f"sqlite:///{path}", study_name="first", direction="maximize")
    add(study, 0.25)
    add(study, 0.5)
    return path


def add(study: optuna.Study, value: float):
    distributions = {"lambda_g": optuna.distributions.FloatDistribution(0, 1)}
    study.add_trial(
        optuna.trial.create_trial(
            params={"lambda_g": value}, distributions=distributions, value=value, user_attrs={"run": "a"}
        )
    )


def there(url: str) -> optuna.Study:
    return optuna.load_study(study_name="first", storage=optuna_export._storage(url))


def test_a_study_is_exported_with_its_trials_and_origin(url: str, database: Path):
    export = Export(url, "first", WHERE)
    export.check()
    export.run(database)
    study = there(url)
    assert [trial.value for trial in study.trials] == [0.25, 0.5]
    assert (study.trials[1].params, study.trials[1].user_attrs) == ({"lambda_g": 0.5}, {"run": "a"})
    assert (study.direction.name, study.user_attrs[ORIGIN]) == ("MAXIMIZE", WHERE)


def test_a_second_export_adds_what_is_missing_only(url: str, database: Path):
    export = Export(url, "first", WHERE)
    export.run(database)
    first = there(url)
    add(optuna.load_study(study_name="first", storage=f"sqlite:///{database}"), 0.75)
    export.check()
    export.run(database)
    export.run(database)
    again = there(url)
    assert [trial.value for trial in again.trials] == [0.25, 0.5, 0.75]
    assert again._study_id == first._study_id, "pages that show it stay valid"


def test_what_has_changed_is_replaced(url: str, database: Path, tmp_path: Path):
    Export(url, "first", WHERE).run(database)
    other = optuna.create_study(
        storage=f"sqlite:///{tmp_path / 'new.db'}", study_name="first", direction="maximize"
    )
    add(other, 0.75)
    Export(url, "first", WHERE).run(tmp_path / "new.db")
    assert [trial.value for trial in there(url).trials] == [0.75]


def test_another_study_of_that_name_is_left_alone(url: str, database: Path):
    Export(url, "first", WHERE).run(database)
    other = Export(url, "first", "host:/runs/studies/first")
    for step in (other.check, lambda: other.run(database)):
        with pytest.raises(PipelineError, match=f"holds another study `first`, of {WHERE}") as caught:
            step()
        assert caught.value.where == "--optuna-storage" and "--name" in str(caught.value.hint)
    assert there(url).user_attrs[ORIGIN] == WHERE


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_an_export_that_was_killed_before_it_said_whose_it_is_goes_on(
    url: str, database: Path, direction: str
):
    optuna.create_study(storage=optuna_export._storage(url), study_name="first", direction=direction)
    export = Export(url, "first", WHERE)
    export.check()
    export.run(database)
    study = there(url)
    assert [trial.value for trial in study.trials] == [0.25, 0.5]
    assert (study.direction.name, study.user_attrs[ORIGIN]) == ("MAXIMIZE", WHERE)


@pytest.mark.parametrize("content", ["trial", "attribute"])
def test_a_study_in_which_something_was_done_is_not_taken_for_one(url: str, database: Path, content: str):
    other = optuna.create_study(storage=optuna_export._storage(url), study_name="first", direction="maximize")
    if content == "trial":
        add(other, 0.1)
    else:
        other.set_user_attr("owner", "ada")
    export = Export(url, "first", WHERE)
    for step in (export.check, lambda: export.run(database)):
        with pytest.raises(PipelineError, match="holds another study `first`, of an unknown origin"):
            step()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("team.db", "expected a URL, but got `team.db`"),
        ("nosql://host/db", "cannot use the Optuna storage `nosql://host/db`: .*nosql"),
        ("sqlite:////no/such/folder/a.db", "cannot use the Optuna storage .*no folder `/no/such/folder`"),
        ("journal:////no/such/folder/a", "cannot use the Optuna storage .*no folder `/no/such/folder`"),
    ],
)
def test_a_storage_that_cannot_be_opened_is_one_line(url: str, message: str):
    with pytest.raises(PipelineError, match=message) as caught:
        Export(url, "first", WHERE).check()
    assert caught.value.where == "--optuna-storage"
    speaks_of_a_server = "driver" in (caught.value.hint or "")
    assert not (url.startswith("sqlite") and speaks_of_a_server), "a file has no server"


@pytest.mark.parametrize("check", [lambda url: Export(url, "first", WHERE).check(), export_place.check])
def test_the_database_of_another_program_is_refused_and_left_as_it_is(check: Any, tmp_path: Path):
    url = new_store(tmp_path).address
    before = (tmp_path / "mlflow.db").read_bytes()
    told = "it is the database of another program: its tables are"
    with pytest.raises(PipelineError, match=told) as caught:
        check(url)
    assert "a database that only Optuna uses" in str(caught.value.hint)
    assert (tmp_path / "mlflow.db").read_bytes() == before


def test_tables_of_another_optuna_are_one_line(url: str, monkeypatch: pytest.MonkeyPatch):
    def refuse(url: str) -> None:
        raise RuntimeError("The runtime optuna version 5.0.0 is no longer compatible with the table schema")

    monkeypatch.setattr(optuna.storages, "get_storage", refuse)
    monkeypatch.setattr(optuna_export, "JournalFileBackend", refuse)
    with pytest.raises(PipelineError, match="no longer compatible with the table schema") as caught:
        Export(url, "first", WHERE).check()
    assert "optuna storage upgrade" in str(caught.value.hint)


def test_a_password_is_not_shown():
    url = f"postgresql://ada:hush@127.0.0.1:{free_port()}/db"
    with pytest.raises(PipelineError, match=r"no server answers at `postgresql://ada:\*\*\*@") as caught:
        Export(url, "first", WHERE).check()
    assert "hush" not in str(caught.value)
