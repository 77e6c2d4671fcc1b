"""Which torch suits this machine, and where it comes from.

PyTorch's own index has a build per CUDA version, and the catalogue knows which one serves a driver and a card. PyPI has one build per
release. Where only PyPI can be reached, the newest release whose build serves this machine is taken, and a note says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ownlab.catalog.architectures import capability_of
from ownlab.catalog.torch_wheels import Wheel, newest_rocm, pypi_wheel_for, wheel_for
from ownlab.catalog.versions import parse_version
from ownlab.download import download
from ownlab.errors import LabError, OwnlabError
from ownlab.lab.environments.presets import package_name
from ownlab.machine.facts import value_of
from ownlab.machine.records import Machine
from ownlab.text import text
from ownlab.units import MIB

__all__ = ["FROM_TORCH_INDEX", "TorchBuild", "choose_torch", "index_answers", "needs_torch"]

# What PyTorch's index has in builds that fit each other; everything else comes from the usual index.
FROM_TORCH_INDEX = ("torch", "torchvision", "torchaudio")
_PINNED = re.compile(r"^\s*torch\s*==\s*(\d+\.\d+)[\d.*]*(?:\+\w+)?\s*$", re.IGNORECASE)
_INDEX_SECONDS = 10.0
_PAGE_BYTES = 32 * MIB


class TorchBuild(NamedTuple):
    """The torch for a machine."""

    requirement: str  # "torch", "torch==2.8.*", or what was requested
    index_url: str | None  # PyTorch's index for it; None: the usual index
    notes: tuple[str, ...]


class _Target(NamedTuple):
    """What a build has to run on."""

    platform: str  # as the table of wheels names it: linux-x86_64
    family: str  # the system whose driver numbers count
    python: str
    driver: str | None
    capability: str | None  # the oldest of the NVIDIA cards
    vendors: frozenset[str]
    card: str


def needs_torch(requirements: Iterable[str]) -> bool:
    """Whether one of these packages comes with torch's builds."""
    return any(package_name(each) in FROM_TORCH_INDEX for each in requirements)


def choose_torch(
    machine: Machine,
    python: str,
    requested: str,
    base: str,
    answers: Callable[[str], bool],
) -> TorchBuild:
    """Choose the build for a machine and a Python. `requested`: the requirement as written; `base`: PyTorch's index.

    `answers` says whether an index can be reached. LabError if no torch runs here.
    """
    if (value_of(machine.host.libc) or "").startswith("musl"):
        raise LabError(
            text("torch has no wheels for this system's C library (musl)."),
            hint=text("Use a system or an image with glibc."),
        )
    target = _target(machine, python)
    if "nvidia" in target.vendors:
        return _for_nvidia(target, requested, base, answers)
    for vendor, tag in (("amd", f"rocm{newest_rocm()}"), ("intel", "xpu")):
        if vendor in target.vendors:
            return _for_tag(target, tag, requested, f"{base}/{tag}", answers)
    return _for_cpu(target, requested, base, answers)


def index_answers(address: str) -> bool:
    """Whether an index has torch and can be reached. A file:// address is a folder on this machine."""
    page = f"{address}/torch/"
    if page.startswith("file:"):
        return os.path.isdir(url2pathname(urlsplit(page).path))
    try:
        download(page, seconds=_INDEX_SECONDS, max_bytes=_PAGE_BYTES)
    except OwnlabError:  # refused, no such name, a proxy's page, too slow: it cannot be used here
        return False
    return True


def _target(machine: Machine, python: str) -> _Target:
    cards = [card for card in value_of(machine.cards) or () if not card.integrated]
    capabilities = [
        known
        for card in cards
        if card.vendor == "nvidia"
        and (known := value_of(card.compute_capability) or capability_of(value_of(card.name) or ""))
    ]
    windows = (value_of(machine.host.virtualisation) or "").startswith("wsl")
    arm = value_of(machine.host.cpu.architecture) in ("aarch64", "arm64")
    return _Target(
        platform=f"linux-{'aarch64' if arm else 'x86_64'}",
        family="windows" if windows else "linux",
        python=python,
        driver=value_of(machine.nvidia.driver),
        capability=min(capabilities, key=parse_version, default=None),
        vendors=frozenset(card.vendor for card in cards),
        card=next((value_of(card.name) or card.vendor for card in cards), ""),
    )


def _for_nvidia(target: _Target, requested: str, base: str, answers: Callable[[str], bool]) -> TorchBuild:
    driver = target.driver or ""
    pinned = _PINNED.match(requested)
    free = package_name(requested) == "torch" and requested.strip().lower() == "torch"
    own = wheel_for(
        target.capability,
        target.driver,
        platform=target.platform,
        family=target.family,
        python=target.python,
        torch=pinned[1] if pinned else None,
    )
    if own is not None and answers(f"{base}/{own.tag}"):
        note = text(
            "torch comes from PyTorch's own index, built for CUDA {cuda}: the newest build for {card} with driver {driver}.",
            cuda=own.cuda,
            card=target.card,
            driver=driver,
        )
        return TorchBuild(_pin(own) if free else requested, f"{base}/{own.tag}", (note,))
    if not free:
        note = text("PyTorch's own index is not used; {requirement} comes as requested.", requirement=requested)
        return TorchBuild(requested, None, (note,))
    return _from_pypi(target, own, base)


def _from_pypi(target: _Target, own: Wheel | None, base: str) -> TorchBuild:
    """Where PyTorch's own index cannot be reached, or has nothing for this machine."""
    wheel = pypi_wheel_for(
        target.capability, target.driver, platform=target.platform, family=target.family, python=target.python
    )
    if wheel is None:
        raise LabError(
            text(
                "No torch on PyPI is known to run on {card} with driver {driver} and Python {python}.",
                card=target.card,
                driver=target.driver or text("(unknown)"),
                python=target.python,
            ),
            hint=_no_build_hint(own, base),
        )
    values = {
        "base": base,
        "torch": wheel.torch,
        "cuda": wheel.cuda,
        "card": target.card,
        "driver": target.driver or text("(unknown)"),
    }
    note = text(
        "PyTorch's own index ({base}) cannot be reached. torch {torch} is the newest whose build on PyPI (CUDA {cuda}) serves "
        "{card} with driver {driver}.",
        **values,
    )
    # Pinned also if it is the newest known: a later release may drop this card.
    requirement = f"torch=={wheel.torch}.*"
    if own is not None and own.torch != wheel.torch:
        better = text("PyTorch's own index has torch {torch} for them (CUDA {cuda}).", torch=own.torch, cuda=own.cuda)
        return TorchBuild(requirement, None, (note, better))
    return TorchBuild(requirement, None, (note,))


def _no_build_hint(own: Wheel | None, base: str) -> str:
    if own is None:
        return text("Run `ownlab doctor`: it says which driver or Python is needed.")
    return text(
        "PyTorch's own index has torch {torch} for them, but {base} cannot be reached from here. Name a mirror of it: "
        "OWNLAB_ENVIRONMENTS_TORCH_INDEX=ADDRESS",
        torch=own.torch,
        base=f"{base}/{own.tag}",
    )


def _for_tag(target: _Target, tag: str, requested: str, index: str, answers: Callable[[str], bool]) -> TorchBuild:
    """AMD and Intel: only PyTorch's own index has builds for them."""
    if answers(index):
        note = text("torch comes from PyTorch's own index, built for {tag}: for {card}.", tag=tag, card=target.card)
        return TorchBuild(requested, index, (note,))
    note = text(
        "PyTorch's own index ({index}) cannot be reached, and PyPI has no build for {card}: this torch uses the CPU.",
        index=index,
        card=target.card,
    )
    return TorchBuild(requested, None, (note,))


def _for_cpu(target: _Target, requested: str, base: str, answers: Callable[[str], bool]) -> TorchBuild:
    if "apple" in target.vendors:
        return TorchBuild(requested, None, ())
    if answers(f"{base}/cpu"):
        return TorchBuild(requested, f"{base}/cpu", (text("This machine has no GPU: torch is built for the CPU."),))
    note = text(
        "This machine has no GPU, and PyTorch's own index ({base}), which has a small build for the CPU, cannot be reached. The "
        "build on PyPI runs on the CPU, too; it may bring CUDA libraries that are not used here.",
        base=base,
    )
    return TorchBuild(requested, None, (note,))


def _pin(wheel: Wheel) -> str:
    return "torch" if wheel.newest else f"torch=={wheel.torch}.*"
