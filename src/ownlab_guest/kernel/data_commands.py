"""The functions of `ownlab.data` that do what `ownlab data` does, in a kernel whose environment has no ownlab.

`ownlab.instruments.data.notebook` has the functions themselves. It runs in ownlab's own environment (OWNLAB_HOST) as a child: one line of
JSON is the call, one is the answer.
"""

import json
import os
import sys
from typing import Any, Dict, Tuple

from ownlab_guest.kernel.data_inspection import DataInspection
from ownlab_guest.kernel.host_client import start_host
from ownlab_guest.kernel.host_records import OwnlabError, decode_error, decode_record
from ownlab_guest.text import text

__all__ = ["bench", "get", "inspect", "pack", "stage", "unpack", "verify"]


def get(*sources: Any, **options: Any) -> Any:
    """Download sources: folder=, include=, exclude=, name=, sha256=, connections=8, force=False, html=False."""
    return _call("get", sources, options)


def unpack(*arguments: Any, **options: Any) -> Any:
    """Unpack an archive: unpack(archive, folder=None, overwrite=False, max_ratio=200.0, names="")."""
    return _call("unpack", arguments, options)


def inspect(*arguments: Any, **options: Any) -> DataInspection:
    """Show what a path contains: inspect(path, sheet=None, only=None)."""
    answer = _call("inspect", arguments, {"python": sys.executable, **options})
    return DataInspection(answer["record"], answer["text"], answer["html"])


def pack(*arguments: Any, **options: Any) -> Any:
    """Pack a source into shards: pack(path, out, shuffle=True, seed=0, resize=None, …). Options are those of `ownlab data pack`."""
    return _call("pack", arguments, {"python": sys.executable, **options})


def verify(*arguments: Any, **options: Any) -> Any:
    """Check packed data: verify(folder, full=False, repair=None)."""
    return _call("verify", arguments, {"python": sys.executable, **options})


def bench(*arguments: Any, **options: Any) -> Any:
    """Measure what limits reading: bench(path, need=None, scratch=None)."""
    return _call("bench", arguments, {"python": sys.executable, **options})


def stage(*arguments: Any, **options: Any) -> Any:
    """Copy data to the local scratch disk: stage(source, background=False). The result has the `path` of the copy."""
    return _call("stage", arguments, options)


def _call(name: str, arguments: Tuple[Any, ...], options: Dict[str, Any]) -> Any:
    """Let ownlab do it, in the current folder of this process."""
    call = {"function": name, "arguments": arguments, "options": options, "folder": os.getcwd()}
    question = json.dumps(call, default=os.fspath).encode() + b"\n"
    child = start_host("ownlab.data." + name, "ownlab.instruments.data.notebook")
    try:
        output, errors = child.communicate(question)
    except BaseException:  # the cell was interrupted, for instance
        child.kill()
        child.communicate()
        raise
    lines = output.splitlines()
    if not lines:
        said = errors.decode(errors="replace").strip().splitlines() or [text("ownlab ended without an answer")]
        raise OwnlabError(text("ownlab.data: {error}", error=said[-1]))
    answer: Dict[str, Any] = json.loads(lines[-1])
    if "arguments" in answer:
        raise TypeError(answer["arguments"])
    if "error" in answer:
        raise decode_error(answer["error"])
    return (
        {name: decode_record(value) for name, value in answer.items()}
        if "text" in answer
        else decode_record(answer["record"])
    )
