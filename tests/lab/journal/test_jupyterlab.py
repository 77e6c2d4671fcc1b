"""The state compared with JupyterLab's own code: KernelConnection, OutputArea and OutputAreaModel, run in node.

OWNLAB_SCENES=5000 plays more scenes than the usual few.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.lab.journal.scene import Scene, fold_of, random_scene

from ownlab.lab.journal.replay import replay
from ownlab.lab.journal.state import JournalState

MODULES = Path(__file__).parents[3] / "labextension/node_modules"
SCENES = int(os.environ.get("OWNLAB_SCENES", "150"))

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(
        not (MODULES / "@jupyterlab/outputarea/lib/model.js").exists(),
        reason="labextension/node_modules is not installed",
    ),
    pytest.mark.timeout(600),
]


def play(scenes: list[list[Any]]) -> list[Any]:
    """Return what JupyterLab shows after each list of steps."""
    script = Path(__file__).with_name("jupyterlab.mjs")
    done = subprocess.run(
        ["node", str(script), str(MODULES)], input=json.dumps(scenes), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    played: list[Any] = json.loads(done.stdout)
    for scene in played:
        for cell in scene["cells"].values():
            # A result that changes a display leaves its count there, which nbformat does not allow.
            for output in cell["outputs"]:
                if output["output_type"] == "display_data":
                    output.pop("execution_count", None)
    return played


def shown(fold: JournalState, cells: list[str]) -> dict[str, Any]:
    """Return the journal state of cells in the format of jupyterlab.mjs."""
    found = {}
    for cell in cells:
        execution = fold.by_cell[cell]
        timing = {name: "now" if name == "execution_failed" else at for name, at in execution.timing.items()}
        found[cell] = {
            "outputs": execution.outputs.as_json(),
            "count": execution.execution_count,
            "timing": timing if execution.records_timing else {},
        }
    return found


def steps_of(scene: Scene, start: int = 0) -> list[Any]:
    return [step for step in scene.steps[start:] if step]


def attached(fold: JournalState) -> list[Any]:
    """The steps of a page that is opened now."""
    steps: list[Any] = []
    for execution in fold.by_cell.values():
        if execution.launch == fold.launch:
            header, metadata, content = execution.request
            steps.append(["execute", {"header": header, "metadata": metadata, "content": content}])
            for answer in replay(fold, execution):
                message = dict(zip(("channel", "header", "parent_header", "metadata", "content"), answer, strict=True))
                steps.append(["message", message])
    return steps


def moment_of(scene: Scene, seed: int) -> int:
    """Some moment, but not between two kernels: then there is nothing to attach to."""
    moment = random.Random(seed).randint(1, len(scene.records))
    return moment - 1 if scene.steps[moment - 1] == ["restart"] else moment


def test_the_state_equals_jupyterlabs() -> None:
    scenes = [random_scene(seed, 80) for seed in range(SCENES)]
    for seed, (scene, played) in enumerate(zip(scenes, play([steps_of(scene) for scene in scenes]), strict=True)):
        assert shown(fold_of(scene.records), list(played["cells"])) == played["cells"], f"seed {seed}"


def test_output_widgets_capture_as_in_jupyterlab() -> None:
    scenes = [random_scene(seed, 80, widgets=True) for seed in range(SCENES)]
    for seed, (scene, played) in enumerate(zip(scenes, play([steps_of(scene) for scene in scenes]), strict=True)):
        fold = fold_of(scene.records)
        assert shown(fold, list(played["cells"])) == played["cells"], f"seed {seed}"
        states = fold.comms.states()[0]["states"]
        widgets = {key: state["state"]["outputs"] for key, state in states.items()}
        assert widgets == {key: played["widgets"][key] for key in widgets}, f"seed {seed}"


def test_a_page_that_connects_later_shows_the_same() -> None:
    """Told again up to some moment, and with the messages themselves from there on."""
    scenes = [random_scene(seed, 80) for seed in range(SCENES)]
    moments = [moment_of(scene, seed) for seed, scene in enumerate(scenes)]
    late = [
        attached(fold_of(scene.records[:moment])) + steps_of(scene, moment)
        for scene, moment in zip(scenes, moments, strict=True)
    ]
    for seed, (scene, played) in enumerate(zip(scenes, play(late), strict=True)):
        expected = shown(fold_of(scene.records), list(played["cells"]))
        assert expected == played["cells"], f"seed {seed}, from {moments[seed]}"
