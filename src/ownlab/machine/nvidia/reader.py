"""NVIDIA's driver and cards: from NVML, else from nvidia-smi, else from the file system alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ownlab import guest_client
from ownlab.errors import DeadlineError, InputError, InterpreterError
from ownlab.machine.facts import NOT_READ, Fact, Known, Unknown, first_known
from ownlab.machine.nvidia import driver, nvidia_smi
from ownlab.machine.nvidia.processes import name_processes
from ownlab.machine.records import Card, Nvidia
from ownlab.processes import runner

__all__ = ["NvmlAnswer", "ask_nvml", "read_nvidia"]

_WORDS_KEPT = 500


def read_nvidia(
    root: Path = Path("/"),
    *,
    deadline: float = 30.0,
    env: Mapping[str, str] | None = None,
) -> tuple[Nvidia, tuple[Card, ...] | None]:
    """The driver, and its cards; None where there are signs of cards that nothing can list.

    NVML and nvidia-smi may each take `deadline` seconds; the latter is asked only where the former fails. Without
    persistence mode the driver starts each card anew, which takes seconds a card: eight may need most of the 30 s.
    `env` is added to the environment of both.
    """
    environ = {**os.environ, **(env or {})}
    on_disk = driver.read_driver(root, environ)
    if not driver.has_sign(root, environ):
        nothing = Unknown("there is no sign of an NVIDIA card or driver here")
        return replace(on_disk, driver=nothing, cuda=nothing, nvml=nothing, smi=nothing), ()
    answer = _ask_nvml(deadline, env)
    nvidia = replace(
        on_disk,
        driver=first_known(answer.driver, on_disk.driver),
        cuda=answer.cuda,
        nvml=answer.nvml,
        smi=Unknown("not needed: NVML answered"),
    )
    if answer.library is not None:
        nvidia = replace(
            nvidia, library_version=first_known(driver.library_version(answer.library), on_disk.library_version)
        )
    cards = answer.cards
    if isinstance(cards, Unknown):
        nvidia, cards = _fall_back(nvidia, deadline, environ)
    if isinstance(cards, Unknown):
        return nvidia, () if driver.surely_no_card(root) else None
    return nvidia, tuple(name_processes(card, root) for card in cards.value)


def _ask_nvml(deadline: float, env: Mapping[str, str] | None) -> NvmlAnswer:
    """NVML's answer; where it gave none, the reason stands for each of its facts."""
    try:
        answer = ask_nvml(deadline=deadline, env=env)
    except DeadlineError:
        return _failed(f"NVML did not answer in {deadline:g} s: the driver hangs, or is very slow to start")
    except InterpreterError as exc:
        return _failed(f"NVML could not be asked: {exc.message}")
    return answer if answer.error is None else _failed(answer.error, library=answer.library)


def _failed(reason: str, library: str | None = None) -> NvmlAnswer:
    why = Unknown(reason)
    return NvmlAnswer(library=library, driver=why, cuda=why, nvml=why, cards=why)


def _fall_back(nvidia: Nvidia, deadline: float, environ: Mapping[str, str]) -> tuple[Nvidia, Fact[tuple[Card, ...]]]:
    """The same through nvidia-smi, which may be of another version than the library that failed."""
    try:
        ran = runner.run(["nvidia-smi", "-q", "-x"], deadline=deadline, env=environ)
    except (DeadlineError, InputError) as exc:
        why = Unknown(exc.message)
        return replace(nvidia, smi=why), why
    try:
        said, cards = nvidia_smi.parse(ran.stdout)
    except InputError:
        why = Unknown(
            "; ".join(ran.output.splitlines())[:_WORDS_KEPT] or f"nvidia-smi {runner.describe_exit(ran.returncode)}"
        )
        return replace(nvidia, smi=why), why
    known = replace(
        nvidia,
        driver=first_known(said.driver, nvidia.driver),
        cuda=first_known(said.cuda, nvidia.cuda),
        smi=said.smi,
    )
    return known, Known(cards, source=nvidia_smi.SOURCE)


class NvmlAnswer(Struct, frozen=True):
    """What `ownlab_guest/probe/nvml.py` answers: facts, or the words with which NVML failed to start."""

    error: str | None = None
    code: int | None = None  # of NVML's return codes: 18 is a mismatch of driver and library
    library: str | None = None  # the file that NVML was loaded from
    driver: Fact[str] = NOT_READ
    cuda: Fact[str] = NOT_READ
    nvml: Fact[str] = NOT_READ
    cards: Fact[tuple[Card, ...]] = NOT_READ


def ask_nvml(*, deadline: float, env: Mapping[str, str] | None = None) -> NvmlAnswer:
    """Raises DeadlineError where the driver hangs, and GuestCrashed where it crashes its caller."""
    return guest_client.ask(sys.executable, "probe.nvml", answer=NvmlAnswer, deadline=deadline, env=env)
