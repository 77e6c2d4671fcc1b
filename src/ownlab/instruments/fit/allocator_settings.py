"""Reads PYTORCH_ALLOC_CONF (before torch 2.9 PYTORCH_CUDA_ALLOC_CONF), as far as it decides how much is reserved."""

from __future__ import annotations

from ownlab.errors import UsageError
from ownlab.instruments.fit.allocator import PLAIN, Policy
from ownlab.units import MIB

__all__ = ["parse_policy"]

# They do not change how much is reserved.
_WITHOUT_EFFECT = (
    "release_lock_on_cudamalloc",
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "graph_capture_record_stream_reuse",
)


def parse_policy(text: str) -> Policy:
    """ "expandable_segments:True,max_split_size_mb:128" -> the policy that it asks for."""
    policy = PLAIN
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, value = (word.strip() for word in part.partition(":"))
        if not colon:
            raise UsageError(f"{part!r} in the allocator's options has no value", hint="Write NAME:VALUE,NAME:VALUE.")
        if name not in _WITHOUT_EFFECT:
            policy = _with(policy, name, value)
    return policy


def _with(policy: Policy, name: str, value: str) -> Policy:
    try:
        if name == "max_split_size_mb":
            return policy._replace(max_split_size=int(value) * MIB)
        if name == "max_non_split_rounding_mb":
            return policy._replace(max_non_split_rounding=int(value) * MIB)
        if name == "garbage_collection_threshold":
            return policy._replace(garbage_collection_threshold=float(value))
        if name == "expandable_segments":
            return policy._replace(expandable_segments={"true": True, "false": False}[value.lower()])
        if name == "roundup_power2_divisions":
            return policy._replace(roundup_power2_divisions=int(value))
        if name == "backend" and value == "native":
            return policy
    except (KeyError, ValueError):
        pass  # said below, with the others that are not understood
    raise UsageError(
        f"{name}:{value} of the allocator's options is not modelled",
        hint="Known are expandable_segments, max_split_size_mb, max_non_split_rounding_mb, garbage_collection_threshold "
        "and roundup_power2_divisions with one number; --allocator '' leaves the environment's out.",
    )
