"""The whole host: the H200 machine from its files, this machine, and one with missing or garbage files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from ownlab.json_encoding import encode_json
from ownlab.machine.facts import Fact, Known, Unknown, value_of
from ownlab.machine.host.reader import read_host
from ownlab.machine.records import Host, PciDevice

Tree = Callable[[Mapping[str, str | bytes]], Path]


def facts_of(record: msgspec.Struct) -> dict[str, Fact[object]]:
    """Every fact in a record and the records in it, by its path."""
    facts: dict[str, Fact[object]] = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, Known | Unknown):
            facts[name] = value
        else:
            facts |= {f"{name}.{inner}": fact for inner, fact in facts_of(value).items()}
    return facts


def test_the_h200_machine_from_its_files(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    host = read_host(tree(h200_files), environ={})
    known = {name: value_of(fact) for name, fact in facts_of(host).items()}
    assert known["system"] == "Ubuntu 24.04.3 LTS"
    assert known["family"] == "linux"
    assert known["kernel"] == "6.18.44-fc-v445-gpu"
    assert known["container"] == "none"
    assert isinstance(host.container, Known)
    assert "left over" in host.container.source
    assert known["virtualisation"] == "firecracker"
    assert known["platform"] == "plain"
    assert known["pid_namespace"] is False
    assert known["user_is_root"] is True
    assert known["package_manager"] == "apt"
    assert known["cpu.usable_cores"] == 16.0
    assert known["memory.total"] == 131980916 * 1024
    assert known["modules"] == ("nvidia", "nvidia_uvm")
    assert known["pci"] == (PciDevice("0000:00:06.0", "10de", "2335", "3d", "nvidia"),)
    assert known["network.rdma_devices"] == ()
    assert known["network.gpudirect_rdma"] is False
    assert known["secure_boot"] is False
    assert host.kernel_log == Unknown("only a running kernel has a log")


def test_this_machine_is_read_without_gaps() -> None:
    host = read_host()
    assert "not read" not in {fact.reason for fact in facts_of(host).values() if isinstance(fact, Unknown)}
    assert value_of(host.cpu.logical_cores) == os.cpu_count()
    assert value_of(host.user_is_root) == (os.geteuid() == 0)
    assert value_of(host.kernel) == os.uname().release
    assert any(disk.mount == "/" for disk in value_of(host.disks) or ())
    assert msgspec.json.decode(encode_json(host), type=Host) == host


def test_an_empty_root_gives_reasons(tmp_path: Path) -> None:
    facts = facts_of(read_host(tmp_path, environ={}))
    known = {name for name, fact in facts.items() if isinstance(fact, Known)}
    assert known == {"family", "platform"}
    assert facts["memory.total"] == Unknown("/proc/meminfo does not exist")
    assert facts["pci"] == Unknown("/sys/bus/pci/devices does not exist")


def test_garbage_gives_reasons_and_no_crash(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    garbage = b"\x00\xff\xfe: -1 -\n\n99999999999999999999-\x80 - - :::\n [ \n"
    files = {
        name: garbage
        for name, content in h200_files.items()
        if not name.endswith("/") and not (isinstance(content, str) and content.startswith("-> "))
    }
    facts = facts_of(read_host(tree(files), environ={}))
    for name in ("system", "cpu.model", "cpu.usable_cores", "memory.total", "user_is_root"):
        assert isinstance(facts[name], Unknown), name


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_named(tree: Tree) -> None:
    root = tree({"proc/meminfo": "MemTotal: 1 kB\n"})
    (root / "proc/meminfo").chmod(0)
    assert read_host(root, environ={}).memory.total == Unknown("/proc/meminfo cannot be read: Permission denied")


def test_a_folder_in_place_of_a_file_is_named(tree: Tree) -> None:
    root = tree({"proc/meminfo/": ""})
    assert read_host(root, environ={}).memory.total == Unknown("/proc/meminfo cannot be read: Is a directory")
