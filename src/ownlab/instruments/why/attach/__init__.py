"""Why a process that already runs is slow: `ownlab why --pid PID`.

- `stacks.py` samples its stacks with py-spy, a program of its own that reads the process's memory; `refusals.py` says why it could not.
- `process_facts.py` reads what the kernel counts of the process and its workers.
- `explanation.py` divides the time of the training thread by what its stacks show, and names the causes that can be told from outside.
"""
