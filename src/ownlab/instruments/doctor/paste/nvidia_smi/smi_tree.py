"""Brings every form of nvidia-smi's output into that of `nvidia-smi -q -x`, so that one reader understands them all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

import msgspec

from ownlab.machine.facts import Known
from ownlab.machine.nvidia import smi_xml
from ownlab.machine.records import Card, Machine, Nvidia

__all__ = ["add_gpu", "new_log", "put", "read_log"]

# XML has no way to write these, not even escaped.
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def new_log() -> Element:
    return Element("nvidia_smi_log")


def add_gpu(log: Element, bus_id: str | None) -> Element:
    return SubElement(log, "gpu", {"id": bus_id} if bus_id else {})


def put(element: Element, path: str, text: str | None) -> None:
    """Write a value at a path, unless there is one."""
    if text is None:
        return
    for tag in path.split("/"):
        below = element.find(tag)
        element = SubElement(element, tag) if below is None else below
    if not element.text:
        element.text = _UNWRITABLE.sub("", text).strip()


def read_log(log: Element, source: str, indexes: Sequence[int] = ()) -> Machine:
    """The driver and the cards of a log; `indexes` are the cards' own numbers, where the text has them."""
    nvidia, found = smi_xml.parse(tostring(log, encoding="unicode"), source=source)
    cards: tuple[Card, ...] = tuple(
        msgspec.structs.replace(card, index=index)
        for card, index in zip(found, indexes or range(len(found)), strict=True)
    )
    machine = Machine(origin="pasted", nvidia=nvidia if isinstance(nvidia.driver, Known) else Nvidia())
    return msgspec.structs.replace(machine, cards=Known(cards, source)) if cards else machine
