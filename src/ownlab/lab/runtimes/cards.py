"""The cards that can be leased, and the processes that use them without a lease; live, or of a recorded machine.

`python -m ownlab.lab.runtimes.cards` prints them as JSON, for supervisors, which must not import all this.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ownlab import guest_client
from ownlab.config.loader import resolve_lab_options
from ownlab.config.machine_options import resolve_machine_options
from ownlab.errors import DeadlineError, InterpreterError, OwnlabError
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.locks_only import open_any
from ownlab.lab.store.rows import Device, Process
from ownlab.machine.facts import Known, value_of
from ownlab.machine.machine_file import load_machine
from ownlab.machine.nvidia.driver import has_sign
from ownlab.machine.nvidia.processes import name_processes
from ownlab.machine.nvidia.reader import read_nvidia
from ownlab.machine.records import Card, CardProcess
from ownlab.machine.vendors import reader as vendors
from ownlab.machine.visible_devices import visible_devices
from ownlab.processes.background import BackgroundCall
from ownlab.processes.procfs import read_stat
from ownlab.text import Text, text
from ownlab.units import format_bytes

__all__ = ["KnownRuntimes", "descends_from", "main", "probe_argv", "read_devices", "read_known_runtimes"]

# Without persistence mode the driver initialises each card: seconds per card.
_NVML_SECONDS = 30.0
_OTHERS_SECONDS = 30.0
# Memory that no process accounts for: a driver alone uses less than this fraction of a card.
_DRIVERS_PART = 0.05
# It works for other processes and uses almost no memory itself.
_MPS_SERVER = "nvidia-cuda-mps-server"
# Ascend's "Warning" is a card that works; any other status than "OK" is one that does not.
_WORKS = ("OK", "Warning")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class KnownRuntimes(Struct, frozen=True):
    """The runtimes in the store: their processes have a lease."""

    keepers: frozenset[Process] = frozenset()
    leased: frozenset[str] = frozenset()  # devices


class CardReading(Struct, frozen=True):
    """A card, and its MIG instances as separate cards, each named after its profile."""

    card: Card
    instances: tuple[Card, ...] = ()


class _Answer(Struct, frozen=True):
    """The answer of `ownlab_guest/probe/nvml_cards.py`."""

    error: str | None = None
    cards: tuple[CardReading, ...] = ()


def read_devices(
    environ: Mapping[str, str] = os.environ, *, known: KnownRuntimes | None = None, root: Path = Path("/")
) -> tuple[Device, ...]:
    """Read every card that can be leased. `known`: the known runtimes; by default they are read from the store.

    Excluded are integrated graphics, cards that their driver reports as broken, and cards hidden by CUDA_VISIBLE_DEVICES,
    if somebody else (Slurm, for example) has set it.
    """
    ask = partial(read_known_runtimes, environ) if known is None else lambda: known
    return tuple(device for device, _ in _read(environ, ask, root))


def _read(environ: Mapping[str, str], ask: Callable[[], KnownRuntimes], root: Path) -> list[tuple[Device, Card]]:
    """Return each device with the card or MIG instance behind it."""
    options = resolve_machine_options(environ=environ)
    if options.machine_file is not None:
        # Its processes belong to another machine: there are no strangers here.
        readings = [_with_instances(card) for card in value_of(load_machine(options.machine_file).cards) or ()]
        return list(_devices(_visible(readings, environ), None, root))
    # Before and after: runtimes start and end while the driver answers, and none of their processes is a stranger.
    before = ask()
    readings = _read_live(environ, root)
    after = ask() if readings else before
    known = KnownRuntimes(before.keepers | after.keepers, before.leased | after.leased)
    return list(_devices(_visible(readings, environ), known, root))


def probe_argv(environ: Mapping[str, str] = os.environ, *, store: str | None = None) -> list[str] | None:
    """The command that prints the devices again; None for a recorded machine, whose devices never change."""
    if resolve_machine_options(environ=environ).machine_file is not None:
        return None
    command = [sys.executable, "-m", "ownlab.lab.runtimes.cards"]
    if store is not None:
        command += ["--store", store]
    visible = _visible_value(environ)
    return command if visible is None else [*command, "--visible", visible]


def read_known_runtimes(environ: Mapping[str, str] = os.environ, *, store: str | None = None) -> KnownRuntimes:
    """Read the known runtimes from the store; none if there is no store yet."""
    folder = store or choose_store(resolve_lab_options(environ=environ), environ).folder
    if not os.path.exists(folder):
        return KnownRuntimes()
    with open_any(folder, create=False) as opened:
        keepers = frozenset(row.keeper for row in opened.runtimes())
        return KnownRuntimes(keepers, frozenset(lease.device for lease in opened.leases()))


def descends_from(pid: int, ancestors: Collection[Process], root: Path = Path("/")) -> bool:
    """Whether a process is one of these, or a descendant of one."""
    while pid > 1:
        stat = read_stat(pid, root)
        if stat is None:
            return False
        if Process(pid, stat.started) in ancestors:
            return True
        pid = stat.parent
    return False


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_live(environ: Mapping[str, str], root: Path) -> list[CardReading]:
    others = BackgroundCall(vendors.read_other_vendors)
    readings = _read_nvidia(environ, root)
    try:
        cards = value_of(others.result(_OTHERS_SECONDS).cards) or ()
    except DeadlineError:  # their driver hangs, which `ownlab doctor` reports; the other cards can still be used
        cards = ()
    return [*readings, *map(CardReading, cards)]


def _read_nvidia(environ: Mapping[str, str], root: Path) -> list[CardReading]:
    if not has_sign(root, environ):
        return []
    try:
        answer = guest_client.ask(
            sys.executable, "probe.nvml_cards", answer=_Answer, deadline=_NVML_SECONDS, env=environ
        )
    except (DeadlineError, InterpreterError) as exc:
        answer = _Answer(error=exc.message)
    if answer.error is None:
        name = partial(name_processes, root=root)
        return [CardReading(name(reading.card), tuple(map(name, reading.instances))) for reading in answer.cards]
    # The slower reading, which falls back to nvidia-smi.
    _, cards = read_nvidia(root, deadline=_NVML_SECONDS, env=environ)
    return [_with_instances(card) for card in cards or ()]


def _with_instances(card: Card) -> CardReading:
    """A card from a full reading of the machine, which does not assign processes to MIG instances."""
    instances = value_of(card.mig_instances) or ()
    return CardReading(
        card,
        tuple(
            Card(
                card.vendor,
                card.index,
                name=each.profile,
                uuid=Known(each.uuid, source="NVML"),
                memory_total=each.memory_total,
                memory_used=each.memory_used,
            )
            for each in instances
        ),
    )


# --- which of them can be leased --------------------------------------------------------------------------------------


def _visible_value(environ: Mapping[str, str]) -> str | None:
    """CUDA_VISIBLE_DEVICES as set by others. Inside a runtime it is known, and the store decides what may be leased."""
    return None if "OWNLAB_RUNTIME" in environ else environ.get(_VISIBLE)


def _visible(readings: Iterable[CardReading], environ: Mapping[str, str]) -> list[CardReading]:
    readings = list(readings)
    value = _visible_value(environ)
    allowed = visible_devices(value, [reading.card for reading in readings])
    if value is None or not allowed.known:
        return readings
    left = [reading for reading in readings if reading.card.vendor != "nvidia" or reading.card.index in allowed.order]
    if not value.startswith("MIG-"):
        return left
    named = tuple(entry.strip() for entry in value.split(","))
    return [
        replace(
            reading,
            instances=tuple(each for each in reading.instances if (value_of(each.uuid) or "").startswith(named)),
        )
        for reading in left
    ]


def _devices(readings: Sequence[CardReading], known: KnownRuntimes | None, root: Path) -> Iterator[tuple[Device, Card]]:
    for reading in readings:
        card = reading.card
        if not _can_be_leased(card):
            continue
        name = value_of(card.name) or f"{card.vendor.upper()} GPU"
        if value_of(card.mig):
            for instance in reading.instances:
                profile = value_of(instance.name) or "MIG instance"
                yield _device(instance, f"{profile} of {name}", True, known, root), instance
        else:
            exclusive = (value_of(card.compute_mode) or "").startswith("exclusive")  # for one process at a time
            yield _device(card, name, exclusive, known, root), card


def _can_be_leased(card: Card) -> bool:
    health = value_of(card.health)
    works = health is None or health in _WORKS
    # Apple's GPU cannot be hidden from a process, so a lease would have no effect.
    return works and not card.integrated and card.vendor != "apple" and value_of(card.compute_mode) != "prohibited"


def _device(card: Card, name: str, whole_only: bool, known: KnownRuntimes | None, root: Path) -> Device:
    # Without a UUID, CUDA_VISIBLE_DEVICES takes the number.
    uuid = value_of(card.uuid) or (str(card.index) if card.vendor == "nvidia" else f"{card.vendor}:{card.index}")
    strangers = () if known is None else _strangers(card, uuid, known, root)
    return Device(uuid, card.vendor, card.index, name, value_of(card.memory_total), whole_only, strangers)


# --- who uses them without a lease ------------------------------------------------------------------------------------


def _strangers(card: Card, uuid: str, known: KnownRuntimes, root: Path) -> tuple[str, ...]:
    strangers: list[str] = []
    accounted = 0
    for process in value_of(card.processes) or ():
        leased = descends_from(process.pid, known.keepers, root)
        if not leased and not _is_visible(process):
            continue
        memory = value_of(process.memory)
        accounted = sys.maxsize if memory is None else accounted + memory  # unknown: it may use all the rest
        if not leased and process.kind != "graphics" and not (value_of(process.command) or "").endswith(_MPS_SERVER):
            strangers.append(_describe(process))
    hidden = (value_of(card.memory_used) or 0) - accounted
    # NVML may report pids of another PID namespace: memory on a leased card then most likely belongs to the holder.
    if uuid not in known.leased and hidden > _DRIVERS_PART * (value_of(card.memory_total) or sys.maxsize):
        strangers.append(text("{memory} used by processes that are not visible here", memory=format_bytes(hidden)))
    return tuple(strangers)


def _is_visible(process: CardProcess) -> bool:
    return isinstance(process.command, Known) or isinstance(process.user, Known)


def _describe(process: CardProcess) -> Text:
    command = re.sub(r"^\S*/", "", value_of(process.command) or "a process")
    user, memory = value_of(process.user), value_of(process.memory)
    values = {
        "command": command,
        "pid": process.pid,
        "user": user,
        "memory": None if memory is None else format_bytes(memory),
    }
    if user and memory is not None:
        return text("{command} (pid {pid}) of {user}, {memory}", **values)
    if user:
        return text("{command} (pid {pid}) of {user}", **values)
    if memory is not None:
        return text("{command} (pid {pid}), {memory}", **values)
    return text("{command} (pid {pid})", **values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the devices as a JSON array, each with its utilisation in percent if known."""
    parser = argparse.ArgumentParser(description="Print the cards that can be leased as JSON.")
    parser.add_argument("--store", help="the store whose runtimes have leases")
    parser.add_argument("--visible", help="CUDA_VISIBLE_DEVICES as it was outside the runtime")
    given = parser.parse_args(arguments)
    environ = {name: value for name, value in os.environ.items() if name not in (_VISIBLE, "OWNLAB_RUNTIME")}
    if given.visible is not None:
        environ[_VISIBLE] = given.visible
    try:
        readings = _read(environ, partial(read_known_runtimes, environ, store=given.store), Path("/"))
    except OwnlabError as exc:
        sys.stderr.write(f"{exc.message}\n")
        return exc.exit_code
    known = [{**device._asdict(), "utilisation": value_of(card.utilisation)} for device, card in readings]
    sys.stdout.write(json.dumps(known) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
