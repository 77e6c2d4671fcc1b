"""Containers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.rules.environment.containers import (
    ContainerToolkitMissing,
    ContainerWithoutGpu,
    NvmlUnknownError,
    SmallSharedMemory,
)
from ownlab.machine.facts import Known
from ownlab.machine.records import Host, Machine, Memory, Nvidia
from ownlab.units import GIB, MIB


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("docker", "docker run --gpus all"),
        ("podman", "podman run --device nvidia.com/gpu=all"),
        ("kubernetes", "nvidia.com/gpu: 1"),
        ("apptainer", "--nv"),
        ("containerd", "docker run --gpus all"),
    ],
)
def test_container_without_the_card(of: Any, case: Any, find: Any, kind: str, advice: str) -> None:
    inside = of(
        Machine,
        host=of(Host, container=kind),
        cards=(),
        nvidia=of(Nvidia, driver="580.95.05", module_version="580.95.05", device_files=()),
    )
    (finding,) = find(ContainerWithoutGpu, case(inside))
    assert finding.blocks
    assert "the host's kernel module: 580.95.05 (recorded)" in finding.evidence
    assert advice in finding.fix[0]


def test_container_whose_runtime_was_not_asked_for_cards(of: Any, case: Any, find: Any, variables: Any) -> None:
    # collect_env/container-visible-void-cu124.txt
    void = of(Machine, environment=variables(NVIDIA_VISIBLE_DEVICES="void"))
    (finding,) = find(ContainerWithoutGpu, case(void))
    assert finding.evidence == ("NVIDIA_VISIBLE_DEVICES=void",)
    given = of(Machine, environment=variables(NVIDIA_VISIBLE_DEVICES="all"))
    assert find(ContainerWithoutGpu, case(given)) == []


def test_container_with_its_card_or_no_container(of: Any, case: Any, find: Any, h200: Machine) -> None:
    host = of(
        Machine, host=of(Host, container="none"), cards=(), nvidia=of(Nvidia, module_version="580", device_files=())
    )
    assert find(ContainerWithoutGpu, case(host)) == []
    inside = msgspec.structs.replace(
        h200, host=msgspec.structs.replace(h200.host, container=Known("docker", source="x"))
    )
    assert find(ContainerWithoutGpu, case(inside)) == []


@pytest.mark.parametrize("name", ["errors/runtime-missing-docker.txt", "errors/runtime-missing-compose.txt"])
def test_runtime_missing(of: Any, case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(ContainerToolkitMissing, case(of(Machine, host=of(Host, package_manager="apt")), paste(name)))
    assert finding.blocks
    assert finding.fix[0].startswith("sudo apt-get install -y nvidia-container-toolkit")
    assert finding.fix[1] == "sudo nvidia-ctk runtime configure --runtime=docker"


def test_another_docker_error(case: Any, find: Any) -> None:
    message = "docker: Error response from daemon: pull access denied for nvidia/cuda, repository does not exist"
    assert find(ContainerToolkitMissing, case(None, message)) == []


@pytest.mark.parametrize("name", ["errors/nvml-unknown-container-k8s.txt", "nvidia_smi/failed-nvml-unknown-error.txt"])
def test_nvml_unknown(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(NvmlUnknownError, case(None, paste(name)))
    assert finding.blocks
    assert any("create-dev-char-symlinks" in step for step in finding.fix)


def test_nvml_unknown_outside_a_container(of: Any, case: Any, find: Any, paste: Any) -> None:
    outside = of(Machine, host=of(Host, container="none"))
    (finding,) = find(NvmlUnknownError, case(outside, "Failed to initialize NVML: Unknown Error"))
    assert finding.title == "NVML fails with an unknown error"
    assert find(NvmlUnknownError, case(None, paste("errors/mismatch-2021.txt"))) == []
    assert find(NvmlUnknownError, case(None, paste("errors/device-handle-unknown-error-2024.txt"))) == []


@pytest.mark.parametrize(
    ("container", "size", "expected"),
    [("docker", 64 * MIB, True), ("docker", 8 * GIB, False), ("none", 64 * MIB, False)],
)
def test_shm_from_its_size(of: Any, case: Any, find: Any, container: str, size: int, expected: bool) -> None:
    machine = of(Machine, host=of(Host, container=container, memory=of(Memory, shm_total=size)))
    findings = find(SmallSharedMemory, case(machine))
    assert bool(findings) is expected
    if expected:
        assert findings[0].severity == "warning"
        assert "64 MiB" in findings[0].evidence[0]
        assert findings[0].fix[0].startswith("docker run --shm-size=8g")


@pytest.mark.parametrize("name", ["errors/shm-dataloader-bus-error.txt", "errors/shm-old-wording.txt"])
def test_shm_from_messages(of: Any, case: Any, find: Any, paste: Any, name: str, h200: Machine) -> None:
    pod = of(Machine, host=of(Host, container="kubernetes"))
    (finding,) = find(SmallSharedMemory, case(pod, paste(name)))
    assert finding.severity == "error"
    assert not finding.blocks
    assert "emptyDir" in finding.fix[0]
    assert (
        find(SmallSharedMemory, case(h200, "RuntimeError: DataLoader worker (pid 13) is killed by signal: Killed."))
        == []
    )
