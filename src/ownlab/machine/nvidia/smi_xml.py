"""Reads what `nvidia-smi -q -x` prints, of any driver since 390, whole or cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from ownlab.errors import InputError, NotRecognised
from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.nvidia.smi_card import Reader, read_card
from ownlab.machine.records import Card, Nvidia

__all__ = ["SOURCE", "parse"]

SOURCE = "nvidia-smi -q -x"
_START = "<nvidia_smi_log"
_END = "</nvidia_smi_log>"


def parse(text: str, source: str = SOURCE) -> tuple[Nvidia, tuple[Card, ...]]:
    """The driver and the cards in it. Where the text is cut, what is whole; `Nvidia.smi` then says that it is cut.

    Raises NotRecognised where this is not nvidia-smi's XML, and InputError where it declares entities.
    """
    start = text.find(_START)
    if start < 0:
        raise NotRecognised("there is no <nvidia_smi_log> in this text")
    # Ten lines of nested entities can fill the memory, and nvidia-smi declares none. What stands before the root is
    # not even given to the parser, its DOCTYPE included.
    if "<!ENTITY" in text[:start]:
        raise InputError("the XML declares entities, which nvidia-smi never does: it is not read")
    end = text.find(_END, start)
    log, cut = _read_log(text[start : end + len(_END)] if end >= 0 else text[start:])
    reader = Reader(log, source)
    # From driver 610 on the old names carry a note, "610.62 [Deprecated; …]", or stand no more.
    driver = _version(reader.text("kmd_version", "driver_version"))
    cards = tuple(read_card(element, index, source) for index, element in enumerate(log.findall("gpu")))
    smi: Fact[str] = driver  # nvidia-smi comes with the driver, and refuses to work with another
    if cut is not None:
        smi = Unknown(f"the XML is cut or damaged ({cut}); what is known of {len(cards)} card(s) stands before that")
    return Nvidia(driver=driver, cuda=_version(reader.text("cuda_umd_version", "cuda_version")), smi=smi), cards


def _read_log(xml: str) -> tuple[Element, str | None]:
    """The tree without the element in which the text breaks off, and where it does."""
    parser: XMLPullParser[Element] = XMLPullParser(events=("start", "end"))
    parser.feed(xml)
    open_elements: list[Element] = []
    root: Element | None = None
    try:
        # A cast: typeshed also lists the events that were not asked for.
        for event, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
            if event == "end":
                open_elements.pop()
                continue
            root = element if root is None else root
            open_elements.append(element)
        parser.close()
    except ParseError as exc:
        if root is None:
            raise NotRecognised(f"the XML cannot be read: {exc}") from exc
        _drop_broken(open_elements)
        return root, str(exc)
    if root is None:
        raise NotRecognised("the XML is empty")
    return root, None


def _drop_broken(open_elements: list[Element]) -> None:
    """Of root, gpu, processes, process_info, … drop what is below the card: half a list would look like a whole one."""
    depth = 1 if open_elements[1:2] and open_elements[1].tag == "gpu" else 0
    if len(open_elements) > depth + 1:
        open_elements[depth].remove(open_elements[depth + 1])


def _version(fact: Fact[str]) -> Fact[str]:
    if isinstance(fact, Unknown):
        return fact
    match = re.match(r"\d+\.\d+(?:\.\d+)?", fact.value)
    if match is None:
        return Unknown(f'nvidia-smi says "{fact.value[:100]}"')
    return Known(match.group(), source=fact.source)
