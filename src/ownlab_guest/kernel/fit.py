"""`ownlab.fit` in a kernel: the model is traced here, where it lives; figures and pictures are made by ownlab.

Where ownlab itself is in another environment (OWNLAB_HOST), that one's is asked: it says, a line of JSON each, which steps it
wants to have traced, and in the end the answer.
"""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from typing import Any, Callable, Dict, NamedTuple, Optional, Union

from ownlab_guest.kernel.host_client import start_host

__all__ = ["Asked", "Fitting", "Shown", "Traces", "asked", "fit", "uncoloured"]

MIME = "application/vnd.vegalite.v5+json"


class Asked(NamedTuple):
    """What a notebook wants to know, and of which model."""

    model: Any
    inputs: Any
    loss: Optional[Callable[..., Any]]
    targets: Any
    request: Dict[str, Any]  # the step, without its batch
    wanted: Dict[str, Any]  # batch, cards, remedies, allocator


def asked(
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
    cards: Optional[str] = None,
    remedies: bool = False,
    allocator: Optional[str] = None,
) -> Asked:
    """The options of `ownlab.fit`, put in order."""
    for name, value, least in (("seq", seq, 1), ("accumulate", accumulate, 1), ("steps", steps, 2)):
        if value is not None and (not isinstance(value, int) or value < least):
            raise ValueError("%s=%r: a number from %d on is meant" % (name, value, least))
    if loss is not None and not callable(loss):
        raise TypeError("the loss is no function but " + type(loss).__name__)
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
    }
    if allocator is None:
        allocator = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    wanted = {
        "batch": None if batch is None else str(batch),
        "cards": cards,
        "remedies": remedies,
        "allocator": allocator,
    }
    return Asked(model, inputs, loss, targets, request, wanted)


class Traces:
    """Steps of the model that was given: `trace` answers a request as a guest does, also where something is wrong with it."""

    def __init__(self, given: Asked) -> None:
        self.request: Dict[str, Any] = {"target": type(given.model).__name__, **given.request}
        try:
            from ownlab_guest.fit import live_model
        except ImportError as exc:
            failed = {"error": {"kind": "bad-model", "message": "this kernel has no torch: %s" % exc}}
            self.trace: Callable[[Dict[str, Any]], Dict[str, Any]] = lambda _: failed
            return
        alive = live_model.Live(given.model, given.inputs, given.loss, given.targets)
        self.request = live_model.whole_request(alive, self.request)
        self.trace = lambda request: _with_cell(live_model.answer(alive, request))


def _with_cell(answer: Dict[str, Any]) -> Dict[str, Any]:
    """Where code of a cell failed, the cell by its number: its file's name says nothing to people."""
    error = answer.get("error") or {}
    get_ipython: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    named = getattr(getattr(get_ipython(), "compile", None), "format_code_name", lambda _: None)(error.get("file"))
    return answer if not named else {"error": {**error, "file": " ".join(named)}}


def uncoloured(text: str) -> str:
    """Without what a terminal reads as colours."""
    return re.sub("\x1b\\[[0-9;]*m", "", text)


class Shown:
    """A prediction as a notebook shows it: text, and a drawing of memory over one step."""

    def __init__(self, text: str, plot: str, chart: Dict[str, Any]) -> None:
        self._text, self._plot, self._chart = text, plot, chart

    def report(self) -> None:
        """Print all of it as text."""
        sys.stdout.write(self._text + "\n" + self._plot)

    def __repr__(self) -> str:
        return uncoloured(self._text.split("\n", 1)[0])

    def _ipython_display_(self) -> None:
        """As the last line of a cell: a page would show either the text or the drawing, and both are wanted."""
        from IPython.display import display

        sys.stdout.write(self._text)
        show: Any = display
        show({"text/plain": self._plot, MIME: self._chart}, raw=True)

    def _repr_mimebundle_(self, **_: Any) -> Dict[str, Any]:
        return {"text/plain": self._text + "\n" + self._plot, MIME: self._chart}


class Fitting(Shown):
    """A prediction that another environment's ownlab made: `record` is what `ownlab fit --json` prints."""

    def __init__(self, said: Dict[str, Any]) -> None:
        super().__init__(said["text"], said["plot"], said["chart"])
        self.record: Dict[str, Any] = said["record"]


def fit(model: Any, inputs: Any = None, loss: Optional[Callable[..., Any]] = None, **options: Any) -> Fitting:
    """Say how much GPU memory a step of this model takes, which cards hold it, and how fast they could be at best.

    Inputs are tensors, or shapes in their places: (16, 3, 224, 224), (8, 1024, torch.long), a tuple or a dict of these. The
    loss is a function of the model's output, and of `targets` where they are given. Options are those of `ownlab fit`:
    train=False, precision="amp-bf16", batch="max", cards="T4,h200", remedies=True … The model stays as it is.
    """
    given = asked(model, inputs, loss, **options)
    traces = Traces(given)
    child = start_host("ownlab.fit", "ownlab.instruments.fit.notebook")
    try:
        said = _converse(child, traces, given.wanted)
    except BaseException:  # the cell was interrupted, for instance
        child.kill()
        child.communicate()
        raise
    child.communicate()
    if "error" in said:
        raise RuntimeError(said["error"])
    return Fitting(said)


def _converse(child: "subprocess.Popen[bytes]", traces: Traces, wanted: Dict[str, Any]) -> Dict[str, Any]:
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    answer: Dict[str, Any] = {"request": traces.request, "wanted": wanted}
    while True:
        with suppress(BrokenPipeError):  # why it ended is said below
            child.stdin.write(json.dumps(answer).encode() + b"\n")
            child.stdin.flush()
        line = child.stdout.readline()
        if not line:
            lines = child.stderr.read().decode(errors="replace").strip().splitlines()
            raise RuntimeError("ownlab.fit: " + (lines[-1] if lines else "ownlab ended without an answer"))
        said: Dict[str, Any] = json.loads(line)
        if "trace" not in said:
            return said
        answer = traces.trace(said["trace"])


fit.__wrapped__ = asked  # type: ignore[attr-defined]  # help and completion show the names of the options
