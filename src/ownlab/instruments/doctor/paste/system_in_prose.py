"""The operating system behind a text: paths, package names and kernel releases show it where no report names it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ownlab.machine.facts import NOT_READ, Known
from ownlab.machine.records import Host

__all__ = ["system_in_prose"]

_SOURCE = "pasted text"
_LINES_READ = 2000  # at the beginning: a log repeats its system
_LINE_LENGTH = 2000

_WINDOWS = re.compile(r"(?<![\w/])[A-Za-z]:\\{1,2}[\w%. -]{1,80}\\|\[?WinError \d+|\bnvcuda\.dll\b|\bwin_amd64\b")
_UNIX = re.compile(
    r"(?<![\w.])/(?:usr|home|opt|etc|dev|lib|lib64|var|proc|root|tmp|mnt|data|workspace)/|\.so(?:\.\d+)*\b"
)
_WSL = re.compile(
    r"\d-microsoft-standard(?:-WSL2)?\b|WSL environment detected|(?<![=:\w])/usr/lib/wsl/lib/lib|\bdxgk?:|\bWSL (?:version: *)?\d+\.\d+\.\d+|\(wsl ?2\)"
)


class _Sign(NamedTuple):
    pattern: re.Pattern[str]
    system: str | None  # None: the sign shows the package manager only
    manager: str


# A release of the kernel, a package's version, or what the package manager itself prints. Words about a system are no sign:
# people compare systems.
_SIGNS = (
    _Sign(re.compile(r"\b\d+\.\d+\.\d+-\d+-(?:generic|lowlatency|oem)\b|\d(?:-\d)?ubuntu\d"), "Ubuntu", "apt"),
    _Sign(re.compile(r"\b\d+\.\d+\.\d+(?:-\d+)?-(?:cloud-)?amd64\b|\+deb1\d(?:u\d+)?\b"), "Debian", "apt"),
    _Sign(re.compile(r"\.fc\d\d\b"), "Fedora", "dnf"),
    _Sign(re.compile(r"\.el(?P<release>[789])(?:_\d+)?\b"), "RHEL", "dnf"),
    _Sign(re.compile(r"\b\d+\.\d+(?:\.\d+)?-(?:arch|zen|MANJARO)\d*(?:-\d+)+\b|\bpacman -S"), "Arch Linux", "pacman"),
    _Sign(re.compile(r"\b\d+\.\d+\.\d+-\d+(?:\.\d+)*-default\b|\bzypper (?:in|install|ref|dup)\b"), "openSUSE", "zypper"),
    _Sign(re.compile(r"^E: (?:Unable|Package|Sub-process|The repo)|^dpkg: |\bapt(?:-get)? (?:install|update)\b"), None, "apt"),
    _Sign(re.compile(r"\b(?:sudo )?(?:dnf|yum) (?:-y )?(?:install|update|module)\b|\bakmods?\b"), None, "dnf"),
)  # fmt: skip


def system_in_prose(lines: Sequence[str]) -> Host | None:
    """Return what the lines show of the operating system; None if they show nothing."""
    known = [line[:_LINE_LENGTH] for line in lines[:_LINES_READ]]
    wsl = any(_WSL.search(line) for line in known)
    windows = any(_WINDOWS.search(line) for line in known) and not any(_UNIX.search(line) for line in known)
    sign, match = next(
        ((sign, match) for sign in _SIGNS for line in known if (match := sign.pattern.search(line))), (None, None)
    )
    if windows and not wsl and sign is None:
        return Host(family=Known("windows", f"{_SOURCE}: paths"))
    if sign is None and not wsl:
        return None
    return Host(
        family=Known("linux", _SOURCE),
        system=Known(_with_release(sign, match), _SOURCE) if sign and match and sign.system else NOT_READ,
        package_manager=Known(sign.manager, _SOURCE) if sign else NOT_READ,
        virtualisation=Known("wsl2", _SOURCE) if wsl else NOT_READ,
    )


def _with_release(sign: _Sign, match: re.Match[str]) -> str:
    release = match.groupdict().get("release")
    return f"{sign.system} {release}" if release else f"{sign.system}"
