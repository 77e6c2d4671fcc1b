"""Training steps and inference of two well-known models, and single layers. Data is on the device: no loader is timed."""

import contextlib
from typing import Any, Callable, ContextManager, Tuple

from ownlab_guest.bench.device import Device
from ownlab_guest.bench.timing import Outcome, percentiles, reduce_values
from ownlab_guest.bench.torch_operations import TYPES

SIDE = 224


def train_resnet50(device: Device, seconds: float, dtype: str, batch: int) -> Outcome:
    """Train with SGD and momentum; autocast for 16-bit types; channels last."""
    from ownlab_guest.bench import models

    torch = device.torch
    device.require_memory(batch * (200 << 20) + (1 << 30))
    model = _build(device, models.resnet50).to(memory_format=torch.channels_last)
    images = _images(device, batch, torch.float32)
    labels = torch.randint(0, 1000, (batch,), device=device.name)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    step = _step(device, dtype, optimizer, lambda: torch.nn.functional.cross_entropy(model(images), labels))
    return device.time(step, seconds, float(batch), flops=models.resnet50_training_flops(batch))


def train_gpt2(device: Device, seconds: float, dtype: str, batch: int, length: int) -> Outcome:
    """Train with AdamW, fused on a card; autocast for 16-bit types."""
    from ownlab_guest.bench import models

    torch = device.torch
    device.require_memory(batch * length * (2 << 20) + (5 << 29))  # 16 bytes per parameter, and activations
    model = _build(device, models.GPT2)
    tokens = torch.randint(0, models.VOCABULARY, (batch, length + 1), device=device.name)
    fused = {"fused": True} if device.on_card and _is_torch_2(torch) else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **fused)

    def loss() -> Any:
        logits = model(tokens[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    step = _step(device, dtype, optimizer, loss)
    return device.time(step, seconds, float(batch * length), flops=3 * models.gpt2_forward_flops(batch, length))


def infer_resnet50(device: Device, seconds: float, dtype: str, batch: int) -> Outcome:
    """Wait for each batch, as a service does."""
    from ownlab_guest.bench import models

    torch = device.torch
    device.require_memory(batch * (100 << 20) + (1 << 29))
    _choose_kernels(device, dtype)
    kind = getattr(torch, TYPES[dtype])
    model = _build(device, models.resnet50).eval().to(dtype=kind, memory_format=torch.channels_last)
    images = _images(device, batch, kind)
    return _infer(device, seconds, model, images, batch, batch * models.RESNET_FORWARD_FLOPS)


def infer_gpt2(device: Device, seconds: float, dtype: str, batch: int, length: int) -> Outcome:
    """Process all tokens of a text at once (reading a prompt, not generating text)."""
    from ownlab_guest.bench import models

    torch = device.torch
    device.require_memory(batch * length * (1 << 20) + (1 << 30))
    _choose_kernels(device, dtype)
    model = _build(device, models.GPT2).eval().to(dtype=getattr(torch, TYPES[dtype]))
    tokens = torch.randint(0, models.VOCABULARY, (batch, length), device=device.name)
    return _infer(device, seconds, model, tokens, batch * length, models.gpt2_forward_flops(batch, length))


def _build(device: Device, make: Callable[[], Any]) -> Any:
    """Create the model on the device: a card generates weights at once, a CPU in seconds."""
    torch = device.torch
    if not _is_torch_2(torch):
        return make().to(device.name)
    with torch.device(device.name):
        return make()


def _is_torch_2(torch: Any) -> bool:
    """Whether it is torch 2.0 or later."""
    return hasattr(torch, "set_default_device")


def _infer(device: Device, seconds: float, model: Any, inputs: Any, work: int, flops: float) -> Outcome:
    def step(number: int) -> None:
        # Not inference_mode around everything: it would affect the tensors of the clock.
        with device.torch.no_grad():
            model(inputs)

    taken, before, after = device.time_each(step, seconds)
    return Outcome(reduce_values(taken), float(work), percentiles(taken), float(flops), before, after)


def _step(device: Device, dtype: str, optimizer: Any, loss: Callable[[], Any]) -> Callable[[int], None]:
    """Return a step: forward, backward, update; fp16 gradients are scaled."""
    _choose_kernels(device, dtype)
    torch = device.torch
    scaler = _scaler(torch) if dtype == "fp16" and device.on_card else None

    def step(number: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        with _autocast(device, dtype):
            value = loss()
        if scaler is None:
            value.backward()
            optimizer.step()
        else:
            scaler.scale(value).backward()
            scaler.step(optimizer)
            scaler.update()

    return step


def _scaler(torch: Any) -> Any:
    """Return the scaler for fp16 gradients. It starts low, so that no step is skipped while it adapts."""
    if hasattr(torch.amp, "GradScaler"):  # since torch 2.3
        return torch.amp.GradScaler("cuda", init_scale=128.0)
    return torch.cuda.amp.GradScaler(init_scale=128.0)


def _autocast(device: Device, dtype: str) -> ContextManager[Any]:
    if dtype not in ("bf16", "fp16"):
        return contextlib.nullcontext()
    torch = device.torch
    context: ContextManager[Any] = torch.autocast(device.name.partition(":")[0], getattr(torch, TYPES[dtype]))
    return context


def _choose_kernels(device: Device, dtype: str) -> None:
    """Use cuDNN's default choice: on an H200, benchmarking took 17 s for ResNet-50 and gained nothing."""
    torch = device.torch
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"


def _images(device: Device, batch: int, kind: Any) -> Any:
    torch = device.torch
    images = torch.randn(batch, 3, SIDE, SIDE, device=device.name)
    return images.to(kind).contiguous(memory_format=torch.channels_last)


def convolution(
    device: Device, seconds: float, dtype: str, batch: int, channels: int, side: int, train: bool
) -> Outcome:
    """Run a 3×3 convolution, channels last, with or without gradients for input and weights."""
    torch = device.torch
    _choose_kernels(device, dtype)
    kind = getattr(torch, TYPES[dtype])
    shape = (batch, channels, side, side)
    inputs = torch.randn(*shape, device=device.name).to(kind).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(channels, channels, 3, 3, device=device.name).mul_(0.02).to(kind)
    weight = weight.contiguous(memory_format=torch.channels_last)
    work = 2.0 * batch * channels * channels * side * side * 9
    return _layer(
        device, seconds, lambda x, w: torch.nn.functional.conv2d(x, w, padding=1), (inputs, weight), work, train
    )


def attention(device: Device, seconds: float, dtype: str, batch: int, heads: int, length: int, train: bool) -> Outcome:
    """Run full attention with 64 values per head. Recomputation that saves memory counts once."""
    torch = device.torch
    _choose_kernels(device, dtype)
    kind = getattr(torch, TYPES[dtype])
    inputs = tuple(torch.randn(batch, heads, length, 64, device=device.name).to(kind) for _ in range(3))
    work = 4.0 * batch * heads * length * length * 64
    return _layer(device, seconds, torch.nn.functional.scaled_dot_product_attention, inputs, work, train)


def _layer(
    device: Device, seconds: float, layer: Callable[..., Any], inputs: Tuple[Any, ...], work: float, train: bool
) -> Outcome:
    torch = device.torch
    if not train:
        return device.time(lambda number: layer(*inputs), seconds, work)
    for tensor in inputs:
        tensor.requires_grad_()
    gradient = torch.randn_like(layer(*inputs).detach())

    def step(number: int) -> None:
        torch.autograd.grad(layer(*inputs), inputs, gradient)

    return device.time(step, seconds, 3 * work)
