"""Frameworks that cannot be imported, and the known causes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.rules.software.framework_import import FrameworkImportFailed
from ownlab.machine.facts import Unknown
from ownlab.machine.records import Framework, Interpreter, Machine


def broken(of: Any, error: str, failure: str = "import", name: str = "torch") -> Any:
    return of(Framework, name=name, error=error, failure=failure, devices=Unknown("it cannot be imported"))


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
def test_known_causes_are_found_in_the_last_output(
    error: str, cause: str, fix: str, of: Any, with_frameworks: Any, case: Any, find: Any
) -> None:
    (finding,) = find(FrameworkImportFailed, case(with_frameworks(broken(of, error))))
    assert finding.title == "torch cannot be imported"
    assert finding.blocks
    assert cause in finding.meaning
    assert fix in finding.fix[0]
    assert finding.evidence[0].startswith("torch: ")


def test_a_cpu_without_the_instructions(of: Any, with_frameworks: Any, case: Any, find: Any) -> None:
    error = "died of SIGILL while tensorflow was asked, in tensorflow/python/pywrap_tensorflow.py, line 60"
    (finding,) = find(FrameworkImportFailed, case(with_frameworks(broken(of, error, "crash", "tensorflow"))))
    assert finding.title == "tensorflow crashes when it is imported"
    assert "AVX" in finding.meaning


def test_a_hang_during_import(of: Any, with_frameworks: Any, case: Any, find: Any) -> None:
    (finding,) = find(FrameworkImportFailed, case(with_frameworks(broken(of, "torch did not answer in 60 s", "hang"))))
    assert finding.title == "torch hangs"
    assert "faulthandler" in finding.fix[0]
    assert "download.pytorch.org" in finding.fix[1]


def test_a_broken_framework_blocks_only_if_it_matters(
    of: Any, with_frameworks: Any, case: Any, find: Any, h200: Machine
) -> None:
    failed = broken(of, "ImportError: something new")
    (on_cpu,) = find(FrameworkImportFailed, case(with_frameworks(failed, cards=())))
    assert not on_cpu.blocks
    frameworks = h200.interpreter.frameworks
    assert not isinstance(frameworks, Unknown)
    beside = msgspec.structs.replace(
        h200, interpreter=of(Interpreter, frameworks=(*frameworks.value, broken(of, "ImportError: x", name="jax")))
    )
    (finding,) = find(FrameworkImportFailed, case(beside))
    assert not finding.blocks


def test_a_pasted_report_without_a_cause_does_not_block(of: Any, with_frameworks: Any, case: Any, find: Any) -> None:
    failed = broken(of, "torch could not be imported in the Python that ran collect_env")
    machine = msgspec.structs.replace(with_frameworks(failed), origin="pasted")
    (finding,) = find(FrameworkImportFailed, case(machine))
    assert not finding.blocks


def test_specific_pasted_messages(case: Any, find: Any) -> None:
    message = "ImportError: libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent"
    (finding,) = find(FrameworkImportFailed, case(None, message))
    assert finding.evidence == (f"pasted text: {message}",)
    assert not finding.blocks


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: Xid (PCI:0000:cb:00): 13, Graphics SM Warp Exception on (GPC 7): Illegal Instruction Parameter",
        "MemoryError",
        "ImportError: undefined symbol: foo",
        "OSError: No space left on device",
    ],
)
def test_unspecific_pasted_messages(message: str, case: Any, find: Any) -> None:
    assert find(FrameworkImportFailed, case(None, message)) == []
