"""What can be asked of a supervisor on its control socket, as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ownlab.errors import LabError
from ownlab.lab.supervisor.lifecycle import Life

__all__ = ["answer"]


def answer(life: Life, request: dict[str, Any]) -> dict[str, Any]:
    """{"ok": true, …}, or {"ok": false, "error": "in words"}."""
    do = _REQUESTS.get(str(request.get("do")))
    if do is None:
        return {"ok": False, "error": f"unknown request {request.get('do')!r}: one of {', '.join(_REQUESTS)}"}
    try:
        return {"ok": True, **(do(life, request) or {})}
    except LabError as exc:
        return {"ok": False, "error": exc.message}
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, OSError) as exc:
        # Whatever is wrong with a request (no such signal, a value that is missing), no kernel ends by it.
        return {"ok": False, "error": f"{request.get('do')}: {exc!r}"}


def _status(life: Life, request: dict[str, Any]) -> dict[str, Any]:
    return life.status()


def _signal(life: Life, request: dict[str, Any]) -> None:
    life.signal(int(request.get("signum", 2)))


def _end(life: Life, request: dict[str, Any]) -> None:
    life.end(str(request.get("why") or "it was stopped"), now=bool(request.get("now")))


def _kill(life: Life, request: dict[str, Any]) -> None:
    life.kill(restart=bool(request.get("restart")))


def _terminate(life: Life, request: dict[str, Any]) -> None:
    life.terminate(restart=bool(request.get("restart")))


def _expect(life: Life, request: dict[str, Any]) -> None:
    life.expect(restart=bool(request.get("restart")))


def _relaunch(life: Life, request: dict[str, Any]) -> dict[str, Any]:
    changes = {str(name): str(value) for name, value in (request.get("env") or {}).items()}
    life.relaunch(changes, request.get("cwd"))
    return life.status()


def _extend(life: Life, request: dict[str, Any]) -> dict[str, Any]:
    life.extend()
    return life.status()


def _rename(life: Life, request: dict[str, Any]) -> None:
    life.rename(str(request["notebook"]))


_REQUESTS: dict[str, Callable[[Life, dict[str, Any]], dict[str, Any] | None]] = {
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
