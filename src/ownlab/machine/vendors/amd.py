"""AMD cards as the kernel shows them (sysfs and KFD), and ROCm as far as it is installed. No library is loaded."""

from __future__ import annotations

import re
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown, first_known
from ownlab.machine.files import Tree
from ownlab.machine.records import Amd, Card, CardProcess, Clocks, Ecc
from ownlab.machine.vendors.sysfs import link, pci_name, sensor

__all__ = ["decode_gfx", "read_amd"]

_DRM = "/sys/class/drm"
_KFD = "/sys/class/kfd/kfd"
# Newer kernels give graphics inside a processor a KFD node of their own, without cores. What LLVM's AMDGPUUsage.rst
# lists as APU (read 2026-11-15), of those that KFD serves: Kaveri to Strix.
_APUS = frozenset(
    (
        *("gfx700", "gfx801", "gfx810", "gfx902", "gfx909", "gfx90c"),
        *("gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1103", "gfx1150", "gfx1152", "gfx1153"),
    )
)
# Instinct MI300A, and Strix Halo, which ROCm serves: parts of a processor that are made for this work.
_TRAINS = frozenset(("gfx942", "gfx1151"))
# libdrm's own list, "74A1,\t00,\tAMD Instinct MI300X": device, revision, name.
_AMDGPU_IDS = ("/usr/share/libdrm/amdgpu.ids", "/opt/amdgpu/share/libdrm/amdgpu.ids")


def read_amd(root: Path = Path("/")) -> tuple[Amd, tuple[Card, ...]]:
    """AMD's driver and ROCm, and each AMD card that the kernel drives, in the order of its bus."""
    tree = Tree(root)
    devices = [f"{_DRM}/{name}/device" for name in tree.names(_DRM, r"card\d+")]
    found = {tree.link_name(device): device for device in devices if _is_amd_card(tree, device)}
    nodes = _kfd_nodes(tree) if found else {}
    cards = tuple(
        _read_card(tree, index, bus_id, found[bus_id], nodes.get(bus_id)) for index, bus_id in enumerate(sorted(found))
    )
    return Amd(driver=_driver(tree), rocm=_rocm(tree), kfd=tree.device_file("/dev/kfd")), cards


def decode_gfx(version: int) -> str:
    """KFD's gfx_target_version as compilers write it: 90402 -> "gfx942", 90010 -> "gfx90a"."""
    major, rest = divmod(version, 10000)
    minor, step = divmod(rest, 100)
    return f"gfx{major}{minor:x}{step:x}"


def _is_integrated(node: dict[str, int] | None) -> bool:
    """Graphics inside a processor. Without KFD it cannot be told: a carve-out of the memory looks like a card's own."""
    if node is None:
        return False
    architecture = decode_gfx(node["gfx_target_version"])
    if architecture in _TRAINS:
        return False
    return architecture in _APUS or bool(node.get("cpu_cores_count") and node.get("simd_count"))


def _is_amd_card(tree: Tree, device: str) -> bool:
    # 0x03….: display controller; 0x12….: processing accelerator, which Instinct cards without outputs are.
    return tree.word(f"{device}/vendor") == "0x1002" and tree.word(f"{device}/class")[:4] in ("0x03", "0x12")


def _driver(tree: Tree) -> Fact[str]:
    if not tree.exists("/sys/module/amdgpu"):
        return Unknown("the kernel module amdgpu is not loaded")
    version = tree.text("/sys/module/amdgpu/version")
    # Only AMD's own (DKMS) module has a version.
    return version if isinstance(version, Known) else Unknown("amdgpu came with the kernel, and has no own version")


def _rocm(tree: Tree) -> Fact[str]:
    folders = ["/opt/rocm", *(f"/opt/{name}" for name in reversed(tree.names("/opt", r"rocm-\d[\w.-]*")))]
    for folder in folders:
        version = tree.text(f"{folder}/.info/version")
        if isinstance(version, Known):
            return Known(version.value.split("-")[0], source=version.source)  # "6.2.4-139": the rest is a build number
    return Unknown("ROCm is not installed in /opt")


def _kfd_nodes(tree: Tree) -> dict[str, dict[str, int]]:
    """What KFD, through which ROCm computes, knows of each GPU, by bus id. A card that is missing cannot compute."""
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
        else Unknown("KFD does not list this card, so ROCm cannot compute on it"),
        memory_total=tree.number(f"{device}/mem_info_vram_total", "B"),
        memory_used=tree.number(f"{device}/mem_info_vram_used", "B"),
        utilisation=tree.number(f"{device}/gpu_busy_percent", "%"),
        power_draw=sensor(tree, device, {"power1_average": 10**6, "power1_input": 10**6}, "W"),
        power_limit=sensor(tree, device, {"power1_cap": 10**6}, "W"),
        temperature=_temperature(tree, device),
        clocks=_clocks(tree, device),
        # Cards with a switch of their own (Navi) show the link behind it: full speed in a slow slot is possible.
        pcie=link(tree, device),
        ecc=_ecc(tree, device),
        integrated=_is_integrated(node),
        health=_health(tree, device),
        processes=_processes(tree, node),
    )


def _name(tree: Tree, device: str) -> Fact[str]:
    model, revision = tree.word(f"{device}/device")[2:], tree.word(f"{device}/revision")[2:]
    listed: Fact[str] = Unknown("no list of AMD's names is installed")
    for path in _AMDGPU_IDS:
        line = re.search(rf"^{model},\s*{revision},\s*(.+)$", tree.word(path), re.MULTILINE | re.IGNORECASE)
        if model and line:
            listed = Known(line.group(1).strip(), source=path)
    return first_known(tree.text(f"{device}/product_name"), listed, pci_name(tree, "1002", model))


def _uuid(tree: Tree, device: str) -> Fact[str]:
    fact = tree.text(f"{device}/unique_id")
    # As rocminfo writes it, and as ROCR_VISIBLE_DEVICES takes it.
    return Known(f"GPU-{fact.value}", source=fact.source) if isinstance(fact, Known) else fact


def _temperature(tree: Tree, device: str) -> Fact[int]:
    # Sensor 1 is the edge of the die, 2 its hottest point; data-centre cards have only the second.
    fact = sensor(tree, device, {"temp1_input": 1000, "temp2_input": 1000}, "°C")
    return Known(round(fact.value), source=fact.source, unit="°C") if isinstance(fact, Known) else fact


def _clocks(tree: Tree, device: str) -> Clocks:
    def highest(path: str) -> Fact[int]:
        fact = tree.text(path)
        if isinstance(fact, Unknown):
            return fact
        levels = [int(level) for level in re.findall(r"(\d+)\s*mhz", fact.value, re.IGNORECASE)]
        return Known(max(levels), source=path, unit="MHz") if levels else Unknown(f"{path} lists no clock")

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
    garbled = Unknown(f"{path} says {fact.value[:40]!r}")
    return Ecc(
        corrected=Known(int(counts["ce"]), source=path) if "ce" in counts else garbled,
        uncorrected=Known(int(counts["ue"]), source=path) if "ue" in counts else garbled,
    )


def _health(tree: Tree, device: str) -> Fact[str]:
    driver = tree.link_name(f"{device}/driver")
    if not driver:
        return Unknown("no kernel driver is named for this card")
    if driver != "amdgpu":
        return Known(f"driven by {driver}, not by amdgpu: ROCm cannot use it", source=f"{device}/driver")
    return Known("OK", source=f"{device}/driver")


def _processes(tree: Tree, node: dict[str, int] | None) -> Fact[tuple[CardProcess, ...]]:
    if node is None or "gpu_id" not in node:
        return Unknown("KFD does not list this card")
    folder = f"{_KFD}/proc"
    if not tree.exists(folder):
        return Unknown(f"{folder} is not there")
    processes = []
    for pid in tree.names(folder, r"\d+"):
        memory = tree.number(f"{folder}/{pid}/vram_{node['gpu_id']}", "B")
        if isinstance(memory, Known) and memory.value:  # KFD opens every card for a process; those it uses hold memory
            command = tree.text(f"/proc/{pid}/comm")
            processes.append(CardProcess(pid=int(pid), kind="compute", memory=memory, command=command))
    return Known(tuple(processes), source=folder)
