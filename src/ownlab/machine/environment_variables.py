"""The environment variables that decide about accelerators, each with what its value does here.

Only the names in the tables below are read: other variables may hold secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from ownlab.machine.facts import Fact, Known, value_of
from ownlab.machine.files import ask_all
from ownlab.machine.records import Card, Variable
from ownlab.machine.visible_devices import VisibleDevices, visible_devices

__all__ = ["ALLOCATOR_OPTIONS", "VisibleDevices", "read_environment", "visible_devices"]

_FOLDERS_DEADLINE = 2.0  # seconds for all folders of a path together: one may lie on a dead network mount


class _Here(Struct, frozen=True):
    """What a value's meaning may depend on."""

    environ: Mapping[str, str]
    cards: tuple[Card, ...]
    root: Path


_Meaning = Callable[[str, _Here], str]


def read_environment(
    environ: Mapping[str, str], cards: tuple[Card, ...], root: Path = Path("/")
) -> Fact[tuple[Variable, ...]]:
    """Each variable of interest that is set, in the order of the tables."""
    here = _Here(environ, cards, root)
    variables = []
    for name, meaning in _MEANINGS.items():
        if name in environ:
            said = meaning if isinstance(meaning, str) else meaning(environ[name], here)
            variables.append(Variable(name, environ[name], said))
    variables += (
        Variable(name, environ[name], "a setting of NCCL, through which cards exchange data")
        for name in sorted(environ)
        if name.startswith("NCCL_") and name not in _MEANINGS and not _SECRET.search(name)
    )
    return Known(tuple(variables), source="environment variables")


_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CRED", re.IGNORECASE)


# --- which cards are seen ---------------------------------------------------------------------------------------------


def _cuda_visible(value: str, here: _Here) -> str:
    cards = here.cards
    if any(card.vendor == "nvidia" for card in cards) or not any(card.vendor == "amd" for card in cards):
        return _visible(value, here, vendor="nvidia", first="torch's cuda:") + _order_caveat(value, here)
    return _visible(value, here, vendor="amd", first="torch's cuda:")  # ROCm heeds CUDA's variable too


def _visible(value: str, here: _Here, *, vendor: str, first: str) -> str:
    own = sorted((card for card in here.cards if card.vendor == vendor), key=lambda card: card.index)
    seen = visible_devices(value, own, vendor)
    trouble = f" ({seen.problem})" if seen.problem else ""
    if not seen.known:
        return f"decides which cards are seen; which they are cannot be told here{trouble}"
    if not seen.order:
        return f"hides every card from programs{trouble}"
    names = {card.index: value_of(card.name) for card in own}
    places = ", ".join(
        f"{first if place == 0 else first.split()[-1]}{place} is card {index}"
        + (f" ({names[index]})" if names[index] else "")
        for place, index in enumerate(seen.order)
    )
    hidden = [str(card.index) for card in own if card.index not in seen.order]
    return places + (f"; hidden: card {', '.join(hidden)}" if hidden else "") + trouble


def _order_caveat(value: str, here: _Here) -> str:
    kinds = {value_of(card.name) for card in here.cards if card.vendor == "nvidia"}
    numbers = any(character.isdigit() for character in value) and value[:4] not in ("GPU-", "MIG-") and value != "-1"
    if len(kinds) < 2 or not numbers or here.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return ""
    return (
        ". The cards differ, and CUDA numbers the fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID:"
        " these numbers may mean other cards than nvidia-smi's"
    )


def _device_order(value: str, here: _Here) -> str:
    if value == "PCI_BUS_ID":
        return "CUDA numbers the cards as nvidia-smi does"
    if value == "FASTEST_FIRST":
        return "CUDA numbers the fastest card first, as it does by default: not nvidia-smi's order where cards differ"
    return "neither PCI_BUS_ID nor FASTEST_FIRST, the values that CUDA knows"


def _container_devices(value: str, here: _Here) -> str:
    if value in ("", "void"):
        return "the NVIDIA container runtime leaves this container alone: no card, no driver"
    if value == "none":
        return "the NVIDIA container runtime puts the driver into the container, and no card"
    which = "every card" if value == "all" else f"the cards {value}"
    return f"tells the NVIDIA container runtime to put in {which}; outside a container it does nothing"


def _capabilities(value: str, here: _Here) -> str:
    parts = {part.strip() for part in value.split(",")}
    if "all" in parts:
        return "the container gets every part of the driver"
    lacking = [
        f"{name} is not among them: {loss}"
        for name, loss in (("compute", "CUDA cannot run"), ("utility", "no nvidia-smi and NVML"))
        if name not in parts
    ]
    return f"the container gets these parts of the driver: {value}" + "".join(f"; {line}" for line in lacking)


def _gfx_override(value: str, here: _Here) -> str:
    parts = value.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return "not a version such as 10.3.0: ROCm may refuse it"
    target = f"gfx{int(parts[0])}{int(parts[1]):x}{int(parts[2]):x}"
    return f"ROCm treats every card as {target}; on one that is too different programs crash"


# --- paths ------------------------------------------------------------------------------------------------------------

_CUDA_LIBRARIES = re.compile(r"^lib(cuda|cudart|cudnn|cublas|nccl|nvidia-ml)\.so")


def _library_path(value: str, here: _Here) -> str:
    folders = list(dict.fromkeys(re.split("[:;]", value)))  # ld.so(8)
    questions = {folder: partial(os.listdir, _under(folder, here.root)) for folder in folders if folder}
    answers = ask_all(questions, _FOLDERS_DEADLINE)
    said: list[str] = []
    plain = 0
    for folder in folders:
        answer = answers.get(folder)
        if not folder:
            said.append("an empty entry means the current folder")
        elif answer is None:
            said.append(f"{folder} did not answer in {_FOLDERS_DEADLINE:g} s")
        elif isinstance(answer, OSError):
            said.append(f"{folder} {'does not exist' if isinstance(answer, FileNotFoundError) else answer.strerror}")
        else:
            libraries = sorted({f"lib{match.group(1)}" for match in map(_CUDA_LIBRARIES.match, answer) if match})
            plain += not libraries
            if libraries:
                said.append(f"{folder} holds {', '.join(libraries)}")
    if plain:
        said.append(f"{plain} folder{'s' if plain > 1 else ''} without CUDA's libraries")
    return "searched before a program's own libraries: " + "; ".join(said)


def _under(path: str, root: Path) -> Path:
    return root / path.lstrip("/") if path.startswith("/") else Path(path)


def _preload(value: str, here: _Here) -> str:
    paths = [path for path in re.split(r"[\s:]+", value) if path]
    missing = [path for path in paths if "/" in path and not os.path.exists(_under(path, here.root))]
    return "loaded into every program before anything else" + (
        f"; {', '.join(missing)} does not exist" if missing else ""
    )


def _cuda_home(value: str, here: _Here) -> str:
    folder = _under(value, here.root)
    if not os.path.isdir(folder):
        return "where builds of extensions look for the CUDA toolkit: there is no such folder"
    if not os.path.exists(folder / "bin/nvcc"):
        return "where builds of extensions look for the CUDA toolkit: there is no nvcc in it"
    return "the CUDA toolkit with which extensions are built; frameworks run on the one in their wheel"


# --- frameworks -------------------------------------------------------------------------------------------------------

# torch 1.10 to 2.15, c10/core/AllocatorConfig and c10/cuda/CUDAAllocatorConfig, 2026-11-15. A key that it does not know
# is an error when the first tensor is made.
ALLOCATOR_OPTIONS = {
    "expandable_segments": "segments grow in place, against fragmentation",
    "max_split_size_mb": "larger blocks are not split, against fragmentation",
    "garbage_collection_threshold": "unused blocks are given back above this share of the memory",
    "backend": "native is torch's own allocator, cudaMallocAsync the driver's",
    "roundup_power2_divisions": "sizes are rounded up",
    "max_non_split_rounding_mb": "how much larger than asked a block may be",
    "per_process_memory_fraction": "a process may have this share of the card",
    "roundup_bypass_threshold_mb": "",
    "expandable_segments_reserve": "",
    "expandable_segments_reserve_by_class": "",
    "large_segment_size_mb": "",
    "pinned_use_background_threads": "",
    "pinned_max_round_threshold_mb": "",
    "pinned_max_cached_size_mb": "",
    "pinned_use_cuda_host_register": "",
    "pinned_use_hip_host_register": "",
    "pinned_num_register_threads": "",
    "pinned_reserve_segment_size_mb": "",
    "pinned_free_catch_all": "",
    "release_lock_on_cudamalloc": "",
    "release_lock_on_hipmalloc": "",
    "graph_capture_record_stream_reuse": "",
    "throw_on_cudamalloc_oom": "",
}
_ALLOCATOR_OPTION = re.compile(r"\s*([^:,\[\]]+?)\s*(?::\s*(\[[^\]]*\]|[^,]*))?\s*(?:,|$)")


def _allocator(value: str, here: _Here, *, older: bool) -> str:
    said = []
    for option, setting in _ALLOCATOR_OPTION.findall(value):
        if option not in ALLOCATOR_OPTIONS:
            said.append(f"{option} is no option of torch's allocator: it refuses the whole setting")
        elif not setting:
            said.append(f"{option} has no value: torch refuses the whole setting")
        elif option == "expandable_segments" and setting.strip() not in ("True", "False"):
            said.append(f"{option} is {setting.strip()!r}: torch accepts only True and False")
        else:
            reason = ALLOCATOR_OPTIONS[option]
            said.append(f"{option} is {setting.strip()}" + (f" ({reason})" if reason else ""))
    if not said:
        return "torch's memory allocator stays as it is by default"
    old = " (the older name of PYTORCH_ALLOC_CONF)" if older else ""
    return f"torch's memory allocator{old}: " + "; ".join(said)


def _switch(value: str, here: _Here, *, on: str, off: str) -> str:
    return off if value.strip().lower() in ("", "0", "false", "no", "off") else on


def _log_level(value: str, here: _Here) -> str:
    if value in ("2", "3"):
        return "TensorFlow hides its warnings, among them those on CUDA libraries that it cannot load"
    return "TensorFlow shows its warnings"


def _mem_fraction(value: str, here: _Here) -> str:
    try:
        share = float(value)
    except ValueError:
        return "not a number: JAX refuses it"
    return f"JAX takes {share * 100:g} % of a card's memory when it starts, unless it is told not to preallocate"


def _jax_platforms(value: str, here: _Here) -> str:
    names = {name.strip() for name in value.split(",") if name.strip()}
    if names == {"cpu"}:
        return "JAX uses the CPU alone: no card is seen by it"
    return f"JAX uses {value} and nothing else; where one of them fails, it fails" if names else "JAX chooses by itself"


_ARCH = re.compile(r"(\d+)\.(\d+)([af]?)(\+PTX)?")


def _arch_list(value: str, here: _Here) -> str:
    targets = [part for part in re.split(r"[;\s]+", value) if part]
    cards = {value_of(card.compute_capability) for card in here.cards if card.vendor == "nvidia"}
    lacking = sorted(name for name in cards if name and not any(_compiles(target, name) for target in targets))
    missing = f"; they will not run on compute capability {', '.join(lacking)}, which is here" if lacking else ""
    return f"extensions are compiled for {value}; torch itself is not changed{missing}"


def _compiles(target: str, capability: str) -> bool:
    """Whether code for the target runs on the card; a name such as Hopper is taken on trust."""
    match = _ARCH.fullmatch(target)
    if match is None:
        return True
    major, minor, special, ptx = match.groups()
    card = tuple(int(part) for part in capability.split("."))
    if special == "a":  # for this very architecture
        return card == (int(major), int(minor))
    return (int(major), int(minor)) <= card and (int(major) == card[0] or ptx is not None)


def _threads(value: str, here: _Here) -> str:
    count = value.split(",")[0].strip()  # OpenMP allows a list: one number for each level of nesting
    if not count.isdecimal() or int(count) == 0:
        return "not a number of threads"
    return f"a process computes on {count} CPU thread{'s' if count != '1' else ''} at a time"


def _nccl_debug(value: str, here: _Here) -> str:
    if value.upper() in ("INFO", "TRACE", "WARN"):
        return f"NCCL logs at the level {value.upper()}"
    return "NCCL logs nothing but its version" if value.upper() == "VERSION" else "NCCL knows no such log level"


_MEANINGS: dict[str, str | _Meaning] = {
    "CUDA_VISIBLE_DEVICES": _cuda_visible,
    "CUDA_DEVICE_ORDER": _device_order,
    "NVIDIA_VISIBLE_DEVICES": _container_devices,
    "NVIDIA_DRIVER_CAPABILITIES": _capabilities,
    "HIP_VISIBLE_DEVICES": partial(_visible, vendor="amd", first="torch's cuda:"),
    "ROCR_VISIBLE_DEVICES": partial(_visible, vendor="amd", first="ROCm's #"),
    "HSA_OVERRIDE_GFX_VERSION": _gfx_override,
    "ASCEND_RT_VISIBLE_DEVICES": partial(_visible, vendor="huawei", first="torch_npu's npu:"),
    "ASCEND_VISIBLE_DEVICES": "tells Ascend's container runtime which NPUs to put in",
    "ZE_AFFINITY_MASK": "Intel's Level Zero shows programs only these devices, numbered anew from 0",
    "TPU_NAME": "the TPU that programs connect to",
    "TPU_ACCELERATOR_TYPE": "the kind and number of TPU chips",
    "TPU_TOPOLOGY": "how the TPU chips are joined",
    "TPU_WORKER_ID": "which host of a TPU slice this is",
    "TPU_WORKER_HOSTNAMES": "the hosts of the TPU slice",
    "TPU_CHIPS_PER_HOST_BOUNDS": "how the TPU chips of one host are laid out",
    "TPU_PROCESS_BOUNDS": "how the processes share the TPU chips",
    "TPU_VISIBLE_CHIPS": "programs see only these TPU chips",
    "TPU_VISIBLE_DEVICES": "programs see only these TPU chips",
    "TPU_LIBRARY_PATH": "the libtpu that is loaded, instead of the installed package's",
    "TPU_SKIP_MDS_QUERY": "libtpu does not ask the cloud's metadata server what it runs on",
    "LD_LIBRARY_PATH": _library_path,
    "LD_PRELOAD": _preload,
    "CUDA_HOME": _cuda_home,
    "CUDA_PATH": _cuda_home,
    "PYTORCH_ALLOC_CONF": partial(_allocator, older=False),
    "PYTORCH_CUDA_ALLOC_CONF": partial(_allocator, older=True),
    "PYTORCH_HIP_ALLOC_CONF": partial(_allocator, older=True),
    "PYTORCH_NVML_BASED_CUDA_CHECK": partial(
        _switch,
        on="torch.cuda.is_available() asks NVML, so that it may say yes where CUDA cannot start",
        off="torch.cuda.is_available() asks CUDA itself, as by default",
    ),
    "PYTORCH_ENABLE_MPS_FALLBACK": partial(
        _switch,
        on="what Apple's GPU cannot do, torch does on the CPU, slowly and silently",
        off="what Apple's GPU cannot do is an error in torch, as by default",
    ),
    "CUDA_LAUNCH_BLOCKING": partial(
        _switch,
        on="each kernel is waited for: errors show where they happen, and everything is slower",
        off="kernels run while Python goes on, as by default",
    ),
    "CUDA_MODULE_LOADING": "LAZY loads a kernel at its first use (the default since CUDA 12.2), EAGER all at the start",
    "TORCH_CUDA_ARCH_LIST": _arch_list,
    "TF_FORCE_GPU_ALLOW_GROWTH": partial(
        _switch,
        on="TensorFlow takes a card's memory as it needs it",
        off="TensorFlow takes nearly all of a card's memory when it starts",
    ),
    "TF_GPU_ALLOCATOR": "which allocator TensorFlow takes a card's memory with",
    "TF_CPP_MIN_LOG_LEVEL": _log_level,
    "XLA_FLAGS": "flags of XLA, the compiler beneath JAX and TensorFlow",
    "XLA_PYTHON_CLIENT_PREALLOCATE": partial(
        _switch,
        on="JAX takes most of a card's memory when it starts, as by default",
        off="JAX takes a card's memory as it needs it",
    ),
    "XLA_PYTHON_CLIENT_MEM_FRACTION": _mem_fraction,
    "XLA_CLIENT_MEM_FRACTION": _mem_fraction,
    "XLA_PYTHON_CLIENT_ALLOCATOR": "which allocator JAX takes a card's memory with; platform is slow and keeps nothing",
    "JAX_PLATFORMS": _jax_platforms,
    "JAX_PLATFORM_NAME": "the older name of JAX_PLATFORMS",
    "NCCL_DEBUG": _nccl_debug,
    "NCCL_P2P_DISABLE": partial(
        _switch, on="cards do not copy to each other directly: slower, over host memory", off="as by default"
    ),
    "NCCL_IB_DISABLE": partial(
        _switch, on="InfiniBand and RoCE are not used: machines speak over plain sockets", off="as by default"
    ),
    "NCCL_SHM_DISABLE": partial(
        _switch,
        on="cards without a direct path exchange data over the network stack, not shared memory",
        off="as by default",
    ),
    "NCCL_SOCKET_IFNAME": "the network interfaces that NCCL may use; a name that is not here makes it fail",
    "NCCL_VERSION": "the version that an image's maker put in; NCCL itself does not read it",
    "OMP_NUM_THREADS": _threads,
    "MKL_NUM_THREADS": _threads,
}
