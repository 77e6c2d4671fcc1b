"""The cards that can be leased, and who uses them without a lease: of a recorded machine, or read live.

`python -m ownlab.lab.runtimes.cards` prints them as JSON: supervisors, which import little, ask so.
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
from ownlab.config.target import resolve_machine_options
from ownlab.errors import DeadlineError, InterpreterError, OwnlabError
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.rows import Device, Process
from ownlab.lab.store.store import Store
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
from ownlab.units import format_bytes

__all__ = ["Ours", "descends_from", "known_runtimes", "main", "probe_argv", "read_devices"]

# Without persistence mode the driver starts each card anew: seconds a card.
_NVML_SECONDS = 30.0
_OTHERS_SECONDS = 30.0
# What is used beyond what processes tell: a driver alone holds less than this part of a card.
_DRIVERS_PART = 0.05
# It serves the processes of others, and holds next to nothing itself.
_MPS_SERVER = "nvidia-cuda-mps-server"
# Ascend's "Warning" is a card that works; whatever else a driver says in place of "OK" is one that does not.
_WORKS = ("OK", "Warning")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Ours(Struct, frozen=True):
    """What the store knows: whose processes are no strangers."""

    keepers: frozenset[Process] = frozenset()
    leased: frozenset[str] = frozenset()  # devices


class Reading(Struct, frozen=True):
    """A card, and its MIG instances as cards of their own, each named after its profile."""

    card: Card
    instances: tuple[Card, ...] = ()


class _Answer(Struct, frozen=True):
    """What `ownlab_guest/probe/nvml_cards.py` answers."""

    error: str | None = None
    cards: tuple[Reading, ...] = ()


def read_devices(
    environ: Mapping[str, str] = os.environ, *, ours: Ours | None = None, root: Path = Path("/")
) -> tuple[Device, ...]:
    """Every card that can be leased. `ours`: what is known of runtimes; without it, the store is asked.

    Graphics inside a processor are left out, cards that their driver reports broken, and, where CUDA_VISIBLE_DEVICES
    was set for us (by Slurm, say), cards that it hides.
    """
    ask = partial(known_runtimes, environ) if ours is None else lambda: ours
    return tuple(device for device, _ in _read(environ, ask, root))


def _read(environ: Mapping[str, str], ask: Callable[[], Ours], root: Path) -> list[tuple[Device, Card]]:
    """Each device, and the card or MIG instance that it is."""
    options = resolve_machine_options(environ=environ)
    if options.machine_file is not None:
        # Its processes are another machine's: nobody here is a stranger.
        readings = [_with_instances(card) for card in value_of(load_machine(options.machine_file).cards) or ()]
        return list(_devices(_visible(readings, environ), None, root))
    # Before and after: runtimes begin and end while a driver answers, and none of their processes is a stranger.
    before = ask()
    readings = _read_live(environ, root)
    after = ask() if readings else before
    ours = Ours(before.keepers | after.keepers, before.leased | after.leased)
    return list(_devices(_visible(readings, environ), ours, root))


def probe_argv(environ: Mapping[str, str] = os.environ, *, store: str | None = None) -> list[str] | None:
    """The command that prints the devices anew; None for a recorded machine, whose devices never change."""
    if resolve_machine_options(environ=environ).machine_file is not None:
        return None
    command = [sys.executable, "-m", "ownlab.lab.runtimes.cards"]
    if store is not None:
        command += ["--store", store]
    visible = _visible_value(environ)
    return command if visible is None else [*command, "--visible", visible]


def known_runtimes(environ: Mapping[str, str] = os.environ, *, store: str | None = None) -> Ours:
    """What the store says now; nothing where there is no store yet."""
    folder = store or choose_store(resolve_lab_options(environ=environ), environ).folder
    if not os.path.exists(os.path.join(folder, "db")):
        return Ours()
    with Store.open(folder, create=False) as opened:
        keepers = frozenset(row.keeper for row in opened.runtimes())
        return Ours(keepers, frozenset(lease.device for lease in opened.leases()))


def descends_from(pid: int, ancestors: Collection[Process], root: Path = Path("/")) -> bool:
    """Whether a process is one of these, or was started by one of them, however far back."""
    while pid > 1:
        stat = read_stat(pid, root)
        if stat is None:
            return False
        if Process(pid, stat.started) in ancestors:
            return True
        pid = stat.parent
    return False


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_live(environ: Mapping[str, str], root: Path) -> list[Reading]:
    others = BackgroundCall(vendors.read_other_vendors)
    readings = _read_nvidia(environ, root)
    try:
        cards = value_of(others.result(_OTHERS_SECONDS).cards) or ()
    except DeadlineError:  # their driver hangs: `ownlab doctor` tells; the other cards can be used meanwhile
        cards = ()
    return [*readings, *map(Reading, cards)]


def _read_nvidia(environ: Mapping[str, str], root: Path) -> list[Reading]:
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
        return [Reading(name(one.card), tuple(map(name, one.instances))) for one in answer.cards]
    # The long way, which has a last resort in nvidia-smi.
    _, cards = read_nvidia(root, deadline=_NVML_SECONDS, env=environ)
    return [_with_instances(card) for card in cards or ()]


def _with_instances(card: Card) -> Reading:
    """A card from a whole machine's reading, where it is not told which process is on which instance."""
    instances = value_of(card.mig_instances) or ()
    return Reading(
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
    """What somebody else allows us. Inside a runtime we set it ourselves: what it may lease is decided by the store."""
    return None if "OWNLAB_RUNTIME" in environ else environ.get(_VISIBLE)


def _visible(readings: Iterable[Reading], environ: Mapping[str, str]) -> list[Reading]:
    readings = list(readings)
    value = _visible_value(environ)
    allowed = visible_devices(value, [reading.card for reading in readings])
    if value is None or not allowed.known:
        return readings
    left = [one for one in readings if one.card.vendor != "nvidia" or one.card.index in allowed.order]
    if not value.startswith("MIG-"):
        return left
    named = tuple(entry.strip() for entry in value.split(","))
    return [
        replace(one, instances=tuple(each for each in one.instances if (value_of(each.uuid) or "").startswith(named)))
        for one in left
    ]


def _devices(readings: Sequence[Reading], ours: Ours | None, root: Path) -> Iterator[tuple[Device, Card]]:
    for reading in readings:
        card = reading.card
        if not _can_be_leased(card):
            continue
        name = value_of(card.name) or f"{card.vendor.upper()} GPU"
        if value_of(card.mig):
            for instance in reading.instances:
                profile = value_of(instance.name) or "MIG instance"
                yield _device(instance, f"{profile} of {name}", True, ours, root), instance
        else:
            exclusive = (value_of(card.compute_mode) or "").startswith("exclusive")  # for one process at a time
            yield _device(card, name, exclusive, ours, root), card


def _can_be_leased(card: Card) -> bool:
    health = value_of(card.health)
    works = health is None or health in _WORKS
    # Apple's GPU cannot be hidden from a process, so that a lease of it would mean nothing.
    return works and not card.integrated and card.vendor != "apple" and value_of(card.compute_mode) != "prohibited"


def _device(card: Card, name: str, whole_only: bool, ours: Ours | None, root: Path) -> Device:
    # Without a UUID, CUDA_VISIBLE_DEVICES takes the number.
    uuid = value_of(card.uuid) or (str(card.index) if card.vendor == "nvidia" else f"{card.vendor}:{card.index}")
    strangers = () if ours is None else _strangers(card, uuid, ours, root)
    return Device(uuid, card.vendor, card.index, name, value_of(card.memory_total), whole_only, strangers)


# --- who uses them without a lease ------------------------------------------------------------------------------------


def _strangers(card: Card, uuid: str, ours: Ours, root: Path) -> tuple[str, ...]:
    found = []
    told = 0
    for process in value_of(card.processes) or ():
        mine = descends_from(process.pid, ours.keepers, root)
        if not mine and not _is_seen(process):
            continue
        memory = value_of(process.memory)
        told = sys.maxsize if memory is None else told + memory  # not told: it may hold all the rest
        if not mine and process.kind != "graphics" and not (value_of(process.command) or "").endswith(_MPS_SERVER):
            found.append(_in_words(process))
    unseen = (value_of(card.memory_used) or 0) - told
    # NVML may count in the numbers of another PID namespace: what is leased is then most likely the holder's.
    if uuid not in ours.leased and unseen > _DRIVERS_PART * (value_of(card.memory_total) or sys.maxsize):
        found.append(f"{format_bytes(unseen)} used by processes that cannot be seen from here")
    return tuple(found)


def _is_seen(process: CardProcess) -> bool:
    return isinstance(process.command, Known) or isinstance(process.user, Known)


def _in_words(process: CardProcess) -> str:
    words = re.sub(r"^\S*/", "", value_of(process.command) or "a process")
    user, memory = value_of(process.user), value_of(process.memory)
    owner = f" of {user}" if user else ""
    return f"{words} (pid {process.pid}){owner}" + (f", {format_bytes(memory)}" if memory is not None else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the devices as a JSON array, each with its utilisation in percent where that is known."""
    parser = argparse.ArgumentParser(description="Print the cards that can be leased as JSON.")
    parser.add_argument("--store", help="the store whose runtimes are no strangers")
    parser.add_argument("--visible", help="CUDA_VISIBLE_DEVICES as it was before the runtime's own")
    given = parser.parse_args(arguments)
    environ = {name: value for name, value in os.environ.items() if name not in (_VISIBLE, "OWNLAB_RUNTIME")}
    if given.visible is not None:
        environ[_VISIBLE] = given.visible
    try:
        found = _read(environ, partial(known_runtimes, environ, store=given.store), Path("/"))
    except OwnlabError as exc:
        sys.stderr.write(f"{exc.message}\n")
        return exc.exit_code
    known = [{**device._asdict(), "utilisation": value_of(card.utilisation)} for device, card in found]
    sys.stdout.write(json.dumps(known) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
