"""Rules on the Python that is asked about: broken, with broken frameworks, with none, on musl, with a misspelt allocator option."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ownlab.catalog.frameworks import allocator_names
from ownlab.catalog.versions import major_minor, parse_version
from ownlab.instruments.doctor.queries import (
    framework,
    framework_name,
    frameworks_of,
    is_musl,
    package,
    some_framework_works,
    told,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import set_variable
from ownlab.instruments.doctor.rule import Rule, SignRule, quote
from ownlab.instruments.doctor.verdict import accelerators_of, anything_there
from ownlab.instruments.doctor.wheels import (
    instead_of_wheel,
    rocm_requirement,
    torch_command,
    torch_wheel,
    xpu_requirement,
)
from ownlab.machine.environment_variables import ALLOCATOR_OPTIONS
from ownlab.machine.facts import NOT_READ, Unknown, value_of
from ownlab.machine.records import Framework, Machine

__all__ = ["AllocConf", "FrameworkAbsent", "FrameworkBroken", "InterpreterBroken", "Musl"]

_LAST_LINES = 3


def _other_pythons(machine: Machine) -> Iterator[str]:
    others = value_of(machine.interpreter.others) or ()
    if others:
        also = f"   # also on PATH: {', '.join(others[1:])}" if others[1:] else ""
        yield f"ownlab doctor --python {others[0]}{also}"


class InterpreterBroken(Rule):
    """The Python that is asked about cannot be run, or is too old to be asked.

    **Why it matters.** Frameworks are asked in the environment that will run them. Where its Python does not start (its
    base was uninstalled or upgraded, a link is broken), nothing can be said of them, and nothing will run there. What is
    said of the machine itself still holds.

    **What to do.** Name the Python that you work with: `ownlab doctor --python PATH`. A virtual environment whose base is
    gone is made anew: `python3 -m venv --clear FOLDER`.

    **Sources.** docs.python.org/3/library/venv.html.
    """

    code = "interpreter-broken"
    severity = "error"
    title = "The Python that was asked about cannot be run"

    def examine(self, case: Case) -> Iterable[Finding]:
        python = case.machine.interpreter
        silent = next(
            (fact for fact in (python.version, python.packages, python.frameworks) if isinstance(fact, Unknown)),
            NOT_READ,
        )
        if case.machine.origin != "live" or silent == NOT_READ:
            return
        folder = _environment_of(value_of(python.path) or "")
        version = value_of(python.version)
        yield self.found(
            title=f"Python {version} is too old to be asked" if version else None,
            evidence=(told("asked:", python.path), silent.reason),
            meaning="Its frameworks could not be asked. What is said of the machine itself still holds.",
            fix=(
                *_other_pythons(case.machine),
                "ownlab doctor --python PATH   # the Python that you work with",
                *([f"python3 -m venv --clear {folder}   # if its base is gone"] if folder and not version else []),
            ),
            severity="warning" if version else "error",
        )


def _environment_of(python: str) -> str | None:
    """The folder of a virtual environment, by its interpreter: /home/me/.venv/bin/python -> /home/me/.venv."""
    match = re.match(r"(.+)[/\\](?:bin|Scripts)[/\\]python[\d.]*(?:\.exe)?$", python)
    return match[1] if match and not match[1].startswith("/usr") else None


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


class FrameworkBroken(SignRule):
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
    signs = tuple(cause.sign for cause in _CAUSES if cause.tells_by_itself)
    _HAPPENED = (("import", "cannot be imported"), ("crash", "crashes when it is imported"), ("hang", "hangs"))

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        broken = [one for one in frameworks_of(machine) if one.failure]
        for one in broken:
            yield self._of(machine, one)
        if not broken and machine.origin == "pasted":
            for message, match in self.signs_in(case):
                cause = _cause_in(match[0])
                if cause is not None:
                    yield self.found(
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
        return self.found(
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
            and anything_there(machine)
            and not some_framework_works(machine)
            and (machine.origin == "live" or cause is not None),
        )


def _cause_in(text: str) -> _Cause | None:
    return next((cause for cause in _CAUSES if re.search(cause.sign, text, re.IGNORECASE)), None)


class FrameworkAbsent(Rule):
    """The Python that is asked about has no framework: no torch, TensorFlow, JAX, CuPy or numba.

    **Why it matters.** The machine may be ready, but this environment cannot use it. Often the framework is installed,
    in another Python.

    **What to do.** Ask the Python that you work with (`ownlab doctor --python PATH`), or install a framework here; the
    finding has the command for this card and this driver.

    **Sources.** pytorch.org/get-started/locally.
    """

    code = "framework-absent"
    severity = "note"
    title = "There is no deep-learning framework in this Python"

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        found = machine.interpreter.frameworks
        if isinstance(found, Unknown) or found.value:
            return
        python = value_of(machine.interpreter.path)
        pip = f"{python} -m pip install" if python else "pip install"
        yield self.found(
            evidence=[f"no torch, tensorflow, jax, cupy or numba in {python or 'the Python that was asked'}"],
            meaning="This environment cannot use an accelerator yet; another Python may have what is missing here.",
            fix=(*_other_pythons(machine), self._install(machine, pip)),
        )

    @staticmethod
    def _install(machine: Machine, pip: str) -> str:
        """The line that installs what suits the accelerators that are here."""
        vendors = {card.vendor for card in accelerators_of(machine)}
        if is_musl(machine):
            return instead_of_wheel(machine)
        if "nvidia" in vendors:
            wheel = torch_wheel(machine)
            return wheel.command.replace("pip install --force-reinstall", pip) if wheel else instead_of_wheel(machine)
        return f"{pip} {FrameworkAbsent._what(vendors)}"

    @staticmethod
    def _what(vendors: set[str]) -> str:
        """What to install for the cards of other vendors, as arguments of pip."""
        if "amd" in vendors:
            return rocm_requirement()
        if "intel" in vendors:
            return xpu_requirement()
        if "huawei" in vendors:
            return "torch torch-npu"
        if "google" in vendors:
            return "'jax[tpu]'"
        return "torch" if "apple" in vendors else "torch --index-url https://download.pytorch.org/whl/cpu"


class Musl(Rule):
    """The system's C library is musl (Alpine), and the wheels of the frameworks are made for glibc.

    **Why it matters.** torch, TensorFlow, JAX and CuPy publish wheels for glibc (manylinux) alone: on musl pip finds "no
    matching distribution". NVIDIA's driver libraries, which a container gets from its host, are made for glibc too.

    **What to do.** Work in a system with glibc: Debian, Ubuntu, Fedora; as a container, an image such as
    `python:3.12-slim` instead of `python:3.12-alpine`.

    **Sources.** PEP 600 (manylinux) and PEP 656 (musllinux); nvidia-docker#1606 (the driver is not made for musl).
    """

    code = "musl"
    severity = "note"
    title = "The C library is musl, and frameworks' wheels need glibc"

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if not is_musl(machine) or some_framework_works(machine):
            return
        yield self.found(
            evidence=[told("C library:", machine.host.libc)],
            meaning="pip finds no wheel of torch, TensorFlow, JAX or CuPy for this system, and NVIDIA's driver libraries do"
            " not load on it.",
            fix=("Use a system with glibc; in a container: FROM python:3.12-slim   # Debian, instead of …-alpine",),
        )


_EXPANDABLE_SINCE = (2, 1)  # torch 2.0.1 refuses it: pytorch/pytorch#123505, deepseek-ai/DeepSeek-VL2#103


class AllocConf(SignRule):
    """The variable of torch's memory allocator has an option that torch refuses, or a name that it does not read.

    **Why it matters.** torch reads it when CUDA starts. An option that this release does not know ends in "Unrecognized
    CachingAllocator option" (newer: "Unrecognized key"), and no card can be used. The variable is called
    PYTORCH_ALLOC_CONF since torch 2.9; the CUDA allocator reads that name from 2.10 on, and the old one,
    PYTORCH_CUDA_ALLOC_CONF, in every release.

    **What to do.** Correct the option, or unset the variable. With torch before 2.10 use the old name.

    **Sources.** pytorch.org, CUDA semantics, "Memory management"; pytorch/pytorch#123505 and #183387; the strings of
    libc10.so in the wheels 2.7 to 2.15.
    """

    code = "alloc-conf"
    severity = "warning"
    title = "torch's allocator is told something that it does not understand"
    signs = (
        r"Unrecognized CachingAllocator option:? ?(?P<option>\w*)",
        r"Unrecognized key '(?P<key>\w*)' in \w+ allocator config",
    )

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        names = allocator_names()
        torch = framework(machine, "torch")
        version = (value_of(torch.version) if torch else None) or package(machine, "torch") or ""
        release = parse_version(version)[:2]
        settings = {name: found for name in (names.new_name, names.old_name) if (found := variable(machine, name))}
        refused = [f"{name}={text}: {word}" for name, text in settings.items() for word in _refused(text, release)]
        quotes = self.quotes(case)
        if refused or quotes:
            yield self.found(
                evidence=(*refused, *quotes),
                meaning="torch refuses an option that it does not know when CUDA starts, and then no card can be used.",
                fix=(
                    "unset " + " ".join(settings or {names.old_name: ""}),
                    "Or correct it: the options of this torch are in pytorch.org's CUDA semantics, “Memory management”.",
                ),
                severity="error" if quotes else "warning",
                blocks=bool(quotes) and not some_framework_works(machine),
            )
        elif release:
            yield from self._names(machine, settings, release, parse_version(names.works_for_cuda_since))

    def _names(
        self, machine: Machine, settings: dict[str, str], release: tuple[int, ...], since: tuple[int, ...]
    ) -> Iterator[Finding]:
        names = allocator_names()
        shown = major_minor(".".join(map(str, release)))
        if names.new_name in settings and names.old_name not in settings and release < since:
            yield self.found(
                title=f"torch {shown} does not read {names.new_name}",
                evidence=[f"{names.new_name}={settings[names.new_name]}"],
                meaning=f"The CUDA allocator reads this name from torch {names.works_for_cuda_since} on: here it has no"
                " effect.",
                fix=[set_variable(machine, f"{names.old_name}={settings[names.new_name]}")],
            )
        elif names.old_name in settings and release >= since:
            yield self.found(
                title=f"{names.old_name} has a new name",
                evidence=[f"{names.old_name}={settings[names.old_name]}"],
                meaning=f"torch {shown} still reads it; the name for all accelerators is {names.new_name}.",
                fix=[set_variable(machine, f"{names.new_name}={settings[names.old_name]}")],
                severity="note",
            )


def _refused(text: str, release: tuple[int, ...]) -> Iterator[str]:
    """What torch would refuse in "max_split_size_mb:128,expandable_segments:True"."""
    for pair in re.sub(r"\[[^\]]*\]", "", text).split(","):
        option = pair.partition(":")[0].strip()
        if option and option not in ALLOCATOR_OPTIONS:
            yield f"{option} is no option of torch's allocator"
        elif option == "expandable_segments" and release and release < _EXPANDABLE_SINCE:
            yield f"torch {'.'.join(map(str, release))} does not know {option}: it came with 2.1"
