"""Keeps a fix from doing harm where a pasted text does not establish its cause, or names a system on which it cannot work.

Two things make a step harmful: it belongs to another platform than the text shows (a Linux driver in WSL, packages for CUDA beside an
AMD card), or it changes the system for a cause that the text does not establish (drivers removed, kernel parameters, firmware settings).
The first kind is left out. The second comes last, and only for the case that the checks have shown this cause.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from ownlab.instruments.doctor.differential import AMBIGUOUS, from_messages_alone
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.searched_text import searched_text
from ownlab.instruments.doctor.situations.situation import JETSON, MAC, NVIDIA_CARD
from ownlab.text import in_english, text

__all__ = ["safe_steps"]


class _Platform(NamedTuple):
    """A system that the text shows, and steps that do not work or do harm there."""

    sign: str
    steps: str
    instead: str  # what holds there
    unless: str = ""  # a sign that the text is about another system


_INSTALLS_DRIVER = r"^The branch depends|[Ii]nstall (?:the )?NVIDIA driver|\bubuntu-drivers\b|install[^\n#]*\b(?:nvidia-(?:driver|open|dkms)|akmod-nvidia|cuda-drivers)|nvidia\.com/drivers|driver-installation-guide|(?:[Ii]nstall|[Uu]pdate to|[Tt]ake) a newer driver"
_CUDA_WHEEL = r"download\.pytorch\.org/whl/cu|jax\[cuda|tensorflow\[and-cuda|cupy-cuda|nvidia-\w+-cu1"
_PACKAGES = r"\b(?:apt-get|apt|dnf|yum|zypper|pacman)\b|\bupdate-initramfs\b|\bdracut\b|\bdkms\b|/etc/modprobe\.d|\busermod\b|\bupdate-grub\b"

_PLATFORMS = (
    _Platform(
        JETSON,
        rf"{_INSTALLS_DRIVER}|{_CUDA_WHEEL}|libcuda\w*-\d|Secure Boot",
        text("On a Jetson, the driver, CUDA and cuDNN belong to JetPack: take builds for this JetPack, and install no other driver."),
    ),
    _Platform(
        MAC,
        rf"{_INSTALLS_DRIVER}|{_CUDA_WHEEL}|{_PACKAGES}|--gpus|nvidia-modprobe",
        text("A Mac has no CUDA: use the device 'mps', the CPU, or a machine with an NVIDIA card."),
        unless=NVIDIA_CARD,
    ),
    _Platform(
        r"\bzluda\b",
        rf"{_INSTALLS_DRIVER}|{_CUDA_WHEEL}|force-reinstall torch|pip install[^\n]*\btorch\b",
        text("With ZLUDA torch's CUDA libraries are replaced by ZLUDA's: keep torch as ZLUDA's guide names it, and do not install it again."),
    ),
    _Platform(
        r"\bRadeon (?:RX|Pro|VII|AI)|\bgfx\d{3,4}\w?\b|\bInstinct\b|\bMI[123]\d\dX?\b|\bhipError\w|\bHIP error|\bHSA_STATUS",
        rf"{_INSTALLS_DRIVER}|{_CUDA_WHEEL}",
        text("The text is about an AMD card: nothing for NVIDIA cards is needed."),
        unless=NVIDIA_CARD,
    ),
    _Platform(
        r"\bTPU v?\d|\btpu-vm\b|/dev/accel\d|jax\[tpu\]|\bTPU_\w+=",
        rf"{_INSTALLS_DRIVER}|{_CUDA_WHEEL}",
        text("The text is about a TPU: it needs jax[tpu] or torch_xla[tpu], and nothing of CUDA."),
        unless=NVIDIA_CARD,
    ),
    _Platform(
        r"\btorch_npu\b|\bnpu-smi\b|^fact: card huawei",
        rf"{_INSTALLS_DRIVER}|{_CUDA_WHEEL}",
        text("The text is about an Ascend NPU: it needs torch for the CPU with torch_npu, and nothing of CUDA."),
        unless=NVIDIA_CARD,
    ),
    _Platform(
        r"/nix/store/|\bNixOS\b|configuration\.nix|\bGuix\b",
        _PACKAGES,
        text("NixOS, Guix: drivers, modules and groups are set in the system's configuration (hardware.nvidia, boot.blacklistedKernelModules)."),
    ),
    _Platform(
        r"\brpm-ostree\b|\bSilverblue\b|\bKinoite\b|\bBazzite\b|\bBluefin\b|\bFlatcar\b|\bTalos\b|\bBottlerocket\b|\bSteamOS\b|\bCoreOS\b",
        _PACKAGES,
        text("This system is an image that is not changed in place: the driver comes with its NVIDIA image, layer or extension, of exactly this release."),
    ),
    _Platform(
        r"\bunraid\b|\bTrueNAS\b|\bSynology\b|\bOpenMediaVault\b",
        _PACKAGES,
        text("On this system the driver comes with its own plug-in or setting (Unraid: the plug-in Nvidia-Driver)."),
    ),
    _Platform(
        r"/content/|\bgoogle\.colab\b|\bGoogle Colab\b|/kaggle/working|^fact: platform (?:colab|kaggle)",
        rf"{_INSTALLS_DRIVER}|\breboot\b|\bmodprobe\b|--gpus",
        text("The driver of a hosted notebook belongs to its provider: choose a GPU runtime, restart it, and take builds for its CUDA."),
    ),
)  # fmt: skip

# Steps that cost much, or can leave a machine without a screen or a driver.
_CHANGES_SYSTEM = re.compile(
    rf"{_INSTALLS_DRIVER}|^The branch depends|\bpurge\b|\bautoremove\b|\b(?:dnf|yum|apt|apt-get) remove\b|nvidia-uninstall|remove all|"
    r"install (?:it|the driver|the card's driver) (?:again|once more)|driver again|reinstall the driver|GRUB_CMDLINE|\bgrubby\b|kernel parameter|"
    r"kernel's command line|\bpci=|iommu=|\bnomodeset\b|\bsetpci\b|--disable-validation|Secure Boot off|\brm -rf? /(?!tmp)|\bmodprobe -r\b|\brmmod (?!nvidia_uvm)|"
    r"gpu-reset|[Ii]n the (?:system )?firmware|\bBIOS\b|Above 4G|have it replaced"
)
# Steps that begin so only look at something.
_LOOKS = (
    "Look",
    "Check",
    "See",
    "Find",
    "Compare",
    "Read",
    "Test",
    "ls ",
    "lspci",
    "nvidia-smi ",
    "sudo dmesg",
    "uname",
)
_CONDITIONAL = re.compile(
    r"(?:If|Only if|Otherwise|The branch depends|Do not|Keep|Remove a Linux driver|Or|After|On Windows|Windows|With|Without|In a|Where|For)\b"
)


def safe_steps(case: Case, finding: Finding, steps: tuple[str, ...]) -> tuple[str, ...]:
    """Return the steps without those that do not belong to the text's system; those that change it, last and conditional."""
    if case.machine.origin != "pasted":
        return steps
    if finding.severity == "note":
        return tuple(
            text("At the next maintenance: {step}", step=step)
            if _is_drastic(step) and not _is_conditional(step)
            else step
            for step in steps
        )
    steps = _without_foreign(searched_text(case), steps)
    if finding.code not in AMBIGUOUS or not from_messages_alone(case, finding):
        return steps
    careful = tuple(step for step in steps if not _is_drastic(step))
    drastic = tuple(
        step if _is_conditional(step) else text("Only if the checks have shown this cause: {step}", step=step)
        for step in steps
        if _is_drastic(step)
    )
    return (*careful, *drastic)


def _is_drastic(step: str) -> bool:
    words = in_english(step)
    return _CHANGES_SYSTEM.search(words) is not None and not words.startswith(_LOOKS)


def _is_conditional(step: str) -> bool:
    return _CONDITIONAL.match(in_english(step)) is not None


def _without_foreign(content: str, steps: tuple[str, ...]) -> tuple[str, ...]:
    for platform in _PLATFORMS:
        if not _compiled(platform.sign).search(content) or (
            platform.unless and _compiled(platform.unless).search(content)
        ):
            continue
        kept = tuple(step for step in steps if not _compiled(platform.steps).search(in_english(step)))
        if kept != steps:
            return (platform.instead, *kept)
    return steps


@functools.cache
def _compiled(sign: str) -> re.Pattern[str]:
    return re.compile(sign, re.IGNORECASE | re.MULTILINE)
