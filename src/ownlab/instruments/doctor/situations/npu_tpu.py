"""Situations of Ascend NPUs and TPUs: which part is missing, of another version, or held by somebody else."""

from __future__ import annotations

from ownlab.instruments.doctor.situations.situation import Situation
from ownlab.text import text

__all__ = ["NPU_AND_TPU"]

_ASCEND = (
    "ascend-environment",
    "ascend-health",
    "unfit-library",
    "library-missing",
    "unknown-message",
    "cpu-build",
    "dev-permission",
)
_ABOUT_ASCEND = r"torch[_-]npu|\bCANN\b|davinci|\bnpu\b|Ascend"
_TPU = ("tpu", "tpu-no-libtpu", "jax-build", "harmless", "no-driver")

NPU_AND_TPU: tuple[Situation, ...] = (
    Situation(
        "ascend-environment",
        (r"\blib(?:atb|mki|asdops)\w*\.so\S*: cannot open|\blibatb\.so[^\n]*No such file",),
        text("A library of Ascend's NNAL (ATB) is not found: NNAL is not installed, or its environment is not set"),
        text("ATB, the library for transformers, is not part of CANN's toolkit. It comes with the package NNAL, which has an environment script of its own."),
        (
            text("source /usr/local/Ascend/ascend-toolkit/set_env.sh; source /usr/local/Ascend/nnal/atb/set_env.sh   # in the shell that starts Python"),
            text("If that file is missing: install Ascend-cann-nnal of exactly CANN's version: ./Ascend-cann-nnal_VERSION_linux-$(uname -m).run --install"),
        ),
        _ASCEND,
    ),
    Situation(
        "ascend-environment",
        (r"undefined symbol: \S*3atb\d|undefined symbol: \S*atb\d*\w*(?:Operation|Param)",),
        text("The installed NNAL (ATB) is older than this torch_npu: a function of ATB is missing in it"),
        text("torch_npu was compiled with a newer ATB. torch and torch_npu may well belong together; CANN and NNAL do not belong to them."),
        (
            text("cat /usr/local/Ascend/nnal/atb/latest/version.info /usr/local/Ascend/ascend-toolkit/latest/version.cfg; pip list | grep -i torch"),
            text("Install CANN and NNAL of the release that this torch_npu names (https://github.com/Ascend/pytorch), then source both set_env.sh; or an older torch_npu."),
        ),
        _ASCEND,
    ),
    Situation(
        "ascend-environment",
        (r"/nnal/atb/\S*cxx_abi_[01]/\S*: undefined symbol|libtbe_adapter\.so: undefined symbol|undefined symbol: _ZN3Mki",),
        text("NNAL (ATB) does not fit: its library is the one for the other C++ ABI, or of another version than CANN"),
        text("NNAL has two sets of libraries, cxx_abi_0 and cxx_abi_1. Its set_env.sh takes the one of the torch that it finds; a newer torch, or a shell without torch, leads to the wrong one."),
        (
            text("python -c 'import torch; print(torch.compiled_with_cxx11_abi())'; then: source /usr/local/Ascend/nnal/atb/set_env.sh --cxx_abi=1   # 0 for False"),
            text("cat /usr/local/Ascend/nnal/atb/latest/version.info /usr/local/Ascend/ascend-toolkit/latest/version.cfg   # both of one release, which torch_npu names"),
        ),
        _ASCEND,
    ),
    Situation(
        "ascend-environment",
        (r"module 'torch_npu\S*' has no attribute|torch\.ops\.npu[^\n]*has no attribute|No module named '?torch_npu\.\w+",),
        text("torch_npu is older or newer than the program expects: a function is missing in it"),
        text("vllm-ascend, MindSpeed and others are written for one release of torch_npu, partly for one of its post or development releases."),
        (
            text("pip list | grep -iE 'torch|vllm|mindspeed'   # compare with the versions that the program's installation guide names"),
            text("pip install torch-npu==VERSION-THAT-THE-PROGRAM-NAMES   # with its torch and CANN; or the program's ready image"),
        ),
        _ASCEND,
    ),
    Situation(
        "ascend-environment",
        (r"No module named '?(?:tbe|te|topi|hccl|opc|auto_tune|schedule_search)\b|repository_manager_log|CannKbInit|InitCannKB",),
        text("CANN's own Python modules (tbe, te, …) are not found, or do not fit this Python"),
        text("They lie in CANN's folder and are found through PYTHONPATH, which set_env.sh sets. A second CANN, or another Python than CANN supports, has the same effect."),
        (
            text("source /usr/local/Ascend/ascend-toolkit/set_env.sh; python -c 'import tbe, te'; echo $PYTHONPATH   # in the shell that starts the program"),
            text("python --version   # CANN 8: Python 3.7 to 3.11 (8.2 also 3.12); pip install 'numpy<2' decorator sympy scipy attrs psutil protobuf cloudpickle ml-dtypes tornado"),
        ),
        _ASCEND,
    ),
    Situation(
        "ascend-environment",
        (r"undefined symbol: (?:Msprof|aclprof|acl[A-Z]|aclnn|rt[A-Z]|Hccl|Adx|GE)\w*", _ABOUT_ASCEND),
        text("torch_npu and CANN do not belong together: CANN's libraries lack, or no longer have, a function"),
        text("torch_npu is compiled for certain releases of CANN. The missing name belongs to CANN, not to torch."),
        (
            text("cat /usr/local/Ascend/ascend-toolkit/latest/version.cfg; pip list | grep -i torch   # compare with the table of https://github.com/Ascend/pytorch"),
            text("pip install torch-npu==X.Y.Z.postN   # the newest post release for this torch, if CANN is the newer one; otherwise install the CANN that the table names"),
        ),
        _ASCEND,
    ),
    Situation(
        "dev-permission",
        (r"CapEff:\s*0{8,16}\b", r"/dev/davinci|dcmi|ascend_hal"),
        text("The container has no capabilities, so even root may not open the NPU's devices, which belong to another user"),
        text("Without CAP_DAC_OVERRIDE the rights of /dev/davinci* and /dev/davinci_manager hold for root, too."),
        (
            text("stat -c '%U:%G %a %n' /dev/davinci*   # owner and group of the devices"),
            text("Kubernetes: securityContext.capabilities.add: [DAC_OVERRIDE], or runAsUser and runAsGroup of the owner; docker: --cap-add DAC_OVERRIDE"),
        ),
        _ASCEND,
    ),
    Situation(
        "ascend-health",
        (r"\bret is -8020\b|because the device is used",),
        text("Another container or process uses this NPU (-8020)"),
        text("An NPU can be given to one container at a time. Driver and CANN are not at fault."),
        (
            text("On the host: npu-smi info; docker ps; for each container: docker inspect -f '{{.HostConfig.Devices}}' NAME   # who has /dev/davinciN"),
            text("Stop that container, or give this one another --device /dev/davinciN."),
        ),
        _ASCEND,
    ),
    Situation(
        "ascend-health",
        (r"\bret is -8005\b|dcmi (?:module|model) initialized? failed", r"\bdocker run\b|\bpodman run\b|\bnerdctl\b|/\.dockerenv|^root@[0-9a-f]{12}\b"),
        text("In this container the NPU's driver is not reached: the card is in use by another container, or a device or the driver's folder is not passed in"),
        text("npu-smi asks the driver through /dev/davinci_manager and the libraries of /usr/local/Ascend/driver. A card belongs to one container at a time."),
        (
            text("On the host: npu-smi info   # it works there: the driver is in order, do not install it again. docker ps: which container has the same /dev/davinciN? Stop it, or choose another."),
            text("All of: --device /dev/davinciN --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc -v /usr/local/dcmi:/usr/local/dcmi -v /usr/local/Ascend/driver:/usr/local/Ascend/driver -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi -v /etc/ascend_install.info:/etc/ascend_install.info"),
        ),
        _ASCEND,
    ),
    Situation(
        "ascend-environment",
        (r"DCMIError_LibraryNotFound|\blibdcmi\.so\S*: cannot open|_LoadDcmiLibrary|Failed to initialize DCMI",),
        text("The library of the NPU's driver (DCMI) is not found: the container or this system has no Ascend driver libraries"),
        text("libdcmi.so belongs to the host's driver (/usr/local/dcmi, /usr/local/Ascend/driver). --privileged passes devices, not libraries."),
        (
            text("Container: start it with Ascend's runtime (--runtime ascend -e ASCEND_VISIBLE_DEVICES=0), or with -v /usr/local/dcmi:/usr/local/dcmi -v /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro and the devices"),
            text("On the host: export LD_LIBRARY_PATH=/usr/local/dcmi:/usr/local/Ascend/driver/lib64/driver:$LD_LIBRARY_PATH; npu-smi info"),
        ),
        _ASCEND,
    ),
    Situation(
        "ascend-environment",
        (r"socversi?on \S+ of bin package does not match|does not match the current device socversi?on",),
        text("The operators were built for another Ascend chip than this card"),
        text("The message names both: the chip of the package, and that of the device. Code for 910B does not run on a 310P, nor the other way round."),
        (
            text("npu-smi info   # the chip; take the image or wheel for it (vllm-ascend: the tags with -310p, -a3), and the kernels package Ascend-cann-kernels of that chip"),
            text("Built from source: give the chip (export SOC_VERSION=…, or --soc-version), and build again."),
        ),
        _ASCEND,
    ),
    Situation(
        "ascend-environment",
        (r"SetPrecisionMode|AclSetCompileopt|\b50000[0-3]\b", r"\bnumpy(?:==|-| +)2\.\d", _ABOUT_ASCEND),
        text("NumPy 2 is installed, and CANN's operator compiler needs a NumPy below 2"),
        text("torch_npu starts the compiler, which runs in Python, with the first operation; with NumPy 2 that fails with an error of ACL that does not name it."),
        (text("pip install 'numpy<2'   # then start Python again"),),
        _ASCEND,
    ),
    Situation(
        "ascend-environment",
        (r"\b507033\b", r"visible devices count: *[1-9]|\bcann\b:? *\d"),
        text("The NPUs are visible, but do not start: usually the NPU's driver and this CANN do not belong together"),
        text("507033 says that the device could not be set up. The program already counts the devices, so they are passed in and may be opened."),
        (
            text("cat /usr/local/Ascend/driver/version.info /usr/local/Ascend/ascend-toolkit/latest/version.cfg   # compare with the table of versions on hiascend.com"),
            text("Install the driver and firmware that this CANN names, or the CANN for this driver; in a container the host's driver counts."),
            text("If they do belong together: npu-smi info shows whether another process or container holds the card."),
        ),
        _ASCEND,
    ),
    Situation(
        "tpu",
        (r"TPU is already in use by process",),
        text("Another process uses the TPU"),
        text("Only one process at a time may use a TPU; the message names it. JAX then says that libtpu may be missing: it is not."),
        (
            text("ps -fp PID   # the number in the message; your own forgotten run or notebook: kill PID, then kill -9 PID"),
            text("If it is gone already: sudo lsof -w /dev/accel* /dev/vfio/*; rm -f /tmp/libtpu_lockfile; then start again"),
            text("Several processes on several chips: TPU_VISIBLE_CHIPS and TPU_PROCESS_BOUNDS for each."),
        ),
        _TPU,
    ),
    Situation(
        "tpu",
        (r"/dev/accel\d*\W{1,3}:? ?No such file|/dev/accel\d*'?: No such file", r"\bTPU\b"),
        text("This TPU VM has no TPU device: the machine itself is at fault, not the software"),
        text("libtpu opens /dev/accel* (v2 to v4) or /dev/vfio/* (v5 and newer). If neither is there, no version of JAX finds the TPU."),
        (
            text("ls /dev/accel* /dev/vfio; sudo lspci | grep -i google   # v5 and newer have /dev/vfio only"),
            text("Create the TPU VM again: gcloud compute tpus tpu-vm delete NAME --zone ZONE; gcloud compute tpus tpu-vm create … (save the disk first). A restart seldom helps."),
        ),
        _TPU,
        unless=r"\bv(?:[5-9]|\d\d)[ep]?\b|\bv[5-9](?:litepod|p)?-\d|Trillium|Ironwood|/dev/vfio/\d",
    ),
    Situation(
        "tpu",
        (
            r"\bjax\[tpu\]|accelerator-type[= ]v\d|\btpu-vm\b|\bCloud TPU\b|\bTPU v\d",
            r"No GPU/TPU found, falling back to CPU|TPU-enabled jaxlib or libtpu is not installed",
        ),
        text("JAX does not find the TPU of this machine, and computes on the CPU"),
        text("In the order of frequency: libtpu is missing or lies where this jax does not look; another process holds the TPU; the device file is missing. CUDA builds of JAX do not help here."),
        (
            text("pip show libtpu libtpu-nightly; ls /dev/accel* /dev/vfio; sudo lsof -w /dev/accel*"),
            text("JAX before 0.3: export TPU_LIBRARY_PATH=$(python -c 'import libtpu, os; print(os.path.join(os.path.dirname(libtpu.__file__), \"libtpu.so\"))')"),
            text("Otherwise: pip install -U 'jax[tpu]'   # older releases: with -f https://storage.googleapis.com/jax-releases/libtpu_releases.html"),
        ),
        _TPU,
        unless=r"CUDA|nvidia|\bGeForce",
    ),
)  # fmt: skip
