"""proxy/PORT/: web servers that notebooks run on ports of this machine, for everyone who has the lab's token.

jupyter-server-proxy does the work. But it forwards every header to whatever listens on the port. On a shared machine
that may be another user's server, which would receive the cookie that opens this lab. This handler forwards none of the
lab's credentials and refuses ports of other users. Note that the served pages still have the rights of the lab's own
pages.

Applications on ports rarely protect themselves against other websites, because they expect to be reachable from this
machine only. A browser would send our cookie with requests of any website, so those are refused here.
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

from ownlab.errors import LabError
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.state import all_plans, read_state
from ownlab.lab.server.page_errors import InPageLanguage, PageError
from ownlab.text import Text, listing, text

__all__ = ["add_ports", "listeners"]

_LISTENS = "0A"  # include/net/tcp_states.h
_LAB_COOKIE = re.compile(r"_xsrf|username-[\w-]+")  # Jupyter's login cookie and its XSRF cookie


class PortHandler(InPageLanguage, LocalProxyHandler):  # type: ignore[misc]
    """A request or websocket to a port."""

    async def prepare(self) -> None:  # type: ignore[override]
        """Called by tornado first. The base class requires the token."""
        await super().prepare()
        if self._finished:  # redirected to the login page
            return
        if not self.token_authenticated and not (self.check_origin() and self._is_own_site()):
            raise PageError(403, text("Requests from other websites are not forwarded to ports of this machine."))
        port = int(self.path_args[0])
        owners = set(listeners(port))
        if not owners:
            raise PageError(502, _nothing_listens(port))
        if not owners <= {os.geteuid(), 0}:
            raise PageError(403, text("Port {port} of this machine belongs to another user.", port=port))
        parameters = self.request.query.split("&")
        self.request.query = "&".join(each for each in parameters if each != f"token={self.identity_provider.token}")

    def _is_own_site(self) -> bool:
        """Whether a page of this lab, a script or the user made this request, as far as the browser says.

        Another website may only lead the user here (a link), not load or send anything on its own.
        """
        headers = self.request.headers
        if headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none"):
            return True
        if self.allow_origin or self.allow_origin_pat:  # configured; `check_origin` has decided
            return True
        is_link = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
        return is_link and self.request.method in ("GET", "HEAD")

    def proxy_request_headers(self) -> Any:
        """Return the request's headers without the lab's credentials."""
        return without_credentials(super().proxy_request_headers(), self.identity_provider.token)


def _nothing_listens(port: int) -> Text:
    """Why the port leads nowhere: perhaps what listens is in a notebook on a node of a cluster."""
    nodes = sorted({name for plan in all_plans() if plan.node is not None and (name := _node_of(plan))})
    if not nodes:
        return text("Nothing listens on port {port} of this machine.", port=port)
    return text(
        "Nothing listens on port {port} of this machine. Ports of nodes are not forwarded: if it is one of {nodes}, run on your "
        "own computer: ssh -L {port}:127.0.0.1:{port} -J LOGIN NODE",
        port=port,
        nodes=listing(nodes),
    )


def _node_of(plan: Plan) -> str:
    try:
        state = read_state(plan.home) or {}
    except LabError:  # it is damaged
        return ""
    return str((state.get("node") or {}).get("name") or "")


def without_credentials(headers: HTTPHeaders, token: str) -> HTTPHeaders:
    """Remove the lab's credentials, but keep cookies and credentials of the served application."""
    kept = headers.copy()
    for name in ("Cookie", "Referer"):
        kept.pop(name, None)
    if token and token in kept.get("Authorization", ""):
        del kept["Authorization"]
    cookies = [each.strip() for each in headers.get("Cookie", "").split(";")]
    cookies = [each for each in cookies if each and not _LAB_COOKIE.fullmatch(each.partition("=")[0])]
    if cookies:
        kept["Cookie"] = "; ".join(cookies)
    if "Referer" in headers:  # the URL may contain the token
        kept["Referer"] = urlunsplit(urlsplit(headers["Referer"])._replace(query="", fragment=""))
    return kept


def listeners(port: int, root: Path = Path("/")) -> Iterator[int]:
    """Return the ids of the users who listen on a port."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (root / "proc" / "net" / name).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:  # IPv6 is disabled
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield int(fields[7])


def add_ports(app: web.Application) -> None:
    """Called after the server listens, because the imports of this module are slow."""
    base = app.settings["base_url"]
    app.add_handlers(".*$", [(url_path_join(base, r"/proxy/(\d{1,5})(/.*|)"), PortHandler, {"absolute_url": False})])
