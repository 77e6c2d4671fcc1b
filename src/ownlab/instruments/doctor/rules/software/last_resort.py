"""The rules that answer where no other does: an error that CUDA names, a message of a known kind, and one whose program is known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ownlab.instruments.doctor.differential import SEVERAL_CAUSES, is_notice, recognise
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import QUOTES_SHOWN, Cause, CauseRule, MessageRule, Rule, quote
from ownlab.text import text

__all__ = ["CudaErrorName", "KnownComponent", "SeveralCauses"]


class CudaErrorName(CauseRule):
    """CUDA names an error that no other rule explains.

    **Why it matters.** Every error of CUDA has a number, a name and a sentence. The rarer ones come from the way in which a
    program uses CUDA, or from libraries that do not belong together, seldom from the machine.

    **What to do.** Let the program stop at the call that fails, and compare the versions of what was compiled.

    **Sources.** NVIDIA CUDA runtime API, "Error handling"; CUDA driver API, CUresult; NVIDIA Compute Sanitizer.
    """

    code = "cuda-error"
    severity = "warning"
    title = text("CUDA reports an error of the program or of its libraries")
    last_resort = True
    causes = (
        Cause(
            r"cudaErrorHostMemory(?:Already|Not)Registered|CUDA_ERROR_HOST_MEMORY_\w+|requested memory range is already mapped|does not correspond to a registered memory region|cudaHostRegister[^\n]*(?:fail|error)",
            text("The program pins memory of the host twice, or memory that cannot be pinned"),
            text(
                "Memory that the card reads directly must be registered once. Memory-mapped files, some WSL and container set-ups and a limit for locked memory make it fail."
            ),
            (
                text("ulimit -l   # unlimited is needed for large amounts; in a container: --ulimit memlock=-1"),
                text("Switch pinning off in the program (pin_memory=False; llama.cpp: GGML_CUDA_NO_PINNED=1), or update it."),
            ),
        ),
        Cause(
            r"cudaErrorStreamCapture\w+|CUDA_ERROR_STREAM_CAPTURE\w*|when stream is capturing|during capture|legacy stream depend on a capturing|cudaErrorCapturedEvent|cudaErrorGraphExecUpdateFailure",
            text("An operation is not allowed while a CUDA graph is recorded"),
            text(
                "Programs record graphs to save time. An allocation, a copy or a library call inside the recording stops it; the machine works."
            ),
            (
                text("Switch graphs off: vLLM --enforce-eager; llama.cpp GGML_CUDA_DISABLE_GRAPHS=1; torch.compile(mode='default'); or update the program."),
            ),
        ),
        Cause(
            r"cudaError(?:HardwareStackError|IllegalInstruction|InvalidPc|InvalidAddressSpace)|CUDA_ERROR_(?:HARDWARE_STACK_ERROR|ILLEGAL_INSTRUCTION|INVALID_PC|INVALID_ADDRESS_SPACE)|hardware stack error|invalid program counter|not supported on global/shared address space",
            text("A kernel went astray: a fault in its code, an unstable card, or a wrong build"),
            text("The card stopped the kernel at an instruction or an address that does not exist."),
            (
                text("export CUDA_LAUNCH_BLOCKING=1; compute-sanitizer PROGRAM   # names the kernel"),
                text("Go without overclocking; update the driver; reinstall the extension for this torch, CUDA and card."),
            ),
        ),
        Cause(
            r"cudaError(?:DeviceUninitialized|ContextIsDestroyed|IncompatibleDriverContext|InvalidGraphicsContext|SetOnActiveProcess)|CUDA_ERROR_(?:INVALID_CONTEXT|CONTEXT_IS_DESTROYED|INVALID_GRAPHICS_CONTEXT|PRIMARY_CONTEXT_ACTIVE|CONTEXT_ALREADY_\w+)|invalid device context|context is destroyed|incompatible driver context",
            text("The program uses a context of CUDA that does not exist: after a fork, from another thread, or after its end"),
            text("Each process needs its own context. A worker that was forked, or a library that destroyed the context, has none."),
            (
                text("Start workers with spawn: torch.multiprocessing.set_start_method('spawn'); with PyCUDA make or push the context in the thread that uses it."),
                text("If it happens when the program ends, it is harmless."),
            ),
        ),
        Cause(
            r"cudaError(?:FileNotFound|SharedObject\w+|InvalidSource|JitCompilerNotFound|InvalidSurface|InvalidTexture\w*|Symbol\w*)|CUDA_ERROR_(?:FILE_NOT_FOUND|SHARED_OBJECT_\w+|INVALID_SOURCE|JIT_COMPILER_NOT_FOUND)|shared object symbol not found|JIT compiler library not found",
            text("CUDA does not find compiled code or a library that it needs"),
            text(
                "libnvidia-ptxjitcompiler belongs to the driver's package; other files belong to the program, whose installation is incomplete or of another version."
            ),
            (
                text("ldconfig -p | grep -E 'ptxjitcompiler|nvidia-nvvm|libcuda'   # missing: reinstall the driver's compute package (Ubuntu: libnvidia-compute-BRANCH)"),
                text("Reinstall the program or extension for the installed CUDA. In a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
            ),
        ),
        Cause(
            r"cudaErrorNotPermitted|CUDA_ERROR_NOT_PERMITTED|cudaErrorPeerAccess\w+|CUDA_ERROR_PEER_ACCESS_\w+|cudaErrorMapBufferObjectFailed|cudaErrorUnsupported\w+|CUDA_ERROR_UNSUPPORTED_\w+|cudaErrorCooperativeLaunchTooLarge|cudaErrorDeviceNotLicensed|cudaErrorCudartUnloading|CUDA_ERROR_DEINITIALIZED|driver shutting down|\bcudaError[A-Z]\w+|\bCUDA_ERROR_[A-Z_]{4,}",
            text("CUDA refused a call of the program"),
            text("The name in the message is CUDA's own. The reason is mostly in the program, or in libraries of different versions."),
            (
                text("export CUDA_LAUNCH_BLOCKING=1   # the error then appears at the call that causes it"),
                text("nvidia-smi; nvcc --version; pip list | grep -iE 'nvidia|cuda|torch'   # one CUDA version, which the driver supports"),
            ),
        ),
    )  # fmt: skip


class SeveralCauses(Rule):
    """No rule knows this message, but it is of a known kind, whose causes are known.

    **Why it matters.** Tools report the same trouble in many words: that a library is not found, that no card is seen, that versions
    do not fit. The kind of the message is clear then, though not which of its causes it has here.

    **What to do.** Run the checks in the order in which they stand; each separates one cause from the others. Change something
    only when a check has shown the cause.

    **Sources.** ld.so(8); CUDA driver and runtime API, error types; NVIDIA driver README and Container Toolkit; pip and conda documentation;
    Linux kernel, DRM and KFD messages; NCCL and torch.distributed documentation; AMD ROCm, Intel oneAPI, Huawei CANN and Cloud TPU documentation.
    """

    code = SEVERAL_CAUSES
    severity = "note"
    title = text("A message of a known kind, which has several causes")
    last_resort = True

    def check(self, case: Case) -> Iterable[Finding]:
        """Yield one finding about the first kind of message that reports a failure."""
        if case.machine.origin != "pasted":
            return
        for recognised in recognise(case):
            line = quote(recognised.message, recognised.match)
            yield self.finding(
                title=recognised.family.title,
                severity="note" if is_notice((line,)) else "warning",
                evidence=(line,),
                meaning=text(
                    "The message does not show its cause. The most likely one: {cause}.", cause=recognised.likely.cause
                ),
                fix=(recognised.likely.check,),
            )
            return


class _Component(NamedTuple):
    """A program that prints messages, what its failures usually come from, and what shows more."""

    pattern: str
    name: str
    usual: str
    show: str


_COMPONENTS = (
    _Component(r"\bNVRM\b|\bnvidia[-_](?:modeset|drm|uvm)\b", text("NVIDIA's kernel module"), text("a driver that does not fit kernel or card, or a card with a problem"), text("sudo dmesg | grep -iE 'nvrm|xid|nvidia' | tail -40; nvidia-smi -q")),
    _Component(r"\b(?:dkms|akmods|modprobe|insmod|depmod)\b", text("the system's tools for kernel modules"), text("missing headers, a kernel that is newer than the driver, or Secure Boot"), text("dkms status; uname -r; mokutil --sb-state; sudo dmesg | tail -30")),
    _Component(r"nvidia-container|nvidia-ctk|libnvidia-container", text("NVIDIA's Container Toolkit"), text("a driver that is not loaded on the host, a toolkit that is not configured, or an old description of the cards"), text("nvidia-smi on the host; nvidia-ctk --version; sudo nvidia-container-cli -k -d /dev/tty info")),
    _Component(r"\b(?:onnxruntime|ONNXRuntime\w*|CUDAExecutionProvider)\b", text("ONNX Runtime"), text("the CPU package, or another CUDA or cuDNN than the release was built with"), text("pip list | grep -i onnxruntime; python -c 'import onnxruntime as o; print(o.__version__, o.get_available_providers())'")),
    _Component(r"\b(?:TensorRT|TRT|nvinfer|trtexec)\b", text("TensorRT"), text("an engine of another version or card, or a CUDA that the driver does not support"), text("pip list | grep -i tensorrt; nvidia-smi; trtexec --verbose …")),
    _Component(r"\b(?:jax|jaxlib|xla|XlaRuntimeError|pjrt)\b", text("JAX or XLA"), text("jax, jaxlib and plug-in of different versions, CUDA libraries of the system found first, or memory that is taken"), text("pip list | grep -iE 'jax|nvidia'; env -u LD_LIBRARY_PATH python -c 'import jax; print(jax.devices())'")),
    _Component(r"\b(?:tensorflow|tf\.\w+|stream_executor)\b", text("TensorFlow"), text("CUDA or cuDNN of another version, or memory that is taken"), text("python -c 'import tensorflow as tf; print(tf.__version__, tf.sysconfig.get_build_info(), tf.config.list_physical_devices())'")),
    _Component(r"\bvllm\b|\bsglang\b|EngineCore", text("the inference server"), text("too little memory of the card, a torch of another version, or a model that this release does not know"), text("python collect_env.py of vLLM; nvidia-smi; the first error further up in the log")),
    _Component(r"\b(?:ggml\w*|llama\w*|ollama|gguf)\b", text("llama.cpp or Ollama"), text("memory of the card, a build without the card's back end, or a driver that is too old"), text("OLLAMA_DEBUG=1 ollama serve; journalctl -u ollama -n 50; nvidia-smi")),
    _Component(r"\b(?:cupy\w*|numba|pycuda|nvrtc|nvvm)\b", text("a compiler for CUDA at run time"), text("a CUDA toolkit that is missing, or of another version than package and driver"), text("python -c 'import cupy; cupy.show_config()'; numba -s; nvidia-smi; nvcc --version")),
    _Component(r"\b(?:nvcc|ptxas|cicc|CMAKE_CUDA\w*)\b", text("CUDA's compiler"), text("a host compiler or a card that this toolkit does not know"), text("nvcc --version; gcc --version; nvidia-smi --query-gpu=compute_cap --format=csv")),
    _Component(r"\b(?:nccl\w*|ProcessGroup\w*|torchrun|c10d|gloo)\b", text("the communication between ranks"), text("ranks that do not reach each other, or one that ended earlier"), text("export NCCL_DEBUG=INFO TORCH_DISTRIBUTED_DEBUG=DETAIL; the first error of the first rank")),
    _Component(r"\b(?:triton|inductor|torch\._dynamo)\b", text("Triton or torch.compile"), text("a Triton that does not belong to this torch, a missing C compiler, or a card that is too old"), text("pip list | grep -iE 'torch|triton'; gcc --version; rm -rf ~/.triton/cache; export TORCHDYNAMO_DISABLE=1")),
    _Component(r"\b(?:cudnn\w*|cublas\w*|cufft\w*|cusolver\w*|cusparse\w*)\b", text("a library of CUDA"), text("memory that is full, or another copy of the library that is found first"), text("nvidia-smi; env -u LD_LIBRARY_PATH python …; pip list | grep -i nvidia")),
    _Component(r"\b(?:amdgpu|rocm\w*|hip\w*|hsa\w*|kfd|miopen\w*|rocblas\w*)\b", text("AMD's ROCm"), text("a chip that this release does not support, or rights on /dev/kfd"), text("rocminfo | head -40; sudo dmesg | grep -iE 'amdgpu|kfd' | tail; groups")),
    _Component(r"\b(?:i915|level[_ -]zero|sycl\w*|oneapi|xpu|openvino)\b", text("Intel's compute software"), text("a kernel or compute runtime that is too old for the card, or rights on /dev/dri"), text("sycl-ls; clinfo -l; sudo dmesg | grep -iE 'i915|xe '; groups")),
    _Component(r"\b(?:npu|ascend\w*|cann|acl\w+|hccl\w*)\b", text("Ascend's CANN"), text("an environment that is not set, or driver, CANN and torch_npu that do not belong together"), text("npu-smi info; source /usr/local/Ascend/ascend-toolkit/set_env.sh; export ASCEND_SLOG_PRINT_TO_STDOUT=1")),
    _Component(r"\b(?:tpu\w*|libtpu\w*|torch_xla)\b", text("the TPU's software"), text("another process that uses the TPU, or libtpu of another version"), text("sudo lsof -w /dev/accel* /dev/vfio/*; pip list | grep -iE 'libtpu|jax|xla'")),
    _Component(r"\b(?:nvenc|nvdec|cuvid|vaapi|h264_\w+|hevc_\w+)\b", text("the card's video engine"), text("a driver that is too old, a missing video library, or a card without this codec"), text("ffmpeg -hide_banner -encoders | grep nvenc; nvidia-smi; ldconfig -p | grep -E 'nvcuvid|nvidia-encode'")),
    _Component(r"\b(?:vulkan|vk[A-Z]\w+|egl\w*|opengl|glx)\b", text("the graphics libraries"), text("a driver without its graphics part, or a container without the capability graphics"), text("vulkaninfo --summary; ls /usr/share/vulkan/icd.d /usr/share/glvnd/egl_vendor.d")),
    _Component(r"\b(?:torch\w*|pytorch|cuda)\b", text("torch or CUDA"), text("a build that does not fit driver or card, or extensions of another version"), text("python -m torch.utils.collect_env; nvidia-smi; export CUDA_LAUNCH_BLOCKING=1")),
)  # fmt: skip
_FAILED = re.compile(
    r"\b(?:error|failed|failure|fatal|cannot|can't|could not|couldn't|unable to|panic|abort(?:ed)?|core dumped)\b|(?-i:\w(?:Error|Exception)\b)",
    re.IGNORECASE,
)
_UNRELATED = re.compile(
    r"\b(?:0|no) errors?\b|\berrors?: 0\b|Unable to find image|failed to push|error[_ ]rate|\b(?:mean|squared|absolute)\b",
    re.IGNORECASE,
)


class KnownComponent(MessageRule):
    """No rule knows this message, but the program that printed it is known.

    **Why it matters.** An honest answer says what is not known. The program's name tells where to look, and what its failures
    usually come from.

    **What to do.** Run the command that shows more, and give the doctor its output together with the first error.

    **Sources.** The documentation of the programs named; what they print when they are asked for details.
    """

    code = "unknown-message"
    severity = "note"
    title = text("No rule knows this message")
    last_resort = True
    patterns = tuple(component.pattern for component in _COMPONENTS)

    def check(self, case: Case) -> Iterable[Finding]:
        """Yield one finding about the first line that reports a failure of a known program."""
        if case.machine.origin != "pasted":
            return
        for component in _COMPONENTS:
            pattern = re.compile(component.pattern, re.IGNORECASE)
            quotes = [
                quote(message, found)
                for message in case.messages
                for found in pattern.finditer(message.text)
                if _reports_failure(message.text, found)
            ]
            if quotes:
                yield self.finding(
                    title=text("No rule knows this message; it comes from {component}", component=component.name),
                    evidence=tuple(dict.fromkeys(quotes))[:QUOTES_SHOWN],
                    meaning=text(
                        "Such failures usually come from {usual}. Which it is here is not known.", usual=component.usual
                    ),
                    fix=(
                        text(
                            "{command}   # shows more; give the doctor its output with the first error",
                            command=component.show,
                        ),
                    ),
                )
                return


def _reports_failure(content: str, found: re.Match[str]) -> bool:
    start = content.rfind("\n", 0, found.start()) + 1
    end = content.find("\n", found.end())
    line = content[start : end if end >= 0 else len(content)]
    return _FAILED.search(line) is not None and _UNRELATED.search(line) is None
