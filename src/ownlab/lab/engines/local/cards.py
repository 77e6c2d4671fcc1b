"""Which runtime a script gets: the interpreter, and any number of cards of one kind."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from ownlab.config.loader import resolve_lab_options
from ownlab.errors import CardsTaken, DeviceUnusable, UsageError
from ownlab.lab.engines.interpreter import choose_environment
from ownlab.lab.runs.runtime_type import cpu_of_environment, find_named_type
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.records import CPU_TYPE, RuntimeType
from ownlab.lab.runtimes.runtime_types import custom_type
from ownlab.lab.runtimes.snapshot import with_availability
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.locks_only import open_any
from ownlab.lab.store.orphans import MARKER
from ownlab.lab.store.rows import Device
from ownlab.text import listing, plural, text
from ownlab.units import PARTS

__all__ = ["check_own_lease", "choose_script_type"]

_FEWER = text("Ask for fewer; `ownlab machine` shows what is available.")


def choose_script_type(
    type_name: str | None, gpus: int | None, python: str | None, env: Mapping[str, str]
) -> RuntimeType:
    """The type that was asked for by its name, an environment or an interpreter, with `gpus` cards.

    Without any of them: the active environment's Python or else the default environment, on the CPU.
    """
    base = find_named_type((type_name and cpu_of_environment(type_name, env)) or type_name or CPU_TYPE, env)
    environment = choose_environment(base, python, given=type_name is not None, env=env)
    options = resolve_lab_options(environ=env)
    if gpus is None:
        return custom_type(environment, base.kind, base.cards, base.parts, options)
    if base.kind is not None:
        if base.parts < PARTS and gpus > 1:
            message = text(
                "{type} is a share of one GPU; it cannot be combined with --gpus {n}.", type=base.label, n=gpus
            )
            raise UsageError(message, hint=text("Name the type of a whole GPU, or leave -t out."))
        _check_number(base.kind, gpus, read_devices(env))
        return custom_type(environment, base.kind, gpus, base.parts, options)
    devices = read_devices(env)
    candidates = [custom_type(environment, kind, gpus, PARTS, options) for kind in _kinds(gpus, devices)]
    if len(candidates) == 1:
        return candidates[0]
    with open_any(choose_store(options, env).folder) as store:
        available = with_availability(candidates, store, devices, options)
    return next((each for each in available if each.free), available[0])


def check_own_lease(kind: RuntimeType, env: Mapping[str, str]) -> None:
    """CardsTaken if a run that is started inside a runtime would wait for the cards of that runtime, for ever."""
    outer = os.environ.get(MARKER, "")
    if not outer or kind.kind is None:
        return
    devices = {device.uuid for device in read_devices(env) if device.name == kind.kind}
    with open_any(choose_store(resolve_lab_options(environ=env), env).folder) as store:
        own = {lease.device for lease in store.leases() if lease.runtime == outer} & devices
    if own and len(devices) - len(own) < kind.cards:
        raise CardsTaken(
            plural(
                len(own),
                "The runtime in which this was started holds 1 of the {all} × {kind}: the run would wait for it for ever.",
                "The runtime in which this was started holds {n} of the {all} × {kind}: the run would wait for it for ever.",
                all=len(devices),
                kind=kind.kind,
            ),
            hint=text("Change the notebook's runtime type to one without a GPU, or ask for fewer GPUs."),
        )


def _kinds(gpus: int, devices: Sequence[Device]) -> list[str]:
    """The kinds of which the machine has enough, those with the most memory first. DeviceUnusable if there is none."""
    # CUDA gives a process only one MIG instance: several are no "several GPUs".
    whole = [device for device in devices if gpus == 1 or not device.uuid.startswith("MIG-")]
    numbers = Counter(device.name for device in whole)
    kinds = [kind for kind, number in numbers.items() if number >= gpus]
    if kinds:
        memory = {device.name: device.memory or 0 for device in whole}
        return sorted(kinds, key=lambda kind: (-memory[kind], kind))
    if not numbers:
        message = text("This machine has no GPU that can be leased.")
        raise DeviceUnusable(
            message, hint=text("`ownlab doctor` shows why. On the CPU: --nproc N instead of --gpus N.")
        )
    has = listing(f"{number} × {kind}" for kind, number in numbers.items())
    raise DeviceUnusable(
        text("This machine has {has}, but {n} of one kind were requested.", has=has, n=gpus), hint=_FEWER
    )


def _check_number(kind: str, gpus: int, devices: Sequence[Device]) -> None:
    has = sum(device.name == kind for device in devices)
    if has < gpus:
        raise DeviceUnusable(
            text("This machine has {has} × {kind}, but {n} were requested.", has=has, kind=kind, n=gpus),
            hint=_FEWER,
        )
