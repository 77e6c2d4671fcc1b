"""Where it is measured: torch and numpy as they are here, the card, how much of it may be taken, and its clock."""

import math
import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ownlab_guest.bench import card_state
from ownlab_guest.bench.request import Request
from ownlab_guest.bench.timing import EventClock, HostClock, Outcome, Skipped, Step, latencies, measure

GIB = 1 << 30
# Others are on the card: they hold so much of it, or something ran in so many percent of the last moment.
# (Without memory of their own nobody runs anything: what was busy then has just ended.)
OTHERS_BYTES, OTHERS_PERCENT, OTHERS_LEAST_BYTES = GIB, 10, GIB // 4
# Of what is free beside others, and of the host's free memory, this share is ours.
SHARE_BESIDE_OTHERS, SHARE_OF_HOST = 0.25, 0.5
# Buffers are rotated through so many times the card's cache; where torch does not tell its size, the largest known.
TIMES_CACHE, LARGEST_CACHE = 4, 128 << 20
MOST_SETS = 64
# Starting something from Python takes about as long: a queue that runs empty is timed, not the card.
SHORT_SECONDS = 10e-6
UNSTICKY = ("out of memory", "status_alloc_failed", "can't allocate memory", "cannot allocate memory")


class Place:
    """One device, and what the tests ask of it."""

    def __init__(self, torch: Any, numpy: Any, device: str, request: Request) -> None:
        self.torch, self.numpy, self.device, self.request = torch, numpy, device, request
        self.why = ""  # there is no card
        self.capability: Tuple[int, int] = (0, 0)
        self.note = ""  # of the card
        self.host_note = ""
        self.lost = ""  # what the card said when it was lost
        self.watched: Optional[card_state.Watched] = None
        self.cache_bytes = LARGEST_CACHE
        self.cores = cores()

    def host(self) -> "Place":
        """The CPU beside the card: figures of it have no card's state with them."""
        host = Place(self.torch, self.numpy, "cpu", self.request)
        host.note = self.host_note
        return host

    @property
    def on_card(self) -> bool:
        """Whether it is a card at all."""
        return self.device.startswith("cuda")

    @property
    def half(self) -> str:
        """The short type that this device is good at; fp32 where there is none."""
        if not self.on_card:
            return "fp32"
        if self.torch.version.hip or self.capability >= (8, 0):
            return "bf16"
        return "fp16" if self.capability >= (7, 0) else "fp32"

    @property
    def threads(self) -> str:
        """How many of torch's threads take part, in words: OMP_NUM_THREADS and others may have set it."""
        count = self.torch.get_num_threads()
        return "" if self.on_card else f"{count} thread{'s' if count > 1 else ''}"

    def wait(self) -> None:
        """Until all that was launched is done."""
        if self.on_card:
            self.torch.cuda.synchronize()

    def look(self) -> Optional[Dict[str, Any]]:
        """The card's state now."""
        return self.watched.state() if self.watched is not None else None

    def time(self, step: Step, seconds: float, work: float, by_host: bool = False, **more: Any) -> Outcome:
        """Batches of repetitions: by the card's clock, or by the host's where the host takes part."""
        clock = EventClock(self.torch) if self.on_card and not by_host else HostClock(self.wait)
        taken, before, after = measure(clock, step, seconds, self.look)
        if self.on_card and not by_host and min(taken) < SHORT_SECONDS:
            more["note"] = "; ".join(filter(None, [more.get("note"), "so short that its launch may be what was timed"]))
        return Outcome(taken, work, before=before, after=after, **more)

    def time_each(self, step: Step, seconds: float) -> Tuple[List[float], Any, Any]:
        """Each repetition by itself, by the host's clock, as a program that waits for it sees it."""
        return latencies(HostClock(self.wait), step, seconds, self.look)

    def sets_of(self, size: int) -> int:
        """How many sets of buffers of so many bytes, so that none is in the card's cache when its turn comes."""
        return max(1, min(MOST_SETS, math.ceil(TIMES_CACHE * self.cache_bytes / size)))

    def need(self, size: int) -> None:
        """On the CPU memory is granted before it is there, and taking it may end the process: so it is asked for."""
        free = host_free_bytes()
        if not self.on_card and free is not None and size > free * SHARE_OF_HOST:
            raise Skipped("out-of-memory", f"it takes {size / GIB:.1f} GiB, and {free / GIB:.1f} GiB are free")

    def tidy(self) -> None:
        """Give back what the last test took."""
        if self.torch is not None and self.on_card and not self.lost:
            try:
                self.torch.cuda.empty_cache()
            except Exception as exc:
                self.lost = str(exc).splitlines()[0]

    def failure(self, exc: BaseException) -> Skipped:
        """What a test raised, as a reason; finds out whether the card still answers."""
        if isinstance(exc, Skipped):
            return exc
        words = " ".join(str(exc).split())[:300] or type(exc).__name__
        if isinstance(exc, MemoryError) or any(sign in words.lower() for sign in UNSTICKY):
            return Skipped("out-of-memory", words)
        if self.on_card:
            try:
                self.torch.cuda.synchronize()
            except Exception as gone:
                self.lost = " ".join(str(gone).split())[:300]
                return Skipped("card-lost", self.lost)
        if (
            isinstance(exc, (NotImplementedError, AttributeError))
            or "not implemented" in words
            or "not support" in words
        ):
            return Skipped("unsupported", words)
        return Skipped("failed", f"{type(exc).__name__}: {words}")

    def facts(self) -> Dict[str, Any]:
        """What stands beside the plan."""
        torch, numpy = self.torch, self.numpy
        return {
            "device": self.device,
            "torch": None if torch is None else str(torch.__version__),
            "cuda": None if torch is None else torch.version.cuda,
            "numpy": None if numpy is None else str(numpy.__version__),
            "cores": self.cores,
            "note": "; ".join(note for note in (self.note, self.host_note) if note),
        }


def find(request: Request) -> Place:
    """The device that is meant, ready to be used."""
    torch, why = _imported("torch")
    numpy, _ = _imported("numpy")
    place = Place(torch, numpy, "cpu", request)
    place.host_note = _busy(place.cores)
    if torch is None:
        place.why = why
    elif request.device == "cpu":
        place.why = "the CPU was asked for; its own products and memory are in the group cpu"
    else:
        _take_card(place, request)
    return place


def _take_card(place: Place, request: Request) -> None:
    torch = place.torch
    if not (request.device or "cuda:0").startswith("cuda"):
        place.why = f"{request.device} is not measured; cuda:0 (the first card) and cpu are"
        return
    try:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        number = int((request.device or "cuda:0").partition(":")[2] or 0)
        if number >= count:
            place.why = f"torch {torch.__version__} sees {count or 'no'} card{'s' if count > 1 else ''}" + (
                f", and no {request.device}" if count else ""
            )
            return
        place.watched = card_state.watched(number)
        others = _others(place.watched)  # before we take anything ourselves
        torch.cuda.set_device(number)
        free, total = torch.cuda.mem_get_info(number)
    except Exception as exc:
        place.why = "torch cannot use the card: " + " ".join(str(exc).split())[:300]
        return
    place.device = f"cuda:{number}"
    properties = torch.cuda.get_device_properties(number)
    place.capability = (properties.major, properties.minor)
    place.cache_bytes = getattr(properties, "L2_cache_size", 0) or LARGEST_CACHE
    most = allowance(request.memory_bytes, free, bool(others))
    said = []
    if others and most is not None:
        said.append(f"others use this card ({others}): at most {most / GIB:.1f} GiB of it were taken")
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        said.append("CUDA_LAUNCH_BLOCKING is set: each launch is waited for, which makes everything slower")
    place.note = "; ".join(said)
    if most is not None:
        torch.cuda.set_per_process_memory_fraction(min(1.0, most / total), number)


def allowance(asked: Optional[int], free: int, others: bool) -> Optional[int]:
    """How many bytes of the card may be taken; None for all. Who names a size knows of the others."""
    if asked is not None or not others:
        return asked
    return int(free * SHARE_BESIDE_OTHERS)


def _others(watched: Optional[card_state.Watched]) -> str:
    """What others do on the card, in words; "" for nobody, or where nobody can say."""
    if watched is None:
        return ""
    used, busy = watched.used_bytes() or 0, watched.busy_percent() or 0
    said = [f"{used / GIB:.1f} GiB are taken"] if used > OTHERS_BYTES else []
    if busy > OTHERS_PERCENT and used > OTHERS_LEAST_BYTES:
        said.append(f"{busy} % of the time something runs")
    return ", ".join(said)


def _busy(count: int) -> str:
    """What others do on the processors, in words. Threads that wait for each other suffer most from it."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return f"others use the processors (load {load:.1f} on {count} cores)" if load > max(1.0, count / 2) else ""


def _imported(name: str) -> Tuple[Any, str]:
    try:
        return __import__(name), ""
    except ImportError as exc:
        return None, f"this Python has no {name}: {exc}"
    except Exception as exc:
        return None, f"{name} cannot be imported: {' '.join(str(exc).split())[:300]}"


def cores() -> int:
    """How many processors this process may use: fewer than there are, in a container with a quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for line in lines("/sys/fs/cgroup/cpu.max"):
        quota, _, period = line.partition(" ")
        if quota.isdigit() and period.isdigit():
            allowed = min(allowed, max(1, int(quota) // int(period)))
    return allowed


def host_free_bytes() -> Optional[int]:
    """What the host, or the container around us, has left; None where nobody says."""
    free = [int(line.split()[1]) * 1024 for line in lines("/proc/meminfo") if line.startswith("MemAvailable:")]
    limits = [int(line) for line in lines("/sys/fs/cgroup/memory.max") if line.isdigit()]
    used = [int(line) for line in lines("/sys/fs/cgroup/memory.current") if line.isdigit()]
    return min([*free, *(limit - taken for limit, taken in zip(limits, used))], default=None)


def lines(path: str) -> Iterator[str]:
    """Of a file of the system's; none where it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from (line.strip() for line in file)
    except OSError:  # not Linux, or no such controller: nothing is said
        return
