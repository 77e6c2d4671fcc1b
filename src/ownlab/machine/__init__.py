"""Facts about a computer: read live, loaded from a file, or rebuilt from pasted text. The records are always the same.

In reading order:

- `facts.py`: `Known(value, source, unit)` or `Unknown(reason)`.
- `records.py`: the records, from `Machine` down to one `Disk`; `machine_file.py` saves and loads them.
- `reader.py`: `read_machine()` starts every probe at once and collects the answers, each within its deadline.
- `host/`: system, CPU, memory, disks, containers, kernel. `nvidia/`: driver and cards. `vendors/`: the other vendors.
- `toolkits.py`: CUDA, cuDNN and NCCL on disk, and which CUDA libraries load in the interpreter.
- `interpreter.py`: the Python in question, its packages, and what each framework in it sees.
- `environment_variables.py`: the variables that affect accelerators and what their values mean;
  `visible_devices.py`: the grammar of CUDA_VISIBLE_DEVICES and its relatives.
- `installed_cards.py`: this machine's cards under their names in the catalog.
- `files.py`: reads small files of the kernel as facts, under a root that tests can choose.
- `cli.py`, `terminal.py`: `ownlab machine`.
"""
