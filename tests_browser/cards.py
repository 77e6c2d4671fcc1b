"""Four H200 that are not there, each at other work: what one real one did, recorded, stands in for each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests_browser.lab import ROOT

__all__ = ["WORK", "four_h200"]

# Card 0 to 3, by the name of what was recorded.
WORK = ("tiny", "bf16", "starved", "idle")


def four_h200(folder: Path) -> dict[str, str]:
    """The variables of a lab that has them."""
    machine: dict[str, Any] = json.loads((ROOT / "tests" / "machines" / "h200.json").read_text(encoding="utf-8"))
    [card] = machine["cards"]["value"]
    uuids = [f"GPU-{index}{card['uuid']['value'][5:]}" for index in range(len(WORK))]
    machine["cards"]["value"] = [
        {**card, "index": index, "uuid": {**card["uuid"], "value": uuid}} for index, uuid in enumerate(uuids)
    ]
    (folder / "four-h200.json").write_text(json.dumps(machine), encoding="utf-8")
    streams = [_read(name) for name in WORK]
    lines = [_joined(samples, uuids) for samples in zip(*streams, strict=False)]
    (folder / "four-h200.ndjson").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return {"OWNLAB_MACHINE": str(folder / "four-h200.json"), "OWNLAB_STREAM": str(folder / "four-h200.ndjson")}


def _read(name: str) -> list[dict[str, Any]]:
    path = ROOT / "tests" / "streams" / f"h200-{name}.ndjson"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _joined(samples: tuple[dict[str, Any], ...], uuids: list[str]) -> dict[str, Any]:
    """One sample of one card each, as one sample of all."""
    cards = [
        {**sample["cards"][0], "index": index, "uuid": uuids[index], "processes": []}
        for index, sample in enumerate(samples)
    ]
    return {**samples[0], "cards": cards}
