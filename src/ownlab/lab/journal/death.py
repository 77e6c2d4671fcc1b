"""The death of a kernel: what is known about it, the sentences that describe it, and the notes in the cells it concerns.

Only a death that nobody asked for is one: a restart, a shutdown or `exit()` is not. Standard library only: supervisors
and keepers import it.
"""

from __future__ import annotations

import re
import signal
from typing import Any, NamedTuple

from ownlab.text import Text, in_english, sentence, sentences, template, text
from ownlab.units import format_bytes

__all__ = ["DIED", "NOT_RUN", "Death", "RecordedDeath"]

# The names of the two notes, as the `ename` of an error output. Pages recognise them (labextension/src/notebook/kernelDeath.ts).
DIED = "KernelDied"
NOT_RUN = "NotRun"

_KILLS_ITSELF = re.compile(r"\bkill\(\s*(os\.)?getpid\(\)")
_RED, _PLAIN = "\x1b[0;31m", "\x1b[0m"
_CRASHES = {
    signal.SIGSEGV: template(
        "The kernel crashed with a segmentation fault (signal {number}), usually an error in a compiled library."
    ),
    signal.SIGBUS: template(
        "The kernel crashed with a bus error (signal {number}): a memory-mapped file was cut short, or /dev/shm is full."
    ),
    signal.SIGABRT: template(
        "The kernel aborted itself (signal {number}), usually after an error in a compiled library."
    ),
    signal.SIGILL: template(
        "The kernel crashed with an illegal instruction (signal {number}): a compiled library needs another processor."
    ),
    signal.SIGFPE: template("The kernel crashed with an arithmetic error (signal {number}) in a compiled library."),
}


class Death(NamedTuple):
    """What is known about the death of a kernel. Fields that are None, "" or empty are unknown."""

    # What ended: "kernel" (by itself, or killed from outside), "keeper" or "supervisor" (the kernel was ended after it),
    # "limit" (the runtime's time was over), "runtime" (everything was gone at once), "machine" (it was restarted).
    what: str
    signal: int | None = None
    exit_code: int | None = None
    # What says that memory ran out: "cgroup" or "kernel-log".
    out_of_memory: str = ""
    peak_bytes: int | None = None  # the kernel's largest resident set
    limit_bytes: int | None = None  # of its control group
    machine_bytes: int | None = None
    reason: str = ""  # which limit
    stack: tuple[str, ...] = ()  # the Python lines that ran, as faulthandler wrote them

    @classmethod
    def load(cls, value: Any) -> Death | None:
        """Read what `dump` wrote; None if there is nothing. A journal may be newer than this program."""
        if not isinstance(value, dict) or not isinstance(value.get("what"), str):
            return None
        known = {name: value[name] for name in cls._fields if name in value}
        return cls(**{**known, "stack": tuple(map(str, known.get("stack") or ()))})

    def dump(self) -> dict[str, Any]:
        """Return the fields that are known, for JSON."""
        return {name: value for name, value in self._asdict().items() if value not in (None, "", ())}

    def cause(self) -> Text:
        """Say in one sentence why the kernel died."""
        if self.out_of_memory:
            return text(
                "The kernel ran out of memory: the system killed it (signal {number}).", number=self.signal or 9
            )
        if self.what == "kernel":
            return self._own_cause()
        if self.what == "keeper":
            return text("The kernel was ended because its keeper process was killed.")
        if self.what == "supervisor":
            return self._cause_by_supervisor()
        if self.what == "limit":
            return text("The runtime was ended: {reason}", reason=sentence(self.reason))
        if self.what == "machine":
            return text("The machine was restarted or switched off while the kernel ran.")
        return text("The kernel and everything around it was killed, or the machine went down. Nothing recorded why.")

    def summary(self) -> Text:
        """Say why the kernel died, with the figures that are known about its memory."""
        return sentences(self.cause(), *self._memory())

    def note(self, ran: bool, code: str = "") -> dict[str, Any]:
        """Return the content of an error output for a cell that was running, or for one that was waiting: in English, for a file."""
        if ran:
            last = text("This cell did not finish: what it has shown so far is kept. All variables are lost.")
            cause, memory = self.cause(), self._memory()
            if self.what == "kernel" and self.signal and not self.out_of_memory and _KILLS_ITSELF.search(code):
                # The usual way to restart a runtime of Colab.
                cause, memory = text("The cell ended its own kernel, with signal {number}.", number=self.signal), []
            lines = [f"{_RED}{DIED}{_PLAIN}: {in_english(cause)}", *memory, *self._stack(), last]
            return {"ename": DIED, "evalue": in_english(cause), "traceback": list(map(in_english, lines))}
        reason = text("not run: the kernel died")
        line = text("The kernel died before this cell could start.")
        traceback = [f"{_RED}{NOT_RUN}{_PLAIN}: {in_english(reason)}", in_english(line)]
        return {"ename": NOT_RUN, "evalue": in_english(reason), "traceback": traceback}

    def _own_cause(self) -> Text:
        if self.signal is None:
            if self.exit_code is None:
                return text("The kernel's process ended.")
            return text("The kernel's process exited by itself, with exit code {code}.", code=self.exit_code)
        if self.signal == signal.SIGKILL:
            return text(
                "The kernel was killed by signal {number}. This is often the system running out of memory, but nothing "
                "readable here says so.",
                number=self.signal,
            )
        if self.signal in _CRASHES:
            return _CRASHES[signal.Signals(self.signal)].fill(number=self.signal)
        return text(
            "The kernel was ended by signal {number} ({name}), which this lab did not send.",
            number=self.signal,
            name=_signal_name(self.signal),
        )

    def _cause_by_supervisor(self) -> Text:
        if self.signal == signal.SIGKILL:
            return text(
                "The kernel was ended because its supervisor process was killed by signal {number}. This is often the "
                "system running out of memory.",
                number=self.signal,
            )
        if self.signal is not None:
            return text(
                "The kernel was ended because its supervisor process died of signal {number} ({name}).",
                number=self.signal,
                name=_signal_name(self.signal),
            )
        if self.exit_code is not None:
            return text(
                "The kernel was ended because its supervisor process failed, with exit code {code}.",
                code=self.exit_code,
            )
        return text("The kernel was ended because its supervisor process died.")

    def _memory(self) -> list[Text]:
        """Figures about memory, where memory may be the cause."""
        if not self.out_of_memory and self.signal != signal.SIGKILL:
            return []
        found = []
        if self.peak_bytes and self.machine_bytes:
            used, there = format_bytes(self.peak_bytes), format_bytes(self.machine_bytes)
            found.append(text("It had used up to {used}; the machine has {there}.", used=used, there=there))
        elif self.peak_bytes:
            found.append(text("It had used up to {used}.", used=format_bytes(self.peak_bytes)))
        if self.limit_bytes:
            limit = format_bytes(self.limit_bytes)
            found.append(text("Its control group (cgroup) may use at most {limit}.", limit=limit))
        return found

    def _stack(self) -> list[str]:
        return [text("Python was here:"), *(f"  {line}" for line in self.stack)] if self.stack else []


class RecordedDeath(NamedTuple):
    """The death of a kernel, in its journal."""

    number: int  # of its record
    at: float  # seconds since 1970
    launch: int  # of the kernel
    cell: str | None  # the cell that was running
    death: Death

    def dump(self) -> list[Any]:
        """Return it for JSON."""
        return [*self[:-1], self.death.dump()]

    @classmethod
    def load(cls, value: list[Any]) -> RecordedDeath:
        """Read what `dump` wrote."""
        number, at, launch, cell, death = value
        return cls(number, at, launch, cell, Death.load(death) or Death(""))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return str(number)
