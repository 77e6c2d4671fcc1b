"""Commands that fix a problem on this system: driver installation, packages, variables, pip wheels.

They depend on the system, and on who can run them: root, the host of a container, Windows around WSL, or nobody on a
rented platform.

Package names: NVIDIA Driver Installation Guide (docs.nvidia.com/datacenter/tesla/driver-installation-guide, R610), and
the distributions' own packages, read 2026-11.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
    "LastBranch",
    "as_root",
    "driver_is_newest_for_cards",
    "driver_remedy",
    "framework_command",
    "initramfs_command",
    "install_command",
    "last_branch",
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
_KEPLER = 470  # the last branch for Kepler: catalog/data/architectures.json
# A driver that nobody named is taken to run CUDA 12, as all do since R525 (2022); CUDA 13 needs R580 (2025).
_USUAL_CUDA = "12.0"
_GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
_DOWNLOADS = "https://www.nvidia.com/drivers"
# Platforms whose provider manages the driver: a notebook cannot change it.
_RENTED = {"colab": "Colab", "kaggle": "Kaggle", "sagemaker": "SageMaker", "gradient": "Gradient", "runpod": "RunPod"}

# Where the card is unknown, the newest driver may be one that cannot drive it.
_BRANCH_BY_AGE = text(
    "The branch depends on the card: GTX 16, RTX and newer: any current one; Maxwell, Pascal, Volta (GTX 750 to 1080, V100): R580 at most;"
    " Kepler (GTX 600, 700, K40, K80): R470; Fermi: R390."
)

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


class LastBranch(NamedTuple):
    """The last driver branch of an architecture."""

    branch: int
    architecture: str


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


def last_branch(machine: Machine) -> LastBranch | None:
    """Return the last driver branch that supports all NVIDIA cards of the machine; None: the newest does, or nobody knows."""
    ended = [
        LastBranch(family.last_driver_branch, family.name)
        for family in map(architecture, nvidia_cards(machine))
        if family is not None and family.last_driver_branch is not None
    ]
    return min(ended, default=None)


def driver_is_newest_for_cards(machine: Machine) -> bool:
    """Return whether the installed driver is already of the last branch for the cards, so that no newer one helps."""
    last, driver = last_branch(machine), parse_version(value_of(machine.nvidia.driver) or "")
    return last is not None and bool(driver) and driver[0] >= last.branch


def driver_remedy(machine: Machine, *, floor: str | None = None, flavour: str | None = None) -> tuple[str, ...]:
    """Return the steps that install a driver (at least `floor`, with kernel modules of this `flavour`).

    Cards whose support has ended get the last branch that drives them: a newer one would not find them.
    """
    last = last_branch(machine)
    if last is not None and floor is not None and parse_version(floor)[0] > last.branch:
        needless = driver_is_newest_for_cards(machine)
        return (_no_such_driver(last, floor), *(() if needless else driver_remedy(machine, flavour=flavour)))
    if last is not None:
        wanted = text(
            "the NVIDIA driver of branch R{branch}, the last one for {architecture} cards",
            branch=last.branch,
            architecture=last.architecture,
        )
    else:
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
    command = _driver_command(machine, flavour or _module_flavour(machine), last.branch if last else _LONG_TERM)
    if command is None and flavour == "open":
        return (
            text(
                "Install {driver} with the open kernel modules: {url}   # packages such as nvidia-open, nvidia-driver-{branch}-open",
                driver=wanted,
                url=_GUIDE,
                branch=_LONG_TERM,
            ),
            as_root(machine, "reboot"),
        )
    if command is None:
        unknown = last is None and not nvidia_cards(machine)
        return (text("Install {driver}: {url}", driver=wanted, url=_GUIDE), *((_BRANCH_BY_AGE,) if unknown else ()))
    return (command, as_root(machine, "reboot"))


def _no_such_driver(last: LastBranch, floor: str) -> str:
    return text(
        "No driver for {architecture} cards is new enough: this build needs {floor}, and R{branch} is their last branch. "
        "Use a build for an older CUDA.",
        architecture=last.architecture,
        floor=floor,
        branch=last.branch,
    )


def _module_flavour(machine: Machine) -> str | None:
    """Return the flavour of kernel module that the cards need ("any": both work); None if the cards are unknown."""
    known = [family.open_modules for family in map(architecture, nvidia_cards(machine)) if family is not None]
    if "impossible" in known:
        return "proprietary"
    if not known:  # a card that only the bus shows may be of any age
        return None
    return "open" if "required" in known else "any"


def _driver_command(machine: Machine, flavour: str | None, branch: int) -> str | None:
    manager = value_of(machine.host.package_manager)
    system = value_of(machine.host.system) or ""
    if manager == "apt" and "Ubuntu" in system:
        if flavour in (None, "any"):
            return as_root(machine, "ubuntu-drivers install")
        package = f"nvidia-driver-{branch}" + ("-open" if flavour == "open" else "")
        return as_root(machine, f"apt-get install -y {package}")
    streams = manager == "dnf" and re.search(r"\b[89](?:\.\d+)?\b", system)
    if flavour == "proprietary":
        if streams:
            return _with_source(as_root(machine, f"dnf module install -y nvidia-driver:{branch}-dkms"), manager)
        return text(
            "Install driver branch R{branch} with proprietary kernel modules, the last one for this card: {url}",
            branch=branch,
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
            "Turing (GTX 16, RTX 20) and newer: {command}; older cards: the proprietary R{branch} driver (Kepler: R{kepler})",
            command=command,
            branch=_LONG_TERM,
            kepler=_KEPLER,
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
    def newest(driver: str | None) -> Wheel | None:
        return wheel_for(
            capability or oldest_capability(machine),
            driver,
            platform=torch_platform(machine),
            family=driver_family(machine),
            python=None if any_python else value_of(machine.interpreter.version),
        )

    known = driver or value_of(machine.nvidia.driver)
    # Where only an error message is known, the newest wheel may need a newer driver than most machines have.
    return newest(known) if known else newest(_assumed_driver(machine)) or newest(None)


def _assumed_driver(machine: Machine) -> str | None:
    """Return the oldest driver that the machine can have: by the CUDA that nvidia-smi shows, else the usual one."""
    return driver_floor(value_of(machine.nvidia.cuda) or _USUAL_CUDA, driver_family(machine))


def torch_command(machine: Machine, capability: str | None = None) -> str | None:
    """Return the pip command for that torch; where no driver is known, with the driver that it needs."""
    wheel = torch_wheel(machine, capability)
    if wheel is None:
        return None
    floor = driver_floor(wheel.cuda, driver_family(machine))
    if value_of(machine.nvidia.driver) or value_of(machine.nvidia.cuda) or floor is None:
        return wheel.command
    return text(
        "{command}   # CUDA {cuda} needs driver {floor} or newer (nvidia-smi shows yours)",
        command=wheel.command,
        cuda=wheel.cuda,
        floor=floor,
    )


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
