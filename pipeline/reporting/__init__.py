"""Pages, charts and tables from plain data.

Nothing is trained here, and MLflow is not read.
"""
