"""The selected Python: broken, without a framework, on musl, with a wrong allocator option."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from ownlab.config.machine_options import OWN_PYTHON
from ownlab.instruments.doctor.rules.software.framework_import import FrameworkImportFailed
from ownlab.instruments.doctor.rules.software.python_environment import (
    AllocatorConfig,
    FrameworkNotInstalled,
    InterpreterBroken,
    MuslLibc,
)
from ownlab.machine.environment_variables import ALLOCATOR_OPTIONS, read_environment
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Host, Interpreter, Machine


@pytest.mark.parametrize(
    "rule", [InterpreterBroken, FrameworkImportFailed, FrameworkNotInstalled, MuslLibc, AllocatorConfig]
)
def test_a_healthy_machine_has_no_finding(rule: Any, h200: Machine, of: Any, case: Any, find: Any) -> None:
    interpreter = msgspec.structs.replace(
        h200.interpreter,
        version=of(Interpreter, version="3.12.3").version,
        packages=of(Interpreter, packages=()).packages,
    )
    assert find(rule, case(msgspec.structs.replace(h200, interpreter=interpreter))) == []


# --- interpreter-broken -----------------------------------------------------------------------------------------------


def test_an_interpreter_that_does_not_start(of: Any, case: Any, find: Any) -> None:
    reason = Unknown("/home/me/.venv/bin/python does not exist")
    interpreter = of(
        Interpreter,
        path="/home/me/.venv/bin/python",
        version=reason,
        packages=reason,
        frameworks=reason,
        others=("/usr/bin/python3", "/opt/conda/bin/python3"),
    )
    (finding,) = find(InterpreterBroken, case(of(Machine, interpreter=interpreter)))
    assert finding.severity == "error"
    assert not finding.blocks
    assert finding.evidence[1] == "/home/me/.venv/bin/python does not exist"
    assert finding.fix[0].startswith("ownlab doctor --python /usr/bin/python3 ")
    assert "python3 -m venv --clear /home/me/.venv " in finding.fix[-1]


def test_an_interpreter_that_is_too_old(of: Any, case: Any, find: Any) -> None:
    reason = Unknown("Python 3.7.16 is too old to be checked: ownlab needs 3.9 or newer there")
    interpreter = of(Interpreter, path="/usr/bin/python3.7", version="3.7.16", packages=reason, frameworks=reason)
    (finding,) = find(InterpreterBroken, case(of(Machine, interpreter=interpreter)))
    assert finding.title == "Python 3.7.16 is too old to be checked"
    assert finding.severity == "warning"


def test_a_pasted_machine_has_no_interpreter_to_run(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, origin="pasted", interpreter=of(Interpreter, version=Unknown("not in this text")))
    assert find(InterpreterBroken, case(machine)) == []
    assert find(InterpreterBroken, case(Machine())) == []  # it was not read at all


# --- framework-absent -------------------------------------------------------------------------------------------------


def test_no_framework_on_a_machine_with_a_card(of: Any, with_frameworks: Any, case: Any, find: Any) -> None:
    (finding,) = find(FrameworkNotInstalled, case(with_frameworks(cards=("Tesla P100-PCIE-16GB",))))
    assert finding.severity == "note"
    assert finding.fix == (
        "/home/me/.venv/bin/python -m pip install 'torch==2.14.*' --index-url https://download.pytorch.org/whl/cu126",
    )


@pytest.mark.parametrize(
    ("vendor", "what"),
    [
        ("amd", "torch --index-url https://download.pytorch.org/whl/rocm7.14"),
        ("intel", "torch --index-url https://download.pytorch.org/whl/xpu"),
        ("apple", "torch"),
        ("huawei", "torch torch-npu"),
        ("google", "'jax[tpu]'"),
        (None, "torch --index-url https://download.pytorch.org/whl/cpu"),
    ],
)
def test_what_to_install_depends_on_the_accelerator(
    vendor: str | None, what: str, of: Any, case: Any, find: Any
) -> None:
    cards = (of(Card, vendor=vendor, index=0),) if vendor else ()
    machine = of(Machine, cards=cards, interpreter=of(Interpreter, frameworks=(), others=("/opt/conda/bin/python3",)))
    (finding,) = find(FrameworkNotInstalled, case(machine))
    assert finding.fix[0].startswith("ownlab doctor --python /opt/conda/bin/python3")
    assert finding.fix[-1] == f"pip install {what}"


@pytest.mark.parametrize("cards", [(), ("Tesla P100-PCIE-16GB",)])
def test_no_framework_is_installed_into_the_python_of_ownlab(
    cards: tuple[str, ...], with_frameworks: Any, case: Any, find: Any
) -> None:
    machine = with_frameworks(cards=cards)
    own = msgspec.structs.replace(machine.interpreter, origin=OWN_PYTHON)
    (finding,) = find(FrameworkNotInstalled, case(msgspec.structs.replace(machine, interpreter=own)))
    assert finding.fix[-1].startswith("ownlab env create dl --with torch ")


def test_unread_frameworks_are_not_absent(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, interpreter=of(Interpreter, frameworks=Unknown("frameworks were not asked")))
    assert find(FrameworkNotInstalled, case(machine)) == []


def test_a_card_without_a_wheel(of: Any, with_frameworks: Any, case: Any, find: Any) -> None:
    (finding,) = find(FrameworkNotInstalled, case(with_frameworks(cards=("Tesla M2090",))))
    assert "Use the CPU" in finding.fix[0]


def test_integrated_graphics_get_the_cpu_build(of: Any, case: Any, find: Any) -> None:
    inside = of(Card, vendor="intel", index=0, integrated=True)
    (finding,) = find(
        FrameworkNotInstalled, case(of(Machine, cards=(inside,), interpreter=of(Interpreter, frameworks=())))
    )
    assert finding.fix == ("pip install torch --index-url https://download.pytorch.org/whl/cpu",)


# --- musl -------------------------------------------------------------------------------------------------------------


def test_alpine_needs_another_c_library_first(of: Any, case: Any, find: Any) -> None:
    alpine = of(Machine, cards=(), host=of(Host, libc="musl"), interpreter=of(Interpreter, frameworks=()))
    (finding,) = find(MuslLibc, case(alpine))
    assert (finding.severity, finding.blocks) == ("note", False)
    assert finding.evidence == ("C library: musl (recorded)",)
    (absent,) = find(FrameworkNotInstalled, case(alpine))
    assert "glibc" in absent.fix[0]
    assert not any("pip install" in step for step in absent.fix)


def test_glibc_and_working_frameworks_have_no_finding(of: Any, case: Any, find: Any, h200: Machine) -> None:
    assert find(MuslLibc, case(of(Machine, host=of(Host, libc="glibc 2.39")))) == []
    works = msgspec.structs.replace(h200, host=msgspec.structs.replace(h200.host, libc=Known("musl", source="/lib")))
    assert find(MuslLibc, case(works)) == []


# --- alloc-conf -------------------------------------------------------------------------------------------------------


@pytest.fixture
def with_allocator(of: Any, variables: Any) -> Any:
    def build(torch: str, **values: str) -> Machine:
        framework = of(Framework, name="torch", version=torch, build="cuda")
        machine: Machine = of(
            Machine, interpreter=of(Interpreter, frameworks=(framework,)), environment=variables(**values)
        )
        return machine

    return build


@pytest.mark.parametrize(
    ("torch", "text", "evidence"),
    [
        ("2.11.0", "max_split_size:128", "max_split_size is not an option"),
        ("2.11.0", "expandable_segments:True,max_split_mb:1", "max_split_mb is not an option"),
        ("2.0.1+cu117", "expandable_segments:True", "torch 2.0 does not know expandable_segments"),
    ],
)
def test_an_option_that_torch_rejects(
    torch: str, text: str, evidence: str, with_allocator: Any, case: Any, find: Any
) -> None:
    (finding,) = find(AllocatorConfig, case(with_allocator(torch, PYTORCH_CUDA_ALLOC_CONF=text)))
    assert (finding.severity, finding.blocks) == ("warning", False)
    assert evidence in finding.evidence[0]
    assert finding.fix[0] == "unset PYTORCH_CUDA_ALLOC_CONF"


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: Unrecognized CachingAllocator option: expandable_segments",
        "ValueError: Unrecognized key 'max_split' in CUDA allocator config.",
    ],
)
def test_a_rejected_option_blocks(message: str, case: Any, find: Any) -> None:
    (finding,) = find(AllocatorConfig, case(None, message))
    assert (finding.severity, finding.blocks) == ("error", True)


def test_the_new_name_has_no_effect_on_an_older_torch(with_allocator: Any, case: Any, find: Any) -> None:
    machine = with_allocator("2.9.1", PYTORCH_ALLOC_CONF="expandable_segments:True")
    (finding,) = find(AllocatorConfig, case(machine))
    assert finding.title == "torch 2.9 does not read PYTORCH_ALLOC_CONF"
    assert finding.fix == ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",)


def test_the_old_name_on_a_newer_torch_is_a_note(with_allocator: Any, case: Any, find: Any) -> None:
    machine = with_allocator("2.11.0", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    (finding,) = find(AllocatorConfig, case(machine))
    assert finding.severity == "note"
    assert finding.fix == ("export PYTORCH_ALLOC_CONF=expandable_segments:True",)


@pytest.mark.parametrize(
    ("torch", "name", "text"),
    [
        ("2.11.0", "PYTORCH_ALLOC_CONF", "expandable_segments:True"),
        ("2.5.1", "PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:8]"),
        ("2.5.1", "PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"),
    ],
)
def test_valid_settings(torch: str, name: str, text: str, with_allocator: Any, case: Any, find: Any) -> None:
    assert find(AllocatorConfig, case(with_allocator(torch, **{name: text}))) == []


def test_the_rule_and_the_machine_page_accept_the_same_options(with_allocator: Any, case: Any, find: Any) -> None:
    for option in ("roundup_bypass_threshold_mb", "expandable_segments_reserve", *ALLOCATOR_OPTIONS):
        assert find(AllocatorConfig, case(with_allocator("2.11.0", PYTORCH_ALLOC_CONF=f"{option}:1"))) == []
        (meaning,) = (
            each.meaning for each in value_of(read_environment({"PYTORCH_ALLOC_CONF": f"{option}:1"}, ())) or ()
        )
        assert not re.search("no option|not an option|unknown option", meaning)
