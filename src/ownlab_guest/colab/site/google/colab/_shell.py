"""The shell of Colab mode. Notebooks look for this module's name in str(get_ipython())."""

import contextlib
import inspect
import os
import subprocess
from types import TracebackType
from typing import Any, Callable, ClassVar, Dict, List, Optional, Tuple

from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.error import UsageError
from IPython.core.events import EventManager
from IPython.utils.path import get_py_filename
from IPython.utils.text import LSString, SList

from . import _system_commands

__all__ = ["Shell"]

KERNEL = "ipykernel.kernelbase"  # its raw_input and getpass are what a notebook calls


class Shell(ZMQInteractiveShell):
    """IPython's shell, which parses cells and runs commands as Colab does."""

    notes: ClassVar[List[str]] = []  # printed by the first cell

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.input_transformer_manager.cleanup_transforms.append(find_cell_magic)
        if self.notes:
            self.events.register("pre_run_cell", self._print_notes)

    def init_events(self) -> None:
        super().init_events()  # type: ignore[no-untyped-call]
        events = Events(self, self.events.callbacks)
        events.callbacks.update(self.events.callbacks)
        self.events = events

    def init_magics(self) -> None:
        super().init_magics()  # type: ignore[no-untyped-call]
        _system_commands.register(self)
        register(self)

    def system(self, cmd: str) -> None:
        """`!cmd`"""
        expanded = self.var_expand(cmd, depth=1)  # type: ignore[no-untyped-call]
        self._keep_status(cmd, _system_commands.run(self, expanded))

    system_piped = system

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
        """`x = !cmd`"""
        expanded = self.var_expand(cmd, depth=depth + 1)  # type: ignore[no-untyped-call]
        result = _system_commands.capture(self, expanded)
        self._keep_status(cmd, result.returncode)
        return SList(result.output.splitlines()) if split else LSString(result.output)

    def _get_exc_info(self, exc_tuple: Any = None) -> Any:  # the name in IPython 7 to 9
        """Return the error to show. Of an interrupted input() only the notebook's own lines matter."""
        info = super()._get_exc_info(exc_tuple)  # type: ignore[no-untyped-call]
        if isinstance(info[1], KeyboardInterrupt):
            end_at_question(info[2])
        return info

    def _keep_status(self, command: str, status: int) -> None:
        self.user_ns["_exit_code"] = status
        if status and getattr(self, "system_raise_on_error", False):  # IPython 9.7 and later
            raise subprocess.CalledProcessError(status, command)

    def _print_notes(self, *ignored: Any) -> None:
        """Print the notes once, in the first cell that runs."""
        self.events.unregister("pre_run_cell", self._print_notes)
        for note in self.notes:
            print(note)


def end_at_question(traceback: Optional[TracebackType]) -> None:
    """Cut a traceback where the kernel asks a person."""
    while traceback is not None and traceback.tb_next is not None:
        if traceback.tb_next.tb_frame.f_globals.get("__name__") == KERNEL:
            traceback.tb_next = None
        traceback = traceback.tb_next


class Events(EventManager):
    """IPython's events, which also take callbacks without an argument, as the old IPython of Colab does."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._adapted: Dict[Tuple[str, Any], Any] = {}

    def register(self, event: str, function: Any) -> None:
        """Register a callback of any signature."""
        adapted = function
        if event in EVENTS_WITH_ARGUMENT and takes_nothing(function):
            adapted = self._adapted.setdefault((event, function), lambda *ignored: function())
        super().register(event, adapted)

    def unregister(self, event: str, function: Any) -> None:
        """Remove a callback, named as it was registered."""
        super().unregister(event, self._adapted.pop((event, function), function))


EVENTS_WITH_ARGUMENT = ("pre_run_cell", "post_run_cell")


def takes_nothing(function: Any) -> bool:
    """Return whether a callback can be called without arguments only."""
    try:
        parameters = inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        return False
    try:
        parameters.bind(None)
    except TypeError:
        return True
    return False


def find_cell_magic(lines: List[str]) -> List[str]:
    """Allow comments and blank lines before a cell magic, and a cell magic with arguments but no body."""
    for number, line in enumerate(lines):
        if line.startswith("%%"):
            rest = lines[number:]
            is_alone = len(rest) == 1 and len(line.split()) > 1
            return [line.rstrip("\n") + "\n", "\n"] if is_alone else rest
        if line.strip() and not line.lstrip().startswith("#"):
            break
    return lines


def register(shell: Any) -> None:
    """Register the magics that Colab has from the start."""
    shell.register_magic_function(tensorflow_version, "line")
    shell.register_magic_function(run_beside_notebook(shell), "line", "run")
    for name in LAZY:
        shell.register_magic_function(lazy_magic(shell, name), "cell", name)


def run_beside_notebook(shell: Any) -> Callable[[str], Any]:
    """Return IPython's %run, which also finds scripts beside the notebook: the working folder is /content."""

    def find(name: str) -> str:
        try:
            return str(get_py_filename(name))  # type: ignore[no-untyped-call,unused-ignore]
        except OSError:
            notebook = os.environ.get("OWNLAB_NOTEBOOK") or os.environ.get("JPY_SESSION_NAME", "")
            if not notebook:
                raise
            with contextlib.suppress(OSError):
                beside = os.path.join(os.path.dirname(notebook), name)
                return str(get_py_filename(beside))  # type: ignore[no-untyped-call,unused-ignore]
            raise

    def run(line: str) -> Any:
        """%run: see IPython's documentation."""
        return shell.magics_manager.registry["ExecutionMagics"].run(line, file_finder=find)

    return run


def tensorflow_version(line: str) -> None:
    """%tensorflow_version 2.x: there is no choice any more."""
    if line.strip().startswith("1"):
        raise UsageError(
            "TensorFlow 1 needs Python 3.7 or older. This runtime uses the TensorFlow that is installed in it."
        )
    print("%tensorflow_version has no effect: only TensorFlow 2 is available.")


# Name -> the modules that may provide it, and the package to install.
LAZY = {
    "bigquery": (("bigquery_magics", "google.cloud.bigquery"), "bigquery-magics"),
    "bqsql": (("bigframes",), "bigframes"),
    "spanner_graph": (("spanner_graphs.magics",), "spanner-graph-notebook"),
}


def lazy_magic(shell: Any, name: str) -> Callable[[str, str], Any]:
    """Return a cell magic that loads the real one on first use, where its package is installed."""

    def run(line: str, cell: str) -> Any:
        modules, package = LAZY[name]
        for module in modules:
            with contextlib.suppress(ImportError):
                shell.extension_manager.load_extension(module)
            real = shell.magics_manager.magics["cell"][name]
            if real is not run:
                return real(line, cell)
        raise UsageError(
            f"%%{name} needs a Google account and a package that is not installed here: %pip install {package}"
        )

    return run
