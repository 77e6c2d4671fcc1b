"""The rooms: who may import whom, each heavy library's one door, and what `import ownlab` may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ownlab

SRC = Path(__file__).resolve().parents[1] / "src"

# From the ground up. A room imports only from itself and from rooms before it.
ROOMS = [
    "errors",
    "units",
    "proc",
    "writing",
    "options",
    "guests",
    "catalog",
    "machine",
    "instruments.doctor",
    "instruments.monitor",
    "instruments.fit",
    "instruments.bench",
    "instruments.advise",
    "lab.store",
    "lab.journal",
    "lab.colab",
    "lab.runtimes",
    "lab.notebooks",
    "lab.runs",
    "show",
    "notebook",
    "serving",
    "server",
    "cli",
]

# Library -> the files that may import it. Nothing else in src/ may.
DOORS: dict[str, tuple[str, ...]] = {
    "click": ("ownlab/cli/", "ownlab/show/document.py"),
    "cupy": ("ownlab_guest/probe/",),
    "jax": ("ownlab_guest/bench/", "ownlab_guest/probe/"),
    "ipykernel": ("ownlab_guest/colab/", "ownlab_guest/kernel/"),
    "jupyter_client": ("ownlab/lab/runtimes/provisioner.py", "ownlab/server/"),
    "jupyter_server": ("ownlab/server/",),
    "jupyterlab": ("ownlab/server/app.py",),
    "keyring": ("ownlab/lab/colab/keyrings.py",),
    "numba": ("ownlab_guest/probe/",),
    "numpy": ("ownlab_guest/bench/", "ownlab_guest/probe/"),
    "prometheus_client": ("ownlab/instruments/monitor/exporting.py",),
    "pynvml": ("ownlab_guest/probe/nvml.py",),
    "ray": (),
    "rich": ("ownlab/show/terminal/",),
    "tensorflow": ("ownlab_guest/bench/", "ownlab_guest/probe/"),
    "textual": ("ownlab/show/screen/",),
    "torch": ("ownlab_guest/bench/", "ownlab_guest/fit/", "ownlab_guest/probe/"),
    "tornado": ("ownlab/lab/runtimes/provisioner.py", "ownlab/server/"),
    "traitlets": ("ownlab/lab/runtimes/provisioner.py", "ownlab/server/"),
    "vl_convert": ("ownlab/show/charts.py",),
    "zmq": (
        "ownlab/lab/runtimes/supervisor/",
        "ownlab/server/",
        "ownlab/lab/runtimes/line.py",
        "ownlab/lab/runtimes/start.py",
        "ownlab_guest/colab/",
        "ownlab_guest/kernel/",
    ),
}

# A supervisor stands beside every kernel: what it imports is memory for each of them.
SUPERVISOR_MAY_NOT = ["msgspec", "psutil", "dataclasses", "inspect", "asyncio", "jupyter_client", "rich", "click"]
# What a notebook calls runs in the kernel, beside the guest code that serves it.
GUESTS_NEIGHBOURS = ("ownlab.notebook",)

HEAVY = [
    "torch",
    "tensorflow",
    "jax",
    "ray",
    "jupyter_client",
    "jupyter_server",
    "jupyterlab",
    "zmq",
    "sqlite3",
    "numpy",
    "pynvml",
    "textual",
    "psutil",
    "rich",
]


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function; not what only a type checker sees."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str | None:
    """ "ownlab.machine.host.cpu" -> "machine"; None for what stands in no room (the package itself)."""
    inner = module.removeprefix("ownlab.")
    return next((room for room in ROOMS if inner == room or inner.startswith(f"{room}.")), None)


def module_of(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def wrong_ways(root: Path) -> list[str]:
    """Imports in root/ownlab that point to a lower room, or from the host into the guest or back."""
    found = []
    for path in sorted(root.rglob("*.py")):
        module = module_of(path, root)
        for name in imports_of(ast.parse(path.read_text())):
            if module.startswith("ownlab_guest"):
                if name.split(".")[0] == "ownlab":
                    found.append(f"{module} imports {name}: guest code knows nothing of ownlab")
            elif name.split(".")[0] == "ownlab_guest" and not module.startswith(GUESTS_NEIGHBOURS):
                found.append(f"{module} imports {name}: guest code is started, never imported")
            elif name.split(".")[0] == "ownlab":
                here, there = room_of(module), room_of(name)
                if here and there and ROOMS.index(there) > ROOMS.index(here):
                    found.append(f"{module} imports {name}: {there} stands below {here}")
    return found


def roomless(root: Path) -> list[str]:
    modules = [module_of(path, root) for path in sorted((root / "ownlab").rglob("*.py"))]
    return [
        name
        for name in modules
        if name not in ("ownlab", "ownlab.__main__", "ownlab.instruments", "ownlab.lab") and room_of(name) is None
    ]


def side_doors(root: Path) -> list[str]:
    found = []
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).as_posix()
        for library in sorted({name.split(".")[0] for name in imports_of(ast.parse(path.read_text()))}):
            doors = DOORS.get(library)
            if doors is not None and not any(place.startswith(door) for door in doors):
                found.append(f"{place} imports {library}")
    return found


def loaded_by(code: str, libraries: list[str] = HEAVY) -> set[str]:
    """Which of the libraries a fresh interpreter has loaded after running this."""
    script = f"import sys\n{code}\nprint(' '.join(name for name in {libraries!r} if name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.splitlines()[-1].split())


def plant(root: Path, place: str, text: str) -> Path:
    path = root / place
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return root


def test_layers_point_one_way() -> None:
    assert wrong_ways(SRC) == []


def test_every_module_has_a_room() -> None:
    assert roomless(SRC) == []


def test_heavy_libraries_have_one_door() -> None:
    assert side_doors(SRC) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("ownlab/machine/bad.py", "from ownlab.instruments.doctor import diagnose\n"),
        ("ownlab/catalog/bad.py", "def f():\n    import ownlab.machine.read\n"),
        ("ownlab/units.py", "from ownlab import cli\n"),
        ("ownlab/machine/guest.py", "import ownlab_guest.probe\n"),
        ("ownlab_guest/probe/bad.py", "from ownlab.errors import OwnlabError\n"),
    ],
)
def test_a_planted_wrong_way_is_found(tmp_path: Path, place: str, text: str) -> None:
    assert len(wrong_ways(plant(tmp_path, place, text))) >= 1


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("ownlab/machine/bad.py", "import torch\n"),
        ("ownlab/machine/nvidia/bad.py", "def f():\n    from pynvml import nvmlInit\n"),
        ("ownlab/instruments/doctor/bad.py", "from rich.console import Console\n"),
    ],
)
def test_a_planted_side_door_is_found(tmp_path: Path, place: str, text: str) -> None:
    assert len(side_doors(plant(tmp_path, place, text))) == 1


def test_a_module_outside_the_rooms_is_found(tmp_path: Path) -> None:
    assert roomless(plant(tmp_path, "ownlab/utils.py", "")) == ["ownlab.utils"]


def test_what_only_a_type_checker_sees_is_no_import() -> None:
    assert list(imports_of(ast.parse("if TYPE_CHECKING:\n    import torch\n"))) == []


def test_importing_ownlab_loads_nothing_heavy() -> None:
    assert loaded_by("import ownlab, ownlab.cli.main") == set()


def test_help_loads_nothing_heavy() -> None:
    code = "from ownlab.cli.main import cli\ntry:\n    cli(['--help'])\nexcept SystemExit:\n    pass"
    assert loaded_by(code) == set()


def test_a_planted_heavy_import_is_seen() -> None:
    assert loaded_by("import ownlab, psutil") == {"psutil"}


def test_the_doctor_loads_no_framework() -> None:
    assert loaded_by("import ownlab.cli.doctor, ownlab.cli.machine") & {"torch", "numpy", "pynvml", "jax"} == set()


def test_a_supervisor_loads_little() -> None:
    assert loaded_by("import ownlab.lab.runtimes.supervisor.__main__", SUPERVISOR_MAY_NOT) == set()


def test_public_names_are_listed_once_sorted_and_there() -> None:
    assert list(ownlab.__all__) == sorted(ownlab.__all__)
    assert set(ownlab.__all__) == set(ownlab._PUBLIC)
    for name in ownlab.__all__:
        assert getattr(ownlab, name) is not None


def test_guest_code_is_written_for_python_3_9() -> None:
    for path in sorted((SRC / "ownlab_guest").rglob("*.py")):
        ast.parse(path.read_text(), filename=str(path), feature_version=(3, 9))


def test_no_file_is_named_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "core"}
    assert [path for path in SRC.rglob("*.py") if path.stem in vague] == []
