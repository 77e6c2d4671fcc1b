"""Asks the interpreter that has torch for a trace, in a child with a deadline; what went wrong there is said in our words."""

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

__all__ = ["NotTraced", "ask_guest", "ask_trace", "check_trace", "error_of", "record_file"]

T = TypeVar("T")

_MEASURE = "Try it with the part of the model before that; on a card --measure runs it as it is."
_MORE_TIME = "build() hangs, or the model is large: give it more time with --deadline SECONDS."
# What to do, by the kind of trouble that the guest names.
_HINTS = {
    "no-torch": "Name the Python that has it: --python PATH, or activate its environment.",
    "no-transformers": "Name the Python that has it: --python PATH, or activate its environment.",
    "no-target": "Write FILE.py:build, package.module:build, or hf:CONFIG.json.",
    "no-module": "It is looked for in the Python of --python, from the folder that you are in.",
    "no-function": "Write a function build() that returns (model, inputs) or (model, inputs, loss).",
    "bad-return": "build() returns (model, inputs) or (model, inputs, loss): inputs a tuple or a dict, loss a function.",
    "needs-cuda": "Let build() make everything on the CPU; which card it would go to is not for it to say.",
    "data-dependent-shape": _MEASURE,
    "data-dependent-value": _MEASURE,
    "cannot-be-traced": "On a card --measure runs it; an operation of your own tells its sizes by torch.library.register_fake",
    "no-card": "ownlab doctor says why torch sees none.",
    "no-decoding": "--decode is for models that take past_key_values and return them.",
    "too-long": "A shorter prompt: --seq N; fewer new tokens: --decode N.",
    "nothing-to-train": "For a model that is only used: --infer",
}
# These are not failures of the model.
_INTERPRETERS = ("no-torch", "no-transformers")


class NotTraced(InputError):
    """The model's step could not be followed."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(_placed(trouble), hint=_HINTS.get(trouble.kind, ""))
        self.trouble = trouble


def ask_trace(request: Request, python: str, *, deadline: float) -> Trace:
    """The trace of a step, made in `python`."""
    # Without a card, whatever is there: a prediction must not touch one, nor depend on it.
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    return check_trace(ask_guest("fit.trace", request, python, answer=Trace, deadline=deadline, env=hidden), request)


def ask_guest(
    module: str,
    request: Request,
    python: str,
    *arguments: str,
    answer: type[T],
    deadline: float,
    env: Mapping[str, str] | None = None,
) -> T:
    """What a module of the guest answers to a request and, beside it, to these arguments."""
    environment = {**_search_path(request.target), **(env or {}), "OWNLAB_FIT_UNTIL": str(time.time() + deadline)}
    with record_file(request) as path:
        try:
            return guest_client.ask(
                python, module, [path, *arguments], answer=answer, deadline=deadline, env=environment
            )
        except DeadlineError as exc:
            raise DeadlineError(f"{request.target} was not done in {deadline:g} s", hint=_MORE_TIME) from exc


@contextmanager
def record_file(record: Struct) -> Iterator[str]:
    """The path of a file that a guest reads, while it is asked."""
    descriptor, path = tempfile.mkstemp(prefix="ownlab-fit-", suffix=".json")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(encode_json(record))
        yield path
    finally:
        os.unlink(path)


def check_trace(trace: Trace, request: Request) -> Trace:
    """A guest's answer, where it is a trace of a step; else what is wrong is raised."""
    if trace.error is None and trace.events.name and trace.marks:
        return trace
    if trace.error is None:
        raise NotTraced(Trouble("nothing", f"{request.target}: its step holds no tensor at all"))
    raise error_of(trace.error)


def error_of(trouble: Trouble) -> OwnlabError:
    """What a guest said is wrong, to be raised."""
    if trouble.kind in _INTERPRETERS:
        return InterpreterError(trouble.message, hint=_HINTS[trouble.kind])
    if trouble.kind == "deadline":
        return DeadlineError(_placed(trouble), hint=_MORE_TIME)
    return NotTraced(trouble)


def _placed(trouble: Trouble) -> str:
    """What is wrong, after the line of the person's code where it is."""
    if trouble.file is not None and trouble.line is not None:
        return f"{trouble.file}, line {trouble.line}: {trouble.message}"
    if trouble.file is not None and trouble.file not in trouble.message:
        return f"{trouble.file}: {trouble.message}"
    return trouble.message


def _search_path(target: str) -> dict[str, str]:
    """As `python -m` would find a module: from the folder that one is in."""
    module = target.rpartition(":")[0]
    if not module or target.startswith("hf:") or module.endswith(".py"):
        return {}
    known = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([os.getcwd(), *([known] if known else [])])}
