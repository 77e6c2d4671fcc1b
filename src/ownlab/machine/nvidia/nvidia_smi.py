"""Parses the output of `nvidia-smi -q -x` of any driver since 390, complete or truncated.

Elements were renamed and moved over the years, so most facts have several paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from ownlab.errors import InputError, NotRecognised
from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.nvidia.processes import short_command
from ownlab.machine.records import Card, CardProcess, Clocks, Ecc, MigInstance, Nvidia, Pcie
from ownlab.text import plural, text
from ownlab.units import parse_bytes

__all__ = ["SOURCE", "Reader", "parse", "read_card"]

N = TypeVar("N", int, float)

# What nvidia-smi prints in place of a value, with or without brackets.
_NO_VALUE = frozenset(
    (
        "",
        "n/a",
        "none",
        "not supported",
        "not available",
        "not found",
        "err!",
        "unknown error",
        "insufficient permissions",
        "no permission",
        "gpu is lost",
        "gpu requires reset",
        "gpu requires restart",
        "function not found",
        "requested functionality has been deprecated",
    )
)
_DEAD = ("gpu is lost", "gpu requires reset", "gpu requires restart")
_FAULTY = (*_DEAD, "unknown error", "err!")
_BASIC = ("product_name", "uuid", "fb_memory_usage/total", "fb_memory_usage/used", "temperature/gpu_temp")
_THROTTLE_NAMES = {
    "applications_clocks_setting": "applications-clocks",
    "display_clocks_setting": "display-clocks",
    "hw_power_brake_slowdown": "hw-power-brake",
    "hw_thermal_slowdown": "hw-thermal",
    "sw_thermal_slowdown": "sw-thermal",
    "user_defined_clocks": "applications-clocks",  # its name before driver 361
}
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:W|MHz|C|%|x)?$")
_YES = ("enabled", "yes")
_NO = ("disabled", "no")


class Reader:
    """Reads facts from an element by path. Of several paths, the first that has a value counts."""

    def __init__(self, element: Element, source: str) -> None:
        self.element = element
        self.source = source

    def text(self, *paths: str) -> Fact[str]:
        values = [_text(element) for element in map(self._find, paths) if element is not None]
        for value in values:
            if _plain(value) not in _NO_VALUE:
                return Known(value, source=self.source)
        return Unknown(
            text('nvidia-smi reports "{value}"', value=values[0])
            if values
            else text("this output of nvidia-smi has no {element}", element=paths[-1])
        )

    def whole(self, unit: str | None, *paths: str) -> Fact[int]:
        return self._number(int, unit, *paths)

    def decimal(self, unit: str | None, *paths: str) -> Fact[float]:
        return self._number(float, unit, *paths)

    def total(self, *paths: str) -> Fact[int]:
        """Sum the numbers at those of the paths that have one."""
        counts = [self.whole(None, path) for path in paths]
        known = [count.value for count in counts if isinstance(count, Known)]
        return Known(sum(known), source=self.source) if known else self.whole(None, *paths)

    def size(self, *paths: str) -> Fact[int]:
        """Read a size in bytes; nvidia-smi writes "143771 MiB"."""
        fact = self.text(*paths)
        if isinstance(fact, Unknown):
            return fact
        try:
            return Known(parse_bytes(fact.value), source=self.source, unit="B")
        except ValueError:
            return Unknown(text('nvidia-smi reports "{value}"', value=fact.value))

    def flag(self, *paths: str) -> Fact[bool]:
        fact = self.text(*paths)
        if isinstance(fact, Unknown):
            return fact
        if fact.value.lower() not in (*_YES, *_NO):
            return Unknown(text('nvidia-smi reports "{value}"', value=fact.value))
        return Known(fact.value.lower() in _YES, source=self.source)

    def kebab(self, *paths: str) -> Fact[str]:
        """Read "Exclusive_Process" as "exclusive-process", and "In Progress" as "in-progress"."""
        fact = self.text(*paths)
        if isinstance(fact, Unknown):
            return fact
        return Known(re.sub(r"[\s_]+", "-", fact.value).lower(), source=self.source)

    def _number(self, kind: Callable[[str], N], unit: str | None, *paths: str) -> Fact[N]:
        fact = self.text(*paths)
        if isinstance(fact, Unknown):
            return fact
        match = _NUMBER.match(fact.value)
        try:
            return Known(kind(match.group(1) if match else fact.value), source=self.source, unit=unit)
        except ValueError:
            return Unknown(text('nvidia-smi reports "{value}"', value=fact.value))

    def _find(self, path: str) -> Element | None:
        """Find the element at the path, or the one above it if that says "N/A" and has no children."""
        element = self.element
        for tag in path.split("/"):
            below = element.find(tag)
            if below is None:
                return element if element is not self.element and len(element) == 0 else None
            element = below
        return element


def _text(element: Element) -> str:
    return (element.text or "").strip()


def _plain(value: str) -> str:
    return value.strip("[]").lower()


def read_card(element: Element, index: int, source: str) -> Card:
    """Read a <gpu> element as a card."""
    read = Reader(element, source)
    name = element.get("id")
    return Card(
        vendor="nvidia",
        index=index,
        name=read.text("product_name"),
        uuid=read.text("uuid"),
        bus_id=Known(name, source=source) if name else read.text("pci/pci_bus_id"),
        architecture=read.text("product_architecture"),
        compute_capability=Unknown(text("nvidia-smi -q -x does not report it")),
        memory_total=read.size("fb_memory_usage/total", "memory_usage/total"),
        memory_used=read.size("fb_memory_usage/used", "memory_usage/used"),
        utilisation=read.whole("%", "utilization/gpu_util"),
        # Drivers since 535 also report the module that the card sits on (Grace Hopper); those figures are not used.
        power_draw=read.decimal(
            "W",
            "gpu_power_readings/power_draw",
            "gpu_power_readings/average_power_draw",
            "gpu_power_readings/instant_power_draw",
            "power_readings/power_draw",
        ),
        power_limit=read.decimal(
            "W",
            "gpu_power_readings/current_power_limit",
            "gpu_power_readings/requested_power_limit",
            "power_readings/enforced_power_limit",
            "power_readings/power_limit",
        ),
        temperature=read.whole("°C", "temperature/gpu_temp"),
        clocks=_read_clocks(read),
        throttle_reasons=_read_throttle_reasons(read),
        pcie=_read_pcie(read),
        ecc=_read_ecc(read),
        mig=read.flag("mig_mode/current_mig"),
        mig_instances=_read_mig_instances(read),
        persistence=read.flag("persistence_mode"),
        compute_mode=read.kebab("compute_mode"),
        driver_model=read.text("driver_model/current_dm"),
        fabric=read.kebab("fabric/state"),
        health=_read_health(read),
        processes=_read_processes(read),
    )


def _read_clocks(read: Reader) -> Clocks:
    return Clocks(
        sm=read.whole("MHz", "clocks/sm_clock"),
        sm_max=read.whole("MHz", "max_clocks/sm_clock"),
        memory=read.whole("MHz", "clocks/mem_clock"),
        memory_max=read.whole("MHz", "max_clocks/mem_clock"),
    )


def _read_pcie(read: Reader) -> Pcie:
    link = "pci/pci_gpu_link_info"
    return Pcie(
        generation=read.whole(None, f"{link}/pcie_gen/current_link_gen"),
        generation_max=read.whole(None, f"{link}/pcie_gen/max_link_gen"),
        width=read.whole(None, f"{link}/link_widths/current_link_width"),
        width_max=read.whole(None, f"{link}/link_widths/max_link_width"),
    )


def _read_throttle_reasons(read: Reader) -> Fact[tuple[str, ...]]:
    for kind in ("event", "throttle"):  # renamed in driver 535
        reasons = read.element.find(f"clocks_{kind}_reasons")
        if reasons is None:
            continue
        if len(reasons) == 0:
            return Unknown(text('nvidia-smi reports "{value}"', value=_text(reasons)))
        prefix = f"clocks_{kind}_reason_"
        active = [each.tag.removeprefix(prefix) for each in reasons if _text(each) == "Active"]
        return Known(
            tuple(_THROTTLE_NAMES.get(name, name.replace("_", "-")) for name in active),
            source=read.source,
        )
    return Unknown(text("this output of nvidia-smi has no clocks_event_reasons"))


def _read_ecc(read: Reader) -> Ecc:
    # Three layouts: single_bit and double_bit until Volta; then by memory; since driver 560, SRAM's uncorrectable errors
    # by how they were detected.
    volatile = "ecc_errors/volatile"
    return Ecc(
        enabled=read.flag("ecc_mode/current_ecc"),
        corrected=read.total(
            f"{volatile}/single_bit/total",
            f"{volatile}/sram_correctable",
            f"{volatile}/dram_correctable",
        ),
        uncorrected=read.total(
            f"{volatile}/double_bit/total",
            f"{volatile}/sram_uncorrectable",
            f"{volatile}/sram_uncorrectable_parity",
            f"{volatile}/sram_uncorrectable_secded",
            f"{volatile}/dram_uncorrectable",
        ),
        # Cards before Ampere retire pages instead of remapping rows.
        remap_pending=read.flag(
            "remapped_rows/remapped_row_pending",
            "retired_pages/pending_retirement",
            "retired_pages/pending_blacklist",
        ),
        remap_failed=read.flag("remapped_rows/remapped_row_failure"),
    )


def _read_mig_instances(read: Reader) -> Fact[tuple[MigInstance, ...]]:
    devices = read.element.find("mig_devices")
    if devices is None:
        return Unknown(text("this output of nvidia-smi has no mig_devices"))
    card = _text(uuid) if (uuid := read.element.find("uuid")) is not None else "GPU"
    return Known(tuple(_read_mig_instance(Reader(each, read.source), card) for each in devices), source=read.source)


def _read_mig_instance(read: Reader, card: str) -> MigInstance:
    """Most drivers leave the UUID of an instance out of the XML; it is then named as drivers before 470 did."""
    numbers = (read.text("gpu_instance_id"), read.text("compute_instance_id"))
    parts = "/".join(number.value if isinstance(number, Known) else "?" for number in numbers)
    uuid = read.text("uuid")
    return MigInstance(
        uuid=uuid.value if isinstance(uuid, Known) else f"MIG-{card}/{parts}",
        profile=Unknown(text("nvidia-smi -q -x does not report it; nvidia-smi -L does")),
        memory_total=read.size("fb_memory_usage/total"),
        memory_used=read.size("fb_memory_usage/used"),
    )


def _read_health(read: Reader) -> Fact[str]:
    """Return "OK", or what is reported in place of values that every working card has."""
    for each in read.element.iter():
        if _plain(_text(each)) in _DEAD:
            return Known(_text(each).strip("[]"), source=read.source)
    for path in _BASIC:
        element = read.element.find(path)
        if element is not None and _plain(_text(element)) in _FAULTY:
            return Known(_text(element).strip("[]"), source=read.source)
    if read.flag("gpu_reset_status/reset_required") == Known(True, source=read.source):
        return Known("GPU requires reset", source=read.source)
    action = read.text("gpu_recovery_action")
    if isinstance(action, Known):
        return Known(f"recovery action: {action.value}", source=read.source)
    if isinstance(read.size("fb_memory_usage/total"), Unknown):
        return Unknown(text("the output has too little about this card"))
    return Known("OK", source=read.source)


def _read_processes(read: Reader) -> Fact[tuple[CardProcess, ...]]:
    listed = read.element.find("processes")
    if listed is None:
        return Unknown(text("this output of nvidia-smi has no processes"))
    if len(listed) == 0 and _text(listed):
        return Unknown(text('nvidia-smi reports "{value}"', value=_text(listed)))
    processes = (_read_process(Reader(each, read.source)) for each in listed.findall("process_info"))
    return Known(tuple(process for process in processes if process is not None), source=read.source)


def _read_process(read: Reader) -> CardProcess | None:
    pid = read.whole(None, "pid")
    if isinstance(pid, Unknown):
        return None  # redacted by the user who pasted it
    kind = read.text("type")
    command = read.text("process_name")
    if isinstance(command, Known):
        command = Known(short_command([command.value]), source=read.source)
    return CardProcess(
        pid=pid.value,
        # C, G, C+G, M+C: a process that computes and draws counts as compute
        kind="graphics" if isinstance(kind, Known) and kind.value == "G" else "compute",
        memory=read.size("used_memory"),
        command=command,
    )


SOURCE = "nvidia-smi -q -x"
_START = "<nvidia_smi_log"
_END = "</nvidia_smi_log>"


def parse(content: str, source: str = SOURCE) -> tuple[Nvidia, tuple[Card, ...]]:
    """Parse the driver and the cards. Of truncated XML, the complete part is read, and `Nvidia.smi` has the reason.

    Raises NotRecognised if this is not nvidia-smi's XML, and InputError if it declares entities.
    """
    start = content.find(_START)
    if start < 0:
        raise NotRecognised(text("This text has no <nvidia_smi_log>."))
    # Ten lines of nested entities can fill the memory, and nvidia-smi declares none. The parser does not even get what
    # comes before the root, such as the DOCTYPE.
    if "<!ENTITY" in content[:start]:
        raise InputError(text("The XML declares entities, which nvidia-smi never does; ownlab does not read it."))
    end = content.find(_END, start)
    log, error = _read_log(content[start : end + len(_END)] if end >= 0 else content[start:])
    reader = Reader(log, source)
    # Since driver 610, the old names carry a note, "610.62 [Deprecated; …]", or are gone.
    driver = _version(reader.text("kmd_version", "driver_version"))
    cards = tuple(read_card(element, index, source) for index, element in enumerate(log.findall("gpu")))
    smi: Fact[str] = driver  # nvidia-smi comes with the driver and works with no other
    if error is not None:
        smi = Unknown(
            plural(
                len(cards),
                "the XML is cut or damaged ({error}); one card before that point was read",
                "the XML is cut or damaged ({error}); {n} cards before that point were read",
                error=error,
            )
        )
    return Nvidia(driver=driver, cuda=_version(reader.text("cuda_umd_version", "cuda_version")), smi=smi), cards


def _read_log(xml: str) -> tuple[Element, str | None]:
    """Parse the tree without the element in which the text ends, and return the error if it is truncated."""
    parser: XMLPullParser[Element] = XMLPullParser(events=("start", "end"))
    parser.feed(xml)
    open_elements: list[Element] = []
    root: Element | None = None
    try:
        # A cast, because typeshed also lists events that were not requested.
        for event, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
            if event == "end":
                open_elements.pop()
                continue
            root = element if root is None else root
            open_elements.append(element)
        parser.close()
    except ParseError as exc:
        if root is None:
            raise NotRecognised(text("The XML cannot be read: {error}.", error=exc)) from exc
        _drop_broken(open_elements)
        return root, str(exc)
    if root is None:
        raise NotRecognised(text("The XML is empty."))
    return root, None


def _drop_broken(open_elements: list[Element]) -> None:
    """Drop the incomplete element below the card: half a list would look like a complete one."""
    depth = 1 if open_elements[1:2] and open_elements[1].tag == "gpu" else 0
    if len(open_elements) > depth + 1:
        open_elements[depth].remove(open_elements[depth + 1])


def _version(fact: Fact[str]) -> Fact[str]:
    if isinstance(fact, Unknown):
        return fact
    match = re.match(r"\d+\.\d+(?:\.\d+)?", fact.value)
    if match is None:
        return Unknown(text('nvidia-smi reports "{value}"', value=fact.value[:100]))
    return Known(match.group(), source=fact.source)
