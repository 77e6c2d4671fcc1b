"""Makes the steps of a fix those of this system: its package manager, its shell, its torch.

Rules write a step once, for Ubuntu, with the words for other systems beside it ("Fedora: sudo dnf …"). Where the system is
known, only its own words are shown; where it is not, all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.instruments.doctor.queries import container_kind, framework
from ownlab.instruments.doctor.remedies import torch_wheel
from ownlab.machine.facts import value_of
from ownlab.machine.records import Machine

__all__ = ["steps_for"]

# The names by which steps call a system, and its package manager.
_MANAGERS = {
    "Ubuntu": "apt",
    "Debian": "apt",
    "Fedora": "dnf",
    "RHEL": "dnf",
    "Arch": "pacman",
    "openSUSE": "zypper",
}
_NAMES = "|".join((*_MANAGERS, "Windows"))
# "Debian, Ubuntu: sudo apt-get …" at the start of a step, or after the comment sign: for these systems only.
_LABELLED = re.compile(rf"^(?P<names>(?:{_NAMES})(?:, (?:{_NAMES}))*): (?P<step>.*)$", re.DOTALL)
_ALTERNATIVES = re.compile(rf"\s{{2,}}# (?P<rest>(?:{_NAMES})(?:, (?:{_NAMES}))*: .*)$", re.DOTALL)
_INSTALL = re.compile(r"apt-get install -y (?P<packages>[a-z0-9][\w.+$()-]*(?: [a-z0-9][\w.+$()-]*)*)")
_COMMANDS = {"dnf": "dnf install -y", "zypper": "zypper install -y", "pacman": "pacman -S --needed"}
# The names of Debian's packages elsewhere: Fedora, openSUSE, Arch. "" means that it is part of another one.
_PACKAGES: dict[str, tuple[str, str, str]] = {
    "build-essential": ("gcc gcc-c++ make", "gcc gcc-c++ make", "base-devel"),
    "docker-compose-plugin": ("docker-compose-plugin", "docker-compose", "docker-compose"),
    "gcc": ("gcc", "gcc", "gcc"),
    "intel-opencl-icd": ("intel-compute-runtime", "intel-opencl", "intel-compute-runtime"),
    "libegl1": ("libglvnd-egl", "libglvnd", "libglvnd"),
    "libgl1": ("mesa-libGL", "Mesa-libGL1", "mesa"),
    "libglib2.0-0": ("glib2", "glib2-tools", "glib2"),
    "libsm6": ("libSM", "libSM6", "libsm"),
    "libxext6": ("libXext", "libXext6", "libxext"),
    "libze-intel-gpu1": ("intel-level-zero", "libze_intel_gpu1", "intel-compute-runtime"),
    "libze1": ("oneapi-level-zero", "libze_loader1", "level-zero-loader"),
    "linux-headers-$(uname -r)": ("kernel-devel-$(uname -r)", "kernel-default-devel", "linux-headers"),
    "nvidia-container-toolkit": ("nvidia-container-toolkit",) * 3,
    "python3-dev": ("python3-devel", "python3-devel", "python"),
}
_COLUMN = {"dnf": 0, "zypper": 1, "pacman": 2}
_LINUX_ONLY = re.compile(
    r"\bsudo\b|\bapt-get\b|/etc/|\bldconfig\b|\bmodprobe\b|\bsystemctl\b|LD_LIBRARY_PATH|LD_PRELOAD|\bdmesg\b|\bdkms\b|\blspci\b|\bulimit\b"
)
_EXPORT = re.compile(r"^export (?P<assignments>\w+=\S*(?: \w+=\S*)*)")
_LABEL = re.compile(r"(?<=whl/)cuXYZ(?:\s{2,}# with the cuXYZ of the installed torch\b.*)?")
_OF_BUILD = re.compile(r"\+(cu\d+|cpu|rocm[\d.]+|xpu)")


def steps_for(machine: Machine, steps: Iterable[str]) -> tuple[str, ...]:
    """Return the steps as this system needs them; unchanged where the system is unknown."""
    steps = tuple(steps)
    label = _torch_label(machine)
    if label is not None:
        steps = tuple(_LABEL.sub(label, step) for step in steps)
    if value_of(machine.host.family) == "windows":
        return _on_windows(steps)
    manager = value_of(machine.host.package_manager)
    if manager == "apt":
        steps = tuple(step for step in steps if not _of_the_other(step, value_of(machine.host.system) or ""))
    if manager is not None and manager in _MANAGERS.values():
        steps = tuple(dict.fromkeys(_on_linux(steps, manager))) or steps
    if value_of(machine.host.user_is_root) and container_kind(machine) is None:
        steps = tuple(step.replace("sudo ", "") for step in steps)
    return steps


def _of_the_other(step: str, system: str) -> bool:
    """Whether a step is for Debian on Ubuntu, or the other way round: both have apt."""
    return (step.startswith("Debian: ") and "Ubuntu" in system) or (step.startswith("Ubuntu: ") and "Debian" in system)


def _torch_label(machine: Machine) -> str | None:
    """Return the label of the index whose builds belong to the installed torch, or else run on the known driver."""
    installed = framework(machine, "torch")
    version = value_of(installed.version) if installed else None
    of_build = _OF_BUILD.search(version or "")
    if of_build is not None and of_build[1].startswith("cu"):
        return of_build[1]
    if value_of(machine.nvidia.driver) is None or of_build is not None:
        return None
    wheel = torch_wheel(machine)
    return f"cu{wheel.cuda.replace('.', '')}" if wheel else None


def _on_windows(steps: tuple[str, ...]) -> tuple[str, ...]:
    kept = [step for step in steps if not _LINUX_ONLY.search(step) or "Windows" in step or "WSL" in step]
    return tuple(_EXPORT.sub(_set, step) for step in kept or steps)


def _set(match: re.Match[str]) -> str:
    return " && ".join(f"set {assignment}" for assignment in match["assignments"].split())


def _on_linux(steps: tuple[str, ...], manager: str) -> Iterator[str]:
    """Yield the steps for one package manager: its own words, and Debian's names of packages translated."""
    for step in steps:
        labelled = _LABELLED.match(step)
        if labelled is not None:
            if manager in _managers(labelled["names"]):
                yield labelled["step"]
            elif "; " in step:
                yield from _own_part(step, manager)
            continue
        alternatives = _ALTERNATIVES.search(step)
        if alternatives is not None:
            own = list(_own_part(alternatives["rest"], manager))
            common = step[: alternatives.start()]
            yield own[0] if own else _translated(common, manager)
            continue
        yield _translated(step, manager)


def _own_part(step: str, manager: str) -> Iterator[str]:
    """Yield the part of "Fedora: …; Arch: …" for this manager."""
    for part in step.split("; "):
        labelled = _LABELLED.match(part)
        if labelled is not None and manager in _managers(labelled["names"]):
            yield labelled["step"]


def _managers(names: str) -> set[str]:
    return {_MANAGERS.get(name, "") for name in names.split(", ")}


def _translated(step: str, manager: str) -> str:
    match = _INSTALL.search(step)
    if manager == "apt" or match is None:
        return step
    names = match["packages"].replace("$(uname -r)", "$(uname_-r)").split()
    rows = [_PACKAGES.get(name.replace("$(uname_-r)", "$(uname -r)")) for name in names]
    if any(row is None for row in rows):
        return step
    translated = dict.fromkeys(row[_COLUMN[manager]] for row in rows if row)
    return f"{step[: match.start()]}{_COMMANDS[manager]} {' '.join(translated)}{step[match.end() :]}"
