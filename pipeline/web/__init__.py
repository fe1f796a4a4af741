"""Pages that a command serves: where it listens, who gets in, how much it takes, what a page is made of.

Lives here: what `pipeline.judge` and `pipeline.demo` have in common. May not come in: what one of them alone
shows, training, Ray, Optuna, MLflow.
"""
