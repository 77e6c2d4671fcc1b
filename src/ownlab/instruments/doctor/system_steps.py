"""Makes the steps of a fix those of this system: its package manager, its shell, its torch.

Rules write a step once, for Ubuntu, with the words for other systems beside it ("Fedora: sudo dnf …"). Where the system is
known, only its own words are shown; where it is not, all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from ownlab.instruments.doctor.queries import container_kind, framework
from ownlab.instruments.doctor.remedies import torch_wheel
from ownlab.machine.facts import value_of
from ownlab.machine.records import Machine
from ownlab.text import edited, in_english, text

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
# Commas and colons are those of English or of Chinese: a step is changed in the language in which it is shown.
_LABEL_OF_SYSTEMS = rf"(?:{_NAMES})(?:(?:, |、)(?:{_NAMES}))*(?:: |：)"
_LABELLED = re.compile(rf"^(?P<names>{_LABEL_OF_SYSTEMS})(?P<step>.*)$", re.DOTALL)
_ALTERNATIVES = re.compile(rf"\s{{2,}}# (?P<rest>{_LABEL_OF_SYSTEMS}.*)$", re.DOTALL)
_BETWEEN_LABELS = re.compile(rf"(?:; |；)(?={_LABEL_OF_SYSTEMS})")
_NAME = re.compile(_NAMES)
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
# A Linux driver, its module, or the headers to build it: nothing of that belongs into WSL, where the driver is that of Windows.
_OF_LINUX_DRIVER = re.compile(
    r"\b(?:install|-S|--needed)\b[^\n#]*\b(?:nvidia-(?:driver|dkms|open|kernel)|akmod-nvidia|kernel-devel|linux-headers|cuda-drivers)"
    r"|\bubuntu-drivers\b|\bdkms (?:autoinstall|install|status)|\bmodprobe (?:nvidia|-r)|\bmokutil\b|\bakmods\b|\bupdate-initramfs\b|\bdracut\b"
    r"|NVIDIA-Linux-\S+\.run|/etc/modprobe\.d"
)
_WINDOWS_DRIVER = text(
    "The driver is the one of Windows: update it there (https://www.nvidia.com/drivers), and install none inside WSL; then in PowerShell: wsl --update; wsl --shutdown"
)
_EXPORT = re.compile(r"^export (?P<assignments>\w+=\S*(?: \w+=\S*)*)")
_LABEL = re.compile(r"(?<=whl/)cuXYZ(?:\s{2,}#[^\n]*cuXYZ[^\n]*torch.*|\s{2,}#[^\n]*torch[^\n]*cuXYZ.*)?")
_OF_BUILD = re.compile(r"\+(cu\d+|cpu|rocm[\d.]+|xpu)")


def steps_for(machine: Machine, steps: Iterable[str]) -> tuple[str, ...]:
    """Return the steps as this system needs them; unchanged where the system is unknown."""
    steps = tuple(steps)
    label = _torch_label(machine)
    if label is not None:
        steps = tuple(edited(step, partial(_LABEL.sub, label)) for step in steps)
    if value_of(machine.host.family) == "windows":
        return _on_windows(steps)
    if (value_of(machine.host.virtualisation) or "").startswith("wsl"):
        steps = _in_wsl(steps)
    manager = value_of(machine.host.package_manager)
    if manager == "apt":
        steps = tuple(step for step in steps if not _of_the_other(step, value_of(machine.host.system) or ""))
    if manager is not None and manager in _MANAGERS.values():
        steps = tuple(dict.fromkeys(_on_linux(steps, manager))) or steps
    if value_of(machine.host.user_is_root) and container_kind(machine) is None:
        steps = tuple(edited(step, _as_root) for step in steps)
    return steps


def _as_root(step: str) -> str:
    return step.replace("sudo ", "")


def _of_the_other(step: str, system: str) -> bool:
    """Whether a step is for Debian on Ubuntu, or the other way round: both have apt."""
    words = in_english(step)
    return (words.startswith("Debian: ") and "Ubuntu" in system) or (
        words.startswith("Ubuntu: ") and "Debian" in system
    )


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
    kept = [step for step in steps if _works_on_windows(in_english(step))]
    return tuple(edited(step, partial(_EXPORT.sub, _set)) for step in kept or steps)


def _works_on_windows(words: str) -> bool:
    return not _LINUX_ONLY.search(words) or "Windows" in words or "WSL" in words


def _in_wsl(steps: tuple[str, ...]) -> tuple[str, ...]:
    """Replace the steps that install or build a Linux driver by the one for Windows."""
    kept = [step for step in steps if not _is_for_linux_driver(in_english(step))]
    return steps if len(kept) == len(steps) else tuple(dict.fromkeys((_WINDOWS_DRIVER, *kept)))


def _is_for_linux_driver(words: str) -> bool:
    return _OF_LINUX_DRIVER.search(words) is not None and "WSL" not in words and "purge" not in words


def _set(match: re.Match[str]) -> str:
    return " && ".join(f"set {assignment}" for assignment in match["assignments"].split())


def _on_linux(steps: tuple[str, ...], manager: str) -> Iterator[str]:
    """Yield the steps for one package manager: its own words, and Debian's names of packages translated."""
    for step in steps:
        words = in_english(step)
        if _LABELLED.match(words) is not None:
            if _own_part(words, manager):
                yield edited(step, partial(_own_part, manager=manager))
        elif _ALTERNATIVES.search(words) is not None:
            yield edited(step, partial(_own_alternative, manager=manager))
        else:
            yield edited(step, partial(_translated, manager=manager))


def _own_alternative(step: str, manager: str) -> str:
    """Return a step for this manager: what its comment has for it, or what stands before the comment."""
    alternatives = _ALTERNATIVES.search(step)
    if alternatives is None:
        return step
    return _own_part(alternatives["rest"], manager) or _translated(step[: alternatives.start()], manager)


def _own_part(step: str, manager: str) -> str:
    """Return the part of "Fedora: …; Arch: …" for this manager; "" if there is none."""
    for part in _BETWEEN_LABELS.split(step):
        labelled = _LABELLED.match(part)
        if labelled is not None and manager in _managers(labelled["names"]):
            return labelled["step"]
    return ""


def _managers(names: str) -> set[str]:
    return {_MANAGERS.get(name, "") for name in _NAME.findall(names)}


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
