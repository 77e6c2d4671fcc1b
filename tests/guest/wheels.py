"""Packages for tests, as pip installs them; and Debian's, as dpkg does."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path


def make_wheel(folder: Path, version: str, name: str = "replaced_thing", requires: str = "") -> Path:
    """A package with one module of its own name, whose VERSION is its version."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as file:
        for part, text in files.items():
            file.writestr(part, text)
        file.writestr(f"{info}/RECORD", "".join(f"{part},,\n" for part in [*files, f"{info}/RECORD"]))
    return path


def pip_variables(place: Path, wheels: Path) -> dict[str, str]:
    """Variables with which pip installs into a folder on the path, only from another folder."""
    place.mkdir(exist_ok=True)
    return {
        "PYTHONPATH": str(place),
        "PIP_TARGET": str(place),
        "PIP_UPGRADE": "1",
        "PIP_NO_COMPILE": "1",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": "/dev/null",
    }


def make_deb(folder: Path, name: str) -> Path:
    """One of Debian's packages, with nothing in it."""
    root = folder / name
    (root / "DEBIAN").mkdir(parents=True)
    fields = {"Package": name, "Version": "1.0", "Architecture": "all", "Maintainer": "a test", "Description": "none"}
    (root / "DEBIAN" / "control").write_text("".join(f"{field}: {value}\n" for field, value in fields.items()))
    path = folder / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--build", str(root), str(path)], check=True, capture_output=True)
    return path
