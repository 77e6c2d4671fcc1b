"""Runtimes through jupyter_client's managers: real supervisors, real kernels, fake cards."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.ioloop.manager import AsyncIOLoopKernelManager
from jupyter_client.manager import KernelManager
from jupyter_client.multikernelmanager import AsyncMultiKernelManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from tests.lab.kernel_replies import reply_to
from tornado.web import HTTPError

from ownlab.config.loader import resolve_lab_options
from ownlab.errors import CardsTaken, InterpreterError, LabError
from ownlab.lab.environments.registry import Environment
from ownlab.lab.runtimes.kernelspecs import remove_specs, write_specs
from ownlab.lab.runtimes.runtime_types import runtime_types

SECONDS = 180.0
CHANNELS = ("shell", "stdin", "iopub", "hb", "control")


def execute(client: BlockingKernelClient, code: str) -> str:
    """Run code and return what it prints."""
    printed: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    reply = client.execute_interactive(code, timeout=SECONDS, output_hook=hear, allow_stdin=False)
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(printed).strip()


def await_output(client: BlockingKernelClient, code: str) -> str:
    """Start the code, and return once it has printed something; its message's id."""
    request: str = client.execute(code)
    while client.get_iopub_msg(timeout=SECONDS)["msg_type"] != "stream":
        pass
    return request


@contextmanager
def started(kind: str, **kwargs: Any) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    manager = KernelManager(kernel_name=kind)
    manager.start_kernel(**kwargs)
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=SECONDS)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_kernel_on_a_card(lab: Any) -> None:
    with started(lab.card) as (manager, client):
        seen = execute(client, "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['OWNLAB_RUNTIME'])")
        (lease,) = lab.leases()
        assert seen == f"{lease.device} {manager.kernel_id}"
    assert lab.left() == {}


def test_a_cpu_kernel_sees_no_card_and_runs_where_it_was_started(lab: Any, tmp_path: Path) -> None:
    with started(lab.cpu, cwd=str(tmp_path)) as (manager, client):
        assert execute(client, "import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))") == "''"
        assert execute(client, "print(os.getcwd())") == str(tmp_path)
        (tmp_path / "here.py").touch()
        assert manager.resolve_path("here.py") == str(tmp_path / "here.py")
        assert manager.resolve_path("not_here.py") is None
        assert lab.leases() == []
    assert lab.left() == {}


def test_clients_use_unix_sockets_in_a_private_folder(lab: Any) -> None:
    with started(lab.cpu) as (manager, client):
        connection = manager.get_connection_info()
        assert connection["transport"] == "ipc"
        assert os.stat(os.path.dirname(connection["ip"])).st_mode & 0o077 == 0
        assert os.stat(manager.connection_file).st_mode & 0o077 == 0
        assert execute(client, "print('works')") == "works"
        written = manager.connection_file
    assert not os.path.exists(written)
    assert lab.left() == {}


def test_a_client_that_requires_encryption_gets_tcp(lab: Any) -> None:
    with started(lab.cpu, transport_encryption="required") as (manager, client):
        connection = manager.get_connection_info()
        assert (connection["transport"], connection["ip"]) == ("tcp", "127.0.0.1")
        assert connection["curve_publickey"]
        assert client.hb_channel.is_beating()
        assert execute(client, "print('works')") == "works"
    assert lab.left() == {}


def test_restart_keeps_cards_and_ports(lab: Any) -> None:
    with started(lab.card) as (manager, client):
        before = manager.get_connection_info(), lab.leases()
        pid = execute(client, "import os; print(os.getpid())")
        for now in (False, True):
            manager.restart_kernel(now=now, env={**os.environ, "JPY_SESSION_NAME": "renamed.ipynb"})
            client.wait_for_ready(timeout=SECONDS)
            fresh = execute(client, "import os; print(os.getpid(), os.environ['JPY_SESSION_NAME'])")
            assert fresh.split()[1] == "renamed.ipynb"
            assert fresh.split()[0] != pid
            assert (manager.get_connection_info(), lab.leases()) == before
            pid = fresh.split()[0]
        late = manager.client()
        late.start_channels()
        late.wait_for_ready(timeout=SECONDS)
        late.stop_channels()
    assert lab.left() == {}


def test_interrupt(lab: Any) -> None:
    with started(lab.cpu) as (manager, client):
        request = await_output(client, "import time\nprint('at work', flush=True)\nwhile True: time.sleep(0.01)")
        manager.interrupt_kernel()
        assert reply_to(client, request)["content"]["ename"] == "KeyboardInterrupt"
        assert client.kernel_info(reply=True, timeout=SECONDS)["content"]["status"] == "ok"


def test_a_graceful_end_leaves_nothing(lab: Any) -> None:
    with started(lab.card) as (manager, client):
        execute(client, "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()'])")
        manager.shutdown_kernel()
        assert not manager.has_kernel
        assert lab.left() == {}


def test_a_kernel_that_ignores_everything_is_killed(lab: Any) -> None:
    Path(lab.environ["OWNLAB_CONFIG"]).write_text("[runtimes]\non_end_seconds = 0.5\n")
    code = (
        "import signal, time\n"
        "for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)\n"
        "print('deaf', flush=True)\n"
        "while True: time.sleep(1)"
    )
    with started(lab.card) as (manager, client):
        await_output(client, code)
        manager.shutdown_wait_time = 1.0
        manager.shutdown_kernel()
        assert lab.left() == {}


@pytest.mark.parametrize("busy", [True, False])
def test_functions_given_to_on_end_may_take_longer_than_jupyter_waits(lab: Any, tmp_path: Path, busy: bool) -> None:
    code = """
import time
from ownlab_guest.kernel.on_end import on_end
@on_end
def save():
    time.sleep(1.5)
    open("saved", "w").close()
"""
    with started(lab.cpu, cwd=str(tmp_path)) as (manager, client):
        execute(client, code)
        if busy:
            stubborn = "while True:\n  try:\n    print('at work', flush=True); time.sleep(60)\n  except KeyboardInterrupt: pass"
            await_output(client, stubborn)
        manager.shutdown_wait_time = 1.0
        manager.shutdown_kernel()
        assert (tmp_path / "saved").exists()
        assert lab.left() == {}


def test_the_error_for_cards_in_use_names_the_holders(lab: Any) -> None:
    with started(lab.all), pytest.raises(CardsTaken, match=r"card 0 .*: root|since"):
        KernelManager(kernel_name=lab.card).start_kernel()
    assert lab.left() == {}


def test_a_type_that_is_gone(lab: Any) -> None:
    manager = KernelManager(kernel_name=lab.card)
    assert manager.kernel_spec is not None
    remove_specs(Path(lab.environ["OWNLAB_KERNELS"]))
    with pytest.raises(LabError, match="no runtime type ownlab-1"):
        manager.start_kernel()
    assert lab.left() == {}


async def poll_until(condition: Callable[[], Any]) -> None:
    for _ in range(int(SECONDS / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not in {SECONDS} s")


@pytest.mark.parametrize("victim", ["kernel", "supervisor", "keeper"])
def test_a_killed_process_is_followed_by_a_restart_on_the_same_ports(lab: Any, victim: str) -> None:
    async def scene() -> None:
        manager = AsyncIOLoopKernelManager(kernel_name=lab.card)
        restarts: list[str] = []
        await manager.start_kernel()
        try:
            manager._restarter._initial_startup = False  # as after ten seconds: from then on ports are kept
            manager._restarter.stop()
            manager._restarter.time_to_dead = 0.1
            manager._restarter.start()
            manager.add_restart_callback(lambda: restarts.append("restart"))
            ports = manager.ports
            row = lab.rows()[0]
            os.kill(getattr(row, victim).pid, signal.SIGKILL)
            await poll_until(lambda: restarts)
            # Only a finished restart: until then the manager has no kernel, and a client would call that one dead.
            await poll_until(lambda: manager._restarter._restarting)
            assert [each for each in lab.rows() if each.kernel not in (None, row.kernel)]
            client = manager.client()
            client.start_channels()
            try:
                await client.wait_for_ready(timeout=SECONDS)
            finally:
                client.stop_channels()
            assert manager.ports == ports
            assert len(lab.leases()) == 1
        finally:
            await manager.shutdown_kernel(now=True)

    asyncio.run(scene())
    assert lab.left() == {}


class OurKernels(AsyncMultiKernelManager):
    """As our server's: what it starts may wait for a card, and outlives it."""

    ownlab_lab = "lab1"


STARTER = """
import asyncio, json, sys
from jupyter_client.multikernelmanager import AsyncMultiKernelManager

class OurKernels(AsyncMultiKernelManager):
    ownlab_lab = "lab1"

async def main():
    kernels = OurKernels()
    kernel = await kernels.start_kernel(kernel_name=sys.argv[1])
    print(json.dumps(await kernels.get_kernel(kernel).provisioner.get_provisioner_info()), flush=True)
    sys.stdin.readline()

asyncio.run(main())
"""


def test_another_process_takes_over_a_kernel_whose_starter_was_killed(lab: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, lab.card]
    pipe = subprocess.PIPE
    # In a folder of the test's: Jupyter writes the connection file there, and it is left when the starter is killed.
    first = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=lab.environ, cwd=tmp_path)
    try:
        assert first.stdout is not None
        info = json.loads(first.stdout.readline())
    finally:
        first.kill()
        first.communicate()

    async def scene() -> None:
        kernels = OurKernels()
        manager = kernels.kernel_manager_factory(parent=kernels, kernel_name=lab.card)
        manager.kernel_id = info["kernel_id"]
        manager.provisioner = KernelProvisionerFactory.instance().create_provisioner_instance(
            info["kernel_id"], manager.kernel_spec, parent=manager
        )
        await manager.provisioner.load_provisioner_info({"kernel_id": info["kernel_id"]})
        manager.load_connection_info(manager.provisioner.connection_info)
        assert await manager.is_alive()
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=SECONDS)
        client.stop_channels()
        await manager.interrupt_kernel()
        (before,) = lab.rows()
        assert before.lab == "lab1"
        manager._launch_args, manager._attempted_start = {"env": dict(os.environ)}, True
        try:
            await manager.restart_kernel(now=True)
            (after,) = lab.rows()
            assert after.supervisor == before.supervisor
            assert manager.ports == [info["connection_info"][f"{name}_port"] for name in CHANNELS]
        finally:
            await manager.shutdown_kernel()

    asyncio.run(scene())
    assert lab.left() == {}


def test_in_our_server_a_kernel_waits_for_its_card(lab: Any) -> None:
    async def scene() -> None:
        kernels = OurKernels()
        holder = await kernels.start_kernel(kernel_name=lab.all)
        waiter = await kernels.start_kernel(kernel_name=lab.card)
        manager: Any = kernels.get_kernel(waiter)
        assert [row.state for row in lab.rows() if row.id == waiter] == ["waiting"]
        assert await manager.is_alive()
        await manager.interrupt_kernel()  # there is nothing to interrupt, and no harm in it
        await manager.restart_kernel()  # it keeps its place
        assert [row.state for row in lab.rows() if row.id == waiter] == ["waiting"]
        client = manager.client()
        client.start_channels()
        ready = asyncio.ensure_future(client.wait_for_ready(timeout=SECONDS))
        await kernels.shutdown_kernel(holder, now=True)
        await ready
        client.stop_channels()
        assert [lease.runtime for lease in lab.leases()] == [waiter]
        await kernels.shutdown_kernel(waiter, now=True)

    asyncio.run(scene())
    assert lab.left() == {}


@pytest.mark.parametrize("now", [True, False])
def test_a_waiting_kernel_can_be_cancelled(lab: Any, now: bool) -> None:
    async def scene() -> None:
        kernels = OurKernels()
        holder = await kernels.start_kernel(kernel_name=lab.all)
        waiter = await kernels.start_kernel(kernel_name=lab.card)
        await kernels.shutdown_kernel(waiter, now=now)
        assert [row.id for row in lab.rows()] == [holder]
        await kernels.shutdown_kernel(holder, now=True)

    asyncio.run(scene())
    assert lab.left() == {}


def test_in_another_server_the_message_reaches_the_page(lab: Any) -> None:
    async def scene() -> None:
        kernels = AsyncMultiKernelManager()
        holder = await kernels.start_kernel(kernel_name=lab.all)
        with pytest.raises(HTTPError) as answer:
            await kernels.start_kernel(kernel_name=lab.card)
        assert answer.value.status_code == 409
        assert str(answer.value).startswith("card 0 (NVIDIA GeForce GTX 1080 Ti): ")
        assert isinstance(answer.value.__cause__, CardsTaken)
        await kernels.shutdown_kernel(holder, now=True)

    asyncio.run(scene())
    assert lab.left() == {}


def test_an_environment_without_ipykernel_is_reported(lab: Any, tmp_path: Path) -> None:
    python = tmp_path / "bare" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    python.chmod(0o755)
    kinds = runtime_types((), (Environment("bare", str(python)),), resolve_lab_options())
    write_specs(kinds, Path(lab.environ["OWNLAB_KERNELS"]))
    with pytest.raises(LabError, match="has no ipykernel"):
        KernelManager(kernel_name="ownlab-bare-cpu").start_kernel()
    assert lab.left() == {}
    python.unlink()
    with pytest.raises(InterpreterError, match="is missing or not executable"):
        KernelManager(kernel_name="ownlab-bare-cpu").start_kernel()
    assert lab.left() == {}
