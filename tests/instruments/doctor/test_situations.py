"""Situations: each is found where all of its signs are, and not where one of them is missing."""

from __future__ import annotations

import re

import msgspec
import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.instruments.doctor.rules import find_rule
from ownlab.instruments.doctor.situations import SITUATIONS, with_situation
from ownlab.machine.records import Machine

# The beginning of a situation's title, and a text that shows it; lines are in the form of the tools that print them.
SHOWN: list[tuple[str, str]] = [
    ("Secure Boot is on, and the NVIDIA module", "SecureBoot enabled\nsystemd[1]: Failed to start nvidia-fallback.service - Fallback to nouveau as nvidia did not load."),
    ("The NVIDIA module was not loaded at boot", "systemd[1]: nvidia-fallback.service: Failed with result 'exit-code'."),
    ("This legacy driver branch has ended", "Building module nvidia/340.108 for kernel 6.9.3\nError! Bad return status for module build on kernel: 6.9.3 (x86_64)"),
    ("This old driver branch does not build", "/var/lib/dkms/nvidia/460.91.03/build/nvidia/nv-acpi.c:84:19: error: implicit declaration of function 'acpi_bus_get_device'\nError! Bad return status for module build on kernel: 6.6.8-200.fc39.x86_64"),
    ("The first release of the open kernel modules", "NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x62:0xffff:1861)\nii  nvidia-dkms-515-open  515.48.07-0ubuntu0.22.04.1"),
    ("The driver was upgraded, but the module on disk", "NVRM: API mismatch: the client has the version 560.35.03, but\nNVRM: this kernel module has the version 555.58.02.  Please\nfilename: /lib/modules/6.10.0/updates/dkms/nvidia.ko\nversion:        555.58.02\nlicense:        NVIDIA"),
    ("The card is reserved for virtual machines", "0b:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD104 [GeForce RTX 4070] [10de:2786] (rev a1)\n\tKernel driver in use: vfio-pci\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
    ("The card is AMD's, but torch is the build for NVIDIA", "RuntimeError: Found no NVIDIA driver on your system.\nGPU models and configuration: AMD Radeon RX 7800 XT"),
    ("The NVIDIA driver of Windows is too old", "Linux pc 5.15.153.1-microsoft-standard-WSL2\n| NVIDIA-SMI 472.12  Driver Version: 472.12  CUDA Version: 11.4 |\nRuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"),
    ("A module that works with NVIDIA's", "gdrdrv: module using GPL-only symbols uses symbols nvidia_p2p_get_pages from proprietary module nvidia."),
    ("The container's copy of the driver's libraries", "Linux ct101 6.8.12-4-pve x86_64\nFailed to initialize NVML: Driver/library version mismatch"),
    ("The package was built for a newer CUDA", "torch 2.10.0+cu130\ntorch.cuda.is_available(): False\n| NVIDIA-SMI 560.28.03    Driver Version: 560.28.03    CUDA Version: 12.6 |"),
    ("The installed package is for a newer CUDA than the driver of this hosted", "File /content/train.py, line 3\nRuntimeError: The NVIDIA driver on your system is too old (found version 12040)."),
    ("TensorFlow after 2.10 has no GPU support", "OS: Windows 11 Pro\nTensorFlow version: 2.16.1\nNum GPUs Available: 0"),
    ("A compiler is missing, so the driver's module", "  [ nvidia-modeset ]  CXX src/a.cpp\n/bin/sh: 1: g++: not found\nmake[1]: *** Error 127"),
    ("This Blackwell card needs the open kernel modules", "NVIDIA GeForce RTX 5070\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  575.64\nNo devices were found"),
    ("The image contains a driver library", "FROM ubuntu:24.04\nFailed to initialize NVML: Driver/library version mismatch"),
    ("Harmless: the card does not report", "nvml: FanSpeed() returned Not Supported for GPU 0"),
    ("Harmless: barrier() guesses", "[rank1]: Rank 1 using GPU 1 as device used by this process is currently unknown. This can potentially cause a hang"),
    ("Harmless: nvidia-powerd", "nvidia-powerd[812]: No matching GPU found"),
    ("Harmless: Mesa's Vulkan driver for nouveau", "DRM kernel driver 'nvidia-drm' in use. NVK requires nouveau."),
    ("Harmless: Mesa's Vulkan driver says", "WARNING: radv is not a conformant Vulkan implementation, testing use only. GPU 1"),
    ("Harmless: the image runs on an older driver", "NOTE: CUDA Forward Compatibility mode ENABLED."),
    ("Harmless: the program or the system", "UserWarning: MatMul8bitLt: inputs will be cast from torch.float32 to float16 during quantization"),
    ("SELinux forbids", 'type=AVC msg=audit(1700000000.1:10): avc:  denied  { open } for  pid=99 comm="python3" path="/dev/nvidia0" dev="devtmpfs"\nFailed to initialize NVML: Insufficient Permissions'),
    ("The container's user is not in the group", "docker run --device=/dev/kfd image rocminfo\nUnable to open /dev/kfd read-write: Permission denied"),
    ("Docker on Windows has no /dev/kfd", 'OS: Windows 11\ndocker: Error response from daemon: error gathering device information while adding custom device "/dev/kfd": no such file or directory'),
    ("The service in the Compose file", "docker compose up trainer\ntrainer-1  | RuntimeError: Found no NVIDIA driver on your system."),
    ("While an image is built there is no card", "#14 33.10 RuntimeError: No CUDA GPUs are available\nERROR: failed to solve: process \"/bin/sh -c python warm_up.py\" did not complete successfully: exit code: 1"),
    ("Only administrators may read", "likwid: cuptiProfilerInitialize failed with error 35: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
    ("Colab gives no GPU now", "Cannot connect to GPU backend\nYou cannot currently connect to a GPU due to usage limits in Colab."),
    ("Programs from the Nix or Guix store", "OSError: libcuda.so.1: cannot open shared object file: No such file or directory\n  File \"/nix/store/q1-python3.12-torch/lib/python3.12/site-packages/torch/__init__.py\""),
    ("The image's torch has no code", "docker run --gpus all app:1.2\nNVIDIA RTX PRO 6000 with CUDA capability sm_120 is not compatible with the current PyTorch installation."),
    ("Docker or libseccomp", "OCI runtime create failed: error adding seccomp filter rule for syscall clone3: permission denied: unknown"),
    ("DCGM's host engine", "Error: unable to establish a connection to the specified host: localhost"),
    ("The batch system ended the job", "slurmstepd: error: *** JOB 77 ON gpu03 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***"),
    ("nvidia-smi crashes in WSL", "bash: line 1:   412 Segmentation fault      nvidia-smi\nLinux 5.15.146.1-microsoft-standard-WSL2"),
    ("Harmless: a Jetson has no nvidia-smi", "Linux orin 5.10.120-tegra aarch64\nbash: nvidia-smi: command not found"),
    ("On a Jetson, torch must be", "# R35 (release), REVISION: 4.1, from /etc/nv_tegra_release\nAssertionError: Torch not compiled with CUDA enabled"),
    ("A library of CUDA is missing on this Jetson", "JetPack 6.1 on Jetson Orin Nano\nImportError: libcudnn.so.8: cannot open shared object file: No such file or directory"),
    ("The Jetson's memory", "NvMapMemAllocInternalTagged: 1075072515 error 12\ntorch failed"),
    ("A library computes with instructions", "Linux board 5.4.0 aarch64\n>>> import torch\nIllegal instruction (core dumped)"),
    ("bitsandbytes has no CUDA on a Mac", "/Users/me/lib/python3.11/site-packages/bitsandbytes/cextension.py: UserWarning: The installed version of bitsandbytes was compiled without GPU support."),
    ("A Mac has no CUDA", "macOS 15.1, Apple M3\nAssertionError: Torch not compiled with CUDA enabled"),
    ("The Flatpak runtime", "flatpak run org.blender.Blender\nlibGL error: failed to load driver: nvidia-drm"),
    ("NCCL does not work across MIG", "GPU 0: NVIDIA A100-SXM4-80GB\n  MIG 3g.40gb     Device  0: (UUID: MIG-0a1b2c3d-1111-2222-3333-444455556666)\nncclInvalidUsage: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 7000"),
    ("The MIG instance is named in the old form", "export CUDA_VISIBLE_DEVICES=MIG-GPU-0a1b2c3d-1111-2222-3333-444455556666/1/0\nRuntimeError: No CUDA GPUs are available"),
    ("MIG is on, but the card has no instance", "|  No MIG devices found                                                       |\nRuntimeError: No CUDA GPUs are available"),
    ("This torch counts cards in a way", "CUDA_VISIBLE_DEVICES=MIG-0a1b2c3d-1111-2222-3333-444455556666 python\n>>> torch.cuda.device_count()\n0\n>>> torch.ones(2).cuda()\ntensor([1., 1.], device='cuda:0')"),
    ("A CUDA process sees one MIG instance", "  MIG 1g.10gb Device 0: (UUID: MIG-1)\n  MIG 1g.10gb Device 1: (UUID: MIG-2)\n>>> torch.cuda.device_count()\n1"),
    ("The card's compute mode allows one thread", "    Compute Mode                    : Exclusive_Thread\nCUDA error: all CUDA-capable devices are busy or unavailable"),
    ("Peer-to-peer between these GeForce cards", "Rank 0 device 0 NVIDIA GeForce RTX 4090\nNCCL INFO Channel 01/0 : 1[41000] -> 0[1000] via P2P/IPC\nthe run hangs here, GPU-Util 100 %"),
    ("A mining program's card made an error", "nbminer: device 2 CUDA error: an illegal memory access was encountered, 61.2 MH/s"),
    ("The kernel's compute driver does not support this AMD chip", "kfd kfd: amdgpu: OLAND  not supported in kfd\nhsa api call failure at: rocminfo.cc:1142"),
    ("The kernel's amdgpu driver is older", "HSA Error:  Incompatible kernel and userspace, Navi21 disabled. Upgrade amdgpu."),
    ("ROCm does not see the module amdgpu", "ERROR:root:Driver not initialized (amdgpu not found in modules)"),
    ("HSA_OVERRIDE_GFX_VERSION is set", "export HSA_OVERRIDE_GFX_VERSION=10.3.0\nMemory access fault by GPU node-1 (Agent handle: 0x1) on address 0x7f. Reason: Page not present."),
    ("This build has no code for the graphics in this Ryzen", "  Name:                    gfx1103\nRuntimeError: HIP error: invalid device function"),
    ("This build has no code for this RDNA 3 card", "AMD Radeon RX 7600\nRuntimeError: HIP error: no kernel image is available for execution on the device"),
    ("This build has no code for this RDNA 2 chip", "  Name:                    gfx1032\nhipErrorNoBinaryForGpu: Unable to find code object for all current devices!"),
    ("/dev/kfd belongs to the group render", "crw-rw---- 1 root render 240, 0 /dev/kfd, group render\nuser is member of video group\nHSA_STATUS_ERROR_OUT_OF_RESOURCES"),
    ("Processes of an inference server", "VLLM::EngineCore\nVLLM::Worker_TP0\nGPU memory is still in use"),
    ("The cards allow one process each", "compute mode: Exclusive_Process\ntorchrun --nproc_per_node 2 train.py\nRuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"),
    ("ROCm has no code for this RDNA 1 chip", "  Name:                    gfx1010\nhipErrorNoBinaryForGpu: Unable to find code object for all current devices!"),
    ("This build has no code for this chip (Strix", "  Name:                    gfx1150\nRuntimeError: HIP error: invalid device function"),
    ("Another process holds the TPU", "RuntimeError: tpu: PERMISSION_DENIED: open(/dev/accel0): Operation not permitted"),
    ("torch on Windows has no NCCL", "D:\\\\runs\\\\train.py\nRuntimeError: Distributed package doesn't have NCCL built in"),
    ("This torch has no NCCL", "RuntimeError: Distributed package doesn't have NCCL built in"),
    ("Microsoft's C++ compiler is missing", "subprocess.CalledProcessError: Command '['where', 'cl']' returned non-zero exit status 1."),
    ("torch sees no Intel GPU", ">>> torch.xpu.is_available()\nFalse"),
    ("The libnvJitLink that is loaded", "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkCreate_12_8, version libnvJitLink.so.12"),
    ("libnvrtc does not find", "nvrtc: error: failed to open libnvrtc-builtins.so.12.6.\n  Make sure that libnvrtc-builtins.so.12.6 is installed correctly."),
    ("cuDNN 8 was not found", "Could not load dynamic library 'libcudnn.so.8'; dlerror: libcudnn.so.8: cannot open shared object file"),
    ("TensorFlow 1 was built for CUDA 10", "tensorflow-gpu==1.15.0\nGeForce RTX 3080\nthe first step hangs for 10 minutes"),
    ("Harmless: a distributed program ended", "[rank0]:[W920 ProcessGroupNCCL.cpp:1250] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources."),
    ("Harmless: ONNX Runtime looks", '[W:onnxruntime:Default, device_discovery.cc:164 GetGpuDevices] Failed to detect devices under "/sys/class/drm/card1"'),
    ("Nothing is wrong: nvidia-smi shows the newest", "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 11.8, V11.8.89\nCUDA Version: 12.4"),
    ("Triton's own ptxas", "triton.runtime.errors.PTXASError: ptxas fatal   : Value 'sm_120a' is not defined for option 'gpu-name'"),
    ("The program took a CUDA 13 runtime", "Error: Your NVIDIA GeForce GTX 1080 GPU (compute capability 6.1) is not supported on CUDA 13+."),
    ("faiss on the GPU failed", "Faiss assertion 'err == CUBLAS_STATUS_SUCCESS' failed in virtual void faiss::gpu::StandardGpuResourcesImpl::initializeForDevice(int)"),
    ("The PTX was made by a newer CUDA", "numba: Call to cuLinkAddData results in CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    ("This is WSL 1", "Linux desk 4.4.0-17763-Microsoft #1-Microsoft x86_64 GNU/Linux\n$ sudo modprobe nvidia\nmodprobe: FATAL: Module nvidia not found."),
    ("A card is in TCC mode", "WSL version: 2.1.5.0\n|   0  Quadro GP100            TCC  | 00000000:65:00.0 Off |                    0 |\nFailed to initialize NVML: GPU access blocked by the operating system"),
    ("This build of Windows has no GPU in WSL", "Windows 10 build 19041, Debian in WSL 2\nCUDA error: no CUDA-capable device is detected"),
    ("The text shows no NVIDIA card", "Graphics: Intel UHD Graphics 620\ndocker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]]."),
    ("JAX has no CUDA build for native Windows", "OS: Windows 11 Home\nAn NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed. Falling back to cpu."),
    ("This card is served by a legacy branch that has ended", "NVRM: The NVIDIA GeForce 9400M GPU installed in this system is\nNVRM:  supported through the NVIDIA 340.xx Legacy drivers. Please"),
    ("The card is of a generation that no driver after R340", "NVIDIA Quadro FX 580\ncudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"),
    ("There is no compute_21", "nvcc fatal   : Unsupported gpu architecture 'compute_21'"),
    ("The card is of the Fermi generation", "GeForce GTX 560\nRuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("The kernel accepts only modules that were built with it", "Secure Boot: disabled\nmodprobe: ERROR: could not insert 'nvidia': Key was rejected by service"),
    ("The driver's library and its module differ after a reboot", "Failed to initialize NVML: Driver/library version mismatch\nIt is the same after a reboot."),
    ("The libraries are of one version of the driver", "sh NVIDIA-Linux-x86_64-550.90.07.run --no-kernel-modules\nmake -C open-gpu-kernel-modules-550.54.15 modules_install\nFailed to initialize NVML: Driver/library version mismatch"),
    ("nouveau holds the card: rd.driver", "Command line: root=/dev/sda3 ro rd.driver.blacklist=nouveau quiet\n[    4.100000] nouveau 0000:02:00.0: NVIDIA GP104 (134000a1)"),
    ("The module's package and the driver's package have different versions", "$ rpm -qa '*nvidia*'\nxorg-x11-drv-nvidia-535.104.05-1.fc38.x86_64\nakmod-nvidia-535.98-1.fc38.x86_64"),
    ("The system firmware gave the card no address space (BAR is 0M)", "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:0b:00.0)"),
    ("nouveau uses the NVIDIA card", "nixos kernel: NVRM: The NVIDIA probe routine was not called for 1 device(s).\nnixos kernel: NVRM: This can occur when a driver such as:"),
    ("There is no NVIDIA module for the running kernel, and DKMS", "bash: dkms: command not found\nmodprobe: FATAL: Module nvidia not found in directory /lib/modules/5.4.0-42-generic"),
    ("cc is clang here", "Building DKMS module: nvidia-470.199.02... FAILED!\nlrwxrwxrwx 1 root root 5 /usr/bin/cc -> clang"),
    ("The runtime nvidia is configured", "$ sudo nvidia-ctk runtime configure --runtime=docker\ndocker: Error response from daemon: Unknown runtime specified nvidia."),
    ("The Slurm job was given no GPU", "$ srun -p short nvidia-smi\nNo devices were found"),
    ("A library of Ascend's NNAL", "ImportError: libatb_torch.so: cannot open shared object file: No such file or directory\ntorch_npu 2.5.1"),
    ("The installed NNAL (ATB) is older", "libtorch_npu.so: undefined symbol: _ZN3atb9OperationD1Ev"),
    ("torch_npu and CANN do not belong together", "import torch_npu\nImportError: libtorch_npu.so: undefined symbol: aclrtGetDeviceUtilizationRate"),
    ("The container has no capabilities", "CapEff:\t0000000000000000\ndcmi module initialize failed. ret is -8005"),
    ("Another container or process uses this NPU", "dcmi model initialized failed, because the device is used. ret is -8020"),
    ("In this container the NPU's driver is not reached", "docker run -it --device /dev/davinci2 image npu-smi info\ndcmi module initialize failed. ret is -8005"),
    ("The library of the NPU's driver (DCMI)", "OSError: libdcmi.so: cannot open shared object file: No such file or directory\nnpu-smi"),
    ("The operators were built for another Ascend chip", "[ERROR] the socversion Ascend310P3 of bin package does not match the current device socversion Ascend910B4."),
    ("NumPy 2 is installed, and CANN", "torch_npu with CANN 8.0\nnumpy==2.1.3\nRuntimeError: SetPrecisionMode: NPU function error: error code is 500001"),
    ("The NPUs are visible, but do not start", "custom device npu, visible devices count: 4\nACL error, error code : 507033"),
    ("Another process uses the TPU", "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 4242."),
    ("This TPU VM has no TPU device", "TPU v3-8\nls: cannot access '/dev/accel0': No such file or directory"),
    ("JAX does not find the TPU", "pip install 'jax[tpu]'\nWARNING: No GPU/TPU found, falling back to CPU."),
    ("NCCL's shared host memory", "node7:91:102 [1] transport/shm.cc:612 NCCL WARN Cuda failure 217 'peer access is not supported between these two devices'"),
    ("CUDA_VISIBLE_DEVICES is given a shell variable", "$ CUDA_VISIBLE_DEVICES=$GPU python eval.py\nRuntimeError: no CUDA-capable device is detected"),
    ("MIG instances do not survive", "the node was rebooted\nnvidia-smi -L shows the GPU, but no MIG devices"),
    ("The device plugin may not read", "nvidia-device-plugin: error visiting device: error getting device memory info: Insufficient Permissions"),
    ("The cards cannot be reset, because the module nvidia_drm", "Error applying MIG configuration: error resetting all GPUs: exit status 255\nnvidia_drm             77824  2"),
    ("Processes have the card open that nvidia-smi", "|  No running processes found                                                 |\n/dev/nvidia0:        me       4711 F...m python3"),
    ("PCIe access control (ACS) is on", "ACSCtl: SrcValid+ TransBlk- ReqRedir+\nnccl-tests hang after the first line"),
    ("NCCL gives the other machines the container's own address", "docker run --gpus all -it trainer\nNCCL WARN socketStartConnect: Connect to 172.18.0.4<40123> failed : Connection refused"),
    ("CUDA_VISIBLE_DEVICES names a card", "export CUDA_VISIBLE_DEVICES=3\nRuntimeError: No CUDA GPUs are available"),
    ("Libraries for TensorFlow 2.4", "Could not load dynamic library 'libcusolver.so.10'; dlerror: no such file\nCould not load dynamic library 'libcudnn.so.8'; dlerror: no such file"),
    ("CUDA 13 has no code for this card", "image: serve:1.4-cuda13\nTesla V100-SXM2-32GB\nCUDA error: no kernel image is available for execution on the device"),
    ("The CUDA plug-in of JAX is of another release", "RuntimeError: Unable to initialize backend 'cuda': INVALID_ARGUMENT: Mismatched PJRT plugin PJRT API version (0.60) and framework PJRT API version 0.55)."),
    ("The wheel was built for the other C++ ABI", "pip install attn-2.1+cu121torch2.3cxx11abiTRUE-cp310-cp310-linux_x86_64.whl\n>>> torch._C._GLIBCXX_USE_CXX11_ABI\nFalse\nImportError: attn_cuda.so: undefined symbol: _ZN2at4_ops"),
    ("The cuDNN that is loaded is older", "Loaded runtime CuDNN library: 8.0.4 but source was compiled with: 8.1.0."),
    ("This torch was built for NumPy 1", "RuntimeError: Numpy is not available\nnumpy 2.1.0"),
    ("Harmless: the model says whether the optional", "UserWarning: xFormers is not available (MemEffAttention)"),
    ("Harmless: under Windows' WDDM", "gpu monitor shows WDDM:N/A for each process of the GPU"),
    ("Harmless: Fabric Manager ends", "nvidia-fabricmanager.service: Main process exited, code=exited, status=1/FAILURE\nNVIDIA GeForce RTX 4080"),
    ("This TensorFlow ignores the AMD card although", "Ignoring visible gpu device (device: 0, name: Radeon PRO W6800) with AMDGPU version : gfx1030. The supported AMDGPU versions are gfx908gfx1030, gfx90a."),
    ("This TensorFlow has no code for this AMD chip", "Ignoring visible gpu device (device: 0, name: AMD A8-9600 Radeon R7) with AMDGPU ISA gfx801. The minimum required AMDGPU ISA is gfx803."),
    ("NNAL (ATB) does not fit", "OSError: /usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_0/lib/libatb.so: undefined symbol: _ZN3Mki3LogE"),
    ("torch_npu is older or newer than the program", "AttributeError: module 'torch_npu' has no attribute 'npu_fused_infer_attention'"),
    ("CANN's own Python modules", "[ERROR] TEFUSION ModuleNotFoundError: No module named 'te'"),
    ("cuDNN does not start: the driver is older", "Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED\nPossibly insufficient driver version: 450.80.2"),
    ("cuDNN 9 is installed, and this jaxlib", "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\njaxlib 0.4.20+cuda12.cudnn89\nnvidia-cudnn-cu12 9.3.0.75"),
    ("cuDNN does not start although the card's memory is free", "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\nMemory usage: 23000000000 bytes free, 25000000000 bytes total."),
    ("cuDNN could not start in JAX", "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed."),
    ("The program asks for CUDA, and this machine computes with an Ascend", "torch_npu 2.4.0\nAssertionError: Torch not compiled with CUDA enabled"),
    ("The card is AMD's: the program looks", "GPU 0: AMD Radeon RX 5700\nCUDA: Not detected: Failed to open dynamic library 'nvcuda.dll'"),
    ("This program does not support cards of this age", "RuntimeError: GPUs with compute capability below 7.5 are not supported."),
    ("The package tensorflow-gpu no longer exists", "ERROR: No matching distribution found for tensorflow-gpu==2.15.0"),
    ("TensorFlow sees no GPU: on native Windows", "TensorFlow version: 2.17.0\nGPU available: []"),
    ("Ollama lists the card but has no runner", 'msg="Dynamic LLM libraries" runners=[cpu]\nmsg="inference compute" library=cuda name="NVIDIA A2"'),
    ("The model runs on the CPU", "load_tensors: offloaded 0/33 layers to GPU"),
    ("ROCR_VISIBLE_DEVICES is set beside", 'ollama: msg="user overrode visible devices" ROCR_VISIBLE_DEVICES=1\nNVIDIA A100'),
    ("The program crashes on a Radeon for which", "  Name: gfx1031\nSegmentation fault (core dumped)"),
    ("torch compiles an extension, or waits", "Using /home/me/.cache/torch_extensions as PyTorch extensions root..."),
    ("The cards say that they can reach each other", "Device=0 CAN Access Peer Device=1\nP2P Connectivity Matrix"),
    ("The kernel was started without iommu=pt", 'NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!'),
    ("--gpus stands after the image's name", "docker run -it --rm nvidia/cuda:12.4.1-base-ubuntu22.04 --gpus all\nWARNING: The NVIDIA Driver was not detected."),
    ("Intel's Level Zero driver is not installed", "Load Library of libze_intel_gpu.so.1 failed with libze_intel_gpu.so.1: cannot open shared object file: No such file or directory"),
    ("Harmless: CTranslate2 converts", "[warning] The compute type inferred from the saved model is bfloat16, but the target device or backend do not support efficient bfloat16 computation."),
    ("Windows does not load a DLL of cuDNN", "Could not load library cudnn_ops_infer64_8.dll. Error code 126"),
    ("The module's options give the card's device files", "options nvidia NVreg_DeviceFileUID=0 NVreg_DeviceFileGID=482 NVreg_DeviceFileMode=0660"),
    ("The PTX is of a newer CUDA", "numba.cuda.cudadrv.driver.LinkerError: failed\nptxas application ptx input, line 9; fatal : Unsupported .version 8.4; current version is '8.2'"),
    ("In WSL the toolkit finds an adapter", "dxcore.c:211] Core Nvidia component libnvidia-ml.so.1 not found in /usr/lib/wsl/drivers/iigd_dch.inf_amd64_1"),
    ("ROCm counts the graphics that are part of the CPU", "Agent 2: gfx1036\nAgent 3: gfx1100"),
    ("The extension was compiled with another CUDA", "MMCV CUDA Compiler   10.2\n  - CUDA Runtime 11.3\nno kernel image is available for execution on the device"),
    ("Harmless: llama.cpp could not lock", "warning: failed to mlock 4096-byte buffer (after previously locking 0 bytes): Cannot allocate memory"),
    ("Paddle's CUDA is of another major version", "Please NOTE: device: 0, Driver API Version: 10.2, Runtime API Version: 11.2\nExternalError: CUDA error"),
    ("Paddle finds a cuDNN that is much older", "device: 0, Driver API Version: 11.4, Runtime API Version: 11.2\ndevice: 0, cuDNN Version: 7.6."),
    ("On a Jetson TensorRT comes with JetPack", 'RuntimeError("TensorRT does not currently build wheels for Tegra systems")'),
    ("OpenMM has no plug-in", 'openmm.OpenMMException: There is no registered Platform called "OpenCL"'),
    ("The program was compiled for other cards", "cudaMemcpyToSymbol: SetSim copy to cSim failed invalid device symbol"),
    ("LAMMPS does not reach the card", "ERROR: Could not find/initialize a specified accelerator device (../gpu_extra.h:40)"),
    ("Julia loads CUDA libraries of the system", "Warning: CUDA runtime library `libcufft.so` was loaded from a system path"),
    ("RAPIDS needs a newer CUDA", "UnsupportedCUDAError: Detected CUDA driver version is 11.0. cuDF requires 11.4"),
    ("Windows reset the graphics driver", "Hardware error: LiveKernelEvent Code: 117"),
    ("nvcuda.dll is missing", "The program cannot start because nvcuda.dll is missing from your computer"),
    ("NVIDIA's installer has no driver", "NVIDIA Installer cannot continue"),
    ("Ray has no node with a free GPU", "Warning: The following resource request cannot be scheduled right now: {'CPU': 1.0, 'GPU': 2.0}"),
    ("A shard of the text-generation server", "Error: ShardCannotStart"),
    ("The quantisation library was installed", "NameError: name 'autogptq_cuda_64' is not defined"),
    ("A program asked for a card number", "The supplied GPU IDs do not exist"),
    ("ptxas, a part of the CUDA toolkit", "cuda_driver.cc:302] Unable to find ptxas"),
    ("ND4J (Deeplearning4j) finds no back end", "org.nd4j.linalg.factory.Nd4jBackend$NoAvailableBackendException"),
    ("sycl-ls lists no Intel GPU", "[opencl:0] CPU : Intel(R) OpenCL 3.0 [2022.13.3]\n[host:0] HOST: SYCL host platform 1.2 [1.2]"),
]  # fmt: skip

# Texts with some of a situation's words, about something else.
OTHERS: list[str] = [
    "NVRM: API mismatch: the client has the version 560.35.03, but\nNVRM: this kernel module has the version 555.58.02.\nversion:        560.35.03",
    "firmware:       nvidia/560.35.03/gsp_ga10x.bin\nversion:        560.35.03",
    "torch 2.10.0+cu130\ntorch.cuda.is_available(): False\n| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0 |",
    "torch 2.6.0+cu124\n| NVIDIA-SMI 535.183.01    Driver Version: 535.183.01    CUDA Version: 12.2 |\ntorch.cuda.is_available(): False",
    "OS: Windows 11\nTensorFlow version: 2.10.1\nNum GPUs Available: 0",
    "RuntimeError: Found no NVIDIA driver on your system.\n01:00.0 VGA compatible controller: NVIDIA Corporation GA104\n0a:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Raphael",
    "docker run --gpus all app\nRuntimeError: CUDA error: no kernel image is available for execution on the device\nTesla K80",
    "Illegal instruction (core dumped)\nLinux x86_64",
    "PS C:\\Packages\\SD.Next> .\\venv\\Scripts\\python.exe -m pip uninstall torch xe nvidia\nAssertionError: Torch not compiled with CUDA enabled",
    "Linux 4.4.0-210-generic\nmodprobe: FATAL: Module nvidia not found.",  # a real Ubuntu 16.04, not WSL 1
    "C:\\> nvidia-smi\n|   0  Quadro GP100            TCC  | 00000000:65:00.0 Off |                    0 |\nCUDA error: out of range",
    "Windows 10 build 19045, Debian in WSL 2\nFailed to initialize NVML: unknown",
    "GeForce RTX 4070\nGraphics: Intel UHD Graphics 770\ndocker: could not select device driver \"\" with capabilities: [[gpu]].",
    "NVIDIA RTX A4000\nQuadro FX 580 for the screen\ncudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    "Quadro RTX 4000\nRuntimeError: CUDA error: no kernel image is available for execution on the device",
    "SecureBoot enabled\nmodprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
    "Failed to initialize NVML: Driver/library version mismatch\nI have no reason to restart yet",
    "Failed to initialize NVML: Driver/library version mismatch\nafter a reboot it works",
    "Failed to initialize NVML: Driver/library version mismatch\nIt works again after a reboot",
    "Failed to initialize NVML: Driver/library version mismatch\nI still have to reboot",
    "Failed to initialize NVML: Driver/library version mismatch\n# reboot",
    "sh NVIDIA-Linux-x86_64-550.90.07.run\nmake -C open-gpu-kernel-modules-550.90.07\nFailed to initialize NVML: Driver/library version mismatch",
    "TPU v5e\nls: cannot access '/dev/accel0': No such file or directory",
    "NVS 510\ncudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    "Command line: ro rd.driver.blacklist=nouveau\nNVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.14",
    "akmod-nvidia-550.54.14-1.fc39.x86_64\nxorg-x11-drv-nvidia-550.54.14-1.fc39.x86_64\nnvidia-smi works",
    "docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
    "$ srun --gres=gpu:2 nvidia-smi\nNo devices were found",
    "ImportError: libmki_extra.txt is not a library of torch",
    "Unable to initialize backend 'tpu': UNKNOWN: PJRT API version mismatch of libtpu",
    "NCCL WARN socketStartConnect: Connect to 10.1.0.4<40123> failed : Connection refused",
    "docker run --network=host trainer\nNCCL WARN socketStartConnect: Connect to 172.18.0.4<40123> failed : Connection refused",
    "image: serve:1.4-cuda12\nTesla V100-SXM2-32GB\nCUDA error: no kernel image is available for execution on the device",
    "image: serve:1.4-cuda13\nNVIDIA L4\nCUDA error: no kernel image is available for execution on the device",
    "attn-2.1+cu121torch2.3cxx11abiFALSE-cp310-cp310-linux_x86_64.whl\n>>> torch._C._GLIBCXX_USE_CXX11_ABI\nFalse\nImportError: attn_cuda.so: undefined symbol: _ZN2at4_ops",
    "Loaded runtime CuDNN library: 8.5.0 but source was compiled with: 8.9.2.",
    "nvidia-fabricmanager.service: Main process exited, code=exited, status=1/FAILURE\nDGX A100",
    "CUDA_VISIBLE_DEVICES=0\nRuntimeError: No CUDA GPUs are available",
    "Ignoring visible gpu device (device: 0, name: GeForce GT 730) with Cuda compute capability 3.0. The minimum required Cuda capability is 3.5.",
    "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\nMemory usage: 20000000 bytes free, 25000000000 bytes total.",
    "TensorFlow version: 2.10.1\nGPU available: []",
    "Linux 6.8.0 x86_64-linux-gnu\nTensorFlow version: 2.17.0\nGPU available: []",
    "NVIDIA GeForce RTX 3060 and AMD Radeon graphics\nFailed to open dynamic library 'nvcuda.dll'",
    "load_backend: loaded CUDA backend from libggml-cuda.so\nload_backend: loaded CPU backend from libggml-cpu.so",
    "docker run --gpus all nvidia/cuda:12.4.1-base-ubuntu22.04 nvidia-smi\nWARNING: The NVIDIA Driver was not detected.",
    "[opencl:cpu][opencl:0] Intel(R) OpenCL, CPU\n[level_zero:gpu][level_zero:0] Intel(R) Arc(TM) A770",
    "Radeon RX 6600 XT works\nrocminfo lists gfx1032",
    "ERROR: No matching distribution found for tensorflow==2.9.0",
    "Driver API Version: 12.2, Runtime API Version: 11.2\nExternalError: CUDA error",
    "options nvidia NVreg_DeviceFileMode=0666\nthe GPU works",
    "MMCV CUDA Compiler   11.3\n  - CUDA Runtime 11.3\nno kernel image is available for execution on the device",
    "GPU targets: gfx1100 and gfx1101 are supported by ROCm",
    "GPU 0: AMD Radeon RX 570 is found by OpenMM",
    "RuntimeError: Found GPU0 Tesla M60 which is of compute capability 5.2",
]  # fmt: skip


def first_situation(pasted: str) -> str | None:
    """The title of the situation that a text shows; None if it shows none."""
    first = next(iter(diagnose(read_paste(pasted)).findings), None)
    titles = {situation.title for situation in SITUATIONS}
    return first.title if first is not None and first.title in titles else None


@pytest.mark.parametrize(("title", "pasted"), SHOWN, ids=[title for title, _ in SHOWN])
def test_a_text_with_all_signs_shows_the_situation(title: str, pasted: str) -> None:
    assert (first_situation(pasted) or "").startswith(title)


def test_every_situation_has_an_example() -> None:
    assert [s.title for s in SITUATIONS if not any(s.title.startswith(title) for title, _ in SHOWN)] == []


@pytest.mark.parametrize("pasted", OTHERS)
def test_some_of_the_words_alone_show_none(pasted: str) -> None:
    assert first_situation(pasted) is None


@pytest.mark.parametrize(("title", "pasted"), SHOWN, ids=[title for title, _ in SHOWN])
def test_without_one_of_its_signs_it_is_not_shown(title: str, pasted: str) -> None:
    (situation,) = (s for s in SITUATIONS if s.title.startswith(title))
    flags = re.IGNORECASE | re.MULTILINE
    for sign in situation.signs[1:]:
        rest = "\n".join(line for line in pasted.splitlines() if not re.search(sign, line, flags))
        if rest.strip() and rest != pasted:
            case = read_paste(f"{rest}\nThe GPU")
            assert all(finding.title != situation.title for finding in with_situation(case, []))


def test_each_belongs_to_the_page_of_a_rule_and_gives_steps() -> None:
    for situation in SITUATIONS:
        find_rule(situation.code)
        assert situation.signs
        assert situation.fix
        assert situation.title != situation.meaning


def test_what_a_situation_explains_better_is_left_out() -> None:
    findings = diagnose(
        read_paste("macOS 15.1, Apple M3\nAssertionError: Torch not compiled with CUDA enabled")
    ).findings
    assert [finding.code for finding in findings] == ["mps-absent"]


def test_a_machine_that_was_read_is_left_to_the_rules() -> None:
    case = read_paste("Cannot connect to GPU backend\nusage limits in Colab")
    assert with_situation(case, [])
    assert with_situation(msgspec.structs.replace(case, machine=Machine(origin="live")), []) == []
