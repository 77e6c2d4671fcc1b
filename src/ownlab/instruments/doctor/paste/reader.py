"""Reads pasted text as a case for the doctor: reports of any kind, in any order, and error messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from ownlab.errors import NotRecognised
from ownlab.instruments.doctor.diagnosis import case_of, diagnose
from ownlab.instruments.doctor.paste import json_documents
from ownlab.instruments.doctor.paste.facts_in_prose import cards_in_prose, cards_in_warnings, environment_of, read_prose
from ownlab.instruments.doctor.paste.line_wraps import unwrap
from ownlab.instruments.doctor.paste.merge import merge
from ownlab.instruments.doctor.paste.messages import Block, ProgramOutput, read_messages
from ownlab.instruments.doctor.paste.reports import KINDS, Reports, read_reports
from ownlab.instruments.doctor.paste.sections import split
from ownlab.instruments.doctor.paste.system_in_prose import system_in_prose
from ownlab.instruments.doctor.records import Case, Message
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Host, Machine, Nvidia
from ownlab.paste import clean, decode, read_file
from ownlab.text import in_english, text

__all__ = ["merge", "read_file", "read_paste"]

_UNDERSTOOD = text(
    "ownlab reads: a saved machine (ownlab machine --save FILE), `python -m torch.utils.collect_env`, `nvidia-smi` (plain, "
    "-q, -q -x, -L, CSV), `npu-smi info`, `amd-smi`, `rocm-smi`, `rocminfo`, `nvcc --version`, `lspci -k`, `dmesg`, `pip list`, "
    "error messages and tracebacks."
)
_NO_DRIVER = re.compile(
    r"found no nvidia driver|libcuda\.so\S*: cannot open|no cuda-capable device|not find cuda drivers|\bnouveau\b|"
    r"driver (?:is |was )?not (?:installed|loaded|detected|found)",
    re.IGNORECASE,
)


def read_paste(data: bytes | str, *, name: str = "pasted text") -> Case:
    """Read a pasted text as a case. Raises NotRecognised, RecordError or InputError if it cannot be used."""
    content = decode(data, name)
    if not content.strip():
        raise NotRecognised(text("{name} is empty.", name=name), hint=_UNDERSTOOD)
    machine = json_documents.read_machine_json(content, name) if content.rstrip().endswith("}") else None
    if machine is not None:
        return msgspec.structs.replace(case_of(machine), recognised=(text("saved machine"),))
    lines = clean(content)
    sections, rest = split(lines.bare, KINDS)
    reports = read_reports(sections)
    blocks = _blocks(lines.shown, rest, reports)
    output = read_messages(blocks, smi_worked=reports.smi_worked)
    prose = [line for block in blocks for line in block.lines]
    mentioned, system = read_prose(prose), system_in_prose(prose)
    parts = reports.machines + [part for part in (_machine_of(output), mentioned) if part is not None]
    if system is not None:  # says nothing about accelerators: it does not make a text one for the doctor
        parts.append(Machine(origin="pasted", host=system))
    recognised = reports.recognised + _message_kinds(output)
    if recognised and lines.left_out:
        recognised[-1] = text(
            "{report} ({count:,} lines in the middle are left out)", report=recognised[-1], count=lines.left_out
        )
    on_topic = bool(recognised) or mentioned is not None or output.relevant
    case = _case(parts, recognised or [text("words about accelerators")], output, blocks)
    # A single line without a word about accelerators ("Number of platforms 0") counts if a rule knows it.
    if not on_topic and not diagnose(case).findings:
        raise NotRecognised(
            text("{name} contains no report or error that ownlab recognizes.", name=name), hint=_UNDERSTOOD
        )
    return case


def _blocks(lines: Sequence[str], rest: Sequence[tuple[int, int]], reports: Reports) -> list[Block]:
    """Return the lines outside of reports, up to the first report of another machine: later errors may be from there."""
    last = len(lines) if reports.end is None else reports.end
    spans = [(start, min(end, last)) for start, end in rest if start < last]
    return [Block(start, unwrap(lines[start:end])) for start, end in spans] + reports.unread


def _machine_of(output: ProgramOutput) -> Machine | None:
    if not output.kernel_log and output.smi_failure is None:
        return None
    machine = Machine(origin="pasted")
    if output.kernel_log:
        machine = msgspec.structs.replace(
            machine, host=Host(kernel_log=Known(output.kernel_log, text("pasted kernel log")))
        )
    if output.smi_failure is not None:
        machine = msgspec.structs.replace(machine, nvidia=Nvidia(smi=Unknown(output.smi_failure)))
        if in_english(output.smi_failure).startswith("No devices were found"):
            machine = msgspec.structs.replace(machine, cards=Known((), text("pasted {program}", program="nvidia-smi")))
    return machine


def _message_kinds(output: ProgramOutput) -> list[str]:
    kinds: list[str] = []
    if output.smi_failure is not None:
        kinds.append(text("failure of nvidia-smi"))
    if output.kernel_log:
        kinds.append(
            text("kernel log ({omission})", omission=output.kernel_omission)
            if output.kernel_omission
            else text("kernel log")
        )
    if output.errors:
        kinds.append(text("error text"))
    if kinds and output.omission:
        kinds[-1] = text("{report} ({omission})", report=kinds[-1], omission=output.omission)
    return kinds


def _case(parts: Sequence[Machine], recognised: Sequence[str], output: ProgramOutput, blocks: Sequence[Block]) -> Case:
    machine = Machine(origin="pasted")
    if parts:
        machine = parts[0]
        for part in parts[1:]:
            machine = merge(machine, part)
    messages: tuple[Message, ...] = output.messages
    if machine.origin != "pasted":
        messages += tuple(message for message in case_of(machine).messages if message not in messages)
        return Case(machine, messages, tuple(recognised))
    if not isinstance(machine.cards, Known):
        cards = _mentioned_cards([line for block in blocks for line in block.lines], output)
        machine = msgspec.structs.replace(machine, cards=cards or machine.cards)
    variables = {variable.name: variable.value for variable in value_of(machine.environment) or ()}
    if variables:
        # A second time, because the cards that CUDA_VISIBLE_DEVICES names are known only now.
        machine = msgspec.structs.replace(machine, environment=environment_of(variables, value_of(machine.cards) or ()))
    missing = missing_reports(machine, messages, smi_failed=output.smi_failure is not None)
    return Case(machine, messages, tuple(recognised), missing)


def _mentioned_cards(lines: Sequence[str], output: ProgramOutput) -> Known[tuple[Card, ...]] | None:
    """Return the cards in torch's warnings, else those that the user mentions."""
    if warned := cards_in_warnings(lines):
        return Known(warned, "pasted warning of torch")
    if output.smi_failure is not None or any(_NO_DRIVER.search(message.text) for message in output.messages):
        return None  # to the rules, a card in `cards` is one that a driver shows; here, no driver works
    mentioned = cards_in_prose(lines)
    return Known(mentioned, "pasted text") if mentioned else None


# --- what else to paste -----------------------------------------------------------------------------------------------

_NPU = re.compile(r"\bNPU (?:error|out of memory)|\btorch[_.]npu\b|\baclrt\w+|\bERR\d{5}\b", re.IGNORECASE)
_APPLE = re.compile(r"\bMPS backend\b|\bmps:0\b")
_AMD = re.compile(r"\bHIP (?:error|out of memory)|\bhip[A-Z]\w+|\brocm|/dev/kfd|\bamdgpu", re.IGNORECASE)
# The vendor that messages are about, if it is not NVIDIA.
_VENDOR_SIGNS = (("amd", _AMD), ("huawei", _NPU), ("apple", _APPLE))


def missing_reports(machine: Machine, messages: Sequence[Message], *, smi_failed: bool) -> tuple[str, ...]:
    """List the reports that would help to diagnose this machine."""
    vendor = None
    if not isinstance(machine.nvidia.driver, Known):
        vendor = next(
            (name for name, sign in _VENDOR_SIGNS if any(sign.search(message.text) for message in messages)), None
        )
    return tuple(_missing_reports(machine, vendor, smi_failed))


def _missing_reports(machine: Machine, vendor: str | None, smi_failed: bool) -> Iterator[str]:
    cards = value_of(machine.cards) or ()
    packages = {package.name for package in value_of(machine.interpreter.packages) or ()}
    frameworks = value_of(machine.interpreter.frameworks) or ()
    vendors = {card.vendor for card in cards}
    tegra = "tegra" in (value_of(machine.host.kernel) or "")  # a Jetson's driver is part of its system
    builds = {value_of(framework.build) for framework in frameworks}
    not_nvidia = bool(vendors - {"nvidia"} or builds & {"rocm", "xpu"})
    if ("torch-npu" in packages or vendor == "huawei") and "huawei" not in vendors:
        yield text("the output of `npu-smi info`")
    elif smi_failed:
        if isinstance(machine.host.kernel_log, Unknown):
            yield text("the kernel log: `sudo dmesg | grep -iE 'nvrm|xid|nvidia|nouveau'`")
        if isinstance(machine.host.pci, Unknown):
            yield text("the driver that is bound to the card: `lspci -k | grep -iEA3 'vga|3d|display'`")
    elif vendor == "amd" and "amd" not in vendors:
        yield text("the output of `rocminfo`")
    elif not not_nvidia and not tegra and vendor != "apple" and not isinstance(machine.nvidia.driver, Known):
        yield text("the output of `nvidia-smi`")
    if any((value_of(card.name) or "").endswith("...") for card in cards):
        yield text("the output of `nvidia-smi -L`, because the table truncates long card names")
    if not isinstance(machine.interpreter.frameworks, Known) or any(
        isinstance(framework.version, Unknown) and not framework.failure for framework in frameworks
    ):
        yield text("the output of `python -m torch.utils.collect_env`, run in the program's environment")
