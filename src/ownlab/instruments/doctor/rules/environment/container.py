"""Rules about containers and WSL: a card that was not given, a runtime that is missing, shared memory too small."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.queries import (
    container_of,
    is_wsl,
    module_loaded,
    nvidia_cards,
    some_framework_works,
    told,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, install_command, on_host
from ownlab.instruments.doctor.rule import SignRule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Machine
from ownlab.units import GIB, format_bytes

__all__ = ["ContainerWithoutGpu", "NvmlUnknown", "RuntimeMissing", "SmallShm", "Wsl"]

_TOOLKIT_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"

_GIVE_CARD = {
    "docker": "docker run --gpus all …   # compose: deploy.resources.reservations.devices with driver: nvidia",
    "podman": "podman run --device nvidia.com/gpu=all …   # once before: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    "kubernetes": "In the pod: resources: {limits: {nvidia.com/gpu: 1}}   # the node needs NVIDIA's device plugin",
    "apptainer": "apptainer exec --nv …",
    "lxc": "lxc config device add NAME gpu gpu && lxc config set NAME nvidia.runtime true",
}


def _give_card(machine: Machine) -> str:
    known = _GIVE_CARD.get(container_of(machine) or "")
    return known or f"Start the container with the card: {_GIVE_CARD['docker']}"


class ContainerWithoutGpu(SignRule):
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
    signs = (r"The NVIDIA Driver was not detected\.\s+GPU functionality will not be available",)

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if nvidia_cards(machine) or some_framework_works(machine):
            return
        inside = container_of(machine) is not None and module_loaded(machine) is True
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
            evidence.append(told("the host's kernel module:", machine.nvidia.module_version))
            evidence.append(told("container:", machine.host.container))
            evidence += ["no /dev/nvidia* here"] if no_files else []
            evidence += [told("the driver's library:", machine.nvidia.library_version)] if no_library else []
        if withheld:
            evidence.append(f"NVIDIA_VISIBLE_DEVICES={asked}")
        yield self.found(
            evidence=evidence,
            meaning="The host has a driver; this container was given no card."
            if inside
            else "This container was given no card. Whether its host has one cannot be told from here.",
            fix=(_give_card(machine),),
        )


class RuntimeMissing(SignRule):
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
    signs = (
        r'could not select device driver "[^"]*" with capabilities: \[\[gpu',
        r"unknown or invalid runtime name: nvidia",
        r"unresolvable CDI devices nvidia\.com/gpu",
    )

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes:
            return
        install = install_command(machine, "nvidia-container-toolkit")
        if container_of(machine) or install is None:
            first = on_host(machine, f"Install the package nvidia-container-toolkit: {_TOOLKIT_GUIDE}")
        else:
            first = f"{install}   # from NVIDIA's package repository: {_TOOLKIT_GUIDE}"
        register = as_root(machine, "nvidia-ctk runtime configure --runtime=docker")
        if any("CDI" in line for line in quotes):
            register = as_root(machine, "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
        yield self.found(
            evidence=quotes,
            meaning="The container engine has no part that knows NVIDIA's cards: the toolkit is not installed, or not"
            " registered with this engine (Docker from snap does not see it).",
            fix=(
                first,
                register,
                as_root(machine, "systemctl restart docker"),
                "Try: docker run --rm --gpus all ubuntu nvidia-smi",
            ),
            blocks=not some_framework_works(machine),
        )


class NvmlUnknown(SignRule):
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
    signs = (r"Failed to initialize NVML: Unknown Error", r"\bNVML(?:Error)?\b.*: Unknown Error\s*$")

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes or some_framework_works(machine):
            return
        outside = value_of(machine.host.container) == "none"
        yield self.found(
            title="NVML fails with an unknown error" if outside else None,
            evidence=[*quotes, *([told("container:", machine.host.container)] if container_of(machine) else [])],
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


class SmallShm(SignRule):
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
    signs = (
        r"killed by signal: Bus error",
        r"insufficient shared memory",
        r"unable to (?:open|write to|mmap).*(?:torch_shm|/torch_\w+)",
        r"(?:shm|shared memory)\S*.*No space left on device|No space left on device.*(?:/dev/shm|shared memory)",
        r"Error while creating shared memory segment",
    )

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        total = machine.host.memory.shm_total
        size = value_of(total)
        small = container_of(machine) is not None and size is not None and size < GIB
        quotes = self.quotes(case)
        if not (small or quotes):
            return
        source = total.source if isinstance(total, Known) else ""
        facts = [f"size of /dev/shm: {format_bytes(size)} ({source})"] if size is not None else []
        yield self.found(
            evidence=[*facts, *quotes],
            meaning="Workers pass their batches through /dev/shm. When it is full, they are killed with a bus error."
            + ("" if quotes else " Nothing was seen to fail yet; num_workers > 0 with large batches will."),
            fix=self._fix(machine),
            severity="error" if quotes else "warning",
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        fewer = "Or, without a new container: DataLoader(num_workers=0), or fewer workers and smaller batches."
        kind = container_of(machine)
        if kind == "kubernetes":
            return ("In the pod: a volume {emptyDir: {medium: Memory, sizeLimit: 8Gi}} mounted at /dev/shm.", fewer)
        if kind in ("docker", "podman"):
            return (f"{kind} run --shm-size=8g …   # or --ipc=host", fewer)
        if kind is None and value_of(machine.host.container) == "none":
            return (as_root(machine, "mount -o remount,size=8G /dev/shm"), fewer)
        return ("In a container: docker run --shm-size=8g …   # or --ipc=host", fewer)


class Wsl(SignRule):
    """This is WSL: the card is Windows's, and some of it cannot be seen from here.

    **Why it matters.** In WSL 2 CUDA works through the driver of Windows: libcuda lies in /usr/lib/wsl/lib, and no NVIDIA
    driver belongs inside. nvidia-smi shows neither the processes nor their memory there, and often no utilisation. A
    Linux driver installed inside puts its own libcuda in front, and CUDA stops working. WSL 1 has no GPU at all.

    **What to do.** Look at the Windows side for what is missing. Remove a Linux driver from inside WSL.

    **Sources.** NVIDIA, CUDA on WSL user guide; WSL#7162; nvitop#49.
    """

    code = "wsl"
    severity = "note"
    title = "This is WSL: parts of the card show on the Windows side alone"
    signs = (r"WSL environment detected but no adapters were found",)

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not is_wsl(machine) and not quotes:
            return
        where = self._where(machine)
        works = some_framework_works(machine)
        library = machine.nvidia.library_version
        foreign = isinstance(library, Known) and library.source.startswith("/") and "/wsl/" not in library.source
        if value_of(machine.host.virtualisation) == "wsl1":
            yield self._blocking(
                title="WSL 1 has no access to GPUs",
                evidence=where,
                meaning="Only WSL 2 passes a card through.",
                fix=("In PowerShell: wsl --set-version DISTRIBUTION 2",),
            )
        elif foreign and not works:
            yield self._blocking(
                title="A Linux driver is installed inside WSL",
                evidence=[*where, told("the driver's library:", library), *quotes],
                meaning="CUDA in WSL uses the driver of Windows, through /usr/lib/wsl/lib. A Linux driver's libcuda in front"
                " of it cannot work.",
                fix=(
                    as_root(machine, "apt-get purge -y '*nvidia-driver*' 'libnvidia-compute-*' 'libcuda1'"),
                    "In PowerShell: wsl --shutdown; then see: ls -l /usr/lib/wsl/lib/libcuda.so.1",
                ),
            )
        elif value_of(machine.cards) or works:
            yield self.found(
                evidence=where,
                meaning="nvidia-smi in WSL cannot show processes, their memory, and on many cards utilisation; the driver's"
                " number is that of Windows. CUDA itself works as on Linux.",
                fix=("For what is missing here: nvidia-smi.exe, or the Task Manager, on Windows.",),
            )
        elif quotes:
            yield self._blocking(
                title="WSL finds no adapter",
                evidence=[*where, *quotes],
                meaning="Windows passes no card through to WSL: its driver is missing or too old, or there is no card.",
                fix=("On Windows: install NVIDIA's driver from https://www.nvidia.com/drivers; then wsl --shutdown",),
            )

    @staticmethod
    def _where(machine: Machine) -> list[str]:
        """What shows that this is WSL."""
        if isinstance(machine.host.virtualisation, Known):
            return [told("system:", machine.host.virtualisation)]
        if not is_wsl(machine):
            return []
        return [f"{told('nvidia-smi', machine.nvidia.smi)} with {told('driver', machine.nvidia.driver)}, as WSL has it"]

    def _blocking(self, *, title: str, evidence: list[str], meaning: str, fix: tuple[str, ...]) -> Finding:
        return self.found(title=title, evidence=evidence, meaning=meaning, fix=fix, severity="error", blocks=True)
