"""ownlab, the Colab you own: know your machine, and put it to work."""

# General layout: one folder per feature. tests/test_architecture.py lists which package may import which.
#
#   errors, text, units          failures with exit codes; sentences with placeholders; bytes, seconds, FLOP/s
#   atomic_files, file_lock      the one atomic writer; the one file lock
#   paste, json_encoding         cleaning of pasted text; records as JSON
#   processes/                   /proc, child processes with deadlines, background calls
#   guest_client                 starts guest code (ownlab_guest) in other interpreters
#   config/                      settings, limits, presets, paths: each defined once
#   render/                      console, JSON documents, charts, TypeScript declarations
#   cli/                         the table of commands; errors become exit codes
#   machine/                     facts about this computer: Known(value, unit, source) or Unknown(reason)
#   catalog/                     cards, drivers, CUDA, wheels, platforms, speeds: data with source and date
#   instruments/                 one folder per command: doctor, top, why, bench, fit, advise, data
#                                (cli, records, terminal, chart, notebook, and the logic)
#   lab/                         where work runs and is kept
#     store/                     runtimes, leases and usage: SQLite, scheduler, locks
#     runtimes/                  runtime types, kernelspecs, the plan, the provisioner
#     supervisor/                the process that owns a kernel (standard library and zmq)
#     transport/                 the sockets between a supervisor and its clients
#     journal/                   what kernels sent, on disk: records, state, replay, compaction
#     notebooks/                 notebooks as files, merged with their journals
#     runs/ scripts/ sweeps/     notebooks without a page, scripts on several GPUs, combinations of values
#     environments/ colab/ forms/ secrets/ remote_notebooks/ start_page/
#     server/                    the Jupyter server extension
#     service/                   up, down, open, the watchdog
#     cli/ terminal/             the lab's commands and what they print
#   notebook                     what a notebook calls and what belongs to no feature
#   notebook_language            the language of what notebooks and scripts call
#   data                         what training scripts and notebooks read data sets with
#
# Next to this package is ownlab_guest: code that runs inside the user's interpreter (torch, JAX, NVML), started by
# guest_client. torch never enters this process.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ownlab.errors import OwnlabError
    from ownlab.instruments.doctor.diagnosis import case_of, diagnose
    from ownlab.instruments.doctor.paste.reader import read_paste
    from ownlab.instruments.doctor.records import Case, Diagnosis, Finding
    from ownlab.instruments.fit.notebook import fit
    from ownlab.instruments.top.notebook import watch
    from ownlab.lab.runs.run import run_notebook
    from ownlab.machine.facts import Known, Unknown
    from ownlab.machine.machine_file import load_machine, save_machine
    from ownlab.machine.reader import read_machine
    from ownlab.machine.records import Machine
    from ownlab.notebook import load_ipython_extension, on_end, why

__version__ = "0.1.0"

# Public name -> the module that has it. Loaded when asked for: `import ownlab` costs nothing and touches nothing.
_PUBLIC = {
    "Case": "ownlab.instruments.doctor.records",
    "Diagnosis": "ownlab.instruments.doctor.records",
    "Finding": "ownlab.instruments.doctor.records",
    "Known": "ownlab.machine.facts",
    "Machine": "ownlab.machine.records",
    "OwnlabError": "ownlab.errors",
    "Unknown": "ownlab.machine.facts",
    "case_of": "ownlab.instruments.doctor.diagnosis",
    "diagnose": "ownlab.instruments.doctor.diagnosis",
    "fit": "ownlab.instruments.fit.notebook",
    "load_ipython_extension": "ownlab.notebook",
    "load_machine": "ownlab.machine.machine_file",
    "on_end": "ownlab.notebook",
    "read_machine": "ownlab.machine.reader",
    "read_paste": "ownlab.instruments.doctor.paste.reader",
    "run_notebook": "ownlab.lab.runs.run",
    "save_machine": "ownlab.machine.machine_file",
    "watch": "ownlab.instruments.top.notebook",
    "why": "ownlab.notebook",
}

# What notebooks call, and what prints and raises sentences there.
_SPEAKING = {"data", "fit", "load_ipython_extension", "on_end", "run_notebook", "watch", "why"}

__all__ = [
    "Case",
    "Diagnosis",
    "Finding",
    "Known",
    "Machine",
    "OwnlabError",
    "Unknown",
    "case_of",
    "diagnose",
    "fit",
    "load_ipython_extension",
    "load_machine",
    "on_end",
    "read_machine",
    "read_paste",
    "run_notebook",
    "save_machine",
    "watch",
    "why",
]


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if name in _SPEAKING:
        from ownlab.notebook_language import follow_environment

        follow_environment()
    if name == "data":
        import ownlab.data as data_module

        return data_module
    if module is None:
        raise AttributeError(f"module 'ownlab' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
