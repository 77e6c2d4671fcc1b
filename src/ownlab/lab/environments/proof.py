"""Proof that the torch of an environment computes: a matrix product on each device, or on the CPU where there is none."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from ownlab import guest_client
from ownlab.errors import OwnlabError
from ownlab.machine.interpreter import GUEST_ENVIRONMENT
from ownlab.text import listing, plural, text

__all__ = ["Proof", "prove"]

_SECONDS = 300.0  # the first import of torch from a cold disk, and a context on each card


class Proof(NamedTuple):
    """The result, in words."""

    summary: str
    proven: bool
    torchvision: str = ""  # why its operators do not work


class _Product(Struct, frozen=True):
    """A check of `ownlab_guest/probe/verify_devices.py`."""

    device: str
    passed: bool
    error: str | None = None


class _Answer(Struct, frozen=True):
    """The answer of `ownlab_guest/probe/torch_proof.py`."""

    version: str
    products: tuple[_Product, ...]
    cpu: _Product
    torchvision: str = ""  # why its operators do not work


def prove(python: str) -> Proof:
    """Compute with the torch of an interpreter. A failure is a result, not an exception: the environment exists."""
    try:
        answer = guest_client.ask(
            python, "probe.torch_proof", answer=_Answer, deadline=_SECONDS, env=dict(GUEST_ENVIRONMENT)
        )
    except OwnlabError as exc:
        return Proof(text("torch does not work: {reason}", reason=exc.message), False)
    failed = next((each for each in (*answer.products, answer.cpu) if not each.passed), None)
    if failed is not None:
        return Proof(
            text("torch does not compute correctly on {device}: {error}", device=failed.device, error=failed.error),
            False,
        )
    cards = sorted({int(each.device.rpartition(":")[2]) for each in answer.products})
    if not cards:
        return Proof(text("torch {version}, proven on the CPU", version=answer.version), True, answer.torchvision)
    return Proof(
        plural(
            len(cards),
            "torch {version}, proven on card {cards}",
            "torch {version}, proven on cards {cards}",
            version=answer.version,
            cards=listing(cards),
        ),
        True,
        answer.torchvision,
    )
