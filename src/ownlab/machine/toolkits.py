"""CUDA toolkits and copies of cuDNN and NCCL in their usual folders, and which CUDA libraries load.

Copies in wheels are not searched for here: the interpreter's packages list them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ownlab import guest_client
from ownlab.errors import DeadlineError, InterpreterError
from ownlab.machine.facts import Fact, Known, Unknown, first_known
from ownlab.machine.files import Tree
from ownlab.machine.records import CudaInstall, Library, LibraryInstall, Toolkits
from ownlab.processes import runner
from ownlab.text import text

__all__ = ["parse_nvcc_version", "read_libraries", "read_toolkits"]

_NVCC_SECONDS = 3.0
# Where installers put toolkits: Arch's, and two of Debian's. NVIDIA's use /usr/local/cuda*.
_TOOLKIT_FOLDERS = ("/opt/cuda", "/usr/lib/nvidia-cuda-toolkit", "/usr/lib/cuda")
_VERSION_FILES = ("version.json", "version.txt")
_SYSTEM_FOLDERS = ("/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64")
_HEADERS = {
    "cudnn": (("cudnn_version.h", "cudnn.h"), ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL")),
    "nccl": (("nccl.h",), ("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH")),
}


def read_toolkits(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Toolkits:
    """Read what is installed outside the interpreters. `read_libraries` reads `libraries`, in an interpreter."""
    tree = Tree(root)
    home = _cuda_home(environ)
    nvcc = _find_nvcc(tree, environ, home)
    installs = tuple(_installs(tree, environ, home))
    return Toolkits(
        nvcc=_nvcc_version(tree, nvcc, environ) if isinstance(nvcc, Known) else nvcc,
        nvcc_path=nvcc,
        cuda_home=home,
        installs=Known(installs, source=text("the usual folders")),
        cudnn=Known(tuple(_copies(tree, environ, installs, "cudnn")), source=text("the usual folders")),
        nccl=Known(tuple(_copies(tree, environ, installs, "nccl")), source=text("the usual folders")),
    )


def parse_nvcc_version(content: str) -> Fact[str]:
    """Parse "Cuda compilation tools, release 13.0, V13.0.88" as "13.0.88"."""
    match = re.search(r"release \d+\.\d+, V(\d+(?:\.\d+)+)", content) or re.search(r"release (\d+\.\d+)", content)
    if match is None:
        return Unknown(text("nvcc --version shows no release: {output}", output=content.strip()[:200]))
    return Known(match.group(1), source="nvcc --version")


# --- toolkits ---------------------------------------------------------------------------------------------------------


def _cuda_home(environ: Mapping[str, str]) -> Fact[str]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(name):
            return Known(environ[name], source=name)
    return Unknown(text("CUDA_HOME and CUDA_PATH are not set"))


def _find_nvcc(tree: Tree, environ: Mapping[str, str], home: Fact[str]) -> Fact[str]:
    places = [(folder, "PATH") for folder in environ.get("PATH", "").split(os.pathsep) if folder]
    if isinstance(home, Known):
        places.append((f"{home.value}/bin", home.source))
    for folder, source in places:
        program = shutil.which("nvcc", path=str(tree.at(folder)))
        if program is not None:
            return Known(tree.shown(Path(program)), source=source)
    return Unknown(text("nvcc is neither on PATH nor in CUDA_HOME"))


def _nvcc_version(tree: Tree, nvcc: Known[str], environ: Mapping[str, str]) -> Fact[str]:
    toolkit = Path(os.path.realpath(tree.at(nvcc.value))).parent.parent
    recorded = _version_json(toolkit / "version.json", "cuda_nvcc")
    if isinstance(recorded, Known):
        return Known(recorded.value, source=tree.shown(toolkit / "version.json"))
    try:
        ran = runner.run([str(tree.at(nvcc.value)), "--version"], deadline=_NVCC_SECONDS, env=environ)
    except (runner.ToolMissing, DeadlineError) as exc:
        return Unknown(exc.message)
    if ran.returncode:
        return Unknown(
            text(
                "nvcc --version {ending}: {output}",
                ending=runner.describe_exit(ran.returncode),
                output=ran.output[:200],
            )
        )
    return parse_nvcc_version(ran.stdout)


def _installs(tree: Tree, environ: Mapping[str, str], home: Fact[str]) -> Iterator[CudaInstall]:
    """Yield each toolkit once, whatever links lead to it."""
    folders = [f"/usr/local/{name}" for name in tree.names("/usr/local", r"cuda(-[\d.]+)?")]
    folders += _TOOLKIT_FOLDERS
    folders += [home.value] if isinstance(home, Known) else []
    folders += [environ["CONDA_PREFIX"]] if environ.get("CONDA_PREFIX") else []
    seen = set()
    for folder in folders:
        place = Path(os.path.realpath(tree.at(folder)))
        has_nvcc = os.path.exists(place / "bin" / "nvcc")
        if place in seen or not (has_nvcc or any(os.path.exists(place / name) for name in _VERSION_FILES)):
            continue
        seen.add(place)
        yield CudaInstall(path=tree.shown(place), version=_install_version(tree, place), has_nvcc=has_nvcc)


def _install_version(tree: Tree, place: Path) -> Fact[str]:
    header = _defined(place / "include" / "cuda.h", ("CUDA_VERSION",))
    number = int(header.value) if isinstance(header, Known) else 0  # 12040 is 12.4
    named = re.fullmatch(r"cuda-(\d+\.\d+)", place.name)
    version = first_known(
        _version_json(place / "version.json", "cuda"),
        _searched(place / "version.txt", r"CUDA Version (\d[\d.]+)"),
        Known(f"{number // 1000}.{number % 1000 // 10}", source=str(place / "include" / "cuda.h"))
        if number
        else Unknown(text("the toolkit has no cuda.h")),
        Known(named.group(1), source=text("the folder's name"))
        if named
        else Unknown(text("no file in the folder has a version")),
    )
    if isinstance(version, Known) and version.source.startswith("/"):
        return Known(version.value, source=tree.shown(Path(version.source)))
    return version


def _version_json(path: Path, part: str) -> Fact[str]:
    """Read NVIDIA's version.json: {"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, "cuda_nvcc": …}."""
    try:
        version = json.loads(path.read_bytes())[part]["version"]
    except FileNotFoundError:
        return Unknown(text("{path} does not exist", path=path))
    except (OSError, ValueError, LookupError, TypeError) as exc:
        return Unknown(text("{path} has no version of {part}: {error}", path=path, part=part, error=exc))
    return Known(str(version), source=str(path))


# --- cuDNN and NCCL ---------------------------------------------------------------------------------------------------


def _copies(
    tree: Tree, environ: Mapping[str, str], installs: tuple[CudaInstall, ...], library: str
) -> Iterator[LibraryInstall]:
    """Yield each copy once, with the origin that a program searches first."""
    seen = set()
    for folder, origin in _folders(tree, environ, installs):
        # The plain .so is for compilers; programs load a numbered file.
        for name in tree.names(folder, rf"lib{library}\.so\.[\d.]+"):
            place = Path(os.path.realpath(tree.at(f"{folder}/{name}")))
            if place in seen or not os.path.exists(place):
                continue
            seen.add(place)
            yield LibraryInstall(path=tree.shown(place), version=_copy_version(tree, place, library), origin=origin)


def _folders(tree: Tree, environ: Mapping[str, str], installs: tuple[CudaInstall, ...]) -> Iterator[tuple[str, str]]:
    for folder in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if folder.startswith("/"):
            yield folder, "LD_LIBRARY_PATH"
    if environ.get("CONDA_PREFIX"):
        yield f"{environ['CONDA_PREFIX']}/lib", "conda"
    for install in installs:
        yield f"{install.path}/lib64", "system"
        for target in tree.names(f"{install.path}/targets"):
            yield f"{install.path}/targets/{target}/lib", "system"
    for triplet in tree.names("/usr/lib", r"\w+-linux-gnu"):
        yield f"/usr/lib/{triplet}", "system"
    for folder in _SYSTEM_FOLDERS:
        yield folder, "system"


def _copy_version(tree: Tree, place: Path, library: str) -> Fact[str]:
    """Read the version from a complete file name (libcudnn.so.9.1.0), else from the header that came with it."""
    numbers = place.name.partition(".so.")[2]
    if numbers.count(".") >= 2:
        return Known(numbers, source=tree.shown(place))
    headers, names = _HEADERS[library]
    # cuda/lib64 and cuda/include; /usr/lib/x86_64-linux-gnu and /usr/include, or /usr/include/x86_64-linux-gnu
    above = place.parent.parent
    folders = (above / "include", above.parent / "include", above.parent / "include" / place.parent.name)
    for folder in folders:
        for header in headers:
            version = _defined(folder / header, names)
            if isinstance(version, Known) and version.value.split(".")[0] == numbers.split(".")[0]:
                return Known(version.value, source=tree.shown(folder / header))
    if "." in numbers:
        return Known(numbers, source=tree.shown(place))
    return Unknown(text("only its major version, {numbers}, is known", numbers=numbers))


def _defined(path: Path, names: tuple[str, ...]) -> Fact[str]:
    """Read the numbers that a C header defines, joined by dots."""
    facts = [_searched(path, rf"^#define {name}\s+(\d+)") for name in names]
    missing = next((fact for fact in facts if isinstance(fact, Unknown)), None)
    if missing is not None:
        return missing
    return Known(".".join(fact.value for fact in facts if isinstance(fact, Known)), source=str(path))


def _searched(path: Path, pattern: str) -> Fact[str]:
    try:
        content = path.read_text(errors="replace")
    except FileNotFoundError:
        return Unknown(text("{path} does not exist", path=path))
    except OSError as exc:
        return Unknown(text("{path} cannot be read: {error}", path=path, error=exc.strerror))
    match = re.search(pattern, content, re.MULTILINE)
    return Known(match.group(1), source=str(path)) if match else Unknown(text("{path} has no version", path=path))


# --- libraries that load ----------------------------------------------------------------------------------------------


class _LibraryRow(Struct, frozen=True):
    """One row of the answer of `ownlab_guest/probe/cuda_libraries.py`."""

    name: str
    purpose: str
    path: str | None
    way: str | None  # how it was found: the loader, a wheel
    error: str | None


def read_libraries(
    python: str, *, deadline: float = 10.0, env: Mapping[str, str] | None = None
) -> Fact[tuple[Library, ...]]:
    """Try to load each of CUDA's libraries, in a child process of the given interpreter."""
    try:
        rows = guest_client.ask(
            python, "probe.cuda_libraries", answer=tuple[_LibraryRow, ...], deadline=deadline, env=env
        )
    except (InterpreterError, DeadlineError) as exc:
        return Unknown(exc.message)
    libraries = tuple(
        Library(
            name=row.name,
            purpose=row.purpose,
            loaded=Known(row.path, source=row.way or "dlopen") if row.path else Unknown(row.error or "not found"),
        )
        for row in rows
    )
    return Known(libraries, source=f"dlopen in {python}")
