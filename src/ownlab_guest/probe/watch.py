"""How full and how busy each NVIDIA card is, again and again: one JSON line for each line on stdin, until that closes.

Starting NVML costs hundreds of milliseconds, asking it a few: so one child serves a whole lab. Started as
`launch.py probe.watch FD`; the answers go to the descriptor FD.
"""

import json
import os
import signal
import sys
from typing import Any, Dict, List, Optional

from ownlab_guest.probe.nvml import attempt, memory, mig_handles, processes, start, text, words

JSON = Dict[str, Any]

# A driver that hangs keeps us in its own code, where no Python runs: SIGALRM ends us even there.
ANSWER_SECONDS = 30


def answer(arguments: List[str]) -> JSON:
    """Answer until stdin closes; then there is nothing left to say."""
    with os.fdopen(int(arguments[0]), "w") as out:
        signal.alarm(ANSWER_SECONDS)
        nvml, failure = start()
        signal.alarm(0)
        for _ in sys.stdin:
            signal.alarm(ANSWER_SECONDS)
            out.write(json.dumps(read(nvml) if failure is None else {"error": failure["error"]}) + "\n")
            out.flush()
            signal.alarm(0)
    return {}


def read(nvml: Any) -> JSON:
    count, error = attempt(nvml.nvmlDeviceGetCount)
    if error is not None:
        return {"error": "NVML: " + words(nvml, error)}
    driver = text(attempt(nvml.nvmlSystemGetDriverVersion)[0] or "")
    found: List[Optional[JSON]] = []
    for index in range(count):
        handle, error = attempt(nvml.nvmlDeviceGetHandleByIndex, index)
        if error is not None:
            continue  # lost: whoever lists the cards says so
        slices = mig_handles(nvml, handle) if (attempt(nvml.nvmlDeviceGetMigMode, handle)[0] or [0])[0] else []
        found.extend(reading(nvml, each, driver) for each in [handle, *slices])
    return {"cards": [each for each in found if each is not None]}


def reading(nvml: Any, handle: Any, driver: str) -> Optional[JSON]:
    """One card, or one MIG instance, by its UUID; what NVML does not tell is null."""
    uuid, error = attempt(nvml.nvmlDeviceGetUUID, handle)
    if error is not None:
        return None
    store, _ = attempt(memory, nvml, handle)
    rates, _ = attempt(nvml.nvmlDeviceGetUtilizationRates, handle)
    running, _ = attempt(processes, nvml, [handle], driver)
    return {
        "uuid": text(uuid),
        "memory_used": None if store is None else store.used,
        "utilisation": None if rates is None else rates.gpu,
        "processes": None if running is None else {each["pid"]: each["memory"].get("value") for each in running},
    }
