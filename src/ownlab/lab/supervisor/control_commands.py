"""The commands of the control socket, as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ownlab.errors import LabError
from ownlab.lab.supervisor.lifecycle import Lifecycle

__all__ = ["answer"]


def answer(lifecycle: Lifecycle, request: dict[str, Any]) -> dict[str, Any]:
    """Return {"ok": true, …}, or {"ok": false, "error": "…"}."""
    do = _REQUESTS.get(str(request.get("do")))
    if do is None:
        return {"ok": False, "error": f"unknown request {request.get('do')!r}: use one of {', '.join(_REQUESTS)}"}
    try:
        return {"ok": True, **(do(lifecycle, request) or {})}
    except LabError as exc:
        return {"ok": False, "error": exc.message}
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, OSError) as exc:
        # A bad request (an unknown signal, a missing value) must never end the kernel.
        return {"ok": False, "error": f"{request.get('do')}: {exc!r}"}


def _status(lifecycle: Lifecycle, request: dict[str, Any]) -> dict[str, Any]:
    return lifecycle.status()


def _signal(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    lifecycle.signal(int(request.get("signum", 2)))


def _end(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    lifecycle.end(str(request.get("why") or "it was stopped"), now=bool(request.get("now")))


def _kill(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    lifecycle.kill(restart=bool(request.get("restart")))


def _terminate(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    lifecycle.terminate(restart=bool(request.get("restart")))


def _expect(lifecycle: Lifecycle, request: dict[str, Any]) -> None:
    lifecycle.expect(restart=bool(request.get("restart")))


def _relaunch(lifecycle: Lifecycle, request: dict[str, Any]) -> dict[str, Any]:
    changes = {str(name): str(value) for name, value in (request.get("env") or {}).items()}
    lifecycle.relaunch(changes, request.get("cwd"))
    return lifecycle.status()


def _extend(lifecycle: Lifecycle, request: dict[str, Any]) -> dict[str, Any]:
    lifecycle.extend()
    return lifecycle.status()


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
}
