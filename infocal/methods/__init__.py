"""One file for each method: its hyper-parameters, its model, its losses and its training step."""
