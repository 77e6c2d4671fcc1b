"""Before a run: the notebook that is asked for, with its parameters in it, and the file that it will be written to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from ownlab.errors import InputError, UsageError
from ownlab.lab.forms.grammar import parse_form
from ownlab.lab.forms.notebook_forms import cell_source
from ownlab.lab.notebooks.files import read_notebook, write_new

__all__ = ["Asked", "Output", "Step", "check_folders", "choose_output", "clear", "load", "steps_of"]

_TITLE = 200


class Asked(NamedTuple):
    """What somebody wants to be run, and how."""

    notebook: str
    output: str | None = None
    inplace: bool = False
    force: bool = False  # an output that is there may be overwritten
    parameters: Mapping[str, object] = {}
    type: str | None = None
    timeout: float | None = None  # seconds for each cell
    allow_errors: bool = False
    keep: bool = False
    from_failed: bool = False
    wait: bool = True
    uploads: str | None = None
    outputs: str | None = None
    restore_packages: bool = False


class Step(NamedTuple):
    """One cell that is to be run."""

    cell: int  # among all cells, from 0
    id: str
    title: str
    source: str
    may_fail: bool = False
    skipped: bool = False


class Output(NamedTuple):
    """The file that the run is written to."""

    path: str  # absolute
    is_new: bool  # it was made for this run, and is of no use without it


def load(path: str) -> dict[str, Any]:
    """The notebook that was given; each of its cells has an id."""
    notebook = read_notebook(path)
    from ownlab.lab.notebooks.parsing import assign_cell_ids

    assign_cell_ids(notebook)
    return notebook


def clear(notebook: dict[str, Any]) -> None:
    """Without what an earlier run left in it."""
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code":
            cell["outputs"], cell["execution_count"] = [], None
            cell.setdefault("metadata", {}).pop("execution", None)


def choose_output(asked: Asked, notebook: dict[str, Any]) -> Output:
    """Make the file for the outputs; one that is there already stays as it is until the run begins."""
    path = os.path.abspath(asked.notebook)
    if asked.inplace:
        _check_writable(path)
        return Output(path, is_new=False)
    if asked.output is None:
        return _beside(path, notebook)
    target = os.path.abspath(asked.output)
    if os.path.isdir(target):
        raise UsageError(f"{asked.output} is a folder", hint="-o names a file.")
    if _make(target, notebook):
        return Output(target, is_new=True)
    if os.path.realpath(target) == os.path.realpath(path):
        raise UsageError(f"{asked.output} is the notebook itself", hint="To write into it: --inplace.")
    if not asked.force:
        raise UsageError(f"{asked.output} is there already", hint="Overwrite it with --force.")
    _check_writable(target)
    return Output(target, is_new=False)


def steps_of(notebook: dict[str, Any]) -> tuple[Step, ...]:
    """Every code cell that is not empty."""
    found = []
    for number, cell in enumerate(notebook["cells"]):
        source = cell_source(cell) or ""
        if cell.get("cell_type") != "code" or not source.strip():
            continue
        tags = cell.get("metadata", {}).get("tags")
        tags = tags if isinstance(tags, list) else []
        found.append(
            Step(
                cell=number,
                id=cell["id"],
                title=_title(source),
                source=source,
                may_fail="raises-exception" in tags,
                skipped="skip-execution" in tags,
            )
        )
    return tuple(found)


def check_folders(asked: Asked) -> dict[str, str]:
    """Where files.upload and files.download of a notebook find their files, as its environment says it."""
    found = {}
    if asked.uploads is not None:
        if not os.path.isdir(asked.uploads):
            raise InputError(f"{asked.uploads}, the folder of uploads, is not there")
        found["OWNLAB_UPLOADS"] = os.path.abspath(asked.uploads)
    if asked.outputs is not None:
        try:
            os.makedirs(asked.outputs, exist_ok=True)
        except OSError as exc:
            raise InputError(f"the folder {asked.outputs} cannot be made: {exc.strerror}") from exc
        if not os.access(asked.outputs, os.W_OK | os.X_OK):
            raise InputError(f"the folder {asked.outputs} may not be written")
        found["OWNLAB_OUTPUTS"] = os.path.abspath(asked.outputs)
    return found


def _beside(path: str, notebook: dict[str, Any]) -> Output:
    """NAME-run.ipynb, NAME-run-2.ipynb …: the first that is not there. Two runs at once get two."""
    stem, suffix = os.path.splitext(path)
    number = 1
    while True:
        target = f"{stem}-run{'' if number == 1 else f'-{number}'}{suffix or '.ipynb'}"
        if _make(target, notebook):
            return Output(target, is_new=True)
        number += 1


def _make(target: str, notebook: dict[str, Any]) -> bool:
    """Write a file; False where something of that name is there."""
    try:
        write_new(target, notebook)
    except FileExistsError:
        return False
    except FileNotFoundError as exc:
        raise InputError(f"there is no folder {os.path.dirname(target)}") from exc
    except OSError as exc:
        raise InputError(f"{target} cannot be written: {exc.strerror}", hint="Another place: -o FILE.") from exc
    return True


def _check_writable(path: str) -> None:
    if not os.access(path, os.W_OK):
        raise InputError(f"{path} may not be written", hint="Another place: -o FILE.")


def _title(source: str) -> str:
    form = parse_form(source)
    if form is not None and form.title:
        return form.title.lstrip("# ")[:_TITLE]
    return source.strip().partition("\n")[0].strip()[:_TITLE]
