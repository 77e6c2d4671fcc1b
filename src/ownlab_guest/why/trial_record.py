"""What runs of a trial are compared by: the losses, the order of the samples; and what is known of the model, to choose changes."""

import functools
import math
import sys
import zlib
from types import FrameType, ModuleType
from typing import Any, Dict, List, Optional

from ownlab_guest.why.loader_hooks import LoaderHooks
from ownlab_guest.why.side_effects import SideEffects
from ownlab_guest.why.user_frames import Place, user_place

__all__ = ["TrialRecord"]

_MOST_LOSSES = 2000
_MOST_BATCHES = 2000


class TrialRecord:
    """The record of one process."""

    def __init__(self, loaders: LoaderHooks, effects: SideEffects) -> None:
        self._loaders, self._effects = loaders, effects
        self._losses: List[Any] = []
        self._orders: Dict[int, List[int]] = {}
        self.model: Optional[Dict[str, Any]] = None
        self.optimizers: List[Optional[Place]] = []
        self.threads_where: Optional[Place] = None
        self.applied: List[str] = []

    def apply(self, name: str) -> None:
        """A change has reached the script."""
        if name not in self.applied:
            self.applied.append(name)

    def add_loss(self, tensors: Any) -> None:
        """Keep the scalar on which backward was called; its value is read at the end, since reading waits for a GPU."""
        tensor = tensors[0] if isinstance(tensors, (list, tuple)) and len(tensors) == 1 else tensors
        if hasattr(tensor, "numel") and tensor.numel() == 1 and len(self._losses) < _MOST_LOSSES:
            self._losses.append(tensor.detach().clone())

    def describe_model(self, torch: Any, module: Any, frame: Optional[FrameType]) -> None:
        """What is known of the outermost module of a training step."""
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not parameters or (self.model is not None and self.model["parameters"] >= len(parameters)):
            return
        kind = parameters[0].device.type
        place = user_place(frame)
        self.model = {
            "where": place._asdict() if place else None,
            "parameters": len(parameters),
            "convolutions": sum(isinstance(each, torch.nn.Conv2d) for each in module.modules()),
            "channels_last": _is_channels_last(torch, parameters),
            "distributed": type(module).__name__ in ("DistributedDataParallel", "FullyShardedDataParallel"),
            "compiled": type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None,
            "full_precision": parameters[0].dtype == torch.float32 and not torch.is_autocast_enabled(kind),
            "bf16": _computes_bf16(torch, kind),
        }

    def patch_iterator(self, module: ModuleType) -> None:
        """Patch torch.utils.data.dataloader: which samples are asked for, in which order."""
        iterator = module._BaseDataLoaderIter
        original, record = iterator._next_index, self

        @functools.wraps(original)
        def noted(self: Any) -> Any:
            index = original(self)
            record._add_batch(getattr(self, "_ownlab_info", None), index)
            return index

        iterator._next_index = noted

    def _add_batch(self, info: Any, index: Any) -> None:
        loaders = self._loaders.loaders
        number = next((number for number, each in enumerate(loaders) if each is info), -1)
        order = self._orders.setdefault(number, [])
        if len(order) < _MOST_BATCHES:
            order.append(zlib.crc32(repr(index).encode()))

    def document(self, is_final: bool) -> Dict[str, Any]:
        """What is written as evidence; losses only at the end."""
        losses = [float(loss) for loss in self._losses] if is_final else []
        return {
            "losses": [loss if math.isfinite(loss) else None for loss in losses],
            "orders": {str(number): order for number, order in self._orders.items()},
            "model": self.model,
            "optimizers": [place._asdict() if place else None for place in self.optimizers],
            "threads_where": self.threads_where._asdict() if self.threads_where else None,
            "applied": self.applied,
            "written": self._effects.written,
            "network": self._effects.network,
        }


def _is_channels_last(torch: Any, parameters: List[Any]) -> bool:
    """Whether the weights of convolutions are in NHWC. Those of 1 × 1, or of one channel, are in both layouts at once, and say nothing."""
    weights = [
        each for each in parameters if each.dim() == 4 and each.shape[1] > 1 and each.shape[2] * each.shape[3] > 1
    ]
    return bool(weights) and all(each.is_contiguous(memory_format=torch.channels_last) for each in weights)


def _computes_bf16(torch: Any, kind: str) -> bool:
    """Whether bfloat16 is computed by the hardware, rather than emulated."""
    if kind == "cuda":
        return bool(torch.cuda.get_device_capability() >= (8, 0))
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return False
    return sys.platform == "linux" and ("avx512_bf16" in flags or "amx_bf16" in flags)
