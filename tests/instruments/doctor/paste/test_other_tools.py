"""Reports of other tools: AMD's, Ascend's, Intel's; nvcc, lspci, lists of packages, torch's configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Machine, PciDevice
from ownlab.units import MIB

Read = Callable[[str], Machine]
TorchOf = Callable[[Machine], Framework]
CardsOf = Callable[[Machine], tuple[Card, ...]]


def test_npu_smi_info(pastes: Path, read: Read, cards_of: CardsOf) -> None:
    text = next((pastes / "npu_smi").glob("*910b4*.txt")).read_text()
    machine = read(f"[root@node ~]# npu-smi info\n{text}\nwords after it")
    assert {card.vendor for card in cards_of(machine)} == {"huawei"}
    assert isinstance(machine.ascend.driver, Known)
    assert read_paste(text).missing[0].startswith("the output of `python")


def test_the_tools_of_amd(pastes: Path, read: Read, cards_of: CardsOf) -> None:
    for path in sorted((pastes / "amd").iterdir()):
        machine = read(path.read_text())
        assert {card.vendor for card in cards_of(machine)} == {"amd"}, path
    (card,) = cards_of(
        read('{"card0": {"GPU ID": "0x73df", "VRAM Total Memory (B)": "12868124672", "Card series": "Navi 22"}}')
    )
    assert (value_of(card.name), value_of(card.memory_total)) == ("Navi 22", 12868124672)


def test_errors_inside_a_report_are_messages() -> None:
    rule = "=" * 20
    case = read_paste(
        f"{rule} ROCm System Management Interface {rule}\nERROR: 15 GPU[0]: power: Data was not of the type that was expected\n"
        "GPU  Temp  AvgPwr  SCLK  MCLK  Fan   Perf     PwrCap       VRAM%  GPU%\n"
        f"0    N/A   N/A     None  None  0.0%  unknown  Unsupported    0%   0%\n{rule} End of ROCm SMI Log {rule}\n"
    )
    assert [message.text for message in case.messages] == [
        "ERROR: 15 GPU[0]: power: Data was not of the type that was expected"
    ]


def test_xpu_smi(read: Read, cards_of: CardsOf) -> None:
    (card,) = cards_of(
        read(
            "+-----------+----------------------------------------------+\n| Device ID | Device Information                           |\n"
            "+-----------+----------------------------------------------+\n| 0         | Device Name: Intel(R) Arc(TM) Pro B60        |\n"
            "|           | PCI BDF Address: 0000:17:00.0                |\n"
        )
    )
    assert (card.vendor, value_of(card.name), value_of(card.bus_id)) == (
        "intel",
        "Intel(R) Arc(TM) Pro B60",
        "0000:17:00.0",
    )


def test_nvcc(read: Read) -> None:
    machine = read(
        "nvcc fatal: Unsupported gpu architecture 'compute_89'\nnvcc: NVIDIA (R) Cuda compiler driver\n"
        "Copyright (c) 2005-2021 NVIDIA Corporation\nBuilt on Thu_Nov_18_09:45:30_PST_2021\n"
        "Cuda compilation tools, release 11.5, V11.5.119\nBuild cuda_11.5.r11.5/compiler.30672275_0\n"
    )
    assert machine.toolkits.nvcc == Known("11.5.119", "pasted nvcc --version")


def test_lspci(read: Read) -> None:
    text = (
        "01:00.0 VGA compatible controller: NVIDIA Corporation GM204 [GeForce GTX 970] (rev a1) (prog-if 00 [VGA controller])\n"
        "\tSubsystem: eVga.com. Corp. Device 1972\n\tKernel driver in use: nouveau\n\tKernel modules: nouveau, nvidia_drm, nvidia\n"
        "02:00.0 Ethernet controller: Intel Corporation I210\n\tKernel driver in use: igb\n"
        "0000:41:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2335] (rev a1)\n"
    )
    assert value_of(read(text).host.pci) == (
        PciDevice("0000:01:00.0", "10de", "", "display", "nouveau"),
        PciDevice("0000:41:00.0", "10de", "2335", "3d", None),
    )
    assert read_paste(text).messages == ()


def test_lists_of_packages(read: Read, torch_of: TorchOf) -> None:
    freeze = read("numpy==1.26.4\ntorch==2.1.0+cu118\nnvidia-cudnn-cu11==8.7.0.84\nrequests==2.0\n")
    assert (value_of(torch_of(freeze).version), value_of(torch_of(freeze).cuda)) == ("2.1.0+cu118", "11.8")
    assert [value_of(install.version) for install in value_of(freeze.toolkits.cudnn) or ()] == ["8.7.0.84"]
    assert isinstance(torch_of(freeze).devices, Unknown)
    listed = read(
        "Package            Version\n------------------ -----------\ntorch              2.1.0\ntensorflow         2.15.0\n"
    )
    assert [framework.name for framework in value_of(listed.interpreter.frameworks) or ()] == ["torch", "tensorflow"]
    assert isinstance((value_of(listed.interpreter.frameworks) or ())[0].build, Unknown)
    shown = read("Name: torch\nVersion: 2.2.2+cpu\nSummary: Tensors and Dynamic neural networks\nLocation: /x\n")
    assert value_of(torch_of(shown).build) == "cpu"


def test_an_imported_version_wins_over_a_listed_one(linux: str, read: Read, torch_of: TorchOf) -> None:
    machine = read(f"torch==1.0.0\nnumpy==1.0.0\n\n{linux}")
    assert value_of(torch_of(machine).version) == "2.4.0+cu121"


def test_the_build_of_torch(read: Read, torch_of: TorchOf) -> None:
    torch = torch_of(
        read(
            "PyTorch built with:\n  - GCC 13.3\n  - CUDA Runtime 13.0\n"
            "  - NVCC architecture flags: -gencode;arch=compute_75,code=sm_75;-gencode;arch=compute_90,code=sm_90\n"
            "  - Build settings: CUDNN_VERSION=9.19.0, TORCH_VERSION=2.11.0, USE_CUDA=ON\n"
        )
    )
    assert (value_of(torch.version), value_of(torch.cuda), value_of(torch.cudnn)) == ("2.11.0", "13.0", "9.19.0")
    assert value_of(torch.arch_list) == ("sm_75", "sm_90")


def test_lscpu_and_topology(read: Read) -> None:
    machine = read(
        "Architecture:        x86_64\nCPU(s):              16\nModel name:          Intel(R) Xeon(R) Processor\nHypervisor vendor:   KVM\n"
    )
    assert (value_of(machine.host.cpu.logical_cores), value_of(machine.host.virtualisation)) == (16, "kvm")
    topology = read_paste(
        "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t0\n\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n"
    )
    assert (topology.recognised, topology.messages) == (("nvidia-smi topo",), ())


def test_several_reports_at_once(linux: str, pastes: Path, read: Read, cards_of: CardsOf, torch_of: TorchOf) -> None:
    table = (pastes / "nvidia_smi/h200-580-table.txt").read_text()
    case = read_paste(
        f"### Your current environment\n\n<details>\n\n```text\n{linux.replace('NVIDIA A100-SXM4-80GB', 'NVIDIA H200')}\n```\n</details>\n\n"
        f'### Bug\n\n```\n$ nvidia-smi\n{table}\n```\n\nTraceback (most recent call last):\n  File "a.py", line 1\nRuntimeError: CUDA error: x\n'
    )
    assert case.recognised == ("torch collect_env", "nvidia-smi table", "error text")
    assert value_of(case.machine.nvidia.driver) == "580.159.04"  # nvidia-smi is believed before collect_env
    assert value_of(cards_of(case.machine)[0].memory_total) == 143771 * MIB
    assert value_of(torch_of(case.machine).cuda) == "12.1"
    assert case.missing == ()
    assert [message.text for message in case.messages][-1].endswith("RuntimeError: CUDA error: x")
