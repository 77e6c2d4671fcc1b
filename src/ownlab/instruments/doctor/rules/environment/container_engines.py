"""Rules about container engines: what NVIDIA's Container Toolkit, Docker, Kubernetes and Apptainer print when a start fails."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = [
    "ContainerCliError",
    "ContainerEngineTooOld",
    "DockerDesktopOutdated",
    "RocmContainer",
]


class ContainerCliError(CauseRule):
    """NVIDIA's Container Toolkit stops a container before it starts.

    **Why it matters.** The toolkit (nvidia-container-cli, or its runtime) asks the host's driver for its files and adds them
    to the container. The words after its name say which of these steps failed.

    **What to do.** `nvidia-smi` on the host must work first. Then follow the step for the message.

    **Sources.** libnvidia-container, src/error.c and nvc*.c; NVIDIA Container Toolkit, "Troubleshooting"; docker-snap#148.
    """

    code = "container-toolkit"
    severity = "error"
    title = text("NVIDIA's Container Toolkit cannot prepare the container")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"ldcache error|ldconfig failed with error code|process /sbin/ldconfig",
            text("The toolkit runs the wrong ldconfig"),
            text("On Debian and Ubuntu /sbin/ldconfig is a script; the toolkit needs the real program, ldconfig.real."),
            (
                text(
                    'In /etc/nvidia-container-runtime/config.toml: ldconfig = "@/sbin/ldconfig.real"   # other distributions: "@/sbin/ldconfig"'
                ),
                text("sudo systemctl restart docker"),
            ),
        ),
        Cause(
            r"nvidia-container-cli:[^\n]*load library failed: libnvidia-ml\.so",
            text(
                "The container runtime finds no driver library: there is no driver, or Docker is a snap or Docker Desktop, which cannot see it"
            ),
            text(
                "The toolkit does not find libnvidia-ml.so.1 on the host. If nvidia-smi works there, Docker runs in a snap or in Docker Desktop's virtual machine, which does not see the host's driver."
            ),
            (
                text("On the host: nvidia-smi. If it fails, install the driver there first."),
                text(
                    "If it works: snap list docker. Remove the snap (sudo snap remove docker), and install Docker from its packages: https://docs.docker.com/engine/install/"
                ),
                text(
                    "Docker Desktop for Linux runs in a virtual machine without the card: docker context ls; docker context use default (the engine docker-ce)"
                ),
                text(
                    "Otherwise the library is not in the loader's cache: sudo ldconfig; ldconfig -p | grep libnvidia-ml"
                ),
            ),
        ),
        Cause(
            r"mount error: file creation failed:[^\n]*file exists|(?:libnvidia|libcuda|nvidia-smi)[^\n]*: file exists",
            text("The image already contains files of a driver"),
            text(
                "The image was made from a running GPU container (docker commit), or a driver was installed in it. The toolkit cannot put the host's files there."
            ),
            (
                text(
                    "Build the image without driver files: do not install nvidia-driver or libnvidia-* in it, and remove /usr/lib/x86_64-linux-gnu/libnvidia* and libcuda* from it."
                ),
            ),
        ),
        Cause(
            r"no-cgroups\s*=\s*true",
            text("The toolkit does not let the container open the card: no-cgroups = true"),
            text(
                "This setting is for rootless engines. With it, a container of the root engine gets the files, but not the right to open them."
            ),
            (
                text(
                    "sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups=false --in-place; sudo systemctl restart docker"
                ),
            ),
        ),
        Cause(
            r"devices\.allow: permission denied|privilege change failed|cgroup subsystem devices not found|container error: (?:failed to (?:get|find)|cgroup)|bpf_prog_(?:query|attach|load)[^\n]*fail|failed to (?:get|set) (?:device )?cgroup",
            text("The toolkit cannot manage the container's device list (cgroups)"),
            text("The toolkit is too old for cgroup v2, or the container is rootless and must not change cgroups."),
            (
                text("Update nvidia-container-toolkit to 1.8 or newer on the host."),
                text(
                    "Rootless: sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place   # only for rootless engines"
                ),
            ),
        ),
        Cause(
            r"nvml error: function not found|nvml error: (?:not supported|argument)",
            text("The host's driver is too old for this Container Toolkit"),
            text("The toolkit asks NVML for a function that this driver does not have."),
            (
                text(
                    "Update the host's driver, as far as its card allows; or install an older nvidia-container-toolkit (1.13 for drivers before R450)."
                ),
            ),
        ),
        Cause(
            r"error executing hook `?/usr/\S*nvidia-container\S*|OCI runtime error[^\n]*nvidia-container-(?:toolkit|runtime-hook)",
            text("The toolkit's hook fails in this engine"),
            text(
                "Podman and rootless engines should get cards through CDI; the old hook cannot change their cgroups, and SELinux stops it."
            ),
            (
                text(
                    "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml; sudo rm -f /usr/share/containers/oci/hooks.d/oci-nvidia-hook.json"
                ),
                text("podman run --device nvidia.com/gpu=all --security-opt=label=disable …"),
            ),
        ),
        Cause(
            r"nvml error: driver/library version mismatch",
            text("The host's driver was updated without a reboot"),
            text("The driver's library and its loaded kernel module have different versions."),
            (text("Reboot the host."),),
        ),
        Cause(
            r"nvml error: insufficient permissions|driver service terminated with signal|driver rpc error|initialization error: (?:open failed|creat(?:e|ion) fail)[^\n]*(?:permission|nvidia)",
            text("The toolkit may not open the card's device files, or its helper process was stopped"),
            text(
                "The device files belong to a group (root:video, 0660) to which the toolkit's user does not belong, SELinux denies access, or the kernel module hangs."
            ),
            (
                text(
                    "Check: ls -l /dev/nvidia*; make them open to all: options nvidia NVreg_DeviceFileMode=0666 in /etc/modprobe.d (the default)"
                ),
                text(
                    'Or let the toolkit use the group: user = "root:video" in /etc/nvidia-container-runtime/config.toml'
                ),
                text("Test: sudo nvidia-container-cli -k -d /dev/tty info"),
            ),
        ),
        Cause(
            r"nvml error: (?:driver not loaded|unknown error)|initialization error: driver error|nvidia-container-cli: initialization error: (?:nvml|cuda) error: (?:driver|no|unknown|init)|stat failed: /(?:proc/driver|dev)/nvidia",
            text("The host's NVIDIA driver is not loaded"),
            text(
                "Containers use the host's driver, and the toolkit cannot reach it. With Docker Desktop on Windows: Windows, WSL or the Windows driver is too old for GPUs in WSL."
            ),
            (
                text(
                    "With Docker Desktop: Windows 11 (or Windows 10 21H2), in PowerShell wsl --update, and the newest Windows driver."
                ),
                text(
                    "On the host: sudo modprobe nvidia; sudo modprobe nvidia_uvm; nvidia-smi   # make that work first"
                ),
                text("Then: sudo systemctl restart docker"),
            ),
        ),
        Cause(
            r"(?:device error|unknown device)[^\n]*(?:unknown device id|GPU-|MIG-|: unknown)|device error: \d+: unknown device",
            text("The container asks for a card that does not exist on the host"),
            text("The number or UUID in --gpus, device_ids or NVIDIA_VISIBLE_DEVICES is not among the host's cards."),
            (text("List them: nvidia-smi -L; then use one of these numbers or UUIDs, or all."),),
        ),
        Cause(
            r"lib(?:cudnn|nvinfer|cublas|nvdla_compiler)\S*: file too short|lib(?:nvdla_compiler|nvrm\w*|nvos|nvbuf\w*|nvmedia\w*|nvinfer_dla|nvdc|nvtegra\w*)\.so\S*: cannot open|NvRmMemInitNvmap failed",
            text("A container on a Jetson was started without NVIDIA's runtime"),
            text(
                "On a Jetson the driver's libraries come from the host through the runtime nvidia, which is not Docker's default: docker compose (and docker build) start containers without it."
            ),
            (
                text('In /etc/docker/daemon.json: "default-runtime": "nvidia"; then: sudo systemctl restart docker'),
                text("Or for one container: docker run --runtime nvidia …"),
            ),
        ),
        Cause(
            r"image's platform \([^)]*\) does not match the detected host platform|exec user process caused: exec format error",
            text("The image is for another processor (ARM or x86)"),
            text("An image for ARM machines does not run on x86, and the other way round."),
            (
                text(
                    "docker pull --platform linux/amd64 IMAGE   # or linux/arm64; Jetson needs images made for it (l4t)"
                ),
            ),
        ),
        Cause(
            r"Could not find any nv files|mount hook function failure: mount[^\n]*(?:nvidia|libcuda)",
            text("Apptainer finds no NVIDIA driver on this host"),
            text(
                "--nv binds the host's driver into the container, and this host has none: a node without a GPU, or the driver's folder is not in the loader's cache."
            ),
            (
                text(
                    "nvidia-smi on the host (on a cluster: on a GPU node, with --gres=gpu:1); then: sudo ldconfig; apptainer exec --nv …"
                ),
            ),
        ),
        Cause(
            r"manifest for nvidia/cuda:\S* not found|nvidia/cuda:latest[^\n]*(?:not found|manifest)",
            text("The image nvidia/cuda has no such tag"),
            text("There is no tag latest, and old tags are removed."),
            (
                text(
                    "Use a full tag of https://hub.docker.com/r/nvidia/cuda/tags, for example nvidia/cuda:12.4.1-base-ubuntu22.04"
                ),
            ),
        ),
        Cause(
            r"Running hook #\d.*directly|invoking the NVIDIA Container Runtime Hook directly",
            text("This system needs --runtime=nvidia instead of --gpus"),
            text("On Jetson and in CDI mode the hook alone cannot prepare a container."),
            (
                text(
                    'docker run --runtime=nvidia …   # or "default-runtime": "nvidia" in /etc/docker/daemon.json, then restart Docker'
                ),
            ),
        ),
        Cause(
            r"failed to generate CDI spec|failed to locate libcuda\.so",
            text("nvidia-ctk does not find the driver's libraries"),
            text(
                "They lie in a folder that it does not search (containers' hosts such as Container-Optimized OS, NixOS, or a driver installed in another place), or parts of the driver are missing."
            ),
            (
                text(
                    "find / -name 'libcuda.so.*' 2>/dev/null   # then: sudo nvidia-ctk cdi generate --library-search-path=FOLDER --output=/etc/cdi/nvidia.yaml"
                ),
                text(
                    "If there is no libcuda: install the driver's compute libraries (Ubuntu: libnvidia-compute-BRANCH; Debian: libcuda1)"
                ),
            ),
        ),
        Cause(
            r"unresolvable CDI devices? nvidia\.com|stat nvidia\.com/gpu=|error stat'ing file /\S*(?:nvidia|cuda|EGL|GLX)\S*\.so|lib(?:nvidia|cuda|EGL_nvidia|GLX_nvidia)[\w-]*\.so\.\d+\.\d+\.\d+ not found|cannot stat `?/\S*(?:nvidia|cuda|EGL|GLX|GLES)\S*\.so\.\d[^\n]*No such file|failed to inject CDI devices|CDI (?:spec|device)[^\n]*(?:not found|fail|unresolv)|unresolvable CDI device",
            text("There is no CDI description of the cards, it is out of date, or this engine does not know CDI"),
            text(
                "The engine looks for nvidia.com/gpu in /etc/cdi and /var/run/cdi. The description is missing, stands in another folder, or names files of an older driver. Podman knows CDI since 4.1."
            ),
            (
                text("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml   # again after each driver update"),
                text(
                    "nvidia-ctk cdi list; podman version   # 4.1 or newer; a description in another folder (NixOS: /run/cdi): podman --cdi-spec-dir=/run/cdi run …"
                ),
            ),
        ),
        Cause(
            r"(?:detection|mount) error: (?:open|stat|lstat) failed: /usr/lib\S*lib(?:nvidia|cuda|GL|EGL)\S*: no such file|nvidia-ctk\S*[^\n]*exit (?:code|status)",
            text("The toolkit looks for files of a driver version that is no longer there"),
            text(
                "The driver was updated or removed in part: the loader's cache, the CDI description or an old toolkit still names files of the former version."
            ),
            (
                text("On the host: sudo ldconfig; nvidia-smi   # must work; reinstall the driver if it does not"),
                text(
                    "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml; update nvidia-container-toolkit; then create the container again"
                ),
            ),
        ),
        Cause(
            r"nvidia-container-(?:runtime|cli|runtime-hook|toolkit)\S*[^\n]*(?:no such file|not found|executable file not found)|libnvidia-container\S*: cannot open shared object"
            r"|exec: \"?nvidia-container\S+[^\n]*not found|libnvidia-container\.so\S*[^\n]*cannot open",
            text("The Container Toolkit is installed incompletely"),
            text("Docker calls a program of the toolkit, which is missing or does not find its own library."),
            (
                text("sudo ldconfig   # after a build from source"),
                text(
                    "Or install all parts again: sudo apt-get install --reinstall nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container1 libnvidia-container-tools"
                ),
            ),
        ),
        Cause(
            r"couldn't find libnvidia-ml\.so|Could not load NVML library|could not load NVML|NVML library is not installed or not found|libnvidia-ml\.so(?:\.1)?: cannot open shared|Failed to load NVML|NVML Shared Library Not Found|NVML: ERROR_LIBRARY_NOT_FOUND|ERROR_LIBRARY_NOT_FOUND|NVMLError_LibraryNotFound",
            text("The driver's library libnvidia-ml was not found"),
            text(
                "The library belongs to the driver. It is not installed, its folder is not in the loader's cache, or the program looks for libnvidia-ml.so while only libnvidia-ml.so.1 exists; a container gets it only if it was started with the card."
            ),
            (
                text(
                    "Find it: ldconfig -p | grep nvidia-ml; ls /usr/lib*/libnvidia-ml* /usr/lib*/nvidia* /usr/lib/x86_64-linux-gnu/libnvidia-ml*"
                ),
                text("If it is in another folder: echo FOLDER | sudo tee /etc/ld.so.conf.d/nvidia.conf; sudo ldconfig"),
                text("If only libnvidia-ml.so.1 exists: sudo ln -s libnvidia-ml.so.1 FOLDER/libnvidia-ml.so"),
                text(
                    "In a container: docker run --gpus all …; in WSL: export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH"
                ),
            ),
        ),
    )


class ContainerEngineTooOld(CauseRule):
    """Docker or Compose is too old for the way in which the card is requested.

    **Why it matters.** `--gpus` needs Docker 19.03; `deploy.resources.reservations.devices` needs Compose 1.28 or the plug-in
    `docker compose`; an old nvidia-docker compares CUDA versions itself.

    **What to do.** Update the engine, or request the card in the older way (`runtime: nvidia`).

    **Sources.** Docker release notes 19.03; Compose, "Enable GPU support"; nvidia-docker wiki.
    """

    code = "engine-old"
    severity = "error"
    title = text("The container engine is too old to pass GPUs")
    causes = (
        Cause(
            r"unknown flag: --gpus|unknown shorthand flag.*gpus|flag provided but not defined: -+gpus",
            text("This Docker does not know --gpus: it is older than 19.03"),
            text("Docker passes cards itself since 19.03."),
            (text("Update Docker (https://docs.docker.com/engine/install/), and install nvidia-container-toolkit."),),
        ),
        Cause(
            r"Compose does not support 'deploy' configuration|reservations value '?devices'? does not match|value 'devices' does not match any of the regexes|Additional propert(?:y|ies) (?:devices|gpus|runtime)|'(?:devices|gpus)' was unexpected|Unsupported config option for services\S*:? '?runtime|deploy\.resources\.reservations[^\n]*(?:not allowed|invalid|unexpected)",
            text("This Compose does not know how to request cards"),
            text("Requests for devices need Compose 1.28 or newer, or the plug-in docker compose (v2)."),
            (text("Install the plug-in: sudo apt-get install -y docker-compose-plugin; then: docker compose up"),),
        ),
        Cause(
            r"devices\.\d+ capabilities is required|capabilities is required|deploy\.resources\.reservations\.devices[^\n]*(?:required|must be|expected)",
            text("The Compose file's request for a card is incomplete"),
            text("A device reservation needs its capabilities, and either a count or ids."),
            (
                text(
                    "Under deploy → resources → reservations → devices: driver: nvidia, count: all (or device_ids), capabilities: [gpu]"
                ),
            ),
        ),
        Cause(
            r"nvidia-docker: command not found",
            text("nvidia-docker is no longer needed, and not installed"),
            text("Docker passes cards itself since 19.03, with the Container Toolkit."),
            (text("Install nvidia-container-toolkit, then: docker run --gpus all …   # instead of nvidia-docker run"),),
        ),
        Cause(
            r"unsupported CUDA version: (?:driver )?[\d.]+ < (?:image )?[\d.]+",
            text("The image needs a newer CUDA than the host's driver supports"),
            text("nvidia-docker compares the CUDA of the image with the newest CUDA that the host's driver supports."),
            (
                text(
                    "Update the driver on the host (the toolkit there does not matter), or use an image for the driver's CUDA."
                ),
                text("If the UVM module is not loaded: sudo nvidia-modprobe -u -c=0"),
            ),
        ),
    )


class DockerDesktopOutdated(CauseRule):
    """CUDA in Docker Desktop fails with "named symbol not found" (error 500): Docker Desktop is older than the driver.

    **Why it matters.** Docker Desktop on Windows brings its own toolkit for WSL. Driver 555 and newer changed the libraries
    that it must pass on; older versions of Docker Desktop (before 4.31) pass an incomplete set.

    **What to do.** Update Docker Desktop and WSL; the image and its packages are fine.

    **Sources.** docker/for-win issues on driver 555; nvidia-container-toolkit#520.
    """

    code = "docker-desktop"
    severity = "error"
    title = text("Docker Desktop is too old for the Windows driver")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"\bError 500\b[^\n]*named symbol not found|named symbol not found(?! at line)|cudaErrorSymbolNotFound|CUDA_ERROR_NOT_FOUND[^\n]*named symbol",
            text("Docker Desktop (or the Container Toolkit in WSL) is too old for the Windows driver"),
            text(
                "CUDA starts, but a function of the driver is missing in the container: an older Docker Desktop or toolkit passes an incomplete set of libraries of driver 555 and newer."
            ),
            (
                text("Update Docker Desktop to the newest version, and in PowerShell: wsl --update; wsl --shutdown"),
                text(
                    "Docker inside WSL without Docker Desktop: update nvidia-container-toolkit there to 1.15 or newer."
                ),
            ),
        ),
    )


class RocmContainer(CauseRule):
    """A container, or a restricted process, does not have AMD's device files.

    **Why it matters.** ROCm needs /dev/kfd and /dev/dri, and the rights of the groups render and video, whose numbers differ
    between host and image.

    **What to do.** Start the container with both devices and the host's group numbers.

    **Sources.** ROCm documentation, "Running ROCm Docker containers"; rocminfo's own messages.
    """

    code = "rocm-devices"
    severity = "error"
    title = text("AMD's device files are missing")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"ROCk module is NOT loaded[\s\S]{0,200}/dev/kfd|ROCk module is NOT loaded|kfd[^\n]*module not loaded|/sys/class/kfd\S*[^\n]*No such file|No such file[^\n]*/sys/class/kfd|modprobe: FATAL: Module amdgpu not found",
            text("rocminfo sees no loaded module amdgpu: it is not loaded, or it is built into the kernel"),
            text(
                "rocminfo looks into the list of loaded modules. A kernel with amdgpu built in (many custom kernels) has none in that list, and works. Otherwise amdgpu is not loaded, did not build, or this is WSL, where ROCm has no /dev/kfd. In a container rocminfo says so, too, if the image lacks lsmod (package kmod)."
            ),
            (
                text(
                    "ls -l /dev/kfd; grep -E 'CONFIG_(DRM_AMDGPU|HSA_AMD)=' /boot/config-$(uname -r)   # =y and /dev/kfd there: built in, only rocminfo's check is wrong; ROCm's programs work without it, and rocminfo does when built without the check"
                ),
                text(
                    "If /dev/kfd is missing on Linux: sudo modprobe amdgpu; sudo dmesg | grep -iE 'amdgpu|kfd'; if there is no such module: https://rocm.docs.amd.com"
                ),
                text(
                    "In a container: apt-get install -y kmod; ls -l /dev/kfd   # if it is there, the module is loaded on the host"
                ),
                text(
                    "In WSL: only some cards and Ubuntu releases are supported, with the Windows driver and the ROCm release for WSL; otherwise use a Linux host."
                ),
            ),
        ),
        Cause(
            r"error gathering device information while adding custom device \"?/dev/(?:kfd|dri)",
            text("The machine on which the container engine runs has no /dev/kfd (or /dev/dri)"),
            text(
                "The engine was asked for the device, and does not have it: its machine is a virtual one (Docker Desktop, also on Linux, WSL, Windows), amdgpu is not loaded there, or there is no AMD card that ROCm can use."
            ),
            (
                text(
                    "docker context ls; docker info | grep -i 'operating system'   # Docker Desktop: docker context use default, or stop it: the engine of the system (sudo docker) has the devices"
                ),
                text(
                    "On the host: ls -l /dev/kfd /dev/dri; lsmod | grep amdgpu; sudo modprobe amdgpu   # no /dev/kfd: the kernel's driver does not support the card"
                ),
                text(
                    "Windows: containers cannot use an AMD card; use Linux, or the program's version for Windows (HIP SDK, DirectML, Vulkan)."
                ),
            ),
        ),
        Cause(
            r"Unable to open /dev/kfd[^\n]*No such file|/dev/kfd: No such file|device \"?/dev/kfd\"?: no such file|cannot (?:open|access) '?/dev/kfd'?: No such",
            text("/dev/kfd does not exist here: the container was started without AMD's devices"),
            text("The process does not see /dev/kfd and /dev/dri."),
            (
                text(
                    "docker run --device=/dev/kfd --device=/dev/dri --group-add video --group-add render --security-opt seccomp=unconfined …"
                ),
                text("apptainer exec --rocm …   # with --containall also --bind /dev/kfd,/dev/dri"),
                text("Outside a container: sudo modprobe amdgpu; ls -l /dev/kfd"),
            ),
        ),
    )
