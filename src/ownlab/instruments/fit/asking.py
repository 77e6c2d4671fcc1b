"""Asks the interpreter that has torch for a trace, in a child with a deadline; what went wrong there is said in our words."""

from __future__ import annotations

import os
import tempfile

import msgspec

from ownlab.errors import DeadlineError, InputError, InterpreterError
from ownlab.guests import guest
from ownlab.instruments.fit.records import Request, Trace, Trouble

__all__ = ["NotTraced", "ask_trace"]

# What to do, by the kind of trouble that the guest names.
_HINTS = {
    "no-torch": "Name the Python that has it: --python PATH, or activate its environment.",
    "no-transformers": "Name the Python that has it: --python PATH, or activate its environment.",
    "no-target": "Write FILE.py:build, package.module:build, or hf:CONFIG.json.",
    "no-module": "It is looked for in the Python of --python, from the folder that you are in.",
    "no-function": "Write a function build() that returns (model, inputs) or (model, inputs, loss).",
    "bad-return": "build() returns (model, inputs) or (model, inputs, loss): inputs a tuple or a dict, loss a function.",
    "needs-cuda": "Let build() make everything on the CPU; which card it would go to is not for it to say.",
    "data-dependent-shape": "Try it with the part of the model before that, or measure it on a card.",
    "data-dependent-value": "Try it with the part of the model before that, or measure it on a card.",
    "nothing-to-train": "For a model that is only used: --infer",
}
# These are not failures of the model.
_INTERPRETERS = ("no-torch", "no-transformers")


class NotTraced(InputError):
    """The model's step could not be followed."""

    def __init__(self, trouble: Trouble) -> None:
        where = ""
        if trouble.file is not None and trouble.line is not None:
            where = f"{trouble.file}, line {trouble.line}: "
        elif trouble.file is not None and trouble.file not in trouble.message:
            where = f"{trouble.file}: "
        super().__init__(f"{where}{trouble.message}", hint=_HINTS.get(trouble.kind, ""))
        self.trouble = trouble


def ask_trace(request: Request, python: str, *, deadline: float) -> Trace:
    """The trace of a step, made in `python`."""
    descriptor, path = tempfile.mkstemp(prefix="ownlab-fit-", suffix=".json")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(request))
        trace = guest.ask(
            python, "fit.trace", [path], answer=Trace, deadline=deadline, env=_environment(request.target)
        )
    except DeadlineError as exc:
        raise DeadlineError(
            f"{request.target} was not traced in {deadline:g} s",
            hint="build() hangs, or the model is large: give it more time with --deadline SECONDS.",
        ) from exc
    finally:
        os.unlink(path)
    if trace.error is None and trace.events.name and trace.marks:
        return trace
    if trace.error is None:
        raise NotTraced(Trouble("nothing", f"{request.target}: its step holds no tensor at all"))
    if trace.error.kind in _INTERPRETERS:
        raise InterpreterError(trace.error.message, hint=_HINTS[trace.error.kind])
    raise NotTraced(trace.error)


def _environment(target: str) -> dict[str, str]:
    """Without a card, whatever is there: a prediction must not touch one, nor depend on it."""
    environment = {"CUDA_VISIBLE_DEVICES": ""}
    module = target.rpartition(":")[0]
    if module and not target.startswith("hf:") and not module.endswith(".py"):
        # As `python -m` would find it: from the folder that one is in.
        known = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([os.getcwd(), *([known] if known else [])])
    return environment
