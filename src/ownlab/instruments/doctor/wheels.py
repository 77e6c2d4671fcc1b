"""The pip lines that bring a framework to this card, this driver, this Python and this system."""

from __future__ import annotations

from ownlab.catalog.architectures import architecture_of
from ownlab.catalog.cuda import driver_floor
from ownlab.catalog.frameworks import cupy_packages, jax_extras
from ownlab.catalog.torch_wheels import Wheel, newest_rocm, wheel_for
from ownlab.catalog.versions import parse_version
from ownlab.instruments.doctor.queries import driver_family, is_musl, oldest_capability
from ownlab.machine.facts import value_of
from ownlab.machine.records import Machine

__all__ = [
    "framework_command",
    "instead_of_wheel",
    "rocm_requirement",
    "torch_command",
    "torch_platform",
    "torch_wheel",
    "xpu_requirement",
]

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


def instead_of_wheel(machine: Machine, capability: str | None = None, name: str = "torch") -> str:
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
