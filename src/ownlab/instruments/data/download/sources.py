"""The kinds of sources: a table of who resolves which argument. Each module is imported when one of its sources is named."""

from __future__ import annotations

import contextlib
import fnmatch
import importlib
import os
import re
from typing import NamedTuple

from ownlab.errors import UsageError
from ownlab.instruments.data.download.connection import Client
from ownlab.instruments.data.download.credentials import CredentialStore
from ownlab.instruments.data.download.records import Collection
from ownlab.text import text

__all__ = ["SOURCES", "Context", "Source", "resolve"]


class Context(NamedTuple):
    """What a source may use to find out what it has."""

    client: Client
    credentials: CredentialStore
    include: tuple[str, ...] = ()  # patterns of paths: nothing else is downloaded
    exclude: tuple[str, ...] = ()
    html: bool = False
    resources: contextlib.ExitStack | None = None  # what sources need until everything is downloaded

    def wants(self, path: str) -> bool:
        """Whether the patterns leave a path of a repository or a bucket in."""
        included = not self.include or any(fnmatch.fnmatchcase(path, pattern) for pattern in self.include)
        return included and not any(fnmatch.fnmatchcase(path, pattern) for pattern in self.exclude)


class Source(NamedTuple):
    """A kind of source: `module` has a function `resolve(argument, context)`."""

    pattern: str
    module: str


_HERE = "ownlab.instruments.data.download"
# The first whose pattern matches; the last one takes any address.
SOURCES = {
    "Hugging Face": Source(r"hf://|(?:https?://)?(?:huggingface\.co|hf\.co)/", f"{_HERE}.huggingface"),
    "Google Drive": Source(r"gdrive:|(?:https?://)?(?:drive|docs)\.google\.com/", f"{_HERE}.google_drive"),
    "Kaggle": Source(r"kaggle://|(?:https?://)?(?:www\.)?kaggle\.com/(?:datasets|competitions|c)/", f"{_HERE}.kaggle"),
    "rclone": Source(r"rclone:", f"{_HERE}.rclone"),
    "object storage": Source(r"(?:s3|gs|az)://", f"{_HERE}.object_storage"),
    "address": Source(r"https?://", f"{_HERE}.web_address"),
}


def resolve(argument: str, context: Context) -> Collection:
    """Find out which files an argument stands for. Raises OwnlabError."""
    endpoint = context.credentials.environ.get("HF_ENDPOINT", "").rstrip("/")
    if endpoint and argument.startswith(f"{endpoint}/"):
        argument = "https://huggingface.co" + argument.removeprefix(endpoint)
    module = next((each.module for each in SOURCES.values() if re.match(each.pattern, argument, re.IGNORECASE)), "")
    if not module and os.path.exists(argument) and not os.path.isdir(argument):
        module = f"{_HERE}.source_list"
    if module:
        found: Collection = importlib.import_module(module).resolve(argument, context)
        return found
    if argument.endswith((".txt", ".lst", ".list")):
        raise UsageError(text("The list of sources {path} does not exist.", path=argument))
    raise UsageError(
        text("Unknown source of data: {argument!r}.", argument=argument[:200]),
        hint=text(
            "A source is an http(s) address, hf://datasets/OWNER/NAME, kaggle://datasets/OWNER/NAME, s3://BUCKET/PATH, a link of "
            "Google Drive, or a text file with one source per line."
        ),
    )
