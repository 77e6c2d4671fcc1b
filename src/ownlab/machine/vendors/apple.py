"""Apple silicon: one GPU on the chip, which uses the machine's memory."""

from __future__ import annotations

import platform
import re

from msgspec.structs import replace

from ownlab.errors import DeadlineError
from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.records import Card
from ownlab.processes import runner
from ownlab.text import text

__all__ = ["parse_sysctl", "read_apple", "with_python_health"]

_NAMES = ("machdep.cpu.brand_string", "hw.memsize", "sysctl.proc_translated")
_SYSCTL_SECONDS = 3.0
_ROSETTA = text("this Python is built for x86_64 and runs under Rosetta: it cannot use the GPU (MPS)")


def read_apple() -> tuple[Card, ...]:
    """Read the GPU of this Mac if it has an Apple chip; no cards on other systems.

    Its health is that for ownlab's own Python; `with_python_health` replaces it for another one.
    """
    if platform.system() != "Darwin":
        return ()
    try:
        ran = runner.run(["/usr/sbin/sysctl", *_NAMES], deadline=_SYSCTL_SECONDS)
    except (runner.ToolMissing, DeadlineError) as exc:
        if platform.machine() != "arm64":
            return ()
        return (Card("apple", 0, name=Unknown(exc.message), health=Known("OK", source="platform.machine()")),)
    return parse_sysctl(ran.stdout, machine=platform.machine())


def with_python_health(card: Card, architecture: Fact[str]) -> Card:
    """Return the card with the health of an Apple GPU for a Python of the given architecture."""
    if card.vendor != "apple" or isinstance(architecture, Unknown):
        return card
    health = _ROSETTA if architecture.value == "x86_64" else "OK"
    return replace(card, health=Known(health, source=f"{architecture.source}: {architecture.value}"))


def parse_sysctl(content: str, *, machine: str) -> tuple[Card, ...]:
    """Parse `sysctl machdep.cpu.brand_string hw.memsize sysctl.proc_translated`.

    `machine` is what this Python was built for: an x86_64 one runs under Rosetta and cannot use Metal.
    """
    values = dict(re.findall(r"^([\w.]+):\s*(\S.*?)\s*$", content, re.MULTILINE))
    chip = values.get("machdep.cpu.brand_string", "")
    # A translated program gets "VirtualApple @ 2.50GHz".
    if "Apple" not in chip and machine != "arm64":
        return ()
    memory = values.get("hw.memsize", "")
    translated = machine == "x86_64" or values.get("sysctl.proc_translated") == "1"
    return (
        Card(
            vendor="apple",
            index=0,
            name=Known(chip, source="sysctl machdep.cpu.brand_string")
            if chip.startswith("Apple")
            else Unknown(text("Rosetta hides the chip's name") if chip else text("sysctl does not name the chip")),
            memory_total=Known(int(memory), source=text("sysctl hw.memsize (shared with the CPU)"), unit="B")
            if memory.isdigit()
            else Unknown(text("sysctl does not report hw.memsize")),
            health=Known(_ROSETTA if translated else "OK", source="sysctl.proc_translated"),
        ),
    )
