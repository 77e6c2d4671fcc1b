"""A lab in this process: the server's own code for notebooks and edits, and a kernel that only prints tokens."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
from jupyter_core.utils import ensure_async
from tests_survival.edits.virtual_time import Process, current_process
from tests_survival.page import Site, pack, unpack
from tornado.web import HTTPError

from ownlab.errors import OwnlabError
from ownlab.json_encoding import encode_json
from ownlab.lab.journal.death import Death
from ownlab.lab.journal.records import Record, event
from ownlab.lab.journal.state import JournalState
from ownlab.lab.notebooks.edits.records import Patch
from ownlab.lab.notebooks.history.recorder import version_store
from ownlab.lab.notebooks.identity import make_identity
from ownlab.lab.server.attachment import attachment
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.server.edit_handlers import EditService
from ownlab.lab.server.loaded_notebook import RequestPositions, request_positions

__all__ = ["Runtime", "SimulatedLab", "SimulatedSite", "Socket"]

LINE = re.compile(r"print\('(t\d+)'.*?sleep\(([\d.]+)\)")
LATENCIES = (0.004, 0.004, 0.05, 0.3)  # seconds, for one run
SLOW_LATENCIES = (0.3, 1.0, 2.5)  # pages give up waiting, and run cells whose text could not be saved
AUTOSAVE_SECONDS = 1.0
LOG = logging.getLogger("simulated lab")


class Runtime:
    """A kernel with its supervisor and journal: they outlive servers. As a journal, it is what servers read."""

    def __init__(self, notebook: str, chance: random.Random, now: Callable[[], float]) -> None:
        self.runtime, self.notebook = uuid.uuid4().hex, notebook
        self.alive, self.saved_position = True, 0
        self._chance, self._now = chance, now
        self._state = JournalState()
        self.messages: list[tuple[int, dict[str, Any]]] = []  # from the kernel
        self.changed_at = now()
        self._requests: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._seen: set[str] = set()
        self._launch = 0
        self.sockets: set[Socket] = set()
        self._kernel = asyncio.create_task(self._run())

    # What the server reads.

    @contextmanager
    def current(self) -> Iterator[JournalState]:
        yield self._state

    def mark_saved(self, position: int) -> None:
        self.saved_position = max(self.saved_position, position)

    # What happens.

    def take(self, message: dict[str, Any]) -> None:
        """A message of a page."""
        if not self.alive or message["header"]["msg_id"] in self._seen:
            return
        self._seen.add(message["header"]["msg_id"])
        self._record("shell", True, message)
        if message["header"]["msg_type"] == "execute_request":
            self._requests.put_nowait(message)

    def kill_kernel(self) -> None:
        """Its supervisor starts another one."""
        self._kernel.cancel()
        self._requests = asyncio.Queue()
        self._event("kernel-ended", death=Death("kernel", signal=9).dump())
        self._kernel = asyncio.create_task(self._run())

    def end(self, killed: bool = False) -> None:
        """Everything is gone; a supervisor that was killed records nothing."""
        if not self.alive:
            return
        self._kernel.cancel()
        self.alive = False
        if killed:
            self._state.cut(Death("runtime"))
        else:
            self._event("ended", why="")
        for socket in list(self.sockets):
            socket.close()

    async def _run(self) -> None:
        self._launch += 1
        await asyncio.sleep(0.3 * self._chance.random())
        self._event("kernel", launch=self._launch)
        count = 0
        while True:
            request = await self._requests.get()
            count += 1
            self._publish(request, "status", {"execution_state": "busy"})
            code = request["content"]["code"]
            self._publish(request, "execute_input", {"code": code, "execution_count": count})
            for token, seconds in LINE.findall(code):
                self._publish(request, "stream", {"name": "stdout", "text": f"{token}\n"})
                await asyncio.sleep(float(seconds))
            self._publish(request, "execute_reply", {"status": "ok", "execution_count": count}, "shell")
            self._publish(request, "status", {"execution_state": "idle"})

    def _publish(self, request: dict[str, Any], kind: str, content: dict[str, Any], channel: str = "iopub") -> None:
        header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "session": "kernel", "username": "", "date": "2026"}
        message = {"header": header, "parent_header": request["header"], "metadata": {}, "content": content}
        number = self._record(channel, False, message)
        self.messages.append((number, {"channel": channel, **message}))
        for socket in self.sockets:
            socket.announce()

    def _record(self, channel: str, to_kernel: bool, message: dict[str, Any]) -> int:
        names = ("header", "parent_header", "metadata", "content")
        parts = tuple(json.dumps(message[name]).encode() for name in names)
        self._state.add(Record(self._state.position + 1, channel, to_kernel, self._now(), parts))
        self.changed_at = self._now()
        return self._state.position

    def _event(self, what: str, **more: object) -> None:
        self._state.add(event(self._state.position + 1, self._now(), what, **more))
        self.changed_at = self._now()


class Socket:
    """A page's websocket to a kernel, as far as `Page` uses it."""

    protocol = None

    def __init__(self, lab: SimulatedLab, runtime: Runtime | None, after: int = 0) -> None:
        self._lab, self._runtime, self._after = lab, runtime, after
        self._frames: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        self._open = True
        self._sent_at = 0.0
        lab.sockets.add(self)
        if runtime is not None:
            runtime.sockets.add(self)
            self.announce()

    def announce(self) -> None:
        """The runtime has messages."""
        assert self._runtime is not None
        for number, message in self._runtime.messages:
            if number > self._after:
                self._after = number
                self.deliver(number.to_bytes(8, "little") + pack(message["channel"], message))

    def deliver(self, frame: str | bytes) -> None:
        loop = asyncio.get_running_loop()
        self._sent_at = max(self._sent_at + 1e-6, loop.time() + self._lab.latency())  # in order
        loop.call_at(self._sent_at, self._frames.put_nowait, frame)

    def write_message(self, data: bytes, binary: bool = True) -> asyncio.Future[None]:
        if self._open and self._runtime is not None:
            asyncio.get_running_loop().call_later(self._lab.latency(), self._arrive, unpack(data))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def _arrive(self, message: dict[str, Any]) -> None:
        if self._open and self._runtime is not None and self._runtime.alive:
            self._runtime.take(message)
            self.deliver(json.dumps({"type": "taken", "msg_id": message["header"]["msg_id"]}))

    async def read_message(self) -> str | bytes | None:
        return await self._frames.get()

    def close(self) -> None:
        self._open = False
        self._lab.sockets.discard(self)
        if self._runtime is not None:
            self._runtime.sockets.discard(self)
        self._frames.put_nowait(None)


class _Journals:
    """`Journals`, of runtimes of this process."""

    def __init__(self, lab: SimulatedLab) -> None:
        self._lab = lab

    async def run_in_thread(self, do: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(do)

    def of_notebook(self, path: str) -> list[Runtime]:
        return [each for each in self._lab.runtimes.values() if each.notebook == path]


class _Contents(OwnlabContents):
    def _live_position(self, merged: Any) -> tuple[str, int] | None:
        running = [(runtime.runtime, number) for runtime, number in merged.positions if runtime.alive]
        return running[-1] if running else None


class _Server(Process):
    """What a server process does with notebooks."""

    def __init__(self, lab: SimulatedLab) -> None:
        self.lab = lab
        self.tasks: set[asyncio.Task[Any]] = set()
        self.contents = _Contents(root_dir=str(lab.folder))
        self.contents.notary.db_file = ":memory:"
        self.contents.journals = _Journals(lab)  # type: ignore[assignment]
        self.edits = EditService(self.contents, None, LOG)  # type: ignore[arg-type]

    def start(self) -> None:
        current_process.set(self)
        self.edits.start()
        self.edits.saver.listeners.append(self._announce)
        self.run(self._autosave())

    def run(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """Run something in this process."""
        current_process.set(self)
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def kill(self) -> None:
        self.alive = False
        for task in [*self.tasks, *self.edits.saver._tasks]:
            task.cancel()

    def _announce(self, os_path: str, version: int) -> None:
        for socket in self.lab.sockets:
            if socket._runtime is None:
                socket.deliver(json.dumps({"notebook": Path(os_path).name, "version": version}))

    async def _autosave(self) -> None:
        await asyncio.sleep(3 * self.lab.chance.random())
        while True:
            await asyncio.sleep(AUTOSAVE_SECONDS)
            for runtime in list(self.lab.runtimes.values()):
                with runtime.current() as state:
                    quiet = self.lab.now() - runtime.changed_at >= AUTOSAVE_SECONDS
                    due = state.changed_at > runtime.saved_position and quiet and not state.running
                if due:
                    await self.contents.update_file(runtime.notebook)

    # Requests.

    async def answer(self, method: str, address: str, body: Any) -> tuple[bytes, dict[str, str]]:
        parts = urlsplit(address)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path.startswith("/api/contents/"):
            return await self._contents_model(parts.path.removeprefix("/api/contents/"))
        if parts.path.startswith("/api/sessions"):
            return self._sessions(method, parts.path, body), {}
        if parts.path.startswith("/ownlab/api/runtimes/"):
            with self.lab.runtimes[parts.path.split("/")[4]].current() as state:
                return attachment(state, int(query["after"])), {}
        route = parts.path.removeprefix("/ownlab/api/notebooks/")
        if route == "history":
            return encode_json(await asyncio.to_thread(self._history, query)), {}
        contents, _, os_path = self.edits.resolve(query.get("notebook") or body["notebook"])
        if route == "write":
            if not await contents.update_file(os_path):
                raise HTTPError(409)
            return b"{}", {}
        if method == "POST":
            return encode_json(await self.edits.apply(msgspec.convert(body, Patch))), {}
        return encode_json(await contents.changes_since(os_path, int(query["version"]))), {}

    async def _contents_model(self, path: str) -> tuple[bytes, dict[str, str]]:
        positions = RequestPositions()
        request_positions.set(positions)
        model = await ensure_async(self.contents.get(path, content=True, type="notebook"))
        headers = {"X-Ownlab-Version": str(positions.version)}
        if positions.position is not None:
            headers["X-Ownlab-Position"] = "{}/{}".format(*positions.position)
        return json.dumps(model, default=str).encode(), headers

    def _sessions(self, method: str, path: str, body: Any) -> bytes:
        running = [each for each in self.lab.runtimes.values() if each.alive]
        if method == "DELETE":
            for each in running:
                if each.runtime == path.rpartition("/")[2]:
                    each.end()
            return b"{}"
        if method == "POST":
            notebook = str(self.lab.folder / body["path"])
            mine = [each for each in running if each.notebook == notebook]
            return _session(mine[-1] if mine else self.lab.start_runtime(notebook))
        return b"[" + b",".join(map(_session, running)) + b"]"

    def _history(self, query: dict[str, str]) -> Any:
        store = version_store(make_identity(str(self.lab.folder / query["notebook"])).id)
        if "version" in query:
            return store.load(store.find(query["version"]))
        return {"versions": store.versions()}


class SimulatedLab:
    """One lab for one run."""

    def __init__(self, folder: Path, chance: random.Random, now: Callable[[], float], *, slow: bool = False) -> None:
        self.folder, self.chance, self.now = folder, chance, now
        self.runtimes: dict[str, Runtime] = {}
        self.sockets: set[Socket] = set()
        self.server: _Server | None = None
        self._latency = chance.choice(SLOW_LATENCIES if slow else LATENCIES)

    def latency(self) -> float:
        return self._latency * self.chance.random() * self.chance.choice((1, 1, 1, 20))

    def start(self) -> None:
        self.server = _Server(self)
        self.server.start()

    async def end(self, gently: bool) -> None:
        """Signals."""
        server, self.server = self.server, None
        assert server is not None
        if gently:
            current_process.set(server)
            await server.edits.close()
        server.kill()
        for socket in list(self.sockets):
            socket.close()

    def start_runtime(self, notebook: str) -> Runtime:
        made = Runtime(notebook, self.chance, self.now)
        self.runtimes[made.runtime] = made
        return made


class SimulatedSite(Site):
    """Requests to the lab."""

    def __init__(self, lab: SimulatedLab) -> None:
        self.url, self.headers, self.ending = "http://lab", {}, False
        self._lab = lab
        self.client = self  # type: ignore[assignment]

    async def request(self, method: str, address: str, json: Any = None) -> httpx.Response:
        """What httpx.AsyncClient.request does."""
        await asyncio.sleep(self._lab.latency())
        server = self._lab.server
        if server is None:
            raise httpx.ConnectError("there is no server")
        request = httpx.Request(method, address)
        task = server.run(server.answer(method, address.removeprefix(self.url), json))
        try:
            content, headers = await asyncio.shield(task)
            answer = httpx.Response(200, content=content, headers=headers, request=request)
        except asyncio.CancelledError:
            if server.alive:
                raise
            raise httpx.ReadError("the server is gone") from None
        except OwnlabError as error:
            answer = httpx.Response(409, text=str(error), request=request)
        except HTTPError as error:
            answer = httpx.Response(error.status_code, text=str(error), request=request)
        await asyncio.sleep(self._lab.latency())
        return answer


def _session(runtime: Runtime) -> bytes:
    path = Path(runtime.notebook).name
    return json.dumps({"id": runtime.runtime, "path": path, "kernel": {"id": runtime.runtime}}).encode()
