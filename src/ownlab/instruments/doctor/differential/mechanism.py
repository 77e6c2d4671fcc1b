"""The records of a differential: a family of messages, and the mechanisms that can produce them."""

from __future__ import annotations

from typing import NamedTuple

from ownlab.instruments.doctor.situations.situation import JETSON, MAC, WINDOWS, WSL

__all__ = [
    "AMD",
    "CONTAINER",
    "HOSTED",
    "JETSON",
    "LINUX",
    "MAC",
    "MINING",
    "NVIDIA_CARD",
    "WINDOWS",
    "WSL",
    "Family",
    "Mechanism",
]


class Mechanism(NamedTuple):
    """One way in which a message comes about."""

    cause: str
    check: str  # what tells it from the others: a command or an observation; changes nothing on the machine by itself
    sign: str = ""  # in the text: this mechanism comes first among the others
    against: str = ""  # in the text: it cannot be this one
    only: str = ""  # a mechanism of some messages of the family: it counts only with this in the text
    codes: tuple[str, ...] = ()  # the rules whose findings already say it


class Family(NamedTuple):
    """Messages of one kind, in the words of any tool, with all mechanisms behind them, the most frequent one first."""

    title: str  # what the message says, without a claim about its cause
    pattern: (
        str  # a regular expression, ignoring case, ^ and $ at lines; "" where only the rules of `codes` recognise it
    )
    codes: tuple[str, ...]  # the rules about messages of this family
    mechanisms: tuple[Mechanism, ...]
    stands_alone: bool = True  # False: the pattern alone is no sign of a failure


LINUX = r"^fact: family linux$|/usr/(?:lib|local|bin)/|/home/\w|\b(?:Ubuntu|Debian|Fedora|CentOS|Arch Linux|manjaro|openSUSE)\b|\.so\b|x86_64-linux"
CONTAINER = r"^fact: container (?!none)|\bdocker\b|\bpodman\b|\bcontainer\b|\bkubernetes\b|\bpods?\b|apptainer|singularity|/workspace\b|\bcompose\b"
AMD = r"\bAMD Radeon|\bRadeon (?:RX|Pro|VII)|\bgfx\d{3,4}\w?\b|\bROCm\b|\bamdgpu\b|\bhip(?:Error|BLAS|FFT)|\bMI[123]\d\d\w?\b|\bzluda\b"
HOSTED = r"^fact: platform (?:colab|kaggle|sagemaker|gradient|runpod)|/content/|/kaggle/|\bColab\b|\bKaggle\b|\bSageMaker\b|\bRunPod\b"
MINING = r"miner\b|\bminer|hashrate|\bMH/s\b|\bDAG\b|ethash|\bkawpow|\bxmr"
NVIDIA_CARD = r"^fact: card nvidia|NVIDIA-SMI \d|NVRM|\bGeForce\b|\b[RG]TX ?\w?\d{2,}|\bTesla [A-Z]\d|\bQuadro\b"
