"""Messages as programs print them, each pasted alone: the first finding names their cause."""

from __future__ import annotations

import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste

# In order: the code of the first finding, what was pasted.
MESSAGES: list[tuple[str, str]] = [
    # kernel modules and packages, as distributions print them
    ("module-build", "Error! Your kernel headers for kernel 6.8.0-31-generic cannot be found at /lib/modules/6.8.0-31-generic/build or /lib/modules/6.8.0-31-generic/source."),
    ("module-build", "Module build for the currently running kernel was skipped since the\nkernel source for this kernel does not seem to be installed."),
    ("module-build", "ERROR: Unable to find the kernel source tree for the currently running kernel. Please make sure you have installed the kernel source files for your kernel"),
    ("module-build", "Error! Bad return status for module build on kernel: 6.5.0-14-generic (x86_64)\nConsult /var/lib/dkms/nvidia/470.223.02/build/make.log for more information."),
    ("module-build", "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'"),
    ("module-build", "/var/lib/dkms/nvidia/390.157/build/nvidia/nv.c:2311:5: error: implicit declaration of function 'vm_flags_set'"),
    ("module-build", "ERROR: An error occurred while performing the step: \"Building kernel modules\". See /var/log/nvidia-installer.log for details."),
    ("module-build", "Compiler version check failed:\nThe major and minor number of the compiler used to compile the kernel: gcc version 12.3.0 does not match the compiler used here"),
    ("module-load", "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.1.0-13-amd64"),
    ("module-load", "modprobe: ERROR: could not insert 'nvidia': Exec format error"),
    ("module-load", "nvidia: version magic '5.15.0-89-generic SMP mod_unload modversions ' should be '5.15.0-91-generic SMP mod_unload modversions '"),
    ("module-load", "modprobe: ERROR: could not insert 'nvidia': No such device"),
    ("module-load", "ERROR: could not insert 'nvidia_drm': Unknown symbol in module, or unknown parameter (see dmesg)"),
    ("module-load", "nvidia-persistenced failed to initialize. Check syslog for more details."),
    ("module-rejected", "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"),
    ("module-rejected", "modprobe: ERROR: could not insert 'nvidia': Required key not available"),
    ("driver-packages", "The following packages have unmet dependencies:\n nvidia-driver-535 : Depends: nvidia-dkms-535 (<= 535.129.03-1) but it is not going to be installed\nE: Unable to correct problems, you have held broken packages."),
    ("driver-packages", "dpkg: error processing archive libnvidia-compute-470: trying to overwrite '/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1', which is also in package libnvidia-compute-510"),
    ("driver-packages", "E: Unable to locate package nvidia-driver-550"),
    ("driver-installer", "ERROR: You appear to be running an X server; please exit X before installing."),
    ("driver-installer", "ERROR: An NVIDIA kernel module 'nvidia-drm' appears to already be loaded in your kernel. This may be because it is in use (for example, by an X server)"),
    ("driver-installer", "ERROR: The Nouveau kernel driver is currently in use by your system. This driver is incompatible with the NVIDIA driver"),
    ("repository-key", "W: GPG error: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu1804/x86_64 InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY A4B469963BF863CC"),
    ("repository-key", "E: Conflicting values set for option Signed-By regarding source https://nvidia.github.io/libnvidia-container/stable/deb/amd64/ /: /usr/share/keyrings/nvidia-container-toolkit-keyring.gpg != "),
    ("card-unsupported", "NVRM: The NVIDIA GeForce GT 610 GPU installed in this system is\nNVRM:  supported through the NVIDIA 390.xx Legacy drivers. Please\nNVRM:  visit http://www.nvidia.com/object/unix.html for more information."),
    ("card-unsupported", "[    5.1] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1c82)\nNVRM: installed in this system is not supported by the\nNVRM: NVIDIA 590.44.01 driver release."),
    ("pci-resources", "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:03:00.0)"),
    ("pci-resources", "NVRM: request_mem_region failed for 16M @ 0xf6000000. This can\nNVRM: occur when a driver such as rivatv is loaded and claims"),
    ("driver-firmware", "nvidia 0000:01:00.0: Direct firmware load for nvidia/535.54.03/gsp_tu10x.bin failed with error -2"),
    ("driver-firmware", "NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP"),
    ("passthrough", "qemu-system-x86_64: -device vfio-pci,host=01:00.0: vfio 0000:01:00.0: group 14 is not viable\nPlease ensure all devices within the iommu_group are bound to their vfio bus driver."),
    ("passthrough", "vfio-pci 0000:0a:00.0: BAR 1: can't reserve [mem 0xd0000000-0xdfffffff 64bit pref]"),
    ("power-transition", "nvidia 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible"),
    ("power-transition", "NVRM: failed to copy vbios to system memory."),
    ("windows-device", "Windows has stopped this device because it has reported problems. (Code 43)"),
    ("windows-device", "This device cannot start. (Code 10)\nNVIDIA GeForce RTX 3060"),
    # containers and WSL
    ("runtime-missing", "docker: Error response from daemon: Unknown runtime specified nvidia."),
    ("runtime-missing", "Error response from daemon: could not select device driver \"nvidia\" with capabilities: [[gpu]]"),
    ("container-toolkit", "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"),
    ("container-toolkit", "nvidia-container-cli: container error: cgroup subsystem devices not found: unknown."),
    ("container-toolkit", "nvidia-container-cli: mount error: file creation failed: /var/lib/docker/overlay2/abc/merged/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1: file exists: unknown."),
    ("container-toolkit", "nvidia-container-cli: device error: unknown device id: 1: unknown."),
    ("container-toolkit", "nvidia-container-cli: ldcache error: process /sbin/ldconfig.real failed with error code: 1: unknown"),
    ("engine-old", "unknown flag: --gpus\nSee 'docker run --help'."),
    ("engine-old", "services.app.deploy.resources.reservations value Additional properties are not allowed ('devices' was unexpected)"),
    ("docker-desktop", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 500: named symbol not found"),
    ("docker-desktop", "ggml_cuda_init: failed to initialize CUDA: named symbol not found"),
    ("kubernetes", "If this is a GPU node, did you configure the NVIDIA Container Toolkit?\nDetected non-NVML platform: could not load NVML: libnvidia-ml.so.1: cannot open shared object file"),
    ("kubernetes", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
    ("rocm-devices", "Unable to open /dev/kfd read-write: No such file or directory"),
    ("rocm-devices", "ROCk module is NOT loaded, possibly no GPU devices"),
    ("dcgm", "level=fatal msg=\"Error watching fields: The third-party Profiling module returned an unrecoverable error\""),
    ("dcgm", "time=\"2023-03-01\" level=info msg=\"Not collecting DCP metrics: Error getting supported metrics: This request is serviced by a module of DCGM that is not currently loaded\""),
    ("wsl-libraries", "RuntimeError: Failed to dlopen libcuda.so"),
    ("wsl-libraries", "numba.cuda.cudadrv.error.CudaSupportError: Error at driver init: Call to cuInit results in CUDA_ERROR_NO_DEVICE (100)"),
    ("graphics-libraries", "libEGL warning: MESA-LOADER: failed to open swrast\neglInitialize failed"),
    ("graphics-libraries", "vkCreateInstance failed with ERROR_INCOMPATIBLE_DRIVER"),
    ("video-engine", "[h264_nvenc @ 0x55] Driver does not support the required nvenc API version. Required: 12.1 Found: 11.1"),
    ("video-engine", "[h264_nvenc @ 0x5581] Cannot load libnvidia-encode.so.1"),
    ("opencl", "clGetPlatformIDs(): CL_PLATFORM_NOT_FOUND_KHR"),
    ("opencl", "Number of platforms                               0"),
    # packages
    ("cpu-package", "NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend."),
    ("cpu-package", "UserWarning: Specified provider 'CUDAExecutionProvider' is not in available provider names.Available providers: 'CPUExecutionProvider'"),
    ("cpu-package", "ModuleNotFoundError: No module named 'mmcv._ext'"),
    ("cpu-package", "dgl._ffi.base.DGLError: Check failed: allow_missing: Device API gpu is not enabled. Please install the cuda version of dgl."),
    ("extension-mismatch", "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:\n    PyTorch 2.1.0+cu121 with CUDA 1201 (you have 2.2.0+cu118)"),
    ("extension-mismatch", "ModuleNotFoundError: No module named 'amp_C'"),
    ("wheel-missing", "ERROR: Could not find a version that satisfies the requirement torch==1.7.1+cu110 (from versions: 1.11.0, 1.12.0)\nERROR: No matching distribution found for torch==1.7.1+cu110"),
    ("wheel-missing", "ERROR: torch-1.8.0-cp38-cp38-win_amd64.whl is not a supported wheel on this platform."),
    ("jax-build", "RuntimeWarning: JAX plugin jax_cuda12_plugin version 0.4.33 is installed, but it is not compatible with the installed jaxlib version 0.4.34, so it will not be used."),
    ("jax-build", "WARNING:absl:No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and rerun for more info.)"),
    ("mixed-packages", "Package      Version\n------------ ------------\ntorch        2.4.1+cu121\ntorchvision  0.18.1+cu121\n"),
    ("mixed-packages", "torch                    2.6.0+cu124\ntorchvision              0.20.1+cu124\n"),
    ("torch-no-gpu", ">>> import torch\n>>> torch.cuda.is_available()\nFalse"),
    ("torch-no-gpu", "print(torch.cuda.is_available())\nFalse"),
    # builds
    ("extension-build", "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."),
    ("extension-build", "/bin/sh: 1: nvcc: not found"),
    ("extension-build", "fatal error: cuda_runtime.h: No such file or directory"),
    ("extension-build", "error: Microsoft Visual C++ 14.0 or greater is required. Get it with \"Microsoft C++ Build Tools\""),
    ("extension-build", "/usr/include/c++/11/bits/std_function.h:435:145: error: parameter packs not expanded with '...':"),
    ("extension-build", "fatal error: THC/THC.h: No such file or directory"),
    ("compiler-new", "#error -- unsupported GNU version! gcc versions later than 11 are not supported!"),
    ("triton-compiler", "RuntimeError: Failed to find C compiler. Please specify via CC environment variable."),
    ("triton-compiler", "/usr/bin/ld: cannot find -lcuda: No such file or directory"),
    ("xla-tools", "libdevice not found at ./libdevice.10.bc"),
    ("ptx-toolchain", "ptxas application ptx input, line 9; fatal   : Unsupported .version 8.4; current version is '8.0'"),
    ("tensorflow-memory", "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR"),
    ("tensorflow-memory", "UnknownError: Failed to get convolution algorithm. This is probably because cuDNN failed to initialize"),
    ("tensorrt", "ImportError: libnvinfer.so.7: cannot open shared object file: No such file or directory"),
    ("tensorrt", "[TRT] 6: The engine plan file is not compatible with this version of TensorRT, expecting library version 8.2.1.8"),
    ("card-too-old", "RuntimeError: Found Tesla P100-PCIE-16GB which is too old to be supported by the triton GPU compiler, which is used as the backend."),
    ("card-too-old", "ValueError: The quantization method awq is not supported for the current GPU. Minimum capability: 75. Current capability: 70."),
    ("not-supported", "RuntimeError: CUDA error: operation not supported"),
    ("not-supported", "rmm::bad_alloc: std::bad_alloc: CUDA error at: cuda_async_memory_resource.hpp:80: cudaErrorNotSupported operation not supported"),
    ("gpu-not-found", "SystemError: GPU device not found"),
    ("gpu-not-found", "ggml_cuda_init: no CUDA devices found"),
    ("gpu-not-found", "level=INFO msg=\"no compatible GPUs were discovered\""),
    # memory and limits
    ("leftover-process", "|    1   N/A  N/A     23211      C   python3                          22781MiB |"),
    ("leftover-process", "|    0     13407    C   /usr/bin/python                            10961MiB |"),
    ("fragmentation", "{'device': 0, 'segment_type': 'large', 'total_size': 11643387904, 'blocks': [{'size': 10, 'state': 'inactive'}]}"),
    ("fragmentation", "'state': 'active_allocated'"),
    ("paging-file", "OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading \"cudnn_cnn_infer64_8.dll\""),
    ("paging-file", "RuntimeError: Couldn't open shared file mapping: <torch_13684_4004974554>, error code: <1455>"),
    ("process-limits", "RuntimeError: received 0 items of ancdata"),
    ("process-limits", "OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already initialized."),
    ("mig-instances", "RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at \"../aten/src/ATen/cuda/CUDAContext.cpp\":50"),
    ("mig-instances", "Unable to enable MIG Mode for GPU 00000000:07:00.0: In use by another client"),
    # several cards and machines
    ("memlock", "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory"),
    ("memlock", "UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory : Please set max locked memory (ulimit -l) to 'unlimited'"),
    ("nccl-setup", "NCCL WARN Bootstrap : no socket interface found"),
    ("nccl-setup", "NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000"),
    ("rendezvous", "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."),
    ("rendezvous", "torch.distributed.DistNetworkError: The client socket has timed out after 600s while trying to connect to (10.0.0.4, 29500)."),
    # other vendors
    ("rocm-atomics", "kfd kfd: amdgpu: skipped device 1002:7300, PCI rejects atomics 730<0"),
    ("rocm-atomics", "amdgpu 0000:03:00.0: amdgpu: PCIE atomic ops is not supported"),
    ("rocm-libraries", "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: Illegal seek for GPU arch : gfx1103"),
    ("rocm-libraries", "RuntimeError: No HIP GPUs are available"),
    ("rocm-wsl", "WSL environment detected.\nhsa api call failure at: rocminfo.cc:1282\nCall returned HSA_STATUS_ERROR_OUT_OF_RESOURCES"),
    ("rocm-wsl", "WSL environment detected.\nHSA_STATUS_ERROR: A generic error has occurred."),
    ("amd-fault", "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=3, emitted seq=5"),
    ("amd-fault", "Memory access fault by GPU node-1 (Agent handle: 0x5) on address 0x7f. Reason: Page not present or supervisor privilege."),
    ("ascend-environment", "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory"),
    ("ascend-environment", "ModuleNotFoundError: No module named 'torch_npu._C'"),
    ("tpu", "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 1234. Not attempting to load libtpu.so in this process."),
    ("tpu", "RuntimeError: tensorflow/compiler/xla/xla_client/computation_client.cc:280 : Missing XLA configuration"),
    ("intel-gpu", "RuntimeError: XPU device count is zero!"),
    ("intel-gpu", "RuntimeError: Native API failed. Native API returns: -30 (PI_ERROR_INVALID_VALUE) -30 (PI_ERROR_INVALID_VALUE)"),
    # hardware, clusters, libraries
    ("card-fault", "WARNING: infoROM is corrupted at gpu 0000:01:00.0"),
    ("card-fault", "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0\nPCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"),
    ("cluster", "sbatch: error: Batch job submission failed: Invalid generic resource (gres) specification"),
    ("cluster", "CUDA_VISIBLE_DEVICES=NoDevFiles"),
    ("mps-server", "RuntimeError: CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server"),
    ("mps-server", "CUDA_ERROR_MPS_CONNECTION_FAILED"),
    ("cuda-shadow", "RuntimeError: CUDA error: CUDA driver is a stub library"),
    ("cuda-shadow", "OSError: /usr/lib/x86_64-linux-gnu/libcublas.so.11: undefined symbol: cublasLtHSHMatmulAlgoInit, version libcublasLt.so.11"),
    ("cuda-library", "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR"),
    ("cuda-library", "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
    ("device-request", "ValueError: Tensor parallel size (2) cannot be larger than the number of available GPUs (1)"),
    ("device-request", "RuntimeError: Failed to infer device type"),
    ("mps-limits", "RuntimeError: MPS backend out of memory (MPS allocated: 18.00 GB, other allocations: 4.0 GB, max allowed: 18.13 GB)"),
    ("mps-limits", "NotImplementedError: The operator 'aten::_fft_r2c' is not currently implemented for the MPS device."),
    ("mismatch", "kernel version 435.21.0 does not match DSO version 440.100.0 -- cannot find working devices in this configuration"),
    ("jax-build", "CUDA backend failed to initialize: Found cuDNN version 8600, but JAX was built against version 8900, which is newer."),
    ("bitsandbytes", "CUDA_SETUP: WARNING! libcudart.so not found in any environmental path. Searching in backup paths...\nRuntimeError: CUDA Setup failed despite GPU being available."),
    ("launch-timeout", "RuntimeError: CUDA error: the launch timed out and was terminated"),
    ("launch-timeout", "CUDA_ERROR_LAUNCH_TIMEOUT: the launch timed out and was terminated"),
    ("package-conflict", "xformers 0.0.22 requires torch==2.0.1, but you have torch 2.1.0 which is incompatible."),
    ("package-conflict", "PackagesNotFoundError: The following packages are not available from current channels:\n  - cudatoolkit=11.8"),
    ("system-library", "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"),
    ("system-library", "OSError: /lib/aarch64-linux-gnu/libgomp.so.1: cannot allocate memory in static TLS block"),
    ("extension-build", "error: subprocess-exited-with-error\n  × python setup.py egg_info did not run successfully.\nModuleNotFoundError: No module named 'torch'"),
    ("extension-build", "RuntimeError: Unknown CUDA arch (8.6) or GPU not supported"),
    ("uvm", "cudaGetDeviceCount returned 999\n-> unknown error"),
    ("driver-old", "cudaGetDeviceCount returned 35\n-> CUDA driver version is insufficient for CUDA runtime version"),
    ("no-visible-gpu", "cuInit(0) failed with error 100"),
    ("module-flavour", "NVRM: installed in this system requires use of the NVIDIA open kernel modules.\nnvidia: probe of 0000:01:00.0 failed with error -1"),
    # what looks like an error and is none
    ("harmless", "UserWarning: 1Torch was not compiled with flash attention."),
    ("harmless", "E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered"),
    ("harmless", "W: Possible missing firmware /lib/firmware/i915/tgl_guc_70.1.1.bin for module i915"),
    ("harmless", "successful NUMA node read from SysFS had negative value (-1), but there must be at least one NUMA node, so returning NUMA node zero"),
    ("harmless", "nvidia: module verification failed: signature and/or required key missing - tainting kernel"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "message"), MESSAGES, ids=[f"{code}-{number}" for number, (code, _) in enumerate(MESSAGES)]
)
def test_a_message_alone_has_its_cause_as_the_first_finding(code: str, message: str) -> None:
    diagnosis = diagnose(read_paste(message))
    first = diagnosis.findings[0]
    assert first.code == code
    assert first.fix
    assert first.evidence


def test_harmless_notices_alone_have_a_verdict() -> None:
    verdict = diagnose(read_paste("UserWarning: 1Torch was not compiled with flash attention.")).verdict
    assert "harmless" in verdict.sentence


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 23.69 GiB in total",
        "Successfully installed torch-2.11.0 torchvision-0.26.0",
        "INFO: loaded 12 shards in 4.2 s on cuda:0",
    ],
)  # fmt: skip
def test_normal_output_has_none_of_these_findings(message: str) -> None:
    known = {code for code, _ in MESSAGES}
    assert {finding.code for finding in diagnose(read_paste(message)).findings} & known == set()
