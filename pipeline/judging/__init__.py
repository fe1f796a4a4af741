"""People judge rationales, or mark their own: sheets, the pages on which that is done, and what came of it.

Lives here: everything behind `python -m pipeline.judge`. May not come in: training, Ray, Optuna, MLflow.
"""
