"""Paths and types that the tests of traces share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LAUNCH = HERE.parents[2] / "src" / "ownlab_guest" / "launch.py"

Trace = dict[str, Any]
Asking = Callable[..., list[Trace]]
