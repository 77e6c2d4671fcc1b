"""`%%train`: run a cell's code as a script, with GPUs of its own, by `ownlab run` in a child process."""

import codecs
import contextlib
import os
import select
import shlex
import signal
import subprocess
import sys
import tty
from typing import Any, Callable, Dict, List, TypeVar

from ownlab_guest.text import shown, text

__all__ = ["TrainingFailed", "train"]

T = TypeVar("T")

_HELP = "%%train [--gpus N] [--nproc N] [-t TYPE] [-o FOLDER] [-- ARGUMENTS of the script]; see `ownlab run --help`"
# Options of `ownlab run` that choose the interpreter.
_INTERPRETER = ("-t", "--type", "--python")


class TrainingFailed(RuntimeError):
    """The script failed. Its output has the reason, so IPython shows no traceback of ours."""

    def _render_traceback_(self) -> List[str]:
        return ["TrainingFailed: {}".format(self)]


def train(line: str, cell: str) -> None:
    """Run this cell as a script on GPUs of its own: %%train --gpus 4 [options of `ownlab run`] [-- ARGUMENTS]"""
    options, arguments = _split(shlex.split(line))
    if {"-h", "--help"} & set(options):
        sys.stdout.write(_HELP + "\n")
        return
    if not {each.split("=")[0] for each in options} & set(_INTERPRETER):
        options += ["--python", sys.executable]
    command = [os.environ.get("OWNLAB_HOST") or sys.executable, "-m", "ownlab", "run", *options, "-", *arguments]
    code = _stream(command, cell.encode("utf-8", "surrogateescape"))
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if code != 0:
        raise TrainingFailed(shown(text("the script ended with exit code {code}", code=code)))


def _split(words: List[str]) -> "tuple[List[str], List[str]]":
    """Options of ours, and behind "--" the arguments of the script."""
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _environment() -> Dict[str, str]:
    """Ours, without what would mislead another Python, or a script that has no page to draw on."""
    left_out = ("PYTHON", "FORCE_COLOR")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    if environment.get("MPLBACKEND", "").startswith("module:"):
        del environment["MPLBACKEND"]
    return environment


def _stream(command: List[str], code: bytes) -> int:
    """Run a command, show its output as it arrives, and pass interrupts on. Return its exit code."""
    # A terminal, so that progress bars move as they do in a cell.
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=_environment(),
        start_new_session=True,  # an interrupt of this kernel reaches it once, from here
    )
    os.close(theirs)
    assert child.stdin is not None
    assert child.stderr is not None
    try:
        child.stdin.write(code)
        child.stdin.close()
    except BrokenPipeError:  # refused already: it says why
        pass
    streams: Dict[int, Any] = {ours: sys.stdout, child.stderr.fileno(): sys.stderr}
    decoders = {descriptor: codecs.getincrementaldecoder("utf-8")("replace") for descriptor in streams}

    def show() -> None:
        while streams:
            for descriptor in select.select(list(streams), [], [])[0]:
                chunk = _read(descriptor)
                streams[descriptor].write(decoders[descriptor].decode(chunk))
                streams[descriptor].flush()
                if not chunk:
                    del streams[descriptor]

    _with_interrupts(child, show)
    os.close(ours)
    child.stderr.close()
    return _with_interrupts(child, child.wait)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # a terminal whose other end is closed
        return b""


def _with_interrupts(child: "subprocess.Popen[bytes]", work: Callable[[], T]) -> T:
    """Do the work, and start it again after each interrupt, which the child gets: it ends its ranks, and itself."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return work()
        child.send_signal(signal.SIGINT)
