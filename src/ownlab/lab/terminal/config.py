"""The configuration, the store and the secrets in the terminal."""

from __future__ import annotations

import os

from rich.console import Console
from rich.text import Text

from ownlab.config.listing import Configuration, SettingValue
from ownlab.lab.secrets.store import SecretList
from ownlab.lab.store.location import StoreChoice, StoreView
from ownlab.render.console import labelled
from ownlab.render.wide_text import align_left, cell_width
from ownlab.text import template, text
from ownlab.units import format_seconds

__all__ = ["show_configuration", "show_secrets", "show_store"]

_FILE_STATES = {"used": text("used"), "passed over": text("ignored"), "not there": text("missing")}
_UNSET = dict.fromkeys(("drive.folder", "metrics.token_file", "startup.script", "store.folder"), text("not set"))
_LIMITS = {
    "idle": text("maximum idle time"),
    "unattended": text("maximum idle time of a card without a page"),
    "session": text("maximum session time"),
    "card_seconds_per_week": text("card time per user and week"),
    "warn": text("warning before the end"),
    "extend": text("length of an extension"),
    "on_end": text("time to save at the end"),
}


def show_configuration(configuration: Configuration, store: StoreChoice, out: Console) -> None:
    """Print every setting with its value and origin."""
    names = max(len(setting.name) for setting in configuration.settings) + 2
    values = max(cell_width(_value(setting)) for setting in configuration.settings) + 2
    for setting in configuration.settings:
        chosen = setting.origin != "default"
        line = Text.assemble(
            align_left(setting.name, names),
            (align_left(_value(setting), values), "bold" if chosen else ""),
            (setting.origin if chosen else text("default"), "" if chosen else "dim"),
        )
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
    out.print()
    for file in configuration.files:
        labelled(out, _FILE_STATES[file.state], file.path, indent=0, width=13, wrapped=False)
    if store.shared:
        out.print()
        out.print(
            text(
                "The shared store {folder} may have its own limits; the stricter limits apply. See: ownlab store",
                folder=store.folder,
            )
        )
    if all(file.state == "not there" for file in configuration.files):
        out.print(Text(text("There is no configuration file yet. Create one: ownlab config --init"), style="dim"))


def _value(setting: SettingValue) -> str:
    value = setting.value
    if value is None:
        return _UNSET.get(setting.name, text("none"))
    if isinstance(value, bool):
        return "true" if value else "false"  # as it is written in the file
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def show_store(view: StoreView, out: Console) -> None:
    """Print where the store is, who uses it, and why it was chosen."""
    kind = text("shared") if view.shared else text("private")
    out.print(Text.assemble((view.folder, "bold"), f"  {kind}"), no_wrap=True, overflow="ignore", crop=False)
    labelled(out, text("why"), view.origin)
    if view.mode is not None:
        labelled(out, text("rights"), f"{view.mode} {view.owner}:{view.group}")
    if view.filesystem is not None:
        system = template("{name}, a network file system") if view.network else template("{name}, a local file system")
        labelled(out, text("on"), system.fill(name=view.filesystem))
    if not view.made:
        labelled(out, text("state"), text("not created yet: the first runtime creates it"))
    for number, (name, value) in enumerate((view.limits or {}).items()):
        limit = text("no limit") if value is None else format_seconds(value)
        labelled(out, text("limits") if number == 0 else "", f"{_LIMITS.get(name, name)}: {limit}")
    if view.notice:
        labelled(out, text("note"), Text(view.notice, style="yellow"))


_WHERE = {"keyring": text("in the system keyring"), "file": text("in a private file")}


def show_secrets(listed: SecretList, out: Console) -> None:
    """Print each secret with the notebooks that may read it, never its value."""
    if not listed.secrets:
        out.print(text("There are no secrets."))
        out.print(Text(text("Set one: ownlab secrets set NAME"), style="dim"))
    for secret in listed.secrets:
        head = Text.assemble((secret.name, "bold"), (f"  {_WHERE[secret.where]}", "dim"))
        out.print(head, no_wrap=True, overflow="ignore", crop=False)
        for path in secret.notebooks:
            # Any new notebook at this path would get the secret, so it is worth a warning.
            missing = "" if os.path.exists(path) else f"  {text('(missing)')}"
            labelled(out, "", Text(path).append(missing, style="bold red"), width=0, wrapped=False)
        if not secret.notebooks:
            labelled(out, "", Text(text("not granted to any notebook"), style="dim"), width=0)
