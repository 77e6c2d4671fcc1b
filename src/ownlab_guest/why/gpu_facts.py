"""What torch knows of a GPU, of the memory that it took, of its settings and of what it has compiled. Nothing here waits for the GPU."""

import sys
from typing import Any, Dict, List, Optional

from ownlab_guest.why.user_frames import full_name, is_user_file

__all__ = ["card_facts", "compilations", "memory_facts", "model_facts", "settings_facts"]

_MOST_COMPILATIONS = 200
# Counters of torch._dynamo.utils: graphs whose code was in the cache on disk. With autograd's cache the other one is not asked.
_CACHE_HITS = (("aot_autograd", "autograd_cache_hit"), ("inductor", "fxgraph_cache_hit"))


def card_facts(cuda: Any) -> Dict[str, Any]:
    """The current card."""
    properties = cuda.get_device_properties(cuda.current_device())
    return {
        "name": str(properties.name),
        "uuid": str(getattr(properties, "uuid", "")),
        "processors": int(properties.multi_processor_count),
        "capability": [int(properties.major), int(properties.minor)],
        "memory": int(properties.total_memory),
    }


def memory_facts(cuda: Any) -> Dict[str, Any]:
    """The memory that the allocator has taken, and how often it asked the driver for more."""
    try:
        statistics: Dict[str, int] = cuda.memory_stats()
    except RuntimeError:  # an allocator of the script's own counts nothing
        statistics = {}
    free, total = cuda.mem_get_info()
    return {
        "free": int(free),
        "total": int(total),
        "peak_allocated": int(statistics.get("allocated_bytes.all.peak", 0)),
        "reserved": int(statistics.get("reserved_bytes.all.current", 0)),
        "retries": int(statistics.get("num_alloc_retries", 0)),
        "device_allocations": int(statistics.get("num_device_alloc", 0)),
        "device_frees": int(statistics.get("num_device_free", 0)),
    }


def settings_facts(torch: Any) -> Dict[str, Any]:
    """The settings of torch that decide which kernels run."""
    backends = torch.backends
    return {
        "matmul_precision": str(torch.get_float32_matmul_precision()),
        "matmul_tf32": bool(backends.cuda.matmul.allow_tf32),
        "cudnn_tf32": bool(backends.cudnn.allow_tf32),
        "cudnn_benchmark": bool(backends.cudnn.benchmark),
        "cudnn_deterministic": bool(backends.cudnn.deterministic),
        "flash_attention": bool(backends.cuda.flash_sdp_enabled()),
        "deterministic": bool(torch.are_deterministic_algorithms_enabled()),
    }


def model_facts(torch: Any, parameters: List[Any]) -> Dict[str, Any]:
    """What the optimizer's parameters say of the model."""
    kinds: Dict[str, int] = {}
    weights = [each for each in parameters if each.dim() == 4]
    for each in parameters:
        kind = str(each.dtype).rpartition(".")[2]
        kinds[kind] = kinds.get(kind, 0) + each.numel()
    spatial = [each for each in weights if each.shape[1] > 1 and each.shape[2] * each.shape[3] > 1]
    return {
        "parameters": kinds,
        "convolutions": len(weights),
        "channels_last": bool(spatial)
        and all(each.is_contiguous(memory_format=torch.channels_last) for each in spatial),
    }


def compilations(since: float) -> Dict[str, Any]:
    """What torch.compile has done since a time of the system's clock: compilations, the reasons of repeated ones, graph breaks."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is None or not hasattr(utils, "get_compilation_metrics"):
        return {"used": utils is not None, "compiled": [], "breaks": {}, "replays": 0}
    compiled = [_compilation(each) for each in utils.get_compilation_metrics()]
    breaks = {str(reason)[:300]: int(count) for reason, count in utils.counters["graph_break"].items()}
    return {
        "used": bool(compiled),
        "compiled": [each for each in compiled if each["at"] >= since][-_MOST_COMPILATIONS:],
        "breaks": dict(list(breaks.items())[:20]),
        "replays": 0,
        "cached": sum(int(utils.counters.get(part, {}).get(name, 0)) for part, name in _CACHE_HITS),
    }


def _compilation(metrics: Any) -> Dict[str, Any]:
    begin: Optional[float] = getattr(metrics, "start_time", None)
    seconds = getattr(metrics, "duration_us", None)
    if seconds is not None:
        seconds /= 1e6
    else:
        seconds = getattr(metrics, "entire_frame_compile_time_s", None)
    file = str(getattr(metrics, "co_filename", "") or "")
    own = is_user_file(file) if file else False  # a module of torch's own is compiled through a function of torch
    return {
        "at": float(begin or 0.0),
        "seconds": float(seconds or 0.0),
        "function": str(getattr(metrics, "co_name", "") or "") if own else "",
        "file": full_name(file) if own else "",
        "line": int(getattr(metrics, "co_firstlineno", 0) or 0) if own else 0,
        "reason": str(getattr(metrics, "recompile_reason", "") or "")[:500],
    }
