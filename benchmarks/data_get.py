"""`ownlab data get` beside curl, aria2 and huggingface_hub: loopback, 1 Gbit/s with 50 ms, and many small files.

Ours always computes SHA-256; curl and aria2 compute nothing here. The server is one process for all of them.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.rows import row
from benchmarks.slow_link import slow_link

__all__ = ["data_get_rows"]

LOOPBACK_BYTES, LINK_BYTES = 1 << 30, 600 * 10**6
SMALL_FILES, SMALL_BYTES = 2000, 20_000
GIGABIT = 125e6
MANY = f"{SMALL_FILES} files of {SMALL_BYTES // 1000} kB"

# Sends the same bytes for every path. It forks: a server that is busy with one connection would decide the rates of several.
SERVER = """
import os, re, signal, socket, sys
size, data = int(sys.argv[2]), os.urandom(1 << 20)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listening = socket.create_server((sys.argv[1], int(sys.argv[3])), backlog=128)
print("ready", flush=True)
while True:
    connection, _ = listening.accept()
    if os.fork():
        connection.close()
        continue
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = connection.makefile("rb")
    while lines.readline():
        span = None
        while header := lines.readline().strip():
            if match := re.match(rb"(?i)range: bytes=(\\d+)-(\\d*)", header):
                span = int(match[1]), min(size - 1, int(match[2] or size - 1))
        first, last = span or (0, size - 1)
        left = last + 1 - first
        head = b"HTTP/1.1 %d OK\\r\\nETag: \\"1\\"\\r\\nAccept-Ranges: bytes\\r\\nContent-Length: %d\\r\\n" % (206 if span else 200, left)
        head += b"Content-Range: bytes %d-%d/%d\\r\\n" % (first, last, size) if span else b""
        try:
            connection.sendall(head + b"\\r\\n")
            while left > 0:
                left -= connection.send(memoryview(data)[: min(left, 1 << 20)])
        except OSError:
            break
    os._exit(0)
"""

# A stand-in of huggingface.co for one data set of small files, as huggingface_hub 2.4 and ownlab ask it.
HUB = """
import hashlib, json, os, signal, socket, sys
size, count, commit = int(sys.argv[2]), int(sys.argv[4]), "a" * 40
data = os.urandom(size)
oid = hashlib.sha1(b"blob %d\\0" % size + data).hexdigest()
listed = [{"type": "file", "path": f"data/{n}.bin", "size": size, "oid": oid} for n in range(count)]
info = {"_id": "1", "id": "me/set", "sha": commit, "private": False, "tags": [], "downloads": 0, "likes": 0, "siblings": []}
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listening = socket.create_server((sys.argv[1], int(sys.argv[3])), backlog=128)
print("ready", flush=True)
while True:
    connection, _ = listening.accept()
    if os.fork():
        connection.close()
        continue
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = connection.makefile("rb")
    while request := lines.readline():
        method, path = request.split()[:2]
        while lines.readline().strip():
            pass
        body, kind = (data, b"application/octet-stream") if b"/resolve/" in path else (b"", b"application/json")
        if b"/tree/" in path:
            body = json.dumps(listed).encode()
        elif b"/revision/" in path:
            body = json.dumps(info).encode()
        head = b"HTTP/1.1 200 OK\\r\\nContent-Type: %b\\r\\nX-Repo-Commit: %b\\r\\nContent-Length: %d\\r\\n" % (kind, commit.encode(), len(body))
        head += b'ETag: "%b"\\r\\n' % oid.encode() if kind.endswith(b"stream") else b""
        connection.sendall(head + b"\\r\\n" + (b"" if method == b"HEAD" else body))
    os._exit(0)
"""

SNAPSHOT = """
from huggingface_hub import snapshot_download
snapshot_download("me/set", repo_type="dataset", local_dir="out", max_workers=8)
"""
GDOWN = """
import sys, gdown
for number, address in enumerate(open(sys.argv[1])):
    gdown.download(address.strip(), f"{number}.bin", quiet=True)
"""


@contextmanager
def _server(prefix: list[str], address: str, size: int, code: str = SERVER) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*prefix, sys.executable, "-c", code, address, str(size), str(port), str(SMALL_FILES)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield f"http://{address}:{port}"
    finally:
        process.kill()
        process.communicate()


def _seconds(command: list[str], folder: Path, **more: str) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    begin = time.perf_counter()
    ran = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OWNLAB_HOME": str(folder / "home"), "HF_HOME": str(folder / "hf"), **more},
    )
    took = time.perf_counter() - begin
    if ran.returncode:
        raise SystemExit(f"{command} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return took


def _ours(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ownlab", "data", "get", "-o", "out", *arguments]


def _peers(address: str) -> dict[str, list[str]]:
    return {
        "curl": ["curl", "-s", "-o", "file", address],
        "aria2 (8 connections)": [
            "aria2c",
            "-q",
            "-x8",
            "-s8",
            "-k1M",
            "--file-allocation=none",
            "-o",
            "file",
            address,
        ],
    }


def data_get_rows(rounds: int) -> list[dict[str, Any]]:
    """Every pair of downloads. Needs curl and aria2c, and root for the slow link."""
    rounds = max(2, rounds // 3)
    rows = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name) / "work"
        with _server([], "127.0.0.1", LOOPBACK_BYTES) as address:
            for peer, command in _peers(f"{address}/file").items():
                pairs = [(_seconds(_ours(f"{address}/file"), folder), _seconds(command, folder)) for _ in range(rounds)]
                rows.append(row(f"1 GiB over loopback, with SHA-256; {peer} without", pairs, "stated"))
        with slow_link(GIGABIT, 0.05) as link, _server(link.server, link.address, LINK_BYTES) as address:
            for peer, command in _peers(f"{address}/file").items():
                pairs = [
                    (
                        _seconds([*link.client, *_ours(f"{address}/file")], folder),
                        _seconds([*link.client, *command], folder),
                    )
                    for _ in range(rounds)
                ]
                rows.append(row(f"600 MB at 1 Gbit/s and 50 ms; {peer}", pairs, "≤ 1.05"))
        rows += _small_files(rounds, folder, Path(name))
    return rows


def _small_files(rounds: int, folder: Path, above: Path) -> list[dict[str, Any]]:
    """Many small files: aria2 gets the same list."""
    with _server([], "127.0.0.1", SMALL_BYTES) as address:
        listed = above / "list.txt"
        listed.write_text("".join(f"{address}/{n}.bin\n  out={n}.bin\n" for n in range(SMALL_FILES)))
        theirs = ["aria2c", "-q", "-j8", "--file-allocation=none", "-i", str(listed)]
        pairs = [(_seconds(_ours(str(listed)), folder), _seconds(theirs, folder)) for _ in range(rounds)]
        rows = [row(f"{MANY} over loopback; aria2 with 8 at a time", pairs, "stated")]
        if python := os.environ.get("OWNLAB_DATA_PEERS"):
            plain = above / "addresses.txt"
            plain.write_text("".join(f"{address}/{n}.bin\n" for n in range(SMALL_FILES)))
            theirs = [python, "-c", GDOWN, str(plain)]
            pairs = [(_seconds(_ours(str(listed)), folder), _seconds(theirs, folder)) for _ in range(rounds)]
            rows.append(row(f"{MANY} over loopback; gdown, in one process", pairs, "≤ 1"))
            rows.append(_repository(rounds, folder, python))
    return rows


def _repository(rounds: int, folder: Path, python: str) -> dict[str, Any]:
    """A repository of small files. Both check what they got: ours git's SHA-1 of each file, theirs the size."""
    with _server([], "127.0.0.1", SMALL_BYTES, HUB) as address:
        hub = {"HF_ENDPOINT": address, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        ours, theirs = _ours("hf://datasets/me/set"), [python, "-c", SNAPSHOT]
        pairs = [(_seconds(ours, folder, **hub), _seconds(theirs, folder, **hub)) for _ in range(rounds)]
    return row(f"a repository of {MANY}; huggingface_hub with 8 workers", pairs, "≤ 1")
