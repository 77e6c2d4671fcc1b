"""The rule about starting several processes: torchrun, mpirun, Horovod, and servers that split a model."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["LauncherSetup"]


class LauncherSetup(CauseRule):
    """A run on several processes was started in a way that its program does not expect.

    **Why it matters.** A distributed program reads its rank and the number of ranks from variables that a launcher sets; each
    rank needs a card. Started by hand, or with more ranks than cards, it stops before it computes.

    **What to do.** Start it with the launcher it was written for, with one process for each card.

    **Sources.** pytorch.org, torchrun; docs.open-mpi.org, "FAQ: running MPI jobs"; docs.vllm.ai, "Distributed inference".
    """

    code = "launcher"
    severity = "error"
    title = text("The processes were not started as the program expects")
    causes = (
        Cause(
            r"rendezvous: environment variable \w+ expected, but not set|environment variable (?:RANK|WORLD_SIZE|MASTER_ADDR|LOCAL_RANK) expected|KeyError: '(?:LOCAL_RANK|RANK|WORLD_SIZE|MASTER_ADDR)'|Default process group has not been initialized|Default process group is not initialized",
            text("The program was started without its launcher"),
            text("It reads its rank from variables that torchrun (or accelerate, deepspeed, srun) sets."),
            (
                text(
                    "torchrun --standalone --nproc-per-node=1 PROGRAM   # the number of cards; instead of python PROGRAM"
                ),
                text(
                    "Alone in a notebook: os.environ.update(RANK='0', WORLD_SIZE='1', LOCAL_RANK='0', MASTER_ADDR='127.0.0.1', MASTER_PORT='29500')"
                ),
            ),
        ),
        Cause(
            r"Distributed package doesn't have NCCL|NCCL is not (?:compiled|available|built)|ProcessGroupNCCL is only supported with GPUs, no GPUs found|Distributed package doesn't have MPI built in|Unsupported backend: '?nccl",
            text("This torch has no NCCL, or this process has no card for it"),
            text("NCCL exists in torch's CUDA builds for Linux only: not on Windows, macOS, or in CPU builds."),
            (
                text("Windows, or without cards: init_process_group(backend='gloo')"),
                text(
                    "Linux: python -c 'import torch; print(torch.version.cuda, torch.cuda.device_count())'   # None: a CPU build; 0: no card here"
                ),
            ),
        ),
        Cause(
            r"There are not enough slots available in the system|mpirun has detected an attempt to run as root|ORTE was unable to reliably start|plm_rsh_agent|An ORTE daemon has unexpectedly failed|PRTE has lost communication",
            text("MPI does not start the processes"),
            text("mpirun counts cores as slots, refuses root, and needs ssh without a password between machines."),
            (
                text("In a container: mpirun --allow-run-as-root …; more ranks than cores: --oversubscribe"),
                text("On several machines: ssh HOST hostname must work without a question, with the same MPI there."),
            ),
        ),
        Cause(
            r"Extension horovod\.\w+ has not been built|horovod[^\n]*(?:not been built|not built with)",
            text("Horovod was installed without support for this framework"),
            text("Horovod is compiled at installation, for the frameworks that it finds then."),
            (
                text(
                    "pip uninstall -y horovod; HOROVOD_WITH_PYTORCH=1 HOROVOD_GPU_OPERATIONS=NCCL pip install --no-cache-dir --no-build-isolation 'horovod[pytorch]'   # needs nvcc, g++, cmake and NCCL"
                ),
            ),
        ),
        Cause(
            r"attention heads \(\d+\) must be divisible by tensor.parallel|required GPUs exceeds the total number of available GPUs|World size \(?\d+\)? is (?:greater|larger) than the number of available GPUs|tensor.parallel.size[^\n]*(?:greater|larger|exceed)[^\n]*(?:GPU|device)|num_gpus[^\n]*(?:exceed|greater than)[^\n]*available",
            text("The number of cards asked for does not fit the machine or the model"),
            text("The tensor-parallel size must divide the model's attention heads, and there must be so many cards."),
            (
                text("nvidia-smi -L   # then --tensor-parallel-size 1, 2, 4 or 8, at most the number of cards"),
                text("In Ray or Kubernetes: the cluster must offer that many GPUs to this job (ray status)."),
            ),
        ),
        Cause(
            r"Tensors must be CUDA and dense|No backend type associated with device type|Cannot use NCCL backend with CPU tensors",
            text("A tensor on the CPU is given to NCCL, which moves tensors of cards only"),
            text("The program runs without its card (a CPU build, no card for this rank), or did not move the tensor."),
            (
                text(
                    "Before the call: tensor = tensor.cuda(int(os.environ['LOCAL_RANK'])); or init_process_group('cpu:gloo,cuda:nccl')"
                ),
                text(
                    "python -c 'import torch; print(torch.version.cuda, torch.cuda.device_count())'   # None or 0: see that first"
                ),
            ),
        ),
        Cause(
            r"Expected to have finished reduction in the prior iteration|Expected to mark a variable ready only once|Mismatched collective detected|NET/Socket[^\n]*message truncated|message truncated : receiving|Detected mismatch between collectives",
            text(
                "The ranks do not compute the same: parameters without gradients, or branches that differ between ranks"
            ),
            text("Every rank must call the same collectives in the same order. The machine works."),
            (
                text(
                    "DistributedDataParallel(model, find_unused_parameters=True)   # if parts of the model are not used in a step"
                ),
                text("export TORCH_DISTRIBUTED_DEBUG=DETAIL   # names the parameters or the operation"),
            ),
        ),
        Cause(
            r"can't stat gres\.conf file|Waiting for gres\.conf file",
            text("Slurm's gres.conf names a device file that this node does not have"),
            text(
                "slurmd waits for every File= of gres.conf. The node has no card (or fewer), or its files appear only after the driver was used once."
            ),
            (
                text(
                    "ls /dev/nvidia*; lspci -d 10de:   # no card: remove the line for this node (NodeName=…) from gres.conf, and Gres= of it from slurm.conf"
                ),
                text(
                    "A card is there and nvidia-smi works: nvidia-modprobe -c=0 before slurmd starts, or AutoDetect=nvml; then sudo systemctl restart slurmd"
                ),
            ),
        ),
        Cause(
            r"gres\.conf[^\n]*(?:duplicate|invalid|fatal|error)|fatal: gres",
            text("Slurm's gres.conf does not describe this node's cards"),
            text("AutoDetect=nvml finds the cards by itself: lines with Name=gpu beside it describe them twice."),
            (
                text(
                    "Keep either AutoDetect=nvml, or one line Name=gpu File=/dev/nvidia[0-N]; Gres=gpu:N in slurm.conf; sudo systemctl restart slurmd"
                ),
            ),
        ),
        Cause(
            r"exitcode: ?-7\b|exit ?code:? -7\b|Signal 7 \(SIGBUS\)",
            text("A rank died of a bus error: shared memory is full"),
            text("Ranks and data loaders pass data through /dev/shm; containers get 64 MB of it."),
            (text("docker run --shm-size=8g …   # or --ipc=host"),),
        ),
        Cause(
            r"exitcode: ?-9\b|exit ?code:? -9\b|Signal 9 \(SIGKILL\)",
            text("A rank was killed: usually the machine's memory ran out"),
            text("Every rank loads the model into the machine's memory first, and data loaders add to it."),
            (
                text("sudo dmesg | grep -iE 'oom|killed process' | tail; free -g   # while it starts"),
                text(
                    "Fewer data-loader workers; load the weights once (low_cpu_mem_usage=True, device_map), or more memory."
                ),
            ),
        ),
        Cause(
            r"ChildFailedError|elastic\.multiprocessing\.api: ?failed|ProcessExitedException|RayActorError: The actor died|Engine core initialization failed|See root cause above|EngineDeadError|SignalException|WorkerProc[^\n]*(?:failed|initialization)|llama runner process (?:has terminated|no longer running): (?:exit status \d|error:|$)",
            text("One of the processes ended with an error; its own message, further up, has the reason"),
            text("The launcher only reports which rank ended first."),
            (text("Search upwards for the first traceback of that rank; or run with one process: --nproc-per-node=1"),),
        ),
    )
