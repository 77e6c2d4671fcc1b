"""Steps of training, and inference, of two models that everybody knows. Their data lies on the device: no loader is timed."""

import contextlib
from typing import Any, Callable, ContextManager, Tuple

from ownlab_guest.bench.device import Place
from ownlab_guest.bench.timing import Outcome, percentiles, thinned
from ownlab_guest.bench.torch_operations import TYPES

SIDE = 224


def train_resnet50(place: Place, seconds: float, dtype: str, batch: int) -> Outcome:
    """SGD with momentum; autocast where the type is short; channels last."""
    from ownlab_guest.bench import models

    torch = place.torch
    place.need(batch * (200 << 20) + (1 << 30))
    model = _built(place, models.resnet50).to(memory_format=torch.channels_last)
    images = _images(place, batch, torch.float32)
    labels = torch.randint(0, 1000, (batch,), device=place.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    step = _step(place, dtype, optimizer, lambda: torch.nn.functional.cross_entropy(model(images), labels))
    return place.time(step, seconds, float(batch), flops=models.resnet50_training_flops(batch))


def train_gpt2(place: Place, seconds: float, dtype: str, batch: int, length: int) -> Outcome:
    """AdamW, as one kernel on a card; autocast where the type is short."""
    from ownlab_guest.bench import models

    torch = place.torch
    place.need(batch * length * (2 << 20) + (5 << 29))  # 16 bytes a parameter, and what is on the way
    model = _built(place, models.GPT2)
    tokens = torch.randint(0, models.VOCABULARY, (batch, length + 1), device=place.device)
    fused = {"fused": True} if place.on_card and _is_two(torch) else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **fused)

    def loss() -> Any:
        said = model(tokens[:, :-1])
        return torch.nn.functional.cross_entropy(said.flatten(0, 1), tokens[:, 1:].flatten())

    step = _step(place, dtype, optimizer, loss)
    return place.time(step, seconds, float(batch * length), flops=3 * models.gpt2_forward_flops(batch, length))


def infer_resnet50(place: Place, seconds: float, dtype: str, batch: int) -> Outcome:
    """Each batch waited for, as a service sees it."""
    from ownlab_guest.bench import models

    torch = place.torch
    place.need(batch * (100 << 20) + (1 << 29))
    _choose_kernels(place, dtype)
    kind = getattr(torch, TYPES[dtype])
    model = _built(place, models.resnet50).eval().to(dtype=kind, memory_format=torch.channels_last)
    images = _images(place, batch, kind)
    return _inferred(place, seconds, model, images, batch, batch * models.RESNET_FORWARD_FLOPS)


def infer_gpt2(place: Place, seconds: float, dtype: str, batch: int, length: int) -> Outcome:
    """All tokens of a text at once (the reading of a prompt, not the writing of an answer)."""
    from ownlab_guest.bench import models

    torch = place.torch
    place.need(batch * length * (1 << 20) + (1 << 30))
    _choose_kernels(place, dtype)
    model = _built(place, models.GPT2).eval().to(dtype=getattr(torch, TYPES[dtype]))
    tokens = torch.randint(0, models.VOCABULARY, (batch, length), device=place.device)
    return _inferred(place, seconds, model, tokens, batch * length, models.gpt2_forward_flops(batch, length))


def _built(place: Place, make: Callable[[], Any]) -> Any:
    """On the device from the first: a card draws its weights in no time, a CPU in seconds."""
    torch = place.torch
    if not _is_two(torch):
        return make().to(place.device)
    with torch.device(place.device):
        return make()


def _is_two(torch: Any) -> bool:
    """Whether it is torch 2.0 or later."""
    return hasattr(torch, "set_default_device")


def _inferred(place: Place, seconds: float, model: Any, given: Any, work: int, flops: float) -> Outcome:
    def step(number: int) -> None:
        # Not inference_mode around all of it: the clocks' own tensors would be of its kind.
        with place.torch.no_grad():
            model(given)

    taken, before, after = place.time_each(step, seconds)
    return Outcome(thinned(taken), float(work), percentiles(taken), float(flops), before, after)


def _step(place: Place, dtype: str, optimizer: Any, loss: Callable[[], Any]) -> Callable[[int], None]:
    """Forward, backward, update; gradients of fp16 are scaled, as everybody must."""
    _choose_kernels(place, dtype)
    torch = place.torch
    scaler = _scaler(torch) if dtype == "fp16" and place.on_card else None

    def step(number: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        with _autocast(place, dtype):
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
    """Of fp16's gradients. It begins low, so that no step is left out while it looks for the greatest that does."""
    if hasattr(torch.amp, "GradScaler"):  # since torch 2.3
        return torch.amp.GradScaler("cuda", init_scale=128.0)
    return torch.cuda.amp.GradScaler(init_scale=128.0)


def _autocast(place: Place, dtype: str) -> ContextManager[Any]:
    if dtype not in ("bf16", "fp16"):
        return contextlib.nullcontext()
    torch = place.torch
    context: ContextManager[Any] = torch.autocast(place.device.partition(":")[0], getattr(torch, TYPES[dtype]))
    return context


def _choose_kernels(place: Place, dtype: str) -> None:
    """cuDNN's own choice, as it is unless somebody asks for trials: on an H200 these took 17 s for ResNet-50, and won nothing."""
    torch = place.torch
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"


def _images(place: Place, batch: int, kind: Any) -> Any:
    torch = place.torch
    images = torch.randn(batch, 3, SIDE, SIDE, device=place.device)
    return images.to(kind).contiguous(memory_format=torch.channels_last)


def convolution(place: Place, seconds: float, dtype: str, batch: int, channels: int, side: int, train: bool) -> Outcome:
    """3×3, channels last; with its gradients for input and weights, or without."""
    torch = place.torch
    _choose_kernels(place, dtype)
    kind = getattr(torch, TYPES[dtype])
    shape = (batch, channels, side, side)
    given = torch.randn(*shape, device=place.device).to(kind).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(channels, channels, 3, 3, device=place.device).mul_(0.02).to(kind)
    weight = weight.contiguous(memory_format=torch.channels_last)
    work = 2.0 * batch * channels * channels * side * side * 9
    return _layer(
        place, seconds, lambda x, w: torch.nn.functional.conv2d(x, w, padding=1), (given, weight), work, train
    )


def attention(place: Place, seconds: float, dtype: str, batch: int, heads: int, length: int, train: bool) -> Outcome:
    """Every token sees every other; 64 numbers a head. What a kernel computes twice to save memory counts once."""
    torch = place.torch
    _choose_kernels(place, dtype)
    kind = getattr(torch, TYPES[dtype])
    given = tuple(torch.randn(batch, heads, length, 64, device=place.device).to(kind) for _ in range(3))
    work = 4.0 * batch * heads * length * length * 64
    return _layer(place, seconds, torch.nn.functional.scaled_dot_product_attention, given, work, train)


def _layer(
    place: Place, seconds: float, layer: Callable[..., Any], given: Tuple[Any, ...], work: float, train: bool
) -> Outcome:
    torch = place.torch
    if not train:
        return place.time(lambda number: layer(*given), seconds, work)
    for one in given:
        one.requires_grad_()
    gradient = torch.randn_like(layer(*given).detach())

    def step(number: int) -> None:
        torch.autograd.grad(layer(*given), given, gradient)

    return place.time(step, seconds, 3 * work)
