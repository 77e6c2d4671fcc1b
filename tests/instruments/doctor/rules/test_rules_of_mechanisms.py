"""Rules written from mechanisms: near misses of their broad patterns, what they hold back, and the last resort."""

from __future__ import annotations

import pytest

from ownlab.errors import NotRecognised
from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.instruments.doctor.records import Finding


def findings_of(content: str) -> tuple[Finding, ...]:
    try:
        return diagnose(read_paste(content)).findings
    except NotRecognised:
        return ()


def answer_of(finding: Finding) -> str:
    """All that the finding says, with the other causes of its message."""
    others = (part for other in finding.other_causes for part in (other.cause, other.check))
    return "\n".join((finding.title, finding.meaning, *finding.fix, *others))


# In order: the rule, a message of it, and one that looks alike but is another's, or nobody's.
NEAR_MISSES = [
    ("tpu", "The TPU is already in use by process with pid 1234", "ERROR: output device busy, retrying"),
    ("program-backend", "Unknown encoder 'h264_nvenc'", "Stream #0:0 -> #0:0 (h264 (native) -> h264 (h264_nvenc))"),
    ("program-backend", "OPTIX_ERROR_UNSUPPORTED_ABI_VERSION: Unsupported ABI version", "OptiX denoiser enabled on NVIDIA GeForce RTX 3090"),
    ("module-upkeep", "Error! Could not locate dkms.conf file.\nFile: /var/lib/dkms/nvidia/390.48/source/dkms.conf does not exist.", "nvidia/535.129.03, 6.5.0-17-generic, x86_64: installed"),
    ("module-upkeep", "/bin/sh: 1: gcc-12: not found (building nvidia)", "gcc-12 (Ubuntu 12.3.0) 12.3.0"),
    ("kernel-crash", "kernel: RIP: 0010:_nv012345rm+0x12/0x40 [nvidia]", "[drm] Initialized nvidia-drm 0.0.0 20160202 for 0000:01:00.0 on minor 1"),
    ("package-tool", "error: externally-managed-environment", "Successfully installed torch-2.9.0"),
    ("driver-mixed", "ii  libnvidia-compute-470:amd64  470.223.02-0ubuntu0.22.04.1\nii  nvidia-driver-535  535.129.03-0ubuntu0.22.04.1", "ii  libnvidia-compute-535:amd64  535.129.03-0ubuntu0.22.04.1\nii  nvidia-driver-535  535.129.03-0ubuntu0.22.04.1\nrc  nvidia-driver-470  470.223.02-0ubuntu0.22.04.1\nii  nvidia-settings  510.47.03-0ubuntu1"),
    ("wsl-no-module", "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.15.90.1-microsoft-standard-WSL2", "Linux 5.15.90.1-microsoft-standard-WSL2 x86_64, torch 2.9 on cuda:0"),
    ("cuda-error", "CUDA error: cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing", "Capturing CUDA graph shapes: 100%"),
    ("cudnn-newer", "Loaded runtime CuDNN library: 5103 (compatibility version 5100) but source was compiled with 4007 (compatibility version 4000).", "Loaded runtime CuDNN library: 8.1.0 but source was compiled with: 8.2.4."),
    ("cudnn-shadow", "Loaded runtime CuDNN library: 8.1.0 but source was compiled with: 8.2.4.", "Loaded runtime CuDNN library: 90100 but source was compiled with: 8907"),
    ("launcher", "slurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory", "nvidia-container-cli: /dev/nvidia0: No such file or directory"),
    ("module-load", "open /dev/nvidia0: No such file or directory", "slurmd: error: Waiting for gres.conf file /dev/nvidia0\nslurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory"),
    ("paging-file", "ImportError: DLL load failed: The paging file is too small for this operation to complete", "ImportError: DLL load failed: The specified module could not be found."),
    ("framework-broken", "ImportError: DLL load failed: The specified module could not be found.", "ImportError: DLL load failed: The paging file is too small for this operation to complete"),
    ("cudnn-newer", "Loaded runtime CuDNN library: 90100 but source was compiled with 8907", "Loaded runtime CuDNN library: 8907 but source was compiled with 8204"),
    ("toolkit-arch", "nvcc fatal   : Unsupported gpu architecture 'compute_86'", "error: unsupported gpu architecture: gfx1036"),
    ("xla-tools", "error: unsupported gpu architecture: gfx1036", "nvcc fatal   : Unsupported gpu architecture 'compute_86'"),
    ("opencl", "darktable: clGetPlatformIDs(): -1001", "OpenCL: Failed to get number of platforms with clGetPlatformIDs(): -1001"),
    ("torch-no-gpu", "print(torch.cuda.is_available())\nFalse", "torch.cuda.is_available() True"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "message", "other"), NEAR_MISSES)
def test_a_message_that_looks_alike_is_not_taken_for_it(code: str, message: str, other: str) -> None:
    assert findings_of(message)[0].code == code
    assert code not in {finding.code for finding in findings_of(other)}


# The word of the title that names the cause among those of its rule.
CAUSES = [
    ("program-backend", "Unrecognized hwaccel: cuda.", "ffmpeg"),
    ("program-backend", "MXNetError: GPU is not enabled", "MXNet"),
    ("module-upkeep", "ERROR: Kernel configuration is invalid.\n include/generated/autoconf.h or include/config/auto.conf are missing.", "headers"),
    ("kernel-crash", "BUG: kernel NULL pointer dereference in nvidia_drm", "crashed"),
    ("package-tool", "Failed to verify gcc version. See log at /var/log/cuda-installer.log for details.", "compiler"),
    ("driver-mixed", "nvidia-driver-550.54.14-1.el9.x86_64\nkmod-nvidia-latest-dkms-550.54.14-1.el9.x86_64\nnvidia-driver-libs-535.161.07-1.el9.x86_64", "versions"),
    ("wsl-no-module", "E: Unable to locate package linux-headers-5.15.90.1-microsoft-standard-WSL2", "WSL"),
    ("cuda-error", "CUDA error: part or all of the requested memory range is already mapped", "pins"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "message", "word"), CAUSES)
def test_the_cause_of_a_family_is_named(code: str, message: str, word: str) -> None:
    first = findings_of(message)[0]
    assert first.code == code
    assert word in first.title
    assert first.fix


def test_in_wsl_no_step_builds_or_installs_a_driver_of_linux() -> None:
    findings = findings_of(
        "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.10.16.3-microsoft-standard-WSL2"
    )
    steps = [step for finding in findings for step in finding.fix]
    assert any(step.startswith("On Windows install") for step in steps)
    assert not any("dkms" in step or "linux-headers" in step for step in steps)


def test_what_no_rule_knows_gets_a_note_that_says_so() -> None:
    (finding,) = findings_of("numba: error: the flux of provider 7 could not be aligned")
    assert (finding.code, finding.severity) == ("unknown-message", "note")
    assert "compiler for CUDA" in finding.title
    assert "not known" in finding.meaning
    assert finding.fix


def test_a_message_of_a_known_kind_names_its_causes() -> None:
    (finding,) = findings_of("vfio-pci 0000:01:00.0: not ready 65535ms after FLR; giving up")
    assert (finding.code, finding.severity) == ("several-causes", "warning")
    assert "does not show its cause" in finding.meaning
    assert finding.other_causes


def test_a_kind_of_message_is_not_told_beside_a_rule() -> None:
    findings = findings_of(
        "RuntimeError: No CUDA GPUs are available\nvfio-pci 0000:01:00.0: not ready 65535ms after FLR; giving up"
    )
    assert "several-causes" not in {finding.code for finding in findings}


@pytest.mark.parametrize(
    "message",
    [
        "torch 2.9.0, cuda 12.8: 0 errors in 120 steps",
        "mean absolute error on cuda:0: 0.12",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05",
    ],
)
def test_ordinary_lines_of_known_programs_are_no_unknown_messages(message: str) -> None:
    assert "unknown-message" not in {finding.code for finding in findings_of(message)}


def test_the_last_resort_is_silent_beside_any_other_finding() -> None:
    findings = findings_of(
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\njax: failed to start"
    )
    assert findings[0].code == "no-kernel"
    assert "unknown-message" not in {finding.code for finding in findings}


def test_rarer_causes_follow_where_only_the_message_is_known() -> None:
    alone = findings_of('OSError: [WinError 126] The specified module could not be found. Error loading "fbgemm.dll"')[
        0
    ]
    assert alone.fix[0].startswith("winget install")
    assert "libomp140" in answer_of(alone)
    illegal = findings_of("Illegal instruction (core dumped)")[0]
    assert "libomp140" not in answer_of(illegal)
    assert "AVX-512" in answer_of(illegal)


# In order: a message, a word of the answer that its mechanism needs, and one that would be advice for another cause.
MECHANISMS = [
    ("RuntimeError: PyTorch is not linked with support for xpu devices", "+xpu", "intel-opencl-icd"),
    ("ROCk module is NOT loaded, possibly no GPU devices", "built in", "apt-get install -y amdgpu"),
    ("rocBLAS error: Cannot read TensileLibrary.dat: No such file or directory for GPU arch : gfx1036", "HIP_VISIBLE_DEVICES", "HSA_OVERRIDE"),
    ("libGL error: failed to open drm device: Permission denied\nlibGL error: failed to load driver: i965", "video", "NVIDIA"),
    ("libGL error: failed to load driver: iris", "Mesa", "--no-opengl-files"),
    ("libGL error: No matching fbConfigs or visuals found", "flatpak update", "--no-opengl-files"),
    ('OSError: [WinError 126] The specified module could not be found. Error loading "E:\\\\ComfyUI-Zluda\\\\caffe2_nvrtc.dll" or one of its dependencies.', "HIP SDK", "winget"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "needed", "misleading"), MECHANISMS)
def test_the_answer_belongs_to_the_platform_and_vendor(message: str, needed: str, misleading: str) -> None:
    first = findings_of(message)[0]
    answer = "\n".join((first.title, first.meaning, *first.fix))
    assert needed in answer
    assert misleading not in answer


# Near misses of these mechanisms: the ordinary answer remains.
ORDINARY = [
    ("rocBLAS error: Cannot read TensileLibrary.dat: No such file or directory for GPU arch : gfx1031", "HSA_OVERRIDE_GFX_VERSION=10.3.0"),
    ("unable to find an EGL device", "--no-opengl-files"),
    ('OSError: [WinError 126] The specified module could not be found. Error loading "c10.dll" or one of its dependencies.', "winget"),
    ("XPU device count is zero", "libze-intel-gpu1"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "step"), ORDINARY)
def test_the_ordinary_answer_remains(message: str, step: str) -> None:
    assert any(step in each for each in findings_of(message)[0].fix)


def test_a_driver_is_installed_again_only_for_a_card_that_is_listed() -> None:
    failed = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    (finding,) = findings_of(failed)
    assert "remove all driver packages" not in answer_of(finding)
    assert "The card is not on the bus" in answer_of(finding)
    listed = findings_of(
        f"{failed}\n01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD104 [GeForce RTX 4070] [10de:2786] (rev a1)\n\tSubsystem: ASUS\n\tKernel modules: nouveau, nvidia"
    )
    assert any("remove all driver packages" in answer_of(each) for each in listed)


# Whether a finished program failed (then the card is looked at first), or code that is compiled here.
@pytest.mark.parametrize(
    ("message", "card_first"),
    [
        ("CUDA error 'unspecified launch failure' in func 'cuda_daggerhashimoto::run'", True),
        ("CUDA illegal instructions\nUnknown CU result: 700", True),
        ("RuntimeError: CUDA error: unspecified launch failure", False),
    ],
)
def test_an_unspecified_failure_names_the_card_and_the_code(message: str, card_first: bool) -> None:
    (finding,) = findings_of(message)
    assert finding.code == "illegal-access"
    assert ("clocks" in finding.fix[1]) is card_first
    assert "CUDA_LAUNCH_BLOCKING" in (finding.fix[-1] if card_first else finding.fix[1]) or card_first
    assert "unstable or faulty card" in finding.title


def test_an_illegal_address_is_the_code_not_the_card() -> None:
    (finding,) = findings_of("ggml_cuda: CUDA error: an illegal memory access was encountered")
    assert finding.title == "A kernel accessed memory outside its own"


# Families that had no answer: the code, a message, and a word of the answer that names the cause.
FAMILIES = [
    ("driver-reset", "CUDA error = 999at main.cu:196'cudaDeviceSynchronize()", "TdrDelay"),
    ("driver-reset", "Cuda error (err_no=30)", "riser"),
    ("uvm", "CUDA error 999 in func 'cuda_init'", "nvidia_uvm"),
    ("uvm", "Cuda failure: unknown error", "reboot"),
    ("runtime-missing", "could not select device driver with capabilities: [[gpu]]", "nvidia-ctk"),
    ("cpu-package", "CUDA_PATH is set but CUDA wasn't able to be loaded. Please install the correct version of CUDA and cuDNN (onnxruntime)", "cuDNN"),
    ("paging-file", "out of memory, please increase the virtual memory", "paging file"),
    ("rendezvous", "[gloo/transport/tcp/pair.cc:761] connect [127.0.1.1]:60817: Connection refused", "/etc/hosts"),
    ("rendezvous", "gloo/transport/tcp/pair.cc:536] : Connection refused", "MASTER_ADDR"),
    ("jax-build", "RuntimeError: jaxlib is version 0.3.25, but this version of jax requires version >= 0.4.19.", "jaxlib"),
    ("jax-build", "A Google TPU may be present on this machine, but either a TPU-enabled jaxlib or libtpu is not installed. Falling back to cpu.", "jax[tpu]"),
    ("extension-mismatch", "OSError: Could not find compatible tinycudann extension for compute capability 61.", "TCNN_CUDA_ARCHITECTURES"),
    ("toolkit-arch", "nvcc fatal   : Unsupported gpu architecture 'compute_61\nerror: command '/usr/bin/nvcc' failed with exit status 1", "CUDA"),
    ("cuda-shadow", "JitifyException: Runtime compilation failed", "nvrtc"),
    ("cuda-shadow", "/usr/bin/ld: /usr/local/cuda-11.7/lib64/libcublas.so: undefined reference to `cublasLtGetStatusString@libcublasLt.so.11'\ncollect2: error: ld returned 1 exit status", "ln -sf"),
    ("gpu-not-found", "extraction.cc:132] Check failed: num_cuda_devices > 0 (0 vs. 0)", "without CUDA"),
    ("gpu-not-found", "Unable to query CUDA driver version! Is an nVidia driver installed?", "Remote Desktop"),
    ("ascend-environment", "RuntimeError: Ascend kernel runtime initialization failed. The details refer to 'Ascend Error Message'.", "memory"),
    ("graphics-libraries", "loader_scanned_icd_add: Attempt to retrieve 'vk_icdGetInstanceProcAddr' from ICD libGL.so.1 failed.", "libGLX_nvidia.so.0"),
    ("opencl", "ERROR: clGetPlatformIDs() : -1001 : CL_UNKNOWN_ERROR", "runtime"),
    ("harmless", "OpenCL: Failed to get number of platforms with clGetPlatformIDs(): -1001", "Nothing needs to be done"),
    ("framework-broken", "Illegal instruction (core dumped)", "OPENBLAS_CORETYPE"),
    ("cudnn-missing", "Could not load library libcudnn_cnn_infer.so.8", "/usr/lib/wsl/lib"),
    ("cuda-library", "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "another release"),
    ("cuda-mismatch", "The detected CUDA version (10.1) mismatches the version that was used to compile\nPyTorch (11.7). Please make sure to use the same CUDA versions.", "nvidia/label/cuda-"),
    ("container-toolkit", "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.", "/.singularity.d/libs"),
    ("dev-permission", "crw-rw---- 1 root 105     226, 128 Mar 18 13:28 renderD128", "groupadd -g"),
    ("out-of-memory", "error CUDA error: out of memory (network_cudnn.cc:442", "other programs"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "message", "word"), FAMILIES)
def test_a_family_without_an_answer_has_one(code: str, message: str, word: str) -> None:
    first = findings_of(message)[0]
    assert first.code == code
    assert word in answer_of(first)


# Lines of working programs that contain words of these families.
@pytest.mark.parametrize(
    "message",
    [
        "CUDA warning 30 in func 'run': batch size reduced",
        "OpenCL platforms: 1, get platform count: 1",
        "slurmd: gres.conf file read, /dev/nvidia0 found",
        "virtual memory increased to 32 GB",
        "num_cuda_devices = 2",
        "tinycudann 1.7 loaded for compute capability 75",
        "jaxlib is version 0.4.19",
    ],
)
def test_ordinary_lines_near_the_families_get_no_finding(message: str) -> None:
    assert [finding.code for finding in findings_of(message)] == []
