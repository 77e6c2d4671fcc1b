"""The rule about frameworks that cannot be imported, with the known causes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ownlab.instruments.doctor.queries import any_framework_works, framework_name, frameworks_of, has_accelerator
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import torch_command
from ownlab.instruments.doctor.rule import MessageRule, quote
from ownlab.machine.records import Framework, Machine
from ownlab.text import text

__all__ = ["FrameworkImportFailed"]

_LAST_LINES = 3


class _Cause(NamedTuple):
    pattern: str
    meaning: str
    fix: str
    specific: bool = True  # False: counts only if a framework is known to have printed it


# Searched for in a framework's last output, in this order.
_CAUSES = (
    _Cause(
        r"compiled using NumPy 1\.x cannot be run in|numpy\.core\.multiarray failed to import|_ARRAY_API not found"
        r"|numpy\.dtype size changed",
        text("It was compiled for NumPy 1, but NumPy 2 is installed (or the other way round)."),
        text("pip install 'numpy<2'   # or a newer release of the framework, which supports NumPy 2"),
    ),
    _Cause(
        r"GLIBC_[\d.]+'? not found",
        text("It was built for a newer C library than this system has."),
        text("Use a newer system or a container with one, or an older release of the framework."),
    ),
    _Cause(
        r"(?:GLIBCXX|CXXABI)_[\d.]+'? not found",
        text("It was built for a newer C++ library than the one that is found."),
        text("conda install -c conda-forge libstdcxx-ng   # and remove older copies from LD_LIBRARY_PATH"),
    ),
    _Cause(
        r"undefined symbol: iJIT_NotifyEvent",
        text("The installed Intel MKL is newer than this build of torch supports."),
        text("pip install 'mkl<2024.1'   # conda install 'mkl<2024.1' in a conda environment"),
    ),
    _Cause(
        r"libmkl_\w+\.so\S*: cannot open|Cannot load libmkl_\w+|MKL_THREADING_LAYER=INTEL is incompatible|INTEL MKL ERROR",
        text("Intel MKL is missing, or two copies of it (or of OpenMP) are mixed."),
        text(
            "pip install --force-reinstall numpy mkl   # in conda: conda install nomkl numpy, or all packages from one channel; MKL_THREADING_LAYER=GNU"
        ),
    ),
    _Cause(
        r"undefined symbol: \S*nvJitLink",
        text("A CUDA library of the system is found before the one that the wheel includes."),
        text("env -u LD_LIBRARY_PATH python …   # if that helps, remove CUDA's folders from LD_LIBRARY_PATH"),
    ),
    _Cause(
        r"undefined symbol",
        text("Two of its parts were built for different versions of each other."),
        text("Reinstall it, and everything that was compiled for it, in one command."),
        specific=False,  # the rules cuda-mismatch and cudnn-shadow are more precise
    ),
    _Cause(
        r"zluda[^\n]*\.dll\b[^\n]*(?:dependenc|not be found)|\[?WinError 12[67]\b[^\n]*zluda",
        text(
            "ZLUDA stands for CUDA here. Its DLLs, copied over torch's, need those of AMD's HIP SDK, which are not found."
        ),
        text(
            "Set for the system: HIP_PATH to the HIP SDK's folder (C:\\Program Files\\AMD\\ROCm\\VERSION), and %HIP_PATH%bin and ZLUDA's folder on PATH; the SDK's version must be the one that this ZLUDA was made for. Restart the terminal. An ordinary torch would overwrite ZLUDA."
        ),
    ),
    _Cause(
        r"DLL load failed(?![^\n]*paging file)|Visual C\+\+ Redistributable is not installed|\[WinError (?:126|127|182|193|1114)\]|Could not find module '[^'\n]*\.dll' \(or one of its dependencies\)|[Uu]nable to load (?:DLL|shared library) '[^'\n]*'|DllNotFoundException|\[WinError 998\]",
        text("Windows lacks a library that it needs, usually Microsoft's C++ runtime."),
        "winget install Microsoft.VCRedist.2015+.x64",
    ),
    _Cause(
        r"(?:compiled to use|built using) AVX instructions|CPUs? supporting (?:at least )?the AVX instruction|requires? AVX2?\b|CPU (?:does not|doesn.t) support AVX|Illegal instruction: 4|SIGILL|Illegal instruction(?=\s*(?:\([^)\n]{0,40}\))?\s*(?:\n|$))",  # an Xid may contain the phrase, too
        text("It was built for instructions (usually AVX) that this CPU, or this virtual machine, does not have."),
        text("Use a build for older CPUs (conda-forge), or let the virtual machine pass the host's CPU through."),
    ),
    _Cause(
        r"partially initialized module '(?:torch|tensorflow|jax|numpy)\b",
        text("A file or folder of the same name is found before it."),
        text("ls torch.py torch tensorflow.py jax.py numpy.py   # rename your own file, and delete __pycache__"),
    ),
    _Cause(
        r"SIGKILL|Cannot allocate memory|MemoryError",
        text("The system had no memory left for it."),
        text("Free memory, or raise the container's limit, and try again."),
        specific=False,
    ),
    _Cause(
        r"No space left on device",
        text("The disk is full."),
        text("df -h   # then free some space"),
        specific=False,
    ),
)


def _find_cause(output: str) -> _Cause | None:
    return next((cause for cause in _CAUSES if re.search(cause.pattern, output, re.IGNORECASE)), None)


class FrameworkImportFailed(MessageRule):
    """A framework is installed, but fails, crashes or hangs when it is imported.

    **Why it matters.** Nothing that needs it will run. The last output of the import usually names the cause: the wrong
    major version of NumPy, a C library that is too old, libraries of two versions, a CPU without AVX, or a file of your
    own that is called torch.py.

    **What to do.** Follow the finding's fix for the cause that was recognised. If none was: import the framework by hand
    (`python -X faulthandler -c 'import torch'`), and reinstall it in a new environment.

    **Sources.** numpy.org, NumPy 2 migration guide; pytorch/pytorch#123097 (iJIT_NotifyEvent); pytorch/pytorch#111469
    (nvJitLink); docs.python.org/3/library/faulthandler.html.
    """

    code = "framework-broken"
    severity = "error"
    title = text("A framework cannot be imported")
    patterns = tuple(cause.pattern for cause in _CAUSES if cause.specific)

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        broken = [each for each in frameworks_of(machine) if each.failure]
        for each in broken:
            yield self._finding_of(machine, each)
        if not broken and machine.origin == "pasted":
            for message, match in self.matches(case):
                cause = _find_cause(match[0])
                if cause is not None:
                    yield self.finding(
                        title=text("A compiled package cannot be loaded"),
                        evidence=[quote(message, match)],
                        meaning=cause.meaning,
                        fix=[cause.fix],
                    )
                    return

    def _finding_of(self, machine: Machine, broken: Framework) -> Finding:
        lines = [line for line in (broken.error or "").splitlines() if line.strip()]
        cause = _find_cause(broken.error or "")
        title = _describe_failure(broken)
        important = broken.name in ("torch", "tensorflow", "jax") or all(
            each.failure for each in frameworks_of(machine)
        )
        return self.finding(
            title=title,
            evidence=(
                f"{framework_name(broken)}: {lines[0] if lines else title}",
                *(line.strip()[:240] for line in lines[1:][-_LAST_LINES:]),
            ),
            meaning=cause.meaning if cause else _unknown_cause(broken),
            fix=(cause.fix,) if cause else _import_by_hand(machine, broken.name),
            # The Python of a pasted report may never have had the framework: there only a known cause is certain.
            blocks=important
            and has_accelerator(machine)
            and not any_framework_works(machine)
            and (machine.origin == "live" or cause is not None),
        )


def _describe_failure(broken: Framework) -> str:
    if broken.failure == "import":
        return text("{framework} cannot be imported", framework=broken.name)
    if broken.failure == "crash":
        return text("{framework} crashes when it is imported", framework=broken.name)
    if broken.failure == "hang":
        return text("{framework} hangs", framework=broken.name)
    return text("{framework} does not work", framework=broken.name)


def _unknown_cause(broken: Framework) -> str:
    if broken.failure == "hang":
        return text("It did not respond in time: the (network) disk is slow, or the driver hangs.")
    return text("Its last output does not contain a known cause.")


def _import_by_hand(machine: Machine, name: str) -> tuple[str, ...]:
    reinstall = torch_command(machine) if name == "torch" else f"pip install --force-reinstall {name}"
    return (
        text("python -X faulthandler -c 'import {framework}'   # shows its full output", framework=name),
        *([reinstall] if reinstall else []),
    )
