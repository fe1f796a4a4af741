"""The table of language models: each is trained and scored once, and its outcome is kept."""

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path

from feature_store import terminal
from feature_store.store import load_features
from infocal.trainer import resolve_device
from pipeline.base.locations import make_folder
from pipeline.base.storage import Location
from pipeline.base.stored_files import check_name, read_settings, write_json, write_json_whole
from pipeline.comparing.places import LANGUAGE_MODEL_SETTINGS, LANGUAGE_MODELS, OUTCOMES, read_each
from pipeline.reporting import pages, typeset
from pipeline.reporting.language_model_tables import MeasuredModels, section
from pipeline.study.study_folder import StudyFolder
from pipeline.training import language_models
from pipeline.training.language_models import LanguageModelData, LanguageModelOutcome, LanguageModelRun

logger = logging.getLogger("pipeline.comparing.language_models")

DATA, TABLE = "data.json", "table"
TITLE = "Language models"


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageModelSettings:
    """Everything that decides a table; stored with it, so that it can be resumed."""

    name: str
    dataset: str
    aspect: str
    options: dict[str, str]
    features_dir: str
    sample: bool
    run: LanguageModelRun
    command: str

    def save(self, directory: Path) -> None:
        """Write `language_models.json`, whole or not at all."""
        write_json_whole(directory / LANGUAGE_MODEL_SETTINGS, dataclasses.asdict(self))

    @classmethod
    def load(cls, directory: Path, name: str) -> "LanguageModelSettings":
        """Read `language_models.json` of the table of this name.

        Raises:
            StateError: if it is missing, not JSON, or not what `save` writes.
        """
        path = directory / LANGUAGE_MODEL_SETTINGS
        found = read_settings(cls, path, "the settings of a table of language models")
        check_name(found.name, name, LANGUAGE_MODELS.name, path)
        return found


def conduct(prepared: LanguageModelSettings, folder: StudyFolder) -> str:
    """Train and score every model without an outcome, and write the table.

    Args:
        prepared: what to do, the features built.

    Returns:
        The table as Markdown.
    """
    make_folder(folder.directory / OUTCOMES, "--storage")
    prepared.save(folder.directory)
    folder.publish(LANGUAGE_MODEL_SETTINGS)
    features, device = load_features(Path(prepared.features_dir)), resolve_device(prepared.run.device)
    if not (folder.directory / DATA).is_file():
        data = language_models.data_of(features)
        write_json_whole(folder.directory / DATA, dataclasses.asdict(data))
        folder.publish(DATA)
    for model in language_models.MODELS:
        name = f"{OUTCOMES}/{model}.json"
        if (folder.directory / name).is_file():
            logger.info("%s is done already", model)
            continue
        with terminal.step(f"training and scoring {model}"):
            found = language_models.measure(model, features, prepared.run, device)
        write_json_whole(folder.directory / name, dataclasses.asdict(found))
        folder.publish(name)
    return _write(_measured(folder.directory, prepared.name), folder)


def _write(found: MeasuredModels, folder: StudyFolder) -> str:
    sections = [section([found])]
    notes = [f"command: `{found.command}`"]
    texts = {
        f"{TABLE}.html": pages.paper_page(title=TITLE, sections=sections, notes=notes),
        f"{TABLE}.md": typeset.paper_markdown(TITLE, sections, notes),
        f"{TABLE}.tex": typeset.paper_latex(sections, notes),
    }
    for name, text in texts.items():
        (folder.directory / name).write_text(text, encoding="utf-8")
    write_json(folder.directory / f"{TABLE}.json", dataclasses.asdict(found))
    folder.publish(*texts, f"{TABLE}.json")
    return texts[f"{TABLE}.md"]


def _measured(directory: Path, name: str) -> MeasuredModels:
    prepared = LanguageModelSettings.load(directory, name)
    paths = [directory / OUTCOMES / f"{model}.json" for model in language_models.MODELS]
    return MeasuredModels(
        name=name,
        dataset=prepared.dataset,
        aspect=prepared.aspect,
        options=prepared.options,
        is_sample=prepared.sample,
        data=read_settings(LanguageModelData, directory / DATA, "what language models were measured on"),
        outcomes=[
            read_settings(LanguageModelOutcome, path, "the outcome of a language model")
            for path in paths
            if path.is_file()
        ],
        command=prepared.command,
    )


def gather(home: Location) -> list[MeasuredModels]:
    """Every table of language models in a storage, finished or not, by name."""
    return read_each(home, LANGUAGE_MODELS, [DATA, LANGUAGE_MODEL_SETTINGS, OUTCOMES], _measured)
