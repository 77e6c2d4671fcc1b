"""Starts a guest module by path: `python launch.py probe.torch ARGUMENTS…`, and prints its answer as JSON on stdout.

The interpreter may know nothing of ownlab, so the package is registered from this file's folder without touching
sys.path (a folder of ours on it could lend our libraries to a foreign interpreter). Whatever libraries print goes to
stderr: stdout carries the answer alone.
"""

import importlib
import importlib.util
import json
import os
import sys
from typing import List

HERE = os.path.dirname(os.path.abspath(__file__))


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


def main(argv: List[str]) -> None:
    """Run the module's `answer(arguments)` and write what it returns."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    register_package()
    module = importlib.import_module("ownlab_guest." + argv[0])
    json.dump(module.answer(argv[1:]), out)
    out.flush()
    # Frameworks leave threads and exit handlers that may hang or crash at the end; the answer is given, so end at once.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
