"""Answers many requests in one process of the interpreter that has torch: `trace_requests.py LAUNCH.py REQUESTS.json`.

An import of torch takes seconds, a trace of a small model tenths of one. That one trace leaves nothing behind for the next
is tested by the way.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path


def main(launch: str, requests: str) -> None:
    """Print a list of answers."""
    importlib.import_module("guest_import").register_guest(launch)
    trace = importlib.import_module("ownlab_guest.fit.trace")
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        for request in json.loads(Path(requests).read_text()):
            path = Path(folder, "request.json")
            if "seconds" in request:
                os.environ["OWNLAB_FIT_UNTIL"] = str(time.time() + request.pop("seconds"))
            path.write_text(json.dumps(request))
            answers.append(trace.answer([str(path)]))
    sys.stdout.write("ANSWERS" + json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
