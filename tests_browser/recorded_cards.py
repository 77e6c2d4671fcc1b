"""A machine with four H200 cards, each with another recorded workload of one real card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests_browser.lab import ROOT

__all__ = ["WORKLOADS", "four_h200"]

# The recorded workloads of cards 0 to 3.
WORKLOADS = ("tiny", "bf16", "starved", "idle")


def four_h200(folder: Path) -> dict[str, str]:
    """Write the machine and its stream, and return the environment variables of a lab that uses them."""
    machine: dict[str, Any] = json.loads((ROOT / "tests" / "machines" / "h200.json").read_text(encoding="utf-8"))
    [card] = machine["cards"]["value"]
    uuids = [f"GPU-{index}{card['uuid']['value'][5:]}" for index in range(len(WORKLOADS))]
    machine["cards"]["value"] = [
        {**card, "index": index, "uuid": {**card["uuid"], "value": uuid}} for index, uuid in enumerate(uuids)
    ]
    (folder / "four-h200.json").write_text(json.dumps(machine), encoding="utf-8")
    streams = [_read(name) for name in WORKLOADS]
    lines = [_merged(samples, uuids) for samples in zip(*streams, strict=False)]
    (folder / "four-h200.ndjson").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return {"OWNLAB_MACHINE": str(folder / "four-h200.json"), "OWNLAB_STREAM": str(folder / "four-h200.ndjson")}


def _read(name: str) -> list[dict[str, Any]]:
    path = ROOT / "tests" / "streams" / f"h200-{name}.ndjson"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _merged(samples: tuple[dict[str, Any], ...], uuids: list[str]) -> dict[str, Any]:
    """Merge samples of one card each into one sample of all cards."""
    cards = [
        {**sample["cards"][0], "index": index, "uuid": uuids[index], "processes": []}
        for index, sample in enumerate(samples)
    ]
    return {**samples[0], "cards": cards}
