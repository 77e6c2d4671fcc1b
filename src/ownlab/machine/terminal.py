"""The machine in the terminal: a summary for the doctor, and every fact with its source for `ownlab machine`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.text import Text

from ownlab.machine.facts import NOT_READ, Fact, Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Host, Machine, Memory
from ownlab.render.console import labelled
from ownlab.text import facts, listing, plural, text, translated
from ownlab.units import format_bytes

__all__ = ["label_of", "show_brief", "show_machine"]

# Fields whose names mean something else elsewhere.
_LABELS = {"free": "free space", "python": "Python"}
_FLAVOURS = {"open": text("open kernel modules"), "proprietary": text("proprietary kernel modules")}
_ORIGINS = {"live": text("live"), "pasted": text("pasted")}
_LABEL_WIDTH = 22
# A record with more fields than this is shown as a block.
_FIELDS_IN_A_LINE = 7
_FIRST_WITH_MINOR_COMPATIBILITY = 11  # of CUDA


def show_brief(machine: Machine, out: Console) -> None:
    """Print a summary, one line for each part that is known."""
    for label, content in _brief(machine):
        labelled(out, label, content, indent=0, width=11)


def _brief(machine: Machine) -> Iterator[tuple[str, str]]:
    host = machine.host
    for label, content in (
        (text("system"), _system(host)),
        (text("cpu"), _cpu(host)),
        (text("RAM"), _memory(host)),
    ):
        if content:
            yield label, content
    for number, card in enumerate(value_of(machine.cards) or ()):
        yield text("cards") if number == 0 else "", text("{index}: {card}", index=card.index, card=_card(card))
    driver, cuda = value_of(machine.nvidia.driver), value_of(machine.nvidia.cuda)
    if driver:
        flavour = value_of(machine.nvidia.module_flavour)
        yield (
            text("driver"),
            facts(
                f"NVIDIA {driver}",
                _served_cuda(cuda) if cuda else None,
                _FLAVOURS.get(flavour, flavour) if flavour else None,
            ),
        )
    nvcc = value_of(machine.toolkits.nvcc)
    if nvcc:
        yield text("toolkit"), f"CUDA {nvcc} ({value_of(machine.toolkits.nvcc_path) or 'nvcc'})"
    python = value_of(machine.interpreter.version)
    if python:
        path, origin = value_of(machine.interpreter.path) or text("unknown path"), machine.interpreter.origin
        place = text("{path} ({origin})", path=path, origin=origin) if origin else path
        yield "python", facts(python, place)
    for framework in value_of(machine.interpreter.frameworks) or ():
        yield framework.name, _framework(framework)


def _served_cuda(cuda: str) -> str:
    """The CUDA of nvidia-smi's header. Programs built with a later minor version of it run, too (NVIDIA, since CUDA 11)."""
    major = cuda.partition(".")[0]
    if not major.isdigit() or int(major) < _FIRST_WITH_MINOR_COMPATIBILITY:
        return text("supports CUDA up to {cuda}", cuda=cuda)
    return text("runs CUDA up to {cuda} and any later {major}.x", cuda=cuda, major=major)


def _system(host: Host) -> str:
    surroundings = (value_of(host.container), value_of(host.virtualisation))
    platform = value_of(host.platform)
    return facts(
        value_of(host.system),
        value_of(host.kernel),
        *(text("in {container}", container=kind) for kind in surroundings if kind and kind != "none"),
        text("on {platform}", platform=platform) if platform and platform != "plain" else None,
    )


def _cpu(host: Host) -> str:
    cpu = host.cpu
    usable, logical = value_of(cpu.usable_cores), value_of(cpu.logical_cores)
    cores: str | None = None
    if logical:
        cores = (
            text("{logical} cores", logical=logical)
            if usable is None
            else text("{usable:g} of {logical} cores usable", usable=usable, logical=logical)
        )
    return facts(value_of(cpu.model), cores, " ".join(value_of(cpu.instruction_sets) or ()))


def _memory(host: Host) -> str:
    memory = host.memory
    available, limit, shared = _size(memory.available), _size(memory.cgroup_limit), _size(memory.shm_total)
    return facts(
        _size(memory.total),
        text("{size} available", size=available) if available else None,
        text("{size} allowed by the cgroup", size=limit) if limit else None,
        text("{size} in /dev/shm", size=shared) if shared else None,
    )


def _size(fact: Fact[int]) -> str | None:
    return format_bytes(fact.value) if isinstance(fact, Known) else None


def _card(card: Card) -> str:
    total, used = value_of(card.memory_total), value_of(card.memory_used)
    memory = format_bytes(total) if total else None
    if memory and used is not None:
        memory = text("{used} of {total} used", used=format_bytes(used), total=memory)
    capability, architecture = value_of(card.compute_capability), value_of(card.architecture)
    draw, limit = value_of(card.power_draw), value_of(card.power_limit)
    generation, width = value_of(card.pcie.generation), value_of(card.pcie.width)
    temperature = value_of(card.temperature)
    health = value_of(card.health)
    return facts(
        value_of(card.name) or text("{vendor} card", vendor=card.vendor),
        " ".join(part for part in (architecture, capability) if part),
        memory,
        f"{temperature} °C" if temperature is not None else None,
        text("{draw:.0f} of {limit:.0f} W", draw=draw, limit=limit) if draw is not None and limit is not None else None,
        f"PCIe {generation} ×{width}" if generation and width else None,
        health if health != "OK" else None,
    )


def _framework(framework: Framework) -> str:
    version = value_of(framework.version) or text("unknown version")
    if framework.failure:
        error = framework.error or text("no error message")
        return text("{version}, {failure}: {error}", version=version, failure=framework.failure, error=error)
    cuda, rocm, cudnn = value_of(framework.cuda), value_of(framework.rocm), value_of(framework.cudnn)
    build = value_of(framework.build)
    toolkit = f"CUDA {cuda}" if cuda else f"ROCm {rocm}" if rocm else None
    devices = value_of(framework.devices)
    visible: str | None = None
    if devices is not None:
        visible = (
            plural(len(devices), "sees one device", "sees {n} devices") if devices else text("sees no accelerator")
        )
    return facts(
        version,
        toolkit or (text("{build} build", build=build) if build else None),
        f"cuDNN {cudnn}" if cudnn else None,
        visible,
    )


def show_machine(machine: Machine, out: Console) -> None:
    """Print every fact with its source, or the reason why it is not known."""
    origin = _ORIGINS.get(machine.origin, machine.origin)
    heading = (
        text("Machine ({origin}), read on {time}", origin=origin, time=machine.taken_at)
        if machine.taken_at
        else text("Machine ({origin})", origin=origin)
    )
    out.print(Text(heading, style="bold"))
    for name in machine.__struct_fields__:
        value = getattr(machine, name)
        if isinstance(value, msgspec.Struct):
            out.print()
            out.print(Text(_label(name), style="bold"))
            if isinstance(value, (Known, Unknown)):
                _show_value(name, value, out, depth=1)
            else:
                _show_fields(value, out, depth=1)


def _show_fields(record: msgspec.Struct, out: Console, depth: int) -> None:
    for name in record.__struct_fields__:
        _show_value(name, getattr(record, name), out, depth)


def _show_value(name: str, value: object, out: Console, depth: int) -> None:
    indent = 2 * depth
    content = value.value if isinstance(value, Known) else value
    label = text("RAM") if isinstance(content, Memory) else _label(name)  # of cards, "memory" is their own
    if isinstance(content, tuple) and content and isinstance(content[0], msgspec.Struct):
        _show_list(name, content, out, depth)
    elif isinstance(content, msgspec.Struct) and not isinstance(content, Unknown):
        labelled(out, label, "", indent=indent, width=_LABEL_WIDTH)
        _show_fields(content, out, depth + 1)
    else:
        labelled(out, _label(name), _value(value), indent=indent, width=_LABEL_WIDTH)


def _show_list(name: str, records: tuple[msgspec.Struct, ...], out: Console, depth: int) -> None:
    """Print small records on one line each, large ones (cards, frameworks) as a block each."""
    for number, record in enumerate(records):
        head, *others = record.__struct_fields__
        if len(others) > _FIELDS_IN_A_LINE:
            labelled(out, f"{_label(name)} {number + 1}", "", indent=2 * depth, width=_LABEL_WIDTH)
            _show_fields(record, out, depth + 1)
            continue
        line = Text(str(getattr(record, head)))
        for field in others:
            value = getattr(record, field)
            if value is None or value is False or value == NOT_READ:
                continue
            shown = Text(format_bytes(value)) if field == "memory_total" and isinstance(value, int) else _value(value)
            line.append(f"  {_label(field)} ", style="dim").append_text(shown)
        labelled(out, _label(name) if number == 0 else "", line, indent=2 * depth, width=_LABEL_WIDTH)


def label_of(name: str) -> str:
    """Return a field of a record as `ownlab machine` names it, in English: the message of the catalogues."""
    return _LABELS.get(name) or name.replace("_", " ")


def _label(name: str) -> str:
    return translated(label_of(name))


def _value(value: object) -> Text:
    if isinstance(value, Unknown):
        reason = text("not read") if value == NOT_READ else value.reason
        return Text(text("unknown: {reason}", reason=reason), style="dim")
    if isinstance(value, Known):
        return Text.assemble(_formatted(value.value, value.unit), (f"  ({value.source})", "dim"))
    return Text(_formatted(value, None))


def _formatted(value: object, unit: str | None) -> str:
    if isinstance(value, bool):
        return text("yes") if value else text("no")
    if isinstance(value, tuple):
        return listing(map(str, value), "{items}, {last}") or text("none")
    if isinstance(value, (int, float)) and unit == "B":
        return format_bytes(value)
    if value is None or value == "none":
        return text("none")
    number = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{number} {unit}" if unit else number
