"""The only door to MLflow: runs, metrics, models, the registry.

Nothing of Ray or of a study comes in.
"""
