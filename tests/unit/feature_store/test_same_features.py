"""Features stay the same, entry for entry: a change of them would orphan caches and studies unsaid.

`tests/data/golden/features.json` was written by the code of 7fadc0c, which read the files line by line.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from feature_store.store import FeatureRequest, Features, open_features

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "golden" / "features.json").read_text())
SAMPLES: dict[str, dict[str, Any]] = {
    "sample-beer": {"dataset": "beer", "aspect": "palate"},
    "sample-beer-pool": {"dataset": "beer", "aspect": "smell", "options": {"pool": "residual"}},
    "sample-beer-adjusted": {"dataset": "beer", "aspect": "palate", "options": {"pool": "adjusted"}},
    "sample-beer-vectors": {"dataset": "beer", "aspect": "palate", "options": {"pool": "vectors"}},
    "sample-hatexplain": {"dataset": "hatexplain"},
    "sample-cail": {"dataset": "cail-small", "aspect": "charges"},
    "sample-jsonl": {"dataset": "jsonl"},
    "sample-eraser": {"dataset": "eraser"},
}


def digests(features: Features) -> dict[str, str]:
    """SHA-256 of the rows of each table, of the words with their counts, and the fingerprint."""
    found = {split: features.table(split).to_pylist() for split in features.splits}
    words = list(zip(features.vocabulary.tokens, features.token_counts.tolist(), strict=True))
    parts = {**found, "words": words, "counts": features.provenance["counts"]}
    written = {name: json.dumps(part, sort_keys=True) for name, part in parts.items()}
    return {
        "fingerprint": features.fingerprint,
        **{name: hashlib.sha256(text.encode()).hexdigest() for name, text in written.items()},
    }


def built(cache_dir: Path, **wanted: Any) -> dict[str, str]:
    """Digests of features whose texts are cut, and whose rare words are unknown."""
    rest: dict[str, Any] = {"max_length": 40, "min_count": 2, "embedding": "random", "embedding_size": 2}
    return digests(open_features(FeatureRequest(cache_dir=cache_dir, **wanted, **rest)))


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_corpora_give_the_features_of_before(name: str, tmp_path: Path):
    assert built(tmp_path, sample=True, **SAMPLES[name]) == GOLDEN[name]
