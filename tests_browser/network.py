"""The network between a browser and its lab: a TCP proxy that can be interrupted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

__all__ = ["Network"]


class Network:
    """Forward `url` to a port of this machine while the network is not cut: `with Network(port) as network`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network")
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The address of the proxy, with a slash at the end."""
        return f"http://127.0.0.1:{self._port}/"

    def __enter__(self) -> Network:
        self._thread.start()
        self.restore()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Close all connections, and accept no new ones."""
        self._run(self._cut())

    def restore(self) -> None:
        self._run(self._restore())

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _restore(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._connect(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = {writer}
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            writers.add(far_writer)
            self._writers |= writers
            await asyncio.gather(_forward(reader, far_writer), _forward(far_reader, writer))
        except OSError:
            pass  # the lab is down, or the page was closed
        finally:
            self._writers -= writers
            for writer in writers:
                writer.close()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
