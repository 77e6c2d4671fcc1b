"""A whole run: a notebook, a runtime for it, its cells one after the other, and what is left of it."""

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
from ownlab.lab.runs.outcome import Outcome, ended_by
from ownlab.lab.runs.preparation import Asked
from ownlab.lab.runs.records import RunReport
from ownlab.lab.runs.reporter import Stop, Teller
from ownlab.lab.runs.resume import Kept, retire_old, write_kept
from ownlab.lab.runs.runtime import RunRuntime
from ownlab.lab.runs.validation import Ready, get_ready
from ownlab.lab.runtimes.content_files import remove_old_content
from ownlab.lab.runtimes.kernel_variables import startup_failures

if TYPE_CHECKING:
    from ownlab.lab.runs.executor import Driver

__all__ = ["run", "run_notebook"]


def run(
    ready: Ready,
    teller: Teller,
    stop: Stop,
    *,
    signals: Iterable[int] = (),
    elsewhere: Callable[[str], bool] = lambda path: False,
) -> Outcome:
    """Run it to its end. `signals` stop it, in the main thread; `elsewhere` may write the output in our place."""
    if ready.notice:
        teller.notice(ready.notice)
    try:
        if ready.asked.restore_packages:
            from ownlab.lab.runs.package_restore import restore_packages

            restore_packages(ready, teller)
        runtime = RunRuntime(ready)
    except BaseException:
        ready.give_up()
        raise
    with runtime:
        try:
            # While the kernel starts, what is needed afterwards is imported.
            from ownlab.lab.runs.executor import Driver, Policy
            from ownlab.lab.runs.output_file import Written

            runtime.wait(teller, stop)
            ready.begin()
        except BaseException:
            runtime.at_once = True
            ready.give_up()
            raise
        runtime.kept = False
        teller.started(ready.report("running"))
        written = Written(ready.runtime, ready.output.path, elsewhere)
        policy = Policy(ready.asked.timeout, ready.asked.allow_errors)
        try:
            driver = Driver(runtime.plan, policy, teller, written.bring_up_to_date, stop)
            report = _drive(ready, runtime, driver, signals)
            for words in startup_failures(runtime.plan.home):
                teller.notice(words)
        finally:
            written.bring_up_to_date()
            runtime.end("its run is over")
            written.bring_up_to_date()  # what functions given to on_end said
    options = resolve_lab_options()
    with suppress(OSError):
        retire_old(options.keep_days)
        remove_old_content(options.content_keep_days)
    return Outcome(replace(report, output=written.path), written.trouble)


def _drive(ready: Ready, runtime: RunRuntime, driver: Driver, signals: Iterable[int]) -> RunReport:
    import asyncio

    begun = time.monotonic()
    driven = asyncio.run(driver.run(ready.steps, signals))
    runtime.at_once = not driven.alive
    report = ready.report(driven.status, driven.reason, time.monotonic() - begun, driven.cells)
    ended = ended_by(report)
    if ended is None or not (ready.asked.keep or ready.kept) or not driven.alive or driven.status == "interrupted":
        return report
    before = tuple(cell["id"] for cell in ready.notebook["cells"][: ended.cell])
    write_kept(Kept(ready.runtime, ready.input, ready.output.path, dict(ready.parameters), before, failed=ended.id))
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
) -> RunReport:
    """Run a notebook in a runtime of its own, and return how it went; CellFailed where a cell failed.

    As `ownlab run` does it: `parameters` are checked against the notebook's forms. `output` is overwritten where it is
    there; without it, NAME-run.ipynb beside the notebook is written, or NAME-run-2.ipynb, and so on.
    """
    asked = Asked(
        notebook=os.fspath(notebook),
        output=None if output is None else os.fspath(output),
        force=True,
        parameters=parameters or {},
        type=type,
        timeout=timeout,
        allow_errors=allow_errors,
        wait=wait,
        uploads=None if uploads is None else os.fspath(uploads),
        outputs=None if outputs is None else os.fspath(outputs),
        restore_packages=restore_packages,
    )
    stop = Stop()
    outcome = _in_thread(lambda: run(get_ready(asked), Teller(), stop), stop)
    if outcome.error is not None:
        raise outcome.error
    return outcome.report


def _in_thread(work: Callable[[], Outcome], stop: Stop) -> Outcome:
    """In a thread of its own there is no event loop yet, wherever this is called: in a notebook too."""
    done: list[Outcome] = []
    failed: list[BaseException] = []

    def do() -> None:
        try:
            done.append(work())
        except BaseException as exc:  # noqa: BLE001  # it is raised below
            failed.append(exc)

    thread = threading.Thread(target=do, name="ownlab-run", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:  # Ctrl-C: the cell is interrupted, what it said is written, and the runtime ends
        stop.tell(signal.SIGINT)
        thread.join()
        raise
    if failed:
        raise failed[0]
    return done[0]
