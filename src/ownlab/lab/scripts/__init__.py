"""`ownlab run SCRIPT`: a Python script on one or several cards of this machine, as a runtime without a kernel.

records.py       the report of a run, and what its folder records
preparation.py   the request, checked completely before anything is started
cards.py         which cards it asks for: any number of one kind
folder.py        the folder of a run with its logs, and how it is found again by its runtime
outcome.py       how a run ended, and which rank failed first
run.py           one run from start to end, or into the background
"""
