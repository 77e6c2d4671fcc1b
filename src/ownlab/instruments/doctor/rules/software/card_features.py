"""Rules about features that a card lacks, engines without devices, and frameworks that take all of a card's memory."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.queries import any_framework_works
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import QUOTES_SHOWN, Cause, CauseRule, cuda_error
from ownlab.text import text

__all__ = ["CardTooOldForLibrary", "GpuNotFound", "ManagedMemory", "TensorFlowMemory", "TensorRtLibrary"]


class CardTooOldForLibrary(CauseRule):
    """A library refuses this card: its compute capability is below what the library, or the number format, needs.

    **Why it matters.** RAPIDS needs Volta, Triton needs Volta, FP8 needs Ada or Hopper, quantised kernels need Turing or
    Ampere. No driver, toolkit or reinstallation changes the card.

    **What to do.** Use an older release of the library that supports the card, another method, or a newer card.

    **Sources.** docs.rapids.ai, platform support; triton-lang/triton, "Compatibility"; vLLM, supported hardware for quantization.
    """

    code = "card-too-old"
    severity = "error"
    title = text("The library does not support this card")
    causes = (
        Cause(
            r"UnsupportedCUDAError|(?:cudf|cuml|rapids|rmm)[^\n]*(?:Compute Capability|requires|missing the necessary PTX)|missing the necessary PTX files|GPU with NVIDIA (?:Pascal|Volta)\S* [^\n]*or newer",
            text("RAPIDS does not support this card"),
            text("RAPIDS needs compute capability 7.0 (Volta) since 24.02, and 6.0 (Pascal) before."),
            (
                text(
                    "Pascal: RAPIDS 23.12 or older. Older cards: no release; use the CPU (pandas, scikit-learn) or another card."
                ),
            ),
        ),
        Cause(
            r"too old to be supported by the triton|Triton only supports devices of CUDA Capability|GPUTooOldForTriton|triton[^\n]*(?:requires|needs|supports)[^\n]*(?:compute )?capability",
            text("Triton and torch.compile do not support this card"),
            text("They need compute capability 7.0 (Volta) or newer."),
            (
                text(
                    "Run without compilation: export TORCHDYNAMO_DISABLE=1; remove torch.compile and packages that need Triton (Unsloth, some quantisations)."
                ),
            ),
        ),
        Cause(
            r"(?:torch\._scaled_mm|fp8\w*|float8\w*|e4m3\w*)[^\n]*(?:only supported|not supported|requires|need)|type fp8\w+ not supported in this architecture",
            text("This card has no FP8"),
            text("FP8 needs compute capability 8.9 (Ada) or 9.0 (Hopper)."),
            (text("Use weights in float16, bfloat16 or INT8 instead of FP8."),),
        ),
        Cause(
            r"OutOfResources: out of resource: shared memory|out of resource: shared memory|shared memory[^\n]*Hardware limit",
            text("A kernel needs more shared memory than this card has"),
            text(
                "The kernel was tuned for a larger card (A100, H100); GeForce and older cards have less shared memory per multiprocessor."
            ),
            (
                text(
                    "Use smaller block sizes or fewer stages (num_stages) in the kernel's configuration, a release with settings for this card, or another attention or quantisation method."
                ),
            ),
        ),
        Cause(
            r"Ignoring visible gpu device[^\n]*(?:minimum required|lower)|minimum required Cuda capability|quantization method \S+ is not supported for the current GPU|Minimum capability: \d+|requires? (?:a )?(?:GPU with )?(?:CUDA )?compute capability (?:of )?(?:at least |>=? ?)?\d|capability [\d.]+ (?:or|and) (?:higher|newer|above|greater)(?: is)? (?:required|needed)|not supported for the selected architecture|compute capability (?:of )?(?:at least|>=|must be)|needs? compute capability|CUDA GPU is too old|requires? (?:a )?GPUs? with sm_?\d+|only supports? (?:GPUs? with )?sm_?\d+|GPU is too old|outdated CUDA compute capability|compute capability \([\d.]+\) not found|SM(?: version)? \d+ is (?:not supported|too old)|device compute capability[^\n]*(?:too (?:old|low)|not supported|insufficient)|Unsupported (?:GPU|CUDA) compute capability|CUDNN_STATUS_ARCH_MISMATCH|(?:NVJPEG|CUSPARSE|CUSOLVER|CURAND)_STATUS_ARCH_MISMATCH|SM\d+ kernel is not available|Make sure you(?:r)? GPUs? with compute capability",
            text("The card's compute capability is too low for this program"),
            text("The program was built for newer cards; the message names what it needs."),
            (
                text("See the card's: nvidia-smi --query-gpu=name,compute_cap --format=csv"),
                text(
                    "Use an older release of the program that supports the card, another method (quantisation, attention), or another card. Drivers and toolkits do not change this."
                ),
            ),
        ),
    )


class GpuNotFound(CauseRule):
    """A program found no GPU, and its own words do not say why.

    **Why it matters.** The program continues on the CPU, or stops. The reasons are few: the runtime or the container has no
    GPU, the driver does not work or is too old, the build is for the CPU, or a variable hides the card.

    **What to do.** Check in this order: nvidia-smi on the host, nvidia-smi where the program runs, the build, the variables.

    **Sources.** Colab's GPU example notebook ("GPU device not found"); ggml-cuda.cu; ollama, docs/troubleshooting.
    """

    code = "gpu-not-found"
    severity = "error"
    title = text("The program found no GPU")
    while_broken = True
    causes = (
        Cause(
            r"lib/ollama\S*: No such file|ollama[^\n]*(?:runners?|lib)[^\n]*(?:not found|No such file)",
            text("The installation of ollama is incomplete: its GPU libraries are missing"),
            text("The folder with the GPU runners does not exist, so ollama uses the CPU."),
            (text("Install it again, and watch for errors: curl -fsSL https://ollama.com/install.sh | sh"),),
        ),
        Cause(
            r"Quota '?(?:GPUS|NVIDIA|TPU)\w*'? exceeded|ZONE_RESOURCE_POOL_EXHAUSTED|does not have enough resources available to fulfill|InsufficientInstanceCapacity|VcpuLimitExceeded|ResourceLimitExceeded[^\n]*ml\.|cannot currently connect to a GPU due to usage limits|GPU quota|no more capacity in the zone|(?:GPU|TPU)s? (?:are|is) (?:currently )?(?:not available|unavailable) (?:in|due)|There is no capacity|capacity[^\n]*(?:TPU|GPU|accelerator)[^\n]*(?:not available|exhausted|insufficient)|exceeded your (?:current )?(?:GPU|TPU) quota|GPU limit|SkuNotAvailable|out of capacity[^\n]*GPU",
            text("The provider gives no GPU: the account's quota is used up, or the zone has none left"),
            text("New accounts often have a quota of 0; free notebooks have limits a day or a week."),
            (
                text(
                    "Ask for more quota in the provider's console, or take another zone, another kind of card, or a preemptible one."
                ),
                text("Colab, Kaggle: wait until the limit ends (up to a day), or take a paid plan."),
            ),
        ),
        Cause(
            r"\[PhysicalDevice\(name='/physical_device:CPU:0', device_type='CPU'\)\](?![\s\S]*GPU:0)|device_type: \"CPU\"(?![\s\S]*device_type: \"(?:GPU|XLA_GPU)\")|Tensor ?[Ff]low Version[\s\S]{0,300}GPU is NOT AVAILABLE|is_gpu_available\(\)\s+False|was explicitly assigned to /device:GPU:\d+ but available devices are \[[^\]\n]*CPU:0 ?\]|SystemError: GPU device not found|GPU device not found|Cannot connect to GPU backend|tf\.test\.gpu_device_name[^\n]*''|list_physical_devices\(['\"]GPU['\"]\)+\s*\n?\s*\[\]|Num GPUs Available:?\s+0\b|is_built_with_cuda\(\)+\s+False|Build with CUDA: False",
            text("TensorFlow found no GPU: the runtime has none, or TensorFlow is a CPU build"),
            text(
                "On Windows TensorFlow 2.11 and newer use no GPU. In Colab the runtime type is CPU. Elsewhere the driver or a GPU build of TensorFlow is missing, or CUDA and cuDNN are not of the versions that this release needs."
            ),
            (
                text("Colab: Runtime → Change runtime type → choose a GPU."),
                text(
                    "Linux: nvidia-smi; then pip install 'tensorflow[and-cuda]'. Windows: TensorFlow after 2.10 uses no GPU there; use WSL2. Releases before 2.14 need exactly the CUDA and cuDNN of their table (tensorflow.org/install/source)."
                ),
            ),
        ),
        Cause(
            r"Unable to query CUDA driver version! Is an nVidia driver installed",
            text("The program reaches no NVIDIA driver: a Remote Desktop session, or none is installed"),
            text(
                "On Windows a Remote Desktop session of GeForce cards and older drivers has a display driver of its own, without CUDA and OpenCL."
            ),
            (
                text(
                    "Start the program at the machine itself, or over VNC, ssh or as a scheduled task instead of Remote Desktop."
                ),
                text("If it fails there, too: nvidia-smi; then install NVIDIA's driver."),
            ),
        ),
        Cause(
            r"num_cuda_devices > 0|GPU is not accessible\. Was the library installed correctly|inference compute\"? id=\S* library=cpu|CUDA driver version too old|old CUDA driver detected|your nvidia driver is too old or missing|nvidia driver too old|only 0 Devices available|(?:CUDA|GPU) test failed[\s\S]{0,300}No GPUs? (?:detected|found)|no CUDA devices found|ggml_\w+: (?:no CUDA|no devices|failed to initialize)|no compatible GPUs were discovered|no (?:NVIDIA )?GPUs? (?:were )?(?:detected|found|discovered|available)\b|No GPU to monitor|no nvidia (?:devices|gpus?) (?:detected|found)|Could not find any nv files|CUDA (?:is )?not detected|Could not find any GPU|no GPU devices? (?:found|detected)|GPU[^\n]{0,30}not (?:detected|found)\b|CUDA will be disabled|No CUDA runtime is found|no device found: 0|Skipping GPU|Found 0 GPUs?|GPU unusable|failed to detect (?:any )?(?:GPU|NVIDIA)|torch\.cuda\.device_count\(\)+\s+0\b|Detected 0 CUDA Capable|found 0 CUDA devices|no GPU was found|[Nn]o (?:usable|supported|suitable|working|compatible) (?:CUDA |NVIDIA |AMD )?(?:GPUs?|devices?|accelerators?)\b(?! (?:found for platform|backend))|CUDA (?:devices?|GPUs?): (?:0|none|None)\b|GPU: (?:not found|none|None detected)|[Cc]ould not (?:find|detect) (?:a |any )?(?:NVIDIA |CUDA |compatible |suitable )*(?:GPU|device)|GPUs? (?:is|are|was|were) not (?:detected|found|recogni[sz]ed|visible)|does not (?:detect|recogni[sz]e|see) (?:the |any |my )?GPU|there is no gpu|reports no devices?\b|No compute devices matched|no GPU is detected|no cuda gpus?\b|unable to locate gpu dependency libraries",
            text("The program sees no GPU: its container, its driver or its libraries do not reach the card"),
            text(
                "Usual reasons: a container that was started without the card; a driver that is older than the CUDA the program was built with; driver libraries that this program's loader does not know; a CPU build."
            ),
            (
                text(
                    "Container: docker run --gpus all … (apptainer: --nv). Then nvidia-smi inside it must show the card."
                ),
                text(
                    "nvidia-smi: its CUDA version must be at least the one the program was built with (same major version); else update the driver."
                ),
                text(
                    "If nvidia-smi works but the program fails: ldconfig -p | grep -E 'libcuda|nvidia-ml'; programs from Nix or snap do not search the system's folders."
                ),
                text("echo $CUDA_VISIBLE_DEVICES   # must be empty or name existing cards"),
                text(
                    "nvidia-smi: has another program all of the card's memory? A Mac, or a machine without NVIDIA's card: build or install the program without CUDA."
                ),
            ),
        ),
        Cause(
            r"CUDA (?:driver |runtime )?(?:error|failure)[^\n]*: *initialization error|cudaErrorInitializationError|CUDA_ERROR_NOT_INITIALIZED|error 3: initialization error|CUDA initialization failure|initialization error \(?3\)?|CUDA failed to initialize|"
            + cuda_error(3),
            text(
                "CUDA does not start: driver and CUDA do not go together, or the process was forked after CUDA started"
            ),
            text(
                "The driver is older than the CUDA of the program, its libraries are mixed, or a child process uses CUDA that its parent started."
            ),
            (
                text(
                    "nvidia-smi: its CUDA version must be at least the program's; else update the driver to the one for that CUDA."
                ),
                text("In Python with several processes: multiprocessing.set_start_method('spawn')"),
            ),
        ),
    )

    def check(self, case: Case) -> Iterable[Finding]:
        """Say that TensorFlow finds no GPU also where another framework does: it needs libraries of its own."""
        found = self.find_cause(case)
        if found is not None and any_framework_works(case.machine) and found[0].title.startswith("TensorFlow"):
            cause, quotes = found
            yield self.finding(title=cause.title, evidence=quotes[:QUOTES_SHOWN], meaning=cause.meaning, fix=cause.fix)
            return
        yield from super().check(case)


class ManagedMemory(CauseRule):
    """The system does not support a function of CUDA that the program uses (error 801).

    **Why it matters.** WSL, vGPU and Windows lack parts of managed memory, memory pools and peer access, more so on Pascal.

    **What to do.** Use native Linux, a newer card, or the program's option without that function.

    **Sources.** CUDA on WSL user guide, "Known limitations"; rapidsai/cudf#11382.
    """

    code = "not-supported"
    severity = "error"
    title = text("This system does not support a function of CUDA")
    causes = (
        Cause(
            cuda_error(801)
            + r"|(?:cuda|cu)[A-Z]\w+\([^\n]*\)[^\n]{0,20}: operation not supported|get device context 801|cudaErrorNotSupported|CUDA_ERROR_NOT_SUPPORTED|\b801\b[^\n]*operation not supported|CUDA error[^\n]*operation not supported",
            text("This system does not support a function of CUDA that the program uses (error 801)"),
            text(
                "Under WSL, vGPU and on Windows some memory functions do not exist; Pascal cards lack more of them there than newer ones. In a virtual machine a wrong or incomplete vGPU (GRID) driver causes the same."
            ),
            (
                text(
                    "In a virtual machine: install the guest driver of the host's vGPU release again, completely; nvidia-smi -q | grep -i license"
                ),
                text(
                    "Use native Linux or a card from Volta on; or the last release of the program that ran without it (RAPIDS on Pascal in WSL: 21.08)."
                ),
            ),
        ),
    )


class TensorFlowMemory(CauseRule):
    """TensorFlow could not start cuDNN or cuBLAS: usually the card's memory was already taken, often by itself.

    **Why it matters.** TensorFlow takes nearly all of a card's memory at the start. cuDNN and cuBLAS then find none for their
    own needs and report that they are "not initialized". A second program on the card has the same effect.

    **What to do.** Let TensorFlow grow as needed; end other programs on the card. If that does not help, the cuDNN that is
    found has another version than TensorFlow was built with.

    **Sources.** tensorflow.org/guide/gpu, "Limiting GPU memory growth"; tensorflow#24828.
    """

    code = "tensorflow-memory"
    severity = "error"
    title = text("TensorFlow left no memory for cuDNN")
    causes = (
        Cause(
            r"Could not create cudnn handle|could not create (?:cu|CU)\w+ handle|failed to create cublas handle|Failed to get convolution algorithm|probably because cuDNN failed to initialize|Blas (?:x?GEMM|GEMV|SGEMM)\w* launch failed|DNN library initialization failed|No DNN in stream executor|Dst tensor is not initialized|GPU sync failed|StreamExecutor without BLAS support",
            text("cuDNN or cuBLAS could not start: TensorFlow, or another program, has taken the card's memory"),
            text(
                "TensorFlow takes nearly all memory of the card at its start, and leaves none for the libraries' own handles."
            ),
            (
                text(
                    "export TF_FORCE_GPU_ALLOW_GROWTH=true   # Windows: set TF_FORCE_GPU_ALLOW_GROWTH=true; before Python starts"
                ),
                text("End other programs on the card (nvidia-smi shows them), also old notebooks."),
                text(
                    "If it remains: compare the cuDNN that is loaded with the one TensorFlow was built with (tensorflow.org/install/source)."
                ),
            ),
        ),
    )


class TensorRtLibrary(CauseRule):
    """TensorRT's libraries are missing or have another version than the program, or the engine file, needs.

    **Why it matters.** TensorRT is not part of CUDA. Programs look for libnvinfer.so with an exact major version; engine
    files belong to the version and the card that made them.

    **What to do.** Install the TensorRT that the program was built with, add its folder to the loader's path, or rebuild the engine.

    **Sources.** NVIDIA TensorRT installation guide; TensorRT developer guide, "Version compatibility".
    """

    code = "tensorrt"
    severity = "error"
    title = text("TensorRT's library was not found")
    causes = (
        Cause(
            r"(?:ImportError|OSError|error while loading shared libraries|Failed to load|onnxruntime)[^\n]*(?:libnvinfer\S*|nvinfer\S*\.dll|libnvonnxparser\S*)|lib(?:nvinfer|nvonnxparser|nvparsers)\S*\.so\.\d+: cannot open shared object",
            text("TensorRT's library was not found"),
            text("TensorRT of this major version is not installed, or its folder is not on the loader's path."),
            (
                text("Find it: ldconfig -p | grep nvinfer; find / -name 'libnvinfer.so*' 2>/dev/null"),
                text(
                    "export LD_LIBRARY_PATH=/path/to/TensorRT-X.Y/lib:$LD_LIBRARY_PATH   # the plain folder, without brackets or quotes"
                ),
                text(
                    "If it is not installed: pip install 'tensorrt==MAJOR.*'   # the number after .so. in the message; versions 8.5 and older come as archive or package from NVIDIA"
                ),
            ),
        ),
        Cause(
            r"engine plan[^\n]*incompatible|engine plan file is (?:not compatible|generated on an incompatible)|Serialization Error in (?:verifyHeader|deserialize)|Version tag does not match|Engine deserialization failed|deserializeCudaEngine[^\n]*(?:fail|Error)|Current Version: \d+, Serialized Engine Version",
            text("The TensorRT engine was made by another version or for another card"),
            text("Engine files are not portable."),
            (
                text(
                    "Build the engine again on this machine from the ONNX model (trtexec --onnx=MODEL --saveEngine=ENGINE)."
                ),
            ),
        ),
    )
