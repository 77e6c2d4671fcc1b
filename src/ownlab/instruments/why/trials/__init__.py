"""`ownlab why --try`: measures what promising changes are worth, instead of predicting it.

- `candidates.py` chooses changes that make sense for what was found; `code_edits.py` writes them as diffs of the user's code.
- `trial_run.py` runs a few dozen steps of the script with changes applied from outside, where nothing of it stays.
- `comparison.py` compares two runs: the speed-up with its band, and the losses.
- `experiment.py` runs them one at a time within the budget, then the best together; `terminal.py` shows the table.
"""
