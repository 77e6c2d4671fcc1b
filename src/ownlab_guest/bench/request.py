"""What is asked: how long to measure, what, and where."""

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
    """One run."""

    profile: str = "default"
    groups: Optional[Tuple[str, ...]] = None  # None: all
    device: Optional[str] = None  # None: the first card, else the CPU
    folder: str = ""  # for the disk's own file; "": the present folder
    budget_seconds: Optional[float] = None
    memory_bytes: Optional[int] = None  # of the card, at most

    @property
    def seconds(self) -> float:
        """How long the whole may take."""
        return BUDGET_SECONDS[self.profile] if self.budget_seconds is None else self.budget_seconds

    def wants(self, group: str) -> bool:
        """Whether this group is to be measured."""
        return self.groups is None or group in self.groups


def read(path: str) -> Request:
    """The request that the host wrote: a file, or "-" for stdin. Raises ValueError where it is none."""
    if path == "-":
        said: Dict[str, Any] = json.load(sys.stdin)
    else:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
    if said.get("groups") is not None:
        said["groups"] = tuple(said["groups"])
    if unknown := sorted(set(said) - set(Request._fields)):
        raise ValueError(f"the request has fields that nobody knows: {', '.join(unknown)}")
    request = Request(**said)
    if request.profile not in BUDGET_SECONDS:
        raise ValueError(f"no profile is called {request.profile}; there are {', '.join(BUDGET_SECONDS)}")
    if unknown := sorted(set(request.groups or ()) - set(GROUPS)):
        raise ValueError(f"no group is called {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    return request
