"""`ownlab.fit` in a kernel. The model is traced here, where it lives; ownlab computes figures and pictures.

`ownlab.instruments.fit.notebook` uses this module where ownlab is installed in the kernel's environment. Where it is not,
`fit` here starts that module in ownlab's own environment (OWNLAB_HOST). Both exchange lines of JSON: the child names the steps
that it wants traced, this process answers with traces, and the last line of the child is the prediction or an error.
"""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from typing import Any, Callable, Dict, NamedTuple, Optional, Union

from ownlab_guest.kernel.host_client import start_host
from ownlab_guest.kernel.host_records import OwnlabError, decode_error, decode_record
from ownlab_guest.text import pack_texts, shown, text

__all__ = ["FitCall", "LiveTracer", "Prediction", "fit", "parse_call", "strip_colours"]

MIME = "application/vnd.vegalite.v5+json"


class FitCall(NamedTuple):
    """The arguments of `ownlab.fit`, checked and sorted."""

    model: Any
    inputs: Any
    loss: Optional[Callable[..., Any]]
    targets: Any
    request: Dict[str, Any]  # the step, without its batch
    goals: Dict[str, Any]  # batch, cards, remedies, allocator


def parse_call(
    model: Any,
    inputs: Any = None,
    loss: Optional[Callable[..., Any]] = None,
    *,
    targets: Any = None,
    train: bool = True,
    optimizer: str = "adamw",
    fused: bool = False,
    foreach: Optional[bool] = None,
    precision: str = "fp32",
    batch: Union[int, str, None] = None,
    seq: Optional[int] = None,
    checkpointing: bool = False,
    channels_last: bool = False,
    accumulate: int = 1,
    steps: int = 3,
    weights: str = "",
    lora: str = "",
    cards: Optional[str] = None,
    remedies: bool = False,
    allocator: Optional[str] = None,
) -> FitCall:
    """Check the arguments of `ownlab.fit`, and sort them into the step and the goals."""
    for name, value, least in (("seq", seq, 1), ("accumulate", accumulate, 1), ("steps", steps, 2)):
        if value is not None and (not isinstance(value, int) or value < least):
            message = text(
                "{name} must be an integer of at least {least}, not {value}", name=name, least=least, value=repr(value)
            )
            raise ValueError(shown(message))
    if loss is not None and not callable(loss):
        raise TypeError(shown(text("the loss must be a function, not {type}", type=type(loss).__name__)))
    request = {
        "train": train,
        "optimizer": optimizer,
        "fused": fused,
        "foreach": foreach,
        "precision": precision,
        "seq": seq,
        "checkpointing": checkpointing,
        "channels_last": channels_last,
        "accumulate": accumulate,
        "steps": steps,
        "weights": weights,
        "lora": lora,
    }
    if allocator is None:
        allocator = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    goals = {
        "batch": None if batch is None else str(batch),
        "cards": cards,
        "remedies": remedies,
        "allocator": allocator,
    }
    return FitCall(model, inputs, loss, targets, request, goals)


class LiveTracer:
    """Traces steps of the model of a call. `trace` takes and returns what the guest of `ownlab fit` does, errors included, with their templates (`pack_texts`)."""

    def __init__(self, call: FitCall) -> None:
        self.request: Dict[str, Any] = {"target": type(call.model).__name__, **call.request}
        try:
            from ownlab_guest.fit import live_model
        except ImportError as exc:
            no_torch = {
                "error": {"kind": "bad-model", "message": text("this kernel has no torch: {reason}", reason=exc)}
            }
            self.trace: Callable[[Dict[str, Any]], Dict[str, Any]] = lambda _: pack_texts(no_torch)
            return
        live = live_model.LiveModel(call.model, call.inputs, call.loss, call.targets)
        self.request = live_model.complete_request(live, self.request)
        self.trace = lambda request: pack_texts(_with_cell_number(live_model.answer(live, request)))


def _with_cell_number(answer: Dict[str, Any]) -> Dict[str, Any]:
    """If code of a cell failed, name the cell by its number instead of by IPython's file name."""
    error = answer.get("error") or {}
    get_ipython: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    cell = getattr(getattr(get_ipython(), "compile", None), "format_code_name", lambda _: None)(error.get("file"))
    return answer if not cell else {"error": {**error, "file": " ".join(cell)}}


def strip_colours(text: str) -> str:
    """Remove the colour sequences of terminals."""
    return re.sub("\x1b\\[[0-9;]*m", "", text)


class Prediction:
    """The result of `ownlab.fit`. `record` holds the figures of `ownlab fit --json`; a notebook shows text and a chart."""

    def __init__(self, record: Any, text: str, plot: str, chart: Dict[str, Any]) -> None:
        self.record = record
        self._text, self._plot, self._chart = text, plot, chart

    def report(self) -> None:
        """Print everything as text."""
        sys.stdout.write(self._text + "\n" + self._plot)

    def __repr__(self) -> str:
        return strip_colours(self._text.split("\n", 1)[0])

    def _ipython_display_(self) -> None:
        """Show text and chart: from a MIME bundle a page would show only one of them."""
        from IPython.display import display

        sys.stdout.write(self._text)
        show: Any = display
        show({"text/plain": self._plot, MIME: self._chart}, raw=True)

    def _repr_mimebundle_(self, **_: Any) -> Dict[str, Any]:
        return {"text/plain": self._text + "\n" + self._plot, MIME: self._chart}


def fit(model: Any, inputs: Any = None, loss: Optional[Callable[..., Any]] = None, **options: Any) -> Prediction:
    """Predict how much GPU memory a step of this model takes, which cards hold it, and how fast it could be at best.

    Inputs are tensors, or shapes in their place: (16, 3, 224, 224), (8, 1024, torch.long), a tuple or a dict of these. The
    loss is a function of the model's output, and of `targets` if they are given. Options are those of `ownlab fit`:
    train=False, precision="amp-bf16", batch="max", cards="T4,h200", remedies=True … The model is not changed.
    """
    call = parse_call(model, inputs, loss, **options)
    tracer = LiveTracer(call)
    child = start_host("ownlab.fit", "ownlab.instruments.fit.notebook")
    try:
        answer = _converse(child, tracer, call.goals)
    except BaseException:  # the cell was interrupted, for instance
        child.kill()
        child.communicate()
        raise
    child.communicate()
    if "error" in answer:
        raise decode_error(answer["error"])
    return Prediction(decode_record(answer["record"]), answer["text"], answer["plot"], answer["chart"])


def _converse(child: "subprocess.Popen[bytes]", tracer: LiveTracer, goals: Dict[str, Any]) -> Dict[str, Any]:
    """Trace the steps that the child asks for, and return its last line."""
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    answer: Dict[str, Any] = {"request": tracer.request, "goals": goals}
    while True:
        with suppress(BrokenPipeError):  # the error below says why the child ended
            child.stdin.write(json.dumps(answer).encode() + b"\n")
            child.stdin.flush()
        line = child.stdout.readline()
        if not line:
            lines = child.stderr.read().decode(errors="replace").strip().splitlines()
            if lines:
                raise OwnlabError(text("ownlab.fit: {error}", error=lines[-1]))
            raise OwnlabError(text("ownlab.fit: ownlab ended without an answer"))
        message: Dict[str, Any] = json.loads(line)
        if "trace" not in message:
            return message
        answer = tracer.trace(message["trace"])


fit.__wrapped__ = parse_call  # type: ignore[attr-defined]  # help and completion show the names of the options
