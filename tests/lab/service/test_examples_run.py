"""Every example runs to its end on a CPU within a minute, and says what to do where a package is missing.

The environment for deep learning is .venv-torch with the kernel and matplotlib of ownlab's own environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbclient
import nbformat
import pytest
from tests_colab.suite import output_text

from ownlab.lab.service.examples import list_examples, place_example
from ownlab.languages import ENGLISH

if TYPE_CHECKING:
    from tests.command_line import World

ROOT = Path(__file__).resolve().parents[3]
NEEDS_TORCH = [example.name for example in list_examples() if "torch" in example.packages]
SECONDS = 60  # on an idle machine


@pytest.fixture(scope="session")
def deep_learning(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with torch, transformers, matplotlib and ipykernel."""
    python = ROOT / ".venv-torch" / "bin" / "python"
    if not python.exists():
        pytest.skip("no .venv-torch: `scripts/setup test` makes it")
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    folder = tmp_path_factory.mktemp("deep") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "both.pth").write_text(f"{packages}\n{sysconfig.get_path('purelib')}\n")
    return str(folder / "bin" / "python")


def prepare(world: World, python: str = "") -> None:
    """An own drive, one thread per process since several tests may run at once, and the environment `deep`."""
    Path(world.env["OWNLAB_CONFIG"]).write_text(f"[drive]\nfolder = {json.dumps(str(world.root / 'drive'))}\n")
    world.env |= {"HOME": str(world.root), "OMP_NUM_THREADS": "1", "MPLCONFIGDIR": str(world.root / "mpl")}
    if python:
        added = world.run("env", "add", "deep", "--python", python)
        assert added.returncode == 0, added.stderr


def run_example(
    world: World, name: str, kind: str, *options: str, language: str = ENGLISH
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the report, and what each cell put out."""
    path = place_example(str(world.folder), name, language)
    command = [sys.executable, "-m", "ownlab", "run", str(world.folder / path), "-t", kind, "--json", *options]
    # `World.run` allows less than a training takes on a machine that is very busy.
    ran = subprocess.run(
        command, env=world.env, cwd=world.root, capture_output=True, text=True, timeout=550, check=False
    )
    assert ran.stdout, ran.stderr
    report = json.loads(ran.stdout)
    cells = json.loads(Path(report["output"]).read_text())["cells"]
    return report, {cell["id"]: output_text(cell) for cell in cells if cell["cell_type"] == "code"}


def assert_done_in_time(report: dict[str, Any], outputs: dict[str, str]) -> None:
    assert report["status"] == "done", (report["reason"], outputs)
    crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert report["seconds"] < SECONDS * crowd, report


@pytest.mark.timeout(600)
def test_the_image_classifier_learns(world: World, deep_learning: str) -> None:
    prepare(world, deep_learning)
    report, outputs = run_example(world, "image-classifier", "deep-cpu")
    assert_done_in_time(report, outputs)
    assert float(outputs["show-answers"].split("\n")[-2].split("%")[0]) > 90
    assert all("image/png" in outputs[cell] or "Figure" in outputs[cell] for cell in ("show-images", "confusion"))


@pytest.mark.timeout(600)
def test_pre_training_helps_the_transformer(world: World, deep_learning: str) -> None:
    prepare(world, deep_learning)
    report, outputs = run_example(world, "fine-tune-transformer", "deep-cpu")
    assert_done_in_time(report, outputs)
    tuned, scratch = (float(line.split(":")[1].split("%")[0]) for line in outputs["fine-tune"].splitlines())
    assert tuned > 95
    assert tuned > scratch + 8


@pytest.mark.timeout(600)
def test_the_memory_of_a_step_is_predicted(world: World, deep_learning: str) -> None:
    prepare(world, deep_learning)
    report, outputs = run_example(world, "will-it-fit", "deep-cpu")
    assert_done_in_time(report, outputs)
    assert "A training step takes" in outputs["predict"]
    full, half = (float(line.rsplit(":", 1)[1].split("GiB")[0]) for line in outputs["batches"].splitlines())
    assert half < full


@pytest.mark.timeout(600)
def test_a_zip_becomes_a_training_loop(world: World, deep_learning: str) -> None:
    """The environment has no ownlab: the kernel's own functions ask the ownlab that started it."""
    prepare(world, deep_learning)
    report, outputs = run_example(world, "zip-to-gpu", "deep-cpu")
    assert_done_in_time(report, outputs)
    assert "One file is broken" in outputs["inspect"]
    assert "1200 samples in" in outputs["pack"]
    assert "left out: diagonal/broken.jpg" in outputs["pack"]
    assert float(outputs["train"].splitlines()[-1].split(": ")[1].split("%")[0]) > 80
    assert "The model takes" in outputs["bench"]


@pytest.mark.timeout(600)
def test_the_gpu_check_says_that_there_is_no_gpu(world: World, deep_learning: str) -> None:
    prepare(world, deep_learning)
    del world.env["OWNLAB_MACHINE"]
    report, outputs = run_example(world, "gpu-check", "deep-cpu")
    assert_done_in_time(report, outputs)
    assert "nothing to compare" in outputs["compute"]
    assert "cpu matmul" in outputs["bench"]
    assert "Figure" in outputs["show-bench"] or "image/png" in outputs["show-bench"]


@pytest.mark.parametrize("name", NEEDS_TORCH)
def test_a_missing_package_is_explained(world: World, name: str) -> None:
    prepare(world)
    report, outputs = run_example(world, name, "cpu")
    assert (report["status"], [cell["status"] for cell in report["cells"]][1:3]) == ("failed", ["not run"] * 2)
    assert "This runtime has no torch" in outputs["check-packages"]
    assert "ownlab env create deep-learning --with torch" in outputs["check-packages"]


@pytest.mark.parametrize("name", ["welcome", "gpu-check"])
def test_an_example_without_torch(world: World, name: str) -> None:
    prepare(world)
    report, outputs = run_example(world, name, "cpu")
    assert_done_in_time(report, outputs)
    assert "ownlab env create deep-learning --with torch" in "".join(outputs.values())
    if name == "welcome":
        assert "This is a CPU runtime. If this machine has a GPU, choose another" in outputs["find-device"]
        assert "billion operations per second" in outputs["time-product"]


def test_drive_and_secrets(world: World) -> None:
    prepare(world)
    report, outputs = run_example(world, "drive-and-secrets", "cpu")
    assert_done_in_time(report, outputs)
    assert "Runs of this cell so far: 1." in outputs["write-file"]
    assert "There is no secret EXAMPLE_TOKEN yet" in outputs["read-secret"]
    assert json.loads((world.root / "drive" / "ownlab-example" / "visits.json").read_text())
    set_secret = [sys.executable, "-m", "ownlab", "secrets", "set", "EXAMPLE_TOKEN"]
    subprocess.run(set_secret, input="hidden", text=True, env=world.env, check=True)
    report, outputs = run_example(world, "drive-and-secrets", "cpu")
    assert "may not read EXAMPLE_TOKEN yet" in outputs["read-secret"]
    granted = world.run("secrets", "grant", "EXAMPLE_TOKEN", "work/examples/drive-and-secrets.ipynb")
    assert granted.returncode == 0, granted.stderr
    report, outputs = run_example(world, "drive-and-secrets", "cpu")
    assert "EXAMPLE_TOKEN has 6 characters" in outputs["read-secret"]
    assert "hidden" not in "".join(outputs.values())
    assert "Runs of this cell so far: 3." in outputs["write-file"]


def test_forms_and_several_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(world)
    report, outputs = run_example(world, "forms-and-run", "cpu", "-p", "learning_rate=0.05", "-p", "result_file=r.json")
    assert_done_in_time(report, outputs)
    assert [cell["status"] for cell in report["cells"]] == ["done", "done", "done", "skipped"]
    saved = json.loads((world.folder / "examples" / "r.json").read_text())
    assert saved["learning_rate"] == 0.05
    assert saved["losses"][-1] < saved["losses"][0]
    refused = world.run("run", "work/examples/forms-and-run.ipynb", "-p", "degree=4")
    assert refused.returncode == 2
    # In a page the last cell runs, too; a client that does not skip it takes its place.
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    path = world.folder / "examples" / "forms-and-run.ipynb"
    notebook = nbformat.reads(path.read_text(), as_version=4)  # type: ignore[no-untyped-call]
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="ownlab-cpu",
        skip_cells_with_tag="",
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    sweep = output_text(notebook.cells[-1])
    assert [line.split()[2] for line in sweep.splitlines() if line.startswith("learning rate")] == [
        "0.01",
        "0.1",
        "0.5",
    ]
    assert (path.parent / "runs" / "learning-rate-0.1.ipynb").exists()


@pytest.mark.parametrize("name", [example.name for example in list_examples() if example.name not in NEEDS_TORCH])
def test_a_chinese_example_runs(world: World, name: str) -> None:
    """The others have the same code, which test_examples_translated.py compares."""
    prepare(world)
    report, outputs = run_example(world, name, "cpu", language="zh_CN")
    assert_done_in_time(report, outputs)
    written = "".join(outputs.values())
    assert re.search("[\u4e00-\u9fff]", written)
    assert "missing from font" not in written, "matplotlib's font has no Chinese characters"
