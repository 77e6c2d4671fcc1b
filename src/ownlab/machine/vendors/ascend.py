"""Huawei Ascend NPUs: cards from `npu-smi info`, the versions of the driver and of CANN from their files."""

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
from ownlab.text import text
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
    """Read the NPUs of this machine. `npu-smi` runs only if there is a sign of the driver."""
    tree = Tree(root)
    devices = tree.names("/dev", r"davinci\d+")
    tool = _find_smi(tree, environ)
    driver, cann = _driver(tree), _cann(tree, environ)
    if not devices and tool is None:
        return Ascend(driver=driver, smi=Unknown(text("npu-smi is not installed")), cann=cann), ()
    output = _run_smi(tool, tree, environ)
    if isinstance(output, Known):
        smi, cards = parse_npu_smi(output.value, source=output.source)
        if cards:
            # The driver's own file is a better source of its version than the heading of a table.
            return Ascend(driver=driver if isinstance(driver, Known) else smi.driver, smi=smi.smi, cann=cann), cards
        output = Unknown(text("npu-smi info lists no NPU: {output}", output=output.value.strip()[:300]))
    unread = tuple(
        Card("huawei", index, name=output, health=output, architecture=_DA_VINCI) for index, _ in enumerate(devices)
    )
    return Ascend(driver=driver, smi=output, cann=cann), unread


_DA_VINCI: Fact[str] = Known("Da Vinci", source=text("every Ascend NPU is of this architecture"))


def _find_smi(tree: Tree, environ: Mapping[str, str]) -> str | None:
    folders = (*environ.get("PATH", "").split(os.pathsep), *_SMI_FOLDERS)
    return shutil.which("npu-smi", path=os.pathsep.join(str(tree.at(folder)) for folder in folders if folder))


def _run_smi(tool: str | None, tree: Tree, environ: Mapping[str, str]) -> Fact[str]:
    if tool is None:
        return Unknown(text("npu-smi is not installed"))
    # Containers mount the driver's libraries, but often do not set the path to them.
    libraries = [str(tree.at(f"{_DRIVER}/lib64{part}")) for part in ("", "/common", "/driver")]
    path = os.pathsep.join(filter(None, [environ.get("LD_LIBRARY_PATH", ""), *libraries]))
    try:
        ran = runner.run([tool, "info"], deadline=_SMI_SECONDS, env={**environ, "LD_LIBRARY_PATH": path})
    except (runner.ToolMissing, DeadlineError) as exc:
        return Unknown(exc.message)
    if ran.returncode:
        return Unknown(
            text(
                "npu-smi info {ending}: {output}", ending=runner.describe_exit(ran.returncode), output=ran.output[:300]
            )
        )
    return Known(ran.stdout, source="npu-smi info")


def _driver(tree: Tree) -> Fact[str]:
    path = f"{_DRIVER}/version.info"
    fact = tree.text(path)
    if isinstance(fact, Unknown):
        return fact
    version = re.search(r"^Version=(\S+)", fact.value, re.MULTILINE)
    return Known(version.group(1), source=path) if version else Unknown(text("{path} has no version", path=path))


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
            content = tree.word(path)
            version = re.search(r"^(?:version=|toolkit_running_version=\[(?:[^:\]]*:)?)([\w.]+)", content, re.M | re.I)
            if version:
                return Known(version.group(1), source=path)
    return Unknown(text("CANN is not installed in its usual folder, /usr/local/Ascend"))


# --- npu-smi info -----------------------------------------------------------------------------------------------------


def parse_npu_smi(content: str, *, source: str = "npu-smi info") -> tuple[Ascend, tuple[Card, ...]]:
    """Parse the table of `npu-smi info`, in the layouts of 310, 310P, 910, 910B, 910_93 (two chips per card) and 950.

    Each chip is one card, as in torch_npu, and is numbered in the order of the table.
    """
    head = re.search(r"npu-smi\s+([\w.]+)\s+Version:\s*([\w.]+)", content)
    ascend = Ascend(
        driver=Known(head.group(2), source=source) if head else NOT_READ,
        smi=Known(head.group(1), source=source) if head else NOT_READ,
    )
    chips: list[tuple[tuple[str, str], Card]] = []
    processes: dict[tuple[str, str], list[CardProcess]] = {}
    first: list[str] | None = None
    for cells in _rows(content):
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
    idle = set(re.findall(r"No running processes found in NPU (\d+)", content))
    return ascend, tuple(
        msgspec.structs.replace(card, processes=_listed(key, processes, idle, source)) for key, card in chips
    )


def _rows(content: str) -> Iterator[list[str]]:
    for line in content.splitlines():
        start = line.find("|")
        if start < 0 or "Process id" in line or "Health" in line or "Bus-Id" in line:
            continue
        cells = [cell.strip() for cell in line[start:].strip().strip("|").split("|")]
        if len(cells) == 4 and not _is_process(cells):  # the 950 has separate cells for number and name
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
        else Unknown(text("npu-smi reports NA")),
        command=Known(name, source=source)
        if name
        else Unknown(text("npu-smi shows no name; the process belongs to another container")),
    )


def _listed(
    key: tuple[str, str], processes: Mapping[tuple[str, str], list[CardProcess]], idle: set[str], source: str
) -> Fact[tuple[CardProcess, ...]]:
    npus = {npu for npu, _ in processes}
    if key in processes or key[0] in idle or key[0] in npus:
        return Known(tuple(processes.get(key, ())), source=source)
    return Unknown(text("this text has no table of processes"))


def _chip(index: int, first: list[str], second: list[str] | None, source: str) -> tuple[tuple[str, str], Card]:
    npu, name = first[0].split(None, 1)
    power, temperature = [*first[2].split(), "", ""][:2]
    chip, bus_id, usage = (second[0].split() or ["0"], second[1], second[2]) if second else (["0"], "", "")
    pairs = [(int(used), int(total)) for used, total in re.findall(r"(\d+)\s*/\s*(\d+)", usage)]
    # Of the pairs (memory, HBM), the last one that is not zero holds the tensors: the 910 has HBM, the 310 only memory.
    memory = next((pair for pair in reversed(pairs) if pair[1]), None)
    no_memory = Unknown(text("npu-smi shows no memory for this chip"))
    use = usage.split(None, 1)[0] if usage else ""
    card = Card(
        vendor="huawei",
        index=index,
        name=Known("Ascend " + name.removeprefix("Ascend").strip(), source=source),
        bus_id=Known(bus_id.lower(), source=source)
        if _BUS_ID.search(bus_id)
        else Unknown(text("npu-smi shows no bus ID")),
        architecture=_DA_VINCI,
        memory_used=Known(memory[0] * MIB, source=source, unit="B") if memory else no_memory,
        memory_total=Known(memory[1] * MIB, source=source, unit="B") if memory else no_memory,
        utilisation=Known(int(use), source=source, unit="%")
        if use.isdigit()
        else Unknown(text("npu-smi reports {value!r}", value=use)),
        # Of a card's two chips, only the first shows the power, that of the whole card; some cards show none.
        power_draw=Known(float(power), source=source, unit="W")
        if re.fullmatch(r"\d+(\.\d+)?", power)
        else Unknown(text("npu-smi reports {value!r}", value=power)),
        temperature=Known(int(temperature), source=source, unit="°C")
        if temperature.isdigit()
        else Unknown(text("npu-smi reports {value!r}", value=temperature)),
        health=Known(first[1], source=source),
    )
    return (npu, chip[0]), card
