"""The records of a differential: a family of messages, and the mechanisms that can produce them."""

from __future__ import annotations

from typing import NamedTuple

from ownlab.instruments.doctor.situations.situation import AMD, JETSON, MAC, NVIDIA_CARD, WINDOWS, WSL

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
    of_one_program: bool = False  # True: about one program; its rules are about others, too, so the lines must name it


LINUX = r"^fact: family linux$|/usr/(?:lib|local|bin)/|/home/\w|\b(?:Ubuntu|Debian|Fedora|CentOS|Arch Linux|manjaro|openSUSE)\b|\.so\b|x86_64-linux"
CONTAINER = r"^fact: container (?!none)|\bdocker\b|\bpodman\b|\bcontainer\b|\bkubernetes\b|\bpods?\b|apptainer|singularity|/workspace\b|\bcompose\b"
HOSTED = r"^fact: platform (?:colab|kaggle|sagemaker|gradient|runpod)|/content/|/kaggle/|\bColab\b|\bKaggle\b|\bSageMaker\b|\bRunPod\b"
MINING = r"miner\b|\bminer|hashrate|\bMH/s\b|\bDAG\b|ethash|\bkawpow|\bxmr"
