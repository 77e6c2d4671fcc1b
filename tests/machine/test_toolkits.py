"""Toolkits in trees of files, nvcc as a small program, and libraries in real interpreters."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import CudaInstall, LibraryInstall
from ownlab.machine.toolkits import parse_nvcc_version, read_libraries, read_toolkits

# Of nvcc 13.0 on the machine where this was written, and of nvcc 9.0 (public reports).
NVCC_13 = """\
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:58:59_PM_PDT_2025
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
"""
NVCC_9 = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 9.0, V9.0.176\n"
# The beginning of what NVIDIA's installer of CUDA 12.4.1 leaves.
VERSION_JSON = json.dumps(
    {"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, "cuda_nvcc": {"name": "CUDA NVCC", "version": "12.4.131"}}
)


def plant(root: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            place.symlink_to(text[3:])
        else:
            place.write_text(text)
            place.chmod(0o755 if text.startswith("#!") else 0o644)
    return root


def test_a_toolkit_of_nvidias_installer(tmp_path: Path) -> None:
    files = {
        "/usr/local/cuda-12.4/bin/nvcc": "#!/bin/sh\nexit 3\n",  # not run: version.json tells
        "/usr/local/cuda-12.4/version.json": VERSION_JSON,
        "/usr/local/cuda-12": "-> cuda-12.4",
        "/usr/local/cuda": "-> cuda-12",
    }
    toolkits = read_toolkits(plant(tmp_path, files), {"PATH": "/usr/bin:/usr/local/cuda/bin"})
    version_json = "/usr/local/cuda-12.4/version.json"
    assert toolkits.nvcc_path == Known("/usr/local/cuda/bin/nvcc", source="PATH")
    assert toolkits.nvcc == Known("12.4.131", source=version_json)
    install = CudaInstall("/usr/local/cuda-12.4", version=Known("12.4.1", source=version_json), has_nvcc=True)
    assert value_of(toolkits.installs) == (install,)
    assert toolkits.cuda_home == Unknown("CUDA_HOME and CUDA_PATH are not set")


def test_nvcc_is_run_when_no_file_has_its_version(tmp_path: Path) -> None:
    script = f"#!/bin/sh\ncat <<'END'\n{NVCC_13}END\n"
    toolkits = read_toolkits(plant(tmp_path, {"/usr/bin/nvcc": script}), {"PATH": f"/usr/bin{os.pathsep}"})
    assert toolkits.nvcc == Known("13.0.88", source="nvcc --version")
    assert value_of(toolkits.installs) == ()


def test_nvcc_that_fails(tmp_path: Path) -> None:
    script = "#!/bin/sh\necho 'cicc: not found' >&2\nexit 1\n"
    toolkits = read_toolkits(plant(tmp_path, {"/usr/bin/nvcc": script}), {"PATH": "/usr/bin"})
    assert toolkits.nvcc == Unknown("nvcc --version ended with exit code 1: cicc: not found")
    assert value_of(toolkits.nvcc_path) == "/usr/bin/nvcc"


def test_nvcc_is_searched_in_cuda_home_last(tmp_path: Path) -> None:
    files = {"/opt/toolkit/bin/nvcc": "#!/bin/sh\nexit 3\n", "/opt/toolkit/version.json": VERSION_JSON}
    toolkits = read_toolkits(plant(tmp_path, files), {"PATH": "/usr/bin", "CUDA_PATH": "/opt/toolkit"})
    assert toolkits.cuda_home == Known("/opt/toolkit", source="CUDA_PATH")
    assert toolkits.nvcc_path == Known("/opt/toolkit/bin/nvcc", source="CUDA_PATH")
    assert [install.path for install in value_of(toolkits.installs) or ()] == ["/opt/toolkit"]


def test_the_version_of_older_and_of_bare_toolkits(tmp_path: Path) -> None:
    files = {
        "/usr/local/cuda-10.2/version.txt": "CUDA Version 10.2.89\n",
        "/usr/local/cuda-11.8/bin/nvcc": "",
        "/usr/local/cuda-13.0/bin/nvcc": "",
        "/usr/local/cuda-13.0/include/cuda.h": "/* */\n#define CUDA_VERSION 13000\n",
        "/opt/cuda/bin/nvcc": "",
        "/opt/cuda/version.json": "{",
        "/usr/local/cuda-9.0/lib64/libcudart.so.9.0": "",  # left behind by an uninstaller
    }
    installs = value_of(read_toolkits(plant(tmp_path, files), {}).installs) or ()
    assert {install.path: value_of(install.version) for install in installs} == {
        "/usr/local/cuda-10.2": "10.2.89",
        "/usr/local/cuda-11.8": "11.8",
        "/usr/local/cuda-13.0": "13.0",
        "/opt/cuda": None,
    }
    assert {install.path for install in installs if not install.has_nvcc} == {"/usr/local/cuda-10.2"}


CUDNN_9 = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n"


def test_copies_of_cudnn_and_their_origins(tmp_path: Path) -> None:
    system = "/usr/lib/x86_64-linux-gnu"
    files = {
        f"{system}/libcudnn.so.8.9.7": "",
        f"{system}/libcudnn.so.8": "-> libcudnn.so.8.9.7",
        f"{system}/libcudnn.so": "-> libcudnn.so.8",
        f"{system}/libcudnn_ops_infer.so.8": "",
        "/home/me/cudnn/lib/libcudnn.so.9": "",
        "/home/me/cudnn/include/cudnn_version.h": CUDNN_9,
        "/opt/conda/lib/libcudnn.so.7.6.5": "",
        "/usr/local/cuda-12.4/version.json": VERSION_JSON,
        "/usr/local/cuda-12.4/lib64/libcudnn.so.6": "",
    }
    environ = {"LD_LIBRARY_PATH": "/home/me/cudnn/lib::relative", "CONDA_PREFIX": "/opt/conda"}
    header = "/home/me/cudnn/include/cudnn_version.h"
    toolkits = read_toolkits(plant(tmp_path, files), environ)
    assert value_of(toolkits.cudnn) == (
        LibraryInstall("/home/me/cudnn/lib/libcudnn.so.9", Known("9.1.0", source=header), "LD_LIBRARY_PATH"),
        LibraryInstall("/opt/conda/lib/libcudnn.so.7.6.5", Known("7.6.5", "/opt/conda/lib/libcudnn.so.7.6.5"), "conda"),
        LibraryInstall(
            "/usr/local/cuda-12.4/lib64/libcudnn.so.6", Unknown("only its major version, 6, is known"), "system"
        ),
        LibraryInstall(f"{system}/libcudnn.so.8.9.7", Known("8.9.7", source=f"{system}/libcudnn.so.8.9.7"), "system"),
    )
    assert value_of(toolkits.nccl) == ()


def test_old_headers_and_those_of_another_release(tmp_path: Path) -> None:
    files = {
        "/usr/lib/x86_64-linux-gnu/libcudnn.so.7": "",
        "/usr/include/cudnn.h": "#define CUDNN_MAJOR 7\n#define CUDNN_MINOR 6\n#define CUDNN_PATCHLEVEL 5\n",
        "/usr/lib/x86_64-linux-gnu/libnccl.so.2": "",
        "/usr/include/nccl.h": "#define NCCL_MAJOR 2\n#define NCCL_MINOR 18\n#define NCCL_PATCH 3\n",
        "/opt/other/lib/libcudnn.so.8": "",
        "/opt/other/include/cudnn_version.h": CUDNN_9,
    }
    toolkits = read_toolkits(plant(tmp_path, files), {"LD_LIBRARY_PATH": "/opt/other/lib"})
    assert [value_of(copy.version) for copy in value_of(toolkits.cudnn) or ()] == [None, "7.6.5"]
    (nccl,) = value_of(toolkits.nccl) or ()
    assert nccl.version == Known("2.18.3", source="/usr/include/nccl.h")


def test_a_machine_without_anything(tmp_path: Path) -> None:
    toolkits = read_toolkits(tmp_path, {})
    assert toolkits.nvcc == Unknown("nvcc is neither on PATH nor in CUDA_HOME")
    assert value_of(toolkits.installs) == ()
    assert value_of(toolkits.cudnn) == ()


@pytest.mark.parametrize(("text", "version"), [(NVCC_13, "13.0.88"), (NVCC_9, "9.0.176"), ("release 7.5", "7.5")])
def test_parses_nvcc(text: str, version: str) -> None:
    assert parse_nvcc_version(text) == Known(version, source="nvcc --version")


def test_output_that_is_not_from_nvcc() -> None:
    assert parse_nvcc_version("bash: nvcc: command not found\n") == Unknown(
        "nvcc --version shows no release: bash: nvcc: command not found"
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="CUDA's libraries are looked for on Linux")
def test_libraries_in_this_interpreter(tmp_path: Path) -> None:
    ctypes.CDLL("libm.so.6")  # a small real library, which stands for one of CUDA's
    lines = Path("/proc/self/maps").read_text().splitlines()
    libm = next(line.split()[-1] for line in lines if line.endswith("/libm.so.6"))
    shutil.copy(libm, tmp_path / "libcufile.so.77")
    libraries = read_libraries(sys.executable, env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert isinstance(libraries, Known)
    assert libraries.source == f"dlopen in {sys.executable}"
    loaded = {library.name: library.loaded for library in libraries.value}
    assert loaded["libcufile.so"] == Known(str(tmp_path / "libcufile.so.77"), source="the dynamic loader")


def test_a_program_that_is_not_an_interpreter() -> None:
    libraries = read_libraries("/nonexistent/python")
    assert isinstance(libraries, Unknown)
    assert "/nonexistent/python" in libraries.reason


def test_an_interpreter_that_crashes(tmp_path: Path) -> None:
    script = plant(tmp_path, {"/python": "#!/bin/sh\nkill -SEGV $$\n"}) / "python"
    libraries = read_libraries(str(script))
    assert libraries == Unknown(f"{script} died of SIGSEGV without an answer")


def test_forbidden_paths(tmp_path: Path) -> None:
    closed = "/" + "x" * 300  # refused for root too, as a path under a closed folder is for others
    (tmp_path / "circle").symlink_to("circle")
    for path in (closed, "/circle"):
        environ = {"CUDA_HOME": path, "CONDA_PREFIX": path, "LD_LIBRARY_PATH": path, "PATH": path}
        toolkits = read_toolkits(tmp_path, environ)
        assert toolkits.cuda_home == Known(path, source="CUDA_HOME")
        assert value_of(toolkits.installs) == ()
