"""The network between a browser and its lab: a TCP proxy that can be cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

__all__ = ["Cable"]


class Cable:
    """`with Cable(port) as cable`: what goes to `cable.url` goes to that port of this machine, unless it is cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cable")
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._joined: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """With a slash at its end."""
        return f"http://127.0.0.1:{self._port}/"

    def __enter__(self) -> Cable:
        self._thread.start()
        self.mend()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Whatever goes on breaks off, and nothing gets through."""
        self._do(self._cut())

    def mend(self) -> None:
        self._do(self._mend())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for end in self._ends:
            end.transport.abort()
        for task in self._joined:
            task.cancel()
        await asyncio.gather(*self._joined, return_exceptions=True)

    async def _mend(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._join(reader, writer))
        self._joined.add(task)
        task.add_done_callback(self._joined.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            ends.add(far_writer)
            self._ends |= ends
            await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))
        except OSError:
            pass  # a lab that is down, or a page that left
        finally:
            self._ends -= ends
            for end in ends:
                end.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
