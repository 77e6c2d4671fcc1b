"""PCI devices, modules, direct paths, and the kernel's log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.host.kernel import read_kernel_log, read_modules, read_network, read_pci, relevant_lines
from ownlab.machine.records import PciDevice

Tree = Callable[[Mapping[str, str | bytes]], Path]


def device(bus_id: str, kind: str, vendor: str, number: str, driver: str | None) -> dict[str, str | bytes]:
    folder = f"sys/bus/pci/devices/{bus_id}"
    files: dict[str, str | bytes] = {f"{folder}/class": kind, f"{folder}/vendor": vendor, f"{folder}/device": number}
    return files | ({f"{folder}/driver": f"-> ../../drivers/{driver}"} if driver else {})


def test_devices_with_and_without_drivers(tree: Tree) -> None:
    root = tree(
        device("0000:01:00.0", "0x030000\n", "0x10de\n", "0x2684\n", "nouveau")
        | device("0000:01:00.1", "0x040300\n", "0x10de\n", "0x22ba\n", "snd_hda_intel")
        | device("0000:02:00.0", "0x038000\n", "0x1002\n", "0x740f\n", None)
        | device("0000:81:00.0", "0x120000\n", "0x19e5\n", "0xd802\n", "vfio-pci")
        | {"sys/bus/pci/devices/0000:99:00.0/class": "0x030000"}
    )
    assert value_of(read_pci(root)) == (
        PciDevice("0000:01:00.0", "10de", "2684", "display", "nouveau"),
        PciDevice("0000:02:00.0", "1002", "740f", "display", None),
        PciDevice("0000:81:00.0", "19e5", "d802", "accelerator", "vfio-pci"),
    )


def test_modules_loaded_and_built_in(tree: Tree) -> None:
    assert read_modules(tree({})) == Unknown("/proc/modules does not exist")
    loaded = "nvidia_uvm 1785856 0 - Live 0x0 (OE)\nnvidia 9789440 2 nvidia_uvm, Live 0x0 (OE)\next4 1 1 - Live 0x0\n"
    root = tree({"proc/modules": loaded, "sys/module/i915/": "", "sys/module/ext4/": ""})
    assert read_modules(root) == Known(("nvidia", "nvidia_uvm", "i915"), source="/proc/modules")


def test_direct_paths(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    root = tree(h200_files | {"sys/class/infiniband/mlx5_0/": "", "sys/class/nvme/nvme0/": ""})
    network = read_network(root)
    assert value_of(network.rdma_devices) == ("mlx5_0",)
    assert value_of(network.nvme_devices) == ("nvme0",)
    assert isinstance(network.gpudirect_rdma, Unknown)
    assert "the open kernel module may support it" in network.gpudirect_rdma.reason
    assert value_of(network.gpudirect_storage) is False
    network = read_network(tree({"sys/module/nvidia_peermem/": "", "sys/module/nvidia_fs/": ""}))
    assert network.gpudirect_rdma == Known(True, source="module nvidia_peermem")
    assert value_of(network.gpudirect_storage) is True


def test_rdma_without_a_path_to_the_cards(tree: Tree) -> None:
    files = {
        "sys/class/infiniband/mlx5_0/": "",
        "proc/modules": "nvidia 9789440 2 - Live 0x0\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05\n",
    }
    assert value_of(read_network(tree(files)).gpudirect_rdma) is False


def test_relevant_lines_are_selected() -> None:
    lines = [
        "[    0.000000] Hypervisor detected: KVM",
        "[    0.610596] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
        "[  912.101] NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "[ 1000.000] pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
        "[ 1200.000] Out of memory: Killed process 4711 (python) total-vm:98765kB",
        "[ 1300.000] resource: nvidia-uvm: request_free_mem_region() err -34",
        "[ 1400.000] Loading of unsigned module is rejected",
    ]
    assert relevant_lines(lines) == tuple(lines[index] for index in (1, 2, 4, 5, 6))


def test_boot_parameters_are_left_out() -> None:
    lines = [
        "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz nvidia-drm.modeset=1 token=hf_secret",
        "[    0.011000] Kernel command line: BOOT_IMAGE=/vmlinuz nvidia-drm.modeset=1 token=hf_secret",
        '[    0.012000] Unknown kernel command line parameters "token=hf_secret nvidia=1", will be passed to user space.',
        "[    0.610596] NVRM: loading",
    ]
    assert relevant_lines(lines) == (lines[3],)


def test_a_flood_of_log_lines_is_limited() -> None:
    lines = relevant_lines([f"NVRM: {number} {'x' * 1000}" for number in range(1000)])
    assert (len(lines), {len(line) for line in lines}) == (200, {500})
    assert lines[-1].startswith("NVRM: 999 ")


def test_the_log_of_the_running_kernel_is_read_or_has_a_reason() -> None:
    log = read_kernel_log()
    if isinstance(log, Known):
        assert log.source.split()[0] in ("dmesg", "journalctl")
    else:
        assert log.reason
