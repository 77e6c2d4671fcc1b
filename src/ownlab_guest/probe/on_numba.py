"""What numba.cuda says of itself and of the cards that it sees."""

import importlib
from typing import Any, Dict, Iterable, List

from ownlab_guest.probe.framework_report import Facts, examine, known, unknown, words


def answer(arguments: List[str]) -> Facts:
    """A record of numba."""
    return examine("numba", arguments, read)


def read(numba: Any, facts: Facts) -> Iterable[str]:
    """Fill in what numba.cuda finds; return what it complains of."""
    for name in ("rocm", "cudnn", "nccl"):
        facts[name] = unknown("numba.cuda does not use it")
    facts["arch_list"] = unknown("numba compiles for the card that it finds")
    facts["devices"] = known([], "numba.cuda.gpus")
    if numba.config.ENABLE_CUDASIM:
        facts["build"] = known("cpu", "NUMBA_ENABLE_CUDASIM")
        return ["NUMBA_ENABLE_CUDASIM is set: numba.cuda only simulates a card"]
    try:
        cuda = importlib.import_module("numba.cuda")
    except Exception as exc:  # it is a package of its own since numba 0.61: numba-cuda
        facts["build"] = known("cpu", "import numba.cuda")
        return [words(exc)]
    facts["build"] = known("cuda", "import numba.cuda")
    try:
        facts["cuda"] = known("{}.{}".format(*cuda.runtime.get_version()), "numba.cuda.runtime.get_version()")
    except Exception as exc:  # the CUDA runtime is not found; what that prevents, the devices say
        facts["cuda"] = unknown(words(exc))
    try:
        facts["devices"] = known([_device(device) for device in cuda.gpus], "numba.cuda.gpus")
    except Exception as exc:
        return [words(exc)]
    return []


def _device(device: Any) -> Dict[str, Any]:
    name = device.name.decode(errors="replace") if isinstance(device.name, bytes) else device.name
    return {"name": name, "kind": "cuda", "compute_capability": "{}.{}".format(*device.compute_capability)}
