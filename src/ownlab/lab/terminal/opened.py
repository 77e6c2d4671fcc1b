"""A notebook that was opened, in the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from ownlab.lab.service.records import OpenedNotebook
from ownlab.lab.terminal.labs import tunnel
from ownlab.render.console import labelled

__all__ = ["show_opened"]


def show_opened(opened: OpenedNotebook, environ: Mapping[str, str], out: Console) -> None:
    """The address first: it is what people look for."""
    out.print(
        Text("It is open in your lab: ", style="bold").append(opened.lab.address, style="bold cyan"), soft_wrap=True
    )
    out.print()
    labelled(out, "notebook", opened.notebook, wrapped=False)
    if opened.copied:
        labelled(out, "from", opened.source, wrapped=False)
    if opened.colab:
        labelled(out, "colab", "it was written for Colab: google.colab and /content are there for it")
    line = tunnel(opened.lab.port, environ)
    if line:
        out.print()
        labelled(out, "", "To reach it from your own computer, run this there, then open the address:", width=0)
        labelled(out, "", Text(line, style="cyan"), indent=4, width=0, wrapped=False)
