"""Rules about packages that were built without CUDA, or for another torch, Python or CUDA than is installed."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["CpuOnlyPackage", "ExtensionMismatch", "JaxBuild", "WheelNotFound"]

_TOGETHER = text(
    "Install both from one index in one command: pip install --force-reinstall torch torchvision torchaudio --index-url"
    " https://download.pytorch.org/whl/cuXYZ   # with the cuXYZ of the installed torch: python -c 'import torch; print(torch.__version__)'"
)


class CpuOnlyPackage(CauseRule):
    """A package beside torch was built without CUDA: torchvision, ONNX Runtime, mmcv, DGL, OpenCV, XGBoost and others.

    **Why it matters.** The default package of many libraries is the CPU one. torch itself sees the card, and the library
    stops with an error, or computes on the CPU without a word.

    **What to do.** Remove the CPU package and install the CUDA build of the same version, for the same torch and CUDA.

    **Sources.** pytorch/vision, "nms … CUDA backend"; onnxruntime.ai, "CUDA execution provider"; the projects' installation pages.
    """

    code = "cpu-package"
    severity = "error"
    title = text("A package was built without CUDA")
    causes = (
        Cause(
            r"Could not run 'torchvision::\w+' with arguments from the 'CUDA|torchvision::nms'? is only available for these backends|\b0\.\d+\.\d+\+cpu\b",
            text("torchvision was built without CUDA, beside a torch with CUDA"),
            text("torch and torchvision come from different indexes: this torchvision has operators for the CPU only."),
            (text("pip uninstall -y torchvision"), _TOGETHER),
        ),
        Cause(
            r"This ORT build has \[[^\]\n]*CPUExecutionProvider'\] enabled|get_device\(\)\s+'CPU'|get_available_providers\(\)\s+\['AzureExecutionProvider', 'CPUExecutionProvider'\]|CUDAExecutionProvider'? is not in available provider|(?:Specified|requested) provider 'CUDAExecutionProvider'|Available providers: '?(?:AzureExecutionProvider, )?'?CPUExecutionProvider|provider \S*CUDA\S* (?:is )?not available",
            text("onnxruntime is the CPU package"),
            text(
                "The package onnxruntime has no CUDA; onnxruntime-gpu has. If both are installed, the CPU one is found."
            ),
            (
                text(
                    "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu   # 1.19 and newer: CUDA 12 and cuDNN 9; 1.18 from PyPI: CUDA 11 and cuDNN 8"
                ),
                text(
                    "In code, before the first session: import onnxruntime; onnxruntime.preload_dlls()   # finds the CUDA of pip (1.21 and newer)"
                ),
            ),
        ),
        Cause(
            r"CUDA_PATH is set but CUDA wasn.t able to be loaded|EP Error[\s\S]{0,200}Falling back to \[|onnxruntime_providers_cuda\S*|TryGetProviderInfo_CUDA|Failed to create CUDAExecutionProvider",
            text("onnxruntime-gpu does not find the CUDA and cuDNN that it was built with"),
            text(
                "Each release was built for one CUDA and one cuDNN major version, which must be on the loader's path (Windows: PATH)."
            ),
            (
                text(
                    "Releases 1.19 and newer: CUDA 12 and cuDNN 9; 1.18 and older from PyPI: CUDA 11 and cuDNN 8. Install the release for what is there, or: pip install 'onnxruntime-gpu[cuda,cudnn]'"
                ),
                text(
                    "In code, before the first session: import onnxruntime; onnxruntime.preload_dlls()   # 1.21 and newer; or import torch first"
                ),
            ),
        ),
        Cause(
            r"No module named '?mmcv\._ext|mmcv\S*[^\n]*(?:implementation for device cuda:?\d* not found|is not compiled with CUDA|without CUDA)|\w+_impl: implementation for device cuda",
            text("mmcv was installed without its compiled CUDA operations"),
            text(
                "The lite package (mmcv before 2.0, mmcv-lite since) has no operations; mmcv-full (before 2.0) or mmcv (since) has, built for one torch and one CUDA."
            ),
            (
                text(
                    "pip uninstall -y mmcv mmcv-lite mmcv-full; pip install -U openmim; mim install mmcv   # mmcv 1.x: mim install mmcv-full"
                ),
                text(
                    "If there is no wheel for this torch and CUDA, compile it: MMCV_WITH_OPS=1 FORCE_CUDA=1 pip install --no-build-isolation --no-binary mmcv mmcv   # needs nvcc of torch's CUDA"
                ),
            ),
        ),
        Cause(
            r"Device API (?:gpu|cuda) is not enabled|install the cuda version of dgl",
            text("DGL is the CPU package"),
            text("DGL has a package for each CUDA; the default one has none."),
            (
                text(
                    "pip uninstall -y dgl; pip install dgl -f https://data.dgl.ai/wheels/torch-X.Y/cuXYZ/repo.html   # torch's version and CUDA"
                ),
            ),
        ),
        Cause(
            r"(?:xgboost|lightgbm|catboost|XGBoost)[^\n]*(?:not compiled with (?:CUDA|GPU)|not built with GPU)|(?:CUDA|GPU) Tree Learner was not enabled in this build|XGBoost version not compiled with GPU support",
            text("The boosting library was built without GPU support"),
            text("This build (often from conda-forge's CPU variant, or for another system) has no CUDA."),
            (
                text(
                    "XGBoost: pip install --force-reinstall xgboost   # wheels for Linux and Windows have CUDA; LightGBM: build with -DUSE_CUDA=ON"
                ),
            ),
        ),
        Cause(
            r"DNN module was not built with CUDA backend|(?:opencv|cv2|OpenCV)[^\n]*(?:compiled without CUDA|throw_no_cuda|No CUDA support)|The library is compiled without CUDA support",
            text("OpenCV was built without CUDA"),
            text("The wheels on PyPI have no CUDA."),
            (
                text(
                    "Build OpenCV with -DWITH_CUDA=ON, or use an image that has it (NVIDIA's for Jetson); or keep this step on the CPU."
                ),
            ),
        ),
        Cause(
            r"(?:llama|ggml|gguf)[^\n]*(?:not compiled with GPU|without GPU offload|built without (?:CUDA|GPU))|no usable GPU found, --gpu-layers|not compiled with GPU offload support|(?:^|[\n| ])BLAS ?= ?0\b|(?<!bitsandbytes was )compiled without (?:CUDA|cuBLAS) support",
            text("llama.cpp was built without CUDA"),
            text("This build has no GPU back end: layers stay on the CPU."),
            (
                text(
                    "llama-cpp-python: CMAKE_ARGS=-DGGML_CUDA=on pip install --force-reinstall --no-cache-dir llama-cpp-python"
                ),
                text("llama.cpp: cmake -B build -DGGML_CUDA=ON && cmake --build build --config Release"),
            ),
        ),
        Cause(
            r"Not compiled with (?:GPU|CUDA) support|was not compiled with CUDA|is not compiled with CUDA|(?<!bitsandbytes was )compiled without (?:GPU|CUDA)|not built with (?:CUDA|GPU) support|CUDA extension not installed|[Cc]ompile with USE_(?:CUDA|GPU)=|CPU-only Caffe|Recompile with (?:CUDA|GPU)|is_compiled_with_cuda\S*\s+False|no CUDA (?:extension|operators?|ops) (?:is|are|was|were)? ?(?:found|available|built)",
            text("An extension was built without CUDA"),
            text(
                "It was compiled where no CUDA toolkit was found (as in docker build), or its CPU package was installed."
            ),
            (
                text(
                    "Install its CUDA wheel for this torch and CUDA; or build it again with a toolkit: export CUDA_HOME=/usr/local/cuda FORCE_CUDA=1; pip install --no-build-isolation --force-reinstall PACKAGE"
                ),
            ),
        ),
    )


class ExtensionMismatch(CauseRule):
    """A compiled extension was built for another torch, Python or CUDA than is installed.

    **Why it matters.** xFormers, flash-attn, apex and others contain code for exactly one torch release. After an upgrade of
    torch they no longer load, or work without their fast kernels.

    **What to do.** Install the release of the extension that was built for this torch; do not change the driver or the toolkit.

    **Sources.** facebookresearch/xformers, README; Dao-AILab/flash-attention, releases; pytorch.org, C++ ABI.
    """

    code = "extension-mismatch"
    severity = "error"
    title = text("An extension was built for another torch")
    causes = (
        Cause(
            r"Could not find compatible tinycudann extension for compute capability",
            text("tiny-cuda-nn was built for another card's compute capability"),
            text(
                "It is compiled for the card of the machine that builds it. This one was built elsewhere: in an image, or for another card."
            ),
            (
                text(
                    "pip uninstall -y tinycudann; TCNN_CUDA_ARCHITECTURES=XY pip install --no-cache-dir --no-build-isolation git+https://github.com/NVlabs/tiny-cuda-nn/#subdirectory=bindings/torch   # XY is the number in the message"
                ),
            ),
        ),
        Cause(
            r"(?:you have \S+\+cpu\b)|xFormers was built for:[\s\S]{0,200}you have \S+\+cpu",
            text("torch is the CPU build, so xFormers cannot load its CUDA code"),
            text("xFormers was built for a torch with CUDA; the installed one has none."),
            (
                text(
                    "pip install --force-reinstall torch==VERSION torchvision --index-url https://download.pytorch.org/whl/cuXYZ   # the version and cuXYZ for which xFormers was built, in the message"
                ),
            ),
        ),
        Cause(
            r"xFormers can't load C\+\+/CUDA extensions|xFormers was built for:|xformers[^\n]*(?:wasn't|was not|not) build? ?with CUDA support",
            text("xFormers was built for another torch than is installed"),
            text("Each xFormers release contains code for one torch release and one CUDA; the message names both."),
            (
                text(
                    "pip uninstall -y xformers; pip install xformers --index-url https://download.pytorch.org/whl/cuXYZ   # with the cuXYZ of the installed torch; pip then takes the matching release"
                ),
                text("Or install the torch for which it was built (named in the message)."),
            ),
        ),
        Cause(
            r"cannot import name '(?:triton_key|AttrsDescriptor|\w+)' from 'triton|triton[^\n]*(?:incompatible|version)[^\n]*torch|torch[^\n]*requires triton|_inductor[^\n]*triton[^\n]*(?:ImportError|cannot import)",
            text("Triton has another version than torch needs"),
            text("Each torch release needs exactly one Triton release; another package replaced it."),
            (
                text(
                    "pip install --force-reinstall torch   # with the index of the installed build; it brings its Triton"
                ),
            ),
        ),
        Cause(
            r"multiple CuPy packages are installed|CuPy is not correctly installed|cupy[^\n]*(?:was built for|different CUDA|failed to import)",
            text("CuPy is installed twice, or for another CUDA"),
            text("Each CuPy package (cupy-cuda11x, 12x, 13x) is for one CUDA; only one may be installed."),
            (
                text(
                    "pip uninstall -y cupy cupy-cuda101 cupy-cuda102 cupy-cuda110 cupy-cuda111 cupy-cuda11x cupy-cuda12x; pip install cupy-cuda12x   # the CUDA that the driver supports"
                ),
            ),
        ),
        Cause(
            r"No operator found for `?memory_efficient_attention",
            text("xFormers has no kernel for this card, this number format, or this torch"),
            text(
                "The lines below the message name the reason for each kernel: built without CUDA, a card that is too old, float32, or a size it does not support."
            ),
            (
                text(
                    "python -m xformers.info   # then install the xFormers for the installed torch: pip install xformers --index-url https://download.pytorch.org/whl/cuXYZ"
                ),
                text("Or work without it: torch's own attention (sdpa) is as fast."),
            ),
        ),
        Cause(
            r"No module named '?(?:simple_knn|diff_gaussian_rasterization|diff_surfel_rasterization|diff_plane_rasterization|fused_ssim|nvdiffrast|tinycudann|gsplat|kaolin|_raymarching|raymarching|gridencoder|shencoder|freqencoder|torchsparse|spconv\S*|pointnet2_ops|MultiScaleDeformableAttention|deform_conv\w*|iou3d\w*|roiaware_pool3d\w*)\b",
            text("An extension with CUDA code, which the project compiles on this machine, is not installed"),
            text(
                "It is not on PyPI, or only as source: the project has it as a submodule or a folder. Its build failed, was left out, or was done in another environment."
            ),
            (
                text(
                    "git submodule update --init --recursive; pip install --no-build-isolation ./submodules/NAME   # in the environment that runs the program; the folder is in the project's guide"
                ),
                text(
                    "nvcc --version; python -c 'import torch; print(torch.version.cuda)'   # the same major version, and a C++ compiler, are needed; the first “error:” line of the build names what is missing"
                ),
            ),
        ),
        Cause(
            r"Cannot use GPU, CuPy is not installed|No module named '?(?:torch_scatter|torch_sparse|torch_cluster|torch_geometric|mmcv|detectron2|pytorch3d|tinycudann|pycuda|tensorrt|kaolin|gsplat|nvdiffrast|diff_gaussian_rasterization|simple_knn|spconv|cupy|flash_attn|xformers|bitsandbytes|deepspeed|apex)'?|FlashAttention2 has been toggled on, but|package flash_attn seems to be not installed",
            text("An optional package that the program uses is not installed"),
            text("flash-attn, xFormers, bitsandbytes and the like are not part of torch."),
            (
                text(
                    "pip install PACKAGE   # flash-attn: pip install flash-attn --no-build-isolation, needs nvcc or a ready wheel, and an Ampere card or newer"
                ),
                text(
                    "CuPy is named after its CUDA: pip install cupy-cuda12x (or -cuda11x, -cuda13x); spaCy: 'spacy[cuda12x]'"
                ),
                text("Or without it: attn_implementation='sdpa' (transformers)"),
            ),
        ),
        Cause(
            r"_XLAC[^\n]*undefined symbol|torch_xla[^\n]*(?:undefined symbol|does not match|incompatible)|No module named '?_XLAC",
            text("torch_xla was built for another torch"),
            text("torch and torch_xla must have the same version."),
            (
                text(
                    "pip install torch==X.Y.* 'torch_xla[tpu]==X.Y.*' -f https://storage.googleapis.com/libtpu-releases/index.html"
                ),
            ),
        ),
        Cause(
            r"needs to work with PyTorch \d|Intel\S* Extension for PyTorch\S*[^\n]*but PyTorch|ipex[^\n]*(?:undefined symbol|incompatible|version)",
            text("Intel's extension was built for another torch"),
            text("intel_extension_for_pytorch and torch must have the same version."),
            (
                text(
                    "Install both with the same version; torch 2.5 and newer runs on Intel cards without the extension: pip install torch --index-url https://download.pytorch.org/whl/xpu"
                ),
            ),
        ),
        Cause(
            r"cannot import name '_C' from|name '_C' is not defined|has no attribute 'ds_opt_adam'|No module named '?(?:amp_C|apex\.\w+|fused_layer_norm_cuda|fused_adam_cuda|flash_attn_2_cuda|flash_attn_cuda|deform_conv_cuda|pointnet2\S*|spconv\S*|_ext|causal_conv1d_cuda|selective_scan_cuda|rotary_emb|dropout_layer_norm|awq_ext|exllama\w*|quant_cuda|vllm\._C|sgl_kernel)'?",
            text("An extension was installed without its compiled CUDA part"),
            text(
                "The Python files are there, the compiled module is not: it was built without CUDA, for another Python, or not at all."
            ),
            (
                text(
                    "Build it against the installed torch: pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps PACKAGE   # needs nvcc"
                ),
                text("Start Python outside the package's source folder, which would be found first."),
            ),
        ),
    )


class WheelNotFound(CauseRule):
    """pip or conda has no build of the framework for this Python, system or index.

    **Why it matters.** Versions such as 1.13.1+cu117 are not on PyPI but on PyTorch's index, and exist for certain Pythons
    only. Users then install what they get, which is often the CPU build.

    **What to do.** Use PyTorch's index and a Python that the release supports.

    **Sources.** pytorch.org, "Previous versions"; pip, "Compatibility tags"; conda, "Managing virtual packages".
    """

    code = "wheel-missing"
    severity = "error"
    title = text("There is no such build for this Python or index")
    causes = (
        Cause(
            r"Unable to find installation candidates for torch\S*|Because [^\n]*\b(?:torch|torchvision|torchaudio|jaxlib|tensorflow)\S* has no wheels? with a matching|(?:No matching distribution found for|Could not find a version that satisfies the requirement) (?:torch|torchvision|torchaudio)\S*\+(?:cu|rocm|cpu)",
            text("This build of torch is not on PyPI, or not for this Python"),
            text("Versions with +cuXYZ are on PyTorch's own index, each for certain Python versions only."),
            (
                text("pip install torch==VERSION+cuXYZ --index-url https://download.pytorch.org/whl/cuXYZ"),
                text(
                    "If it is still not found: make an environment with an older Python (conda create -n lab python=3.10), and try there."
                ),
            ),
        ),
        Cause(
            r"only a placeholder project on PyPI|(?:No matching distribution found for|Could not find a version that satisfies the requirement) (?:torch|tensorflow|jaxlib|jax|tensorflow-gpu|torchvision|torchaudio|onnxruntime-gpu|bitsandbytes|xformers|flash-attn|triton|cupy|nvidia)\b",
            text("There is no such package for this Python or this system"),
            text(
                "pip offers only wheels for this Python version, this system and this processor. New Pythons, 32-bit Pythons and old releases have none."
            ),
            (
                text(
                    "Check: python -c 'import sys, platform; print(sys.version, platform.machine(), platform.system())'"
                ),
                text(
                    "Use a Python that the release supports, for example: conda create -n lab python=3.11; tensorflow-gpu no longer exists: pip install 'tensorflow[and-cuda]' (Linux). Triton has wheels for Linux only."
                ),
            ),
        ),
        Cause(
            r"\.whl is not a supported wheel on this platform",
            text("The wheel is for another Python or system"),
            text("The name of a wheel says for which Python (cp310) and system it is; this Python is another."),
            (
                text(
                    "python -m pip debug --verbose | head -40   # shows the accepted tags; download the wheel for them"
                ),
            ),
        ),
        Cause(
            r"nothing provides __cuda|__cuda[^\n]*(?:needed by|is missing|not installable|which is missing)|package pytorch\S*[^\n]*requires __cuda",
            text("conda sees no driver here, so it refuses CUDA builds"),
            text(
                "conda offers CUDA builds only where it finds a driver (the virtual package __cuda). On a login node or in docker build there is none."
            ),
            (text("CONDA_OVERRIDE_CUDA=12.4 conda install …   # the CUDA of the machine that will run it"),),
        ),
    )


class JaxBuild(CauseRule):
    """JAX uses the CPU: jaxlib has no CUDA, or its CUDA plug-in has another version.

    **Why it matters.** JAX consists of jax, jaxlib and, for CUDA, jax-cudaNN-plugin and jax-cudaNN-pjrt; all must have the
    same version. `pip install jax` alone brings the CPU. JAX then says so once, and computes slowly.

    **What to do.** Install them together: `pip install -U "jax[cuda13]"` (or cuda12).

    **Sources.** docs.jax.dev, "Installation"; jax_plugins' version check; jax-ml/jax issues.
    """

    code = "jax-build"
    severity = "error"
    title = text("JAX does not use the GPU")
    causes = (
        Cause(
            r"RuntimeError: Unable to initialize backend '\w+'[^\n]*(?:Could not find registered platform|Unknown backend|Available platform names)",
            text("JAX was told to use a platform that is not there"),
            text(
                "JAX_PLATFORMS (jax_platforms, jax_platform_name) names a platform that this build or this machine does not have: gpu stands for cuda and rocm."
            ),
            (
                text("export JAX_PLATFORMS=cuda   # or unset it: JAX then takes the best that works"),
                text("python -c 'import jax; print(jax.devices())'"),
            ),
        ),
        Cause(
            r"jaxlib is version \S+, but this version of jax requires",
            text("jax and jaxlib have different versions"),
            text(
                "The installed jax needs a newer jaxlib; another package, or the image of the runtime, holds the older one."
            ),
            (
                text(
                    "pip install -U jax jaxlib   # with a GPU 'jax[cuda12]', with a TPU 'jax[tpu]'; also update chex, flax and optax, then restart the runtime"
                ),
            ),
        ),
        Cause(
            r"TPU may be present on this machine, but either a TPU-enabled jaxlib or libtpu is not installed",
            text("JAX was installed without its part for TPUs, and computes on the CPU"),
            text("pip install jax, and packages that need jax (flax, optax), bring the CPU build only."),
            (
                text(
                    "pip uninstall -y jax jaxlib libtpu; pip install 'jax[tpu]'   # then: python -c 'import jax; print(jax.devices())'"
                ),
            ),
        ),
        Cause(
            r"CUDA-enabled jaxlib is not installed\. Falling back",
            text("JAX computes on the CPU, because its CUDA part is not installed; harmless if that is intended"),
            text("JAX sees that an NVIDIA card may be there, and has no CUDA plug-in for it. Programs run on the CPU."),
            (
                text("If the CPU is intended: nothing needs to be done. To hide the line: export JAX_PLATFORMS=cpu"),
                text("To use the card: pip install -U 'jax[cuda12]'   # or jax[cuda13] with driver 580 or newer"),
            ),
        ),
        Cause(
            r"import jax\b[\s\S]{0,300}Segmentation fault|Jax plugin configuration error|JAX plugin \S+ version \S+ is installed,?\s+but it is not compatible with|jax_cuda\d+_plugin[^\n]*(?:not compatible|mismatch|incompatible)|No FFI handler registered for|PJRT(?: C)? API version (?:mismatch|\S+ is)|plugin[^\n]*PJRT[^\n]*version",
            text("The CUDA plug-in of JAX has another version than jaxlib"),
            text("pip installed a newer or older plug-in beside jaxlib; both must have the same version."),
            (
                text(
                    "pip install -U 'jax[cuda12]'   # or jax[cuda13] with driver 580 or newer: brings matching versions"
                ),
                text(
                    "To keep this jaxlib: pip install jax-cuda12-plugin==VERSION jax-cuda12-pjrt==VERSION   # the version of jaxlib"
                ),
            ),
        ),
        Cause(
            r"Found (?:cuDNN|CUDA|cuBLAS|cuFFT|cuSOLVER|cuSPARSE|CUPTI) version \S+, but JAX was built against|Unable to load (?:cuDNN|cuBLAS|cuSPARSE|cuSOLVER|cuFFT|CUPTI|CUDA)\. Is it installed|CUDA backend failed to initialize|Outdated cuDNN installation|jaxlib version \S+ is (?:newer|older) than",
            text("JAX's CUDA libraries are missing or have another version than JAX was built with"),
            text(
                "JAX finds CUDA or cuDNN libraries of the system (LD_LIBRARY_PATH) or of another package, which are older than it needs; or jax and jaxlib do not belong together."
            ),
            (
                text(
                    "pip install -U 'jax[cuda12]'   # brings its own CUDA and cuDNN; jax[cuda13] with driver 580 or newer"
                ),
                text(
                    "env -u LD_LIBRARY_PATH python -c 'import jax; print(jax.devices())'   # if that helps, remove CUDA's folders from LD_LIBRARY_PATH"
                ),
            ),
        ),
        Cause(
            r"Unable to initialize backend '(?:cuda|gpu)'|(?:^|\n)(?![^\n]*backend '(?:rocm|tpu)')[^\n]*jaxlib[^\n]*has no attribute 'GpuAllocatorConfig|No GPU/TPU found, falling back to CPU|jaxlib is not installed|Unknown backend:? '?(?:cuda|gpu)|CUDA-enabled jaxlib is not installed|\[CpuDevice\(id=0\)\]|TFRT_CPU_0",
            text("jaxlib is the CPU build, or finds no card"),
            text(
                "JAX found no CUDA back end and computes on the CPU. Usually jaxlib was installed without CUDA; else the driver is missing."
            ),
            (
                text(
                    "pip install -U 'jax[cuda12]'   # with driver 580 or newer also jax[cuda13]; JAX before 0.4: pip install jaxlib==0.1.XX+cudaNNN -f https://storage.googleapis.com/jax-releases/jax_cuda_releases.html"
                ),
                text(
                    "Then: python -c 'import jax; print(jax.devices())'. If it still shows the CPU, check nvidia-smi."
                ),
            ),
        ),
    )
