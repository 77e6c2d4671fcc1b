"""Reads the table that `nvidia-smi` prints without arguments (drivers 331 to 615), and the list of `nvidia-smi -L`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

import msgspec

from ownlab.instruments.doctor.paste.nvidia_smi_log import add_gpu, new_log, put, read_log
from ownlab.instruments.doctor.paste.sections import ReportKind, end_of_run
from ownlab.machine.facts import Known, Unknown
from ownlab.machine.records import Card, Machine, MigInstance
from ownlab.text import text

__all__ = ["GPU_LINE", "KIND", "LIST_KINDS", "read_gpu_list"]

_SOURCE = text("pasted {program}", program="nvidia-smi")
_HEAD = r"\s*\|?\s*NVIDIA-SMI\s+\d{3}\.\d"
_BUS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"
_CARD_ROW = r"\s*\|\s*\d{1,3}\s+\S[^|]{0,80}\|\s*" + _BUS
_LINE = re.compile(rf"\s*[|+]|{_HEAD}|\s*\w{{3}} \w{{3}} +\d+ \d\d:\d\d:\d\d \d{{4}}\s*$")

_SMI = re.compile(r"NVIDIA-SMI\s+(\d[\d.]{2,20})")
_DRIVER = re.compile(r"(?:Driver|KMD) Version:\s*(\d[\d.]{2,20})")
_CUDA = re.compile(r"CUDA (?:UMD )?Version:\s*(\d{1,2}\.\d{1,2})")
_FIRST = re.compile(r"\s*(\d{1,3})\s+(\S.*?)\s+(On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*$")
_BUS_ID = re.compile(_BUS)
_MEMORY = re.compile(r"(\d{1,9}\s*MiB|N/A|ERR!)\s*/\s*(\d{1,9}\s*MiB|N/A|ERR!)")
_POWER = re.compile(r"(\d{1,5}(?:\.\d+)?\s*W|N/A|ERR!)\s*/\s*(\d{1,5}(?:\.\d+)?\s*W|N/A|ERR!)")
_DEGREES = re.compile(r"(?<!\S)(?:(\d{1,3})\s*C|ERR!\s+(ERR!))(?!\S)")
_USE = re.compile(r"\s*(\d{1,3}\s*%|N/A|ERR!)\s*(.*?)\s*$")
_PROCESS = re.compile(
    r"\s*(?P<gpu>\d{1,3})\s+(?:(?:N/A|\d{1,3})\s+(?:N/A|\d{1,3})\s+)?(?P<pid>\d{1,10})\s+(?P<type>[CGM](?:\+[CGM])?)\s+"
    r"(?P<name>\S.*?)(?:\s+(?P<memory>\d{1,9}\s*MiB|N/A))?\s*$"
)
_MIG_ROW = re.compile(r"\s*(\d{1,3})\s+(\d{1,3})\s+(\d{1,3})\s+(\d{1,3})\s*$")
_MODES = {"e. process": "Exclusive_Process", "e. thread": "Exclusive_Thread"}


class _Table:
    """Builds the log of nvidia-smi row by row."""

    def __init__(self) -> None:
        self.log = new_log()
        self.cards: dict[int, Element] = {}
        self.processes = False  # whether the table of processes was reached
        self._latest: Element | None = None
        self._rows = 0  # of the latest card

    def add(self, cells: list[str]) -> None:
        if len(cells) == 1:
            self._add_wide(cells[0])
        elif len(cells) >= 3:
            first, bus = _FIRST.match(cells[0]), _BUS_ID.search(cells[1])
            if first and bus:
                self._add_card(int(first[1]), first[2], first[3], bus[0], cells[2].strip())
            elif len(cells) >= 4:
                self._add_mig(cells)
            elif self._latest is not None:
                self._rows += 1
                if self._rows == 1:
                    self._add_second(cells)
                else:
                    self._add_third(cells)

    def _add_card(self, index: int, name: str, mode: str, bus: str, errors: str) -> None:
        gpu = self.cards.get(index)
        if gpu is not None:
            self._latest = None  # the next round of `nvidia-smi -l`
            return
        gpu = self.cards[index] = self._latest = add_gpu(self.log, bus)
        self._rows = 0
        put(gpu, "product_name", name)
        if mode in ("On", "Off"):
            put(gpu, "persistence_mode", "Enabled" if mode == "On" else "Disabled")
        elif mode in ("WDDM", "TCC", "MCDM"):
            put(gpu, "driver_model/current_dm", mode)
        if errors.isdigit():
            put(gpu, "ecc_mode/current_ecc", "Enabled")
            put(gpu, "ecc_errors/volatile/double_bit/total", errors[:9])
        else:
            put(gpu, "ecc_mode/current_ecc", {"Off": "Disabled", "On": "Enabled"}.get(errors, errors))

    def _add_second(self, cells: list[str]) -> None:
        """| N/A   38C    P0   129W /  700W |   0MiB / 143771MiB |   0%   Default |"""
        gpu = self._latest
        assert gpu is not None
        if degrees := _DEGREES.search(cells[0]):
            put(gpu, "temperature/gpu_temp", f"{degrees[1]} C" if degrees[1] else degrees[2])
        if power := _POWER.search(cells[0]):
            put(gpu, "gpu_power_readings/power_draw", power[1])
            put(gpu, "gpu_power_readings/current_power_limit", power[2])
        if memory := _MEMORY.search(cells[1]):
            put(gpu, "fb_memory_usage/used", memory[1].replace("MiB", " MiB"))
            put(gpu, "fb_memory_usage/total", memory[2].replace("MiB", " MiB"))
        if use := _USE.match(cells[2]):
            put(gpu, "utilization/gpu_util", use[1])
            mode = use[2].lower()
            put(
                gpu,
                "compute_mode",
                next((full for cut, full in _MODES.items() if mode and cut.startswith(mode)), use[2]),
            )

    def _add_third(self, cells: list[str]) -> None:
        mode = cells[2].strip().rstrip("*")
        if self._latest is not None and mode:
            put(self._latest, "mig_mode/current_mig", mode)

    def _add_mig(self, cells: list[str]) -> None:
        row, memory = _MIG_ROW.match(cells[0]), _MEMORY.search(cells[1])
        gpu = self.cards.get(int(row[1])) if row else None
        if row is None or memory is None or gpu is None:
            return
        devices = gpu.find("mig_devices")
        device = SubElement(SubElement(gpu, "mig_devices") if devices is None else devices, "mig_device")
        put(device, "gpu_instance_id", row[2])
        put(device, "compute_instance_id", row[3])
        put(device, "fb_memory_usage/used", memory[1].replace("MiB", " MiB"))
        put(device, "fb_memory_usage/total", memory[2].replace("MiB", " MiB"))

    def _add_wide(self, cell: str) -> None:
        if "Processes:" in cell or "No running processes found" in cell:
            self.processes = True
        elif "No MIG devices found" in cell:
            for card in self.cards.values():
                if card.findtext("mig_mode/current_mig") == "Enabled":
                    SubElement(card, "mig_devices")
        elif (
            self.processes
            and (process := _PROCESS.match(cell))
            and (gpu := self.cards.get(int(process["gpu"]))) is not None
        ):
            listed = gpu.find("processes")
            info = SubElement(SubElement(gpu, "processes") if listed is None else listed, "process_info")
            put(info, "pid", process["pid"])
            put(info, "type", process["type"])
            put(info, "process_name", process["name"])
            put(info, "used_memory", (process["memory"] or "N/A").replace("MiB", " MiB"))

    def finish(self) -> None:
        for gpu in self.cards.values():
            if self.processes and gpu.find("processes") is None:
                SubElement(gpu, "processes")


def _read(lines: Sequence[str]) -> Machine | None:
    table = _Table()
    smi: str | None = None
    for line in lines:
        if head := _SMI.search(line):
            smi = smi or head[1]
            driver, cuda = _DRIVER.search(line), _CUDA.search(line)
            put(table.log, "driver_version", driver[1] if driver else None)
            put(table.log, "cuda_version", cuda[1] if cuda else None)
        elif "|" in line:
            table.add([" ".join(cell.split()) for cell in line.strip().strip("|").split("|")])
    table.finish()
    machine = read_log(table.log, _SOURCE, tuple(table.cards))
    if smi is None:
        return machine if table.cards else None
    nvidia = msgspec.structs.replace(machine.nvidia, smi=Known(smi, _SOURCE))
    return msgspec.structs.replace(machine, nvidia=nvidia)


def _extent(lines: Sequence[str], start: int) -> int:
    """Return where the last table ends; blank lines may separate tables."""
    end = end_of_run(_LINE, lines, start, blanks=2)
    while end > start and not lines[end - 1].lstrip().startswith(("|", "+")) and not _SMI.search(lines[end - 1]):
        end -= 1  # the date above the next table
    return max(end, start + 1)


KIND = ReportKind(text("nvidia-smi table"), rf"{_HEAD}|{_CARD_ROW}", _extent, _read)


GPU_LINE = r"\s*GPU \d{1,3}(?:,\d{1,3})*: (?!Compute Capability)"
_LISTED_GPU = re.compile(r"\s*GPU (\d{1,3}(?:,\d{1,3})*): (.+?)\s*(?:\(UUID: ([^)]+)\))?$")
_CAPABILITY = re.compile(r"\s*GPU (\d{1,3}(?:,\d{1,3})*) Compute Capability: (\d{1,2}\.\d)")
_LISTED_MIG = re.compile(r"\s*MIG (\S+)\s+Device\s+(\d{1,3}):\s*(?:\(UUID: ([^)]+)\))?")
_LIST_LINE = re.compile(rf"{GPU_LINE}|\s*MIG \S+\s+Device\s+\d")
_LIST_SOURCE = text("pasted {program}", program="nvidia-smi -L")


def read_gpu_list(lines: Sequence[str], source: str) -> tuple[Card, ...]:
    """Read the cards of a list; "GPU 0,1: NVIDIA L40S" (sglang, mmcv) is two cards."""
    cards: dict[int, Card] = {}
    slices: list[MigInstance] = []
    latest = -1
    for line in (" ".join(line.split()) for line in lines):
        if (mig := _LISTED_MIG.match(line)) and latest >= 0:
            profile, number, uuid = mig.groups()
            slices.append(MigInstance(uuid=uuid or f"device {number}", profile=Known(profile, source)))
            of = cards[latest]
            cards[latest] = msgspec.structs.replace(
                of, mig=Known(True, source), mig_instances=Known(tuple(slices), source)
            )
        elif capability := _CAPABILITY.match(line):
            for index in map(int, capability[1].split(",")):
                if index in cards:
                    known = Known(capability[2], source)
                    cards[index] = msgspec.structs.replace(cards[index], compute_capability=known)
        elif gpu := _LISTED_GPU.match(line):
            slices = []
            numbers, name, uuid = gpu.groups()
            for latest in map(int, numbers.split(",")):
                cards.setdefault(
                    latest,
                    Card(
                        vendor="nvidia",
                        index=latest,
                        name=Known(name, source),
                        uuid=Known(uuid, source) if uuid else Unknown(text("the list was pasted without UUIDs")),
                    ),
                )
    return tuple(cards[index] for index in sorted(cards))


def _list_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(_LIST_LINE, lines, start)


def _read_list(lines: Sequence[str]) -> Machine:
    return Machine(origin="pasted", cards=Known(read_gpu_list(lines, _LIST_SOURCE), _LIST_SOURCE))


# --- nvidia-smi topo -m -----------------------------------------------------------------------------------------------

_TOPOLOGY = re.compile(r"\s*(?:GPU\d|NIC\d|mlx\d|X\s|SYS\b|NODE\b|PHB\b|PXB\b|PIX\b|NV#|(?:NIC )?Legend)")


def _topology_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(_TOPOLOGY, lines, start, blanks=2)


def _read_topology(lines: Sequence[str]) -> Machine:
    return Machine(origin="pasted")  # no rule needs the topology


LIST_KINDS = (
    ReportKind(
        "nvidia-smi -L", GPU_LINE + r"(?:NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID|.*\(UUID: )", _list_extent, _read_list
    ),
    ReportKind(
        "nvidia-smi topo", r"\s*GPU0\s.*Affinity|\s*Legend:\s*$", _topology_extent, _read_topology, several="each"
    ),
)
