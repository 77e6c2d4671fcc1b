"""Remotes of the program rclone: `rclone:REMOTE:PATH`, for the seventy kinds of storage that it knows.

rclone lists what there is, with MD5 sums where the storage has them, and serves it on a port of this machine with a password of its own.
The files are then downloaded like any other: a file that was interrupted continues, which rclone's own copy does not do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn
from urllib.parse import quote

import msgspec

from ownlab.errors import InputError, UsageError
from ownlab.instruments.data.download.connection import Transient
from ownlab.instruments.data.download.credentials import basic
from ownlab.instruments.data.download.names import check_relative_path
from ownlab.instruments.data.download.records import Collection, RemoteFile
from ownlab.instruments.data.download.sources import Context
from ownlab.json_encoding import decode_json
from ownlab.text import text

__all__ = ["resolve"]

_PREFIX = "rclone:"
_LIST_SECONDS = 3600  # a folder of a million files, at a storage that is asked page by page
_START_SECONDS = 60.0
_ATTEMPTS = 5
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class _Entry(msgspec.Struct):
    """A file or a folder, as `rclone lsjson` prints it."""

    Path: str
    Size: int
    IsDir: bool = False
    Hashes: dict[str, str] = msgspec.field(default_factory=dict)


class _Features(msgspec.Struct):
    Features: dict[str, bool | None]


def resolve(argument: str, context: Context) -> Collection:
    """List the files of a remote, and serve them until the download has ended. Raises InputError."""
    remote = argument[len(_PREFIX) :].strip()
    if ":" not in remote or remote.startswith("-"):
        raise UsageError(
            text("{argument!r} names no remote of rclone.", argument=argument[:200]),
            hint=text("Write rclone:REMOTE:PATH; `rclone listremotes` lists the remotes."),
        )
    if shutil.which("rclone") is None:
        raise InputError(
            text("This source needs the program rclone, which is not installed."),
            hint=text(
                "Install it: apt install rclone (https://rclone.org/install), then set up the remote: rclone config"
            ),
        )
    environ = context.credentials.environ
    found = decode_json(_ask(["lsjson", "--stat", remote], remote, environ), _Entry)
    single = not found.IsDir
    folder = (remote.rpartition("/")[0] or remote.partition(":")[0] + ":") if single else remote
    entries = [found] if single else _listed(remote, environ)
    wanted = [entry for entry in entries if not entry.IsDir and context.wants(entry.Path)]
    if not wanted:
        raise InputError(
            text("There is nothing at {source}.", source=argument),
            hint=text("Check the path, and the patterns of --include and --exclude."),
        )
    server = _serve(folder, context)
    base = _PREFIX + (folder if folder.endswith((":", "/")) else f"{folder}/")
    files = tuple(_remote_file(entry, server, base) for entry in wanted)
    name = remote.rstrip("/").rpartition("/")[2].rpartition(":")[2] or remote.partition(":")[0]
    return Collection(argument, files, name="" if single else name)


def _remote_file(entry: _Entry, server: str, base: str) -> RemoteFile:
    return RemoteFile(
        url=f"{server}/{quote(entry.Path)}",
        label=base + entry.Path,
        path=check_relative_path(entry.Path),
        size=entry.Size if entry.Size >= 0 else None,  # documents of Drive have none
        md5=entry.Hashes.get("md5", ""),
        html=True,
    )


def _listed(remote: str, environ: Mapping[str, str]) -> list[_Entry]:
    features = decode_json(_ask(["backend", "features", remote], remote, environ), _Features).Features
    # Where a sum means reading every file (a disk, sftp), the download itself is as good.
    sums = [] if features.get("SlowHash") or features.get("IsLocal") else ["--hash", "--hash-type", "md5"]
    command = ["lsjson", "--recursive", "--files-only", *sums, remote]
    return decode_json(_ask(command, remote, environ), list[_Entry])


def _ask(command: list[str], remote: str, environ: Mapping[str, str]) -> bytes:
    try:
        ran = subprocess.run(
            ["rclone", *command],
            stdin=subprocess.DEVNULL,  # it would ask for the password of its configuration
            capture_output=True,
            timeout=_LIST_SECONDS,
            env=dict(environ),
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise InputError(text("rclone has not listed {remote} in {n} s.", remote=remote, n=_LIST_SECONDS)) from exc
    if ran.returncode:
        _explain(ran.stderr, remote)
    return ran.stdout


def _explain(stderr: bytes, remote: str) -> NoReturn:
    lines = stderr.decode(errors="replace").strip().splitlines() or [""]
    said = lines[-1].split(" ", 2)[-1] if lines[-1][:2] == "20" else lines[-1]  # without date and time
    if "didn't find section" in said:
        raise InputError(
            text("rclone has no remote {remote}.", remote=remote.partition(":")[0]),
            hint=text("Set it up: rclone config. `rclone listremotes` lists what there is."),
        )
    raise InputError(
        text("rclone cannot read {remote}: {error}", remote=remote, error=said[:400]),
        hint=text(
            "Try it alone: rclone ls {remote}. A protected configuration needs RCLONE_CONFIG_PASS.", remote=remote
        ),
    )


# --- serving ----------------------------------------------------------------------------------------------------------


def _serve(folder: str, context: Context) -> str:
    """Start a server for a folder of the remote; return its address. It ends with the download, however that ends."""
    assert context.resources is not None  # `get` gives one
    libc = ctypes.CDLL(None)  # loaded here: between fork and exec nothing may be
    password = secrets.token_urlsafe(24)
    environ = {**context.credentials.environ, "RCLONE_USER": "ownlab", "RCLONE_PASS": password}
    for _ in range(_ATTEMPTS):
        port = _free_port()
        process = subprocess.Popen(
            ["rclone", "serve", "http", "--read-only", "--addr", f"127.0.0.1:{port}", folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environ,
            preexec_fn=partial(_end_with_parent, libc, os.getpid()),
        )
        context.resources.callback(_end, process)
        url = f"http://127.0.0.1:{port}"
        context.credentials.allow(url, basic("ownlab", password))
        if _answers(url, context, process):
            return url
    raise InputError(text("rclone does not serve {folder}.", folder=folder), hint=text("Update it: rclone selfupdate"))


def _answers(url: str, context: Context, process: subprocess.Popen[bytes]) -> bool:
    """Wait until it serves. False if it ended, for instance because another program took the port."""
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(Transient), context.client.get(f"{url}/") as response:
            return response.status < 400 and response.headers.get("Server", "").startswith("rclone")
        time.sleep(0.05)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end_with_parent(libc: Any, parent: int) -> None:
    """Let the server end if this process is killed. Called in the child, before it becomes rclone."""
    if sys.platform == "linux":
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
