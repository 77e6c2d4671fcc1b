"""Detect whether a command waits for input on its terminal.

Linux shows in /proc, to its own user, which system call a process is in and its arguments. On other systems the answer is
UNKNOWN, and the caller judges by the last output.
"""

import os
import platform
import struct
from typing import Dict, Iterator, List, Optional, Set, Tuple

__all__ = ["BUSY", "LISTENS", "READS", "UNKNOWN", "wait_state"]

READS = "reads"  # it waits for input only
LISTENS = "listens"  # it waits for input and for other events, or with a timeout
BUSY = "busy"
UNKNOWN = "unknown"

# Linux, arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
_CALLS: Dict[str, Dict[int, str]] = {
    "x86_64": {
        0: "read", 19: "read", 7: "poll", 271: "ppoll", 23: "select", 270: "select",
        232: "epoll", 281: "epoll", 441: "epoll",
    },
    "aarch64": {63: "read", 65: "read", 73: "ppoll", 72: "select", 22: "epoll", 441: "epoll"},
}  # fmt: skip

_CONTROLLING = os.makedev(5, 0)  # /dev/tty
_MAX_DESCRIPTORS = 1024  # that are examined per call
_POLLIN = 0x001
_FOREVER = (1 << 32) - 1  # -1 as poll's and epoll's int; its upper half may hold anything


def wait_state(leader: int, terminal: int) -> str:
    """Return the state of a command, given its first process and the device number (st_rdev) of its terminal."""
    calls = _CALLS.get(platform.machine())
    if calls is None:
        return UNKNOWN
    states = {_task_state(task, calls, terminal) for task in _tasks(leader)}
    for state in (READS, LISTENS, UNKNOWN):
        if state in states:
            return state
    return BUSY


def _tasks(leader: int) -> Iterator[str]:
    """Yield the /proc folders of the threads of a process and of its descendants."""
    waiting = [str(leader)]
    while waiting:
        folder = f"/proc/{waiting.pop()}/task"
        try:
            tasks = os.listdir(folder)
        except OSError:
            continue  # it has ended
        for task in tasks:
            yield f"{folder}/{task}"
            waiting.extend((_read(f"{folder}/{task}/children") or "").split())


def _task_state(task: str, calls: Dict[int, str], terminal: int) -> str:
    line = _read(f"{task}/syscall")
    if line is None:
        return UNKNOWN if _state(task) == "S" else BUSY
    words = line.split()
    if len(words) < 7:
        return BUSY  # "running", or a process that has ended
    call, arguments = calls.get(int(words[0])), [int(word, 16) for word in words[1:7]]
    if call is None:
        return BUSY
    try:
        awaited, forever = _awaited(task, call, arguments)
        ours = {each for each in awaited if os.stat(f"{task}/fd/{each}").st_rdev in (terminal, _CONTROLLING)}
    except (OSError, struct.error):
        return BUSY  # it continued meanwhile
    if not ours:
        return BUSY
    return READS if forever and ours == awaited else LISTENS


def _awaited(task: str, call: str, arguments: List[int]) -> Tuple[Set[int], bool]:
    """Return the descriptors that a call waits to read from, and whether it waits without a timeout."""
    first, second, third, fourth, fifth = arguments[:5]
    if call == "read":
        return {first}, True
    if call in ("poll", "ppoll"):
        count = min(second, _MAX_DESCRIPTORS)
        entries = struct.iter_unpack("=ihh", _memory(task, first, 8 * count))
        forever = third == 0 if call == "ppoll" else third & _FOREVER == _FOREVER
        return {fd for fd, events, _ in entries if fd >= 0 and events & _POLLIN}, forever
    if call == "select":
        bits = int.from_bytes(_memory(task, second, (min(first, _MAX_DESCRIPTORS) + 7) // 8), "little") if second else 0
        return {fd for fd in range(min(first, _MAX_DESCRIPTORS)) if bits >> fd & 1}, fifth == 0
    return _epoll_descriptors(task, first), fourth & _FOREVER == _FOREVER


def _epoll_descriptors(task: str, descriptor: int) -> Set[int]:
    descriptors = set()
    for line in (_read(f"{task}/fdinfo/{descriptor}") or "").splitlines():
        words = line.split()
        if words[:1] == ["tfd:"] and words[2:3] == ["events:"] and int(words[3], 16) & _POLLIN:
            descriptors.add(int(words[1]))
    return descriptors


def _memory(task: str, address: int, size: int) -> bytes:
    with open(f"{task}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(size)


def _state(task: str) -> str:
    """Return the state letter of proc(5): S sleeps."""
    return (_read(f"{task}/stat") or "").rpartition(")")[2].strip()[:1]


def _read(path: str) -> Optional[str]:
    try:
        with open(path) as file:
            return file.read()
    except (OSError, ValueError):
        return None
