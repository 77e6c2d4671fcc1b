"""What CUDA and its libraries take on this card beside all tensors: `launch.py fit.calibrate products|convolutions`.

Each part in a process of its own, because kernels that were loaded stay: the order of the stages is the measurement.
"""

import gc
from typing import Any, Callable, Dict, List, Tuple

from ownlab_guest.fit.errors import Refused

SIDE = 512
PARTS = ("products", "convolutions")


def answer(arguments: List[str]) -> Dict[str, Any]:
    """What the process holds after each stage, less what torch reserved."""
    try:
        try:
            import torch
        except ImportError as exc:
            raise Refused("no-torch", f"this Python has no torch: {exc}") from exc
        from ownlab_guest.fit import device as on_device

        device = on_device.choose("cuda:0")
        torch.zeros(1, device=device)
        said = measured(arguments[0], device, lambda: _beside_tensors(device), lambda: _kept(device))
        return {
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "device": on_device.facts(device),
            "stages": said,
        }
    except Refused as exc:
        return exc.answer()


def measured(
    part: str, device: str, beside_tensors: Callable[[], int], kept: Callable[[], int]
) -> List[Dict[str, Any]]:
    """Stage by stage; the second figure is what libraries keep of torch's own memory."""
    said = []
    for name, run in stages(part, device):
        run()
        run()
        gc.collect()
        said.append({"name": name, "context_bytes": beside_tensors(), "kept_bytes": kept()})
    return said


def stages(part: str, device: str) -> List[Tuple[str, Callable[[], None]]]:
    """In the order in which they are run."""
    import torch
    from torch import nn

    def train(model: Any, inputs: Any) -> None:
        optimizer = torch.optim.AdamW(model.parameters())
        model(inputs).float().mean().backward()
        optimizer.step()

    def images() -> None:
        model = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)).to(device)
        train(model, torch.randn(4, 16, 32, 32, device=device))

    def forward() -> None:
        with torch.inference_mode():
            nn.Linear(SIDE, SIDE, bias=False, device=device)(torch.randn(SIDE, SIDE, device=device))

    def trained(dtype: Any) -> Callable[[], None]:
        def run() -> None:
            model = nn.Sequential(nn.Linear(SIDE, SIDE), nn.ReLU(), nn.Linear(SIDE, SIDE)).to(device, dtype)
            train(model, torch.randn(SIDE, SIDE, device=device, dtype=dtype))

        return run

    if part == "convolutions":
        return [("start", images)]
    if part == "products":
        return [
            ("matmul", forward),
            ("matmul_backward", trained(torch.float32)),
            ("more_kernels", trained(torch.bfloat16)),
        ]
    raise Refused("bad-request", f"no part is called {part}; there are {', '.join(PARTS)}")


def _beside_tensors(device: str) -> int:
    import torch

    from ownlab_guest.fit import device as on_device

    torch.cuda.synchronize(device)
    used, reason = on_device.process_bytes()
    if used is None:
        raise Refused("no-nvml", f"what this process holds on the card is not told: {reason}")
    return used - int(torch.cuda.memory_reserved(device))


def _kept(device: str) -> int:
    import torch

    return int(torch.cuda.memory_allocated(device))
