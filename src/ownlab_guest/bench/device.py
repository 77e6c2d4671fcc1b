"""The device under test: torch and numpy, the card, the memory that may be used, and the clock."""

import math
import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ownlab_guest.bench import card_state
from ownlab_guest.bench.request import Request
from ownlab_guest.bench.timing import EventClock, HostClock, Outcome, Skipped, Step, measure, measure_latencies
from ownlab_guest.text import plural, text

GIB = 1 << 30
# Others use the card if they hold this much memory, or if it was busy for this percentage of the last moment.
# (A busy card without memory in use only means that a process has just ended.)
OTHERS_BYTES, OTHERS_PERCENT, OTHERS_LEAST_BYTES = GIB, 10, GIB // 4
# The share of the free memory that may be used: on a card with others, and on the host.
SHARE_BESIDE_OTHERS, SHARE_OF_HOST = 0.25, 0.5
# Buffers rotate through this many times the cache of the card; if torch does not report its size, the largest known.
TIMES_CACHE, LARGEST_CACHE = 4, 128 << 20
MOST_BUFFER_SETS = 64
# A launch from Python takes about this long: with a shorter kernel, the launches are timed and not the card.
SHORT_SECONDS = 10e-6
OUT_OF_MEMORY = ("out of memory", "status_alloc_failed", "can't allocate memory", "cannot allocate memory")


class Device:
    """One device, with what the tests need of it."""

    def __init__(self, torch: Any, numpy: Any, name: str, request: Request) -> None:
        self.torch, self.numpy, self.name, self.request = torch, numpy, name, request
        self.no_card_reason = ""
        self.capability: Tuple[int, int] = (0, 0)
        self.notes: Tuple[str, ...] = ()  # on the card
        self.host_notes: Tuple[str, ...] = ()
        self.lost = ""  # the error of a lost card
        self.card: Optional[card_state.CardState] = None
        self.cache_bytes = LARGEST_CACHE
        self.cores = cores()

    def host(self) -> "Device":
        """Return the CPU as a device: its results have no state of a card."""
        host = Device(self.torch, self.numpy, "cpu", self.request)
        host.notes = self.host_notes
        return host

    @property
    def on_card(self) -> bool:
        """Whether the device is a card."""
        return self.name.startswith("cuda")

    @property
    def fast_dtype(self) -> str:
        """The 16-bit type that this device computes fast; fp32 if there is none."""
        if not self.on_card:
            return "fp32"
        if self.torch.version.hip or self.capability >= (8, 0):
            return "bf16"
        return "fp16" if self.capability >= (7, 0) else "fp32"

    @property
    def thread_notes(self) -> Tuple[str, ...]:
        """The number of torch's threads, which OMP_NUM_THREADS and others may have set."""
        return () if self.on_card else (describe_threads(self.torch.get_num_threads()),)

    def wait(self) -> None:
        """Wait for all launched work."""
        if self.on_card:
            self.torch.cuda.synchronize()

    def read_state(self) -> Optional[Dict[str, Any]]:
        """Return the current state of the card."""
        return self.card.read() if self.card is not None else None

    def time(self, step: Step, seconds: float, work: float, by_host: bool = False, **more: Any) -> Outcome:
        """Time batches of repetitions: with the clock of the card, or of the host if it takes part in the work."""
        clock = EventClock(self.torch) if self.on_card and not by_host else HostClock(self.wait)
        taken, before, after = measure(clock, step, seconds, self.read_state)
        if self.on_card and not by_host and min(taken) < SHORT_SECONDS:
            note = text("It is so short that the launches may have been timed instead of the kernels.")
            more["notes"] = (*more.get("notes", ()), note)
        return Outcome(taken, work, before=before, after=after, **more)

    def time_each(self, step: Step, seconds: float) -> Tuple[List[float], Any, Any]:
        """Time each repetition separately with the clock of the host, as a program that waits for it."""
        return measure_latencies(HostClock(self.wait), step, seconds, self.read_state)

    def buffer_sets(self, size: int) -> int:
        """Return how many sets of buffers of this size are needed so that none is still in the cache of the card."""
        return max(1, min(MOST_BUFFER_SETS, math.ceil(TIMES_CACHE * self.cache_bytes / size)))

    def require_memory(self, size: int) -> None:
        """Check the memory of the host first: Linux grants more than there is and kills the process later."""
        free = host_free_bytes()
        if not self.on_card and free is not None and size > free * SHARE_OF_HOST:
            raise Skipped(
                "out-of-memory",
                text("it needs {needed:.1f} GiB, but only {free:.1f} GiB are free", needed=size / GIB, free=free / GIB),
            )

    def free_memory(self) -> None:
        """Release the memory of the last test."""
        if self.torch is not None and self.on_card and not self.lost:
            try:
                self.torch.cuda.empty_cache()
            except Exception as exc:
                self.lost = str(exc).splitlines()[0]

    def explain_failure(self, exc: BaseException) -> Skipped:
        """Convert an exception of a test into a reason; check whether the card still answers."""
        if isinstance(exc, Skipped):
            return exc
        message = " ".join(str(exc).split())[:300] or type(exc).__name__
        if isinstance(exc, MemoryError) or any(sign in message.lower() for sign in OUT_OF_MEMORY):
            return Skipped("out-of-memory", message)
        if self.on_card:
            try:
                self.torch.cuda.synchronize()
            except Exception as error:
                self.lost = " ".join(str(error).split())[:300]
                return Skipped("card-lost", self.lost)
        if (
            isinstance(exc, (NotImplementedError, AttributeError))
            or "not implemented" in message
            or "not support" in message
        ):
            return Skipped("unsupported", message)
        return Skipped("failed", text("{error}: {message}", error=type(exc).__name__, message=message))

    def facts(self) -> Dict[str, Any]:
        """Return the properties for the first event."""
        torch, numpy = self.torch, self.numpy
        return {
            "device": self.name,
            "torch": None if torch is None else str(torch.__version__),
            "cuda": None if torch is None else torch.version.cuda,
            "numpy": None if numpy is None else str(numpy.__version__),
            "cores": self.cores,
            "notes": [*self.notes, *self.host_notes],
        }


def find_device(request: Request) -> Device:
    """Return the requested device, ready for use."""
    torch, reason = _try_import("torch")
    numpy, _ = _try_import("numpy")
    device = Device(torch, numpy, "cpu", request)
    device.host_notes = _describe_load(device.cores)
    if torch is None:
        device.no_card_reason = reason
    elif request.device == "cpu":
        device.no_card_reason = text("the CPU was requested; its products and its memory are in the group cpu")
    else:
        take_card(device, request)
    return device


def take_card(device: Device, request: Request) -> None:
    """Use the requested card, or note why there is none."""
    torch = device.torch
    if not (request.device or "cuda:0").startswith("cuda"):
        device.no_card_reason = text(
            "{device} is not supported; use cuda:0 (the first card) or cpu", device=request.device
        )
        return
    try:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        number = int((request.device or "cuda:0").partition(":")[2] or 0)
        if number >= count:
            device.no_card_reason = _describe_missing_card(str(torch.__version__), count, request.device)
            return
        device.card = card_state.open_card(number)
        others = _describe_others(device.card)  # before this process uses memory
        torch.cuda.set_device(number)
        free, total = torch.cuda.mem_get_info(number)
    except Exception as exc:
        device.no_card_reason = text("torch cannot use the card: {reason}", reason=" ".join(str(exc).split())[:300])
        return
    device.name = f"cuda:{number}"
    properties = torch.cuda.get_device_properties(number)
    device.capability = (properties.major, properties.minor)
    device.cache_bytes = getattr(properties, "L2_cache_size", 0) or LARGEST_CACHE
    most = memory_limit(request.memory_bytes, free, bool(others))
    notes: List[str] = []
    if others and most is not None:
        notes += [others, text("At most {size:.1f} GiB of its memory were used.", size=most / GIB)]
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        notes.append(text("CUDA_LAUNCH_BLOCKING is set, which makes everything slower."))
    device.notes = tuple(notes)
    if most is not None:
        torch.cuda.set_per_process_memory_fraction(min(1.0, most / total), number)


def memory_limit(requested: Optional[int], free: int, others: bool) -> Optional[int]:
    """Return how many bytes of the card may be used; None: all. A requested size always wins."""
    if requested is not None or not others:
        return requested
    return int(free * SHARE_BESIDE_OTHERS)


def _describe_missing_card(version: str, count: int, requested: Optional[str]) -> str:
    if not count:
        return text("torch {version} sees no card", version=version)
    return plural(
        count,
        "torch {version} sees 1 card, but no {device}",
        "torch {version} sees {n} cards, but no {device}",
        version=version,
        device=requested,
    )


def _describe_others(card: Optional[card_state.CardState]) -> str:
    """Describe what others do on the card; "" for nothing, or if it is unknown."""
    if card is None:
        return ""
    used, busy = card.used_bytes() or 0, card.busy_percent() or 0
    is_busy, size = busy > OTHERS_PERCENT and used > OTHERS_LEAST_BYTES, used / GIB
    if used > OTHERS_BYTES and is_busy:
        return text(
            "Others use this card: {size:.1f} GiB are in use, and it is busy {percent} % of the time.",
            size=size,
            percent=busy,
        )
    if used > OTHERS_BYTES:
        return text("Others use this card: {size:.1f} GiB are in use.", size=size)
    return text("Others use this card: it is busy {percent} % of the time.", percent=busy) if is_busy else ""


def describe_threads(count: int) -> str:
    """Return a note on the number of threads."""
    return plural(count, "It used 1 thread.", "It used {n} threads.")


def _describe_load(count: int) -> Tuple[str, ...]:
    """Describe the load of the processors. It slows down threads that wait for each other most."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load <= max(1.0, count / 2):
        return ()
    return (text("Others use the processors: the load is {load:.1f} on {count} cores.", load=load, count=count),)


def _try_import(name: str) -> Tuple[Any, str]:
    try:
        return __import__(name), ""
    except ImportError as exc:
        return None, text("this Python has no {name}: {reason}", name=name, reason=exc)
    except Exception as exc:
        reason = " ".join(str(exc).split())[:300]
        return None, text("{name} cannot be imported: {reason}", name=name, reason=reason)


def cores() -> int:
    """Return the number of usable processors: with a CPU quota, fewer than there are."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for line in read_lines("/sys/fs/cgroup/cpu.max"):
        quota, _, period = line.partition(" ")
        if quota.isdigit() and period.isdigit():
            allowed = min(allowed, max(1, int(quota) // int(period)))
    return allowed


def host_free_bytes() -> Optional[int]:
    """Return the free memory of the host or of the container; None if unknown."""
    free = [int(line.split()[1]) * 1024 for line in read_lines("/proc/meminfo") if line.startswith("MemAvailable:")]
    limits = [int(line) for line in read_lines("/sys/fs/cgroup/memory.max") if line.isdigit()]
    used = [int(line) for line in read_lines("/sys/fs/cgroup/memory.current") if line.isdigit()]
    return min([*free, *(limit - current for limit, current in zip(limits, used))], default=None)


def read_lines(path: str) -> Iterator[str]:
    """Yield the lines of a system file; none if it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from (line.strip() for line in file)
    except OSError:  # not Linux, or no such controller
        return
