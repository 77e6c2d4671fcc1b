"""Rules about the host: no accelerator, few CPU cores, memory that ran out, disks that are full, slow or failing."""

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
    known_facts,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, rented_platform
from ownlab.instruments.doctor.rule import FixedMessageRule, MessageRule, Rule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Disk, Machine
from ownlab.text import listing, plural, text
from ownlab.units import GIB, format_bytes

__all__ = [
    "DiskFull",
    "FewCpuCores",
    "HostOutOfMemory",
    "NoAccelerator",
    "OomKilled",
    "RaidDegraded",
    "SlowDisk",
]

# Instruction sets with which a CPU multiplies bf16 matrices natively.
_BF16 = ("AMX BF16", "AVX-512 BF16", "BF16")
# Programs for deep learning; a killed browser is not reported.
_WORKERS = r"(?:python|pt_|ipykernel|jupyter|ray|torchrun|accelerate|vllm|sglang|ollama|llama)"


class NoAccelerator(Rule):
    """This machine has no accelerator; work runs on the CPU.

    **Why it matters.** Nothing is wrong. A CPU is enough to write and test code, to prepare data, to run small models and
    to fine-tune very small ones. A CUDA build of torch works here too, but is larger (gigabytes of unused libraries).

    **What to do.** Let the code choose its device, so that the same notebook runs here and on a card:
    `device = "cuda" if torch.cuda.is_available() else "cpu"`, and `map_location=device` when a checkpoint is loaded. Use
    as many threads as there are usable cores; on CPUs with AMX or AVX-512 BF16, bf16 (`torch.autocast("cpu")`) is faster.
    A card mainly speeds up training and larger models, whose matrix products it computes many times faster.

    **Sources.** pytorch.org, "CPU threading and TorchScript inference" and "Automatic Mixed Precision package".
    """

    code = "no-accelerator"
    severity = "note"
    title = text("This machine has no accelerator: work runs on the CPU")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if not isinstance(machine.cards, Known) or has_accelerator(machine) or not self._all_sources_read(machine):
            return
        cpu = machine.host.cpu
        yield self.finding(
            evidence=(
                text("no vendor's driver reports a card")
                if value_of(machine.host.pci) is None
                else text("no vendor's driver reports a card, and none is on the PCI bus"),
                *known_facts((text("CPU"), cpu.model)),
                *known_facts((text("usable cores:"), cpu.usable_cores)),
            ),
            meaning=text(
                "A CPU is enough to write and test code, to prepare data and to run small models. A card computes the matrix"
                " products of training and larger models many times faster."
            ),
            fix=self._advice(machine),
        )

    @staticmethod
    def _all_sources_read(machine: Machine) -> bool:
        """Linux shows a card on the bus even without a driver; on other systems, and WSL, only the driver shows it."""
        return isinstance(machine.host.pci, Known) or is_wsl(machine) or family_of(machine) != "linux"

    @staticmethod
    def _advice(machine: Machine) -> Iterator[str]:
        yield text(
            "In code: device = 'cuda' if torch.cuda.is_available() else 'cpu'; torch.load(…, map_location=device)"
        )
        cores = value_of(machine.host.cpu.usable_cores)
        if cores:
            threads = max(1, int(cores))
            yield text("torch.set_num_threads({threads})   # the cores that this process can use", threads=threads)
        bf16 = [name for name in value_of(machine.host.cpu.instruction_sets) or () if name in _BF16]
        if bf16:
            yield text(
                "with torch.autocast('cpu', dtype=torch.bfloat16): …   # this CPU has {instructions}",
                instructions=listing(bf16),
            )
        cuda = [each.name for each in frameworks_of(machine) if value_of(each.build) == "cuda" and not each.failure]
        if cuda:
            yield text(
                "You can keep the CUDA build of {frameworks}: it works on the CPU, and is only larger than a CPU build.",
                frameworks=listing(cuda),
            )
        if rented_platform(machine) == "Colab":
            yield text("For a GPU: Runtime → Change runtime type.")
        elif rented_platform(machine) == "Kaggle":
            yield text("For a GPU: Settings → Accelerator.")


class FewCpuCores(MessageRule):
    """There are few CPU cores for the cards, or a data loader starts more workers than there are cores.

    **Why it matters.** The CPU reads, decodes and augments the batches. With fewer than about four usable cores per card,
    the card often waits for them, and its utilisation stays low. More workers than cores do not help: they share the
    cores, and each needs memory. A container or a batch system may allow fewer cores than the machine has.

    **What to do.** Set `DataLoader(num_workers=…)` to at most the usable cores; decode and augment on the card (DALI,
    torchvision's v2 transforms on tensors); store data ready to use; or ask for more cores (`docker run --cpus`, Slurm
    `--cpus-per-task`).

    **Sources.** torch/utils/data/dataloader.py (the message); NVIDIA DALI's documentation.
    """

    code = "few-cores"
    severity = "note"
    title = text("There are few CPU cores for the cards")
    patterns = (r"This DataLoader will create \d+ worker processes in total",)
    _PER_CARD = 4

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = [card for card in accelerators_of(machine) if card.vendor != "apple"]
        cores = value_of(machine.host.cpu.usable_cores)
        workers = max(1, int(cores or 0))
        quotes = self.quotes(case)
        if quotes:
            yield self.finding(
                title=text("A data loader starts more workers than there are cores"),
                evidence=quotes,
                meaning=text("The workers share the cores: loading gets slower, and each worker needs memory."),
                fix=[
                    text("DataLoader(…, num_workers={workers}, persistent_workers=True)", workers=workers)
                    if cores
                    else text(
                        "DataLoader(…, num_workers=N, persistent_workers=True)   # N: at most the suggested number"
                    )
                ],
                severity="warning",
            )
        elif cards and cores is not None and cores < self._PER_CARD * len(cards):
            yield self.finding(
                title=plural(
                    len(cards),
                    "{cores} usable cores for 1 card",
                    "{cores} usable cores for {n} cards",
                    cores=f"{cores:g}",
                ),
                evidence=[describe_fact(text("usable cores:"), machine.host.cpu.usable_cores)],
                meaning=plural(
                    len(cards),
                    "A data loader that decodes images or text may be too slow for the card.",
                    "A data loader that decodes images or text may be too slow for the cards.",
                ),
                fix=(
                    text(
                        "DataLoader(…, num_workers={workers}, pin_memory=True, persistent_workers=True)",
                        workers=workers,
                    ),
                    text("If cards stay idle: store decoded data, augment on the card, or ask for more cores."),
                ),
            )


class OomKilled(MessageRule):
    """The kernel killed a program because memory ran out: the machine's, or the container's share of it.

    **Why it matters.** This is the computer's memory, not the card's. The program ends at once, without a Python error:
    the shell prints "Killed", a batch system reports exit code 137, a notebook reports that the kernel died. Common causes
    are data-loader workers, each with its copy of the data set's lists, and a checkpoint that is loaded whole.

    **What to do.** Use fewer workers, smaller batches on the CPU, `torch.load(…, mmap=True)`; arrays (NumPy, Arrow)
    instead of lists of Python objects in data sets; or more memory for the container.

    **Sources.** Linux, mm/oom_kill.c (the messages); pytorch/pytorch#13246 (copies in workers).
    """

    code = "oom-killed"
    severity = "warning"
    title = text("The kernel killed a program because memory ran out")
    patterns = (
        rf"Kill(?:ed)? process \d+,? \({_WORKERS}",
        rf"oom-kill:.*\btask={_WORKERS}",
        r"exit(?:ed with)?(?: code)?:? ?137\b",
        r"OOMKilled|killed by the OOM killer|result 'oom-kill'|Detected \d+ oom[_-]kill event|OUT_OF_MEMORY \(exit code",
        r"(?<![^\n])[ \t]*(?:\S*: line \d+:\s+\d+ )?Killed(?=[ \t]*(?:\n|$)|[ \t]+\S*python)",
        r"killed by signal: Killed|oom_reaper: reaped process \d+ \(python",
        r"(?:zsh|bash)?:? ?(?:\[\d\]\s+\d+ )?\bkilled\s+(?:\S*/)?(?:python|torchrun|accelerate|deepspeed)\S*",
        r"terminated: signal: killed|The kernel appears to have died",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        memory = case.machine.host.memory
        limit = value_of(memory.cgroup_limit)
        total = value_of(memory.total)
        in_group = limit is not None or any("cgroup" in line for line in quotes)
        sizes: list[str] = []
        if limit is not None:
            sizes.append(text("the container's limit is {size}", size=format_bytes(limit)))
        if total is not None:
            sizes.append(text("the machine has {size}", size=format_bytes(total)))
        yield self.finding(
            evidence=(*quotes[-3:], *sizes),
            meaning=text(
                "The program exceeded the memory limit of its container or group, and the kernel killed it. This is the"
                " computer's memory, not the card's."
            )
            if in_group
            else text(
                "Memory ran out, and the kernel killed the program. This is the computer's memory, not the card's."
            ),
            fix=(
                text(
                    "Use fewer data-loader workers, and smaller batches on the CPU; torch.load(…, mmap=True) for checkpoints."
                ),
                *(
                    [text("docker run --memory …   # a higher limit")]
                    if in_group and container_kind(case.machine)
                    else []
                ),
            ),
        )


class HostOutOfMemory(FixedMessageRule):
    """The machine's own memory ran out, not the card's.

    **Why it matters.** "DefaultCPUAllocator: can't allocate memory" and "Cannot allocate memory" are about RAM. Loading a
    checkpoint, a large batch in the loader, or many workers use it up.

    **What to do.** Use fewer workers and smaller batches in flight; load checkpoints with `mmap=True` or directly to the
    card.

    **Sources.** c10/core/CPUAllocator (the message); pytorch.org, torch.load.
    """

    code = "host-memory"
    severity = "error"
    title = text("The machine's own memory ran out")
    patterns = (
        r"DefaultCPUAllocator: (?:can't|not enough memory)",
        r"DefaultCPUAllocator: .*allocate memory",
        r"\bstd::bad_alloc(?!: \w*(?:CUDA|out_of_memory))",
        r"MemoryError(?:: Unable to allocate|\s*(?:\n|$))",
        r"numpy\S*MemoryError",
        r"\[Errno 12\] Cannot allocate memory",
        r"Your session crashed after using all available RAM",
        r"failed to allocate memory for (?:thread-local data|the host)",
        r"failed to alloc \d+ bytes on host|Unable to allocate array with shape|requires more system memory|mmap failed: Cannot allocate|(?:Unable|[Ff]ailed) to allocate pinned|not enough (?:system|host|CPU) (?:RAM|memory)|insufficient system memory|std::length_error",
    )
    meaning = text("This is the computer's memory (RAM), not the card's.")
    fix = (
        text("Use fewer workers and smaller batches in the DataLoader; free what is no longer needed."),
        text("Load checkpoints without a copy: torch.load(…, mmap=True, map_location='cuda')"),
    )


class DiskFull(Rule):
    """A disk that work needs is full, or nearly full.

    **Why it matters.** Checkpoints, downloads, pip and the frameworks' own caches stop with "No space left on device"; a
    checkpoint that is being written is lost.

    **What to do.** Find what uses the space, delete caches that can be downloaded again, or move them to another disk
    (HF_HOME, TORCH_HOME, PIP_CACHE_DIR, TMPDIR).

    **Sources.** pip.pypa.io, "Caching"; huggingface.co/docs/huggingface_hub, "Manage cache".
    """

    code = "disk-full"
    severity = "warning"
    title = text("A disk is nearly full")
    _LEAST = 2 * GIB
    _LEAST_SHARE = 0.02
    _ENOUGH = 50 * GIB  # enough on any disk, however large
    # Mounts that are normally full: boot partitions, images, volumes of the system itself.
    _IGNORED = ("/boot", "/efi", "/snap", "/etc", "/usr", "/nix", "/System", "/Library")

    def check(self, case: Case) -> Iterable[Finding]:
        full = [disk for disk in value_of(case.machine.host.disks) or () if self._matters(disk) and self._is_full(disk)]
        if full:
            yield self.finding(
                title=text("The disk at {mounts} is nearly full", mounts=listing(disk.mount for disk in full)),
                evidence=[_describe_space(disk) for disk in full],
                meaning=text("Checkpoints, downloads and installations will fail with “No space left on device”."),
                fix=(
                    text(
                        "du -xh --max-depth=2 {mount} 2>/dev/null | sort -h | tail -20   # shows what uses the space",
                        mount=full[0].mount,
                    ),
                    text("pip cache purge; conda clean --all; hf cache ls   # caches that can be downloaded again"),
                ),
            )

    def _matters(self, disk: Disk) -> bool:
        return not disk.remote and not any(
            disk.mount == mount or disk.mount.startswith(f"{mount}/") for mount in self._IGNORED
        )

    def _is_full(self, disk: Disk) -> bool:
        free, total = value_of(disk.free), value_of(disk.total)
        # A gigabyte of free space on a small disk is not full.
        if free is None or not total or total < 2 * self._LEAST:
            return False
        return free < self._LEAST or free < min(self._LEAST_SHARE * total, self._ENOUGH)


def _describe_space(disk: Disk) -> str:
    return text(
        "{mount} ({filesystem}): {free} free of {total}",
        mount=disk.mount,
        filesystem=disk.filesystem,
        free=format_bytes(value_of(disk.free) or 0),
        total=format_bytes(value_of(disk.total) or 0),
    )


class SlowDisk(Rule):
    """Data is on a rotating hard disk, which may be too slow for the card.

    **Why it matters.** A hard disk reads large files well (100 to 200 MB/s), but only about a hundred small files per
    second, because each needs a movement of its arm. An SSD reads a hundred times as many. With a data set of many small
    images on a hard disk, the card waits for data.

    **What to do.** Keep training data on an SSD or NVMe disk. On a hard disk: pack many small files into a few large ones
    (WebDataset tars, record files, Parquet) and read them in order.

    **Sources.** The manufacturers' data sheets (WD Black 110 random reads a second, Samsung 850 PRO 10,000);
    /sys/block/*/queue/rotational.
    """

    code = "slow-disk"
    severity = "note"
    title = text("Data is on a rotating hard disk")
    _DATA = ("/", "/home", "/data", "/mnt", "/media", "/workspace", "/srv", "/scratch", "/datasets", "/root")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if not accelerators_of(machine):
            return
        rotating = [disk for disk in value_of(machine.host.disks) or () if self._holds_data(disk)]
        if not rotating:
            return
        fast = [disk.mount for disk in value_of(machine.host.disks) or () if value_of(disk.rotational) is False]
        yield self.finding(
            title=plural(
                len(rotating),
                "{mounts} is on a rotating hard disk",
                "{mounts} are on rotating hard disks",
                mounts=listing(disk.mount for disk in rotating),
            ),
            evidence=[
                text(
                    "{mount} ({device}) {rotational}",
                    mount=disk.mount,
                    device=disk.device,
                    rotational=describe_fact(text("rotational:"), disk.rotational),
                )
                for disk in rotating
            ],
            meaning=text(
                "It reads large files well. Of many small files (one image per sample) it reads about a hundred per second,"
                " and the card waits."
            ),
            fix=(
                text("Keep training data on {mounts}.", mounts=listing(fast))
                if fast
                else text("Keep training data on an SSD or NVMe disk."),
                text("Or pack small files into a few large ones (WebDataset, Parquet), and read them in order."),
            ),
        )

    def _holds_data(self, disk: Disk) -> bool:
        data = disk.mount in self._DATA or disk.mount.startswith(tuple(f"{mount}/" for mount in self._DATA[1:]))
        return data and not disk.remote and value_of(disk.rotational) is True


class RaidDegraded(Rule):
    """A software RAID array has lost a disk.

    **Why it matters.** A degraded array still works, but more slowly, and the failure of another disk may destroy the
    data. An inactive array without redundancy (raid0) has already lost its data.

    **What to do.** Back up important data, find the failed disk, replace it and let the array rebuild.

    **Sources.** Linux, Documentation/admin-guide/md.rst; mdadm(8).
    """

    code = "raid-degraded"
    severity = "warning"
    title = text("A RAID array has lost a disk")

    def check(self, case: Case) -> Iterable[Finding]:
        for array in value_of(case.machine.host.raid) or ():
            if array.degraded or array.state == "inactive":
                yield self.finding(
                    title=text("RAID array {array} has lost a disk", array=array.name)
                    if array.degraded
                    else text("RAID array {array} is inactive", array=array.name),
                    evidence=[f"/proc/mdstat: {array.name}: {array.state} {array.level}, {' '.join(array.members)}"],
                    meaning=text(
                        "The array works without one of its disks. If another disk fails, the data may be lost."
                    )
                    if array.degraded and array.state != "inactive"
                    else text("The array does not run, so its data cannot be read."),
                    fix=(
                        text(
                            "{command}   # shows the missing disk",
                            command=as_root(case.machine, f"mdadm --detail /dev/{array.name}"),
                        ),
                        text(
                            "{command}   # after replacing it",
                            command=as_root(case.machine, f"mdadm --manage /dev/{array.name} --add /dev/NEW"),
                        ),
                    ),
                )
