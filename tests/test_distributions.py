"""The wheel and the source distribution: what they contain, and that neither needs Node to be installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXTENSION = "ownlab/lab/labextensions/ownlab"
CATALOGUE = "ownlab/locale/zh_CN/LC_MESSAGES/ownlab.json"
EXAMPLE = "ownlab/lab/service/examples/zh_CN/welcome.json"

# Builds wait for nothing, but a busy machine is slow.
SECONDS = 300
pytestmark = pytest.mark.timeout(2 * SECONDS)


def build(project: Path, target: str, into: Path, path: str) -> Path:
    """Return the file that hatchling builds, without the network."""
    ran = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)],
        cwd=project,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [built] = into.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert (ROOT / "src" / EXTENSION / "package.json").is_file(), "run `scripts/setup test`: it builds the extension"
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"), os.environ["PATH"])


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that pip builds of the source distribution, on a machine without Node: with no program at all on PATH."""
    base = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(base / "source", filter="data")
    [project] = (base / "source").iterdir()
    return build(project, "wheel", base / "built", "")


def test_the_sdist_has_the_built_extension_and_the_sources_that_it_was_built_from(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {f"src/{EXTENSION}/{name}" for name in ("package.json", "install.json", "sources.sha256")}
    wanted |= {
        f"src/{CATALOGUE}",
        f"src/{EXAMPLE}",
        "labextension/package-lock.json",
        "labextension/src/index.ts",
        "LICENSE",
        "NOTICE",
        "pyproject.toml",
    }
    assert wanted - names == set()
    assert [name for name in names if "node_modules" in name or ".venv" in name] == []


def test_the_wheel_has_the_extension_as_package_data_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [metadata] = (name for name in names if name.endswith(".dist-info/METADATA"))
        [entry_points] = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
        about, commands = archive.read(metadata).decode(), archive.read(entry_points).decode()
    wanted = {CATALOGUE, EXAMPLE, f"{EXTENSION}/package.json", "ownlab/py.typed", "ownlab_guest/launch.py"}
    assert wanted - names == set()
    assert any(name.startswith(f"{EXTENSION}/static/remoteEntry.") for name in names)
    # Files below *.data/ are installed outside of the package: share/jupyter/labextensions would change every `jupyter lab`.
    assert {name.split("/")[0] for name in names} == {"ownlab", "ownlab_guest", metadata.split("/")[0]}
    assert "License-File: NOTICE" in about
    assert "Requires-Dist: vl-convert-python>=1.7; extra == 'charts'" in about
    assert "ownlab = ownlab.cli.entry_point:main" in commands
    assert "[jupyterlab.locale]\nownlab = ownlab\n" in commands


def test_the_wheel_works_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    program = "import sys; from ownlab.cli.entry_point import main; print(sys.modules['ownlab'].__file__); sys.argv[1:] = ['--help']; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(tmp_path / "installed"))
    assert "doctor" in ran.stdout
