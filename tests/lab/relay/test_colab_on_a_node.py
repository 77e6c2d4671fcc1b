"""Colab mode on a node: /content, the drive, secrets, and the end of the runtime from the notebook or with all of its files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.relay.conftest import CPU, Notebook

if TYPE_CHECKING:
    from tests.lab.engines.slurm.cluster import Cluster
    from tests.lab.server.conftest import LabServer
    from tests.lab.server.stream_page import Open

Until = Callable[..., Any]

VALUE = "s3cret-of-the-node"


@pytest.fixture
def notebook(lab: LabServer, follow: Open) -> Notebook:
    return Notebook(lab, follow, CPU, source="import google.colab")


def content(notebook: Notebook) -> Path:
    """Its /content, in the state folder."""
    return notebook.lab.home / "content" / notebook.kernel


def test_content_and_the_drive_are_those_of_the_lab(notebook: Notebook) -> None:
    where = "import os, google.colab; print(os.environ['SLURMD_NODENAME'], os.path.samefile('.', os.environ['OWNLAB_CONTENT']))"
    assert notebook.page.run(where).split()[1:] == ["True"]
    notebook.page.run("open('weights.bin', 'wb').write(b'x' * 1000)")
    assert (content(notebook) / "weights.bin").stat().st_size == 1000
    measured = notebook.lab.get(f"/ownlab/api/runtimes/{notebook.kernel}/leftovers").json()
    assert (measured["content"], measured["size"] >= 1000) == (True, True), measured
    notebook.page.run("from google.colab import drive; drive.mount('/content/drive')")
    notebook.page.run("open('/content/drive/MyDrive/kept.txt', 'w').write('kept')")
    places = notebook.page.run("print(os.environ['OWNLAB_DRIVE'])").split()
    assert Path(places[-1], "kept.txt").read_text() == "kept"


def test_a_granted_secret_is_read_and_stands_in_no_environment(notebook: Notebook) -> None:
    lab = notebook.lab
    for arguments, typed in ((("set", "TOKEN"), VALUE), (("grant", "TOKEN", str(lab.folder / notebook.name)), "")):
        command = [sys.executable, "-m", "ownlab", "secrets", *arguments]
        subprocess.run(command, env=lab.environ, input=typed, text=True, check=True, timeout=300, capture_output=True)
    code = "from google.colab import userdata\nkept = userdata.get('TOKEN')\nprint(len(kept), kept[:3])"
    assert notebook.page.run(code) == f"{len(VALUE)} {VALUE[:3]}\n"
    refused = notebook.page.execute("userdata.get('OTHER')", cell="second")
    notebook.page.until_idle(refused)
    assert "OTHER does not exist" in notebook.error("second")
    places = [*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ")]
    for path in [*places, *notebook.folder.glob("*.json"), notebook.folder / "job.sh"]:
        try:
            seen = path.read_bytes()
        except OSError:  # it has ended
            continue
        assert VALUE.encode() not in seen, path


def test_unassign_ends_the_job(notebook: Notebook, cluster: Cluster, until: Until) -> None:
    notebook.page.run("import os; open('left.txt', 'w').close()")
    job = notebook.job
    notebook.page.execute(
        "print('last words', flush=True)\nfrom google.colab import runtime\nruntime.unassign()", cell="first"
    )
    until(lambda: job not in cluster.ask("squeue", "-h", "-o", "%i").split(), "its job is gone")
    until(lambda: not notebook.folder.parent.exists(), "its folder is gone")
    assert notebook.printed("first") == "last words\n"
    assert (content(notebook) / "left.txt").exists(), "files of /content are kept for a while"


def test_disconnect_and_delete_removes_its_content(notebook: Notebook, cluster: Cluster, until: Until) -> None:
    notebook.page.run("import os; os.makedirs('deep/er'); open('deep/er/x', 'w').close()")
    assert (content(notebook) / "deep/er/x").exists()
    lab, job = notebook.lab, notebook.job
    lab.post(f"/ownlab/api/runtimes/{notebook.kernel}/stop", {"delete_content": True}).raise_for_status()
    until(lambda: job not in cluster.ask("squeue", "-h", "-o", "%i").split(), "its job is gone")
    until(lambda: not os.path.exists(content(notebook)), "its files are gone")
