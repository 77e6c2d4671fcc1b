"""Rules about containers and WSL: a card that was not given, a runtime that is missing, shared memory too small."""

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
from ownlab.units import GIB, format_bytes

__all__ = [
    "ContainerToolkitMissing",
    "ContainerWithoutGpu",
    "ImageNeedsNewerDriver",
    "NvmlUnknownError",
    "SmallSharedMemory",
]

_TOOLKIT_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"

_GIVE_CARD = {
    "docker": "docker run --gpus all …   # compose: deploy.resources.reservations.devices with driver: nvidia",
    "podman": "podman run --device nvidia.com/gpu=all …   # once before: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    "kubernetes": "In the pod: resources: {limits: {nvidia.com/gpu: 1}}   # the node needs NVIDIA's device plugin",
    "apptainer": "apptainer exec --nv …",
    "lxc": "lxc config device add NAME gpu gpu && lxc config set NAME nvidia.runtime true",
}


def _give_card(machine: Machine) -> str:
    known = _GIVE_CARD.get(container_kind(machine) or "")
    return known or f"Start the container with the card: {_GIVE_CARD['docker']}"


class ContainerWithoutGpu(MessageRule):
    """A container was started without the card that its host has.

    **Why it matters.** A container shares the host's kernel, and so its driver's kernel module; the device files and the
    driver's libraries are put in when it starts, and only if asked for. Without them a CUDA image finds no driver. The
    images of NVIDIA set NVIDIA_VISIBLE_DEVICES=all; "void" there says that NVIDIA's runtime was not asked for cards.

    **What to do.** Start it again with the card. Nothing can be added from inside.

    **Sources.** NVIDIA Container Toolkit documentation; vllm#16061.
    """

    code = "container-no-gpu"
    severity = "error"
    title = "This container was started without the GPU"
    blocks = True
    patterns = (r"The NVIDIA Driver was not detected\.\s+GPU functionality will not be available",)

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if nvidia_cards(machine) or any_framework_works(machine):
            return
        inside = container_kind(machine) is not None and module_loaded(machine) is True
        files = value_of(machine.nvidia.device_files)
        no_files = files is not None and not any(one.path.startswith("/dev/nvidia") for one in files)
        no_library = not isinstance(machine.nvidia.library_version, Known)
        asked = variable(machine, "NVIDIA_VISIBLE_DEVICES")
        withheld = asked is not None and asked.strip() in ("void", "none")
        quotes = self.quotes(case)
        if not (quotes or withheld or (inside and (no_files or no_library))):
            return
        evidence = list(quotes)
        if inside:
            evidence.append(describe_fact("the host's kernel module:", machine.nvidia.module_version))
            evidence.append(describe_fact("container:", machine.host.container))
            evidence += ["no /dev/nvidia* here"] if no_files else []
            evidence += [describe_fact("the driver's library:", machine.nvidia.library_version)] if no_library else []
        if withheld:
            evidence.append(f"NVIDIA_VISIBLE_DEVICES={asked}")
        yield self.finding(
            evidence=evidence,
            meaning="The host has a driver; this container was given no card."
            if inside
            else "This container was given no card. Whether its host has one cannot be told from here.",
            fix=(_give_card(machine),),
        )


class ContainerToolkitMissing(MessageRule):
    """Docker cannot hand out GPUs: NVIDIA's Container Toolkit is missing or not set up.

    **Why it matters.** Docker and Podman know nothing of NVIDIA's driver. The toolkit puts device files and libraries into
    a container; without it `--gpus` fails. Docker from snap does not see a toolkit that is installed outside the snap.

    **What to do.** Install the toolkit on the host, register it with Docker, restart Docker.

    **Sources.** nvidia-docker#1034; NVIDIA Container Toolkit, installation guide.
    """

    code = "runtime-missing"
    severity = "error"
    title = "Docker cannot hand out GPUs: NVIDIA's Container Toolkit is missing"
    blocks = True
    patterns = (
        r'could not select device driver "[^"]*" with capabilities: \[\[gpu',
        r"unknown or invalid runtime name: nvidia",
        r"unresolvable CDI devices nvidia\.com/gpu",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes:
            return
        install = install_command(machine, "nvidia-container-toolkit")
        if container_kind(machine) or install is None:
            first = on_host(machine, f"Install the package nvidia-container-toolkit: {_TOOLKIT_GUIDE}")
        else:
            first = f"{install}   # from NVIDIA's package repository: {_TOOLKIT_GUIDE}"
        register = as_root(machine, "nvidia-ctk runtime configure --runtime=docker")
        if any("CDI" in line for line in quotes):
            register = as_root(machine, "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
        yield self.finding(
            evidence=quotes,
            meaning="The container engine has no part that knows NVIDIA's cards: the toolkit is not installed, or not"
            " registered with this engine (Docker from snap does not see it).",
            fix=(
                first,
                register,
                as_root(machine, "systemctl restart docker"),
                "Try: docker run --rm --gpus all ubuntu nvidia-smi",
            ),
            blocks=not any_framework_works(machine),
        )


class NvmlUnknownError(MessageRule):
    """A container lost its card while it ran: "Failed to initialize NVML: Unknown Error".

    **Why it matters.** On hosts where systemd keeps the containers' device lists, a `systemctl daemon-reload` (any package
    upgrade may do one) writes the list anew without the cards. Programs that have the card open go on; new ones fail.

    **What to do.** Start the container anew. For good: CDI, links under /dev/char, or Docker's cgroupfs driver.

    **Sources.** nvidia-container-toolkit#48; nvidia-docker#1730 (NVIDIA's notice); dstack#2601.
    """

    code = "nvml-unknown"
    severity = "error"
    title = "The container has lost its access to the GPU"
    blocks = True
    patterns = (r"Failed to initialize NVML: Unknown Error", r"\bNVML(?:Error)?\b.*: Unknown Error\s*$")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes or any_framework_works(machine):
            return
        outside = value_of(machine.host.container) == "none"
        yield self.finding(
            title="NVML fails with an unknown error" if outside else None,
            evidence=[
                *quotes,
                *([describe_fact("container:", machine.host.container)] if container_kind(machine) else []),
            ],
            meaning="NVML cannot open the card. Outside a container that is rare: look at the kernel log."
            if outside
            else "The device list of the container was written anew without the card, by systemd on the host. What worked"
            " when it started works no longer.",
            fix=(f"{as_root(machine, 'dmesg')} | grep NVRM",)
            if outside
            else (
                "Start the container anew (docker restart NAME): it gets the card back.",
                "For good, on the host: sudo nvidia-ctk system create-dev-char-symlinks --create-all",
                'Or in /etc/docker/daemon.json: "exec-opts": ["native.cgroupdriver=cgroupfs"]; then restart Docker.',
            ),
        )


class SmallSharedMemory(MessageRule):
    """Shared memory (/dev/shm) is too small for data-loader workers or NCCL: they die of a bus error.

    **Why it matters.** DataLoader workers pass batches through shared memory, and NCCL passes buffers. Docker gives a
    container 64 MiB of it; a few batches fill that, and the worker is killed with "Bus error".

    **What to do.** Give the container more (`--shm-size`, `--ipc=host`; on Kubernetes a memory volume at /dev/shm), or use
    fewer workers.

    **Sources.** pytorch#5040; Docker run reference, --shm-size.
    """

    code = "shm"
    severity = "warning"
    title = "Shared memory (/dev/shm) is too small for data-loader workers"
    patterns = (
        r"killed by signal: Bus error",
        r"insufficient shared memory",
        r"unable to (?:open|write to|mmap).*(?:torch_shm|/torch_\w+)",
        r"(?:shm|shared memory)\S*.*No space left on device|No space left on device.*(?:/dev/shm|shared memory)",
        r"Error while creating shared memory segment",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        total = machine.host.memory.shm_total
        size = value_of(total)
        small = container_kind(machine) is not None and size is not None and size < GIB
        quotes = self.quotes(case)
        if not (small or quotes):
            return
        source = total.source if isinstance(total, Known) else ""
        facts = [f"size of /dev/shm: {format_bytes(size)} ({source})"] if size is not None else []
        yield self.finding(
            evidence=[*facts, *quotes],
            meaning="Workers pass their batches through /dev/shm. When it is full, they are killed with a bus error."
            + ("" if quotes else " Nothing was seen to fail yet; num_workers > 0 with large batches will."),
            fix=self._fix(machine),
            severity="error" if quotes else "warning",
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        fewer = "Or, without a new container: DataLoader(num_workers=0), or fewer workers and smaller batches."
        kind = container_kind(machine)
        if kind == "kubernetes":
            return ("In the pod: a volume {emptyDir: {medium: Memory, sizeLimit: 8Gi}} mounted at /dev/shm.", fewer)
        if kind in ("docker", "podman"):
            return (f"{kind} run --shm-size=8g …   # or --ipc=host", fewer)
        if kind is None and value_of(machine.host.container) == "none":
            return (as_root(machine, "mount -o remount,size=8G /dev/shm"), fewer)
        return ("In a container: docker run --shm-size=8g …   # or --ipc=host", fewer)


class ImageNeedsNewerDriver(MessageRule):
    """A container image asks for a newer driver than the host has, or the host's driver is not found for it.

    **Why it matters.** NVIDIA's images state the CUDA that they need (NVIDIA_REQUIRE_CUDA), and the container does not
    start where the host's driver does not serve it: "unsatisfied condition: cuda>=12.4".

    **What to do.** Update the host's driver, or take an image for an older CUDA. Data-centre cards can start with
    `NVIDIA_DISABLE_REQUIRE=1` and the image's compat libraries.

    **Sources.** NVIDIA Container Toolkit documentation, NVIDIA_REQUIRE_*.
    """

    code = "image-needs-driver"
    severity = "error"
    title = "The container image needs a newer driver than the host has"
    blocks = True
    patterns = (
        r"nvidia-container-cli: requirement error: unsatisfied condition",
        r"nvidia-container-cli: initialization error: load library failed: libnvidia-ml\.so",
        r"nvidia-container-cli: initialization error: driver error",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        too_old = any("unsatisfied condition" in quote for quote in quotes)
        yield self.finding(
            title=None if too_old else "The container runtime finds no NVIDIA driver on the host",
            evidence=quotes,
            meaning="The host's driver serves an older CUDA than the image was made for."
            if too_old
            else "Containers use the host's driver, and there is none that its runtime can load.",
            fix=(
                "On the host: nvidia-smi   # which driver, and the newest CUDA that it serves",
                "Take an image for that CUDA (nvidia/cuda:12.2.2-… for CUDA 12.2), or update the host's driver."
                if too_old
                else "Install NVIDIA's driver on the host, and see that nvidia-smi works there first.",
            ),
        )
