"""`ownlab run`: notebooks run without a page.

preparation.py      the request, the notebook with its parameters, the output file
runtime_type.py     which runtime type the notebook runs on
validation.py       checks everything before anything is started -> PreparedRun
package_restore.py  installs the packages that the notebook recorded
runtime.py          the runtime of a run: started or kept, and ended with it
executor.py         sends the cells one after the other and waits for each to end
live_output.py      what cells print, passed to the reporter while they run
output_file.py      updates the output notebook from the journal
run.py              one run from start to end; `ownlab.run_notebook`
background.py       --detach: a run that outlives the terminal
resume.py           --keep and --from-failed
reporter.py         how a run reports progress, and how it is stopped
records.py          the report of a run, and its errors
"""
