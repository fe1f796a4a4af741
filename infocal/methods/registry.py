"""The methods by name. Nothing is imported before it is asked for: a name can be checked without torch."""

import pkgutil
from dataclasses import dataclass
from typing import Any

from infocal.config import MethodConfig
from infocal.errors import ConfigError, did_you_mean

INFOCAL = "infocal"
"""The method that is meant where none is named, as in packages from before there were others."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method: where its hyper-parameters and its trainer, which knows the model, are found."""

    config: str
    """`module:class` of a `MethodConfig`."""
    trainer: str
    """`module:class` of a `Trainer`."""
    title: str
    """Its row in [Sha2023]'s tables."""
    encoders: tuple[str, ...] = ()
    """The encoders that it can have, its own first; empty: any."""
    is_supervised: bool = False
    """Whether it learns from human rationales: no other method is given those of training texts."""

    def config_class(self) -> type[MethodConfig]:
        """The class of its hyper-parameters."""
        found: type[MethodConfig] = pkgutil.resolve_name(self.config)
        return found

    def trainer_class(self) -> Any:
        """The class of its trainer, an `infocal.trainer.Trainer` that names the class of its model.

        Imports torch; its type is not named here, so that reading this module does not.
        """
        return pkgutil.resolve_name(self.trainer)


METHODS = {
    INFOCAL: Method(
        "infocal.config:InfoCalConfig", "infocal.methods.infocal.trainer:InfoCalTrainer", "InfoCal"
    ),
    "bernoulli": Method(
        "infocal.methods.bernoulli:BernoulliConfig", "infocal.methods.bernoulli:BernoulliTrainer", "Bernoulli"
    ),
    "hardkuma": Method(
        "infocal.methods.hardkuma:HardKumaConfig", "infocal.methods.hardkuma:HardKumaTrainer", "HardKuma"
    ),
    "attention": Method(
        "infocal.methods.attention:AttentionConfig", "infocal.methods.attention:AttentionTrainer", "Attention"
    ),
    "sparse_ib": Method(
        "infocal.methods.sparse_ib:SparseIBConfig", "infocal.methods.sparse_ib:SparseIBTrainer", "Sparse IB"
    ),
    "rnp": Method("infocal.methods.rnp:RnpConfig", "infocal.methods.rnp:RnpTrainer", "RNP"),
    "mcd": Method("infocal.methods.mcd:McdConfig", "infocal.methods.mcd:McdTrainer", "MCD"),
    "fresh": Method("infocal.methods.fresh:FreshConfig", "infocal.methods.fresh:FreshTrainer", "FRESH"),
    "cnn_gru": Method(
        "infocal.methods.cnn_gru:CnnGruConfig",
        "infocal.methods.cnn_gru:CnnGruTrainer",
        "CNN-GRU",
        encoders=("cnn",),
    ),
    "birnn": Method(
        "infocal.methods.birnn:BirnnConfig",
        "infocal.methods.birnn:BirnnTrainer",
        "BiRNN",
        encoders=("lstm", "rcnn"),
    ),
    "birnn_attn": Method(
        "infocal.methods.birnn_attn:BirnnAttnConfig",
        "infocal.methods.birnn_attn:BirnnAttnTrainer",
        "BiRNN-Attn [Attn]",
    ),
    "birnn_hatexplain": Method(
        "infocal.methods.birnn_hatexplain:BirnnHatexplainConfig",
        "infocal.methods.birnn_hatexplain:BirnnHatexplainTrainer",
        "BiRNN-HateXplain [Attn]",
        is_supervised=True,
    ),
    "topjudge": Method(
        "infocal.methods.topjudge:TopjudgeConfig",
        "infocal.methods.topjudge:TopjudgeTrainer",
        "TOPJUDGE",
        encoders=("cnn",),
    ),
    "mpbfn_wca": Method(
        "infocal.methods.mpbfn_wca:MpbfnWcaConfig",
        "infocal.methods.mpbfn_wca:MpbfnWcaTrainer",
        "MPBFN-WCA",
        encoders=("cnn",),
    ),
    "fla": Method(
        "infocal.methods.fla:FlaConfig",
        "infocal.methods.fla:FlaTrainer",
        "FLA",
        encoders=("lstm", "rcnn", "cnn"),
    ),
    "bert": Method(
        "infocal.methods.bert:BertConfig",
        "infocal.methods.bert:BertTrainer",
        "BERT [Attn]",
        encoders=("transformer",),
    ),
    "bert_hatexplain": Method(
        "infocal.methods.bert_hatexplain:BertHatexplainConfig",
        "infocal.methods.bert_hatexplain:BertHatexplainTrainer",
        "BERT-HateXplain [Attn]",
        encoders=("transformer",),
        is_supervised=True,
    ),
}


def method_of(config: MethodConfig) -> str:
    """Name of the method that a config belongs to.

    Raises:
        ConfigError: if its class is that of no method.
    """
    kind = f"{type(config).__module__}:{type(config).__qualname__}"
    for name, known in METHODS.items():
        if known.config == kind:
            return name
    raise ConfigError(f"no method has hyper-parameters of class `{kind}`")


def method(name: str) -> Method:
    """The method of that name.

    Raises:
        ConfigError: if there is none, naming the nearest one.
    """
    if name in METHODS:
        return METHODS[name]
    raise ConfigError(
        f"no method `{name}`; the methods are {', '.join(f'`{known}`' for known in METHODS)}",
        where="--method",
        hint=did_you_mean(name, METHODS, "--method "),
    )
