"""Rules about a card's memory: taken by others, or not enough."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.catalog.oom_messages import OomMessage, parse_messages
from ownlab.instruments.doctor.queries import any_framework_works, card_name, is_wsl, nvidia_cards
from ownlab.instruments.doctor.records import Case, Finding, Message
from ownlab.instruments.doctor.remedies import set_variable
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.facts import Unknown, value_of
from ownlab.machine.records import Card, CardProcess, Machine
from ownlab.units import GIB, format_bytes

__all__ = ["CardMemoryInUse", "OutOfMemory"]

# A desktop and its browser take a gigabyte or two; from these shares on a job of one's own is in the way of another.
_NOTEWORTHY, _NEARLY_FULL = 0.25, 0.9
# What no visible process holds: drivers before R510 counted their own reserve (some 600 MiB) as used.
_UNEXPLAINED = GIB
# A message that has no figures.
_SILENT = OomMessage(speaker="CUDA", quoted="")


class CardMemoryInUse(Rule):
    """A card's memory is held by running processes, or by something that cannot be seen from here.

    **Why it matters.** What others hold is not there for you: a program that fits the card by its size runs out of
    memory. Where memory is used and no process is shown, its owner is in another container or PID namespace, or a
    process died without the driver having taken its memory back.

    **What to do.** Ask the owners, wait, or choose a card that is free. For memory without an owner look from the host.

    **Sources.** nvtop#149 (PID namespaces); gpustat#141.
    """

    code = "held"
    severity = "warning"
    title = "A card's memory is held by others"

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        busy: list[str] = []
        unseen: list[str] = []
        full = False
        for card in nvidia_cards(machine):
            used, total = value_of(card.memory_used), value_of(card.memory_total)
            if used is None or not total or value_of(card.mig):
                continue
            processes = value_of(card.processes)
            line = f"{card_name(card)}: {format_bytes(used)} of {format_bytes(total)} used"
            if processes == () and used >= _UNEXPLAINED and not is_wsl(machine):
                unseen.append(f"{line}, by no process that is seen from here")
            elif used >= total * _NOTEWORTHY:
                busy.append(f"{line}{_by_whom(card, processes)}")
                full = full or used >= total * _NEARLY_FULL
        if unseen:
            yield self._unseen(machine, unseen)
        if busy:
            yield self.finding(
                title="A card's memory is nearly full" if full else "A card's memory is in use",
                evidence=busy,
                meaning="What these processes hold is not there for a new one.",
                fix=("Choose a card that is free (CUDA_VISIBLE_DEVICES), or ask the owners of these processes.",),
                severity="warning" if full else "note",
            )

    def _unseen(self, machine: Machine, evidence: list[str]) -> Finding:
        hidden = value_of(machine.host.pid_namespace)
        if hidden:
            evidence.append("we are in a PID namespace of our own: processes outside are hidden")
        return self.finding(
            title="A card's memory is held by a process that cannot be seen from here",
            evidence=evidence,
            meaning="Its owner is outside this container or PID namespace."
            if hidden
            else "Its owner is in another container, belongs to another user's namespace, or died without giving it back.",
            fix=(
                "On the host: nvidia-smi   # or start the container with --pid=host",
                "On the host, as root: fuser -v /dev/nvidia*   # who has the card open, zombies too",
            ),
        )


def _by_whom(card: Card, processes: tuple[CardProcess, ...] | None) -> str:
    if processes is None:
        reason = card.processes.reason if isinstance(card.processes, Unknown) else ""
        return f"; by whom is not known: {reason}"
    largest = sorted(processes, key=lambda one: value_of(one.memory) or 0, reverse=True)
    named = [_name_process(one) for one in largest[:4]]
    more = f" and {len(largest) - 4} more" if len(largest) > 4 else ""
    return f" by {', '.join(named)}{more}" if named else ""


def _name_process(process: CardProcess) -> str:
    command, user, memory = (value_of(process.command), value_of(process.user), value_of(process.memory))
    about = [f"pid {process.pid}", *([user] if user else []), *([format_bytes(memory)] if memory is not None else [])]
    return f"{command or 'a process'} ({', '.join(about)})"


class OutOfMemory(MessageRule):
    """A program ran out of the card's memory.

    **Why it matters.** The card works; what the program wanted did not fit beside what it and others hold. The message
    tells which of three it is: the model and its activations are too large; other processes hold the card; or torch holds
    enough, but in pieces (reserved but unallocated).

    **What to do.** Smaller batches, gradient accumulation or checkpointing, lower precision; free the card of others; for
    pieces, expandable segments. TensorFlow and JAX take nearly all of the card at their start unless told not to.

    **Sources.** torch, CUDACachingAllocator.cpp; PyTorch notes on CUDA memory; pytorch#183387 (the variable's older name
    works in every release, the newer is ignored by some); JAX, "GPU memory allocation"; TensorFlow GPU guide.
    """

    code = "out-of-memory"
    severity = "error"
    title = "A program ran out of the card's memory"
    aliases = ("oom",)
    patterns = (
        r"(?:CUDA|HIP|XPU|NPU) out of memory",
        r"cuda\.OutOfMemoryError|torch\.OutOfMemoryError",
        r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation",
        r"(?:CUDA|HIP) error: out of memory",
        r"RESOURCE_EXHAUSTED: ?(?:Out of memory|OOM|Failed to allocate)",
        r"OOM when allocating tensor",
        r"(?P<count>cudaGetDeviceCount.*Error 2: out of memory)",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        found = list(self.matches(case))
        if not found:
            return
        if any(match["count"] for _, match in found) and not any_framework_works(machine):
            yield self._at_start(case)
            return
        read = [one for message, match in found for one in parse_messages(message.text[match.start() :].splitlines())]
        told_most = max(read, key=lambda one: one.figure_count, default=_SILENT)
        yield self.finding(
            evidence=self.quotes(case),
            meaning=" ".join(_explain(told_most)),
            fix=tuple(_advise(machine, told_most, [message for message, _ in found])),
        )

    def _at_start(self, case: Case) -> Finding:
        known = " WSL fails so with many cards." if is_wsl(case.machine) else ""
        return self.finding(
            title="CUDA could not start for lack of memory",
            evidence=self.quotes(case),
            meaning=f"CUDA failed while it counted the cards, before the program asked for any memory.{known} It can also be"
            " the machine's own memory (ulimit -v, a cgroup) or a card that others hold to the last byte.",
            fix=(
                f"Try with one card: {set_variable(case.machine, 'CUDA_VISIBLE_DEVICES=0')}",
                "See what is free: nvidia-smi; free -h; ulimit -v",
            ),
            blocks=True,
        )


def _fragmented(message: OomMessage) -> bool:
    """Whether torch holds in pieces what it was asked for in one."""
    unused = message.unallocated_bytes
    return unused is not None and unused >= (message.tried_bytes or GIB)


def _explain(message: OomMessage) -> Iterator[str]:
    said = [
        f"{label} {format_bytes(size)}"
        for label, size in (
            ("it wanted", message.tried_bytes),
            ("the card has", message.total_bytes),
            ("free were", message.free_bytes),
            (f"{message.speaker}'s tensors held", message.allocated_bytes),
            (f"{message.speaker} had reserved without use", message.unallocated_bytes),
        )
        if size is not None
    ]
    yield f"The card works; the request did not fit{': ' + ', '.join(said) if said else ''}."
    tried, free = message.tried_bytes, message.free_bytes
    if message.others:
        named = ", ".join(f"process {one.pid} has {format_bytes(one.bytes)}" for one in message.others)
        own = "" if message.process_bytes is not None else " (one of them may be the program itself)"
        yield f"Others hold memory of it: {named}{own}."
    elif tried and free and free > 2 * tried:
        yield "More was free than it wanted: another process may have held it just then, or a limit was set for the process."
    if _fragmented(message):
        yield "torch holds enough, but in pieces too small: its memory is fragmented."


def _advise(machine: Machine, told: OomMessage, messages: list[Message]) -> Iterator[str]:
    text = "\n".join(message.text for message in messages)
    if _fragmented(told):
        # The older name is an alias in every release; the newer one is ignored by 2.9 (pytorch#183387).
        yield f"{set_variable(machine, 'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True')}   # before Python starts"
    if told.others:
        yield "See who holds the card: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"
    if re.search(r"RESOURCE_EXHAUSTED: Out of memory|jax", text, re.IGNORECASE):
        yield f"JAX takes three quarters of the card at its start: {set_variable(machine, 'XLA_PYTHON_CLIENT_PREALLOCATE=false')}"
    if "tensorflow" in text.lower() or "OOM when allocating" in text:
        yield f"TensorFlow takes the whole card at its start: {set_variable(machine, 'TF_FORCE_GPU_ALLOW_GROWTH=true')}"
    yield "Make the request smaller: a smaller batch with gradient accumulation, activation checkpointing, bf16 or fp16."
    yield "In a notebook: restart the kernel; an earlier cell, or its traceback, keeps what it allocated."
