"""Commands that fix a problem on this system: driver installation, packages, variables, pip wheels.

They depend on the system, and on who can run them: root, the host of a container, Windows around WSL, or nobody on a
rented platform.

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
from ownlab.text import text

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
_DOWNLOADS = "https://www.nvidia.com/drivers"
# Platforms whose provider manages the driver: a notebook cannot change it.
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
    """Return the name of the platform whose provider manages the driver; None on a machine of one's own."""
    return _RENTED.get(value_of(machine.host.platform) or "")


def as_root(machine: Machine, command: str) -> str:
    """Return the command with sudo, unless the user is root; root in a container is not root on its host."""
    root = value_of(machine.host.user_is_root) and container_kind(machine) is None
    return command if root else f"sudo {command}"


def on_host(machine: Machine, step: str) -> str:
    """Mark a step as work for the host if this is a container."""
    return text("On the host, outside this container: {step}", step=step) if container_kind(machine) else step


def install_command(machine: Machine, package: str) -> str | None:
    """Return the command that installs a system package; None if the package manager is unknown."""
    manager = _INSTALL.get(value_of(machine.host.package_manager) or "")
    return as_root(machine, f"{manager} {package}") if manager else None


def initramfs_command(machine: Machine) -> str:
    """Return the command that rebuilds the boot image, so that changes in /etc/modprobe.d apply at boot."""
    known = _INITRAMFS.get(value_of(machine.host.package_manager) or "")
    if known:
        return as_root(machine, known)
    return f"{as_root(machine, 'update-initramfs -u')}   # Fedora, openSUSE: dracut --force; Arch: mkinitcpio -P"


def modprobe_option(machine: Machine, file: str, *lines: str) -> str:
    """Return the command that writes lines to a file in /etc/modprobe.d."""
    content = r"\n".join(lines)
    return f"printf '{content}\\n' | {as_root(machine, f'tee /etc/modprobe.d/{file}')}"


def set_variable(machine: Machine, assignment: str) -> str:
    """Return the command that sets an environment variable in the shell of this system."""
    name, _, value = assignment.partition("=")
    return f"set {name}={value}" if value_of(machine.host.family) == "windows" else f"export {name}={value}"


def driver_remedy(machine: Machine, *, floor: str | None = None, flavour: str | None = None) -> tuple[str, ...]:
    """Return the steps that install a driver (at least `floor`, with kernel modules of this `flavour`)."""
    wanted = text("NVIDIA driver {floor} or newer", floor=floor) if floor else text("the NVIDIA driver")
    platform = rented_platform(machine)
    if platform:
        return (text("The provider of {platform} manages the driver. You cannot change it.", platform=platform),)
    if is_wsl(machine):
        return (
            text("On Windows, not in WSL, install {driver} from {url}", driver=wanted, url=_DOWNLOADS),
            text("Then run in PowerShell: wsl --shutdown"),
        )
    if container_kind(machine):
        return (
            text(
                "On the host, outside this container, install {driver} ({url}), then restart the container.",
                driver=wanted,
                url=_GUIDE,
            ),
        )
    if value_of(machine.host.family) == "windows":
        return (text("Install {driver} from {url}", driver=wanted, url=_DOWNLOADS),)
    command = _driver_command(machine, flavour or _module_flavour(machine))
    if command is None:
        return (text("Install {driver}: {url}", driver=wanted, url=_GUIDE),)
    return (command, as_root(machine, "reboot"))


def _module_flavour(machine: Machine) -> str | None:
    """Return the flavour of kernel module that the cards need ("any": both work); None if the cards are unknown."""
    known = [family.open_modules for family in map(architecture, nvidia_cards(machine)) if family is not None]
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
            return _with_source(as_root(machine, f"dnf module install -y nvidia-driver:{_LONG_TERM}-dkms"), manager)
        return text(
            "Install driver branch R{branch} with proprietary kernel modules, the last one for this card: {url}",
            branch=_LONG_TERM,
            url=_GUIDE,
        )
    if streams:
        command = "dnf module install -y nvidia-driver:open-dkms"
    elif manager == "dnf" and "Fedora" in system:
        command, manager = "dnf install -y akmod-nvidia", "rpmfusion"
    elif manager in ("apt", "dnf", "zypper"):
        command = f"{_INSTALL[manager]} nvidia-open"
    elif manager == "pacman":
        command = "pacman -S --needed nvidia-open"
    else:
        return None
    command = as_root(machine, command)
    if flavour is None:
        command = text(
            "Turing (GTX 16, RTX 20) and newer: {command}; older cards: the proprietary R{branch} driver",
            command=command,
            branch=_LONG_TERM,
        )
    return _with_source(command, manager)


def _with_source(command: str, manager: str | None) -> str:
    """Add the repository that has the package, where it is not the distribution's own."""
    if manager == "pacman":
        return command
    if manager == "rpmfusion":
        return text("{command}   # from RPM Fusion's nonfree repository", command=command)
    return text("{command}   # from NVIDIA's package repository: {url}", command=command, url=_GUIDE)


_INDEX = "https://download.pytorch.org/whl"
_CPU = f"pip install torch --index-url {_INDEX}/cpu"


def torch_wheel(machine: Machine, capability: str | None = None, driver: str | None = None) -> Wheel | None:
    """Return the newest torch for these cards and this driver; None if the tables are silent, or none can run."""
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
    """Return the pip command for that torch."""
    wheel = torch_wheel(machine, capability)
    return wheel.command if wheel else None


def no_wheel_advice(machine: Machine, capability: str | None = None, name: str = "torch") -> str:
    """Say what to do where no pip command is known: another system, another Python, a newer driver, or the CPU."""
    if is_musl(machine):
        return text("Framework wheels do not run on musl. Use a system or an image with glibc (see the finding musl).")
    if name != "torch":
        return text(
            "No CUDA build of {framework} is known to run on this card with this driver. Use {framework} on the CPU.",
            framework=name,
        )
    number = capability or oldest_capability(machine)
    card = text("this card (compute capability {number})", number=number) if number else text("this card")
    other = _wheel(machine, capability, None, any_python=True)
    python = value_of(machine.interpreter.version)
    if other is not None and python is not None:
        return _other_python_advice(other, card, python)
    if wheel_for(number, None, platform=torch_platform(machine), family=driver_family(machine)) is not None:
        return text(
            "No torch wheel runs on {card} with this driver. Install a newer driver; until then use the CPU: {command}",
            card=card,
            command=_CPU,
        )
    return text(
        "No known torch wheel (1.7 and newer) has code for {card}. Use the CPU: {command}", card=card, command=_CPU
    )


def _other_python_advice(wheel: Wheel, card: str, python: str) -> str:
    if wheel.python:
        return text(
            "No torch for {card} has wheels for Python {python}. Use Python {first} to {last}: {command}",
            card=card,
            python=python,
            first=wheel.python[0],
            last=wheel.python[1],
            command=wheel.command,
        )
    return text(
        "No torch for {card} has wheels for Python {python}. Use another Python: {command}",
        card=card,
        python=python,
        command=wheel.command,
    )


def framework_command(machine: Machine, name: str) -> str | None:
    """Return the pip command for a framework's CUDA build on this card and driver; None if none is known."""
    if name == "torch" or is_musl(machine):
        return torch_command(machine)
    if name == "tensorflow":
        if value_of(machine.host.family) == "windows":
            return text(
                "pip install 'tensorflow[and-cuda]'   # in WSL2: TensorFlow uses no GPU on Windows itself since 2.11"
            )
        return "pip install 'tensorflow[and-cuda]'"
    if name == "jax":
        card = parse_version(oldest_capability(machine) or "")
        for row in jax_extras():
            enough = not card or card >= parse_version(row.min_compute_capability)
            if enough and _supports_cuda(machine, row.cuda_major):
                return f"pip install -U 'jax[{row.extra}]'"
    if name == "cupy":
        for package in cupy_packages():
            if _supports_cuda(machine, package.cuda_major):
                return f"pip install {package.package}"
    return None


def _supports_cuda(machine: Machine, cuda_major: int) -> bool:
    """Whether driver and cards run programs of a CUDA major version, as far as they are known."""
    driver = value_of(machine.nvidia.driver)
    floor = driver_floor(f"{cuda_major}.0", driver_family(machine))
    if driver and floor and parse_version(driver) < parse_version(floor):
        return False
    card = oldest_capability(machine)
    family = architecture_of(card) if card else None
    last = family.last_cuda_for(card) if family and card else None
    return last is None or cuda_major <= parse_version(last)[0]


def rocm_requirement() -> str:
    """Return the pip arguments for torch on AMD cards."""
    return f"torch --index-url {_INDEX}/rocm{newest_rocm()}"


def xpu_requirement() -> str:
    """Return the pip arguments for torch on Intel cards."""
    return f"torch --index-url {_INDEX}/xpu"


def torch_platform(machine: Machine) -> str:
    """Return the platform as the table of wheels names it: linux-x86_64, linux-aarch64, windows-x86_64."""
    system = "windows" if value_of(machine.host.family) == "windows" else "linux"
    architecture = value_of(machine.host.cpu.architecture)
    return f"{system}-{'aarch64' if architecture in ('aarch64', 'arm64') else 'x86_64'}"
