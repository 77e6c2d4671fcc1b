"""What another user of the machine can do to a runtime: nothing. The attacks run in processes of that user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from ownlab.lab.runtimes.start import tcp_connection
from ownlab.lab.transport.endpoints import channel_endpoint

COLAB = Path(__file__).parents[3] / ".venv-colab" / "bin" / "python"
OTHER_USER = 65534
MEGABYTES = 64

# Pushes messages as a forked worker does, and waits until they are sent or nobody takes them.
FLOOD = """
import os, sys, zmq
context = zmq.Context()
sockets = []
os.setgroups([]); os.setgid({user}); os.setuid({user})
for address in sys.argv[1:]:
    socket = context.socket(zmq.PUSH)
    socket.linger = 2000
    socket.immediate = True
    socket.sndtimeo = 2000
    socket.connect(address)
    sockets.append(socket)
sent = 0
for socket in sockets:
    try:
        for _ in range({megabytes}):
            socket.send_multipart([b"bad", bytes(1 << 20)])
            sent += 1
    except zmq.ZMQError:
        pass
    socket.close()
context.term()
print(sent)
"""

# Begins CurveZMQ handshakes and announces a frame of a gigabyte in each, which it sends as far as somebody takes it.
HANDSHAKE = """
import encodings.idna, os, socket, struct, sys
user = int(sys.argv[1])
if user: os.setgroups([]); os.setgid(user); os.setuid(user)
greeting = b"\\xff" + bytes(8) + b"\\x7f" + b"\\x03\\x01" + b"CURVE".ljust(20, b"\\0") + bytes(32)
sent, open_ones = 0, []
for address in sys.argv[2:] * 4:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=2)
    open_ones.append(connection)
    try:
        connection.sendall(greeting + b"\\x06" + struct.pack(">Q", 1 << 30))
        for _ in range({megabytes}):
            sent += connection.send(bytes(1 << 20))
    except OSError:
        pass
print(sent >> 20, flush=True)
sys.stdin.read()
"""

WORKERS = """
import multiprocessing
workers = [multiprocessing.get_context("fork").Process(target=print, args=(f"worker-{number}",)) for number in range(4)]
for worker in workers: worker.start()
for worker in workers: worker.join()
"""


def as_other_user(code: str, *arguments: str) -> str:
    """Run a script that becomes another user by itself, after its imports; return what it prints."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another person")
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def tcp_listeners(pid: int) -> list[str]:
    """The addresses on which a process accepts TCP connections."""
    connections = psutil.Process(pid).net_connections("tcp")
    return [f"tcp://{each.laddr.ip}:{each.laddr.port}" for each in connections if each.status == psutil.CONN_LISTEN]


def memory_mb(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def runtime_listeners(runtime: Any) -> list[str]:
    """The TCP listeners of all processes of a runtime."""
    return [address for who in ("keeper", "supervisor", "kernel") for address in tcp_listeners(int(runtime.pid(who)))]


def printed(client: Any, code: str) -> str:
    texts: list[str] = []

    def hook(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            texts.append(message["content"]["text"])

    assert client.execute_interactive(code, timeout=300, output_hook=hook)["content"]["status"] == "ok"
    return "".join(texts)


def test_the_pipe_of_forked_workers_is_closed_to_others(shared_runtime: Any) -> None:
    client = shared_runtime.ready()
    kernel = shared_runtime.pid("kernel")
    pipe = f"ipc://{shared_runtime.plan.sockets}/k-pipe"

    sent = as_other_user(FLOOD.format(user=OTHER_USER, megabytes=MEGABYTES), pipe, *tcp_listeners(kernel))

    assert sent == "0"
    assert len(shared_runtime.log()) < 100_000
    assert tcp_listeners(kernel) == []
    assert printed(client, "print('alive')") == "alive\n"


@pytest.mark.parametrize("python", [sys.executable, str(COLAB)], ids=["ipykernel 7", "ipykernel 6"])
def test_output_of_forked_workers_is_shown(bench: Any, python: str) -> None:
    if not os.path.exists(python):
        pytest.skip("no .venv-colab: `scripts/setup test` makes it")
    plan = bench.plan()
    runtime = bench.start(argv=[python, *plan.argv[1:]])
    client = runtime.ready()

    text = printed(client, WORKERS)

    assert sorted(re.findall(r"worker-\d", text)) == [f"worker-{number}" for number in range(4)], text
    assert tcp_listeners(runtime.pid("kernel")) == []


def test_an_unknown_ipykernel_gets_no_pipe() -> None:
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from ownlab_guest.kernel.fork_pipe import use_private_pipe
class Thread:
    def __init__(self, socket, pipe=False, session=None):
        print(socket, pipe, session)
use_private_pipe(Thread, "/somewhere/pipe")
Thread("socket", pipe=True, session="session")
Thread("socket", True)
"""
    source = str(Path(__file__).parents[3] / "src")
    ran = subprocess.run([sys.executable, "-c", code, source], capture_output=True, text=True, timeout=300, check=True)

    assert ran.stdout == "socket False session\nsocket False None\n"
    assert "output of forked workers is lost" in ran.stderr


KNOCK = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for port in map(int, sys.argv[1:]):
    with socket.socket() as knock:
        knock.settimeout(30)
        knock.connect(("127.0.0.1", port))
        print(knock.recv(1000))
"""


@pytest.mark.parametrize("python", [sys.executable, str(COLAB)], ids=["ipykernel 7", "ipykernel 6"])
def test_the_debugger_is_closed_to_others(bench: Any, marked: Callable[[str], list[int]], python: str) -> None:
    if not os.path.exists(python):
        pytest.skip("no .venv-colab: `scripts/setup test` makes it")
    runtime = bench.start(argv=[python, *bench.plan().argv[1:]])
    client = runtime.ready()
    for seq, (command, arguments) in enumerate({"initialize": {"adapterID": "x"}, "attach": {}}.items(), start=1):
        content = {"type": "request", "seq": seq, "command": command, "arguments": arguments}
        client.control_channel.send(client.session.msg("debug_request", content))
        assert client.get_control_msg(timeout=300)["content"]["success"], command

    ports = [address.rpartition(":")[2] for pid in marked(runtime.plan.runtime) for address in tcp_listeners(pid)]

    assert ports
    assert set(as_other_user(KNOCK, *ports).split()) == {"b''"}
    assert printed(client, "print('alive')") == "alive\n"


def test_a_runtime_listens_on_unix_sockets_only(shared_runtime: Any, bench: Any) -> None:
    shared_runtime.ready()
    in_lab = bench.start_in_lab()
    in_lab.ready()

    assert runtime_listeners(shared_runtime) == runtime_listeners(in_lab) == []
    for runtime in (shared_runtime, in_lab):
        assert os.stat(runtime.plan.sockets).st_mode & 0o077 == 0


@pytest.mark.parametrize("user", [OTHER_USER, 0], ids=["another user", "a program without the key"])
def test_a_half_finished_handshake_takes_no_memory(bench: Any, user: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another person")
    runtime = bench.start(connection=tcp_connection())
    client = runtime.ready()
    supervisor = runtime.pid("supervisor")
    before = memory_mb(supervisor)
    code = HANDSHAKE.format(megabytes=MEGABYTES)
    argv = [sys.executable, "-c", code, str(user), *runtime_listeners(runtime)]

    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attack:
        assert attack.stdout is not None
        sent = int(attack.stdout.readline())
        during = memory_mb(supervisor)
        assert printed(client, "print('alive')") == "alive\n"
        attack.communicate("")

    assert sent < 100  # what the operating system buffers; ZeroMQ took all 1,280 MB
    assert during - before < 20


def test_plaintext_ports_of_a_client_are_closed_to_other_users(bench: Any) -> None:
    """As VS Code starts a kernel: the connection file has ports and no keys for encryption."""
    plain = {name: value for name, value in tcp_connection().items() if not name.startswith("curve")}
    runtime = bench.start(connection=plain)
    client = runtime.ready()
    assert printed(client, "print('mine')") == "mine\n"
    iopub = channel_endpoint(runtime.state()["connection"], "iopub").url
    listen = """
import os, sys, zmq
socket = zmq.Context().socket(zmq.SUB)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
socket.subscribe(b"")
socket.connect(sys.argv[1])
print("there", flush=True)
sys.stdin.readline()
print(socket.poll(1000))
"""
    if os.geteuid() != 0:
        pytest.skip("only root can be another person")
    argv = [sys.executable, "-c", listen, iopub]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as spy:
        assert spy.stdout is not None
        assert spy.stdout.readline() == "there\n"
        late = runtime.client()
        late.wait_for_ready(timeout=300)
        assert printed(late, "print('secret')") == "secret\n"
        heard, _ = spy.communicate("\n")
    assert heard == "0\n"


def test_a_client_with_another_key_is_refused(bench: Any) -> None:
    """It knows the public key of the server, which is all that encryption alone requires."""
    runtime = bench.start_in_lab(connection=tcp_connection())
    client = runtime.ready()
    connection = runtime.state()["connection"]
    public, secret = (key.decode() for key in zmq.curve_keypair())
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        stranger = context.socket(zmq.SUB)
        stranger.subscribe(b"")
        watch = stranger.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        stranger.curve_publickey, stranger.curve_secretkey = public.encode(), secret.encode()
        stranger.curve_serverkey = connection["curve_publickey"].encode()
        stranger.connect(channel_endpoint(connection, "iopub").url)
        assert watch.poll(30_000), "nothing happened"
        assert recv_monitor_message(watch)["event"] == zmq.EVENT_HANDSHAKE_FAILED_AUTH

        assert printed(client, "print('secret')") == "secret\n"
        assert not stranger.poll(100)
        stranger.disable_monitor()
    finally:
        context.destroy(linger=0)
