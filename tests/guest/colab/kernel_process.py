"""A kernel in Colab mode, started as a runtime's is, and a client of it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

LAUNCH = Path(__file__).parents[3] / "src" / "ownlab_guest" / "kernel" / "launch.py"
SECONDS = 180
# By hand, the same tests with the kernel of another environment: OWNLAB_TEST_PYTHON=/path/to/python.
PYTHON = os.environ.get("OWNLAB_TEST_PYTHON", sys.executable)


@contextmanager
def started(
    folder: Path, changes: Mapping[str, str], python: str
) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """One that works in a folder, with changes to the environment."""
    # Not TCP: a port that is free when a test asks for it may be taken when its kernel binds it.
    sockets = tempfile.mkdtemp(prefix="ownlab-")  # short, as their names have to be
    manager = KernelManager(transport="ipc", ip=f"{sockets}/k")
    argv = [python, str(LAUNCH), "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=argv, display_name="Colab", language="python")
    manager.connection_file = str(folder / "kernel.json")
    manager.start_kernel(env={**os.environ, "OWNLAB_COLAB": "1", **changes}, cwd=str(folder))
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=SECONDS)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
        shutil.rmtree(sockets, ignore_errors=True)
