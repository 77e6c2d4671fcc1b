"""Rules about a card's memory: in use by other processes, or not enough."""

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
from ownlab.text import listing, sentences, text
from ownlab.units import GIB, format_bytes

__all__ = ["CardMemoryInUse", "OutOfMemory"]

# A desktop and its browser use a gigabyte or two. Above these shares the use matters to another program.
_NOTEWORTHY, _NEARLY_FULL = 0.25, 0.9
# Memory that no visible process uses: drivers before R510 counted their own reserve (about 600 MiB) as used.
_UNEXPLAINED = GIB
# A message without figures.
_NO_FIGURES = OomMessage(speaker="CUDA", quoted="")
_PROCESSES_SHOWN = 4


class CardMemoryInUse(Rule):
    """A card's memory is in use by running processes, or by a process that is not visible from here.

    **Why it matters.** Memory in use by others is not available: a program that would fit on the card runs out of memory.
    If memory is used and no process is shown, the process is in another container or PID namespace, or it died and the
    driver has not released its memory.

    **What to do.** Ask the owners, wait, or choose a free card. Look for invisible processes on the host.

    **Sources.** nvtop#149 (PID namespaces); gpustat#141.
    """

    code = "held"
    severity = "warning"
    title = text("A card's memory is in use by other processes")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        busy: list[str] = []
        invisible: list[str] = []
        full = False
        for card in nvidia_cards(machine):
            used, total = value_of(card.memory_used), value_of(card.memory_total)
            if used is None or not total or value_of(card.mig):
                continue
            if value_of(card.processes) == () and used >= _UNEXPLAINED and not is_wsl(machine):
                invisible.append(
                    text(
                        "{card}: {used} of {total} used, by no process visible from here",
                        card=card_name(card),
                        used=format_bytes(used),
                        total=format_bytes(total),
                    )
                )
            elif used >= total * _NOTEWORTHY:
                busy.append(_describe_use(card, format_bytes(used), format_bytes(total)))
                full = full or used >= total * _NEARLY_FULL
        if invisible:
            yield self._invisible(machine, invisible)
        if busy:
            yield self.finding(
                title=text("A card's memory is nearly full") if full else text("A card's memory is in use"),
                evidence=busy,
                meaning=text("The memory of these processes is not available to a new one."),
                fix=(text("Choose a free card (CUDA_VISIBLE_DEVICES), or ask the owners of these processes."),),
                severity="warning" if full else "note",
            )

    def _invisible(self, machine: Machine, evidence: list[str]) -> Finding:
        own_namespace = value_of(machine.host.pid_namespace)
        if own_namespace:
            evidence.append(text("this is a separate PID namespace: processes outside it are invisible"))
        return self.finding(
            title=text("A card's memory is in use by a process that is not visible from here"),
            evidence=evidence,
            meaning=text("The process is outside this container or PID namespace.")
            if own_namespace
            else text(
                "The process is in another container or another user's namespace, or it died without releasing the memory."
            ),
            fix=(
                text("On the host: nvidia-smi   # or start the container with --pid=host"),
                text("On the host, as root: fuser -v /dev/nvidia*   # shows who has the card open, zombies too"),
            ),
        )


def _describe_use(card: Card, used: str, total: str) -> str:
    processes = value_of(card.processes)
    if processes is None:
        return text(
            "{card}: {used} of {total} used; the processes are unknown: {reason}",
            card=card_name(card),
            used=used,
            total=total,
            reason=card.processes.reason if isinstance(card.processes, Unknown) else "",
        )
    if not processes:
        return text("{card}: {used} of {total} used", card=card_name(card), used=used, total=total)
    largest = sorted(processes, key=lambda process: value_of(process.memory) or 0, reverse=True)
    names = listing(map(_name_process, largest[:_PROCESSES_SHOWN]), "{items}, {last}")
    more = len(largest) - _PROCESSES_SHOWN
    return text(
        "{card}: {used} of {total} used by {processes}",
        card=card_name(card),
        used=used,
        total=total,
        processes=text("{processes} and {more} more", processes=names, more=more) if more > 0 else names,
    )


def _name_process(process: CardProcess) -> str:
    command, user, memory = (value_of(process.command), value_of(process.user), value_of(process.memory))
    about = [f"pid {process.pid}", *([user] if user else []), *([format_bytes(memory)] if memory is not None else [])]
    return f"{command or text('a process')} ({', '.join(about)})"


class OutOfMemory(MessageRule):
    """A program ran out of the card's memory.

    **Why it matters.** The card works, but the requested memory was not free. The message shows which of three causes
    applies: the model and its activations are too large; other processes use the card; or torch has reserved enough
    memory, but in pieces that are too small (reserved but unallocated).

    **What to do.** Use smaller batches, gradient accumulation or checkpointing, or lower precision. Stop other processes
    on the card. Against fragmentation use expandable segments. TensorFlow and JAX reserve most of the card when they
    start, unless configured otherwise.

    **Sources.** torch, CUDACachingAllocator.cpp; PyTorch notes on CUDA memory; pytorch#183387 (the variable's older name
    works in every release, the newer is ignored by some); JAX, "GPU memory allocation"; TensorFlow GPU guide.
    """

    code = "out-of-memory"
    severity = "error"
    title = text("A program ran out of the card's memory")
    aliases = ("oom",)
    patterns = (
        r"(?:CUDA|HIP|XPU|NPU) out of memory|THCStorage\.cu out of memory",
        r"Tried to allocate [\d.]+ [MG]iB \(GPU",
        r"cuda\.OutOfMemoryError|torch\.OutOfMemoryError",
        r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation",
        r"(?:CUDA|HIP)(?: driver| runtime)? error(?: \(?2\)?)? ?:? ?: ?out of memory",
        r"hipErrorOutOfMemory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY",
        r"(?:cudaMalloc|hipMalloc)\S* failed: out of memory|out_of_memory: CUDA error|Triton Error \[CUDA\]: out of memory",
        r"Out of memory allocating [\d,]+ bytes|(?:unable|failed) to allocate CUDA\d+ buffer",
        r"RESOURCE_EXHAUSTED: ?(?:Out of memory|OOM|Failed to allocate)",
        r"OOM when allocating tensor|Resource exhausted: ?(?:Out of memory|OOM)|memory space hbm|Attempting to (?:reserve|allocate) [\d.]+[GM] (?:at the bottom of memory|\. That was not possible)|Malloc device memory failed",
        r"(?:\bcu[A-Z]\w+|CUDA)[^\n]{0,60}: [Oo]ut of memory|== ?cudaSuccess \(2 vs|Make sure you have enough GPU RAM to fit|XlaRuntimeError: INTERNAL: Failed to allocate \d+ bytes|System is out of GPU memory|BFCArena::AllocateRaw\w*[^\n]*Failed to allocate memory|Out of memory error on GPU|Got OOM, unloading|(?:[Ii]nsufficient|[Nn]ot enough) (?:GPU|CUDA|[Vv]ideo|device|VRAM)\w*(?: [Mm]emory)?\b|GPU (?:is |ran )?out of memory|ErrorOutOfDeviceMemory|VK_ERROR_OUT_OF_DEVICE_MEMORY|CL_MEM_OBJECT_ALLOCATION_FAILURE|OPTIX[^\n]*OUT_OF_MEMORY|ran out of VRAM",
        r"(?:cuMem\w*|parallel_for) failed: out of memory|thrust::system[^\n]*out of memory|Cuda failure '?out of memory",
        r"(?P<count>cudaGetDeviceCount.*Error 2: out of memory)",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        matches = list(self.matches(case))
        if not matches:
            return
        if any(match["count"] for _, match in matches) and not any_framework_works(machine):
            yield self._at_start(case)
            return
        parsed = [
            each for message, match in matches for each in parse_messages(message.text[match.start() :].splitlines())
        ]
        most_detailed = max(parsed, key=lambda each: each.figure_count, default=_NO_FIGURES)
        yield self.finding(
            title=text("Other programs hold the card's memory") if _held_by_others(most_detailed) else None,
            evidence=self.quotes(case),
            meaning=sentences(*_explain(most_detailed)),
            fix=tuple(_advise(machine, most_detailed, [message for message, _ in matches])),
        )

    def _at_start(self, case: Case) -> Finding:
        return self.finding(
            title=text("CUDA could not start for lack of memory"),
            evidence=self.quotes(case),
            meaning=sentences(
                text("CUDA failed while it counted the cards, before the program requested any memory."),
                text("WSL with many cards is known to fail like this.") if is_wsl(case.machine) else None,
                text(
                    "Other possible causes are the machine's own memory (ulimit -v, a cgroup), or a card that other"
                    " processes have filled completely."
                ),
            ),
            fix=(
                text("Try with one card: {command}", command=set_variable(case.machine, "CUDA_VISIBLE_DEVICES=0")),
                text("Check what is free: nvidia-smi; free -h; ulimit -v"),
            ),
            blocks=True,
        )


def _held_by_others(message: OomMessage) -> bool:
    """Whether the card is full, though this process has little of it: others hold it, also where nvidia-smi shows none."""
    total, free = message.total_bytes, message.free_bytes
    own = (message.allocated_bytes or 0) + (message.unallocated_bytes or 0)
    return bool(total and free is not None and own and own + free < total / 2)


def _fragmented(message: OomMessage) -> bool:
    """Whether torch has reserved enough memory for the request, but not in one piece."""
    unused = message.unallocated_bytes
    # Every allocator leaves some per cent of a full card unused: that is no fragmentation.
    notable = message.total_bytes // 20 if message.total_bytes else GIB // 4
    return unused is not None and unused >= max(message.tried_bytes or GIB, notable)


def _refused_although_free(message: OomMessage) -> bool:
    """Whether the card had far more free memory than was requested: not always in one piece, or not for this process."""
    tried, free = message.tried_bytes, message.free_bytes
    return bool(tried and free and free > 2 * tried)


def _explain(message: OomMessage) -> Iterator[str]:
    figures = listing(_figures(message), "{items}, {last}")
    if figures:
        yield text("The card works, but the request did not fit: {figures}.", figures=figures)
    else:
        yield text("The card works, but the request did not fit.")
    if message.others:
        holders = ", ".join(
            text("process {pid} uses {size}", pid=each.pid, size=format_bytes(each.bytes)) for each in message.others
        )
        if message.process_bytes is not None:
            yield text("Other processes use memory of the card: {processes}.", processes=holders)
        else:
            yield text(
                "Other processes use memory of the card: {processes} (one of them may be the program itself).",
                processes=holders,
            )
    elif _refused_although_free(message):
        yield text(
            "More memory was free than requested: another process may have used it at that moment, or the process has a"
            " memory limit."
        )
    if _held_by_others(message) and not message.others:
        yield text(
            "This program has little of it: others hold the rest, perhaps left over or in another container, where nvidia-smi does not show them."
        )
    if _fragmented(message):
        yield text("torch has reserved enough memory, but in pieces that are too small: its memory is fragmented.")


def _figures(message: OomMessage) -> Iterator[str]:
    if message.tried_bytes is not None:
        yield text("requested {size}", size=format_bytes(message.tried_bytes))
    if message.total_bytes is not None:
        yield text("size of the card {size}", size=format_bytes(message.total_bytes))
    if message.free_bytes is not None:
        yield text("free {size}", size=format_bytes(message.free_bytes))
    if message.allocated_bytes is not None:
        size = format_bytes(message.allocated_bytes)
        yield text("in {framework}'s tensors {size}", framework=message.speaker, size=size)
    if message.unallocated_bytes is not None:
        size = format_bytes(message.unallocated_bytes)
        yield text("reserved but unused by {framework} {size}", framework=message.speaker, size=size)


def _advise(machine: Machine, oom: OomMessage, messages: list[Message]) -> Iterator[str]:
    output = "\n".join(message.text for message in messages)
    if _fragmented(oom) or (oom.unallocated_bytes and _refused_although_free(oom)):
        # The older name works in every release; the newer one is ignored by 2.9 (pytorch#183387).
        command = set_variable(machine, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
        yield text("{command}   # before Python starts", command=command)
    if oom.others:
        yield text("Check who uses the card: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv")
    if re.search(r"RESOURCE_EXHAUSTED: Out of memory|jax", output, re.IGNORECASE):
        command = set_variable(machine, "XLA_PYTHON_CLIENT_PREALLOCATE=false")
        yield text("JAX reserves three quarters of the card when it starts; to prevent it: {command}", command=command)
    if "tensorflow" in output.lower() or "OOM when allocating" in output:
        command = set_variable(machine, "TF_FORCE_GPU_ALLOW_GROWTH=true")
        yield text("TensorFlow reserves the whole card when it starts; to prevent it: {command}", command=command)
    elif not oom.figure_count and re.search(r"cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY", output):
        yield text(
            "JAX and TensorFlow take most of the card at their start, and a second program then gets none: {command}",
            command=set_variable(machine, "XLA_PYTHON_CLIENT_PREALLOCATE=false TF_FORCE_GPU_ALLOW_GROWTH=true"),
        )
    if not oom.others:
        yield text(
            "Look for other programs on the card, also forgotten or hidden ones, and end them: nvidia-smi; sudo fuser -v /dev/nvidia*"
        )
    if _held_by_others(oom):
        return  # a smaller batch would not help
    yield text(
        "Request less memory: a smaller batch with gradient accumulation, activation checkpointing, bf16 or fp16."
    )
    yield text("In a notebook: restart the kernel; an earlier cell, or its traceback, keeps what it allocated.")
