"""Compiling for CUDA: torch, its companions, extensions and the toolkit."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rules.software.cuda_toolkit import (
    CudaVersionMismatch,
    ToolkitLacksArchitecture,
    ToolkitVersionDiffers,
)
from ownlab.instruments.doctor.rules.software.package_sets import MixedPackages
from ownlab.machine.records import Card, Framework, Interpreter, Machine, Package, Toolkits


def with_nvcc(of: Any, nvcc: str, *cards: str, cuda: str | None = None) -> Machine:
    torch = (of(Framework, name="torch", version="2.5.0", build="cuda", cuda=cuda),) if cuda else ()
    machine: Machine = of(
        Machine,
        cards=tuple(of(Card, vendor="nvidia", index=index, name=name) for index, name in enumerate(cards)),
        toolkits=of(Toolkits, nvcc=nvcc),
        interpreter=of(Interpreter, frameworks=torch),
    )
    return machine


@pytest.mark.parametrize("rule", [CudaVersionMismatch, ToolkitLacksArchitecture, ToolkitVersionDiffers])
def test_a_healthy_machine_has_no_finding(rule: Any, h200: Machine, case: Any, find: Any) -> None:
    assert find(rule, case(h200)) == []


# --- cuda-mismatch ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "fix"),
    [
        (
            "The detected CUDA version (12.0) mismatches the version that was used to compile PyTorch (11.6).",
            "export CUDA_HOME=/usr/local/cuda-11.6",
        ),
        (
            "The detected CUDA version (11.8) mismatches the version that was used to compile\n      PyTorch (12.4).",
            "export CUDA_HOME=/usr/local/cuda-12.4",
        ),
        (
            (
                "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA versions. PyTorch has"
                " CUDA Version=11.3 and torchvision has CUDA Version=11.7."
            ),
            "/whl/cu113",
        ),
        ("Detected that PyTorch and torchvision were compiled with different\nCUDA versions.", "/whl/cuXYZ"),
        (
            "RuntimeError: operator torchvision::nms does not exist",
            "pip install --force-reinstall --no-deps torchvision==",
        ),
        (
            "ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
            "pip install --no-build-isolation --no-cache-dir",
        ),
    ],
)
def test_packages_that_do_not_load_together(message: str, fix: str, case: Any, find: Any) -> None:
    (finding,) = find(CudaVersionMismatch, case(None, message))
    assert fix in finding.fix[0]
    assert not finding.blocks


def test_companions_of_another_variant(of: Any, case: Any, find: Any) -> None:
    packages = (Package("torch", "2.5.0+cu124"), Package("torchvision", "0.20.0+cpu"))
    (finding,) = find(CudaVersionMismatch, case(of(Machine, interpreter=of(Interpreter, packages=packages))))
    assert finding.evidence == ("torchvision 0.20.0+cpu is installed with torch 2.5.0+cu124",)


@pytest.mark.parametrize(
    "versions",
    [("2.5.0+cu124", "0.20.0+cu124"), ("2.5.0", "0.20.0"), ("2.3.0a0+6ddf5cf85e.nv24.4", "0.18.0a0+abc")],
)
def test_companions_that_match_or_are_unknown(versions: tuple[str, str], of: Any, case: Any, find: Any) -> None:
    packages = (Package("torch", versions[0]), Package("torchvision", versions[1]))
    assert find(CudaVersionMismatch, case(of(Machine, interpreter=of(Interpreter, packages=packages)))) == []


@pytest.mark.parametrize(
    ("torch", "vision", "belong"),
    [
        ("2.7.1", "0.22.1", True),
        ("2.7.1", "0.21.0", False),
        ("2.13.0", "0.29.2", False),
        ("2.14.1+cu132", "0.29.2+cu132", True),
        ("2.15.0+cu132", "0.29.2+cu132", True),  # it asks for torch 2.14 or later
        ("2.15.0", "0.28.0", False),
        ("1.13.1", "0.14.1", True),
        ("3.0.0", "0.40.0", True),  # not known
    ],
)
def test_torchvision_of_another_release(torch: str, vision: str, belong: bool, of: Any, case: Any, find: Any) -> None:
    packages = (Package("torch", torch), Package("torchvision", vision))
    found = find(MixedPackages, case(of(Machine, interpreter=of(Interpreter, packages=packages))))
    assert (found == []) == belong


def test_a_minor_version_difference_is_no_mismatch(case: Any, find: Any) -> None:
    message = (
        "UserWarning: The detected CUDA version (11.7) has a minor version mismatch with the version that was used to"
        " compile PyTorch (11.3). Most likely this shouldn't be a problem."
    )
    assert find(CudaVersionMismatch, case(None, message)) == []


# --- toolkit-arch -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nvcc", "card", "wanted"),
    [
        ("10.2", "NVIDIA GeForce RTX 3090", "CUDA 11.1 or newer"),
        ("11.0", "NVIDIA GeForce RTX 3090", "CUDA 11.1 or newer"),
        ("13.0", "Tesla V100-SXM2-16GB", "to 12.9"),
        ("12.6", "NVIDIA GeForce RTX 5090", "CUDA 12.8 or newer"),
    ],
)
def test_toolkits_before_the_first_and_after_the_last(
    nvcc: str, card: str, wanted: str, of: Any, case: Any, find: Any
) -> None:
    (finding,) = find(ToolkitLacksArchitecture, case(with_nvcc(of, nvcc, card)))
    assert wanted in finding.fix[0]
    assert (finding.severity, finding.blocks) == ("warning", False)


@pytest.mark.parametrize(
    ("nvcc", "card"),
    [("11.1", "NVIDIA GeForce RTX 3090"), ("12.9", "Tesla V100-SXM2-16GB"), ("9.0", "NVIDIA Whatever 9000")],
)
def test_toolkits_that_support_the_card(nvcc: str, card: str, of: Any, case: Any, find: Any) -> None:
    assert find(ToolkitLacksArchitecture, case(with_nvcc(of, nvcc, card))) == []


@pytest.mark.parametrize(("nvcc", "card", "count"), [("11.4", "GRID K520", 1), ("11.4", "Tesla K80", 0)])
def test_the_last_toolkit_differs_within_kepler(
    nvcc: str, card: str, count: int, of: Any, case: Any, find: Any
) -> None:
    findings = find(ToolkitLacksArchitecture, case(with_nvcc(of, nvcc, card)))
    assert [finding.fix[0] for finding in findings] == ["Install a toolkit: CUDA 6.0 to 10.2."] * count


def test_identical_cards_are_named_once(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(ToolkitLacksArchitecture, case(with_nvcc(of, "13.0", *["Tesla V100-SXM2-16GB"] * 4)))
    assert finding.evidence == ("nvcc is 13.0", "4 × Tesla V100-SXM2-16GB (cards 0 to 3): Volta, 7.0")


def test_unsupported_architecture_from_nvccs_message(case: Any, find: Any) -> None:
    (finding,) = find(ToolkitLacksArchitecture, case(None, "nvcc fatal   : Unsupported gpu architecture 'compute_89'"))
    assert finding.evidence == ("pasted text: nvcc fatal : Unsupported gpu architecture 'compute_89'",)


# --- toolkit-diff -----------------------------------------------------------------------------------------------------


def test_a_different_toolkit_is_reported_as_harmless(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(ToolkitVersionDiffers, case(with_nvcc(of, "11.8", cuda="12.4")))
    assert finding.severity == "note"
    assert finding.fix == ("Nothing to do; to compile an extension: export CUDA_HOME=/usr/local/cuda-12.4",)
    (same_major,) = find(ToolkitVersionDiffers, case(with_nvcc(of, "12.2", cuda="12.4")))
    assert same_major.fix == ("Nothing to do.",)


@pytest.mark.parametrize("nvcc", ["12.4", "12.4.131", "not a version"])
def test_the_same_or_an_unreadable_toolkit(nvcc: str, of: Any, case: Any, find: Any) -> None:
    assert find(ToolkitVersionDiffers, case(with_nvcc(of, nvcc, cuda="12.4"))) == []
