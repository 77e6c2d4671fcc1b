"""The machine in the terminal: in brief under a diagnosis, and in full with every source."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.text import Text

from ownlab.machine.facts import NOT_READ, Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Host, Machine
from ownlab.render.console import labelled
from ownlab.units import format_bytes

__all__ = ["show_brief", "show_machine"]

_LABEL_WIDTH = 22
# A record with more fields than this is shown as a block.
_FIELDS_IN_A_LINE = 7


def show_brief(machine: Machine, out: Console) -> None:
    """What is here, a line for each part that is known."""
    for label, text in _brief(machine):
        labelled(out, label, text, indent=0, width=11)


def _brief(machine: Machine) -> Iterator[tuple[str, str]]:
    host = machine.host
    for label, text in (("system", _system(host)), ("cpu", _cpu(host)), ("memory", _memory(host))):
        if text:
            yield label, text
    for number, card in enumerate(value_of(machine.cards) or ()):
        yield "cards" if number == 0 else "", f"{card.index}: {_card(card)}"
    driver, cuda = value_of(machine.nvidia.driver), value_of(machine.nvidia.cuda)
    if driver:
        flavour = value_of(machine.nvidia.module_flavour)
        serves = f", serves CUDA up to {cuda}" if cuda else ""
        yield "driver", f"NVIDIA {driver}{serves}" + (f", {flavour} kernel modules" if flavour else "")
    nvcc = value_of(machine.toolkits.nvcc)
    if nvcc:
        yield "toolkit", f"CUDA {nvcc} ({value_of(machine.toolkits.nvcc_path) or 'nvcc'})"
    python = value_of(machine.interpreter.version)
    if python:
        origin = f" ({machine.interpreter.origin})" if machine.interpreter.origin else ""
        yield "python", f"{python}, {value_of(machine.interpreter.path) or 'path not known'}{origin}"
    for framework in value_of(machine.interpreter.frameworks) or ():
        yield framework.name, _framework(framework)


def _system(host: Host) -> str:
    parts = [value_of(host.system), value_of(host.kernel)]
    parts += [
        f"in {kind}" for kind in (value_of(host.container), value_of(host.virtualisation)) if kind and kind != "none"
    ]
    platform = value_of(host.platform)
    parts += [f"on {platform}"] if platform and platform != "plain" else []
    return ", ".join(part for part in parts if part)


def _cpu(host: Host) -> str:
    cpu = host.cpu
    usable, logical = value_of(cpu.usable_cores), value_of(cpu.logical_cores)
    cores = (
        f"{usable:g} of {logical} cores usable"
        if usable is not None and logical
        else f"{logical} cores"
        if logical
        else ""
    )
    return ", ".join(
        part for part in (value_of(cpu.model), cores, " ".join(value_of(cpu.instruction_sets) or ())) if part
    )


def _memory(host: Host) -> str:
    memory = host.memory
    sizes = (
        ("", memory.total),
        (" available", memory.available),
        (" allowed by the cgroup", memory.cgroup_limit),
        (" in /dev/shm", memory.shm_total),
    )
    return ", ".join(f"{format_bytes(fact.value)}{words}" for words, fact in sizes if isinstance(fact, Known))


def _card(card: Card) -> str:
    total, used = value_of(card.memory_total), value_of(card.memory_used)
    memory = f"{format_bytes(used)} of {format_bytes(total)} used" if used is not None and total else ""
    capability, architecture = value_of(card.compute_capability), value_of(card.architecture)
    kind = " ".join(part for part in (architecture, capability) if part)
    draw, limit = value_of(card.power_draw), value_of(card.power_limit)
    power = f"{draw:.0f} of {limit:.0f} W" if draw is not None and limit is not None else ""
    generation, width = value_of(card.pcie.generation), value_of(card.pcie.width)
    link = f"PCIe {generation} ×{width}" if generation and width else ""
    heat = value_of(card.temperature)
    health = value_of(card.health)
    parts = (
        value_of(card.name) or f"{card.vendor} card",
        kind,
        memory or (format_bytes(total) if total else ""),
        f"{heat} °C" if heat is not None else "",
        power,
        link,
        health if health and health != "OK" else "",
    )
    return ", ".join(part for part in parts if part)


def _framework(framework: Framework) -> str:
    version = value_of(framework.version) or "version not known"
    if framework.failure:
        return f"{version}, {framework.failure}: {framework.error or 'no word why'}"
    cuda, rocm, cudnn = value_of(framework.cuda), value_of(framework.rocm), value_of(framework.cudnn)
    build = value_of(framework.build)
    built = f"CUDA {cuda}" if cuda else f"ROCm {rocm}" if rocm else f"{build} build" if build else ""
    devices = value_of(framework.devices)
    if devices is None:
        sees = ""
    elif devices:
        sees = f"sees {len(devices)} device{'' if len(devices) == 1 else 's'}"
    else:
        sees = "sees no accelerator"
    return ", ".join(part for part in (version, built, f"cuDNN {cudnn}" if cudnn else "", sees) if part)


def show_machine(machine: Machine, out: Console) -> None:
    """Every fact, with its source or why it is not known."""
    taken = f" on {machine.taken_at}" if machine.taken_at else ""
    out.print(Text(f"Machine, {machine.origin}{taken}", style="bold"))
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
    if isinstance(content, tuple) and content and isinstance(content[0], msgspec.Struct):
        _show_list(name, content, out, depth)
    elif isinstance(content, msgspec.Struct) and not isinstance(content, Unknown):
        labelled(out, _label(name), "", indent=indent, width=_LABEL_WIDTH)
        _show_fields(content, out, depth + 1)
    else:
        labelled(out, _label(name), _plain(value), indent=indent, width=_LABEL_WIDTH)


def _show_list(name: str, records: tuple[msgspec.Struct, ...], out: Console, depth: int) -> None:
    """Small records a line each; large ones (cards, frameworks) a block each."""
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
            line.append(f"  {_label(field)} ", style="dim").append_text(_plain(value))
        labelled(out, _label(name) if number == 0 else "", line, indent=2 * depth, width=_LABEL_WIDTH)


def _label(name: str) -> str:
    return name.replace("_", " ")


def _plain(value: object) -> Text:
    if isinstance(value, Unknown):
        return Text(f"unknown: {value.reason}", style="dim")
    if isinstance(value, Known):
        return Text.assemble(_words(value.value, value.unit), (f"  ({value.source})", "dim"))
    return Text(_words(value, None))


def _words(value: object, unit: str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value) or "none"
    if isinstance(value, (int, float)) and unit == "B":
        return format_bytes(value)
    number = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{number} {unit}" if unit else number
