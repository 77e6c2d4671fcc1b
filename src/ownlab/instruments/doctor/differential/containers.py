"""Messages of container engines, of NVIDIA's Container Toolkit, of Kubernetes, and about rights on devices."""

from __future__ import annotations

from ownlab.instruments.doctor.differential.mechanism import WSL, Family, Mechanism
from ownlab.text import text

__all__ = ["CONTAINERS"]

_NO_CARD = Mechanism(
    text("The machine has no NVIDIA card, or its driver does not work"),
    text("On the host: nvidia-smi; lspci -nn | grep -iE 'vga|3d'   # no card: start without --gpus"),
    sign=r"Intel|AMD|Radeon|no adapters|driver not loaded|nvml error|libnvidia-ml",
    codes=("no-accelerator", "no-smi", "no-driver", "rocm-container"),
)

CONTAINERS = (
    Family(
        text("The container engine does not give the card to the container"),
        r"could not select device driver|(?:unknown|invalid) (?:or invalid )?runtime|runtime[^\n]{0,20}(?:not found|nvidia)|nvidia-container-(?:cli|runtime|toolkit)|nvidia-ctk|OCI runtime[^\n]*|unresolvable CDI|CDI (?:device|spec)|error (?:gathering|adding)[^\n]{0,30}device|failed to (?:create (?:shim|task|containerd)|inject|initialize NVML)|error running (?:prestart )?hook|libnvidia-container|ldcache|device cgroup|cgroup",
        ("runtime-missing", "container-toolkit", "engine-old", "container-no-gpu", "container-daemon", "nvml-unknown", "image-needs-driver", "docker-desktop"),
        (
            Mechanism(text("The Container Toolkit is not installed on the host"), text("nvidia-ctk --version; docker info | grep -i runtimes"), codes=("runtime-missing",)),
            Mechanism(text("It is installed, but the engine was not configured or not restarted since"), text("cat /etc/docker/daemon.json; docker info | grep -i runtimes   # nvidia is not listed: sudo nvidia-ctk runtime configure --runtime=docker (containerd, crio); sudo systemctl restart docker"), sign=r"runtime|daemon\.json|toolkit", codes=("runtime-missing",)),
            Mechanism(text("Another engine answers than the one that was configured: a snap, rootless, Docker Desktop, Podman, a remote context"), text("docker context ls; snap list docker; docker info | grep -iE 'rootless|operating system|name'"), sign=r"snap|rootless|podman|desktop|context"),
            _NO_CARD,
            Mechanism(text("The description of the cards (CDI) is missing or older than driver or card, or the engine is too old for it"), text("nvidia-ctk cdi list; docker --version (CDI: 25 and newer, Podman 4.1)   # empty or old: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"), sign=r"cdi|nvidia\.com/gpu|podman"),
            Mechanism(text("The host's driver is newer or older than its files that the toolkit mounts: updated without a restart, files missing, or only some packages updated"), text("nvidia-smi; sudo nvidia-container-cli -k -d /dev/tty info; sudo ldconfig; then create the container anew"), sign=r"mount|stat|no such file|ldconfig|ldcache|file exists|mismatch", codes=("mismatch",)),
            Mechanism(text("Control groups: version 2 with an old toolkit, rootless, or a container that loses its devices when systemd reloads"), text("stat -fc %T /sys/fs/cgroup; nvidia-ctk --version (1.8 and newer for version 2); rootless: no-cgroups = true; root: false"), sign=r"cgroup|rootless|Unknown Error|daemon-reload", codes=("nvml-unknown",)),
            Mechanism(text("The driver answers too slowly or not at all: many cards without persistence mode, a card that fails, a driver that hangs"), text("time nvidia-smi on the host; sudo dmesg | grep -iE 'xid|nvrm'   # slow: sudo nvidia-smi -pm 1"), sign=r"timed out|rpc error|timeout"),
            Mechanism(text("The toolkit does not find the host's libraries: ldconfig in its config.toml is another distribution's, or their folder is not in ldconfig's list"), text("grep ldconfig /etc/nvidia-container-runtime/config.toml; ldconfig -p | grep -E 'libcuda|nvidia-ml'"), sign=r"ldconfig|libnvidia-ml|libcuda|load library"),
            Mechanism(text("SELinux, AppArmor, seccomp or an unprivileged LXC forbids it"), text("sudo ausearch -m avc -ts recent; getenforce; sudo dmesg | grep -iE 'apparmor|denied'"), sign=r"permission|denied|selinux|apparmor|operation not permitted|lxc", codes=("dev-permission",)),
            Mechanism(text("The image asks for more than the driver offers (cuda>=…), or contains driver files of its own"), text("docker inspect IMAGE | grep NVIDIA_REQUIRE; an image for an older CUDA"), sign=r"requirement|unsatisfied|cuda>=", codes=("image-needs-driver",)),
            Mechanism(text("WSL or Docker Desktop: the WSL back end is off, WSL is version 1 or old, or there is no adapter"), text("wsl -l -v; wsl --update; Docker Desktop: Settings, General, WSL 2 engine"), sign=rf"{WSL}|desktop|adapter", codes=("wsl", "docker-desktop")),
            Mechanism(text("The start command or Compose file asks in a wrong way: no --gpus, no deploy.resources.reservations.devices, NVIDIA_VISIBLE_DEVICES=none, options after the image's name"), text("docker inspect -f '{{.HostConfig.DeviceRequests}} {{.HostConfig.Runtime}}' NAME"), sign=r"compose|yaml|yml|--gpus|NVIDIA_VISIBLE", codes=("container-no-gpu",)),
        ),
    ),
    Family(
        text("Kubernetes does not give a GPU, or its device plug-in fails"),
        r"nvidia\.com/gpu|amd\.com/gpu|Insufficient (?:nvidia\.com|amd\.com|gpu\b)|device[- ]plugin|gpu-operator|RuntimeClass|FailedScheduling|UnexpectedAdmissionError|kubelet|CrashLoopBackOff|nodes? (?:are )?available|dcgm-exporter|gpu-feature-discovery|nvidia-driver-daemonset|toolkit-validation",
        ("kubernetes", "dcgm", "runtime-missing"),
        (
            Mechanism(text("The device plug-in does not run, or finds no card: its container lacks the NVIDIA runtime"), text("kubectl -n kube-system get pods | grep -i nvidia; kubectl logs POD; kubectl get node NODE -o jsonpath='{.status.allocatable}'; runtimeClassName: nvidia, or nvidia as containerd's default")),
            Mechanism(text("containerd, CRI-O or k3s is not configured for the runtime, or was not restarted"), text("grep -rn nvidia /etc/containerd /var/lib/rancher   # nothing: sudo nvidia-ctk runtime configure --runtime=containerd; sudo systemctl restart containerd"), sign=r"runtime|containerd|k3s|rke|microk8s|handler"),
            Mechanism(text("All cards are given to other pods, or a node is tainted, or the request asks for more than one node has"), text("kubectl describe node NODE | grep -A10 -E 'Allocated|Taints'; kubectl get pods -A -o wide"), sign=r"Insufficient|taint|preempt|FailedScheduling"),
            Mechanism(text("Driver on the node: missing, twice (host and operator), or its module does not build for this kernel"), text("nvidia-smi on the node; kubectl logs of nvidia-driver-daemonset; driver.enabled=false where the host has one"), sign=r"driver|nouveau|kernel|headers|nvidia-smi"),
            Mechanism(text("A card is marked unhealthy after an Xid, or was lost"), text("kubectl logs of the device plug-in; dmesg on the node | grep -i xid"), sign=r"unhealthy|Xid|lost"),
            Mechanism(text("MIG, time slicing or the plug-in's configuration names another resource (nvidia.com/mig-…)"), text("kubectl get node NODE -o json | grep nvidia.com; the plug-in's ConfigMap, migStrategy"), sign=r"mig|time-?slic|mps|config|shared"),
            Mechanism(text("Rights: the plug-in or exporter may not read the cards, SELinux, PodSecurity, missing SYS_ADMIN"), text("kubectl describe pod POD; securityContext; NVIDIA_MIG_MONITOR_DEVICES=all with MIG"), sign=r"permission|denied|forbidden|security"),
            Mechanism(text("An operator's part is of another version than driver, Kubernetes or system"), text("kubectl get clusterpolicy -o yaml | grep -E 'version|state'; its table of platforms"), sign=r"operator|validat|version|unsupported"),
        ),
    ),
    Family(
        text("The program may not use a device, a counter or a resource"),
        r"(?:permission|access)\W{1,2}(?:is )?denied|operation not permitted|insufficient permissions|EACCES|EPERM|not permitted|avc: +denied|NO_PERMISSION|INSUFFICIENT_PRIVILEGES|ERR_NVGPUCTRPERM|requires? root|must be root|PermissionError",
        ("dev-permission", "counters", "memlock", "rocm-devices", "smi-refused"),
        (
            Mechanism(text("This user is not in the group of the device file"), text("ls -ln /dev/nvidia* /dev/dri /dev/kfd /dev/accel* /dev/davinci* 2>/dev/null; id   # then usermod -aG GROUP USER, and log in again"), codes=("dev-permission",)),
            Mechanism(text("In a container the group has no name or another number, or the container has no rights on the device"), text("inside: ls -ln /dev/dri; id   # docker run --device … --group-add NUMBER; a group without a name: sudo groupadd -g NUMBER render; sudo usermod -aG render USER"), sign=r"docker|podman|container|lxc|pod\b|gid", codes=("dev-permission",)),
            Mechanism(text("SELinux or AppArmor forbids it"), text("getenforce; sudo ausearch -m avc -ts recent; sudo dmesg | grep -i apparmor"), sign=r"avc|selinux|apparmor|audit"),
            Mechanism(text("Only administrators may do this: counters, clocks, resets, MIG"), text("the same command with sudo; counters: NVreg_RestrictProfilingToAdminUsers=0"), sign=r"counter|profil|nvidia-smi|clock|ncu|nsys|NVGPUCTRPERM", codes=("counters", "smi-refused")),
            Mechanism(text("A batch system or a sandbox confines the job to other devices"), text("echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS; cat /proc/self/cgroup"), sign=r"slurm|srun|flatpak|snap|cgroup", codes=("cluster",)),
            Mechanism(text("A limit: locked memory, open files, processes, a file system without execution"), text("ulimit -a; mount | grep noexec"), sign=r"ulimit|memlock|too many|noexec|ibv|pthread", codes=("memlock",)),
            Mechanism(text("Files or folders belong to another user: caches, sockets (docker.sock), the environment"), text("ls -ld ~/.cache ~/.nv ~/.triton /tmp/*; ls -l /var/run/docker.sock"), sign=r"\.cache|docker\.sock|/tmp|site-packages|Errno 13"),
        ),
    ),
    Family(
        text("The card cannot be passed to a virtual machine"),
        r"\bvfio\b|vfio-pci|\biommu\b|pass-?through|\bFLR\b|IOMMU group|hostdev|D3cold",
        ("passthrough", "power-transition"),
        (
            Mechanism(text("The IOMMU is off in the firmware or on the kernel's command line"), text("sudo dmesg | grep -iE 'DMAR|IOMMU|AMD-Vi'; ls /sys/kernel/iommu_groups"), sign=r"iommu|DMAR|no group"),
            Mechanism(text("Other devices of the card's group are not passed through, or are used by the host"), text("for d in /sys/kernel/iommu_groups/*/devices/*; do echo $d; done; lspci -nnk   # card and its audio device together"), sign=r"group|viable|depends on"),
            Mechanism(text("A driver of the host holds the card: nvidia, nouveau, snd_hda_intel, the firmware's console"), text("lspci -nnk -d 10de:; cat /proc/cmdline /etc/modprobe.d/*vfio*; sudo lsof /dev/nvidia* /dev/dri/*"), sign=r"not managed|busy|in use|bound|BAR \d: can"),
            Mechanism(text("The card cannot be reset after the last guest, or lost power"), text("sudo dmesg | grep -iE 'FLR|reset|D3'; switch the host off and on; a guest that was shut down cleanly"), sign=r"FLR|reset|D3|not ready"),
            Mechanism(text("Another guest has it, or a snapshot or migration expects that it has none"), text("virsh list --all; qm list; which guest names the same address"), sign=r"already|another|migrat"),
            Mechanism(text("The guest: no UEFI firmware, too small an address window, a machine type without PCIe, a wrong ROM"), text("OVMF, q35; the guest's dmesg | grep -iE 'BAR|NVRM'"), sign=r"BAR|ROM|OVMF|RmInit|Code (?:12|43)"),
            Mechanism(text("The limit for locked memory, or huge pages"), text("ulimit -l; grep Huge /proc/meminfo"), sign=r"memlock|VFIO_MAP_DMA|Cannot allocate|huge"),
        ),
    ),
)  # fmt: skip
