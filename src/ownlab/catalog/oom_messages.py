"""Reads messages about memory that ran out, as frameworks, CUDA and Linux word them, in pasted text.

Wordings: torch's CUDACachingAllocator.cpp (0.4 to 1.3: "… cached"; 1.4 to 2.0: "… reserved in total by PyTorch"; 2.1:
"total capacty"; then "of which … is free"), XPU's and MPS's allocators, THC of torch 0.3, TensorFlow's bfc_allocator.cc,
XLA, ggml-cuda, Linux's oom_kill.c. tests/oom has real ones of each, with their sources.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ownlab.units import GIB, KIB, parse_bytes

__all__ = ["Holder", "OomMessage", "read_messages"]

Speaker = Literal["torch", "CUDA", "library", "TensorFlow", "JAX", "llama.cpp", "Linux", "shell"]

_WINDOW = 1500  # characters that a message may have; what lies further away is of another
_QUOTED = 300


class Holder(Struct, frozen=True):
    """A process that holds memory of the card."""

    pid: int
    bytes: int


class OomMessage(Struct, frozen=True, kw_only=True):
    """What one message says. None: it does not say it."""

    speaker: Speaker
    quoted: str
    backend: Literal["cuda", "hip", "xpu", "npu", "mps", "cpu"] = "cuda"  # cpu: the computer's own memory ran out
    device: int | None = None  # as the program counts them
    tried_bytes: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    allowed_bytes: int | None = None  # a limit below the card's size
    process_bytes: int | None = None  # of this process, with its context
    allocated_bytes: int | None = None  # held by tensors
    unallocated_bytes: int | None = None  # held by the framework for later use
    pools_bytes: int | None = None  # of the allocated: in private pools (CUDA graphs)
    outside_bytes: int | None = None  # of this process, not by the framework's allocator, where the message says it
    program_bytes: int | None = None  # XLA: what the compiled program needs in all
    others: tuple[Holder, ...] = ()
    # What this torch has against memory in pieces, by its wording: expandable_segments, max_split_size_mb, or nothing.
    against_pieces: Literal["expandable_segments", "max_split_size_mb", ""] = ""
    variable: str = "PYTORCH_CUDA_ALLOC_CONF"  # where it is set
    victim: str = ""  # Linux: the process that was killed
    confined: bool = False  # Linux: the limit of a container, job or service, not of the machine

    @property
    def reserved_bytes(self) -> int | None:
        """What the framework's allocator holds in all."""
        if self.allocated_bytes is None or self.unallocated_bytes is None:
            return None
        return self.allocated_bytes + self.unallocated_bytes

    @property
    def told(self) -> int:
        """How many figures it has."""
        figures = [name for name in self.__struct_fields__ if name.endswith("_bytes")]
        return sum(getattr(self, name) is not None for name in figures)


class _Found(NamedTuple):
    match: re.Match[str]
    window: str  # the message, from its first word on
    text: str  # everything that was pasted

    @property
    def quoted(self) -> str:
        return self.window[:_QUOTED].rstrip()


_SIZE = r"(\d+(?:\.\d+)? ?(?:bytes|[KMGT]i?B))\b"


def read_messages(lines: Sequence[str]) -> tuple[OomMessage, ...]:
    """Every message in the lines about memory that ran out, in their order; each once, though eight ranks said it."""
    text = " ".join(" ".join(lines).split())  # consoles and pages break lines anywhere
    found = sorted(
        ((match, read) for sign, read in _SIGNS for match in sign.finditer(text)), key=lambda pair: pair[0].start()
    )
    starts = [match.start() for match, _ in found] + [len(text)]
    messages = [
        read(_Found(match, text[match.start() : min(end, match.start() + _WINDOW)], text))
        for (match, read), end in zip(found, starts[1:], strict=True)
    ]
    messages += [] if messages else _killed(lines)
    return tuple({replace(message, quoted=""): message for message in reversed(messages)}.values())[::-1]


def _bytes(size: str, *, binary: bool = False) -> int:
    """ "1.5 GiB" in bytes; `binary`: of a program that writes GB for GiB."""
    size = size.replace("bytes", "B")
    return parse_bytes(re.sub(r"([KMGT])B", r"\1iB", size) if binary else size)


def _size(text: str, *patterns: str) -> int | None:
    """The size that stands for @ in the first of the patterns that is found."""
    for pattern in patterns:
        match = re.search(pattern.replace("@", _SIZE), text)
        if match is not None:
            return _bytes(match[1])
    return None


def _number(text: str, pattern: str) -> int | None:
    match = re.search(pattern, text)
    return None if match is None else int(next(part for part in match.groups() if part is not None))


def _of_torch(found: _Found) -> OomMessage:
    words = found.window
    allocated = _size(words, "memory @ is allocated by PyTorch", "@ already allocated")
    # Before torch 1.4 "cached" is what is held without use; after it "reserved in total" is both.
    unallocated = _size(words, "@ is reserved by PyTorch but unallocated", "@ cached")
    reserved = _size(words, "@ reserved in total by PyTorch")
    if unallocated is None and reserved is not None and allocated is not None:
        unallocated = max(0, reserved - allocated)
    process = _size(words, "this process has @ memory in use") or None  # 0 bytes: NVML did not know
    held = [
        Holder(int(pid), _bytes(size)) for pid, size in re.findall(rf"\bProcess (\d+) has {_SIZE} memory in use", words)
    ]
    if process is None and allocated is not None:
        process, held = _find_own(held, allocated + (unallocated or 0))
    return OomMessage(
        speaker="torch",
        quoted=found.quoted,
        backend=(found.match["backend"] or "cuda").lower(),  # type: ignore[arg-type]  # the sign has no others
        device=_number(words, r"\((?:GPU|NPU|XPU) (\d+);|\b(?:GPU|NPU|XPU) (\d+) has a total"),
        tried_bytes=_bytes(found.match["tried"]) if found.match["tried"] else None,
        total_bytes=_size(words, "total capaci?ty of @", "@ total capacity"),
        free_bytes=_size(words, "of which @ is free", "; @ free"),
        allowed_bytes=_size(words, "@ allowed"),
        process_bytes=process,
        allocated_bytes=allocated,
        unallocated_bytes=unallocated,
        pools_bytes=_size(words, "with @ allocated in private pools"),
        others=tuple(held),
        against_pieces=_against_pieces(words),
        variable=_variable(words, found.match["backend"]),
    )


def _against_pieces(words: str) -> Literal["expandable_segments", "max_split_size_mb", ""]:
    if "has a total capac" in words:  # 2.1 has both, and advises the older
        return "expandable_segments"
    return "max_split_size_mb" if "max_split_size_mb" in words else ""


def _variable(words: str, backend: str | None) -> str:
    """Where the allocator is told. For CUDA always the older name: 2.9 ignores the newer one (pytorch#183387)."""
    named = re.search(r"PYTORCH_\w*ALLOC_CONF", words)
    return named[0] if named and backend == "HIP" else "PYTORCH_CUDA_ALLOC_CONF"


def _find_own(held: list[Holder], reserved: int) -> tuple[int | None, list[Holder]]:
    """Which of the processes is the one that speaks. In a container it does not know its own number outside."""
    own = min((one for one in held if one.bytes >= reserved * 0.98), key=lambda one: one.bytes, default=None)
    if own is None or own.bytes > reserved + 2 * GIB:
        return None, held
    return own.bytes, [one for one in held if one is not own]


def _of_mps(found: _Found) -> OomMessage:
    sizes = [_bytes(size, binary=True) for size in found.match.groups() if size]
    return OomMessage(
        speaker="torch",
        quoted=found.quoted,
        backend="mps",
        allocated_bytes=sizes[0],
        outside_bytes=sizes[1],
        allowed_bytes=sizes[2],
        tried_bytes=sizes[3] if len(sizes) > 3 else None,
    )


def _of_cuda(found: _Found) -> OomMessage:
    # Before torch 0.4.1 its allocator gave no figures; the file in which it failed tells that it was the allocator.
    return OomMessage(
        speaker="torch" if "THCStorage" in found.window[:_QUOTED] else "CUDA",
        quoted=found.quoted,
        backend="hip" if "hip" in found.match[0].lower() else "cuda",
    )


def _of_library(found: _Found) -> OomMessage:
    return OomMessage(speaker="library", quoted=found.quoted)


def _of_ggml(found: _Found) -> OomMessage:
    return OomMessage(
        speaker="llama.cpp",
        quoted=found.quoted,
        backend="hip" if "ROCm" in found.window else "cuda",
        device=int(found.match["device"]),
        tried_bytes=_bytes(found.match["tried"]),
    )


# TensorFlow's names of types; what is not here is taken for four bytes.
_WIDTHS = {
    "half": 2,
    "bfloat16": 2,
    "double": 8,
    "int64": 8,
    "complex64": 8,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


def _of_tensorflow(found: _Found) -> OomMessage:
    """The shape says the size. The allocator's own report, where it was pasted too, says how much it may have."""
    shape = [int(part) for part in found.match["shape"].split(",") if part]
    on_host = found.match["where"] == "CPU" or "Allocator (cuda_host_bfc) ran out" in found.text
    return OomMessage(
        speaker="TensorFlow",
        quoted=found.quoted,
        backend="cpu" if on_host else "cuda",
        device=int(found.match["device"]) if found.match["device"] and not on_host else None,
        tried_bytes=math.prod(shape) * _WIDTHS.get(found.match["type"] or "float", 4),
        allowed_bytes=_number(found.text, r"\bLimit: +(\d+)"),
        allocated_bytes=_number(found.text, r"\bInUse: +(\d+)"),
    )


def _of_jax(found: _Found) -> OomMessage:
    tried = _number(found.window, r"allocat\w+ (\d+) bytes|\((\d+)B\) on device")
    return OomMessage(
        speaker="JAX",
        quoted=found.quoted,
        device=_number(found.window, r"device ordinal (\d+)"),
        tried_bytes=tried if tried is not None else _size(found.window, "request for @", "allocate @"),
        program_bytes=_size(found.window, "total allocation: +@"),
    )


def _of_linux(found: _Found) -> OomMessage:
    words = found.window
    held = _number(words, r"anon-rss: ?(\d+) ?kB")
    return OomMessage(
        speaker="Linux",
        quoted=found.quoted,
        backend="cpu",
        victim=found.match["victim"] or "",
        process_bytes=None if held is None else held * KIB,
        confined="cgroup" in found.match[0] or "CONSTRAINT_MEMCG" in found.text,
    )


def _of_host_allocator(found: _Found) -> OomMessage:
    return OomMessage(
        speaker="torch",
        quoted=found.quoted,
        backend="cpu",
        tried_bytes=int(found.match["tried"]) if found.match["tried"] else None,
        victim="DataLoader worker" if "DataLoader" in found.match[0] else "",
    )


def _killed(lines: Sequence[str]) -> Iterator[OomMessage]:
    """A shell's bare word for a process that got SIGKILL."""
    for line in lines:
        if re.search(r"(?:^|\s|\d|\])Killed(?:\s+python.*)?$", line):
            yield OomMessage(speaker="shell", quoted=line.strip()[-_QUOTED:], backend="cpu")
            return


_SIGNS: tuple[tuple[re.Pattern[str], Callable[[_Found], OomMessage]], ...] = (
    (
        # Before torch 2.5 people often paste it without its first words. A size that cannot be read is left out.
        re.compile(
            r"(?:(?P<backend>CUDA|HIP|XPU|NPU) out of memory[.:]? *)?Tried to allocate "
            rf"(?:(?P<tried>{_SIZE})(?! on \w+ pool)|(?<=memory\. Tried to allocate ))"
        ),
        _of_torch,
    ),
    (
        re.compile(
            rf"MPS backend out of memory \(MPS allocated: {_SIZE}, other allocations: {_SIZE}, max allowed: {_SIZE}\)\."
            rf"(?: Tried to allocate {_SIZE})?"
        ),
        _of_mps,
    ),
    (
        re.compile(
            r"(?:CUDA|HIP) error: ?out of memory|cuda runtime error ?\(2\) ?: ?out of memory|CUDA_ERROR_OUT_OF_MEMORY|"
            r"cudaErrorMemoryAllocation|hipErrorOutOfMemory|(?:CUDA|HIP) out of memory(?![.:]? *Tried)"
        ),
        _of_cuda,
    ),
    (re.compile(r"\bCU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_ALLOC_FAILED"), _of_library),
    (
        re.compile(r"allocating (?P<tried>[\d.]+ MiB) on device (?P<device>\d+): (?:cuda|hip)Malloc failed: out of memory"),
        _of_ggml,
    ),
    (
        re.compile(
            r"OOM when allocating tensor with shape ?\[(?P<shape>[\d,]*)\](?: and type (?P<type>\w+))?"
            r"(?: on \S*device:(?P<where>GPU|CPU):(?P<device>\d+))?"
        ),
        _of_tensorflow,
    ),
    (re.compile(r"R(?:ESOURCE_EXHAUSTED|esource exhausted): ?(?:Out of memory|Failed to allocate)"), _of_jax),
    (
        re.compile(
            r"(?:Memory cgroup out of memory|(?<!cgroup )Out of memory): Kill(?:ed)? process \d+ \((?P<victim>[^)]*)\)|"
            r"\d+ oom-kill event\(s\) in (?:\S+ )?\S+ cgroup"
        ),
        _of_linux,
    ),
    (
        re.compile(
            r"DefaultCPUAllocator: (?:can't allocate|not enough) memory: you tried to allocate (?P<tried>\d+) ?bytes|"
            r"DataLoader worker \(pid[^)]*\) is killed by signal: Killed"
        ),
        _of_host_allocator,
    ),
)  # fmt: skip
