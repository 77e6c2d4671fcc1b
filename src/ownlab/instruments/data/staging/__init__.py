"""`ownlab data stage` and `sets`: verified copies on the local scratch disk, within a limit, and the list of data sets.

source_tree.py (what is to be copied) -> store.py (the copies, their locks, eviction) -> copying.py (files, in parallel) ->
pipeline.py.
"""
