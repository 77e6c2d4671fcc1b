"""What mends a trouble here: the commands of this system, and who can run them (a host, Windows, nobody).

Package names: NVIDIA Driver Installation Guide (docs.nvidia.com/datacenter/tesla/driver-installation-guide, R610), and
the distributions' own packages, read 2026-11.
"""

from __future__ import annotations

import re

from ownlab.catalog.architectures import architecture_of
from ownlab.catalog.cuda import driver_floor
from ownlab.catalog.frameworks import cupy_packages, jax_extras
from ownlab.catalog.torch_wheels import Wheel, newest_rocm, wheel_for
from ownlab.catalog.versions import parse_version
from ownlab.instruments.doctor.queries import (
    architecture,
    container_kind,
    driver_family,
    is_musl,
    is_wsl,
    nvidia_cards,
    oldest_capability,
)
from ownlab.machine.facts import value_of
from ownlab.machine.records import Machine

__all__ = [
    "as_root",
    "driver_remedy",
    "framework_command",
    "initramfs_command",
    "install_command",
    "modprobe_option",
    "no_wheel_advice",
    "on_host",
    "rented_platform",
    "rocm_requirement",
    "set_variable",
    "torch_command",
    "torch_platform",
    "torch_wheel",
    "xpu_requirement",
]

# R580 is NVIDIA's long-term branch (to 2028-06), the first for CUDA 13 and the last for Maxwell, Pascal and Volta.
_LONG_TERM = 580
_GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
_FROM_NVIDIA = f"   # from NVIDIA's package repository: {_GUIDE}"
_DOWNLOADS = "https://www.nvidia.com/drivers"
# Platforms whose driver belongs to the provider: nothing that runs in the notebook can change it.
_RENTED = {"colab": "Colab", "kaggle": "Kaggle", "sagemaker": "SageMaker", "gradient": "Gradient", "runpod": "RunPod"}

_INSTALL = {
    "apt": "apt-get install -y",
    "dnf": "dnf install -y",
    "zypper": "zypper install -y",
    "pacman": "pacman -S --needed",
}
_INITRAMFS = {
    "apt": "update-initramfs -u",
    "dnf": "dracut --force",
    "zypper": "dracut --force",
    "pacman": "mkinitcpio -P",
}


def rented_platform(machine: Machine) -> str | None:
    """The platform whose driver is its provider's affair, by its name; None on a machine of one's own."""
    return _RENTED.get(value_of(machine.host.platform) or "")


def as_root(machine: Machine, command: str) -> str:
    """The command with sudo, unless we are root already; being root in a container says nothing of its host."""
    root = value_of(machine.host.user_is_root) and container_kind(machine) is None
    return command if root else f"sudo {command}"


def on_host(machine: Machine, sentence: str) -> str:
    """A sentence marked as work for the host, where we are in a container."""
    return f"On the host, outside this container: {sentence}" if container_kind(machine) else sentence


def install_command(machine: Machine, package: str) -> str | None:
    """The command that installs a package with this system's package manager; None where that is not known."""
    manager = _INSTALL.get(value_of(machine.host.package_manager) or "")
    return as_root(machine, f"{manager} {package}") if manager else None


def initramfs_command(machine: Machine) -> str:
    """The command that renews the boot image, so that a list of forbidden or preset modules counts at boot."""
    known = _INITRAMFS.get(value_of(machine.host.package_manager) or "")
    if known:
        return as_root(machine, known)
    return f"{as_root(machine, 'update-initramfs -u')}   # Fedora, openSUSE: dracut --force; Arch: mkinitcpio -P"


def modprobe_option(machine: Machine, file: str, *lines: str) -> str:
    """The command that writes lines to a file in /etc/modprobe.d."""
    text = r"\n".join(lines)
    return f"printf '{text}\\n' | {as_root(machine, f'tee /etc/modprobe.d/{file}')}"


def set_variable(machine: Machine, assignment: str) -> str:
    """The command that sets an environment variable in the shell of this system."""
    name, _, value = assignment.partition("=")
    return f"set {name}={value}" if value_of(machine.host.family) == "windows" else f"export {name}={value}"


def driver_remedy(machine: Machine, *, floor: str | None = None, flavour: str | None = None) -> tuple[str, ...]:
    """How a driver (at least `floor`, with kernel modules of this `flavour`) is had on this machine."""
    wanted = f"NVIDIA's driver {floor} or newer" if floor else "NVIDIA's driver"
    platform = rented_platform(machine)
    if platform:
        return (f"The driver of {platform} is its provider's: it cannot be changed from here.",)
    if is_wsl(machine):
        return (
            f"On Windows, not in WSL: install {wanted} from {_DOWNLOADS}",
            "Then, in PowerShell: wsl --shutdown",
        )
    if container_kind(machine):
        return (f"On the host, outside this container: install {wanted} ({_GUIDE}), then start the container anew.",)
    if value_of(machine.host.family) == "windows":
        return (f"Install {wanted} from {_DOWNLOADS}",)
    command = _driver_command(machine, flavour or _flavour(machine))
    if command is None:
        return (f"Install {wanted}: {_GUIDE}",)
    return (command, as_root(machine, "reboot"))


def _flavour(machine: Machine) -> str | None:
    """The flavour of kernel module that the cards here need, or can use; None where they are not known."""
    known = [found.open_modules for found in map(architecture, nvidia_cards(machine)) if found is not None]
    if "impossible" in known:
        return "proprietary"
    if not known:  # a card that only the bus shows may be of any age
        return None
    return "open" if "required" in known else "any"


def _driver_command(machine: Machine, flavour: str | None) -> str | None:
    manager = value_of(machine.host.package_manager)
    system = value_of(machine.host.system) or ""
    if manager == "apt" and "Ubuntu" in system:
        if flavour in (None, "any"):
            return as_root(machine, "ubuntu-drivers install")
        package = f"nvidia-driver-{_LONG_TERM}" + ("-open" if flavour == "open" else "")
        return as_root(machine, f"apt-get install -y {package}")
    streams = manager == "dnf" and re.search(r"\b[89](?:\.\d+)?\b", system)
    if flavour == "proprietary":
        if streams:
            return as_root(machine, f"dnf module install -y nvidia-driver:{_LONG_TERM}-dkms{_FROM_NVIDIA}")
        return f"Install driver branch R{_LONG_TERM} with proprietary kernel modules, the last for this card: {_GUIDE}"
    if streams:
        command, where = "dnf module install -y nvidia-driver:open-dkms", _FROM_NVIDIA
    elif manager == "dnf" and "Fedora" in system:
        command, where = "dnf install -y akmod-nvidia", "   # from RPM Fusion's nonfree repository"
    elif manager in ("apt", "dnf", "zypper"):
        command, where = f"{_INSTALL[manager]} nvidia-open", _FROM_NVIDIA
    elif manager == "pacman":
        command, where = "pacman -S --needed nvidia-open", ""
    else:
        return None
    command = as_root(machine, command)
    if flavour is None:
        return f"Turing (GTX 16, RTX 20) and newer: {command}; older cards: the proprietary R{_LONG_TERM} driver{where}"
    return command + where


_INDEX = "https://download.pytorch.org/whl"
_CPU = f"pip install torch --index-url {_INDEX}/cpu"


def torch_wheel(machine: Machine, capability: str | None = None, driver: str | None = None) -> Wheel | None:
    """The newest torch for the cards and the driver here (or for these); None where no table says, or none can run."""
    return None if is_musl(machine) else _wheel(machine, capability, driver)


def _wheel(machine: Machine, capability: str | None, driver: str | None, *, any_python: bool = False) -> Wheel | None:
    return wheel_for(
        capability or oldest_capability(machine),
        driver or value_of(machine.nvidia.driver),
        platform=torch_platform(machine),
        family=driver_family(machine),
        python=None if any_python else value_of(machine.interpreter.version),
    )


def torch_command(machine: Machine, capability: str | None = None) -> str | None:
    """The pip line for that torch."""
    wheel = torch_wheel(machine, capability)
    return wheel.command if wheel else None


def no_wheel_advice(machine: Machine, capability: str | None = None, name: str = "torch") -> str:
    """What can be done where no pip line is known: another system, another Python, a newer driver, or the CPU."""
    if is_musl(machine):
        return "No wheel of a framework runs on musl: use a system or an image with glibc (see the finding musl)."
    if name != "torch":
        return f"No {name} for CUDA is known that runs on this card with this driver: compute on the CPU with it."
    found = capability or oldest_capability(machine)
    card = f"this card (compute capability {found})" if found else "this card"
    other = _wheel(machine, capability, None, any_python=True)
    python = value_of(machine.interpreter.version)
    if other is not None and python is not None:
        wanted = f"Python {other.python[0]} to {other.python[1]}" if other.python else "another Python"
        return f"No torch for {card} has wheels for Python {python}: with {wanted}, {other.command}"
    if wheel_for(found, None, platform=torch_platform(machine), family=driver_family(machine)) is not None:
        return f"No torch wheel runs on {card} with this driver: install a newer driver; until then the CPU: {_CPU}"
    return f"No torch wheel of our table (1.7 and newer) has code for {card}: compute on the CPU, {_CPU}"


def framework_command(machine: Machine, name: str) -> str | None:
    """The pip line for a framework's CUDA build on this card and driver; None where none is known."""
    if name == "torch" or is_musl(machine):
        return torch_command(machine)
    if name == "tensorflow":
        return "pip install 'tensorflow[and-cuda]'" + (
            "   # in WSL2: on Windows itself TensorFlow uses no GPU since 2.11"
            if value_of(machine.host.family) == "windows"
            else ""
        )
    if name == "jax":
        card = parse_version(oldest_capability(machine) or "")
        for row in jax_extras():
            enough = not card or card >= parse_version(row.min_compute_capability)
            if enough and _serves(machine, row.cuda_major):
                return f"pip install -U 'jax[{row.extra}]'"
    if name == "cupy":
        for package in cupy_packages():
            if _serves(machine, package.cuda_major):
                return f"pip install {package.package}"
    return None


def _serves(machine: Machine, cuda_major: int) -> bool:
    """Whether driver and cards here run programs of a CUDA major, as far as they are known."""
    driver = value_of(machine.nvidia.driver)
    floor = driver_floor(f"{cuda_major}.0", driver_family(machine))
    if driver and floor and parse_version(driver) < parse_version(floor):
        return False
    card = oldest_capability(machine)
    family = architecture_of(card) if card else None
    last = family.last_cuda_for(card) if family and card else None
    return last is None or cuda_major <= parse_version(last)[0]


def rocm_requirement() -> str:
    """torch for AMD's cards, as arguments of pip."""
    return f"torch --index-url {_INDEX}/rocm{newest_rocm()}"


def xpu_requirement() -> str:
    """torch for Intel's cards, as arguments of pip."""
    return f"torch --index-url {_INDEX}/xpu"


def torch_platform(machine: Machine) -> str:
    """The platform as the table of wheels names it: linux-x86_64, linux-aarch64, windows-x86_64."""
    system = "windows" if value_of(machine.host.family) == "windows" else "linux"
    architecture = value_of(machine.host.cpu.architecture)
    return f"{system}-{'aarch64' if architecture in ('aarch64', 'arm64') else 'x86_64'}"
