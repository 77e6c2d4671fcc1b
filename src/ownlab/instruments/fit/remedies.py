"""What makes a model need less memory: what to write, what it saves, what it costs, and how `ownlab fit` tries it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from ownlab.instruments.fit.guest_client import NotTraced
from ownlab.instruments.fit.records import Fit, RemedyTrial, Request

__all__ = ["REMEDIES", "Remedy", "remedy_named", "remedy_requests", "try_remedies"]


class Remedy(Struct, frozen=True):
    """One measure. What it saves on a model of yours, `fit` can say; the words here hold for most."""

    code: str
    title: str
    how: str
    saves: str
    costs: str
    option: str = ""  # of `ownlab fit`, to try it; empty: it is a change of the model itself


# In the order in which they are worth trying where nothing more is known: least effort and least loss first.
REMEDIES = (
    Remedy(
        "mixed-precision",
        "Mixed precision",
        'with torch.autocast(device.type, torch.bfloat16): around forward and loss',
        "up to half of the activations, no weights",
        "nothing in time on cards since Ampere; fp16 with a GradScaler on older ones",
        "--precision amp-bf16",
    ),
    Remedy(
        "smaller-batch",
        "A smaller batch, with gradients accumulated",
        "a quarter of the batch, loss / 4, optimizer.step() after every fourth",
        "activations in proportion; weights, gradients and optimizer state stay",
        "speed where the smaller batch no longer fills the card; batch norm sees fewer samples at a time",
        "--batch N --accumulate 4",
    ),
    Remedy(
        "shorter",
        "Shorter sequences or smaller images",
        "cut, pack or sort by length; smaller crops",
        "activations in proportion, and attention's square where it is stored",
        "what the model can see at once",
        "--seq N",
    ),
    Remedy(
        "checkpointing",
        "Gradient checkpointing",
        "model.gradient_checkpointing_enable(), or torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
        "most of the activations inside the blocks",
        "about a third more time: the forward pass is computed twice",
        "--checkpointing",
    ),
    Remedy(
        "fused-attention",
        "Attention that never stores its square",
        "torch.nn.functional.scaled_dot_product_attention in place of softmax(q @ k.T) @ v",
        "batch × heads × length² elements for each layer",
        "nothing: it is faster too",
    ),
    Remedy(
        "pieces",
        "The large tensor in pieces",
        "compute, and free, a slice at a time: a loop over rows, tiles of an image, chunks of the logits",
        "all but one piece of it",
        "a few more kernel launches",
    ),
    Remedy(
        "eight-bit-optimizer",
        "Adam with 8-bit states",
        "bitsandbytes.optim.AdamW8bit(model.parameters(), lr) in place of torch.optim.AdamW",
        "6 of Adam's 8 bytes for each trained parameter (computed by its rules, not measured)",
        "one more library, which needs a card; what is learned is much the same",
        "--optimizer adamw-8bit",
    ),
    Remedy(
        "small-optimizer",
        "An optimizer with less state",
        "Adafactor, or SGD",
        "up to 8 bytes for each trained parameter, of Adam's 8",
        "now and then a new learning rate",
        "--optimizer adafactor",
    ),
    Remedy(
        "freezing",
        "Training fewer parameters",
        "requires_grad_(False) for what need not learn, or LoRA",
        "gradients and optimizer state of what is frozen: 12 bytes a parameter with Adam in fp32",
        "what the frozen part could have learned",
    ),
    Remedy(
        "smaller-weights",
        "Weights in fewer bytes",
        "model.to(torch.bfloat16); for inference 8-bit or 4-bit weights",
        "half of the weights, three quarters or seven eighths",
        "some accuracy; training in pure bf16 needs care",
        "--precision bf16",
    ),
    Remedy(
        "inference-mode",
        "No graph where nothing is learned",
        "with torch.inference_mode(): around evaluation and generation",
        "every activation that a backward pass would need",
        "nothing",
        "--infer",
    ),
    Remedy(
        "more-cards",
        "Several cards, or the computer's memory",
        "torch.distributed.fsdp.fully_shard, or device_map and offloading",
        "weights, gradients and optimizer state, divided by the number of cards",
        "transfers between cards; over PCIe to the computer's memory they set the pace",
    ),
)  # fmt: skip

_BY_CODE = {remedy.code: remedy for remedy in REMEDIES}


def remedy_named(code: str) -> Remedy:
    """The remedy with this code."""
    return _BY_CODE[code]


_NOTES = {"eight-bit-optimizer": "computed by bitsandbytes' rules, not run"}


def try_remedies(fit: Fit, predicted: Callable[[Request], Fit]) -> tuple[RemedyTrial, ...]:
    """All that apply to this step, what saves most first; those that this model cannot do come last, with the reason."""
    prices = [_price(fit, code, option, request, predicted) for code, option, request in remedy_requests(fit.request)]
    return tuple(sorted(prices, key=lambda price: (price.device_bytes is None, -(price.saved_bytes or 0))))


def remedy_requests(request: Request) -> Iterator[tuple[str, str, Request]]:
    """A remedy's code, the options that try it, and the step that they ask for."""
    if request.precision in ("fp32", "tf32"):
        yield "mixed-precision", "--precision amp-bf16", replace(request, precision="amp-bf16")
    if request.batch is not None and request.batch >= 4 and request.train:
        part, times = request.batch // 4, request.accumulate * 4
        yield "smaller-batch", f"--batch {part} --accumulate {times}", replace(request, batch=part, accumulate=times)
    if request.seq is not None and request.seq >= 2:
        yield "shorter", f"--seq {request.seq // 2}", replace(request, seq=request.seq // 2)
    if request.train and not request.checkpointing:
        yield "checkpointing", "--checkpointing", replace(request, checkpointing=True)
    if request.train and request.optimizer in ("adam", "adamw"):
        small = replace(request, optimizer="adamw-8bit", fused=False, foreach=None)
        yield "eight-bit-optimizer", "--optimizer adamw-8bit", small
        yield (
            "small-optimizer",
            "--optimizer adafactor",
            replace(request, optimizer="adafactor", fused=False, foreach=None),
        )
    if request.precision not in ("bf16", "fp16"):
        yield "smaller-weights", "--precision bf16", replace(request, precision="bf16")


def _price(fit: Fit, code: str, option: str, request: Request, predicted: Callable[[Request], Fit]) -> RemedyTrial:
    title = remedy_named(code).title
    try:
        found = predicted(request)
    except NotTraced as exc:
        return RemedyTrial(code, title, option, refused=exc.message)
    return RemedyTrial(
        code,
        title,
        option,
        device_bytes=found.band.device_high_bytes,
        saved_bytes=fit.band.device_high_bytes - found.band.device_high_bytes,
        arithmetic=found.flops.total / max(1, fit.flops.total),
        note=_NOTES.get(code, ""),
        fits=tuple(card.name for card in fit.cards if card.memory_bytes >= found.band.device_high_bytes),
    )
