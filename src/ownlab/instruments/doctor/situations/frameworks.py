"""Situations of frameworks: a version, another library or another maker's card beside a message shows which of its causes it is."""

from __future__ import annotations

from ownlab.instruments.doctor.situations.situation import AMD, NVIDIA_CARD, WSL, Situation
from ownlab.text import text

__all__ = ["FRAMEWORKS"]

_NO_HANDLE = r"(?:Could not|could not|Failed to) create (?:cudnn|cublas|cusolver)\w* handle|DNN library initialization failed|DNN library is not found|failed to create (?:cudnn|cublas) handle"
_JAX = r"\bjax(?:lib)?\b|XlaRuntimeError|xla_bridge|external/xla/"
_NPU = r"torch[_-]npu|\bCANN\b|davinci|\bnpu(?::\d|-smi)|\bAscend"
_MEMORY_RULES = ("tensorflow-memory", "cuda-library", "cublas", "jax-build", "unknown-message")
_TENSORFLOW_BLIND = r"(?:GPUs?|GPU devices?)(?: are)? ?[Aa]vailable\W{0,6}(?:0\b|\[\])|list_physical_devices\(['\"]GPU['\"]\)\W*\n?\W*\[\]|\[PhysicalDevice\(name='/physical_device:CPU:0', device_type='CPU'\)\]\s*$"
_SINCE_2_11 = r"tensorflow(?:[ -]gpu)?(?: version)?[ =:v\"'(]{1,6}2\.(?:1[1-9]|2\d)\b|tf\.__version__[^\n]{0,12}\n?[^\n]{0,60}\b2\.(?:1[1-9]|2\d)\b|^fact: (?:package|framework) tensorflow(?:-gpu)?==2\.(?:1[1-9]|2\d)"
_RDNA_WITHOUT_CODE = r"\bgfx103[1-5]\b|\bRX 6[3-7]\d0\b|\b6[3-7]00 ?XT\b"

FRAMEWORKS: tuple[Situation, ...] = (
    Situation(
        "driver-old",
        (_NO_HANDLE, r"Possibly insufficient driver version|insufficient driver"),
        text("cuDNN does not start: the driver is older than this cuDNN needs"),
        text("The framework adds the driver's version to its message for that reason. cuDNN 8.9 and 9 for CUDA 12 need driver 525 or newer, for CUDA 11 450 or newer."),
        (
            text("nvidia-smi   # driver and the newest CUDA that it supports; on a cluster another node or partition may have a newer one"),
            text("A build for an older CUDA: jaxlib with cuda11 (up to 0.4.25), torch with cu118; or a newer driver, where it is yours."),
        ),
        _MEMORY_RULES,
    ),
    Situation(
        "cudnn-shadow",
        (_NO_HANDLE, r"\+cuda1[12]\.cudnn8\d|jaxlib[ =]+0\.(?:[0-3]\.|4\.(?:[0-9]|1\d|2[0-6])\b)", r"nvidia-cudnn-cu1[12][ =]+9\."),
        text("cuDNN 9 is installed, and this jaxlib was built for cuDNN 8"),
        text("Another major version does not replace it. jaxlib up to 0.4.26 takes cuDNN 8.9; newer ones take cuDNN 9."),
        (
            text("pip install 'nvidia-cudnn-cu12>=8.9,<9'   # beside this jaxlib; other packages that need cuDNN 9 (torch 2.4 and newer) belong into another environment"),
            text("Or a newer JAX: python -m pip install -U 'jax[cuda12]'"),
        ),
        _MEMORY_RULES,
    ),
    Situation(
        "cudnn-shadow",
        (_NO_HANDLE, r"^fact: most of the card's memory is free$"),
        text("cuDNN does not start although the card's memory is free: another cuDNN is loaded, a part of it is missing, or the driver does not fit"),
        text("The message names the free memory, and it is enough. So it is not the memory: usually a cuDNN or CUDA of another version on LD_LIBRARY_PATH, a cuDNN that is not installed completely, or a driver that is too old."),
        (
            text("env -u LD_LIBRARY_PATH python …   # if that helps, remove CUDA's folders from LD_LIBRARY_PATH"),
            text("pip list | grep -iE 'nvidia|jax|tensorflow|torch'; ldconfig -p | grep cudnn   # one cuDNN, of the version that the framework was built with"),
            text("nvidia-smi   # the driver must support the CUDA of the build"),
            text("If it happens only beside other programs: export XLA_PYTHON_CLIENT_PREALLOCATE=false (JAX), TF_FORCE_GPU_ALLOW_GROWTH=true (TensorFlow)"),
        ),
        _MEMORY_RULES,
    ),
    Situation(
        "tensorflow-memory",
        (_NO_HANDLE, _JAX),
        text("cuDNN could not start in JAX: the card's memory is taken, or another cuDNN than JAX's is loaded"),
        text("JAX takes three quarters of the memory at its start. If other programs have the rest, cuDNN gets none. The same message comes from a cuDNN that JAX was not built with."),
        (
            text("nvidia-smi   # other programs on the card, also old notebooks; export XLA_PYTHON_CLIENT_PREALLOCATE=false (or XLA_PYTHON_CLIENT_MEM_FRACTION=.5) before Python starts"),
            text("Memory is free: env -u LD_LIBRARY_PATH python …; pip list | grep -iE 'cudnn|jax'; python -m pip install -U 'jax[cuda12]'   # brings its own cuDNN"),
            text("nvidia-smi: CUDA 12 needs driver 525 or newer."),
        ),
        ("tensorflow-memory", "cuda-library", "unknown-message"),
        unless=r"tensorflow[ =]+\d|import tensorflow|tf\.\w+\(|Loaded runtime CuDNN library|VERSION_MISMATCH|cuDNN version|sub-?library",
    ),
    Situation(
        "cpu-build",
        (r"not compiled with CUDA enabled", _NPU),
        text("The program asks for CUDA, and this machine computes with an Ascend NPU"),
        text("torch beside torch_npu is the CPU build, as it must be. Either the program names the device cuda, or its libraries are newer than this torch_npu and take the way to CUDA for what they do not know."),
        (
            text("In the program: import torch_npu; device 'npu:0'; or one line for code that was written for CUDA: from torch_npu.contrib import transfer_to_npu"),
            text("transformers after 4.49 needs torch and torch_npu 2.5.1 or newer; or: pip install 'transformers<4.50'"),
            text("A torch for CUDA does not help here, and breaks torch_npu."),
        ),
        ("cpu-build", "torch-no-gpu"),
    ),
    Situation(
        "no-accelerator",
        (r"nvcuda\.dll|CUDA: Not detected|libcuda\.so\S*: cannot open", AMD + r"|\bAMD:\d|Radeon (?:HD|R[579])"),
        text("The card is AMD's: the program looks for NVIDIA's driver in vain, as it must"),
        text("Only NVIDIA cards have CUDA. A program that also knows OpenCL, Vulkan, DirectML or ROCm goes on with that one, and the message is harmless."),
        (
            text("If the program goes on: nothing needs to be done. If it ends: its variant for AMD (ROCm, HIP, DirectML, Vulkan), or the CPU. NVIDIA's driver and CUDA cannot work with this card."),
        ),
        ("library-missing", "no-driver", "several-causes", "unknown-message", "wsl-libraries"),
        unless=NVIDIA_CARD,
        severity="note",
    ),
    Situation(
        "card-too-old",
        (r"GPUs? with compute capability (?:below|less than|lower than|under) \d\.\d (?:are|is) not supported|(?:requires|needs) (?:a )?(?:GPU with )?compute capability (?:of )?(?:at least |>= ?)?\d\.\d",),
        text("This program does not support cards of this age at all"),
        text("The message names the compute capability that it needs. Another number format, a driver or a toolkit does not change that."),
        (
            text("nvidia-smi --query-gpu=name,compute_cap --format=csv   # beside the number in the message"),
            text("Another program for this card (llama.cpp and Ollama run on cards from 5.0 on), an older release that still supports it, or another card."),
        ),
        ("no-bf16", "card-too-old", "device-request", "unknown-message"),
        unless=r"FlashAttention|bitsandbytes|flash_attn",
    ),
    Situation(
        "wheel-missing",
        (r"No matching distribution found for tensorflow-gpu|Could not find a version that satisfies the requirement tensorflow-gpu",),
        text("The package tensorflow-gpu no longer exists; and on native Windows TensorFlow has no GPU support after 2.10"),
        text("Since 2.1 the package tensorflow itself is for the GPU, too; tensorflow-gpu ended with 2.11. CUDA and cuDNN of Windows do not help newer releases."),
        (
            text("Linux, WSL 2: python -m pip install 'tensorflow[and-cuda]'"),
            text("Windows itself: Python 3.10 or older: pip install 'tensorflow<2.11' 'numpy<2'; conda install -c conda-forge cudatoolkit=11.2 cudnn=8.1.0"),
        ),
        ("wheel-missing", "gpu-not-found"),
        blocks=False,
    ),
    Situation(
        "gpu-not-found",
        (_SINCE_2_11, _TENSORFLOW_BLIND),
        text("TensorFlow sees no GPU: on native Windows releases after 2.10 have none; on Linux the plain package brings no CUDA"),
        text("Which of the two it is, the text does not show. That other programs (torch) see the card says nothing about TensorFlow."),
        (
            text("Windows itself: WSL 2 with 'tensorflow[and-cuda]', or Python 3.10 with: pip install 'tensorflow<2.11' 'numpy<2'. Other versions of CUDA and cuDNN do not help."),
            text("Linux, WSL 2: python -m pip install 'tensorflow[and-cuda]'; then: python -c 'import tensorflow as tf; print(tf.config.list_physical_devices())'   # lines above the list name a library that is missing"),
            text("nvidia-smi must work in the same place (container: --gpus all)."),
        ),
        ("gpu-not-found", "torch-no-gpu", "unknown-message", "several-causes"),
        unless=rf"{WSL}|^fact: family linux|Could not load dynamic library|dso_loader|Cannot dlopen|x86_64-linux|CUDA_ERROR|is_built_with_cuda\(\)\W*\n?\W*False|+cpu".replace("+cpu", r"\+cpu"),
    ),
    Situation(
        "gpu-not-found",
        (r"library=cuda\b|inference compute[^\n]*(?:NVIDIA|cuda)", r"runners=\[\"?cpu\"?\]|Dynamic LLM libraries[^\n]*\[cpu\]"),
        text("Ollama lists the card but has no runner for it: the processor lacks AVX, or the installation is incomplete"),
        text("Ollama's GPU runners need AVX. In a virtual machine the processor's type may hide it (QEMU, Proxmox: kvm64). Without lib/ollama beside the program there are no runners either."),
        (
            text("grep -o -w avx /proc/cpuinfo | head -1   # nothing: give the virtual machine the processor type host, then start it anew"),
            text("ls /usr/lib/ollama /usr/local/lib/ollama   # no cuda files: install Ollama again with its script; the driver is in order"),
        ),
        ("unknown-message", "no-accelerator"),
    ),
    Situation(
        "gpu-not-found",
        (r"load_backend: loaded CPU backend|offloaded 0/\d+ layers to GPU|offloading (?:0|no) (?:repeating )?layers",),
        text("The model runs on the CPU: the GPU's back end was not loaded, or no layer fits or was asked for"),
        text("In the order of frequency: the build or installation has no back end for this card (its files are missing or not found), the card's memory is too small or taken, the number of layers for the GPU is 0, or a variable hides the card."),
        (
            text("The log above: which back ends are loaded (CUDA, ROCm, Vulkan)? None: install the program again, or its GPU build; Windows: the folder lib\\ollama must be found (PATH)."),
            text("nvidia-smi (rocm-smi): free memory; llama.cpp: -ngl 99; Ollama: num_gpu not 0, a smaller model or context"),
            text("env | grep -E 'VISIBLE_DEVICES|OLLAMA_LLM'   # in the service, too: systemctl show ollama -p Environment; Slurm may set ROCR_VISIBLE_DEVICES beside an NVIDIA card: unset it"),
        ),
        ("unknown-message",),
        unless=r"loaded (?:CUDA|ROCm|HIP|Vulkan|Metal|SYCL|BLAS|RPC) backend|offloaded [1-9]\d*/|out of memory|CUDA error|killed",
        severity="warning",
    ),
    Situation(
        "gpu-not-found",
        (r"ROCR_VISIBLE_DEVICES[=: \"]+\d", r"NVIDIA|CUDA|library=cpu", r"ollama|library=cpu|user overrode visible devices"),
        text("ROCR_VISIBLE_DEVICES is set beside an NVIDIA card: Ollama then looks for AMD cards only, and takes the CPU"),
        text("Slurm sets the variable for every job with a GPU. It is meant for AMD cards."),
        (text("unset ROCR_VISIBLE_DEVICES; then start ollama serve again   # in the job's script"),),
        ("gpu-not-found", "hidden"),
        unless=r"\bgfx\d|Radeon|Instinct",
    ),
    Situation(
        "rocm-build",
        (_RDNA_WITHOUT_CODE, r"Segmentation fault|core dumped|SIGSEGV|exit code -11"),
        text("The program crashes on a Radeon for which ROCm's libraries have no code: HSA_OVERRIDE_GFX_VERSION is not set, or not exported"),
        text("Chips gfx1031 to gfx1035 (RX 6300 to 6750) run code for gfx1030 if the program sees the variable. A variable that is only set in the shell, not exported, is not seen; env must list it."),
        (
            text("export HSA_OVERRIDE_GFX_VERSION=10.3.0   # fish: set -gx HSA_OVERRIDE_GFX_VERSION 10.3.0; check: env | grep HSA"),
            text("With an integrated GPU beside the card: HIP_VISIBLE_DEVICES=0 (or 1)."),
        ),
        ("unfit-library", "rocm-libraries", "unknown-message"),
    ),
    Situation(
        "extension-build",
        (r"^Loading \w+ extension \(set |Using \S+ as PyTorch extensions root\.\.\.\s*$|^Loading extension module \w+\.\.\.\s*$|Creating extension directory \S+torch_extensions",),
        text("torch compiles an extension, or waits for another process that does: a lock of an aborted build makes it wait for ever"),
        text("The first start compiles for some minutes. If nothing happens after that, a file named lock lies in the cache of extensions, left by a run that was stopped."),
        (
            text("ls -l ~/.cache/torch_extensions/*/*/lock; ps aux | grep -E 'nvcc|ninja'   # a lock, and nothing compiles: rm -rf ~/.cache/torch_extensions/*"),
            text("To see what it does: COLBERT_LOAD_TORCH_EXTENSION_VERBOSE=True, or verbose=True in load(); MAX_JOBS=2 if memory runs out"),
        ),
        ("unknown-message", "several-causes"),
        unless=r"Error|error:|FAILED|Traceback|failed",
        severity="warning",
        while_working=True,
    ),
    Situation(
        "pcie-topology",
        (r"P2P Connectivity Matrix|CAN Access Peer Device",),
        text("The cards say that they can reach each other; if jobs on several cards hang all the same, the IOMMU or ACS is the reason"),
        text("This test asks the driver. It does not show whether the data arrives: with an IOMMU (or ACS) it goes another way, and NCCL hangs or computes wrongly."),
        (
            text("NCCL_P2P_DISABLE=1 in front of the job: if it runs then, transfers between the cards are the reason."),
            text("sudo dmesg | grep -iE 'iommu|AMD-Vi|DMAR' | head; sudo lspci -vvv | grep ACSCtl   # SrcValid+: ACS is on"),
            text("Then, where no virtual machine needs it: the IOMMU off in the firmware, or iommu=pt on the kernel's command line; ACS off on the switches."),
        ),
        severity="warning",
        while_working=True,
        unless=r"CANNOT Access|error|fail",
    ),
    Situation(
        "harmless",
        (r"Missing \\?\"?iommu=pt",),
        text("The kernel was started without iommu=pt: harmless where jobs run, the usual reason where jobs on several cards hang"),
        text("NCCL and RCCL only check the kernel's command line. With the IOMMU in its strict mode transfers between AMD (and some NVIDIA) cards are slow, hang or are lost."),
        (
            text("Does a job on several cards run to its end? Then nothing needs to be done."),
            text("If it hangs: add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub; then sudo update-grub or grub2-mkconfig), and reboot; check: cat /proc/cmdline"),
        ),
        ("harmless", "unknown-message"),
        severity="note",
        while_working=True,
    ),
    Situation(
        "container-no-gpu",
        (r"docker run (?:-{1,2}[\w-]+(?:[= ][^\s-]\S*)? )*(?:[0-9a-f]{12}|[\w.-]+(?:/[\w.-]+)+(?::[\w.-]+)?|[\w.-]+:[\w.-]+) (?:\S+ )*--gpus",),
        text("--gpus stands after the image's name, so it is an argument of the program and not of docker"),
        text("Options of docker run stand before the image. What follows it goes to the program in the container, which has no card then."),
        (text("docker run --gpus all … IMAGE COMMAND"),),
        ("container-no-gpu", "container-daemon", "no-driver", "unknown-message"),
    ),
    Situation(
        "intel-gpu",
        (r"libze_intel_gpu\.so\S*[^\n]*cannot open|Load Library of libze_intel_gpu\S* failed",),
        text("Intel's Level Zero driver is not installed: libze_intel_gpu.so.1 is missing"),
        text("The loader (libze1) is there, and finds no driver for the card. OpenCL has a package of its own, and may work all the same."),
        (
            text("sudo apt-get install -y libze-intel-gpu1   # older packages: intel-level-zero-gpu; Fedora: intel-level-zero; then: sycl-ls"),
        ),
        ("intel-gpu", "library-missing", "unfit-library", "opencl"),
        blocks=False,
    ),
    Situation(
        "intel-gpu",
        (r"^\[host:0\]|\[opencl(?::\d)?:?(?:cpu|\d)?\]", r"^\[opencl:0\] CPU|\[opencl:cpu\]|\[host:0\] HOST"),
        text("sycl-ls lists no Intel GPU: the Level Zero driver is missing, or the compute runtime does not know this card or kernel"),
        text("Only the processor is listed. The package for OpenCL alone does not bring Level Zero."),
        (
            text("sudo apt-get install -y libze-intel-gpu1 libze1 intel-opencl-icd   # Intel's older repository: intel-level-zero-gpu level-zero"),
            text("ls -l /dev/dri; groups   # not in render: sudo usermod -aG render $USER, and log in again; uname -r: Arc needs 6.2 or newer"),
        ),
        ("intel-gpu", "unknown-message", "several-causes"),
        unless=r"\bGPU ?:|:gpu\]|level_zero",
        blocks=False,
    ),
)  # fmt: skip
