"""The operating system: its name, its kernel and libc, its package manager, who we are, and Secure Boot."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown, first_known
from ownlab.machine.files import names_in, parse_fields, read_bytes, read_text

__all__ = [
    "read_kernel",
    "read_libc",
    "read_package_manager",
    "read_secure_boot",
    "read_system",
    "read_user_is_root",
]

# A distribution, or one that it is like (os-release: ID, ID_LIKE) -> what installs packages there.
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
    """The distribution's name as it gives it: "Ubuntu 24.04.3 LTS"."""
    release = _os_release(root)
    if isinstance(release, Unknown):
        return release
    fields = release.value
    name = fields.get("PRETTY_NAME") or " ".join(filter(None, (fields.get("NAME"), fields.get("VERSION"))))
    return Known(name, source=release.source) if name else Unknown(f"{release.source} gives no name")


def read_kernel(root: Path) -> Fact[str]:
    """The kernel's release."""
    return read_text(root / "proc/sys/kernel/osrelease", root)


def read_libc(root: Path, *, live: bool) -> Fact[str]:
    """ "glibc 2.39", or "musl". Wheels of the frameworks are made for glibc."""
    own = _running_libc() if live else Unknown("only the running system can be asked for its libc")
    if isinstance(own, Known):
        return own  # before any file: musl's loader may be installed beside glibc
    names = names_in(root / "lib", root)
    for name in names.value if isinstance(names, Known) else ():
        if name.startswith("ld-musl-") and name.endswith(".so.1"):
            return Known("musl", source=f"/lib/{name}")
    return own


def _running_libc() -> Fact[str]:
    """What this process runs on, where it is glibc; musl knows no such question."""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError) as exc:
        return Unknown(f"the C library does not say its version: {exc}")
    return Known(version, source="confstr") if version else Unknown("the C library does not say its version")


def read_user_is_root(root: Path) -> Fact[bool]:
    """Whether this process acts as root."""
    status = read_text(root / "proc/self/status", root)
    if isinstance(status, Unknown):
        return status
    uids = parse_fields(status.value).get("Uid", "").split()  # real, effective, saved, file system
    if len(uids) < 2:
        return Unknown(f"{status.source} gives no user")
    return Known(uids[1] == "0", source=status.source)


def read_package_manager(root: Path) -> Fact[str]:
    """The distribution's own package manager where it is there, else any that is."""
    here = [name for name, program in _PROGRAMS.items() if _has_program(program, root)]
    release = _os_release(root)
    if isinstance(release, Known):
        family = [release.value.get("ID", ""), *release.value.get("ID_LIKE", "").split()]
        own = next((_BY_FAMILY[name] for name in family if name in _BY_FAMILY), None)
        if own in here:
            return Known(own, source=release.source)
    if here:
        return Known(here[0], source=_PROGRAMS[here[0]])
    return Unknown("none that we know is installed")


def read_secure_boot(root: Path) -> Fact[bool]:
    """Whether the kernel refuses modules that are not signed, as the firmware says."""
    firmware = names_in(root / "sys/firmware", root)
    if isinstance(firmware, Unknown):
        return firmware
    if not firmware.value:  # Docker mounts an empty folder over it
        return Unknown("/sys/firmware is hidden from this container")
    if "efi" not in firmware.value:
        return Known(False, source="no /sys/firmware/efi: started without UEFI")
    variable = read_bytes(root / "sys/firmware/efi/efivars" / _SECURE_BOOT, root)
    if isinstance(variable, Unknown):
        return variable
    if len(variable.value) < 5:  # four bytes of attributes, then the value
        return Unknown(f"{variable.source} is too short")
    return Known(variable.value[4] == 1, source="efivars: SecureBoot")


def _os_release(root: Path) -> Fact[dict[str, str]]:
    text = first_known(read_text(root / "etc/os-release", root), read_text(root / "usr/lib/os-release", root))
    if isinstance(text, Unknown):
        return text
    fields = {}
    for line in text.value.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            try:
                fields[name.strip()] = " ".join(shlex.split(value))
            except ValueError:  # a quote that is not closed
                fields[name.strip()] = value.strip("\"'")
    return Known(fields, source=text.source)


def _has_program(program: str, root: Path) -> bool:
    return any(os.path.exists(root / folder / program) for folder in _PROGRAM_FOLDERS)
