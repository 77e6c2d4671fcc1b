"""Shared libraries of CUDA and cuDNN: missing, or in the wrong version."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.rules.software.cuda_libraries import CudaLibraryMissing, CudnnMissing, ShadowedCudnn
from ownlab.machine.records import (
    Card,
    Framework,
    FrameworkDevice,
    Host,
    Interpreter,
    LibraryInstall,
    Machine,
    Package,
    Toolkits,
)

CUDART_11 = "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory"
TF_CUDART = (
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0';"
    " dlerror: libcudart.so.11.0: cannot open shared object file: No such file or directory; LD_LIBRARY_PATH: /usr/lib64"
)
TF_NVJITLINK = (
    "I tensorflow/stream_executor/platform/default/dso_loader.cc:49] Successfully opened dynamic library libcudart.so.11.0\n"
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:60] Could not load dynamic library 'libcusolver.so.11';"
    " dlerror: libnvJitLink.so.12: cannot open shared object file: No such file or directory\n"
    "I tensorflow/stream_executor/platform/default/dso_loader.cc:49] Successfully opened dynamic library libcudnn.so.8\n"
    "W tensorflow/core/common_runtime/gpu/gpu_device.cc:1689] Cannot dlopen some GPU libraries. Please make sure the"
    " missing libraries mentioned above are installed properly if you would like to use GPU."
)
TF_CUDNN_8 = (
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libcudnn.so.8';"
    " dlerror: libcudnn.so.8: cannot open shared object file: No such file or directory"
)
TF_UNNAMED = (
    "W tensorflow/core/common_runtime/gpu/gpu_device.cc:2251] Cannot dlopen some GPU libraries. Please make sure the missing"
    " libraries mentioned above are installed properly if you would like to use GPU."
)


@pytest.fixture
def with_tensorflow(of: Any) -> Any:
    def build(version: str, **host: Any) -> Machine:
        framework = of(Framework, name="tensorflow", version=version, build="cuda", devices=())
        machine: Machine = of(
            Machine, origin="pasted", host=of(Host, **host), interpreter=of(Interpreter, frameworks=(framework,))
        )
        return machine

    return build


@pytest.mark.parametrize("rule", [CudaLibraryMissing, CudnnMissing, ShadowedCudnn])
def test_a_healthy_machine_has_no_finding(rule: Any, h200: Machine, case: Any, find: Any) -> None:
    assert find(rule, case(h200)) == []


# --- library-missing --------------------------------------------------------------------------------------------------


def test_a_program_for_cuda_11_without_its_runtime(case: Any, find: Any) -> None:
    (finding,) = find(CudaLibraryMissing, case(None, CUDART_11))
    assert finding.title == "libcudart.so.11.0 was not found"
    assert "built for CUDA 11" in finding.meaning
    assert finding.fix[0] == "pip install nvidia-cuda-runtime-cu11"
    assert finding.fix[1].startswith("export LD_LIBRARY_PATH=$(python -c ")
    assert finding.blocks


def test_tensorflow_continues_so_its_message_alone_does_not_block(case: Any, find: Any) -> None:
    (finding,) = find(CudaLibraryMissing, case(None, TF_CUDART))
    assert not finding.blocks


def test_the_library_named_by_the_loader_comes_first(case: Any, find: Any) -> None:
    (finding,) = find(CudaLibraryMissing, case(None, TF_NVJITLINK))
    assert finding.title == "libnvJitLink.so.12 was not found"
    assert finding.fix[0] == "pip install nvidia-nvjitlink-cu12"
    assert finding.blocks
    assert find(CudnnMissing, case(None, TF_NVJITLINK)) == []


def test_several_missing_libraries(case: Any, find: Any) -> None:
    message = "\n".join(
        f"Could not load dynamic library '{name}'; dlerror: {name}: cannot open shared object file"
        for name in ("libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11")
    )
    (finding,) = find(CudaLibraryMissing, case(None, message))
    assert finding.title == "libcublas.so.12, libcublasLt.so.12 and libcufft.so.11 were not found"
    assert finding.fix[0] == "pip install nvidia-cublas-cu12 nvidia-cufft-cu12"


def test_a_build_for_torchs_cuda_comes_first(of: Any, case: Any, find: Any) -> None:
    torch = of(Framework, name="torch", version="2.11.0", build="cuda", cuda="13.0")
    machine = of(Machine, origin="pasted", interpreter=of(Interpreter, frameworks=(torch,)))
    (finding,) = find(CudaLibraryMissing, case(machine, CUDART_11))
    assert finding.fix[0] == "Install the program in its build for CUDA 13, which torch includes here."


def test_cuda_13_and_cuda_10(case: Any, find: Any) -> None:
    (newest,) = find(CudaLibraryMissing, case(None, "ImportError: libcublas.so.13: cannot open shared object file"))
    assert newest.fix[0] == "pip install 'nvidia-cublas==13.*'"
    (oldest,) = find(CudaLibraryMissing, case(None, "ImportError: libcudart.so.10.1: cannot open shared object file"))
    assert "NVIDIA has no wheels for CUDA 10" in oldest.fix[0]


def test_libcuda_belongs_to_the_driver(of: Any, case: Any, find: Any) -> None:
    message = "ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')"
    (finding,) = find(CudaLibraryMissing, case(None, message))
    assert finding.title == "The driver's library libcuda.so.1 was not found"
    assert finding.blocks
    assert "docker run --gpus all" in finding.fix[0]
    assert not any("pip install" in step for step in finding.fix)
    wsl = of(Machine, origin="pasted", host=of(Host, virtualisation="wsl2"))
    (there,) = find(CudaLibraryMissing, case(wsl, message))
    assert there.fix[0] == "export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH"


def test_missing_libraries_without_a_card_are_no_finding(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, cards=(), host=of(Host, pci=()))
    assert find(CudaLibraryMissing, case(machine, TF_CUDART, where="tensorflow")) == []
    assert find(CudnnMissing, case(machine, TF_CUDNN_8, where="tensorflow")) == []


@pytest.mark.parametrize(
    "message",
    [
        "Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file",
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        "Successfully opened dynamic library libcudart.so.11.0",
    ],
)
def test_other_libraries_are_ignored(message: str, case: Any, find: Any) -> None:
    assert find(CudaLibraryMissing, case(None, message)) == []
    assert find(CudnnMissing, case(None, message)) == []


def missing(*names: str) -> str:
    return "\n".join(f"OSError: {name}: cannot open shared object file: No such file or directory" for name in names)


@pytest.mark.parametrize(
    ("names", "cuda", "wheels"),
    [
        (("libcufft.so.10", "libcudart.so.11.0"), 11, "nvidia-cufft-cu11 nvidia-cuda-runtime-cu11"),
        (("libcufft.so.11",), 12, "nvidia-cufft-cu12"),
        (("libcufft.so.12", "libcurand.so.10"), 13, "nvidia-cufft nvidia-curand"),
        (("libcusparse.so.11",), 11, "nvidia-cusparse-cu11"),
        (("libcusolver.so.11", "libcublas.so.12"), 12, "nvidia-cusolver-cu12 nvidia-cublas-cu12"),
        (("libcusolver.so.12", "libnccl.so.2"), 13, "nvidia-cusolver nvidia-nccl-cu13"),
        (("libnvrtc.so.11.2",), 11, "nvidia-cuda-nvrtc-cu11"),
        (("libcupti.so.13", "libnvJitLink.so.13"), 13, "'nvidia-cuda-cupti==13.*' 'nvidia-nvjitlink==13.*'"),
    ],
)
def test_the_library_name_shows_the_cuda_version(
    names: tuple[str, ...], cuda: int, wheels: str, of: Any, case: Any, find: Any
) -> None:
    torch = of(Framework, name="torch", version="2.4.0", build="cuda", cuda="10.2")  # says nothing of this program
    machine = of(Machine, origin="pasted", interpreter=of(Interpreter, frameworks=(torch,)))
    (finding,) = find(CudaLibraryMissing, case(machine, missing(*names)))
    assert f"built for CUDA {cuda}." in finding.meaning
    assert f"pip install {wheels}" in finding.fix


def test_tensorflow_without_cuda_on_windows_is_not_told_to_install_linux_libraries(case: Any, find: Any) -> None:
    (finding,) = find(
        CudaLibraryMissing, case(None, "W dso_loader.cc:64] Could not load dynamic library 'cudart64_110.dll'")
    )
    assert finding.severity == "warning"
    assert "harmless" in finding.title
    assert "built for CUDA 11." in finding.meaning
    assert not any("LD_LIBRARY_PATH" in step for step in finding.fix)


def test_a_library_name_shared_by_several_cuda_versions(of: Any, case: Any, find: Any) -> None:
    (alone,) = find(CudaLibraryMissing, case(None, missing("libcusparse.so.12")))
    assert "The name is the same in CUDA 12 and 13" in alone.meaning
    assert alone.fix[0] == "pip install nvidia-cusparse   # for CUDA 13; change it if the program needs another"
    torch = of(Framework, name="torch", version="2.7.0", build="cuda", cuda="12.8")
    machine = of(Machine, origin="pasted", interpreter=of(Interpreter, frameworks=(torch,)))
    (beside,) = find(CudaLibraryMissing, case(machine, missing("libcusparse.so.12")))
    assert "built for CUDA 12." in beside.meaning
    assert beside.fix[0] == "pip install nvidia-cusparse-cu12"


def test_a_cudnn_without_a_wheel_for_torchs_cuda(of: Any, case: Any, find: Any) -> None:
    torch = of(Framework, name="torch", version="2.11.0", build="cuda", cuda="13.0")
    machine = of(Machine, origin="pasted", interpreter=of(Interpreter, frameworks=(torch,)))
    (finding,) = find(CudnnMissing, case(machine, missing("libcudnn.so.8")))
    assert finding.fix[0] == "pip install 'nvidia-cudnn-cu12>=8.9,<9'   # for CUDA 12"


# --- cudnn-missing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "wheel"),
    [
        (TF_CUDNN_8, "'nvidia-cudnn-cu12>=8.9,<9'"),
        (
            "ImportError: libcudnn.so.6: cannot open shared object file: No such file or directory",
            "NVIDIA has no wheel of cuDNN 6",
        ),
        (
            "Couldn't open CUDA library libcudnn.so.5. LD_LIBRARY_PATH: /usr/local/cuda-8.0",
            "NVIDIA has no wheel of cuDNN 5",
        ),
        (
            "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9, libcudnn_ops.so}",
            "'nvidia-cudnn-cu12>=9,<10'",
        ),
    ],
)
def test_cudnn_is_missing(message: str, wheel: str, case: Any, find: Any) -> None:
    (finding,) = find(CudnnMissing, case(None, message))
    assert finding.blocks
    assert wheel in finding.fix[0]
    assert find(CudaLibraryMissing, case(None, message)) == []


@pytest.mark.parametrize(
    ("version", "fix"),
    [
        ("2.18.0", "pip install 'tensorflow[and-cuda]==2.18.*'"),
        ("2.12.1", "pip install 'nvidia-cudnn-cu11>=8.6,<9'"),
        ("2.4.0", "pip install 'nvidia-cudnn-cu11>=8.6,<9'"),  # built with 8.0, which has no wheel
        ("2.3.0", "conda install -c conda-forge cudatoolkit=10.1 cudnn=7.6"),
    ],
)
def test_the_cudnn_comes_from_tensorflows_table(
    version: str, fix: str, with_tensorflow: Any, case: Any, find: Any
) -> None:
    (finding,) = find(CudnnMissing, case(with_tensorflow(version), TF_CUDNN_8))
    assert finding.fix[0] == fix
    assert any(f"TensorFlow {version} was built with CUDA" in line for line in finding.evidence)


def test_tensorflow_on_native_windows(with_tensorflow: Any, case: Any, find: Any) -> None:
    message = "Could not load dynamic library 'cudnn64_8.dll'; dlerror: cudnn64_8.dll not found"
    (finding,) = find(CudnnMissing, case(with_tensorflow("2.15.0", family="windows"), message))
    assert "WSL2" in finding.fix[0]
    (last,) = find(CudnnMissing, case(with_tensorflow("2.10.1", family="windows"), message))
    assert last.fix[0] == "pip install 'nvidia-cudnn-cu11>=8.6,<9'"


def test_tensorflow_does_not_name_the_missing_library(with_tensorflow: Any, case: Any, find: Any) -> None:
    (finding,) = find(CudnnMissing, case(with_tensorflow("2.17.0"), TF_UNNAMED))
    assert finding.title == "TensorFlow cannot load all CUDA libraries"
    assert finding.fix[0] == "pip install 'tensorflow[and-cuda]==2.17.*'"


# --- cudnn-shadow -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        (
            "Could not load library libcudnn_cnn_train.so.8. Error: /usr/local/cuda/lib64/libcudnn_cnn_train.so.8: undefined"
            " symbol: _ZN5cudnn3cnn34layerNormFwd, version libcudnn_cnn_infer.so.8"
        ),
        (
            "Could not load library libcudnn_cnn_train.so.8. Error: /usr/local/cuda/11.8.0/lib64/libcudnn_cnn_train.so.8: symbol"
            " _ZN10cask_cudnn2kr8isAmpere, version libcudnn_cnn_infer.so.8 not defined in file libcudnn_cnn_infer.so.8"
        ),
        (
            "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (8, 5, 0) but found runtime version"
            " (8, 4, 1)."
        ),
        "RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (8, 3, 2) but linked against (8, 0, 3)",
        "E cuda_dnn.cc:447] Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0.",
        "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
    ],
)
def test_two_cudnn_versions_in_one_process(message: str, case: Any, find: Any) -> None:
    (finding,) = find(ShadowedCudnn, case(None, message))
    assert finding.blocks
    assert finding.severity == "error"
    assert "env -u LD_LIBRARY_PATH" in finding.fix[0]
    assert find(CudnnMissing, case(None, message)) == []


def test_tensorflow_may_get_a_newer_cudnn(case: Any, find: Any) -> None:
    message = "Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.  CuDNN library needs to have"
    (finding,) = find(ShadowedCudnn, case(None, message))
    assert "pip install -U 'nvidia-cudnn-cu12>=9.3.0'" in finding.fix[-1]


def with_cudnn(of: Any, h200: Machine, version: str, origin: str = "LD_LIBRARY_PATH") -> Machine:
    install = of(LibraryInstall, path="/opt/cudnn/lib/libcudnn.so", version=version, origin=origin)
    return msgspec.structs.replace(h200, toolkits=of(Toolkits, cudnn=(install,)))


@pytest.mark.parametrize("version", ["8.9.2", "9.1.0", "10.0.0"])
def test_a_shadowing_copy_is_a_warning_before_anything_fails(
    version: str, of: Any, h200: Machine, case: Any, find: Any
) -> None:
    (finding,) = find(ShadowedCudnn, case(with_cudnn(of, h200, version)))
    assert (finding.severity, finding.blocks) == ("warning", False)
    assert "torch 2.11.0+cu130 needs cuDNN 9.19" in finding.evidence
    assert "Remove /opt/cudnn/lib from LD_LIBRARY_PATH." in finding.fix


@pytest.mark.parametrize(
    ("version", "origin"), [("9.19.0", "LD_LIBRARY_PATH"), ("9.27.0", "LD_LIBRARY_PATH"), ("8.9.2", "wheel")]
)
def test_harmless_copies(version: str, origin: str, of: Any, h200: Machine, case: Any, find: Any) -> None:
    assert find(ShadowedCudnn, case(with_cudnn(of, h200, version, origin))) == []


def test_nvidias_own_build_is_compared_with_the_loaded_cudnn(of: Any, case: Any, find: Any) -> None:
    torch = of(
        Framework,
        name="torch",
        version="2.3.0a0+6ddf5cf85e.nv24.4",
        build="cuda",
        cuda="12.1",
        cudnn="9.1.0",
        devices=(FrameworkDevice("NVIDIA A100"),),
    )
    install = of(LibraryInstall, path="/usr/lib/libcudnn.so.9", version="9.1.0", origin="LD_LIBRARY_PATH")
    machine = of(
        Machine,
        cards=(of(Card, vendor="nvidia", index=0),),
        toolkits=of(Toolkits, cudnn=(install,)),
        interpreter=of(Interpreter, frameworks=(torch,), packages=(Package("torch", "2.3.0"),)),
    )
    assert find(ShadowedCudnn, case(machine)) == []
