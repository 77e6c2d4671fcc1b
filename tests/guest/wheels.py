"""Packages for tests, as pip installs them; and Debian's, as dpkg does."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.package_index import make_package


def make_wheel(folder: Path, version: str, name: str = "replaced_thing", requires: str = "") -> Path:
    """A package with one module of its own name, whose VERSION is its version."""
    module = {f"{name}.py": f"VERSION = {version!r}\n"}
    return make_package(folder, name.replace("_", "-"), version, module, (requires,) if requires else ())


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
