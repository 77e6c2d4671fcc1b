"""The driver's facts from recorded file trees: complete, partial, damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ownlab.machine.facts import Known, Unknown
from ownlab.machine.nvidia.driver import has_sign, library_version, read_driver, surely_no_card
from ownlab.machine.records import DeviceFile

NOTHING = {"PATH": ""}


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_loaded_driver(driver_root: Path) -> None:
    nvidia = read_driver(driver_root, NOTHING)
    assert nvidia.module_version == Known("580.159.04", source="/sys/module/nvidia/version")
    assert nvidia.module_flavour == Known("open", source="/proc/driver/nvidia/version")
    assert nvidia.profiling_restricted == Known(True, source="/proc/driver/nvidia/params")
    # The link decides, not the older file that an upgrade left behind.
    assert nvidia.library_version == Known("580.159.04", source="/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04")
    assert nvidia.device_files == Known(
        (
            DeviceFile("/dev/nvidia0", readable=True, writable=True),
            DeviceFile("/dev/nvidiactl", readable=True, writable=True),
        ),
        source="/dev",
    )


def test_proprietary_module_with_its_version_only_in_proc(tmp_path: Path) -> None:
    banner = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
    write(tmp_path, "proc/driver/nvidia/version", banner)
    write(tmp_path, "proc/driver/nvidia/params", "RmProfilingAdminOnly: 0\n")
    nvidia = read_driver(tmp_path, NOTHING)
    assert nvidia.module_version == Known("535.183.01", source="/proc/driver/nvidia/version")
    assert nvidia.module_flavour == Known("proprietary", source="/proc/driver/nvidia/version")
    assert nvidia.profiling_restricted == Known(False, source="/proc/driver/nvidia/params")


def test_nothing_there(tmp_path: Path) -> None:
    nvidia = read_driver(tmp_path, NOTHING)
    assert nvidia.module_version == Unknown("/sys/module/nvidia/version does not exist")
    assert nvidia.library_version == Unknown("the usual folders have no libnvidia-ml.so or libcuda.so")
    assert nvidia.device_files == Known((), source="/dev")
    assert not has_sign(tmp_path, NOTHING)


def test_garbage_and_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "sys/module/nvidia/version").mkdir(parents=True)
    write(tmp_path, "proc/driver/nvidia/version", "\x00\x7f garbage\n")
    write(tmp_path, "proc/driver/nvidia/params", "")
    nvidia = read_driver(tmp_path, NOTHING)
    assert nvidia.module_version == Unknown("/sys/module/nvidia/version cannot be read: Is a directory")
    assert isinstance(nvidia.module_flavour, Unknown)
    assert "names no kernel module" in nvidia.module_flavour.reason
    assert nvidia.profiling_restricted == Unknown("/proc/driver/nvidia/params is empty")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_device_file_without_access(driver_root: Path) -> None:
    (driver_root / "dev/nvidia0").chmod(0)
    files = read_driver(driver_root, NOTHING).device_files
    assert isinstance(files, Known)
    assert files.value[0] == DeviceFile("/dev/nvidia0", readable=False, writable=False)


def test_the_loader_searches_ld_library_path_first(driver_root: Path) -> None:
    write(driver_root, "opt/other/libnvidia-ml.so.570.26", "")
    (driver_root / "opt/other/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.570.26")
    nvidia = read_driver(driver_root, {"LD_LIBRARY_PATH": "relative::/opt/other"})
    assert nvidia.library_version == Known("570.26", source="/opt/other/libnvidia-ml.so.570.26")


def test_only_libcuda_is_there(tmp_path: Path) -> None:
    write(tmp_path, "usr/lib64/libcuda.so.550.54.15", "")
    assert read_driver(tmp_path, NOTHING).library_version == Known(
        "550.54.15", source="/usr/lib64/libcuda.so.550.54.15"
    )


def test_wsl_has_libraries_without_version(tmp_path: Path) -> None:
    write(tmp_path, "usr/lib/wsl/lib/libnvidia-ml.so.1", "")
    nvidia = read_driver(tmp_path, NOTHING)
    assert nvidia.library_version == Unknown("the file name /usr/lib/wsl/lib/libnvidia-ml.so.1 has no version")
    assert has_sign(tmp_path, NOTHING)


def test_version_in_a_library_name() -> None:
    assert library_version("/usr/lib/libnvidia-ml.so.390.157") == Known(
        "390.157", source="/usr/lib/libnvidia-ml.so.390.157"
    )
    assert isinstance(library_version("/usr/lib/libnvidia-ml.so.1"), Unknown)


def test_signs(tmp_path: Path) -> None:
    proc, dev, cache, tool, card, chipset = (tmp_path / name for name in ("a", "b", "c", "d", "e", "f"))
    write(proc, "proc/driver/nvidia/version", "")
    write(dev, "dev/dxg", "")
    (cache / "etc").mkdir(parents=True)
    (cache / "etc/ld.so.cache").write_bytes(b"\0libnvidia-ml.so.1\0/opt/strange/libnvidia-ml.so.1\0")
    write(tool, "bin/nvidia-smi", "#!/bin/sh\n")
    (tool / "bin/nvidia-smi").chmod(0o755)
    write(card, "sys/bus/pci/devices/0000:00:06.0/vendor", "0x10de\n")
    write(card, "sys/bus/pci/devices/0000:00:06.0/class", "0x030200\n")
    write(chipset, "sys/bus/pci/devices/0000:00:00.0/vendor", "0x10de\n")
    write(chipset, "sys/bus/pci/devices/0000:00:00.0/class", "0x050000\n")
    assert has_sign(proc, NOTHING)
    assert not has_sign(dev, NOTHING)  # it serves AMD's and Intel's cards as well
    write(dev, "opt/wsl/libcuda.so.1", "")
    assert has_sign(dev, {"PATH": "", "LD_LIBRARY_PATH": "/opt/wsl"})
    assert has_sign(cache, NOTHING)
    assert has_sign(tool, {"PATH": str(tool / "bin")})
    assert not has_sign(tool, NOTHING)
    assert has_sign(card, NOTHING)
    assert not has_sign(chipset, NOTHING)


def test_an_image_for_gpus_on_a_machine_without_one(tmp_path: Path) -> None:
    assert not surely_no_card(tmp_path)
    write(tmp_path, "dev/null", "")
    assert not surely_no_card(tmp_path)  # a sandbox that hides the bus
    write(tmp_path, "sys/bus/pci/devices/0000:00:03.0/vendor", "0x1af4\n")
    write(tmp_path, "sys/bus/pci/devices/0000:00:03.0/class", "0x020000\n")
    assert surely_no_card(tmp_path)


@pytest.mark.parametrize("sign", ["dev/dxg", "dev/nvidia0", "dev/nvmap", "proc/driver/nvidia/version"])
def test_a_card_may_exist_outside_the_pci_bus(tmp_path: Path, sign: str) -> None:
    write(tmp_path, "dev/null", "")
    write(tmp_path, "sys/bus/pci/devices/0000:00:03.0/vendor", "0x1af4\n")
    write(tmp_path, sign, "")
    assert not surely_no_card(tmp_path)
