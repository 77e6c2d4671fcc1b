"""Runs the guest in the interpreter that has torch, in a child process with a deadline, and turns its failures into our errors."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from msgspec import Struct

from ownlab import guest_client
from ownlab.errors import DeadlineError, InputError, InterpreterError, OwnlabError
from ownlab.instruments.fit.records import Request, Trace, Trouble
from ownlab.json_encoding import encode_json
from ownlab.text import sentence, text

__all__ = ["LibraryMissing", "NotTraced", "ask_guest", "ask_trace", "check_trace", "error_of", "record_file"]

T = TypeVar("T")

_MEASURE = text("Try the part of the model before that line. On a card, --measure runs the model as it is.")
_MORE_TIME = text("build() hangs, or the model is large: allow more time with --deadline SECONDS.")
# What to do, by the kind of the guest's error.
_HINTS = {
    "no-torch": text(
        "Install torch there; a CPU build is enough: pip install torch --index-url https://download.pytorch.org/whl/cpu. "
        "`ownlab env create dl --with torch` makes an environment that has it. Or name another Python: --python PATH, or "
        "--python with the name of an environment (`ownlab env list`)."
    ),
    "no-transformers": text(
        "Name a Python that has transformers: --python PATH, or --python with the name of an environment (`ownlab env list`)."
    ),
    "no-target": text("Write FILE.py:build, package.module:build, or hf:CONFIG.json."),
    "no-module": text("Modules are imported by the Python of --python, from the current folder."),
    "no-function": text("Write a function build() that returns (model, inputs) or (model, inputs, loss)."),
    "bad-return": text(
        "build() must return (model, inputs) or (model, inputs, loss): a tuple or dict of inputs, a function as loss."
    ),
    "needs-cuda": text("Let build() create everything on the CPU: ownlab moves it."),
    "data-dependent-shape": _MEASURE,
    "data-dependent-value": _MEASURE,
    "cannot-be-traced": text(
        "On a card, --measure runs it. For your own operation, define its sizes with torch.library.register_fake."
    ),
    "no-card": text("`ownlab doctor` reports why torch sees no card."),
    "no-decoding": text("--decode needs a model that takes and returns past_key_values."),
    "too-long": text("Use a shorter prompt (--seq N) or fewer new tokens (--decode N)."),
    "nothing-to-train": text("For inference use --infer."),
    "no-format": text("Write --weights nf4, nf4:double=true, fp4, int8, fp8, gptq:group=128 or awq:group=128."),
    "no-adapters": text("Write --lora r=16,targets=q_proj,v_proj; --lora r=16 means all linear layers."),
}
# Failures of the interpreter, not of the model.
_INTERPRETER_ERRORS = ("no-torch", "no-transformers")


class LibraryMissing(InterpreterError):
    """The given Python works, but cannot import the library that the model needs."""

    meaning = "That Python works, but the library is not installed in it, or its import fails."


class NotTraced(InputError):
    """The step of the model cannot be traced."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(_located(trouble), hint=_HINTS.get(trouble.kind, ""))
        self.trouble = trouble


def ask_trace(request: Request, python: str, *, deadline: float) -> Trace:
    """Trace a step in `python`."""
    # Hide all cards: a prediction must neither touch a card nor depend on it.
    no_card = {"CUDA_VISIBLE_DEVICES": ""}
    return check_trace(ask_guest("fit.trace", request, python, answer=Trace, deadline=deadline, env=no_card), request)


def ask_guest(
    module: str,
    request: Request,
    python: str,
    *arguments: str,
    answer: type[T],
    deadline: float,
    env: Mapping[str, str] | None = None,
) -> T:
    """Run a module of the guest with a request and further arguments, and return its answer."""
    environment = {**_search_path(request.target), **(env or {}), "OWNLAB_FIT_UNTIL": str(time.time() + deadline)}
    with record_file(request) as path:
        try:
            return guest_client.ask(
                python, module, [path, *arguments], answer=answer, deadline=deadline, env=environment
            )
        except DeadlineError as exc:
            raise DeadlineError(
                text("{target} did not finish within {seconds} s.", target=request.target, seconds=f"{deadline:g}"),
                hint=_MORE_TIME,
            ) from exc


@contextmanager
def record_file(record: Struct) -> Iterator[str]:
    """Write a record to a temporary file for the guest; remove it afterwards."""
    descriptor, path = tempfile.mkstemp(prefix="ownlab-fit-", suffix=".json")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(encode_json(record))
        yield path
    finally:
        os.unlink(path)


def check_trace(trace: Trace, request: Request) -> Trace:
    """Return the trace if it is one, else raise the guest's error."""
    if trace.error is None and trace.events.name and trace.marks:
        return trace
    if trace.error is None:
        raise NotTraced(Trouble("nothing", text("{target}: the step allocates no tensor", target=request.target)))
    raise error_of(trace.error)


def error_of(trouble: Trouble) -> OwnlabError:
    """Return the exception for an error of the guest."""
    if trouble.kind in _INTERPRETER_ERRORS:
        return LibraryMissing(sentence(trouble.message), hint=_HINTS[trouble.kind])
    if trouble.kind == "deadline":
        return DeadlineError(_located(trouble), hint=_MORE_TIME)
    return NotTraced(trouble)


def _located(trouble: Trouble) -> str:
    """Return the message as a sentence, with the line of the user's code if it is known."""
    message = sentence(trouble.message)
    if trouble.file is not None and trouble.line is not None:
        return text("{file}, line {line}: {message}", file=trouble.file, line=trouble.line, message=message)
    if trouble.file is not None and trouble.file not in trouble.message:
        return text("{file}: {message}", file=trouble.file, message=message)
    return message


def _search_path(target: str) -> dict[str, str]:
    """Let the guest find modules in the current folder, as `python -m` does."""
    module = target.rpartition(":")[0]
    if not module or target.startswith("hf:") or module.endswith(".py"):
        return {}
    known = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([os.getcwd(), *([known] if known else [])])}
