"""Stands in for the Python in which `ownlab bench` measures: says the lines of a script, and does what stands between them.

The script (OWNLAB_FAKE_BENCH) is NDJSON. A line with "do" is not printed: `wait` waits to be ended, after it has written that it
does so; `die` ends by a signal; `say` writes text that is not an event; `request` copies the request into a file; `remove` takes a folder away.
"""

import array
import fcntl
import json
import os
import signal
import sys
import termios
import time
from typing import TextIO


def main() -> None:
    assert sys.argv[2:] == ["bench.run", "-"], sys.argv
    with open(os.environ["OWNLAB_FAKE_BENCH"], encoding="utf-8") as script:
        lines = script.read().splitlines()
    for line in lines:
        request = json.loads(line)
        if request.get("do") == "wait":
            # Read twice: what was printed before the first of these is then not only read, but processed.
            for _ in range(2):
                say(sys.stdout, '{"event": "begin", "name": "what never ends"}')
                until_read()
            wait(request["file"])
        elif request.get("do") == "die":
            say(sys.stderr, "RuntimeError: " + request["words"])
            os.kill(os.getpid(), signal.Signals[request["signal"]])
        elif request.get("do") == "say":
            say(sys.stdout, request["text"])
        elif request.get("do") == "remove":
            os.rmdir(request["folder"])
        elif request.get("do") == "request":
            with open(request["file"], "w", encoding="utf-8") as out:
                out.write(sys.stdin.read())
        else:
            say(sys.stdout, line)


def say(stream: TextIO, text: str) -> None:
    stream.write(text + "\n")
    stream.flush()


def until_read() -> None:
    """Wait until the host has read everything from the pipe."""
    left = array.array("i", [1])
    while left[0]:
        time.sleep(0.01)
        fcntl.ioctl(1, termios.FIONREAD, left)


def wait(file: str) -> None:
    """Until SIGTERM comes; the file tells first that it waits, then that it ended as it was asked to."""

    def end(number: int, frame: object) -> None:
        with open(file, "a", encoding="utf-8") as out:
            out.write("ended")
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    with open(file, "w", encoding="utf-8") as out:
        out.write("waits ")
    parent = os.getppid()
    while os.getppid() == parent:  # a host that is gone ends nobody
        time.sleep(0.05)


main()
