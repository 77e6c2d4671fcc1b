"""Commands in a notebook reach the environment of its kernel, with real kernels in environments of every kind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from tests.guest.colab.kernel_process import SECONDS, started
from tests.guest.wheels import make_wheel

LIBRARY = f"python{sys.version_info.major}.{sys.version_info.minor}"
# An environment in which the server was started.
OTHER = "/somewhere/else"


def link_packages(target: Path, *, pip: bool = False) -> None:
    """Give an environment the packages of this one, for ipykernel; pip only if it is wanted."""
    source = Path(sysconfig.get_path("purelib"))
    for entry in source.iterdir():
        wanted = not entry.name.startswith("pip") and entry.suffix != ".pth" and entry.name != "__pycache__"
        if (wanted or (pip and entry.name.startswith("pip"))) and not (target / entry.name).exists():
            (target / entry.name).symlink_to(entry)


def make_venv(folder: Path, *, pip: bool) -> Path:
    venv.create(folder, with_pip=pip, symlinks=True)
    link_packages(folder / "lib" / LIBRARY / "site-packages")
    return folder


def make_conda(root: Path, name: str) -> Path:
    """An environment as conda lays it out: a Python of its own, not a virtual environment."""
    prefix = root / "envs" / name
    for folder in (prefix / "bin", prefix / "conda-meta", prefix / "etc/conda/activate.d", root / "condabin", root / "bin"):  # fmt: skip
        folder.mkdir(parents=True)
    base = Path(os.path.realpath(sys.executable))
    shutil.copy2(base, prefix / "bin" / LIBRARY)
    for link in ("python", "python3"):
        (prefix / "bin" / link).symlink_to(LIBRARY)
    packages = prefix / "lib" / LIBRARY / "site-packages"
    packages.mkdir(parents=True)
    for entry in Path(sysconfig.get_path("stdlib")).iterdir():
        if entry.name != "site-packages":
            (packages.parent / entry.name).symlink_to(entry)
    link_packages(packages, pip=True)
    (prefix / "bin" / "pip").write_text(f"#!{prefix}/bin/python\nimport sys\nfrom pip import main\nsys.exit(main())\n")
    (root / "bin" / "conda").write_text("#!/bin/sh\n")
    for program in (prefix / "bin" / "pip", root / "bin" / "conda"):
        program.chmod(0o755)
    (prefix / "conda-meta" / "history").touch()
    (prefix / "conda-meta" / "state").write_text(json.dumps({"env_vars": {"FROM_STATE": "set"}}))
    script = 'export GDAL_DATA="$CONDA_PREFIX/share/gdal"\necho noise\n'
    (prefix / "etc/conda/activate.d/gdal.sh").write_text(script)
    return prefix


class Kernel:
    """A kernel that runs cells."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def run(self, code: str) -> str:
        """Return what a cell prints."""
        printed: list[str] = []

        def hear(message: dict[str, dict[str, str]]) -> None:
            if str(message["msg_type"]) in ("stream", "error"):
                printed.append(message["content"].get("text") or message["content"]["evalue"])

        self._client.execute_interactive(code, output_hook=hear, timeout=SECONDS)
        return "".join(printed).replace("\r\n", "\n")

    def variables(self, *names: str) -> list[str | None]:
        answer = self.run(f"import os, json; print(json.dumps([os.environ.get(each) for each in {names!r}]))")
        values: list[str | None] = json.loads(answer)
        return values


@contextmanager
def kernel(folder: Path, python: Path, **changes: str) -> Iterator[Kernel]:
    """A kernel of an environment, started by a server in another environment."""
    make_wheel(folder / "wheels", "1.0", "tiny_thing")
    variables = {
        "VIRTUAL_ENV": OTHER,
        "CONDA_PREFIX": OTHER,
        "CONDA_DEFAULT_ENV": "other",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder / "wheels"),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "OWNLAB_COLAB": "0",
        "OWNLAB_HOST": sys.executable,
        "SHELL": "/bin/sh",
        **changes,
    }
    with started(folder, variables, str(python)) as (_, client):
        yield Kernel(client)


WHERE = "import tiny_thing; print(tiny_thing.__file__)"
REMOVE = "!pip uninstall -q -y tiny-thing\nimport sys; sys.modules.pop('tiny_thing', None);"


@pytest.mark.parametrize("pip", [True, False], ids=["pip", "no-pip"])
def test_commands_reach_the_virtual_environment_of_the_kernel(tmp_path: Path, pip: bool) -> None:
    prefix = make_venv(tmp_path / "env", pip=pip)
    installed = f"{prefix}/lib/{LIBRARY}/site-packages/tiny_thing.py\n"
    with kernel(tmp_path, prefix / "bin" / "python") as cells:
        assert cells.variables("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV") == [str(prefix), None, None]
        assert cells.run("!python -c 'import sys; print(sys.prefix)'") == f"{prefix}\n"
        for command in ("!pip", "!pip3", "%pip", "pip", "!python3 -m pip" if pip else "!pip"):
            shown = cells.run(f"{command} install -q tiny-thing")
            assert (command, cells.run(WHERE)) == (command, installed), shown
            assert cells.run(REMOVE) == ""
        assert cells.run("!ownlab --version").startswith("ownlab, version")
        if shutil.which("uv"):
            cells.run(f"!uv pip install -q --no-index --find-links {tmp_path}/wheels tiny-thing")
            assert cells.run(WHERE) == installed


def test_without_any_pip_a_message_says_what_to_do(tmp_path: Path) -> None:
    prefix = make_venv(tmp_path / "env", pip=False)
    python = prefix / "bin" / "python"
    with kernel(tmp_path, python, OWNLAB_HOST="/nowhere/python", PATH="/usr/bin:/bin") as cells:
        shown = cells.run("!pip install tiny-thing")
        assert f"The environment {prefix} has no pip" in shown
        assert f"{python} -m ensurepip --upgrade --default-pip" in shown
        assert cells.run("%pip install tiny-thing").startswith(shown)
        assert "uv is not installed on this machine" in cells.run("!uv pip list")
        assert "Successfully installed pip" in cells.run(f"!{python} -m ensurepip --upgrade --default-pip")
        cells.run("!pip install -q tiny-thing")
        assert cells.run(WHERE) == f"{prefix}/lib/{LIBRARY}/site-packages/tiny_thing.py\n"


def test_an_environment_of_conda_is_activated(tmp_path: Path) -> None:
    root = tmp_path / "miniconda"
    prefix = make_conda(root, "science")
    with kernel(tmp_path, prefix / "bin" / "python") as cells:
        names = ("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV", "FROM_STATE", "GDAL_DATA", "CONDA_EXE")
        expected = [str(prefix), "science", None, "set", f"{prefix}/share/gdal", f"{root}/bin/conda"]
        assert cells.variables(*names) == expected
        assert cells.run("!python -c 'import sys; print(sys.prefix)'") == f"{prefix}\n"
        cells.run("!pip install -q tiny-thing")
        assert cells.run(WHERE) == f"{prefix}/lib/{LIBRARY}/site-packages/tiny_thing.py\n"


def test_a_python_of_the_system_keeps_the_order_of_programs(tmp_path: Path) -> None:
    """It is no environment: nothing is active, and its folder does not come before others."""
    base = Path(os.path.realpath(sys.executable))
    code = "import sys, json, os; sys.path.insert(0, sys.argv[1]); import launch; launch.prepare_path(); print(json.dumps(dict(os.environ)))"
    launch = Path(__file__).parents[2] / "src" / "ownlab_guest" / "kernel"
    given = {"PATH": "/opt/own/bin:/usr/bin", "VIRTUAL_ENV": OTHER, "CONDA_PREFIX": OTHER}
    ran = subprocess.run(
        [base, "-c", code, str(launch)], env=given, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    now = json.loads(ran.stdout)
    programs = launch.parent / "programs"
    assert now["PATH"] == f"{programs}/kernel:{programs}/lab:/opt/own/bin:/usr/bin:{programs}/fallback"
    assert "VIRTUAL_ENV" not in now
    assert "CONDA_PREFIX" not in now
    shown = subprocess.run(["python", "-c", "import sys; print(sys.prefix)"], env=now, capture_output=True, text=True, check=True)  # fmt: skip
    assert shown.stdout == f"{sys.base_prefix}\n"
