"""What the start page shows beside the snapshot of runtimes and cards. Everything here blocks; the server calls it in threads.

- `records`: the records that the page receives
- `recent`: the notebooks that were used last, and what happened to them
- `data_sets`: the data sets that were used last
- `doctor_report`: the doctor's verdict on this machine
"""
