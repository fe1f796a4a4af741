"""Methods compared over seeds, and the repetition of a trial.

Commands and their flags do not come in.
"""
