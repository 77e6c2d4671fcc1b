"""Start-up scripts: those of the lab, and those beside a notebook, NAME.startup.sh and NAME.startup.py.

The lab's shell script runs before the kernel. All others run before the first cell that a user runs: a notebook's script may
have come with the notebook, and must not run only because somebody opened it.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import traceback
from typing import Any, List, Optional, TextIO, cast

from ownlab_guest.shell.notebook_folder import notebook_path
from ownlab_guest.text import sentences, shown, text

__all__ = ["MARK", "before_first_cell", "before_kernel"]

MARK = "ownlab: start-up script "  # start of the log line of a failed script
SECONDS = 600  # limit for one script

_failures: List[str] = []


def before_kernel(script: str, log: int) -> None:
    """Run the lab's script if it is a shell script. Its output goes to the descriptor `log`."""
    if script.endswith(".sh"):
        _run_shell(script, log)


def before_first_cell(shell: Any, log: int) -> None:
    """Run all other scripts, and report failures in the cell."""
    script = os.environ.get("OWNLAB_STARTUP_SCRIPT", "")
    notebook = notebook_path()
    stem = notebook[: -len(".ipynb")] if notebook.endswith(".ipynb") else ""
    if stem and os.path.isfile(stem + ".startup.sh"):
        _run_shell(stem + ".startup.sh", log)
    if script.endswith(".py"):
        _run_python(script, log, shell.user_ns)
    if stem and os.path.isfile(stem + ".startup.py"):
        _run_python(stem + ".startup.py", log, shell.user_ns)
    for message in _failures:
        sys.stderr.write(shown(message) + "\n")
    sys.stderr.flush()  # before the output of the cell
    _failures.clear()


def _run_shell(path: str, log: int) -> None:
    begun = _size(log)
    try:
        with open(path, "rb"):
            pass  # a missing file raises here; bash would report it differently
        done = subprocess.run(
            [shutil.which("bash") or "sh", path],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            _fail(path, log, text("exit code {code}", code=done.returncode), begun)
    except subprocess.TimeoutExpired:
        _fail(path, log, text("stopped after {seconds} s", seconds=SECONDS), begun)
    except KeyboardInterrupt:
        _fail(path, log, text("interrupted"), begun)
    except OSError as exc:
        _fail(path, log, exc.strerror or str(exc), begun)


def _run_python(path: str, log: int, namespace: Any) -> None:
    # A separate file object: line-buffered, so that the order with shell scripts is kept.
    with open(os.dup(log), "w", buffering=1, encoding="utf-8", errors="replace") as file:
        out, err = _Stream("stdout", file), _Stream("stderr", file)
        try:
            with contextlib.redirect_stdout(cast(TextIO, out)), contextlib.redirect_stderr(cast(TextIO, err)):
                with open(path, "rb") as source:
                    code = compile(source.read(), path, "exec")
                exec(code, namespace)  # noqa: S102  # the user's own script
        except BaseException as exc:  # also exit() and interrupts: the kernel continues
            traceback.print_exc(file=file)
            file.flush()
            lines = [frame.lineno for frame in traceback.extract_tb(exc.__traceback__) if frame.filename == path]
            error = traceback.format_exception_only(type(exc), exc)[-1].strip()
            why = text("line {line}: {error}", line=lines[-1], error=error) if lines else error
            _fail(path, log, why, None)
        finally:
            out.end()
            err.end()


class _Stream:
    """stdout or stderr of a script: the log; after the script, the kernel's own stream (for logging.basicConfig)."""

    def __init__(self, name: str, log: TextIO) -> None:
        self._name = name
        self._log: Optional[TextIO] = log

    def __getattr__(self, name: str) -> Any:
        now = getattr(sys, self._name)
        return getattr(self._log or (now if now is not self else getattr(sys, f"__{self._name}__")), name)

    def end(self) -> None:
        """Switch to the kernel's own stream."""
        self._log = None


def _fail(path: str, log: int, why: str, begun: Optional[int]) -> None:
    last = _last_line(log, begun) if begun is not None else ""
    name = os.path.basename(path)
    reason = text("{reason}: {line}", reason=why, line=last) if last else why
    with contextlib.suppress(OSError):  # the disk is full
        os.write(log, f"{MARK}{name} failed: {reason}\n".encode("utf-8", "replace"))
    log_path = _path(log)
    message = text("The start-up script {name} failed: {reason}.", name=name, reason=reason)
    see = text("The runtime's log has its output: {path}", path=log_path) if log_path else ""
    _failures.append(sentences([message, see]))


def _path(log: int) -> str:
    """Return the path of the log; "" if it is not a file."""
    with contextlib.suppress(OSError):
        name = os.readlink(f"/proc/self/fd/{log}")
        return name if os.path.isfile(name) else ""
    return ""


def _size(log: int) -> int:
    return os.fstat(log).st_size


def _last_line(log: int, begun: int) -> str:
    """Return the last line of the script's output."""
    try:
        with open(_path(log), "rb") as file:
            file.seek(max(begun, _size(log) - 4000))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:  # the log is not a file
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
