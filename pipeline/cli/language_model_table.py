"""`pipeline.compare --table language-models`: check the flags, and measure perplexities."""

import argparse
import contextlib
import logging
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from feature_store import terminal
from infocal.methods.registry import INFOCAL
from pipeline.base import command_text, locations
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Location, Storage
from pipeline.cli import planning
from pipeline.comparing.places import LANGUAGE_MODEL_SETTINGS, LANGUAGE_MODELS
from pipeline.study import study_folder
from pipeline.training import naming

if TYPE_CHECKING:
    from pipeline.comparing.language_models import LanguageModelSettings

logger = logging.getLogger("pipeline.cli.language_model_table")

_WITHOUT_EFFECT = (
    *("methods", "seeds", "epochs", "target_selection_rate", "min_precision", "config", "set", "bf16"),
    *("cpus_per_run", "gpus_per_run", "address", "tracking_uri"),
)
"""Flags of methods. The models of this table are trained one after the other; MLflow is told nothing."""


def run(given: argparse.Namespace, arguments: Sequence[str], defaults: argparse.Namespace) -> int:
    """Measure the models and print their table; returns the exit code.

    Args:
        given: parsed flags of `pipeline.compare`.
        defaults: the same flags where none is given.

    Raises:
        PipelineError: if a flag has no effect here.
    """
    _refuse_flags_of_methods(given, defaults)
    storage = locations.storage(given.storage, given.sample)
    home = storage.opened()
    if storage.is_remote:
        home.check()
    name = given.name or naming.default_name(given.dataset, given.aspect or "")
    prepare = _stored(given, home) if given.resume else _new(given, arguments, name)
    directory = home / LANGUAGE_MODELS.home / name
    if given.dry_run:
        print(_plan(given, name, directory))
        return 0
    with (
        study_folder.opened(storage, name, resume=given.resume, kind=LANGUAGE_MODELS) as folder,
        study_folder.resume_hint(
            folder.directory / LANGUAGE_MODEL_SETTINGS, _again(storage, name, sample=given.sample), "model"
        ),
    ):
        logger.info("results: %s", directory)
        with terminal.opened(), contextlib.redirect_stdout(sys.stderr):
            prepared = prepare()
            with terminal.step("loading the packages"):
                from pipeline.comparing import language_models
            table = language_models.conduct(prepared, folder)
    terminal.answer(table)
    files = ", ".join(str(folder.shown / f"{language_models.TABLE}.{kind}") for kind in ("html", "md", "tex"))
    logger.info("tables: %s", files)
    return 0


def _again(storage: Storage, name: str, *, sample: bool) -> str:
    words = ["python", "-m", "pipeline.compare", "--table", "language-models", "--resume", "--name", name]
    words += command_text.storage_flags(storage, sample=sample)
    return shlex.join([*words, *(["--sample"] if sample else [])])


def _refuse_flags_of_methods(given: argparse.Namespace, defaults: argparse.Namespace) -> None:
    for flag in _WITHOUT_EFFECT:
        if getattr(given, flag) != getattr(defaults, flag):
            raise PipelineError(
                "this flag has no effect on language models: they are trained one after the other with "
                "hyper-parameters of their own, and nothing is written to MLflow",
                where=f"--{flag.replace('_', '-')}",
                hint="leave out the flag, or leave out `--table language-models` to compare methods",
            )


_Prepare = Callable[[], "LanguageModelSettings"]


def _new(given: argparse.Namespace, arguments: Sequence[str], name: str) -> _Prepare:
    """Check the flags; what is returned builds the features, those of InfoCal on this data set."""
    run = planning.run_settings(argparse.Namespace(**{**vars(given), "method": INFOCAL}), {})
    planning.check_device(run)
    planning.check_data(given, run)

    def prepare() -> "LanguageModelSettings":
        from feature_store.store import open_features
        from pipeline.comparing.language_models import LanguageModelSettings
        from pipeline.training.language_models import default_run

        with terminal.step("preparing the data"):
            features = open_features(planning.feature_request(given, run), verify=True)
        for note in features.notes:
            logger.info("note: %s", note)
        return LanguageModelSettings(
            name=name,
            dataset=run.dataset,
            aspect=run.aspect,
            options=dict(run.options),
            features_dir=str(features.directory.resolve()),
            sample=given.sample,
            run=default_run(given.device, run.language_model, given.seed, is_sample=given.sample),
            command=command_text.stored_command("pipeline.compare", arguments),
        )

    return prepare


def _stored(given: argparse.Namespace, home: Location) -> _Prepare:
    """What reads the settings of the table that `--resume --name` names.

    Raises:
        PipelineError: if none is named, or there is none of that name.
    """
    if not given.name:
        raise PipelineError(
            "expected the name of the table, but got none", where="--resume", hint="add `--name NAME`"
        )
    otherwise = "without `--resume`, a new table starts"
    study_folder.check_exists(home, given.name, otherwise, LANGUAGE_MODELS)
    place = home / LANGUAGE_MODELS.home / given.name
    if not (place / LANGUAGE_MODEL_SETTINGS).exists():
        raise study_folder.ended_at_once(given.name, "--resume", "leave out `--resume`", LANGUAGE_MODELS)

    def prepare() -> "LanguageModelSettings":
        from pipeline.comparing.language_models import LanguageModelSettings

        logger.info("resuming with the table's own settings; flags about training have no effect")
        with place.localised(LANGUAGE_MODEL_SETTINGS) as folder:
            return LanguageModelSettings.load(folder, given.name)

    return prepare


def _plan(given: argparse.Namespace, name: str, directory: Location) -> str:
    from pipeline.training.language_models import MODELS

    return "\n".join(
        [
            f"table        {name}  ({naming.title(given.dataset, given.aspect)})",
            f"results      {directory}",
            f"models       {', '.join(MODELS)}, one after the other",
        ]
    )
