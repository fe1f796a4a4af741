"""Runs things: search, training, tracking, registry and reports, from the command line."""

import feature_store as feature_store  # answers Ctrl-C while the modules of a command are loaded
