"""The probes of packages and frameworks, each in a child process: with the real torch, and with fakes in tests/fakes."""

from __future__ import annotations

import ast
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ownlab import guest_client
from ownlab.machine.records import Framework

ROOT = Path(__file__).parents[3]
FAKES = ROOT / "tests" / "fakes"
GUEST = ROOT / "src" / "ownlab_guest"
OLDEST = Path.home() / ".pyenv" / "versions" / "3.9.18" / "bin" / "python"


def probe(name: str, scene: str, tmp_path: Path) -> Framework:
    """A framework's answer where the fakes of a scene stand first on its path."""
    return guest_client.ask(
        sys.executable,
        "probe.frameworks",
        [name, str(tmp_path / "transcript"), "30"],
        answer=Framework,
        deadline=30,
        env={"PYTHONPATH": str(FAKES / scene)},
    )


def facts(framework: Framework, *names: str) -> list[Any]:
    return [getattr(getattr(framework, name), "value", None) for name in names]


def devices(framework: Framework) -> list[tuple[str, str, str | None, int | None]]:
    return [
        (each.name, each.kind, each.compute_capability, each.memory_total) for each in facts(framework, "devices")[0]
    ]


def packages(python: str, **env: str) -> dict[str, Any]:
    return guest_client.ask(python, "probe.packages", answer=dict[str, Any], deadline=30, env=env)


# --- packages ---------------------------------------------------------------------------------------------------------


def test_the_interpreter_and_its_relevant_packages_are_read() -> None:
    answer = packages(sys.executable)
    assert answer["version"] == ".".join(str(part) for part in sys.version_info[:3])
    assert answer["prefix"] == sys.prefix
    assert answer["architecture"] == platform.machine()
    names = {package["name"] for package in answer["packages"]}
    assert "nvidia-ml-py" in names
    assert "pytest" not in names


def test_packages_reads_names_of_metadata_folders_and_the_first_on_the_path_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (
        first / "nvidia_cudnn_cu12-9.1.0.70.dist-info",
        second / "nvidia_cudnn_cu12-8.9.2.26.dist-info",
        second / "torch-2.1.0-py3.11.egg-info",
        second / "Flash_Attn-2.5.8.dist-info",
        second / "requests-2.0.dist-info",
        second / "unversioned.egg-info",
    ):
        folder.mkdir(parents=True)
    answer = packages(sys.executable, PYTHONPATH=f"{first}{os.pathsep}{second}{os.pathsep}{tmp_path / 'absent'}")
    versions = {package["name"]: package["version"] for package in answer["packages"]}
    assert versions["nvidia-cudnn-cu12"] == "9.1.0.70"
    assert versions["torch"] == "2.1.0"
    assert versions["flash-attn"] == "2.5.8"
    assert "requests" not in versions
    # The distribution is there, and nothing can be imported: that is for its probe to find out.
    assert answer["frameworks"] == ["torch"]


def test_a_module_without_metadata_is_found_but_a_leftover_folder_is_not(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '2.0.0+nv23.05'")
    (tmp_path / "tensorflow" / "python").mkdir(parents=True)
    assert packages(sys.executable, PYTHONPATH=str(tmp_path))["frameworks"] == ["torch"]


def test_conda_packages_keep_their_conda_names(tmp_path: Path) -> None:
    """In a virtual environment with a conda-meta folder of its own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    meta = tmp_path / "env" / "conda-meta"
    meta.mkdir()
    (meta / "pytorch-2.1.0-py3.11_cuda12.1_cudnn8.9.2_0.json").write_text("{}")
    (meta / "pytorch-cuda-12.1-ha16c6d3_5.json").write_text("{}")
    (meta / "zlib-1.3-h1.json").write_text("{}")
    (meta / "history").write_text("")
    assert packages(str(tmp_path / "env" / "bin" / "python"))["packages"] == [
        {"name": "conda:pytorch", "version": "2.1.0=py3.11_cuda12.1_cudnn8.9.2_0"},
        {"name": "conda:pytorch-cuda", "version": "12.1=ha16c6d3_5"},
    ]


# --- torch ------------------------------------------------------------------------------------------------------------


def test_a_cpu_build_of_torch_has_its_own_error_message(torch_python: str, tmp_path: Path) -> None:
    torch = guest_client.ask(
        torch_python,
        "probe.frameworks",
        ["torch", str(tmp_path / "output"), "60"],
        answer=Framework,
        deadline=60,
        env={"PYTHONPATH": ""},
    )
    assert facts(torch, "version", "build", "cuda", "devices") == ["2.13.0+cpu", "cpu", None, ()]
    assert torch.error == "Torch not compiled with CUDA enabled"
    assert torch.failure is None
    assert facts(torch, "import_seconds")[0] > 0.1


def test_torch_on_an_old_driver_gives_the_warning_once(tmp_path: Path) -> None:
    torch = probe("torch", "old_driver", tmp_path)
    assert facts(torch, "build", "cuda", "cudnn", "devices") == ["cuda", "12.1", "8.9.2", ()]
    assert facts(torch, "arch_list") == [("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")]
    assert torch.error is not None
    assert torch.error.startswith(
        "CUDA initialization: The NVIDIA driver on your system is too old (found version 11060)"
    )
    assert torch.error.count("too old") == 1


def test_torch_that_sees_a_card_it_has_no_code_for_keeps_its_warnings(tmp_path: Path) -> None:
    torch = probe("torch", "pascal", tmp_path)
    assert devices(torch) == [("NVIDIA GeForce GTX 1080 Ti", "cuda", "6.1", 11811160064)]
    assert torch.error is not None
    assert "sm_61 is not compatible with the current PyTorch installation" in torch.error
    assert "cuDNN version incompatibility" in torch.error
    assert "pynvml" not in torch.error  # a warning about code, not about the machine
    assert facts(torch, "cudnn") == [None]


def test_torch_for_rocm_lists_its_cards_and_the_error_of_one(tmp_path: Path) -> None:
    torch = probe("torch", "rocm", tmp_path)
    assert facts(torch, "build", "cuda", "cudnn", "arch_list") == ["rocm", None, None, ("gfx90a", "gfx942")]
    assert facts(torch, "rocm") == ["6.2.41133-dd7f95766"]
    assert devices(torch) == [("AMD Instinct MI300X", "rocm", None, 206141652992)]
    assert torch.error == "rocm:1: HIP error: invalid device ordinal"


def test_torch_with_torch_npu_sees_the_ascend(tmp_path: Path) -> None:
    torch = probe("torch", "ascend", tmp_path)
    assert devices(torch) == [("Ascend910B4", "npu", None, 31675383808)]
    assert torch.error is None


def test_an_import_that_raises_is_reported(tmp_path: Path) -> None:
    torch = probe("torch", "broken", tmp_path)
    assert torch.failure == "import"
    assert torch.error == "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory"
    assert facts(torch, "devices", "version") == [None, None]


def test_a_probe_works_without_a_transcript(tmp_path: Path) -> None:
    assert facts(probe("torch", "old_driver", tmp_path / "absent"), "cuda") == ["12.1"]


# --- the others -------------------------------------------------------------------------------------------------------


def test_tensorflow_without_a_card_is_quoted_from_stderr(tmp_path: Path) -> None:
    tensorflow = probe("tensorflow", "no_card", tmp_path)
    assert facts(tensorflow, "version", "build", "cuda", "cudnn", "devices") == ["2.17.0", "cuda", "12.3", "8", ()]
    assert tensorflow.error is not None
    first, second = tensorflow.error.splitlines()
    assert "Could not load dynamic library 'libcusolver.so.11'; dlerror: libnvJitLink.so.12" in first
    assert "Cannot dlopen some GPU libraries" in second


def test_tensorflow_that_sees_a_card(tmp_path: Path) -> None:
    tensorflow = probe("tensorflow", "cards", tmp_path)
    assert devices(tensorflow) == [("Tesla T4", "cuda", "7.5", None)]
    assert tensorflow.error is None


@pytest.mark.parametrize(
    ("name", "build", "cuda", "error"),
    [
        ("jax", "cpu", None, "Unknown backend: 'gpu' requested, but no platforms that are instances of gpu"),
        ("cupy", "cuda", "12.6", "cudaErrorInsufficientDriver: CUDA driver version is insufficient"),
        ("numba", "cuda", "12.4", "Error at driver init: Call to cuInit results in CUDA_ERROR_NO_DEVICE (100)"),
    ],
)
def test_a_framework_without_a_card_gives_its_reason(
    name: str, build: str, cuda: str | None, error: str, tmp_path: Path
) -> None:
    framework = probe(name, "no_card", tmp_path)
    assert facts(framework, "build", "cuda", "devices") == [build, cuda, ()]
    assert framework.error is not None
    assert framework.error.startswith(error)
    assert framework.failure is None


def test_jax_on_a_tpu(tmp_path: Path) -> None:
    jax = probe("jax", "cards", tmp_path)
    assert facts(jax, "build") == ["tpu"]
    assert devices(jax) == [("TPU v5 lite", "tpu", None, None)] * 2


# --- the guest's own rules --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(GUEST.rglob("*.py")), ids=lambda path: str(path.relative_to(GUEST)))
def test_guest_code_is_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.skipif(not OLDEST.exists(), reason="no Python 3.9 here; its syntax is checked all the same")
@pytest.mark.parametrize("name", ["torch", "tensorflow", "jax", "cupy", "numba"])
def test_probes_run_in_python_3_9(name: str, tmp_path: Path) -> None:
    scene = "old_driver" if name == "torch" else "no_card"
    framework = guest_client.ask(
        str(OLDEST),
        "probe.frameworks",
        [name, str(tmp_path / "transcript"), "30"],
        answer=Framework,
        deadline=30,
        env={"PYTHONPATH": str(FAKES / scene)},
    )
    assert framework.error
    assert framework.failure is None


def test_torch_that_was_compiled_without_the_list_of_its_architectures(tmp_path: Path) -> None:
    source = (FAKES / "old_driver" / "torch" / "__init__.py").read_text()
    (tmp_path / "torch.py").write_text(source + "\n_C._cuda_getArchFlags = lambda: None\n")
    torch = guest_client.ask(
        sys.executable, "probe.frameworks", ["torch"], answer=Framework, deadline=30, env={"PYTHONPATH": str(tmp_path)}
    )
    assert facts(torch, "cuda", "arch_list") == ["12.1", None]
    assert torch.error is not None
    assert "NoneType" not in torch.error
