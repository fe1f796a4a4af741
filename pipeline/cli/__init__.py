"""What several commands do with their flags: the plan of a run.

Nothing that trains comes in.
"""
