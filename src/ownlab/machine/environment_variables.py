"""The environment variables that affect accelerators, each with what its value does on this machine.

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
from ownlab.machine.files import call_all
from ownlab.machine.records import Card, Variable
from ownlab.machine.visible_devices import VisibleDevices, visible_devices
from ownlab.text import Text, listing, plural, sentences, text

__all__ = ["ALLOCATOR_OPTIONS", "VisibleDevices", "read_environment", "visible_devices"]

_FOLDERS_DEADLINE = 2.0  # seconds for all folders of a path together: one may lie on a dead network mount


class _Context(Struct, frozen=True):
    """Facts that the meaning of a value may depend on."""

    environ: Mapping[str, str]
    cards: tuple[Card, ...]
    root: Path


_Explain = Callable[[str, _Context], str]


def read_environment(
    environ: Mapping[str, str], cards: tuple[Card, ...], root: Path = Path("/")
) -> Fact[tuple[Variable, ...]]:
    """Return each variable of interest that is set, in the order of the tables."""
    context = _Context(environ, cards, root)
    variables = []
    for name, explain in _MEANINGS.items():
        if name in environ:
            meaning = explain if isinstance(explain, str) else explain(environ[name], context)
            variables.append(Variable(name, environ[name], meaning))
    variables += (
        Variable(name, environ[name], text("A setting of NCCL, the library through which cards exchange data."))
        for name in sorted(environ)
        if name.startswith("NCCL_") and name not in _MEANINGS and not _SECRET.search(name)
    )
    return Known(tuple(variables), source=text("environment variables"))


_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CRED", re.IGNORECASE)


# --- visible cards ----------------------------------------------------------------------------------------------------


def _cuda_visible(value: str, context: _Context) -> str:
    cards = context.cards
    if any(card.vendor == "nvidia" for card in cards) or not any(card.vendor == "amd" for card in cards):
        meaning = _visible(value, context, vendor="nvidia", prefix="cuda:")
        return sentences(meaning, _order_caveat(value, context))
    return _visible(value, context, vendor="amd", prefix="cuda:")  # ROCm heeds CUDA's variable too


def _visible(value: str, context: _Context, *, vendor: str, prefix: str) -> str:
    own = sorted((card for card in context.cards if card.vendor == vendor), key=lambda card: card.index)
    visible = visible_devices(value, own, vendor)
    problem = text("Problem: {problem}.", problem=visible.problem) if visible.problem else None
    if not visible.known:
        return sentences(text("Selects the visible cards; which ones cannot be determined here."), problem)
    if not visible.order:
        return sentences(text("Hides every card from programs."), problem)
    names = {card.index: value_of(card.name) for card in own}
    devices = [
        text("{device} is card {index} ({name})", device=f"{prefix}{position}", index=index, name=names[index])
        if names[index]
        else text("{device} is card {index}", device=f"{prefix}{position}", index=index)
        for position, index in enumerate(visible.order)
    ]
    hidden = [card.index for card in own if card.index not in visible.order]
    return sentences(
        text("In programs, {devices}.", devices=listing(devices)),
        plural(len(hidden), "Card {cards} is hidden.", "Cards {cards} are hidden.", cards=listing(hidden))
        if hidden
        else None,
        problem,
    )


def _order_caveat(value: str, context: _Context) -> Text | None:
    models = {value_of(card.name) for card in context.cards if card.vendor == "nvidia"}
    numbers = any(character.isdigit() for character in value) and value[:4] not in ("GPU-", "MIG-") and value != "-1"
    if len(models) < 2 or not numbers or context.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return None
    return text(
        "The cards are of different models, and CUDA numbers the fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID:"
        " these numbers may mean other cards than in nvidia-smi."
    )


def _device_order(value: str, context: _Context) -> str:
    if value == "PCI_BUS_ID":
        return text("CUDA numbers the cards as nvidia-smi does.")
    if value == "FASTEST_FIRST":
        return text(
            "CUDA numbers the fastest card first. This is the default; the order differs from nvidia-smi's where the"
            " cards are of different models."
        )
    return text("Invalid: CUDA accepts only PCI_BUS_ID and FASTEST_FIRST.")


def _container_devices(value: str, context: _Context) -> str:
    if value in ("", "void"):
        return text("The NVIDIA container runtime gives this container no card and no driver.")
    if value == "none":
        return text("The NVIDIA container runtime gives this container the driver, but no card.")
    if value == "all":
        return text("The NVIDIA container runtime gives this container every card. No effect outside a container.")
    return text(
        "The NVIDIA container runtime gives this container the cards {cards}. No effect outside a container.",
        cards=value,
    )


def _capabilities(value: str, context: _Context) -> str:
    parts = {part.strip() for part in value.split(",")}
    if "all" in parts:
        return text("The container gets every part of the driver.")
    return sentences(
        text("The container gets these parts of the driver: {parts}.", parts=value),
        None if "compute" in parts else text("Without compute, CUDA cannot run."),
        None if "utility" in parts else text("Without utility, there is no nvidia-smi and no NVML."),
    )


def _gfx_override(value: str, context: _Context) -> str:
    parts = value.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return text("Not a version such as 10.3.0: ROCm may reject it.")
    target = f"gfx{int(parts[0])}{int(parts[1]):x}{int(parts[2]):x}"
    return text("ROCm treats every card as {target}. Programs crash on a card that is too different.", target=target)


# --- paths ------------------------------------------------------------------------------------------------------------

_CUDA_LIBRARIES = re.compile(r"^lib(cuda|cudart|cudnn|cublas|nccl|nvidia-ml)\.so")


def _library_path(value: str, context: _Context) -> str:
    folders = list(dict.fromkeys(re.split("[:;]", value)))  # ld.so(8)
    calls = {folder: partial(os.listdir, _under(folder, context.root)) for folder in folders if folder}
    answers = call_all(calls, _FOLDERS_DEADLINE)
    findings: list[Text] = [text("The loader searches these folders before a program's own libraries.")]
    without_cuda = 0
    for folder in folders:
        answer = answers.get(folder)
        if not folder:
            findings.append(text("An empty entry means the current folder."))
        elif answer is None:
            findings.append(text("{folder} did not answer in {seconds:g} s.", folder=folder, seconds=_FOLDERS_DEADLINE))
        elif isinstance(answer, FileNotFoundError):
            findings.append(text("{folder} does not exist.", folder=folder))
        elif isinstance(answer, OSError):
            findings.append(text("{folder} cannot be listed: {error}.", folder=folder, error=answer.strerror))
        else:
            libraries = sorted({f"lib{match.group(1)}" for match in map(_CUDA_LIBRARIES.match, answer) if match})
            without_cuda += not libraries
            if libraries:
                findings.append(text("{folder} has {libraries}.", folder=folder, libraries=listing(libraries)))
    if without_cuda:
        findings.append(
            plural(without_cuda, "One folder has no CUDA libraries.", "{n} folders have no CUDA libraries.")
        )
    return sentences(*findings)


def _under(path: str, root: Path) -> Path:
    return root / path.lstrip("/") if path.startswith("/") else Path(path)


def _preload(value: str, context: _Context) -> str:
    paths = [path for path in re.split(r"[\s:]+", value) if path]
    missing = [path for path in paths if "/" in path and not os.path.exists(_under(path, context.root))]
    return sentences(
        text("Loaded into every program before anything else."),
        *(text("{path} does not exist.", path=path) for path in missing),
    )


def _cuda_home(value: str, context: _Context) -> str:
    folder = _under(value, context.root)
    if not os.path.isdir(folder):
        return text("Builds of extensions look for the CUDA toolkit here, but this folder does not exist.")
    if not os.path.exists(folder / "bin/nvcc"):
        return text("Builds of extensions look for the CUDA toolkit here, but this folder has no nvcc.")
    return text("Extensions are built with this CUDA toolkit. Frameworks use the CUDA libraries of their own wheel.")


# --- frameworks -------------------------------------------------------------------------------------------------------

# torch 1.10 to 2.15, c10/core/AllocatorConfig and c10/cuda/CUDAAllocatorConfig, 2026-11-15. An unknown key is an error
# when the first tensor is made.
ALLOCATOR_OPTIONS: dict[str, str] = {
    "expandable_segments": text("segments grow in place, which reduces fragmentation"),
    "max_split_size_mb": text("larger blocks are not split, which reduces fragmentation"),
    "garbage_collection_threshold": text("unused blocks are freed above this share of the memory"),
    "backend": text("native is torch's own allocator, cudaMallocAsync the driver's"),
    "roundup_power2_divisions": text("sizes are rounded up"),
    "max_non_split_rounding_mb": text("how much larger than requested a block may be"),
    "per_process_memory_fraction": text("a process may use this share of the card's memory"),
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


def _allocator(value: str, context: _Context, *, older: bool) -> str:
    options = [_allocator_option(option, setting.strip()) for option, setting in _ALLOCATOR_OPTION.findall(value)]
    if not options:
        return text("torch's memory allocator keeps its defaults.")
    return sentences(
        text("Configures torch's memory allocator (older name of PYTORCH_ALLOC_CONF).")
        if older
        else text("Configures torch's memory allocator."),
        *options,
    )


def _allocator_option(option: str, setting: str) -> Text:
    if option not in ALLOCATOR_OPTIONS:
        return text("{option} is not an option of the allocator: torch rejects the whole value.", option=option)
    if not setting:
        return text("{option} has no value: torch rejects the whole value.", option=option)
    if option == "expandable_segments" and setting not in ("True", "False"):
        return text("{option} is {setting!r}: torch accepts only True and False.", option=option, setting=setting)
    effect = ALLOCATOR_OPTIONS[option]
    if effect:
        return text("{option} is {setting} ({effect}).", option=option, setting=setting, effect=effect)
    return text("{option} is {setting}.", option=option, setting=setting)


def _switch(value: str, context: _Context, *, on: str, off: str) -> str:
    return off if value.strip().lower() in ("", "0", "false", "no", "off") else on


def _log_level(value: str, context: _Context) -> str:
    if value in ("2", "3"):
        return text("TensorFlow hides its warnings, including those about CUDA libraries that it cannot load.")
    return text("TensorFlow shows its warnings.")


def _mem_fraction(value: str, context: _Context) -> str:
    try:
        share = float(value)
    except ValueError:
        return text("Not a number: JAX rejects it.")
    return text(
        "JAX takes {percent:g} % of a card's memory when it starts, unless preallocation is turned off.",
        percent=share * 100,
    )


def _jax_platforms(value: str, context: _Context) -> str:
    names = {name.strip() for name in value.split(",") if name.strip()}
    if names == {"cpu"}:
        return text("JAX uses only the CPU and sees no card.")
    if names:
        return text("JAX uses only {platforms}, and fails where one of them fails.", platforms=value)
    return text("JAX selects the platform itself.")


_ARCH = re.compile(r"(\d+)\.(\d+)([af]?)(\+PTX)?")


def _arch_list(value: str, context: _Context) -> str:
    targets = [part for part in re.split(r"[;\s]+", value) if part]
    capabilities = {value_of(card.compute_capability) for card in context.cards if card.vendor == "nvidia"}
    lacking = sorted(name for name in capabilities if name and not any(_compiles(target, name) for target in targets))
    return sentences(
        text("Extensions are compiled for {targets}. torch itself does not change.", targets=value),
        text(
            "They will not run on the compute capability {capabilities} of this machine.", capabilities=listing(lacking)
        )
        if lacking
        else None,
    )


def _compiles(target: str, capability: str) -> bool:
    """Return whether code for the target runs on the card. A name such as Hopper is assumed to fit."""
    match = _ARCH.fullmatch(target)
    if match is None:
        return True
    major, minor, special, ptx = match.groups()
    card = tuple(int(part) for part in capability.split("."))
    if special == "a":  # for this architecture only
        return card == (int(major), int(minor))
    return (int(major), int(minor)) <= card and (int(major) == card[0] or ptx is not None)


def _threads(value: str, context: _Context) -> str:
    count = value.split(",")[0].strip()  # OpenMP allows a list: one number for each level of nesting
    if not count.isdecimal() or int(count) == 0:
        return text("Not a number of threads.")
    return plural(int(count), "A process computes on one CPU thread.", "A process computes on {n} CPU threads.")


def _nccl_debug(value: str, context: _Context) -> str:
    level = value.upper()
    if level in ("INFO", "TRACE", "WARN"):
        return text("NCCL logs at level {level}.", level=level)
    if level == "VERSION":
        return text("NCCL logs only its version.")
    return text("NCCL has no such log level.")


_MEANINGS: dict[str, str | _Explain] = {
    "CUDA_VISIBLE_DEVICES": _cuda_visible,
    "CUDA_DEVICE_ORDER": _device_order,
    "NVIDIA_VISIBLE_DEVICES": _container_devices,
    "NVIDIA_DRIVER_CAPABILITIES": _capabilities,
    "HIP_VISIBLE_DEVICES": partial(_visible, vendor="amd", prefix="cuda:"),
    "ROCR_VISIBLE_DEVICES": partial(_visible, vendor="amd", prefix="ROCm device "),
    "HSA_OVERRIDE_GFX_VERSION": _gfx_override,
    "ASCEND_RT_VISIBLE_DEVICES": partial(_visible, vendor="huawei", prefix="npu:"),
    "ASCEND_VISIBLE_DEVICES": text("The Ascend container runtime gives the container these NPUs."),
    "ZE_AFFINITY_MASK": text("Intel's Level Zero shows programs only these devices, numbered from 0."),
    "TPU_NAME": text("The TPU that programs connect to."),
    "TPU_ACCELERATOR_TYPE": text("The type and number of TPU chips."),
    "TPU_TOPOLOGY": text("How the TPU chips are connected."),
    "TPU_WORKER_ID": text("The number of this host in its TPU slice."),
    "TPU_WORKER_HOSTNAMES": text("The hosts of the TPU slice."),
    "TPU_CHIPS_PER_HOST_BOUNDS": text("The layout of the TPU chips of one host."),
    "TPU_PROCESS_BOUNDS": text("How processes share the TPU chips."),
    "TPU_VISIBLE_CHIPS": text("Programs see only these TPU chips."),
    "TPU_VISIBLE_DEVICES": text("Programs see only these TPU chips."),
    "TPU_LIBRARY_PATH": text("The libtpu that is loaded instead of the one in the installed package."),
    "TPU_SKIP_MDS_QUERY": text("libtpu does not query the cloud's metadata server."),
    "LD_LIBRARY_PATH": _library_path,
    "LD_PRELOAD": _preload,
    "CUDA_HOME": _cuda_home,
    "CUDA_PATH": _cuda_home,
    "PYTORCH_ALLOC_CONF": partial(_allocator, older=False),
    "PYTORCH_CUDA_ALLOC_CONF": partial(_allocator, older=True),
    "PYTORCH_HIP_ALLOC_CONF": partial(_allocator, older=True),
    "PYTORCH_NVML_BASED_CUDA_CHECK": partial(
        _switch,
        on=text("torch.cuda.is_available() asks NVML, and may return True where CUDA cannot start."),
        off=text("torch.cuda.is_available() asks CUDA itself. This is the default."),
    ),
    "PYTORCH_ENABLE_MPS_FALLBACK": partial(
        _switch,
        on=text("Operations that Apple's GPU does not support run on the CPU, slowly and without a warning."),
        off=text("Operations that Apple's GPU does not support raise an error. This is the default."),
    ),
    "CUDA_LAUNCH_BLOCKING": partial(
        _switch,
        on=text("Python waits for each kernel. Errors appear where they happen, and everything is slower."),
        off=text("Kernels run while Python continues. This is the default."),
    ),
    "CUDA_MODULE_LOADING": text(
        "LAZY loads a kernel at its first use (the default since CUDA 12.2), EAGER loads all at the start."
    ),
    "TORCH_CUDA_ARCH_LIST": _arch_list,
    "TF_FORCE_GPU_ALLOW_GROWTH": partial(
        _switch,
        on=text("TensorFlow allocates a card's memory as it needs it."),
        off=text("TensorFlow takes nearly all of a card's memory when it starts."),
    ),
    "TF_GPU_ALLOCATOR": text("The allocator that TensorFlow uses for a card's memory."),
    "TF_CPP_MIN_LOG_LEVEL": _log_level,
    "XLA_FLAGS": text("Flags of XLA, the compiler of JAX and TensorFlow."),
    "XLA_PYTHON_CLIENT_PREALLOCATE": partial(
        _switch,
        on=text("JAX takes most of a card's memory when it starts. This is the default."),
        off=text("JAX allocates a card's memory as it needs it."),
    ),
    "XLA_PYTHON_CLIENT_MEM_FRACTION": _mem_fraction,
    "XLA_CLIENT_MEM_FRACTION": _mem_fraction,
    "XLA_PYTHON_CLIENT_ALLOCATOR": text(
        "The allocator that JAX uses for a card's memory. platform is slow and caches nothing."
    ),
    "JAX_PLATFORMS": _jax_platforms,
    "JAX_PLATFORM_NAME": text("The older name of JAX_PLATFORMS."),
    "NCCL_DEBUG": _nccl_debug,
    "NCCL_P2P_DISABLE": partial(
        _switch,
        on=text("Cards do not copy to each other directly. Copies through host memory are slower."),
        off=text("Cards may copy to each other directly. This is the default."),
    ),
    "NCCL_IB_DISABLE": partial(
        _switch,
        on=text("NCCL does not use InfiniBand or RoCE. Machines communicate over plain sockets."),
        off=text("NCCL may use InfiniBand and RoCE. This is the default."),
    ),
    "NCCL_SHM_DISABLE": partial(
        _switch,
        on=text("Cards without a direct path exchange data over the network stack, not shared memory."),
        off=text("Cards without a direct path exchange data over shared memory. This is the default."),
    ),
    "NCCL_SOCKET_IFNAME": text("The network interfaces that NCCL may use. NCCL fails on a name that does not exist."),
    "NCCL_VERSION": text("The version that the author of an image wrote down. NCCL does not read it."),
    "OMP_NUM_THREADS": _threads,
    "MKL_NUM_THREADS": _threads,
}
