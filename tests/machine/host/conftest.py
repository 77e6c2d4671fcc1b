"""Small file trees in place of a machine's /proc, /sys and /etc."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Tree = Callable[[Mapping[str, str | bytes]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Write files under a root and return it. A text "-> x" is a link to x; a path that ends with / is a folder."""

    def write(files: Mapping[str, str | bytes]) -> Path:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
            elif isinstance(content, bytes):
                path.write_bytes(content)
            elif content.startswith("-> "):
                path.symlink_to(content[3:])
            else:
                path.write_text(content)
        return tmp_path

    return write


@pytest.fixture
def h200_files() -> dict[str, str | bytes]:
    """Files of the H200 machine of this project as they were read on it (2026-11-15), cut to what is looked at."""
    flags = (
        "fpu vme sse sse2 ht fma avx f16c hypervisor avx2 avx512f avx_vnni avx512_bf16 avx512_vnni "
        "amx_bf16 avx512_fp16 amx_tile amx_int8"
    )
    cpuinfo = "\n\n".join(
        f"processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Processor\n"
        f"physical id\t: 0\ncore id\t\t: {number}\nflags\t\t: {flags}"
        for number in range(16)
    )
    return {
        "proc/cpuinfo": cpuinfo + "\n\n",
        "proc/meminfo": "MemTotal:       131980916 kB\nMemFree:        130721416 kB\nMemAvailable:   131499248 kB\n"
        "SwapTotal:             0 kB\nHugePages_Total:       0\n",
        "proc/self/mountinfo": (
            "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
            "23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n"
            "25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=131980916k\n"
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resv_strict,resuid=65534,resgid=65534\n"
            "28 27 0:25 / /mnt/sandboxing/model_tools_env/v1/python ro,nosuid,nodev,relatime - tmpfs "
            "model_tools_unavailable ro,size=4k,mode=755\n"
            "29 27 254:16 / /usr/local/nvidia ro,nosuid,nodev,relatime - squashfs /dev/vdb ro,errors=continue\n"
            "32 23 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
        ),
        "proc/self/cgroup": "0::/process_api/2ffe6532b24a63d44517d0b86290dd6d\n",
        "proc/self/status": "Name:\thead\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-15\n",
        "proc/self/ns/pid": "-> pid:[4026531836]",
        "proc/1/cgroup": "0::/process_api/core\n",
        "proc/2/comm": "kthreadd\n",
        "proc/sys/kernel/osrelease": "6.18.44-fc-v445-gpu\n",
        "proc/sys/kernel/arch": "x86_64\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04\n",
        ".dockerenv": "",
        "dev/shm/": "",
        "etc/os-release": 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nNAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n',
        "usr/bin/apt-get": "",
        "sys/firmware/acpi/tables/FACP": b"FACP\x14\x01\x00\x00\x06\x66FIRECKFCVMFADT",
        "sys/firmware/memmap/": "",
        "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc kvm-clock \n",
        "sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/queue/rotational": "1\n",
        "sys/dev/block/254:0": "-> ../../devices/pci0000:00/0000:00:02.0/virtio1/block/vda",
        "sys/class/infiniband/": "",
        "sys/module/nvidia/": "",
        "sys/module/nvidia_uvm/": "",
        "sys/module/mlx5_core/": "",
        "sys/bus/pci/devices/0000:00:03.0/class": "0x020000\n",
        "sys/bus/pci/devices/0000:00:03.0/vendor": "0x1af4\n",
        "sys/bus/pci/devices/0000:00:03.0/device": "0x1041\n",
        "sys/bus/pci/devices/0000:00:06.0/class": "0x030200\n",
        "sys/bus/pci/devices/0000:00:06.0/vendor": "0x10de\n",
        "sys/bus/pci/devices/0000:00:06.0/device": "0x2335\n",
        "sys/bus/pci/devices/0000:00:06.0/driver": "-> ../../../bus/pci/drivers/nvidia",
    }
