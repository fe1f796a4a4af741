"""A bag-of-words logistic regression on the very split that a search uses: what models stand beside.

python -m benchmarks.bag_of_words --dataset cail-small --task charges --data-dir DATA
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

from feature_store.cache import as_numpy
from feature_store.store import Features, load_features
from infocal.metrics.scores import classification_scores
from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import common_flags, planning


def main(arguments: Sequence[str]) -> int:
    """Train on `train`, score on `val` and `test`; returns the exit code."""
    parser = common_flags.parser(
        "benchmarks.bag_of_words", "A bag-of-words logistic regression on the same split."
    )
    common_flags.add_data_arguments(parser)
    common_flags.add_training_arguments(parser)
    given = parser.parse_args(arguments)
    run = planning.with_features(given, planning.run_settings(given, {}))
    features = load_features(Path(run.features_dir))
    if features.task.class_names is None:
        raise PipelineError(f"dataset `{given.dataset}` is a regression", where="--dataset")
    weighting = TfidfTransformer(sublinear_tf=True)
    train = weighting.fit_transform(_counts(features, "train"))
    model = LogisticRegression(max_iter=1000, C=10.0).fit(train, as_numpy(features.table("train")["target"]))
    for split in ("val", "test"):
        predicted = model.predict(weighting.transform(_counts(features, split)))
        scores = classification_scores(predicted, as_numpy(features.table(split)["target"]))
        print(f"{split:<5}", ", ".join(f"{name} {value:.4f}" for name, value in scores.items()))
    return 0


def _counts(features: Features, split: str) -> csr_matrix:
    """How often each word stands in each text."""
    column: pa.ChunkedArray = features.table(split)["token_ids"]
    array = column.combine_chunks()
    offsets, ids = as_numpy(array.offsets), as_numpy(array.values)
    shape = (len(array), len(features.vocabulary))
    return csr_matrix((np.ones(len(ids)), ids, offsets), shape=shape)


if __name__ == "__main__":
    sys.exit(run_command(main))
