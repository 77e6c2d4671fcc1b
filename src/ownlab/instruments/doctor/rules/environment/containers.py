"""Rules about containers: started without a card, missing toolkit, image too new, shared memory too small."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.queries import (
    any_framework_works,
    container_kind,
    describe_fact,
    module_loaded,
    nvidia_cards,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, install_command, on_host
from ownlab.instruments.doctor.rule import MessageRule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Machine
from ownlab.text import sentences, text
from ownlab.units import GIB, format_bytes

__all__ = [
    "ContainerToolkitMissing",
    "ContainerWithoutGpu",
    "ImageNeedsNewerDriver",
    "NvmlUnknownError",
    "SmallSharedMemory",
]

_TOOLKIT_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"

_START_WITH_CARD = {
    "docker": text("docker run --gpus all …   # compose: deploy.resources.reservations.devices with driver: nvidia"),
    "podman": text(
        "podman run --device nvidia.com/gpu=all …"
        "   # once before: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    ),
    "kubernetes": text(
        "In the pod: resources: {limits: {nvidia.com/gpu: 1}}   # the node needs NVIDIA's device plugin"
    ),
    "apptainer": "apptainer exec --nv …",
    "lxc": "lxc config device add NAME gpu gpu && lxc config set NAME nvidia.runtime true",
}


def _start_with_card(machine: Machine) -> str:
    known = _START_WITH_CARD.get(container_kind(machine) or "")
    return known or text("Start the container with the card: {command}", command=_START_WITH_CARD["docker"])


class ContainerWithoutGpu(MessageRule):
    """A container was started without its host's card.

    **Why it matters.** A container shares the host's kernel and its driver's kernel module. The device files and the
    driver's libraries are added when the container starts, but only on request. Without them a CUDA image finds no driver.
    NVIDIA's images set NVIDIA_VISIBLE_DEVICES=all; the value "void" means that NVIDIA's runtime was not asked for cards.

    **What to do.** Start the container again with the card. Nothing can be added from inside.

    **Sources.** NVIDIA Container Toolkit documentation; vllm#16061.
    """

    code = "container-no-gpu"
    severity = "error"
    title = text("This container was started without the GPU")
    blocks = True
    patterns = (
        r"The NVIDIA Driver was not detected\.\s+GPU functionality will not be available",
        r"exec: \"nvidia-smi\": executable file not found",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if nvidia_cards(machine) or any_framework_works(machine):
            return
        host_has_driver = container_kind(machine) is not None and module_loaded(machine) is True
        files = value_of(machine.nvidia.device_files)
        no_files = files is not None and not any(file.path.startswith("/dev/nvidia") for file in files)
        no_library = not isinstance(machine.nvidia.library_version, Known)
        requested = variable(machine, "NVIDIA_VISIBLE_DEVICES")
        withheld = requested is not None and requested.strip() in ("void", "none")
        quotes = self.quotes(case)
        if not (quotes or withheld or (host_has_driver and (no_files or no_library))):
            return
        evidence: list[str] = list(quotes)
        if host_has_driver:
            evidence.append(describe_fact(text("the host's kernel module:"), machine.nvidia.module_version))
            evidence.append(describe_fact(text("container:"), machine.host.container))
            if no_files:
                evidence.append(text("there is no /dev/nvidia*"))
            if no_library:
                evidence.append(describe_fact(text("the driver's library:"), machine.nvidia.library_version))
        if withheld:
            evidence.append(f"NVIDIA_VISIBLE_DEVICES={requested}")
        yield self.finding(
            evidence=evidence,
            meaning=text("The host has a driver, but this container was given no card.")
            if host_has_driver
            else text("This container was given no card. It is unknown whether its host has one."),
            fix=(_start_with_card(machine),),
        )


class ContainerToolkitMissing(MessageRule):
    """Docker cannot pass GPUs to containers: NVIDIA's Container Toolkit is missing or not configured.

    **Why it matters.** Docker and Podman do not know NVIDIA's driver. The toolkit adds device files and libraries to a
    container; without it `--gpus` fails. Docker from snap does not see a toolkit installed outside the snap.

    **What to do.** Install the toolkit on the host, register it with Docker, restart Docker.

    **Sources.** nvidia-docker#1034; NVIDIA Container Toolkit, installation guide.
    """

    code = "runtime-missing"
    severity = "error"
    title = text(
        "Docker does not know NVIDIA's runtime: the Container Toolkit is missing, or not registered with this engine"
    )
    blocks = True
    patterns = (
        r'could not select device driver "[^"]*" with capabilities: \[\[gpu',
        r"unknown or invalid runtime name: nvidia",
        r"Unknown runtime specified \S*nvidia",
        r"could not select device driver \S* ?with capabilities: \[\[\S*gpu",
        r"failed to discover GPU vendor from CDI|no known GPU vendor found|could not select device driver \"?cdi\"?",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes:
            return
        install = install_command(machine, "nvidia-container-toolkit")
        if container_kind(machine) or install is None:
            step = text("Install the package nvidia-container-toolkit: {url}", url=_TOOLKIT_GUIDE)
            first = on_host(machine, step)
        else:
            first = text("{command}   # from NVIDIA's package repository: {url}", command=install, url=_TOOLKIT_GUIDE)
        register = as_root(machine, "nvidia-ctk runtime configure --runtime=docker")
        if any("CDI" in line for line in quotes):
            register = as_root(machine, "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
        yield self.finding(
            evidence=quotes,
            meaning=text(
                "The container engine has no support for NVIDIA cards: the toolkit is not installed, or not registered with"
                " this engine, or Docker was not restarted since (Docker from snap does not see it)."
            ),
            fix=(
                first,
                register,
                as_root(machine, "systemctl restart docker"),
                text(
                    "If Docker is a snap (snap list docker), update it or use Docker's own packages: a snap does not see the toolkit."
                ),
                text(
                    "On a Jetson: sudo apt-get install -y nvidia-container-toolkit nvidia-jetpack; then restart Docker."
                ),
                text("Try: docker run --rm --gpus all ubuntu nvidia-smi"),
            ),
            blocks=not any_framework_works(machine),
        )


class ImageNeedsNewerDriver(MessageRule):
    """A container image needs a newer driver than the host has, or the container runtime finds no driver.

    **Why it matters.** NVIDIA's images state the CUDA version that they need (NVIDIA_REQUIRE_CUDA), and the container does
    not start if the host's driver does not support it: "unsatisfied condition: cuda>=12.4".

    **What to do.** Update the host's driver, or use an image for an older CUDA. On data-centre cards the container can
    start with `NVIDIA_DISABLE_REQUIRE=1` and the image's compat libraries.

    **Sources.** NVIDIA Container Toolkit documentation, NVIDIA_REQUIRE_*.
    """

    code = "image-needs-driver"
    severity = "error"
    title = text("The container image needs a newer driver than the host has")
    blocks = True
    patterns = (
        r"nvidia-container-cli: requirement error: unsatisfied condition",
        r"nvidia-container-cli: initialization error: load library failed: libnvidia-ml\.so",
        r"nvidia-container-cli: initialization error: driver error",
        r"This container was built for NVIDIA Driver Release \S+ or later, but",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        too_old = any("unsatisfied condition" in quote or "was built for" in quote for quote in quotes)
        yield self.finding(
            title=None if too_old else text("The container runtime finds no NVIDIA driver on the host"),
            evidence=quotes,
            meaning=text("The image needs a newer CUDA version than the host's driver supports.")
            if too_old
            else text("Containers use the host's driver, but the container runtime cannot load one."),
            fix=(
                text("On the host: nvidia-smi   # shows the driver and the newest CUDA that it supports"),
                text("Use an image for that CUDA (nvidia/cuda:12.2.2-… for CUDA 12.2), or update the host's driver.")
                if too_old
                else text("Install the NVIDIA driver on the host, and check that nvidia-smi works there first."),
            ),
        )


class NvmlUnknownError(MessageRule):
    """A container lost its card while it ran: "Failed to initialize NVML: Unknown Error".

    **Why it matters.** On hosts where systemd manages the containers' device lists, a `systemctl daemon-reload` (any
    package upgrade may run one) rewrites the list without the cards. Programs that have the card open continue; new ones
    fail.

    **What to do.** Restart the container. For a permanent fix: CDI, links under /dev/char, or Docker's cgroupfs driver.

    **Sources.** nvidia-container-toolkit#48; nvidia-docker#1730 (NVIDIA's notice); dstack#2601.
    """

    code = "nvml-unknown"
    severity = "error"
    title = text("The container has lost access to the GPU")
    blocks = True
    patterns = (r"Failed to initialize NVML: Unknown Error", r"\bNVML(?:Error)?\b.*: Unknown Error\s*$")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes or any_framework_works(machine):
            return
        if value_of(machine.host.container) == "none":
            yield self.finding(
                title=text("NVML fails with an unknown error"),
                evidence=quotes,
                meaning=text("NVML cannot open the card. This is rare outside a container: read the kernel log."),
                fix=(f"{as_root(machine, 'dmesg')} | grep NVRM",),
            )
            return
        container = [describe_fact(text("container:"), machine.host.container)] if container_kind(machine) else []
        yield self.finding(
            evidence=[*quotes, *container],
            meaning=text(
                "systemd on the host rewrote the container's device list without the card. The container had access when it"
                " started, and has lost it since."
            ),
            fix=(
                text("Restart the container (docker restart NAME): it gets the card back."),
                text("For a permanent fix, on the host: sudo nvidia-ctk system create-dev-char-symlinks --create-all"),
                text(
                    'Or in /etc/docker/daemon.json: "exec-opts": ["native.cgroupdriver=cgroupfs"]; then restart Docker.'
                ),
            ),
        )


class SmallSharedMemory(MessageRule):
    """Shared memory (/dev/shm) is too small for data-loader workers or NCCL: they die with a bus error.

    **Why it matters.** DataLoader workers pass batches through shared memory, and NCCL passes buffers through it. Docker
    gives a container 64 MiB; a few batches fill that, and the worker is killed with "Bus error".

    **What to do.** Give the container more (`--shm-size`, `--ipc=host`; on Kubernetes a memory volume at /dev/shm), or use
    fewer workers.

    **Sources.** pytorch#5040; Docker run reference, --shm-size.
    """

    code = "shm"
    severity = "warning"
    title = text("Shared memory (/dev/shm) is too small for data-loader workers")
    patterns = (
        r"killed by signal: Bus error",
        r"insufficient shared memory",
        r"failed to extend /dev/shm/|shm_open[^\n]*(?:fail|No space)|[Bb]us error \(core dumped\)",
        r"unable to (?:open|write to|mmap).*(?:torch_shm|/torch_\w+)",
        r"(?:shm|shared memory)\S*.*No space left on device|No space left on device.*(?:/dev/shm|shared memory)",
        r"Error while creating shared memory segment|posix_fallocate failed|/dev/shm[^\n]*(?:No space|full|too small)",
        r"SHMEM allocation limit is set to the default of 64MB",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        total = machine.host.memory.shm_total
        size = value_of(total)
        small = container_kind(machine) is not None and size is not None and size < GIB
        quotes = self.quotes(case)
        if not (small or quotes):
            return
        evidence: list[str] = list(quotes)
        if isinstance(total, Known):
            line = text("size of /dev/shm: {size} ({source})", size=format_bytes(total.value), source=total.source)
            evidence.insert(0, line)
        yield self.finding(
            evidence=evidence,
            meaning=sentences(
                text("Workers pass their batches through /dev/shm. When it is full, they are killed with a bus error."),
                None if quotes else text("No program has failed yet, but num_workers > 0 with large batches will."),
            ),
            fix=self._fix(machine),
            severity="error" if quotes else "warning",
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        fewer = text("Or, without a new container: DataLoader(num_workers=0), or fewer workers and smaller batches.")
        kind = container_kind(machine)
        if kind == "kubernetes":
            pod = text("In the pod: mount a volume {emptyDir: {medium: Memory, sizeLimit: 8Gi}} at /dev/shm.")
            return (pod, fewer)
        if kind in ("docker", "podman"):
            return (text("{engine} run --shm-size=8g …   # or --ipc=host", engine=kind), fewer)
        if kind is None and value_of(machine.host.container) == "none":
            return (as_root(machine, "mount -o remount,size=8G /dev/shm"), fewer)
        return (text("In a container: docker run --shm-size=8g …   # or --ipc=host"), fewer)
