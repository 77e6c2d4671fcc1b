"""The meaning of environment variables on a machine with given cards."""

from __future__ import annotations

from pathlib import Path

import pytest

from ownlab.machine.environment_variables import read_environment
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Card


def known(text: str) -> Known[str]:
    return Known(text, source="NVML")


def nvidia(index: int, name: str, uuid: str, capability: str = "8.0") -> Card:
    return Card("nvidia", index, known(name), known(uuid), compute_capability=known(capability))


UUIDS = (
    "GPU-1a2d7986-4b79-e1ed-c951-afa4653d7453",
    "GPU-1a2dffff-0000-0000-0000-000000000000",
    "GPU-bb33aaaa-0000-0000-0000-000000000000",
)
ALIKE = tuple(nvidia(index, "NVIDIA A100-SXM4-80GB", uuid) for index, uuid in enumerate(UUIDS))
MIXED = (nvidia(0, "NVIDIA T4", UUIDS[0], "7.5"), nvidia(1, "NVIDIA A100-SXM4-80GB", UUIDS[2]))
AMD = (Card("amd", 0, known("MI300X")), Card("amd", 1, known("MI300X")))


def meaning(name: str, value: str, cards: tuple[Card, ...] = ALIKE, **others: str) -> str:
    variables = value_of(read_environment({name: value, **others}, cards))
    assert variables is not None
    return next(variable.meaning for variable in variables if variable.name == name)


# --- which cards are seen ---------------------------------------------------------------------------------------------


def test_cards_that_were_not_read() -> None:
    assert "cannot be determined" in meaning("CUDA_VISIBLE_DEVICES", "0", ())


def test_the_reordering_is_explained() -> None:
    assert meaning("CUDA_VISIBLE_DEVICES", "2,0") == (
        "In programs, cuda:0 is card 2 (NVIDIA A100-SXM4-80GB) and cuda:1 is card 0 (NVIDIA A100-SXM4-80GB). Card 1 is hidden."
    )
    assert meaning("CUDA_VISIBLE_DEVICES", "") == "Hides every card from programs."
    assert meaning("CUDA_VISIBLE_DEVICES", "1", AMD) == "In programs, cuda:0 is card 1 (MI300X). Card 0 is hidden."


def test_the_order_of_different_models_may_differ_from_nvidia_smi() -> None:
    assert "fastest first" in meaning("CUDA_VISIBLE_DEVICES", "0", MIXED)
    assert "fastest first" not in meaning("CUDA_VISIBLE_DEVICES", "0", MIXED, CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert "fastest first" not in meaning("CUDA_VISIBLE_DEVICES", "GPU-bb", MIXED)
    assert "fastest first" not in meaning("CUDA_VISIBLE_DEVICES", "0", ALIKE)


# --- other variables --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "as nvidia-smi does"),
        ("CUDA_DEVICE_ORDER", "pci", "Invalid"),
        ("NVIDIA_VISIBLE_DEVICES", "void", "no card"),
        ("NVIDIA_VISIBLE_DEVICES", "all", "every card"),
        ("NVIDIA_DRIVER_CAPABILITIES", "utility", "CUDA cannot run"),
        ("NVIDIA_DRIVER_CAPABILITIES", "compute", "no nvidia-smi"),
        ("NVIDIA_DRIVER_CAPABILITIES", "all", "every part"),
        ("HSA_OVERRIDE_GFX_VERSION", "10.3.0", "gfx1030"),
        ("HSA_OVERRIDE_GFX_VERSION", "9.0.10", "gfx90a"),
        ("HSA_OVERRIDE_GFX_VERSION", "gfx1030", "Not a version"),
        ("PYTORCH_ALLOC_CONF", "expandable_segments:True", "expandable_segments is True"),
        ("PYTORCH_ALLOC_CONF", "expandable_segments:true", "only True and False"),
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128,backend:native", "max_split_size_mb is 128"),
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128,backend:native", "backend is native"),
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size:128", "max_split_size is not an option"),
        ("PYTORCH_ALLOC_CONF", "roundup_power2_divisions:[256:1,>:4],backend:native", "divisions is [256:1,>:4]"),
        ("PYTORCH_ALLOC_CONF", "", "keeps its defaults"),
        ("PYTORCH_NVML_BASED_CUDA_CHECK", "1", "asks NVML"),
        ("CUDA_LAUNCH_BLOCKING", "1", "everything is slower"),
        ("CUDA_LAUNCH_BLOCKING", "0", "This is the default"),
        ("TORCH_CUDA_ARCH_LIST", "9.0a", "will not run on the compute capability 8.0"),
        ("TF_FORCE_GPU_ALLOW_GROWTH", "true", "as it needs it"),
        ("TF_FORCE_GPU_ALLOW_GROWTH", "false", "nearly all"),
        ("TF_CPP_MIN_LOG_LEVEL", "3", "hides its warnings"),
        ("XLA_PYTHON_CLIENT_PREALLOCATE", "false", "as it needs it"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", ".9", "90 %"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "90%", "Not a number"),
        ("JAX_PLATFORMS", "cpu", "only the CPU"),
        ("JAX_PLATFORMS", "cuda,cpu", "cuda,cpu"),
        ("NCCL_DEBUG", "INFO", "INFO"),
        ("NCCL_P2P_DISABLE", "1", "not copy to each other"),
        ("NCCL_IB_DISABLE", "1", "plain sockets"),
        ("OMP_NUM_THREADS", "1", "one CPU thread."),
        ("OMP_NUM_THREADS", "many", "Not a number"),
        ("ASCEND_RT_VISIBLE_DEVICES", "0", "cannot be determined"),
    ],
)
def test_meanings(name: str, value: str, words: str) -> None:
    assert words in meaning(name, value)


@pytest.mark.parametrize(
    ("value", "runs"), [("8.0", True), ("7.5+PTX", True), ("7.5", False), ("8.6", False), ("Ampere", True)]
)
def test_architectures_that_run_here(value: str, runs: bool) -> None:
    assert ("will not run" not in meaning("TORCH_CUDA_ARCH_LIST", value)) is runs


def test_the_folders_of_a_library_path_are_listed(tmp_path: Path) -> None:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda/libcudart.so.12").touch()
    (tmp_path / "cuda/libcudnn.so.9").touch()
    (tmp_path / "plain").mkdir()
    variables = value_of(read_environment({"LD_LIBRARY_PATH": "/cuda:/gone::/plain"}, (), tmp_path))
    assert variables is not None
    assert variables[0].meaning == (
        "The loader searches these folders before a program's own libraries. /cuda has libcudart and libcudnn."
        " /gone does not exist. An empty entry means the current folder. One folder has no CUDA libraries."
    )


def test_missing_paths(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "cuda/bin").mkdir(parents=True)
    (tmp_path / "cuda/bin/nvcc").touch()
    environ = {"CUDA_HOME": "/gone", "CUDA_PATH": "/empty", "LD_PRELOAD": "/lib/gone.so libjemalloc.so"}
    meanings = [variable.meaning for variable in value_of(read_environment(environ, (), tmp_path)) or ()]
    assert "/lib/gone.so does not exist" in meanings[0]
    assert "this folder does not exist" in meanings[1]
    assert "no nvcc" in meanings[2]
    variables = value_of(read_environment({"CUDA_HOME": "/cuda"}, (), tmp_path)) or ()
    assert variables[0].meaning.startswith("Extensions are built with this CUDA toolkit.")


def test_nothing_else_is_recorded() -> None:
    environ = {
        "HF_TOKEN": "hf_x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "NCCL_API_TOKEN": "z",
        "NCCL_NET": "IB",
        "PATH": "/bin",
    }
    assert [variable.name for variable in value_of(read_environment(environ, ())) or ()] == ["NCCL_NET"]
