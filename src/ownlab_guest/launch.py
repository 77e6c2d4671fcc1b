"""Starts a guest module by path: `python launch.py probe.torch ARGUMENTS…`, and prints its answer as JSON on stdout.

A module with `stream(arguments)` instead of `answer(arguments)` prints one JSON object per line as soon as it is known.

The interpreter may know nothing of ownlab, so the package is registered from this file's folder without touching
sys.path (a folder of ours on it could lend our libraries to a foreign interpreter). Whatever libraries print goes to
stderr: stdout carries the answer alone. OWNLAB_GUEST_SECONDS is how long the host waits for it.
"""

import importlib
import importlib.util
import json
import math
import os
import signal
import sys
from typing import List

HERE = os.path.dirname(os.path.abspath(__file__))
# A guest whose host is gone ends itself this many seconds after it should have been ended.
ORPHAN_SECONDS = 5


def register_package() -> None:
    """Make `import ownlab_guest.…` work from this folder alone."""
    if sys.path and os.path.abspath(sys.path[0]) == HERE:
        del sys.path[0]  # Python put the script's folder there
    spec = importlib.util.spec_from_file_location(
        "ownlab_guest", os.path.join(HERE, "__init__.py"), submodule_search_locations=[HERE]
    )
    if spec is None or spec.loader is None:
        raise ImportError("no guest package in " + HERE)
    package = importlib.util.module_from_spec(spec)
    sys.modules["ownlab_guest"] = package
    spec.loader.exec_module(package)


def set_alarm() -> None:
    """SIGALRM ends even a process that a library's own code keeps from returning to Python."""
    seconds = os.environ.pop("OWNLAB_GUEST_SECONDS", "")
    if seconds and hasattr(signal, "alarm"):
        signal.alarm(math.ceil(float(seconds)) + ORPHAN_SECONDS)


def encoded(output: object) -> bytes:
    """Names of files and variables may be no UTF-8: Python keeps such bytes as lone surrogates, which no JSON may hold."""
    return json.dumps(output, ensure_ascii=False).encode("utf-8", "replace")


def main(argv: List[str]) -> None:
    """Run the module's `answer(arguments)`, or its `stream(arguments)`, and write what it returns."""
    set_alarm()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    register_package()
    module = importlib.import_module("ownlab_guest." + argv[0])
    pack_texts = importlib.import_module("ownlab_guest.text").pack_texts
    if hasattr(module, "stream"):
        for each in module.stream(argv[1:]):
            out.write(encoded(pack_texts(each)) + b"\n")
            out.flush()
    else:
        out.write(encoded(pack_texts(module.answer(argv[1:]))))
        out.flush()
    # Frameworks leave threads and exit handlers that may hang or crash at the end; the answer is given, so end at once.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
