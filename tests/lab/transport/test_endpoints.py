"""Endpoints: URLs and what Jupyter makes of them, plans of older versions, and a journal that is followed on TCP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zmq
from tests.lab.supervisor.conftest import Bench, bench

from ownlab.errors import LabError
from ownlab.lab.runtimes.launch_plan import read_plan
from ownlab.lab.runtimes.start import new_connection, tcp_connection
from ownlab.lab.transport.endpoints import Endpoint, channel_endpoint, unix_endpoint, with_endpoint
from ownlab.lab.transport.journal_protocol import FOLLOW

__all__ = ["bench"]  # a fixture


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as trial:
        return int(trial.getsockname()[1])


@pytest.mark.parametrize(
    ("url", "address"),
    [("tcp://127.0.0.1:80", ("127.0.0.1", 80)), ("tcp://[::1]:0", ("::1", 0)), ("tcp://*:5", ("", 5))],
)
def test_addresses(url: str, address: tuple[str, int]) -> None:
    assert Endpoint(url).address == address
    assert not Endpoint(url).is_unix


@pytest.mark.parametrize(
    "url", ["", "tcp://", "tcp://host", "tcp://:1", "tcp://host:x", "tcp://host:65536", "ipc:///a"]
)
def test_what_is_not_an_address(url: str) -> None:
    with pytest.raises(LabError, match="is not an endpoint"):
        _ = Endpoint(url).address


def test_only_unix_sockets_have_a_path() -> None:
    assert unix_endpoint("/folder", "line") == Endpoint("ipc:///folder/line")
    assert unix_endpoint("/folder", "line").path == "/folder/line"
    with pytest.raises(LabError, match="is not a Unix socket"):
        _ = Endpoint("tcp://127.0.0.1:1").path


def test_the_secret_key_is_never_shown() -> None:
    assert "secret" not in f"{Endpoint('tcp://a:1', 'public', 'secret')!r} {Endpoint('tcp://a:1', 'public', 'secret')}"


@pytest.mark.parametrize("url", ["ipc:///folder-1/c-1", "tcp://127.0.0.1:4711"])
def test_jupyter_connections(url: str) -> None:
    endpoint = Endpoint(url)
    empty = new_connection() if endpoint.is_unix else {**tcp_connection(), "curve_publickey": ""}
    connection = with_endpoint(empty, "shell", endpoint)

    assert channel_endpoint(connection, "shell").url == url


def test_plans_of_older_versions_have_their_sockets_in_the_folder(tmp_path: Path) -> None:
    plan = Bench(tmp_path).plan()
    older = json.loads(plan.to_json())
    del older["control_url"], older["journal_url"]
    (tmp_path / "plan.json").write_text(json.dumps(older))

    read = read_plan(str(tmp_path / "plan.json"))

    assert read.control_endpoint.path == f"{plan.sockets}/control"
    assert read.journal_endpoint.path == f"{plan.sockets}/line"


def test_a_journal_is_followed_on_tcp_with_its_keys_only(bench: Any) -> None:
    url = f"tcp://127.0.0.1:{free_port()}"
    runtime = bench.start_in_lab(connection=tcp_connection(), journal_url=url)
    follower = runtime.follow()
    assert follower.hello["execution_state"] in ("starting", "idle")
    assert follower.run("print('far away')")
    follower.send("comm_info_request", {"padding": "x" * (1 << 20)})
    follower.until(lambda record: record.channel == "shell" and not record.to_kernel)

    public_key = runtime.plan.journal_endpoint.public_key.encode()
    with zmq.Context() as context:
        for keys in (None, zmq.curve_keypair()):
            with context.socket(zmq.DEALER) as stranger:
                stranger.linger = 0
                if keys:
                    stranger.curve_publickey, stranger.curve_secretkey = keys
                    stranger.curve_serverkey = public_key
                stranger.connect(url)
                stranger.send_multipart([FOLLOW, b"{}"])
                assert not stranger.poll(1000)


def test_a_journal_without_keys_is_not_served_on_tcp(bench: Any) -> None:
    runtime = bench.start_in_lab(journal_url="tcp://127.0.0.1:0")

    assert runtime.ended() != 0
    assert "The journal is not served on TCP without keys" in runtime.state()["reason"]
