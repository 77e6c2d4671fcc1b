"""Rules about errors of CUDA at run time that are neither memory nor an index: launches, handles, crashes, number formats."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["RuntimeFailure", "UnfitLibrary"]


class RuntimeFailure(CauseRule):
    """A program failed on the card for a reason that its message names only by a short word.

    **Why it matters.** "invalid argument" or "Segmentation fault" say little. Most often two libraries of different versions
    meet, the build has no code for the card, or the program asks for more threads or registers than the card has.

    **What to do.** Find out which library fails, in a new environment with one framework; then the versions of that library.

    **Sources.** CUDA runtime API, error types; pytorch.org, CUDA semantics; docs.python.org, faulthandler.
    """

    code = "runtime-failure"
    severity = "error"
    title = text("A program failed on the card")
    causes = (
        Cause(
            r"too many resources requested for launch|cudaErrorLaunchOutOfResources|CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
            text("A kernel asks for more registers or shared memory than this card has"),
            text("The kernel was tuned for another card, or was compiled for debugging."),
            (
                text(
                    "Use a newer release of the extension, a smaller block or head size; the card works with other kernels."
                ),
            ),
        ),
        Cause(
            r"(?:THCudaCheck FAIL[^\n]{0,160}|Triton Error \[CUDA\]|(?:CUDA|cuda)(?: driver| runtime)? (?:error|failure)[^\n]{0,20}) ?: invalid (?:configuration argument|argument|resource handle|device symbol|device context|texture)|Error invalid configuration argument at line|cudaErrorInvalid(?:Value|Configuration|ResourceHandle|Symbol)\b|CUDA_ERROR_INVALID_(?:VALUE|HANDLE|CONTEXT)\b|Cuda failure '?invalid (?!device function|kernel image)",
            text(
                "A CUDA function got an invalid value: an empty batch, another card's handle, or libraries of different versions"
            ),
            text(
                "An extension passes something that this CUDA refuses: a tensor without elements, a stream or tensor of another card, or it was built for another torch, CUDA or card."
            ),
            (
                text(
                    "export CUDA_LAUNCH_BLOCKING=1   # the traceback then names the operation; look at its shapes and devices"
                ),
                text(
                    "With several cards: export CUDA_VISIBLE_DEVICES=0, to see whether it is about the card's number."
                ),
                text("If it is an extension: install its release for this torch and CUDA again."),
            ),
        ),
        Cause(
            r"does not support efficient float16|Requested (?:float16|int8_float16|bfloat16) compute type|A tensor with all NaNs was produced|probability tensor contains either|loss is nan[^\n]*fp16|video card does not support half type|does not support (?:FP16|half)",
            text("This card computes slowly or wrongly in float16"),
            text(
                "GTX 16 cards produce NaN in some models; Pascal and older cards have no fast float16, nor have CPUs."
            ),
            (
                text(
                    "faster-whisper, CTranslate2: compute_type='int8' or 'float32'; Stable Diffusion web UI: --no-half (or --no-half-vae), --precision full"
                ),
            ),
        ),
        Cause(
            r"Torch is not able to use GPU; add --skip-torch-cuda-test",
            text("The web UI finds no usable GPU: torch's build does not fit, or the driver is missing"),
            text(
                "torch was installed without CUDA, for a Python that has no CUDA build, for an NVIDIA card on an AMD machine, or the driver does not work."
            ),
            (
                text(
                    "nvidia-smi   # must work; then delete the folder venv, and start again with Python 3.10, so that torch is installed anew"
                ),
                text(
                    "AMD: the web UI's fork for ROCm (Linux), ZLUDA or DirectML (Windows). Without a GPU: --skip-torch-cuda-test --use-cpu all --no-half"
                ),
            ),
        ),
        Cause(
            r"CUBLAS error\(\d+\)|\(External\) ?(?:CUBLAS|CUDNN|CUDA) error|ExternalError: ?(?:CUBLAS|CUDNN|CUDA)|Paddle[^\n]*compiled with CUDA[^\n]*(?:but|driver)|PreconditionNotMet[^\n]*(?:library|libcu)",
            text("Paddle's CUDA does not fit this driver or card, or the card's memory is full"),
            text("Each Paddle package is for one CUDA and its cuDNN, which the driver must support."),
            (
                text(
                    "python -c 'import paddle; paddle.utils.run_check()'; nvidia-smi   # its CUDA version must be at least Paddle's"
                ),
                text("Install the paddlepaddle-gpu for that CUDA: https://www.paddlepaddle.org.cn/install/quick"),
            ),
        ),
        Cause(
            r"(?:cuSolver|CUSOLVER|cusolver)\w*[^\n]*(?:internal error|failed)|gpusolver\w+Create|gpu_?solver[^\n]*fail|No registered implementation for (?:FFI )?custom call|no supported devices found for platform CUDA|Failed to execute XLA Runtime executable",
            text(
                "JAX's library of linear algebra did not start: the card's memory is full, or its plug-in does not fit"
            ),
            text("JAX takes three quarters of the card's memory at its start; cuSOLVER needs some beside it."),
            (
                text(
                    "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.6   # or XLA_PYTHON_CLIENT_PREALLOCATE=false; end other programs on the card"
                ),
                text(
                    "pip install -U 'jax[cuda12]'   # jax, jaxlib and plug-in of one version; without CUDA's folders on LD_LIBRARY_PATH"
                ),
            ),
        ),
        Cause(
            r"Unsupported SM: 0x|caskUtils|Target GPU SM \d+ is not supported by this TensorRT",
            text("This TensorRT does not support the card"),
            text(
                "TensorRT is newer than the card's last release (Kepler: 8.4, Maxwell and Pascal: 8.6 to 10.x), or older than the card."
            ),
            (
                text(
                    "Install the TensorRT release that supports this card (its support matrix), and build the engine again."
                ),
            ),
        ),
        Cause(
            r"MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeader\w*|SafetensorError|PytorchStreamReader failed|file in archive is not in a subdirectory|failed finding central directory|invalid magic (?:number|characters)|unexpected EOF[^\n]*(?:corrupt|expected)|file is (?:truncated|corrupt)|tensor '?[\w.]+'? data is not within the file bounds|(?:model|checkpoint|weights?) file[^\n]*(?:corrupt|truncated|incomplete)|invalid load key",
            text("A model file is incomplete or is no model: the download was cut short, or is a pointer of Git LFS"),
            text(
                "The file ends before its contents do, or contains a web page or a few lines of text. The card is not concerned."
            ),
            (
                text(
                    "ls -l FILE; head -c 200 FILE   # compare the size with the source; “version https://git-lfs” is a pointer: git lfs pull"
                ),
                text(
                    "Delete the file (and its copy in ~/.cache/huggingface) and download it again; df -h shows whether the disk was full."
                ),
            ),
        ),
        Cause(
            r"PhysX Internal CUDA error|PhysX error: GPU|PxgCudaDevice|Gym cuda error: (?!no kernel)",
            text(
                "The simulator's physics failed on the card: its memory is full, or the driver does not fit the simulator"
            ),
            text("PhysX needs memory beside the renderer, and simulators name the drivers that they were tested with."),
            (
                text(
                    "nvidia-smi   # memory; use fewer environments, or larger buffers (gpu_max_rigid_contact_count) if the message names one"
                ),
                text("Install a driver that the simulator's documentation names."),
            ),
        ),
    )


class UnfitLibrary(CauseRule):
    """A compiled package crashes, or does not fit a library that it is loaded with; no other rule knows which.

    **Why it matters.** The loader's words ("undefined symbol", "cannot open shared object file") and a crash look the same for
    every library. The name in the message says which one it is.

    **What to do.** Reinstall the package that fails for the installed versions, in a new environment if several are concerned.

    **Sources.** ld.so(8); docs.python.org, faulthandler; c++filt(1).
    """

    code = "unfit-library"
    severity = "error"
    title = text("A compiled package does not fit the libraries here")
    last_resort = True
    causes = (
        Cause(
            r"\.so[\w.]*: undefined symbol: \S+|\.so[\w.]*: undefined symbol\b|symbol lookup error|\.so[\w.]*: symbol \S+ version \S+ not defined",
            text("A compiled package does not fit the library that it is loaded with"),
            text("It was built for another release of torch, CUDA, NumPy or of the system's library in the message."),
            (
                text(
                    "c++filt SYMBOL   # names the function; at::, c10:: or torch:: is torch: install the package for the installed torch again"
                ),
                text(
                    "pip install --force-reinstall --no-cache-dir --no-deps PACKAGE   # with --no-build-isolation if it is compiled here"
                ),
                text(
                    "ldd FILE.so   # shows which libraries are found; env -u LD_LIBRARY_PATH python …, to see whether another copy is found first"
                ),
            ),
        ),
        Cause(
            r"\blib(?!cu|nv|nccl|mkl|tpu)[\w.+-]+\.so[\w.]*: cannot open shared object",
            text("A library that the program needs was not found"),
            text(
                "The loader finds no file of exactly this name: it is not installed, has another version, or its folder is not searched."
            ),
            (
                text("find / -name 'LIBRARY*' 2>/dev/null; ldconfig -p | grep LIBRARY   # the name in the message"),
                text(
                    "If it is there: export LD_LIBRARY_PATH=FOLDER:$LD_LIBRARY_PATH; else install its package (Debian, Ubuntu: apt-file search LIBRARY; Fedora: dnf provides '*/LIBRARY'; in conda: conda search)."
                ),
            ),
        ),
        Cause(
            r"\bSegmentation fault\b|\bSIGSEGV\b|exit code 139\b|double free or corruption|free\(\): invalid (?:pointer|size)|malloc\(\): \w|munmap_chunk\(\): invalid",
            text("The program crashed: usually compiled packages that do not belong together"),
            text(
                "A package was built for another torch, NumPy, Python or CUDA; or two copies of OpenMP or CUDA libraries meet. Rarely it is the driver or bad memory."
            ),
            (
                text("python -X faulthandler PROGRAM   # shows the line where it crashes"),
                text(
                    "Import the packages one after the other: python -c 'import torch'; python -c 'import torch, OTHER'   # the one that crashes must be reinstalled for this torch"
                ),
                text("Or a new environment with only what the program needs."),
            ),
        ),
    )
