"""Adam with 8-bit states, as bitsandbytes has it, as far as memory goes: it takes what that one takes, and learns nothing.

Sizes by bitsandbytes' optim/optimizer.py (Optimizer2State.init_state): two bytes for each value, a float32 for each block of
256 (since 0.44; 2048 before) and state; a parameter of fewer than 4096 values keeps float32. Its kernels work in place.
Computed from these rules, not measured.
"""

from typing import Any, Callable, Optional

import torch

LEAST = 4096
BLOCK = 256
LEVELS = 256  # values that a byte stands for, in a table of float32


class EightBitAdam(torch.optim.Optimizer):  # type: ignore[misc]  # torch is not there where types are checked
    """In place of bitsandbytes.optim.AdamW8bit, on tensors without data."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})
        self._tables: Any = None

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Optional[Callable[[], Any]] = None) -> None:
        """States come with the first step; nothing comes after."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and not self.state[parameter]:
                    self._begin(parameter)

    def _begin(self, parameter: Any) -> None:
        state, count = self.state[parameter], parameter.numel()
        if count < LEAST:
            for name in ("state1", "state2"):
                state[name] = torch.zeros_like(parameter, dtype=torch.float32)
            return
        if self._tables is None:
            self._tables = [parameter.new_zeros(LEVELS, dtype=torch.float32) for _ in range(2)]
        for name in ("1", "2"):
            state["state" + name] = torch.zeros_like(parameter, dtype=torch.uint8)
        for name in ("1", "2"):
            state["absmax" + name] = parameter.new_zeros(-(-count // BLOCK), dtype=torch.float32)
