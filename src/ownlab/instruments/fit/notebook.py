"""`ownlab.fit`: will the model of this notebook fit, and on which card? It is traced in the kernel, and stays as it is.

    ownlab.fit(model, (16, 3, 224, 224), precision="amp-bf16")

`python -m ownlab.instruments.fit.notebook` does the same for a kernel whose environment has no ownlab: it reads what is asked from stdin,
asks there for traces, and ends with the answer, each as one line of JSON.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from ownlab.errors import OwnlabError
from ownlab.instruments.fit.guest_client import accepted
from ownlab.instruments.fit.pipeline import answer, parse_batch, wanted
from ownlab.instruments.fit.records import Fit, Request, Trace
from ownlab.json_encoding import encode_json, to_builtins
from ownlab_guest.kernel.fit import Shown, Traces, asked, uncoloured

__all__ = ["Fitting", "fit"]

_WIDTH = 100


class Fitting(Shown):
    """A prediction: `record` is what `ownlab fit --json` prints."""

    def __init__(self, record: Fit) -> None:
        from ownlab.instruments.fit.memory_chart import memory_chart
        from ownlab.instruments.fit.terminal import show_fit, show_timeline

        self.record = record
        text = _printed(lambda out: show_fit(record, out, timeline=False))
        plot = uncoloured(_printed(lambda out: show_timeline(record, out)))
        super().__init__(text, plot, memory_chart(record))

    def said(self) -> dict[str, Any]:
        """As a kernel reads it whose environment has no ownlab."""
        return {"record": self.record, "text": self._text, "plot": self._plot, "chart": self._chart}


def fit(model: Any, inputs: Any = None, loss: Callable[..., Any] | None = None, **options: Any) -> Fitting:
    """Say how much GPU memory a step of this model takes, which cards hold it, and how fast they could be at best.

    Inputs are tensors, or shapes in their places: (16, 3, 224, 224), (8, 1024, torch.long), a tuple or a dict of these. The
    loss is a function of the model's output, and of `targets` where they are given. Options are those of `ownlab fit`:
    train=False, precision="amp-bf16", batch="max", cards="T4,h200", remedies=True … The model stays as it is.
    """
    given = asked(model, inputs, loss, **options)
    traces = Traces(given)
    return _fitting(traces.request, given.wanted, traces.trace)


def _fitting(
    request: dict[str, Any], wants: dict[str, Any], trace: Callable[[dict[str, Any]], dict[str, Any]]
) -> Fitting:
    step = msgspec.convert(request, Request)
    number, within = parse_batch(wants["batch"], step.batch or 1)
    chosen = wanted(wants["cards"], within, remedies=wants["remedies"], allocator=wants["allocator"])

    def traced(one: Request) -> Trace:
        return accepted(msgspec.convert(trace(to_builtins(one)), Trace), one)

    return Fitting(answer(replace(step, batch=number or step.batch), traced, chosen))


def _printed(show: Callable[[Any], None]) -> str:
    from ownlab.render.console import console

    with contextlib.redirect_stdout(io.StringIO()) as written:
        out = console()
        out.width = _WIDTH
        show(out)
    return written.getvalue()


def _serve() -> None:
    def told() -> dict[str, Any]:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(1)  # the kernel is gone
        said: dict[str, Any] = msgspec.json.decode(line)
        return said

    def tell(said: dict[str, Any]) -> None:
        sys.stdout.buffer.write(encode_json(said) + b"\n")
        sys.stdout.buffer.flush()

    def trace(request: dict[str, Any]) -> dict[str, Any]:
        tell({"trace": request})
        return told()

    first = told()
    try:
        tell(_fitting(first["request"], first["wanted"], trace).said())
    except OwnlabError as exc:
        tell({"error": f"{exc.message}. {exc.hint}" if exc.hint else exc.message})


fit.__wrapped__ = asked  # type: ignore[attr-defined]  # help and completion show the names of the options

if __name__ == "__main__":
    _serve()
