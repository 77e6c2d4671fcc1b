"""NEW."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ownlab.instruments.doctor.queries import (
    any_framework_works,
    framework_name,
    frameworks_of,
    has_accelerator,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import (
    torch_command,
)
from ownlab.instruments.doctor.rule import MessageRule, quote
from ownlab.machine.records import Framework, Machine

__all__ = ["FrameworkImportFailed"]

_LAST_LINES = 3


class _Cause(NamedTuple):
    sign: str
    meaning: str
    fix: str
    tells_by_itself: bool = True  # False: only where a framework is known to have said it


# Looked for in a framework's last words, in this order.
_CAUSES = (
    _Cause(
        r"compiled using NumPy 1\.x cannot be run in|numpy\.core\.multiarray failed to import|_ARRAY_API not found"
        r"|numpy\.dtype size changed",
        "It was compiled for NumPy 1, and NumPy 2 is installed (or the other way round).",
        "pip install 'numpy<2'   # or a newer release of the framework, which takes NumPy 2",
    ),
    _Cause(
        r"GLIBC_[\d.]+'? not found",
        "It was built for a newer C library than this system's.",
        "Use a newer system, or a container with one; or an older release of the framework.",
    ),
    _Cause(
        r"(?:GLIBCXX|CXXABI)_[\d.]+'? not found",
        "It was built for a newer C++ library than the one that is found.",
        "conda install -c conda-forge libstdcxx-ng   # and keep older copies out of LD_LIBRARY_PATH",
    ),
    _Cause(
        r"undefined symbol: iJIT_NotifyEvent",
        "Intel's MKL here is newer than this build of torch knows.",
        "pip install 'mkl<2024.1'   # conda install 'mkl<2024.1' in a conda environment",
    ),
    _Cause(
        r"undefined symbol: \S*nvJitLink",
        "A CUDA library of the system stands in front of the one that the wheel brings.",
        "env -u LD_LIBRARY_PATH python …   # if that helps, take CUDA's folders out of LD_LIBRARY_PATH",
    ),
    _Cause(
        r"undefined symbol",
        "Two of its parts were built for different versions of each other.",
        "Reinstall it with everything that was compiled for it, in one command.",
        tells_by_itself=False,  # elsewhere cuda-mismatch and cudnn-shadow know better
    ),
    _Cause(
        r"DLL load failed|\[WinError (?:126|127|193|1114)\]",
        "Windows lacks a library that it needs, mostly Microsoft's C++ runtime.",
        "winget install Microsoft.VCRedist.2015+.x64",
    ),
    _Cause(
        r"SIGILL|Illegal instruction(?=\s*(?:\(core dumped\))?\s*(?:\n|$))",  # an Xid may say it of a kernel
        "It was built for instructions (mostly AVX) that this CPU, or this virtual machine, does not have.",
        "Use a build for older CPUs (conda-forge), or let the virtual machine pass the host's CPU through.",
    ),
    _Cause(
        r"partially initialized module '(?:torch|tensorflow|jax|numpy)\b",
        "A file or folder of the same name stands in front of it.",
        "ls torch.py torch tensorflow.py jax.py numpy.py   # rename what is yours, and delete __pycache__",
    ),
    _Cause(
        r"SIGKILL|Cannot allocate memory|MemoryError",
        "The system had no memory left for it.",
        "Free memory, or raise the container's limit, and try again.",
        tells_by_itself=False,
    ),
    _Cause(r"No space left on device", "The disk is full.", "df -h   # then make room", tells_by_itself=False),
)


class FrameworkImportFailed(MessageRule):
    """A framework is installed, and fails, crashes or hangs when it is imported.

    **Why it matters.** Nothing that needs it will run. The last words of the import mostly name the cause: NumPy of the
    wrong generation, a C library that is too old, libraries of two versions, a CPU without AVX, or a file of one's own
    that is called torch.py.

    **What to do.** What the finding says for the cause that was seen. Where none was recognised: import it by hand
    (`python -X faulthandler -c 'import torch'`), and reinstall it in a fresh environment.

    **Sources.** numpy.org, NumPy 2 migration guide; pytorch/pytorch#123097 (iJIT_NotifyEvent); pytorch/pytorch#111469
    (nvJitLink); docs.python.org/3/library/faulthandler.html.
    """

    code = "framework-broken"
    severity = "error"
    title = "A framework cannot be imported"
    patterns = tuple(cause.sign for cause in _CAUSES if cause.tells_by_itself)
    _HAPPENED = (("import", "cannot be imported"), ("crash", "crashes when it is imported"), ("hang", "hangs"))

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        broken = [one for one in frameworks_of(machine) if one.failure]
        for one in broken:
            yield self._of(machine, one)
        if not broken and machine.origin == "pasted":
            for message, match in self.matches(case):
                cause = _cause_in(match[0])
                if cause is not None:
                    yield self.finding(
                        title="A compiled package cannot be loaded",
                        evidence=[quote(message, match)],
                        meaning=cause.meaning,
                        fix=[cause.fix],
                    )
                    return

    def _of(self, machine: Machine, one: Framework) -> Finding:
        said = [line for line in (one.error or "").splitlines() if line.strip()]
        cause = _cause_in(one.error or "")
        command = torch_command(machine) if one.name == "torch" else f"pip install --force-reinstall {one.name}"
        fallback = (
            f"python -X faulthandler -c 'import {one.name}'   # to see all that it says",
            *([command] if command else []),
        )
        main = one.name in ("torch", "tensorflow", "jax") or all(other.failure for other in frameworks_of(machine))
        happened = dict(self._HAPPENED).get(one.failure or "", "does not work")
        return self.finding(
            title=f"{one.name} {happened}",
            evidence=(
                f"{framework_name(one)}: {said[0] if said else happened}",
                *(line.strip()[:240] for line in said[1:][-_LAST_LINES:]),
            ),
            meaning=cause.meaning
            if cause
            else "It did not answer in its time: a slow (network) disk, or a driver that hangs."
            if one.failure == "hang"
            else "Its last words do not name a cause that is known here.",
            fix=(cause.fix,) if cause else fallback,
            # A pasted report may come from a Python that never had it: only a known cause makes that sure.
            blocks=main
            and has_accelerator(machine)
            and not any_framework_works(machine)
            and (machine.origin == "live" or cause is not None),
        )


def _cause_in(text: str) -> _Cause | None:
    return next((cause for cause in _CAUSES if re.search(cause.sign, text, re.IGNORECASE)), None)
