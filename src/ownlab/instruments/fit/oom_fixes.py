"""What to do about an out-of-memory failure, by its cause, best first: commands and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ownlab.catalog.oom_messages import OomMessage
from ownlab.instruments.fit.oom_explanations import Cause, Holders
from ownlab.instruments.fit.oom_traceback import CodeLocation
from ownlab.instruments.fit.remedies import Remedy, name_in_sentence
from ownlab.text import listing, text

__all__ = ["suggest_fixes"]

_LIST_PROCESSES = text(
    "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv   # processes on the card; fuser -v /dev/nvidia* also lists dead ones"
)
_LIST_PROCESSES_HIP = text("rocm-smi --showpids   # processes on the card")
_RESTART = text(
    "In a notebook: restart the kernel, and the kernels of other notebooks; an earlier cell, or its traceback, keeps its memory."
)
_USE_FIT = text("What each remedy saves on your model, before you rent or wait: ownlab fit FILE.py:build")


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
        titles = listing(name_in_sentence(remedy) for remedy in remedies)
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
        text("Update torch: since 0.4.1 the message shows what was requested, held and free."),
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
