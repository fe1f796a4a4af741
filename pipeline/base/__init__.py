"""What every room may use: errors, storages, addresses, digests, locks.

Nothing of training, Ray, Optuna or MLflow comes in.
"""
