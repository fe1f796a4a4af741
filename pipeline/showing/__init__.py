"""One or two models on a web page, to be tried by hand.

Lives here: everything behind `python -m pipeline.demo`. May not come in: training, Ray, Optuna, MLflow.
"""
