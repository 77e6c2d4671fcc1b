"""Kaggle, from a stand-in of its public API: data sets, competitions, tokens from every place, refusals."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.instruments.data.file_server import FileServer, serve_files

from ownlab.errors import InputError, UsageError
from ownlab.instruments.data.download import kaggle
from ownlab.instruments.data.download.connection import Client
from ownlab.instruments.data.download.credentials import CredentialStore
from ownlab.instruments.data.download.downloader import Downloader
from ownlab.instruments.data.download.kaggle import KaggleSource, parse
from ownlab.instruments.data.download.records import Collection, FileReport
from ownlab.instruments.data.download.sources import SOURCES, Context, resolve
from ownlab.instruments.data.download.target import Target
from ownlab.instruments.data.download.transfer import TransferOptions

TOKEN = "KGAT_0123456789abcdef"
CONTENT = bytes(range(256)) * 8000


@pytest.fixture
def api() -> Iterator[FileServer]:
    with serve_files() as server:
        yield server


@pytest.fixture
def storage() -> Iterator[FileServer]:
    """Where Kaggle's answers lead to: another server, which must not see the token."""
    with serve_files() as server:
        yield server


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"OWNLAB_HOME": str(tmp_path / "home"), "NETRC": str(tmp_path / "none"), "HOME": str(tmp_path), **more}


def offer(api: FileServer, storage: FileServer, version: int = 3) -> None:
    """A public data set, as a redirect to storage."""
    api.put(
        "/api/v1/datasets/view/ann/birds", json.dumps({"ref": "ann/birds", "currentVersionNumber": version}).encode()
    )
    archive = storage.put("/archive.zip?signature=secret", CONTENT)
    for wanted in (1, version):
        api.put(f"/api/v1/datasets/download/ann/birds?datasetVersionNumber={wanted}", b"", redirect=archive)


def fetch(
    api: FileServer, tmp_path: Path, argument: str, environ: dict[str, str] | None = None
) -> tuple[Collection, list[FileReport], list[InputError]]:
    credentials = CredentialStore(environ or environment(tmp_path))
    client = Client(credentials)
    try:
        collection = kaggle.resolve(argument, Context(client, credentials), api.url)
    finally:
        client.close()
    target = Target(tmp_path / "data")
    target.manifest.load()
    options = TransferOptions(connections=2, attempts=2, backoff=0.01)
    reports, errors = Downloader(collection.files, target, credentials, options).run(lambda progress: None)
    target.manifest.save((collection.source,))
    return collection, reports, errors


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("kaggle://datasets/ann/birds", KaggleSource("datasets", "ann/birds")),
        ("kaggle://ann/birds", KaggleSource("datasets", "ann/birds")),
        ("kaggle://datasets/ann/birds@7/a/b.csv", KaggleSource("datasets", "ann/birds", "7", "a/b.csv")),
        ("https://www.kaggle.com/datasets/ann/birds/data", KaggleSource("datasets", "ann/birds")),
        ("kaggle.com/datasets/ann/birds/versions/2", KaggleSource("datasets", "ann/birds", "2")),
        ("https://kaggle.com/datasets/ann/birds?select=b.csv", KaggleSource("datasets", "ann/birds", "", "b.csv")),
        ("https://www.kaggle.com/competitions/titanic/overview", KaggleSource("competitions", "titanic")),
        ("https://www.kaggle.com/c/titanic", KaggleSource("competitions", "titanic")),
        ("kaggle://competitions/titanic/train.csv", KaggleSource("competitions", "titanic", "", "train.csv")),
    ],
)
def test_every_way_to_write_it(argument: str, expected: KaggleSource) -> None:
    assert parse(argument) == expected


@pytest.mark.parametrize(
    "argument",
    [
        "kaggle://",
        "kaggle://datasets/ann",
        "kaggle://ann/birds@new",
        "kaggle://competitions",
        "kaggle://a/b/../c",
        "kaggle://x y/z",
    ],
)
def test_what_names_nothing(argument: str) -> None:
    with pytest.raises((UsageError, InputError)):
        parse(argument)


def test_the_table_of_sources_knows_it(tmp_path: Path) -> None:
    credentials = CredentialStore(environment(tmp_path))
    with pytest.raises(UsageError, match="no data set of Kaggle"):
        resolve("kaggle://nothing", Context(Client(credentials), credentials))
    assert "Kaggle" in SOURCES


def test_a_public_data_set_without_an_account(api: FileServer, storage: FileServer, tmp_path: Path) -> None:
    offer(api, storage)
    collection, (report,), errors = fetch(api, tmp_path, "kaggle://datasets/ann/birds")
    assert (errors, collection.revision, report.path) == ([], "3", "birds.zip")
    assert (tmp_path / "data" / "birds.zip").read_bytes() == CONTENT
    assert all("authorization" not in request.headers for request in api.seen + storage.seen)
    sent = storage.bodies("/archive.zip?signature=secret")
    _, (again,), _ = fetch(api, tmp_path, "https://www.kaggle.com/datasets/ann/birds")
    assert (again.state, storage.bodies("/archive.zip?signature=secret")) == ("unchanged", sent)
    _, (older,), _ = fetch(api, tmp_path, "kaggle://datasets/ann/birds@1")
    assert older.state == "unchanged"
    assert "secret" not in (tmp_path / "data/.ownlab-data/manifest.json").read_text()


def places(tmp_path: Path, where: str) -> dict[str, str]:
    """Put a token where one of Kaggle's tools would look for it."""
    environ = environment(tmp_path)
    folder = tmp_path / ".kaggle"
    folder.mkdir()
    if where == "variable":
        environ["KAGGLE_API_TOKEN"] = TOKEN
    elif where == "user and key":
        environ |= {"KAGGLE_USERNAME": "ann", "KAGGLE_KEY": "0123"}
    elif where == "access_token":
        (folder / "access_token").write_text(f"{TOKEN}\n")
    elif where == "kaggle.json":
        (folder / "kaggle.json").write_text('{"username": "ann", "key": "0123"}')
    elif where == "new kaggle.json":
        (folder / "kaggle.json").write_text(json.dumps({"username": "ann", "key": TOKEN}))
    elif where == "KAGGLE_CONFIG_DIR":
        (tmp_path / "kaggle.json").write_text('{"username": "ann", "key": "0123"}')
        environ["KAGGLE_CONFIG_DIR"] = str(tmp_path)
    return environ


@pytest.mark.parametrize(
    "where", ["variable", "user and key", "access_token", "kaggle.json", "new kaggle.json", "KAGGLE_CONFIG_DIR"]
)
def test_the_token_reaches_kaggle_and_nobody_else(
    api: FileServer, storage: FileServer, tmp_path: Path, where: str
) -> None:
    environ = places(tmp_path, where)
    api.put("/api/v1/competitions/data/list/titanic", b'{"files": []}')
    archive = storage.put("/titanic.zip", CONTENT)
    api.put("/api/v1/competitions/data/download-all/titanic", b"", redirect=archive)
    _, (report,), errors = fetch(api, tmp_path, "kaggle://competitions/titanic", environ)
    assert (errors, report.path) == ([], "titanic.zip")
    old = where in ("user and key", "kaggle.json", "KAGGLE_CONFIG_DIR")
    expected = "Basic " + b64encode(b"ann:0123").decode() if old else f"Bearer {TOKEN}"
    assert {request.headers.get("authorization") for request in api.seen} == {expected}
    assert {request.headers.get("authorization") for request in storage.seen} == {None}
    kept = "".join(path.read_text() for path in (tmp_path / "data/.ownlab-data").iterdir() if path.is_file())
    assert TOKEN not in kept
    assert '0123"' not in kept


def test_one_file_is_named_by_the_server(api: FileServer, storage: FileServer, tmp_path: Path) -> None:
    offer(api, storage)
    target = storage.put("/x/big.csv.zip", b"PK")
    api.put("/api/v1/datasets/download/ann/birds/a%2Fbig.csv?datasetVersionNumber=3", b"", redirect=target)
    _, (report,), errors = fetch(api, tmp_path, "kaggle://datasets/ann/birds/a/big.csv")
    assert (errors, report.path) == ([], "big.csv.zip")


@pytest.mark.parametrize(
    ("status", "token", "message", "hint"),
    [
        (401, "", "needs an account", "secrets set KAGGLE_API_TOKEN"),
        (403, "", "needs an account", "secrets set KAGGLE_API_TOKEN"),
        (404, "", "needs an account", "secrets set KAGGLE_API_TOKEN"),
        (401, TOKEN, "refuses the token", "secrets set KAGGLE_API_TOKEN"),
        (403, TOKEN, "does not give", "https://www.kaggle.com/competitions/titanic/rules"),
        (404, TOKEN, "There is no kaggle://competitions/titanic", "address of its page"),
    ],
)
def test_refusals_are_explained(
    api: FileServer, tmp_path: Path, status: int, token: str, message: str, hint: str
) -> None:
    api.put("/api/v1/competitions/data/list/titanic", b"{}", status=lambda number: status)
    environ = environment(tmp_path, **({"KAGGLE_API_TOKEN": token} if token else {}))
    with pytest.raises(InputError, match=message) as refused:
        fetch(api, tmp_path, "kaggle://competitions/titanic", environ)
    assert hint in refused.value.hint
    assert TOKEN not in refused.value.message + refused.value.hint


def test_answers_and_files_that_make_no_sense(api: FileServer, tmp_path: Path) -> None:
    api.put("/api/v1/datasets/view/ann/birds", b"<html>proxy</html>")
    with pytest.raises(InputError, match="is not Kaggle"):
        fetch(api, tmp_path, "kaggle://ann/birds")
    (tmp_path / ".kaggle").mkdir()
    (tmp_path / ".kaggle" / "kaggle.json").write_text('{"user": 1}')
    with pytest.raises(InputError, match=r"kaggle\.json is no file of Kaggle"):
        fetch(api, tmp_path, "kaggle://ann/birds")
