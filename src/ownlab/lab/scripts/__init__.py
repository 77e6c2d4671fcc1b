"""`ownlab run SCRIPT`: a Python script on one or several cards, as a runtime without a kernel. Engines start it.

records.py       the report of a run, and what its folder records
preparation.py   the request, checked completely before anything is started
folder.py        the folder of a run with its logs, and how it is found again by its runtime
outcome.py       how a run ended, and which rank failed first
run.py           one run from start to end, or into the background
"""
