"""The pip lines that bring a framework to this card, this driver and this system."""

from __future__ import annotations

from ownlab.catalog.cuda import driver_floor
from ownlab.catalog.torch_wheels import Wheel, newest_rocm, wheel_for
from ownlab.catalog.versions import parse_version
from ownlab.instruments.doctor.questions import driver_family, oldest_capability
from ownlab.machine.facts import value_of
from ownlab.machine.records import Machine

__all__ = ["framework_command", "rocm_requirement", "torch_command", "torch_platform", "torch_wheel"]

# The names of cupy's and jax's packages carry the CUDA major: cupy-cuda13x, jax[cuda13].
_BY_CUDA_MAJOR = {"jax": "pip install -U 'jax[cuda{}]'", "cupy": "pip install cupy-cuda{}x"}


def torch_wheel(machine: Machine, capability: str | None = None) -> Wheel | None:
    """The newest torch for the cards and the driver here (or for a card of this capability); None where no table says."""
    return wheel_for(
        capability or oldest_capability(machine),
        value_of(machine.nvidia.driver),
        driver_family(machine),
        value_of(machine.host.cpu.architecture) or "x86_64",
    )


def torch_command(machine: Machine, capability: str | None = None) -> str | None:
    """The pip line for that torch."""
    wheel = torch_wheel(machine, capability)
    return wheel.command if wheel else None


def framework_command(machine: Machine, name: str) -> str | None:
    """The pip line for a framework's CUDA build on this driver; None where none is known."""
    if name == "torch":
        return torch_command(machine)
    if name == "tensorflow":
        return "pip install 'tensorflow[and-cuda]'" + (
            "   # in WSL2: on Windows itself TensorFlow uses no GPU since 2.11"
            if value_of(machine.host.family) == "windows"
            else ""
        )
    line = _BY_CUDA_MAJOR.get(name)
    return line.format(_newest_major(machine)) if line else None


def _newest_major(machine: Machine) -> int:
    """The newest CUDA major that the driver here runs; the newest of all where there is none to ask."""
    driver = value_of(machine.nvidia.driver)
    floor = driver_floor("13.0", driver_family(machine))
    return 12 if driver and floor and parse_version(driver) < parse_version(floor) else 13


def rocm_requirement() -> str:
    """torch for AMD's cards, as arguments of pip."""
    return f"torch --index-url https://download.pytorch.org/whl/rocm{newest_rocm()}"


def torch_platform(machine: Machine) -> str:
    """The platform as the table of wheels names it: linux-x86_64, linux-aarch64, windows-x86_64."""
    system = "windows" if value_of(machine.host.family) == "windows" else "linux"
    architecture = value_of(machine.host.cpu.architecture)
    return f"{system}-{'aarch64' if architecture in ('aarch64', 'arm64') else 'x86_64'}"
