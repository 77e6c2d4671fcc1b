"""What the kernel reports about accelerators: PCI devices, modules, direct paths to storage and network, its log."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ownlab.errors import DeadlineError
from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.files import names_in, read_text
from ownlab.machine.records import Network, PciDevice
from ownlab.processes import runner
from ownlab.text import text

__all__ = ["read_kernel_log", "read_modules", "read_network", "read_pci", "relevant_lines"]

# PCI class and subclass -> kind (pci.ids).
_PCI_KINDS = {"0300": "display", "0302": "3d", "0380": "display", "1200": "accelerator"}

_MODULES = (
    "nvidia",
    "nvidia_uvm",
    "nvidia_modeset",
    "nvidia_drm",
    "nvidia_peermem",
    "nv_peer_mem",
    "nvidia_fs",
    "nouveau",
    "nova_core",
    "amdgpu",
    "radeon",
    "i915",
    "xe",
    "habanalabs",
    "drv_davinci",
    "davinci_mini",
    "gasket",
    "apex",
    "vfio_pci",
    "dxgkrnl",
)

_LOG_DEADLINE = 3.0
_LOG_LINES = 200
_LOG_LINE_LENGTH = 500
# A PCIe bus error comes from the bus itself, sometimes by the thousand; a program's bus error comes from a full /dev/shm.
_RELEVANT = re.compile(
    r"NVRM|\bXid\b|nvidia|nouveau|amdgpu|davinci|ascend|request_free_mem_region|(?<!PCIe )bus error"
    r"|out of memory: killed process|oom-kill|module verification failed|unsigned module|key was rejected",
    re.IGNORECASE,
)
# The kernel logs its boot parameters, which may contain secrets.
_PRIVATE = re.compile(r"command line", re.IGNORECASE)


def read_pci(root: Path) -> Fact[tuple[PciDevice, ...]]:
    """List display controllers and accelerators, with or without a driver."""
    folder = root / "sys/bus/pci/devices"
    names = names_in(folder, root)
    if isinstance(names, Unknown):
        return names
    devices = []
    for name in names.value:
        fields = [read_text(folder / name / field, root) for field in ("class", "vendor", "device")]
        texts = [fact.value.lower().removeprefix("0x") for fact in fields if isinstance(fact, Known)]
        if len(texts) == 3 and texts[0][:4] in _PCI_KINDS:
            devices.append(PciDevice(name, texts[1], texts[2], _PCI_KINDS[texts[0][:4]], _driver(folder / name)))
    return Known(tuple(devices), source=names.source)


def _driver(device: Path) -> str | None:
    try:
        return os.path.basename(os.readlink(device / "driver"))
    except OSError:  # no link means that no driver is bound
        return None


def read_modules(root: Path) -> Fact[tuple[str, ...]]:
    """List the relevant modules that are loaded or built in."""
    content = read_text(root / "proc/modules", root)
    loaded = {line.split(" ")[0] for line in content.value.splitlines()} if isinstance(content, Known) else set()
    listed = names_in(root / "sys/module", root)
    if isinstance(listed, Unknown) and isinstance(content, Unknown):
        return content
    # /sys/module also lists built-in modules; it is all there is on a kernel without loadable modules.
    present = loaded | set(listed.value if isinstance(listed, Known) else ())
    source = content.source if isinstance(content, Known) else "/sys/module"
    return Known(tuple(name for name in _MODULES if name in present), source=source)


def read_network(root: Path) -> Network:
    """Read what lets cards reach storage and other machines without the CPU."""
    modules = read_modules(root)
    rdma = _class_devices("infiniband", root)
    return Network(
        rdma_devices=rdma,
        gpudirect_rdma=_gpudirect_rdma(rdma, modules, root),
        gpudirect_storage=_gpudirect_storage(modules),
        nvme_devices=_class_devices("nvme", root),
    )


def _class_devices(name: str, root: Path) -> Fact[tuple[str, ...]]:
    names = names_in(root / "sys/class" / name, root)
    if isinstance(names, Unknown) and os.path.isdir(root / "sys/class"):
        return Known((), source=text("no {path}", path=f"/sys/class/{name}"))
    return names


def _gpudirect_rdma(rdma: Fact[tuple[str, ...]], modules: Fact[tuple[str, ...]], root: Path) -> Fact[bool]:
    if isinstance(rdma, Unknown):
        return rdma
    if isinstance(modules, Unknown):
        return modules
    if not rdma.value:
        return Known(False, source=text("no RDMA device"))
    for module in ("nvidia_peermem", "nv_peer_mem"):
        if module in modules.value:
            return Known(True, source=f"module {module}")
    version = read_text(root / "proc/driver/nvidia/version", root)
    if "nvidia" in modules.value and isinstance(version, Known) and "Open Kernel Module" in version.value:
        return Unknown(text("nvidia_peermem is not loaded, but the open kernel module may support it through dma-buf"))
    return Known(False, source=text("no nvidia_peermem, and no open NVIDIA kernel module"))


def _gpudirect_storage(modules: Fact[tuple[str, ...]]) -> Fact[bool]:
    if isinstance(modules, Unknown):
        return modules
    return Known("nvidia_fs" in modules.value, source=f"{modules.source}: nvidia_fs")


def read_kernel_log() -> Fact[tuple[str, ...]]:
    """Read the last lines of the running kernel's log about accelerators or killed programs."""
    first = _run_log_command(["dmesg", "--ctime"])  # when it happened; not every dmesg can say that
    if not isinstance(first, Known):
        first = _run_log_command(["dmesg"])
    if isinstance(first, Known):
        return first
    second = _run_log_command(["journalctl", "-k", "-b", "--no-pager", "--no-hostname", "-n", "2000"])
    return (
        second
        if isinstance(second, Known)
        else Unknown(text("{first}; {second}", first=first.reason, second=second.reason))
    )


def _run_log_command(command: list[str]) -> Fact[tuple[str, ...]]:
    try:
        ran = runner.run(command, deadline=_LOG_DEADLINE)
    except (runner.ToolMissing, DeadlineError) as exc:
        return Unknown(exc.message)
    lines = [line for line in ran.stdout.splitlines() if not line.startswith("-- ")]  # journalctl's own headings
    if ran.returncode != 0 or not lines:
        message = ran.output.splitlines()[0].strip(" -") if ran.output else text("no output")
        return Unknown(
            message
            if message.startswith(command[0])
            else text("{command}: {message}", command=command[0], message=message)
        )
    return Known(relevant_lines(lines), source=" ".join(command))


def relevant_lines(lines: list[str]) -> tuple[str, ...]:
    """Select the last relevant lines, each cut to a length that can be shown."""
    relevant = [line[:_LOG_LINE_LENGTH] for line in lines if _RELEVANT.search(line) and not _PRIVATE.search(line)]
    return tuple(relevant[-_LOG_LINES:])
