"""One run from start to end: the runtime, the cells one after the other, the output."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ownlab.config.loader import resolve_lab_options
from ownlab.lab.runs.preparation import RunRequest
from ownlab.lab.runs.records import Outcome, RunReport, ended_by
from ownlab.lab.runs.reporter import Reporter, Stop
from ownlab.lab.runs.resume import KeptRun, retire_old, save_kept_run
from ownlab.lab.runs.runtime import RunRuntime
from ownlab.lab.runs.validation import PreparedRun, prepare_run
from ownlab.lab.runtimes.content_files import remove_old_content
from ownlab.lab.runtimes.kernel_variables import startup_failures
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.lab.runs.executor import Executor

__all__ = ["run", "run_notebook"]


def run(
    prepared: PreparedRun,
    reporter: Reporter,
    stop: Stop,
    *,
    signals: Iterable[int] = (),
    update_elsewhere: Callable[[str], bool] = lambda path: False,
) -> Outcome:
    """Run a notebook to its end. `signals` stop it (main thread only). `update_elsewhere` may write the output instead of us."""
    if prepared.notice:
        reporter.notice(prepared.notice)
    try:
        if prepared.request.restore_packages:
            from ownlab.lab.runs.package_restore import restore_packages

            restore_packages(prepared, reporter)
        runtime = RunRuntime(prepared)
    except BaseException:
        prepared.give_up()
        raise
    with runtime:
        try:
            # Imported while the kernel starts.
            from ownlab.lab.runs.executor import Executor, Policy
            from ownlab.lab.runs.output_file import OutputFile

            runtime.wait(reporter, stop)
            prepared.begin()
        except BaseException:
            runtime.at_once = True
            prepared.give_up()
            raise
        runtime.kept = False
        reporter.started(prepared.report("running"))
        output = OutputFile(prepared.runtime, prepared.output.path, update_elsewhere)
        policy = Policy(prepared.request.timeout, prepared.request.allow_errors)
        try:
            executor = Executor(runtime.plan, policy, reporter, output.update, stop)
            output.read_language_info = lambda: executor.language_info
            report = _execute_cells(prepared, runtime, executor, signals)
            for failure in startup_failures(runtime.plan.home):
                reporter.notice(failure)
        finally:
            output.update()
            runtime.end(text("its run is over"))
            output.update()  # the output of on_end functions
    options = resolve_lab_options()
    with suppress(OSError):
        retire_old(options.keep_days)
        remove_old_content(options.content_keep_days)
    return Outcome(replace(report, output=output.path), output.trouble)


def _execute_cells(prepared: PreparedRun, runtime: RunRuntime, executor: Executor, signals: Iterable[int]) -> RunReport:
    import asyncio

    begun = time.monotonic()
    result = asyncio.run(executor.run(prepared.steps, signals))
    runtime.at_once = not result.alive
    report = prepared.report(result.status, result.reason, time.monotonic() - begun, result.cells)
    ended = ended_by(report)
    if (
        ended is None
        or not (prepared.request.keep or prepared.kept)
        or not result.alive
        or result.status == "interrupted"
    ):
        return report
    before = tuple(cell["id"] for cell in prepared.notebook["cells"][: ended.cell])
    save_kept_run(
        KeptRun(
            prepared.runtime, prepared.input, prepared.output.path, dict(prepared.parameters), before, failed=ended.id
        )
    )
    runtime.kept = True
    return replace(report, kept=True)


def run_notebook(
    notebook: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    *,
    type: str | None = None,  # noqa: A002  # as the command's option
    timeout: float | None = None,
    allow_errors: bool = False,
    wait: bool = True,
    uploads: str | os.PathLike[str] | None = None,
    outputs: str | os.PathLike[str] | None = None,
    restore_packages: bool = False,
    colab: bool | None = None,
) -> RunReport:
    """Run a notebook in its own runtime and return the report; raise CellFailed if a cell failed.

    Works as `ownlab run`: `parameters` are checked against the notebook's forms. An existing `output` is overwritten; by
    default NAME-run.ipynb beside the notebook is written, or NAME-run-2.ipynb, and so on.
    """
    request = RunRequest(
        notebook=os.fspath(notebook),
        output=None if output is None else os.fspath(output),
        force=output is not None,
        parameters=parameters or {},
        type=type,
        timeout=timeout,
        allow_errors=allow_errors,
        wait=wait,
        uploads=None if uploads is None else os.fspath(uploads),
        outputs=None if outputs is None else os.fspath(outputs),
        restore_packages=restore_packages,
        colab=colab,
    )
    stop = Stop()
    outcome = _in_thread(lambda: run(prepare_run(request), Reporter(), stop), stop)
    if outcome.error is not None:
        raise outcome.error
    return outcome.report


def _in_thread(work: Callable[[], Outcome], stop: Stop) -> Outcome:
    """Run in a new thread, which has no event loop yet, also when called from a notebook."""
    done: list[Outcome] = []
    failed: list[BaseException] = []

    def work_in_thread() -> None:
        try:
            done.append(work())
        except BaseException as exc:  # noqa: BLE001  # raised below
            failed.append(exc)

    thread = threading.Thread(target=work_in_thread, name="ownlab-run", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:  # Ctrl-C: the cell is interrupted, its output is written, and the runtime ends
        stop.request(signal.SIGINT)
        thread.join()
        raise
    if failed:
        raise failed[0]
    return done[0]
