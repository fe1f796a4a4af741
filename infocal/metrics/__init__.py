"""Scores of rationales and predictions, and the trivial rationales beside them.

Numpy alone: torch does not come in.
"""
