import shlex
from pathlib import Path

import pytest

from pipeline import evaluate, explain, promote
from pipeline.base import locations
from pipeline.base.storage import Storage
from pipeline.study import summary
from pipeline.study.criterion import judged, within_reach
from pipeline.study.summary import of_one, of_study, spread, table
from pipeline.training.epochs import BestEpoch
from search_spaces.base import Criterion
from tests.small_study import POINT, SCORES, candidate, criterion, run_settings, study_settings

URI = "sqlite:////runs/mlflow.db"


def text_of(
    candidates: list,
    replicates: list | None = None,
    version: int | None = 4,
    text: str = "a text",
    **changes: object,
) -> str:
    prepared = study_settings(**changes)
    return of_study(
        prepared,
        candidates,
        replicates or [],
        tracking_uri=URI,
        storage=locations.storage(None, prepared.sample),
        directory=Path("runs/sample/studies/first"),
        version=version,
        text=text,
    )


MISSED = candidate("b", epoch=4, value=-0.2, violation=0.2, scores={**SCORES, "val_token_precision": 0.3})


def test_the_table_has_a_row_for_each_trial_in_the_order_given():
    head, *rows = table([candidate("a"), MISSED], "beer", criterion(), {"a": "trial-07"}).splitlines()
    assert head.split() == [
        "trial",
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
        *("07", "1", "0.0003", "0.005", "0.1"),
        *("2", "0.500", "0.250", "0.333", "0.125", "0.0200"),
        "met",
    ]
    assert rows[1].split()[0] == "b", "a trial without a name shows its id"
    assert rows[1].split()[5:7] == ["5", "0.300"]
    assert rows[1].endswith("missed by 0.200")
    assert len({len(line) for line in (head, *rows)}) == 1, "columns are aligned"


def test_a_score_that_a_task_does_not_have_is_a_dash():
    scores = {name: value for name, value in SCORES.items() if name != "val_mse"}
    rows = table([candidate(scores=scores), MISSED], "beer", criterion(), {}).splitlines()
    assert rows[1].split()[-2:] == ["-", "met"]


def test_a_score_that_no_trial_has_is_no_column():
    scores = {name: value for name, value in SCORES.items() if name != "val_mse"}
    assert table([candidate(scores=scores)], "beer", criterion(), {}).splitlines()[0].split()[-2:] == [
        "selected",
        "criterion",
    ]


def test_a_met_criterion_is_registered_and_the_next_commands_are_whole():
    lines = text_of([candidate("a"), MISSED]).splitlines()
    assert lines[0] == f"beer/palate: 2 trials, {criterion()}"
    assert "registered infocal-beer-palate version 4 as `challenger`. Next:" in lines
    target = "--aspect palate --sample"
    assert f"  python -m pipeline.promote {target} --tracking-uri {URI}" in lines
    model = "models:/infocal-beer-palate@challenger"
    assert f"  python -m pipeline.explain --model {model} --tracking-uri {URI} --text 'a text'" in lines
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


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ("--data-dir DATA", "--data-dir DATA"),
        ("--data-dir 'my data'", "--data-dir 'my data'"),
        ("--data-dir=DATA --embedding random --trials 3", "--data-dir DATA --embedding random"),
        ("--cache-dir /cache", "--cache-dir /cache"),
        ("", ""),
    ],
)
def test_the_flags_of_the_data_are_those_that_the_study_was_given(given: str, flags: str):
    command = f"python -m pipeline.search --dataset beer --aspect palate {given}".strip()
    text = text_of([candidate()], sample=False, command=command)
    (line,) = [line for line in text.splitlines() if "pipeline.promote" in line]
    wanted = f"--aspect palate {flags}".strip()
    assert line == f"  python -m pipeline.promote {wanted} --tracking-uri {URI}"
    promote.build_parser().parse_args(shlex.split(line)[3:])


@pytest.mark.parametrize(
    ("storage", "sample", "promotes", "explains"),
    [
        ("runs", False, "--aspect palate", []),
        ("runs/sample", True, "--aspect palate --sample", ["--sample"]),
        ("my runs", False, "--aspect palate --storage 'my runs'", ["--storage", "my runs"]),
        ("runs", True, "--aspect palate --sample --storage runs", []),
    ],
)
def test_no_flag_says_what_the_command_does_without_it(
    storage: str,
    sample: bool,
    promotes: str,
    explains: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    place = Storage(storage)
    uri = locations.tracking_uri(None, place)
    prepared = study_settings(sample=sample)
    _, promoting, explaining = summary.registered(prepared, 4, uri, "a text", place)
    assert promoting == f"  python -m pipeline.promote {promotes}"
    model = ["--model", "models:/infocal-beer-palate@challenger"]
    assert shlex.split(explaining)[3:] == [*model, *explains, "--text", "a text"]
    # what is printed names the very store, wherever MLflow would look by itself
    for words in (shlex.split(promoting), shlex.split(explaining)):
        made = promote if "promote" in words[2] else explain
        given = made.build_parser().parse_args(words[3:])
        found = locations.storage(given.storage, given.sample)
        assert locations.tracking_uri(given.tracking_uri, found) == uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere:5000")
    for line in summary.registered(prepared, 4, uri, "a text", place)[1:]:
        assert f"--tracking-uri {shlex.quote(uri)}" in line


def test_the_test_split_is_read_where_the_study_is_and_with_its_data():
    prepared = study_settings(command="python -m pipeline.search --data-dir 'my data' --cache-dir c")
    flags = summary.evaluate_flags(prepared, "sqlite:////all/mlflow.db", Storage("/all"))
    given = evaluate.build_parser().parse_args(["--run", "r", *shlex.split(flags)])
    assert (given.storage, given.data_dir, given.cache_dir) == ("/all", "my data", "c")


def test_every_command_that_is_printed_is_understood():
    text = text_of([candidate()], model_name="infocal-jsonl-Bücher-2", text="it's [good]\n")
    lines = [shlex.split(line) for line in text.split("Next:")[1].replace("\n'", "'").splitlines()]
    commands = [words for words in lines if words[:2] == ["python", "-m"]]
    parsers = {"pipeline.promote": promote.build_parser(), "pipeline.explain": explain.build_parser()}
    assert {words[2] for words in commands} == set(parsers)
    for words in commands:
        parsers[words[2]].parse_args(words[3:])


def test_a_criterion_that_nobody_meets_is_said_with_a_command_that_registers_a_trial():
    better = candidate(
        "c",
        epoch=2,
        value=-0.25,
        violation=0.25,
        scores={**SCORES, "val_token_precision": 0.287, "val_token_f1": 0.6},
    )
    run = run_settings(criterion=criterion(0.5))
    lines = text_of([MISSED, better], version=None, run=run).splitlines()
    assert f"No trial meets the criterion ({criterion(0.5)}): nothing was registered." in lines
    at = lines.index("  python -m pipeline.register --min-precision 0.28")
    assert lines[at - 1] == (
        "The following command registers the trial with precision 0.287, recall 0.250, f1 0.600, selected "
        "0.125, "
        "mse 0.0200 (epoch 3):"
    )
    assert "pipeline.promote" not in "\n".join(lines)
    assert lines[-1] == f"  MLFLOW_DISABLE_TELEMETRY=true mlflow ui --backend-store-uri {URI}"


def test_the_trial_that_would_be_registered_is_called_by_its_name():
    run = run_settings(criterion=criterion(0.5))
    said = of_study(
        study_settings(run),
        [MISSED],
        [],
        tracking_uri=URI,
        storage=Storage("runs"),
        directory=Path("runs"),
        version=None,
        names={MISSED.trial_id: "trial-07", "another": "trial-00"},
    )
    assert "The following command registers trial-07 with precision 0.300, recall" in said


@pytest.mark.parametrize(
    ("constant", "scores", "figures"),
    [
        ({"val_explained_rate": 0.0}, {"val_explained_rate": 0.0}, "explained_rate 0.000 against 0.000"),
        ({"val_explained_rate": 0.0}, {"val_explained_rate": 0.1}, None),
        (
            {"val_accuracy": 0.6, "val_macro_f1": 0.25},
            {"val_accuracy": 0.55, "val_macro_f1": 0.25},
            "accuracy 0.550 against 0.600; macro_f1 0.250 against 0.250",
        ),
        # a model of a rare class may pay for it in accuracy
        ({"val_accuracy": 0.6, "val_macro_f1": 0.25}, {"val_accuracy": 0.55, "val_macro_f1": 0.4}, None),
        ({}, {"val_accuracy": 0.1}, None),
    ],
)
def test_a_winner_that_predicts_no_better_than_one_answer_is_said_to(
    constant: dict[str, float], scores: dict[str, float], figures: str | None
):
    said = of_study(
        study_settings(),
        [candidate("a", scores={**SCORES, **scores})],
        [],
        tracking_uri=URI,
        storage=Storage("runs"),
        directory=Path("runs"),
        version=4,
        constant=constant,
    )
    note = "note: the model predicts no better than a constant answer for all texts"
    assert (f"{note} ({figures})" in said) if figures else (note not in said)


def test_trivial_masks_alone_are_said_to_be_so():
    trivial = candidate(value=-1.0, violation=1.0, degenerate="degenerate_all")
    text = text_of([trivial], version=None)
    said = (
        "No trial has an epoch that could be chosen: in every epoch the model selects (nearly) all or "
        "no tokens"
    )
    assert said in text
    assert "pipeline.register" not in text


def test_a_model_that_nobody_should_use_is_not_offered():
    def useless(violation: float, degenerate: str | None) -> BestEpoch:
        return candidate(violation=violation, value=-violation, is_result=False, degenerate=degenerate)

    trivial, unready = useless(1.1, "degenerate_all"), useless(1.2, None)
    at = "model    none worth using: at the best epoch of each trial, "
    assert f"{at}(nearly) all tokens are selected\n" in text_of([trivial, trivial], version=None)
    assert (
        f"{at}(nearly) all tokens are selected (1 of 2), the start phase is not over (1 of 2)\n"
    ) in text_of([trivial, unready], version=None)
    alone = of_one(useless(1.1, "degenerate_none"), criterion(), Path("x"), "beer")
    assert "model    x (none worth using: at its best epoch, (nearly) no token is selected)\n" in alone


def test_a_trial_whose_start_is_not_over_is_not_recommended():
    """Its scores may look best: nothing is pressed on its mask yet, or its classifier was never trained."""
    unready = candidate("a", violation=1.5, value=-1.5, is_result=False, scores=SCORES)
    relaxed, chosen = within_reach([unready, MISSED], criterion(0.9))
    assert chosen.trial_id == MISSED.trial_id and relaxed.is_met(MISSED.scores)
    assert "start phase not over" in table([unready], "beer", criterion(), {})
    alone = text_of([unready], version=None)
    assert "No trial has an epoch that could be chosen" in alone
    assert "pipeline.register" not in alone
    assert not judged([unready], criterion(0.0))[0].is_met


def test_a_threshold_of_ones_own_is_the_one_that_is_said():
    run = run_settings(criterion=criterion(0.7))
    assert "val_token_precision >= 0.7" in text_of([MISSED], version=None, run=run)


# --------------------------------------------------------------------------------------------- seeds


def seeds() -> list:
    return [candidate(str(i), scores={**SCORES, "val_token_precision": p}) for i, p in enumerate((0.6, 0.8))]


def test_mean_and_deviation_over_seeds():
    winner = candidate(scores={**SCORES, "val_token_precision": 0.7})
    found = spread([winner, *seeds()], "beer", criterion())
    assert found["num_seeds"] == 3
    assert found["val_token_precision_mean"] == pytest.approx(0.7)
    assert found["val_token_precision_sd"] == pytest.approx(0.1)  # of a sample: n - 1
    assert found["val_mse_sd"] == 0.0


def test_scores_that_only_the_criterion_reads_have_a_spread_too():
    run = run_settings(criterion=Criterion.parse("best val_auprc with val_sufficiency <= 0.5"))
    found = [
        candidate(str(i), scores={**SCORES, "val_auprc": 0.4 + 0.1 * i, "val_sufficiency": -0.0001})
        for i in (0, 1)
    ]
    (line,) = [line for line in text_of(found[:1], found[1:], run=run).splitlines() if "seeds:" in line]
    assert "auprc 0.450 +- 0.071" in line and "sufficiency 0.000 +- 0.000" in line


def test_one_seed_has_no_spread():
    assert spread([candidate()], "beer", criterion()) == {}
    assert "seeds:" not in text_of([candidate()])


def test_the_spread_of_the_winner_is_said():
    winner = candidate(scores={**SCORES, "val_token_precision": 0.7})
    (line,) = [line for line in text_of([winner, MISSED], seeds()).splitlines() if "seeds" in line]
    assert line.startswith("winner over 3 seeds: precision 0.700 +- 0.100, recall 0.250 +- 0.000, f1 ")


# ------------------------------------------------------------------------------------- one configuration


@pytest.mark.parametrize(
    ("is_met", "violation", "said"),
    [(True, 0.0, "met"), (False, 0.25, "missed by 0.250"), (False, 4e-4, "missed by less than 0.001")],
)
def test_one_configuration(is_met: bool, violation: float, said: str):
    best = BestEpoch(epoch=1, value=0.25, violation=violation, scores=SCORES)
    assert best.is_met == is_met
    lines = of_one(best, criterion(), Path("runs/models/x"), "beer").splitlines()
    assert lines[0] == (
        "best epoch on validation: 2; precision 0.500, recall 0.250, f1 0.333, selected 0.125, mse 0.0200"
    )
    assert lines[1] == f"{criterion()}: {said}"
    assert lines[-1] == "  python -m pipeline.explain --package runs/models/x --text TEXT"


def test_a_trivial_mask_is_called_one():
    degenerate = candidate(violation=1.689, value=-1.689, degenerate="degenerate_all")
    text = of_study(
        study_settings(),
        [degenerate],
        [],
        tracking_uri="sqlite:///m.db",
        storage=Storage("d"),
        directory=Path("d"),
        version=None,
    )
    assert "(nearly) all tokens are selected" in text
    assert "missed by" not in text
    assert "No trial has an epoch that could be chosen" in text
    assert "--min-precision" not in text


def test_the_trivial_mask_of_one_configuration_is_called_one():
    best = BestEpoch(epoch=0, value=-1.694, violation=1.694, degenerate="degenerate_all", scores=SCORES)
    text = of_one(best, criterion(), Path("model"), "beer")
    assert ": (nearly) all tokens are selected\n" in text
    assert "missed by" not in text


TITLES = [
    "trial",
    "lambda_g",
    "lambda_ib",
    "lambda_lm",
    "lambda_mi",
    "epoch",
    "precision",
    "recall",
    "f1",
    "selected",
]
WIDE = [[*TITLES, "mse", "criterion"], *([f"0.{i}{k}" for k in range(12)] for i in range(3))]


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_a_table_fits_the_terminal_and_keeps_every_cell(width: int):
    text = summary.fitted(WIDE, 4, width)
    assert max(map(len, text.splitlines())) <= width
    parts = text.split("\n\n")
    for number, row in enumerate(WIDE):
        cells = [cell for part in parts for cell in part.splitlines()[number].split()]
        assert set(row) <= set(cells), "every column of every trial is there"
    if len(parts) > 1:
        assert all(part.splitlines()[2].split()[0] == "0.10" for part in parts), "rows are found again"
        assert "recall" in text and text.index("epoch") < text.index("lambda_g"), "what it gave comes first"


def test_a_table_that_is_piped_has_its_full_width():
    assert summary.fitted(WIDE, 4, None) == summary.fitted(WIDE, 4, 10_000)
    assert len(summary.fitted(WIDE, 4, None).splitlines()) == len(WIDE)


def test_own_data_show_the_precision_that_the_criterion_reads():
    """`missed by 0.100` says little beside a table without the score that misses."""
    relative = Criterion.parse("best val_token_f1 with val_token_precision >= 0.95")
    scores = {
        "val_accuracy": 1.0,
        "val_token_f1": 0.9,
        "val_token_precision": 0.85,
        "val_selection_rate": 0.2,
    }
    one = candidate(scores=scores)
    head, row = summary.table([one], "jsonl", relative, {}).splitlines()
    assert "token precision" in head
    assert "0.850" in row
    assert "token precision 0.850" in summary.figures_of(one, "jsonl", relative)
    assert "token precision" not in summary.figures_of(one, "jsonl", Criterion.parse("best val_token_f1"))


def test_the_table_says_which_trials_ended_early():
    trials = [candidate("a"), candidate("b", ended="stopped after 6")]
    head, whole, stopped = summary.table(trials, "beer", criterion(), {}).splitlines()
    assert head.endswith("ended") and whole.endswith("-")
    assert stopped.endswith("stopped after 6")
    assert "ended" not in summary.table(trials[:1], "beer", criterion(), {})
