"""In the pseudo-language everything that ownlab says has accents: what has none is a name, code, or has been forgotten."""

from __future__ import annotations

import re

from tests.shown_outputs import outputs_in

from ownlab.catalog.cards import load_cards
from ownlab.catalog.platforms import load_platforms, offer_label
from ownlab.cli.main import COMMANDS

# Code: addresses, paths, options, variables, names with digits, and what is quoted.
_CODE = re.compile(
    r"https?://\S+|`[^`]*`|'[^']*'|\S*[/_=]\S*|--?[\w-]+|\b[A-Z][A-Z0-9]+\b|\b\w*\d[\w.+]*|\b[\w-]+\.(?:py|json|ipynb)\b"
    r"|\[[a-z|,-]+\]|--explain \S+"
)
_WORD = re.compile(r"(?<![^\W_])[A-Za-z]{3,}(?![^\W_])")
NAMES = set(COMMANDS) | set(
    re.findall(
        r"\S+",
        """
    GiB KiB MiB MHz PCIe NVLink Hopper Ampere Volta Ascend Ada Blackwell Quadro Tesla Titan Pascal Super Server Intel Xeon
    Processor Ubuntu Linux Red Hat Enterprise Maipo Python Colab Pro docker firecracker adamw amp cuDNN cupy jax numba torch
    vLLM tensor csv noheader nounits max min pid pip install sudo reboot python layers colab add advise build cost get list pack
    sets stage unpack verify inspect bench create export remove update report loader units free high ann bob eve myenv pyt pyth train
    main tokenize straggler Images DataLoader files ddp fsdp stop pasted ownlab driver old workers
    missing nosuch much
    """,
    )
)
NAMES |= {
    word
    for platform in load_platforms()
    for name in (platform.name, *(offer.name for offer in platform.offers if offer_label(offer.name) == offer.name))
    for word in _WORD.findall(name)
}
NAMES |= {word for card in load_cards() for word in _WORD.findall(card.name)}
# Sentences that stand in recorded facts as they were written, and titles of documents.
RECORDED = (
    "Card 1 does not answer",
    "waits for 2 cards",
    "sessions end after 12 h",
    "of dan, 12 GiB",
    "no GPU was found",
    "a number that depends on the data",
    "éåšûréđ:",
)
_SOURCE = re.compile(r"^  (?:colab-?[a-z]*|mccormick): |^  \[\d+\]  ")


def unmarked_words(shown: str) -> set[str]:
    """The words without accents, up to the sources and the titles of documents, which run over several lines."""
    found = set()
    for line in shown.splitlines():
        if _SOURCE.search(line) or any(words in line for words in RECORDED):
            if "éåšûréđ:" in line or _SOURCE.search(line):
                break
            continue
        words = (word for word in _WORD.findall(_CODE.sub(" ", line)) if len(set(word)) > 1)
        found |= {word for word in words if word not in NAMES and not word.startswith("bbb")}
    return found


def test_no_word_is_left_in_english() -> None:
    # Most of a machine is recorded facts, sentences among them, and half of the list of rules are codes.
    shown = {name: words for name, words in outputs_in("qps").items() if name not in ("machine-cpu", "rules")}
    found = {name: left for name, words in shown.items() if (left := unmarked_words(words))}
    assert found == {}


def test_a_forgotten_sentence_is_found() -> None:
    assert unmarked_words("⟦Ťhé çårđ⟧ is not there\n") == {"not", "there"}
