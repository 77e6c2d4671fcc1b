"""Reads NVIDIA's driver and cards: from NVML, else from nvidia-smi, else from the file system only."""

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
from ownlab.text import text

__all__ = ["NvmlAnswer", "read_nvidia"]

_OUTPUT_KEPT = 500  # characters of nvidia-smi's error output


def read_nvidia(
    root: Path = Path("/"),
    *,
    deadline: float = 30.0,
    env: Mapping[str, str] | None = None,
) -> tuple[Nvidia, tuple[Card, ...] | None]:
    """Read the driver and its cards; the cards are None if there are signs of cards but nothing can list them.

    NVML and nvidia-smi may each take `deadline` seconds; nvidia-smi runs only if NVML fails. Without persistence mode,
    the driver initializes every card for each query, which takes seconds: eight cards may need most of the 30 s.
    `env` is added to the environment of both.
    """
    environ = {**os.environ, **(env or {})}
    on_disk = driver.read_driver(root, environ)
    if not driver.has_sign(root, environ):
        absent = Unknown(text("no sign of an NVIDIA card or driver"))
        return replace(on_disk, driver=absent, cuda=absent, nvml=absent, smi=absent), ()
    answer = _ask_nvml(deadline, env)
    nvidia = replace(
        on_disk,
        driver=first_known(answer.driver, on_disk.driver),
        cuda=answer.cuda,
        nvml=answer.nvml,
        smi=Unknown(text("not needed: NVML answered")),
    )
    if answer.library is not None:
        nvidia = replace(
            nvidia, library_version=first_known(driver.library_version(answer.library), on_disk.library_version)
        )
    cards = answer.cards
    if isinstance(cards, Unknown):
        nvidia, cards = _run_nvidia_smi(nvidia, deadline, environ)
    if isinstance(cards, Unknown):
        return nvidia, () if driver.surely_no_card(root) else None
    return nvidia, tuple(name_processes(card, root) for card in cards.value)


def _ask_nvml(deadline: float, env: Mapping[str, str] | None) -> NvmlAnswer:
    """Query NVML in a child process: if the driver hangs or crashes, only the child is lost. Failures become reasons."""
    try:
        answer = guest_client.ask(sys.executable, "probe.nvml", answer=NvmlAnswer, deadline=deadline, env=env)
    except DeadlineError:
        return _failed(
            text("NVML did not answer in {seconds:g} s: the driver hangs, or is very slow to start", seconds=deadline)
        )
    except InterpreterError as exc:
        return _failed(text("NVML could not be queried: {error}", error=exc.message))
    return answer if answer.error is None else _failed(answer.error, library=answer.library)


def _failed(message: str, library: str | None = None) -> NvmlAnswer:
    reason = Unknown(message)
    return NvmlAnswer(library=library, driver=reason, cuda=reason, nvml=reason, cards=reason)


def _run_nvidia_smi(
    nvidia: Nvidia, deadline: float, environ: Mapping[str, str]
) -> tuple[Nvidia, Fact[tuple[Card, ...]]]:
    """Read the cards from nvidia-smi, which may have another version than the library that failed."""
    try:
        ran = runner.run(["nvidia-smi", "-q", "-x"], deadline=deadline, env=environ)
    except (DeadlineError, InputError) as exc:
        reason = Unknown(exc.message)
        return replace(nvidia, smi=reason), reason
    try:
        parsed, cards = nvidia_smi.parse(ran.stdout)
    except InputError:
        reason = Unknown(
            "; ".join(ran.output.splitlines())[:_OUTPUT_KEPT]
            or text("nvidia-smi {ending}", ending=runner.describe_exit(ran.returncode))
        )
        return replace(nvidia, smi=reason), reason
    known = replace(
        nvidia,
        driver=first_known(parsed.driver, nvidia.driver),
        cuda=first_known(parsed.cuda, nvidia.cuda),
        smi=parsed.smi,
    )
    return known, Known(cards, source=nvidia_smi.SOURCE)


class NvmlAnswer(Struct, frozen=True):
    """The answer of `ownlab_guest/probe/nvml.py`: facts, or NVML's error message if it did not start."""

    error: str | None = None
    code: int | None = None  # NVML's return code: 18 is a mismatch of driver and library
    library: str | None = None  # the file that NVML was loaded from
    driver: Fact[str] = NOT_READ
    cuda: Fact[str] = NOT_READ
    nvml: Fact[str] = NOT_READ
    cards: Fact[tuple[Card, ...]] = NOT_READ
