"""One rank: `python rank.py FOLDER [-m] SCRIPT ARGUMENTS…`, with RANK as torchrun sets it.

What it prints goes to FOLDER/rank-N.log. An exception that ends it is also written to FOLDER/rank-N-error.json, with its exact
time: the ranks that wait for this one fail a moment later, and the first failure is the one to look at.
"""

import faulthandler
import json
import os
import sys
import time
import traceback
import types
from typing import Any, Dict, List, NoReturn, Optional

INTERRUPTED = 130  # 128 + SIGINT
STDIN_SCRIPT = "script.py"  # in FOLDER


def run_script(folder: str, rank: int, script: List[str]) -> NoReturn:
    """Run the script as `python SCRIPT` or `python -m MODULE` would, in this process, to its end."""
    redirect(os.path.join(folder, "rank-{}.log".format(rank)))
    faulthandler.enable()
    try:
        if script[0] == "-m":
            run_module(script[1], script[2:])
        else:
            run_file(script[0], script[1:], os.path.abspath(folder))
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 0 if exc.code is None else 1
        if code:
            record(folder, rank, exc, code, with_traceback=False)
        raise
    except KeyboardInterrupt as exc:
        show(exc)
        sys.exit(INTERRUPTED)
    except BaseException as exc:
        record(folder, rank, exc, 1)
        show(exc)
        sys.exit(1)
    sys.exit(0)


def redirect(path: str) -> None:
    """Send what this process and its children print to a file, line by line, in the order in which it is printed."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr,unused-ignore]


def run_file(path: str, arguments: List[str], folder: str) -> None:
    sys.argv = [path, *arguments]
    # A script from standard input was written there by ownlab: `python -` looks into the current folder.
    own = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, os.getcwd() if os.path.basename(path) == STDIN_SCRIPT and own == folder else own)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    # A module of its own, which pickle and the worker processes of a DataLoader find as __main__.
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102  # the user's own script


def run_module(name: str, arguments: List[str]) -> None:
    import runpy

    sys.argv = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def record(folder: str, rank: int, exc: BaseException, code: int, *, with_traceback: bool = True) -> None:
    """Write what ended this rank, for ownlab and, if the script did not do so itself, for torchrun's summary."""
    lines = traceback.format_exception(type(exc), exc, own_traceback(exc)) if with_traceback else []
    entry: Dict[str, Any] = {
        "at": time.time(),
        "name": type(exc).__name__,
        "value": str(exc),
        "traceback": "".join(lines),
        "exit_code": code,
    }
    write_json(os.path.join(folder, "rank-{}-error.json".format(rank)), entry)
    elastic = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
    if elastic and not os.path.exists(elastic):
        extra = {"py_callstack": entry["traceback"], "timestamp": str(int(entry["at"]))}
        write_json(
            elastic, {"message": {"message": "{}: {}".format(entry["name"], entry["value"]), "extraInfo": extra}}
        )


def write_json(path: str, content: object) -> None:
    """Replace a file as a whole. This process is the script's: it imports nothing of ours."""
    part = "{}.{}.part".format(path, os.getpid())
    try:
        with open(part, "w", encoding="utf-8", errors="replace") as file:
            json.dump(content, file)
        os.replace(part, path)
    except OSError:  # a full disk must not hide the exception itself
        traceback.print_exc()


def show(exc: BaseException) -> None:
    """Print the exception as Python does, or as the script has asked for."""
    begin = own_traceback(exc)
    # Set in the exception too: torch's hook reads it there.
    sys.excepthook(type(exc), exc.with_traceback(begin), begin)


def own_traceback(exc: BaseException) -> Optional[types.TracebackType]:
    """The traceback from the script's own first line on."""
    here = exc.__traceback__
    while here is not None and here.tb_frame.f_code.co_filename in _OURS:
        here = here.tb_next
    return here


_OURS = (__file__, "<frozen runpy>")


if __name__ == "__main__":
    own_folder = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == own_folder:
        del sys.path[0]  # Python put this script's folder there
    run_script(sys.argv[1], int(os.environ["RANK"]), sys.argv[2:])
