"""The probe of CUDA's libraries, started as the host starts it, in an interpreter with planted wheels.

A copy of a small real library (libm) stands for each of CUDA's: the probe only loads them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ownlab.json_encoding import decode_guest_json

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="CUDA's libraries are looked for on Linux")

LAUNCH = Path(__file__).resolve().parents[3] / "src" / "ownlab_guest" / "launch.py"
Rows = dict[str, dict[str, str | None]]


@pytest.fixture
def libm() -> Path:
    ctypes.CDLL("libm.so.6")
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(Path(line.split()[-1]) for line in lines if line.endswith("/libm.so.6"))


def probe(**env: str) -> Rows:
    environment = {**os.environ, "LD_LIBRARY_PATH": "", "CUDA_HOME": "", "CUDA_PATH": "", **env}
    ran = subprocess.run(
        [sys.executable, str(LAUNCH), "probe.cuda_libraries"],
        env=environment,
        capture_output=True,
        timeout=300,
        check=True,
    )
    return {row["name"]: row for row in decode_guest_json(ran.stdout, list[dict[str, str | None]])}


def need_absent(*names: str) -> None:
    """If the machine's own loader finds a library, a planted one is rightly not used."""
    found = [name for name, row in probe().items() if name in names and row["path"]]
    if found:
        pytest.skip(f"this machine has its own {', '.join(found)}")


def put(library: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(library, place)
    return place


def test_every_library_has_a_purpose_and_a_path_or_an_error() -> None:
    rows = probe()
    assert {"libcuda.so", "libcudart.so", "libcudnn.so", "libnccl.so", "libnpps.so", "libdevice.10.bc"} <= rows.keys()
    for row in rows.values():
        assert row["purpose"]
        assert bool(row["path"]) != bool(row["error"])


def test_the_newest_library_on_the_path_of_the_loader_is_loaded(libm: Path, tmp_path: Path) -> None:
    put(libm, tmp_path / "libcufile.so.9.1")
    newest = put(libm, tmp_path / "libcufile.so.9.10")
    row = probe(LD_LIBRARY_PATH=str(tmp_path))["libcufile.so"]
    assert (row["path"], row["way"]) == (str(newest), "the dynamic loader")


def test_the_driver_library_is_loaded_by_its_usual_name(libm: Path, tmp_path: Path) -> None:
    put(libm, tmp_path / "libcuda.so.999.10.01")
    driver = put(libm, tmp_path / "libcuda.so.1")
    assert probe(LD_LIBRARY_PATH=str(tmp_path))["libcuda.so"]["path"] == str(driver)


def test_wheels_of_both_layouts(libm: Path, tmp_path: Path) -> None:
    need_absent("libcudnn.so", "libcusolver.so", "libcufftw.so")
    old = put(libm, tmp_path / "nvidia/cudnn/lib/libcudnn.so.9")
    new = put(libm, tmp_path / "nvidia/cu13/lib/libcusolver.so.12")
    own = put(libm, tmp_path / "torch/lib/libcufftw.so.11")
    rows = probe(PYTHONPATH=str(tmp_path))
    assert (rows["libcudnn.so"]["path"], rows["libcudnn.so"]["way"]) == (str(old), "a wheel of this interpreter")
    assert rows["libcusolver.so"]["path"] == str(new)
    assert (rows["libcufftw.so"]["path"], rows["libcufftw.so"]["way"]) == (str(own), "torch's wheel")


def test_a_broken_wheel_is_reported_and_other_libraries_still_load(libm: Path, tmp_path: Path) -> None:
    need_absent("libnccl.so", "libcudnn.so")
    broken = tmp_path / "nvidia/nccl/lib/libnccl.so.2"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"\x7fELF" + b"\0" * 100)
    put(libm, tmp_path / "nvidia/cudnn/lib/libcudnn.so.9")
    rows = probe(PYTHONPATH=str(tmp_path))
    assert rows["libnccl.so"]["path"] is None
    assert str(broken) in (rows["libnccl.so"]["error"] or "")
    assert rows["libcudnn.so"]["path"]


def test_a_toolkit_that_the_loader_does_not_search(libm: Path, tmp_path: Path) -> None:
    need_absent("libcuinj64.so")
    put(libm, tmp_path / "lib64/libcuinj64.so.12.4")
    row = probe(CUDA_HOME=str(tmp_path))["libcuinj64.so"]
    assert row["path"] is None
    assert f"it is in {tmp_path}/lib64, which the loader does not search" in (row["error"] or "")


def test_libdevice_is_a_file_not_a_library(tmp_path: Path) -> None:
    place = tmp_path / "nvvm" / "libdevice" / "libdevice.10.bc"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"BC")
    row = probe(CUDA_HOME=str(tmp_path))["libdevice.10.bc"]
    assert (row["path"], row["way"]) == (str(place), "the toolkit")
