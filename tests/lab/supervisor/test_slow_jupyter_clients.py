"""Clients of Jupyter's own protocol that do not read: a supervisor's memory is bounded, and they miss nothing that a journal has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from tests.lab.supervisor.test_slow_followers import OUTPUT, resident

from ownlab.lab.runtimes.start import new_connection, tcp_connection
from ownlab.lab.transport.endpoints import channel_endpoint

# As much as a journal keeps without compaction, and more.
MEGABYTES = 50
MUCH = 300
# Prints "reads" when messages arrive, then how many characters it got, and whether the lines came in order.
CLIENT = """
import json, sys
from jupyter_client import BlockingKernelClient
client = BlockingKernelClient()
client.load_connection_info(json.loads(sys.argv[1]))
client.start_channels(stdin=False, hb=False)
client.wait_for_ready(timeout=300)
print("reads", flush=True)
size, lines, rest = 0, [], ""
while True:
    message = client.get_iopub_msg(timeout=300)
    if message["msg_type"] != "stream":
        continue
    if "missing here" in message["content"]["text"]:
        print("missing", flush=True)
        continue
    size += len(message["content"]["text"])
    rest += message["content"]["text"].replace("x", "")
    if "THE END" in rest:
        break
lines = rest.split()
print(size, lines[:-2] == [str(n) for n in range(len(lines) - 2)], flush=True)
client.stop_channels()
"""


@pytest.fixture
def connect(start_program: Callable[..., subprocess.Popen[str]]) -> Callable[[Any], subprocess.Popen[str]]:
    def connect(runtime: Any) -> subprocess.Popen[str]:
        return start_program(CLIENT, json.dumps(runtime.wait("running")["connection"]), first="reads")

    return connect


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("connection", [new_connection, tcp_connection], ids=["Unix sockets", "TCP"])
def test_a_client_that_hangs_gets_everything_later_from_the_journal(
    bench: Any, connect: Callable[[Any], subprocess.Popen[str]], connection: Callable[[], dict[str, Any]]
) -> None:
    runtime = bench.start_in_lab(backlog_mb=4, connection=connection())
    hanging, reading = connect(runtime), connect(runtime)
    own = runtime.follow(["status"])
    own.run("1")
    os.kill(hanging.pid, signal.SIGSTOP)
    before = resident(runtime.pid("supervisor"))
    own.run(OUTPUT.format(megabytes=MEGABYTES))
    size = sum(len(f"{n} \n") + 1_000_000 for n in range(MEGABYTES)) + len("THE END\n")
    assert line_of(reading) == f"{size} True\n"
    grown = resident(runtime.pid("supervisor")) - before
    os.kill(hanging.pid, signal.SIGCONT)

    assert line_of(hanging) == f"{size} True\n", "complete and in order"
    assert grown < 48, f"{grown} MB for {MEGABYTES} MB of output"


def test_a_client_that_missed_what_was_compacted_is_told_so(
    bench: Any, connect: Callable[[Any], subprocess.Popen[str]]
) -> None:
    runtime = bench.start_in_lab(backlog_mb=8)
    hanging = connect(runtime)
    own = runtime.follow(["status"])
    own.run("1")
    os.kill(hanging.pid, signal.SIGSTOP)
    before = resident(runtime.pid("supervisor"))
    own.run(OUTPUT.format(megabytes=MUCH))
    grown = resident(runtime.pid("supervisor")) - before
    os.kill(hanging.pid, signal.SIGCONT)

    line = line_of(hanging)
    assert line == "missing\n"
    while line == "missing\n":  # what comes next may be compacted while it reads
        line = line_of(hanging)
    assert int(line.split()[0]) > 8_000_000
    assert grown < 48, f"{grown} MB for {MUCH} MB of output"


def test_many_small_messages_are_bounded_too(bench: Any, connect: Callable[[Any], subprocess.Popen[str]]) -> None:
    runtime = bench.start_in_lab(backlog_mb=8)
    hanging = connect(runtime)
    own = runtime.follow(["status"])
    own.run("1")
    os.kill(hanging.pid, signal.SIGSTOP)
    before = resident(runtime.pid("supervisor"))
    own.run("from IPython.display import display\nfor n in range(20_000):\n    display('xx')\nprint('THE END')")
    grown = resident(runtime.pid("supervisor")) - before
    os.kill(hanging.pid, signal.SIGCONT)
    assert line_of(hanging) == "8 True\n"
    assert grown < 30, f"{grown} MB"


def test_without_a_journal_a_client_that_hangs_still_sees_the_end_of_its_request(bench: Any) -> None:
    """Nothing could be read later: what does not fit is lost, but not the status that clients wait for."""
    runtime = bench.start()
    connection = runtime.wait("running")["connection"]
    client = BlockingKernelClient()
    client.load_connection_info(connection)
    client.start_channels(iopub=False, stdin=False, hb=False)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    outputs = context.socket(zmq.SUB)
    outputs.rcvhwm = 2
    outputs.subscribe(b"")
    outputs.connect(channel_endpoint(connection, "iopub").url)
    try:
        while not outputs.poll(100):  # until it has subscribed
            client.kernel_info()
        before = resident(runtime.pid("supervisor"))
        request = client.execute(OUTPUT.format(megabytes=650))
        while client.get_shell_msg(timeout=300)["parent_header"]["msg_id"] != request:
            pass
        grown = resident(runtime.pid("supervisor")) - before
        printed, idle = 0, False
        while not idle:
            assert outputs.poll(60_000), "it never sees the end of its request"
            header, parent, _, content = outputs.recv_multipart()[-4:]
            printed += b'"stream"' in header
            idle = b'"idle"' in content and request.encode() in parent
    finally:
        client.stop_channels()
        context.destroy(linger=0)
    assert 400 < printed < 640
    assert grown < 700, f"{grown} MB"


def test_clients_that_left_are_forgotten_and_topics_work(bench: Any) -> None:
    runtime = bench.start_in_lab()
    endpoint = channel_endpoint(runtime.wait("running")["connection"], "iopub")
    own = runtime.follow()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def subscribe(topic: bytes) -> zmq.Socket[bytes]:
        socket = context.socket(zmq.SUB)
        socket.subscribe(topic)
        socket.connect(endpoint.url)
        return socket

    def hears(socket: zmq.Socket[bytes], wanted: bytes) -> list[bytes]:
        """The message with this output; cells run until the subscription has arrived."""
        for _ in range(100):
            own.run(f"print('{wanted.decode()}')")
            while socket.poll(100):
                frames = socket.recv_multipart()
                if wanted in frames[-1] and b'"stream"' in frames[-4]:
                    return frames
        raise AssertionError("nothing was heard")

    try:
        for _ in range(20):
            subscribe(b"").close(linger=0)
        everything, part = subscribe(b""), subscribe(b"stream.")
        assert hears(everything, b"everything")[1] == b"<IDS|MSG>", "one topic before the delimiter"
        assert hears(part, b"part")[0].startswith(b"stream.")
        again = subscribe(b"")
        hears(again, b"again")
        while again.poll(200):
            again.recv_multipart()
        own.run("print('once')")
        heard = []
        while again.poll(1000):
            heard.append(again.recv_multipart())
        assert sum(b"once" in frames[-1] and b'"stream"' in frames[-4] for frames in heard) == 1
    finally:
        context.destroy(linger=0)


def test_a_client_that_is_there_before_the_kernel_understands_every_message(bench: Any) -> None:
    """ipykernel's welcome has no topic: its first frame is the delimiter."""
    runtime = bench.start_in_lab()
    client = runtime.ready()
    os.kill(runtime.pid("kernel"), signal.SIGKILL)
    runtime.wait("dead")
    runtime.ask("relaunch")
    client.execute("print('again')")
    kinds: list[str] = []
    while "stream" not in kinds:
        assert client.iopub_channel.socket.poll(60_000), kinds
        frames = client.iopub_channel.socket.recv_multipart()
        assert frames[1] == b"<IDS|MSG>", frames[:2]
        kinds.append(json.loads(frames[3])["msg_type"])
    assert "iopub_welcome" in kinds
