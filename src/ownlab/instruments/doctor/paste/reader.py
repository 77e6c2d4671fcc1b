"""Rebuilds another machine from what its owner pasted: reports of any kind, in any order, and error messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from ownlab.errors import NotRecognised
from ownlab.instruments.doctor.diagnosis import case_of
from ownlab.instruments.doctor.paste import json_documents
from ownlab.instruments.doctor.paste.facts_in_prose import cards_in_prose, cards_named, environment_of, read_said
from ownlab.instruments.doctor.paste.line_wraps import unwrap
from ownlab.instruments.doctor.paste.merge import merge
from ownlab.instruments.doctor.paste.messages import Block, Heard, hear
from ownlab.instruments.doctor.paste.reports import KINDS, Reports, read_reports
from ownlab.instruments.doctor.paste.sections import split
from ownlab.instruments.doctor.records import Case, Message
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Host, Machine, Nvidia
from ownlab.paste import clean, decode, read_file

__all__ = ["merge", "missing_from", "read_file", "read_paste"]

_UNDERSTOOD = (
    "Understood are: a saved machine (ownlab machine --save FILE), `python -m torch.utils.collect_env`, `nvidia-smi` (plain, "
    "-q, -q -x, -L, CSV), `npu-smi info`, `amd-smi`, `rocm-smi`, `rocminfo`, `nvcc --version`, `lspci -k`, `dmesg`, `pip list`, "
    "and error messages or tracebacks."
)
_NO_DRIVER = re.compile(
    r"found no nvidia driver|libcuda\.so\S*: cannot open|no cuda-capable device|not find cuda drivers|\bnouveau\b|"
    r"driver (?:is |was )?not (?:installed|loaded|detected|found)",
    re.IGNORECASE,
)


def read_paste(data: bytes | str, *, name: str = "pasted text") -> Case:
    """The case of a pasted text. Raises NotRecognised, RecordError or InputError where nothing can be made of it."""
    text = decode(data, name)
    if not text.strip():
        raise NotRecognised(f"{name} is empty", hint=_UNDERSTOOD)
    machine = json_documents.read_whole(text, name) if text.rstrip().endswith("}") else None
    if machine is not None:
        return msgspec.structs.replace(case_of(machine), recognised=("saved machine",))
    lines = clean(text)
    sections, left = split(lines.bare, KINDS)
    reports = read_reports(sections)
    blocks = _blocks(lines.shown, left, reports)
    heard = hear(blocks, smi_worked=reports.smi_worked)
    said = read_said([line for block in blocks for line in block.lines])
    parts = reports.machines + [part for part in (_heard_machine(heard), said) if part is not None]
    recognised = reports.recognised + _kinds_of_words(heard)
    if recognised and lines.left_out:
        recognised[-1] += f" ({lines.left_out:,} lines in the middle are left out)"
    if not recognised and said is None and not heard.telling:
        raise NotRecognised(f"nothing in {name} looks like a report or an error that ownlab knows", hint=_UNDERSTOOD)
    return _case(parts, recognised or ["words about accelerators"], heard, blocks)


def _blocks(lines: Sequence[str], left: Sequence[tuple[int, int]], reports: Reports) -> list[Block]:
    """What belongs to no report, up to where another machine's report begins: from there on, errors may be that one's."""
    last = len(lines) if reports.end is None else reports.end
    spans = [(start, min(end, last)) for start, end in left if start < last]
    return [Block(start, unwrap(lines[start:end])) for start, end in spans] + reports.unread


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
        kinds.append(f"kernel log ({heard.kernel_cut})" if heard.kernel_cut else "kernel log")
    if heard.errors:
        kinds.append("error text")
    if kinds and heard.cut:
        kinds[-1] += f" ({heard.cut})"
    return kinds


def _case(parts: Sequence[Machine], recognised: Sequence[str], heard: Heard, blocks: Sequence[Block]) -> Case:
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
        said = _cards_said([line for block in blocks for line in block.lines], heard)
        machine = msgspec.structs.replace(machine, cards=said or machine.cards)
    variables = {variable.name: variable.value for variable in value_of(machine.environment) or ()}
    if variables:
        # Once more, since now the cards are known that CUDA_VISIBLE_DEVICES speaks of.
        machine = msgspec.structs.replace(machine, environment=environment_of(variables, value_of(machine.cards) or ()))
    missing = missing_from(machine, messages, smi_failed=heard.smi_failure is not None)
    return Case(machine, messages, tuple(recognised), missing)


def _cards_said(lines: Sequence[str], heard: Heard) -> Known[tuple[Card, ...]] | None:
    """The cards that torch names in its warnings; else those that a person names."""
    if warned := cards_named(lines):
        return Known(warned, "pasted warning of torch")
    if heard.smi_failure is not None or any(_NO_DRIVER.search(message.text) for message in heard.messages):
        return None  # rules take a card of `cards` as one that a driver shows, and here is none that does
    named = cards_in_prose(lines)
    return Known(named, "pasted text") if named else None


_NPU = re.compile(r"\bNPU (?:error|out of memory)|\btorch[_.]npu\b|\baclrt\w+|\bERR\d{5}\b", re.IGNORECASE)
_APPLE = re.compile(r"\bMPS backend\b|\bmps:0\b")
_AMD = re.compile(r"\bHIP (?:error|out of memory)|\bhip[A-Z]\w+|\brocm|/dev/kfd|\bamdgpu", re.IGNORECASE)
# Whose accelerator the words are about, where they are not about NVIDIA's.
_SIGNS = (("amd", _AMD), ("huawei", _NPU), ("apple", _APPLE))


def missing_from(machine: Machine, messages: Sequence[Message], *, smi_failed: bool) -> tuple[str, ...]:
    maker = None
    if not isinstance(machine.nvidia.driver, Known):
        maker = next((name for name, sign in _SIGNS if any(sign.search(message.text) for message in messages)), None)
    return tuple(_missing(machine, maker, smi_failed))


def _missing(machine: Machine, maker: str | None, smi_failed: bool) -> Iterator[str]:
    cards = value_of(machine.cards) or ()
    packages = {package.name for package in value_of(machine.interpreter.packages) or ()}
    frameworks = value_of(machine.interpreter.frameworks) or ()
    makers = {card.vendor for card in cards}
    tegra = "tegra" in (value_of(machine.host.kernel) or "")  # a Jetson's driver is part of its system
    builds = {value_of(one.build) for one in frameworks}
    others = bool(makers - {"nvidia"} or builds & {"rocm", "xpu"})
    if ("torch-npu" in packages or maker == "huawei") and "huawei" not in makers:
        yield "the output of `npu-smi info`"
    elif smi_failed:
        if isinstance(machine.host.kernel_log, Unknown):
            yield "what the kernel says: `sudo dmesg | grep -iE 'nvrm|xid|nvidia|nouveau'`"
        if isinstance(machine.host.pci, Unknown):
            yield "which driver has the card: `lspci -k | grep -iEA3 'vga|3d|display'`"
    elif maker == "amd" and "amd" not in makers:
        yield "the output of `rocminfo`"
    elif not others and not tegra and maker != "apple" and not isinstance(machine.nvidia.driver, Known):
        yield "the output of `nvidia-smi`"
    if any((value_of(card.name) or "").endswith("...") for card in cards):
        yield "the output of `nvidia-smi -L`: the table cuts long names of cards"
    if not isinstance(machine.interpreter.frameworks, Known) or any(
        isinstance(one.version, Unknown) and not one.failure for one in frameworks
    ):
        yield "the output of `python -m torch.utils.collect_env`, in the environment of the program"
