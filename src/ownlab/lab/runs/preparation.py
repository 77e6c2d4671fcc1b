"""Before a run: the notebook that is request for, with its parameters in it, and the file that it will be written to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from ownlab.errors import InputError, UsageError
from ownlab.lab.forms.grammar import parse_form
from ownlab.lab.forms.notebook_forms import cell_source
from ownlab.lab.notebooks.files import read_notebook, write_new
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.text import text

__all__ = [
    "Output",
    "RunRequest",
    "Step",
    "check_folders",
    "choose_output",
    "clear",
    "load",
    "set_colab_mode",
    "steps_of",
]

_TITLE = 200


class RunRequest(NamedTuple):
    """What to run, and how."""

    notebook: str
    output: str | None = None
    inplace: bool = False
    force: bool = False  # overwrite an existing output
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
    colab: bool | None = None  # Colab mode on or off; None: as the notebook needs it
    node_type: RuntimeType | None = None  # on a node of a cluster, in place of `type`
    settings: Mapping[str, str] = {}  # variables with settings for the engine of that cluster


class Step(NamedTuple):
    """One cell to run."""

    cell: int  # among all cells, from 0
    id: str
    title: str
    source: str
    may_fail: bool = False
    skipped: bool = False


class Output(NamedTuple):
    """The file that the run writes to."""

    path: str  # absolute
    is_new: bool  # it was created for this run


def load(path: str) -> dict[str, Any]:
    """Load the input notebook and give each cell an id."""
    notebook = read_notebook(path)
    from ownlab.lab.notebooks.parsing import assign_cell_ids

    assign_cell_ids(notebook)
    return notebook


def clear(notebook: dict[str, Any]) -> None:
    """Remove the outputs of an earlier run."""
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code":
            cell["outputs"], cell["execution_count"] = [], None
            cell.setdefault("metadata", {}).pop("execution", None)


def set_colab_mode(notebook: dict[str, Any], on: bool | None) -> None:
    """Record the requested mode in the notebook, where a kernel looks for it when it starts; None changes nothing."""
    if on is None:
        return
    metadata = notebook.setdefault("metadata", {})
    own = metadata.get("ownlab")
    metadata["ownlab"] = {**(own if isinstance(own, dict) else {}), "colab": on}


def choose_output(request: RunRequest, notebook: dict[str, Any]) -> Output:
    """Create the output file. An existing one is not changed before the run begins."""
    path = os.path.abspath(request.notebook)
    if request.inplace:
        _check_writable(path)
        return Output(path, is_new=False)
    if request.output is None and not request.force:
        return _beside(path, notebook)
    named = _default_output(path) if request.output is None else request.output
    target = os.path.abspath(named)
    if os.path.isdir(target):
        raise UsageError(text("{path} is a folder.", path=named), hint=text("-o takes a file."))
    if _make(target, notebook):
        return Output(target, is_new=True)
    if os.path.realpath(target) == os.path.realpath(path):
        raise UsageError(
            text("{path} is the notebook itself.", path=named), hint=text("Use --inplace to write into it.")
        )
    if not request.force:
        raise UsageError(text("{path} exists already.", path=named), hint=text("Overwrite it with --force."))
    _check_writable(target)
    return Output(target, is_new=False)


def steps_of(notebook: dict[str, Any]) -> tuple[Step, ...]:
    """Return every code cell that is not empty."""
    steps = []
    for number, cell in enumerate(notebook["cells"]):
        source = cell_source(cell) or ""
        if cell.get("cell_type") != "code" or not source.strip():
            continue
        tags = cell.get("metadata", {}).get("tags")
        tags = tags if isinstance(tags, list) else []
        steps.append(
            Step(
                cell=number,
                id=cell["id"],
                title=_title(source),
                source=source,
                may_fail="raises-exception" in tags,
                skipped="skip-execution" in tags,
            )
        )
    return tuple(steps)


def check_folders(request: RunRequest) -> dict[str, str]:
    """Return the environment variables for files.upload and files.download; InputError if a folder cannot be used."""
    variables = {}
    if request.uploads is not None:
        if not os.path.isdir(request.uploads):
            raise InputError(text("The folder of uploads, {folder}, does not exist.", folder=request.uploads))
        variables["OWNLAB_UPLOADS"] = os.path.abspath(request.uploads)
    if request.outputs is not None:
        try:
            os.makedirs(request.outputs, exist_ok=True)
        except OSError as exc:
            message = text("Cannot create the folder {folder}: {reason}.", folder=request.outputs, reason=exc.strerror)
            raise InputError(message) from exc
        if not os.access(request.outputs, os.W_OK | os.X_OK):
            raise InputError(text("You cannot write to the folder {folder}.", folder=request.outputs))
        variables["OWNLAB_OUTPUTS"] = os.path.abspath(request.outputs)
    return variables


def _beside(path: str, notebook: dict[str, Any]) -> Output:
    """Create NAME-run.ipynb, NAME-run-2.ipynb …: the first that does not exist. Two runs at once get two files."""
    number = 1
    while True:
        target = _default_output(path, number)
        if _make(target, notebook):
            return Output(target, is_new=True)
        number += 1


def _default_output(path: str, number: int = 1) -> str:
    stem, suffix = os.path.splitext(path)
    return f"{stem}-run{'' if number == 1 else f'-{number}'}{suffix or '.ipynb'}"


def _make(target: str, notebook: dict[str, Any]) -> bool:
    """Create a file; False if the name exists."""
    try:
        write_new(target, notebook)
    except FileExistsError:
        return False
    except FileNotFoundError as exc:
        raise InputError(text("The folder {folder} does not exist.", folder=os.path.dirname(target))) from exc
    except OSError as exc:
        message = text("Cannot write {path}: {reason}.", path=target, reason=exc.strerror)
        raise InputError(message, hint=text("Choose another file with -o FILE.")) from exc
    return True


def _check_writable(path: str) -> None:
    if not os.access(path, os.W_OK):
        raise InputError(text("You cannot write to {path}.", path=path), hint=text("Choose another file with -o FILE."))


def _title(source: str) -> str:
    form = parse_form(source)
    if form is not None and form.title:
        return form.title.lstrip("# ")[:_TITLE]
    return source.strip().partition("\n")[0].strip()[:_TITLE]
