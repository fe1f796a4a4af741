"""How metrics are called in MLflow: there `val/token_f1` is what this project calls `val_token_f1`.

MLflow's pages put the metrics of one prefix into one section. Everywhere else, in the ledger, the criterion
and the code, a metric has its flat name. Runs that older versions logged have flat names in MLflow as well:
these are read as they are.
"""

from collections.abc import Iterable, Mapping

SECTIONS = {
    "val_": "val/",
    "train_": "train/",
    "test_": "test/",
    "annotated_": "annotated/",
    "rival_test_": "rival_test/",
    "best_val_": "best/",
    "trivial_": "trivial/",
    "gradient_share_": "gradient_share/",
}
"""Beginning of a flat name -> section in MLflow."""

_NO_SECTION = frozenset({"train_s"})
"""Names that begin like those of a section and are something else: the seconds of training."""
_COUNTED = {"best_epoch": "best/epoch"}
"""Numbers of an epoch: counted from 0 in the code, and from 1 in MLflow, where people read them."""


def in_mlflow(name: str) -> str:
    """The name of a metric in MLflow."""
    if name in _COUNTED:
        return _COUNTED[name]
    for prefix, section in SECTIONS.items():
        if name.startswith(prefix) and len(name) > len(prefix) and name not in _NO_SECTION:
            return section + name.removeprefix(prefix)
    return name


def flat(name: str) -> str:
    """The name that `in_mlflow` was given; one that has no section of ours stays as it is."""
    for counted, shown in _COUNTED.items():
        if name == shown:
            return counted
    for prefix, section in SECTIONS.items():
        if name.startswith(section):
            return prefix + name.removeprefix(section)
    return name


def value_in_mlflow(name: str, value: float) -> float:
    """The value of a metric in MLflow, by its flat name."""
    return value + 1 if name in _COUNTED else value


def flat_value(name: str, value: float) -> float:
    """The value that `value_in_mlflow` was given, by the name in MLflow."""
    return value - 1 if name in _COUNTED.values() else value


def all_flat(metrics: Mapping[str, float]) -> dict[str, float]:
    """MLflow's metrics by their flat names.

    Where a run has both names, an older version began it and this one went on: what is in a section is newer.
    """
    ordered = sorted(metrics.items(), key=lambda item: flat(item[0]) != item[0])
    return {flat(name): flat_value(name, value) for name, value in ordered}


def names_of(name: str) -> Iterable[str]:
    """Every name that a metric may have in MLflow, by its flat name."""
    return dict.fromkeys((name, in_mlflow(name)))
