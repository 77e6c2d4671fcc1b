"""The suite's own home, drive, secrets and notebooks, and `ownlab run` in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["NOTEBOOKS", "Ran", "Suite", "config_of", "output_data", "output_text", "person_of", "put_gcloud"]

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = Path(__file__).parent / "notebooks"
FOUR_CARDS = ROOT / "tests" / "machines" / "gtx1080ti-x4.json"
SECONDS = 100.0  # for one run, on a machine that is very busy
# By hand, the same notebooks in another environment: OWNLAB_TEST_PYTHON=/path/to/python.
PYTHON = os.environ.get("OWNLAB_TEST_PYTHON", "")


def config_of(base: Path) -> str:
    """Return the settings: an own drive."""
    return f"[drive]\nfolder = {json.dumps(str(base / 'drive'))}\n"


def person_of(base: Path) -> dict[str, str]:
    """Return the environment of the suite's user, without ownlab's own variables."""
    packages = base / "packages"
    for folder in (packages, base / "person", base / "temporary"):
        folder.mkdir(parents=True)
    return {
        "HOME": str(base / "person"),
        "TMPDIR": str(base / "temporary"),
        # `!pip install` puts packages here, and not into the environment that runs the tests.
        "PIP_TARGET": str(packages),
        "PYTHONPATH": str(packages),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # notebooks list what is in /content
    }


def put_gcloud(base: Path) -> str:
    """Install a fake `gcloud` that accepts one code. Return PATH with it."""
    program = base / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text(_GCLOUD.format(config=base / "person" / ".config" / "gcloud"), encoding="utf-8")
    program.chmod(0o755)
    return f"{program.parent}{os.pathsep}{os.environ['PATH']}"


_GCLOUD = """#!/bin/sh
[ "$2" = application-default ] || exit 0
echo "Go to the following link in your browser:"
echo "    https://accounts.example.org/authorize"
read code
if [ "$code" != right ]; then echo "ERROR: invalid_grant"; exit 1; fi
mkdir -p "{config}"
echo '{{"type": "authorized_user"}}' > "{config}/application_default_credentials.json"
"""


class Ran(NamedTuple):
    """The outcome of a run."""

    code: int
    report: dict[str, Any]  # {} where none was printed
    stderr: str
    source: dict[str, Any]  # the notebook that was given
    notebook: dict[str, Any]  # the one that was written
    untouched: bool  # whether the given file is still the same, byte for byte
    outputs: Path  # what was downloaded


class Suite:
    """Runs the notebooks of the suite."""

    def __init__(self, base: Path) -> None:
        self.base, self.folder, self.drive = base, base / "work", base / "drive"
        self.folder.mkdir(parents=True)
        (base / "config.toml").write_text(config_of(base), encoding="utf-8")
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)},
            "OWNLAB_HOME": str(base / "home"),
            "OWNLAB_STORE": str(base / "store"),
            "OWNLAB_CONFIG": str(base / "config.toml"),
            "OWNLAB_ENVIRONMENTS_DEFAULT": "no",
            "OWNLAB_KERNELS": str(base / "share" / "kernels"),
            "OWNLAB_MACHINE": str(FOUR_CARDS),
            "IPYTHONDIR": str(base / "ipython"),
            "JUPYTER_PATH": str(base / "share"),
            **person_of(base),
        }
        if PYTHON:
            added = self.ownlab("env", "add", "other", "--python", PYTHON)
            assert added.returncode == 0, added.stderr
        # Where this takes long, matplotlib says so in the first notebook that draws.
        fonts = [PYTHON or sys.executable, "-c", "import matplotlib.font_manager"]
        subprocess.run(fonts, env=self.environ, capture_output=True, timeout=SECONDS, check=False)

    def ownlab(self, *arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """Any command of ownlab's."""
        return subprocess.run(
            [sys.executable, "-m", "ownlab", *arguments],
            env={**self.environ, **environ},
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def keep_secret(self, name: str, value: str, *granted_to: str) -> None:
        """Keep a secret, and grant it to notebooks."""
        ran = self.ownlab("secrets", "set", name, stdin=value)
        assert ran.returncode == 0, ran.stderr
        for notebook in granted_to:
            ran = self.ownlab("secrets", "grant", name, str(self.take(notebook)))
            assert ran.returncode == 0, ran.stderr

    def take(self, name: str) -> Path:
        """A notebook of the suite, in the user's folder."""
        path = self.folder / f"{name}.ipynb"
        if not path.exists():
            shutil.copyfile(NOTEBOOKS / path.name, path)
        return path

    def run(
        self, name: str, options: Sequence[str], uploads: Mapping[str, bytes] | None, downloads: bool, **environ: str
    ) -> Ran:
        """`ownlab run` of a notebook of the suite."""
        path, written = self.take(name), self.folder / f"{name}-run.ipynb"
        before, outputs = path.read_bytes(), self.base / "outputs" / name
        arguments = ["run", path.name, "--json", *(("-t", "other-cpu") if PYTHON else ()), *options]
        if uploads is not None:
            folder = self.base / "uploads" / name
            folder.mkdir(parents=True)
            for each, content in uploads.items():
                (folder / each).write_bytes(content)
            arguments += ["--uploads", str(folder)]
        if downloads:
            arguments += ["--outputs", str(outputs)]
        ran = self.ownlab(*arguments, **environ)
        assert written.exists(), ran.stderr
        return Ran(
            code=ran.returncode,
            report=json.loads(ran.stdout) if ran.stdout.strip() else {},
            stderr=ran.stderr,
            source=json.loads(before),
            notebook=json.loads(written.read_bytes()),
            untouched=path.read_bytes() == before,
            outputs=outputs,
        )

    def files(self) -> list[Path]:
        """Every file that the runs left, with the user's notebooks."""
        return [path for path in self.base.rglob("*") if path.is_file() and not path.is_symlink()]

    def processes(self) -> list[int]:
        """Every process that has this home in its environment."""
        mark = f"OWNLAB_HOME={self.environ['OWNLAB_HOME']}".encode()
        return [int(each.name) for each in Path("/proc").glob("[0-9]*") if mark in _variables(each)]


_NOT_OURS = ("OWNLAB_", "JUPYTER", "COLAB_", "PIP_", "XDG_", "CUDA_VISIBLE")


def output_text(cell: dict[str, Any]) -> str:
    """Return the output of a cell as text: printed, displayed and raised."""
    return "".join(map(_text, cell.get("outputs", ())))


def output_data(cell: dict[str, Any]) -> str:
    """Return the displayed data of a cell, each after a line with its media type."""
    bundles = [output["data"] for output in cell.get("outputs", ()) if "data" in output]
    return "\n".join(f"{mime}:\n{_joined(value)}" for data in bundles for mime, value in sorted(data.items()))


def _joined(value: Any) -> str:
    return "".join(value) if isinstance(value, str | list) else json.dumps(value)


def _text(output: dict[str, Any]) -> str:
    kind = output["output_type"]
    if kind == "stream":
        return "".join(output["text"])
    if kind == "error":
        return f"{output['ename']}: {output['evalue']}\n"
    data = output["data"]
    return "".join(data["text/plain"]) + "\n" if "text/plain" in data else f"[{', '.join(data)}]\n"


def _variables(process: Path) -> list[bytes]:
    """Return the environment of a process; empty if it has ended or belongs to another user."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
