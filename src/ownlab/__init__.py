"""ownlab, the Colab you own: know your machine, and put it to work."""

# General layout. A room imports only from rooms above its own; tests/test_architecture.py keeps it so.
#
#   errors.py      every failure as one tree; each class has an exit code, an HTTP status and a meaning
#   proc.py        what Linux tells of processes; standard library alone
#   units.py       bytes, seconds, FLOP/s: parsed and formatted; the only place where 1024 and 1e9 stand
#   writing.py     files that people keep, written whole or not at all
#   options/       configuration, resolved once into frozen options, each with where it came from
#   guests/        child processes with deadlines: the system's tools, and guest code in the user's interpreters
#   machine/       what this computer has, as facts: Known(value, unit, source) or Unknown(reason)
#   catalog/       what could be had: drivers, CUDA releases, architectures, wheels, Xids, cards, platforms, as data with sources
#   instruments/   what the facts mean
#     advise/      which card, which platform, at what cost: joins the catalogue, fit and bench
#     bench/       how fast a machine is: measured, judged against what is possible, compared
#     doctor/      rules over a machine (live, recorded, or rebuilt from pasted text) -> findings and a verdict
#     fit/         what a model's step takes of a card: traces replayed through a model of torch's allocator
#     monitor/     what cards and host do over time: samples, verdicts in words, recordings
#   lab/           where work runs and is kept
#     store/       the machine's records of runtimes, leases and usage: SQLite and locks, standard library alone
#     journal/     what kernels said, kept on disk by their supervisors, and merged into notebooks
#     colab/       what Colab wrote into notebooks: the grammar of its forms
#     runtimes/    runtime types, how they are started, the supervisor of each, limits, what they use
#     notebooks/   notebooks as files, brought up to date from journals
#     runs/        notebooks that are run without a page
#   show/          one renderer per medium: terminal (Rich), JSON documents and their schemas
#   notebook/      what a notebook may call: runs in the kernel
#   serving/       a lab seen from outside: its record and lock, its watchdog, its opening and its end
#   server/        a lab inside Jupyter: kernels that outlive the server, sessions, routes, the stream
#   cli/           one file per command: parse, call, show; main() only turns errors into exit codes
#
# Beside this package stands ownlab_guest: what runs inside the user's interpreter (torch, JAX, NVML), started by guests/.
# torch and its like never enter this process.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ownlab.errors import OwnlabError
    from ownlab.instruments.doctor.diagnose import case_of, diagnose
    from ownlab.instruments.doctor.paste import read_paste
    from ownlab.instruments.doctor.records import Case, Diagnosis, Finding
    from ownlab.lab.runs.run import run_notebook
    from ownlab.machine.facts import Known, Unknown
    from ownlab.machine.read import read_machine
    from ownlab.machine.recorded import load_machine, save_machine
    from ownlab.machine.records import Machine
    from ownlab.notebook.ends import on_end
    from ownlab.notebook.fit import fit
    from ownlab.notebook.magics import load_ipython_extension
    from ownlab.notebook.watch import watch

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
    "case_of": "ownlab.instruments.doctor.diagnose",
    "diagnose": "ownlab.instruments.doctor.diagnose",
    "fit": "ownlab.notebook.fit",
    "load_ipython_extension": "ownlab.notebook.magics",
    "load_machine": "ownlab.machine.recorded",
    "on_end": "ownlab.notebook.ends",
    "read_machine": "ownlab.machine.read",
    "read_paste": "ownlab.instruments.doctor.paste",
    "run_notebook": "ownlab.lab.runs.run",
    "save_machine": "ownlab.machine.recorded",
    "watch": "ownlab.notebook.watch",
}

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
]


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'ownlab' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
