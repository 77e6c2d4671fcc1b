"""What the groups of tests are called, and what their figures mean."""

from __future__ import annotations

from ownlab.text import text

__all__ = ["GROUP_MEANINGS", "GROUP_TITLES", "WORKLOADS"]

GROUP_TITLES = {
    "products": text("Matrix products"),
    "memory": text("Device memory"),
    "copies": text("Copies between host and device"),
    "launch": text("Kernel launches"),
    "layers": text("Layers"),
    "training": text("Training steps"),
    "inference": text("Inference"),
    "frameworks": text("The same product in other frameworks"),
    "cpu": text("CPU and its memory"),
    "disk": text("Disk"),
    "loader": text("Data loading"),
}
# For readers who see such results for the first time.
GROUP_MEANINGS = {
    "products": text(
        "How fast the device multiplies matrices, which is most of the work in training. FLOP/s are additions and "
        "multiplications per second. The names contain the type of the numbers, and the number of rows and columns."
    ),
    "memory": text(
        "How fast the device reads and writes its own memory. This limits text generation, and layers that compute little."
    ),
    "copies": text(
        "How fast data moves to the card and back. Pinned memory avoids a copy by the driver (pin_memory=True of a loader)."
    ),
    "launch": text(
        "How long it takes to start work on the card, which limits small models and batches. Less is better."
    ),
    "layers": text("Two layers that networks consist of, each measured separately."),
    "training": text("Whole steps (forward, backward, update) of known networks. Their data is already on the device."),
    "inference": text(
        "One batch after the other, waiting for each. p90 and p99: 90 % and 99 % of the batches took no longer."
    ),
    "frameworks": text("The product of the first group in other libraries."),
    "cpu": text("Matrix products on the processor, and copies within its memory."),
    "disk": text(
        "Without the cache of the system: a large file in order, and random blocks of 4 KiB, one (x1) or 16 at a time."
    ),
    "loader": text("How many photos per second are decoded and scaled. A card that trains faster waits for its data."),
}
WORKLOADS = {
    "vision": text("training vision"),
    "transformer": text("training transformers"),
    "recurrent": text("training recurrent nets"),
    "decoding": text("generating text"),
}
