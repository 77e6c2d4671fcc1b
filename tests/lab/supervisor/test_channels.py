"""Messages between clients and a real kernel: complete, unchanged, in order, and private."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from jupyter_client.session import Session
from tests.lab.kernel_replies import reply_to

from ownlab.lab.runtimes.start import new_connection, tcp_connection
from ownlab.lab.transport.endpoints import channel_endpoint


@pytest.fixture(scope="module", params=[new_connection, tcp_connection], ids=["Unix sockets", "TCP"])
def shared_runtime(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, module_bench: Callable[[Path], Any]
) -> Iterator[Any]:
    """One runtime for all tests that leave it as it was."""
    runtime = module_bench(tmp_path_factory.mktemp("standing")).start(connection=request.param())
    yield runtime
    runtime.clear()


def messages_of(client: Any, code: str, *, wanted: str = "stream") -> list[dict[str, Any]]:
    """The contents of all messages of a type that running this makes."""
    outputs: list[dict[str, Any]] = []

    def hook(message: dict[str, Any]) -> None:
        if message["msg_type"] == wanted:
            outputs.append(message["content"])

    reply = client.execute_interactive(code, timeout=300, output_hook=hook, stdin_hook=lambda _: client.input("typed"))
    assert reply["content"]["status"] == "ok", reply["content"]
    return outputs


def until_idle(client: Any, request: str) -> list[dict[str, Any]]:
    """Return everything that is published about a request until its end."""
    messages = []
    while True:
        message = client.get_iopub_msg(timeout=300)
        if message["parent_header"].get("msg_id") == request:
            messages.append(message)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return messages


def test_a_cell_runs_and_input_requests_reach_the_client_that_executed(shared_runtime: Any) -> None:
    client = shared_runtime.ready()

    assert messages_of(client, "print(input('name? '), 6 * 7)") == [{"name": "stdout", "text": "typed 42\n"}]


def test_an_interrupt_ends_a_cell_and_not_the_kernel(shared_runtime: Any, waiting: Callable[..., Any]) -> None:
    client = shared_runtime.ready()
    request = client.execute("import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)")
    waiting(lambda: client.get_iopub_msg(timeout=300)["msg_type"] == "stream", "the cell runs")

    shared_runtime.ask("signal", signum=int(signal.SIGINT))

    errors = [message["content"]["ename"] for message in until_idle(client, request) if message["msg_type"] == "error"]
    assert errors == ["KeyboardInterrupt"]
    assert messages_of(client, "print('alive')") == [{"name": "stdout", "text": "alive\n"}]


def test_large_outputs_and_buffers_arrive_unchanged(shared_runtime: Any) -> None:
    client = shared_runtime.ready()
    code = (
        "from comm import create_comm\n"
        "create_comm(target_name='t', data={'a': 'ü'}, buffers=[bytes(range(256)) * 40_000, b''])\n"
        "print('x' * 3_000_000)"
    )

    published = until_idle(client, client.execute(code))

    opened = next(message for message in published if message["msg_type"] == "comm_open")
    assert [bytes(buffer) for buffer in opened["buffers"]] == [bytes(range(256)) * 40_000, b""]
    assert opened["content"]["data"] == {"a": "ü"}
    text = "".join(message["content"]["text"] for message in published if message["msg_type"] == "stream")
    assert text == "x" * 3_000_000 + "\n"


def test_large_uploads_reach_the_kernel(shared_runtime: Any) -> None:
    """As a file that is uploaded with a widget: one frame."""
    client = shared_runtime.ready()
    socket, session = client.shell_channel.socket, client.session

    sent = session.send(socket, "comm_info_request", {}, buffers=[bytes(64 << 20)])

    assert reply_to(client, sent["header"]["msg_id"])["msg_type"] == "comm_info_reply"


def test_two_clients_get_their_own_replies_and_a_late_one_the_rest(
    shared_runtime: Any, tmp_path: Any, waiting: Callable[..., Any]
) -> None:
    first = shared_runtime.ready()
    flag = tmp_path / "go"
    request = first.execute(
        f"import os, time\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.01)\nprint('late')"
    )
    waiting(lambda: shared_runtime.ask("status")["execution_state"] == "busy", "the cell runs")

    second = shared_runtime.client()
    second.control_channel.send(second.session.msg("kernel_info_request"))
    assert second.get_control_msg(timeout=300)["msg_type"] == "kernel_info_reply"  # while the cell runs
    assert shared_runtime.ask("status")["execution_state"] == "busy"  # the idle of that reply is not the cell's
    flag.touch()

    assert [message["content"] for message in until_idle(second, request) if message["msg_type"] == "stream"] == [
        {"name": "stdout", "text": "late\n"}
    ]
    assert reply_to(first, request)["content"]["status"] == "ok"


def test_nothing_is_lost_while_the_supervisor_is_stopped(shared_runtime: Any) -> None:
    client = shared_runtime.ready()
    supervisor = shared_runtime.pid("supervisor")
    # More than ZeroMQ's queue of 1,000 messages and the operating system's buffers hold.
    code = (
        f"import os, signal\nos.kill({supervisor}, signal.SIGSTOP)\ntry:\n"
        "    for n in range(2000): get_ipython().display_pub.publish({'text/plain': str(n) + ' ' * 1000})\n"
        f"finally:\n    os.kill({supervisor}, signal.SIGCONT)"
    )

    shown = messages_of(client, code, wanted="display_data")

    assert [int(output["data"]["text/plain"]) for output in shown] == list(range(2000))


def test_a_client_without_keys_is_ignored(shared_runtime: Any) -> None:
    client = shared_runtime.ready()
    connection = shared_runtime.state()["connection"]
    if connection["transport"] == "ipc":
        pytest.skip("Unix sockets need no keys: their folder is private")
    session = Session(key=connection["key"].encode())
    context = zmq.Context()
    try:
        stranger, ears = context.socket(zmq.DEALER), context.socket(zmq.SUB)
        ears.subscribe(b"")
        watch = stranger.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        stranger.connect(channel_endpoint(connection, "shell").url)
        ears.connect(channel_endpoint(connection, "iopub").url)
        session.send(stranger, "execute_request", {"code": "stranger = 1"})
        assert watch.poll(30_000), "it was not turned away"

        assert messages_of(client, "print('stranger' in globals())") == [{"name": "stdout", "text": "False\n"}]
        assert not stranger.poll(0)
        assert not ears.poll(0)
        stranger.disable_monitor()
    finally:
        context.destroy(linger=0)


def test_messages_without_a_kernel_wait_for_the_next_one(bench: Any) -> None:
    runtime = bench.start()
    client = runtime.ready()
    runtime.ask("kill", restart=True)
    runtime.wait("dead")

    request = client.execute("print('kept')")
    runtime.ask("relaunch")

    assert reply_to(client, request)["content"]["status"] == "ok"


def test_an_unsigned_shutdown_request_has_no_effect(bench: Any) -> None:
    runtime = bench.start()
    runtime.ready()
    forger = runtime.client(key="guessed")
    runtime.ask("kill", restart=True)
    runtime.wait("dead")

    forger.control_channel.send(forger.session.msg("shutdown_request", {"restart": False}))
    runtime.ask("relaunch")
    client = runtime.ready()

    assert messages_of(client, "print(1)") == [{"name": "stdout", "text": "1\n"}]
