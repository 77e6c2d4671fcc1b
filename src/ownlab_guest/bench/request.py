"""The request: what to measure, on which device, and for how long."""

import json
import sys
from typing import Any, Dict, NamedTuple, Optional, Tuple

GROUPS = (
    "products",
    "memory",
    "copies",
    "launch",
    "training",
    "inference",
    "layers",
    "cpu",
    "disk",
    "loader",
    "frameworks",
)
BUDGET_SECONDS = {"quick": 25.0, "default": 150.0, "full": 900.0}


class Request(NamedTuple):
    """The request for one run."""

    profile: str = "default"
    groups: Optional[Tuple[str, ...]] = None  # None: all
    device: Optional[str] = None  # None: the first card, else the CPU
    folder: str = ""  # for the file of the disk test; "": the current folder
    budget_seconds: Optional[float] = None
    memory_bytes: Optional[int] = None  # maximum on the card

    @property
    def seconds(self) -> float:
        """Time for all tests together."""
        return BUDGET_SECONDS[self.profile] if self.budget_seconds is None else self.budget_seconds

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
    if request.profile not in BUDGET_SECONDS:
        raise ValueError(f"unknown profile {request.profile}; the profiles are {', '.join(BUDGET_SECONDS)}")
    if unknown := sorted(set(request.groups or ()) - set(GROUPS)):
        raise ValueError(f"unknown groups {', '.join(unknown)}; the groups are {', '.join(GROUPS)}")
    return request
