"""`ownlab.watch` where ownlab itself is in another environment: that one's is asked (OWNLAB_HOST)."""

import json
import os
import subprocess
import sys
from typing import Any, Dict, List, Optional

from ownlab_guest.kernel.host_client import start_host

__all__ = ["Watch", "watch"]

# It ends its last sample, and tells what it saw.
_END_SECONDS = 30


def watch(every: float = 1.0) -> "Watch":
    """Watch the cards while a `with` block runs, with a sample every so many seconds; then print `report()`."""
    return Watch(every)


class Watch:
    """The samples of a `with` block, as dictionaries, and what they add up to."""

    def __init__(self, every: float = 1.0) -> None:
        self.samples: List[Dict[str, Any]] = []
        self._every = every
        self._report = ""
        self._child: Optional["subprocess.Popen[bytes]"] = None

    def __enter__(self) -> "Watch":
        self._child = start_host("ownlab.watch", "ownlab.instruments.top.notebook", str(os.getpid()), str(self._every))
        try:
            ready = self._line() == b"ready\n"
        except BaseException:  # the cell was interrupted
            self._child.kill()
            self._child.communicate()
            self._child = None
            raise
        if not ready:
            raise RuntimeError("ownlab.watch: " + self._why())
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is None:
            return
        child, self._child = self._child, None
        try:
            samples, report = child.communicate(timeout=_END_SECONDS)[0].split(b"\n", 1)
            self.samples, self._report = json.loads(samples), report.decode(errors="replace")
        except (subprocess.TimeoutExpired, ValueError) as exc:
            child.kill()
            child.wait()
            self._report = "ownlab.watch did not tell what it saw: %s\n" % exc

    def report(self) -> None:
        """Print what the cards' time went into: a verdict with advice, means and peaks; cards of this process first."""
        sys.stdout.write(self._report or "Nothing has been watched yet: with ownlab.watch() as w: … Then: w.report()\n")

    def _line(self) -> bytes:
        assert self._child is not None
        assert self._child.stdout is not None
        return self._child.stdout.readline()

    def _why(self) -> str:
        assert self._child is not None
        child, self._child = self._child, None
        _, errors = child.communicate()
        lines = errors.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended with %s" % child.returncode
