"""proxy/PORT/: what this person's notebooks serve at ports of this machine, for whoever has the lab's token.

jupyter-server-proxy does the work. It passes on every header, and connects to whatever listens: on a machine of several
people a port may be somebody else's, who would get the cookie that opens this lab. Here no credential of the lab's goes
on, and ports of others are refused. What is served is shown with the rights of the page all the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from jupyter_server.utils import url_path_join
from jupyter_server_proxy.handlers import LocalProxyHandler  # type: ignore[import-untyped]
from tornado import web
from tornado.httputil import HTTPHeaders

__all__ = ["add_ports", "listeners"]

_LISTENS = "0A"  # include/net/tcp_states.h
_LAB_COOKIE = re.compile(r"_xsrf|username-[\w-]+")  # Jupyter's own: the one that opens the lab, and its companion


class PortHandler(LocalProxyHandler):  # type: ignore[misc]
    """One request, or one websocket, of a page to a port."""

    async def prepare(self) -> None:
        """Called by tornado before all else; the class above asks for the token."""
        await super().prepare()
        if self._finished:  # it was sent to the login page
            return
        port = int(self.path_args[0])
        owners = set(listeners(port))
        if not owners:
            raise web.HTTPError(502, f"Nothing listens at port {port} of this machine.")
        if not owners <= {os.geteuid(), 0}:
            raise web.HTTPError(403, f"Port {port} of this machine is another person's.")
        given = self.request.query.split("&")
        self.request.query = "&".join(each for each in given if each != f"token={self.identity_provider.token}")

    def proxy_request_headers(self) -> Any:
        """All that the page sent, but what opens the lab."""
        return without_credentials(super().proxy_request_headers(), self.identity_provider.token)


def without_credentials(headers: HTTPHeaders, token: str) -> HTTPHeaders:
    """For a server that is not to get into the lab; cookies and credentials of its own are passed on."""
    kept = headers.copy()
    for name in ("Cookie", "Referer"):
        kept.pop(name, None)
    if token and token in kept.get("Authorization", ""):
        del kept["Authorization"]
    cookies = [each.strip() for each in headers.get("Cookie", "").split(";")]
    cookies = [each for each in cookies if each and not _LAB_COOKIE.fullmatch(each.partition("=")[0])]
    if cookies:
        kept["Cookie"] = "; ".join(cookies)
    if "Referer" in headers:  # a page's address may have the token in it
        kept["Referer"] = urlunsplit(urlsplit(headers["Referer"])._replace(query="", fragment=""))
    return kept


def listeners(port: int, root: Path = Path("/")) -> Iterator[int]:
    """The user ids of those who listen at a port."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (root / "proc" / "net" / name).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:  # IPv6 is turned off
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield int(fields[7])


def add_ports(app: web.Application) -> None:
    """Called after the server listens: what is imported here takes its time."""
    base = app.settings["base_url"]
    app.add_handlers(".*$", [(url_path_join(base, r"/proxy/(\d{1,5})(/.*|)"), PortHandler, {"absolute_url": False})])
