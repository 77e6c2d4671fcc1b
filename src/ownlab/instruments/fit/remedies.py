"""Remedies that reduce the memory of a model: code, savings and costs of each, and trials on the user's own model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ownlab.instruments.fit.card_specs import load_cards
from ownlab.instruments.fit.guest_client import NotTraced
from ownlab.instruments.fit.records import Fit, RemedyTrial, Request
from ownlab.text import text

__all__ = ["REMEDIES", "Remedy", "name_in_sentence", "remedy_named", "remedy_requests", "try_remedies"]

# Which of the cards in question have units for bf16.
Bf16: TypeAlias = Literal["all", "some", "none"]


class Remedy(Struct, frozen=True):
    """One remedy. The texts hold for most models; a trial (`--remedies`) measures what it saves on one."""

    code: str
    title: str
    how: str
    saves: str
    costs: str
    option: str = ""  # option of `ownlab fit` that tries it; empty: it is a change of the model itself


# In the order in which to try them if nothing more is known: least effort and least loss first.
REMEDIES = (
    Remedy(
        "mixed-precision",
        text("Mixed precision"),
        text("with torch.autocast(device.type, torch.bfloat16): around forward and loss"),
        text("up to half of the activations, no weights"),
        text("no time on cards since Ampere; older cards need fp16 with a GradScaler"),
        "--precision amp-bf16",
    ),
    Remedy(
        "smaller-batch",
        text("A smaller batch with gradient accumulation"),
        text("a quarter of the batch, loss / 4, optimizer.step() after every fourth batch"),
        text("activations in proportion; weights, gradients and optimizer state stay"),
        text("speed if the smaller batch no longer fills the card; batch norm sees fewer samples at a time"),
        "--batch N --accumulate 4",
    ),
    Remedy(
        "shorter",
        text("Shorter sequences or smaller images"),
        text("cut, pack or sort by length; use smaller crops"),
        text("activations in proportion, and the square matrix of attention where it is stored"),
        text("context: the model sees less at once"),
        "--seq N",
    ),
    Remedy(
        "checkpointing",
        text("Gradient checkpointing"),
        text(
            "model.gradient_checkpointing_enable(), or torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"
        ),
        text("most of the activations inside the blocks"),
        text("about a third more time: the forward pass is computed twice"),
        "--checkpointing",
    ),
    Remedy(
        "fused-attention",
        text("Attention that never stores its square matrix"),
        text("torch.nn.functional.scaled_dot_product_attention instead of softmax(q @ k.T) @ v"),
        text("batch × heads × length² elements per layer"),
        text("nothing: it is also faster"),
    ),
    Remedy(
        "pieces",
        text("The large tensor in pieces"),
        text("compute and free one slice at a time: a loop over rows, tiles of an image, chunks of the logits"),
        text("all but one piece of it"),
        text("a few more kernel launches"),
    ),
    Remedy(
        "eight-bit-optimizer",
        text("Adam with 8-bit states"),
        text("bitsandbytes.optim.AdamW8bit(model.parameters(), lr) instead of torch.optim.AdamW"),
        text("6 of Adam's 8 bytes per trained parameter (computed from its rules, not measured)"),
        text("one more library, which needs a card; training results are much the same"),
        "--optimizer adamw-8bit",
    ),
    Remedy(
        "small-optimizer",
        text("An optimizer with less state"),
        text("Adafactor, or SGD"),
        text("up to 8 bytes per trained parameter, of Adam's 8"),
        text("sometimes a new learning rate"),
        "--optimizer adafactor",
    ),
    Remedy(
        "freezing",
        text("Training fewer parameters"),
        text("requires_grad_(False) for frozen parameters, or LoRA"),
        text("gradients and optimizer state of frozen parameters: 12 bytes each with Adam in fp32"),
        text("what the frozen part could have learned"),
    ),
    Remedy(
        "smaller-weights",
        text("Weights in fewer bytes"),
        text("model.to(torch.bfloat16); for inference 8-bit or 4-bit weights"),
        text("half of the weights, three quarters or seven eighths"),
        text("some accuracy; training in pure bf16 needs care"),
        "--precision bf16",
    ),
    Remedy(
        "inference-mode",
        text("No autograd graph for evaluation"),
        text("with torch.inference_mode(): around evaluation and generation"),
        text("every activation that a backward pass would need"),
        text("nothing"),
        "--infer",
    ),
    Remedy(
        "more-cards",
        text("Several cards, or the computer's memory"),
        text("torch.distributed.fsdp.fully_shard, or device_map and offloading"),
        text("weights, gradients and optimizer state, divided by the number of cards"),
        text("transfers between cards; offloading is limited by the speed of PCIe"),
    ),
)

_BY_CODE = {remedy.code: remedy for remedy in REMEDIES}


def remedy_named(code: str) -> Remedy:
    """Return the remedy with this code."""
    return _BY_CODE[code]


# The titles as they stand within a sentence.
_NAMES = {
    "mixed-precision": text("mixed precision"),
    "smaller-batch": text("a smaller batch with gradient accumulation"),
    "shorter": text("shorter sequences or smaller images"),
    "checkpointing": text("gradient checkpointing"),
    "fused-attention": text("attention that never stores its square matrix"),
    "pieces": text("the large tensor in pieces"),
    "eight-bit-optimizer": text("Adam with 8-bit states"),
    "small-optimizer": text("an optimizer with less state"),
    "freezing": text("training fewer parameters"),
    "smaller-weights": text("weights in fewer bytes"),
    "inference-mode": text("no autograd graph for evaluation"),
    "more-cards": text("several cards, or the computer's memory"),
}


def name_in_sentence(remedy: Remedy) -> str:
    """Return the remedy's title as it stands within a sentence."""
    return _NAMES[remedy.code]


_NOTES = {"eight-bit-optimizer": text("It is computed from the rules of bitsandbytes, and was not run.")}


def try_remedies(fit: Fit, predict_step: Callable[[Request], Fit]) -> tuple[RemedyTrial, ...]:
    """Try all remedies that apply to this step, the best first; those that fail come last, with the reason."""
    names = {card.name for card in fit.cards}
    without = {card.name for card in load_cards() if card.name in names and "bf16_tflops" in card.lacking}
    bf16: Bf16 = "all" if not without else "none" if without == names else "some"
    requests = remedy_requests(fit.request, bf16)
    trials = [_try(fit, code, option, request, predict_step, without) for code, option, request in requests]
    return tuple(sorted(trials, key=lambda trial: (trial.device_bytes is None, -(trial.saved_bytes or 0))))


def remedy_requests(request: Request, bf16: Bf16 = "all") -> Iterator[tuple[str, str, Request]]:
    """Yield the code of each remedy, the options that try it, and the request for its step.

    `bf16`: which of the cards have units for it. Cards without get fp16 instead, which takes as much memory.
    """
    if request.precision in ("fp32", "tf32"):
        for precision in _halves(bf16):
            option = f"--precision amp-{precision}"
            yield "mixed-precision", option, replace(request, precision=f"amp-{precision}")
    if request.batch is not None and request.batch >= 4 and request.train:
        part, times = request.batch // 4, request.accumulate * 4
        yield "smaller-batch", f"--batch {part} --accumulate {times}", replace(request, batch=part, accumulate=times)
    if request.seq is not None and request.seq >= 2:
        yield "shorter", f"--seq {request.seq // 2}", replace(request, seq=request.seq // 2)
    if request.train and not request.checkpointing:
        yield "checkpointing", "--checkpointing", replace(request, checkpointing=True)
    if request.train and request.optimizer.partition(":")[0] in ("adam", "adamw"):
        small = replace(request, optimizer="adamw-8bit", fused=False, foreach=None)
        yield "eight-bit-optimizer", "--optimizer adamw-8bit", small
        yield (
            "small-optimizer",
            "--optimizer adafactor",
            replace(request, optimizer="adafactor", fused=False, foreach=None),
        )
    if request.precision not in ("bf16", "fp16"):
        for precision in _halves(bf16):
            # Training with weights in fp16 overflows: small gradients become zero.
            if precision == "bf16" or not request.train:
                yield "smaller-weights", f"--precision {precision}", replace(request, precision=precision)


def _halves(bf16: Bf16) -> tuple[str, ...]:
    return {"all": ("bf16",), "some": ("bf16", "fp16"), "none": ("fp16",)}[bf16]


def _try(
    fit: Fit, code: str, option: str, request: Request, predict_step: Callable[[Request], Fit], without_bf16: set[str]
) -> RemedyTrial:
    title = remedy_named(code).title
    try:
        prediction = predict_step(request)
    except NotTraced as exc:
        return RemedyTrial(code, title, option, refused=exc.message)
    unsuited = without_bf16 if "bf16" in request.precision else set()
    return RemedyTrial(
        code,
        title,
        option,
        device_bytes=prediction.band.device_high_bytes,
        saved_bytes=fit.band.device_high_bytes - prediction.band.device_high_bytes,
        arithmetic=prediction.flops.total / max(1, fit.flops.total),
        note=_NOTES.get(code, ""),
        fits=tuple(
            card.name
            for card in fit.cards
            if card.memory_bytes >= prediction.band.device_high_bytes and card.name not in unsuited
        ),
    )
