"""The words of an explanation: the cause in a sentence, the figures behind it, and what to do, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from ownlab.catalog.oom_messages import OomMessage
from ownlab.instruments.fit.oom_traceback import CodeLocation
from ownlab.instruments.fit.remedies import Remedy
from ownlab.units import format_bytes

__all__ = ["Cause", "Holders", "advise", "state"]

Cause = Literal[
    "others",  # other processes hold what is lacking
    "contexts",  # other processes hold nothing but their contexts, on the wrong card
    "fragmented",  # torch holds enough, in pieces
    "huge",  # one request larger than the card, or than half of it
    "full",  # the program itself fills the card
    "context",  # a small card, of which context and desktop take much
    "outside",  # this process holds much that the framework did not allocate
    "limit",  # a limit was set, below the card's size
    "spilled",  # more is held than the card has: Windows lends the computer's memory
    "free",  # enough was free: it is not the card's memory that was lacking
    "start",  # CUDA itself failed, outside the framework's allocator
    "library",  # cuBLAS or cuDNN could not start
    "unsaid",  # too big; the message does not say for what
    "confined",  # the computer's memory, by the limit of a container or job
    "host",  # the computer's memory
]


class Holders(NamedTuple):
    """Who holds the card. None: the message does not let one know."""

    lack: int | None  # what was missing for the request
    others: int | None  # held by other processes
    outside: int | None  # of this process, not by its framework: context and libraries
    exact: bool  # False: what others and the context hold is told apart by a guess


_WHO_HOLDS = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv   # who holds the card; fuser -v /dev/nvidia* shows dead ones too"
_WHO_HOLDS_HIP = "rocm-smi --showpids   # who holds the card"
_RESTART = "In a notebook: restart the kernel, other notebooks' kernels too; an earlier cell, or its traceback, keeps what it allocated."
_IN_FIT = "What each measure saves on your model, before you rent or wait: ownlab fit FILE.py:build"


def state(cause: Cause, message: OomMessage, holding: Holders) -> tuple[str, list[str]]:
    """The cause in one sentence, and the figures that show it."""
    return _SENTENCES[cause](message, holding), list(_figures(message, holding))


def _size(count: int | None) -> str:
    return "an unknown amount" if count is None else format_bytes(count)


def _card(message: OomMessage) -> str:
    return "the card" if message.device is None else f"card {message.device}"


def _figures(message: OomMessage, holding: Holders) -> Iterator[str]:
    rows = [
        ("it asked for", message.tried_bytes),
        ("the program needs in all", message.program_bytes),
        ("the card has", message.total_bytes),
        ("it may have", message.allowed_bytes),
        ("free", message.free_bytes),
        ("held by tensors", message.allocated_bytes),
        ("of that in private pools, as of CUDA graphs", message.pools_bytes),
        ("held by the framework without use", message.unallocated_bytes),
    ]
    if holding.exact:
        rows.append(("held by this process besides (context, libraries)", holding.outside))
        rows.append(("held by other processes", holding.others))
    else:
        rows.append(
            ("held besides (context, libraries, other processes)", (holding.outside or 0) + (holding.others or 0))
        )
    yield from (f"{label}: {format_bytes(count)}" for label, count in rows if count is not None)
    yield from (f"process {one.pid} holds {format_bytes(one.bytes)}" for one in message.others)
    if message.victim:
        held = f", which held {format_bytes(message.process_bytes)}" if message.process_bytes is not None else ""
        yield f"killed: {message.victim}{held}"


def _share(count: int | None, total: int | None) -> str:
    return f"{count / total:.0%} of the card" if count is not None and total else _size(count)


def _missing(holding: Holders) -> str:
    lack = holding.lack or 0
    return f"{_size(lack)} were missing" if lack > 0 else "hardly anything was missing"


def _others(message: OomMessage, holding: Holders) -> str:
    if holding.others is None:
        return "The program is small: most likely another process holds the card, such as a second one of JAX, which takes it in advance."
    about = "" if holding.exact else "about "
    return f"Others hold {about}{_size(holding.others)} of {_card(message)}, and {_missing(holding)}: without them it would have fitted."


def _huge(message: OomMessage, _holding: Holders) -> str:
    total = message.total_bytes or message.allowed_bytes
    if total is not None and (message.tried_bytes or 0) > total:
        return f"One tensor of {_size(message.tried_bytes)} is larger than the whole card ({_size(total)}): freeing memory cannot help."
    return (
        f"One tensor of {_size(message.tried_bytes)} was asked for in one piece: {_share(message.tried_bytes, total)}."
    )


def _fragmented(message: OomMessage, holding: Holders) -> str:
    return f"torch holds {_size(message.unallocated_bytes)} that no tensor uses, and {_missing(holding)}: it is in pieces that are too small."


def _full(message: OomMessage, holding: Holders) -> str:
    held = message.reserved_bytes or message.process_bytes or message.allocated_bytes
    most = message.total_bytes or message.allowed_bytes
    missing = f"; {_size(holding.lack)} more were needed" if holding.lack is not None and holding.lack > 0 else ""
    return f"The program itself fills {_card(message)}: it holds {_size(held)} of {_size(most)}{missing}."


def _context(message: OomMessage, holding: Holders) -> str:
    unusable = (holding.outside or 0) + (holding.others or 0)
    return (
        f"{_size(unusable)} of {_card(message)}'s {_size(message.total_bytes)} are not for tensors: CUDA's context, libraries, and "
        f"a desktop where one draws on it. Tensors hold {_size(message.allocated_bytes)}, and the rest is too little."
    )


def _contexts(message: OomMessage, _holding: Holders) -> str:
    return (
        f"{len(message.others)} other processes have opened {_card(message)} and hold a context there, "
        f"{_size(sum(one.bytes for one in message.others))} in all, most likely ranks of the same job that work on other cards."
    )


def _outside(message: OomMessage, holding: Holders) -> str:
    return (
        f"This process holds {_size(holding.outside)} that torch's allocator knows nothing of, beside {_size(message.allocated_bytes)} of "
        "tensors: another library or framework in it, or captured graphs."
    )


def _limit(message: OomMessage, _holding: Holders) -> str:
    return (
        f"A limit was reached, not the card's end: the process may have {_size(message.allowed_bytes)} of {_size(message.total_bytes)}, "
        f"and {_size(message.free_bytes)} were free."
    )


def _spilled(message: OomMessage, _holding: Holders) -> str:
    return (
        f"Tensors hold {_size(message.allocated_bytes)} on a card of {_size(message.total_bytes)}: the driver of Windows lent the computer's "
        "memory, and that is used up too. It ran many times slower before it failed."
    )


def _free(message: OomMessage, _holding: Holders) -> str:
    return (
        f"{_size(message.free_bytes)} were free and {_size(message.tried_bytes)} were asked for: it is not the card's memory that was "
        "lacking when the message was written."
    )


def _start(_message: OomMessage, _holding: Holders) -> str:
    return (
        "CUDA itself said it, without figures, and not torch's allocator: when a context was opened, a kernel loaded or a library started. "
        "Most often the card was full before the program began."
    )


def _library(_message: OomMessage, _holding: Holders) -> str:
    return (
        "cuBLAS or cuDNN could not take its own memory: the card was full at its first use, since torch's cache leaves nothing over, or "
        "an error before it (an index out of range) has broken the context."
    )


def _unsaid(message: OomMessage, _holding: Holders) -> str:
    if message.tried_bytes is None:
        return f"{message.speaker} found no more memory on the card; the message has no figures."
    whole = (
        f", for a program that needs {_size(message.program_bytes)} in all" if message.program_bytes is not None else ""
    )
    return f"{message.speaker} asked for {_size(message.tried_bytes)}{whole}, and did not get it; the message does not say what was left."


def _host(message: OomMessage, _holding: Holders) -> str:
    if message.speaker == "shell":
        return "The process was ended by SIGKILL: mostly by Linux, since the computer's own memory, not the card's, was used up."
    if message.speaker == "TensorFlow":
        return "The computer's memory that is pinned for transfers ran out, not the card's."
    if message.speaker == "Linux":
        return f"Linux killed {message.victim}, since the computer's own memory had run out; the card has nothing to do with it."
    return "The computer's own memory ran out, not the card's."


def _confined(message: OomMessage, _holding: Holders) -> str:
    return "The limit of a container, job or service on the computer's memory was reached; the card has nothing to do with it."


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


def advise(
    cause: Cause,
    message: OomMessage,
    holding: Holders,
    *,
    place: CodeLocation,
    remedies: Sequence[Remedy],
    windows: bool,
) -> Iterator[str]:
    """What to do about the cause, best first."""
    yield from _first(cause, message, windows)
    if cause == "huge":
        at = f" at {place.line}" if place.line else ""
        yield f"Find the tensor{at}: attention's square, all logits at once, all distances, or an image in full are the usual ones."
    if cause == "full" and (message.unallocated_bytes or 0) >= max(1, holding.lack or 0):
        yield from _whole_pieces(message, windows, "it may just fit then")
    if place.phase == "loading" and cause in ("full", "spilled", "context"):
        yield "It happened while the weights were brought to the card: a smaller batch changes nothing here."
    if place.phase == "optimizer" and cause in ("full", "context"):
        yield "It happened in the optimizer's step: Adam makes its state at the first one, two more copies of the weights."
    if remedies:
        yield f"Make it need less: {', '.join(one.title[0].lower() + one.title[1:] for one in remedies)}."
        yield _IN_FIT
    if cause in ("full", "spilled", "unsaid", "fragmented"):
        yield _RESTART


def _whole_pieces(
    message: OomMessage, windows: bool, note: str = "torch advises it even where it is set"
) -> Iterator[str]:
    """How torch keeps its memory in one piece."""
    if message.backend not in ("cuda", "hip"):
        yield "Empty torch's cache between phases that need different shapes: torch.xpu.empty_cache(), torch.mps.empty_cache()"
    elif windows:  # expandable segments need CUDA's virtual memory, which torch does not use there
        yield f"set {message.variable}=max_split_size_mb:512"
    elif message.against_pieces == "expandable_segments":
        yield f"export {message.variable}=expandable_segments:True   # before Python starts; {note}"
    elif message.against_pieces == "max_split_size_mb":
        yield f"export {message.variable}=max_split_size_mb:512   # before Python starts; torch 2.1 has better: expandable_segments:True"
    else:
        yield f"Update torch: from 2.1 on {message.variable}=expandable_segments:True keeps its memory in one piece."


def _visible(message: OomMessage) -> str:
    return "HIP_VISIBLE_DEVICES" if message.backend == "hip" else "CUDA_VISIBLE_DEVICES"


def _first(cause: Cause, message: OomMessage, windows: bool) -> Iterator[str]:
    holders = _WHO_HOLDS_HIP if message.backend == "hip" else _WHO_HOLDS
    if cause == "fragmented":
        yield from _whole_pieces(message, windows)
        yield "Sizes that repeat: pad batches to a few lengths, and run the longest first; torch.cuda.empty_cache() before a phase of other shapes."
    elif cause == "others":
        yield holders
        yield f"Choose a card that is free ({_visible(message)}), wait, or end what is yours."
        if message.speaker == "JAX":
            yield "export XLA_PYTHON_CLIENT_PREALLOCATE=false   # each JAX takes three quarters of the card at its start"
        elif message.backend == "hip":
            yield "Where card and computer share one memory (an APU), the rest is the system's: see its BIOS, and amdgpu.gttsize."
        yield _RESTART
    elif cause == "host" and message.speaker == "TensorFlow":
        yield "export TF_GPU_HOST_MEM_LIMIT_IN_MB=131072   # 64 GiB without it; before TensorFlow 1.14: TF_CUDA_HOST_MEM_LIMIT_IN_MB"
    elif cause in _STEPS:
        yield from _STEPS[cause]
    elif cause in ("start", "library"):
        yield holders
        yield from _STARTING[cause]
    elif cause == "unsaid" and message.speaker in _OF_FRAMEWORKS:
        yield from _OF_FRAMEWORKS[message.speaker]
    elif cause == "outside" and message.backend == "mps":
        yield "Close what else uses the Mac's memory (browsers, other models): card and computer share it."
        yield "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts torch's limit, not the Mac's: it may stop responding."
    elif cause == "outside":
        yield "Find the library: torch.cuda.memory_summary() shows what torch holds; the rest is TensorFlow, JAX, CuPy, tiny-cuda-nn, NCCL …"
        yield "Give such a framework a share only (TF_FORCE_GPU_ALLOW_GROWTH=true, XLA_PYTHON_CLIENT_PREALLOCATE=false) or a process of its own."


# What helps whatever the figures are.
_STEPS: dict[Cause, tuple[str, ...]] = {
    "contexts": (
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) first thing in each rank, before anything touches CUDA',
        'torch.load(file, map_location="cpu"): without it each rank opens the card that the file was saved from, mostly 0.',
    ),
    "context": (
        "Let nothing else draw on this card: the desktop on the built-in graphics, no browser.",
        "CUDA_MODULE_LOADING=LAZY (the default from CUDA 12.2 on) keeps kernels that are not used out of the context.",
    ),
    "limit": (
        "Look for torch.cuda.set_per_process_memory_fraction, per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF, or a server's own share.",
    ),
    "spilled": (
        "NVIDIA Control Panel, CUDA - Sysmem Fallback AllocatorSettings: Prefer No Sysmem Fallback, so that it fails early and is never slow in silence.",
    ),
    "free": (
        "See the computer's own memory: free -h (Windows: the page file too). CUDA cannot take the card's memory when that is full.",
        "See whether another process comes and goes while it is started again: nvidia-smi -l 1 (AMD: watch rocm-smi).",
        "See whether the process has a limit: set_per_process_memory_fraction, a share that the program sets, a container, MIG or virtual GPU.",
    ),
    "host": (
        "free -h; dmesg -T | grep -i -E 'out of memory|oom-kill'   # what was killed, and when",
        "Fewer DataLoader workers: each keeps a copy of what its dataset touches; Python lists are copied in time, arrays and files are not.",
        'Load weights without a second copy: torch.load(file, mmap=True, map_location="cpu"), safetensors, low_cpu_mem_usage=True.',
    ),
    "confined": (
        "Ask for more: docker run --memory, resources.limits.memory, sbatch --mem; the page cache of files that are read counts too.",
        "Fewer DataLoader workers, smaller prefetch_factor, no dataset that is held in memory whole.",
    ),
}
_STARTING: dict[Cause, tuple[str, ...]] = {
    "start": ("Choose a card that is free, wait, or end what is yours.", _RESTART),
    "library": (
        "export CUDA_LAUNCH_BLOCKING=1   # shows whether another error came first; on the CPU its message is plain",
        "If the card is full: a smaller batch, so that some hundred MiB are left for libraries.",
    ),
}
_OF_FRAMEWORKS: dict[str, tuple[str, ...]] = {
    "torch": (_WHO_HOLDS, "Update torch: from 0.4.1 on the message says what was asked for, held and free."),
    "TensorFlow": (
        _WHO_HOLDS,
        "export TF_FORCE_GPU_ALLOW_GROWTH=true   # or each process takes the whole card; TF_GPU_ALLOCATOR=cuda_malloc_async against pieces",
        'A smaller batch; tf.keras.mixed_precision.set_global_policy("mixed_float16"); tf.recompute_grad around blocks.',
    ),
    "JAX": (
        _WHO_HOLDS,
        "export XLA_PYTHON_CLIENT_MEM_FRACTION=.95   # JAX takes .75 of the card by itself, and gets no more later",
        "jax.checkpoint (remat) around blocks, donate_argnums for the state, a smaller batch.",
    ),
    "llama.cpp": (
        "Fewer layers on the card (-ngl), a shorter context (-c), a smaller -ub, or a smaller quantisation.",
        "-ctk q8_0 -ctv q8_0 halves the KV cache; --tensor-split divides the layers between cards.",
    ),
}
