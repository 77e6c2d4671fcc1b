"""`ownlab up --host`: a lab that another computer reaches with TLS. The other computer is a network namespace of this test."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ownlab.errors import InputError, UsageError
from ownlab.lab.server.allowed_hosts import host_of
from ownlab.lab.service.network_host import certificate_fingerprint, prepare_network_host

if TYPE_CHECKING:
    from tests.command_line import World

# The client of the other computer: sends a request with a Host header, and prints the status and the certificate's fingerprint.
CLIENT = """
import hashlib, http.client, json, ssl, sys
address, port, headers, method, path = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4], sys.argv[5]
context = ssl._create_unverified_context()
connection = http.client.HTTPSConnection(address, port, timeout=30, context=context)
connection.request(method, path, headers=headers)
response = connection.getresponse()
digest = hashlib.sha256(connection.sock.getpeercert(True) if connection.sock else b"").hexdigest()
print(json.dumps([response.status, digest, response.getheader("Set-Cookie") or ""]))
"""


class Neighbour:
    """Another computer on a network with this one."""

    def __init__(self) -> None:
        number = os.getpid() % 250 + 2
        self.name, self.ours, self.theirs = f"ownlab{os.getpid()}", f"ol{os.getpid()}a", f"ol{os.getpid()}b"
        self.address, other = f"10.213.{number}.1", f"10.213.{number}.2"
        self._ip("netns", "add", self.name)
        try:
            self._ip("link", "add", self.ours, "type", "veth", "peer", "name", self.theirs, "netns", self.name)
            self._ip("address", "add", f"{self.address}/24", "dev", self.ours)
            self._ip("link", "set", self.ours, "up")
            self._ip("-n", self.name, "address", "add", f"{other}/24", "dev", self.theirs)
            self._ip("-n", self.name, "link", "set", self.theirs, "up")
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    def ask(self, port: int, path: str, method: str = "GET", **headers: str) -> Any:
        """Return status, fingerprint and cookies; None if there is no answer."""
        arguments = [self.address, str(port), json.dumps(headers), method, path]
        command = ["ip", "netns", "exec", self.name, sys.executable, "-c", CLIENT, *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return json.loads(ran.stdout) if ran.returncode == 0 else None

    def close(self) -> None:
        subprocess.run(["ip", "netns", "delete", self.name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self.ours], check=False, capture_output=True)


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("only root can make network namespaces")
    try:
        made = Neighbour()
    except (OSError, subprocess.CalledProcessError) as exc:
        pytest.skip(f"no network namespace can be made here: {exc}")
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_another_computer_reaches_the_lab_by_its_name_with_tls(world: World, neighbour: Neighbour, valid: Any) -> None:
    ran = world.run("up", "work", "--detach", "--no-browser", "--host", neighbour.address)
    assert ran.returncode == 0, ran.stderr
    lab = world.lab()
    port, token, fingerprint = lab["port"], {"Authorization": f"token {lab['token']}"}, lab["fingerprint"]
    assert lab["url"] == f"https://{neighbour.address}:{port}/"
    assert lab["state"] == "ready"
    assert fingerprint in ran.stdout
    own = f"{neighbour.address}:{port}"
    status, digest, _ = neighbour.ask(port, "/api/contents", Host=own, **token)
    assert (status, digest) == (200, fingerprint.replace(":", "").lower())
    assert neighbour.ask(port, "/api/contents", Host=own)[0] == 403  # no token
    for host in (f"attacker.example:{port}", f"127.0.0.1:{port}", "localhost", f"{own}.attacker.example"):
        assert neighbour.ask(port, "/api/contents", Host=host, **token)[0] == 403, host
        assert neighbour.ask(port, "/api/kernels/x/channels", Host=host, **token)[0] == 403, host
    assert "Secure" in neighbour.ask(port, "/lab?token=" + lab["token"], Host=own)[2]
    [key] = (world.root / "home" / "tls").glob("*.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    # The watchdog starts it again at the same address, and commands find it.
    os.kill(lab["pid"], signal.SIGKILL)
    world.until(lambda: (now := world.lab())["state"] == "ready" and now["pid"] != lab["pid"])
    assert neighbour.ask(port, "/api/contents", Host=own, **token)[0] == 200
    again = json.loads(world.run("up", "work", "--json", "--no-browser").stdout)
    assert (again["url"], again["fingerprint"]) == (lab["url"], fingerprint)
    assert world.run("down", "work").returncode == 0
    assert neighbour.ask(port, "/api/contents", Host=own, **token) is None


def test_the_certificate_is_kept(world: World, monkeypatch: pytest.MonkeyPatch, neighbour: Neighbour) -> None:
    first = prepare_network_host(neighbour.address, None, None, world.env)
    second = prepare_network_host(neighbour.address, None, None, world.env)
    assert certificate_fingerprint(first.certificate) == certificate_fingerprint(second.certificate)
    context = ssl.create_default_context(cafile=first.certificate)
    assert context.get_ca_certs()[0]["subjectAltName"] == (("IP Address", neighbour.address),)
    kept = certificate_fingerprint(first.certificate)
    Path(first.key).write_text("damaged")
    os.chmod(first.key, 0o600)
    third = prepare_network_host(neighbour.address, None, None, world.env)
    assert certificate_fingerprint(third.certificate) != kept
    with monkeypatch.context() as without_openssl:
        without_openssl.setenv("PATH", "/nowhere")
        given = prepare_network_host(neighbour.address, third.certificate, third.key, world.env)
    assert given.certificate == third.certificate
    os.chmod(third.key, 0o640)
    with pytest.raises(InputError, match="Other users of this machine can read the key"):
        prepare_network_host(neighbour.address, third.certificate, third.key, world.env)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("0.0.0.0", UsageError, "stands for all addresses"),
        ("::", UsageError, "stands for all addresses"),
        ("127.0.0.1", InputError, "which other computers cannot reach"),
        ("localhost", InputError, "which other computers cannot reach"),
        ("192.0.2.1", InputError, "is not an address of this machine"),
        ("a b", UsageError, "is not a host name"),
        ("-x", UsageError, "is not a host name"),
        ("", UsageError, "is not a host name"),
    ],
)
def test_names_that_cannot_be_used(name: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        prepare_network_host(name, None, None, {})


def test_options_that_belong_together() -> None:
    with pytest.raises(UsageError, match="belong together"):
        prepare_network_host("192.0.2.1", "a.crt", None, {})


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("a:80", "a"),
        ("A", "a"),
        ("[::1]:80", "::1"),
        ("[::1]", "::1"),
        ("10.0.0.1:1", "10.0.0.1"),
        ("", ""),
        ("a:1.b", ""),
        ("[::1].b", ""),
        ("a@b:1:2", ""),
    ],
)
def test_the_host_of_a_header(header: str, host: str) -> None:
    assert host_of(header) == host
