"""Modes of torch that a script has switched on and that make each step slower: anomaly detection, a profiler, float64 as the default type."""

import functools
import sys
from types import FrameType
from typing import Any, Callable, Dict, List, Optional

from ownlab_guest.why.user_frames import Place, user_place

__all__ = ["PROFILER", "ModeHooks"]

ANOMALY, PROFILER, FLOAT64 = "anomaly", "profiler", "float64"


class ModeHooks:
    """Where each mode was switched on, and during how many backward passes it was."""

    def __init__(self) -> None:
        self._torch: Any = None
        self._places: Dict[str, Optional[Place]] = {}
        self._backwards: Dict[str, int] = {}

    def forget(self) -> None:
        """Begin to count anew; what is on stays on."""
        self._backwards = {}

    def patch_torch(self, torch: Any) -> None:
        """Note where the default type is set."""
        self._torch = torch
        original, switched = torch.set_default_dtype, self.switched

        @functools.wraps(original)
        def noted(kind: Any) -> Any:
            if kind == torch.float64:
                switched(FLOAT64, sys._getframe(1))
            return original(kind)

        torch.set_default_dtype = noted

    def patch_anomaly(self, module: Any) -> None:
        """Patch torch.autograd.anomaly_mode."""
        self._patch_init(module.detect_anomaly, lambda arguments, options: True)
        self._patch_init(
            module.set_detect_anomaly, lambda arguments, options: options.get("mode", arguments[:1] == (True,))
        )

    def _patch_init(self, kind: Any, is_on: Callable[[Any, Any], bool]) -> None:
        init, switched = kind.__init__, self.switched

        @functools.wraps(init)
        def noted(self: Any, *arguments: Any, **options: Any) -> None:
            if is_on(arguments, options):
                switched(ANOMALY, sys._getframe(1))
            init(self, *arguments, **options)

        kind.__init__ = noted

    def switched(self, mode: str, frame: Optional[FrameType]) -> None:
        """A mode may be on from now on: which ones are is looked at in each backward pass."""
        place = user_place(frame)
        if place is not None or mode not in self._places:
            self._places[mode] = place

    def backward_began(self) -> None:
        """Count what is on."""
        for mode in self._places:
            if self._is_on(mode):
                self._backwards[mode] = self._backwards.get(mode, 0) + 1

    def _is_on(self, mode: str) -> bool:
        torch = self._torch
        if torch is None:
            return False
        if mode == ANOMALY:
            return bool(torch.is_anomaly_enabled())
        if mode == FLOAT64:
            return bool(torch.get_default_dtype() == torch.float64)
        return bool(torch._C._autograd._profiler_enabled())

    def as_json(self) -> List[Dict[str, Any]]:
        """What is written as evidence."""
        return [
            {"name": mode, "where": place._asdict() if place is not None else None, "backwards": backwards}
            for mode, place in self._places.items()
            for backwards in (self._backwards.get(mode, 0),)
            if backwards
        ]
