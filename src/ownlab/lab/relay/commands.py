"""The commands of a relay's control socket: most are the node's to do."""

from __future__ import annotations

from typing import Any

from ownlab.errors import LabError
from ownlab.lab.relay.process import Relay
from ownlab.text import text

__all__ = ["answer"]

_OF_NODE = ("signal", "expect", "relaunch", "extend")


def answer(relay: Relay, request: dict[str, Any]) -> dict[str, Any]:
    """Return {"ok": true, …}, or {"ok": false, "error": "…"}."""
    try:
        return {"ok": True, **_answer(relay, request)}
    except LabError as exc:
        return {"ok": False, "error": exc.message}


def _answer(relay: Relay, request: dict[str, Any]) -> dict[str, Any]:
    do, why = str(request.get("do")), request.get("why")
    why = why if isinstance(why, str) and why else text("it was stopped")
    if do == "status":
        return relay.status()
    if do == "usage":
        return relay.usage()
    if do == "rename":
        relay.rename(str(request.get("notebook", "")))
        return {}
    if do == "expect" and not request.get("restart") and relay.line is None:
        relay.end(text("it was shut down"), now=True)
        return {}
    if do in _OF_NODE or (do in ("kill", "terminate") and request.get("restart")):
        relay.command(request)
        return relay.status() if do in ("relaunch", "extend") else {}
    if do in ("end", "kill", "terminate"):
        relay.end(why, now=do == "kill" or bool(request.get("now")))
        return {}
    raise LabError(text("unknown request {request}: use one of {names}", request=repr(request.get("do")), names=_NAMES))


_NAMES = ", ".join(("status", "usage", *_OF_NODE, "kill", "terminate", "end", "rename"))
