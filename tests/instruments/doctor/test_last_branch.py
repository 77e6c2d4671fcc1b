"""Fixes suit the card and its driver branch: no report advises a driver that cannot drive the card, or contradicts itself."""

from __future__ import annotations

import re

import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.instruments.doctor.records import Diagnosis

TOO_OLD = "RuntimeError: The NVIDIA driver on your system is too old (found version {found})."


def smi(card: str, driver: str, cuda: str) -> str:
    """The table of nvidia-smi, as people paste it."""
    header = f"NVIDIA-SMI {driver}".ljust(24) + f"Driver Version: {driver}".ljust(29) + f"CUDA Version: {cuda}"
    return f"""+-----------------------------------------------------------------------------+
| {header.ljust(75)} |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  {card.ljust(18)} Off  | 00000000:00:1E.0 Off |                    0 |
| N/A   35C    P8    26W / 149W |      0MiB / 11441MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
"""


def ask(pasted: str) -> tuple[Diagnosis, str]:
    diagnosis = diagnose(read_paste(pasted))
    return diagnosis, "\n".join(step for finding in diagnosis.findings for step in finding.fix)


@pytest.mark.parametrize(
    ("driver", "cuda", "found", "build"),
    [("418.87.00", "10.1", 10010, "cu101"), ("470.256.02", "11.4", 11040, "cu118")],
)
def test_a_k80_is_never_told_to_install_a_driver_that_does_not_know_it(
    driver: str, cuda: str, found: int, build: str
) -> None:
    _, fixes = ask(smi("Tesla K80", driver, cuda) + TOO_OLD.format(found=found))
    branches = {
        int(number)
        for number in re.findall(r"\bR(\d{3})\b|nvidia-driver-(\d{3})", fixes)
        for number in number
        if number
    }
    assert branches <= {470}, fixes
    assert "580" not in fixes
    assert "470" in fixes
    assert build in fixes  # has code for Kepler, and runs on this driver
    assert "cu12" not in fixes
    assert "cu13" not in fixes


def test_on_the_last_branch_one_report_says_one_thing() -> None:
    diagnosis, fixes = ask(smi("Tesla K80", "470.256.02", "11.4") + TOO_OLD.format(found=11040))
    assert {"driver-old", "driver-end"} <= {finding.code for finding in diagnosis.findings}
    assert "or newer" not in fixes
    assert "Stay on R470" in fixes


def test_a_pascal_card_gets_r580_at_most() -> None:
    _, fixes = ask(smi("GeForce GTX 1080", "390.157", "9.1") + TOO_OLD.format(found=9010))
    assert "580" in fixes
    assert not re.search(r"\bR?(59\d|6\d\d)\b", fixes)


@pytest.mark.parametrize(
    "error",
    [
        "AssertionError: Torch not compiled with CUDA enabled",
        "ModuleNotFoundError: No module named 'torch'",
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
            "NVIDIA GeForce GTX 1080 Ti with CUDA capability sm_61 is not compatible with the current PyTorch installation."
        ),
    ],
)
def test_an_error_alone_yields_a_wheel_that_most_drivers_run(error: str) -> None:
    _, fixes = ask(error)
    assert "pip install" in fixes
    assert "cu13" not in fixes
    if "whl/cu12" in fixes and "# CUDA 12" in fixes:
        assert "needs driver 525.60.13 or newer" in fixes


def test_a_driver_that_is_known_still_gets_the_newest_wheel() -> None:
    _, fixes = ask(smi("Tesla T4", "580.95.05", "13.0") + "AssertionError: Torch not compiled with CUDA enabled")
    assert "cu13" in fixes


def test_minor_version_compatibility_is_said_where_a_cuda_version_is_shown() -> None:
    """A driver that shows CUDA 12.2 runs programs built with 12.4."""
    diagnosis, _ = ask(smi("Tesla T4", "535.104.05", "12.2") + TOO_OLD.format(found=12020))
    (old,) = (finding for finding in diagnosis.findings if finding.code == "driver-old")
    assert "later 12.x" in old.meaning
