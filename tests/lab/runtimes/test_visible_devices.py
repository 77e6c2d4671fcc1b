"""The variables that show a kernel its own cards and hide all others."""

from __future__ import annotations

from ownlab.lab.runtimes.visible_devices import variables
from ownlab.lab.store.rows import Device

H200 = [Device(f"GPU-{number}", "nvidia", number, "NVIDIA H200") for number in range(2)]


def test_a_cpu_runtime_sees_no_card() -> None:
    assert variables([], 12, ["nvidia"]) == {"CUDA_VISIBLE_DEVICES": ""}
    assert variables([], 12, []) == {"CUDA_VISIBLE_DEVICES": ""}


def test_nvidia_cards_are_named_by_uuid() -> None:
    assert variables(H200, 12, ["nvidia"]) == {
        "CUDA_VISIBLE_DEVICES": "GPU-0,GPU-1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_frameworks_do_not_allocate_a_whole_shared_card() -> None:
    environment = variables(H200[:1], 4, ["nvidia"])
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-0"
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.333"
    assert environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"


def test_other_vendors_cards_are_named_by_number_and_the_rest_hidden() -> None:
    card = Device("amd:1", "amd", 1, "AMD Instinct MI300A")
    environment = variables([card], 12, ["nvidia", "amd", "intel", "huawei"])
    assert environment == {
        "ROCR_VISIBLE_DEVICES": "1",
        "HIP_VISIBLE_DEVICES": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "ASCEND_RT_VISIBLE_DEVICES": "",
        "ONEAPI_DEVICE_SELECTOR": "*:cpu",
    }


def test_an_unknown_vendor_does_no_harm() -> None:
    assert variables([], 12, ["tenstorrent"]) == {"CUDA_VISIBLE_DEVICES": ""}


def test_a_cpu_runtime_sees_no_card_of_any_vendor() -> None:
    assert variables([], 12, ["amd", "intel"]) == {
        "CUDA_VISIBLE_DEVICES": "",
        "ROCR_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "-1",
        "ONEAPI_DEVICE_SELECTOR": "*:cpu",
    }
