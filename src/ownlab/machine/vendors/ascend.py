"""Huawei Ascend NPUs: `npu-smi info` as records, the driver's and CANN's versions from their files."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ownlab.errors import DeadlineError
from ownlab.machine.facts import NOT_READ, Fact, Known, Unknown
from ownlab.machine.files import Tree
from ownlab.machine.records import Ascend, Card, CardProcess
from ownlab.processes import runner
from ownlab.units import MIB

__all__ = ["parse_npu_smi", "read_ascend"]

_SMI_FOLDERS = ("/usr/local/bin", "/usr/local/sbin", "/usr/bin")
_DRIVER = "/usr/local/Ascend/driver"
_TOOLKITS = (
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/nnrt/latest",
)
_SMI_SECONDS = 10.0
_BUS_ID = re.compile(r"[0-9A-Fa-f]{4}:\w{2}:\w{2}\.\w")


def read_ascend(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> tuple[Ascend, tuple[Card, ...]]:
    """The NPUs of this machine. Only where the driver left a trace is `npu-smi` run."""
    tree = Tree(root)
    devices = tree.names("/dev", r"davinci\d+")
    tool = _find_smi(tree, environ)
    driver, cann = _driver(tree), _cann(tree, environ)
    if not devices and tool is None:
        return Ascend(driver=driver, smi=Unknown("npu-smi is not installed"), cann=cann), ()
    said = _ask_smi(tool, tree, environ)
    if isinstance(said, Known):
        smi, cards = parse_npu_smi(said.value, source=said.source)
        if cards:
            # The driver's own file tells its version more surely than the head of a table.
            return Ascend(driver=driver if isinstance(driver, Known) else smi.driver, smi=smi.smi, cann=cann), cards
        said = Unknown(f"npu-smi info lists no NPU: {said.value.strip()[:300]}")
    unread = tuple(
        Card("huawei", index, name=said, health=said, architecture=_DA_VINCI) for index, _ in enumerate(devices)
    )
    return Ascend(driver=driver, smi=said, cann=cann), unread


_DA_VINCI: Fact[str] = Known("Da Vinci", source="every Ascend NPU is of this architecture")


def _find_smi(tree: Tree, environ: Mapping[str, str]) -> str | None:
    folders = (*environ.get("PATH", "").split(os.pathsep), *_SMI_FOLDERS)
    return shutil.which("npu-smi", path=os.pathsep.join(str(tree.at(folder)) for folder in folders if folder))


def _ask_smi(tool: str | None, tree: Tree, environ: Mapping[str, str]) -> Fact[str]:
    if tool is None:
        return Unknown("npu-smi is not installed")
    # In containers the driver's libraries are mounted, and the path to them is often not set.
    libraries = [str(tree.at(f"{_DRIVER}/lib64{part}")) for part in ("", "/common", "/driver")]
    path = os.pathsep.join(filter(None, [environ.get("LD_LIBRARY_PATH", ""), *libraries]))
    try:
        ran = runner.run([tool, "info"], deadline=_SMI_SECONDS, env={**environ, "LD_LIBRARY_PATH": path})
    except (runner.ToolMissing, DeadlineError) as exc:
        return Unknown(exc.message)
    if ran.returncode:
        return Unknown(f"npu-smi info {runner.describe_exit(ran.returncode)}: {ran.output[:300]}")
    return Known(ran.stdout, source="npu-smi info")


def _driver(tree: Tree) -> Fact[str]:
    path = f"{_DRIVER}/version.info"
    fact = tree.text(path)
    if isinstance(fact, Unknown):
        return fact
    version = re.search(r"^Version=(\S+)", fact.value, re.MULTILINE)
    return Known(version.group(1), source=path) if version else Unknown(f"{path} names no version")


def _cann(tree: Tree, environ: Mapping[str, str]) -> Fact[str]:
    named = [environ[name] for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH") if environ.get(name)]
    for folder in (*named, *_TOOLKITS):
        files = [
            f"{folder}/{machine}/{name}"
            for machine in tree.names(folder, r"\w+-linux")
            for name in tree.names(f"{folder}/{machine}", r"ascend_\w+_install\.info")
        ]
        for path in (*files, f"{folder}/version.cfg", f"{folder}/version.info"):
            # version=8.1.RC1 in the first; toolkit_running_version=[7.6.0.1.220:8.0.0] in version.cfg
            text = tree.word(path)
            version = re.search(r"^(?:version=|toolkit_running_version=\[(?:[^:\]]*:)?)([\w.]+)", text, re.M | re.I)
            if version:
                return Known(version.group(1), source=path)
    return Unknown("CANN is not installed in its usual folder, /usr/local/Ascend")


# --- npu-smi info -----------------------------------------------------------------------------------------------------


def parse_npu_smi(text: str, *, source: str = "npu-smi info") -> tuple[Ascend, tuple[Card, ...]]:
    """The table of `npu-smi info`, in the layouts of 310, 310P, 910, 910B, 910_93 (two chips a card) and 950.

    Each chip is a card of its own, as in torch_npu, and is numbered in the order of the table.
    """
    head = re.search(r"npu-smi\s+([\w.]+)\s+Version:\s*([\w.]+)", text)
    ascend = Ascend(
        driver=Known(head.group(2), source=source) if head else NOT_READ,
        smi=Known(head.group(1), source=source) if head else NOT_READ,
    )
    chips: list[tuple[tuple[str, str], Card]] = []
    processes: dict[tuple[str, str], list[CardProcess]] = {}
    first: list[str] | None = None
    for cells in _rows(text):
        if _is_process(cells):
            process = _process(cells, source)
            if process is not None:
                npu, chip = [*cells[0].split(), "0"][:2]
                processes.setdefault((npu, chip), []).append(process)
        elif first is not None and (_BUS_ID.search(cells[1]) or cells[1] in ("NA", "N/A")):
            chips.append(_chip(len(chips), first, cells, source))
            first = None
        elif len(cells) == 3 and re.match(r"\d+\s+\S", cells[0]) and re.fullmatch(r"[A-Za-z/]+", cells[1]):
            if first is not None:  # its second line is missing
                chips.append(_chip(len(chips), first, None, source))
            first = cells
    if first is not None:
        chips.append(_chip(len(chips), first, None, source))
    idle = set(re.findall(r"No running processes found in NPU (\d+)", text))
    return ascend, tuple(
        msgspec.structs.replace(card, processes=_listed(key, processes, idle, source)) for key, card in chips
    )


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        start = line.find("|")
        if start < 0 or "Process id" in line or "Health" in line or "Bus-Id" in line:
            continue
        cells = [cell.strip() for cell in line[start:].strip().strip("|").split("|")]
        if len(cells) == 4 and not _is_process(cells):  # the 950 has number and name in cells of their own
            cells[:2] = [f"{cells[0]} {cells[1]}".strip()]
        if len(cells) >= 3:
            yield cells


def _is_process(cells: list[str]) -> bool:
    return len(cells) >= 4 and all(re.fullmatch(r"\d+|NA", cell) for cell in (cells[1], cells[3]))


def _process(cells: list[str], source: str) -> CardProcess | None:
    if not cells[1].isdigit():  # NA: no process on this NPU
        return None
    name = cells[2]
    return CardProcess(
        pid=int(cells[1]),
        kind="compute",
        memory=Known(int(cells[3]) * MIB, source=source, unit="B")
        if cells[3].isdigit()
        else Unknown("npu-smi says NA"),
        command=Known(name, source=source) if name else Unknown("npu-smi shows no name: another container's process"),
    )


def _listed(
    key: tuple[str, str], processes: Mapping[tuple[str, str], list[CardProcess]], idle: set[str], source: str
) -> Fact[tuple[CardProcess, ...]]:
    npus = {npu for npu, _ in processes}
    if key in processes or key[0] in idle or key[0] in npus:
        return Known(tuple(processes.get(key, ())), source=source)
    return Unknown("the table of processes is not in this text")


def _chip(index: int, first: list[str], second: list[str] | None, source: str) -> tuple[tuple[str, str], Card]:
    npu, name = first[0].split(None, 1)
    power, temperature = [*first[2].split(), "", ""][:2]
    chip, bus_id, usage = (second[0].split() or ["0"], second[1], second[2]) if second else (["0"], "", "")
    pairs = [(int(used), int(total)) for used, total in re.findall(r"(\d+)\s*/\s*(\d+)", usage)]
    # Of the pairs (memory, HBM) the last that has any is where tensors lie: the 910 has HBM, the 310 only memory.
    memory = next((pair for pair in reversed(pairs) if pair[1]), None)
    no_memory = Unknown("npu-smi shows no memory for this chip")
    use = usage.split(None, 1)[0] if usage else ""
    card = Card(
        vendor="huawei",
        index=index,
        name=Known("Ascend " + name.removeprefix("Ascend").strip(), source=source),
        bus_id=Known(bus_id.lower(), source=source) if _BUS_ID.search(bus_id) else Unknown("npu-smi shows no bus id"),
        architecture=_DA_VINCI,
        memory_used=Known(memory[0] * MIB, source=source, unit="B") if memory else no_memory,
        memory_total=Known(memory[1] * MIB, source=source, unit="B") if memory else no_memory,
        utilisation=Known(int(use), source=source, unit="%") if use.isdigit() else Unknown(f"npu-smi says {use!r}"),
        # Of a card's two chips only the first shows the power, of the whole card; some cards show none.
        power_draw=Known(float(power), source=source, unit="W")
        if re.fullmatch(r"\d+(\.\d+)?", power)
        else Unknown(f"npu-smi says {power!r}"),
        temperature=Known(int(temperature), source=source, unit="°C")
        if temperature.isdigit()
        else Unknown(f"npu-smi says {temperature!r}"),
        health=Known(first[1], source=source),
    )
    return (npu, chip[0]), card
