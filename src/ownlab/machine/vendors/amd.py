"""AMD cards as the kernel shows them (sysfs and KFD), and the installed ROCm. No library is loaded."""

from __future__ import annotations

import re
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown, first_known
from ownlab.machine.files import Tree
from ownlab.machine.records import Amd, Card, CardProcess, Clocks, Ecc
from ownlab.machine.vendors.sysfs import link, pci_name, sensor
from ownlab.text import text

__all__ = ["decode_gfx", "read_amd"]

_DRM = "/sys/class/drm"
_KFD = "/sys/class/kfd/kfd"
# Newer kernels give integrated graphics their own KFD node, without CPU cores. What LLVM's AMDGPUUsage.rst lists as APU
# (read 2026-11-15) and KFD supports: Kaveri to Strix.
_APUS = frozenset(
    (
        *("gfx700", "gfx801", "gfx810", "gfx902", "gfx909", "gfx90c"),
        *("gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1103", "gfx1150", "gfx1152", "gfx1153"),
    )
)
# Instinct MI300A and Strix Halo, which ROCm supports: integrated, but made for compute.
_COMPUTE_APUS = frozenset(("gfx942", "gfx1151"))
# libdrm's own list, "74A1,\t00,\tAMD Instinct MI300X": device, revision, name.
_AMDGPU_IDS = ("/usr/share/libdrm/amdgpu.ids", "/opt/amdgpu/share/libdrm/amdgpu.ids")


def read_amd(root: Path = Path("/")) -> tuple[Amd, tuple[Card, ...]]:
    """Read AMD's driver and ROCm, and each AMD card that the kernel drives, in bus order."""
    tree = Tree(root)
    devices = [f"{_DRM}/{name}/device" for name in tree.names(_DRM, r"card\d+")]
    by_bus_id = {tree.link_name(device): device for device in devices if _is_amd_card(tree, device)}
    nodes = _kfd_nodes(tree) if by_bus_id else {}
    cards = tuple(
        _read_card(tree, index, bus_id, by_bus_id[bus_id], nodes.get(bus_id))
        for index, bus_id in enumerate(sorted(by_bus_id))
    )
    return Amd(driver=_driver(tree), rocm=_rocm(tree), kfd=tree.device_file("/dev/kfd")), cards


def decode_gfx(version: int) -> str:
    """Convert KFD's gfx_target_version to the compiler's name: 90402 -> "gfx942", 90010 -> "gfx90a"."""
    major, rest = divmod(version, 10000)
    minor, step = divmod(rest, 100)
    return f"gfx{major}{minor:x}{step:x}"


def _is_integrated(node: dict[str, int] | None) -> bool:
    """Return whether the graphics are part of the CPU. Without KFD, reserved system memory looks like a card's own."""
    if node is None:
        return False
    architecture = decode_gfx(node["gfx_target_version"])
    if architecture in _COMPUTE_APUS:
        return False
    return architecture in _APUS or bool(node.get("cpu_cores_count") and node.get("simd_count"))


def _is_amd_card(tree: Tree, device: str) -> bool:
    # 0x03….: display controller; 0x12….: processing accelerator, such as Instinct cards without display outputs.
    return tree.word(f"{device}/vendor") == "0x1002" and tree.word(f"{device}/class")[:4] in ("0x03", "0x12")


def _driver(tree: Tree) -> Fact[str]:
    if not tree.exists("/sys/module/amdgpu"):
        return Unknown(text("the kernel module amdgpu is not loaded"))
    version = tree.text("/sys/module/amdgpu/version")
    # Only the module in AMD's own package (DKMS) has a version.
    return (
        version
        if isinstance(version, Known)
        else Unknown(text("amdgpu is part of the kernel and has no version of its own"))
    )


def _rocm(tree: Tree) -> Fact[str]:
    folders = ["/opt/rocm", *(f"/opt/{name}" for name in reversed(tree.names("/opt", r"rocm-\d[\w.-]*")))]
    for folder in folders:
        version = tree.text(f"{folder}/.info/version")
        if isinstance(version, Known):
            return Known(version.value.split("-")[0], source=version.source)  # "6.2.4-139": the rest is a build number
    return Unknown(text("ROCm is not installed in /opt"))


def _kfd_nodes(tree: Tree) -> dict[str, dict[str, int]]:
    """Read each GPU's node in KFD, ROCm's kernel interface, by bus ID. ROCm cannot use a card without a node."""
    nodes = {}
    for name in tree.names(f"{_KFD}/topology/nodes", r"\d+"):
        folder = f"{_KFD}/topology/nodes/{name}"
        lines = re.findall(r"^(\w+) (\d+)$", tree.word(f"{folder}/properties"), re.MULTILINE)
        node = {key: int(value) for key, value in lines}
        if not node.get("gfx_target_version"):  # a CPU's node
            continue
        location = node.get("location_id", 0)
        bus, device, function = location >> 8, (location >> 3) & 0x1F, location & 7
        gpu_id = tree.number(f"{folder}/gpu_id")
        if isinstance(gpu_id, Known):
            node["gpu_id"] = gpu_id.value
        nodes[f"{node.get('domain', 0):04x}:{bus:02x}:{device:02x}.{function}"] = node
    return nodes


def _read_card(tree: Tree, index: int, bus_id: str, device: str, node: dict[str, int] | None) -> Card:
    return Card(
        vendor="amd",
        index=index,
        name=_name(tree, device),
        uuid=_uuid(tree, device),
        bus_id=Known(bus_id, source=_DRM),
        architecture=Known(decode_gfx(node["gfx_target_version"]), source=f"{_KFD}/topology")
        if node
        else Unknown(text("KFD does not list this card, so ROCm cannot compute on it")),
        memory_total=tree.number(f"{device}/mem_info_vram_total", "B"),
        memory_used=tree.number(f"{device}/mem_info_vram_used", "B"),
        utilisation=tree.number(f"{device}/gpu_busy_percent", "%"),
        power_draw=sensor(tree, device, {"power1_average": 10**6, "power1_input": 10**6}, "W"),
        power_limit=sensor(tree, device, {"power1_cap": 10**6}, "W"),
        temperature=_temperature(tree, device),
        clocks=_clocks(tree, device),
        # Cards with their own PCIe switch (Navi) show the link behind it, which may be faster than the slot.
        pcie=link(tree, device),
        ecc=_ecc(tree, device),
        integrated=_is_integrated(node),
        health=_health(tree, device),
        processes=_processes(tree, node),
    )


def _name(tree: Tree, device: str) -> Fact[str]:
    model, revision = tree.word(f"{device}/device")[2:], tree.word(f"{device}/revision")[2:]
    listed: Fact[str] = Unknown(text("no list of AMD's card names is installed"))
    for path in _AMDGPU_IDS:
        line = re.search(rf"^{model},\s*{revision},\s*(.+)$", tree.word(path), re.MULTILINE | re.IGNORECASE)
        if model and line:
            listed = Known(line.group(1).strip(), source=path)
    return first_known(tree.text(f"{device}/product_name"), listed, pci_name(tree, "1002", model))


def _uuid(tree: Tree, device: str) -> Fact[str]:
    fact = tree.text(f"{device}/unique_id")
    # As rocminfo writes it and ROCR_VISIBLE_DEVICES expects it.
    return Known(f"GPU-{fact.value}", source=fact.source) if isinstance(fact, Known) else fact


def _temperature(tree: Tree, device: str) -> Fact[int]:
    # Sensor 1 is the edge of the die, 2 its hot spot; data-center cards have only the second.
    fact = sensor(tree, device, {"temp1_input": 1000, "temp2_input": 1000}, "°C")
    return Known(round(fact.value), source=fact.source, unit="°C") if isinstance(fact, Known) else fact


def _clocks(tree: Tree, device: str) -> Clocks:
    def highest(path: str) -> Fact[int]:
        fact = tree.text(path)
        if isinstance(fact, Unknown):
            return fact
        levels = [int(level) for level in re.findall(r"(\d+)\s*mhz", fact.value, re.IGNORECASE)]
        return (
            Known(max(levels), source=path, unit="MHz") if levels else Unknown(text("{path} lists no clock", path=path))
        )

    def now(name: str) -> Fact[int]:
        fact = sensor(tree, device, {name: 10**6}, "MHz")
        return Known(round(fact.value), source=fact.source, unit="MHz") if isinstance(fact, Known) else fact

    return Clocks(
        sm=now("freq1_input"),
        sm_max=highest(f"{device}/pp_dpm_sclk"),
        memory=now("freq2_input"),
        memory_max=highest(f"{device}/pp_dpm_mclk"),
    )


def _ecc(tree: Tree, device: str) -> Ecc:
    path = f"{device}/ras/umc_err_count"  # of the memory controller: "ue: 0\nce: 0"
    fact = tree.text(path)
    if isinstance(fact, Unknown):
        return Ecc(corrected=fact, uncorrected=fact)
    counts = dict(re.findall(r"^(ue|ce):\s*(\d+)", fact.value, re.MULTILINE))
    garbled = Unknown(text("{path} has the unexpected value {value!r}", path=path, value=fact.value[:40]))
    return Ecc(
        corrected=Known(int(counts["ce"]), source=path) if "ce" in counts else garbled,
        uncorrected=Known(int(counts["ue"]), source=path) if "ue" in counts else garbled,
    )


def _health(tree: Tree, device: str) -> Fact[str]:
    driver = tree.link_name(f"{device}/driver")
    if not driver:
        return Unknown(text("no kernel driver is bound to this card"))
    if driver != "amdgpu":
        message = text("driven by {driver}, not by amdgpu: ROCm cannot use it", driver=driver)
        return Known(message, source=f"{device}/driver")
    return Known("OK", source=f"{device}/driver")


def _processes(tree: Tree, node: dict[str, int] | None) -> Fact[tuple[CardProcess, ...]]:
    if node is None or "gpu_id" not in node:
        return Unknown(text("KFD does not list this card"))
    folder = f"{_KFD}/proc"
    if not tree.exists(folder):
        return Unknown(text("{folder} does not exist", folder=folder))
    processes = []
    for pid in tree.names(folder, r"\d+"):
        memory = tree.number(f"{folder}/{pid}/vram_{node['gpu_id']}", "B")
        if isinstance(memory, Known) and memory.value:  # KFD opens every card for a process; it uses those with memory
            command = tree.text(f"/proc/{pid}/comm")
            processes.append(CardProcess(pid=int(pid), kind="compute", memory=memory, command=command))
    return Known(tuple(processes), source=folder)
