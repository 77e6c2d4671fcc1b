"""Rules on the machine around the cards: none at all, few cores, memory that ran out, disks that are full or slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ownlab.instruments.doctor.queries import (
    accelerators_of,
    container_kind,
    describe_fact,
    family_of,
    frameworks_of,
    has_accelerator,
    is_wsl,
    join,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, rented_platform
from ownlab.instruments.doctor.rule import FixedMessageRule, MessageRule, Rule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Disk, Machine
from ownlab.units import GIB, format_bytes

__all__ = ["DiskFull", "FewCpuCores", "HostOutOfMemory", "NoAccelerator", "OomKilled", "RaidDegraded", "SlowDisk"]

# Instruction sets with which a CPU multiplies bf16 matrices without going through fp32.
_BF16 = ("AMX BF16", "AVX-512 BF16", "BF16")
# Programs that do the work this is about; the kernel may as well have killed a browser.
_WORKERS = r"(?:python|pt_|ipykernel|jupyter|ray|torchrun|accelerate|vllm|sglang|ollama|llama)"


class NoAccelerator(Rule):
    """There is no accelerator in this machine; work runs on the CPU.

    **Why it matters.** Nothing is wrong. A CPU is enough to write and test code, to prepare data, to run small models
    and to fine-tune very small ones. A CUDA build of torch works here too: it is only larger (gigabytes of libraries
    that nothing calls).

    **What to do.** Let code choose its device, so that the same notebook runs here and on a card:
    `device = "cuda" if torch.cuda.is_available() else "cpu"`, and `map_location=device` when a checkpoint is loaded. Use
    as many threads as there are usable cores; on CPUs with AMX or AVX-512 BF16, bf16 (`torch.autocast("cpu")`) helps. A
    card would mostly speed up training and larger models, whose matrix products it computes many times faster.

    **Sources.** pytorch.org, "CPU threading and TorchScript inference" and "Automatic Mixed Precision package".
    """

    code = "no-accelerator"
    severity = "note"
    title = "There is no accelerator here: work runs on the CPU"

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if not isinstance(machine.cards, Known) or has_accelerator(machine) or not self._looked_everywhere(machine):
            return
        cpu = machine.host.cpu
        bf16 = [name for name in value_of(cpu.instruction_sets) or () if name in _BF16]
        yield self.finding(
            evidence=(
                "no card answers any vendor's driver"
                + (", and none is on the PCI bus" if value_of(machine.host.pci) is not None else ""),
                *(describe_fact(label, fact) for label, fact in (("CPU", cpu.model),) if isinstance(fact, Known)),
                *([describe_fact("usable cores:", cpu.usable_cores)] if isinstance(cpu.usable_cores, Known) else []),
            ),
            meaning="Writing and testing code, preparing data and small models work well on a CPU. A card would change"
            " training and larger models: it computes their matrix products many times faster.",
            fix=self._advice(machine, bf16),
        )

    @staticmethod
    def _looked_everywhere(machine: Machine) -> bool:
        """Linux shows a card on its bus though no driver serves it; other systems, and WSL, have the driver's word alone."""
        return isinstance(machine.host.pci, Known) or is_wsl(machine) or family_of(machine) != "linux"

    @staticmethod
    def _advice(machine: Machine, bf16: list[str]) -> Iterator[str]:
        yield "In code: device = 'cuda' if torch.cuda.is_available() else 'cpu'; torch.load(…, map_location=device)"
        cores = value_of(machine.host.cpu.usable_cores)
        if cores:
            yield f"torch.set_num_threads({max(1, int(cores))})   # the cores that this process may use"
        if bf16:
            yield f"with torch.autocast('cpu', dtype=torch.bfloat16): …   # this CPU has {join(bf16)}"
        large = [one.name for one in frameworks_of(machine) if value_of(one.build) == "cuda" and not one.failure]
        if large:
            yield f"{join(large)} for CUDA may stay: it works on the CPU, and is only larger than a CPU build."
        if rented_platform(machine) == "Colab":
            yield "For a GPU: Runtime → Change runtime type."
        elif rented_platform(machine) == "Kaggle":
            yield "For a GPU: Settings → Accelerator."


class FewCpuCores(MessageRule):
    """There are few CPU cores for the cards, or a data loader starts more workers than there are cores.

    **Why it matters.** Batches are read, decoded and augmented on the CPU. With fewer than about four usable cores a
    card, the card often waits for them, and its utilisation stays low. More workers than cores do not help: they take
    turns, and each needs memory. A container or a batch system may allow fewer cores than the machine has.

    **What to do.** `DataLoader(num_workers=…)` up to the usable cores; decode and augment on the card (DALI,
    torchvision's v2 transforms on tensors); store data ready to use; or ask for more cores (`docker run --cpus`, Slurm
    `--cpus-per-task`).

    **Sources.** torch/utils/data/dataloader.py (the words); NVIDIA DALI's documentation.
    """

    code = "few-cores"
    severity = "note"
    title = "There are few CPU cores for the cards"
    patterns = (r"This DataLoader will create \d+ worker processes in total",)
    _PER_CARD = 4

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = [card for card in accelerators_of(machine) if card.vendor != "apple"]
        cores = value_of(machine.host.cpu.usable_cores)
        quotes = self.quotes(case)
        if quotes:
            workers = f"num_workers={max(1, int(cores))}" if cores else "num_workers of at most the suggested number"
            yield self.finding(
                title="A data loader starts more workers than there are cores",
                evidence=quotes,
                meaning="The workers take turns on the cores: loading gets slower, and each worker needs memory.",
                fix=[f"DataLoader(…, {workers}, persistent_workers=True)"],
                severity="warning",
            )
        elif cards and cores is not None and cores < self._PER_CARD * len(cards):
            yield self.finding(
                title=f"{cores:g} usable cores for {len(cards)} card{'s' if len(cards) > 1 else ''}",
                evidence=[describe_fact("usable cores:", machine.host.cpu.usable_cores)],
                meaning="A data loader that decodes images or text may not keep up with the card"
                f"{'s' if len(cards) > 1 else ''}.",
                fix=(
                    f"DataLoader(…, num_workers={max(1, int(cores))}, pin_memory=True, persistent_workers=True)",
                    "If cards stay idle: store data decoded, augment on the card, or ask for more cores.",
                ),
            )


class OomKilled(MessageRule):
    """The kernel killed a program because memory ran out: the machine's, or the container's share of it.

    **Why it matters.** This is the computer's memory, not the card's. The program ends at once, without a Python error:
    the shell says "Killed", a batch system says exit code 137, a notebook says that the kernel died. Data-loader workers,
    each with its copy of the data set's lists, are a common cause; so is a checkpoint that is loaded whole.

    **What to do.** Fewer workers, smaller batches held on the CPU, `torch.load(…, mmap=True)`; arrays (NumPy, Arrow)
    instead of lists of Python objects in data sets; or more memory for the container.

    **Sources.** Linux, mm/oom_kill.c (the words); pytorch/pytorch#13246 (copies in workers).
    """

    code = "oom-killed"
    severity = "warning"
    title = "The kernel killed a program because memory ran out"
    patterns = (
        rf"Kill(?:ed)? process \d+,? \({_WORKERS}",
        rf"oom-kill:.*\btask={_WORKERS}",
        r"exit(?:ed with)?(?: code)?:? ?137\b",
        r"OOMKilled",
        r"(?<![^\n])[ \t]*(?:\S*: line \d+:\s+\d+ )?Killed(?=[ \t]*(?:\n|$)|[ \t]+\S*python)",
        r"killed by signal: Killed",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        memory = case.machine.host.memory
        limit = value_of(memory.cgroup_limit)
        total = value_of(memory.total)
        in_group = limit is not None or any("cgroup" in line for line in quotes)
        sizes = [
            *([f"the container's limit is {format_bytes(limit)}"] if limit is not None else []),
            *([f"the machine has {format_bytes(total)}"] if total is not None else []),
        ]
        yield self.finding(
            evidence=(*quotes[-3:], *sizes),
            meaning=(
                "The program went over the memory that its container or group may use" if in_group else "Memory ran out"
            )
            + ", and the kernel ended it. This is the computer's memory, not the card's.",
            fix=(
                "Use fewer data-loader workers, and smaller batches on the CPU; torch.load(…, mmap=True) for checkpoints.",
                *(["docker run --memory …   # a higher limit"] if in_group and container_kind(case.machine) else []),
            ),
        )


class DiskFull(Rule):
    """A disk that work needs is full, or nearly.

    **Why it matters.** Checkpoints, downloads, pip and the framework's own caches stop with "No space left on device";
    a checkpoint that was being written is lost.

    **What to do.** Look what takes the room, clear caches that can be fetched again, or point them elsewhere (HF_HOME,
    TORCH_HOME, PIP_CACHE_DIR, TMPDIR).

    **Sources.** pip.pypa.io, "Caching"; huggingface.co/docs/huggingface_hub, "Manage cache".
    """

    code = "disk-full"
    severity = "warning"
    title = "A disk is nearly full"
    _LEAST = 2 * GIB
    _LEAST_SHARE = 0.02
    _ENOUGH = 50 * GIB  # whatever share of a very large disk that is
    # What is full by nature: boot partitions, images, volumes of the system itself.
    _ASIDE = ("/boot", "/efi", "/snap", "/etc", "/usr", "/nix", "/System", "/Library")

    def check(self, case: Case) -> Iterable[Finding]:
        full = [disk for disk in value_of(case.machine.host.disks) or () if self._matters(disk) and self._is_full(disk)]
        if full:
            yield self.finding(
                title=f"The disk at {join(disk.mount for disk in full)} is nearly full",
                evidence=[_told_space(disk) for disk in full],
                meaning="Checkpoints, downloads and installations will stop with “No space left on device”.",
                fix=(
                    f"du -xh --max-depth=2 {full[0].mount} 2>/dev/null | sort -h | tail -20   # what takes the room",
                    "pip cache purge; conda clean --all; hf cache ls   # caches that can be fetched again",
                ),
            )

    def _matters(self, disk: Disk) -> bool:
        return not disk.remote and not any(
            disk.mount == place or disk.mount.startswith(f"{place}/") for place in self._ASIDE
        )

    def _is_full(self, disk: Disk) -> bool:
        free, total = value_of(disk.free), value_of(disk.total)
        # A disk that is small by nature is not full at a gigabyte.
        if free is None or not total or total < 2 * self._LEAST:
            return False
        return free < self._LEAST or free < min(self._LEAST_SHARE * total, self._ENOUGH)


def _told_space(disk: Disk) -> str:
    free, total = value_of(disk.free) or 0, value_of(disk.total) or 0
    return f"{disk.mount} ({disk.filesystem}): {format_bytes(free)} free of {format_bytes(total)}"


class SlowDisk(Rule):
    """Data lies on a turning disk, while there is a card to be fed.

    **Why it matters.** A hard disk reads large files well (100 to 200 MB/s), but only about a hundred small ones a
    second: each costs a movement of its arm. An SSD reads a hundred times as many. A data set of many small images on a
    hard disk starves the card, however fast it is.

    **What to do.** Keep the data that is being trained on an SSD or NVMe disk. On a hard disk: pack many small files
    into few large ones (WebDataset tars, record files, Parquet) and read them in order.

    **Sources.** The makers' data sheets (WD Black 110 random reads a second, Samsung 850 PRO 10,000);
    /sys/block/*/queue/rotational.
    """

    code = "slow-disk"
    severity = "note"
    title = "Data lies on a turning disk"
    _DATA = ("/", "/home", "/data", "/mnt", "/media", "/workspace", "/srv", "/scratch", "/datasets", "/root")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if not accelerators_of(machine):
            return
        turning = [disk for disk in value_of(machine.host.disks) or () if self._holds_data(disk)]
        if not turning:
            return
        fast = [disk.mount for disk in value_of(machine.host.disks) or () if value_of(disk.rotational) is False]
        yield self.finding(
            title=f"{join(disk.mount for disk in turning)} {'is' if len(turning) == 1 else 'are'} on a turning disk",
            evidence=[
                f"{describe_fact(f'{disk.mount} ({disk.device}) rotational:', disk.rotational)}" for disk in turning
            ],
            meaning="Large files read well from it. Many small files (images, one a sample) come at about a hundred a"
            " second, and the card waits.",
            fix=(
                f"Keep training data on {join(fast)}." if fast else "Keep training data on an SSD or NVMe disk.",
                "Or pack small files into few large ones (WebDataset, Parquet), and read them in order.",
            ),
        )

    def _holds_data(self, disk: Disk) -> bool:
        data = disk.mount in self._DATA or disk.mount.startswith(tuple(f"{place}/" for place in self._DATA[1:]))
        return data and not disk.remote and value_of(disk.rotational) is True


class RaidDegraded(Rule):
    """A software RAID array has lost a disk.

    **Why it matters.** A degraded array still works, slower, and the next disk that fails may take the data with it. An
    array without redundancy (raid0) that is inactive has lost its data already.

    **What to do.** Save what matters, find the disk that is gone, replace it and let the array rebuild.

    **Sources.** Linux, Documentation/admin-guide/md.rst; mdadm(8).
    """

    code = "raid-degraded"
    severity = "warning"
    title = "A RAID array has lost a disk"

    def check(self, case: Case) -> Iterable[Finding]:
        for array in value_of(case.machine.host.raid) or ():
            if array.degraded or array.state == "inactive":
                yield self.finding(
                    title=f"RAID array {array.name} {'has lost a disk' if array.degraded else 'is inactive'}",
                    evidence=[f"/proc/mdstat: {array.name}: {array.state} {array.level}, {' '.join(array.members)}"],
                    meaning="It works with less than all of its disks: the next one that fails may take the data with it."
                    if array.degraded and array.state != "inactive"
                    else "It does not run, so its data cannot be reached.",
                    fix=(
                        as_root(case.machine, f"mdadm --detail /dev/{array.name}   # which disk is gone"),
                        as_root(
                            case.machine, f"mdadm --manage /dev/{array.name} --add /dev/NEW   # once it is replaced"
                        ),
                    ),
                )


class HostOutOfMemory(FixedMessageRule):
    """The machine's own memory ran out, not the card's.

    **Why it matters.** "DefaultCPUAllocator: can't allocate memory" and "Cannot allocate memory" speak of RAM. Loading a
    checkpoint, a large batch in the loader, or many workers take it.

    **What to do.** Fewer workers, smaller batches in flight, load checkpoints with `mmap=True` or straight to the card.

    **Sources.** c10/core/CPUAllocator (the words); pytorch.org, torch.load.
    """

    code = "host-memory"
    severity = "error"
    title = "The machine's own memory ran out"
    patterns = (r"DefaultCPUAllocator: (?:can't|not enough memory)", r"DefaultCPUAllocator: .*allocate memory")
    meaning = "This is the computer's memory (RAM), not the card's."
    fix = (
        "Fewer workers and smaller batches in the DataLoader; free what is no longer needed.",
        "Load checkpoints without a copy: torch.load(…, mmap=True, map_location='cuda')",
    )
