"""NVIDIA's driver as the file system shows it: kernel module, libraries, device files. No program is run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown, first_known, value_of
from ownlab.machine.files import Tree
from ownlab.machine.records import DeviceFile, Nvidia
from ownlab.text import text

__all__ = ["has_sign", "library_version", "read_driver", "surely_no_card"]

# Where distributions, containers (NVIDIA Container Toolkit), Colab, NixOS and WSL put the driver's libraries.
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib64-nvidia",
    "/run/opengl-driver/lib",
    "/usr/lib/wsl/lib",
)
_VERSIONED = re.compile(r"\.so\.(\d{3,}\.\d+(?:\.\d+)?)$")
_VERSION = re.compile(r"\b\d{3,}\.\d+(?:\.\d+)?\b")
_WSL = "/dev/dxg"
_DISPLAY_CLASS = "0x03"  # PCI base class of display controllers; NVIDIA also made chipsets and network cards


def has_sign(root: Path, environ: Mapping[str, str]) -> bool:
    """Return whether there is any sign of NVIDIA: a driver, its tool, its libraries, or a card without a driver."""
    device_files = [file.path for file in value_of(_read_device_files(root)) or ()]
    libraries = [name for _, name in _library_files(root, environ)]
    return (
        os.path.exists(root / "proc/driver/nvidia")
        or any(path != _WSL for path in device_files)
        or (_WSL in device_files and bool(libraries))  # this device serves the cards of every vendor
        or shutil.which("nvidia-smi", path=environ.get("PATH", os.defpath)) is not None
        or any(name.startswith("libnvidia-ml.so") for name in libraries)
        or _loader_knows(root)
        or bool(_on_pci_bus(root))
    )


def surely_no_card(root: Path) -> bool:
    """Return whether there is certainly no card, even if libraries exist (a GPU image on a machine without a GPU).

    This is the case if the PCI bus can be listed and shows no card, and no driver shows cards in another way: a sandbox
    may hide the bus, WSL has no bus, and Jetson's GPU is not on it.
    """
    try:
        names = os.listdir(root / "dev")
    except OSError:
        return False
    elsewhere = any(name.startswith(("nvidia", "nvhost")) or name in ("dxg", "nvmap", "nvgpu") for name in names)
    return _on_pci_bus(root) is False and not elsewhere and not os.path.exists(root / "proc/driver/nvidia")


def read_driver(root: Path, environ: Mapping[str, str]) -> Nvidia:
    """Read the driver's facts that do not need NVML, so that they are known even if NVML fails."""
    module_version, module_flavour = _read_module(root)
    return Nvidia(
        driver=module_version,
        library_version=_read_library_version(root, environ),
        module_version=module_version,
        module_flavour=module_flavour,
        device_files=_read_device_files(root),
        profiling_restricted=_read_profiling(root),
    )


def library_version(path: str) -> Fact[str]:
    """Parse the version in the name of a driver library: /usr/lib/libnvidia-ml.so.580.159.04."""
    match = _VERSIONED.search(path)
    if match is None:
        return Unknown(text("the file name {path} has no version", path=path))
    return Known(match.group(1), source=path)


def _read_module(root: Path) -> tuple[Fact[str], Fact[str]]:
    """Read version and flavour of the loaded kernel module, which may differ from the installed one."""
    version = Tree(root).text("/sys/module/nvidia/version")
    banner = Tree(root).text("/proc/driver/nvidia/version")
    if isinstance(banner, Unknown):
        return version, banner
    first_line = banner.value.partition("\n")[0]
    match = _VERSION.search(first_line)
    if match is not None:
        version = first_known(version, Known(match.group(), source=banner.source))
    if "Kernel Module" not in first_line:
        return version, Unknown(
            text("{source} names no kernel module: {first_line!r}", source=banner.source, first_line=first_line[:100])
        )
    flavour = "open" if "Open Kernel Module" in first_line else "proprietary"
    return version, Known(flavour, source=banner.source)


def _read_profiling(root: Path) -> Fact[bool]:
    params = Tree(root).text("/proc/driver/nvidia/params")
    if isinstance(params, Unknown):
        return params
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", params.value, re.MULTILINE)
    if match is None:
        return Unknown(text("{source} has no RmProfilingAdminOnly", source=params.source))
    return Known(match.group(1) != "0", source=params.source)


def _device_names(root: Path) -> list[str]:
    """List nvidia0, nvidiactl, nvidia-uvm, …; WSL has only dxg."""
    dev = root / "dev"
    if not os.path.isdir(dev):  # Windows
        return []
    names = sorted(name for name in os.listdir(dev) if name.startswith("nvidia") or name == "dxg")
    return [name for name in names if not os.path.isdir(dev / name)]


def _read_device_files(root: Path) -> Fact[tuple[DeviceFile, ...]]:
    try:
        names = _device_names(root)
    except OSError as exc:
        return Unknown(text("/dev cannot be listed: {error}", error=exc.strerror))
    dev = root / "dev"
    return Known(
        tuple(
            DeviceFile(f"/dev/{name}", readable=os.access(dev / name, os.R_OK), writable=os.access(dev / name, os.W_OK))
            for name in names
        ),
        source="/dev",
    )


def _library_files(root: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Folder and name of each file of libnvidia-ml and libcuda, in the order of the dynamic loader."""
    ahead = (folder for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/"))
    for folder in dict.fromkeys((*ahead, *_LIBRARY_FOLDERS)):
        try:
            names = os.listdir(root / folder[1:])
        except OSError:  # most of these folders are on no machine
            continue
        yield from ((folder, name) for name in sorted(names) if name.startswith(("libnvidia-ml.so", "libcuda.so")))


def _read_library_version(root: Path, environ: Mapping[str, str]) -> Fact[str]:
    """Read the version of libnvidia-ml, else of libcuda, which a compatibility package may bring in another version."""
    files = list(_library_files(root, environ))
    for library in ("libnvidia-ml.so", "libcuda.so"):
        for folder, name in files:
            if name == f"{library}.1":
                target = _target_version(root, folder, name)
                if isinstance(target, Known):
                    return target
        versions = [library_version(f"{folder}/{name}") for folder, name in files if name.startswith(library)]
        for version in versions:
            if isinstance(version, Known):
                return version
    if files:
        return Unknown(text("the file name {path} has no version", path="/".join(files[0])))
    return Unknown(text("the usual folders have no libnvidia-ml.so or libcuda.so"))


def _target_version(root: Path, folder: str, name: str) -> Fact[str]:
    """Read the version that libnvidia-ml.so.1 links to: after an upgrade, files of the old version may remain."""
    try:
        target = os.readlink(root / folder[1:] / name)
    except OSError:
        return Unknown(text("{folder}/{name} is not a link", folder=folder, name=name))
    return library_version(os.path.normpath(os.path.join(folder, target)))


def _loader_knows(root: Path) -> bool:
    """Return whether the loader's cache lists NVML: it has every library, in any folder."""
    try:
        return b"libnvidia-ml.so" in (root / "etc/ld.so.cache").read_bytes()
    except OSError:
        return False


def _on_pci_bus(root: Path) -> bool | None:
    """Return whether the bus has an NVIDIA card, with or without a driver; None if it cannot be listed."""
    tree, folder = Tree(root), "/sys/bus/pci/devices"
    try:
        names = os.listdir(tree.at(folder))
    except OSError:
        return None
    return any(
        tree.word(f"{folder}/{name}/vendor") == "0x10de"
        and tree.word(f"{folder}/{name}/class").startswith(_DISPLAY_CLASS)
        for name in names
    )
