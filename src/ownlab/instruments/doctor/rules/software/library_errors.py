"""Rules about errors of CUDA's libraries, stub libraries, and programs that ask for more devices than there are."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule, cuda_error
from ownlab.text import text

__all__ = ["AppleGpuLimits", "CudaLibraryError", "DeviceRequest", "LaunchTimeout", "ShadowedCudaLibrary"]


class CudaLibraryError(CauseRule):
    """cuDNN, cuFFT or cuSOLVER failed inside a program.

    **Why it matters.** These libraries report few reasons. Most often the card's memory was full, another version of the
    library was loaded than torch's own, or the build is too old for the card (GeForce 40 and newer with CUDA before 11.8).

    **What to do.** Look at memory first, then at LD_LIBRARY_PATH, then at the versions of card and build.

    **Sources.** NVIDIA cuDNN API, status codes; pytorch#88038 (cuFFT on Ada); pytorch.org forums.
    """

    code = "cuda-library"
    severity = "error"
    title = text("A library of CUDA failed")
    causes = (
        Cause(
            r"CUFFT_INTERNAL_ERROR|cuFFT error",
            text("cuFFT failed: the build's CUDA is too old for this card, or memory is full"),
            text(
                "cuFFT of CUDA before 11.8 has no code for GeForce 40 and Hopper cards, and fails with an internal error."
            ),
            (
                text(
                    "Install a torch built with CUDA 11.8 or newer, which the driver supports: https://pytorch.org/get-started/locally/"
                ),
                text("If the build is newer: nvidia-smi shows whether memory is full; then use a smaller batch."),
            ),
        ),
        Cause(
            r"CUDNN_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED|INTERNAL_ERROR|MAPPING_ERROR|EXECUTION_FAILED|BAD_PARAM|NOT_SUPPORTED|RUNTIME\w*)|cuDNN error: |No algorithm worked!|Unable to find a valid cuDNN algorithm|unable to find an engine to execute this computation|cudnn\S* (?:handle|launch) fail|CUDNN error executing \w+|CUDNN_STATUS_(?:NOT_SUPPORTED|INTERNAL)\w+|cuDNN (?:Frontend )?[Ee]rror\b",
            text("cuDNN failed: usually the card's memory was full, or another cuDNN was loaded"),
            text(
                "cuDNN reports this if it gets no memory for its work, if its files have different versions (a system cuDNN on the loader's path), if the driver is too old, or if the card is not supported by it."
            ),
            (
                text("nvidia-smi   # is memory full? End other programs, use a smaller batch"),
                text("env -u LD_LIBRARY_PATH python …   # if that helps, a system cuDNN was found before torch's own"),
                text(
                    "Compare card and build: python -c 'import torch; print(torch.__version__, torch.backends.cudnn.version(), torch.cuda.get_device_name())'"
                ),
                text("An old driver: update it. To see whether it is cuDNN: torch.backends.cudnn.enabled = False"),
            ),
        ),
        Cause(
            r"CUSOLVER_STATUS_\w+|cusolver error|CURAND_STATUS_\w+|CUSPARSE_STATUS_\w+|cusparse error|curand error",
            text(
                "A mathematical library of CUDA failed: usually the card's memory was full, or another version was loaded"
            ),
            text("The handle of the library could not be made, or its files have different versions."),
            (
                text("nvidia-smi   # is memory full? End other programs, use a smaller batch"),
                text(
                    "env -u LD_LIBRARY_PATH python …   # if that helps, a system library was found before torch's own"
                ),
                text("Linear algebra: torch.backends.cuda.preferred_linalg_library('magma')"),
            ),
        ),
    )


class ShadowedCudaLibrary(CauseRule):
    """A CUDA library of another version, or a stub, is loaded instead of the right one.

    **Why it matters.** A toolkit on LD_LIBRARY_PATH, a leftover in /usr/lib or conda's copy is found before the library that
    the framework was built with. The stubs folder of the toolkit contains a libcuda that only serves to link.

    **What to do.** Take toolkit folders out of LD_LIBRARY_PATH; keep stubs for building only.

    **Sources.** ld.so(8); CUDA runtime API, cudaErrorStubLibrary (34); pytorch#88869.
    """

    code = "cuda-shadow"
    severity = "error"
    title = text("Another version of a CUDA library is found first")
    causes = (
        Cause(
            r"/stubs/lib(?:cuda|nvidia-ml)\.so[\w.]*[:,]|driver missing function: cu\w+|NUMBA(?:PRO)?_CUDA_DRIVER=\S*(?:cudart|stubs)|CUDA driver is a stub library|cudaErrorStubLibrary|CUDA_ERROR_STUB_LIBRARY|You should always run with libnvidia-ml\.so that is installed with your NVIDIA Display Driver",
            text("The toolkit's stub of the driver, or another library, is loaded instead of the driver's libcuda"),
            text(
                "The folder lib64/stubs is on the loader's path (or its libcuda was copied). It serves to link programs, not to run them."
            ),
            (
                text(
                    "Remove …/stubs from LD_LIBRARY_PATH and /etc/ld.so.conf.d; sudo ldconfig; check: ldconfig -p | grep -E 'libcuda.so|libnvidia-ml'"
                ),
                text(
                    "unset NUMBA_CUDA_DRIVER NUMBAPRO_CUDA_DRIVER   # they must name libcuda.so.1 itself, not libcudart"
                ),
                text(
                    "In a container: start it with the card (docker run --gpus all …), which brings the driver's own library."
                ),
            ),
        ),
        Cause(
            r"JitifyException: Runtime compilation failed|libnvrtc-builtins\.so[^\n]*(?:cannot open|failed to open)|nvrtc: error: failed to open libnvrtc-builtins",
            text("nvrtc, CUDA's compiler at run time, meets parts of another CUDA version"),
            text(
                "libnvrtc loads libnvrtc-builtins of exactly its version. With two CUDA toolkits on the loader's path it finds the other one."
            ),
            (
                text(
                    "env -u LD_LIBRARY_PATH -u CUDA_PATH python …   # if that helps: keep one CUDA only on PATH, LD_LIBRARY_PATH and in CUDA_PATH"
                ),
                text(
                    "CuPy: python -c 'import cupy; cupy.show_config()'; one package, for that CUDA (cupy-cuda11x, cupy-cuda12x)"
                ),
            ),
        ),
        Cause(
            r"libcublas\.so\S*: undefined reference to .?cublasLt",
            text("The linker finds libcublasLt of another CUDA version than libcublas"),
            text(
                "The toolkit's link libcublasLt.so.11 (or .12) is missing or leads to another release, or another folder is searched first."
            ),
            (
                text("ls -l /usr/local/cuda/lib64/libcublas*; ldconfig -p | grep cublasLt   # all of one version"),
                text(
                    "Make the link anew: cd /usr/local/cuda-X.Y/lib64; sudo ln -sf libcublasLt.so.FULL_VERSION libcublasLt.so.11; sudo ldconfig; or install the toolkit's libcublas package again"
                ),
            ),
        ),
        Cause(
            r"lib(?:cublas\w*|cusparse\w*|cusolver\w*|cufft\w*|curand|cudart|nvrtc|nccl|nvJitLink|cupti)\.so\S*: (?:undefined symbol|symbol \S+ version)|undefined symbol: (?:cublas|cusparse|cusolver|cufft|cuda[A-Z]|nvrtc|__nv)\w*|version `?lib(?:cublas|cudart|nvJitLink|cusparse)\S* not (?:found|defined)",
            text("A CUDA library of another version is found before the framework's own"),
            text(
                "Two copies of CUDA's libraries are mixed: one of a toolkit (LD_LIBRARY_PATH, /usr/lib, conda), one of the framework's wheel."
            ),
            (
                text("env -u LD_LIBRARY_PATH python …   # if that helps, remove CUDA's folders from LD_LIBRARY_PATH"),
                text(
                    "If both lie in one environment (find $CONDA_PREFIX -name 'libcublas*'): move the older copy away (often that in torch/lib), or take all packages from one channel."
                ),
                text(
                    "Else reinstall the framework's libraries: pip list | grep nvidia; pip install --force-reinstall torch   # CuPy: one package, for the installed CUDA"
                ),
            ),
        ),
        Cause(
            r"lib(?:cublas|cudnn|cufft|curand|nvrtc|cusparse|cusolver|nccl)\.so\.\*\[0-9\]\S* not found in the system path",
            text("torch's CUDA libraries, which come as packages of their own, are missing"),
            text(
                "torch's wheel loads CUDA from the packages nvidia-cublas, nvidia-cudnn and so on. They were not installed (--no-deps), were removed, or lie in another folder than torch."
            ),
            (
                text(
                    "pip uninstall -y torch; pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/cuXYZ   # with the cuXYZ of the installed torch, with its dependencies"
                ),
            ),
        ),
        Cause(
            r"lib(?:c10(?:_cuda)?|torch(?:_cuda|_cpu|_python)?|shm|caffe2\w*)\.so: cannot open shared object",
            text("An extension does not find torch's libraries"),
            text(
                "The extension was built for a torch that has other libraries (another release or a CPU build), or is imported before torch."
            ),
            (
                text("Import torch first: import torch; then the extension."),
                text(
                    "If it remains: reinstall the extension for the installed torch; libc10_cuda and libtorch_cuda exist only in CUDA builds of torch."
                ),
            ),
        ),
    )


class DeviceRequest(CauseRule):
    """A program asks for more devices, or another kind, than it sees.

    **Why it matters.** The machine works; the program was started for another one.

    **What to do.** Ask for at most as many devices as the program sees, or for the CPU.

    **Sources.** vLLM, parallel configuration; transformers TrainingArguments; accelerate configuration.
    """

    code = "device-request"
    severity = "error"
    title = text("The program asks for devices that it does not see")
    causes = (
        Cause(
            r"(?:Tensor|Pipeline|tensor|world)[- _]?(?:parallel)?[- _]?size \(?\d+\)?[^\n]*(?:cannot be|larger|exceed|greater|more)[^\n]*(?:GPUs?|devices?)|(?:requires?|requested|needs?) \d+ (?:GPUs?|devices?),? but (?:only )?(?:found|have|got|\d)|You requested gpus?: \[[^\]]*\]\s*But your machine only has: \[\d|nproc[-_]per[-_]node[^\n]*(?:exceed|greater)|MisconfigurationException[^\n]*gpu",
            text("The program asks for more cards than it sees"),
            text(
                "The number of cards or processes in the configuration is larger than what this machine (or CUDA_VISIBLE_DEVICES) offers."
            ),
            (
                text(
                    "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES; then set the number (tensor-parallel-size, nproc_per_node, gpus) to at most that."
                ),
            ),
        ),
        Cause(
            r"machine only has: \[\]|\b(?:CUDA|GPU)s?(?: devices?| support| acceleration| backend)? (?:is|are|was) (?:currently )?(?:not available|unavailable|not usable)\b|GPU available: False|FP16 is not supported on CPU|default(?:ing)? to (?:the )?CPU|Neither CUDA nor MPS are available|running on (?:the )?CPU instead|Accelerator can not run on your system|8-bit operations on \S+ are not supported under CPU|CUDA is required but not available|CUDA is not available,? (?:using|falling|disabling)|but CUDA is not available|CUDA unavailable, invalid device|Invalid CUDA 'device=|No GPU/CUDA support|Expected a '?cuda'? device[^\n]*(?:but got|found) '?:? ?'?cpu|Failed to infer device type|fp16 mixed precision requires a GPU|(?:FP16|fp16|BF16|bf16)[^\n]*(?:half precision|mixed precision)[^\n]*can only be used on (?:CUDA|GPU)|(?:requires|needs) a (?:CUDA|GPU|NVIDIA)[^\n]*(?:device|GPU)?|\"?\w+\"? not implemented for 'Half'|No (?:CUDA|GPU) (?:device|accelerator)s? (?:is|are)? ?(?:available|found|detected)",
            text("The program needs a GPU, and this process sees none"),
            text(
                "The framework sees no card here: no GPU, a CPU build, a container without it, or a driver that does not work. TensorFlow after 2.10 sees none on Windows."
            ),
            (
                text(
                    "nvidia-smi; python -c 'import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())'"
                ),
                text(
                    "TensorFlow: pip install 'tensorflow[and-cuda]' on Linux; on Windows in WSL2 (or tensorflow<2.11 with CUDA 11.2 and cuDNN 8.1)"
                ),
                text(
                    "torch.version.cuda is None: a build without CUDA; install one with it: https://pytorch.org/get-started/locally/"
                ),
                text(
                    "In a container: docker run --gpus all …; in a cluster's job: request a card (--gres=gpu:1); Colab, Kaggle: choose a GPU runtime. Without a GPU: float32 on the CPU (no fp16)."
                ),
            ),
        ),
        Cause(
            r"(?<!HIP error: )(?<!\(8 vs\. 0\)  )\binvalid device function|cudaErrorInvalidDeviceFunction|no device code compatible|CUDA error 98\b|error 98:",
            text("The program has no code for this card"),
            text("A kernel was compiled for other cards, or with another CUDA than is loaded."),
            (
                text(
                    "Build the program for this card (nvidia-smi --query-gpu=compute_cap --format=csv; TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES), or install its release for this card."
                ),
            ),
        ),
    )


class LaunchTimeout(CauseRule):
    """A kernel ran longer than the system allows on a card that also drives a display.

    **Why it matters.** Windows (TDR, two seconds) and X stop kernels that block the display.

    **What to do.** Use a card without a display, smaller steps, or a longer limit.

    **Sources.** Microsoft, "TDR registry keys"; CUDA runtime API, cudaErrorLaunchTimeout (702).
    """

    code = "launch-timeout"
    severity = "error"
    title = text("The system stopped a kernel that ran too long")
    causes = (
        Cause(
            r"\bnvlddmkm\b|Display driver \S+ stopped responding|DXGI_ERROR_DEVICE_(?:REMOVED|HUNG|RESET)|(?:VK_|VkResult: |vk::Result::e|Vulkan\S* )ERROR_DEVICE_LOST|VK_ERROR_DEVICE_LOST|amdkmdag stopped|GPU crashed|D3D [Dd]evice (?:[Rr]emoved|[Ll]ost|[Hh]ung)|GPU device instance has been suspended|GetDeviceRemovedReason|device (?:was )?removed[^\n]*(?:GPU|DirectML|D3D)",
            text("Windows (or the driver) reset the card: it did not answer in time"),
            text(
                "A kernel ran longer than the display may wait, or the card hung: overclocking, heat, power, or a broken driver."
            ),
            (
                text(
                    "Go without overclocking; check temperature and power cables; install the driver cleanly (clean installation)."
                ),
                text(
                    "For long kernels set TdrDelay to 60 in HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers, and restart Windows."
                ),
            ),
        ),
        Cause(
            r"the launch timed out and was terminated|[Ll]aunch exceeded timeout|cudaErrorLaunchTimeout|CUDA_ERROR_LAUNCH_TIMEOUT|"
            + cuda_error(702),
            text("The system stopped a kernel that ran too long on a card with a display"),
            text("Windows and X allow a kernel a few seconds, because the display waits for it."),
            (
                text("Use a card without a display, or smaller batches."),
                text(
                    'Windows: set TdrDelay to 60 in HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers, and restart. Linux: Option "Interactive" "false" in xorg.conf, or no X on this card.'
                ),
            ),
        ),
    )


class AppleGpuLimits(CauseRule):
    """A program on a Mac meets a limit of Apple's GPU: memory, or an operation that MPS does not have.

    **Why it matters.** MPS shares memory with the system, and lacks some operations and float64.

    **What to do.** Smaller batches; let missing operations run on the CPU.

    **Sources.** pytorch.org, "MPS backend"; PYTORCH_ENABLE_MPS_FALLBACK.
    """

    code = "mps-limits"
    severity = "error"
    title = text("Apple's GPU cannot do this")
    causes = (
        Cause(
            r"not currently (?:implemented|supported) (?:for|on) the MPS|MPS[^\n]*(?:doesn't|does not) support|Cannot convert a MPS Tensor to float64|'mps\.\w+' op |\[MPS\w+[^\n]*(?:Error|assert)|MPSNDArray|total bytes of NDArray",
            text("Apple's GPU (MPS) does not have this operation"),
            text("torch's MPS back end lacks it, or the number format (float64)."),
            (
                text(
                    "export PYTORCH_ENABLE_MPS_FALLBACK=1   # the operation then runs on the CPU; use float32 instead of float64; a newer torch has more operations"
                ),
            ),
        ),
        Cause(
            r"MPS backend (?:is )?not (?:available|built|supported)|MPS (?:is )?not available because",
            text("torch cannot use Apple's GPU: an Intel build, an old macOS, or an old torch"),
            text(
                "MPS needs a Mac with an Apple chip (or an AMD card), macOS 12.3 or newer (14 for torch 2.9 and newer), and an arm64 Python."
            ),
            (
                text(
                    "python3 -c 'import platform; print(platform.machine(), platform.mac_ver()[0])'   # must print arm64"
                ),
                text("pip install -U torch torchvision"),
            ),
        ),
        Cause(
            r"MPS backend out of memory",
            text("Apple's GPU ran out of memory"),
            text("MPS shares the machine's memory; torch stops at a limit."),
            (
                text(
                    "Smaller batch or model; end other programs. The limit: PYTORCH_MPS_HIGH_WATERMARK_RATIO (0.0 removes it, and may freeze the system)."
                ),
            ),
        ),
    )
