"""Checks a request completely before anything is started."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ownlab.errors import UsageError
from ownlab.lab.forms.parameters import set_parameters
from ownlab.lab.notebooks.files import write_over
from ownlab.lab.runs.output_file import forget_past_outputs
from ownlab.lab.runs.preparation import (
    Output,
    RunRequest,
    Step,
    check_folders,
    choose_output,
    clear,
    load,
    set_colab_mode,
    steps_of,
)
from ownlab.lab.runs.records import CellReport, RunReport, RunStatus
from ownlab.lab.runs.resume import find_kept_run, forget_kept_run, resume_cells
from ownlab.lab.runs.runtime_type import check_node_type, choose_type
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.text import text

__all__ = ["PreparedRun", "outer_environment", "prepare_run"]

# Variables of a runtime, for the case that a run is started inside one.
_RUNTIME_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "JPY_PARENT_PID",
    "JPY_SESSION_NAME",
    "OWNLAB_NOTEBOOK",
    "OWNLAB_OUTPUTS",
    "OWNLAB_RUNTIME",
    "OWNLAB_UPLOADS",
)


class PreparedRun(NamedTuple):
    """A run that can begin."""

    request: RunRequest
    notebook: dict[str, Any]  # as it is written to the output
    steps: tuple[Step, ...]
    output: Output
    runtime: str
    type: str
    env: Mapping[str, str]  # of the kernel
    parameters: Mapping[str, object]
    notice: str = ""
    kept: Plan | None = None  # of the kept runtime in which it continues; None: it gets a new one

    @property
    def input(self) -> str:
        """The absolute path of the input notebook."""
        return os.path.abspath(self.request.notebook)

    def report(
        self, status: RunStatus, reason: str = "", seconds: float = 0.0, cells: tuple[CellReport, ...] = ()
    ) -> RunReport:
        """Return the report of the run as it is now."""
        return RunReport(
            runtime=self.runtime,
            type=self.type,
            notebook=self.input,
            output=self.output.path,
            status=status,
            reason=reason,
            seconds=round(seconds, 3),
            kept=False,
            cells=cells,
        )

    def begin(self) -> None:
        """Write the output, unless it was created for this run. Called once it is certain that the run begins."""
        if self.output.is_new:
            return
        if self.kept is None:
            forget_past_outputs(self.output.path)
        write_over(self.output.path, self.notebook)
        if self.kept is not None:
            forget_kept_run(self.runtime)

    def give_up(self) -> None:
        """Remove an output that was created for this run, which did not begin."""
        if self.output.is_new:
            with suppress(OSError):
                os.unlink(self.output.path)


def prepare_run(request: RunRequest) -> PreparedRun:
    """Check everything that is requested. UsageError or InputError if it is not possible."""
    if request.inplace and request.output is not None:
        raise UsageError(text("--inplace cannot be combined with --output."))
    return _resume(request) if request.from_failed else _start_fresh(request)


def _start_fresh(request: RunRequest) -> PreparedRun:
    env = {**outer_environment(), **check_folders(request), **request.settings}
    notebook = load(request.notebook)
    set_parameters(notebook, request.parameters)
    set_colab_mode(notebook, request.colab)
    if request.node_type is None:
        choice = choose_type(request.notebook, notebook, request.type, env)
    else:
        choice = check_node_type(request.notebook, notebook, request.node_type)
    clear(notebook)
    output = choose_output(request, notebook)
    return PreparedRun(
        request=request,
        notebook=notebook,
        steps=steps_of(notebook),
        output=output,
        runtime=str(uuid.uuid4()),
        type=choice.type.name,
        # Secrets granted to the notebook are granted to its runs.
        env={**env, "JPY_SESSION_NAME": output.path, "OWNLAB_NOTEBOOK": os.path.abspath(request.notebook)},
        parameters=dict(request.parameters),
        notice=choice.notice,
    )


def _resume(request: RunRequest) -> PreparedRun:
    fixed = {
        "--type": request.type,
        "--output": request.output,
        "--inplace": request.inplace,
        "--uploads": request.uploads,
        "--outputs": request.outputs,
        "--restore-packages": request.restore_packages,
        "--colab": request.colab is True,
        "--no-colab": request.colab is False,
    }
    for name, value in fixed.items():
        if value:
            raise UsageError(
                text("--from-failed cannot be combined with {option}: it continues the same run.", option=name)
            )
    source = load(request.notebook)
    kept, plan = find_kept_run(request.notebook)
    notebook = load(kept.output)
    begin = resume_cells(kept, source, notebook, request.parameters)
    return PreparedRun(
        request=request,
        notebook=notebook,
        steps=tuple(step for step in steps_of(notebook) if step.cell >= begin),
        output=Output(kept.output, is_new=False),
        runtime=kept.runtime,
        type=plan.type,
        env={},
        parameters={**kept.parameters, **request.parameters},
        kept=plan,
    )


def outer_environment() -> dict[str, str]:
    """Our environment, without what belongs to the runtime that we may run in."""
    inside = "OWNLAB_RUNTIME" in os.environ
    return {name: value for name, value in os.environ.items() if not (inside and name in _RUNTIME_VARIABLES)}
