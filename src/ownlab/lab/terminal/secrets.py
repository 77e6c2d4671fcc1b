"""Secrets in the terminal: their names and grants, never a value."""

from __future__ import annotations

import os

from rich.console import Console
from rich.text import Text

from ownlab.lab.secrets.store import SecretList
from ownlab.render.console import labelled

__all__ = ["show_secrets"]

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
