"""What the features of a run were made of: recorded with the run, and found or built again from that."""

import argparse
import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from feature_store.command_line import cache_folder
from feature_store.errors import UserError
from feature_store.sources.base import source_options
from feature_store.store import FeatureRequest, Features, load_features, open_features, provenance_of
from pipeline.base.errors import PipelineError
from pipeline.training import settings
from pipeline.training.settings import RunSettings

logger = logging.getLogger("pipeline.training.origin")

_DIGITS = 16
"""Of a fingerprint in the name of its folder, and in messages."""
_FILE = "file"
"""What the parameters of features call word vectors that came from a file."""
_REQUESTED = ("sample_seed", "max_length", "min_count", "embedding", "embedding_size", "seed")
"""Parameters of features that a request names by the same words."""


def origin_of(features: Features) -> dict[str, Any]:
    """What a run records of its features, as JSON.

    Returns:
        `parameters` and `digests` (of the raw files, by role), which make the fingerprint, and `files`: the
        SHA-256 of each file that was built from them.
    """
    provenance = features.provenance
    return {
        "parameters": provenance["parameters"],
        "digests": provenance["digests"],
        "files": {name: entry["sha256"] for name, entry in features.manifest.files.items()},
    }


def cached(fingerprint: str, cache_dir: Path, *directories: Path) -> Features | None:
    """Features that are built already, every file compared with its digest; None where there are none.

    Args:
        directories: further folders of features to look at, first.
    """
    named = (cache_dir / "features").glob(f"*-{fingerprint[:_DIGITS]}")
    for directory in [*filter(Path.is_dir, directories), *sorted(named)]:
        try:
            found = load_features(directory, verify=True)
        except UserError as error:
            logger.warning("%s: the features are built again", error)
            continue
        if found.fingerprint == fingerprint:
            return found
    return None


def features_again(
    run: RunSettings, fingerprint: str, *, sample: bool, given: argparse.Namespace
) -> Features:
    """The very features that a run was trained on: from this machine, or built again from the raw files.

    Where a flag names data, the features are those of these data, whatever lies in the cache.

    Args:
        sample: whether they are of the made-up corpus.
        given: parsed flags; `data_dir`, `cache_dir`, `embedding` and `option` are read.

    Raises:
        PipelineError: if the data and flags given make features of another fingerprint; says what differs.
        UserError: of the feature store, if they have to be built and cannot be.
    """
    trained_on = [Path(run.features_dir)] if run.features_dir else []
    found = cached(fingerprint, cache_folder(given.cache_dir), *trained_on)
    if found is not None and not (given.data_dir or given.embedding or given.option):
        return found
    known = run.origin or ({} if found is None else origin_of(found))
    # data that a flag names are no sample, whatever the run was trained on
    request = _request(run, known.get("parameters", {}), sample=sample and not given.data_dir, given=given)
    here, made_of = provenance_of(request)
    if here != fingerprint:
        raise PipelineError(
            f"the run was trained on features {fingerprint[:_DIGITS]}, but the given data and flags produce "
            f"features {here[:_DIGITS]}: {difference(known, made_of)}",
            where=f"--data-dir {given.data_dir}" if given.data_dir else None,
            hint="name the run's own files with `--data-dir`, `--embedding` and `--option`, "
            "or the cache that holds its features with `--cache-dir`",
        )
    built = open_features(request, verify=True)
    _warn_of_other_bytes(run.origin, built)
    return built


def _request(
    run: RunSettings, parameters: Mapping[str, Any], *, sample: bool, given: argparse.Namespace
) -> FeatureRequest:
    """What to ask for to get the run's features again; older runs recorded no parameters."""
    values: dict[str, Any] = {
        name: parameters[name] for name in _REQUESTED if parameters.get(name) is not None
    }
    if not values:
        values = {"max_length": run.config().max_length, **settings.word_vectors(run.dataset, None)}
    if given.embedding:
        values["embedding"] = given.embedding
    if values.get("embedding") == _FILE:
        raise PipelineError(
            "the run's word vectors came from a file; the path of this file is needed",
            where="--embedding",
            hint="name the file that was given to the search",
        )
    return FeatureRequest(
        dataset=run.dataset,
        aspect=run.aspect or None,
        data_dir=Path(given.data_dir) if given.data_dir else None,
        cache_dir=cache_folder(given.cache_dir),
        sample=sample,
        options={**run.options, **source_options(given.option)},
        **values,
    )


def is_of_another_version(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether features with unequal fingerprints come from equal files and parameters.

    Then different versions of `feature_store` built them.

    Args:
        recorded: as `origin_of` gives it; empty in what older versions stored.
    """
    return bool(recorded) and all(recorded[kind] == here[kind] for kind in ("parameters", "digests"))


def difference(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """What tells features of two origins apart, in words.

    Args:
        recorded: as `origin_of` gives it; empty in what older versions stored.
    """
    if not recorded:
        return "the difference is not known, because the run does not record how its features were built"
    found = []
    for kind, label in (("parameters", ""), ("digests", "sha256 of ")):
        old, new = recorded[kind], here[kind]
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                found.append(f"{label}{name} was {_short(old.get(name))} and is {_short(new.get(name))}")
    same = "the files and parameters are the same, but the version of `feature_store` differs"
    return "; ".join(found) or same


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text[:_DIGITS] if len(text) == 64 else text


def _warn_of_other_bytes(recorded: Mapping[str, Any], built: Features) -> None:
    """Say which files came out otherwise, though equal data and parameters went in."""
    files = origin_of(built)["files"]
    other = [name for name, digest in recorded.get("files", {}).items() if files.get(name) != digest]
    if other:
        logger.warning(
            "%s: rebuilt from the same data, but not byte-identical to the files of the training",
            ", ".join(other),
        )


def placed(run: RunSettings, features: Features) -> RunSettings:
    """The settings of a run that reads these features on this machine."""
    return dataclasses.replace(run, features_dir=str(features.directory.resolve()), features_uri="")
