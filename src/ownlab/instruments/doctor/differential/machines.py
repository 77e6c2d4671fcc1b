"""Messages of several processes or machines, of the host's memory and limits, of graphics and video libraries, and of servers."""

from __future__ import annotations

from ownlab.instruments.doctor.differential.mechanism import AMD, CONTAINER, LINUX, MAC, WINDOWS, WSL, Family, Mechanism
from ownlab.text import text

__all__ = ["MACHINES"]

_ICD = Mechanism(
    text("No driver for this interface is installed, or the part of the card's driver that brings it is missing"),
    text(
        "ls /etc/OpenCL/vendors /usr/share/vulkan/icd.d /usr/share/glvnd/egl_vendor.d; clinfo -l; vulkaninfo --summary"
    ),
)

MACHINES = (
    Family(
        text("Processes or machines do not reach each other, or a collective does not end"),
        r"\bNCCL\b|\bnccl\w+|ProcessGroup\w*|\bgloo\b|c10d|TCPStore|rendezvous|DistStore\w*|DistBackendError|Watchdog|collective (?:operation )?timed? ?out|socket(?:StartConnect|Poll\w*)|Connection (?:refused|reset|closed)|Broken pipe|timed out (?:waiting|after)|ChildFailedError|address already in use|EADDRINUSE|\bHCCL\b|\bRCCL\b|\bUCX\b|ibv_\w+|\bmpirun\b|\bMPI_\w+|\bORTE\b|\bPMIX?\b",
        ("nccl", "nccl-setup", "rendezvous", "launcher", "pcie-topology", "memlock"),
        (
            Mechanism(text("One rank failed or ended first (memory, an exception, another number of batches); the others only report its absence"), text("the first error of the first rank that fails; torchrun --redirects 3 --log-dir logs; dmesg | grep -iE 'xid|killed'"), sign=r"ChildFailed|remote process|Watchdog|timeout|exited|reset by peer|Broken pipe"),
            Mechanism(text("The wrong network interface: Docker's, a VPN's or the loopback; a host name that resolves to 127.0.1.1"), text("ip -br addr; getent hosts $(hostname); export NCCL_SOCKET_IFNAME=IF GLOO_SOCKET_IFNAME=IF; containers: --network=host"), sign=r"172\.1[7-9]\.|127\.0|docker0|ifname|socket|gloo|lo\b|No route", codes=("rendezvous",)),
            Mechanism(text("A firewall, a port in use, or ranks that were started with other addresses, ports or world sizes"), text("nc -vz MASTER_ADDR MASTER_PORT from each machine; ss -ltnp | grep PORT; env | grep -E 'MASTER|RANK|WORLD'"), sign=r"refused|in use|EADDR|timed out|rendezvous|29500", codes=("rendezvous",)),
            Mechanism(text("Direct transfers between cards do not work: ACS or IOMMU, virtual machines, GeForce cards without P2P"), text("NCCL_P2P_DISABLE=1 in front: if it works, sudo lspci -vvv | grep ACSCtl; nvidia-smi topo -p2p r"), sign=r"P2P|peer|IPC|hang|\b4090|VM", codes=("pcie-topology",)),
            Mechanism(text("Shared memory is too small or not shared, or locked memory is limited"), text("df -h /dev/shm; ulimit -l; docker: --ipc=host --ulimit memlock=-1; NCCL_CUMEM_HOST_ENABLE=0"), sign=r"shm|/dev/shm|memlock|Cannot allocate|shared memory|ibv_reg|cuMem", codes=("shm", "memlock")),
            Mechanism(text("Ranks share a card, or a rank uses a card before it has chosen its own"), text("torch.cuda.set_device(LOCAL_RANK) first; nvidia-smi: one process on each card; nproc_per_node = number of cards"), sign=r"duplicate|same device|rank \d+ (?:and|both)|invalid usage|InvalidUsage", codes=("invalid-ordinal",)),
            Mechanism(text("InfiniBand or RoCE: a link, a port or a GID that does not work, or a module that is missing (nvidia_peermem)"), text("ibstat; show_gids; NCCL_IB_DISABLE=1 to see whether it is this; lsmod | grep peermem"), sign=r"ib_|mlx5|NET/IB|ibv|roce|GID|GDR|peermem|local access violation|retry exceeded"),
            Mechanism(text("NCCL of another version than torch's own, or of different versions on the machines; or a driver that is older than its CUDA"), text("python -c 'import torch; print(torch.cuda.nccl.version())'; echo $LD_LIBRARY_PATH $LD_PRELOAD; NCCL_DEBUG=VERSION; nvidia-smi"), sign=r"version|unhandled|cuda error|undefined|LD_PRELOAD|invalid argument"),
            Mechanism(text("Ranks call different collectives, or one is slower than the time-out (saving, first step, data)"), text("TORCH_DISTRIBUTED_DEBUG=DETAIL TORCH_NCCL_TRACE_BUFFER_SIZE=2000; a longer timeout=… of init_process_group"), sign=r"Watchdog|SeqNum|timed? ?out|OpType|mismatch|shape"),
            Mechanism(text("A card or NVLink is faulty, or Fabric Manager does not run"), text("nvidia-smi; nvidia-smi nvlink -e; systemctl status nvidia-fabricmanager; dmesg | grep -i xid; NCCL_NVLS_ENABLE=0 to compare"), sign=r"nvlink|NVLS|fabric|xid|802|multicast", codes=("fabric", "card-lost")),
        ),
    ),
    Family(
        text("A process was ended, or the machine's own memory, disk or limits stopped it"),
        r"^\s*Killed\b|\bKilled\s*$|\b(?:was|been|got) killed\b|killed process|oom-?kill|SIGKILL|signal 9|exit(?:ed)?(?: with)?(?: code| status)?[ :]+(?:137|-9|247)|DataLoader worker|bus error|SIGBUS|insufficient shared memory|/dev/shm|shm_open|No space left|disk quota|Too many open files|Resource temporarily unavailable|can't start new thread|Cannot allocate memory|Errno (?:12|24|28|11)\b|received 0 items of ancdata|paging file|std::bad_alloc|MemoryError|DefaultCPUAllocator|OOMKilled|CANCELLED|TIME LIMIT|worker \w+ (?:died|exited|timed)",
        ("oom-killed", "host-memory", "shm", "process-limits", "disk-full", "paging-file", "cluster"),
        (
            Mechanism(text("The kernel ended it because memory ran out: of the machine, or of the container, job or WSL, whose limit is smaller"), text("sudo dmesg | grep -iE 'killed process|oom'; free -h; cat /sys/fs/cgroup/memory.max; docker inspect -f '{{.State.OOMKilled}}' NAME; .wslconfig"), sign=r"Killed|137|SIGKILL|oom|signal 9", codes=("oom-killed", "host-memory")),
            Mechanism(text("Shared memory (/dev/shm) is too small for data-loader workers: 64 MB in a container"), text("df -h /dev/shm; docker run --shm-size=8g or --ipc=host; num_workers=0 to compare"), sign=r"DataLoader|shm|bus error|shared memory|SIGBUS", codes=("shm",)),
            Mechanism(text("Too many workers, or each has a copy of the data"), text("num_workers=2, persistent_workers=False; memory per process: ps -eo rss,args --sort=-rss | head"), sign=r"worker|DataLoader|fork"),
            Mechanism(text("A limit of the system: open files, threads, processes, address space, inotify"), text("ulimit -a; torch.multiprocessing.set_sharing_strategy('file_system')"), sign=r"open files|ancdata|thread|Errno 24|Errno 11|temporarily"),
            Mechanism(text("The disk, its inodes, /tmp or a quota is full"), text("df -h . /tmp ~/.cache; df -i .; quota -s"), sign=r"space|quota|Errno 28|disk", codes=("disk-full",)),
            Mechanism(text("Windows: the paging file is too small, or workers start the program again (no if __name__ == '__main__')"), text("Task manager: Committed; num_workers=0"), sign=rf"{WINDOWS}|paging|spawn|1455|freeze_support", against=LINUX, codes=("paging-file",)),
            Mechanism(text("A worker crashed in a library (OpenCV's threads, a decoder, a broken file), or a batch system or a person ended the job"), text("num_workers=0 shows the error itself; cv2.setNumThreads(0); sacct -j JOB --format=State,ExitCode,MaxRSS"), sign=r"worker|CANCELLED|SIGTERM|signal 15|segfault"),
        ),
    ),
    Family(
        text("A graphics interface does not find or start the card (OpenCL, Vulkan, OpenGL, EGL, DirectX)"),
        r"\bcl(?:Get|Create|Build)\w+|\bCL_\w+|OpenCL|\bvk[A-Z]\w+|VK_ERROR\w*|Vulkan|\bEGL\w*|\blibGL\b|libEGL|\bGLX?\b[^\n]{0,30}(?:error|fail)|OpenGL|DirectML|DXGI\w*|D3D1[12]\w*|\bDRI[23]?\b|/dev/dri|swrast|llvmpipe|zink|OptiX|glfw|X Error|BadValue",
        ("opencl", "graphics-libraries", "video-engine", "intel-gpu"),
        (
            _ICD,
            Mechanism(text("This user may not open /dev/dri or the card's device, or the container was not given it"), text("ls -ln /dev/dri; id; docker: --device /dev/dri --group-add NUMBER; NVIDIA: NVIDIA_DRIVER_CAPABILITIES=all"), sign=rf"permission|denied|/dev/dri|{CONTAINER}", codes=("dev-permission",)),
            Mechanism(text("A file that names the driver is wrong or names another maker's: *.icd, *.json, a library of another version"), text("cat /etc/OpenCL/vendors/*.icd /usr/share/vulkan/icd.d/*.json; VK_LOADER_DEBUG=all vulkaninfo 2>&1 | head -40; OCL_ICD_DEBUG=7 clinfo"), sign=r"icd|json|loader|INCOMPATIBLE_DRIVER|-1001"),
            Mechanism(text("The driver's installation is damaged or its version has a fault: after a change of the card's maker, an update, or a driver for something else"), text("clinfo or vulkaninfo fails in the same way: install the card's driver once more, cleanly (Windows: another release, Studio or Game Ready)"), sign=rf"{WINDOWS}|-3\b|INITIALIZATION_FAILED|UNKNOWN|2\d\d\)"),
            Mechanism(text("No screen or a remote one: over ssh, Remote Desktop, without X or Wayland; a headless server"), text("echo $DISPLAY $WAYLAND_DISPLAY; EGL or offscreen instead of GLX; xvfb-run"), sign=r"display|X11|GLX|glfw|headless|remote|rdp|surface"),
            Mechanism(text("A sandbox has its own graphics libraries, which must be of the driver's version: Flatpak, snap, AppImage, conda, Steam"), text("flatpak update; sudo snap refresh; does glxinfo -B outside name the card?"), sign=r"flatpak|snap|appimage|conda|swrast|libstdc\+\+"),
            Mechanism(text("The wrong one of two graphics processors is used"), text("prime-run PROGRAM; __NV_PRIME_RENDER_OFFLOAD=1 __GLX_VENDOR_LIBRARY_NAME=nvidia; DRI_PRIME=1; vulkaninfo --summary"), sign=r"Intel|llvmpipe|optimus|prime|iGPU|Iris|UHD"),
            Mechanism(text("The card or its driver does not have this version or extension of the interface"), text("clinfo | grep -iE 'version|extensions'; vulkaninfo --summary | grep apiVersion"), sign=r"extension|not supported|unsupported|version|NOT_PRESENT|fp64|half"),
            Mechanism(text("It is only a remark: the program tries one interface after another"), text("does the program go on with another one?"), sign=r"warning|MESA|libEGL warning|hwloc"),
        ),
    ),
    Family(
        text("The card's video engine does not encode or decode"),
        r"nvenc|nvdec|cuvid|nvcuvid|\bNvEnc\w*|_nvenc|vaapi|\bVA-API|libva\b|\bQSV\b|qsv|h264_\w+|hevc_\w+|av1_\w+|No capable devices|OpenEncodeSession\w*|hwaccel|\bamf\b",
        ("video-engine", "program-backend"),
        (
            Mechanism(text("The driver is older than the program's video interface needs"), text("nvidia-smi; the message names the version; a newer driver, or a program built for an older interface"), sign=r"version|minimum|required|driver does not support"),
            Mechanism(text("The container or system lacks the driver's video libraries"), text("ldconfig -p | grep -E 'nvidia-encode|nvcuvid'; NVIDIA_DRIVER_CAPABILITIES=compute,utility,video"), sign=rf"cannot load|\.so|\.dll|{CONTAINER}|not found"),
            Mechanism(text("The card has no encoder, or not for this codec, size, number of bits or B frames (A100, H100, GT 1030, some MX)"), text("NVIDIA's Video Encode and Decode Support Matrix; nvidia-smi -L"), sign=r"capable|not supported|unsupported|10.?bit|B.frames|invalid param|profile|4:2:2|av1"),
            Mechanism(text("Too many sessions at once, or the card's memory is full"), text("nvidia-smi --query-gpu=encoder.stats.sessionCount,memory.used --format=csv"), sign=r"session|memory|\(2\)|\(10\)|OUT_OF_MEMORY|incompatible client key"),
            Mechanism(text("The program was built without it"), text("ffmpeg -hide_banner -encoders | grep -E 'nvenc|vaapi|qsv'; ffmpeg -buildconf"), sign=r"Unknown (?:encoder|decoder)|Unrecogni[sz]ed|not found"),
            Mechanism(text("Another libcuda is loaded (stubs), or CUDA does not start at all"), text("nvidia-smi; ldconfig -p | grep libcuda; does another CUDA program run?"), sign=r"cuInit|cuda_device|error 34|stub|no CUDA|CUDA_ERROR"),
            Mechanism(text("Intel, AMD: rights on /dev/dri/renderD128, the driver (iHD, i965, radeonsi) or firmware (HuC) is missing"), text("vainfo; ls -ln /dev/dri; id; LIBVA_DRIVER_NAME=iHD vainfo; sudo dmesg | grep -i huc"), sign=rf"vaapi|libva|qsv|iHD|i965|{AMD}|renderD"),
        ),
    ),
    Family(
        text("A server or worker did not start; the reason is in an earlier line"),
        r"Engine ?core (?:initiali[sz]ation|proc\w*)? ?(?:failed|died|exception)|Engine process failed|worker (?:failed|proc\w*)[^\n]{0,30}(?:start|init|died)|EngineDeadError|llama runner[^\n]*(?:terminated|exited|error)|runner process[^\n]*(?:terminated|no longer)|server (?:exited|failed|terminated)|RayTaskError|ActorDiedError|Raylet|model runner has unexpectedly stopped|failed to load model|unable to load model|Failed core proc",
        ("serving-memory", "launcher", "unknown-message", "program-backend"),
        (
            Mechanism(text("The weights, their cache or the context do not fit into the card's memory"), text("nvidia-smi while it starts; a shorter context, fewer layers on the card, gpu_memory_utilization, weights with fewer bits"), sign=r"memory|KV|cache|llama|runner", codes=("serving-memory", "out-of-memory")),
            Mechanism(text("An exception of the worker stands further up: read the first error, not the last"), text("the log from its start: grep -nE 'Error|Exception|CUDA|NCCL' LOG | head"), sign=r"See root cause|above|Engine"),
            Mechanism(text("The release does not know this model, number format or card (or needs another torch, transformers or driver)"), text("the program's list of models; pip list | grep -iE 'vllm|sglang|torch|transformers'; nvidia-smi"), sign=r"architecture|unknown model|not supported|unsupported|rope|gguf|quant"),
            Mechanism(text("The model's file is incomplete or of another format"), text("ls -lL FILES; compare sizes and checksums with the source; git lfs pull"), sign=r"safetensors|magic|truncat|corrupt|gguf|tensor"),
            Mechanism(text("Ranks of the server do not reach each other (NCCL, shared memory, P2P)"), text("with one card; NCCL_DEBUG=INFO NCCL_P2P_DISABLE=1; df -h /dev/shm; --ipc=host"), sign=r"nccl|tensor.parallel|rank|shm|world"),
            Mechanism(text("The machine's own memory ended it"), text("sudo dmesg | grep -i 'killed process'; free -h"), sign=r"killed|137|signal", codes=("oom-killed",)),
            Mechanism(text("The processor lacks instructions of the build (AVX), or driver and library of the card do not fit"), text("grep -o -w avx2 /proc/cpuinfo | head -1; nvidia-smi; journalctl -u SERVICE -n 80"), sign=r"illegal|SIGILL|exit status|CUDA error"),
        ),
    ),
    Family(
        text("The card is slower than it should be, or its readings look wrong"),
        r"slow\w*|throttl\w+|\bSW Power Cap|HW (?:Slowdown|Thermal)|GPU-?Util|low (?:gpu )?utili[sz]ation|Pstate|\bP[28]\b +\d+W|1x|x1\b|bandwidth|Gen ?1\b|\[N/A\]|N/A|Not Supported|ERR!",
        ("throttle", "pcie", "few-cores"),
        (
            Mechanism(text("The work waits for data, the processor or the disk: the card is idle in between"), text("nvidia-smi dmon -s u; top; more num_workers; is /dev/shm or a network disk the limit?"), sign=r"util|worker|cpu"),
            Mechanism(text("Heat or the power limit"), text("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"), sign=r"thermal|power|throttl|\d\dC", codes=("throttle",)),
            Mechanism(text("The link runs with fewer lanes or an older generation (idle cards lower it; look under load)"), text("nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv under load; lspci -vvs BUS | grep LnkSta"), sign=r"pcie|Gen|x1|x4|width", codes=("pcie",)),
            Mechanism(text("The program runs on the CPU, or on the integrated GPU, or its kernels are compiled at each start"), text("nvidia-smi while it runs: is it in the list? ~/.nv/ComputeCache grows: no code for the card in the build"), sign=r"cpu|minutes|first|jit", codes=("cpu-build", "no-kernel")),
            Mechanism(text("Other programs share the card, or clocks are locked"), text("nvidia-smi; nvidia-smi -q -d CLOCK | grep -A4 Applications"), sign=r"process|clock"),
            Mechanism(text("The reading does not exist on this card or system (GeForce, WDDM, WSL, MIG, Jetson): nothing is wrong"), text("nvidia-smi -q | grep -c N/A; the same in another tool"), sign=rf"N/A|Not Supported|{WSL}|{WINDOWS}|{MAC}"),
        ),
        stands_alone=False,
    ),
)  # fmt: skip
