"""The sentences of an out-of-memory explanation: the cause, the figures behind it, and what to do, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from ownlab.catalog.oom_messages import OomMessage
from ownlab.instruments.fit.oom_traceback import CodeLocation
from ownlab.instruments.fit.remedies import Remedy
from ownlab.text import listing, text
from ownlab.units import format_bytes

__all__ = ["Cause", "Holders", "describe", "suggest_fixes"]

Cause = Literal[
    "others",  # other processes hold what is missing
    "contexts",  # other processes hold only their CUDA contexts, on the wrong card
    "fragmented",  # torch holds enough memory, in pieces that are too small
    "huge",  # one request larger than the card, or than half of it
    "full",  # the program itself fills the card
    "context",  # a small card, much of which the CUDA context and the desktop take
    "outside",  # this process holds much memory that the framework did not allocate
    "limit",  # a limit below the card's size was set
    "spilled",  # more is held than the card has: Windows adds the computer's memory
    "free",  # enough was free: the card's memory was not what was missing
    "start",  # CUDA itself failed, outside of the framework's allocator
    "library",  # cuBLAS or cuDNN could not start
    "unsaid",  # too big, and the message has no figures about the card
    "confined",  # the computer's memory, by the limit of a container or job
    "host",  # the computer's memory
]


class Holders(NamedTuple):
    """Who holds the card's memory. None: the message does not tell."""

    missing: int | None  # what the request lacked
    others: int | None  # held by other processes
    outside: int | None  # held by this process, but not by its framework: context and libraries
    exact: bool  # False: the split between other processes and the context is an estimate


_LIST_PROCESSES = text(
    "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv   # processes on the card; fuser -v /dev/nvidia* also lists dead ones"
)
_LIST_PROCESSES_HIP = text("rocm-smi --showpids   # processes on the card")
_RESTART = text(
    "In a notebook: restart the kernel, and the kernels of other notebooks; an earlier cell, or its traceback, keeps its memory."
)
_USE_FIT = text("What each remedy saves on your model, before you rent or wait: ownlab fit FILE.py:build")


def describe(cause: Cause, message: OomMessage, holders: Holders) -> tuple[str, list[str]]:
    """Return the cause in one or two sentences, and the figures that show it."""
    return _SENTENCES[cause](message, holders), list(_figures(message, holders))


def _size(count: int | None) -> str:
    return text("an unknown amount") if count is None else format_bytes(count)


def _card(message: OomMessage) -> str:
    return text("the card") if message.device is None else text("card {number}", number=message.device)


def _figures(message: OomMessage, holders: Holders) -> Iterator[str]:
    rows = [
        ("requested: {size}", message.tried_bytes),
        ("needed by the program in total: {size}", message.program_bytes),
        ("memory of the card: {size}", message.total_bytes),
        ("limit of the process: {size}", message.allowed_bytes),
        ("free: {size}", message.free_bytes),
        ("held by tensors: {size}", message.allocated_bytes),
        ("of which in private pools, such as CUDA graphs: {size}", message.pools_bytes),
        ("held by the framework, unused: {size}", message.unallocated_bytes),
    ]
    if holders.exact:
        rows.append(("also held by this process (context, libraries): {size}", holders.outside))
        rows.append(("held by other processes: {size}", holders.others))
    else:
        rest = (holders.outside or 0) + (holders.others or 0)
        rows.append(("held otherwise (context, libraries, other processes): {size}", rest))
    yield from (text(template, size=format_bytes(count)) for template, count in rows if count is not None)
    yield from (
        text("process {pid} holds {size}", pid=process.pid, size=format_bytes(process.bytes))
        for process in message.others
    )
    if message.victim and message.process_bytes is not None:
        size = format_bytes(message.process_bytes)
        yield text("killed: {process}, which held {size}", process=message.victim, size=size)
    elif message.victim:
        yield text("killed: {process}", process=message.victim)


# -- the cause, in sentences ---------------------------------------------------------------------------------------------


def _others(message: OomMessage, holders: Holders) -> str:
    if holders.others is None:
        return text(
            "The program is small: most likely another process holds the card, such as a second JAX, which reserves it in advance."
        )
    values = {"size": _size(holders.others), "card": _card(message)}
    if (holders.missing or 0) > 0:
        values["missing"] = _size(holders.missing)
        if holders.exact:
            return text(
                "Other processes hold {size} of {card}, and {missing} were missing: without them the request would have fitted.",
                **values,
            )
        return text(
            "Other processes hold about {size} of {card}, and {missing} were missing: without them the request would have fitted.",
            **values,
        )
    if holders.exact:
        return text("Other processes hold {size} of {card}: without them the request would have fitted.", **values)
    return text("Other processes hold about {size} of {card}: without them the request would have fitted.", **values)


def _huge(message: OomMessage, _holders: Holders) -> str:
    total, tried = message.total_bytes or message.allowed_bytes, message.tried_bytes
    if total is not None and (tried or 0) > total:
        return text(
            "One tensor of {size} is larger than the whole card ({total}): freeing memory cannot help.",
            size=_size(tried),
            total=_size(total),
        )
    if total and tried is not None:
        share = f"{tried / total:.0%}"
        return text("The program requested one tensor of {size}: {share} of the card.", size=_size(tried), share=share)
    return text("The program requested one tensor of {size}.", size=_size(tried))


def _fragmented(message: OomMessage, holders: Holders) -> str:
    unused = _size(message.unallocated_bytes)
    if (holders.missing or 0) > 0:
        return text(
            "torch holds {unused} that no tensor uses, in pieces that are too small; {missing} were missing.",
            unused=unused,
            missing=_size(holders.missing),
        )
    return text("torch holds {unused} that no tensor uses, in pieces that are too small.", unused=unused)


def _full(message: OomMessage, holders: Holders) -> str:
    values = {
        "card": _card(message),
        "held": _size(message.reserved_bytes or message.process_bytes or message.allocated_bytes),
        "total": _size(message.total_bytes or message.allowed_bytes),
    }
    if holders.missing is not None and holders.missing > 0:
        return text(
            "The program itself fills {card}: it holds {held} of {total}, and needs {missing} more.",
            missing=_size(holders.missing),
            **values,
        )
    return text("The program itself fills {card}: it holds {held} of {total}.", **values)


def _context(message: OomMessage, holders: Holders) -> str:
    return text(
        "{unusable} of the {total} of {card} are not available for tensors: the CUDA context, libraries and the desktop take "
        "them. Tensors hold {held}, and the rest is too little.",
        unusable=_size((holders.outside or 0) + (holders.others or 0)),
        total=_size(message.total_bytes),
        card=_card(message),
        held=_size(message.allocated_bytes),
    )


def _contexts(message: OomMessage, _holders: Holders) -> str:
    return text(
        "{count} other processes have a CUDA context on {card}, {size} in total. Most likely they are ranks of the same job "
        "that work on other cards.",
        count=len(message.others),
        card=_card(message),
        size=_size(sum(process.bytes for process in message.others)),
    )


def _outside(message: OomMessage, holders: Holders) -> str:
    return text(
        "Besides {held} of tensors this process holds {size} that torch's allocator does not know of: another library or "
        "framework, or captured graphs.",
        held=_size(message.allocated_bytes),
        size=_size(holders.outside),
    )


def _limit(message: OomMessage, _holders: Holders) -> str:
    return text(
        "The process reached its limit, not the end of the card: it may use {allowed} of {total}, and {free} were free.",
        allowed=_size(message.allowed_bytes),
        total=_size(message.total_bytes),
        free=_size(message.free_bytes),
    )


def _spilled(message: OomMessage, _holders: Holders) -> str:
    return text(
        "Tensors hold {held} on a card of {total}: the Windows driver added the computer's memory, and that is full, too. "
        "The program ran many times slower before it failed.",
        held=_size(message.allocated_bytes),
        total=_size(message.total_bytes),
    )


def _free(message: OomMessage, _holders: Holders) -> str:
    return text(
        "{free} were free and {size} were requested: the card had enough memory when the message was written.",
        free=_size(message.free_bytes),
        size=_size(message.tried_bytes),
    )


def _start(_message: OomMessage, _holders: Holders) -> str:
    return text(
        "CUDA itself reported this, without figures, and not torch's allocator: while it opened a context, loaded a kernel or "
        "started a library. Most often the card was full before the program began."
    )


def _library(_message: OomMessage, _holders: Holders) -> str:
    return text(
        "cuBLAS or cuDNN could not allocate its own memory. Either torch's cache had filled the card before its first use, or "
        "an earlier error (an index out of range) has broken the CUDA context."
    )


def _unsaid(message: OomMessage, _holders: Holders) -> str:
    if message.tried_bytes is None:
        return text("{program} found no more memory on the card; the message has no figures.", program=message.speaker)
    if message.program_bytes is not None:
        return text(
            "{program} requested {size}, for a program that needs {total} in total, and did not get it; the message does not "
            "tell what was free.",
            program=message.speaker,
            size=_size(message.tried_bytes),
            total=_size(message.program_bytes),
        )
    return text(
        "{program} requested {size} and did not get it; the message does not tell what was free.",
        program=message.speaker,
        size=_size(message.tried_bytes),
    )


def _host(message: OomMessage, _holders: Holders) -> str:
    if message.speaker == "shell":
        return text(
            "The process was killed by SIGKILL, most likely by Linux because the computer's memory was full, not the card's."
        )
    if message.speaker == "TensorFlow":
        return text("The computer's memory that is pinned for transfers ran out, not the card's memory.")
    if message.speaker == "Linux":
        return text(
            "Linux killed {process} because the computer's memory was full. The card is not involved.",
            process=message.victim,
        )
    return text("The computer's memory ran out, not the card's.")


def _confined(_message: OomMessage, _holders: Holders) -> str:
    return text("A container, job or service reached its limit on the computer's memory. The card is not involved.")


_SENTENCES: dict[Cause, Callable[[OomMessage, Holders], str]] = {
    "others": _others,
    "contexts": _contexts,
    "fragmented": _fragmented,
    "huge": _huge,
    "full": _full,
    "context": _context,
    "outside": _outside,
    "limit": _limit,
    "spilled": _spilled,
    "free": _free,
    "start": _start,
    "library": _library,
    "unsaid": _unsaid,
    "confined": _confined,
    "host": _host,
}


# -- what to do ----------------------------------------------------------------------------------------------------------


def suggest_fixes(
    cause: Cause,
    message: OomMessage,
    holders: Holders,
    *,
    location: CodeLocation,
    remedies: Sequence[Remedy],
    windows: bool,
) -> Iterator[str]:
    """What to do about the cause, best first."""
    yield from _first_steps(cause, message, windows)
    if cause == "huge" and location.line:
        yield text(
            "Find the tensor at {line}: usually the square matrix of attention, all logits or distances at once, or a full-size image.",
            line=location.line,
        )
    elif cause == "huge":
        yield text(
            "Find the tensor: usually the square matrix of attention, all logits or distances at once, or a full-size image."
        )
    if cause == "full" and (message.unallocated_bytes or 0) >= max(1, holders.missing or 0):
        yield from _avoid_fragments(message, windows, may_suffice=True)
    if location.phase == "loading" and cause in ("full", "spilled", "context"):
        yield text("It happened while the weights were moved to the card: a smaller batch does not help here.")
    if location.phase == "optimizer" and cause in ("full", "context"):
        yield text(
            "It happened in the optimizer's step: Adam allocates its state in the first step, two more copies of the weights."
        )
    if remedies:
        titles = listing(remedy.title[0].lower() + remedy.title[1:] for remedy in remedies)
        yield text("Reduce what the program needs: {remedies}.", remedies=titles)
        yield _USE_FIT
    if cause in ("full", "spilled", "unsaid", "fragmented"):
        yield _RESTART


def _avoid_fragments(message: OomMessage, windows: bool, *, may_suffice: bool = False) -> Iterator[str]:
    """How to make torch keep its memory in one piece."""
    variable = message.variable
    if message.backend not in ("cuda", "hip"):
        yield text(
            "Empty torch's cache between phases that need different shapes: torch.xpu.empty_cache(), torch.mps.empty_cache()"
        )
    elif windows:  # expandable segments need CUDA's virtual memory management, which torch does not use on Windows
        yield text("set {variable}=max_split_size_mb:512", variable=variable)
    elif message.against_pieces == "expandable_segments" and may_suffice:
        yield text(
            "export {variable}=expandable_segments:True   # before Python starts; it may just fit then",
            variable=variable,
        )
    elif message.against_pieces == "expandable_segments":
        yield text(
            "export {variable}=expandable_segments:True   # before Python starts; torch suggests it even where it is set",
            variable=variable,
        )
    elif message.against_pieces == "max_split_size_mb":
        yield text(
            "export {variable}=max_split_size_mb:512   # before Python starts; torch 2.1 has better: expandable_segments:True",
            variable=variable,
        )
    else:
        yield text(
            "Update torch: since 2.1 {variable}=expandable_segments:True keeps its memory in one piece.",
            variable=variable,
        )


def _choose_free_card(message: OomMessage) -> str:
    variable = "HIP_VISIBLE_DEVICES" if message.backend == "hip" else "CUDA_VISIBLE_DEVICES"
    return text("Choose a card that is free ({variable}), wait, or end your own processes.", variable=variable)


def _first_steps(cause: Cause, message: OomMessage, windows: bool) -> Iterator[str]:
    list_processes = _LIST_PROCESSES_HIP if message.backend == "hip" else _LIST_PROCESSES
    if cause == "fragmented":
        yield from _avoid_fragments(message, windows)
        yield text(
            "Repeat sizes: pad batches to a few lengths, and run the longest first; torch.cuda.empty_cache() before a phase "
            "with other shapes."
        )
    elif cause == "others":
        yield list_processes
        yield _choose_free_card(message)
        if message.speaker == "JAX":
            yield text(
                "export XLA_PYTHON_CLIENT_PREALLOCATE=false   # each JAX process reserves three quarters of the card at its start"
            )
        elif message.backend == "hip":
            yield text(
                "Where card and computer share one memory (an APU), the system holds the rest: see the BIOS, and amdgpu.gttsize."
            )
        yield _RESTART
    elif cause == "host" and message.speaker == "TensorFlow":
        yield text(
            "export TF_GPU_HOST_MEM_LIMIT_IN_MB=131072   # the default is 64 GiB; before TensorFlow 1.14: TF_CUDA_HOST_MEM_LIMIT_IN_MB"
        )
    elif cause in _STEPS:
        yield from _STEPS[cause]
    elif cause in ("start", "library"):
        yield list_processes
        yield from _START_STEPS[cause]
    elif cause == "unsaid" and message.speaker in _FRAMEWORK_STEPS:
        yield from _FRAMEWORK_STEPS[message.speaker]
    elif cause == "outside" and message.backend == "mps":
        yield text(
            "Close what else uses the Mac's memory (browsers, other models): the card and the computer share it."
        )
        yield text(
            "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts torch's limit, not that of the Mac, which may stop responding."
        )
    elif cause == "outside":
        yield text(
            "Find the library: torch.cuda.memory_summary() shows what torch holds; the rest is TensorFlow, JAX, CuPy, tiny-cuda-nn, NCCL …"
        )
        yield text(
            "Limit such a framework to a share (TF_FORCE_GPU_ALLOW_GROWTH=true, XLA_PYTHON_CLIENT_PREALLOCATE=false), or run "
            "it in its own process."
        )


# Steps that do not depend on the figures.
_STEPS: dict[Cause, tuple[str, ...]] = {
    "contexts": (
        text('torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) first in each rank, before anything touches CUDA'),
        text(
            'torch.load(file, map_location="cpu"): without it each rank opens the card that the file was saved from, mostly 0.'
        ),
    ),
    "context": (
        text("Keep other programs off this card: run the desktop on the built-in graphics, and close browsers."),
        text("CUDA_MODULE_LOADING=LAZY (the default since CUDA 12.2) keeps unused kernels out of the context."),
    ),
    "limit": (
        text(
            "Look for torch.cuda.set_per_process_memory_fraction, per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF, or a "
            "share that the server sets."
        ),
    ),
    "spilled": (
        text(
            "In the NVIDIA Control Panel set CUDA - Sysmem Fallback Policy to Prefer No Sysmem Fallback: then the program fails "
            "early instead of running slowly."
        ),
    ),
    "free": (
        text(
            "Check the computer's memory: free -h (Windows: the page file, too). CUDA cannot allocate on the card when it is full."
        ),
        text(
            "Start it again, and watch whether another process comes and goes: nvidia-smi -l 1 (AMD: watch rocm-smi)."
        ),
        text(
            "Check whether the process has a limit: set_per_process_memory_fraction, a share set by the program, a container, "
            "MIG or a virtual GPU."
        ),
    ),
    "host": (
        text("free -h; dmesg -T | grep -i -E 'out of memory|oom-kill'   # what was killed, and when"),
        text(
            "Use fewer DataLoader workers: each keeps a copy of what its dataset touches. Python lists are copied over time, "
            "arrays and files are not."
        ),
        text(
            'Load weights without a second copy: torch.load(file, mmap=True, map_location="cpu"), safetensors, low_cpu_mem_usage=True.'
        ),
    ),
    "confined": (
        text(
            "Request more: docker run --memory, resources.limits.memory, sbatch --mem; the page cache of files that are read "
            "counts, too."
        ),
        text(
            "Use fewer DataLoader workers, a smaller prefetch_factor, and no dataset that is held in memory as a whole."
        ),
    ),
}
_START_STEPS: dict[Cause, tuple[str, ...]] = {
    "start": (text("Choose a card that is free, wait, or end your own processes."), _RESTART),
    "library": (
        text(
            "export CUDA_LAUNCH_BLOCKING=1   # shows whether another error came first; on the CPU its message is clearer"
        ),
        text("If the card is full: use a smaller batch, so that some hundred MiB are left for libraries."),
    ),
}
_FRAMEWORK_STEPS: dict[str, tuple[str, ...]] = {
    "torch": (
        _LIST_PROCESSES,
        text("Update torch: since 0.4.1 the message tells what was requested, held and free."),
    ),
    "TensorFlow": (
        _LIST_PROCESSES,
        text(
            "export TF_FORCE_GPU_ALLOW_GROWTH=true   # else each process reserves the whole card; against fragments: "
            "TF_GPU_ALLOCATOR=cuda_malloc_async"
        ),
        text(
            'Use a smaller batch; tf.keras.mixed_precision.set_global_policy("mixed_float16"); tf.recompute_grad around blocks.'
        ),
    ),
    "JAX": (
        _LIST_PROCESSES,
        text(
            "export XLA_PYTHON_CLIENT_MEM_FRACTION=.95   # by default JAX reserves .75 of the card, and never gets more"
        ),
        text("Use jax.checkpoint (remat) around blocks, donate_argnums for the state, or a smaller batch."),
    ),
    "llama.cpp": (
        text(
            "Put fewer layers on the card (-ngl), use a shorter context (-c), a smaller -ub, or a smaller quantization."
        ),
        text("-ctk q8_0 -ctv q8_0 halves the KV cache; --tensor-split divides the layers between cards."),
    ),
}
