"""`ownlab.watch` in a kernel: the samples of a `with` block and a report on them.

`Watch` is the same class whether or not ownlab is installed in the kernel's environment. If it is, `ownlab.instruments.top.notebook`
samples in this process. If not, `HostSampling` starts the ownlab of another environment (OWNLAB_HOST) as a child, which
answers requests, one line of JSON each.
"""

import json
import os
import subprocess
import sys
from typing import Any, Dict, List, Optional

from ownlab_guest.kernel.host_client import start_host
from ownlab_guest.kernel.host_records import OwnlabError, UsageError, decode_error, decode_record
from ownlab_guest.text import shown, text

__all__ = ["HostSampling", "Watch", "process_name", "watch"]

# GPM compares two readings more than 100 ms apart (nvml.h), so a shorter interval cannot be measured.
SHORTEST_INTERVAL = 0.11
# The child takes a last sample and builds the report.
_STOP_SECONDS = 30


def watch(every: float = 1.0) -> "Watch":
    """Sample the GPUs while a `with` block runs, every so many seconds. Then `report()` prints what limited the work."""
    return Watch(HostSampling(), every)


class Watch:
    """The samples of a `with` block and a report on them."""

    def __init__(self, sampling: Any, every: float = 1.0) -> None:
        if every < SHORTEST_INTERVAL:
            raise sampling.usage_error(
                shown(
                    text(
                        "every={every:g} is too short: the driver measures over at least {least:g} s",
                        every=every,
                        least=SHORTEST_INTERVAL,
                    )
                )
            )
        self._sampling = sampling
        self._every = every
        self._running = False
        self._result: Any = None  # of the last block

    def __enter__(self) -> "Watch":
        if self._running:
            raise self._sampling.usage_error(
                shown(text("this watch is already running")),
                hint=shown(text("Call ownlab.watch() again for a block within the block.")),
            )
        self._result = None
        self._sampling.start(self._every)
        self._running = True
        return self

    def __exit__(self, *_: object) -> None:
        if not self._running:
            return
        self._running = False
        self._result = self._sampling.stop()

    @property
    def samples(self) -> List[Any]:
        """The samples of the block, the last 3,600 if there are more. The report covers all of them."""
        result = self._current()
        return [] if result is None else list(result.samples)

    def report(self) -> None:
        """Print the verdict, advice, means and peaks of each card; the cards of this process come first."""
        self._required().print_report()

    def summary(self) -> Any:
        """Return the report as a record, as `ownlab top report --json` prints it."""
        return self._required().summary

    def _repr_mimebundle_(self, **_: Any) -> Dict[str, Any]:
        """At the end of a cell: a chart, and text for front ends that cannot draw it."""
        result = self._current()
        if result is None or not result.samples:
            return {"text/plain": repr(self)}
        bundle: Dict[str, Any] = result.mimebundle
        return bundle

    def _current(self) -> Any:
        return self._sampling.read() if self._running else self._result

    def _required(self) -> Any:
        result = self._current()
        if result is None or not result.samples:
            raise self._sampling.usage_error(
                shown(text("nothing has been watched yet")),
                hint=shown(text("with ownlab.watch() as w: … Then: w.report()")),
            )
        return result


def process_name() -> str:
    """Return the name of this process in samples: its notebook or its script."""
    return os.environ.get("JPY_SESSION_NAME") or sys.argv[0] or "this process"


class HostSampling:
    """Sampling by the ownlab of another environment, as a child process."""

    usage_error = UsageError

    def __init__(self) -> None:
        self._child: Optional["subprocess.Popen[bytes]"] = None

    def start(self, every: float) -> None:
        """Start the child and wait until it samples."""
        arguments = (str(os.getpid()), repr(every), process_name())
        self._child = start_host("ownlab.watch", "ownlab.instruments.top.notebook", *arguments)
        try:
            self._decode(self._read_line())
        except BaseException:  # an error of the child, or the cell was interrupted
            self._kill()
            raise

    def read(self) -> "HostResult":
        """Return the result so far."""
        assert self._child is not None
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(b"read\n")
            self._child.stdin.flush()
        except BrokenPipeError:  # it has ended: reading says why
            pass
        return HostResult(self._decode(self._read_line()))

    def stop(self) -> Any:
        """End the sampling, and return the result. A failure must not hide an exception of the block: it is raised later."""
        child, self._child = self._child, None
        assert child is not None
        try:
            line, errors = child.communicate(timeout=_STOP_SECONDS)
            return HostResult(self._decode(line or _describe_end(child, errors)))
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return FailedResult(
                OwnlabError(text("ownlab.watch: no report after {seconds:.0f} s", seconds=_STOP_SECONDS))
            )
        except OwnlabError as exc:
            return FailedResult(exc)

    def _read_line(self) -> bytes:
        assert self._child is not None
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        return line or _describe_end(self._child, self._child.communicate()[1])

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    @staticmethod
    def _decode(line: bytes) -> Dict[str, Any]:
        answer: Dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise decode_error(answer["error"])
        if "ended" in answer:
            raise OwnlabError(text("ownlab.watch: {error}", error=answer["ended"]))
        if "exit_code" in answer:
            raise OwnlabError(text("ownlab.watch: it ended with exit code {code}", code=answer["exit_code"]))
        return answer


def _describe_end(child: "subprocess.Popen[bytes]", errors: bytes) -> bytes:
    lines = errors.decode(errors="replace").strip().splitlines()
    return json.dumps({"ended": lines[-1]} if lines else {"exit_code": child.returncode}).encode()


class HostResult:
    """The measurements of the child process."""

    def __init__(self, answer: Dict[str, Any]) -> None:
        self.samples = decode_record(answer["samples"])
        self.summary = decode_record(answer["summary"])
        self.mimebundle: Dict[str, Any] = answer["mimebundle"]
        self._text: str = answer["text"]

    def print_report(self) -> None:
        """Print the report."""
        sys.stdout.write(self._text)


class FailedResult:
    """Raises why there is no result, whatever is asked of it."""

    def __init__(self, error: OwnlabError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error
