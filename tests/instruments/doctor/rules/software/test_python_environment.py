"""The Python that is asked about: broken, with broken frameworks, with none, on musl, with a misspelt allocator option."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.rules.software.framework_import import FrameworkImportFailed
from ownlab.instruments.doctor.rules.software.python_environment import (
    AllocatorConfig,
    FrameworkNotInstalled,
    InterpreterBroken,
    MuslLibc,
)
from ownlab.machine.environment_variables import ALLOCATOR_OPTIONS, read_environment
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Host, Interpreter, Machine, Nvidia


def with_frameworks(of: Any, *frameworks: Framework, cards: tuple[str, ...] = ("NVIDIA H200",)) -> Machine:
    machine: Machine = of(
        Machine,
        host=of(Host, family="linux", pci=()),
        nvidia=of(Nvidia, driver="580.159.04"),
        cards=tuple(of(Card, vendor="nvidia", index=index, name=name) for index, name in enumerate(cards)),
        interpreter=of(Interpreter, path="/home/me/.venv/bin/python", frameworks=frameworks),
    )
    return machine


def broken(of: Any, error: str, failure: str = "import", name: str = "torch") -> Any:
    return of(Framework, name=name, error=error, failure=failure, devices=Unknown("it cannot be imported"))


@pytest.mark.parametrize(
    "rule", [InterpreterBroken, FrameworkImportFailed, FrameworkNotInstalled, MuslLibc, AllocatorConfig]
)
def test_a_sound_machine_is_left_alone(rule: Any, h200: Machine, of: Any, case: Any, find: Any) -> None:
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


def test_an_interpreter_that_is_too_old_to_be_asked(of: Any, case: Any, find: Any) -> None:
    reason = Unknown("Python 3.7.16 is too old to be checked: ownlab needs 3.9 or newer there")
    interpreter = of(Interpreter, path="/usr/bin/python3.7", version="3.7.16", packages=reason, frameworks=reason)
    (finding,) = find(InterpreterBroken, case(of(Machine, interpreter=interpreter)))
    assert finding.title == "Python 3.7.16 is too old to be checked"
    assert finding.severity == "warning"


def test_a_pasted_machine_has_no_interpreter_to_run(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, origin="pasted", interpreter=of(Interpreter, version=Unknown("not in this text")))
    assert find(InterpreterBroken, case(machine)) == []
    assert find(InterpreterBroken, case(Machine())) == []  # it was not read at all


# --- framework-broken -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "cause", "fix"),
    [
        (
            "ImportError: A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.1.0 as it may crash.",
            "NumPy 1",
            "numpy<2",
        ),
        (
            "ImportError: /lib64/libc.so.6: version `GLIBC_2.27' not found (required by libtorch.so)",
            "C library",
            "newer",
        ),
        ("ImportError: libstdc++.so.6: version `GLIBCXX_3.4.29' not found", "C++ library", "libstdcxx-ng"),
        ("ImportError: libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent", "MKL", "mkl<2024.1"),
        (
            "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12",
            "found before",
            "env -u LD_LIBRARY_PATH",
        ),
        ("ImportError: undefined symbol: _ZN3c106detail", "different versions", "Reinstall"),
        (
            "ImportError: DLL load failed while importing _C: The specified module could not be found.",
            "Windows",
            "winget",
        ),
        ("OSError: [WinError 126] The specified module could not be found. Error loading c10.dll", "Windows", "winget"),
        ("AttributeError: partially initialized module 'torch' has no attribute 'Tensor'", "same name", "rename"),
        ("OSError: [Errno 28] No space left on device", "disk is full", "df -h"),
    ],
)
def test_known_causes_are_found_in_the_last_words(
    error: str, cause: str, fix: str, of: Any, case: Any, find: Any
) -> None:
    (finding,) = find(FrameworkImportFailed, case(with_frameworks(of, broken(of, error))))
    assert finding.title == "torch cannot be imported"
    assert finding.blocks
    assert cause in finding.meaning
    assert fix in finding.fix[0]
    assert finding.evidence[0].startswith("torch: ")


def test_a_cpu_without_the_instructions(of: Any, case: Any, find: Any) -> None:
    error = "died of SIGILL while tensorflow was asked, in tensorflow/python/pywrap_tensorflow.py, line 60"
    (finding,) = find(FrameworkImportFailed, case(with_frameworks(of, broken(of, error, "crash", "tensorflow"))))
    assert finding.title == "tensorflow crashes when it is imported"
    assert "AVX" in finding.meaning


def test_a_hang_says_where_to_look(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(
        FrameworkImportFailed, case(with_frameworks(of, broken(of, "torch did not answer in 60 s", "hang")))
    )
    assert finding.title == "torch hangs"
    assert "faulthandler" in finding.fix[0]
    assert "download.pytorch.org" in finding.fix[1]


def test_it_blocks_only_where_there_is_something_to_block(of: Any, case: Any, find: Any, h200: Machine) -> None:
    failed = broken(of, "ImportError: something new")
    (on_cpu,) = find(FrameworkImportFailed, case(with_frameworks(of, failed, cards=())))
    assert not on_cpu.blocks
    frameworks = h200.interpreter.frameworks
    assert not isinstance(frameworks, Unknown)
    beside = msgspec.structs.replace(
        h200, interpreter=of(Interpreter, frameworks=(*frameworks.value, broken(of, "ImportError: x", name="jax")))
    )
    (finding,) = find(FrameworkImportFailed, case(beside))
    assert not finding.blocks


def test_a_pasted_report_without_a_cause_does_not_block(of: Any, case: Any, find: Any) -> None:
    failed = broken(of, "torch could not be imported in the Python that ran collect_env")
    machine = msgspec.structs.replace(with_frameworks(of, failed), origin="pasted")
    (finding,) = find(FrameworkImportFailed, case(machine))
    assert not finding.blocks


def test_pasted_words_that_tell_by_themselves(case: Any, find: Any) -> None:
    words = "ImportError: libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent"
    (finding,) = find(FrameworkImportFailed, case(None, words))
    assert finding.evidence == (f"pasted text: {words}",)
    assert not finding.blocks


@pytest.mark.parametrize(
    "words",
    [
        "NVRM: Xid (PCI:0000:cb:00): 13, Graphics SM Warp Exception on (GPC 7): Illegal Instruction Parameter",
        "MemoryError",
        "ImportError: undefined symbol: foo",
        "OSError: No space left on device",
    ],
)
def test_pasted_words_that_do_not(words: str, case: Any, find: Any) -> None:
    assert find(FrameworkImportFailed, case(None, words)) == []


# --- framework-absent -------------------------------------------------------------------------------------------------


def test_no_framework_beside_a_card(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(FrameworkNotInstalled, case(with_frameworks(of, cards=("Tesla P100-PCIE-16GB",))))
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


def test_frameworks_that_were_not_asked_are_not_absent(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, interpreter=of(Interpreter, frameworks=Unknown("frameworks were not asked")))
    assert find(FrameworkNotInstalled, case(machine)) == []


def test_a_card_that_no_wheel_serves(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(FrameworkNotInstalled, case(with_frameworks(of, cards=("Tesla M2090",))))
    assert "Use the CPU" in finding.fix[0]


def test_graphics_inside_the_cpu_get_the_cpu_build(of: Any, case: Any, find: Any) -> None:
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


def test_glibc_and_what_works_are_left_alone(of: Any, case: Any, find: Any, h200: Machine) -> None:
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
def test_an_option_that_torch_refuses(
    torch: str, text: str, evidence: str, with_allocator: Any, case: Any, find: Any
) -> None:
    (finding,) = find(AllocatorConfig, case(with_allocator(torch, PYTORCH_CUDA_ALLOC_CONF=text)))
    assert (finding.severity, finding.blocks) == ("warning", False)
    assert evidence in finding.evidence[0]
    assert finding.fix[0] == "unset PYTORCH_CUDA_ALLOC_CONF"


@pytest.mark.parametrize(
    "words",
    [
        "RuntimeError: Unrecognized CachingAllocator option: expandable_segments",
        "ValueError: Unrecognized key 'max_split' in CUDA allocator config.",
    ],
)
def test_torchs_refusal_blocks(words: str, case: Any, find: Any) -> None:
    (finding,) = find(AllocatorConfig, case(None, words))
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
def test_settings_that_are_right(torch: str, name: str, text: str, with_allocator: Any, case: Any, find: Any) -> None:
    assert find(AllocatorConfig, case(with_allocator(torch, **{name: text}))) == []


def test_the_rule_and_the_machines_page_know_the_same_options(with_allocator: Any, case: Any, find: Any) -> None:
    for option in ("roundup_bypass_threshold_mb", "expandable_segments_reserve", *ALLOCATOR_OPTIONS):
        assert find(AllocatorConfig, case(with_allocator("2.11.0", PYTORCH_ALLOC_CONF=f"{option}:1"))) == []
        (meaning,) = (
            one.meaning for one in value_of(read_environment({"PYTORCH_ALLOC_CONF": f"{option}:1"}, ())) or ()
        )
        assert not re.search("no option|not an option|unknown option", meaning)
