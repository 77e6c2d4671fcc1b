"""Rules on the Python that is asked about: broken, with broken frameworks, with none, on musl, with a misspelt allocator option."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.catalog.frameworks import allocator_names
from ownlab.catalog.versions import major_minor, parse_version
from ownlab.instruments.doctor.queries import (
    accelerators_of,
    any_framework_works,
    describe_fact,
    framework,
    is_musl,
    package,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import (
    no_wheel_advice,
    rocm_requirement,
    set_variable,
    torch_command,
    torch_wheel,
    xpu_requirement,
)
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.environment_variables import ALLOCATOR_OPTIONS
from ownlab.machine.facts import NOT_READ, Unknown, value_of
from ownlab.machine.records import Machine

__all__ = ["AllocatorConfig", "FrameworkNotInstalled", "InterpreterBroken", "MuslLibc", "PythonModuleMissing"]


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

    def check(self, case: Case) -> Iterable[Finding]:
        python = case.machine.interpreter
        silent = next(
            (fact for fact in (python.version, python.packages, python.frameworks) if isinstance(fact, Unknown)),
            NOT_READ,
        )
        if case.machine.origin != "live" or silent == NOT_READ:
            return
        folder = _environment_of(value_of(python.path) or "")
        version = value_of(python.version)
        yield self.finding(
            title=f"Python {version} is too old to be asked" if version else None,
            evidence=(describe_fact("asked:", python.path), silent.reason),
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


class FrameworkNotInstalled(Rule):
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

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        found = machine.interpreter.frameworks
        if isinstance(found, Unknown) or found.value:
            return
        python = value_of(machine.interpreter.path)
        pip = f"{python} -m pip install" if python else "pip install"
        yield self.finding(
            evidence=[f"no torch, tensorflow, jax, cupy or numba in {python or 'the Python that was asked'}"],
            meaning="This environment cannot use an accelerator yet; another Python may have what is missing here.",
            fix=(*_other_pythons(machine), self._install(machine, pip)),
        )

    @staticmethod
    def _install(machine: Machine, pip: str) -> str:
        """The line that installs what suits the accelerators that are here."""
        vendors = {card.vendor for card in accelerators_of(machine)}
        if is_musl(machine):
            return no_wheel_advice(machine)
        if "nvidia" in vendors:
            wheel = torch_wheel(machine)
            return wheel.command.replace("pip install --force-reinstall", pip) if wheel else no_wheel_advice(machine)
        return f"{pip} {FrameworkNotInstalled._what(vendors)}"

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


class MuslLibc(Rule):
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

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if not is_musl(machine) or any_framework_works(machine):
            return
        yield self.finding(
            evidence=[describe_fact("C library:", machine.host.libc)],
            meaning="pip finds no wheel of torch, TensorFlow, JAX or CuPy for this system, and NVIDIA's driver libraries do"
            " not load on it.",
            fix=("Use a system with glibc; in a container: FROM python:3.12-slim   # Debian, instead of …-alpine",),
        )


_EXPANDABLE_SINCE = (2, 1)  # torch 2.0.1 refuses it: pytorch/pytorch#123505, deepseek-ai/DeepSeek-VL2#103


class AllocatorConfig(MessageRule):
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
    patterns = (
        r"Unrecognized CachingAllocator option:? ?(?P<option>\w*)",
        r"Unrecognized key '(?P<key>\w*)' in \w+ allocator config",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        names = allocator_names()
        torch = framework(machine, "torch")
        version = (value_of(torch.version) if torch else None) or package(machine, "torch") or ""
        release = parse_version(version)[:2]
        settings = {name: found for name in (names.new_name, names.old_name) if (found := variable(machine, name))}
        refused = [f"{name}={text}: {word}" for name, text in settings.items() for word in _refused(text, release)]
        quotes = self.quotes(case)
        if refused or quotes:
            yield self.finding(
                evidence=(*refused, *quotes),
                meaning="torch refuses an option that it does not know when CUDA starts, and then no card can be used.",
                fix=(
                    "unset " + " ".join(settings or {names.old_name: ""}),
                    "Or correct it: the options of this torch are in pytorch.org's CUDA semantics, “Memory management”.",
                ),
                severity="error" if quotes else "warning",
                blocks=bool(quotes) and not any_framework_works(machine),
            )
        elif release:
            yield from self._names(machine, settings, release, parse_version(names.works_for_cuda_since))

    def _names(
        self, machine: Machine, settings: dict[str, str], release: tuple[int, ...], since: tuple[int, ...]
    ) -> Iterator[Finding]:
        names = allocator_names()
        shown = major_minor(".".join(map(str, release)))
        if names.new_name in settings and names.old_name not in settings and release < since:
            yield self.finding(
                title=f"torch {shown} does not read {names.new_name}",
                evidence=[f"{names.new_name}={settings[names.new_name]}"],
                meaning=f"The CUDA allocator reads this name from torch {names.works_for_cuda_since} on: here it has no"
                " effect.",
                fix=[set_variable(machine, f"{names.old_name}={settings[names.new_name]}")],
            )
        elif names.old_name in settings and release >= since:
            yield self.finding(
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


class PythonModuleMissing(MessageRule):
    """A program imports a framework that its Python does not have.

    **Why it matters.** Mostly the framework is installed, in another environment than the one that runs the program: pip
    and python of different environments, a notebook kernel of its own, sudo.

    **What to do.** Install it with the very Python that runs the program: `PYTHON -m pip install …`.

    **Sources.** docs.python.org, "Installing Python modules".
    """

    code = "module-missing"
    severity = "error"
    title = "The program's Python does not have the framework"
    patterns = (r"No module named '(?P<module>torch|tensorflow|jax|cupy|torchvision|torchaudio|torch_npu)'",)

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        names = sorted({match["module"] for _, match in self.matches(case)})
        command = torch_command(case.machine) if "torch" in names else None
        yield self.finding(
            title=f"The program's Python does not have {' and '.join(names)}",
            evidence=quotes,
            meaning="It may be installed in another environment than the one that runs this program.",
            fix=(
                "python -c 'import sys; print(sys.executable)'   # which Python runs the program; in a notebook: in a cell",
                f"python -m {command.replace('--force-reinstall ', '')}"
                if command
                else f"python -m pip install {' '.join(names)}",
            ),
        )
