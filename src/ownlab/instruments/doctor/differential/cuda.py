"""Messages of CUDA at run time: no card, no start, no code for the card, crashes of kernels, failing libraries, memory."""

from __future__ import annotations

from ownlab.instruments.doctor.differential.mechanism import (
    AMD,
    CONTAINER,
    HOSTED,
    LINUX,
    MAC,
    MINING,
    WINDOWS,
    WSL,
    Family,
    Mechanism,
)
from ownlab.text import text

__all__ = ["CUDA"]

_CPU_BUILD = Mechanism(
    text("The build has no GPU part: a CPU package, another environment's, or one that replaced the right one"),
    text(
        "python -c 'import sys, torch; print(sys.executable, torch.__version__, torch.version.cuda, torch.version.hip)'   # None: a build for the CPU"
    ),
    sign=r"\+cpu\b|cpuonly|pip install|conda",
    codes=("torch-no-gpu",),
)
_OTHER_MAKER = Mechanism(
    text("The machine has no NVIDIA card: an AMD, Intel or Apple GPU needs another build, and no GPU the CPU"),
    text("lspci | grep -iE 'vga|3d|display'; Windows: the Device Manager; Mac: device 'mps'"),
    sign=rf"{AMD}|{MAC}|\bIntel(?:\(R\))? (?:Iris|UHD|HD Graphics|Arc|Xe)",
    against=r"^fact: card nvidia|NVIDIA-SMI \d|\b(?:RTX|GTX|Tesla|Quadro) ?\w?\d{2,}",
    codes=("rocm-build", "xpu-build", "no-accelerator"),
)
_MEMORY_TAKEN = Mechanism(
    text(
        "The card's memory is full, so the context or a handle cannot be made: another program, a leftover process, another user"
    ),
    text("nvidia-smi   # memory and processes; sudo fuser -v /dev/nvidia*"),
    sign=r"alloc|memory|NOT_INITIALIZED|create",
    codes=("held", "leftover-process", "out-of-memory"),
)
_OTHER_LIBRARY = Mechanism(
    text(
        "Libraries of two CUDA or cuDNN versions meet: LD_LIBRARY_PATH or PATH names another copy, or packages of several origins are mixed"
    ),
    text(
        "env -u LD_LIBRARY_PATH python …; pip list | grep -iE 'nvidia|torch'; conda list | grep -iE 'cud|torch'; echo $LD_LIBRARY_PATH"
    ),
    sign=r"LD_LIBRARY_PATH|conda|/usr/local/cuda|\.so",
    codes=("cudnn-shadow", "mixed-packages"),
)
_UNFIT_BUILD = Mechanism(
    text(
        "This release of the framework, with its CUDA and cuDNN, does not fit card or driver: too old for a new card, too new for an old one"
    ),
    text(
        "python -c 'import torch; print(torch.__version__, torch.cuda.get_arch_list(), torch.cuda.get_device_name())'   # then another release, in a new environment as the project's guide names it"
    ),
    codes=("no-kernel",),
)
_UNSTABLE = Mechanism(
    text("The card is not stable: clocks above the default, power, risers, heat, or a faulty card"),
    text(
        "sudo dmesg | grep -i xid (Windows: event log, nvlddmkm); default clocks and power limit; does it fail on one card only?"
    ),
    sign=rf"{MINING}|overclock|xid|random",
    codes=("driver-reset",),
)
_EARLIER_ERROR = Mechanism(
    text("An earlier error of the same process is reported here: kernels run asynchronously"),
    text("export CUDA_LAUNCH_BLOCKING=1   # before the program starts; read the first error"),
)

CUDA = (
    Family(
        text("The program finds no GPU"),
        r"no cuda[- ](?:capable )?(?:gpus?|devices?)|no (?:nvidia |cuda |compatible |supported |usable |suitable |capable )*(?:gpus?|graphics cards?|(?:graphics )?adapters?|accelerators?|devices?)\b[^\n]{0,30}(?:found|detected|available|visible|present)|no (?:gpus?|devices?) (?:was |were )?(?:found|detected|available)|"
        r"gpus? (?:is |are |was |were )?(?:not|un)\s?(?:available|found|detected|visible|accessible|usable|recogni[sz]ed)|(?:cannot|could not|can't|couldn't|unable to|failed to) (?:find|detect|see|access|use|locate|initiali[sz]e|open|get) (?:a |any |the |your )?(?:cuda|nvidia|gpu|graphics|opencl|vulkan)\b|is_available\(\)\W*\n?\W*False|cuda (?:is )?not (?:available|found|detected|enabled)|device[_ ]count\W{1,6}0\b|"
        r"(?:GPUs?|devices?) (?:available|count|found|detected)\W{1,4}(?:0|none|\[\]|false)\b|found 0 (?:gpus?|devices?)|\b(?:38|100) vs\. 0|CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice|fall(?:ing)? back to (?:the )?cpu|(?:using|running on|use) (?:the )?cpu (?:only|instead|device)|no GPU/TPU found|failed to infer device|no platform detected|device(?:_type)?\W{1,3}cpu\b",
        ("no-visible-gpu", "cluster", "gpu-not-found", "torch-no-gpu", "no-driver", "hidden", "device-request", "container-no-gpu", "no-accelerator"),
        (
            Mechanism(text("The process was not given the card: a container without --gpus, a job that asked for none, a hosted notebook without a GPU runtime, Ray or another launcher that hides it"), text("nvidia-smi in the same container, job or notebook; docker run --gpus all …; Slurm: --gres=gpu:1; Ray: num_gpus=1"), sign=rf"{CONTAINER}|{HOSTED}|slurm|srun|sbatch|\bray\b", codes=("container-no-gpu", "cluster", "runtime-missing")),
            Mechanism(text("CUDA_VISIBLE_DEVICES hides it: empty, a number that does not exist, a wrong UUID, set in the program or by a launcher, or only after CUDA was started"), text("env | grep -E 'VISIBLE_DEVICES'; grep -rn VISIBLE_DEVICES *.py *.sh; nvidia-smi -L   # the numbers that there are"), sign=r"VISIBLE_DEVICES|device[_ ]ids?|local_rank", codes=("hidden", "invalid-ordinal")),
            _CPU_BUILD,
            Mechanism(text("The driver does not work: not loaded, updated without a restart, card lost, kernel updated, machine back from a suspend, or the card belongs to virtual machines (vfio-pci)"), text("nvidia-smi; sudo dmesg | grep -iE 'nvrm|xid' | tail   # if it worked before: sudo reboot"), sign=r"suspend|reboot|update|NVRM|Aborted", codes=("no-smi", "mismatch", "no-device", "no-driver")),
            Mechanism(text("The build's CUDA is newer than the driver's"), text("nvidia-smi (CUDA Version, top right) beside python -c 'import torch; print(torch.version.cuda)'"), sign=r"\+cu\d+|CUDA Version", codes=("driver-old",)),
            _OTHER_MAKER,
            Mechanism(text("The device files are missing or closed to this user: nvidia_uvm is not loaded, /dev/nvidia* is not there, a group is missing, SELinux"), text("ls -l /dev/nvidia* /dev/nvidia-caps 2>/dev/null; id   # nvidia-uvm missing: sudo nvidia-modprobe -u -c=0; sudo COMMAND works: rights"), sign=r"permission|/dev/nvidia|denied|uvm", codes=("dev-permission", "uvm")),
            Mechanism(text("Another libcuda is found first (stubs, compat, another container's), or none: Nix, snap and Flatpak do not search the system's folders; WSL: /usr/lib/wsl/lib"), text("ldconfig -p | grep libcuda; echo $LD_LIBRARY_PATH; LD_DEBUG=libs PROGRAM 2>&1 | grep libcuda | head"), sign=rf"stubs|compat|nix|guix|snap|flatpak|{WSL}|error 34|STUB", codes=("fwd", "combo")),
            Mechanism(text("Fabric Manager is not running (NVSwitch machines), MIG is on without instances, or the compute mode is exclusive or prohibited"), text("nvidia-smi -q | grep -E -A2 'Fabric|MIG Mode|Compute Mode'; systemctl status nvidia-fabricmanager"), sign=r"MIG|fabric|nvswitch|HGX|[AH][12]00|B200|exclusive", codes=("fabric", "mig", "mig-instances", "exclusive")),
            _MEMORY_TAKEN,
            Mechanism(text("The program does not support this card: too old, or it looks for another interface (OpenCL, Vulkan, DirectX), or its kernels or plug-in are missing"), text("the program's list of supported cards and its own listing of devices (--list-devices, --version)")),
            Mechanism(text("Windows: a Remote Desktop session or a service has no GPU, or the laptop gives the program the integrated one"), text("start it at the machine itself; Settings, Display, Graphics: high performance"), sign=rf"{WINDOWS}|remote desktop|rdp", against=LINUX),
        ),
    ),
    Family(
        text("CUDA does not start"),
        r"(?:cuda|cu\w*|HIP|driver)\W[^\n]{0,60}(?:unknown error|initiali[sz]ation error|not initiali[sz]ed|not (?:yet )?ready)|UNKNOWN_ERROR|CUDA_ERROR_(?:UNKNOWN|NOT_INITIALIZED|SYSTEM_NOT_READY)|cudaError(?:Unknown|InitializationError|SystemNotReady)|cuda (?:error|failure)\W+(?:3|30|999|802|803)\b|\b(?:3|30|999|802) vs\. 0|cuInit[^\n]{0,50}(?:fail|error|returned)|CUDA initiali[sz]ation: |failed (?:call )?to (?:cuInit|initiali[sz]e (?:the )?CUDA)|(?:fail\w*|cannot|could not|unable) (?:to )?(?:configure|create|set ?up|start|open|get|acquire) (?:an? |the )?(?:\w+ )?(?:CUDA|GPU|HIP|device) ?(?:context|stream|device|runtime)?|invalid (?:device )?context|(?:could not|cannot|fail\w*|unable) (?:to )?load (?:the )?(?:lib)?CUDA\b",
        ("uvm", "hmm", "driver-reset", "forked-cuda", "exclusive", "mps-server", "fabric"),
        (
            Mechanism(text("The driver is in a bad state: after a suspend, an update of driver or kernel, or a crash"), text("sudo dmesg | grep -iE 'nvrm|xid|uvm' | tail; uptime -s   # sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm, or sudo reboot"), sign=r"suspend|resume|laptop|reboot|worked", codes=("mismatch",)),
            Mechanism(text("The module nvidia_uvm or its device file is missing, above all in containers"), text("ls -l /dev/nvidia-uvm; lsmod | grep nvidia_uvm   # on the host: sudo nvidia-modprobe -u -c=0, then start the container anew"), sign=rf"{CONTAINER}|uvm", codes=("dev-permission",)),
            Mechanism(text("CUDA_VISIBLE_DEVICES was changed after CUDA had started, or CUDA was used before a fork"), text("set it before Python starts; set_start_method('spawn') for workers"), sign=r"VISIBLE_DEVICES|fork|multiprocess|worker|gunicorn|celery", codes=("forked-cuda", "hidden")),
            Mechanism(text("The card was lost or is unstable: power, riser, clocks, heat, a faulty card"), text("nvidia-smi -L; sudo dmesg | grep -i xid (Windows: event log, nvlddmkm)"), sign=rf"{MINING}|riser|xid|\bGPU ?#?\d", codes=("card-lost", "driver-reset")),
            Mechanism(text("Another libcuda is loaded: stubs or compat of a toolkit or an image, or one that does not fit the module"), text("ldconfig -p | grep libcuda; echo $LD_LIBRARY_PATH; ls /usr/local/cuda/compat"), sign=r"compat|stubs|80[34]", codes=("fwd", "combo")),
            Mechanism(text("The driver is damaged or older than the program needs"), text("nvidia-smi; does another CUDA program work (deviceQuery, python -c 'import torch; torch.zeros(1).cuda()')?"), codes=("driver-old",)),
            Mechanism(text("NVSwitch machine without Fabric Manager, MIG without instances, exclusive mode, or an MPS server that is gone"), text("systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -E -A2 'MIG Mode|Compute Mode'; echo $CUDA_MPS_PIPE_DIRECTORY"), sign=r"802|MIG|mps|exclusive|fabric|HGX|SXM", codes=("fabric", "mps-server", "exclusive", "mig")),
            Mechanism(text("Windows: a kernel ran too long and the driver was reset (TDR), or a Remote Desktop session"), text("event log: nvlddmkm; smaller steps"), sign=rf"{WINDOWS}|TDR", against=LINUX, codes=("launch-timeout",)),
            Mechanism(text("Memory of the host: a limit for address space, no room for KASLR and HMM, strict overcommit"), text("ulimit -v; sysctl vm.overcommit_memory; sudo dmesg | grep -i uvm   # “hmm”: options nvidia_uvm uvm_disable_hmm=1"), sign=r"hmm|ulimit|mmap|vmap", codes=("hmm",)),
            Mechanism(text("A layer between program and driver (ZLUDA, a wrapper, a virtual GPU) is older than the program"), text("its release notes; the program's former release"), sign=rf"zluda|{AMD}|vgpu"),
            Mechanism(text("A debugger, a profiler or a virus scanner holds the process"), text("start it without them")),
        ),
    ),
    Family(
        text("The build has no code that runs on this card"),
        r"no kernel (?:image|found)|invalid device function|not compatible with the current|NoBinaryForGpu|unsupported (?:gpu|cuda|device) ?(?:arch\w*|capability)|compute capability[^\n]{0,60}(?:not supported|unsupported|required|too (?:low|old)|least|only)|sm_\d+[^\n]{0,40}(?:not (?:supported|compatible|defined)|unknown|unsupported)|INVALID_IMAGE|INVALID_PTX|cudaErrorInvalidKernelImage|device kernel image is invalid|(?:8|98|209) vs\. 0|compatible[^\n]{0,30}extension for compute capability",
        ("no-kernel", "card-too-old", "toolkit-arch", "flash-attention-card", "rocm-libraries", "rocm-build"),
        (
            Mechanism(text("The build is older than the card, and has neither code nor PTX for it"), text("python -c 'import torch; print(torch.__version__, torch.cuda.get_arch_list())'; nvidia-smi --query-gpu=name,compute_cap --format=csv   # a newer release, with a newer CUDA"), sign=r"sm_1[02]\d|sm_90|RTX ?50\d\d|B[12]00|H100", codes=("no-kernel", "toolkit-arch")),
            Mechanism(text("The build or its CUDA is too new for an old card: CUDA 13 begins with Turing, 12 with Maxwell, current torch wheels later still"), text("nvidia-smi --query-gpu=name,compute_cap --format=csv   # below 7.5: a build for CUDA 12 (cu126) or older"), sign=r"GTX ?(?:[6-9]\d\d|10\d\d)|\bK[48]0|\bM[46]0|\bP(?:4|40|100)\b|V100|Kepler|Maxwell|Pascal", against=r"RTX ?50|sm_1[02]\d|\bB[12]00\b|\bH[12]00\b"),
            Mechanism(text("A compiled extension, not the framework, has no code for the card: it was built on another machine or with another list"), text("the last frames of the traceback name it; TORCH_CUDA_ARCH_LIST='X.Y' pip install --no-build-isolation --no-cache-dir EXTENSION"), sign=r"flash|xformers|mmcv|apex|tinycuda|tcnn|detectron|spconv|pytorch3d|bitsandbytes|deepspeed|_ext\b|_cuda\b|gsplat|nvdiffrast"),
            Mechanism(text("Another torch is used than the one that was installed: another environment, or a dependency that replaced it"), text("python -c 'import sys, torch; print(sys.executable, torch.__file__, torch.__version__)'; pip list | grep -i torch"), sign=r"reinstall|already|venv|conda"),
            Mechanism(text("With several cards, another one than is meant is used: CUDA numbers them by speed"), text("nvidia-smi -L; export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=N"), sign=r"GPU 1\b|cuda:1|multi", codes=("device-order",)),
            Mechanism(text("Compiled at run time with a compiler that does not know the card (Triton's or the toolkit's ptxas, nvrtc, an old cache)"), text("nvcc --version; pip list | grep -iE 'triton|nvrtc'; empty ~/.nv/ComputeCache and ~/.triton/cache"), sign=r"ptxas|triton|nvrtc|jit|inductor", codes=("triton-compiler",)),
            Mechanism(text("AMD: the chip is not among those of this ROCm build, or the integrated graphics is taken first"), text("rocminfo | grep -E 'gfx|Marketing'; HIP_VISIBLE_DEVICES=0 (or 1)"), sign=AMD, against=r"^fact: card nvidia|NVIDIA-SMI \d", codes=("rocm-build",)),
        ),
    ),
    Family(
        text("A kernel failed on the card"),
        r"illegal memory access|invalid (?:argument|configuration|resource handle)|INVALID_VALUE|unspecified launch failure|misaligned address|illegal instruction[^\n]{0,30}(?:encountered|cuda|gpu)|cuda illegal|LAUNCH_FAILED|ILLEGAL_ADDRESS|cudaErrorLaunchFailure|cudaErrorIllegal|an illegal \w+ was encountered|\b(?:4|77|700|715|716|719) vs\. 0|CU(?:DA)? (?:result|error)\W+(?:700|715|716|717|719)\b|hardware stack error|Memory access fault by GPU|VM_L2_PROTECTION_FAULT|uncorrectable ECC",
        ("illegal-access", "driver-reset", "runtime-failure", "cuda-error", "amd-fault", "ecc"),
        (
            Mechanism(text("A kernel of the program or of an extension reads or writes outside its memory: an index, a shape, an empty batch, sizes above 2³¹ elements"), text("export CUDA_LAUNCH_BLOCKING=1; compute-sanitizer PROGRAM   # names the kernel; the same step on the CPU"), codes=("illegal-access", "device-assert")),
            _UNSTABLE,
            Mechanism(text("An extension (flash-attn, xformers, mmcv, spconv, Triton …) was built for another torch, CUDA or card, or has a fault in this release"), text("the first frames name it; pip list | grep -iE 'torch|flash|xformers|triton|mmcv'; its release for this torch, or without it"), sign=r"flash|xformers|mmcv|triton|spconv|apex|deepspeed|vllm|_ext"),
            Mechanism(text("A fault of this program's, torch's or driver's release"), text("the same in the previous and the newest release, one at a time"), sign=r"vllm|sglang|llama|ollama|comfy|miner"),
            Mechanism(text("Of several cards one fails, or the transfer between them does (P2P, ACS, IOMMU, NVLink)"), text("CUDA_VISIBLE_DEVICES=0, then =1, …; NCCL_P2P_DISABLE=1; nvidia-smi topo -p2p r"), sign=r"rank|cuda:[1-9]|multi|nccl|P2P|\b[2-8] ?x|tensor.parallel"),
            Mechanism(text("Memory errors of the card or of the host"), text("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT; sudo dmesg | grep -iE 'xid|mce|edac'"), sign=r"ecc|xid|mce", codes=("ecc",)),
            Mechanism(text("The memory was full, and the program did not notice (an allocation that failed before)"), text("nvidia-smi while it runs; a smaller batch")),
            Mechanism(text("The kernel ran longer than the system allows on a card with a display, or the driver was reset"), text("Windows event log: nvlddmkm (TDR); smaller steps"), sign=rf"{WINDOWS}|display|TDR", codes=("launch-timeout", "windows-device")),
            _EARLIER_ERROR,
        ),
    ),
    Family(
        text("A check inside a kernel failed"),
        r"device-side assert|DEVICE_ASSERT|cudaErrorAssert|\bAssertion [`'][^\n]+failed|indexSelectLargeIndex|ScatterGatherKernel|nll_loss|\b(?:59|710) vs\. 0",
        ("device-assert",),
        (
            Mechanism(text("A label is outside 0 … classes−1, also −1 or 255 as a mark for “ignore”, or the model's last layer has another size"), text("labels.min(), labels.max() beside the number of outputs; ignore_index"), sign=r"nll|t >= 0|n_classes|cur_target|label", codes=("device-assert",)),
            Mechanism(text("A token or index is outside the embedding: tokenizer and model differ, special tokens were added without resize, or the text is longer than the positions"), text("input_ids.max() beside model.get_input_embeddings().num_embeddings; max_position_embeddings"), sign=r"srcIndex|index(?:Select|_select)|embedding|token|gather", codes=("device-assert",)),
            Mechanism(text("NaN or infinity: probabilities for multinomial, inputs of binary_cross_entropy outside 0 … 1 (fp16 overflow, a too large learning rate, a broken download)"), text("torch.isfinite(x).all(); bf16 or fp32 instead of fp16"), sign=r"multinomial|probability|input_val|binary|nan|inf"),
            Mechanism(text("The versions of torch, CUDA and the project's packages are others than the project was made for"), text("pip list beside the project's requirements; a new environment with exactly these"), sign=r"mmcv|detectron|fairseq|transformers|vllm"),
            Mechanism(text("The driver or the card is at fault, if the same program works on another machine"), text("sudo dmesg | grep -i xid; another driver branch; default clocks; with one card, NCCL_P2P_DISABLE=1"), sign=r"driver|rank|P2P|\b[2-8] GPUs|two GPUs"),
            _EARLIER_ERROR,
        ),
    ),
    Family(
        text("A library of CUDA failed"),
        r"CU(?:DNN|BLAS|SOLVER|SPARSE|RAND|FFT)_(?:STATUS_)?\w+|cu(?:dnn|blas|solver|sparse|fft|rand)\w*\W[^\n]{0,40}(?:error|fail|not initiali[sz]ed|unable)|(?:fail\w*|cannot|could not|unable) (?:to )?(?:create|get|initiali[sz]e)[^\n]{0,20}cu(?:dnn|blas|solver|sparse|fft|rand)|unable to find an engine|GET was unable|miopenStatus\w+|rocblas_status\w+|HIPBLAS_STATUS\w+",
        ("cuda-library", "cublas", "cuda-shadow", "cudnn-shadow", "cudnn-newer", "tensorflow-memory", "runtime-failure"),
        (
            _MEMORY_TAKEN,
            _OTHER_LIBRARY,
            _UNFIT_BUILD,
            Mechanism(text("An index, label or token outside its range, a wrong shape or type before this call"), text("export CUDA_LAUNCH_BLOCKING=1; the same step on the CPU names it"), sign=r"EXECUTION_FAILED|cublas(?:Sgemm|Gemm|Lt)|embedding|addmm|linear|INVALID_VALUE", codes=("device-assert",)),
            Mechanism(text("The driver is too old for this cuDNN or cuBLAS"), text("nvidia-smi   # CUDA Version beside torch.version.cuda"), codes=("driver-old",)),
            Mechanism(text("A part of the library is missing or not found (cuDNN's sub-libraries, nvrtc; WSL: libcuda in /usr/lib/wsl/lib)"), text("ldconfig -p | grep -E 'cudnn|nvrtc|libcuda'; python -m torch.utils.collect_env | grep -i cudnn"), sign=rf"{WSL}|Could not load|sublibrary|nvrtc", codes=("cudnn-missing", "library-missing")),
            Mechanism(text("The operation is not supported with this type, layout or size on this card"), text("float32 instead of half; .contiguous(); torch.backends.cudnn.enabled = False, to see whether it is cuDNN"), sign=r"NOT_SUPPORTED|ARCH_MISMATCH|engine|half|bf16|fp8"),
            _UNSTABLE,
        ),
    ),
    Family(
        text("The program's GPU code is newer than the driver, or than the library that compiles it"),
        r"UNSUPPORTED_PTX|CompileException|unsupported (?:toolchain|PTX)|PTX (?:was )?compiled with|ptxas[^\n]*(?:fatal|error|unsupported)|JIT compil\w+ [^\n]*(?:fail|disabled|not found)|\b(?:218|222) vs\. 0|NVRTC_ERROR\w*|nvrtc[^\n]{0,50}(?:fail|error|invalid)|libdevice[^\n]*(?:not found|missing)|NVVM\w*[^\n]{0,40}(?:error|not found|missing)|Runtime compilation failed",
        ("ptx-toolchain", "xla-tools", "triton-compiler", "cuda-shadow"),
        (
            Mechanism(text("The compiler at run time (nvrtc, ptxas, nvJitLink, NVVM) is of a newer CUDA than the driver"), text("nvidia-smi (CUDA Version) beside pip list | grep -iE 'nvrtc|nvcc|nvjitlink|triton'; conda list | grep -iE 'cudatoolkit|cuda-version'"), codes=("ptx-toolchain",)),
            Mechanism(text("Two CUDA versions are mixed on PATH, LD_LIBRARY_PATH or CUDA_HOME"), text("which -a nvcc; echo $CUDA_HOME $CUDA_PATH $LD_LIBRARY_PATH; env -u LD_LIBRARY_PATH python …"), sign=r"LD_LIBRARY_PATH|/usr/local/cuda|CUDA_PATH|builtins"),
            Mechanism(text("The toolkit's part is not installed or not found: libdevice, NVVM, headers, ptxas"), text("ls $CUDA_HOME/nvvm/libdevice; find / -name 'libdevice*' -o -name ptxas 2>/dev/null | head; numba -s"), sign=r"libdevice|nvvm|not found|headers|cuda_fp16|No such file"),
            Mechanism(text("The compiler does not know the card"), text("nvidia-smi --query-gpu=compute_cap --format=csv; nvcc --list-gpu-code"), sign=r"sm_|arch|gpu-name", codes=("no-kernel", "toolkit-arch")),
            Mechanism(text("A cache holds code of another version"), text("move ~/.nv/ComputeCache, ~/.triton/cache, ~/.cupy/kernel_cache away and try again"), sign=r"cache"),
            Mechanism(text("No C compiler or Python header, which Triton needs for its launcher"), text("gcc --version; ls $(python -c 'import sysconfig; print(sysconfig.get_paths()[\"include\"])')/Python.h"), sign=r"triton|Python\.h|gcc", codes=("triton-compiler",)),
        ),
    ),
    Family(
        text("The package was built without GPU support"),
        r"(?:not |n't )(?:been )?(?:compiled|built|linked|configured)(?: \S+){0,3} (?:with|for) (?:support for )?(?:CUDA|GPU|cuDNN|HIP|ROCm|XPU|OpenCL|NVENC|this (?:GPU|card|device|accelerator))|(?:compiled|built) without (?:CUDA|GPU|cuDNN|HIP|ROCm|OpenCL)|without (?:GPU|CUDA) support|CPU[- ]only (?:build|version|package)|(?:GPU|CUDA) support (?:is )?(?:not|disabled|missing)|CUDAExecutionProvider[^\n]{0,80}not in available|BLAS ?= ?0|CUDA version not installed/working",
        ("cpu-build", "cpu-package", "program-backend", "jax-build", "bitsandbytes"),
        (
            _CPU_BUILD,
            Mechanism(text("The plain package of this platform is for the CPU: torch on Windows, macOS and some ARM systems; jax, onnxruntime, faiss, llama-cpp-python, OpenCV, XGBoost and others name their GPU package apart"), text("pip list | grep -iE 'torch|jax|onnxruntime|faiss|llama|paddle|opencv'; pip install with the index or extra of the project's GPU guide"), codes=("cpu-build",)),
            Mechanism(text("conda's solver chose the CPU variant: no driver was visible at that time, the channels are mixed, or cpuonly is installed"), text("conda list | grep -iE 'torch|cpuonly|cuda'; conda info | grep __cuda"), sign=r"conda|mamba|cpuonly"),
            Mechanism(text("There is no GPU build for this Python, this architecture or this system"), text("python --version; uname -m; the project's table of wheels"), sign=r"python ?3\.1[2-9]|aarch64|arm64|win"),
            Mechanism(text("A dependency or a lock file replaced the GPU build"), text("pip install --dry-run -r requirements.txt; pip cache list; read the log for “Uninstalling torch”"), sign=r"requirements|poetry|uv |Uninstalling"),
            _OTHER_MAKER,
            Mechanism(text("Both the CPU and the GPU package are installed, and the CPU one is imported"), text("pip list | grep -iE 'onnxruntime|tensorflow|faiss|mxnet'   # keep one"), sign=r"onnxruntime|tensorflow|faiss"),
            Mechanism(text("It is only a notice: the program works on the CPU, as meant on a machine without a GPU"), text("does the program go on? Then nothing needs to be done"), sign=MAC),
        ),
    ),
    Family(
        text("Memory ran out: of the card, or of the machine"),
        r"out of (?:\w+ )?memory|OutOfMemory|OUT_OF_(?:DEVICE_|HOST_)?MEMORY|RESOURCE_EXHAUSTED|memory allocation (?:failed|failure|error)|(?:fail\w*|unable|cannot|could not) (?:to )?(?:allocate|alloc|malloc|reserve|map)\b|not enough (?:GPU |video |device |graphics |VRAM|memory)|insufficient (?:GPU |video |device )?memory|VRAM[^\n]{0,30}(?:insufficient|not enough|exceed)|\b2 vs\. 0|cudaMalloc[^\n]{0,40}fail|\bOOM\b|alloc(?:ate)? failed|bad_alloc",
        ("out-of-memory", "held", "leftover-process", "fragmentation", "tensorflow-memory", "serving-memory", "paging-file", "host-memory", "oom-killed"),
        (
            Mechanism(text("The work is larger than the card: batch, resolution, context, weights, optimizer"), text("nvidia-smi while it grows; a smaller batch, bf16, checkpointing, fewer layers on the card, a shorter context, weights with fewer bits"), codes=("serving-memory",)),
            Mechanism(text("Other programs or users, or a process left over from a crash, hold the memory"), text("nvidia-smi; sudo fuser -v /dev/nvidia*; ps -o pid,etime,args -p PID   # Windows: task manager"), sign=r"process|pid|in use|already allocated", codes=("held", "leftover-process")),
            Mechanism(text("Another framework or server has reserved most of it at its start (JAX three quarters, TensorFlow all, vLLM nine tenths)"), text("XLA_PYTHON_CLIENT_PREALLOCATE=false; TF_FORCE_GPU_ALLOW_GROWTH=true; gpu_memory_utilization=0.8"), sign=r"jax|xla|tensorflow|vllm|sglang|triton", codes=("tensorflow-memory", "serving-memory")),
            Mechanism(text("Windows' commit memory: the paging file is smaller than the cards' memory together"), text("Task manager, Performance, Memory: “Committed”; a larger paging file"), sign=rf"{WINDOWS}|{MINING}|paging|virtual memory|1455|dll", against=LINUX, codes=("paging-file",)),
            Mechanism(text("It grows from step to step: results kept with their graph, evaluation without no_grad, a cache, an earlier cell or traceback in the notebook"), text("torch.cuda.memory_summary() after some steps; loss.item(); with torch.no_grad(); restart the kernel"), sign=r"epoch|step|iteration|notebook|ipykernel|/content/"),
            Mechanism(text("All ranks, workers or tabs use the same card, or another card than is meant"), text("nvidia-smi: several processes on one card; torch.cuda.set_device(LOCAL_RANK); map_location='cpu' for checkpoints; CUDA_VISIBLE_DEVICES"), sign=r"rank|torchrun|accelerate|ddp|GPU 0\b|worker|map_location"),
            Mechanism(text("Memory of the machine, of the container or for pinned pages, not of the card"), text("free -h; df -h /dev/shm; ulimit -a; sudo dmesg | grep -i 'killed process'; docker --memory, wsl: .wslconfig"), sign=r"host|pinned|bad_alloc|DefaultCPUAllocator|shm|cannot allocate memory|mmap|std::|numpy|Killed", codes=("host-memory", "oom-killed", "shm")),
            Mechanism(text("Free, but in pieces"), text("“reserved but unallocated” in the message is large: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"), sign=r"reserved by PyTorch|fragment", codes=("fragmentation",)),
            Mechanism(text("The card has less than its name says here: a MIG or vGPU slice, an integrated GPU's carve-out, a display or desktop on it"), text("nvidia-smi -L; nvidia-smi --query-gpu=memory.total,memory.used --format=csv; the firmware's setting for an integrated GPU"), sign=r"MIG|vgpu|GRID|APU|integrated|gfx11|Xe\b"),
            Mechanism(text("The size is absurd: a wrong shape, an untrimmed input, a broken file, or a limit of the driver for one piece (OpenCL, ROCm, Intel)"), text("the number in the message beside the card's size"), sign=r"\b(?:\d{3,}(?:\.\d+)? GiB|\d{12,})"),
        ),
    ),
    Family(
        text("A card number, or a device, that does not exist for the program"),
        r"invalid device (?:ordinal|id|index|number)|INVALID_DEVICE|device (?:index|ordinal|id)\W[^\n]{0,40}(?:out of range|invalid|not (?:found|exist))|\b(?:10|101) vs\. 0|duplicate GPU|busy or unavailable|DEVICES_UNAVAILABLE|devices? (?:are |is )?(?:busy|in use)|already in use|exclusive",
        ("invalid-ordinal", "device-request", "exclusive", "mig-instances", "smi-refused"),
        (
            Mechanism(text("Fewer cards are visible than the program was configured for"), text("nvidia-smi -L; python -c 'import torch; print(torch.cuda.device_count())'; echo $CUDA_VISIBLE_DEVICES   # it renumbers from 0"), codes=("invalid-ordinal", "device-request", "hidden")),
            Mechanism(text("More processes or ranks than cards: nproc_per_node, gpus-per-node, tensor-parallel-size, device ids in a configuration or checkpoint"), text("grep -rnE 'nproc|gpus|device_ids|tensor.parallel|cuda:[1-9]' . | head"), sign=r"rank|nproc|torchrun|deepspeed|world_size|local_rank"),
            Mechanism(text("A card has dropped out"), text("nvidia-smi -L; sudo dmesg | grep -iE 'xid|fallen'"), sign=r"xid|fallen", codes=("card-lost",)),
            Mechanism(text("The compute mode allows one process, or another process holds the card"), text("nvidia-smi --query-gpu=compute_mode --format=csv; nvidia-smi; echo $CUDA_MPS_PIPE_DIRECTORY"), sign=r"busy|exclusive|46 vs", codes=("exclusive", "mps-server")),
            Mechanism(text("MIG: a process sees one instance, and names them by UUID"), text("nvidia-smi -L"), sign=r"MIG", codes=("mig", "mig-instances")),
            Mechanism(text("The driver was updated without a restart, or the card waits for a reset"), text("nvidia-smi; sudo dmesg | grep -i xid; then a restart of session or machine")),
        ),
    ),
)  # fmt: skip
