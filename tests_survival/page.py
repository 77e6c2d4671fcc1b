"""A page without a browser: it follows a kernel, resends, attaches and saves as ours does, and draws nothing."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
import struct
import time
import uuid
from datetime import datetime, timezone
from typing import Any

import httpx
from tests_survival.kernel import Future, Kernel
from tests_survival.outputs import Area, Message
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

__all__ = ["Page", "Site", "answer_to", "connect", "hang_up"]

PROTOCOL = "v1.kernel.websocket.jupyter.org"
CONTROL = "jupyter.widget.control"
PATIENCE = 180.0
AWAY = (OSError, HTTPClientError, httpx.TransportError, StreamClosedError, WebSocketClosedError)


def answer_to(prompt: str) -> str:
    """Return what a user types into a box."""
    return f"an answer to {prompt}"


def pack(channel: str, message: Message) -> bytes:
    """A message as it goes over the socket, without buffers."""
    parts = [channel.encode()]
    parts += [json.dumps(message[name]).encode() for name in ("header", "parent_header", "metadata", "content")]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)


def unpack(data: bytes) -> Message:
    """A message from the socket."""
    (count,) = struct.unpack_from("<Q", data)
    offsets = struct.unpack_from(f"<{count}Q", data, 8)
    channel, *parts = (data[begin:end] for begin, end in itertools.pairwise(offsets))
    header, parent, metadata, content = map(json.loads, parts[:4])
    return {
        "channel": channel.decode(),
        "header": header,
        "parent_header": parent,
        "metadata": metadata,
        "content": content,
        "buffers": parts[4:],
    }


class Site:
    """A server that is up most of the time."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.headers = url, {"Authorization": f"token {token}"}
        # Without a limit: requests that are cancelled while a server dies keep their place in the pool.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self.client = httpx.AsyncClient(headers=self.headers, timeout=PATIENCE, trust_env=False, limits=limits)
        self.ending = False  # while it is being stopped, a server may answer anything

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Retry while there is no answer, as a page or a person does."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            try:
                response = await self.client.request(method, self.url + path, **more)
                if not (self.ending and response.is_error):
                    return response.raise_for_status()
            except httpx.TransportError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(0.1)


class Page:
    """An open notebook."""

    def __init__(self, site: Site, path: str, following: bool = True) -> None:
        """Not `following`: Jupyter's own behaviour, for a page that stays open."""
        self.site, self.path, self.following = site, path, following
        self.session = uuid.uuid4().hex
        self.kernel_id = ""
        self.notebook: dict[str, Any] = {}
        self.areas: dict[str, Area] = {}
        self.position = 0  # the last message that was handled
        self.pending: dict[str, bytes] = {}  # sent, and not acknowledged yet
        self.taken: set[str] = set()
        self.modified = ""  # of the file, as far as this page knows
        self.faults: list[str] = []
        self.answers = True  # whether a person sits in front of it
        self.online = asyncio.Event()
        self.online.set()
        self.kernel = Kernel(self._send_shell, self._miss_widgets)
        self._asking: asyncio.TimerHandle | None = None
        self._socket: WebSocketClientConnection | None = None
        self._held: list[tuple[int, Message]] | None = None  # messages that wait for an attach
        self._known: set[str] = set()  # executions that this page started or asked about
        self._replayed: dict[str, int] = {}  # execution -> the last message that was replayed
        self._control = ""
        self._restored = asyncio.Event()
        self.widgets_by = "nobody"
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()

    # --- opening and leaving -------------------------------------------------------------------------------------------

    async def open(self) -> Page:
        """Open or reload the notebook's address."""
        response = await self.load()
        kernel = self.notebook["metadata"]["kernelspec"]["name"]
        body = {"path": self.path, "name": self.path, "type": "notebook", "kernel": {"name": kernel}}
        made = await self.site.ask("POST", "/api/sessions", json=body)
        self.kernel_id = made.json()["kernel"]["id"]
        if self.following:
            runtime, _, number = response.headers.get("X-Ownlab-Position", "").partition("/")
            self.position = int(number) if runtime == self.kernel_id else 0
            await self._attach()
        self._tasks.append(asyncio.create_task(self._listen()))
        self._ask_for_widgets()
        return self

    async def load(self) -> httpx.Response:
        """Read the notebook."""
        response = await self.site.ask("GET", f"/api/contents/{self.path}?type=notebook&content=1")
        model = response.json()
        self.notebook, self.modified = model["content"], model["last_modified"]
        self.areas = {cell["id"]: Area(cell) for cell in self.notebook["cells"] if cell["cell_type"] == "code"}
        return response

    async def close(self) -> None:
        """Close the tab without saving."""
        for task in self._tasks:
            while not task.done():  # it takes a cancellation that comes together with a cut for the cut
                task.cancel()
                await asyncio.wait([task], timeout=0.1)
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        self.cut()

    def cut(self) -> None:
        """Lose the network without notice; the page continues by itself."""
        socket, self._socket = self._socket, None
        if socket is not None:
            hang_up(socket)

    # --- attaching -----------------------------------------------------------------------------------------------------

    async def executions(self, after: int) -> dict[str, Any]:
        """Return what the server knows about the kernel's cells."""
        attachment = await self.site.ask("GET", f"/ownlab/api/runtimes/{self.kernel_id}/attach?after={after}")
        answer: dict[str, Any] = attachment.json()
        return answer

    async def _attach(self, why: str = "opened") -> None:
        """Replay cells that run or have changed from their beginning. Other messages wait meanwhile."""
        self._held = [] if self._held is None else self._held
        attachment = await self.executions(self.position)
        for execution in attachment["executions"]:
            area = self.areas.get(execution["cell"] or "")
            if area is None or (execution["msg_id"] in self.kernel.futures and why == "strange"):
                continue
            self._known.add(execution["msg_id"])
            self._replayed[execution["msg_id"]] = attachment["position"]
            self.kernel.follow(execution["msg_id"], area, bool(execution["request"]["metadata"].get("recordTiming")))
            for message in execution["messages"]:
                self.kernel.handle({"buffers": [], **message})
        self.kernel.taking = dict(attachment["capturing"])  # now: what was retold, no Output has taken
        if why != "strange":
            self.position = max(self.position, attachment["position"])
        held, self._held = self._held, None
        for number, message in held:
            self._handle(number, message)
        self._pick_up_questions()
        self._note()

    def _ask_for_widgets(self) -> None:
        """ipywidgets' manager does this whenever it gets a kernel."""
        self._control = uuid.uuid4().hex
        opening = {"comm_id": self._control, "target_name": CONTROL, "data": {}}
        self._send("shell", "comm_open", opening, {"version": "1.0.0"}, {})
        self._send_shell("comm_msg", {"comm_id": self._control, "data": {"method": "request_states"}})

    def _miss_widgets(self) -> None:
        """Deliver what an Output should have captured, once it exists."""
        if self._asking is not None:
            self._asking.cancel()
        self._asking = asyncio.get_running_loop().call_later(0.3, self._ask_for_widgets)

    async def widgets(self) -> dict[str, dict[str, Any]]:
        """The states of all widgets, once the server has sent them."""
        await asyncio.wait_for(self._restored.wait(), PATIENCE)
        return {comm: widget.state for comm, widget in self.kernel.widgets.items()}

    # --- the socket ----------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(*AWAY):
                await self._connect()
                while (data := await self._read()) is not None:
                    await self._on_frame(data)
            self.cut()
            await asyncio.sleep(0.1)
            await self.online.wait()

    def _received(self) -> int:
        """The last message received; messages that wait for an attach count."""
        return max([self.position, *(number for number, _ in self._held or ())])

    async def _connect(self) -> None:
        query = f"session_id={self.session}" + (f"&ownlab_after={self._received()}" if self.following else "")
        address = f"{self.site.url.replace('http', 'ws', 1)}/api/kernels/{self.kernel_id}/channels?{query}"
        request = HTTPRequest(address, headers=self.site.headers, connect_timeout=5, request_timeout=20)
        socket = self._socket = await connect(request, [PROTOCOL])
        for data in list(self.pending.values()):
            await socket.write_message(data, binary=True)
        if not self.following:
            self.pending.clear()  # no acknowledgement will come

    async def _read(self) -> str | bytes | None:
        return None if self._socket is None else await self._socket.read_message()

    async def _on_frame(self, data: str | bytes) -> None:
        if isinstance(data, str):
            await self._on_word(json.loads(data))
        elif self.following:
            self._handle(int.from_bytes(data[:8], "little"), unpack(data[8:]))
        else:
            self._handle(0, unpack(data))
        self._note()

    async def _on_word(self, word: dict[str, Any]) -> None:
        kind = word["type"]
        if kind == "taken":
            self.pending.pop(word["msg_id"], None)
            self.taken.add(word["msg_id"])
        elif kind == "answered":
            future = self.kernel.futures.get(word["parent"])
            if future is not None:
                future.area.answer(word["value"])
        elif kind == "behind":
            self._begin_attach("behind")
        elif kind not in ("hello", "died"):
            self.faults.append(f"the server answered {word}")

    def _begin_attach(self, why: str) -> None:
        self._held = []
        self._tasks.append(asyncio.create_task(self._attach(why)))

    def _handle(self, number: int, message: Message) -> None:
        parent = message["parent_header"].get("msg_id", "")
        if self._held is None and self._is_strange(message):
            self._known.add(parent)
            self._begin_attach("strange")
        if self._held is not None:
            self._held.append((number, message))
            return
        if number and number <= self.position:
            self.faults.append(f"message {number} came again, after {self.position}")
            return
        self.position = max(self.position, number)
        if number and number <= self._replayed.get(parent, 0):
            # Its cell has it; a display update is for other cells too.
            message = {**message, "parent_header": {**message["parent_header"], "msg_id": ""}}
        if message["channel"] == "iopub" and message["content"].get("comm_id") == self._control:
            self._on_control(message)
        else:
            self.kernel.handle(message)
        if message["header"]["msg_type"] == "input_request":
            self._tasks.append(asyncio.create_task(self._answer(parent, message)))

    def _is_strange(self, message: Message) -> bool:
        """Something runs that this page did not start and has not asked about."""
        parent = message["parent_header"]
        is_over = message["content"].get("execution_state") == "idle"
        is_execution = parent.get("msg_type") == "execute_request" and parent["msg_id"] not in self._known
        return self.following and message["channel"] == "iopub" and not is_over and is_execution

    def _on_control(self, message: Message) -> None:
        data = message["content"].get("data") or {}
        if data.get("method") == "update_states":
            self.kernel.restore(data["states"])
            self.widgets_by = f"{message['header']['username']}, {len(data['states'])} of them"
            self._send_shell("comm_close", {"comm_id": self._control, "data": {}})
            self._restored.set()
        elif message["header"]["msg_type"] == "comm_close":  # no ipywidgets in the kernel
            self.widgets_by = "nobody: the kernel closed the comm"
            self._restored.set()

    # --- what a person does --------------------------------------------------------------------------------------------

    def run(self, cell_id: str, timed: bool) -> Future:
        """Shift-Enter."""
        area = self.areas[cell_id]
        metadata = {**area.cell["metadata"], "trusted": True, "deletedCells": [], "recordTiming": timed}
        metadata.pop("execution", None)
        content = {"code": area.cell["source"], "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": True, "stop_on_error": True}
        msg_id = uuid.uuid4().hex
        future = self.kernel.follow(msg_id, area, timed)
        self._known.add(msg_id)
        self._send("shell", "execute_request", content, {**metadata, "cellId": cell_id}, {}, msg_id)
        return future

    async def _answer(self, parent: str, message: Message) -> None:
        """Type an answer if a person is there. A request that was answered elsewhere meanwhile is gone."""
        await asyncio.sleep(0.05)
        if not self.following:
            await self._printed_before(parent, message["content"]["prompt"])
        future = self.kernel.futures.get(parent)
        if not self.answers or future is None or future.area.question is not message:
            return
        value = answer_to(message["content"]["prompt"])
        future.area.answer(None if message["content"]["password"] else value)
        self._send("stdin", "input_reply", {"value": value, "status": "ok"}, {}, message["header"])

    async def _printed_before(self, parent: str, prompt: str) -> None:
        """Plain Jupyter sends input requests and outputs on different sockets, and on a busy machine in the wrong order."""
        named = prompt.rstrip("?: ")
        end = time.monotonic() + PATIENCE / 2
        while (future := self.kernel.futures.get(parent)) is not None and time.monotonic() < end:
            if any(named in str(output.get("text")) for output in future.area.outputs.as_json()):
                return
            await asyncio.sleep(0.05)

    def _pick_up_questions(self) -> None:
        """Input requests that were open when they were replayed."""
        for parent, future in self.kernel.futures.items():
            if future.area.question is not None:
                self._tasks.append(asyncio.create_task(self._answer(parent, future.area.question)))

    async def save(self) -> bool:
        """Save as the page does. Return whether somebody else had written the file meanwhile."""
        seen = {"X-Ownlab-Seen": f"{self.kernel_id}/{self.position}"} if self.following else {}
        body = {"type": "notebook", "format": "json", "content": self.as_notebook()}
        contents = await self.site.ask("GET", f"/api/contents/{self.path}?content=0")
        conflict = _later(contents.json()["last_modified"], self.modified)
        wrote = await self.site.ask("PUT", f"/api/contents/{self.path}", json=body, headers=seen)
        self.modified = wrote.json()["last_modified"]
        return conflict

    def as_notebook(self) -> dict[str, Any]:
        """Return what this page shows, as a notebook."""
        for area in self.areas.values():
            area.cell["outputs"] = area.outputs.as_json()
        return copy.deepcopy(self.notebook)

    async def until(self, ready: Any, what: str, seconds: float = PATIENCE) -> None:
        """Wait until the page's state fulfils a condition."""

        async def wait() -> None:
            while not ready():
                self._changed.clear()
                await self._changed.wait()

        try:
            await asyncio.wait_for(wait(), seconds)
        except asyncio.TimeoutError:
            raise TimeoutError(f"not within {seconds:g} s: {what}") from None

    def _note(self) -> None:
        self._changed.set()

    def _send_shell(self, kind: str, content: dict[str, Any]) -> str:
        return self._send("shell", kind, content, {}, {})

    def _send(
        self, channel: str, kind: str, content: dict[str, Any], metadata: dict[str, Any], parent: dict[str, Any],
        msg_id: str = "",
    ) -> str:  # fmt: skip
        header = {"msg_id": msg_id or uuid.uuid4().hex, "msg_type": kind, "session": self.session, "username": "a person",
                  "date": datetime.fromtimestamp(time.time(), timezone.utc).isoformat(), "version": "5.3"}  # fmt: skip
        data = pack(channel, {"header": header, "parent_header": parent, "metadata": metadata, "content": content})
        if self.following or self._socket is None:
            self.pending[header["msg_id"]] = data
        if self._socket is not None:
            with contextlib.suppress(*AWAY):
                self._socket.write_message(data, binary=True)
        return str(header["msg_id"])


async def connect(request: HTTPRequest, protocols: list[str] | None = None) -> WebSocketClientConnection:
    """Open a websocket. If the caller is cancelled meanwhile, it is closed: tornado would open it anyway."""
    opening = asyncio.ensure_future(websocket_connect(request, subprotocols=protocols, max_message_size=1 << 30))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(hang_up_when_open)
        raise


def hang_up(socket: WebSocketClientConnection) -> None:
    """Close without notice to the other side."""
    if socket.protocol is not None:
        socket.protocol._abort()
    socket.close()


def hang_up_when_open(opening: asyncio.Future[WebSocketClientConnection]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        hang_up(opening.result())


def _later(first: str, second: str) -> bool:
    """JupyterLab waits half a second."""
    moments = [datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (first, second)]
    return (moments[0] - moments[1]).total_seconds() > 0.5
