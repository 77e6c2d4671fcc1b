"""Everything that can be refused is refused here, before anything is started."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ownlab.errors import UsageError
from ownlab.lab.forms.parameters import set_parameters
from ownlab.lab.notebooks.files import write_over
from ownlab.lab.runs.output_file import forget_past
from ownlab.lab.runs.preparation import Asked, Output, Step, check_folders, choose_output, clear, load, steps_of
from ownlab.lab.runs.records import CellReport, RunReport, RunStatus
from ownlab.lab.runs.resume import find_kept, forget_kept, go_on
from ownlab.lab.runs.runtime_type import choose_kind
from ownlab.lab.runtimes.plan import Plan

__all__ = ["Ready", "get_ready"]

# What is another runtime's alone, where a run is started inside of one.
_A_RUNTIMES = (
    "CUDA_VISIBLE_DEVICES",
    "JPY_PARENT_PID",
    "JPY_SESSION_NAME",
    "OWNLAB_NOTEBOOK",
    "OWNLAB_OUTPUTS",
    "OWNLAB_RUNTIME",
    "OWNLAB_UPLOADS",
)


class Ready(NamedTuple):
    """A run that can begin."""

    asked: Asked
    notebook: dict[str, Any]  # as it is written into the output
    steps: tuple[Step, ...]
    output: Output
    runtime: str
    type: str
    env: Mapping[str, str]  # the kernel's
    parameters: Mapping[str, object]
    notice: str = ""
    kept: Plan | None = None  # of the runtime in which it goes on; None: it gets one of its own

    @property
    def input(self) -> str:
        """The notebook that was given, as an absolute path."""
        return os.path.abspath(self.asked.notebook)

    def report(
        self, status: RunStatus, reason: str = "", seconds: float = 0.0, cells: tuple[CellReport, ...] = ()
    ) -> RunReport:
        """How it stands."""
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
        """Write the output where that was not done: once it is certain that the run begins."""
        if self.output.is_new:
            return
        if self.kept is None:
            forget_past(self.output.path)
        write_over(self.output.path, self.notebook)
        if self.kept is not None:
            forget_kept(self.runtime)

    def give_up(self) -> None:
        """It has not begun: an output that was made for it is of no use."""
        if self.output.is_new:
            with suppress(OSError):
                os.unlink(self.output.path)


def get_ready(asked: Asked) -> Ready:
    """Look at all that is asked for. UsageError or InputError where it cannot be."""
    if asked.inplace and asked.output is not None:
        raise UsageError("--inplace and --output exclude each other")
    return _again(asked) if asked.from_failed else _anew(asked)


def _anew(asked: Asked) -> Ready:
    env = {**_environment(), **check_folders(asked)}
    notebook = load(asked.notebook)
    set_parameters(notebook, asked.parameters)
    kind = choose_kind(asked.notebook, notebook, asked.type, env)
    clear(notebook)
    output = choose_output(asked, notebook)
    return Ready(
        asked=asked,
        notebook=notebook,
        steps=steps_of(notebook),
        output=output,
        runtime=str(uuid.uuid4()),
        type=kind.type.name,
        # What a person granted to the notebook holds for its runs.
        env={**env, "JPY_SESSION_NAME": output.path, "OWNLAB_NOTEBOOK": os.path.abspath(asked.notebook)},
        parameters=dict(asked.parameters),
        notice=kind.notice,
    )


def _again(asked: Asked) -> Ready:
    fixed = {
        "--type": asked.type,
        "--output": asked.output,
        "--inplace": asked.inplace,
        "--uploads": asked.uploads,
        "--outputs": asked.outputs,
        "--restore-packages": asked.restore_packages,
    }
    for name, value in fixed.items():
        if value:
            raise UsageError(f"--from-failed goes on as the run was begun: it does not take {name}")
    source = load(asked.notebook)
    kept, plan = find_kept(asked.notebook)
    notebook = load(kept.output)
    begin = go_on(kept, source, notebook, asked.parameters)
    return Ready(
        asked=asked,
        notebook=notebook,
        steps=tuple(step for step in steps_of(notebook) if step.cell >= begin),
        output=Output(kept.output, is_new=False),
        runtime=kept.runtime,
        type=plan.type,
        env={},
        parameters={**kept.parameters, **asked.parameters},
        kept=plan,
    )


def _environment() -> dict[str, str]:
    inside = "OWNLAB_RUNTIME" in os.environ
    return {name: value for name, value in os.environ.items() if not (inside and name in _A_RUNTIMES)}
