"""A lab for other computers (`ownlab up --host NAME`) answers requests for its own name only.

Jupyter's check of the Host header knows names or loopback, but no other address; without a check, a page of another website
could reach the lab under a name of its own that resolves to the lab's address (DNS rebinding).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from tornado import web
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule

__all__ = ["host_of", "refuse_other_hosts"]

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.%]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]+)?")


def refuse_other_hosts(app: web.Application, hosts: Collection[str]) -> None:
    """Refuse requests for other hosts before any route."""
    router = app.default_router
    rule = router.process_rule(Rule(_OtherHost(frozenset(hosts)), _Refused))
    assert rule is not None
    router.rules.insert(0, rule)


def host_of(header: str) -> str:
    """Return the host of a Host header without its port: "[::1]:80" -> "::1"; "" for a malformed one."""
    parts = _HOST.fullmatch(header.strip().lower())
    return (parts["address"] or parts["name"]) if parts else ""


class _OtherHost(Matcher):
    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        return None if host_of(request.host) in self._hosts else {}


class _Refused(web.RequestHandler):
    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish("This lab does not answer under this host name.\n")
