"""The gate: bytes arrive unchanged at any speed, and no more than a handshake before the key is known."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ownlab.lab.transport.tcp_gate import TcpGate
from ownlab.processes.tcp_owners import peer_uid

SECONDS = 30.0
READY = bytes(64 + 170) + b"\x04\x20\x05READY"


@pytest.fixture
def inner(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket behind the gate."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "inner"))
        listener.listen(64)
        listener.settimeout(SECONDS)
        yield listener


@pytest.fixture
def open_gate(inner: socket.socket) -> Iterator[Callable[[bool], int]]:
    gate = TcpGate()

    def listen(encrypted: bool) -> int:
        port = gate.listen(("127.0.0.1", 0), inner.getsockname(), encrypted=encrypted)
        gate.start()
        return port

    yield listen
    gate.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)


def is_closed(end: socket.socket) -> bool:
    """Wait for the end of a connection."""
    end.settimeout(SECONDS)
    try:
        while end.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    return True


def receive(end: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        found += end.recv(1 << 16)
    return bytes(found)


def test_bytes_arrive_unchanged_in_both_directions_even_if_nobody_reads_for_a_while(
    inner: socket.socket, open_gate: Callable[[bool], int]
) -> None:
    data = os.urandom(1 << 20) * 32  # more than all buffers hold
    with connect(open_gate(False)) as client, inner.accept()[0] as server:
        server.settimeout(SECONDS)
        threads = [threading.Thread(target=end.sendall, args=(data,)) for end in (client, server)]
        for thread in threads:
            thread.start()
        threads[0].join(0.2)
        assert threads[0].is_alive()  # the gate does not buffer: both wait for a reader

        assert receive(server, len(data)) == data
        assert receive(client, len(data)) == data
        for thread in threads:
            thread.join(SECONDS)

        client.shutdown(socket.SHUT_WR)
        assert is_closed(server)


def test_what_was_sent_before_the_end_arrives(inner: socket.socket, open_gate: Callable[[bool], int]) -> None:
    client = connect(open_gate(False))
    with inner.accept()[0] as server:
        server.sendall(b"last words")
    assert receive(client, 10) == b"last words"
    assert is_closed(client)
    client.close()


def test_no_more_than_a_handshake_before_the_key_is_known(
    inner: socket.socket, open_gate: Callable[[bool], int]
) -> None:
    port = open_gate(True)
    with connect(port) as client, inner.accept()[0] as server:
        client.sendall(bytes(4096))
        server.settimeout(SECONDS)
        assert receive(server, 4096) == bytes(4096)
        client.sendall(b"x")
        assert is_closed(client)
        assert is_closed(server)

    with connect(port) as client, inner.accept()[0] as server:
        for byte in READY:  # however it is cut into pieces
            server.sendall(bytes([byte]))
        assert receive(client, len(READY)) == READY
        client.sendall(bytes(100_000))
        assert receive(server, 100_000) == bytes(100_000)

    with connect(port) as client, inner.accept()[0] as server:
        refusal = READY.replace(b"READY", b"ERROR")
        server.sendall(refusal)
        assert receive(client, len(refusal)) == refusal
        client.sendall(bytes(5000))
        assert is_closed(server)


def test_the_oldest_of_many_handshakes_is_closed(inner: socket.socket, open_gate: Callable[[bool], int]) -> None:
    port = open_gate(True)
    with ExitStack() as stack:
        clients = []
        for _ in range(33):
            clients.append(stack.enter_context(connect(port)))
            stack.enter_context(inner.accept()[0])
        assert is_closed(clients[0])
        for client in clients[1:]:
            client.settimeout(0.01)
            with pytest.raises(TimeoutError):
                client.recv(1)


def test_connections_of_other_users_are_closed(inner: socket.socket, open_gate: Callable[[bool], int]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another person")
    code = (
        "import os, socket, sys\nos.setuid(65534)\n"
        "end = socket.socket()\nend.settimeout(30)\nend.connect(('127.0.0.1', int(sys.argv[1])))\nprint(end.recv(1))"
    )
    argv = [sys.executable, "-c", code, str(open_gate(False))]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert ran.stdout == "b''\n"
    inner.settimeout(0.1)
    with pytest.raises(TimeoutError):
        inner.accept()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_user_of_a_connection(family: socket.AddressFamily) -> None:
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    try:
        listener = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listener, socket.create_connection(listener.getsockname()[:2]) as client:
        accepted, _ = listener.accept()
        assert peer_uid(accepted) == os.geteuid()
        client.close()
        assert is_closed(accepted)
        assert peer_uid(accepted) is None
        accepted.close()


def test_an_ipv4_client_of_an_ipv6_socket() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_INET6) as client:
        client.connect(("::ffff:127.0.0.1", listener.getsockname()[1]))
        with listener.accept()[0] as accepted:
            assert peer_uid(accepted) == os.geteuid()
