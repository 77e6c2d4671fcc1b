"""A fact: a value with its unit and its source, or the reason why it is not known.

A value that could not be read is never 0, -1 or an empty string: the reason is shown to the user.
"""

from __future__ import annotations

from typing import Generic, TypeVar, Union

from msgspec import Struct, structs

__all__ = ["NOT_READ", "Fact", "Known", "Unknown", "first_known", "unread", "value_of"]

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
# Covariant: a known tuple of cards is also a known tuple of structs. This is safe because records are frozen.
T_co = TypeVar("T_co", covariant=True)


class Known(Struct, Generic[T_co], frozen=True, tag="known", tag_field="state"):
    """A value that was read: `Known(143771, source="NVML", unit="MiB")`."""

    value: T_co
    source: str
    unit: str | None = None


class Unknown(Struct, frozen=True, tag="unknown", tag_field="state"):
    """Why a value is not known, as text for the user: `Unknown(text("nvidia-smi did not answer in 10 s"))`."""

    reason: str


# Union, not |: msgspec resolves the generic alias Fact[int] only in this form on Python 3.10.
Fact = Union[Known[T], Unknown]  # noqa: UP007

# A plain str: msgspec writes this default into the JSON Schema, and does not encode subclasses of str there.
NOT_READ = Unknown("not read")


def value_of(fact: Known[T] | Unknown) -> T | None:
    """Return the value, or None where it is not known."""
    return fact.value if isinstance(fact, Known) else None


def first_known(*facts: Known[T] | Unknown) -> Known[T] | Unknown:
    """Return the first fact that is known, else the last one with its reason."""
    for fact in facts:
        if isinstance(fact, Known):
            return fact
    return facts[-1]


def unread(record: type[S], reason: Unknown) -> S:
    """Make a record in which every fact is unknown for the same reason, nested records included."""
    fields: dict[str, object] = {}
    for field in structs.fields(record):
        if field.default is NOT_READ:
            fields[field.name] = reason
        elif isinstance(field.default, Struct):
            fields[field.name] = unread(type(field.default), reason)
    return record(**fields)
