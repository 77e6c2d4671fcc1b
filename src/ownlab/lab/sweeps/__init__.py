"""`ownlab run --sweep`: the same notebook or script with every combination of some values.

grid.py      the combinations that were asked for
records.py   the result of each combination, and of all
folder.py    the folder of a sweep: what is finished there is not repeated
metrics.py   the last numbers that a run has printed
sweep.py     runs the combinations, as many at a time as there are free cards
"""
