"""Reads the text of `nvidia-smi -q`, complete, filtered with -d, or truncated.

Every form of nvidia-smi's output (this one, the table, CSV) is converted to the XML of `nvidia-smi -q -x`, so that one
parser reads them all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

import msgspec

from ownlab.instruments.doctor.paste.sections import ReportKind
from ownlab.machine.facts import Known
from ownlab.machine.nvidia import nvidia_smi
from ownlab.machine.records import Card, Machine, Nvidia

__all__ = ["KIND", "VERSION_KIND", "add_gpu", "new_log", "put", "read_log"]

# XML cannot represent these, not even escaped.
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def new_log() -> Element:
    return Element("nvidia_smi_log")


def add_gpu(log: Element, bus_id: str | None) -> Element:
    return SubElement(log, "gpu", {"id": bus_id} if bus_id else {})


def put(element: Element, path: str, text: str | None) -> None:
    """Write a value at a path, unless it already has one."""
    if text is None:
        return
    for tag in path.split("/"):
        below = element.find(tag)
        element = SubElement(element, tag) if below is None else below
    if not element.text:
        element.text = _UNWRITABLE.sub("", text).strip()


def read_log(log: Element, source: str, indexes: Sequence[int] = ()) -> Machine:
    """Parse the driver and the cards of a log; `indexes` are the cards' numbers, if the text has them."""
    nvidia, found = nvidia_smi.parse(tostring(log, encoding="unicode"), source=source)
    cards: tuple[Card, ...] = tuple(
        msgspec.structs.replace(card, index=index)
        for card, index in zip(found, indexes or range(len(found)), strict=True)
    )
    machine = Machine(origin="pasted", nvidia=nvidia if isinstance(nvidia.driver, Known) else Nvidia())
    return msgspec.structs.replace(machine, cards=Known(cards, source)) if cards else machine


_SOURCE = "pasted nvidia-smi -q"
_GPU = re.compile(r"\s*GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_HEADINGS = 8  # the most lines between two pairs: nested headings and blank lines
_MOST_LINES = 50_000  # in a log: 16 cards with all their processes have 10,000
_NOTE = "   "  # before a note that a user added to a value: "Yes            <==="

# Headings whose lines have other names in the XML: heading -> (its tag, {line: tag}). Others keep their own names.
_SECTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "mig_mode": ("mig_mode", {"current": "current_mig"}),
    "driver_model": ("driver_model", {"current": "current_dm"}),
    "pcie_generation": ("pci/pci_gpu_link_info/pcie_gen", {"max": "max_link_gen", "current": "current_link_gen"}),
    "link_width": ("pci/pci_gpu_link_info/link_widths", {"max": "max_link_width", "current": "current_link_width"}),
    "utilization": ("utilization", {"gpu": "gpu_util"}),
    "ecc_mode": ("ecc_mode", {"current": "current_ecc"}),
    "volatile": ("ecc_errors/volatile", {"sram_uncorrectable_sec_ded": "sram_uncorrectable_secded"}),
    "aggregate": ("ecc_errors/aggregate", {}),
    "retired_pages": ("retired_pages", {"pending_page_blacklist": "pending_blacklist"}),
    "remapped_rows": (
        "remapped_rows",
        {"pending": "remapped_row_pending", "remapping_failure_occurred": "remapped_row_failure"},
    ),
    "temperature": ("temperature", {"gpu_current_temp": "gpu_temp"}),
    "gpu_power_readings": ("gpu_power_readings", {"instantaneous_power_draw": "instant_power_draw"}),
    "gpu_ceiling_power_limit": ("gpu_power_readings", {}),
    "clocks": ("clocks", {"sm": "sm_clock", "memory": "mem_clock"}),
    "max_clocks": ("max_clocks", {"sm": "sm_clock", "memory": "mem_clock"}),
}
_REASONS = ("clocks_event_reasons", "clocks_throttle_reasons")
_TOP = {"gpu_uuid": "uuid"}
_PROCESS = {"type": "type", "name": "process_name", "used_gpu_memory": "used_memory"}
_MIG_MEMORY = ("shared_fb_memory_usage", "fb_memory_usage")


class _Log:
    """Builds the log line by line. A line belongs to the last heading above it, so lost indentation does no harm."""

    def __init__(self) -> None:
        self.root = new_log()
        self._gpu: Element | None = None
        self._heading = ""
        self._bits = ""  # cards before Volta list errors under Single Bit and Double Bit
        self._inner: Element | None = None  # the MIG device or process that the lines belong to
        self._inner_indent = 0

    def add(self, line: str) -> None:
        text = line.strip()
        gpu = _GPU.match(text)
        if gpu:
            self._gpu, self._heading, self._inner = add_gpu(self.root, gpu[1]), "", None
            return
        name, colon, rest = text.partition(" :")
        key = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        if key[:1].isalpha():
            value = rest.strip().split(_NOTE)[0] if colon else None
            self._add_pair(len(line) - len(line.lstrip()), key, value)

    def _add_pair(self, indent: int, key: str, value: str | None) -> None:
        if self._gpu is None and value is None and key in (*_SECTIONS, *_REASONS, *_MIG_MEMORY, "power_readings"):
            self._gpu = add_gpu(self.root, None)  # a part of one card's log, without its heading
        if self._gpu is None:
            if value is not None and key.endswith("version"):
                put(self.root, key, value)
        elif key == "processes":
            self._heading, self._inner = key, None
            listed = self._gpu.find("processes")
            listed = SubElement(self._gpu, "processes") if listed is None else listed
            if value and value != "None":
                listed.text = value
        elif self._heading == "processes":
            self._add_to_processes(self._gpu, indent, key, value)
        elif key == "mig_device":
            devices = self._gpu.find("mig_devices")
            devices = SubElement(self._gpu, "mig_devices") if devices is None else devices
            self._inner, self._inner_indent, self._heading = SubElement(devices, "mig_device"), indent, ""
        elif self._inner is not None and indent > self._inner_indent:
            self._add_to_mig(self._inner, key, value)
        else:
            self._inner = None
            self._add_to_gpu(self._gpu, key, value)

    def _add_to_gpu(self, gpu: Element, key: str, value: str | None) -> None:
        if value is None and key in ("single_bit", "double_bit"):
            self._bits = key
        elif value is None:
            self._heading, self._bits = key, ""
        elif self._heading in _REASONS and value in ("Active", "Not Active"):
            name = {"idle": "gpu_idle", "display_clock_setting": "display_clocks_setting"}.get(key, key)
            put(gpu, f"{self._heading}/{self._heading[:-1]}_{name}", value)
        else:
            # A line outside of every heading keeps its name, and so does one that follows the lines of a heading: none of
            # these names is used twice.
            put(gpu, _TOP.get(key, key), value)
            section, names = _SECTIONS.get(self._heading, (self._heading, {}))
            if section:
                put(gpu, "/".join(filter(None, (section, self._bits, names.get(key, key)))), value)

    def _add_to_mig(self, device: Element, key: str, value: str | None) -> None:
        if value is None:
            self._heading = key
        elif key.endswith("instance_id"):
            put(device, key, value)
        elif self._heading in _MIG_MEMORY and key in ("total", "used"):
            put(device, f"fb_memory_usage/{key}", value)

    def _add_to_processes(self, gpu: Element, indent: int, key: str, value: str | None) -> None:
        listed = gpu.find("processes")
        assert listed is not None
        if key == "process_id" and value:
            self._inner = SubElement(listed, "process_info")
            put(self._inner, "pid", value)
        elif key in _PROCESS and self._inner is not None:
            put(self._inner, _PROCESS[key], value)
        elif not key.endswith("instance_id"):
            self._heading = ""
            self._inner = None
            self._add_to_gpu(gpu, key, value)


def _read(lines: Sequence[str]) -> Machine | None:
    log = _Log()
    for line in lines[:_MOST_LINES]:
        if line.strip() and "NVSMI LOG" not in line:
            log.add(line.lstrip("#"))  # the log was pasted as a comment
    for gpu in log.root.iter("gpu"):
        # MIG devices would be listed between MIG Mode and the UUID.
        if gpu.find("mig_mode") is not None and gpu.find("uuid") is not None and gpu.find("mig_devices") is None:
            SubElement(gpu, "mig_devices")
    return read_log(log.root, _SOURCE)


def _extent(lines: Sequence[str], start: int) -> int:
    """Return where the pairs, headings and blank lines of the log end."""
    end, seen = start, 0
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.strip():
            continue
        inside = " : " in line or line.rstrip().endswith(" :") or "NVSMI LOG" in line or _GPU.match(line)
        # A heading is short, has no colon, and is indented, unless the indentation was lost.
        heading = len(line) < 60 and ":" not in line and (line[0] in " \t#" or line[0].isupper())
        if not inside and not (heading and index - end < _HEADINGS):
            break
        seen += 1
        if inside:
            end = index + 1
    return end if seen > 1 else start


def _read_version(lines: Sequence[str]) -> Machine | None:
    log = _Log()
    for line in lines:
        log.add(line.replace("DRIVER version", "Driver Version"))
    return read_log(log.root, "pasted nvidia-smi --version")


KIND = ReportKind(
    "nvidia-smi -q",
    r"=+NVSMI LOG=+|Driver Version\s+: \d|[#\s]*(?:Clocks (?:Throttle|Event) Reasons|FB Memory Usage|ECC Errors|Remapped Rows)\s*$|\s*GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:\S+\s*$",
    _extent,
    _read,
)
VERSION_KIND = ReportKind("nvidia-smi --version", r"NVIDIA-SMI version\s*:", _extent, _read_version)
