"""The packages: which may import which, the files that may import each heavy library, and what `import ownlab` may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ownlab

SRC = Path(__file__).resolve().parents[1] / "src"

# The ground: imports no feature. Every package may import it, and machine and catalog.
GROUND = {
    "cli.lazy_group",
    "cli.options",
    "cli.translated_help",
    "config",
    "download",
    "errors",
    "file_lock",
    "atomic_files",
    "guest_client",
    "input_files",
    "json_encoding",
    "languages",
    "notebook_language",  # of notebooks and scripts
    "paste",
    "processes",
    "render",
    "text",
    "units",
}
BASE = {"catalog", "machine"}

# Feature -> the features it may import, beside the ground, machine and catalog.
EDGES: dict[str, set[str]] = {
    "cli": {"instruments.top"},  # the driver is asked before the command is loaded
    "data": {"instruments.data"},  # the functions of its commands
    "notebook": {"instruments.fit"},
    "instruments.doctor": {"lab.engines"},  # `doctor --cluster` asks Slurm by its engine's commands
    "instruments.cluster": set(),
    "instruments.top": set(),
    "instruments.fit": set(),
    "instruments.bench": set(),
    "instruments.why": {"instruments.top"},  # the driver's readings of a card while a script runs
    "instruments.advise": {"instruments.bench", "instruments.fit"},
    "instruments.data": {"lab.secrets"},  # tokens of download sources
    "lab.store": set(),
    "lab.journal": {"lab.store"},
    "lab.forms": set(),
    "lab.colab": {"lab.forms"},
    "lab.secrets": {"lab.store"},
    "lab.remote_notebooks": {"lab.colab", "lab.notebooks", "lab.secrets"},
    "lab.environments": {"lab.store"},
    "lab.transport": {"lab.journal"},
    "lab.runtimes": {
        "instruments.top",
        "lab.colab",
        "lab.environments",
        "lab.journal",
        "lab.notebooks",
        "lab.store",
        "lab.transport",
    },
    "lab.supervisor": {"lab.journal", "lab.runtimes", "lab.store", "lab.transport"},
    "lab.notebooks": {"lab.journal"},
    "lab.runs": {
        "lab.colab",
        "lab.forms",
        "lab.journal",
        "lab.notebooks",
        "lab.runtimes",
        "lab.store",
        "lab.transport",
    },
    "lab.engines": {"lab.environments", "lab.runs", "lab.runtimes", "lab.store", "lab.transport"},
    "lab.scripts": {"lab.engines", "lab.runs", "lab.runtimes"},
    "lab.relay": {"lab.engines", "lab.journal", "lab.runtimes", "lab.store", "lab.supervisor", "lab.transport"},
    "lab.service": {"lab.engines", "lab.notebooks", "lab.runtimes", "lab.store"},
    "lab.sweeps": {"lab.engines", "lab.runs", "lab.runtimes", "lab.scripts", "lab.store"},
    # the start page lists the data sets of `ownlab data`
    "lab.start_page": {
        "instruments.data",
        "lab.environments",
        "lab.journal",
        "lab.notebooks",
        "lab.runtimes",
        "lab.service",
    },
    "lab.server": {
        "instruments.top",
        "lab.colab",
        "lab.engines",
        "lab.environments",
        "lab.forms",
        "lab.journal",
        "lab.notebooks",
        "lab.remote_notebooks",
        "lab.runtimes",
        "lab.secrets",
        "lab.service",
        "lab.start_page",
        "lab.store",
        "lab.transport",
    },
    "lab.terminal": {
        "lab.engines",
        "lab.environments",
        "lab.forms",
        "lab.journal",
        "lab.notebooks",
        "lab.runs",
        "lab.runtimes",
        "lab.scripts",
        "lab.secrets",
        "lab.service",
        "lab.store",
        "lab.sweeps",
    },
    "lab.cli": {
        "lab.engines",
        "lab.environments",
        "lab.forms",
        "lab.journal",
        "lab.notebooks",
        "lab.remote_notebooks",
        "lab.runs",
        "lab.runtimes",
        "lab.scripts",
        "lab.secrets",
        "lab.server",
        "lab.service",
        "lab.store",
        "lab.sweeps",
        "lab.terminal",
        "lab.transport",
    },
}
# Single imports beside these edges, each with its reason.
EXCEPTIONS = {
    ("lab.supervisor.event_loop", "lab.engines.slurm.job_log"),  # in a job: which of Slurm's ends it was
    ("instruments.top.cli", "lab.runtimes.process_owners"),  # `ownlab top` names the notebook behind a process
}
# Package of the guest -> the guest packages it may import, beside `text`.
# These stand beside the guest's packages, and each of them may import them.
GUEST_GROUND = {"atomic_files", "text"}
GUEST_EDGES: dict[str, set[str]] = {
    "atomic_files": set(),
    "bench": {"probe"},
    "colab": {"shell"},
    "data": set(),
    "facade": {"data", "kernel"},
    "fit": {"probe"},
    "kernel": {"colab", "fit", "programs", "shell", "why"},
    "launch": set(),
    "probe": set(),
    "programs": set(),
    "shell": set(),
    "text": set(),
    "training": {"kernel"},
    "why": {"colab"},  # its mounts
}
PACKAGES = sorted({*GROUND, *BASE, *EDGES}, key=len, reverse=True)

# Library -> the files that may import it. Nothing else in src/ may.
DOORS: dict[str, tuple[str, ...]] = {
    "click": ("ownlab/cli/", "ownlab/render/documents.py", "*cli.py", "ownlab/lab/cli/"),
    "cupy": ("ownlab_guest/probe/",),
    "jax": ("ownlab_guest/bench/", "ownlab_guest/probe/"),
    "ipykernel": ("ownlab_guest/colab/", "ownlab_guest/kernel/", "ownlab_guest/shell/"),
    "jupyter_client": ("ownlab/lab/runtimes/provisioner.py", "ownlab/lab/server/"),
    "jupyter_server": ("ownlab/lab/server/",),
    "jupyterlab": ("ownlab/lab/server/app.py",),
    "keyring": ("ownlab/lab/secrets/keyring_backend.py",),
    "numba": ("ownlab_guest/probe/",),
    "numpy": ("ownlab_guest/bench/", "ownlab_guest/data/decoding.py", "ownlab_guest/probe/"),
    "obstore": ("ownlab/instruments/data/download/object_storage.py",),
    "prometheus_client": ("ownlab/instruments/top/prometheus.py",),
    "pynvml": ("ownlab_guest/probe/nvml.py",),
    "ray": (),
    "rich": ("ownlab/render/console.py", "*terminal.py", "ownlab/lab/terminal/"),
    "tensorflow": ("ownlab_guest/bench/", "ownlab_guest/probe/"),
    "textual": ("ownlab/instruments/top/screen/",),
    "torch": (
        "ownlab_guest/bench/",
        "ownlab_guest/data/torch_data.py",
        "ownlab_guest/fit/",
        "ownlab_guest/probe/",
        "ownlab_guest/training/",
    ),
    "tornado": ("ownlab/lab/runtimes/provisioner.py", "ownlab/lab/server/"),
    "traitlets": ("ownlab/lab/runtimes/provisioner.py", "ownlab/lab/server/"),
    "vl_convert": ("ownlab/render/charts.py",),
    "zmq": (
        "ownlab/lab/relay/",
        "ownlab/lab/supervisor/",
        "ownlab/lab/server/",
        "ownlab/lab/transport/",
        "ownlab/lab/runtimes/start.py",
        "ownlab_guest/colab/",
        "ownlab_guest/kernel/",
    ),
}

# A supervisor stands beside every kernel: what it imports is memory for each of them.
SUPERVISOR_MAY_NOT = ["msgspec", "psutil", "dataclasses", "inspect", "asyncio", "jupyter_client", "rich", "click"]
# What a notebook calls runs in the kernel, beside the guest code that serves it.
GUEST_NEIGHBOURS = (
    "ownlab.data",
    "ownlab.notebook",
    "ownlab.instruments.data.notebook",
    "ownlab.instruments.fit.notebook",
    "ownlab.instruments.top.notebook",
)

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


def package_of(module: str) -> str | None:
    """ "ownlab.machine.host.cpu_and_memory" -> "machine"; None for the package itself."""
    inner = module.removeprefix("ownlab.")
    return next((name for name in PACKAGES if inner == name or inner.startswith(f"{name}.")), None)


def module_of(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def wrong_edges(root: Path) -> list[str]:
    """Imports that no edge allows, and imports from the host into the guest or back."""
    problems: list[str] = []
    for path in sorted(root.rglob("*.py")):
        module = module_of(path, root)
        for name in imports_of(ast.parse(path.read_text())):
            target = name.split(".")[0]
            if module.startswith("ownlab_guest"):
                problems += _wrong_in_guest(module, name)
            elif target == "ownlab_guest" and not module.startswith(GUEST_NEIGHBOURS):
                problems.append(f"{module} imports {name}: guest code is started, never imported")
            elif target == "ownlab" and not _is_allowed(module, name):
                problems.append(f"{module} imports {name}")
    return problems


def _is_allowed(module: str, name: str) -> bool:
    here, there = package_of(module), package_of(name)
    if here is None or there is None or here == there:
        return True
    if here in GROUND:
        return there in GROUND
    if there in GROUND or there in BASE:
        return True
    pair = (module.removeprefix("ownlab."), name.removeprefix("ownlab."))
    return there in EDGES.get(here, set()) or any(
        pair[0] == source and (pair[1] == target or pair[1].startswith(f"{target}.")) for source, target in EXCEPTIONS
    )


def _wrong_in_guest(module: str, name: str) -> Iterator[str]:
    parts, here = name.split("."), module.split(".")[1:2]
    if parts[0] == "ownlab":
        yield f"{module} imports {name}: guest code knows nothing of ownlab"
    elif parts[0] == "ownlab_guest" and here and not {*parts[1:2]} <= {*here, *GUEST_GROUND, *GUEST_EDGES[here[0]]}:
        yield f"{module} imports {name}"


def without_package(root: Path) -> list[str]:
    modules = [module_of(path, root) for path in sorted((root / "ownlab").rglob("*.py"))]
    groups = ("ownlab", "ownlab.__main__", "ownlab.instruments", "ownlab.lab")
    return [name for name in modules if name not in groups and package_of(name) is None]


def side_doors(root: Path) -> list[str]:
    problems = []
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).as_posix()
        for library in sorted({name.split(".")[0] for name in imports_of(ast.parse(path.read_text()))}):
            doors = DOORS.get(library)
            if doors is not None and not any(
                place.startswith(door) or (door[0] == "*" and place.endswith(door[1:])) for door in doors
            ):
                problems.append(f"{place} imports {library}")
    return problems


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


def test_packages_import_only_along_the_edges() -> None:
    assert wrong_edges(SRC) == []


def test_every_module_belongs_to_a_package() -> None:
    assert without_package(SRC) == []


def test_heavy_libraries_have_one_door() -> None:
    assert side_doors(SRC) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("ownlab/machine/bad.py", "from ownlab.instruments.doctor import diagnose\n"),
        ("ownlab/catalog/bad.py", "def f():\n    import ownlab.instruments.fit.cli\n"),
        ("ownlab/instruments/fit/bad.py", "from ownlab.instruments.doctor import cli\n"),
        ("ownlab_guest/colab/bad.py", "from ownlab_guest.kernel import launch\n"),
        ("ownlab/units.py", "from ownlab import cli\n"),
        ("ownlab/machine/guest.py", "import ownlab_guest.probe\n"),
        ("ownlab_guest/probe/bad.py", "from ownlab.errors import OwnlabError\n"),
    ],
)
def test_a_planted_wrong_edge_is_found(tmp_path: Path, place: str, text: str) -> None:
    assert len(wrong_edges(plant(tmp_path, place, text))) >= 1


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


def test_a_module_outside_the_packages_is_found(tmp_path: Path) -> None:
    assert without_package(plant(tmp_path, "ownlab/utils.py", "")) == ["ownlab.utils"]


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
    assert (
        loaded_by("import ownlab.instruments.doctor.cli, ownlab.machine.cli") & {"torch", "numpy", "pynvml", "jax"}
        == set()
    )


def test_a_supervisor_loads_little() -> None:
    assert loaded_by("import ownlab.lab.supervisor.__main__", SUPERVISOR_MAY_NOT) == set()


def test_public_names_are_listed_once_sorted_and_there() -> None:
    assert list(ownlab.__all__) == sorted(ownlab.__all__)
    assert set(ownlab.__all__) == set(ownlab._PUBLIC)
    for name in ownlab.__all__:
        assert getattr(ownlab, name) is not None


def test_no_public_name_is_also_a_module() -> None:
    modules = {path.stem for path in (SRC / "ownlab").iterdir()}
    assert modules & set(ownlab.__all__) == set()


def test_each_public_name_stays_the_same_when_its_module_is_loaded() -> None:
    code = (
        "import ownlab\n"
        "first = {name: getattr(ownlab, name) for name in ownlab.__all__}\n"
        "assert all(getattr(ownlab, name) is value for name, value in first.items())\n"
        "assert all(callable(value) for value in first.values())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_guest_code_is_written_for_python_3_9() -> None:
    for path in sorted((SRC / "ownlab_guest").rglob("*.py")):
        ast.parse(path.read_text(), filename=str(path), feature_version=(3, 9))


def test_no_file_is_named_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "core"}
    assert [path for path in SRC.rglob("*.py") if path.stem in vague] == []
