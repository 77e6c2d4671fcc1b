"""Measures what CUDA and its libraries take on this card besides tensors: `launch.py fit.calibrate products|convolutions`.

Each part runs in its own process, because loaded kernels stay: the order of the stages is the measurement.
"""

import gc
from typing import Any, Callable, Dict, List, Tuple

from ownlab_guest.fit.errors import FitError
from ownlab_guest.text import listing, text

SIDE = 512
PARTS = ("products", "convolutions")


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Return what the process holds after each stage, minus what torch reserved."""
    try:
        try:
            import torch
        except ImportError as exc:
            raise FitError("no-torch", text("This Python has no torch: {reason}", reason=exc)) from exc
        from ownlab_guest.fit import device as on_device

        device = on_device.choose_device("cuda:0")
        torch.zeros(1, device=device)
        measured = measure_stages(
            arguments[0], device, lambda: _context_bytes(device), lambda: _allocated_bytes(device)
        )
        return {
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "device": on_device.describe_device(device),
            "stages": measured,
        }
    except FitError as exc:
        return exc.answer()


def measure_stages(
    part: str, device: str, read_context: Callable[[], int], read_allocated: Callable[[], int]
) -> List[Dict[str, Any]]:
    """Measure stage by stage: the context, and what libraries keep of torch's memory."""
    measured = []
    for name, run in stages(part, device):
        run()
        run()
        gc.collect()
        measured.append({"name": name, "context_bytes": read_context(), "kept_bytes": read_allocated()})
    return measured


def stages(part: str, device: str) -> List[Tuple[str, Callable[[], None]]]:
    """Return the stages in the order in which they run."""
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
    raise FitError(
        "bad-request",
        text("Unknown part {part}; known are {parts}", part=part, parts=listing(PARTS, "{items}, {last}")),
    )


def _context_bytes(device: str) -> int:
    import torch

    from ownlab_guest.fit import device as on_device

    torch.cuda.synchronize(device)
    used, reason = on_device.process_bytes()
    if used is None:
        raise FitError("no-nvml", text("The memory of this process on the card is unknown: {reason}", reason=reason))
    return used - int(torch.cuda.memory_reserved(device))


def _allocated_bytes(device: str) -> int:
    import torch

    return int(torch.cuda.memory_allocated(device))
