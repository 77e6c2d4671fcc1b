"""`ownlab bench`: how fast a machine is. A guest (ownlab_guest.bench) measures in the user's Python.

cli.py               the commands: run, compare, show, list
measurement.py       starts the guest, reads its events, builds the report
assessment.py        medians, limits of the card, measurement errors, causes of low results
machine_summary.py   the machine in a report, and the card behind "cuda:0"
comparison.py        ratios between reports, reference results, rank of the card; statistics.py has the tests
report_files.py      saved results and the reference results in library/
records.py           events and reports; terminal.py and chart.py show them
"""
