"""Repositories of Hugging Face, from a stand-in of its API: its pages of lists, errors, redirects to a storage server."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from tests.instruments.data.file_server import FileServer, serve_files

from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab.instruments.data.download.huggingface import Repository, parse
from ownlab.instruments.data.download.pipeline import GetFailed, GetRequest, get
from ownlab.instruments.data.download.records import GetReport
from ownlab.instruments.data.download.transfer import TransferOptions
from ownlab.lab.secrets.store import set_secret

COMMIT = "a" * 40


class Hub(ThreadingHTTPServer):
    """Answers as huggingface.co does (huggingface_hub 2.4: list_repo_tree, hf_hub_url, hf_raise_for_status)."""

    daemon_threads = True

    def __init__(self, storage: FileServer) -> None:
        super().__init__(("127.0.0.1", 0), _Hub)
        self.storage = storage
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.files: dict[str, bytes] = {}
        self.large: set[str] = set()  # in git LFS, and so on the storage server
        self.seen: list[tuple[str, str]] = []
        self.error: tuple[int, str] | None = None
        self.page = 3
        self.wrong_size: set[str] = set()

    def entries(self, folder: str) -> list[dict[str, object]]:
        listed: list[dict[str, object]] = [{"type": "directory", "path": "data", "oid": "0" * 40, "size": 0}]
        for path, content in sorted(self.files.items()):
            if folder and not path.startswith(f"{folder}/"):
                continue
            size = len(content) + (path in self.wrong_size)
            entry: dict[str, object] = {"type": "file", "path": path, "size": size, "oid": blob(content)}
            if path in self.large:
                digest = hashlib.sha256(content).hexdigest()
                entry |= {
                    "oid": "b" * 40,
                    "lfs": {"oid": digest, "size": size, "pointerSize": 134},
                    "xetHash": "c" * 64,
                }
            listed.append(entry)
        return listed


def blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        hub = self.server
        assert isinstance(hub, Hub)
        parts = urlsplit(self.path)
        hub.seen.append((self.path, self.headers.get("Authorization", "")))
        path = unquote(parts.path)
        if hub.error is not None and path.startswith("/api/"):
            self._send(hub.error[0], b"{}", **{"X-Error-Code": hub.error[1]})
        elif path.startswith("/api/datasets/me/set/revision/"):
            self._send(200, json.dumps({"sha": COMMIT}).encode())
        elif match := re.fullmatch(rf"/api/datasets/me/set/tree/{COMMIT}(?:/(.*))?", path):
            self._tree(hub, match[1] or "", int(parse_qs(parts.query).get("cursor", ["0"])[0]))
        elif match := re.fullmatch(rf"/datasets/me/set/resolve/{COMMIT}/(.*)", path):
            self._resolve(hub, match[1])
        else:
            self._send(401, b"", **{"X-Error-Code": "RepoNotFound"})

    def _tree(self, hub: Hub, folder: str, start: int) -> None:
        entries = hub.entries(folder)
        if folder and len(entries) == 1:
            self._send(404, b"{}", **{"X-Error-Code": "EntryNotFound"})
            return
        page, headers = entries[start : start + hub.page], {}
        if start + hub.page < len(entries):
            query = f"recursive=true&expand=false&cursor={start + hub.page}"
            headers["Link"] = f'<{hub.url}{urlsplit(self.path).path}?{query}>; rel="next"'
        self._send(200, json.dumps(page).encode(), **headers)

    def _resolve(self, hub: Hub, path: str) -> None:
        content = hub.files[path]
        if path in hub.large:
            address = hub.storage.put(f"/{hashlib.sha256(content).hexdigest()}?X-Amz-Signature=SIGNED", content)
            self._send(302, b"", Location=address.replace("127.0.0.1", "localhost"))
        else:
            self._send(200, content, ETag=f'"{blob(content)}"')

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve_files() as storage, Hub(storage) as running:
        Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        for n in range(7):
            running.files[f"data/train-{n}.parquet"] = bytes([n]) * (1000 + n)
        running.files["data/large é.bin"] = bytes(range(256)) * 40_000
        running.files["README.md"] = b"# A data set\n"
        running.files["page.html"] = b"<!DOCTYPE html><html></html>"
        running.large = {"data/large é.bin", "data/train-0.parquet"}
        yield running
        running.shutdown()


def fetch(hub: Hub, tmp_path: Path, source: str = "hf://datasets/me/set", **request: object) -> GetReport:
    environ = {"OWNLAB_HOME": str(tmp_path / "home"), "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
    environ |= {"NETRC": str(tmp_path / "netrc"), "HF_TOKEN": str(request.pop("token", ""))}
    options = TransferOptions(connections=4, attempts=2, backoff=0.01)
    return get(GetRequest((source,), tmp_path / "data", options=options, **request), lambda progress: None, environ)  # type: ignore[arg-type]


def test_a_repository_arrives_with_every_file_checked(hub: Hub, tmp_path: Path) -> None:
    report = fetch(hub, tmp_path)
    for path, content in hub.files.items():
        assert (tmp_path / "data" / path).read_bytes() == content
    verified = {Path(file.path).name: file.verified for file in report.files}
    assert verified["large é.bin"] == verified["train-0.parquet"] == "sha256"
    assert verified["README.md"] == verified["page.html"] == "git"


def test_again_only_the_list_is_read(hub: Hub, tmp_path: Path) -> None:
    fetch(hub, tmp_path)
    hub.seen.clear()
    assert {file.state for file in fetch(hub, tmp_path).files} == {"unchanged"}
    assert all(path.startswith("/api/") for path, _ in hub.seen)
    hub.files["README.md"] = b"# Another text\n"
    hub.files["data/large é.bin"] = b"new" * 1000
    states = {Path(file.path).name: file.state for file in fetch(hub, tmp_path).files}
    assert [name for name, state in states.items() if state == "updated"] == ["README.md", "large é.bin"]
    assert (tmp_path / "data/README.md").read_bytes() == b"# Another text\n"


def test_patterns_choose_files(hub: Hub, tmp_path: Path) -> None:
    fetch(hub, tmp_path, include=("data/*.parquet",), exclude=("*-3.parquet",))
    assert sorted(path.name for path in (tmp_path / "data/data").iterdir()) == [
        f"train-{n}.parquet" for n in range(7) if n != 3
    ]


@pytest.mark.parametrize(
    "source", ["hf://datasets/me/set/README.md", "https://huggingface.co/datasets/me/set/blob/main/README.md"]
)
def test_a_single_file_goes_into_the_folder_itself(hub: Hub, tmp_path: Path, source: str) -> None:
    fetch(hub, tmp_path, source)
    assert (tmp_path / "data/README.md").read_bytes() == hub.files["README.md"]


def test_the_token_stays_at_its_server(hub: Hub, tmp_path: Path) -> None:
    fetch(hub, tmp_path, token="hf_TOKEN")
    assert {token for _, token in hub.seen} == {"Bearer hf_TOKEN"}
    assert hub.storage.seen
    assert not any("authorization" in request.headers for request in hub.storage.seen)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or not {b"hf_TOKEN", b"SIGNED"} & set(
            re.findall(rb"hf_TOKEN|SIGNED", path.read_bytes())
        )


def test_the_token_may_be_a_secret_of_ownlab(hub: Hub, tmp_path: Path) -> None:
    set_secret("HF_TOKEN", "hf_SECRET", {"OWNLAB_HOME": str(tmp_path / "home"), "PYTHON_KEYRING_BACKEND": "none"})
    fetch(hub, tmp_path)
    assert {token for _, token in hub.seen} == {"Bearer hf_SECRET"}


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (401, "RepoNotFound", "There is no repository hf://datasets/me/set"),
        (403, "GatedRepo", "is gated"),
        (404, "RevisionNotFound", "has no revision 'main'"),
        (401, "", "or it is private"),
    ],
)
def test_errors_of_the_api_are_explained(hub: Hub, tmp_path: Path, status: int, code: str, message: str) -> None:
    hub.error = (status, code)
    with pytest.raises(InputError, match=message):
        fetch(hub, tmp_path)


def test_a_wrong_size_in_the_list_is_noticed(hub: Hub, tmp_path: Path) -> None:
    hub.wrong_size = {"README.md"}
    with pytest.raises(GetFailed, match="13 bytes on the server, but 14 in its list"):
        fetch(hub, tmp_path)


@pytest.mark.parametrize(
    "path", ["../evil", "/etc/evil", "a/../../evil", ".ownlab-data/manifest.json", "a\nb", "x" * 300]
)
def test_paths_that_escape_are_refused(hub: Hub, tmp_path: Path, path: str) -> None:
    hub.files[path] = b"evil"
    with pytest.raises(InputError, match="not a safe path"):
        fetch(hub, tmp_path)
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("argument", "repository"),
    [
        ("hf://datasets/a/b", Repository("datasets", "a/b")),
        ("hf://a/b", Repository("models", "a/b")),
        ("hf://gpt2", Repository("models", "gpt2")),
        ("hf://datasets/a/b@v1.0/x/y.zip", Repository("datasets", "a/b", "v1.0", "x/y.zip")),
        ("hf://datasets/a/b@refs%2Fpr%2F1", Repository("datasets", "a/b", "refs/pr/1")),
        ("https://huggingface.co/a/b", Repository("models", "a/b")),
        ("https://huggingface.co/datasets/a/b/tree/main/x", Repository("datasets", "a/b", "main", "x")),
        (
            "https://huggingface.co/datasets/Roh/ryanspeech/resolve/main/data/train.tar.gz",
            Repository("datasets", "Roh/ryanspeech", "main", "data/train.tar.gz"),
        ),
        ("huggingface.co/datasets/a/b/viewer/default/train", Repository("datasets", "a/b")),
        ("https://hf.co/gpt2/resolve/main/config.json", Repository("models", "gpt2", "main", "config.json")),
    ],
)
def test_addresses_of_repositories(argument: str, repository: Repository) -> None:
    assert parse(argument) == repository


@pytest.mark.parametrize("argument", ["hf://", "hf://datasets", "hf://../..", "https://huggingface.co/", "hf://a b/c"])
def test_wrong_addresses(argument: str) -> None:
    with pytest.raises(UsageError):
        parse(argument)


@pytest.mark.parametrize("answer", [b"", b"<html>", b'{"sha":5}', b'{"sha":"../.."}', b"\xff"])
def test_a_server_that_is_no_hub(tmp_path: Path, answer: bytes) -> None:
    with serve_files() as server:
        server.put("/api/datasets/me/set/revision/main", answer)
        environ = {"OWNLAB_HOME": str(tmp_path / "home"), "HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path)}
        with pytest.raises(OwnlabError):
            get(GetRequest(("hf://datasets/me/set",), tmp_path), lambda progress: None, environ)
