"""Rebuilds another machine from what its owner pasted: reports of any kind, in any order, and error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ownlab.errors import NotRecognised
from ownlab.instruments.doctor.diagnose import case_of
from ownlab.instruments.doctor.paste import (
    collect_env,
    gpu_list,
    lscpu,
    packages,
    saved,
    smi_csv,
    smi_query,
    smi_table,
    toolkit,
    vendors,
)
from ownlab.instruments.doctor.paste.clean import clean
from ownlab.instruments.doctor.paste.files import decode, read_file
from ownlab.instruments.doctor.paste.merge import merge
from ownlab.instruments.doctor.paste.messages import Heard, hear
from ownlab.instruments.doctor.paste.missing import missing_from
from ownlab.instruments.doctor.paste.said import cards_named, read_said
from ownlab.instruments.doctor.paste.sections import Kind, Section, split
from ownlab.instruments.doctor.paste.variables import environment_of
from ownlab.instruments.doctor.records import Case, Message
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Host, Machine, Nvidia

__all__ = ["merge", "read_file", "read_paste"]

# In the order of trust: where two reports know the same thing, the one that stands first here is believed.
_KINDS: tuple[Kind, ...] = (
    *saved.KINDS,
    vendors.XML_KIND,
    smi_query.KIND,
    smi_query.VERSION_KIND,
    *smi_csv.KINDS,
    smi_table.KIND,
    *gpu_list.KINDS,
    *vendors.OTHERS,
    *toolkit.KINDS,
    collect_env.KIND,
    lscpu.KIND,
    *packages.KINDS,
)
_UNDERSTOOD = (
    "Understood are: a saved machine (ownlab machine --save FILE), `python -m torch.utils.collect_env`, `nvidia-smi` (plain, "
    "-q, -q -x, -L, CSV), `npu-smi info`, `amd-smi`, `rocm-smi`, `rocminfo`, `nvcc --version`, `lspci -k`, `dmesg`, `pip list`, "
    "and error messages or tracebacks."
)
_ERRORS_INSIDE = re.compile(r"\s*(?:ERROR|WARNING)\b")


def read_paste(data: bytes | str, *, name: str = "pasted text") -> Case:
    """The case of a pasted text. Raises NotRecognised, RecordError or InputError where nothing can be made of it."""
    text = decode(data, name)
    if not text.strip():
        raise NotRecognised(f"{name} is empty", hint=_UNDERSTOOD)
    machine = saved.read_whole(text, name) if text.rstrip().endswith("}") else None
    if machine is not None:
        return msgspec.structs.replace(case_of(machine), recognised=("saved machine",))
    lines = clean(text)
    found, left = split(lines.bare, _KINDS)
    parts, recognised, unread = _read_sections(found)
    blocks = [lines.shown[start:end] for start, end in left] + unread
    heard = hear(blocks)
    said = read_said([line for block in blocks for line in block])
    parts += [part for part in (_heard_machine(heard), said) if part is not None]
    recognised += _kinds_of_words(heard)
    if recognised and lines.left_out:
        recognised[-1] += f" ({lines.left_out:,} lines in the middle are left out)"
    if not recognised and said is None and not heard.telling:
        raise NotRecognised(f"nothing in {name} looks like a report or an error that ownlab knows", hint=_UNDERSTOOD)
    return _case(parts, recognised or ["words about accelerators"], heard, blocks)


def _read_sections(sections: Sequence[Section]) -> tuple[list[Machine], list[str], list[list[str]]]:
    """The machines of the reports, in the order of trust; what was recognised; and the lines that no reader could read."""
    parts: list[tuple[int, Machine]] = []
    recognised: list[str] = []
    unread: list[list[str]] = []
    used: dict[int, int] = {}
    for rank, lines in _reports(sections):
        kind = _KINDS[rank]
        if kind.several == "first" and used.get(rank):
            used[rank] += 1
            continue
        machine = kind.read(lines)
        if machine is None:
            unread.append(lines)
            continue
        used[rank] = 1
        parts.append((rank, machine))
        recognised.append(kind.name)
        unread.append([line for line in lines if _ERRORS_INSIDE.match(line)])
    more = {_KINDS[rank].name: count for rank, count in used.items() if count > 1}
    named = [f"{name} (the first of {more[name]:,})" if name in more else name for name in dict.fromkeys(recognised)]
    return [machine for _, machine in sorted(parts, key=lambda part: part[0])], named, unread


def _reports(sections: Sequence[Section]) -> list[tuple[int, list[str]]]:
    """Sections by the rank of their kind; the pieces of one report are put together again."""
    reports: list[tuple[int, list[str]]] = []
    begun: dict[int, list[str]] = {}
    for kind, lines in sections:
        rank = _KINDS.index(kind)
        if kind.several == "pieces" and rank in begun:
            if any(re.match(kind.again, line) for line in lines) and any(
                re.match(kind.again, line) for line in begun[rank]
            ):
                continue  # a second report: of another moment, or another machine
            begun[rank] += ["", *lines]
            continue
        report = list(lines)
        begun[rank] = report
        reports.append((rank, report))
    return reports


def _heard_machine(heard: Heard) -> Machine | None:
    if not heard.kernel_log and heard.smi_failure is None:
        return None
    machine = Machine(origin="pasted")
    if heard.kernel_log:
        machine = msgspec.structs.replace(machine, host=Host(kernel_log=Known(heard.kernel_log, "pasted kernel log")))
    if heard.smi_failure is not None:
        machine = msgspec.structs.replace(machine, nvidia=Nvidia(smi=Unknown(heard.smi_failure)))
        if heard.smi_failure.startswith("No devices were found"):
            machine = msgspec.structs.replace(machine, cards=Known((), "pasted nvidia-smi"))
    return machine


def _kinds_of_words(heard: Heard) -> list[str]:
    kinds = []
    if heard.smi_failure is not None:
        kinds.append("failure of nvidia-smi")
    if heard.kernel_log:
        kinds.append("kernel log")
    if heard.errors:
        kinds.append("error text")
    if kinds and heard.cut:
        kinds[-1] += f" ({heard.cut})"
    return kinds


def _case(parts: Sequence[Machine], recognised: Sequence[str], heard: Heard, blocks: Sequence[Sequence[str]]) -> Case:
    machine = Machine(origin="pasted")
    if parts:
        machine = parts[0]
        for part in parts[1:]:
            machine = merge(machine, part)
    messages: tuple[Message, ...] = heard.messages
    if machine.origin != "pasted":
        messages += tuple(message for message in case_of(machine).messages if message not in messages)
        return Case(machine, messages, tuple(recognised))
    if not isinstance(machine.cards, Known):
        named = cards_named([line for block in blocks for line in block])
        if named:
            machine = msgspec.structs.replace(machine, cards=Known(named, "pasted warning of torch"))
    variables = {variable.name: variable.value for variable in value_of(machine.environment) or ()}
    if variables:
        # Once more, since now the cards are known that CUDA_VISIBLE_DEVICES speaks of.
        machine = msgspec.structs.replace(machine, environment=environment_of(variables, value_of(machine.cards) or ()))
    missing = missing_from(machine, messages, smi_failed=heard.smi_failure is not None)
    return Case(machine, messages, tuple(recognised), missing)
