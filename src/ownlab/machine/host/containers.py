"""The surroundings of the system: a container, a PID namespace, a virtual machine, a rented platform."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.files import read_bytes, read_text
from ownlab.machine.host.disks import Mount, read_mounts, root_mount
from ownlab.text import text

__all__ = ["read_container", "read_pid_namespace", "read_platform", "read_virtualisation"]

# The kernel's own number of the first PID namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
_FIRST_PID_NAMESPACE = "pid:[4026531836]"


# --- containers -------------------------------------------------------------------------------------------------------

_CGROUP_SIGNS = (
    (re.compile(r"kubepods"), "kubernetes"),
    (re.compile(r"libpod"), "podman"),
    (re.compile(r"/docker[-/]|/system\.slice/docker-"), "docker"),
    (re.compile(r"/lxc(\.payload)?[./]"), "lxc"),
    (re.compile(r"/cri-containerd|/containerd"), "containerd"),
)
# Container engines bind-mount their own files over /etc/hostname; the path on the host shows which engine it is.
_MOUNT_SIGNS = (
    ("/kubelet/pods/", "kubernetes"),
    ("/docker/containers/", "docker"),
    ("/docker/volumes/", "docker"),
    ("/containers/storage/", "podman"),
    ("/overlay-containers/", "podman"),
)
_LAYERED = frozenset(("overlay", "aufs", "fuse.fuse-overlayfs"))


def read_container(root: Path, environ: Mapping[str, str]) -> Fact[str]:
    """Return the kind of container, or "none". Strong signs come first: an image may contain a stale /.dockerenv."""
    mounts = read_mounts(root)
    for sign in (_declared_container(root, environ), _cgroup_container(root), _mounted_container(mounts)):
        if sign is not None:
            return sign
    if os.path.exists(root / ".dockerenv"):
        namespace, top = read_pid_namespace(root), root_mount(mounts)
        if isinstance(namespace, Known) and namespace.value:
            return Known("docker", source=text("/.dockerenv, and a PID namespace of its own"))
        if top is not None and top.filesystem in _LAYERED:
            return Known("docker", source=f"/.dockerenv, and / is {top.filesystem}")
        if isinstance(namespace, Unknown) and top is None:
            return Known("docker", source="/.dockerenv")
        return Known("none", source=text("/.dockerenv is left over from an image: neither PID namespace nor layers"))
    if not os.path.exists(root / "proc/1"):
        return Unknown(text("/proc cannot be read"))
    return Known("none", source=text("no sign of one in /proc/1/cgroup, mounts, marker files or variables"))


def _declared_container(root: Path, environ: Mapping[str, str]) -> Known[str] | None:
    """Look for variables and files that declare a container."""
    if "KUBERNETES_SERVICE_HOST" in environ:
        return Known("kubernetes", source="KUBERNETES_SERVICE_HOST")
    for variable in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        if variable in environ:
            return Known("apptainer", source=variable)
    for marker, name in (("run/.containerenv", "podman"), (".singularity.d", "apptainer")):
        if os.path.exists(root / marker):
            return Known(name, source=f"/{marker}")
    systemd = read_text(root / "run/systemd/container", root)
    if isinstance(systemd, Known) and systemd.value:
        return Known(systemd.value, source=systemd.source)
    first = read_bytes(root / "proc/1/environ", root)
    if isinstance(first, Known):
        for entry in first.value.split(b"\0"):
            if entry.startswith(b"container=") and entry != b"container=":
                name = entry.partition(b"=")[2].decode(errors="replace")
                return Known("docker" if name == "oci" else name, source="/proc/1/environ")
    return None


def _cgroup_container(root: Path) -> Known[str] | None:
    groups = read_text(root / "proc/1/cgroup", root)
    if isinstance(groups, Known):
        for pattern, name in _CGROUP_SIGNS:
            if pattern.search(groups.value):
                return Known(name, source=groups.source)
    return None


def _mounted_container(mounts: Fact[tuple[Mount, ...]]) -> Known[str] | None:
    if isinstance(mounts, Unknown):
        return None
    for mount in mounts.value:
        if mount.point in ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf"):
            for path, name in _MOUNT_SIGNS:
                if path in mount.folder:
                    return Known(name, source=f"{mounts.source}: {mount.point}")
    return None


def read_pid_namespace(root: Path) -> Fact[bool]:
    """Return whether outside processes are hidden: a card's memory may then be in use by an invisible process."""
    try:
        link = os.readlink(root / "proc/self/ns/pid")
    except OSError:  # on an old or foreign kernel, the first namespace shows the kernel's threads
        kthreadd = read_text(root / "proc/2/comm", root)
        if isinstance(kthreadd, Known) and kthreadd.value == "kthreadd":
            return Known(False, source="/proc/2/comm")
        return Unknown(text("neither /proc/self/ns/pid nor the kernel's threads are visible"))
    return Known(link != _FIRST_PID_NAMESPACE, source="/proc/self/ns/pid")


# --- virtual machines -------------------------------------------------------------------------------------------------

# The beginning of DMI's vendor or product -> hypervisor, from systemd's src/basic/virt.c.
_DMI_HYPERVISORS = (
    ("KVM", "kvm"),
    ("KubeVirt", "kvm"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "virtualbox"),
    ("VirtualBox", "virtualbox"),
    ("Xen", "xen"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Bochs", "bochs"),
    ("Apple Virtualization", "apple"),
    ("QEMU", "qemu"),
)
# Clouds that run on KVM; their bare-metal machines carry the same names.
_DMI_CLOUDS = ("Amazon EC2", "Google Compute Engine", "OpenStack", "Alibaba Cloud", "Tencent Cloud", "DigitalOcean")
_CLOCKS = (("kvm-clock", "kvm"), ("hyperv_clocksource", "hyperv"), ("xen", "xen"))


def read_virtualisation(root: Path) -> Fact[str]:
    """Return the hypervisor of this machine, or "none"."""
    info = read_text(root / "proc/cpuinfo", root)
    flags = re.search(r"^flags\s*:(.*)$", info.value, re.MULTILINE) if isinstance(info, Known) else None
    flagged = (
        None if flags is None else "hypervisor" in flags.group(1).split()
    )  # None: not x86, the only one with this flag
    for sign in (_wsl(root), _firecracker(root), _xen(root), _dmi(root, flagged)):
        if sign is not None:
            return sign
    if flagged:
        return _clock(root) or Known("a hypervisor", source=text("/proc/cpuinfo: hypervisor flag"))
    if flagged is None:
        return Unknown(text("no file names a hypervisor, and this CPU has no hypervisor flag"))
    return Known("none", source=text("/proc/cpuinfo: no hypervisor flag"))


def _wsl(root: Path) -> Known[str] | None:
    release = read_text(root / "proc/sys/kernel/osrelease", root)
    if isinstance(release, Unknown) or "microsoft" not in release.value.lower():
        return None
    # WSL 1 translates system calls and names itself 4.4.0-19041-Microsoft; WSL 2 has its own kernel.
    second = "wsl2" in release.value.lower() or "microsoft-standard" in release.value
    return Known("wsl2" if second else "wsl1", source=release.source)


def _firecracker(root: Path) -> Known[str] | None:
    """Recognize Firecracker by the ACPI tables, which only root may read: it has no DMI."""
    table = read_bytes(root / "sys/firmware/acpi/tables/FACP", root)
    if isinstance(table, Known) and table.value[10:16] == b"FIRECK":
        return Known("firecracker", source=f"{table.source}: OEM FIRECK")
    return None


def _xen(root: Path) -> Known[str] | None:
    kind = read_text(root / "sys/hypervisor/type", root)
    return Known(kind.value, source=kind.source) if isinstance(kind, Known) and kind.value else None


def _dmi(root: Path, flagged: bool | None) -> Known[str] | None:
    texts = {}
    for name in ("product_name", "sys_vendor", "board_vendor", "bios_vendor"):
        fact = read_text(root / "sys/class/dmi/id" / name, root)
        if isinstance(fact, Known):
            texts[name] = fact.value
    if texts.get("sys_vendor") == "Microsoft Corporation" and texts.get("product_name") == "Virtual Machine":
        return Known("hyperv", source="DMI: Microsoft Corporation Virtual Machine")
    for name, content in texts.items():
        source = f"DMI {name.replace('_', ' ')} {content!r}"
        for sign, hypervisor in _DMI_HYPERVISORS:
            if content.startswith(sign):
                # QEMU names itself whether it emulates the processor or KVM runs it.
                return (_clock(root) if hypervisor == "qemu" else None) or Known(hypervisor, source=source)
        if content.startswith(_DMI_CLOUDS) and flagged is not False and ".metal" not in texts.get("product_name", ""):
            return Known("kvm", source=source)
    return None


def _clock(root: Path) -> Known[str] | None:
    clocks = read_text(root / "sys/devices/system/clocksource/clocksource0/available_clocksource", root)
    if isinstance(clocks, Known):
        for content, name in _CLOCKS:
            if content in clocks.value:
                return Known(name, source=f"clock source {content}")
    return None


# --- platforms --------------------------------------------------------------------------------------------------------

# Kaggle's image is built on Colab's and keeps its variables, so Kaggle comes first.
_PLATFORM_VARIABLES = (
    ("kaggle", ("KAGGLE_KERNEL_RUN_TYPE", "KAGGLE_CONTAINER_NAME")),
    ("colab", ("COLAB_RELEASE_TAG", "COLAB_GPU", "COLAB_JUPYTER_IP", "COLAB_BACKEND_VERSION")),
    ("gradient", ("PAPERSPACE_FQDN", "PAPERSPACE_NOTEBOOK_REPO_ID", "PAPERSPACE_CLUSTER_ID")),
    ("runpod", ("RUNPOD_POD_ID",)),
    ("lightning", ("LIGHTNING_CLOUDSPACE_HOST", "LIGHTNING_CLOUD_PROJECT_ID")),
    ("vast", ("VAST_CONTAINERLABEL",)),
    ("autodl", ("AutoDLContainerUUID",)),
    ("modal", ("MODAL_TASK_ID",)),
    ("databricks", ("DATABRICKS_RUNTIME_VERSION",)),
    ("codespaces", ("CODESPACES",)),
    (
        "sagemaker",
        ("SAGEMAKER_INTERNAL_IMAGE_URI", "SAGEMAKER_JOB_NAME", "SAGEMAKER_REGION", "SM_MODEL_DIR", "SM_HOSTS"),
    ),
)
_PLATFORM_PATHS = (
    ("kaggle", ("kaggle/working", "kaggle/input")),
    ("sagemaker", ("opt/ml/metadata/resource-metadata.json",)),
    ("lightning", ("teamspace/studios",)),
)


def read_platform(root: Path, environ: Mapping[str, str]) -> Fact[str]:
    """Return the known platform that provides this machine, or "plain"."""
    if os.path.exists(root / "home/studio-lab-user"):  # it also sets SageMaker's variables
        return Known("studiolab", source="/home/studio-lab-user")
    for name, variables in _PLATFORM_VARIABLES:
        for variable in variables:
            if variable in environ:
                return Known(name, source=variable)
    for name, paths in _PLATFORM_PATHS:
        if all(os.path.exists(root / path) for path in paths):
            return Known(name, source=f"/{paths[0]}")
    pattern = os.path.join(glob.escape(str(root)), "usr/local/lib/python3*/dist-packages/google/colab")
    if os.path.exists(root / "content") and glob.glob(pattern):
        return Known("colab", source=text("/content, and the package google.colab"))
    return Known("plain", source=text("no sign of a known platform"))
