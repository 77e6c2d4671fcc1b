"""Rules about the selected Python: broken, without a framework, on musl, with a wrong allocator option."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.catalog.frameworks import allocator_names
from ownlab.catalog.versions import major_minor, parse_version
from ownlab.config.machine_options import OWN_PYTHON
from ownlab.instruments.doctor.queries import (
    accelerators_of,
    any_framework_works,
    describe_fact,
    framework,
    is_musl,
    package_version,
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
from ownlab.text import listing, text

__all__ = ["AllocatorConfig", "FrameworkNotInstalled", "InterpreterBroken", "MuslLibc", "PythonModuleMissing"]


def _other_pythons(machine: Machine) -> Iterator[str]:
    others = value_of(machine.interpreter.others) or ()
    if others[1:]:
        yield text(
            "ownlab doctor --python {python}   # also on PATH: {others}",
            python=others[0],
            others=listing(others[1:], "{items}, {last}"),
        )
    elif others:
        yield f"ownlab doctor --python {others[0]}"


_BUILDING = re.compile(
    r"Getting requirements to build|egg_info did not run|Preparing metadata|subprocess-exited-with-error"
)


class InterpreterBroken(Rule):
    """The selected Python cannot be run, or is too old to be checked.

    **Why it matters.** The doctor checks frameworks in the environment that will run them. If its Python does not start
    (its base was uninstalled or upgraded, a link is broken), the frameworks cannot be checked, and nothing will run there.
    The findings about the machine itself remain valid.

    **What to do.** Select the Python that you work with: `ownlab doctor --python PATH`. Recreate a virtual environment
    whose base no longer exists: `python3 -m venv --clear FOLDER`.

    **Sources.** docs.python.org/3/library/venv.html.
    """

    code = "interpreter-broken"
    severity = "error"
    title = text("The selected Python cannot be run")

    def check(self, case: Case) -> Iterable[Finding]:
        python = case.machine.interpreter
        failure = next(
            (fact for fact in (python.version, python.packages, python.frameworks) if isinstance(fact, Unknown)),
            NOT_READ,
        )
        if case.machine.origin != "live" or failure == NOT_READ:
            return
        folder = _environment_of(value_of(python.path) or "")
        version = value_of(python.version)
        recreate = text("python3 -m venv --clear {folder}   # if its base no longer exists", folder=folder)
        yield self.finding(
            title=text("Python {version} is too old to be checked", version=version) if version else None,
            evidence=(describe_fact(text("Python:"), python.path), failure.reason),
            meaning=text("Its frameworks could not be checked. The findings about the machine itself remain valid."),
            fix=(
                *_other_pythons(case.machine),
                text("ownlab doctor --python PATH   # the Python that you work with"),
                *([recreate] if folder and not version else []),
            ),
            severity="warning" if version else "error",
        )


def _environment_of(python: str) -> str | None:
    """Return the folder of a virtual environment: /home/me/.venv/bin/python -> /home/me/.venv."""
    match = re.match(r"(.+)[/\\](?:bin|Scripts)[/\\]python[\d.]*(?:\.exe)?$", python)
    return match[1] if match and not match[1].startswith("/usr") else None


class FrameworkNotInstalled(Rule):
    """The selected Python has no framework: no torch, TensorFlow, JAX, CuPy or numba.

    **Why it matters.** The machine may be ready, but this environment cannot use it. Often the framework is installed in
    another Python.

    **What to do.** Check the Python that you work with (`ownlab doctor --python PATH`), or install a framework; the
    finding shows the command for this card and this driver. In ownlab's own Python it would be in the way of ownlab:
    `ownlab env create dl --with torch` makes an environment for notebooks.

    **Sources.** pytorch.org/get-started/locally.
    """

    code = "framework-absent"
    severity = "note"
    title = text("This Python has no deep-learning framework")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        frameworks = machine.interpreter.frameworks
        if isinstance(frameworks, Unknown) or frameworks.value:
            return
        python = value_of(machine.interpreter.path)
        pip = f"{python} -m pip install" if python else "pip install"
        yield self.finding(
            evidence=[
                text("no torch, tensorflow, jax, cupy or numba in {python}", python=python)
                if python
                else text("no torch, tensorflow, jax, cupy or numba in the selected Python")
            ],
            meaning=text(
                "This environment cannot use an accelerator yet. The framework may be installed in another Python."
            ),
            fix=(*_other_pythons(machine), self._create(machine) or self._install(machine, pip)),
        )

    @staticmethod
    def _create(machine: Machine) -> str | None:
        """Return the command that makes an environment, if the Python is ownlab's own: frameworks do not belong into it."""
        vendors = {card.vendor for card in accelerators_of(machine)}
        if machine.interpreter.origin != OWN_PYTHON or is_musl(machine) or not vendors <= {"nvidia", "amd", "intel"}:
            return None
        if "nvidia" in vendors and torch_wheel(machine) is None:
            return None
        return text("ownlab env create dl --with torch   # a new environment with the torch for this machine")

    @staticmethod
    def _install(machine: Machine, pip: str) -> str:
        """Return the command that installs a framework for the accelerators of this machine."""
        vendors = {card.vendor for card in accelerators_of(machine)}
        if is_musl(machine):
            return no_wheel_advice(machine)
        if "nvidia" in vendors:
            wheel = torch_wheel(machine)
            return wheel.command.replace("pip install --force-reinstall", pip) if wheel else no_wheel_advice(machine)
        return f"{pip} {FrameworkNotInstalled._requirement(vendors)}"

    @staticmethod
    def _requirement(vendors: set[str]) -> str:
        """Return the pip arguments for the cards of other vendors."""
        if "amd" in vendors:
            return rocm_requirement()
        if "intel" in vendors:
            return xpu_requirement()
        if "huawei" in vendors:
            return "torch torch-npu"
        if "google" in vendors:
            return "'jax[tpu]'"
        return "torch" if "apple" in vendors else "torch --index-url https://download.pytorch.org/whl/cpu"


class PythonModuleMissing(MessageRule):
    """A program imports a framework that its Python does not have.

    **Why it matters.** Usually the framework is installed in another environment than the one that runs the program: pip
    and python of different environments, a notebook kernel with its own environment, sudo.

    **What to do.** Install it with the Python that runs the program: `PYTHON -m pip install …`.

    **Sources.** docs.python.org, "Installing Python modules".
    """

    code = "module-missing"
    severity = "error"
    title = text("The program's Python does not have the framework")
    patterns = (r"No module named '(?P<module>torch|tensorflow|jax|cupy|torchvision|torchaudio|torch_npu)'",)

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        # pip builds packages in an empty environment: there torch is missing by design (see the rule extension-build).
        building = any(_BUILDING.search(message.text) for message in case.messages)
        if not quotes or building:
            return
        names = sorted({match["module"] for _, match in self.matches(case)})
        command = torch_command(case.machine) if "torch" in names else None
        yield self.finding(
            title=text("The program's Python does not have {modules}", modules=listing(names)),
            evidence=quotes,
            meaning=text("It may be installed in another environment than the one that runs this program."),
            fix=(
                text(
                    "python -c 'import sys; print(sys.executable)'"
                    "   # shows which Python runs the program; in a notebook: run it in a cell"
                ),
                f"python -m {command.replace('--force-reinstall ', '')}"
                if command
                else f"python -m pip install {' '.join(names)}",
            ),
        )


class MuslLibc(Rule):
    """The system's C library is musl (Alpine), but framework wheels are built for glibc.

    **Why it matters.** torch, TensorFlow, JAX and CuPy publish wheels for glibc (manylinux) only: on musl pip finds "no
    matching distribution". NVIDIA's driver libraries, which a container gets from its host, are built for glibc too.

    **What to do.** Use a system with glibc: Debian, Ubuntu, Fedora; as a container, an image such as `python:3.12-slim`
    instead of `python:3.12-alpine`.

    **Sources.** PEP 600 (manylinux) and PEP 656 (musllinux); nvidia-docker#1606 (the driver is not made for musl).
    """

    code = "musl"
    severity = "note"
    title = text("The C library is musl, but framework wheels need glibc")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if not is_musl(machine) or any_framework_works(machine):
            return
        yield self.finding(
            evidence=[describe_fact(text("C library:"), machine.host.libc)],
            meaning=text(
                "pip finds no wheel of torch, TensorFlow, JAX or CuPy for this system, and NVIDIA's driver libraries do not"
                " load on it."
            ),
            fix=(
                text("Use a system with glibc; in a container: FROM python:3.12-slim   # Debian, instead of …-alpine"),
            ),
        )


_EXPANDABLE_SINCE = (2, 1)  # torch 2.0.1 rejects it: pytorch/pytorch#123505, deepseek-ai/DeepSeek-VL2#103


class AllocatorConfig(MessageRule):
    """The variable for torch's memory allocator has an option that torch rejects, or a name that it does not read.

    **Why it matters.** torch reads the variable when CUDA starts. An option that this release does not know causes
    "Unrecognized CachingAllocator option" (newer: "Unrecognized key"), and no card can be used. The variable is called
    PYTORCH_ALLOC_CONF since torch 2.9; the CUDA allocator reads that name from 2.10 on, and the old name,
    PYTORCH_CUDA_ALLOC_CONF, in every release.

    **What to do.** Correct the option, or unset the variable. With torch before 2.10 use the old name.

    **Sources.** pytorch.org, CUDA semantics, "Memory management"; pytorch/pytorch#123505 and #183387; the strings of
    libc10.so in the wheels 2.7 to 2.15.
    """

    code = "alloc-conf"
    severity = "warning"
    title = text("The configuration of torch's allocator contains an unknown option")
    patterns = (
        r"Unrecognized CachingAllocator option:? ?(?P<option>\w*)",
        r"Unrecognized key '(?P<key>\w*)' in \w+ allocator config",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        names = allocator_names()
        torch = framework(machine, "torch")
        version = (value_of(torch.version) if torch else None) or package_version(machine, "torch") or ""
        release = parse_version(version)[:2]
        settings = {name: value for name in (names.new_name, names.old_name) if (value := variable(machine, name))}
        rejected = [
            text("{assignment}: {problem}", assignment=f"{name}={value}", problem=problem)
            for name, value in settings.items()
            for problem in _rejected_options(value, release)
        ]
        quotes = self.quotes(case)
        if rejected or quotes:
            yield self.finding(
                evidence=(*rejected, *quotes),
                meaning=text(
                    "When CUDA starts, torch rejects an option that it does not know, and no card can be used."
                ),
                fix=(
                    "unset " + " ".join(settings or {names.old_name: ""}),
                    text(
                        "Or correct it: pytorch.org, “CUDA semantics”, “Memory management” lists the options of this torch."
                    ),
                ),
                severity="error" if quotes else "warning",
                blocks=bool(quotes) and not any_framework_works(machine),
            )
        elif release:
            yield from self._check_names(machine, settings, release, parse_version(names.works_for_cuda_since))

    def _check_names(
        self, machine: Machine, settings: dict[str, str], release: tuple[int, ...], since: tuple[int, ...]
    ) -> Iterator[Finding]:
        names = allocator_names()
        shown = major_minor(".".join(map(str, release)))
        if names.new_name in settings and names.old_name not in settings and release < since:
            yield self.finding(
                title=text("torch {version} does not read {variable}", version=shown, variable=names.new_name),
                evidence=[f"{names.new_name}={settings[names.new_name]}"],
                meaning=text(
                    "The CUDA allocator reads this name from torch {version} on; here it has no effect.",
                    version=names.works_for_cuda_since,
                ),
                fix=[set_variable(machine, f"{names.old_name}={settings[names.new_name]}")],
            )
        elif names.old_name in settings and release >= since:
            yield self.finding(
                title=text("{variable} has a new name", variable=names.old_name),
                evidence=[f"{names.old_name}={settings[names.old_name]}"],
                meaning=text(
                    "torch {version} still reads it; the name for all accelerators is {variable}.",
                    version=shown,
                    variable=names.new_name,
                ),
                fix=[set_variable(machine, f"{names.new_name}={settings[names.old_name]}")],
                severity="note",
            )


def _rejected_options(config: str, release: tuple[int, ...]) -> Iterator[str]:
    """Yield the problems of a configuration such as "max_split_size_mb:128,expandable_segments:True"."""
    for pair in re.sub(r"\[[^\]]*\]", "", config).split(","):
        option = pair.partition(":")[0].strip()
        if option and option not in ALLOCATOR_OPTIONS:
            yield text("{option} is not an option of torch's allocator", option=option)
        elif option == "expandable_segments" and release and release < _EXPANDABLE_SINCE:
            yield text(
                "torch {version} does not know {option}, which was added in 2.1",
                version=".".join(map(str, release)),
                option=option,
            )
