from pathlib import Path

import pytest

from pipeline import summary
from pipeline.summary import of_one, of_study, spread, table
from tests.small_study import POINT, SCORES, candidate, criterion, run_settings, study_settings

URI = "sqlite:////runs/mlflow.db"


def text_of(
    candidates: list, replicates: list | None = None, version: int | None = 4, **changes: object
) -> str:
    prepared = study_settings(**changes)
    return of_study(
        prepared,
        candidates,
        replicates or [],
        tracking_uri=URI,
        directory=Path("runs/sample/studies/first"),
        version=version,
    )


MISSED = candidate("b", epoch=4, value=-0.2, violation=0.2, scores={**SCORES, "val_token_precision": 0.3})


def test_the_table_has_a_row_for_each_trial_in_the_order_given():
    head, *rows = table([candidate("a"), MISSED], "beer").splitlines()
    assert head.split() == [
        *sorted(POINT),
        "epoch",
        "precision",
        "recall",
        "f1",
        "selected",
        "mse",
        "criterion",
    ]
    assert rows[0].split() == [
        *("1", "0.0003", "0.005", "0.1"),
        *("2", "0.5000", "0.2500", "0.3333", "0.1250", "0.0200"),
        "met",
    ]
    assert rows[1].split()[4:6] == ["5", "0.3000"]
    assert rows[1].endswith("missed by 0.200")
    assert len({len(line) for line in (head, *rows)}) == 1, "columns are aligned"


def test_a_score_that_a_task_does_not_have_is_a_dash():
    scores = {name: value for name, value in SCORES.items() if name != "val_mse"}
    rows = table([candidate(scores=scores), MISSED], "beer").splitlines()
    assert rows[1].split()[-2:] == ["-", "met"]


def test_a_score_that_no_trial_has_is_no_column():
    scores = {name: value for name, value in SCORES.items() if name != "val_mse"}
    assert table([candidate(scores=scores)], "beer").splitlines()[0].split()[-2:] == ["selected", "criterion"]


def test_a_met_criterion_is_registered_and_the_next_commands_are_whole():
    lines = text_of([candidate("a"), MISSED]).splitlines()
    assert lines[0] == f"beer/palate: 2 trials, {criterion()}"
    assert "registered infocal-beer-palate version 4 as `challenger`. Next:" in lines
    target = "--dataset beer --aspect palate --sample"
    assert f"  python -m pipeline.promote {target} --tracking-uri {URI}" in lines
    model = "models:/infocal-beer-palate@challenger"
    assert f"  python -m pipeline.explain --model {model} --tracking-uri {URI} --text TEXT" in lines
    assert lines[-1] == f"  MLFLOW_DISABLE_TELEMETRY=true mlflow ui --backend-store-uri {URI}"
    assert "report   runs/sample/studies/first/report.html" in lines
    assert "model    runs/sample/studies/first/model" in lines
    assert "nothing was registered" not in "\n".join(lines)


def test_a_trackers_page_of_the_study_says_what_became_of_it():
    said = summary.note(candidate(), "abc", criterion(), "beer", "infocal-beer-palate version 4")
    first, _, rest = said.partition("\n\n")
    assert first.startswith(
        "Best trial at its epoch 2: precision 0.500, recall 0.250, f1 0.333, selected 0.125"
    )
    assert first.endswith(f"Criterion ({criterion()}): met; registered as `infocal-beer-palate version 4`.")
    assert "`report.html`" in rest and "run `abc`" in rest
    missed = summary.note(MISSED, "abc", criterion(), "beer", None)
    assert "missed by" in missed and "nothing was registered" in missed


def test_real_data_has_to_be_named_again():
    text = text_of([candidate()], sample=False)
    assert "--dataset beer --aspect palate --data-dir DATA" in text
    assert "--sample" not in text


def test_a_criterion_that_nobody_meets_is_said_with_the_nearest_trial_and_what_to_do():
    lines = text_of([MISSED], version=None).splitlines()
    assert f"No trial meets the criterion ({criterion()}): nothing was registered." in lines
    assert (
        "The nearest one, at epoch 5: precision 0.300, recall 0.250, f1 0.333, selected 0.125, mse 0.020."
        in lines
    )
    assert any(line.startswith("What to do: more `--trials`") and "--min-precision" in line for line in lines)
    assert "pipeline.promote" not in "\n".join(lines)
    assert lines[-1] == f"  MLFLOW_DISABLE_TELEMETRY=true mlflow ui --backend-store-uri {URI}"


def test_a_threshold_of_ones_own_is_the_one_that_is_said():
    run = run_settings(criterion=criterion(0.7))
    assert "val_token_precision >= 0.7" in text_of([MISSED], version=None, run=run)


# --------------------------------------------------------------------------------------------- seeds


def seeds() -> list:
    return [candidate(str(i), scores={**SCORES, "val_token_precision": p}) for i, p in enumerate((0.6, 0.8))]


def test_mean_and_deviation_over_seeds():
    winner = candidate(scores={**SCORES, "val_token_precision": 0.7})
    found = spread([winner, *seeds()], "beer")
    assert found["num_seeds"] == 3
    assert found["val_token_precision_mean"] == pytest.approx(0.7)
    assert found["val_token_precision_sd"] == pytest.approx(0.1)  # of a sample: n - 1
    assert found["val_mse_sd"] == 0.0


def test_one_seed_has_no_spread():
    assert spread([candidate()], "beer") == {}
    assert "seeds:" not in text_of([candidate()])


def test_the_spread_of_the_winner_is_said():
    winner = candidate(scores={**SCORES, "val_token_precision": 0.7})
    (line,) = [line for line in text_of([winner, MISSED], seeds()).splitlines() if "seeds" in line]
    assert line.startswith("winner over 3 seeds: precision 0.700 +- 0.100, recall 0.250 +- 0.000, f1 ")


# ------------------------------------------------------------------------------------- one configuration


@pytest.mark.parametrize(
    ("is_met", "violation", "said"), [(True, 0.0, "met"), (False, 0.25, "missed by 0.250")]
)
def test_one_configuration(is_met: bool, violation: float, said: str):
    best = {"epoch": 1, "value": 0.25, "violation": violation, "is_met": is_met, "degenerate": None}
    best |= {"scores": SCORES}
    lines = of_one(best, criterion(), Path("runs/models/x"), "beer").splitlines()
    assert lines[0] == (
        "best epoch on validation: 2; precision 0.5000, recall 0.2500, f1 0.3333, selected 0.1250, mse 0.0200"
    )
    assert lines[1] == f"{criterion()}: {said}"
    assert lines[-1] == "  python -m pipeline.explain --package runs/models/x --text TEXT"


def test_a_trivial_mask_is_called_one():
    degenerate = candidate(violation=1.689, value=-1.689, degenerate="degenerate_all")
    text = of_study(
        study_settings(), [degenerate], [], tracking_uri="sqlite:///m.db", directory=Path("d"), version=None
    )
    assert "degenerate all" in text
    assert "missed by" not in text
    assert "Its mask is trivial (degenerate all), which meets no criterion." in text
    assert "--min-precision" not in text


def test_the_trivial_mask_of_one_configuration_is_called_one():
    best = {"epoch": 0, "violation": 1.694, "is_met": False, "degenerate": "degenerate_all", "scores": SCORES}
    text = of_one(best, criterion(), Path("model"), "beer")
    assert ": degenerate all\n" in text
    assert "missed by" not in text
