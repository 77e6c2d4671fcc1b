"""`dataset.json`: what a packed data set consists of. It is written last, so a folder that has it is complete."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Tuple

from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.regular_files import open_regular
from ownlab_guest.text import text

FILE = "dataset.json"
FORMAT = "ownlab-data"
VERSION = 1
_MOST_BYTES = 256 << 20


class Shard(NamedTuple):
    """One tar and its index."""

    name: str  # of the tar
    samples: int
    bytes: int  # of the tar
    index_bytes: int


class Manifest(NamedTuple):
    """A packed data set."""

    samples: int
    shards: Tuple[Shard, ...]
    classes: Tuple[str, ...] = ()
    shuffled: bool = False
    seed: int = 0
    source: str = ""
    created: str = ""
    extensions: Tuple[str, ...] = ()  # of the members, the most frequent first
    payload_bytes: int = 0
    duplicates: int = 0  # left out
    skipped: int = 0  # could not be read
    options: Tuple[Tuple[str, Any], ...] = ()  # how it was packed
    plan: str = ""  # a digest of what was packed and how: packing the same again has nothing to do


def encode(manifest: Manifest) -> bytes:
    """Make the content of the file."""
    fields = manifest._asdict()
    fields["shards"] = [shard._asdict() for shard in manifest.shards]
    fields["options"] = dict(manifest.options)
    document = {"format": FORMAT, "version": VERSION, **fields}
    return (json.dumps(document, indent=1) + "\n").encode()


def read(folder: str) -> Manifest:
    """Read the manifest of a folder. Raises DataError if there is none, DamagedData if it cannot be used."""
    path = os.path.join(folder, FILE)
    try:
        with open(path, "rb", opener=open_regular) as file:
            content = file.read(_MOST_BYTES)
    except FileNotFoundError:
        raise _missing(folder) from None
    except OSError as exc:
        raise DataError(text("Cannot read {path}: {reason}.", path=path, reason=exc.strerror)) from exc
    return decode(content, path)


def _missing(folder: str) -> DataError:
    if os.path.isdir(os.path.join(folder, ".pack")):
        message = text("{folder} is not packed completely.", folder=folder)
        return DataError(message, hint=text("Run the same `ownlab data pack` again; it continues."))
    message = text("{folder} has no packed data: there is no {file} in it.", folder=folder, file=FILE)
    return DataError(message, hint=text("`ownlab data pack PATH -o OUT` packs a data set."))


def decode(content: bytes, path: str) -> Manifest:
    """Check the content of the file. Raises DamagedData."""
    damaged = DamagedData(text("{path} is damaged.", path=path))
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
        raise damaged
    version = fields.pop("version", None)
    if version != VERSION:
        message = text("{path} has version {version} of the format.", path=path, version=version)
        raise DataError(message, hint=text("Read it with a newer ownlab."))
    try:
        return _checked(fields)
    except (AttributeError, TypeError, ValueError, KeyError):
        raise damaged from None


def _checked(fields: Dict[str, Any]) -> Manifest:
    shards: List[Shard] = []
    for item in fields["shards"]:
        shard = Shard(str(item["name"]), _count(item["samples"]), _count(item["bytes"]), _count(item["index_bytes"]))
        # A manifest may come from elsewhere: a shard is a file of its folder, never a path.
        if not shard.name.endswith(".tar") or shard.name != os.path.basename(shard.name) or shard.name[0] == ".":
            raise ValueError(shard.name)
        shards.append(shard)
    if sum(shard.samples for shard in shards) != _count(fields["samples"]):
        raise ValueError("samples")
    if not all(isinstance(name, str) for name in (*fields["classes"], *fields["extensions"])):
        raise ValueError("names")
    known = {name: value for name, value in fields.items() if name in Manifest._fields}
    options = tuple(sorted(fields.get("options", {}).items()))
    known.update(
        options=options, shards=tuple(shards), classes=tuple(fields["classes"]), extensions=tuple(fields["extensions"])
    )
    return Manifest(**known)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value
