"""google.colab next to other packages named google, and variables of Colab mode."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.guest.colab.kernel_process import LAUNCH, PYTHON


def run(code: str, *folders: Path) -> str:
    """Return what a script prints in a process prepared as a kernel, with folders first on its path."""
    begin = f"import sys\nsys.path[:0] = {[*map(str, folders), str(LAUNCH.parent)]!r}\nimport launch\n"
    environment = {"OWNLAB_COLAB": "1", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(
        [PYTHON, "-c", begin + code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


USE = """
launch.prepare_path()
import google.colab.files, google.auth
print(google.colab.__name__, google.auth.NAME, google.colab is sys.modules['google.colab'])
"""


@pytest.mark.parametrize(
    "init",
    [None, "", "__path__ = __import__('pkgutil').extend_path(__path__, __name__)"],
    ids=["none", "empty", "extends"],
)
def test_other_packages_of_google_stay(tmp_path: Path, init: str | None) -> None:
    (tmp_path / "google" / "auth").mkdir(parents=True)
    (tmp_path / "google" / "auth" / "__init__.py").write_text("NAME = 'theirs'")
    if init is not None:
        (tmp_path / "google" / "__init__.py").write_text(init)
    assert run(USE, tmp_path) == "google.colab theirs True\n"


def test_an_existing_google_package_from_a_pth_file_stays(tmp_path: Path) -> None:
    (tmp_path / "google" / "auth").mkdir(parents=True)
    (tmp_path / "google" / "auth" / "__init__.py").write_text("NAME = 'theirs'")
    made = f"import types\ng = sys.modules['google'] = types.ModuleType('google')\ng.__path__ = [{str(tmp_path / 'google')!r}]\n"
    assert run(made + USE) == "google.colab theirs True\n"


def test_our_package_wins_over_googles_own(tmp_path: Path) -> None:
    (tmp_path / "google" / "colab").mkdir(parents=True)
    (tmp_path / "google" / "colab" / "__init__.py").write_text("raise RuntimeError('not for here')")
    assert run("launch.prepare_path()\nimport google.colab\nprint(google.colab.__file__)", tmp_path).startswith(
        str(LAUNCH.parents[1])
    )


def test_a_plain_kernel_has_no_google_colab() -> None:
    code = "import os\nos.environ.clear()\nlaunch.prepare_path()\nprint([n for n in sys.modules if 'colab' in n], [n for n in os.environ if 'COLAB' in n])"
    assert run(code) == "[] []\n"


@pytest.mark.parametrize(
    ("environ", "answer"),
    [
        ({"CUDA_VISIBLE_DEVICES": "GPU-1"}, "1"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "0"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "0"),
        ({"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "0"}, "1"),
        ({"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}, "0"),
    ],
)
def test_a_visible_card_is_announced(environ: dict[str, str], answer: str) -> None:
    code = f"import os\nos.environ.update({environ!r})\nlaunch.prepare_path()\nprint(os.environ['COLAB_GPU'])"
    assert run(code) == f"{answer}\n"


def test_programs_of_the_kernels_environment_come_first() -> None:
    code = "import os, shutil\nlaunch.prepare_path()\nprint(os.path.dirname(shutil.which('python')), os.path.dirname(sys.executable))"
    version, own = run(code).split()
    assert version == own
