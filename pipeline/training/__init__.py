"""One trial on any machine: its settings, the loop over epochs, checkpoints, scores.

It knows no Ray, Optuna or MLflow.
"""
