"""The operating system: its name, kernel, C library and package manager, the current user, and Secure Boot."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown, first_known
from ownlab.machine.files import names_in, parse_fields, read_bytes, read_text
from ownlab.text import text

__all__ = [
    "read_kernel",
    "read_libc",
    "read_package_manager",
    "read_secure_boot",
    "read_system",
    "read_user_is_root",
]

# A distribution or its family (os-release: ID, ID_LIKE) -> its package manager.
_BY_FAMILY = {
    "debian": "apt",
    "ubuntu": "apt",
    "fedora": "dnf",
    "rhel": "dnf",
    "suse": "zypper",
    "opensuse": "zypper",
    "arch": "pacman",
    "alpine": "apk",
    "gentoo": "emerge",
}
_PROGRAMS = {
    "apt": "apt-get",
    "dnf": "dnf",
    "yum": "yum",
    "zypper": "zypper",
    "pacman": "pacman",
    "apk": "apk",
    "emerge": "emerge",
    "nix": "nix-env",
}
_PROGRAM_FOLDERS = ("usr/bin", "bin", "usr/sbin", "sbin", "run/current-system/sw/bin")

# The variable's name ends with the GUID of EFI's global variables (UEFI specification, 3.3).
_SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def read_system(root: Path) -> Fact[str]:
    """Read the distribution's name: "Ubuntu 24.04.3 LTS"."""
    release = _os_release(root)
    if isinstance(release, Unknown):
        return release
    fields = release.value
    name = fields.get("PRETTY_NAME") or " ".join(filter(None, (fields.get("NAME"), fields.get("VERSION"))))
    return Known(name, source=release.source) if name else Unknown(text("{source} has no name", source=release.source))


def read_kernel(root: Path) -> Fact[str]:
    """Read the kernel's release."""
    return read_text(root / "proc/sys/kernel/osrelease", root)


def read_libc(root: Path, *, live: bool) -> Fact[str]:
    """Read the C library: "glibc 2.39" or "musl". The frameworks' wheels are built for glibc."""
    own = _running_libc() if live else Unknown(text("only a running system reports its C library"))
    if isinstance(own, Known):
        return own  # this comes before any file: musl's loader may be installed on a glibc system
    names = names_in(root / "lib", root)
    for name in names.value if isinstance(names, Known) else ():
        if name.startswith("ld-musl-") and name.endswith(".so.1"):
            return Known("musl", source=f"/lib/{name}")
    return own


def _running_libc() -> Fact[str]:
    """Return the C library of this process if it is glibc; musl has no such query."""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError) as exc:
        return Unknown(text("the C library does not report its version: {error}", error=exc))
    return Known(version, source="confstr") if version else Unknown(text("the C library does not report its version"))


def read_user_is_root(root: Path) -> Fact[bool]:
    """Return whether this process runs as root."""
    status = read_text(root / "proc/self/status", root)
    if isinstance(status, Unknown):
        return status
    uids = parse_fields(status.value).get("Uid", "").split()  # real, effective, saved, file system
    if len(uids) < 2:
        return Unknown(text("{source} has no user ID", source=status.source))
    return Known(uids[1] == "0", source=status.source)


def read_package_manager(root: Path) -> Fact[str]:
    """Return the distribution's own package manager if it is installed, else any other that is."""
    installed = [name for name, program in _PROGRAMS.items() if _has_program(program, root)]
    release = _os_release(root)
    if isinstance(release, Known):
        family = [release.value.get("ID", ""), *release.value.get("ID_LIKE", "").split()]
        own = next((_BY_FAMILY[name] for name in family if name in _BY_FAMILY), None)
        if own in installed:
            return Known(own, source=release.source)
    if installed:
        return Known(installed[0], source=_PROGRAMS[installed[0]])
    return Unknown(text("no known package manager is installed"))


def read_secure_boot(root: Path) -> Fact[bool]:
    """Return whether Secure Boot is on: the kernel then rejects modules that are not signed."""
    firmware = names_in(root / "sys/firmware", root)
    if isinstance(firmware, Unknown):
        return firmware
    if not firmware.value:  # Docker mounts an empty folder over it
        return Unknown(text("/sys/firmware is hidden from this container"))
    if "efi" not in firmware.value:
        return Known(False, source=text("no /sys/firmware/efi: started without UEFI"))
    variable = read_bytes(root / "sys/firmware/efi/efivars" / _SECURE_BOOT, root)
    if isinstance(variable, Unknown):
        return variable
    if len(variable.value) < 5:  # four bytes of attributes, then the value
        return Unknown(text("{source} is too short", source=variable.source))
    return Known(variable.value[4] == 1, source="efivars: SecureBoot")


def _os_release(root: Path) -> Fact[dict[str, str]]:
    content = first_known(read_text(root / "etc/os-release", root), read_text(root / "usr/lib/os-release", root))
    if isinstance(content, Unknown):
        return content
    fields = {}
    for line in content.value.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            try:
                fields[name.strip()] = " ".join(shlex.split(value))
            except ValueError:  # a quote that is not closed
                fields[name.strip()] = value.strip("\"'")
    return Known(fields, source=content.source)


def _has_program(program: str, root: Path) -> bool:
    return any(os.path.exists(root / folder / program) for folder in _PROGRAM_FOLDERS)
