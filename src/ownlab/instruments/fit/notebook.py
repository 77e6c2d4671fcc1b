"""`ownlab.fit`: predict whether the model of this notebook fits, and on which card.

    ownlab.fit(model, (16, 3, 224, 224), precision="amp-bf16")

The model is traced in the kernel (ownlab_guest.kernel.fit) and is not changed. `python -m ownlab.instruments.fit.notebook`
serves kernels whose environment has no ownlab: it reads the call from stdin, asks for traces, and ends with the prediction or
an error, each as one line of JSON. Both ways return the same types and raise the same errors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from ownlab.errors import OwnlabError
from ownlab.instruments.fit.guest_client import check_trace
from ownlab.instruments.fit.pipeline import parse_batch, parse_goals, predict_fit
from ownlab.instruments.fit.records import Fit, Request, Trace
from ownlab.json_encoding import encode_shown_json, error_to_builtins, to_builtins, to_typed_builtins
from ownlab.text import unpack_texts
from ownlab_guest.kernel import fit as kernel_fit
from ownlab_guest.kernel.fit import LiveTracer, Prediction, parse_call, strip_colours

__all__ = ["fit"]

_WIDTH = 100


def fit(model: Any, inputs: Any = None, loss: Callable[..., Any] | None = None, **options: Any) -> Prediction:
    call = parse_call(model, inputs, loss, **options)
    tracer = LiveTracer(call)
    record = _predict(tracer.request, call.goals, tracer.trace)
    return Prediction(record, **_display(record))


fit.__doc__ = kernel_fit.fit.__doc__
fit.__wrapped__ = parse_call  # type: ignore[attr-defined]  # help and completion show the names of the options


def _predict(request: dict[str, Any], goals: dict[str, Any], trace: Callable[[dict[str, Any]], dict[str, Any]]) -> Fit:
    step = msgspec.convert(request, Request)
    batch, batches = parse_batch(goals["batch"], step.batch or 1)
    parsed = parse_goals(goals["cards"], batches, remedies=goals["remedies"], allocator=goals["allocator"])

    def trace_step(step: Request) -> Trace:
        return check_trace(msgspec.convert(unpack_texts(trace(to_builtins(step))), Trace), step)

    return predict_fit(replace(step, batch=batch or step.batch), trace_step, parsed)


def _display(record: Fit) -> dict[str, Any]:
    """Render the text, the plot in characters, and the chart of a prediction."""
    from ownlab.instruments.fit.memory_chart import memory_chart
    from ownlab.instruments.fit.terminal import show_fit, show_timeline
    from ownlab.render.console import print_to_text

    return {
        "text": print_to_text(lambda out: show_fit(record, out, timeline=False), _WIDTH),
        "plot": strip_colours(print_to_text(lambda out: show_timeline(record, out), _WIDTH)),
        "chart": memory_chart(record),
    }


def _serve() -> None:
    def receive() -> dict[str, Any]:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(1)  # the kernel is gone
        message: dict[str, Any] = msgspec.json.decode(line)
        return message

    def send(message: dict[str, Any]) -> None:
        sys.stdout.buffer.write(encode_shown_json(message) + b"\n")
        sys.stdout.buffer.flush()

    def trace(request: dict[str, Any]) -> dict[str, Any]:
        send({"trace": request})
        return receive()

    call = receive()
    try:
        record = _predict(call["request"], call["goals"], trace)
        send({"record": to_typed_builtins(record), **_display(record)})
    except OwnlabError as exc:
        send({"error": error_to_builtins(exc)})


if __name__ == "__main__":
    _serve()
