"""Samples of this machine: cards from the NVML child process, host and processes from /proc."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ownlab.config.machine_options import resolve_machine_options
from ownlab.instruments.top.host_sampler import HostSampler
from ownlab.instruments.top.nvml_child import PENDING, NvmlChild
from ownlab.instruments.top.process_sampler import Owners, ProcessSampler
from ownlab.instruments.top.records import CardSample, ProcessSample, Sample
from ownlab.text import listing, text

if TYPE_CHECKING:
    from ownlab.instruments.top.recorded_cards import LoopedRecording, StaticMachine
    from ownlab.processes.procfs import Stat

__all__ = ["Sampler"]

# On a machine without anything of NVIDIA no child is started; the machine is checked again after this time.
_ABSENCE_SECONDS = 60.0
# Accelerators that `ownlab doctor` knows but `top` does not sample yet, by PCI vendor id.
_OTHER_VENDORS = {"1002": "AMD", "8086": "Intel", "19e5": "Huawei", "1ae0": "Google"}


class Sampler:
    """One per machine, however many clients: each sample covers the interval since the previous one. Threads may share it."""

    def __init__(
        self,
        owners: Owners = dict,
        environ: Mapping[str, str] = os.environ,
        *,
        child: NvmlChild | None = None,
        root: Path = Path("/"),
    ) -> None:
        """`child`: an NVML child that was started in advance."""
        self._environ = environ
        self._root = root
        self._recorded = _open_recorded(environ)
        self._child = child or NvmlChild(environ)
        self._host = HostSampler(root)
        self._processes = ProcessSampler(owners, root)
        self._before: float | None = None
        self._absence = ""
        self._absence_at = float("-inf")
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Send the first request and start the interval of the first sample. Does not block."""
        with self._lock:
            self._request_cards()
            self._host.read()
            self._processes.begin()
            self._before = time.monotonic()

    def take(self) -> Sample:
        """Return a sample of the interval since the last call. Blocks for at most a second."""
        with self._lock:
            cards, trouble, elsewhere = self._read_cards()
            host = self._host.read()
            processes = self._processes.read(cards, elsewhere)
            now = time.monotonic()
            before, self._before = self._before, now
            seconds = None if before is None else now - before
            return Sample(time.time(), seconds, host, cards, processes, trouble)

    @property
    def members(self) -> Mapping[str, tuple[Stat, ...]]:
        """All processes of each runtime in the last sample. The lab measures their memory itself."""
        return self._processes.members

    def close(self) -> None:
        """Stop the child."""
        with self._lock:
            self._child.close()

    def _request_cards(self) -> None:
        if self._recorded is None and not self._absence:
            self._child.begin()

    def _read_cards(self) -> tuple[tuple[CardSample, ...], str, Mapping[int, ProcessSample] | None]:
        if self._recorded is not None:
            reading = self._recorded.read()
            return reading.cards, reading.trouble, reading.processes
        if self._absence and self._check_absence():
            return (), self._absence, None
        cards, trouble = self._child.ask()
        if trouble and trouble != PENDING:
            trouble = self._check_absence() or trouble
        elif not trouble and not cards:
            trouble = text("NVML finds no card")
        return cards, trouble, None

    def _check_absence(self) -> str:
        """Return why NVML cannot find a card; "" if something of NVIDIA is installed, so that NVML's own error counts."""
        now = time.monotonic()
        if now - self._absence_at >= _ABSENCE_SECONDS:
            self._absence, self._absence_at = _explain_absence(self._root, self._environ), now
        return self._absence


def _open_recorded(environ: Mapping[str, str]) -> LoopedRecording | StaticMachine | None:
    stream, machine = environ.get("OWNLAB_STREAM"), resolve_machine_options(environ=environ).machine_file
    if not stream and not machine:
        return None
    # Only loaded when needed.
    from ownlab.instruments.top.recorded_cards import LoopedRecording, StaticMachine
    from ownlab.machine.machine_file import load_machine

    return LoopedRecording(Path(stream)) if stream else StaticMachine(load_machine(machine or ""))


def _explain_absence(root: Path, environ: Mapping[str, str]) -> str:
    from ownlab.machine.facts import value_of
    from ownlab.machine.host.kernel import read_pci
    from ownlab.machine.nvidia.driver import has_sign

    if has_sign(root, environ):
        return ""
    others = [
        _OTHER_VENDORS[device.vendor] for device in value_of(read_pci(root)) or () if device.vendor in _OTHER_VENDORS
    ]
    if not others:
        return text("no GPU was found on this machine")
    return text(
        "no NVIDIA GPU was found on this machine, only {devices}, which ownlab top does not support yet",
        devices=listing(f"{others.count(name)} × {name}" for name in dict.fromkeys(others)),
    )
