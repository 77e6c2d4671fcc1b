"""Object storage: `s3://BUCKET/PATH`, `gs://BUCKET/PATH`, `az://CONTAINER/PATH`, by the library obstore (an extra).

obstore lists what there is and signs an address for each object; the addresses are then downloaded like any other, in segments
that are resumed. Without credentials the bucket is taken for a public one. Object storage that speaks S3 is named by AWS_ENDPOINT_URL.
"""

from __future__ import annotations

import configparser
import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote, unquote, urlsplit

from ownlab.errors import InputError, UsageError
from ownlab.instruments.data.download.connection import Transient
from ownlab.instruments.data.download.credentials import find_token
from ownlab.instruments.data.download.names import check_relative_path
from ownlab.instruments.data.download.records import Collection, RemoteFile
from ownlab.instruments.data.download.sources import Context
from ownlab.text import text

__all__ = ["Bucket", "resolve"]

_VALID = timedelta(hours=12)  # of a signed address; S3 allows seven days
_SIGNED_AT_ONCE = 1000
_RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
_CLIENT = {"timeout": timedelta(seconds=30), "connect_timeout": timedelta(seconds=10)}
_REGION = "us-east-1"  # where S3 answers for every bucket, with the region that it is in


class Bucket(NamedTuple):
    """A bucket as it is asked for."""

    store: Any  # of obstore
    public: str  # the address that the objects of a public one are below; "": addresses are signed


class _Object(NamedTuple):
    path: str
    size: int


def resolve(argument: str, context: Context) -> Collection:
    """List the objects behind an address. Raises InputError."""
    obstore = _obstore()
    parts = urlsplit(argument)
    scheme, name, path = parts.scheme.lower(), parts.netloc, unquote(parts.path).strip("/")
    if not re.fullmatch(r"[\w.-]{1,255}", name):
        raise UsageError(text("{argument!r} names no bucket.", argument=argument[:200]))
    label = f"{scheme}://{name}" + (f"/{path}" if path else "")
    try:
        bucket = _OPEN[scheme](name, context)
        listed = _without_folders(_objects(obstore, bucket.store, path))
        objects = [found for found in listed if context.wants(_below(found.path, path))]
        if not objects:
            raise InputError(
                text("There is nothing at {address}.", address=label),
                hint=text("Check the path, and the patterns of --include and --exclude."),
            )
        urls = list(_addresses(obstore, bucket, objects))
    except (obstore.exceptions.BaseError, OSError, ValueError) as exc:
        _explain(exc, label)
    single = len(objects) == 1 and objects[0].path == path
    files = tuple(
        RemoteFile(
            url=url,
            label=f"{scheme}://{name}/{found.path}",
            path=check_relative_path(_below(found.path, path)),
            size=found.size,
            html=True,  # a bucket may contain web pages; its errors are XML with a status
        )
        for url, found in zip(urls, objects, strict=True)
    )
    return Collection(label, files, name="" if single else (path or name).rpartition("/")[2])


def _obstore() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as exc:
        raise InputError(
            text("Object storage (s3, gs, az) is read with the library obstore, which is not installed."),
            hint=text("Install it beside ownlab: pip install 'ownlab[cloud]'"),
        ) from exc
    return obstore


def _below(path: str, folder: str) -> str:
    """Return the path of an object below the folder that was named; of that object itself, its name."""
    return path.rpartition("/")[2] if path == folder else path.removeprefix(f"{folder}/" if folder else "")


def _objects(obstore: Any, store: Any, path: str) -> Iterator[_Object]:
    """Yield one object, or all below a path."""
    if path:
        with contextlib.suppress(FileNotFoundError):
            found = obstore.head(store, path)
            yield _Object(found["path"], found["size"])
            return
    for page in obstore.list(store, path or None):
        for found in page:
            yield _Object(found["path"], found["size"])


def _without_folders(objects: Iterable[_Object]) -> list[_Object]:
    """Leave out the empty objects that consoles make to show a folder."""
    listed = list(objects)
    folders: set[str] = set()
    for found in listed:
        folder = found.path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return [found for found in listed if found.size or found.path not in folders]


def _addresses(obstore: Any, bucket: Bucket, objects: list[_Object]) -> Iterator[str]:
    paths = iter(found.path for found in objects)
    while group := list(islice(paths, _SIGNED_AT_ONCE)):
        if bucket.public:
            yield from (f"{bucket.public}/{quote(path)}" for path in group)
        else:
            yield from obstore.sign(bucket.store, "GET", group, _VALID)


# --- S3 ---------------------------------------------------------------------------------------------------------------


def _open_s3(name: str, context: Context) -> Bucket:
    from obstore.store import S3Store

    environ = context.credentials.environ
    endpoint = (environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or "").rstrip("/")
    keys = _aws_keys(environ)
    region = (
        environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or _REGION
        if endpoint
        else _aws_region(name, context)
    )
    config: dict[str, Any] = {"region": region, **({"endpoint": endpoint} if endpoint else {}), **keys}
    if not keys:
        config["skip_signature"] = True
    client: Any = {**_CLIENT, "allow_http": endpoint.startswith("http:")}
    store = S3Store(name, client_options=client, retry_config=_RETRIES, **config)  # type: ignore[arg-type]
    host = f"{endpoint}/{name}" if endpoint else f"https://s3.{region}.amazonaws.com/{name}"
    return Bucket(store, "" if keys else host)


def _aws_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return keys from the environment, else from the secrets, else from the files of the AWS command line."""
    identifier = find_token("AWS_ACCESS_KEY_ID", ("AWS_ACCESS_KEY_ID",), (), environ)
    secret = find_token("AWS_SECRET_ACCESS_KEY", ("AWS_SECRET_ACCESS_KEY",), (), environ)
    session = environ.get("AWS_SESSION_TOKEN", "").strip()
    if not (identifier and secret):
        file = (
            environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path(environ.get("HOME") or Path.home()) / ".aws/credentials"
        )
        profile = environ.get("AWS_PROFILE") or "default"
        parser = configparser.ConfigParser(interpolation=None)
        with contextlib.suppress(configparser.Error, OSError, UnicodeDecodeError):
            parser.read(file, encoding="utf-8")
        identifier = parser.get(profile, "aws_access_key_id", fallback="")
        secret = parser.get(profile, "aws_secret_access_key", fallback="")
        session = parser.get(profile, "aws_session_token", fallback="")
    if not (identifier and secret):
        return {}
    return {"access_key_id": identifier, "secret_access_key": secret, **({"session_token": session} if session else {})}


def _aws_region(name: str, context: Context) -> str:
    """Ask S3 where a bucket is: every answer says so, refusals too."""
    with (
        contextlib.suppress(Transient, InputError),
        context.client.get(f"https://s3.{_REGION}.amazonaws.com/{name}?list-type=2&max-keys=0") as response,
    ):
        return response.headers.get("x-amz-bucket-region") or _REGION
    return context.credentials.environ.get("AWS_REGION") or _REGION


# --- Google Cloud, Azure ----------------------------------------------------------------------------------------------


def _open_gcs(name: str, context: Context) -> Bucket:
    from obstore.store import GCSStore

    environ = context.credentials.environ
    key = environ.get("GOOGLE_APPLICATION_CREDENTIALS") or environ.get("GOOGLE_SERVICE_ACCOUNT") or ""
    config: dict[str, Any] = {"service_account": key} if key else {"skip_signature": True}
    store = GCSStore(name, client_options=_CLIENT, retry_config=_RETRIES, **config)  # type: ignore[arg-type]
    return Bucket(store, "" if key else f"https://storage.googleapis.com/{name}")


def _open_azure(name: str, context: Context) -> Bucket:
    from obstore.store import AzureStore

    environ = context.credentials.environ
    account = environ.get("AZURE_STORAGE_ACCOUNT_NAME") or environ.get("AZURE_STORAGE_ACCOUNT") or ""
    if not account:
        raise InputError(
            text("Whose container is {name}?", name=name),
            hint=text("Set the variable AZURE_STORAGE_ACCOUNT_NAME; for private ones AZURE_STORAGE_ACCOUNT_KEY, too."),
        )
    variables = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY")
    key = find_token("AZURE_STORAGE_ACCOUNT_KEY", variables, (), environ)
    config: dict[str, Any] = {"account_key": key} if key else {"skip_signature": True}
    store = AzureStore(name, account_name=account, client_options=_CLIENT, retry_config=_RETRIES, **config)  # type: ignore[arg-type]
    return Bucket(store, "" if key else f"https://{account}.blob.core.windows.net/{name}")


_OPEN = {"s3": _open_s3, "gs": _open_gcs, "az": _open_azure}


def _explain(exc: Exception, label: str) -> NoReturn:
    """Raise what an error of obstore means: its own text is long, and made for programmers."""
    said = str(exc)
    code = re.search(r"<Code>(\w+)</Code>", said)
    name = code[1] if code else ""
    if isinstance(exc, FileNotFoundError) or name in ("NoSuchBucket", "NoSuchKey", "ContainerNotFound"):
        raise InputError(
            text("There is no {address}.", address=label), hint=text("Check the name of the bucket.")
        ) from exc
    refused = type(exc).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
    if refused or name in ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"):
        raise InputError(
            text("{address} may not be read ({reason}).", address=label, reason=name or text("access denied")),
            hint=text(
                "Keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (environment, `ownlab secrets set`, or ~/.aws/credentials), "
                "GOOGLE_APPLICATION_CREDENTIALS (the key of a service account), AZURE_STORAGE_ACCOUNT_KEY."
            ),
        ) from exc
    first = said.split("\n\nDebug source")[0].partition("\n")[0]
    raise InputError(
        text("{address} cannot be read: {reason}", address=label, reason=first[:400]),
        hint=text("Storage of another provider that speaks S3 is named by the variable AWS_ENDPOINT_URL."),
    ) from exc
