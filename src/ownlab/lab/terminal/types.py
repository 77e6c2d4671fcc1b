"""Runtime types and environments in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.lab.environments.registry import EnvironmentList
from ownlab.lab.runtimes.records import TypeList

__all__ = ["show_environments", "show_types"]


def show_types(found: TypeList, out: Console) -> None:
    """One line for each: its label, its name for `jupyter execute --kernel_name`, what an hour costs."""
    labels = max(len(listed.type.label) for listed in found.types) + 2
    names = max(len(listed.type.name) for listed in found.types) + 2
    for listed in found.types:
        kind = listed.type
        line = Text.assemble(
            (kind.label.ljust(labels), "bold"),
            kind.name.ljust(names),
            (f"{kind.units_per_hour:g} unit{'' if kind.units_per_hour == 1 else 's'}/h", "dim"),
            ("" if listed.written else "  not written yet", "yellow"),
        )
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
    out.print()
    out.print(Text(f"Written for Jupyter in {found.folder}", style="dim"), no_wrap=True, overflow="ignore", crop=False)
    if found.export:
        words = Text("For `jupyter execute`, papermill and VS Code, first: ").append(found.export, style="cyan")
        out.print(words, no_wrap=True, overflow="ignore", crop=False)
    if found.gone:
        out.print(f"Written, and no longer there: {', '.join(found.gone)}")
    if found.gone or not all(listed.written for listed in found.types):
        out.print("Bring the list up to date: ownlab types refresh")
    if all(listed.type.kind is None for listed in found.types):
        out.print("There is no card here that can be used. `ownlab doctor` says why.")


def show_environments(found: EnvironmentList, out: Console) -> None:
    """One line for each, and what to do where there is none."""
    if not found.environments:
        out.print("None was added. Runtimes start in ownlab's own environment.")
        out.print(Text("Add one: ownlab env add NAME --python PATH", style="dim"))
        return
    names = max(len(environment.name) for environment in found.environments) + 2
    for environment in found.environments:
        line = Text.assemble(
            (environment.name.ljust(names), "bold"),
            f"Python {environment.version}".ljust(16),
            environment.python,
            ("" if environment.is_there else "  is gone", "bold red"),
        )
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
