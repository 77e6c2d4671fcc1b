"""Rules about kernels that fail while they run: wrong memory accesses, unstable cards, a driver that was reset."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import set_variable
from ownlab.instruments.doctor.rule import QUOTES_SHOWN, Cause, CauseRule, MessageRule
from ownlab.text import sentences, text

__all__ = ["DriverReset", "IllegalMemoryAccess"]

# What shows that the code of the kernel is the user's own, or that of a framework with extensions.
_PYTHON = re.compile(
    r"RuntimeError|Traceback|torch|tensorflow|site-packages|\.py\b|cupy|numba|jax|Triton|vllm", re.IGNORECASE
)
# CUDA names neither an address nor an instruction: the kernel ended for a reason that it does not know.
_UNSPECIFIED = re.compile(
    r"unspecified launch failure|LAUNCH_FAILED|LaunchFailure|\((?:4|719) vs|illegal instruction|CU result: 7\d\d",
    re.IGNORECASE,
)


class IllegalMemoryAccess(MessageRule):
    """A kernel accessed memory outside its own, or failed for an unspecified reason.

    **Why it matters.** Usually the cause is a bug in a custom kernel or an extension (or an extension built for another
    torch version); sometimes a race between streams. In a program that ran before, or runs on other machines, an unspecified
    launch failure is mostly the card: overclocked, too hot, too little power, or faulty. The process has lost its CUDA
    context: only a new process can use the card. In the kernel log the same event is Xid 31 (page fault) or Xid 13 (exception).

    **What to do.** Restart the process. Find the kernel with `CUDA_LAUNCH_BLOCKING=1`, then with compute-sanitizer. Update
    or rebuild the extension. If a finished program fails, or many different ones on one card only: default clocks, power, test
    that card.

    **Sources.** NVIDIA, CUDA runtime API, error types; NVIDIA, Xid errors; docs.nvidia.com/compute-sanitizer;
    nicehash/excavator#160; LeelaChessZero/lc0#1461; BVLC/caffe#3377.
    """

    code = "illegal-access"
    severity = "error"
    title = text("A kernel accessed memory outside its own")
    patterns = (
        r"an illegal memory access was encountered",
        r"CUDA_ERROR_ILLEGAL_ADDRESS|cudaErrorIllegalAddress",
        r"misaligned address",
        r"an illegal instruction was encountered|CUDA illegal instructions?\b",
        r"unspecified launch failure|Illegal address in cu|== ?cudaSuccess \((?:4|77|700|719) vs|CU result: (?:700|719)\b",
        r"CUDA_ERROR_LAUNCH_FAILED|cudaErrorLaunchFailure",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        """Yield one finding, about the card where a finished program fails and CUDA gives no reason."""
        quotes = self.quotes(case)
        if not quotes:
            return
        logged = [
            line for message in case.messages for line in re.findall(r"NVRM: Xid[^\n]*: (?:13|31),[^\n]*", message.text)
        ]
        unspecified = any(_UNSPECIFIED.search(line) for line in quotes)
        finished = unspecified and not any(_PYTHON.search(message.text) for message in case.messages)
        yield self.finding(
            title=text("A kernel failed on the card: an unstable or faulty card, or a fault in the program")
            if finished
            else text("A kernel failed on the card: a fault in its code, or an unstable or faulty card")
            if unspecified
            else None,
            evidence=(
                *quotes[:QUOTES_SHOWN],
                *(text("kernel log: {line}", line=line[:200]) for line in dict.fromkeys(logged[:1])),
            ),
            meaning=sentences(
                _meaning_of_finished() if finished else _meaning_of_code(),
                text("The Xid in the kernel log is this same event.") if logged else None,
            ),
            fix=(
                text("Restart the process (the notebook's kernel)."),
                *(_card_first(case) if finished else _code_first(case, unspecified)),
            ),
        )


def _meaning_of_finished() -> str:
    return text(
        "CUDA gives no reason. In a program that ran before, or that runs on other machines, it is mostly the card: overclocked, too hot, without enough"
        " power (power supply, cables, riser), or faulty. Otherwise this release of the program has a fault, or a suspend broke the driver's state."
    )


def _meaning_of_code() -> str:
    return text(
        "A kernel has a bug (usually in an extension), an extension was built for another torch, or a suspend broke the driver's state. The process"
        " has lost the card; a new process can use it."
    )


def _card_first(case: Case) -> Iterator[str]:
    yield text(
        "Default clocks: no overclocking of core and memory, and on cards that fail nevertheless about 100 MHz less (Linux: sudo nvidia-smi -lgc 0,1500;"
        " Windows: MSI Afterburner), or a lower power limit (sudo nvidia-smi -pl WATTS)."
    )
    yield text(
        "Power and heat: a power supply with enough for all cards, each on its own cables, risers with their own power; nvidia-smi -q -d TEMPERATURE,POWER"
    )
    yield text("Update the program (some releases had such faults), and the driver.")
    yield text(
        "If it fails on one card only, also in another machine or with default clocks: the card (in a laptop the board) is faulty; have it replaced."
    )
    yield text("After a suspend: sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm")
    yield text(
        "For your own code: {command}; compute-sanitizer PROGRAM   # names the kernel and the address",
        command=set_variable(case.machine, "CUDA_LAUNCH_BLOCKING=1"),
    )


def _code_first(case: Case, unspecified: bool) -> Iterator[str]:
    yield text(
        "{command}   # then the traceback names the operation",
        command=set_variable(case.machine, "CUDA_LAUNCH_BLOCKING=1"),
    )
    if unspecified:
        yield text(
            "If the card then stays unusable until a reboot, or other programs fail on it, too: the card is unstable or faulty. Default clocks, enough"
            " power, another card of the same kind to compare; if only this one fails, replace it."
        )
    yield text("compute-sanitizer python YOUR_SCRIPT.py   # names the kernel and the address; slow")
    yield text("Rebuild or update compiled extensions (flash-attn, xformers, …) for the installed torch.")
    yield text(
        "After a suspend: sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm. At random, in different programs: a newer driver and torch, no overclocking."
    )


class DriverReset(CauseRule):
    """CUDA reports an unknown error while a program computes: the driver was reset, or the card is unstable.

    **Why it matters.** At its start CUDA fails with an unknown error if nvidia_uvm is broken (rule `uvm`). Later, in a kernel or
    at the wait for it, the driver has lost the card: Windows reset it after two seconds (TDR), or it failed under load.

    **What to do.** On Windows a longer limit for long kernels; otherwise default clocks, power, risers, and another card to compare.

    **Sources.** CUDA runtime API, cudaErrorUnknown (999, before CUDA 10.1: 30); Microsoft, "TDR registry keys"; nicehash/excavator#190.
    """

    code = "driver-reset"
    severity = "error"
    title = text("The driver lost the card during the computation")
    causes = (
        Cause(
            r"CUDA error\W{0,5}(?:999|30)(?!\d)[^\n]*cuda(?:Device|Stream|Thread)Synchronize",
            text("The driver was reset while a kernel ran: on Windows because it ran too long"),
            text(
                "The program waited for its kernel, and the driver answered with an unknown error. Windows resets the driver (the screen is black for a moment) if a kernel takes longer than two seconds."
            ),
            (
                text(
                    "Windows: set TdrDelay to 60 in HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers, and restart; or smaller steps, or a card without a display."
                ),
                text(
                    "Linux, or if short kernels fail, too: sudo dmesg | grep -i xid; default clocks, power supply, cables."
                ),
            ),
        ),
        Cause(
            r"CUDA error\b[^\n]{0,12}\b(?:999|30)(?!\d)[^\n]{0,12}\bin func '?(?!\w*(?:init|create|ctor))|\bCuda error \(err_no=(?:30|999)\)",
            text("The driver lost the card under load: power, riser, clocks, or a faulty card"),
            text(
                "The program had found the card and computed on it; then the driver no longer reached it. That is mostly the card's power or its connection, seldom the program."
            ),
            (
                text("Look which card fails: sudo dmesg | grep -i xid (Windows: event log, nvlddmkm); nvidia-smi -L"),
                text(
                    "Check its power: enough for all cards, risers with power of their own from the power supply; then another riser and slot."
                ),
                text(
                    "Default clocks and power limit. If this card fails in another machine, too, it is faulty: have it replaced."
                ),
            ),
        ),
    )
