"""Object storage: a real server that speaks S3 (moto), and the addresses that are signed for Google Cloud and Azure."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import obstore
import pytest

from ownlab.errors import InputError, UsageError
from ownlab.instruments.data.download import object_storage
from ownlab.instruments.data.download.connection import Client
from ownlab.instruments.data.download.credentials import CredentialStore
from ownlab.instruments.data.download.pipeline import GetFailed, GetRequest, get
from ownlab.instruments.data.download.records import GetReport
from ownlab.instruments.data.download.sources import Context

KEY, SECRET = "AKIAEXAMPLE0123", "wJalrXUtnFEMI/K7MDENG"
FILES = {
    "train/cat/1.jpg": b"\xff\xd8" + bytes(range(256)) * 40_000,
    "train/dog/ein Hund — 犬.jpg": b"\xff\xd8" + bytes(range(255)) * 100,
    "train/empty.txt": b"",
    "train.csv": b"a,b\n",
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server, with a bucket."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        found = next((match for line in process.stderr if (match := re.search(r"Running on (http://\S+)", line))), None)
        assert found is not None
        try:
            client = storage(found[1])
            client.create_bucket(Bucket="photos")
            for name, content in FILES.items():
                client.put_object(Bucket="photos", Key=name, Body=content, ACL="public-read")
            client.put_object(Bucket="photos", Key="train/cat/", Body=b"")  # as consoles show a folder
            yield found[1]
        finally:
            process.kill()


def storage(url: str) -> Any:
    return boto3.client(
        "s3", endpoint_url=url, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1"
    )


def environment(tmp_path: Path, server: str, **more: str) -> dict[str, str]:
    places = {"OWNLAB_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "NETRC": str(tmp_path / "none")}
    return {**places, "AWS_ENDPOINT_URL": server, **more}


def signed(tmp_path: Path, server: str) -> dict[str, str]:
    return environment(tmp_path, server, AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)


def fetch(tmp_path: Path, source: str, environ: dict[str, str], **request: Any) -> GetReport:
    return get(GetRequest([source], tmp_path / "data", **request), lambda progress: None, environ)


def here(tmp_path: Path) -> dict[str, bytes]:
    folder = tmp_path / "data"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".ownlab-data" not in path.parts
    }


def test_a_folder_of_a_bucket(server: str, tmp_path: Path) -> None:
    report = fetch(tmp_path, "s3://photos/train/", signed(tmp_path, server))
    assert here(tmp_path) == {
        name.removeprefix("train/"): content for name, content in FILES.items() if name.startswith("train/")
    }
    assert {each.source for each in report.files} == {f"s3://photos/{name}" for name in FILES if "/" in name}
    again = fetch(tmp_path, "s3://photos/train", signed(tmp_path, server))
    assert ({each.state for each in again.files}, again.transferred) == ({"unchanged"}, 0)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data/.ownlab-data").rglob("*") if path.is_file())
    assert not [secret for secret in (KEY, SECRET, "X-Amz") if secret.encode() in kept]


def test_one_object_and_its_change(server: str, tmp_path: Path) -> None:
    storage(server).put_object(Bucket="photos", Key="changing.bin", Body=b"first")
    (first,) = fetch(tmp_path, "s3://photos/changing.bin", signed(tmp_path, server)).files
    assert (first.path, first.state) == (str(tmp_path / "data" / "changing.bin"), "downloaded")
    storage(server).put_object(Bucket="photos", Key="changing.bin", Body=b"second")
    (second,) = fetch(tmp_path, "s3://photos/changing.bin", signed(tmp_path, server)).files
    assert (second.state, here(tmp_path)) == ("updated", {"changing.bin": b"second"})


def test_patterns(server: str, tmp_path: Path) -> None:
    fetch(tmp_path, "s3://photos/train", signed(tmp_path, server), include=("*.jpg",), exclude=("dog/*",))
    assert list(here(tmp_path)) == ["cat/1.jpg"]
    with pytest.raises(InputError, match="There is nothing"):
        fetch(tmp_path, "s3://photos/train", signed(tmp_path, server), include=("*.png",))


def test_a_public_bucket_needs_no_keys(server: str, tmp_path: Path) -> None:
    fetch(tmp_path, "s3://photos/train", environment(tmp_path, server))
    assert len(here(tmp_path)) == 3


def test_keys_of_the_aws_command_line(server: str, tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        f"[default]\naws_access_key_id = wrong\n[work]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    )
    environ = environment(tmp_path, server, AWS_PROFILE="work")
    assert object_storage._aws_keys(environ) == {"access_key_id": KEY, "secret_access_key": SECRET}
    assert object_storage._aws_keys(environment(tmp_path, server)) == {}
    fetch(tmp_path, "s3://photos/train.csv", environ)
    assert here(tmp_path) == {"train.csv": b"a,b\n"}


def test_what_is_not_there(server: str, tmp_path: Path) -> None:
    for source, message in (("s3://nobody", "There is no s3://nobody"), ("s3://photos/nothing", "There is nothing")):
        with pytest.raises(InputError, match=message) as missing:
            fetch(tmp_path, source, signed(tmp_path, server))
        assert "Debug source" not in missing.value.message
    with pytest.raises(UsageError, match="names no bucket"):
        fetch(tmp_path, "s3://", signed(tmp_path, server))
    with pytest.raises(InputError, match="cannot be read"):
        fetch(tmp_path, "s3://photos/train", signed(tmp_path, "http://127.0.0.1:9"))


def test_names_that_are_no_safe_paths(server: str, tmp_path: Path) -> None:
    client = storage(server)
    client.create_bucket(Bucket="hostile")
    client.put_object(Bucket="hostile", Key="a/../../evil", Body=b"x")
    with pytest.raises((InputError, GetFailed)):
        fetch(tmp_path, "s3://hostile", signed(tmp_path, server))
    assert not (tmp_path / "evil").exists()
    assert here(tmp_path) == {}


def test_without_the_library(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(InputError, match="library obstore") as missing:
        fetch(tmp_path, "s3://photos/train", signed(tmp_path, server))
    assert "pip install 'ownlab[cloud]'" in missing.value.hint


def opened(scheme: str, tmp_path: Path, **environ: str) -> object_storage.Bucket:
    credentials = CredentialStore({"OWNLAB_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), **environ})
    return object_storage._OPEN[scheme]("photos", Context(Client(credentials), credentials))


def test_addresses_of_azure(tmp_path: Path) -> None:
    """Signing needs no server."""
    objects = [object_storage._Object("a b/1.jpg", 3)]
    key = b64encode(b"0" * 32).decode()
    bucket = opened("az", tmp_path, AZURE_STORAGE_ACCOUNT_NAME="ann", AZURE_STORAGE_ACCOUNT_KEY=key)
    (url,) = object_storage._addresses(obstore, bucket, objects)
    assert url.startswith("https://ann.blob.core.windows.net/photos/a%20b/1.jpg?")
    assert "sig=" in url
    bucket = opened("az", tmp_path, AZURE_STORAGE_ACCOUNT="ann")
    assert list(object_storage._addresses(obstore, bucket, objects)) == [
        "https://ann.blob.core.windows.net/photos/a%20b/1.jpg"
    ]
    with pytest.raises(InputError, match="Whose container"):
        opened("az", tmp_path)


def test_addresses_of_google(tmp_path: Path) -> None:
    bucket = opened("gs", tmp_path)
    (url,) = object_storage._addresses(obstore, bucket, [object_storage._Object("a b/1.jpg", 3)])
    assert url == "https://storage.googleapis.com/photos/a%20b/1.jpg"
