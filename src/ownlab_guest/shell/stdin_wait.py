"""Whether a command waits for something to be typed, as far as the operating system tells.

Linux says in /proc which system call a process is in and with which arguments, to its own user. Elsewhere nothing is
known, and what was printed last has to do.
"""

import os
import platform
import struct
from typing import Dict, Iterator, List, Optional, Set, Tuple

__all__ = ["BUSY", "LISTENS", "READS", "UNKNOWN", "look"]

READS = "reads"  # it goes on when something is typed, and not before
LISTENS = "listens"  # for that, among other things or for some time
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
_MOST = 1024  # descriptors of one call that are looked at
_POLLIN = 0x001
_FOREVER = (1 << 32) - 1  # -1 as poll's and epoll's int; its upper half may hold anything


def look(leader: int, terminal: int) -> str:
    """What a command does, given its first process and the number (st_rdev) of the terminal that it was started in."""
    calls = _CALLS.get(platform.machine())
    if calls is None:
        return UNKNOWN
    answers = {_look_at(task, calls, terminal) for task in _tasks(leader)}
    for answer in (READS, LISTENS, UNKNOWN):
        if answer in answers:
            return answer
    return BUSY


def _tasks(leader: int) -> Iterator[str]:
    """The folders in /proc of the threads of a process and of all that it started."""
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


def _look_at(task: str, calls: Dict[int, str], terminal: int) -> str:
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
        return BUSY  # it went on while we looked
    if not ours:
        return BUSY
    return READS if forever and ours == awaited else LISTENS


def _awaited(task: str, call: str, arguments: List[int]) -> Tuple[Set[int], bool]:
    """The descriptors that a call waits to read from, and whether it waits for as long as it takes."""
    first, second, third, fourth, fifth = arguments[:5]
    if call == "read":
        return {first}, True
    if call in ("poll", "ppoll"):
        count = min(second, _MOST)
        entries = struct.iter_unpack("=ihh", _memory(task, first, 8 * count))
        forever = third == 0 if call == "ppoll" else third & _FOREVER == _FOREVER
        return {fd for fd, events, _ in entries if fd >= 0 and events & _POLLIN}, forever
    if call == "select":
        bits = int.from_bytes(_memory(task, second, (min(first, _MOST) + 7) // 8), "little") if second else 0
        return {fd for fd in range(min(first, _MOST)) if bits >> fd & 1}, fifth == 0
    return _of_epoll(task, first), fourth & _FOREVER == _FOREVER


def _of_epoll(task: str, descriptor: int) -> Set[int]:
    found = set()
    for line in (_read(f"{task}/fdinfo/{descriptor}") or "").splitlines():
        words = line.split()
        if words[:1] == ["tfd:"] and words[2:3] == ["events:"] and int(words[3], 16) & _POLLIN:
            found.add(int(words[1]))
    return found


def _memory(task: str, address: int, size: int) -> bytes:
    with open(f"{task}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(size)


def _state(task: str) -> str:
    """The letter of proc(5): S sleeps."""
    return (_read(f"{task}/stat") or "").rpartition(")")[2].strip()[:1]


def _read(path: str) -> Optional[str]:
    try:
        with open(path) as file:
            return file.read()
    except (OSError, ValueError):
        return None
