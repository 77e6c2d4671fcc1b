"""Reads environment variables out of a text: `env` lines, `export`, `os.environ[…] = …`, `echo $NAME`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from ownlab.machine.environment import read_environment
from ownlab.machine.facts import NOT_READ, Fact, Known, Unknown, value_of
from ownlab.machine.records import Card, Variable

__all__ = ["environment_of", "find_variables"]

_SOURCE = "pasted environment variables"
_NAMES = (
    r"CUDA_[A-Z_]{3,40}|NVIDIA_[A-Z_]{3,40}|NCCL_[A-Z0-9_]{2,40}|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|"
    r"HSA_OVERRIDE_GFX_VERSION|ASCEND_[A-Z_]{3,40}|LD_LIBRARY_PATH|LD_PRELOAD|PYTORCH_[A-Z_]{3,40}|TORCH_CUDA_ARCH_LIST|TF_[A-Z_]{3,40}|"
    r"XLA_[A-Z_]{3,40}|JAX_[A-Z_]{3,40}|TPU_[A-Z_]{3,40}|OMP_NUM_THREADS|MKL_NUM_THREADS"
)
_ASSIGNED = re.compile(
    rf"(?:.*?[$#>]\s+)?(?:export |set |declare -x |ENV |-e )?({_NAMES})=(\S*|\"[^\"]*\"|'[^']*')(?:\s|$)"
)
_IN_PYTHON = re.compile(rf".*?os\.environ\[\s*['\"]({_NAMES})['\"]\s*\]\s*=\s*(?:str\()?['\"]?([^'\")]*)")
_ECHOED = re.compile(rf".*?\becho \"?\$\{{?({_NAMES})\}}?\"?\s*$")
_HINT = re.compile(r"_[A-Z]+=|os\.environ\[|\becho ")
_MIG_UUID = re.compile(r"MIG-[0-9a-f]{8}-")
_LONGEST = 4000
# What these hold can be looked up only on the machine itself.
_PATHS = ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH")


def environment_of(variables: Mapping[str, str], cards: tuple[Card, ...] = ()) -> Fact[tuple[Variable, ...]]:
    """The variables that decide, with what they mean there."""
    cards = tuple(map(_without_numbered_slices, cards))
    given = {name: value[:_LONGEST] for name, value in variables.items()}
    here = {name: value for name, value in given.items() if name not in _PATHS}
    known = read_environment(here, cards)
    found = known.value if isinstance(known, Known) else ()
    found += tuple(
        Variable(name, given[name], "a path on that machine; what it holds cannot be seen from here")
        for name in _PATHS
        if name in given
    )
    return Known(found, _SOURCE) if found else NOT_READ


def _without_numbered_slices(card: Card) -> Card:
    """MIG instances that are numbered, for want of their UUIDs, cannot be told apart by CUDA_VISIBLE_DEVICES=MIG-…"""
    slices = value_of(card.mig_instances) or ()
    if all(_MIG_UUID.match(one.uuid) for one in slices):
        return card
    return msgspec.structs.replace(card, mig_instances=Unknown("pasted without UUIDs"))


def find_variables(lines: Sequence[str]) -> dict[str, str]:
    """Those that a text names outside of every report."""
    found: dict[str, str] = {}
    for index, line in enumerate(lines):
        if ("=" not in line and "echo" not in line) or not _HINT.search(line):
            continue
        match = _ASSIGNED.match(line[:_LONGEST]) or _IN_PYTHON.match(line[:_LONGEST])
        if match is not None:
            found.setdefault(match[1], match[2].strip("\"'"))
        elif (echoed := _ECHOED.match(line[:200])) and index + 1 < len(lines):
            found.setdefault(echoed[1], lines[index + 1].strip())
    return found
