"""What CuPy says of itself and of the cards that its runtime sees."""

import importlib
from typing import Any, Dict, Iterable, List

from ownlab_guest.probe.framework_report import Facts, cuda_version, examine, known, nccl_version, unknown, words


def answer(arguments: List[str]) -> Facts:
    """A record of CuPy."""
    return examine("cupy", arguments, read)


def read(cupy: Any, facts: Facts) -> Iterable[str]:
    """Fill in what CuPy was built with and what it sees; return what it complains of."""
    runtime = cupy.cuda.runtime
    build = "rocm" if runtime.is_hip else "cuda"
    facts["build"] = known(build, "cupy.cuda.runtime.is_hip")
    facts["cuda"] = unknown("a rocm build of CuPy")
    if build == "cuda":
        facts["cuda"] = known(
            cuda_version(cupy.cuda.driver.get_build_version()), "cupy.cuda.driver.get_build_version()"
        )
    facts["rocm"] = unknown("CuPy does not tell it plainly" if build == "rocm" else "a cuda build of CuPy")
    facts["cudnn"] = unknown("CuPy does not use it")
    facts["arch_list"] = unknown("CuPy compiles for the card that it finds")
    facts["nccl"] = _nccl()
    try:
        count = runtime.getDeviceCount()
    except Exception as exc:
        facts["devices"] = known([], "cupy.cuda.runtime.getDeviceCount()")
        return [words(exc)]
    facts["devices"] = known([_device(runtime, index, build) for index in range(count)], "cupy.cuda.runtime")
    return []


def _nccl() -> Facts:
    try:
        nccl = importlib.import_module("cupy.cuda.nccl")
        return known(nccl_version(nccl.get_version()), "cupy.cuda.nccl.get_version()")
    except Exception as exc:  # an optional library: its absence matters with several cards alone
        return unknown(words(exc))


def _device(runtime: Any, index: int, build: str) -> Dict[str, Any]:
    properties = runtime.getDeviceProperties(index)
    entry = {
        "name": properties["name"].decode(errors="replace"),
        "kind": build,
        "memory_total": int(properties["totalGlobalMem"]),
    }
    if build == "cuda":
        entry["compute_capability"] = f"{properties['major']}.{properties['minor']}"
    return entry
