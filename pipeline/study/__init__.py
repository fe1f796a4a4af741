"""The engine of a search: from its settings to a concluded study, with Ray Tune and Optuna.

Commands and their flags do not come in.
"""
