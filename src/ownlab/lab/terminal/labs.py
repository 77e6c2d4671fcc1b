"""A lab in the terminal: where it is, what it has, and what goes on without it."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from ownlab.config.limits import Limits, preset_limits
from ownlab.config.settings import PRESETS, Preset
from ownlab.lab.service.records import LabState, LabStates, RuntimeWord
from ownlab.lab.terminal.runtimes import short_id, short_path
from ownlab.render.console import labelled
from ownlab.units import format_seconds

__all__ = ["describe_limits", "show_lab", "show_labs", "show_running", "tunnel"]

_WIDTH = 10


def show_lab(lab: LabState, facts: Sequence[tuple[str, str]], environ: Mapping[str, str], out: Console) -> None:
    """The address first: it is what people look for. `facts`: label and text."""
    out.print(Text("Your lab is up: ", style="bold").append(lab.address, style="bold cyan"), soft_wrap=True)
    out.print()
    for label, text in (("folder", lab.folder), *facts):
        labelled(out, label, text, width=_WIDTH, wrapped="\n" not in text)  # a line of its own is to be copied
    line = tunnel(lab.port, environ)
    if line:
        out.print()
        labelled(out, "", "To reach it from your own computer, run this there, then open the address:", width=0)
        labelled(out, "", Text(line, style="cyan"), indent=4, width=0, wrapped=False)


def show_labs(states: LabStates, out: Console) -> None:
    """Every lab that is up."""
    if not states.labs:
        out.print("No lab is up. Start one: ownlab up", markup=False)
    for number, lab in enumerate(states.labs):
        if number:
            out.print()
        out.print(Text(lab.folder, style="bold"), soft_wrap=True)
        labelled(out, "address", lab.address, width=_WIDTH, wrapped=False)
        labelled(out, "up for", format_seconds(max(1, round(time.time() - lab.started))), width=_WIDTH)
        labelled(out, "pid", f"{lab.pid}" + ("" if lab.watchdog else ", without a watchdog"), width=_WIDTH)
        labelled(out, "runtimes", str(lab.runtimes), width=_WIDTH)
        labelled(out, "log", lab.log, width=_WIDTH, wrapped=False)


def show_running(running: Sequence[RuntimeWord], out: Console) -> None:
    """A line for each runtime."""
    for one in running:
        labelled(
            out, "", f"{short_path(one.notebook, one.folder) or short_id(one.id)}: {one.label}, {one.state}", width=0
        )


def describe_limits(limits: Limits, preset: str) -> str:
    """ "colab: ends after 1 h 30 min idle, 12 h at most"; "" for none. The preset is named where all is as it says."""
    idle, session, week = limits.idle, limits.session, limits.card_seconds_per_week
    words = [
        "" if idle is None else f"{format_seconds(idle)} idle",
        "" if session is None else f"{format_seconds(session)} at most",
        "" if week is None else f"{week / 3600:g} h of a whole card a week",
    ]
    told = ", ".join(filter(None, words))
    if told and (idle is not None or session is not None):
        told = f"ends after {told}"
    known = PRESETS.get(preset)
    if told and known is not None and _is_preset(limits, known):
        return f"{known.name}: {told}"
    return told


def _is_preset(limits: Limits, preset: Preset) -> bool:
    expected = preset_limits(preset)
    return all(getattr(limits, field) == expected.get(field) for field in ("idle", "session", "card_seconds_per_week"))


def tunnel(port: int, environ: Mapping[str, str]) -> str:
    """Over SSH: the line with which the person's own computer reaches the lab; "" where it is not needed."""
    words = environ.get("SSH_CONNECTION", "").split()  # ssh(1): address and port of the client, and of the server
    if len(words) != 4:
        return ""
    other_port = "" if words[3] == "22" else f"-p {words[3]} "
    return f"ssh -N -L {port}:127.0.0.1:{port} {other_port}{getpass.getuser()}@{words[2]}"
