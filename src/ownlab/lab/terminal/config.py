"""The configuration and the store in the terminal."""

from __future__ import annotations

import os

from rich.console import Console
from rich.text import Text

from ownlab.config.listing import Configuration, SettingValue
from ownlab.lab.secrets.store import SecretList
from ownlab.lab.store.location import StoreChoice, StoreView
from ownlab.render.console import labelled
from ownlab.units import format_seconds

__all__ = ["show_configuration", "show_secrets", "show_store"]

_UNSET = dict.fromkeys(("drive.folder", "metrics.token_file", "startup.script", "store.folder"), "not set")
_LIMITS = {
    "idle": "idle at most",
    "session": "session at most",
    "card_seconds_per_week": "card time per week and person",
    "warn": "warned before the end",
    "extend": "one extension",
    "on_end": "time to save at the end",
}


def show_configuration(found: Configuration, store: StoreChoice, out: Console) -> None:
    """Every setting: its value, then where that came from."""
    names = max(len(setting.name) for setting in found.settings) + 2
    values = max(len(_value(setting)) for setting in found.settings) + 2
    for setting in found.settings:
        chosen = setting.origin != "default"
        line = Text.assemble(
            setting.name.ljust(names),
            (_value(setting).ljust(values), "bold" if chosen else ""),
            (setting.origin, "" if chosen else "dim"),
        )
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
    out.print()
    for file in found.files:
        labelled(out, file.state, file.path, indent=0, width=13, wrapped=False)
    if store.shared:
        out.print()
        out.print(f"The shared store {store.folder} may have limits of its own; the stricter hold. See: ownlab store")
    if all(file.state == "not there" for file in found.files):
        out.print(Text("There is no file yet. One to begin with: ownlab config --init", style="dim"))


def _value(setting: SettingValue) -> str:
    value = setting.value
    if value is None:
        return _UNSET.get(setting.name, "none")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def show_store(view: StoreView, out: Console) -> None:
    """Where it is, whose, and why this one."""
    whose = "shared" if view.shared else "yours alone"
    out.print(Text.assemble((view.folder, "bold"), f"  {whose}"), no_wrap=True, overflow="ignore", crop=False)
    labelled(out, "why", view.origin)
    if view.mode is not None:
        labelled(out, "rights", f"{view.mode} {view.owner}:{view.group}")
    if view.filesystem is not None:
        labelled(out, "on", f"{view.filesystem}, {'a network file system' if view.network else 'a local file system'}")
    if not view.made:
        labelled(out, "state", "not made yet: the first runtime makes it")
    for number, (name, value) in enumerate((view.limits or {}).items()):
        words = "no limit" if value is None else format_seconds(value)
        labelled(out, "limits" if number == 0 else "", f"{_LIMITS.get(name, name)}: {words}")
    if view.notice:
        labelled(out, "note", Text(view.notice, style="yellow"))


_WHERE = {"keyring": "in the system's keyring", "file": "in a file of your own"}


def show_secrets(found: SecretList, out: Console) -> None:
    """Each with the notebooks that may read it."""
    if not found.secrets:
        out.print("No secret was set.")
        out.print(Text("Set one: ownlab secrets set NAME", style="dim"))
    for secret in found.secrets:
        head = Text.assemble((secret.name, "bold"), (f"  {_WHERE[secret.where]}", "dim"))
        out.print(head, no_wrap=True, overflow="ignore", crop=False)
        for path in secret.notebooks:
            # Whatever comes to this place will have the secret: so it is worth a word.
            gone = "" if os.path.exists(path) else "  is gone"
            labelled(out, "", Text(path).append(gone, style="bold red"), width=0, wrapped=False)
        if not secret.notebooks:
            labelled(out, "", Text("granted to no notebook", style="dim"), width=0)
