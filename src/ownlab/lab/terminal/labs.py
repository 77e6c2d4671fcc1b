"""Labs in the terminal: address, runtime types, limits, and what is still running."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from ownlab.config.limits import Limits, preset_limits
from ownlab.config.settings import PRESETS, Preset
from ownlab.lab.service.records import LabState, LabStates, OpenedNotebook, RuntimeSummary
from ownlab.lab.terminal.runtimes import STATES, short_id, short_path
from ownlab.render.console import labelled
from ownlab.text import facts, text
from ownlab.units import format_seconds

__all__ = ["describe_limits", "show_lab", "show_labs", "show_opened", "show_running"]

_WIDTH = 10
_STATES = {
    "restarting": text("The server is being restarted. The runtimes keep running."),
    "not answering": text("The server runs, but does not answer. The runtimes keep running."),
}


def show_lab(lab: LabState, facts: Sequence[tuple[str, str]], environ: Mapping[str, str], out: Console) -> None:
    """Print a lab, its address first. `facts`: pairs of label and text."""
    out.print(Text(text("Your lab is running: "), style="bold").append(lab.address, style="bold cyan"), soft_wrap=True)
    out.print()
    for label, fact in ((text("folder"), lab.folder), *facts):
        labelled(out, label, fact, width=_WIDTH, wrapped="\n" not in fact)  # a line of its own is meant to be copied
    if lab.fingerprint is None:
        show_tunnel(lab.port, environ, out)
    else:
        _show_fingerprint(lab.fingerprint, out)


def _show_fingerprint(fingerprint: str, out: Console) -> None:
    out.print()
    advice = text(
        "Other computers reach the lab at this address. If a browser does not know the certificate, compare its SHA-256 fingerprint before you "
        "accept it:"
    )
    labelled(out, "", advice, width=0)
    labelled(out, "", Text(fingerprint, style="cyan"), indent=4, width=0, wrapped=False)


def show_labs(states: LabStates, out: Console) -> None:
    """Print every running lab."""
    if not states.labs:
        out.print(text("No lab is running. Start one: ownlab up"), markup=False)
    for number, lab in enumerate(states.labs):
        if number:
            out.print()
        out.print(Text(lab.folder, style="bold"), soft_wrap=True)
        labelled(out, text("address"), lab.address, width=_WIDTH, wrapped=False)
        if lab.state != "ready":
            labelled(out, text("state"), _STATES[lab.state], width=_WIDTH)
        labelled(out, text("up for"), format_seconds(max(1, round(time.time() - lab.started))), width=_WIDTH)
        if lab.pid is not None:
            pid = str(lab.pid) if lab.watchdog else text("{pid}, without a watchdog", pid=lab.pid)
            labelled(out, "PID", pid, width=_WIDTH)
        labelled(out, text("runtimes"), str(lab.runtimes), width=_WIDTH)
        labelled(out, text("log"), lab.log, width=_WIDTH, wrapped=False)
        if lab.fingerprint is not None:
            labelled(out, "SHA-256", lab.fingerprint, width=_WIDTH, wrapped=False)
    for notice in states.notices:
        out.print()
        labelled(out, text("note"), notice, width=_WIDTH)


def show_running(running: Sequence[RuntimeSummary], out: Console) -> None:
    """Print one line per runtime."""
    for runtime in running:
        name = short_path(runtime.notebook, runtime.folder) or short_id(runtime.id)
        labelled(
            out,
            "",
            facts(text("{name}: {about}", name=name, about=runtime.label), STATES.get(runtime.state, runtime.state)),
            width=0,
        )


def describe_limits(limits: Limits, preset: str) -> str:
    """Describe limits: "colab: 1 h 30 min idle, 12 h per session"; "" for none.

    Names the preset if all limits match it.
    """
    parts = []
    if limits.idle is not None:
        parts.append(text("{duration} idle", duration=format_seconds(limits.idle)))
    if limits.unattended is not None:
        parts.append(text("{duration} idle with a card and no page", duration=format_seconds(limits.unattended)))
    if limits.session is not None:
        parts.append(text("{duration} per session", duration=format_seconds(limits.session)))
    if limits.card_seconds_per_week is not None:
        parts.append(text("{hours:g} h of a whole card per week", hours=limits.card_seconds_per_week / 3600))
    known = PRESETS.get(preset)
    if parts and known is not None and _is_preset(limits, known):
        return text("{preset}: {limits}", preset=known.name, limits=facts(*parts))
    return facts(*parts)


def _is_preset(limits: Limits, preset: Preset) -> bool:
    expected = preset_limits(preset)
    fields = ("idle", "unattended", "session", "card_seconds_per_week")
    return all(getattr(limits, field) == expected.get(field) for field in fields)


def show_tunnel(port: int, environ: Mapping[str, str], out: Console) -> None:
    """Over SSH, print the command with which the user's own computer reaches the lab."""
    command = _tunnel_command(port, environ)
    if command:
        out.print()
        advice = text("To reach it from your own computer, run this command there, then open the address:")
        labelled(out, "", advice, width=0)
        labelled(out, "", Text(command, style="cyan"), indent=4, width=0, wrapped=False)


def _tunnel_command(port: int, environ: Mapping[str, str]) -> str:
    words = environ.get("SSH_CONNECTION", "").split()  # ssh(1): address and port of the client, and of the server
    if len(words) != 4:
        return ""
    other_port = "" if words[3] == "22" else f"-p {words[3]} "
    return f"ssh -N -L {port}:127.0.0.1:{port} {other_port}{getpass.getuser()}@{words[2]}"


def show_opened(opened: OpenedNotebook, environ: Mapping[str, str], out: Console) -> None:
    """Print a notebook that was opened, its address first."""
    out.print(
        Text(text("Open in your lab: "), style="bold").append(opened.lab.address, style="bold cyan"), soft_wrap=True
    )
    out.print()
    labelled(out, text("notebook"), opened.notebook, wrapped=False)
    if opened.copied:
        labelled(out, text("from"), opened.source, wrapped=False)
    if opened.colab:
        labelled(out, "Colab", text("This notebook was written for Colab: it gets google.colab and /content."))
    if opened.lab.fingerprint is None:
        show_tunnel(opened.lab.port, environ, out)
