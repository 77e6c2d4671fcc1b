"""Situations of containers, WSL, Jetson boards, Macs and clusters: where the program runs decides which fix applies."""

from __future__ import annotations

from ownlab.instruments.doctor.situations.situation import JETSON, MAC, WSL, Situation
from ownlab.text import text

__all__ = ["ENVIRONMENT"]

_CONTAINER = r"\bdocker\b|\bpodman\b|rocm-user|/\.dockerenv|root@[0-9a-f]{12}\b|^fact: container (?!none)|containers?/"

ENVIRONMENT: tuple[Situation, ...] = (
    Situation(
        "dev-permission",
        (r"avc: +denied[^\n]*(?:nvidia|xserver_misc_device|dri_device|hsa_device)",),
        text("SELinux forbids the container or service to open the card's device files"),
        text("The rights of the files are right; SELinux's policy has no rule for this kind of process."),
        (
            text("Container: podman run --security-opt label=disable …, or for all containers: sudo setsebool -P container_use_devices=true"),
            text("A service: sudo ausearch -m avc -ts recent | audit2allow -M gpu; sudo semodule -i gpu.pp; sudo restorecon -v /dev/nvidia*"),
        ),
        ("dev-permission", "nvml-unknown", "container-toolkit", "no-smi", "uvm"),
    ),
    Situation(
        "dev-permission",
        (r"/dev/kfd[^\n]*(?:Permission denied|not permitted)|Unable to open /dev/kfd", _CONTAINER, r"Permission denied|not permitted"),
        text("The container's user is not in the group that may open /dev/kfd"),
        text("/dev/kfd and /dev/dri/renderD* belong to the host's group render (or video). Groups count by number; the one inside the image is often another."),
        (
            text("docker run --device=/dev/kfd --device=/dev/dri --group-add $(getent group render | cut -d: -f3) --group-add video …   # the number of the host's group"),
            text("Rootless podman: --group-add keep-groups; the user must be in render on the host: sudo usermod -aG render,video $USER, and log in again."),
            text("ls -ln /dev/kfd /dev/dri inside the container shows which number is needed."),
        ),
        ("dev-permission", "rocm-devices", "rocm-libraries"),
    ),
    Situation(
        "rocm-devices",
        (r"/dev/kfd\"?:? ?[^\n]*no such file|/dev/kfd does not exist", r"Docker Desktop|\bOS: *(?:Microsoft )?Windows|\bWindows 1[01]\b|^fact: family windows"),
        text("Docker on Windows has no /dev/kfd: containers cannot use an AMD card there"),
        text("ROCm in containers needs Linux with the module amdgpu. AMD's HIP SDK is for programs of Windows itself."),
        (
            text("Use Linux itself; or the program's version for Windows (HIP SDK, DirectML, Vulkan) without Docker."),
            text("WSL 2 with a supported Radeon: ROCm for WSL inside the distribution, which uses /dev/dxg, without /dev/kfd."),
        ),
        ("rocm-devices",),
    ),
    Situation(
        "mismatch",
        (r"Dockerfile|\bFROM [\w./:-]+:[\w.-]+|in the container|^fact: container (?!none)", r"Driver/library version mismatch"),
        text("The image contains a driver library of its own, which does not match the host's driver"),
        text("A container gets the driver's libraries from the host. Packages that the image installed (libnvidia-compute, nvidia-utils, also as dependencies) are found first."),
        (
            text("In the container: dpkg -l | grep -E 'libnvidia|nvidia-utils'; ldconfig -p | grep -E 'libnvidia-ml|libcuda.so'"),
            text("Leave these packages out of the image (apt-get install --no-install-recommends; purge 'libnvidia-*'), and build it again. The toolkit without a driver: cuda-toolkit-X-Y, ocl-icd-opencl-dev."),
            text("If nvidia-smi fails on the host, too: reboot the host; its driver was updated."),
        ),
        ("mismatch", "container-toolkit"),
        unless=r"nvidia-container-cli",
    ),
    Situation(
        "container-no-gpu",
        (
            r"docker[ -]compose|compose\.ya?ml",
            r"libcuda\.so\.1: cannot open|Found no NVIDIA driver|nvidia-smi\S*: (?:command )?not found|no CUDA-capable|No CUDA GPUs|libnvidia-ml|not find cuda drivers|\"?nvidia-smi\"?: executable file not found",
        ),
        text("The service in the Compose file requests no card, so its container has no driver"),
        text("--gpus belongs to docker run. In a Compose file each service names the cards that it gets."),
        (
            text("In the service: deploy: resources: reservations: devices: [driver: nvidia, count: all, capabilities: [gpu]]   # each level on a line of its own"),
            text("docker compose up -d --force-recreate; then: docker compose exec SERVICE nvidia-smi"),
            text("If docker run --rm --gpus all ubuntu nvidia-smi fails, too: the toolkit is missing or not configured (sudo nvidia-ctk runtime configure --runtime=docker; sudo systemctl restart docker)."),
        ),
        ("no-driver", "library-missing", "no-visible-gpu", "container-toolkit"),
        unless=r"could not select device driver|runtime name|nvidia-container-cli|capabilities: ?\[|runtime: nvidia",
    ),
    Situation(
        "container-no-gpu",
        (
            r"^(?:#\d+ [\d.]+ |Step \d+/\d+ ?: ?RUN|=> ERROR \[|RUN )|docker build\b|failed to solve: process",
            r"libcuda\.so\.1: cannot open|Found no NVIDIA driver|No CUDA GPUs|CUDA (?:is )?not available|no CUDA-capable|_get_cuda_arch_flags|is_available\(\)\W*\n?\W*False",
        ),
        text("While an image is built there is no card: docker build gives none to its steps"),
        text("The steps of a Dockerfile run without GPU and driver. Programs that look for the card then choose the CPU, or fail."),
        (
            text("Name the cards to compile for: ENV TORCH_CUDA_ARCH_LIST='7.5;8.0;8.6;8.9;9.0+PTX' FORCE_CUDA=1 (TCNN_CUDA_ARCHITECTURES, CMAKE_CUDA_ARCHITECTURES for others)"),
            text("Take an image …-devel as the base; link with -L/usr/local/cuda/lib64/stubs; run what needs the card at the start of the container (docker run --gpus all …)."),
        ),
        ("no-driver", "no-visible-gpu", "extension-build", "library-missing", "torch-no-gpu"),
        blocks=False,
    ),
    Situation(
        "counters",
        (r"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES|cupti\w*[^\n]*(?:failed|error)[^\n]*\b35\b|ERR_NVGPUCTRPERM",),
        text("Only administrators may read the card's performance counters"),
        text("The driver gives counters to administrators only (CUPTI error 35). Computing is not affected."),
        (
            text("On a machine of your own: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-counters.conf; rebuild the boot image (sudo update-initramfs -u; Fedora: sudo dracut --force); sudo reboot. Once: run the profiler with sudo"),
            text("Container: docker run --cap-add=SYS_ADMIN …, or that setting on the host. Windows: NVIDIA Control Panel → Developer → Manage GPU Performance Counters."),
            text("On a cluster ask its administrators; on rented containers (RunPod, Colab) it cannot be changed. Nsight Systems (nsys) needs no counters."),
        ),
        ("counters",),
        severity="warning",
        blocks=False,
        while_working=True,
    ),
    Situation(
        "gpu-not-found",
        (r"usage limits in Colab|Cannot connect to GPU backend",),
        text("Colab gives no GPU now: the account's limit is used up"),
        text("Free accounts have limits that change and are not published. The runtime then has no card, and no command in it brings one."),
        (
            text("Wait (up to a day), and end sessions that are not used: Runtime → Manage sessions; or a paid plan."),
            text("Until then: Runtime → Change runtime type → CPU, or another service (Kaggle)."),
        ),
        ("no-smi", "no-driver", "gpu-not-found", "no-visible-gpu"),
    ),
    Situation(
        "no-driver",
        (r"/nix/store/|/run/opengl-driver|\bNixOS\b|/gnu/store/", r"libcuda\.so\.1: cannot open|Found no NVIDIA driver|CUDA_ERROR_SYSTEM_DRIVER|CUDA driver version is insufficient|no CUDA-capable|libGL|libnvidia-ml"),
        text("Programs from the Nix or Guix store do not find the driver of the system"),
        text("They search their own store only. On NixOS the driver's libraries are in /run/opengl-driver/lib; on other systems in the system's folder."),
        (
            text("NixOS: export LD_LIBRARY_PATH=/run/opengl-driver/lib:$LD_LIBRARY_PATH; hardware.graphics.enable = true; services.xserver.videoDrivers = [ nvidia ] (in quotes), then nixos-rebuild switch and reboot"),
            text("Nix on another system: start the program with nixGL (nixGLNvidia), or link only libcuda.so.1 into a folder of its own on LD_LIBRARY_PATH."),
        ),
        ("no-driver", "library-missing", "driver-old", "no-visible-gpu"),
        unless=r"NVIDIA-SMI has failed|could not insert",
    ),
    Situation(
        "no-kernel",
        (
            r"sm_1[012]\d[^\n]*is not compatible with the current PyTorch|no kernel image is available",
            r"docker (?:run|compose)|podman run|apptainer|singularity|^fact: container (?!none)",
            r"RTX (?:PRO )?50\d\d|RTX PRO|sm_1[012]\d|\bB200\b|\bGB\d00\b|RTX 50",
        ),
        text("The image's torch has no code for this card: it is older than the card"),
        text("Blackwell cards need a torch that was built with CUDA 12.8 or newer (2.7 and newer). The one inside the image counts, not the host's."),
        (
            text("Use a newer image of the program, or its tag for CUDA 12.8 or newer; the host's driver must be R570 or newer (nvidia-smi)."),
            text("Or in an image of your own: RUN pip install --force-reinstall torch torchvision torchaudio --index-url https://download.pytorch.org/whl/cu128, and extensions (xformers, flash-attn) built for it."),
        ),
        ("no-kernel",),
    ),
    Situation(
        "container-daemon",
        (r"seccomp filter rule for syscall|Operation not permitted[^\n]*clone3|pthread_create[^\n]*Operation not permitted|can't start new thread[\s\S]{0,400}docker",),
        text("Docker or libseccomp on the host is too old for this image"),
        text("New images call system functions (clone3) that an old seccomp profile refuses. The card is not concerned."),
        (
            text("Update Docker and its parts on the host: docker-ce 20.10.10 or newer, libseccomp2 2.5 or newer, containerd.io; then sudo systemctl restart docker"),
            text("To see whether it is that: docker run --security-opt seccomp=unconfined …   # not for services that others reach"),
        ),
        blocks=False,
    ),
    Situation(
        "dcgm",
        (r"Unable to connect to host engine|unable to establish a connection to the specified host|Host engine connection invalid",),
        text("DCGM's host engine is not running"),
        text("dcgmi and exporters ask the service nv-hostengine, which is not started here, or not reached."),
        (
            text("sudo systemctl enable --now nvidia-dcgm   # of the package datacenter-gpu-manager; older packages: dcgm; by hand: sudo nv-hostengine"),
            text("In a container: start the exporter with its own engine, or name the host's (-r HOST:5555)."),
        ),
        blocks=False,
    ),
    Situation(
        "cluster",
        (r"CANCELLED (?:AT|ON) [^\n]*DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)",),
        text("The batch system ended the job: its time limit, a job of higher priority, or a failed node"),
        text("The message names which. The card and the program are not at fault."),
        (
            text("Time limit: sbatch --time=…, up to the partition's limit (sinfo -o '%P %l'); save checkpoints, and go on from the last one."),
            text("Preemption: --requeue with checkpoints, or a partition without it. Node failure: scontrol show job JOB; submit again with --exclude=NODE."),
        ),
        blocks=False,
        while_working=True,
    ),
    Situation(
        "unfit-library",
        (WSL, r"nvidia-smi[\s\S]{0,120}Segmentation fault|Segmentation fault[\s\S]{0,60}nvidia-smi"),
        text("nvidia-smi crashes in WSL: the driver of Windows and WSL do not fit each other"),
        text("Some drivers had this fault in WSL; the CUDA programs often work nevertheless. A Linux driver inside WSL does the same."),
        (
            text("In PowerShell: wsl --update; wsl --shutdown. Then another driver on Windows (newer, or the Studio driver): https://www.nvidia.com/drivers"),
            text("dpkg -l | grep -i nvidia   # in WSL: remove drivers from there (sudo apt-get purge 'nvidia-driver-*' 'libnvidia-compute-*')"),
            text("python -c 'import torch; print(torch.cuda.is_available())'   # True: only nvidia-smi is concerned"),
        ),
        ("unfit-library",),
    ),
    Situation(
        "harmless",
        (JETSON, r"nvidia-smi\S*: (?:command )?not found|command not found: nvidia-smi"),
        text("Harmless: a Jetson has no nvidia-smi before JetPack 6"),
        text("Its graphics processor is part of the chip, and its driver is part of JetPack. No other driver may be installed."),
        (text("sudo tegrastats; cat /etc/nv_tegra_release; python3 -c 'import torch; print(torch.cuda.is_available())'"),),
        ("no-driver", "no-smi"),
        unless=r"is_available\(\)\W*\n?\W*False|not compiled with CUDA",
        severity="note",
    ),
    Situation(
        "cpu-build",
        (
            JETSON,
            r"is_available\(\)\W*\n?\W*False|not compiled with CUDA|Found no NVIDIA driver|No CUDA GPUs are available|CUDA (?:is )?(?:not available|unavailable)|Available: *False|device=cpu|CUDA used to build PyTorch: None|\+cpu\b",
        ),
        text("On a Jetson, torch must be NVIDIA's wheel for this JetPack; PyPI and conda have the CPU build or one for servers"),
        text("Wheels for aarch64 on PyPI are for the CPU or for large ARM servers. NVIDIA's wheel belongs to one JetPack and its Python (JetPack 4: 3.6, 5: 3.8, 6: 3.10)."),
        (
            text("cat /etc/nv_tegra_release; python3 --version   # R32: JetPack 4, R35: JetPack 5, R36: JetPack 6"),
            text("pip3 uninstall -y torch torchvision; then the wheel for that JetPack: https://developer.nvidia.com/embedded/downloads (PyTorch for Jetson), with the system's python3, not conda's"),
            text("torchvision is built for it from source, or comes from the same place. Or an image: nvcr.io/nvidia/l4t-pytorch, started with --runtime nvidia"),
        ),
        ("torch-no-gpu", "cpu-build", "no-driver", "no-visible-gpu", "no-accelerator", "gpu-not-found"),
    ),
    Situation(
        "library-missing",
        (JETSON, r"lib(?:cudnn|cublas\w*|cudart|cusparse\w*|cufft|curand|cusolver|nvinfer|cupti|nccl)\.so\S*: cannot open|lib(?:cudnn|cublas\w*|nvinfer)[^\n]*not found"),
        text("A library of CUDA is missing on this Jetson, or the package was made for another JetPack"),
        text("CUDA, cuDNN and TensorRT of a Jetson come with JetPack, in versions that belong together. Packages of PyPI for servers do not fit."),
        (
            text("cat /etc/nv_tegra_release; dpkg -l | grep -E 'cudnn|cuda-toolkit|tensorrt'   # what is installed; missing: sudo apt-get install -y nvidia-jetpack"),
            text("If another version is named (cuDNN 8 on JetPack 5 and 6.0, 9 from 6.1): install the wheel of torch or onnxruntime-gpu for this JetPack, not one from PyPI."),
            text("Container: --runtime nvidia, and an image of the same L4T release."),
        ),
        ("cudnn-missing", "library-missing", "framework-broken", "cuda-library", "cpu-package"),
    ),
    Situation(
        "out-of-memory",
        (r"NvMapMem(?:Alloc|Handle)\w*[^\n]*(?:error|fail)|NVMAP_IOC_\w+ failed|NvMapMemAllocInternalTagged",),
        text("The Jetson's memory, which CPU and GPU share, is full or cannot be given in one piece"),
        text("What the desktop, other programs and files in the cache take is missing for the GPU. Error 12 means no memory."),
        (
            text("free -h; sudo tegrastats   # end other programs; turn the desktop off: sudo systemctl isolate multi-user.target"),
            text("A smaller model, batch or context; sync; echo 3 | sudo tee /proc/sys/vm/drop_caches. Some releases of JetPack 6 have this fault: update JetPack."),
        ),
        ("out-of-memory", "unknown-message"),
        blocks=False,
    ),
    Situation(
        "framework-broken",
        (r"Illegal instruction|SIGILL", rf"{JETSON}|\baarch64\b|\barmv[78]l?\b|Raspberry Pi"),
        text("A library computes with instructions that this ARM processor does not have, usually NumPy's OpenBLAS"),
        text("OpenBLAS takes the processor for another one and chooses the wrong code, or the wheel was built for newer ARM processors."),
        (
            text("export OPENBLAS_CORETYPE=ARMV8   # in ~/.bashrc, before Python starts"),
            text("If it remains: another NumPy (pip install 'numpy<1.19.5' on JetPack 4; the distribution's python3-numpy), then torch's wheel for this board."),
        ),
        ("framework-broken", "unfit-library"),
        unless=r"x86_64|\bAVX",
    ),
    Situation(
        "bitsandbytes",
        (MAC, r"bitsandbytes"),
        text("bitsandbytes has no CUDA on a Mac"),
        text("Macs have no NVIDIA cards that CUDA drives, and older releases of bitsandbytes have no library for macOS at all."),
        (
            text("Go without it: no load_in_8bit or load_in_4bit, optimizers of torch; quantised models with MLX or llama.cpp (Metal), device='mps'."),
            text("Or a Linux machine with an NVIDIA card. A newer release at least imports on macOS: pip install -U bitsandbytes"),
        ),
        ("bitsandbytes", "library-missing", "framework-broken", "cpu-package"),
        unless=r"^fact: card nvidia",
        blocks=False,
    ),
    Situation(
        "mps-absent",
        (
            MAC,
            r"Torch not compiled with CUDA|CUDA (?:is )?(?:not available|unavailable|not found)|no CUDA-capable device|Found no NVIDIA driver|CUDA_HOME environment variable is not set|nvcc[^\n]*not found|No CUDA GPUs|requires CUDA",
        ),
        text("A Mac has no CUDA: the program asks for an NVIDIA card"),
        text("macOS has had no NVIDIA driver since 10.14. torch uses Apple's GPU as the device mps; packages with CUDA code cannot run."),
        (
            text("In the program: device = 'mps' if torch.backends.mps.is_available() else 'cpu'; load checkpoints with map_location='cpu'"),
            text("For packages that need CUDA (flash-attn, xformers, apex, bitsandbytes' 8 bit): leave them out, or use a Linux machine with an NVIDIA card."),
        ),
        ("cpu-build", "no-driver", "torch-no-gpu", "no-visible-gpu", "extension-build", "gpu-not-found", "checkpoint-cuda"),
        unless=r"^fact: (?:card nvidia|driver)|/home/|\bnvidia-smi\b|\bNVIDIA-SMI\b|GeForce|\bWindows\b",
    ),
    Situation(
        "graphics-libraries",
        (r"\bflatpak\b|org\.freedesktop\.Platform|/app/(?:bin|lib)/", r"GLX?\b|libGL|EGL|Vulkan|VK_ERROR|NVIDIA|nvidia"),
        text("The Flatpak runtime has no NVIDIA libraries of exactly the installed driver's version"),
        text("Flatpak programs use copies of the driver's libraries, which must have the kernel module's version. After a driver update they are missing until they are updated, too."),
        (
            text("flatpak update; flatpak list | grep -i nvidia; cat /sys/module/nvidia/version   # the versions must be equal"),
            text("If the runtime for this driver is not there yet: wait for it, go back to the former driver, or install the program without Flatpak."),
        ),
        ("graphics-libraries", "mismatch", "unknown-message", "opencl"),
        unless=r"nvidia-smi has failed|no CUDA GPUs",
        blocks=False,
    ),
    Situation(
        "runtime-missing",
        (
            r"(?:unknown or invalid runtime name|Unknown runtime specified):? *\"?nvidia",
            r"nvidia-ctk runtime configure|daemon\.json[\s\S]{0,120}\"runtimes\"\s*:\s*\{\s*\"nvidia\"",
        ),
        text("The runtime nvidia is configured, but the running Docker daemon does not know it: it was not restarted, or reads another configuration"),
        text("Docker reads daemon.json when it starts. Docker Desktop, Docker as a snap and rootless Docker have files of their own, and --config-file names another one."),
        (
            text("sudo systemctl restart docker; docker info | grep -i runtimes   # must list nvidia. In WSL without systemd: sudo service docker restart"),
            text("Still not: docker context ls; systemctl cat docker | grep -i config-file; snap list docker   # which daemon and file it is"),
            text("Rootless: nvidia-ctk runtime configure --runtime=docker --config=$HOME/.config/docker/daemon.json; systemctl --user restart docker. Docker Desktop: Settings, Docker Engine. Snap: /var/snap/docker/current/config/daemon.json"),
        ),
        ("runtime-missing", "container-toolkit"),
        unless=r"nvidia-ctk\S*: (?:command )?not found|nvidia-container-runtime[^\n]*(?:not found|no such file)",
    ),
    Situation(
        "cluster",
        (r"\b(?:srun|salloc)\b|\bSLURM_JOB_ID\b", r"^False\s*$|^No devices were found|CUDA_VISIBLE_DEVICES=\s*$|No CUDA GPUs are available|no CUDA-capable device"),
        text("The Slurm job was given no GPU, so it sees none on its node"),
        text("A job gets only what it asks for, whatever the node has and whatever is seen outside of it. Driver and packages are not the reason."),
        (
            text("srun --gres=gpu:1 nvidia-smi -L   # or --gpus=1; in a batch script: #SBATCH --gres=gpu:1, with a partition that has GPUs (sinfo -o '%P %G')"),
            text("Inside a job each srun step takes part of it: scontrol show job $SLURM_JOB_ID | grep -i tres; salloc --gres=gpu:1, then srun --gres=gpu:1 …"),
        ),
        ("no-smi", "no-device", "no-visible-gpu", "gpu-not-found", "hidden", "torch-no-gpu", "module-load"),
        unless=r"--gres[= ]\S*gpu|--gpus(?:-per-\w+)?[= ]|\bgres/gpu|-G ?[1-9]|\+cpu\b",
        while_working=True,
    ),
)  # fmt: skip
