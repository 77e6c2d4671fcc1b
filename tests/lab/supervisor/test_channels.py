"""Messages between clients and a real kernel: complete, unchanged, in order, and private."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import zmq
from jupyter_client.session import Session


def messages_of(client: Any, code: str, *, wanted: str = "stream") -> list[dict[str, Any]]:
    """The contents of all messages of a type that running this makes."""
    found: list[dict[str, Any]] = []

    def hook(message: dict[str, Any]) -> None:
        if message["msg_type"] == wanted:
            found.append(message["content"])

    reply = client.execute_interactive(code, timeout=30, output_hook=hook, stdin_hook=lambda _: client.input("typed"))
    assert reply["content"]["status"] == "ok", reply["content"]
    return found


def until_idle(client: Any, request: str) -> list[dict[str, Any]]:
    """Return everything that is published about a request until its end."""
    found = []
    while True:
        message = client.get_iopub_msg(timeout=30)
        if message["parent_header"].get("msg_id") == request:
            found.append(message)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return found


def test_a_cell_runs_and_input_requests_reach_the_client_that_executed(standing: Any) -> None:
    client = standing.ready()

    assert messages_of(client, "print(input('name? '), 6 * 7)") == [{"name": "stdout", "text": "typed 42\n"}]


def test_an_interrupt_ends_a_cell_and_not_the_kernel(standing: Any, waiting: Callable[..., Any]) -> None:
    client = standing.ready()
    request = client.execute("import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)")
    waiting(lambda: client.get_iopub_msg(timeout=30)["msg_type"] == "stream", "the cell runs")

    standing.ask("signal", signum=int(signal.SIGINT))

    errors = [one["content"]["ename"] for one in until_idle(client, request) if one["msg_type"] == "error"]
    assert errors == ["KeyboardInterrupt"]
    assert messages_of(client, "print('alive')") == [{"name": "stdout", "text": "alive\n"}]


def test_large_outputs_and_buffers_arrive_unchanged(standing: Any) -> None:
    client = standing.ready()
    code = (
        "from comm import create_comm\n"
        "create_comm(target_name='t', data={'a': 'ü'}, buffers=[bytes(range(256)) * 40_000, b''])\n"
        "print('x' * 3_000_000)"
    )

    published = until_idle(client, client.execute(code))

    opened = next(one for one in published if one["msg_type"] == "comm_open")
    assert [bytes(buffer) for buffer in opened["buffers"]] == [bytes(range(256)) * 40_000, b""]
    assert opened["content"]["data"] == {"a": "ü"}
    text = "".join(one["content"]["text"] for one in published if one["msg_type"] == "stream")
    assert text == "x" * 3_000_000 + "\n"


def test_two_clients_get_their_own_replies_and_a_late_one_the_rest(standing: Any, tmp_path: Any) -> None:
    first = standing.ready()
    flag = tmp_path / "go"
    request = first.execute(
        f"import os, time\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.01)\nprint('late')"
    )

    second = standing.client()
    second.control_channel.send(second.session.msg("kernel_info_request"))
    assert second.get_control_msg(timeout=30)["msg_type"] == "kernel_info_reply"  # while the cell runs
    assert standing.ask("status")["execution_state"] == "busy"  # the idle of that reply is not the cell's
    flag.touch()

    assert [one["content"] for one in until_idle(second, request) if one["msg_type"] == "stream"] == [
        {"name": "stdout", "text": "late\n"}
    ]
    assert first.get_shell_msg(timeout=30)["parent_header"]["msg_id"] == request


def test_nothing_is_lost_while_the_supervisor_is_stopped(standing: Any) -> None:
    client = standing.ready()
    supervisor = standing.pid("supervisor")
    # More than ZeroMQ's queue of 1,000 messages and the operating system's buffers hold.
    code = (
        f"import os, signal\nos.kill({supervisor}, signal.SIGSTOP)\ntry:\n"
        "    for n in range(2000): get_ipython().display_pub.publish({'text/plain': str(n) + ' ' * 1000})\n"
        f"finally:\n    os.kill({supervisor}, signal.SIGCONT)"
    )

    shown = messages_of(client, code, wanted="display_data")

    assert [int(one["data"]["text/plain"]) for one in shown] == list(range(2000))


def test_a_client_without_keys_is_ignored(standing: Any) -> None:
    client = standing.ready()
    connection = standing.state()["connection"]
    session = Session(key=connection["key"].encode())
    context = zmq.Context()
    try:
        stranger, ears = context.socket(zmq.DEALER), context.socket(zmq.SUB)
        ears.subscribe(b"")
        watch = stranger.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        stranger.connect(f"tcp://127.0.0.1:{connection['shell_port']}")
        ears.connect(f"tcp://127.0.0.1:{connection['iopub_port']}")
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

    assert client.get_shell_msg(timeout=30)["parent_header"]["msg_id"] == request


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
