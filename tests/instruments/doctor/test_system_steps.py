"""Steps are written once, and shown as the system at hand needs them."""

from __future__ import annotations

import msgspec
import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.instruments.doctor.paste.system_in_prose import system_in_prose
from ownlab.instruments.doctor.system_steps import steps_for
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Framework, Host, Interpreter, Machine, Nvidia

STEPS = (
    "Debian, Ubuntu: sudo apt-get install -y linux-headers-$(uname -r)",
    "Fedora, RHEL: sudo dnf install -y kernel-devel-$(uname -r)",
    "sudo apt-get install -y gcc python3-dev   # Fedora: sudo dnf install -y gcc python3-devel; or: export CC=/path/to/gcc",
    "export A=1 B=2   # before Python starts",
    "nvidia-smi",
)


def on(**facts: str | bool) -> Machine:
    host = Host()
    for name, value in facts.items():
        host = msgspec.structs.replace(host, **{name: Known(value, "test")})
    return Machine(origin="pasted", host=host)


def test_an_unknown_system_keeps_all_words() -> None:
    assert steps_for(Machine(origin="pasted"), STEPS) == STEPS


def test_fedora_gets_its_own_commands() -> None:
    assert steps_for(on(package_manager="dnf"), STEPS) == (
        "sudo dnf install -y kernel-devel-$(uname -r)",
        "sudo dnf install -y gcc python3-devel; or: export CC=/path/to/gcc",
        "export A=1 B=2   # before Python starts",
        "nvidia-smi",
    )


def test_other_distributions_get_the_names_of_their_packages() -> None:
    step = ("sudo apt-get install -y gcc python3-dev",)
    assert steps_for(on(package_manager="pacman"), step) == ("sudo pacman -S --needed gcc python",)
    assert steps_for(on(package_manager="zypper"), step) == ("sudo zypper install -y gcc python3-devel",)
    assert steps_for(on(package_manager="apt"), step) == step
    unknown = ("sudo apt-get install -y a-package-of-debian",)
    assert steps_for(on(package_manager="dnf"), unknown) == unknown


def test_windows_gets_no_step_of_linux() -> None:
    steps = steps_for(on(family="windows"), (*STEPS, "sudo modprobe nvidia"))
    assert steps == ("set A=1 && set B=2   # before Python starts", "nvidia-smi")
    assert steps_for(on(family="windows"), ("sudo reboot",)) == ("sudo reboot",)


LINUX_DRIVER = (
    "sudo apt-get install -y linux-headers-$(uname -r)",
    "sudo dkms autoinstall",
    "Ubuntu: sudo ubuntu-drivers install",
    "sudo modprobe nvidia",
    "sudo apt-get install -y nvidia-driver-580",
    "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der",
)


@pytest.mark.parametrize("step", LINUX_DRIVER)
@pytest.mark.parametrize("version", ["wsl1", "wsl2"])
def test_wsl_gets_no_step_of_a_linux_driver(step: str, version: str) -> None:
    steps = steps_for(on(virtualisation=version), (step, "nvidia-smi"))
    assert step not in steps
    assert "The driver is the one of Windows" in steps[0]
    assert steps[1:] == ("nvidia-smi",)


def test_wsl_keeps_what_is_right_there() -> None:
    steps = (
        "sudo apt-get purge '*nvidia-driver*'   # in WSL",
        "In PowerShell: wsl --update",
        "sudo apt-get install -y gcc python3-dev",
    )
    assert steps_for(on(virtualisation="wsl2"), steps) == steps
    assert steps_for(on(virtualisation="kvm"), LINUX_DRIVER) == LINUX_DRIVER


def test_root_needs_no_sudo_except_in_a_container() -> None:
    assert steps_for(on(user_is_root=True), ("sudo reboot",)) == ("reboot",)
    assert steps_for(on(user_is_root=True, container="docker"), ("sudo reboot",)) == ("sudo reboot",)


@pytest.mark.parametrize(
    ("version", "driver", "label"),
    [("2.4.1+cu118", None, "cu118"), (None, "470.57.02", "cu11"), (None, None, "cuXYZ"), ("2.4.1+cpu", None, "cuXYZ")],
)
def test_the_index_is_the_one_of_the_installed_torch_or_of_the_driver(
    version: str | None, driver: str | None, label: str
) -> None:
    torch = Framework(name="torch", version=Known(version, "test")) if version else None
    machine = Machine(
        origin="pasted",
        nvidia=Nvidia(driver=Known(driver, "test")) if driver else Nvidia(),
        interpreter=Interpreter(frameworks=Known((torch,), "test")) if torch else Interpreter(),
    )
    (step,) = steps_for(machine, ("pip install xformers --index-url https://download.pytorch.org/whl/cuXYZ",))
    assert step.startswith(f"pip install xformers --index-url https://download.pytorch.org/whl/{label}")


@pytest.mark.parametrize(
    ("line", "family", "system", "manager"),
    [
        (r'File "C:\Users\me\venv\lib\site-packages\torch\__init__.py", line 1', "windows", None, None),
        ("Building for 6.5.0-14-generic", "linux", "Ubuntu", "apt"),
        ("kernel-devel-6.8.5-301.fc40.x86_64", "linux", "Fedora", "dnf"),
        ("nvidia-driver-NVML-410.79-1.el7.x86_64", "linux", "RHEL 7", "dnf"),
        ("Linux host 6.9.7-arch1-1 #1 SMP", "linux", "Arch Linux", "pacman"),
        ("E: Unable to locate package nvidia-driver", "linux", None, "apt"),
        ("5.15.90.1-microsoft-standard-WSL2", "linux", None, None),
    ],
)
def test_a_text_shows_its_system(line: str, family: str, system: str | None, manager: str | None) -> None:
    host = system_in_prose([line])
    assert host is not None
    assert (value_of(host.family), value_of(host.system), value_of(host.package_manager)) == (family, system, manager)


@pytest.mark.parametrize(
    ("line", "wsl"),
    [
        ("WSL version: 2.3.26.0", True),
        ("WSL 2.0.9.0 and Ubuntu 22.04", True),
        ("Debian 12 (wsl2)", True),
        ("it works in WSL and on Linux", False),
    ],
)
def test_versions_of_wsl_are_a_sign_and_words_about_it_are_not(line: str, wsl: bool) -> None:
    host = system_in_prose([line])
    assert (host is not None and value_of(host.virtualisation) == "wsl2") is wsl


def test_paths_of_both_systems_show_neither() -> None:
    assert system_in_prose([r"mounting C:\Users\me\data", "to /home/me/data"]) is None


def test_a_system_alone_makes_no_text_one_for_the_doctor() -> None:
    found = diagnose(
        read_paste("modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.5-301.fc40.x86_64")
    )
    steps = "\n".join(found.findings[0].fix)
    assert "dnf" in steps
    assert "apt-get" not in steps


def test_harmless_notices_beside_an_unknown_end_do_not_say_that_nothing_is_wrong() -> None:
    notice = "No module 'xformers'. Proceeding without it."
    assert "Nothing is wrong" in diagnose(read_paste(notice)).verdict.sentence
    ended = f"{notice}\nTraceback (most recent call last):\nPlanetError: wrong orbit"
    assert "Nothing is wrong" not in diagnose(read_paste(ended)).verdict.sentence
