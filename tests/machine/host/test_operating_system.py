"""The operating system's name, package manager, libc and Secure Boot."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.host.operating_system import (
    read_libc,
    read_package_manager,
    read_secure_boot,
    read_system,
    read_user_is_root,
)

Tree = Callable[[Mapping[str, str | bytes]], Path]

EFIVAR = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n', "Debian GNU/Linux 12 (bookworm)"),
        ("NAME=Alpine\nVERSION=3.20\n", "Alpine 3.20"),
        ('PRETTY_NAME="Unclosed\n', "Unclosed"),
        ("nothing here\n", None),
    ],
)
def test_names(tree: Tree, text: str, name: str | None) -> None:
    assert value_of(read_system(tree({"etc/os-release": text}))) == name


def test_the_vendors_copy_of_os_release(tree: Tree) -> None:
    root = tree({"usr/lib/os-release": "PRETTY_NAME=Fedora\n"})
    assert read_system(root) == Known("Fedora", source="/usr/lib/os-release")


@pytest.mark.parametrize(
    ("release", "programs", "manager"),
    [
        ("ID=ubuntu\nID_LIKE=debian", ["apt-get", "dnf"], "apt"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"', ["apt-get", "dnf"], "dnf"),
        ('ID="centos"\nID_LIKE="rhel fedora"', ["yum"], "yum"),
        ("ID=arch", ["pacman"], "pacman"),
        ("ID=strange", ["zypper"], "zypper"),
        ("ID=ubuntu", [], None),
    ],
)
def test_package_managers(tree: Tree, release: str, programs: list[str], manager: str | None) -> None:
    root = tree({"etc/os-release": release, **{f"usr/bin/{program}": "" for program in programs}})
    assert value_of(read_package_manager(root)) == manager


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({EFIVAR: b"\x06\x00\x00\x00\x01"}, True),
        ({EFIVAR: b"\x06\x00\x00\x00\x00"}, False),
        ({"sys/firmware/acpi/": ""}, False),
    ],
)
def test_secure_boot(tree: Tree, files: dict[str, str | bytes], expected: bool) -> None:
    assert value_of(read_secure_boot(tree(files))) is expected


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"sys/firmware/": ""}, "/sys/firmware is hidden from this container"),
        ({EFIVAR: b"\x06"}, f"/{EFIVAR} is too short"),
        ({"sys/firmware/efi/": ""}, f"/{EFIVAR} does not exist"),
    ],
)
def test_secure_boot_that_cannot_be_read(tree: Tree, files: dict[str, str | bytes], reason: str) -> None:
    assert read_secure_boot(tree(files)) == Unknown(reason)


def test_musl(tree: Tree) -> None:
    root = tree({"lib/ld-musl-x86_64.so.1": ""})
    assert read_libc(root, live=False) == Known("musl", source="/lib/ld-musl-x86_64.so.1")


def test_the_effective_user_counts(tree: Tree) -> None:
    assert value_of(read_user_is_root(tree({"proc/self/status": "Uid:\t1000\t0\t0\t0\n"}))) is True
    assert value_of(read_user_is_root(tree({"proc/self/status": "Uid:\t0\t1000\t0\t0\n"}))) is False


def test_the_running_libc_wins_over_files(tree: Tree) -> None:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("this Python does not run on glibc")
    root = tree({"lib/ld-musl-x86_64.so.1": ""})
    assert read_libc(root, live=True) == Known(" ".join(platform.libc_ver()), source="confstr")


def test_neither_libc(tree: Tree) -> None:
    root = tree({"lib/ld-musl-x86_64.path": ""})
    assert read_libc(root, live=False) == Unknown("only a running system reports its C library")
