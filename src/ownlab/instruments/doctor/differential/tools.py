"""Messages whose causes belong to one tool or system: WSL, MIG, Slurm, ONNX Runtime, TensorRT, bitsandbytes, downloads of models."""

from __future__ import annotations

from ownlab.instruments.doctor.differential.mechanism import CONTAINER, JETSON, LINUX, WINDOWS, Family, Mechanism
from ownlab.text import text

__all__ = ["TOOLS"]

TOOLS = (
    Family(
        text("The GPU is not reached from WSL"),
        r"microsoft-standard|-Microsoft\b|\bWSL ?[12]?\b|/usr/lib/wsl|dxgkrnl|dxgkio|dxcore|/dev/dxg|GPU access blocked",
        ("wsl", "wsl-libraries", "wsl-no-module", "docker-desktop", "rocm-wsl"),
        (
            Mechanism(text("The driver on Windows is too old, or damaged, or the card is switched off there"), text("On Windows: nvidia-smi, Device Manager   # a current driver; then wsl --shutdown"), sign=r"driver|4[0-7]\d\.\d\d"),
            Mechanism(text("It is WSL 1, which has no GPU, or WSL's kernel is old"), text("In PowerShell: wsl -l -v; wsl --version; wsl --update; uname -r inside   # 4.4.0-…-Microsoft is WSL 1"), sign=r"4\.4\.0|4\.19|5\.4\.|-Microsoft\b", codes=("wsl-no-module",)),
            Mechanism(text("A Linux driver was installed inside WSL and hides the one of Windows"), text("dpkg -l | grep -E 'nvidia|libcuda'; ldconfig -p | grep libcuda   # the first must be /usr/lib/wsl/lib"), sign=r"nvidia-driver|libnvidia|dkms|modprobe|apt"),
            Mechanism(text("/usr/lib/wsl/lib is not searched, or the program has its own libcuda (conda, an image, a stub)"), text("ls /usr/lib/wsl/lib; echo $LD_LIBRARY_PATH; LD_LIBRARY_PATH=/usr/lib/wsl/lib PROGRAM"), sign=r"libcuda|\.so|not found|cudnn"),
            Mechanism(text("This build of Windows has no GPU in WSL (Windows 10 before 21H2, Windows Server before 2022, some Insider builds)"), text("winver   # 19044 or newer, Windows 11"), sign=r"190[0-4]\d|18\d{3}|1909|2004|20H2|21H1|Server|Insider|10\.0\.\d+"),
            Mechanism(text("A card is in TCC mode, is not NVIDIA's, or is not passed on (a virtual machine, a server without GPU paravirtualisation)"), text("On Windows: nvidia-smi --query-gpu=index,name,driver_model.current --format=csv"), sign=r"TCC|Tesla|L40|A\d0\b|no adapters|Unable to determine|Hyper-V"),
            Mechanism(text("Docker: Docker Desktop without its WSL 2 back end, or an engine inside WSL without the Container Toolkit"), text("docker info | grep -iE 'operating system|runtimes'; docker run --rm --gpus all ubuntu nvidia-smi"), sign=CONTAINER, codes=("runtime-missing", "docker-desktop")),
            Mechanism(text("WSL's virtual machine has too little memory, or hangs: it must be started anew"), text("free -h; %UserProfile%\\\\.wslconfig (memory=…); wsl --shutdown"), sign=r"memory|Killed|hang"),
        ),
        stands_alone=False,
    ),
    Family(
        text("A MIG instance is not used or not made"),
        r"\bMIG\b|mig-parted|\bGI\b|\d+g\.\d+gb",
        ("mig", "mig-instances"),
        (
            Mechanism(text("MIG is on, but there is no instance: none was made, or the machine was restarted since (they are lost then)"), text("nvidia-smi -L; nvidia-smi mig -lgi; nvidia-smi mig -lci   # none: nvidia-smi mig -cgi PROFILE -C"), sign=r"No MIG|no device|reboot|\[\]|0 GPUs|No CUDA GPUs"),
            Mechanism(text("A process sees only one instance, the first or the one that CUDA_VISIBLE_DEVICES names by its UUID"), text("nvidia-smi -L; export CUDA_VISIBLE_DEVICES=MIG-UUID"), sign=r"VISIBLE_DEVICES|device_count|UUID|MIG-"),
            Mechanism(text("The cards are in use (also by a daemon, a display or a module), so the mode or the instances cannot be changed"), text("sudo fuser -v /dev/nvidia*; systemctl list-units | grep -iE 'nvidia|dcgm'; lsmod | grep nvidia_drm"), sign=r"in use|busy|pending|reset"),
            Mechanism(text("The profile does not exist on this card, or no room is left for it"), text("nvidia-smi mig -lgip   # free instances and numbers"), sign=r"profile|insufficient|resources|not (?:supported|found)"),
            Mechanism(text("Container, Kubernetes or rights: /dev/nvidia-caps, NVIDIA_VISIBLE_DEVICES, migStrategy, NVIDIA_MIG_MONITOR_DEVICES"), text("ls -l /dev/nvidia-caps; kubectl get node NODE -o json | grep nvidia.com"), sign=rf"{CONTAINER}|permission|plugin"),
            Mechanism(text("The program does not know MIG: NCCL and P2P between instances, old frameworks, readings that do not exist"), text("one process on one instance; a newer torch (2.1 and newer names them)"), sign=r"nccl|duplicate|peer|torch 1|N/A|Not Supported"),
        ),
        stands_alone=False,
    ),
    Family(
        text("A job of the batch system gets no GPU, or does not start"),
        r"slurm\w*|\bsrun\b|\bsbatch\b|\bsalloc\b|\bgres\b|\bqsub\b|\bPBS\b|\bLSF\b|\bbsub\b|HTCondor",
        ("cluster", "launcher"),
        (
            Mechanism(text("The job asked for no card, or the step inside it did not take it"), text("srun --gres=gpu:1 nvidia-smi -L; scontrol show job $SLURM_JOB_ID | grep -i tres; echo $CUDA_VISIBLE_DEVICES"), codes=("cluster",)),
            Mechanism(text("It runs on a login node, or in a partition without cards"), text("hostname; sinfo -o '%P %G %N'"), sign=r"login|partition|nvidia-smi"),
            Mechanism(text("The kind or number of cards is not offered in this form, or a limit of the account forbids it"), text("sinfo -o '%G'; scontrol show partition; sacctmgr show assoc user=$USER"), sign=r"Invalid generic|not available|QOS|limit|Requested node"),
            Mechanism(text("The administrator's gres.conf, cgroup.conf or the driver on that node is wrong"), text("scontrol show node NODE | grep -iE 'gres|state|reason'; on the node: nvidia-smi, ls /dev/nvidia*"), sign=r"gres\.conf|slurmd|cgroup|can't stat|drain"),
            Mechanism(text("Ranks and cards do not agree: tasks per node, --gpus-per-task, binding, variables of the launcher"), text("srun -l bash -c 'echo $SLURM_PROCID $SLURM_LOCALID $CUDA_VISIBLE_DEVICES'"), sign=r"rank|ntasks|task|world|PMI|mpi"),
            Mechanism(text("Time, memory or a person ended it"), text("sacct -j JOB --format=State,ExitCode,Elapsed,MaxRSS,ReqMem"), sign=r"CANCELLED|TIME LIMIT|oom|137|NODE_FAIL|signal"),
            Mechanism(text("The environment (modules, conda) is not the one of the login shell"), text("module list; which python; env | grep -E 'LD_LIBRARY|CUDA' in the job"), sign=r"module|No such file|not found|import"),
        ),
    ),
    Family(
        text("ONNX Runtime does not use the GPU"),
        r"onnxruntime|ORT\w*Exception|\w+ExecutionProvider|\bEP Error\b",
        ("cpu-package", "program-backend"),
        (
            Mechanism(text("The CPU package is installed, alone or beside onnxruntime-gpu, and is the one that is imported"), text("pip list | grep -i onnxruntime; python -c 'import onnxruntime as o; print(o.__version__, o.get_available_providers())'   # keep one"), sign=r"not in available|CPUExecutionProvider"),
            Mechanism(text("CUDA or cuDNN is of another major version than this release was built with (1.19 and newer: CUDA 12 with cuDNN 9; 1.18 and older from PyPI: CUDA 11 with cuDNN 8)"), text("pip list | grep -iE 'onnxruntime|cudnn|cublas'; nvcc --version; where cudnn*.dll, ldconfig -p | grep cudnn"), sign=r"\.so\.\d+|64_\d+|CUDA_PATH|install the correct version|126|127"),
            Mechanism(text("The libraries are there, but not searched: PATH, LD_LIBRARY_PATH, pip's nvidia folders"), text("onnxruntime.preload_dlls() (1.21 and newer), or import torch first; onnxruntime-gpu[cuda,cudnn]"), sign=r"LoadLibrary|cannot open|dll|PATH"),
            Mechanism(text("The driver is too old or not reached, the container has no card"), text("nvidia-smi in the same place"), sign=rf"driver|{CONTAINER}|no CUDA-capable|error 35|error 100", codes=("driver-old", "no-driver")),
            Mechanism(text("This release has no code for the card (too new or too old)"), text("nvidia-smi --query-gpu=name,compute_cap --format=csv; a newer (older) release"), sign=r"no kernel image|sm_|compute capability|50\d\d", codes=("no-kernel",)),
            Mechanism(text("Windows: the Visual C++ runtime is too old"), text("the newest vc_redist.x64.exe"), sign=rf"DLL load|{WINDOWS}|1114", against=LINUX),
            Mechanism(text("Only a part of the model runs on the CPU, because an operator has no GPU version: this is a notice"), text("session.get_providers(); the log at level 1 names the nodes"), sign=r"assigned|Some nodes|\[W:|fallback|Memcpy"),
        ),
        of_one_program=True,
    ),
    Family(
        text("TensorRT does not load, build or run an engine"),
        r"TensorRT|\bTRT\b|\[E\] \[TRT\]|nvinfer|trtexec|deserializ\w+[^\n]{0,30}engine|engine plan|torch_tensorrt",
        ("tensorrt",),
        (
            Mechanism(text("The engine was made by another TensorRT or for another card: engines are not portable"), text("trtexec --version; nvidia-smi -L; build it again on this machine"), sign=r"deserializ|incompatible|version tag|Version|magic|compute \d|Serialization|plan", codes=("tensorrt",)),
            Mechanism(text("Its libraries are missing, not searched, or of another major version than the program needs"), text("pip list | grep -i tensorrt; ldconfig -p | grep nvinfer"), sign=r"cannot open|\.so|\.dll|nvinfer"),
            Mechanism(text("CUDA, cuDNN or driver are not those of this release"), text("nvidia-smi; the support matrix of this TensorRT"), sign=r"cuda|cudnn|driver|initiali[sz]ation"),
            Mechanism(text("This release does not support the card"), text("nvidia-smi --query-gpu=name,compute_cap --format=csv; the support matrix"), sign=r"SM|unsupported|caskUtils|no kernel"),
            Mechanism(text("The model has an operator, type or shape that this release cannot convert"), text("polygraphy inspect model MODEL.onnx; a newer release, simpler export (opset, fixed shapes)"), sign=r"parse|node|No importer|INVALID_GRAPH|opset|shape|UNSUPPORTED_NODE"),
            Mechanism(text("The card's memory is too small to build it"), text("nvidia-smi while it builds; a smaller workspace or batch"), sign=r"memory|workspace|tactic|skipping"),
            Mechanism(text("On a Jetson it belongs to JetPack, and the wheel for servers does not fit"), text("dpkg -l | grep -E 'tensorrt|nvinfer'; cat /etc/nv_tegra_release"), sign=JETSON),
        ),
    ),
    Family(
        text("bitsandbytes does not find its CUDA library"),
        r"bitsandbytes|libbitsandbytes\w*|\bbnb\b",
        ("bitsandbytes",),
        (
            Mechanism(text("This release has no library for torch's CUDA: it is older than that CUDA"), text("python -c 'import torch; print(torch.version.cuda)'; pip install -U bitsandbytes; python -m bitsandbytes"), codes=("bitsandbytes",)),
            Mechanism(text("libcudart is not found: only pip's or conda's copy is there (libcudart.so.11.0 without the link libcudart.so), or CUDA is not on the loader's path"), text("find / -name 'libcudart.so*' -not -path '/proc/*' 2>/dev/null; export LD_LIBRARY_PATH=ITS-FOLDER:$LD_LIBRARY_PATH"), sign=r"cudart|LD_LIBRARY|CUDA SETUP"),
            Mechanism(text("torch is a build for the CPU, or sees no card"), text("python -c 'import torch; print(torch.__version__, torch.cuda.is_available())'"), sign=r"without GPU|\+cpu|cpu", codes=("cpu-build",)),
            Mechanism(text("Windows or AMD with a release that supports only Linux and NVIDIA (before 0.43; AMD from 0.45)"), text("pip show bitsandbytes"), sign=rf"{WINDOWS}|rocm|hip|\.dll"),
            Mechanism(text("BNB_CUDA_VERSION or CUDA_HOME names another CUDA; several CUDA are installed"), text("env | grep -E 'BNB|CUDA'; ls -d /usr/local/cuda*"), sign=r"BNB_CUDA|CUDA_VERSION|\d\d\d\.so"),
            Mechanism(text("The card is too old for 8-bit kernels, or the C library too old for the wheel"), text("nvidia-smi --query-gpu=compute_cap --format=csv; ldd --version"), sign=r"cublasLt|GLIBC|no kernel|capability"),
        ),
        stands_alone=False,
    ),
    Family(
        text("A model or data set cannot be fetched or read"),
        r"(?:HTTP|Connection|SSL|Proxy|Timeout|Repository|Gated|LocalEntry)\w*Error|403 (?:Client )?Forbidden|401 (?:Client|Unauthorized)|404 (?:Client|Not Found)|huggingface|safetensors\w*|invalid load key|Max retries|name resolution|PytorchStreamReader|HeaderTooLarge|zip archive|Couldn't (?:connect|reach)|certificate verify",
        ("disk-full",),
        (
            Mechanism(text("The file is incomplete or no model: a download that was cut short, a pointer of Git LFS, a web page"), text("ls -lL FILE; head -c 200 FILE; compare sizes; git lfs pull; delete the copy in ~/.cache/huggingface"), sign=r"Header|zip|invalid load key|StreamReader|safetensors|corrupt"),
            Mechanism(text("The machine has no way to the server: a cluster's node, a proxy, a firewall, a mirror"), text("curl -I https://huggingface.co; env | grep -i proxy; HF_ENDPOINT, HF_HUB_OFFLINE=1 with files that were fetched before"), sign=r"connect|retries|resolution|timeout|proxy|SSL|certificate"),
            Mechanism(text("The model needs a licence or a token, or its name is wrong"), text("hf auth whoami; the model's page"), sign=r"401|403|404|gated|Repository"),
            Mechanism(text("The disk or quota is full, or the cache belongs to another user"), text("df -h ~/.cache; ls -ld ~/.cache/huggingface"), sign=r"space|permission|quota"),
            Mechanism(text("The library is too old or too new for this file"), text("pip list | grep -iE 'transformers|safetensors|huggingface|torch'"), sign=r"unexpected key|version|not supported|attribute"),
        ),
        stands_alone=False,
    ),
    Family(
        text("The cards cannot be monitored or profiled"),
        r"\bdcgm\w*|nv-hostengine|DCGM_\w+|dcgmi|nvidia[-_]?exporter|CUPTI\w*|\bncu\b|\bnsys\b|nvprof|NVML\w*[^\n]{0,40}(?:error|not supported|fail)|gpustat|nvtop|nvitop",
        ("dcgm", "counters", "nvml-query"),
        (
            Mechanism(text("The driver does not work here, or the container has no card and no libnvidia-ml"), text("nvidia-smi in the same place; ldconfig -p | grep nvidia-ml"), sign=r"not found|uninitiali[sz]ed|driver|libnvidia|LibraryNotFound", codes=("no-smi",)),
            Mechanism(text("The reading or the profiling does not exist on this card (GeForce, older than Volta, WSL, vGPU, MIG)"), text("dcgmi profile -l; nvidia-smi -q | grep -i N/A"), sign=r"not supported|Profiling|N/A|module"),
            Mechanism(text("Only administrators may read counters, or the container lacks SYS_ADMIN"), text("sudo COMMAND; grep RmProfilingAdminOnly /proc/driver/nvidia/params"), sign=r"permission|privileg|NVGPUCTRPERM|INSUFFICIENT", codes=("counters",)),
            Mechanism(text("Another profiler, exporter or host engine holds the counters"), text("ps aux | grep -iE 'dcgm|hostengine|ncu|nsys'; dcgmi profile --pause"), sign=r"in use|resource|busy|MULTIPLE"),
            Mechanism(text("The host engine does not run, or is of another version than driver or client"), text("systemctl status nvidia-dcgm; dcgmi --version; nv-hostengine --version"), sign=r"connection|localhost|5555|version|host ?engine"),
            Mechanism(text("The tool or its binding to NVML is older than the driver (structures and names have changed)"), text("pip list | grep -iE 'nvidia-ml|pynvml|gpustat|nvitop'; update it"), sign=r"FunctionNotFound|v2|v3|symbol|pynvml|struct"),
        ),
    ),
)  # fmt: skip
