"""What a fact is: a value with its unit and its source, or the reason why it is not known.

Never 0, -1 or an empty string for "could not be read": the reason is shown to people.
"""

from __future__ import annotations

from typing import Generic, TypeVar, Union

from msgspec import Struct, structs

__all__ = ["NOT_READ", "Fact", "Known", "Unknown", "first_known", "unread", "value_of"]

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
# Covariant: a known tuple of cards is also a known tuple of structs. Records are frozen, so nothing can be put in wrongly.
T_co = TypeVar("T_co", covariant=True)


class Known(Struct, Generic[T_co], frozen=True, tag="known", tag_field="state"):
    """A value that was read: `Known(143771, source="NVML", unit="MiB")`."""

    value: T_co
    source: str
    unit: str | None = None


class Unknown(Struct, frozen=True, tag="unknown", tag_field="state"):
    """Why a value is not known, in words for people: `Unknown("nvidia-smi did not answer in 10 s")`."""

    reason: str


# Union, not |: msgspec resolves the generic alias Fact[int] only in this form on Python 3.10.
Fact = Union[Known[T], Unknown]  # noqa: UP007

NOT_READ = Unknown("not read")


def value_of(fact: Known[T] | Unknown) -> T | None:
    """The value, or None where it is not known."""
    return fact.value if isinstance(fact, Known) else None


def first_known(*facts: Known[T] | Unknown) -> Known[T] | Unknown:
    """The first fact that is known; else the last reason, the one of the last resort."""
    for fact in facts:
        if isinstance(fact, Known):
            return fact
    return facts[-1]


def unread(record: type[S], why: Unknown) -> S:
    """A record of which nothing is known, for the same reason, down to the records in it."""
    given: dict[str, object] = {}
    for field in structs.fields(record):
        if field.default is NOT_READ:
            given[field.name] = why
        elif isinstance(field.default, Struct):
            given[field.name] = unread(type(field.default), why)
    return record(**given)
