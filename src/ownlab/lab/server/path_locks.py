"""Locks on files, against other requests to the same server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

__all__ = ["PathLocks", "run_to_end"]

T = TypeVar("T")
_RUNNING: set[asyncio.Future[Any]] = set()  # the event loop keeps only weak references


class PathLocks:
    """One lock for each file. A lock exists as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def locked(self, *os_paths: str) -> AsyncIterator[None]:
        """Lock files against other requests that open, write, rename or delete them."""
        async with AsyncExitStack() as stack:
            # Always in the same order, to avoid a deadlock.
            for name in sorted({os.path.realpath(path) for path in os_paths}):
                lock = self._locks.get(name)
                if lock is None:
                    lock = self._locks[name] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield

    def inside(self, os_path: str) -> Iterable[str]:
        """Return a path and, if it is a folder, those of its files that are currently locked."""
        real = os.path.realpath(os_path)
        return [real, *(name for name in list(self._locks) if name.startswith(real + os.sep))]


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run something that holds locks to its end, even if the caller is cancelled, as when the server stops.

    A cancelled coroutine would give back its lock while its thread goes on, and write over what others do meanwhile.
    """
    task = asyncio.ensure_future(work)
    _RUNNING.add(task)
    task.add_done_callback(_RUNNING.discard)
    return await asyncio.shield(task)
