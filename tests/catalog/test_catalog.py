"""The tables: each matches its record and names its sources, and combinations of them agree with known facts."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import msgspec
import pytest

from ownlab.catalog.architectures import Architectures, architecture_of, capability_of, is_datacentre, runs_on
from ownlab.catalog.cuda import (
    CudaLibraries,
    Drivers,
    branch_of,
    cuda_majors,
    driver_floor,
    library_names,
    library_wheel,
    newest_cuda,
    toolkit_driver,
)
from ownlab.catalog.data_files import load_json
from ownlab.catalog.error_codes import ErrorCodes, error_code, phrases
from ownlab.catalog.frameworks import (
    Cudnn,
    Frameworks,
    allocator_names,
    cudnn_of_torch,
    cudnn_wheel,
    cupy_packages,
    jax_extras,
    tensorflow_build,
    tensorflow_windows_last,
)
from ownlab.catalog.torch_wheels import Wheels, build_of, newest_rocm, wheel_for
from ownlab.catalog.versions import major_minor, parse_version
from ownlab.catalog.xids import Xids, xid

TABLES: dict[str, type[Any]] = {
    "architectures": Architectures,
    "cuda_drivers": Drivers,
    "cuda_libraries": CudaLibraries,
    "cudnn": Cudnn,
    "error_codes": ErrorCodes,
    "frameworks": Frameworks,
    "torch_wheels": Wheels,
    "xid": Xids,
}


def test_every_file_has_a_record() -> None:
    folder = files("ownlab.catalog") / "data"
    assert {entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json")} == set(
        TABLES
    )


@pytest.mark.parametrize("name", TABLES)
def test_every_table_matches_its_record_and_names_sources_and_date(name: str) -> None:
    table = load_json(name, TABLES[name])
    assert table.source
    assert all(len(source) > 5 for source in table.source)
    assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", table.as_of)


def test_a_table_that_does_not_match_is_refused() -> None:
    raw = (files("ownlab.catalog") / "data" / "cuda_drivers.json").read_bytes()
    with pytest.raises(msgspec.ValidationError, match="cuda_major"):
        msgspec.json.decode(raw.replace(b'"cuda_major": 13', b'"cuda_major": "13"'), type=Drivers)


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("580.159.04", (580, 159, 4)),
        ("2.11.0+cu130", (2, 11, 0)),
        ("v12.4", (12, 4)),
        ("2.1.0a0+32f93b1", (2, 1, 0)),
        ("unknown", ()),
        ("", ()),
    ],
)
def test_versions_are_their_leading_numbers(text: str, parts: tuple[int, ...]) -> None:
    assert parse_version(text) == parts


def test_major_and_minor() -> None:
    assert major_minor("2.11.0+cu130") == "2.11"
    assert major_minor("13") == "13"


# --- drivers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cuda", "linux", "windows"),
    [
        ("12.4", "525.60.13", "528.33"),  # any 12.x: minor-version compatibility
        ("12.9", "525.60.13", "528.33"),
        ("11.8", "450.80.02", "452.39"),
        ("13.0", "580.65.06", "580"),
        ("10.2", "440.33", "441.22"),  # exact, each release its own
        ("10.1", "418.39", "418.96"),
        ("9.0", "384.81", "385.54"),
    ],
)
def test_driver_floors(cuda: str, linux: str, windows: str) -> None:
    assert driver_floor(cuda) == linux
    assert driver_floor(cuda, "windows") == windows


def test_no_floor_is_guessed() -> None:
    assert driver_floor("99.0") is None
    assert driver_floor("unknown") is None
    assert toolkit_driver("12.7") is None  # there is no such toolkit


def test_the_toolkits_own_driver_is_newer_than_the_floor() -> None:
    assert toolkit_driver("12.4.1") == "550.54.14"


def test_branches() -> None:
    long_term = branch_of("580.159.04")
    assert long_term is not None
    assert long_term.branch == 580
    assert long_term.end_of_life == "2028-06"
    assert newest_cuda("580.159.04") == "13.0"
    assert newest_cuda("535.104.05") == "12.2"
    assert branch_of("1.2") is None
    assert newest_cuda("1.2") is None


# --- architectures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("Tesla V100-SXM2-16GB", "7.0"),
        ("NVIDIA GeForce GTX 1080 Ti", "6.1"),
        ("NVIDIA A10G", "8.6"),
        ("NVIDIA A100-SXM4-80GB", "8.0"),
        ("NVIDIA A100 80GB PCIe", "8.0"),
        ("NVIDIA L40S", "8.9"),
        ("NVIDIA L4", "8.9"),
        ("NVIDIA H200", "9.0"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA GH200 480GB", "9.0"),
        ("NVIDIA B200", "10.0"),
        ("Tesla T4", "7.5"),
        ("Tesla P100-PCIE-16GB", "6.0"),
        ("Tesla K80", "3.7"),
        ("GeForce RTX 2080 Ti", "7.5"),
        ("NVIDIA GeForce RTX 3090", "8.6"),
        ("NVIDIA GeForce RTX 4080 Laptop GPU", "8.9"),
        ("NVIDIA GeForce RTX 5090 D", "12.0"),
        ("NVIDIA GeForce GTX 1650", "7.5"),
        ("GeForce GTX 1050 Ti with Max-Q Design", "6.1"),
        ("NVIDIA RTX A6000", "8.6"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("Quadro RTX 6000", "7.5"),
        ("Quadro P1000", "6.1"),
        ("TITAN V", "7.0"),
        ("NVIDIA TITAN RTX", "7.5"),
        ("GeForce GTX TITAN X", "5.2"),
        ("NVIDIA GeForce MX330", "6.1"),
        ("Orin (nvgpu)", "8.7"),
        ("GRID K520", "3.0"),
        ("NVIDIA Whatever 9000", None),
        ("AMD Instinct MI300X", None),
        ("", None),
    ],
)
def test_cards_are_known_by_their_names(name: str, capability: str | None) -> None:
    assert capability_of(name) == capability


def test_every_capability_of_a_card_has_an_architecture() -> None:
    table = load_json("architectures", Architectures)
    assert [card.match for card in table.cards if architecture_of(card.compute_capability) is None] == []


def test_first_and_last_toolkits() -> None:
    ampere, volta, blackwell = (architecture_of(capability) for capability in ("8.6", "7.0", "12.0"))
    assert ampere is not None
    assert volta is not None
    assert blackwell is not None
    assert ampere.first_cuda["8.6"] == "11.1"  # GeForce 30 needs CUDA 11.1
    assert ampere.first_cuda["8.0"] == "11.0"
    assert volta.last_cuda == "12.9"
    assert volta.last_driver_branch == 580
    assert blackwell.first_cuda["12.0"] == "12.8"
    assert blackwell.open_modules == "required"


def test_maxwells_first_toolkits() -> None:
    maxwell = architecture_of("5.0")
    assert maxwell is not None
    assert maxwell.first_cuda == {"5.0": "6.0", "5.2": "6.5", "5.3": "7.0"}


def test_architectures_with_bf16() -> None:
    answers = {
        capability: (row := architecture_of(capability)) is not None and row.bf16
        for capability in ("7.0", "7.5", "8.0", "9.0")
    }
    assert answers == {"7.0": False, "7.5": False, "8.0": True, "9.0": True}


def test_cards_that_the_compatibility_library_supports() -> None:
    assert is_datacentre("Tesla T4") is True
    assert is_datacentre("NVIDIA GeForce RTX 4090") is False
    assert is_datacentre("NVIDIA Whatever 9000") is None


@pytest.mark.parametrize(
    ("codes", "capability", "runs"),
    [
        (("sm_86",), "8.9", True),
        (("sm_80",), "8.6", True),
        (("sm_90",), "9.0", True),  # H200
        (("sm_80", "sm_86"), "9.0", False),
        (("sm_89",), "8.6", False),
        (("sm_60",), "6.1", True),
        (("sm_90a",), "9.0", True),
        (("sm_100a",), "10.3", False),
        (("compute_80",), "9.0", True),  # PTX is compiled for what is newer
        (("compute_90",), "8.0", False),
        (("sm_120",), "12.1", True),
        (("sm_100",), "12.0", False),
        (("sm_80", "sm_86"), "8.7", False),  # Jetson Orin runs only its own
        (("sm_87",), "8.9", False),
        (("gfx942",), "9.0", False),
        ((), "9.0", False),
    ],
)
def test_which_code_runs_where(codes: tuple[str, ...], capability: str, runs: bool) -> None:
    assert runs_on(codes, capability) is runs


# --- torch ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torch", "cuda", "capability", "runs"),
    [
        ("2.11.0", "12.8", "6.0", False),  # P100
        ("2.11.0", "12.6", "6.0", True),
        ("2.11.0", "13.0", "9.0", True),  # H200
        ("2.7.1", "12.6", "12.0", False),  # RTX 5090 needs cu128
        ("2.7.1", "12.8", "12.0", True),
        ("2.10.0", "12.8", "7.0", True),
        ("2.11.0", "12.8", "7.0", False),  # Volta was dropped from cu128
        ("1.12.1", "10.2", "8.6", False),  # RTX 3090 with CUDA 10
        ("1.12.1", "11.6", "8.6", True),
        ("2.1.0", "12.1", "6.1", True),
        ("2.1.0", "12.1", "3.7", False),  # K80
    ],
)
def test_which_wheel_has_code_for_which_card(torch: str, cuda: str, capability: str, runs: bool) -> None:
    build = build_of(torch, cuda)
    assert build is not None
    assert build.arch_list is not None
    assert runs_on(build.arch_list, capability) is runs


def test_a_build_that_does_not_exist() -> None:
    assert build_of("2.11.0", "9.0") is None
    assert build_of("0.1", "12.8") is None


def test_the_newest_wheel_for_a_card_and_a_driver() -> None:
    hopper = wheel_for("9.0", "580.159.04")
    assert hopper is not None
    assert hopper.newest
    assert hopper.torch == major_minor(load_json("torch_wheels", Wheels).newest)
    assert "==" not in hopper.command

    pascal = wheel_for("6.1", "580.159.04")
    assert pascal is not None
    assert (pascal.tag, pascal.torch) == ("cu126", "2.14")
    assert pascal.command == (
        "pip install --force-reinstall 'torch==2.14.*' --index-url https://download.pytorch.org/whl/cu126"
    )

    older_driver = wheel_for("9.0", "535.104.05")
    assert older_driver is not None
    assert older_driver.cuda.startswith("12.")  # CUDA 13 needs 580

    kepler = wheel_for("3.7", "470.256.02")
    assert kepler is not None
    assert kepler.cuda.startswith("11.")


@pytest.mark.parametrize(
    ("python", "torch"), [("3.9.18", "2.8"), ("3.8.10", "2.4"), ("3.10.12", "2.14"), ("3.15.0", "2.15"), ("3", "2.15")]
)
def test_the_newest_wheel_for_a_python(python: str, torch: str) -> None:
    wheel = wheel_for("9.0", "580.159.04", python=python)
    assert wheel is not None
    assert wheel.torch == torch


def test_no_wheel_for_an_unsupported_python() -> None:
    assert wheel_for("12.0", "580.159.04", python="3.8") is None  # Blackwell came with torch 2.7
    assert wheel_for("6.1", "580.159.04", python="3.15") is None  # Pascal ended with torch 2.14


def test_wheel_platform_and_driver_family_are_independent() -> None:
    wsl = wheel_for("8.6", "527.41", platform="linux-x86_64", family="windows")
    windows = wheel_for("8.6", "527.41", platform="windows-x86_64", family="windows")
    linux = wheel_for("8.6", "527.41")
    assert wsl is not None
    assert windows is not None
    assert linux is not None
    assert (wsl.torch, wsl.cuda) == ("2.7", "11.8")  # 527.41 is too old for CUDA 12 on Windows
    assert (windows.torch, windows.cuda) == ("2.5", "11.8")
    assert linux.cuda.startswith("12.")


def test_the_newest_rocm_is_newer_than_any_that_the_table_names_before() -> None:
    assert parse_version(newest_rocm()) >= (7, 2)


def test_no_wheel_where_none_can_run() -> None:
    assert wheel_for("2.1", "390.157") is None  # Fermi
    assert wheel_for("12.0", "470.256.02") is None  # Blackwell on a driver from before it


# --- TensorFlow, cuDNN, the allocator ---------------------------------------------------------------------------------


def test_tensorflow_builds() -> None:
    build = tensorflow_build("2.12.1")
    assert build is not None
    assert (build.cuda, build.cudnn) == ("11.8", "8.6")
    assert tensorflow_build("0.12") is None
    assert tensorflow_windows_last() == "2.10"


def test_cudnn_of_torch() -> None:
    assert cudnn_of_torch("2.11.0+cu130", "13.0") == "9.19.0.56"
    assert cudnn_of_torch("2.11.0+cu126", "12.6") == "9.10.2.21"
    assert cudnn_of_torch("2.3.1") == "8.9"
    assert cudnn_of_torch("2.3.1", "9.0") is None
    assert cudnn_of_torch("0.4") is None


def test_cudnn_wheels() -> None:
    assert cudnn_wheel("8.1", 11) == "nvidia-cudnn-cu11>=8.6,<9"
    assert cudnn_wheel("9.3", 12) == "nvidia-cudnn-cu12>=9.3,<10"
    assert cudnn_wheel("9", 13) == "nvidia-cudnn-cu13>=9.12,<10"
    assert cudnn_wheel("8", 13) is None  # CUDA 13 came after cuDNN 8
    assert cudnn_wheel("7.6", 11) is None
    assert cudnn_wheel("8.1", 10) is None
    assert cudnn_wheel("?", 12) is None


def test_packages_of_jax_and_cupy_with_the_newest_cuda_first() -> None:
    assert [row.cuda_major for row in jax_extras()] == [13, 12]
    assert [row.package for row in cupy_packages()][:3] == ["cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x"]


def test_the_allocators_variable() -> None:
    names = allocator_names()
    assert (names.old_name, names.new_name) == ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    assert names.works_for_cuda_since == "2.10"


# --- CUDA's libraries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "majors"),
    [
        ("libcufft.so.10", (10, 11)),
        ("libcufft.so.11", (12,)),
        ("libcufft.so.12", (13,)),
        ("libcusparse.so.11", (11,)),
        ("libcusparse.so.12", (12, 13)),
        ("libcusolver.so.10", (10, 11)),
        ("libcusolver.so.11", (11, 12)),
        ("libcusolver.so.12", (13,)),
        ("libcurand.so.10", (10, 11, 12, 13)),
        ("libcublas.so.11", (11,)),
        ("libcublasLt.so.13", (13,)),
        ("libnvrtc.so.11.2", (11,)),
        ("libcudart.so.11.0", (11,)),
        ("libcufft.so.9.0", (9,)),  # up to CUDA 9 all have its number
        ("libcufft.so.40", ()),
        ("cudart64_110.dll", (11,)),
        ("cudart64_12.dll", (12,)),
        ("cublas64_92.dll", (9,)),
        ("cufft64_10.dll", (10, 11)),
        ("libcudart.so", ()),
        ("libfoo.so.1", ()),
        ("", ()),
    ],
)
def test_the_cuda_of_a_library(file: str, majors: tuple[int, ...]) -> None:
    assert cuda_majors(file) == majors


@pytest.mark.parametrize(
    ("file", "major", "wheel"),
    [
        ("libcufft.so.12", 13, "nvidia-cufft"),  # 12.0 is CUDA 13's: a pin on 13 would find nothing
        ("libcurand.so.10", 13, "nvidia-curand"),
        ("libcufile.so.0", 13, "nvidia-cufile"),
        ("libcublas.so.13", 13, "'nvidia-cublas==13.*'"),
        ("libcudart.so.13", 13, "'nvidia-cuda-runtime==13.*'"),
        ("libnccl.so.2", 13, "nvidia-nccl-cu13"),
        ("libcufft.so.11", 12, "nvidia-cufft-cu12"),
        ("libcudart.so.10.1", 10, None),
        ("libfoo.so.1", 12, None),
    ],
)
def test_which_wheel_brings_a_library(file: str, major: int, wheel: str | None) -> None:
    assert library_wheel(file, major) == wheel


def test_every_library_has_a_wheel_for_each_cuda_that_has_it() -> None:
    files = [f"lib{name}.so.13" for name in library_names()]
    assert [file for file in files if library_wheel(file, 12) is None] == []


# --- Xids -------------------------------------------------------------------------------------------------------------


def test_xids() -> None:
    fallen = xid(79)
    assert fallen is not None
    assert fallen.severity == "error"
    assert xid(31) is not None
    assert xid(100_000) is None


def test_no_xid_is_listed_twice() -> None:
    numbers = [row.xid for row in load_json("xid", Xids).xids]
    assert len(numbers) == len(set(numbers))


# --- error codes ------------------------------------------------------------------------------------------------------


def test_errors_by_number() -> None:
    insufficient = error_code("cuda", 35)
    assert insufficient is not None
    assert insufficient.name == "cudaErrorInsufficientDriver"
    assert error_code("cuda", 4711) is None
    access = error_code("exit", 0xC0000005)
    assert access is not None
    assert access.name == "STATUS_ACCESS_VIOLATION"


def test_no_error_code_is_listed_twice_and_no_translation_is_ambiguous() -> None:
    for family in load_json("error_codes", ErrorCodes).families:
        numbers = [code.number for code in family.codes]
        assert len(set(numbers)) == len(numbers)
    translations = [translation for phrase in phrases() for translation in phrase.translations]
    assert len(set(translations)) == len(translations)
    assert not any(phrase.english in translation for phrase in phrases() for translation in phrase.translations)
