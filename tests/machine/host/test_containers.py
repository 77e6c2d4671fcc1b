"""Containers, virtual machines, platforms and PID namespaces, each by its signs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.host.containers import read_container, read_pid_namespace, read_platform, read_virtualisation

Tree = Callable[[Mapping[str, str | bytes]], Path]

OVERLAY = "1 0 0:80 / / rw - overlay overlay rw,lowerdir=/l\n"
HOSTNAME = "2 1 8:1 {} /etc/hostname rw - ext4 /dev/sda1 rw\n"


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({"run/.containerenv": 'engine="podman-4.9.3"'}, {}, "podman"),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({}, {"APPTAINER_CONTAINER": "/x.sif"}, "apptainer"),
        ({".singularity.d/": ""}, {}, "apptainer"),
        ({"run/systemd/container": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({"proc/1/environ": b"PATH=/bin\0container=lxc\0"}, {}, "lxc"),
        ({"proc/1/cgroup": "12:cpuset:/docker/4f1c\n"}, {}, "docker"),
        ({"proc/1/cgroup": "0::/system.slice/docker-4f1c.scope\n"}, {}, "docker"),
        ({"proc/1/cgroup": "11:cpu:/kubepods/burstable/pod1/2\n"}, {}, "kubernetes"),
        ({"proc/1/cgroup": "0::/lxc.payload.box/init.scope\n"}, {}, "lxc"),
        # With a cgroup namespace only the mounts tell.
        (
            {
                "proc/1/cgroup": "0::/\n",
                "proc/self/mountinfo": OVERLAY + HOSTNAME.format("/var/lib/docker/containers/4f/hostname"),
            },
            {},
            "docker",
        ),
        ({".dockerenv": "", "proc/self/ns/pid": "-> pid:[4026532219]"}, {}, "docker"),
        ({".dockerenv": "", "proc/self/mountinfo": OVERLAY, "proc/self/ns/pid": "-> pid:[4026531836]"}, {}, "docker"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, "none"),
    ],
)
def test_containers(tree: Tree, files: dict[str, str | bytes], environ: dict[str, str], kind: str) -> None:
    assert value_of(read_container(tree({"proc/1/comm": "init", **files}), environ)) == kind


def test_a_host_that_runs_docker_is_not_a_container(tree: Tree) -> None:
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n9 1 0:64 / /var/lib/docker/overlay2/ab/merged rw - overlay overlay rw\n"
    )
    root = tree(
        {"proc/self/mountinfo": mounts, "proc/1/cgroup": "0::/init.scope\n", "proc/self/ns/pid": "-> pid:[4026531836]"}
    )
    assert value_of(read_container(root, {})) == "none"


def test_pid_namespaces(tree: Tree) -> None:
    assert isinstance(read_pid_namespace(tree({})), Unknown)
    assert read_pid_namespace(tree({"proc/2/comm": "kthreadd\n"})) == Known(False, source="/proc/2/comm")
    assert read_pid_namespace(tree({"proc/self/ns/pid": "-> pid:[4026532219]"})) == Known(
        True, source="/proc/self/ns/pid"
    )


FLAGGED = "flags\t: fpu avx2 hypervisor\n"
BARE = "flags\t: fpu avx2\n"
CLOCK = "sys/devices/system/clocksource/clocksource0/available_clocksource"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2"}, "wsl2"),
        ({"proc/sys/kernel/osrelease": "4.4.0-19041-Microsoft"}, "wsl1"),
        ({"sys/class/dmi/id/sys_vendor": "VMware, Inc."}, "vmware"),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "g5.xlarge"}, "kvm"),
        ({"sys/class/dmi/id/sys_vendor": "QEMU", CLOCK: "kvm-clock tsc"}, "kvm"),
        ({"sys/class/dmi/id/sys_vendor": "QEMU", CLOCK: "tsc"}, "qemu"),
        (
            {
                "sys/class/dmi/id/sys_vendor": "Microsoft Corporation",
                "sys/class/dmi/id/product_name": "Virtual Machine",
            },
            "hyperv",
        ),
        ({"sys/hypervisor/type": "xen\n"}, "xen"),
        ({CLOCK: "tsc kvm-clock acpi_pm"}, "kvm"),
        ({CLOCK: "tsc acpi_pm"}, "a hypervisor"),
    ],
)
def test_hypervisors(tree: Tree, files: dict[str, str | bytes], kind: str) -> None:
    assert value_of(read_virtualisation(tree({"proc/cpuinfo": FLAGGED, **files}))) == kind


def test_bare_metal(tree: Tree) -> None:
    root = tree({"proc/cpuinfo": BARE, "sys/class/dmi/id/sys_vendor": "Supermicro"})
    assert read_virtualisation(root) == Known("none", source="/proc/cpuinfo: no hypervisor flag")
    root = tree({"sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "p4d.metal"})
    assert value_of(read_virtualisation(root)) == "none"


def test_arm_has_no_hypervisor_flag(tree: Tree) -> None:
    assert isinstance(read_virtualisation(tree({"proc/cpuinfo": "Features : fp asimd\n"})), Unknown)


@pytest.mark.parametrize(
    ("files", "environ", "name"),
    [
        ({}, {}, "plain"),
        ({}, {"SLURM_JOB_ID": "17"}, "plain"),
        ({}, {"COLAB_RELEASE_TAG": "release-colab_20260101"}, "colab"),
        ({"content/": "", "usr/local/lib/python3.12/dist-packages/google/colab/": ""}, {}, "colab"),
        ({"content/": ""}, {}, "plain"),
        # Kaggle's image descends from Colab's.
        ({}, {"COLAB_RELEASE_TAG": "x", "KAGGLE_KERNEL_RUN_TYPE": "Interactive"}, "kaggle"),
        ({"kaggle/working/": "", "kaggle/input/": ""}, {}, "kaggle"),
        ({}, {"SM_MODEL_DIR": "/opt/ml/model"}, "sagemaker"),
        ({"opt/ml/metadata/resource-metadata.json": "{}"}, {}, "sagemaker"),
        ({"home/studio-lab-user/": ""}, {"SAGEMAKER_REGION": "us-east-2"}, "studiolab"),
        ({}, {"PAPERSPACE_FQDN": "n.paperspacegradient.com"}, "gradient"),
        ({}, {"RUNPOD_POD_ID": "abc"}, "runpod"),
        ({}, {"LIGHTNING_CLOUDSPACE_HOST": "x"}, "lightning"),
        ({}, {"VAST_CONTAINERLABEL": "C.1"}, "vast"),
        ({}, {"AutoDLContainerUUID": "1"}, "autodl"),
    ],
)
def test_platforms(tree: Tree, files: dict[str, str | bytes], environ: dict[str, str], name: str) -> None:
    assert value_of(read_platform(tree(files), environ)) == name
