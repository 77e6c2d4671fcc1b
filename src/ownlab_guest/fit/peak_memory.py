"""Peaks of torch's allocator on a card: by phase of the step, and what held the memory at the highest one."""

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from ownlab_guest.fit.peak_snapshot import Address, Moment, bytes_at_peak

Counters = Callable[[], Tuple[int, int]]  # peaks since the last call: allocated, reserved


def cuda_counters(device: str) -> Counters:
    """Read torch's own counters, which the allocator keeps exactly."""

    def read() -> Tuple[int, int]:
        peaks = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
        torch.cuda.reset_peak_memory_stats(device)
        return peaks

    return read


class Phases:
    """The current phase of the step, and the peaks of each phase. Without counters only the phase."""

    def __init__(self, counters: Optional[Counters]) -> None:
        self.current = "setup"
        self.allocated: Dict[str, int] = {}
        self.reserved: Dict[str, int] = {}
        self.on_change: Callable[[str], None] = lambda phase: None  # called for each new phase
        self._counters = counters
        self._depth = 0

    def enter(self, phase: str) -> None:
        """Begin a phase."""
        self.read()
        self.current = phase
        self.on_change(phase)

    def read(self) -> None:
        """Assign the peaks since the last call to the current phase."""
        if self._counters is not None:
            allocated, reserved = self._counters()
            self.allocated[self.current] = max(allocated, self.allocated.get(self.current, 0))
            self.reserved[self.current] = max(reserved, self.reserved.get(self.current, 0))

    @contextlib.contextmanager
    def track(self) -> Iterator[None]:
        """Follow the phases by hooks of modules and autograd."""
        from torch.nn.modules import module

        hooks = [
            module.register_module_forward_pre_hook(self._enter),
            module.register_module_forward_hook(self._leave, always_call=True),
        ]
        backward = torch.autograd.backward  # Tensor.backward() uses this attribute, too

        def followed(*args: Any, **kwargs: Any) -> Any:
            if self.current == "backward":  # of a checkpointed part, inside of the backward pass
                return backward(*args, **kwargs)
            self.enter("backward")
            result = backward(*args, **kwargs)
            self.enter("optimizer")
            return result

        torch.autograd.backward = followed
        try:
            yield
        finally:
            torch.autograd.backward = backward
            for hook in hooks:
                hook.remove()

    def _enter(self, module: Any, inputs: Any) -> None:
        # Checkpointing calls modules again in the backward pass.
        if self._depth == 0 and self.current in ("setup", "optimizer"):
            self.enter("forward")
        self._depth += 1

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        self._depth = max(0, self._depth - 1)


class Recorder:
    """The allocator's own history (torch.cuda.memory._record_memory_history)."""

    def __init__(self, device: str) -> None:
        self._index = torch.device(device).index or 0

    def start(self) -> None:
        """Start recording."""
        torch.cuda.memory._record_memory_history("all", context=None, stacks="python", max_entries=1_000_000)

    def stop(self) -> None:
        """Stop recording."""
        torch.cuda.memory._record_memory_history(None)

    def entries(self) -> List[Dict[str, Any]]:
        """Return the entries so far."""
        traces = torch.cuda.memory._snapshot()["device_traces"]
        return list(traces[self._index]) if len(traces) > self._index else []

    def base(self) -> Dict[Address, int]:
        """Return the blocks that are allocated now."""
        held = {}
        for segment in torch.cuda.memory._snapshot()["segments"]:
            if segment["device"] != self._index:
                continue
            address = segment["address"]
            for block in segment["blocks"]:
                if block["state"].startswith("active"):
                    held[address] = block["size"]
                address += block["size"]
        return held


class History:
    """Records one extra step, and finds out what its memory was for."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self._moments: List[Moment] = []
        self._optimizers: List[Any] = []

    def parts(self, step: Callable[[], None], phases: Phases, known: Dict[str, List[Any]]) -> Dict[str, int]:
        """Return the bytes by kind at the peak of the step. `known`: tensors that exist before it, by kind."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        hook = register_optimizer_step_pre_hook(self._before_optimizer)
        self._recorder.start()
        try:
            base = self._recorder.base()
            phases.on_change = lambda phase: self._moments.append(Moment(self._length(), phase))
            phases.enter("forward")
            step()
            entries = self._recorder.entries()
        finally:
            phases.on_change = lambda phase: None
            hook.remove()
            self._recorder.stop()
        # Only now the optimizers are known; their state is from earlier steps.
        owners = _owners(
            {**known, "optimizer": [tensor for optimizer in self._optimizers for tensor in _states(optimizer)]}
        )
        return bytes_at_peak(base, entries, self._moments, owners)

    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not any(optimizer is known for known in self._optimizers):
            self._optimizers.append(optimizer)
        gradients = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        self._moments.append(Moment(self._length(), gradients=frozenset(map(_address, gradients))))

    def _length(self) -> int:
        return len(self._recorder.entries())


def _owners(known: Dict[str, List[Any]]) -> Dict[Address, str]:
    return {_address(tensor): kind for kind, tensors in known.items() for tensor in tensors}


def _address(tensor: Any) -> Address:
    return int(tensor.untyped_storage().data_ptr())


def _states(optimizer: Any) -> List[Any]:
    from torch.utils._pytree import tree_leaves

    return [
        tensor
        for state in optimizer.state.values()
        for tensor in tree_leaves(state)
        if isinstance(tensor, torch.Tensor) and tensor.dim() > 0  # step counts are in the computer's memory
    ]
