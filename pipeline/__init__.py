"""Runs things: search, training, tracking, registry and reports, from the command line."""
