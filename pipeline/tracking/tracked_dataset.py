"""The data of a run, as MLflow's pages show them."""

import json
from dataclasses import dataclass

from feature_store.store import Features
from pipeline.training.data_options import target_of

MAX_DIGEST = 36
"""Characters of a digest that MLflow takes."""


@dataclass(frozen=True, slots=True)
class TrackedDataset:
    """A data set; `source`, `schema` and `profile` are JSON."""

    name: str
    digest: str
    """The first digits of the features' fingerprint, as many as MLflow takes."""
    source: str
    """What the features were made of: the whole fingerprint, digests of the raw files, parameters."""
    schema: str
    """Names and types of the columns."""
    profile: str
    """How many texts each split has, and how many words there are."""


def dataset_of(features: Features, own_title: str = "") -> TrackedDataset:
    """The data set that features are of.

    Args:
        own_title: how own data are called; empty for other data sets.
    """
    provenance = features.provenance
    sizes = {split: int(provenance["counts"][f"{split}_rows"]) for split in features.splits}
    source = {
        "fingerprint": features.fingerprint,
        "digests": provenance["digests"],
        "parameters": provenance["parameters"],
    }
    fields = [{"name": field.name, "type": str(field.type)} for field in features.table("train").schema]
    profile = {"num_rows": sum(sizes.values())}
    profile |= {f"num_{split}": size for split, size in sizes.items()}
    profile["num_words"] = len(features.token_counts)
    return TrackedDataset(
        name=target_of(features, own_title),
        digest=features.fingerprint[:MAX_DIGEST],
        source=json.dumps(source, default=str),
        schema=json.dumps({"mlflow_colspec": fields}),
        profile=json.dumps(profile),
    )
