"""`ownlab connect` over a real ssh server on 127.0.0.1, with keys and a configuration of its own."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from ownlab.lab.service.ssh_tunnel import SshTarget

if TYPE_CHECKING:
    from tests.command_line import World

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
# Debian's sshd refuses to start as root without it; its service creates it.
SEPARATION = Path("/run/sshd")


class SshServer:
    """A server of ssh, and the client's configuration for it."""

    def __init__(self, world: World) -> None:
        assert SSHD is not None
        self.folder = world.root / "ssh"
        self.folder.mkdir(mode=0o700)
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            self.port: int = trial.getsockname()[1]
        for key in ("host", "client"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key)], check=True)
        names = [name for name in world.env if name.startswith(("OWNLAB_", "JUPYTER_", "IPYTHON"))]
        variables = " ".join(f'{name}="{world.env[name]}"' for name in names)
        (self.folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {self.folder}/host\nPidFile none\nStrictModes no\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/client.pub\nPasswordAuthentication no\nPermitRootLogin yes\nSetEnv {variables}\n"
        )
        host_key = (self.folder / "host.pub").read_text().rsplit(" ", 1)[0]
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host_key}\n")
        self.config = self.folder / "ssh_config"
        self.config.write_text(
            f"Host lab\n  HostName 127.0.0.1\n  Port {self.port}\n  User {getpass.getuser()}\n  BatchMode yes\n"
            f"  IdentityFile {self.folder}/client\n  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder}/known_hosts\n"
        )
        self.start()

    def start(self) -> None:
        command = [str(SSHD), "-D", "-e", "-f", str(self.folder / "sshd_config")]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def is_listening(self) -> bool:
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self.port)) == 0

    def cut(self) -> None:
        """End every connection, as a broken network does."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            if process.name().startswith("sshd"):
                process.kill()

    def stop(self) -> None:
        if self.process.poll() is not None:
            return
        self.cut()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(world: World) -> Iterator[SshServer]:
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("no sshd: `scripts/setup test` installs it")
    if os.geteuid() == 0:
        SEPARATION.mkdir(mode=0o755, exist_ok=True)
    started = SshServer(world)
    try:
        world.until(started.is_listening)
        yield started
    finally:
        started.stop()


def connect(world: World, server: SshServer, *arguments: str) -> subprocess.Popen[str]:
    program = str(Path(sys.executable).with_name("ownlab"))
    return world.start("connect", "lab", *arguments, "--ssh-config", str(server.config), "--ownlab", program, "--json")


def read_document(process: subprocess.Popen[str]) -> Any:
    """Return the JSON document that was printed; the process continues."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.rstrip() == "}":
            break
    assert lines, process.communicate()
    return json.loads("".join(lines))


def wait_for_line(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        if words in line:
            return seen
    raise AssertionError(seen)


def status_of(lab: dict[str, Any]) -> int:
    request = urllib.request.Request(f"{lab['url']}api/status", headers={"Authorization": f"token {lab['token']}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        status: int = answer.status
        return status


def command_lines() -> str:
    return "\n".join(" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


@pytest.mark.timeout(400)
def test_a_lab_is_started_survives_a_cut_and_stays(world: World, server: SshServer, valid: Any) -> None:
    process = connect(world, server, str(world.folder))
    try:
        lab = read_document(process)
        valid(json.dumps(lab), "connect")
        assert lab["folder"] == str(world.folder)
        assert status_of(lab) == 200
        assert lab["token"] not in command_lines()
        before = world.lab()
        server.stop()  # no connection is possible for a while
        wait_for_line(process, "The connection to lab is down. The lab there keeps running.")
        server.start()
        wait_for_line(process, "Connected again")
        assert status_of(lab) == 200  # at the same address
        server.cut()
        assert lab["token"] not in wait_for_line(process, "Connected again")
        assert status_of(lab) == 200
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        assert (process.returncode, stdout) == (0, "")
        assert "The lab keeps running on lab. Stop it: ssh" in stderr
        assert lab["token"] not in stderr + (server.folder / "log").read_text()
    finally:
        process.kill()
        process.wait()
    after = world.lab()
    assert (after["pid"], after["state"]) == (before["pid"], "ready")
    with pytest.raises(OSError):
        status_of(lab)  # the tunnel is gone
    assert str(server.config) not in command_lines()


@pytest.mark.timeout(300)
def test_a_running_lab_is_found_and_no_tunnel_is_left_when_we_are_killed(world: World, server: SshServer) -> None:
    assert world.run("up", "work", "--detach", "--no-browser").returncode == 0
    process = connect(world, server)
    try:
        lab = read_document(process)
        assert (lab["folder"], lab["token"]) == (str(world.folder), world.lab()["token"])
    finally:
        process.kill()
        process.communicate()
    world.until(lambda: str(server.config) not in command_lines())
    assert world.lab()["state"] == "ready"


def test_what_is_missing_is_explained(world: World, server: SshServer) -> None:
    options = ("--ssh-config", str(server.config))
    ran = world.run("connect", "lab", *options, "--ownlab", "no-such-program")
    assert ran.returncode == 3
    assert "no-such-program is not on the PATH of lab." in ran.stderr
    assert "Install ownlab there" in ran.stderr
    program = str(Path(sys.executable).with_name("ownlab"))
    ran = world.run("connect", "lab", "/no/such/folder", *options, "--ownlab", program)
    assert ran.returncode == 3
    assert "/no/such/folder does not exist" in ran.stderr
    server.stop()
    ran = world.run("connect", "lab", *options)
    assert ran.returncode == 3
    assert "lab cannot be reached over ssh." in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("name", ["", "-oProxyCommand=touch /tmp/x", "a b"])
def test_a_destination_is_never_an_option_of_ssh(world: World, name: str) -> None:
    ran = world.run("connect", "--", name)
    assert ran.returncode == 2
    assert "is not a destination of ssh" in ran.stderr


def test_commands_for_people_name_the_same_machine() -> None:
    assert (
        SshTarget("ann@lab", 2222).command("ownlab down 'a b'")
        == """ssh -p 2222 -t ann@lab 'ownlab down '"'"'a b'"'"''"""
    )
