"""The commands of the control socket, as a table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from ownlab.errors import LabError
from ownlab.lab.supervisor.lifecycle import Lifecycle
from ownlab.text import text

__all__ = ["answer"]

_MAX_VARIABLE = 128 << 10  # bytes; MAX_ARG_STRLEN in Linux' binfmts.h


def answer(lifecycle: Lifecycle, request: dict[str, Any]) -> dict[str, Any]:
    """Return {"ok": true, …}, or {"ok": false, "error": "…"}."""
    do = _REQUESTS.get(str(request.get("do")))
    if do is None:
        names = ", ".join(_REQUESTS)
        error = text("unknown request {request}: use one of {names}", request=repr(request.get("do")), names=names)
        return {"ok": False, "error": error}
    try:
        return {"ok": True, **(do(lifecycle, request) or {})}
    except LabError as exc:
        return {"ok": False, "error": exc.message}
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, OSError) as exc:
        # A bad request (an unknown signal, a missing value) must never end the kernel.
        return {"ok": False, "error": text("{request}: {error}", request=request.get("do"), error=repr(exc))}


def _status(lifecycle: Lifecycle, request: dict[str, Any]) -> dict[str, Any]:
    return lifecycle.status()


def _signal(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    lifecycle.signal(int(request.get("signum", 2)))


def _end(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    why = request.get("why")
    lifecycle.end(why if isinstance(why, str) and why else text("it was stopped"), now=bool(request.get("now")))


def _kill(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    lifecycle.kill(restart=bool(request.get("restart")))


def _terminate(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    lifecycle.terminate(restart=bool(request.get("restart")))


def _expect(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    lifecycle.expect(restart=bool(request.get("restart")))


def _relaunch(lifecycle: Lifecycle, request: dict[str, Any]) -> dict[str, Any]:
    changes, cwd = request.get("env") or {}, request.get("cwd")
    # Checked first: the current kernel ends before another is started.
    for name, value in changes.items():
        if not isinstance(value, str) or not name or "=" in name:
            raise LabError(text("{name!r} cannot be a variable of a kernel's environment", name=name))
        encoded = os.fsencode(f"{name}={value}")
        if b"\0" in encoded or len(encoded) >= _MAX_VARIABLE:
            raise LabError(text("the value of {name!r} contains a zero byte or is too long", name=name))
    if cwd and not os.path.isdir(cwd):
        raise LabError(text("there is no folder {folder!r}", folder=cwd))
    lifecycle.relaunch(changes, cwd)
    return lifecycle.status()


def _extend(lifecycle: Lifecycle, request: dict[str, Any]) -> dict[str, Any]:
    lifecycle.extend()
    return lifecycle.status()


def _job_end(lifecycle: Lifecycle, request: dict[str, Any]) -> dict[str, Any]:
    seconds = request.get("seconds")
    lifecycle.set_job_end(None if seconds is None else time.monotonic() + float(seconds))
    return lifecycle.status()


def _usage(lifecycle: Lifecycle, request: dict[str, Any]) -> dict[str, Any]:
    if not lifecycle.plan.is_job:  # the lab measures the runtimes of its own machine itself
        raise LabError(text("this runtime is not in a job"))
    return lifecycle.usage.ask()


def _rename(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    lifecycle.rename(str(request["notebook"]))


_REQUESTS: dict[str, Callable[[Lifecycle, dict[str, Any]], dict[str, Any] | None]] = {
    "status": _status,
    "signal": _signal,
    "end": _end,
    "kill": _kill,
    "terminate": _terminate,
    "expect": _expect,
    "relaunch": _relaunch,
    "extend": _extend,
    "rename": _rename,
    "usage": _usage,
    "job_end": _job_end,
}
