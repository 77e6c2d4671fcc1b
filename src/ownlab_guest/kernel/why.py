"""`%%why` and `ownlab.why` in a kernel: why a cell, or a function, trains slowly.

It runs where its variables are, measured by `ownlab_guest.why`. The evidence is explained by ownlab: here if it is installed in this
environment, otherwise in a child process in its own environment (OWNLAB_HOST).
"""

import argparse
import importlib
import json
import linecache
import os
import shlex
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, NoReturn, Optional

from ownlab_guest.kernel import host_records
from ownlab_guest.kernel.fit import strip_colours
from ownlab_guest.text import shown, text
from ownlab_guest.why.code_session import AlreadyMeasuring, measuring

__all__ = ["Explained", "why", "why_magic"]

MIME = "application/vnd.vegalite.v5+json"
# As of the command: enough for a stable mean.
_STEPS = 200
_USAGE = "%%why [--steps N] [--save FILE], above the code that trains"


class CellFailed(RuntimeError):
    """The cell that was measured has failed. Its own error is shown already, so IPython shows no traceback of ours."""

    def _render_traceback_(self) -> List[str]:
        return ["CellFailed: {}".format(self)]


class Explained:
    """What `ownlab.why` has found. `record` holds the figures of `ownlab why --json`, `result` what the function returned."""

    def __init__(self, answer: Dict[str, Any], result: Any = None) -> None:
        self.record = host_records.decode_record(answer["record"])
        self.result = result
        self._text, self._chart = answer["text"], answer["chart"]
        self._lanes = strip_colours(answer["lanes"])  # as the text of a picture

    def report(self) -> None:
        """Print everything as text."""
        sys.stdout.write(self._text + self._lanes)

    def __repr__(self) -> str:
        return str(self.record.sentence)

    def _ipython_display_(self) -> None:
        """Show the text, and the picture of a step: from a MIME bundle a page would show only one of them."""
        from IPython.display import display

        sys.stdout.write(self._text)
        if self._chart is not None:
            show: Any = display
            show({"text/plain": self._lanes, MIME: self._chart}, raw=True)


def why(function: Callable[..., Any], *arguments: Any, steps: int = _STEPS, **options: Any) -> Explained:
    """Run a function that trains, and say why it is slow: ownlab.why(train, model, loader).

    The first 200 steps of its optimizer are measured, or as many as `steps` says; the function runs to its end. What it returns is
    in `.result`.
    """
    if not callable(function):
        raise _errors().UsageError(
            shown(text("ownlab.why needs a function, not {type}", type=type(function).__name__)),
            hint=shown(text("For example: ownlab.why(train, model, loader)")),
        )
    _check_steps(steps)
    with tempfile.TemporaryDirectory(prefix="ownlab-why-") as folder:
        with _measured(folder, steps):
            result = function(*arguments, **options)
        return Explained(_explained(folder, _shell(), None, {}), result)


def why_magic(shell: Any, line: str, cell: str) -> None:
    """Run this cell, and say why it trains slowly: %%why [--steps N] [--save FILE]"""
    options = _parse(line)
    if options is None:
        return
    # A line in the place of the one with the magic: so all lines keep their numbers. Another magic must be the first line.
    code = cell if cell.startswith("%%") else "#\n" + cell
    number = max(_cell_numbers(shell).values(), default=0)
    with tempfile.TemporaryDirectory(prefix="ownlab-why-") as folder:
        with _measured(folder, options.steps):
            ran = shell.run_cell(code)
        answer = _explained(folder, shell, options.save, {code.rstrip(): number})
    Explained(answer)._ipython_display_()
    if not ran.success:
        raise CellFailed(shown(text("the cell that was measured failed; its error is above")))


class _BadLine(Exception):
    """The line of the magic cannot be parsed."""


class _HelpShown(Exception):
    """`--help` was given, and the help was shown."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _BadLine("%s. %s" % (message, _USAGE))

    def exit(self, status: int = 0, message: Any = None) -> NoReturn:
        raise _HelpShown


def _parse(line: str) -> Optional[argparse.Namespace]:
    from IPython.core.error import UsageError as BadMagic

    parser = _Parser(prog="%%why", allow_abbrev=False)
    steps, save = text("measure N steps (200)"), text("keep the evidence; `ownlab why FILE` shows it")
    parser.add_argument("--steps", type=int, default=_STEPS, metavar="N", help=shown(steps))
    parser.add_argument("--save", metavar="FILE", help=shown(save))
    try:
        options = parser.parse_args(shlex.split(line))
        _check_steps(options.steps)
    except _HelpShown:
        return None
    except (_BadLine, ValueError, _errors().UsageError) as exc:
        raise BadMagic(str(exc)) from exc
    return options


def _check_steps(steps: Any) -> None:
    if not isinstance(steps, int) or steps < 5:
        message = text("steps must be an integer of at least 5, not {steps}", steps=repr(steps))
        raise _errors().UsageError(shown(message))


def _measured(folder: str, steps: int) -> Any:
    """A `with` block that is measured; an error within another one."""
    return _Block(measuring(folder, steps))


class _Block:
    def __init__(self, block: Any) -> None:
        self._block = block

    def __enter__(self) -> None:
        try:
            self._block.__enter__()
        except AlreadyMeasuring as exc:
            message = text("a measurement of this kernel is not over: %%why and ownlab.why cannot be within each other")
            raise _errors().OwnlabError(shown(message)) from exc

    def __exit__(self, *error: Any) -> Any:
        return self._block.__exit__(*error)


def _errors() -> Any:
    """The classes of errors: ownlab's own where it is installed in this environment."""
    return sys.modules.get("ownlab.errors") or host_records


def _shell() -> Any:
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


# --- the explanation --------------------------------------------------------------------------------------------------


def _explained(folder: str, shell: Any, save: Optional[str], within: Dict[str, int]) -> Dict[str, Any]:
    """Let ownlab explain the evidence. `within` has the code that a magic ran, with the number of the cell that it stands in."""
    _name_cells(folder, shell, within)
    save = os.path.abspath(save) if save else None
    if "ownlab.errors" in sys.modules:  # only ownlab itself has this module
        answer: Dict[str, Any] = importlib.import_module("ownlab.instruments.why.notebook").explain_folder(folder, save)
        return answer
    python = os.environ.get("OWNLAB_HOST") or sys.executable
    words = ["-m", "ownlab.notebook_language", "ownlab.instruments.why.notebook", folder]
    # Variables of this Python would mislead the other one; so would a file ownlab.py in this folder.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(
        [python, *words, *([save] if save else [])],
        cwd="/",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,  # an interrupt of the cell does not reach it
        check=False,
    )
    lines = ran.stdout.splitlines()
    if ran.returncode != 0 or not lines:
        said = ran.stderr.decode(errors="replace").strip().splitlines()
        message = text("what was measured cannot be explained: {reason}", reason=said[-1] if said else ran.returncode)
        raise _errors().OwnlabError(shown(message))
    answer = json.loads(lines[-1])
    if "error" in answer:
        attributes = answer["error"]["attributes"]
        raise _errors().OwnlabError(attributes["message"], hint=attributes.get("hint", ""))
    return answer


def _cell_numbers(shell: Any) -> Dict[str, int]:
    """IPython's file names of cells -> their numbers."""
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    return numbers if isinstance(numbers, dict) else {}


def _name_cells(folder: str, shell: Any, within: Dict[str, int]) -> None:
    """Name cells as the notebook does, In[5], instead of by IPython's file names, and keep their code for the changes."""
    numbers, sources = _cell_numbers(shell), {}
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        with open(path, encoding="utf-8", errors="replace") as file:
            content = file.read()
        for name, number in numbers.items():
            written = json.dumps(name)[1:-1]
            if written in content:
                code = "".join(linecache.getlines(name))
                shown = "In[%s]" % within.get(code.rstrip(), number)
                content = content.replace(written, shown)
                sources[shown] = code  # of a cell that is within another one by its magic, the inner one comes last
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    with open(os.path.join(folder, "sources.json"), "w", encoding="utf-8", errors="replace") as file:
        json.dump(sources, file)
