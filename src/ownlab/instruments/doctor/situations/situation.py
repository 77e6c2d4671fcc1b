"""The record of a situation, and signs that several tables share."""

from __future__ import annotations

from typing import NamedTuple

from ownlab.instruments.doctor.records import Severity

__all__ = ["AMD", "JETSON", "MAC", "MIG", "NVIDIA_CARD", "WINDOWS", "WSL", "Situation"]


class Situation(NamedTuple):
    """A cause that several signs show together."""

    code: str  # the rule to whose page it belongs
    signs: tuple[str, ...]  # regular expressions; each must be found, ignoring case, ^ and $ at lines
    title: str
    meaning: str
    fix: tuple[str, ...]
    instead_of: tuple[str, ...] = ()  # the codes of findings that this one explains better
    unless: str = ""  # a sign that it is something else
    severity: Severity = "error"
    blocks: bool = True
    while_working: bool = False  # True: also where a framework has found a card
    only_without_driver: bool = False  # where the driver is known, the rule of this code says it for this card


JETSON = r"nv_tegra_release|-tegra\b|\bJetson\b|\bJetPack\b|\bL4T\b|__linux=4\.9\.\d+|\bnvgpu\b|\bOrin (?:Nano|NX|AGX)\b|\bXavier (?:NX|AGX)\b"
WINDOWS = r"^fact: family windows$|\bmodel=(?:WDDM|TCC)\b|\bWDDM\b|^PS [A-Z]:\\|\bOS(?: Name| Version)?: *(?:Microsoft )?Windows\b|\bWindows-1[01]-|\bwin_amd64\b|\bwin32\b|nvidia-smi\.exe|\bcudart64_\w+\.dll"
WSL = r"^fact: virtualisation wsl|microsoft-standard|\bWSL ?2?\b|/usr/lib/wsl/"
MAC = r"^fact: family darwin$|not a mach-o file|\.dylib\b|\bmacosx?[_ -]\d|\bmacOS\b|\bDarwin\b|arm64-apple|x86_64-apple|/Users/\w+/|/opt/homebrew/|\bApple M\d\b|^\s*Metal Support:"
MIG = r"\bMIG-[0-9a-f]{8}-|\bMIG-GPU-|^\s*MIG (?:\d+\S* +)?Device +\d|\bmig=on\b"
AMD = r"\bAMD Radeon|\bRadeon (?:RX|Pro|VII)|\bgfx\d{3,4}\w?\b|\bROCm\b|\bamdgpu\b|\bhip(?:Error|BLAS|FFT)|\bMI[123]\d\d\w?\b|\bzluda\b"
NVIDIA_CARD = r"^fact: card nvidia|NVIDIA-SMI \d|NVRM|\bGeForce\b|\b[RG]TX ?\w?\d{2,}|\bTesla [A-Z]\d|\bQuadro\b"
