"""Rules on a program's own errors, as people paste them: the machine is mostly fine, and the program is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.instruments.doctor.queries import capability, card_name, container_kind, nvidia_cards, variable
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import set_variable
from ownlab.instruments.doctor.rule import QUOTES_SHOWN, FixedMessageRule, MessageRule
from ownlab.machine.facts import value_of
from ownlab.units import GIB, format_bytes

__all__ = [
    "BitsandbytesWithoutCuda",
    "CheckpointDeviceMissing",
    "CublasError",
    "CudaAfterFork",
    "DeviceAssert",
    "FlashAttentionUnsupported",
    "IllegalMemoryAccess",
    "KvCacheTooSmall",
    "MixedDevices",
    "NcclError",
]


class DeviceAssert(MessageRule):
    """A check inside a kernel failed on the card: mostly a label or an index that is out of range.

    **Why it matters.** Kernels check their indices, and one was wrong: a class label as large as the number of classes
    (or -1), a token beyond the vocabulary, a position beyond the longest sequence. The card's context is lost with it:
    everything after it in the same process fails too. The traceback often points at a later, innocent line, since
    kernels run behind Python's back.

    **What to do.** Run the same step once on the CPU: there the error names the index. Or set `CUDA_LAUNCH_BLOCKING=1`
    before Python starts, so that the traceback is true. Then restart the process (the notebook's kernel).

    **Sources.** torch's own message; pytorch.org, CUDA semantics, "Asynchronous execution".
    """

    code = "device-assert"
    severity = "error"
    title = "A check inside a kernel failed: mostly an index or a label out of range"
    patterns = (
        r"device-side assert triggered",
        r"cudaErrorAssert\b",
        r"Assertion `[^`']*(?:t >= 0 && t < n_classes|srcIndex < srcSelectDimSize|index out of bounds)[^`']*` failed",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if quotes:
            yield self.finding(
                evidence=quotes[:QUOTES_SHOWN],
                meaning="The card is fine. A value that was used as an index or a class label was out of range, and the"
                " program's hold on the card is lost: whatever follows in the same process fails too.",
                fix=(
                    "Run one step on the CPU (device='cpu'): there the error names the index.",
                    set_variable(case.machine, "CUDA_LAUNCH_BLOCKING=1")
                    + "   # before Python starts: the traceback is true",
                    "Check labels: 0 <= label < number of classes; tokens: 0 <= id < size of the vocabulary.",
                    "Restart the process (the notebook's kernel) before the next try.",
                ),
            )


class IllegalMemoryAccess(MessageRule):
    """A kernel touched memory that is not its own, or ended in a way that nobody can name.

    **Why it matters.** Mostly a bug in a custom kernel or an extension (or one that was built for another version of
    torch); sometimes a race between streams; rarely a card that is failing. The process has lost the card: only a new
    process can use it. In the kernel log the same event is Xid 31 (page fault) or Xid 13 (exception).

    **What to do.** Restart the process. Find the kernel with `CUDA_LAUNCH_BLOCKING=1`, then with compute-sanitizer.
    Update or rebuild the extension. If many different programs fail so on one card only, test that card.

    **Sources.** NVIDIA, CUDA runtime API, error types; NVIDIA, Xid errors; docs.nvidia.com/compute-sanitizer.
    """

    code = "illegal-access"
    severity = "error"
    title = "A kernel touched memory that is not its own"
    patterns = (
        r"an illegal memory access was encountered",
        r"CUDA_ERROR_ILLEGAL_ADDRESS|cudaErrorIllegalAddress",
        r"misaligned address",
        r"unspecified launch failure",
        r"CUDA_ERROR_LAUNCH_FAILED|cudaErrorLaunchFailure",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        logged = [
            line for message in case.messages for line in re.findall(r"NVRM: Xid[^\n]*: (?:13|31),[^\n]*", message.text)
        ]
        yield self.finding(
            evidence=(*quotes[:QUOTES_SHOWN], *(f"kernel log: {line[:200]}" for line in dict.fromkeys(logged[:1]))),
            meaning="A bug in a kernel (an extension's, mostly) or an extension that was built for another torch. The"
            " process has lost the card; a new one can use it."
            + (" The Xid in the kernel log is this same event." if logged else ""),
            fix=(
                "Restart the process (the notebook's kernel).",
                set_variable(case.machine, "CUDA_LAUNCH_BLOCKING=1") + "   # then the traceback names the operation",
                "compute-sanitizer python YOUR_SCRIPT.py   # names the kernel and the address; slow",
                "Rebuild or update compiled extensions (flash-attn, xformers, …) for the torch that is here.",
            ),
        )


class CublasError(MessageRule):
    """cuBLAS, which multiplies matrices on the card, could not start or failed.

    **Why it matters.** `NOT_INITIALIZED` and `ALLOC_FAILED` mostly mean that the card's memory was full when cuBLAS
    wanted its workspace, or that an earlier index error had already broken the context. `EXECUTION_FAILED` and
    `INVALID_VALUE` with sound shapes point at another libcublas than torch's own, found through LD_LIBRARY_PATH.

    **What to do.** Watch the card's memory and use a smaller batch. Run once on the CPU to see an index error. Try
    without LD_LIBRARY_PATH.

    **Sources.** NVIDIA, cuBLAS, cublasStatus_t; EleutherAI/lm-evaluation-harness#1689; tensorflow/tensorflow#9489.
    """

    code = "cublas"
    severity = "error"
    title = "cuBLAS could not start, or failed"
    patterns = (r"CUBLAS_STATUS_(?P<status>[A-Z_]+)",)

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        statuses = {match["status"].upper() for _, match in self.matches(case)}
        no_room = bool(statuses & {"NOT_INITIALIZED", "ALLOC_FAILED"})
        path = variable(case.machine, "LD_LIBRARY_PATH")
        yield self.finding(
            title="cuBLAS could not start: mostly the card's memory was full" if no_room else "cuBLAS failed",
            evidence=(*quotes[:QUOTES_SHOWN], *([f"LD_LIBRARY_PATH={path}"] if path else [])),
            meaning="The card's memory was full when cuBLAS wanted its workspace, or an earlier error (an index out of"
            " range) had already broken the program's hold on the card."
            if no_room
            else "The shapes or types do not fit, an earlier error broke the program's hold on the card, or another"
            " libcublas than the framework's own was loaded.",
            fix=(
                "nvidia-smi   # how much of the card's memory is taken, and by whom; then a smaller batch",
                "Run one step on the CPU (device='cpu'): an index or a shape that is wrong is named there.",
                "env -u LD_LIBRARY_PATH python …   # if that helps, another libcublas was in front",
            ),
        )


class NcclError(MessageRule):
    """NCCL, through which cards speak to each other, failed or waited in vain.

    **Why it matters.** "Unhandled system error" is the network or shared memory: the wrong interface, a blocked port, a
    small /dev/shm. "Unhandled cuda error" is the card's own, reported late. "Remote process exited" and a watchdog's
    timeout mean that another rank died or went another way: its log holds the real error.

    **What to do.** Run with `NCCL_DEBUG=INFO` and read the first warning of the first rank that failed. In containers
    give `--ipc=host` (or `--shm-size`). On several machines name the interface with `NCCL_SOCKET_IFNAME`. To find out
    whether direct access between cards is at fault: `NCCL_P2P_DISABLE=1`.

    **Sources.** NVIDIA, NCCL user guide, "Troubleshooting" and "Environment variables"; torch,
    ProcessGroupNCCL.cpp (the words).
    """

    code = "nccl"
    severity = "error"
    title = "NCCL failed: cards could not speak to each other"
    patterns = (
        r"NCCL error",
        r"ncclSystemError|ncclUnhandledCudaError|ncclInternalError|ncclRemoteError|ncclInvalidUsage",
        r"Watchdog caught collective operation timeout",
        r"Some NCCL operations have failed or timed out",
    )
    _MEANINGS = (
        (
            r"Watchdog caught|timed out|ncclRemoteError|remote process exited",
            "Another rank died, or did not reach the same operation: its own log holds the real error.",
        ),
        (
            r"unhandled system error|ncclSystemError",
            "The network or shared memory failed: the wrong interface, a blocked port, or a small /dev/shm.",
        ),
        (
            r"unhandled cuda error|ncclUnhandledCudaError",
            "A CUDA error that NCCL passes on: mostly the card's memory was full, or an earlier kernel had failed.",
        ),
    )
    _SMALL_SHM = GIB

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        said = "\n".join(message.text for message in case.messages)
        meaning = next(
            (words for sign, words in self._MEANINGS if re.search(sign, said, re.IGNORECASE)),
            "NCCL says more of it when it is asked to.",
        )
        shm = value_of(case.machine.host.memory.shm_total)
        small = shm is not None and shm < self._SMALL_SHM
        yield self.finding(
            evidence=(
                *quotes[:QUOTES_SHOWN],
                *([f"shared memory is {format_bytes(shm)}"] if shm is not None and small else []),
            ),
            meaning=meaning,
            fix=self._fix(case, small),
        )

    @staticmethod
    def _fix(case: Case, small: bool) -> Iterator[str]:
        machine = case.machine
        yield (
            set_variable(machine, "NCCL_DEBUG=INFO") + "   # then read the first warning of the first rank that failed"
        )
        if small or container_kind(machine):
            yield "docker run --ipc=host …   # or --shm-size=8g: NCCL passes data through /dev/shm"
        yield (
            set_variable(machine, "NCCL_SOCKET_IFNAME=eth0")
            + "   # on several machines: the interface they share (ip addr)"
        )
        yield (
            set_variable(machine, "NCCL_P2P_DISABLE=1")
            + "   # to find out whether direct access between cards is at fault"
        )


class MixedDevices(FixedMessageRule):
    """Tensors on different devices meet in one operation.

    **Why it matters.** torch moves nothing by itself: model, inputs and every tensor that is made on the way must lie on
    the same device. Mostly a tensor was created without `device=`, or held as a plain attribute instead of a buffer, so
    that `model.to(device)` left it behind.

    **What to do.** Move inputs where the model is (`x.to(next(model.parameters()).device)`), create tensors with
    `device=x.device`, and register constants of a module with `register_buffer`.

    **Sources.** torch's own message; pytorch.org, torch.nn.Module.register_buffer.
    """

    code = "device-mixed"
    severity = "error"
    title = "Tensors on different devices meet in one operation"
    patterns = (
        r"Expected all tensors to be on the same device",
        r"Input type \(\S+\) and weight type \((?:torch\.)?\S+\) should be the same",
        r"indices should be either on cpu or on the same device",
    )
    meaning = "The machine is fine. One tensor lies on the CPU (or another card), the others elsewhere."
    fix = (
        "x = x.to(next(model.parameters()).device)   # inputs go where the model is",
        "torch.zeros(…, device=x.device)   # and so do tensors that are made on the way",
        "self.register_buffer('mask', mask)   # so that model.to(device) moves it too",
    )


class CheckpointDeviceMissing(FixedMessageRule):
    """A checkpoint that was saved on a GPU is loaded where there is none.

    **Why it matters.** torch.load puts each tensor where it was when it was saved. Without a usable GPU (or with fewer
    of them) that place does not exist.

    **What to do.** `torch.load(path, map_location=device)`. If a GPU should be here, look at the other findings first.

    **Sources.** torch/serialization.py (the words); pytorch.org, torch.load.
    """

    code = "checkpoint-cuda"
    severity = "error"
    title = "A checkpoint from a GPU is loaded where there is none"
    patterns = (
        r"Attempting to deserialize object on a CUDA\s+device but torch\.cuda\.is_available\(\) is False",
        r"Attempting to deserialize object on CUDA device \d+ but torch\.cuda\.device_count\(\) is \d+",
    )
    meaning = "The file says where its tensors were when it was saved, and that device is not here."
    fix = (
        "torch.load(path, map_location='cpu')   # or map_location=device",
        "If a GPU should be here: the other findings, or ownlab doctor on that machine, say why it is not seen.",
    )


class CudaAfterFork(FixedMessageRule):
    """A process that had used CUDA was forked, and its child used CUDA as well.

    **Why it matters.** CUDA does not survive fork(). Python's multiprocessing forks by default on Linux (before Python
    3.14), so a worker that touches the card after its parent did fails.

    **What to do.** Start workers with "spawn" before anything touches CUDA; in a DataLoader keep tensors on the CPU, or
    give it `multiprocessing_context="spawn"`. In notebooks, let nothing call `.cuda()` before the workers start.

    **Sources.** pytorch.org, "Multiprocessing best practices"; docs.python.org, multiprocessing, start methods.
    """

    code = "forked-cuda"
    severity = "error"
    title = "CUDA was used before a fork, and again after it"
    patterns = (r"Cannot re-initialize CUDA in forked subprocess",)
    meaning = "The parent process had started CUDA, and the worker that was forked from it cannot use it."
    fix = (
        "In code, before CUDA is touched: torch.multiprocessing.set_start_method('spawn')",
        "vLLM: export VLLM_WORKER_MULTIPROC_METHOD=spawn",
    )


class KvCacheTooSmall(FixedMessageRule):
    """vLLM (or a server like it) found too little free memory for its cache.

    **Why it matters.** vLLM reserves a share of the card (0.9 by default) when it starts. Model weights, other processes
    on the card and long contexts all count against that share; what is left becomes the cache, and there must be some.

    **What to do.** Free the card of other processes, lower the share, shorten the context, quantise the model, or spread
    it over several cards.

    **Sources.** docs.vllm.ai, "Conserving memory" and engine arguments.
    """

    code = "serving-memory"
    severity = "error"
    title = "The server has too little card memory for its cache"
    patterns = (
        r"No available memory for the cache blocks",
        r"Free memory on device .* is less than desired GPU memory utilization",
        r"The model's max seq len .* is larger than the maximum number of tokens that can be stored in KV cache",
        r"KV cache is needed, which is larger than the available KV cache memory",
    )
    meaning = "Weights, other processes and the context asked for leave no room for the cache in the reserved share."
    fix = (
        "See who else is on the card: nvidia-smi",
        "vllm serve … --max-model-len 8192 --gpu-memory-utilization 0.85   # less context; less share if others use the card",
        "Or spread it over cards: vllm serve … --tensor-parallel-size 2",
    )


class FlashAttentionUnsupported(MessageRule):
    """FlashAttention 2 was asked of a card before Ampere.

    **Why it matters.** FlashAttention 2 has kernels for compute capability 8.0 and newer. On Volta and Turing it refuses.

    **What to do.** Use PyTorch's own attention, which chooses a kernel that the card has, or xformers.

    **Sources.** Dao-AILab/flash-attention, README, requirements.
    """

    code = "flash-attention-card"
    severity = "error"
    title = "FlashAttention needs an Ampere card or newer"
    patterns = (r"FlashAttention only supports Ampere GPUs or newer",)

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if quotes:
            cards = [
                f"{card_name(card)}: compute capability {found}"
                for card in nvidia_cards(case.machine)
                if (found := capability(card))
            ]
            yield self.finding(
                evidence=(*quotes, *cards),
                meaning="Its kernels exist for compute capability 8.0 and newer; this card is older.",
                fix=(
                    "In transformers: from_pretrained(…, attn_implementation='sdpa')",
                    "vLLM: export VLLM_ATTENTION_BACKEND=XFORMERS",
                ),
            )


class BitsandbytesWithoutCuda(FixedMessageRule):
    """bitsandbytes was loaded without its CUDA library.

    **Why it matters.** bitsandbytes chooses its library by the CUDA version of torch. Where it finds none that fits, or
    where torch is a CPU build, it loads one for CPUs, and 8-bit or 4-bit models fail later.

    **What to do.** See that torch itself sees the card (`ownlab doctor`), then update bitsandbytes: old releases lack
    libraries for new CUDA versions.

    **Sources.** huggingface.co/docs/bitsandbytes, installation; bitsandbytes-foundation/bitsandbytes issues.
    """

    code = "bitsandbytes"
    severity = "error"
    title = "bitsandbytes works without its CUDA library"
    patterns = (
        r"bitsandbytes was compiled without GPU support",
        r"libbitsandbytes_cpu\.so: undefined symbol",
        r"CUDA Setup failed despite (?:GPU|CUDA) being available",
        r"Configured CUDA binary not found at .*libbitsandbytes",
        r"Required library version not found: libbitsandbytes",
    )
    meaning = "It found no library of its own for this torch's CUDA, and fell back on the one for CPUs."
    fix = ("pip install -U bitsandbytes", "python -m bitsandbytes   # what it looks for, and what it finds")
