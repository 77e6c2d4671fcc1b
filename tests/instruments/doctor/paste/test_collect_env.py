"""Environment reports in the layouts of several programs and versions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Machine

Read = Callable[[str], Machine]
TorchOf = Callable[[Machine], Framework]
CardsOf = Callable[[Machine], tuple[Card, ...]]


def test_everything_in_a_linux_report(linux: str, read: Read, torch_of: TorchOf, cards_of: CardsOf) -> None:
    machine = read(linux)
    torch, host = torch_of(machine), machine.host
    assert machine.origin == "pasted"
    assert machine.nvidia.driver == Known("535.104.05", "pasted collect_env")
    assert isinstance(machine.nvidia.cuda, Unknown)  # collect_env does not have it
    assert [value_of(card.name) for card in cards_of(machine)] == ["NVIDIA A100-SXM4-80GB"] * 2
    assert [value_of(card.mig) for card in cards_of(machine)] == [None, True]
    assert [value_of(instance.profile) for instance in value_of(cards_of(machine)[1].mig_instances) or ()] == [
        "3g.40gb",
        "2g.20gb",
    ]
    assert all(isinstance(card.compute_capability, Unknown) for card in cards_of(machine))
    assert (value_of(torch.version), value_of(torch.build), value_of(torch.cuda)) == ("2.4.0+cu121", "cuda", "12.1")
    assert [device.kind for device in value_of(torch.devices) or ()] == ["cuda", "cuda"]
    assert value_of(host.system) == "Ubuntu 22.04.4 LTS"
    assert value_of(host.kernel) == "5.15.0-107-generic"
    assert (value_of(host.libc), value_of(host.family), value_of(host.package_manager)) == (
        "glibc 2.35",
        "linux",
        "apt",
    )
    assert value_of(host.virtualisation) == "kvm"
    assert (value_of(host.cpu.logical_cores), value_of(host.cpu.physical_cores)) == (80, 40)
    assert value_of(host.cpu.model) == "Intel Xeon Processor (Icelake)"
    assert value_of(machine.interpreter.version) == "3.10.12"
    assert value_of(machine.toolkits.nvcc) == "12.4.131"
    installs = {
        install.path: (value_of(install.version), install.origin) for install in value_of(machine.toolkits.cudnn) or ()
    }
    assert installs == {
        "/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7": ("8.9.7", "system"),
        "/usr/local/cuda-9.0/lib64/libcudnn.so.7": ("7", "system"),
        "nvidia-cudnn-cu12": ("9.1.0.70", "wheel"),
    }
    names = [package.name for package in value_of(machine.interpreter.packages) or ()]
    assert names == ["numpy", "nvidia-cudnn-cu12", "nvidia-nccl-cu12", "torch"]


def test_a_report_is_not_a_message(linux: str) -> None:
    case = read_paste(linux + "\nRuntimeError: CUDA error: out of memory\n")
    assert [message.text for message in case.messages] == ["RuntimeError: CUDA error: out of memory"]
    assert case.recognised == ("torch collect_env", "error text")
    assert case.missing == ()


@pytest.mark.parametrize(
    ("lines", "build", "cuda", "devices"),
    [
        # torch.version.cuda is None: "None" where nothing of CUDA was found, else "Could not collect"
        (("2.4.0+cpu", "None", "N/A", "False"), "cpu", None, 0),
        (("2.2.2", "Could not collect", "N/A", "False"), "cpu", None, 0),
        (("1.6.0", "10.2", None, "No"), "cuda", "10.2", 0),
        (("1.2.0.dev20190526", "9.0.176", None, "Yes"), "cuda", "9.0.176", 1),
        (("2.5.0+rocm6.2", "N/A", "6.2.41133-dd7f95766", "True"), "rocm", None, 1),
    ],
)
def test_the_build_in_the_version_of_torch(
    lines: tuple[str, str, str | None, str], build: str, cuda: str | None, devices: int, read: Read, torch_of: TorchOf
) -> None:
    version, built, rocm, available = lines
    text = f"PyTorch version: {version}\nCUDA used to build PyTorch: {built}\n"
    text += f"ROCM used to build PyTorch: {rocm}\n" if rocm else ""
    text += f"Is CUDA available: {available}\nGPU models and configuration: GPU 0: Tesla V100-PCIE-16GB\n"
    torch = torch_of(read(text))
    assert (value_of(torch.build), value_of(torch.cuda)) == (build, cuda)
    assert len(value_of(torch.devices) or ()) == devices
    assert isinstance(torch.devices, Known)


def test_uncollected_facts_are_unknown_with_their_message(read: Read, torch_of: TorchOf) -> None:
    machine = read(
        "PyTorch version: 2.5.1+cu124\nCUDA used to build PyTorch: 12.4\nROCM used to build PyTorch: N/A\n"
        "Is CUDA available: False\nCUDA runtime version: Could not collect\nGPU models and configuration: No CUDA\n"
        "Nvidia driver version: Could not collect\ncuDNN version: Could not collect (Should be v7.4.1.5 for cuda-9.1.85)\n"
    )
    assert machine.nvidia.driver == Unknown('collect_env reports "Could not collect"')
    assert isinstance(machine.nvidia.smi, Unknown)
    assert "did not work for collect_env" in machine.nvidia.smi.reason
    assert isinstance(machine.cards, Unknown)
    assert "No CUDA" in machine.cards.reason
    assert isinstance(machine.toolkits.nvcc, Unknown)
    assert isinstance(machine.toolkits.cudnn, Unknown)
    assert value_of(torch_of(machine).devices) == ()


def test_torch_that_cannot_be_imported(read: Read, torch_of: TorchOf) -> None:
    report = (
        "PyTorch version: N/A\nCUDA used to build PyTorch: N/A\nIs CUDA available: N/A\nNvidia driver version: 390.12\n"
    )
    assert value_of(read(report).interpreter.frameworks) == ()  # not installed
    broken = torch_of(read(report + "[conda] torch                     1.0.0a0+db5d313           <pip>\n"))
    assert broken.failure == "import"
    assert isinstance(broken.version, Unknown)


def test_vllm_layout_with_variables(read: Read, torch_of: TorchOf, cards_of: CardsOf) -> None:
    rule = "=" * 30
    text = f"""\
{rule}
       PyTorch Info
{rule}
PyTorch version              : 2.7.0+cu128
CUDA used to build PyTorch   : 12.8
{rule}
       CUDA / GPU Info
{rule}
Is CUDA available            : True
CUDA runtime version         : 12.8.93
GPU models and configuration :
GPU 0: NVIDIA B200
GPU 1: NVIDIA B200

Nvidia driver version        : 575.57.08
{rule}
         vLLM Info
{rule}
ROCM Version                 : Could not collect
vLLM Version                 : 0.9.1
vLLM Build Flags:
  CUDA Archs: Not Set; ROCm: Disabled; Neuron: Disabled
GPU Topology:
        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    0-27            0               N/A
NIC Legend:

  NIC0: mlx5_4

{rule}
     Environment Variables
{rule}
NVIDIA_VISIBLE_DEVICES=all
NVIDIA_REQUIRE_CUDA=cuda>=12.8 brand=unknown,driver>=470,driver<471
CUDA_VISIBLE_DEVICES=1
LD_LIBRARY_PATH=/usr/local/cuda/lib64
SOME_SECRET=hunter2
"""
    machine = read(text)
    assert len(cards_of(machine)) == 2
    assert value_of(torch_of(machine).cuda) == "12.8"
    assert value_of(machine.host.container) == "container"
    variables = {variable.name: variable for variable in value_of(machine.environment) or ()}
    assert "SOME_SECRET" not in variables
    assert "card 1" in variables["CUDA_VISIBLE_DEVICES"].meaning
    assert "not known here" in variables["LD_LIBRARY_PATH"].meaning
    assert read_paste(text).messages == ()


def test_sglang_layout(read: Read, torch_of: TorchOf, cards_of: CardsOf) -> None:
    machine = read(
        "Python: 3.12.9 | packaged by Anaconda, Inc. | (main, Feb  6 2025, 18:56:27) [GCC 11.2.0]\n"
        "CUDA available: True\nGPU 0,1,2,3: NVIDIA GeForce RTX 5090\nGPU 0,1,2,3 Compute Capability: 12.0\n"
        "CUDA_HOME: /usr\nNVCC: Cuda compilation tools, release 12.2, V12.2.140\nCUDA Driver Version: 570.144\n"
        "PyTorch: 2.7.0+cu126\nsglang: 0.4.6.post2\nsgl_kernel: Module Not Found\ntriton: 3.3.0\nNVIDIA Topology:\n"
        "        GPU0    GPU1    CPU Affinity\nGPU0     X      NODE\nHypervisor vendor: KVM\nulimit soft: 1048576\n"
    )
    assert [value_of(card.compute_capability) for card in cards_of(machine)] == ["12.0"] * 4
    assert value_of(machine.nvidia.driver) == "570.144"
    assert value_of(machine.toolkits.nvcc) == "12.2.140"
    assert (value_of(torch_of(machine).build), value_of(torch_of(machine).cuda)) == ("cuda", "12.6")
    assert value_of(machine.host.virtualisation) == "kvm"


def test_transformers_layout(read: Read, torch_of: TorchOf) -> None:
    machine = read(
        "- `transformers` version: 4.44.2\n- Platform: Linux-6.5.0-35-generic-x86_64-with-glibc2.35\n- Python version: 3.10.12\n"
        "- PyTorch version (GPU?): 2.4.0+cu121 (True)\n- Tensorflow version (GPU?): not installed (NA)\n"
        "- GPU type: NVIDIA GeForce RTX 4090\n"
    )
    assert value_of(torch_of(machine).version) == "2.4.0+cu121"
    assert [device.name for device in value_of(torch_of(machine).devices) or ()] == ["NVIDIA GeForce RTX 4090"]
    assert value_of(machine.host.kernel) == "6.5.0-35-generic"


def test_rocm_names_only_the_first_card(read: Read, cards_of: CardsOf) -> None:
    report = "PyTorch version: 2.4.1\nCUDA used to build PyTorch: N/A\nROCM used to build PyTorch: 6.3.2\nIs CUDA available: True\n"
    machine = read(
        report + "GPU models and configuration: AMD Instinct MI250X (gfx90a:sramecc+:xnack-)\nROCM Version: 6.2.41134\n"
    )
    (card,) = cards_of(machine)
    assert (card.vendor, value_of(card.name), value_of(card.architecture)) == ("amd", "AMD Instinct MI250X", "gfx90a")
    assert isinstance(machine.cards, Known)
    assert "first card only" in machine.cards.source
    assert value_of(machine.amd.rocm) == "6.2.41134"
    (hygon,) = cards_of(read(report + "GPU models and configuration: K100_AI (gfx928:sramecc+:xnack-)\n"))
    assert hygon.vendor == "hygon"


def test_xpu(read: Read, torch_of: TorchOf, cards_of: CardsOf) -> None:
    machine = read(
        "PyTorch version: 2.13.0+xpu\nCUDA used to build PyTorch: None\nROCM used to build PyTorch: N/A\nIs CUDA available: False\n"
        "GPU models and configuration: No CUDA\nNvidia driver version: No CUDA\nIs XPU available: True\n"
        "XPU used to build PyTorch: 20260000\nIntel GPU driver version:\n* libze1:       1.32.0\nIntel GPU models onboard:\n"
        "* Intel(R) Arc(TM) Pro B60 Graphics\n* Intel(R) Arc(TM) Pro B60 Graphics\nIntel GPU models detected:\n"
        "* [0] _XpuDeviceProperties(name='Intel(R) Arc(TM) Pro B60 Graphics', type='gpu')\n"
    )
    assert [card.vendor for card in cards_of(machine)] == ["intel", "intel"]
    assert value_of(torch_of(machine).build) == "xpu"
    assert [device.kind for device in value_of(torch_of(machine).devices) or ()] == ["xpu", "xpu"]


def test_macos_reports_do_not_show_mps(read: Read, torch_of: TorchOf, cards_of: CardsOf) -> None:
    text = (
        "PyTorch version: 2.5.1\nCUDA used to build PyTorch: None\nROCM used to build PyTorch: N/A\n\nOS: macOS 14.7.3 (arm64)\n"
        "Python platform: macOS-14.7.3-arm64-arm-64bit\nIs CUDA available: False\nGPU models and configuration: No CUDA\n"
        "\nCPU:\nApple M2 Pro\n"
    )
    machine = read(text)
    assert isinstance(torch_of(machine).build, Unknown)
    assert isinstance(torch_of(machine).devices, Unknown)
    assert [(card.vendor, value_of(card.name)) for card in cards_of(machine)] == [("apple", "Apple M2 Pro")]
    assert value_of(machine.host.family) == "darwin"
    assert read_paste(text).missing == ()


def test_ascend_is_not_taken_for_cuda(read: Read, torch_of: TorchOf) -> None:
    text = (
        "PyTorch version: 2.1.0\nCUDA used to build PyTorch: Could not collect\nROCM used to build PyTorch: N/A\n"
        "Is CUDA available: True\nGPU models and configuration: Could not collect\nNvidia driver version: Could not collect\n"
        "[pip3] torch==2.1.0\n[pip3] torch-npu==2.1.0.post10\n"
    )
    assert isinstance(torch_of(read(text)).build, Unknown)
    assert isinstance(torch_of(read(text)).devices, Unknown)
    assert read_paste(text).missing == ("the output of `npu-smi info`",)


def test_a_jetson_has_an_unnamed_device(read: Read, torch_of: TorchOf) -> None:
    machine = read(
        "PyTorch version: 2.0.0a0+ec3941ad.nv23.02\nCUDA used to build PyTorch: 11.4\nIs CUDA available: True\n"
        "GPU models and configuration: Could not collect\nNvidia driver version: Could not collect\n"
    )
    assert len(value_of(torch_of(machine).devices) or ()) == 1


def test_windows_with_a_mangled_name(read: Read) -> None:
    machine = read(
        "PyTorch version: 1.3.0a0+de394b6\nCUDA used to build PyTorch: 10.0\n\nOS: Њ ©Єа®б®дв Windows 10 Pro\n\nPython version: 3.6\n"
        "cuDNN version: C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v10.0\\bin\\cudnn64_7.dll\n\nCPU:\nArchitecture=9\n"
        "Name=Intel(R) Core(TM) i7-10700 CPU @ 2.90GHz\nRevision=\n"
    )
    assert (value_of(machine.host.system), value_of(machine.host.family)) == ("Windows 10 Pro", "windows")
    assert [value_of(install.version) for install in value_of(machine.toolkits.cudnn) or ()] == ["7"]
    assert value_of(machine.host.cpu.model) == "Intel(R) Core(TM) i7-10700 CPU @ 2.90GHz"
    assert value_of(machine.host.cpu.architecture) == "x86_64"


def test_wsl_and_a_chinese_lscpu(read: Read) -> None:
    machine = read(
        "Python platform: Linux-5.15.153.1-microsoft-standard-WSL2-x86_64-with-glibc2.39\n\nCPU:\n"
        "架构：                                x86_64\nCPU:                                  28\n"
        "型号名称：                            Intel(R) Xeon(R) Platinum 8336C CPU @ 2.30GHz\n每个座的核数：      28\n"
        "座：                                  1\n超管理器厂商：                        Microsoft\n"
    )
    assert value_of(machine.host.virtualisation) == "wsl2"
    assert value_of(machine.host.cpu.model) == "Intel(R) Xeon(R) Platinum 8336C CPU @ 2.30GHz"
    assert (value_of(machine.host.cpu.logical_cores), value_of(machine.host.cpu.physical_cores)) == (28, 28)


def test_pieces_of_a_report_are_joined_and_a_second_report_is_ignored(
    linux: str, read: Read, torch_of: TorchOf
) -> None:
    first, second = linux.split("GPU models and configuration:")
    cut = f"{first}\nUserWarning: something in between\nGPU models and configuration:{second}"
    assert torch_of(read(cut)) == torch_of(read(linux))
    other = linux.replace("2.4.0+cu121", "2.9.0+cu130").replace("535.104.05", "580.95.05")
    both = read(f"{linux}\nNow on the other machine:\n{other}")
    assert value_of(torch_of(both).version) == "2.4.0+cu121"
    assert value_of(both.nvidia.driver) == "535.104.05"


def test_the_cudnn_of_a_conda_build(read: Read, torch_of: TorchOf) -> None:
    machine = read(
        "PyTorch version: 1.9.1\nCUDA used to build PyTorch: 11.1\n"
        "[conda] pytorch                   1.9.1           py3.8_cuda11.1_cudnn8.0.5_0    pytorch\n"
    )
    assert value_of(torch_of(machine).cudnn) == "8.0.5"
