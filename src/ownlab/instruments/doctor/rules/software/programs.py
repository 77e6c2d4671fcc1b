"""Rules on words of well-known programs: their cause lies in how they were started or built, not in the machine."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.queries import capability, card_name, nvidia_cards
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import SignRule, WordsRule
from ownlab.instruments.doctor.wheels import torch_command
from ownlab.machine.facts import value_of

__all__ = [
    "CompilerTooNew",
    "FlashAttentionCard",
    "ForkedCuda",
    "HostMemory",
    "ImageNeedsDriver",
    "ModuleMissing",
    "PtxTooNew",
    "QuantisationBuild",
    "ServingMemory",
]


class PtxTooNew(SignRule):
    """A program's PTX was made by a newer CUDA toolkit than this driver can compile.

    **Why it matters.** Machine code of any CUDA 12.x (13.x) runs on every driver of its family. PTX does not: the driver
    compiles it, and knows only what its own CUDA version knows. A kernel that was just compiled here (Triton, Numba, an
    extension built with a newer nvcc, a wheel with PTX alone for this card) then fails: "the provided PTX was compiled
    with an unsupported toolchain" (222).

    **What to do.** Update the driver to the one of that toolkit, or compile with a toolkit that is no newer than the
    `CUDA Version` that nvidia-smi shows; or install a build with machine code for the card.

    **Sources.** NVIDIA's CUDA compatibility guide, "minor version compatibility" and its limits.
    """

    code = "ptx-toolchain"
    severity = "error"
    title = "PTX was made by a newer CUDA than the driver knows"
    signs = (r"PTX was compiled with an unsupported toolchain", r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION")

    def examine(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        serves = value_of(case.machine.nvidia.cuda)
        nvcc = value_of(case.machine.toolkits.nvcc)
        seen = [f"the driver serves CUDA up to {serves}"] if serves else []
        seen += [f"nvcc is {nvcc}"] if nvcc else []
        yield self.found(
            evidence=(*quotes, *seen),
            meaning="The driver compiles PTX, and this PTX is of a CUDA version newer than its own. Machine code would run.",
            fix=(
                "Update the driver: the newest CUDA that it serves must be as new as the toolkit that made the PTX.",
                f"Or compile with CUDA {serves} or older."
                if serves
                else "Or compile with an older toolkit: nvidia-smi shows the newest that the driver knows.",
            ),
        )


class ForkedCuda(WordsRule):
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
    signs = (r"Cannot re-initialize CUDA in forked subprocess",)
    meaning = "The parent process had started CUDA, and the worker that was forked from it cannot use it."
    fix = (
        "In code, before CUDA is touched: torch.multiprocessing.set_start_method('spawn')",
        "vLLM: export VLLM_WORKER_MULTIPROC_METHOD=spawn",
    )


class ServingMemory(WordsRule):
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
    signs = (
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


class FlashAttentionCard(SignRule):
    """FlashAttention 2 was asked of a card before Ampere.

    **Why it matters.** FlashAttention 2 has kernels for compute capability 8.0 and newer. On Volta and Turing it refuses.

    **What to do.** Use PyTorch's own attention, which chooses a kernel that the card has, or xformers.

    **Sources.** Dao-AILab/flash-attention, README, requirements.
    """

    code = "flash-attention-card"
    severity = "error"
    title = "FlashAttention needs an Ampere card or newer"
    signs = (r"FlashAttention only supports Ampere GPUs or newer",)

    def examine(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if quotes:
            cards = [
                f"{card_name(card)}: compute capability {found}"
                for card in nvidia_cards(case.machine)
                if (found := capability(card))
            ]
            yield self.found(
                evidence=(*quotes, *cards),
                meaning="Its kernels exist for compute capability 8.0 and newer; this card is older.",
                fix=(
                    "In transformers: from_pretrained(…, attn_implementation='sdpa')",
                    "vLLM: export VLLM_ATTENTION_BACKEND=XFORMERS",
                ),
            )


class CompilerTooNew(SignRule):
    """The C++ compiler is newer than this nvcc allows.

    **Why it matters.** Each nvcc knows C++ compilers up to a version; with a newer one, building an extension stops:
    "unsupported GNU version! gcc versions later than 12 are not supported".

    **What to do.** Let nvcc use an older compiler, or install a newer toolkit. `-allow-unsupported-compiler` builds too,
    at one's own risk.

    **Sources.** NVIDIA CUDA installation guide for Linux, host compiler support.
    """

    code = "compiler-new"
    severity = "error"
    title = "The C++ compiler is too new for this nvcc"
    signs = (
        r"unsupported GNU version! gcc versions later than (?P<gcc>\d+)",
        r"unsupported clang version! clang version must be",
    )

    def examine(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        newest = next((match["gcc"] for _, match in self.signs_in(case) if match["gcc"]), None)
        version = newest or "N"
        yield self.found(
            evidence=quotes,
            meaning="nvcc refuses a compiler that it was not tested with; nothing is wrong with the card or the driver.",
            fix=(
                f"export CC=gcc-{version} CXX=g++-{version} NVCC_PREPEND_FLAGS='-ccbin g++-{version}'   # after installing them",
                "Or install a newer CUDA toolkit.",
            ),
        )


class ModuleMissing(SignRule):
    """A program imports a framework that its Python does not have.

    **Why it matters.** Mostly the framework is installed, in another environment than the one that runs the program: pip
    and python of different environments, a notebook kernel of its own, sudo.

    **What to do.** Install it with the very Python that runs the program: `PYTHON -m pip install …`.

    **Sources.** docs.python.org, "Installing Python modules".
    """

    code = "module-missing"
    severity = "error"
    title = "The program's Python does not have the framework"
    signs = (r"No module named '(?P<module>torch|tensorflow|jax|cupy|torchvision|torchaudio|torch_npu)'",)

    def examine(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        names = sorted({match["module"] for _, match in self.signs_in(case)})
        command = torch_command(case.machine) if "torch" in names else None
        yield self.found(
            title=f"The program's Python does not have {' and '.join(names)}",
            evidence=quotes,
            meaning="It may be installed in another environment than the one that runs this program.",
            fix=(
                "python -c 'import sys; print(sys.executable)'   # which Python runs the program; in a notebook: in a cell",
                f"python -m {command.replace('--force-reinstall ', '')}"
                if command
                else f"python -m pip install {' '.join(names)}",
            ),
        )


class ImageNeedsDriver(SignRule):
    """A container image asks for a newer driver than the host has, or the host's driver is not found for it.

    **Why it matters.** NVIDIA's images state the CUDA that they need (NVIDIA_REQUIRE_CUDA), and the container does not
    start where the host's driver does not serve it: "unsatisfied condition: cuda>=12.4".

    **What to do.** Update the host's driver, or take an image for an older CUDA. Data-centre cards can start with
    `NVIDIA_DISABLE_REQUIRE=1` and the image's compat libraries.

    **Sources.** NVIDIA Container Toolkit documentation, NVIDIA_REQUIRE_*.
    """

    code = "image-needs-driver"
    severity = "error"
    title = "The container image needs a newer driver than the host has"
    blocks = True
    signs = (
        r"nvidia-container-cli: requirement error: unsatisfied condition",
        r"nvidia-container-cli: initialization error: load library failed: libnvidia-ml\.so",
        r"nvidia-container-cli: initialization error: driver error",
    )

    def examine(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        too_old = any("unsatisfied condition" in quote for quote in quotes)
        yield self.found(
            title=None if too_old else "The container runtime finds no NVIDIA driver on the host",
            evidence=quotes,
            meaning="The host's driver serves an older CUDA than the image was made for."
            if too_old
            else "Containers use the host's driver, and there is none that its runtime can load.",
            fix=(
                "On the host: nvidia-smi   # which driver, and the newest CUDA that it serves",
                "Take an image for that CUDA (nvidia/cuda:12.2.2-… for CUDA 12.2), or update the host's driver."
                if too_old
                else "Install NVIDIA's driver on the host, and see that nvidia-smi works there first.",
            ),
        )


class QuantisationBuild(WordsRule):
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
    signs = (
        r"bitsandbytes was compiled without GPU support",
        r"libbitsandbytes_cpu\.so: undefined symbol",
        r"CUDA Setup failed despite (?:GPU|CUDA) being available",
        r"Configured CUDA binary not found at .*libbitsandbytes",
        r"Required library version not found: libbitsandbytes",
    )
    meaning = "It found no library of its own for this torch's CUDA, and fell back on the one for CPUs."
    fix = ("pip install -U bitsandbytes", "python -m bitsandbytes   # what it looks for, and what it finds")


class HostMemory(WordsRule):
    """The machine's own memory ran out, not the card's.

    **Why it matters.** "DefaultCPUAllocator: can't allocate memory" and "Cannot allocate memory" speak of RAM. Loading a
    checkpoint, a large batch in the loader, or many workers take it.

    **What to do.** Fewer workers, smaller batches in flight, load checkpoints with `mmap=True` or straight to the card.

    **Sources.** c10/core/CPUAllocator (the words); pytorch.org, torch.load.
    """

    code = "host-memory"
    severity = "error"
    title = "The machine's own memory ran out"
    signs = (r"DefaultCPUAllocator: (?:can't|not enough memory)", r"DefaultCPUAllocator: .*allocate memory")
    meaning = "This is the computer's memory (RAM), not the card's."
    fix = (
        "Fewer workers and smaller batches in the DataLoader; free what is no longer needed.",
        "Load checkpoints without a copy: torch.load(…, mmap=True, map_location='cuda')",
    )
