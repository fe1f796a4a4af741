"""The name under which models that older versions registered import `load_package`."""

from pipeline.training.checkpoints import load_package as load_package
