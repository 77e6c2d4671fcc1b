"""Rules about memory and devices as tables and dumps show them: leftover processes, MIG slices, allocator snapshots, Windows."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ownlab.instruments.doctor.queries import any_framework_works
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import Cause, CauseRule, FixedMessageRule
from ownlab.text import text

__all__ = [
    "AllocatorFragmentation",
    "ClusterAllocation",
    "CudaMpsServer",
    "LeftoverProcess",
    "MigSeveralInstances",
    "PagingFile",
    "ProcessLimits",
]


class LeftoverProcess(FixedMessageRule):
    """The table of processes shows one that holds much of a card's memory; others then run out of it.

    **Why it matters.** A stopped, forgotten or crashed program keeps its memory on the card until it ends. New jobs fail with
    "out of memory" though nothing seems to run.

    **What to do.** Look at the process (state T is stopped, Z a zombie whose parent must end), ask its owner, end it by its number.

    **Sources.** nvidia-smi's table of processes; ps(1), process states.
    """

    code = "leftover-process"
    severity = "warning"
    title = text("A process holds much of the card's memory")
    patterns = (
        r"\|\s+\d+\s+(?:N/A\s+N/A\s+|\d+\s+\d+\s+)?\d+\s+C(?:\+G)?\s+\S.*\s\d{4,6}MiB\s*\|",
        r"\s(?:T|Tl|Tl\+|T\+|Ts|Z|Zl|D|Dl)\s+\S+\s+\d+:\d\d\s+\S*python",
    )
    meaning = text(
        "This program has the memory of the card, also if it is stopped (state T in ps) or forgotten; other programs do not get it."
    )
    fix = (
        text("See it: ps -o pid,user,stat,etime,args -p PID   # the number in the table; T: stopped, Z: zombie"),
        text(
            "If nobody needs it: kill PID (then kill -9 PID). If the memory stays taken: nvidia-smi --gpu-reset -i N, or reboot."
        ),
    )

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at pasted tables only: on a live machine the rule `held` knows the processes."""
        if case.machine.origin != "pasted" or any_framework_works(case.machine):
            return
        full = any("out of memory" in message.text.lower() for message in case.messages)
        for finding in super().check(case):
            yield msgspec.structs.replace(finding, severity="error") if full else finding


class MigSeveralInstances(CauseRule):
    """A process was given several MIG instances, or addresses one in a way that the program does not know.

    **Why it matters.** A CUDA process can use one MIG instance only. torch counts more through NVML, and then fails on the
    second ("device >= 0 && device < num_gpus").

    **What to do.** Give each process one instance, by its UUID. Distributed training over MIG instances is not possible.

    **Sources.** NVIDIA MIG user guide, "CUDA device enumeration"; pytorch#130181; vllm#6551.
    """

    code = "mig-instances"
    severity = "error"
    title = text("A process can use one MIG instance only")
    causes = (
        Cause(
            r"invalid literal for int\(\) with base 10: '(?:MIG|GPU)-",
            text("The program reads CUDA_VISIBLE_DEVICES as numbers, and it names a UUID"),
            text("Schedulers and MIG set UUIDs, which CUDA understands and this program does not."),
            (
                text(
                    "export CUDA_VISIBLE_DEVICES=0   # inside the container or job, where only this instance is visible; or a newer release of the program"
                ),
            ),
        ),
        Cause(
            r"device >= 0 && device < num_gpus",
            text("torch counts more devices than CUDA can use: MIG instances, or a wrong CUDA_VISIBLE_DEVICES"),
            text(
                "CUDA gives a process one MIG instance, while NVML counts all. Programs that read numbers instead of UUIDs fail, too."
            ),
            (
                text(
                    "nvidia-smi -L; then for each process: export CUDA_VISIBLE_DEVICES=MIG-UUID   # exactly one instance"
                ),
                text(
                    "Use one instance per process (no tensor-parallel or distributed training over instances), and a release of the program that knows MIG UUIDs."
                ),
            ),
        ),
        Cause(
            r"Unable to (?:enable|disable) MIG Mode|Failed to create (?:compute|GPU) instance|Unable to create a (?:GPU|compute) instance|MIG[^\n]*(?:In use by another client|pending enable)|Failed to create GPU instances|Insufficient Resources[^\n]*|No MIG devices found",
            text("MIG cannot be changed now"),
            text("Programs use the card, or instances already exist."),
            (
                text(
                    "Stop everything on the card (also nvidia-persistenced, DCGM): sudo systemctl stop nvidia-persistenced nvidia-dcgm; sudo nvidia-smi -i 0 --gpu-reset"
                ),
                text(
                    "sudo nvidia-smi mig -dci; sudo nvidia-smi mig -dgi   # removes instances; then create the wanted ones with -cgi … -C"
                ),
            ),
        ),
    )


class AllocatorFragmentation(FixedMessageRule):
    """A snapshot of torch's allocator shows large segments split into small blocks: memory is free, but not in one piece.

    **Why it matters.** torch keeps memory that it got from the driver. If a large segment is split for small tensors, it can
    neither be given back nor hold a large tensor again.

    **What to do.** Let segments grow (`expandable_segments:True`), or keep large ones from being split (`max_split_size_mb`).

    **Sources.** pytorch.org, "CUDA semantics: memory management"; pytorch#35901.
    """

    code = "fragmentation"
    severity = "warning"
    title = text("Memory of the card is free, but fragmented")
    patterns = (
        r"'segment_type': '(?:large|small)'",
        r"'state': '(?:inactive|active_allocated|active_pending_free)'",
        r"inactive_split_bytes",
    )
    meaning = text(
        "torch's allocator holds segments that are split into small blocks. Their free parts cannot be used for a large tensor, and cannot be given back."
    )
    fix = (
        text(
            "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   # Linux, torch 2.1 and newer; before Python starts"
        ),
        text(
            "Or: export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512; allocate the largest tensors first; torch.cuda.empty_cache() between phases"
        ),
    )


class PagingFile(FixedMessageRule):
    """Windows has too little memory and paging file for the CUDA libraries of so many processes.

    **Why it matters.** Each data-loader worker on Windows is a new process that loads torch's CUDA libraries and reserves
    several gigabytes for them. The sum exceeds memory and paging file: WinError 1455.

    **What to do.** Fewer workers, or a larger paging file. torch need not be reinstalled.

    **Sources.** pytorch#38049 discussion; Microsoft, error 1455 (ERROR_COMMITMENT_LIMIT).
    """

    code = "paging-file"
    severity = "error"
    title = text("Windows has too little memory and paging file for these processes")
    patterns = (
        r"\[?WinError 1455",
        r"paging file is too small|increase (?:the |your )?virtual memory\b",
        r"页面文件太小",
        r"os error 1455|error code:? 1455",
        r"Couldn't open shared (?:file mapping|event)",
    )
    meaning = text(
        "Every worker process reserves memory for CUDA's libraries; together they exceed RAM and paging file."
    )
    fix = (
        text("DataLoader(num_workers=0), or fewer workers and pin_memory=False"),
        text(
            "Programs on several cards (miners): a paging file at least as large as the memory of all cards together."
        ),
        text(
            "Or enlarge the paging file: System → Advanced → Performance → Virtual memory: 32 GB or more, then restart."
        ),
    )


class CudaMpsServer(FixedMessageRule):
    """A program does not reach the CUDA MPS server, through which several programs share a card.

    **Why it matters.** With MPS on, every program must reach its control daemon. If the daemon has stopped, runs as another
    user, or uses another pipe folder, CUDA does not start.

    **What to do.** Start the daemon again with the same CUDA_MPS_PIPE_DIRECTORY, or work without MPS.

    **Sources.** NVIDIA, Multi-Process Service; CUDA runtime API, cudaErrorMpsConnectionFailed.
    """

    code = "mps-server"
    severity = "error"
    title = text("The CUDA MPS server does not answer")
    patterns = (
        r"MPS client failed to connect|Cannot find MPS control daemon|cudaErrorMps\w+|CUDA_ERROR_MPS_\w+|MPS (?:server|control daemon)[^\n]*(?:fail|not)",
        r"nvidia-cuda-mps-\w+[^\n]*(?:fail|error|not running)",
    )
    meaning = text("Programs share the card through MPS, whose server has stopped or uses another folder or user.")
    fix = (
        text("echo quit | nvidia-cuda-mps-control; nvidia-cuda-mps-control -d   # as the user who owns it"),
        text("Without MPS: unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY; sudo nvidia-smi -c DEFAULT"),
        text("In a container: --ipc=host and the same CUDA_MPS_PIPE_DIRECTORY mounted"),
    )


class ClusterAllocation(FixedMessageRule):
    """A job on a cluster was given no GPU.

    **Why it matters.** On a node with cards, the batch system hides those that were not requested. Programs then see none,
    and drivers and packages look broken though they are fine.

    **What to do.** Request a card, with the name that this cluster uses.

    **Sources.** Slurm documentation, "Generic resource (GRES) scheduling".
    """

    code = "cluster"
    severity = "error"
    title = text("The batch system gave this job no GPU")
    patterns = (
        r"CUDA_VISIBLE_DEVICES=NoDevFiles|NoDevFiles",
        r"Invalid generic resource \(gres\)",
        r"(?:srun|sbatch|salloc): error:[^\n]*(?:node configuration is not available|gres|gpu)",
        r"(?:job|step)[^\n]*not (?:allocated|requested) any GPUs?",
    )
    meaning = text(
        "The job runs without a card, or asks for one with a name or a number that this cluster does not have."
    )
    fix = (
        text("Slurm: sbatch --gres=gpu:1 … (or --gpus=1), in a partition with cards: sinfo -o '%P %G'"),
        text("Check inside the job: echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L"),
    )


class ProcessLimits(CauseRule):
    """A limit of the system stops a program: open files, threads, processes, or a duplicated library.

    **Why it matters.** Data loaders share tensors through file descriptors, and libraries start many threads.

    **What to do.** Raise the limit, or let the program use less of it.

    **Sources.** pytorch.org, torch.multiprocessing, "Sharing strategies"; ulimit(1); Intel OpenMP, "OMP: Error #15".
    """

    code = "process-limits"
    severity = "error"
    title = text("A limit of the system stops the program")
    causes = (
        Cause(
            r"Too many open files|received 0 items of ancdata|EMFILE",
            text("Too many open files: the data loader shares tensors through file descriptors"),
            text("Every tensor that a worker sends needs a descriptor; the limit is too small."),
            (text("ulimit -n 65536; or in code: torch.multiprocessing.set_sharing_strategy('file_system')"),),
        ),
        Cause(
            r"pthread_create failed|can't start new thread|tried to allocate too many memory regions|blas_thread_init|Resource temporarily unavailable[^\n]*(?:thread|fork)|(?:thread|fork)[^\n]*Resource temporarily unavailable",
            text("No more threads or processes may be started"),
            text(
                "The limit for processes (ulimit -u, or the container's pids limit) is reached; libraries start a thread for each core."
            ),
            (
                text(
                    "export OMP_NUM_THREADS=4 OPENBLAS_NUM_THREADS=4; ulimit -u unlimited; docker run --pids-limit=-1 …"
                ),
            ),
        ),
        Cause(
            r"\[Errno 28\] No space left on device|OSError: [^\n]*No space left on device|Disk quota exceeded|PytorchStreamWriter failed writing|file write failed",
            text("A disk is full"),
            text(
                "The disk of the file in the message, of /tmp, of pip's or the model cache, or shared memory (/dev/shm) has no space left."
            ),
            (
                text(
                    "df -h . /tmp /dev/shm ~/.cache; df -i .   # then: pip cache purge; delete old models in ~/.cache/huggingface"
                ),
                text(
                    "export TMPDIR=/a/larger/disk HF_HOME=/a/larger/disk   # for builds and models; /dev/shm in a container: --shm-size=8g"
                ),
            ),
        ),
        Cause(
            r"(?:PermissionError|Permission denied)[^\n]*(?:/\.triton|/\.cache|/\.nv\b|/\.config|/\.local|torch_extensions|/\.cupy|/\.keras|/\.EasyOCR)|Permission denied: '/(?:tmp|var|root|cache|data|opt)/\S*|Read-only file system[^\n]*(?:cache|torch|triton|huggingface)|\.lock'?: Permission denied",
            text("A folder for caches cannot be written"),
            text(
                "The process runs as another user than the one whose home it uses (sudo, a container's root), or has none."
            ),
            (
                text(
                    "sudo chown -R $USER ~/.cache ~/.triton ~/.nv; or: export HOME=/tmp TRITON_CACHE_DIR=/tmp/triton XDG_CACHE_HOME=/tmp/cache TORCH_EXTENSIONS_DIR=/tmp/ext"
                ),
            ),
        ),
        Cause(
            r"DataLoader worker \(pid\(?s?\)? ?[\d, ]+\) exited unexpectedly|freeze_support\(\)|An attempt has been made to start a new process before",
            text("A worker of the data loader ended before it could say why"),
            text(
                "It failed in the data set's own code, ran out of memory or shared memory; on Windows the program lacks the guard that new processes need."
            ),
            (
                text("DataLoader(num_workers=0)   # then the error itself appears"),
                text("Windows and macOS: put the start of the program under: if __name__ == '__main__':"),
                text("Container: docker run --shm-size=8g …; watch the memory: free -g"),
            ),
        ),
        Cause(
            r"OMP: Error #15|Initializing libiomp5\S*, but found",
            text("Two copies of the OpenMP library are loaded"),
            text("Packages from pip and conda (or NumPy and torch) each bring one."),
            (
                text(
                    "Install both from one source (conda install nomkl, or everything with pip in a new environment). To go on at once: set KMP_DUPLICATE_LIB_OK=TRUE"
                ),
            ),
        ),
    )
