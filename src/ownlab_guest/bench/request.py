"""The request: what to measure, on which device, and for how long. The host has checked the names of the groups."""

import json
import math
import sys
from typing import Any, Dict, NamedTuple, Optional, Tuple

PROFILES = ("quick", "default", "full")


class Request(NamedTuple):
    """The request for one run."""

    profile: str = "default"
    groups: Optional[Tuple[str, ...]] = None  # None: all
    device: Optional[str] = None  # None: the first card, else the CPU
    folder: str = ""  # for the file of the disk test; "": the current folder
    budget_seconds: float = math.inf  # for all tests together
    memory_bytes: Optional[int] = None  # maximum on the card

    def wants(self, group: str) -> bool:
        """Whether this group is requested."""
        return self.groups is None or group in self.groups


def read(path: str) -> Request:
    """Read the request from a file, or from stdin for "-". Raises ValueError if it is invalid."""
    if path == "-":
        content: Dict[str, Any] = json.load(sys.stdin)
    else:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    if content.get("groups") is not None:
        content["groups"] = tuple(content["groups"])
    if unknown := sorted(set(content) - set(Request._fields)):
        raise ValueError(f"unknown fields in the request: {', '.join(unknown)}")
    request = Request(**content)
    if request.profile not in PROFILES:
        raise ValueError(f"unknown profile {request.profile}; the profiles are {', '.join(PROFILES)}")
    return request
