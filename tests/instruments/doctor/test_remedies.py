"""Commands for the system of the machine."""

from __future__ import annotations

import pytest

from ownlab.instruments.doctor.queries import describe_fact, is_wsl
from ownlab.instruments.doctor.remedies import (
    as_root,
    driver_remedy,
    initramfs_command,
    install_command,
    modprobe_option,
)
from ownlab.machine.facts import Known, Unknown
from ownlab.machine.records import Card, Host, Machine, Nvidia


def machine(card: str | None = None, **host: str | bool) -> Machine:
    facts = {name: Known(value, source="recorded") for name, value in host.items()}
    cards = (Card("nvidia", 0, name=Known(card, source="recorded")),) if card else ()
    return Machine(host=Host(**facts), cards=Known(cards, source="recorded"))  # type: ignore[arg-type]


# Of a card that only the bus shows nobody knows its age.
NEWER = "Turing (GTX 16, RTX 20) and newer: "


@pytest.mark.parametrize(
    ("system", "manager", "card", "command"),
    [
        ("Ubuntu 24.04", "apt", None, "sudo ubuntu-drivers install"),
        ("Ubuntu 24.04", "apt", "NVIDIA GeForce RTX 5090", "sudo apt-get install -y nvidia-driver-580-open"),
        ("Ubuntu 24.04", "apt", "NVIDIA GeForce GTX 1080 Ti", "sudo apt-get install -y nvidia-driver-580"),
        (
            "Debian GNU/Linux 13",
            "apt",
            None,
            f"{NEWER}sudo apt-get install -y nvidia-open; older cards: the proprietary R580 driver",
        ),
        ("Debian GNU/Linux 13", "apt", "Tesla T4", "sudo apt-get install -y nvidia-open"),
        ("Ubuntu 24.04", "apt", "Tesla T4", "sudo ubuntu-drivers install"),
        ("Arch Linux", "pacman", "NVIDIA H200", "sudo pacman -S --needed nvidia-open"),
        (
            "Fedora Linux 43",
            "dnf",
            None,
            f"{NEWER}sudo dnf install -y akmod-nvidia; older cards: the proprietary R580 driver",
        ),
        (
            "Rocky Linux 9.4",
            "dnf",
            None,
            f"{NEWER}sudo dnf module install -y nvidia-driver:open-dkms; older cards: the proprietary R580 driver",
        ),
        ("Rocky Linux 9.4", "dnf", "Tesla V100-SXM2-16GB", "sudo dnf module install -y nvidia-driver:580-dkms"),
        (
            "Rocky Linux 10.1",
            "dnf",
            None,
            f"{NEWER}sudo dnf install -y nvidia-open; older cards: the proprietary R580 driver",
        ),
        (
            "openSUSE Leap 15.6",
            "zypper",
            None,
            f"{NEWER}sudo zypper install -y nvidia-open; older cards: the proprietary R580 driver",
        ),
        (
            "Arch Linux",
            "pacman",
            None,
            f"{NEWER}sudo pacman -S --needed nvidia-open; older cards: the proprietary R580 driver",
        ),
        ("Arch Linux", "pacman", "NVIDIA GeForce GTX 1080 Ti", "Install driver branch R580 with proprietary"),
    ],
)
def test_driver_commands_by_system(system: str, manager: str, card: str | None, command: str) -> None:
    steps = driver_remedy(machine(card, system=system, package_manager=manager, family="linux"))
    assert steps[0].split("   #")[0].startswith(command)
    assert steps[-1] == "sudo reboot"


@pytest.mark.parametrize(
    ("host", "advice"),
    [
        ({"platform": "colab"}, "You cannot change it"),
        ({"container": "docker", "package_manager": "apt"}, "On the host, outside this container"),
        ({"virtualisation": "wsl2", "package_manager": "apt"}, "On Windows, not in WSL"),
        ({"family": "windows"}, "https://www.nvidia.com/drivers"),
        ({}, "driver-installation-guide"),
    ],
)
def test_driver_advice_without_a_package(host: dict[str, str], advice: str) -> None:
    steps = driver_remedy(machine(**host), floor="525.60.13")
    assert advice in steps[0]
    assert not any("apt" in step for step in steps)


def test_root_in_a_container_is_not_root_on_the_host() -> None:
    assert as_root(machine(user_is_root=True), "reboot") == "reboot"
    assert as_root(machine(user_is_root=False), "reboot") == "sudo reboot"
    assert as_root(machine(user_is_root=True, container="docker"), "reboot") == "sudo reboot"


def test_other_commands() -> None:
    suse = machine(package_manager="zypper")
    assert install_command(suse, "nvidia-container-toolkit") == "sudo zypper install -y nvidia-container-toolkit"
    assert install_command(machine(), "anything") is None
    assert initramfs_command(suse) == "sudo dracut --force"
    assert initramfs_command(machine()).startswith("sudo update-initramfs -u   # Fedora")
    written = modprobe_option(suse, "a.conf", "blacklist nouveau", "options nouveau modeset=0")
    assert written == r"printf 'blacklist nouveau\noptions nouveau modeset=0\n' | sudo tee /etc/modprobe.d/a.conf"


@pytest.mark.parametrize(
    ("smi", "driver", "wsl"),
    [
        ("535.129.03", "537.58", True),  # tests/pastes/nvidia_smi/layout-wsl-537.txt
        ("580.159.04", "580.159.04", False),
        ("515.76", "515.76", False),
        ("461.72", "461.72", False),
    ],
)
def test_wsl_is_recognised_by_different_smi_and_driver_versions(smi: str, driver: str, wsl: bool) -> None:
    versions = Nvidia(driver=Known(driver, source="smi"), smi=Known(smi, source="smi"))
    assert is_wsl(Machine(nvidia=versions)) is wsl
    plain = Host(virtualisation=Known("none", source="recorded"))
    assert not is_wsl(Machine(host=plain, nvidia=versions))


def test_facts_are_described_with_unit_and_source() -> None:
    assert describe_fact("power", Known(129.8, source="NVML", unit="W")) == "power 129.8 W (NVML)"
    assert (
        describe_fact("driver", Unknown("nvidia-smi is not installed")) == "driver unknown: nvidia-smi is not installed"
    )
