"""Rules about programs whose GPU part is missing, is switched off, or does not fit the driver or the card."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["ProgramBackend"]

_DRIVER_BY_AGE = text(
    "Update the driver, as far as the card allows (Maxwell, Pascal, Volta: R580 at most; Kepler: R470): https://www.nvidia.com/drivers"
)


class ProgramBackend(CauseRule):
    """A program runs, but without its GPU part: it was built without it, cannot load it, or finds it unfit for the driver or the card.

    **Why it matters.** ffmpeg, OpenCV, Blender, MXNet, MATLAB and others decide themselves whether they use the card. Their
    words differ from CUDA's own; the reasons are the same few: a build without CUDA, a driver that is too old for the build,
    or a card that is too old or too new for it.

    **What to do.** Ask the program which back ends it has, and compare driver and card with what its release needs.

    **Sources.** ffmpeg, `-encoders` and nv-codec-headers; Blender manual, "GPU Rendering"; NVIDIA OptiX release notes;
    OpenCV, CMake options; dlib, `DLIB_USE_CUDA`; MathWorks, "GPU Computing Requirements"; GROMACS manual; mxnet.apache.org.
    """

    code = "program-backend"
    severity = "error"
    title = text("A program runs without its GPU part")
    causes = (
        Cause(
            r"OPTIX_ERROR_UNSUPPORTED_ABI_VERSION|OPTIX_ERROR_(?:LIBRARY_NOT_FOUND|ENTRY_SYMBOL_NOT_FOUND)|[Ff]ailed to initiali[sz]e OptiX|OptiX[^\n]*(?:driver|version)[^\n]*(?:old|newer|requires|required|update|mismatch)|libnvoptix\.so[^\n]*(?:cannot|not found)|nvoptix[^\n]*(?:not found|missing)",
            text("The driver is too old for this program's OptiX, or its part for OptiX is missing"),
            text(
                "OptiX is part of the driver; each program needs a certain release of it. In a container it needs the capability graphics."
            ),
            (
                _DRIVER_BY_AGE,
                text(
                    "Container: -e NVIDIA_DRIVER_CAPABILITIES=all; Linux: the driver's graphics packages (libnvidia-gl-BRANCH). Or choose CUDA instead of OptiX."
                ),
            ),
        ),
        Cause(
            r"OPTIX_ERROR_\w+",
            text("OptiX failed: the driver does not fit the program, or the card's memory is full"),
            text(
                "OptiX compiles the program's kernels with the driver. A driver with a fault, a full card or a stale cache make it fail."
            ),
            (
                text(
                    "nvidia-smi   # memory; delete the cache (~/.cache/…, /var/tmp/OptixCache_*), then install another driver release of the branch"
                ),
                text("Or choose CUDA instead of OptiX in the program."),
            ),
        ),
        Cause(
            r"Unsupported PTX version|Failed to load CUDA kernel from|CUDA binary kernel for this graphics card[^\n]*not found|Found no Cycles device|Failed to (?:load|find|create) (?:Cycles |OptiX )(?:render )?kernel|CUDA device supported only with compute capability|No compatible GPUs found for Cycles|Cycles[^\n]*(?:no devices|not found)",
            text("Blender does not use the card: the driver is too old for this release, or the card is"),
            text(
                "Each Blender release needs a driver of a certain age, and drops old cards (Kepler since 3.0). Without a usable device it computes on the CPU."
            ),
            (
                text(
                    "nvidia-smi   # must work (in a notebook: choose a GPU runtime; in a container: --gpus all); then update the driver: https://www.nvidia.com/drivers"
                ),
                text(
                    "Preferences → System → Cycles Render Devices: choose CUDA or OptiX; an older card: an older Blender (2.93 for Kepler)."
                ),
            ),
        ),
        Cause(
            r"Unknown (?:encoder|decoder) '\w*(?:nvenc|cuvid|nvdec|qsv|vaapi|amf)'|Unrecognized hwaccel: \w+|no element \"nv\w+\"|Encoder \w*nvenc\w* not found|Unknown hwaccel|hwaccel (?:type )?not supported in this build|nvenc support is not compiled|Encoder '?\w*(?:nvenc|vaapi|qsv)'? (?:not|is not)",
            text("This build of ffmpeg (or GStreamer) has no support for the card's video engine"),
            text("The program was compiled without NVENC, CUVID or VA-API, or its plug-in is not installed."),
            (
                text(
                    "ffmpeg -hwaccels; ffmpeg -encoders | grep -E 'nvenc|vaapi|qsv'   # what this build has; which -a ffmpeg (conda's has none)"
                ),
                text(
                    "Install a build with it (the distribution's, BtbN's), or compile with nv-codec-headers and --enable-nvenc --enable-cuda-llvm; GStreamer: gstreamer1.0-plugins-bad, then rm -rf ~/.cache/gstreamer-1.0"
                ),
            ),
        ),
        Cause(
            r"Impossible to convert between the formats supported by the filter|hwupload[^\n]*(?:fail|error|required)|A hardware (?:device|frames) reference is required|No hw(?:frames)? context|hwaccel initialisation returned error|Failed setup for format cuda|No decoder surfaces left|CUVID[^\n]*(?:not supported|fail)|cuvidCreateDecoder[^\n]*(?:fail|->)|Hardware is lacking required capabilities",
            text(
                "ffmpeg cannot pass the pictures on the card from one step to the next, or the card cannot decode this format"
            ),
            text(
                "Frames stay on the card with -hwaccel_output_format cuda, and filters for the CPU cannot take them. Older cards lack decoders (AV1, HEVC 4:2:2, VP9)."
            ),
            (
                text(
                    "Use filters for the card (scale_cuda, yadif_cuda), or download first: -vf hwdownload,format=nv12; or leave out -hwaccel_output_format cuda"
                ),
                text(
                    "Decoding: compare the format with NVIDIA's Video Encode and Decode Support Matrix; -hwaccel none decodes on the CPU."
                ),
            ),
        ),
        Cause(
            r"getCudaEnabledDeviceCount\(\)+\s*(?:\n\s*)?(?:=|->|:)?\s*0\b|cv2\.cuda[^\n]*(?:has no attribute|not found|no attribute)|OpenCV[^\n]*(?:CUDA|cuda)[^\n]*(?:: *NO\b|OFF)",
            text("OpenCV was built without CUDA"),
            text("The wheels on PyPI and the distributions' packages have no CUDA: they count no devices."),
            (
                text(
                    "python -c 'import cv2; print(cv2.getBuildInformation())' | grep -i cuda   # then build OpenCV with -DWITH_CUDA=ON -DWITH_CUDNN=ON -DOPENCV_DNN_CUDA=ON and CUDA_ARCH_BIN of the card; or keep this step on the CPU"
                ),
            ),
        ),
        Cause(
            r"DLIB_USE_CUDA\W+(?:is )?(?:False|0|OFF)|dlib[^\n]*(?:without CUDA|DISABLED|not use CUDA)|DLIB WILL NOT USE CUDA|Found CUDA, but CMake was unable to find the cuDNN",
            text("dlib was built without CUDA"),
            text(
                "dlib looks for CUDA, cuDNN and a fitting compiler when it is compiled, and leaves CUDA out if one of them is missing."
            ),
            (
                text(
                    "pip install --no-cache-dir --no-binary dlib --verbose dlib   # needs nvcc, cuDNN's headers and a compiler that nvcc supports; its output says why CUDA is left out"
                ),
            ),
        ),
        Cause(
            r"MXNetError: GPU is not enabled|mxnet[^\n]*(?:not compiled with CUDA)|Check failed: [^\n]*mxnet[^\n]*not implemented[^\n]*CPU",
            text("MXNet is the CPU package"),
            text("MXNet has a package for each CUDA (mxnet-cu112 and so on); the plain one has none."),
            (
                text(
                    "pip uninstall -y mxnet; pip install mxnet-cu112   # the last one; NumPy below 1.24; MXNet is no longer maintained and has no code for newer cards"
                ),
            ),
        ),
        Cause(
            r"gpuDevice[^\n]*(?:No CUDA|No supported GPU|error|out of date|not supported)|Graphics driver is out of date|problem with the graphics driver or with this GPU device|parallel:gpu:device\S*|(?:Unable to find a supported GPU device|GPU acceleration with the CUDA driver is unavailable)",
            text("MATLAB (or this program) finds no GPU that it supports: driver or card do not fit its release"),
            text(
                "Each MATLAB release needs a certain driver and compute capability, and knows no newer cards by itself."
            ),
            (
                text(
                    "gpuDeviceTable; nvidia-smi   # compare with MathWorks' table of releases and compute capabilities"
                ),
                _DRIVER_BY_AGE,
                text("A newer card than the release: parallel.gpu.enableCUDAForwardCompatibility(true)"),
            ),
        ),
        Cause(
            r"incompatible GPU|no compatible GPUs? (?:were )?(?:detected|found)|GPU[^\n]{0,60}(?:is )?(?:incompatible|not compatible)[^\n]*|compiled without support for (?:the )?(?:architecture|compute capability)",
            text("The program was built without code for this card"),
            text("Programs such as GROMACS, Amber and LAMMPS are compiled for certain cards."),
            (
                text(
                    "nvidia-smi --query-gpu=name,compute_cap --format=csv   # build again for it (CMAKE_CUDA_ARCHITECTURES, GMX_CUDA_TARGET_SM), with a toolkit that knows the card; or a newer release"
                ),
            ),
        ),
        Cause(
            r"TensorFlow was not built with CUDA kernel binaries compatible with compute capability|CUDA kernels will be jit-compiled from PTX",
            text("This TensorFlow is older than the card: its first start takes long, and it may fail"),
            text(
                "It has no code for this card, so the driver compiles everything at the first start (half an hour), and keeps the result."
            ),
            (
                text(
                    "Wait once, with a larger cache: export CUDA_CACHE_MAXSIZE=4294967296; or a newer TensorFlow, or NVIDIA's image of it: nvcr.io/nvidia/tensorflow"
                ),
            ),
        ),
        Cause(
            r"(?<!PTX )JIT compilation failed|'?cuLaunchKernel[^\n]*' ?failed",
            text("TensorFlow cannot compile a kernel for this card"),
            text(
                "It compiles kernels at run time, with libdevice and ptxas of CUDA. They are missing, too old for the card, or TensorFlow itself is."
            ),
            (
                text(
                    "python -m pip install -U 'tensorflow[and-cuda]'   # brings them; with a toolkit: export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda"
                ),
                text(
                    "GeForce 50 and newer need TensorFlow's newest release, or NVIDIA's image (25.02 and newer); Windows: only TensorFlow 2.10 and older use the card."
                ),
            ),
        ),
        Cause(
            r"CUDA device is not set properly|CPU device will be used by default|compiled with CUDA, but (?:CUDA is not|no GPU)|PaddlePaddle[^\n]*(?:CPU version|only support CPU)|not compiled with CUDA\W+(?:but|so)[^\n]*paddle|Place CUDAPlace\(\d\) is not supported",
            text("Paddle sees no usable card: the CPU package is installed, or its CUDA does not fit the driver"),
            text(
                "Each paddlepaddle-gpu package is for one CUDA, which the driver must support; paddlepaddle is for the CPU."
            ),
            (
                text("nvidia-smi; echo $CUDA_VISIBLE_DEVICES; python -c 'import paddle; paddle.utils.run_check()'"),
                text(
                    "pip uninstall -y paddlepaddle paddlepaddle-gpu; then the paddlepaddle-gpu for the driver's CUDA: https://www.paddlepaddle.org.cn/install/quick"
                ),
            ),
        ),
        Cause(
            r"factory function returned nullptr|TensorRT[^\n]*(?:Builder|Logger|Runtime)[^\n]*(?:nullptr|null)|createInferRuntime[^\n]*(?:null|fail)",
            text("TensorRT cannot start CUDA"),
            text(
                "TensorRT found no card, or the driver is older than the CUDA that this TensorRT was built with; or CUDA was used before a fork."
            ),
            (
                text("nvidia-smi   # its CUDA version must be at least TensorRT's (pip list | grep -i tensorrt)"),
                text("Update the driver, or install the TensorRT for the driver's CUDA (tensorrt-cu12)."),
            ),
        ),
        Cause(
            r"llama runner process[^\n]*(?:terminated|no longer running)[^\n]*(?:exit status (?!0xc00001[34])[^\n]*|error|CUDA error)\s*(?=\n|$)|timed out waiting for llama runner|failure during GPU discovery|failed to finish discovery|error loading model: (?!unable)|llama_load_model_from_file[^\n]*fail|unable to load model:",
            text(
                "Ollama's (or llama.cpp's) runner ended: memory of the card, a driver that does not fit, or a model that it does not know"
            ),
            text(
                "The runner is a process of its own; its log has the reason. Most often layers and context do not fit into the card, the driver is too old for this release, or the model is newer than the program."
            ),
            (
                text(
                    "journalctl -u ollama -n 80 (Windows: %LOCALAPPDATA%\\Ollama\\server.log); OLLAMA_DEBUG=1 ollama serve   # the lines above the last one"
                ),
                text(
                    "Update Ollama and the driver; a smaller context or fewer layers: /set parameter num_ctx 4096, num_gpu 20; on the CPU alone: num_gpu 0"
                ),
                text("After a suspend: sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm; sudo systemctl restart ollama"),
            ),
        ),
        Cause(
            r"[Mm]odel architectures? \[[^\]]*\][^\n]*not supported|does not recognize this architecture|unknown model architecture|model type `?[\w-]+`? but Transformers|Unrecognized (?:model|configuration class)|KeyError: '(?:qwen|gemma|llama|mistral|deepseek|phi|glm)\w*'",
            text("The program is older than the model"),
            text("Each architecture is known from a certain release on. The card is not concerned."),
            (
                text(
                    "pip install -U transformers vllm   # or the release that the model's page names; llama.cpp, Ollama: the newest release"
                ),
            ),
        ),
        Cause(
            r"device type at start of device string: (?:gpu|GPU|nvidia|cudo|cuda0)|Invalid device string: '\S+'",
            text("The device is called cuda in torch"),
            text("torch knows cuda, cuda:0, cpu, mps, xpu and a few more; for AMD cards it is cuda too."),
            (text("device = 'cuda' if torch.cuda.is_available() else 'cpu'"),),
        ),
    )
