"""Rules about Kubernetes: nodes that offer no GPU, NVIDIA's operator, and the exporter of its metrics."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["KubernetesGpu", "MonitoringExporter"]


class KubernetesGpu(CauseRule):
    """Kubernetes has no GPU to give: the device plugin sees none, or the node's runtime is not NVIDIA's.

    **Why it matters.** A pod gets a card through the resource nvidia.com/gpu, which the device plugin offers only if the
    node's container runtime gives the plugin itself the driver.

    **What to do.** Configure the node's runtime (containerd, CRI-O) with nvidia-ctk, restart it, then restart the plugin.

    **Sources.** NVIDIA/k8s-device-plugin, README; NVIDIA GPU Operator, "Troubleshooting".
    """

    code = "kubernetes"
    severity = "error"
    title = text("Kubernetes has no GPU to give")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"Failed to start nvml with error|Detected non-NVML platform|Incompatible (?:platform|strategy) detected|did you (?:configure the NVIDIA Container Toolkit|set the docker default runtime)|could not load NVML library: libnvidia-ml|No devices found\. Waiting indefinitely"
            r"|no runtime for \"?nvidia\"? is configured|RuntimeHandler \"?nvidia\"? not supported|RuntimeClass \\?\"?nvidia\\?\"? not found|runtime handler \"?nvidia",
            text("The node's container runtime is not configured for NVIDIA"),
            text(
                "The device plugin runs without the driver, because containerd (or CRI-O) does not use NVIDIA's runtime."
            ),
            (
                text(
                    "On the node: sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default && sudo systemctl restart containerd"
                ),
                text("Or create the RuntimeClass nvidia, and set runtimeClassName: nvidia in the plugin and the pods."),
                text(
                    "Then restart the plugin: kubectl -n kube-system rollout restart daemonset nvidia-device-plugin-daemonset"
                ),
            ),
        ),
        Cause(
            r"nvidia[\s\S]{0,300}(?:failed to create (?:FS|fsnotify) watcher|fsnotify)[^\n]*too many open files|failed to create (?:FS|fsnotify) watcher: too many open files|inotify[^\n]*too many open files",
            text("The device plugin cannot watch its folder: the node's limit of inotify watches is reached"),
            text("Many pods on the node watch files; the plugin then stops at its start."),
            (
                text(
                    "On the node: sudo sysctl -w fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=524288   # and in /etc/sysctl.d"
                ),
            ),
        ),
        Cause(
            r"error validating driver installation|(?:toolkit|driver|cuda|plugin) validation failed|Unable to validate driver|chroot: failed to run command \S?nvidia-smi|failed to validate (?:driver|toolkit|cuda)|nvidia-driver-ctr|unsupported kernel version for (?:the )?driver container|failed to validate the driver|waiting for nvidia container stack to be setup|Could not unload NVIDIA driver kernel modules|nvidia-driver-daemonset[^\n]*(?:CrashLoop|Error)|nvidia-operator-validator[^\n]*(?:CrashLoop|Init|Error)|nvidia-driver-installer[^\n]*(?:CrashLoop|[Ff]ail|Error|404)|toolkit is not ready",
            text("NVIDIA's GPU Operator cannot bring up the driver on this node"),
            text(
                "The operator's driver container does not fit the node: a driver is installed on the host already, its kernel headers are not found, or a process holds the old module."
            ),
            (
                text(
                    "kubectl -n gpu-operator get pods -o wide; kubectl -n gpu-operator logs -l app=nvidia-driver-daemonset --tail=40"
                ),
                text(
                    "With a driver on the host: install the operator with --set driver.enabled=false. Otherwise remove the host's driver, and reboot the node."
                ),
            ),
        ),
        Cause(
            r"Insufficient nvidia\.com/gpu|UnexpectedAdmissionError[^\n]*nvidia\.com|UnexpectedAdmissionError|Update plugin resources failed|nvidia\.com/gpu[^\n]*(?:untolerated taint|had taint)|Allocate failed[^\n]*nvidia\.com/gpu|nvidia\.com/gpu: *0\b|XidCriticalError|Marking device as unhealthy|the device will go unhealthy|No available node types can fulfill resource request \{[^\n]*GPU",
            text("No node has a free GPU to offer"),
            text("All cards are in use, the device plugin is not running on the node, or it found no card."),
            (
                text("kubectl describe nodes | grep -A8 Allocatable | grep nvidia; kubectl get pods -A | grep nvidia"),
                text("If the count is 0: read the plugin's log, and make nvidia-smi work on the node."),
            ),
        ),
    )


class MonitoringExporter(CauseRule):
    """DCGM cannot read its profiling metrics on this card.

    **Why it matters.** Profiling fields (DCP) exist on data-centre cards only, and one program at a time may read them. Old
    releases of dcgm-exporter stop where they are missing.

    **What to do.** Update dcgm-exporter, or use a list of counters without DCGM_FI_PROF_* fields.

    **Sources.** dcgm-exporter release notes 2.1.2; NVIDIA/gpu-monitoring-tools#141; DCGM user guide, "Profiling metrics".
    """

    code = "dcgm"
    severity = "warning"
    title = text("DCGM cannot read profiling metrics on this card")
    causes = (
        Cause(
            r"Error watching fields|module of DCGM that is not currently loaded|Not collecting DCP metrics|Profiling (?:module|is not supported)[^\n]*(?:error|unrecoverable|not supported|not loaded)|DCGM_FI_PROF",
            text("DCGM cannot read profiling metrics on this card"),
            text(
                "Only data-centre cards have them; other programs (Nsight, another DCGM) lock them. Everything else works."
            ),
            (
                text(
                    "Use dcgm-exporter 2.1.2 or newer, which skips them; or a counters file without DCGM_FI_PROF_*: dcgm-exporter -f /etc/dcgm-exporter/default-counters.csv"
                ),
                text("In a container, profiling needs --cap-add SYS_ADMIN."),
            ),
        ),
    )
