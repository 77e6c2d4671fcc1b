"""Parse out-of-memory messages of frameworks, CUDA and Linux in pasted text.

Sources of the wordings: torch's CUDACachingAllocator.cpp (0.4 to 1.3: "… cached"; 1.4 to 2.0: "… reserved in total by PyTorch"; 2.1:
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

__all__ = ["Holder", "OomMessage", "parse_messages"]

Speaker = Literal["torch", "CUDA", "library", "TensorFlow", "JAX", "llama.cpp", "Linux", "shell"]

_WINDOW = 1500  # the most characters of a message; text further away belongs to another
_QUOTED = 300


class Holder(Struct, frozen=True):
    """A process that holds memory on the card."""

    pid: int
    bytes: int


class OomMessage(Struct, frozen=True, kw_only=True):
    """The figures of one message. None: the message does not contain it."""

    speaker: Speaker
    quoted: str
    backend: Literal["cuda", "hip", "xpu", "npu", "mps", "cpu"] = "cuda"  # cpu: the computer's own memory ran out
    device: int | None = None  # index within the program
    tried_bytes: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    allowed_bytes: int | None = None  # a limit below the card's size
    process_bytes: int | None = None  # of this process, with its context
    allocated_bytes: int | None = None  # held by tensors
    unallocated_bytes: int | None = None  # held by the framework for later use
    pools_bytes: int | None = None  # of the allocated: in private pools (CUDA graphs)
    outside_bytes: int | None = None  # of this process, outside the framework's allocator, where the message has it
    program_bytes: int | None = None  # XLA: the total of the compiled program
    others: tuple[Holder, ...] = ()
    # The option against fragmentation that this version of torch has, judged by its wording.
    against_pieces: Literal["expandable_segments", "max_split_size_mb", ""] = ""
    variable: str = "PYTORCH_CUDA_ALLOC_CONF"  # the variable that sets it
    victim: str = ""  # Linux: the process that was killed
    confined: bool = False  # Linux: the limit is that of a container, job or service, not of the machine

    @property
    def reserved_bytes(self) -> int | None:
        """The total that the framework's allocator holds."""
        if self.allocated_bytes is None or self.unallocated_bytes is None:
            return None
        return self.allocated_bytes + self.unallocated_bytes

    @property
    def figure_count(self) -> int:
        """How many figures the message has."""
        figures = [name for name in self.__struct_fields__ if name.endswith("_bytes")]
        return sum(getattr(self, name) is not None for name in figures)


class _Candidate(NamedTuple):
    match: re.Match[str]
    window: str  # the message, from its first word on
    text: str  # the whole pasted text

    @property
    def quoted(self) -> str:
        return self.window[:_QUOTED].rstrip()


_SIZE = r"(\d+(?:\.\d+)? ?(?:bytes|[KMGT]i?B))\b"


def parse_messages(lines: Sequence[str]) -> tuple[OomMessage, ...]:
    """Return the out-of-memory messages in the lines, in order; each once, even if eight ranks printed it."""
    text = " ".join(" ".join(lines).split())  # consoles and pages break lines anywhere
    matches = sorted(
        ((match, parse) for pattern, parse in _PATTERNS for match in pattern.finditer(text)),
        key=lambda pair: pair[0].start(),
    )
    starts = [match.start() for match, _ in matches] + [len(text)]
    messages = [
        parse(_Candidate(match, text[match.start() : min(end, match.start() + _WINDOW)], text))
        for (match, parse), end in zip(matches, starts[1:], strict=True)
    ]
    messages += [] if messages else _killed(lines)
    return tuple({replace(message, quoted=""): message for message in reversed(messages)}.values())[::-1]


def _bytes(size: str, *, binary: bool = False) -> int:
    """ "1.5 GiB" in bytes; `binary`: of a program that writes GB for GiB."""
    size = size.replace("bytes", "B")
    return parse_bytes(re.sub(r"([KMGT])B", r"\1iB", size) if binary else size)


def _size(text: str, *patterns: str) -> int | None:
    """Return the size at the @ of the first pattern that matches."""
    for pattern in patterns:
        match = re.search(pattern.replace("@", _SIZE), text)
        if match is not None:
            return _bytes(match[1])
    return None


def _number(text: str, pattern: str) -> int | None:
    match = re.search(pattern, text)
    return None if match is None else int(next(part for part in match.groups() if part is not None))


def _parse_torch(candidate: _Candidate) -> OomMessage:
    words = candidate.window
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
        quoted=candidate.quoted,
        backend=(candidate.match["backend"] or "cuda").lower(),  # type: ignore[arg-type]  # the pattern has no others
        device=_number(words, r"\((?:GPU|NPU|XPU) (\d+);|\b(?:GPU|NPU|XPU) (\d+) has a total"),
        tried_bytes=_bytes(candidate.match["tried"]) if candidate.match["tried"] else None,
        total_bytes=_size(words, "total capaci?ty of @", "@ total capacity"),
        free_bytes=_size(words, "of which @ is free", "; @ free"),
        allowed_bytes=_size(words, "@ allowed"),
        process_bytes=process,
        allocated_bytes=allocated,
        unallocated_bytes=unallocated,
        pools_bytes=_size(words, "with @ allocated in private pools"),
        others=tuple(held),
        against_pieces=_against_pieces(words),
        variable=_variable(words, candidate.match["backend"]),
    )


def _against_pieces(words: str) -> Literal["expandable_segments", "max_split_size_mb", ""]:
    if "has a total capac" in words:  # 2.1 has both, and advises the older
        return "expandable_segments"
    return "max_split_size_mb" if "max_split_size_mb" in words else ""


def _variable(words: str, backend: str | None) -> str:
    """Return the variable that configures the allocator. For CUDA always the older name: 2.9 ignores the newer (pytorch#183387)."""
    named = re.search(r"PYTORCH_\w*ALLOC_CONF", words)
    return named[0] if named and backend == "HIP" else "PYTORCH_CUDA_ALLOC_CONF"


def _find_own(held: list[Holder], reserved: int) -> tuple[int | None, list[Holder]]:
    """Find the process that wrote the message: in a container it does not know its own pid outside."""
    own = min(
        (holder for holder in held if holder.bytes >= reserved * 0.98), key=lambda holder: holder.bytes, default=None
    )
    if own is None or own.bytes > reserved + 2 * GIB:
        return None, held
    return own.bytes, [holder for holder in held if holder is not own]


def _parse_mps(candidate: _Candidate) -> OomMessage:
    sizes = [_bytes(size, binary=True) for size in candidate.match.groups() if size]
    return OomMessage(
        speaker="torch",
        quoted=candidate.quoted,
        backend="mps",
        allocated_bytes=sizes[0],
        outside_bytes=sizes[1],
        allowed_bytes=sizes[2],
        tried_bytes=sizes[3] if len(sizes) > 3 else None,
    )


def _parse_cuda(candidate: _Candidate) -> OomMessage:
    # Before torch 0.4.1 the allocator printed no figures; the file name shows that the allocator failed.
    return OomMessage(
        speaker="torch" if "THCStorage" in candidate.window[:_QUOTED] else "CUDA",
        quoted=candidate.quoted,
        backend="hip" if "hip" in candidate.match[0].lower() else "cuda",
    )


def _parse_library(candidate: _Candidate) -> OomMessage:
    return OomMessage(speaker="library", quoted=candidate.quoted)


def _parse_ggml(candidate: _Candidate) -> OomMessage:
    return OomMessage(
        speaker="llama.cpp",
        quoted=candidate.quoted,
        backend="hip" if "ROCm" in candidate.window else "cuda",
        device=int(candidate.match["device"]),
        tried_bytes=_bytes(candidate.match["tried"]),
    )


# Bytes of TensorFlow's types; those not listed here have four.
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


def _parse_tensorflow(candidate: _Candidate) -> OomMessage:
    """The shape gives the size; the allocator's own report, where it was pasted too, gives its limit."""
    shape = [int(part) for part in candidate.match["shape"].split(",") if part]
    on_host = candidate.match["where"] == "CPU" or "Allocator (cuda_host_bfc) ran out" in candidate.text
    return OomMessage(
        speaker="TensorFlow",
        quoted=candidate.quoted,
        backend="cpu" if on_host else "cuda",
        device=int(candidate.match["device"]) if candidate.match["device"] and not on_host else None,
        tried_bytes=math.prod(shape) * _WIDTHS.get(candidate.match["type"] or "float", 4),
        allowed_bytes=_number(candidate.text, r"\bLimit: +(\d+)"),
        allocated_bytes=_number(candidate.text, r"\bInUse: +(\d+)"),
    )


def _parse_jax(candidate: _Candidate) -> OomMessage:
    tried = _number(candidate.window, r"allocat\w+ (\d+) bytes|\((\d+)B\) on device")
    return OomMessage(
        speaker="JAX",
        quoted=candidate.quoted,
        device=_number(candidate.window, r"device ordinal (\d+)"),
        tried_bytes=tried if tried is not None else _size(candidate.window, "request for @", "allocate @"),
        program_bytes=_size(candidate.window, "total allocation: +@"),
    )


def _parse_linux(candidate: _Candidate) -> OomMessage:
    words = candidate.window
    held = _number(words, r"anon-rss: ?(\d+) ?kB")
    return OomMessage(
        speaker="Linux",
        quoted=candidate.quoted,
        backend="cpu",
        victim=candidate.match["victim"] or "",
        process_bytes=None if held is None else held * KIB,
        confined="cgroup" in candidate.match[0] or "CONSTRAINT_MEMCG" in candidate.text,
    )


def _parse_host_allocator(candidate: _Candidate) -> OomMessage:
    return OomMessage(
        speaker="torch",
        quoted=candidate.quoted,
        backend="cpu",
        tried_bytes=int(candidate.match["tried"]) if candidate.match["tried"] else None,
        victim="DataLoader worker" if "DataLoader" in candidate.match[0] else "",
    )


def _killed(lines: Sequence[str]) -> Iterator[OomMessage]:
    """Find what a shell prints for a process that got SIGKILL."""
    for line in lines:
        if re.search(r"(?:^|\s|\d|\])Killed(?:\s+python.*)?$", line):
            yield OomMessage(speaker="shell", quoted=line.strip()[-_QUOTED:], backend="cpu")
            return


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[_Candidate], OomMessage]], ...] = (
    (
        # Before torch 2.5 people often paste it without its first words. A size that cannot be read is left out.
        re.compile(
            r"(?:(?P<backend>CUDA|HIP|XPU|NPU) out of memory[.:]? *)?Tried to allocate "
            rf"(?:(?P<tried>{_SIZE})(?! on \w+ pool)|(?<=memory\. Tried to allocate ))"
        ),
        _parse_torch,
    ),
    (
        re.compile(
            rf"MPS backend out of memory \(MPS allocated: {_SIZE}, other allocations: {_SIZE}, max allowed: {_SIZE}\)\."
            rf"(?: Tried to allocate {_SIZE})?"
        ),
        _parse_mps,
    ),
    (
        re.compile(
            r"(?:CUDA|HIP) error: ?out of memory|cuda runtime error ?\(2\) ?: ?out of memory|CUDA_ERROR_OUT_OF_MEMORY|"
            r"cudaErrorMemoryAllocation|hipErrorOutOfMemory|(?:CUDA|HIP) out of memory(?![.:]? *Tried)"
        ),
        _parse_cuda,
    ),
    (re.compile(r"\bCU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_ALLOC_FAILED"), _parse_library),
    (
        re.compile(r"allocating (?P<tried>[\d.]+ MiB) on device (?P<device>\d+): (?:cuda|hip)Malloc failed: out of memory"),
        _parse_ggml,
    ),
    (
        re.compile(
            r"OOM when allocating tensor with shape ?\[(?P<shape>[\d,]*)\](?: and type (?P<type>\w+))?"
            r"(?: on \S*device:(?P<where>GPU|CPU):(?P<device>\d+))?"
        ),
        _parse_tensorflow,
    ),
    (re.compile(r"R(?:ESOURCE_EXHAUSTED|esource exhausted): ?(?:Out of memory|Failed to allocate)"), _parse_jax),
    (
        re.compile(
            r"(?:Memory cgroup out of memory|(?<!cgroup )Out of memory): Kill(?:ed)? process \d+ \((?P<victim>[^)]*)\)|"
            r"(?<!\d)\d{1,9} oom-kill event\(s\) in (?:\S+ )?\S+ cgroup"
        ),
        _parse_linux,
    ),
    (
        re.compile(
            r"DefaultCPUAllocator: (?:can't allocate|not enough) memory: you tried to allocate (?P<tried>\d+) ?bytes|"
            r"DataLoader worker \(pid[^)]*\) is killed by signal: Killed"
        ),
        _parse_host_allocator,
    ),
)  # fmt: skip
