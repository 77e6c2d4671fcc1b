"""This machine's samples: cards from the child that asks NVML, the host and the processes from /proc."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ownlab.config.target import resolve_machine_options
from ownlab.instruments.top.host_sampler import Host
from ownlab.instruments.top.nvml_child import PENDING, CardsChild
from ownlab.instruments.top.process_sampler import Owners, Processes
from ownlab.instruments.top.records import CardSample, ProcessSample, Sample

if TYPE_CHECKING:
    from ownlab.instruments.top.recorded_cards import RecordedCards, StillCards
    from ownlab.processes.procfs import Stat

__all__ = ["Sampler"]

# Where there is nothing of NVIDIA's, no child is started to find nothing: so often the machine is looked over instead.
_ABSENCE_SECONDS = 60.0
# Accelerators that `ownlab doctor` knows and nobody samples yet, by PCI's number of their vendor.
_OTHERS = {"1002": "AMD", "8086": "Intel", "19e5": "Huawei", "1ae0": "Google"}


class Sampler:
    """One for each machine, whoever looks: each sample is of the interval since the one before. Threads may share it."""

    def __init__(
        self,
        owners: Owners = dict,
        environ: Mapping[str, str] = os.environ,
        *,
        child: CardsChild | None = None,
        root: Path = Path("/"),
    ) -> None:
        """`child`: one that was started already, by somebody in a hurry."""
        self._environ = environ
        self._root = root
        self._recorded = _stand_in(environ)
        self._child = child or CardsChild(environ)
        self._host = Host(root)
        self._processes = Processes(owners, root)
        self._before: float | None = None
        self._absence = ""
        self._absence_at = float("-inf")
        self._one_at_a_time = threading.Lock()

    def begin(self) -> None:
        """Put the first question, and take the moment from which the first sample's rates count. Waits for nothing."""
        with self._one_at_a_time:
            self._ask()
            self._host.read()
            self._processes.begin()
            self._before = time.monotonic()

    def take(self) -> Sample:
        """What was since the last call. Blocks for a second at most."""
        with self._one_at_a_time:
            cards, trouble, elsewhere = self._cards()
            host = self._host.read()
            processes = self._processes.read(cards, elsewhere)
            now = time.monotonic()
            before, self._before = self._before, now
            seconds = None if before is None else now - before
            return Sample(time.time(), seconds, host, cards, processes, trouble)

    @property
    def members(self) -> Mapping[str, tuple[Stat, ...]]:
        """By runtime, every process of it in the last sample: the lab asks for their memory in its own way."""
        return self._processes.members

    def close(self) -> None:
        """End the child."""
        with self._one_at_a_time:
            self._child.close()

    def _ask(self) -> None:
        if self._recorded is None and not self._absence:
            self._child.begin()

    def _cards(self) -> tuple[tuple[CardSample, ...], str, Mapping[int, ProcessSample] | None]:
        if self._recorded is not None:
            seen = self._recorded.look()
            return seen.cards, seen.trouble, seen.processes
        if self._absence and self._absent():
            return (), self._absence, None
        cards, trouble = self._child.ask()
        if trouble and trouble != PENDING:
            trouble = self._absent() or trouble
        elif not trouble and not cards:
            trouble = "NVML finds no card"
        return cards, trouble, None

    def _absent(self) -> str:
        """That there is nothing for NVML to find; "" where something of NVIDIA's is here, and NVML's own words count."""
        now = time.monotonic()
        if now - self._absence_at >= _ABSENCE_SECONDS:
            self._absence, self._absence_at = _absence(self._root, self._environ), now
        return self._absence


def _stand_in(environ: Mapping[str, str]) -> RecordedCards | StillCards | None:
    stream, machine = environ.get("OWNLAB_STREAM"), resolve_machine_options(environ=environ).machine_file
    if not stream and not machine:
        return None
    # What reads recorded machines is loaded for them alone.
    from ownlab.instruments.top.recorded_cards import RecordedCards, StillCards
    from ownlab.machine.machine_file import load_machine

    return RecordedCards(Path(stream)) if stream else StillCards(load_machine(machine or ""))


def _absence(root: Path, environ: Mapping[str, str]) -> str:
    from ownlab.machine.facts import value_of
    from ownlab.machine.host.kernel import read_pci
    from ownlab.machine.nvidia.driver import has_sign

    if has_sign(root, environ):
        return ""
    found = [_OTHERS[device.vendor] for device in value_of(read_pci(root)) or () if device.vendor in _OTHERS]
    if not found:
        return "no GPU was found on this machine"
    names = " and ".join(f"{found.count(name)} × {name}" for name in dict.fromkeys(found))
    return f"no NVIDIA GPU was found on this machine; of others there are {names}, which are not sampled yet"
