"""What a step takes on each of several cards, computed from its prediction on one: DDP, ZeRO and FSDP.

Nothing of this is measured. Sizes follow what the libraries document and do: DistributedDataParallel copies gradients into
buckets, so that they exist twice; ZeRO 1 divides the states of the optimizer, ZeRO 2 the gradients, too, ZeRO 3 and FSDP also the
parameters, of which two units (the block that computes, and the next one) are gathered at a time. Activations are those of the
batch of one card.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import get_args

from ownlab.errors import UsageError
from ownlab.instruments.fit.records import Fit, Sharing, Strategy, Trace
from ownlab.text import text

__all__ = ["STRATEGIES", "share_step"]

STRATEGIES: tuple[str, ...] = get_args(Strategy)
_BLOCK = re.compile(r"^(.*?\.)?(\w+)\.\d+(?=\.|$)")
_GATHERED = 2  # units of parameters at a time: the one that computes, and the one that is fetched ahead


def share_step(fit: Fit, trace: Trace, strategy: Strategy, world: int) -> Sharing:
    """Compute the step for `world` cards. The batch of the prediction is that of each card."""
    if not fit.request.train and strategy not in ("zero3", "fsdp"):
        raise UsageError(
            text("{strategy} divides a training step.", strategy=strategy),
            hint=text("For inference use --strategy fsdp."),
        )
    weights, unit = _weight_bytes(trace)
    gradients = _gradient_bytes(fit, trace)
    parts, whole = fit.parts, strategy in ("zero3", "fsdp")
    optimizer = -(-parts.optimizer // (1 if strategy == "ddp" else world))
    kept = parts.gradients  # of what the peak has; buckets exist all the time
    if strategy in ("ddp", "zero1"):
        kept += gradients
    else:
        kept = -(-kept // world) + (min(unit, gradients) if gradients else 0)
    own = -(-parts.weights // world) if whole else parts.weights
    gathered = min(_GATHERED * unit, weights) if whole else 0
    rest = fit.band.device_high_bytes - parts.weights - parts.gradients - parts.optimizer
    device = own + kept + optimizer + gathered + rest
    return Sharing(
        strategy=strategy,
        world=world,
        device_bytes=device,
        weights=own,
        gradients=kept,
        optimizer=optimizer,
        gathered=gathered,
        rest=rest,
        fits=tuple(card.name for card in fit.cards if device <= card.memory_bytes),
        note=text("computed from the prediction for one card, not measured; buffers of NCCL are not included"),
    )


def _weight_bytes(trace: Trace) -> tuple[int, int]:
    """Return the bytes of all weights, and of the largest block: of a list of modules, else of the whole model."""
    total, blocks = 0, Counter[str]()
    for size, number in zip(trace.events.bytes, trace.events.tag, strict=True):
        tag = trace.tags[number]
        if size < 0 or tag.kind != "weights":
            continue
        total += size
        match = _BLOCK.match(tag.module)
        blocks[match[0] if match else ""] += size
    return total, max(blocks.values(), default=0)


def _gradient_bytes(fit: Fit, trace: Trace) -> int:
    """Return the bytes of all gradients: one for each trainable parameter, as large as the weights are."""
    if not fit.request.train or not trace.parameters.total:
        return 0
    adapted = trace.parameters.trainable != trace.parameters.total  # adapters are trained in float32
    each = 2 if fit.request.precision in ("bf16", "fp16") and not adapted else 4
    return trace.parameters.trainable * each
