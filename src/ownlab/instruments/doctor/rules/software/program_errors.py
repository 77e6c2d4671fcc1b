"""Rules about errors of programs, as people paste them: usually the machine works, and the program is at fault."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.instruments.doctor.queries import capability, card_name, container_kind, nvidia_cards, variable
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import set_variable
from ownlab.instruments.doctor.rule import QUOTES_SHOWN, FixedMessageRule, MessageRule
from ownlab.machine.facts import value_of
from ownlab.text import text
from ownlab.units import GIB, format_bytes

__all__ = [
    "BitsandbytesWithoutCuda",
    "CheckpointDeviceMissing",
    "CublasError",
    "CudaAfterFork",
    "DeviceAssert",
    "FlashAttentionUnsupported",
    "KvCacheTooSmall",
    "MixedDevices",
    "NcclError",
]


class DeviceAssert(MessageRule):
    """A check inside a kernel failed on the card: usually a label or an index is out of range.

    **Why it matters.** Kernels check their indices, and one was wrong: a class label as large as the number of classes (or
    -1), a token beyond the vocabulary, a position beyond the longest sequence. The CUDA context is lost with it:
    everything after it in the same process fails too. The traceback often points at a later, unrelated line, because
    kernels run asynchronously.

    **What to do.** Run the same step once on the CPU: there the error names the index. Or set `CUDA_LAUNCH_BLOCKING=1`
    before Python starts, so that the traceback points at the right line. Then restart the process (the notebook's kernel).

    **Sources.** torch's own message; pytorch.org, CUDA semantics, "Asynchronous execution".
    """

    code = "device-assert"
    severity = "error"
    title = text("A check inside a kernel failed: usually an index or a label is out of range")
    patterns = (
        r"device-side assert triggered",
        r"cudaErrorAssert\b",
        r"Assertion `[^`']*(?:t >= 0 && t < n_classes|srcIndex < srcSelectDimSize|index out of bounds)[^`']*` failed|block: \[\d+, ?\d+, ?\d+\], thread: \[\d+, ?\d+, ?\d+\] Assertion|Assertion `(?:input_val|idx_dim|srcIndex|ind >=|index >=|cur_target|target_val|probability tensor)[^`']*` failed",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if quotes:
            yield self.finding(
                evidence=quotes[:QUOTES_SHOWN],
                meaning=text(
                    "The card works. A value used as an index or a class label was out of range. The CUDA context is lost:"
                    " everything that follows in the same process fails too."
                ),
                fix=(
                    text("Run one step on the CPU (device='cpu'): there the error names the index."),
                    text(
                        "{command}   # before Python starts: the traceback then points at the right line",
                        command=set_variable(case.machine, "CUDA_LAUNCH_BLOCKING=1"),
                    ),
                    text("Check labels: 0 <= label < number of classes; tokens: 0 <= id < size of the vocabulary."),
                    text("Restart the process (the notebook's kernel) before the next try."),
                ),
            )


class CublasError(MessageRule):
    """cuBLAS, which multiplies matrices on the card, could not start or failed.

    **Why it matters.** `NOT_INITIALIZED` and `ALLOC_FAILED` usually mean that the card's memory was full when cuBLAS
    allocated its workspace, or that an earlier index error had already broken the CUDA context. `EXECUTION_FAILED` and
    `INVALID_VALUE` with correct shapes indicate that another libcublas than torch's own was loaded, through
    LD_LIBRARY_PATH.

    **What to do.** Watch the card's memory and use a smaller batch. Run once on the CPU to see an index error. Try without
    LD_LIBRARY_PATH.

    **Sources.** NVIDIA, cuBLAS, cublasStatus_t; EleutherAI/lm-evaluation-harness#1689; tensorflow/tensorflow#9489.
    """

    code = "cublas"
    severity = "error"
    title = text("cuBLAS could not start, or failed")
    patterns = (r"CUBLAS_STATUS_(?P<status>[A-Z_]+)", r"cublas runtime error : (?P<old>[a-zA-Z ]{5,60})")

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        statuses = {match["status"].upper() for _, match in self.matches(case) if match["status"]}
        not_started = bool(statuses & {"NOT_INITIALIZED", "ALLOC_FAILED"})
        path = variable(case.machine, "LD_LIBRARY_PATH")
        yield self.finding(
            title=text("cuBLAS could not start: usually the card's memory was full")
            if not_started
            else text("cuBLAS failed"),
            evidence=(*quotes[:QUOTES_SHOWN], *([f"LD_LIBRARY_PATH={path}"] if path else [])),
            meaning=text(
                "The card's memory was full when cuBLAS allocated its workspace, or an earlier error (an index out of range)"
                " had already broken the CUDA context."
            )
            if not_started
            else text(
                "The shapes or types do not match, an earlier error broke the CUDA context, or another libcublas than the"
                " framework's own was loaded."
            ),
            fix=(
                text(
                    "nvidia-smi   # shows how much of the card's memory is in use, and by whom; then use a smaller batch"
                ),
                text("Run one step on the CPU (device='cpu'): there the error names a wrong index or shape."),
                text("env -u LD_LIBRARY_PATH python …   # if that helps, another libcublas was loaded"),
                text(
                    "An old torch on a newer card fails the same way: compare torch.cuda.get_arch_list() with the card."
                ),
            ),
        )


class NcclError(MessageRule):
    """NCCL, through which cards communicate, failed or timed out.

    **Why it matters.** "Unhandled system error" is a problem of the network or shared memory: the wrong interface, a
    blocked port, a small /dev/shm. "Unhandled cuda error" is a CUDA error that NCCL reports late. "Remote process exited"
    and a watchdog timeout mean that another rank died or executed another operation: its log contains the real error.

    **What to do.** Run with `NCCL_DEBUG=INFO` and read the first warning of the first rank that failed. In containers use
    `--ipc=host` (or `--shm-size`). On several machines set the interface with `NCCL_SOCKET_IFNAME`. To find out whether
    direct access between cards is the cause: `NCCL_P2P_DISABLE=1`.

    **Sources.** NVIDIA, NCCL user guide, "Troubleshooting" and "Environment variables"; torch,
    ProcessGroupNCCL.cpp (the messages).
    """

    code = "nccl"
    severity = "error"
    title = text("NCCL failed: cards could not communicate")
    patterns = (
        r"NCCL error",
        r"ncclSystemError|ncclUnhandledCudaError|ncclInternalError|ncclRemoteError|ncclInvalidUsage",
        r"Watchdog caught collective operation timeout",
        r"Some NCCL operations have failed or timed out|NCCL communicator was aborted|NCCL failure ?:|failed to pass monitoredBarrier|Monitored[Bb]arrier[^\n]*(?:timed out|timeout)",
    )
    _MEANINGS = (
        (
            r"Watchdog caught|timed out|ncclRemoteError|remote process exited",
            text("Another rank died, or did not reach the same operation: its own log contains the real error."),
        ),
        (
            r"unhandled system error|ncclSystemError",
            text("The network or shared memory failed: the wrong interface, a blocked port, or a small /dev/shm."),
        ),
        (
            r"unhandled cuda error|ncclUnhandledCudaError",
            text("NCCL passes on a CUDA error: usually the card's memory was full, or an earlier kernel had failed."),
        ),
    )
    _SMALL_SHM = GIB

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        output = "\n".join(message.text for message in case.messages)
        meaning = next(
            (meaning for pattern, meaning in self._MEANINGS if re.search(pattern, output, re.IGNORECASE)),
            text("NCCL prints details with NCCL_DEBUG=INFO."),
        )
        shm = value_of(case.machine.host.memory.shm_total)
        small = shm is not None and shm < self._SMALL_SHM
        yield self.finding(
            evidence=(
                *quotes[:QUOTES_SHOWN],
                *(
                    [text("size of the shared memory: {size}", size=format_bytes(shm))]
                    if shm is not None and small
                    else []
                ),
            ),
            meaning=meaning,
            fix=self._fix(case, small),
        )

    @staticmethod
    def _fix(case: Case, small: bool) -> Iterator[str]:
        machine = case.machine
        yield text(
            "{command}   # then read the first warning of the first rank that failed",
            command=set_variable(machine, "NCCL_DEBUG=INFO"),
        )
        if small or container_kind(machine):
            yield text("docker run --ipc=host …   # or --shm-size=8g: NCCL passes data through /dev/shm")
        yield text(
            "{command}   # on several machines: the interface they share (ip addr)",
            command=set_variable(machine, "NCCL_SOCKET_IFNAME=eth0"),
        )
        yield text(
            "{command}   # to find out whether direct access between cards is the cause",
            command=set_variable(machine, "NCCL_P2P_DISABLE=1"),
        )


class MixedDevices(FixedMessageRule):
    """One operation uses tensors on different devices.

    **Why it matters.** torch does not move tensors by itself: the model, the inputs and every tensor created on the way
    must be on the same device. Usually a tensor was created without `device=`, or is a plain attribute instead of a
    buffer, so that `model.to(device)` did not move it.

    **What to do.** Move inputs to the model's device (`x.to(next(model.parameters()).device)`), create tensors with
    `device=x.device`, and register constants of a module with `register_buffer`.

    **Sources.** torch's own message; pytorch.org, torch.nn.Module.register_buffer.
    """

    code = "device-mixed"
    severity = "error"
    title = text("One operation uses tensors on different devices")
    patterns = (
        r"Expected all tensors to be on the same device|set the storage of a tensor on device \S+ to a storage on different device",
        r"Input type \(\S+\) and weight type \((?:torch\.)?\S+\) should be the same",
        r"indices should be either on cpu or on the same device|module must have its parameters and buffers on device|found one of them on device: cpu",
    )
    meaning = text("The machine works. One tensor is on the CPU (or another card), the others are elsewhere.")
    fix = (
        text("x = x.to(next(model.parameters()).device)   # move inputs to the model's device"),
        text("torch.zeros(…, device=x.device)   # and create tensors there"),
        text("self.register_buffer('mask', mask)   # so that model.to(device) moves it too"),
    )


class CheckpointDeviceMissing(FixedMessageRule):
    """A checkpoint saved on a GPU is loaded on a machine without that GPU.

    **Why it matters.** torch.load puts each tensor on the device on which it was saved. Without a usable GPU (or with
    fewer of them) that device does not exist.

    **What to do.** `torch.load(path, map_location=device)`. If the machine should have a GPU, check the other findings
    first.

    **Sources.** torch/serialization.py (the message); pytorch.org, torch.load.
    """

    code = "checkpoint-cuda"
    severity = "error"
    title = text("A checkpoint saved on a GPU is loaded without that GPU")
    patterns = (
        r"Attempting to deserialize object on a CUDA\s+device but torch\.cuda\.is_available\(\) is False",
        r"Attempting to deserialize object on CUDA device \d+ but torch\.cuda\.device_count\(\) is \d+",
    )
    meaning = text("The file records the device of its tensors, and that device does not exist here.")
    fix = (
        text("torch.load(path, map_location='cpu')   # or map_location=device"),
        text(
            "If there should be a GPU: torch is often a build without CUDA (python -c 'import torch; print(torch.version.cuda)' prints None),"
            " or the container was started without --gpus all."
        ),
    )


class CudaAfterFork(FixedMessageRule):
    """A process used CUDA and was then forked, and its child used CUDA as well.

    **Why it matters.** CUDA does not work after fork(). Python's multiprocessing forks by default on Linux (before Python
    3.14), so a worker that uses the card after its parent did fails.

    **What to do.** Start workers with "spawn" before the program uses CUDA; in a DataLoader keep tensors on the CPU, or
    pass `multiprocessing_context="spawn"`. In notebooks, do not call `.cuda()` before the workers start.

    **Sources.** pytorch.org, "Multiprocessing best practices"; docs.python.org, multiprocessing, start methods.
    """

    code = "forked-cuda"
    severity = "error"
    title = text("CUDA was used before a fork, and again after it")
    patterns = (r"Cannot re-initialize CUDA in forked subprocess",)
    meaning = text("The parent process had started CUDA, so the worker forked from it cannot use it.")
    fix = (
        text("In code, before the first use of CUDA: torch.multiprocessing.set_start_method('spawn')"),
        text("vLLM: export VLLM_WORKER_MULTIPROC_METHOD=spawn"),
    )


class KvCacheTooSmall(FixedMessageRule):
    """vLLM (or a similar server) found too little free memory for its cache.

    **Why it matters.** vLLM reserves a share of the card (0.9 by default) when it starts. Model weights, other processes
    on the card and long contexts all reduce what is left of that share for the cache, and the cache needs some.

    **What to do.** Stop other processes on the card, lower the share, shorten the context, quantise the model, or spread
    it over several cards.

    **Sources.** docs.vllm.ai, "Conserving memory" and engine arguments.
    """

    code = "serving-memory"
    severity = "error"
    title = text("The server has too little card memory for its cache")
    patterns = (
        r"No available memory for the cache blocks|Error in memory profiling\. Initial free memory",
        r"Free memory on device .* is less than desired GPU memory utilization",
        r"The model's max seq len .* is larger than the maximum number of tokens that can be stored in KV cache",
        r"KV cache is needed, which is larger than the available KV cache memory",
    )
    meaning = text(
        "Weights, other processes and the requested context leave no room for the cache in the reserved share."
    )
    fix = (
        text("Check who else uses the card: nvidia-smi"),
        text(
            "vllm serve … --max-model-len 8192 --gpu-memory-utilization 0.85"
            "   # less context; a lower share if others use the card"
        ),
        text("Or spread it over several cards: vllm serve … --tensor-parallel-size 2"),
    )


class FlashAttentionUnsupported(MessageRule):
    """FlashAttention 2 was requested on a card older than Ampere.

    **Why it matters.** FlashAttention 2 has kernels for compute capability 8.0 and newer. On Volta and Turing it refuses
    to run.

    **What to do.** Use PyTorch's own attention, which chooses a kernel that the card supports, or xformers.

    **Sources.** Dao-AILab/flash-attention, README, requirements.
    """

    code = "flash-attention-card"
    severity = "error"
    title = text("FlashAttention needs an Ampere card or newer")
    patterns = (r"FlashAttention only supports Ampere GPUs or newer",)

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if quotes:
            cards = [
                text("{card}: compute capability {number}", card=card_name(card), number=number)
                for card in nvidia_cards(case.machine)
                if (number := capability(card))
            ]
            yield self.finding(
                evidence=(*quotes, *cards),
                meaning=text("Its kernels need compute capability 8.0 or newer; this card is older."),
                fix=(
                    text("In transformers: from_pretrained(…, attn_implementation='sdpa')"),
                    text("vLLM: export VLLM_ATTENTION_BACKEND=XFORMERS"),
                ),
            )


class BitsandbytesWithoutCuda(FixedMessageRule):
    """bitsandbytes was loaded without its CUDA library.

    **Why it matters.** bitsandbytes chooses its library by the CUDA version of torch. If it finds none that matches, or if
    torch is a CPU build, it loads its CPU library, and 8-bit or 4-bit models fail later.

    **What to do.** Check that torch itself sees the card (`ownlab doctor`), then update bitsandbytes: old releases lack
    libraries for new CUDA versions.

    **Sources.** huggingface.co/docs/bitsandbytes, installation; bitsandbytes-foundation/bitsandbytes issues.
    """

    code = "bitsandbytes"
    severity = "error"
    title = text("bitsandbytes runs without its CUDA library")
    patterns = (
        r"bitsandbytes was compiled without GPU support|CUDA SETUP: CUDA detection failed|cquantize_blockwise",
        r"(?:requires|install)[^\n]*latest version of bitsandbytes",
        r"libbitsandbytes_cpu\.so: undefined symbol|Error [^\n]{3,60} at line \d+ in file \S*ops\.cu",
        r"CUDA Setup failed despite (?:GPU|CUDA) being available|libbitsandbytes\S*: undefined symbol",
        r"Configured CUDA binary not found at .*libbitsandbytes|Failed to import transformers\.integrations\.bitsandbytes",
        r"Required library version not found: libbitsandbytes|No libcudart\.so found|cublasLt ran into an error|cuBLAS API failed with status|CUDA_SETUP[^\n]*|libcudart\.so not found in any|directories listed in your path were found to be non-existent|Could not load library libbitsandbytes|libbitsandbytes_\w+\.(?:so|dll)[^\n]*(?:not found|cannot open|No such file)|bitsandbytes[^\n]*(?:not compiled|no GPU|without (?:CUDA|GPU)|CUDA Setup failed)",
    )
    meaning = text("It found no library for this torch's CUDA version, and loaded its CPU library instead.")
    fix = (
        "pip install -U bitsandbytes",
        text("python -m bitsandbytes   # shows what it looks for, and what it finds"),
    )
