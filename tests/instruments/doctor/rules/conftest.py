"""Small machines and cases for the tests of rules, and recorded texts.

`of(Card, vendor="nvidia", index=0, name="Tesla T4")` builds a record: plain values of fields that hold facts become
`Known(value, source="recorded")`. `case(machine, text, …)` returns a case with these messages; `paste(path)` reads a
recorded text of tests/pastes; `find(Rule, case)` returns the findings of a rule; `h200` is a healthy machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from ownlab.instruments.doctor.records import Case, Finding, Message
from ownlab.instruments.doctor.rule import Rule
from ownlab.machine.facts import NOT_READ, Known, Unknown
from ownlab.machine.records import (
    Card,
    Clocks,
    Cpu,
    DeviceFile,
    Ecc,
    Framework,
    FrameworkDevice,
    Host,
    Interpreter,
    Machine,
    Memory,
    Nvidia,
    PciDevice,
    Pcie,
    Variable,
)
from ownlab.units import GIB, MIB

S = TypeVar("S", bound=msgspec.Struct)

_PASTES = Path(__file__).resolve().parents[3] / "pastes"


def _of(kind: type[S], /, **values: Any) -> S:
    facts = {field.name for field in msgspec.structs.fields(kind) if field.default == NOT_READ}
    return kind(
        **{
            name: Known(value, source="recorded")
            if name in facts and not isinstance(value, (Known, Unknown))
            else value
            for name, value in values.items()
        }
    )


@pytest.fixture
def of() -> Callable[..., Any]:
    return _of


@pytest.fixture
def case() -> Callable[..., Case]:
    def build(machine: Machine | None = None, *texts: str, where: str = "pasted text") -> Case:
        return Case(machine or Machine(origin="pasted"), tuple(Message(text, where) for text in texts))

    return build


@pytest.fixture
def paste() -> Callable[[str], str]:
    """Read tests/pastes/<path>."""
    return lambda path: (_PASTES / path).read_text(encoding="utf-8", errors="replace")


@pytest.fixture
def find() -> Callable[[type[Rule], Case], list[Finding]]:
    return lambda rule, case: list(rule().check(case))


@pytest.fixture
def variables() -> Callable[..., Known[tuple[Variable, ...]]]:
    """Build an environment with these variables: variables(CUDA_VISIBLE_DEVICES="1")."""
    return lambda **values: Known(
        tuple(Variable(name, text, "") for name, text in values.items()), source="environment"
    )


@pytest.fixture
def h200() -> Machine:
    """The H200 machine that this project ran on (2026-11-15), healthy, with a torch that sees its card."""
    card = _of(
        Card,
        vendor="nvidia",
        index=0,
        name="NVIDIA H200",
        uuid="GPU-00000000-1111-2222-3333-444444444444",
        bus_id="00000000:00:06.0",
        architecture="Hopper",
        compute_capability="9.0",
        memory_total=143771 * MIB,
        memory_used=0,
        utilisation=0,
        power_draw=129.8,
        power_limit=700.0,
        temperature=38,
        clocks=_of(Clocks, sm=345, sm_max=1980),
        throttle_reasons=("gpu-idle",),
        pcie=_of(Pcie, generation=5, generation_max=5, width=16, width_max=16),
        ecc=_of(Ecc, enabled=True, corrected=0, uncorrected=0, remap_pending=False, remap_failed=False),
        mig=False,
        mig_instances=(),
        persistence=True,
        compute_mode="default",
        fabric=Unknown("not an NVSwitch machine"),
        health="OK",
        processes=(),
    )
    torch = _of(
        Framework,
        name="torch",
        version="2.11.0+cu130",
        build="cuda",
        cuda="13.0",
        arch_list=("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
        devices=(FrameworkDevice("NVIDIA H200", compute_capability="9.0"),),
    )
    files = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
    return _of(
        Machine,
        taken_at="2026-11-15T02:38:37+00:00",
        host=_of(
            Host,
            system="Ubuntu 24.04.3 LTS",
            family="linux",
            container="none",
            virtualisation="firecracker",
            platform="plain",
            pid_namespace=False,
            user_is_root=True,
            package_manager="apt",
            cpu=_of(Cpu, usable_cores=16.0),
            memory=_of(Memory, total=128 * GIB, shm_total=64 * GIB),
            pci=(PciDevice("0000:00:06.0", "10de", "2335", "3d", "nvidia"),),
            modules=("nvidia", "nvidia_uvm"),
            secure_boot=False,
            kernel_log=(),
        ),
        cards=(card,),
        nvidia=_of(
            Nvidia,
            driver="580.159.04",
            cuda="13.0",
            nvml="13.580.159.04",
            library_version="580.159.04",
            module_version="580.159.04",
            module_flavour="open",
            device_files=tuple(DeviceFile(path, readable=True, writable=True) for path in files),
            profiling_restricted=False,
        ),
        interpreter=_of(Interpreter, frameworks=(torch,)),
        environment=(),
    )


@pytest.fixture
def with_frameworks() -> Callable[..., Machine]:
    """Build a Linux machine with these NVIDIA cards and frameworks: with_frameworks(torch, cards=("Tesla T4",))."""

    def build(*frameworks: Framework, cards: tuple[str, ...] = ("NVIDIA H200",)) -> Machine:
        return _of(
            Machine,
            host=_of(Host, family="linux", pci=()),
            nvidia=_of(Nvidia, driver="580.159.04"),
            cards=tuple(_of(Card, vendor="nvidia", index=index, name=name) for index, name in enumerate(cards)),
            interpreter=_of(Interpreter, path="/home/me/.venv/bin/python", frameworks=frameworks),
        )

    return build
