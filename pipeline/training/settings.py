"""What a worker needs to train one configuration."""

from dataclasses import dataclass, field
from typing import Any

from infocal.config import MethodConfig
from search_spaces import lookup
from search_spaces.base import Criterion

SAMPLERS = ("tpe", "random", "grid", "gp")
"""Who may propose points; `pipeline.study.scheduler` makes them."""

RUN = "run"
"""In a trial's config: the name of its settings, in a study whose trials have settings of their own."""
GPU_STEPS = 10_000
"""Ray gives out a GPU in ten-thousandths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """Everything that a worker needs besides the hyper-parameters; plain values, so that it travels."""

    dataset: str
    aspect: str
    method: str
    options: dict[str, str]
    """Choices that the data set offers, as given."""
    features_dir: str
    """Built features, memory-mapped by the worker."""
    language_model: dict[str, Any]
    """Its config; the scores lie beside the features."""
    base: dict[str, Any]
    """Hyper-parameters that the search does not vary."""
    criterion: Criterion
    num_epochs: int
    seed: int
    device: str
    bf16: bool
    num_threads: int
    gpu_memory_rate: float = 1.0
    """Share of its card's memory that a trial may hold, in (0, 1]; the rest belongs to its neighbours."""
    features_uri: str = ""
    """Where a machine without that folder fetches the features from; empty: all share the folder."""
    hold_rate: bool = False
    """Whether the threshold is set on validation texts so that the target selection rate is met."""
    criterion_kind: str = ""
    """`relative` where the threshold on precision is a rival's, which is measured before the search; `paper`
    where it is fixed; empty in what older versions stored, and where nobody searches."""
    rival: dict[str, Any] = field(default_factory=dict)
    """What was measured for that threshold, as `pipeline.study.rival` says it; empty until then."""
    checkpoint_s: float = 60.0
    """Seconds of training between the states that a search keeps within an epoch; 0: none."""
    origin: dict[str, Any] = field(default_factory=dict)
    """What the features were made of, as `origin.py` says it; empty in what older versions stored."""
    own_title: str = ""
    """How own data are called in what people read; empty for other data sets, and in what older versions
    stored."""

    @property
    def name(self) -> str:
        """Of one of several trainings, which differ in their methods and seeds."""
        return f"{self.method}-seed{self.seed}"

    def config(self, **changes: Any) -> MethodConfig:
        """The method's hyper-parameters: `base`, with changes.

        Raises:
            ConfigError: if a name is unknown to the method, or a value is bad.
        """
        return lookup.implementation(self.method).config_class().from_mapping(self.base | changes)


def word_vectors(dataset: str, embedding: str | None) -> dict[str, Any]:
    """What a request for features says about word vectors: the data set's preset, then the flag.

    Vectors of a file are as long as they are there.
    """
    from feature_store import embeddings  # numpy and pyarrow, which `--help` need not wait for

    found: dict[str, Any] = dict(lookup.features_preset(dataset))
    if embedding is None:
        return found
    found["embedding"] = embedding
    if size := embeddings.size_in_file(embedding):
        found["embedding_size"] = size
    return found
