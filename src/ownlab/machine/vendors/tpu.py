"""Google's TPUs: chips on the PCI bus, their device files, libtpu, and the environment variables about them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.files import Tree
from ownlab.machine.records import Card, Tpu
from ownlab.text import listing, text

__all__ = ["read_tpu"]

_PCI = "/sys/bus/pci/devices"
_GOOGLE = "0x1ae0"
# jax/_src/hardware_utils.py (github.com/jax-ml/jax), read 2026-11-15; 0x0076 from Google's torch_tpu, same day.
# v2 and v3 have the same ID, and no known source distinguishes them.
_GENERATIONS = {
    "0x0027": "v2 or v3",
    "0x005e": "v4",
    "0x0062": "v5p",
    "0x0063": "v5e",
    "0x006f": "v6e",
    "0x0076": "v7",
}
_LIBRARIES = ("/lib/libtpu.so", "/usr/lib/libtpu.so", "/usr/local/lib/libtpu.so")


def read_tpu(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> tuple[Tpu, tuple[Card, ...]]:
    """Read the TPU chips of this machine. If a sandbox hides the PCI bus, each device file counts as a chip."""
    tree = Tree(root)
    chips = [
        bus_id
        for bus_id in sorted(tree.names(_PCI))
        if tree.word(f"{_PCI}/{bus_id}/vendor") == _GOOGLE and tree.word(f"{_PCI}/{bus_id}/device") in _GENERATIONS
    ]
    files = [f"/dev/{name}" for name in tree.names("/dev", r"accel\d+")]
    if chips:  # without chips, /dev/vfio may be any device that is passed through
        files += [f"/dev/vfio/{name}" for name in tree.names("/dev/vfio", r"\d+")]
    cards = [_chip(tree, index, bus_id) for index, bus_id in enumerate(chips)]
    if not chips:
        cards = [
            Card("google", index, name=Known("TPU", source=path), health=_openable(tree, [path]))
            for index, path in enumerate(files)
        ]
    tpu = Tpu(
        accelerator_type=_accelerator_type(cards, environ),
        device_files=Known(tuple(files), source="/dev")
        if files
        else Unknown(text("there is no TPU device file (/dev/accel*)")),
        libtpu=_libtpu(tree, environ),
    )
    return tpu, tuple(cards)


def _chip(tree: Tree, index: int, bus_id: str) -> Card:
    generation = _GENERATIONS[tree.word(f"{_PCI}/{bus_id}/device")]
    group = tree.link_name(f"{_PCI}/{bus_id}/iommu_group")
    return Card(
        vendor="google",
        index=index,
        name=Known(f"TPU {generation}", source=f"{_PCI}/{bus_id}/device"),
        bus_id=Known(bus_id, source=_PCI),
        architecture=Known(f"TPU {generation}", source=f"{_PCI}/{bus_id}/device"),
        health=_openable(tree, [f"/dev/accel{index}", f"/dev/vfio/{group}" if group else ""]),
    )


def _openable(tree: Tree, paths: list[str]) -> Fact[str]:
    """Check that a chip's device file exists and may be opened."""
    files = [fact.value for fact in map(tree.device_file, filter(None, paths)) if isinstance(fact, Known)]
    if not files:
        expected = listing(filter(None, paths), "{items} or {last}")
        return Known(text("the device file {paths} does not exist", paths=expected), source="/dev")
    if not (files[0].readable and files[0].writable):
        return Known(text("this user may not open {path}", path=files[0].path), source=files[0].path)
    return Known("OK", source=files[0].path)


def _accelerator_type(cards: list[Card], environ: Mapping[str, str]) -> Fact[str]:
    if environ.get("TPU_ACCELERATOR_TYPE"):
        return Known(environ["TPU_ACCELERATOR_TYPE"], source="TPU_ACCELERATOR_TYPE")
    generations = {card.architecture.value for card in cards if isinstance(card.architecture, Known)}
    if generations:
        return Known(f"{len(cards)} × {', '.join(sorted(generations))}", source=_PCI)
    for name in ("COLAB_TPU_ADDR", "TPU_NAME"):
        if environ.get(name):
            return Unknown(
                text(
                    "{variable} names a TPU on another machine ({value}), but not its type",
                    variable=name,
                    value=environ[name],
                )
            )
    return Unknown(text("neither an environment variable nor the PCI bus shows a TPU"))


def _libtpu(tree: Tree, environ: Mapping[str, str]) -> Fact[str]:
    named = environ.get("TPU_LIBRARY_PATH")
    if named and tree.exists(named):
        return Known(named, source="TPU_LIBRARY_PATH")
    for path in _LIBRARIES:
        if tree.exists(path):
            return Known(path, source=path)
    return Unknown(text("no system folder has libtpu.so; the Python package libtpu may have it"))
