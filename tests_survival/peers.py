"""Other Jupyter systems under the same interruptions: `python -m tests_survival.peers VENV --runs N`.

VENV has jupyterlab, jupyter-collaboration, jupyter-server-nbmodel, ipykernel, ipywidgets and tqdm. Scripts have no input
requests, on which plain JupyterLab hangs when its page is gone, and no widgets.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.lab.server.conftest import unused_port
from tests_survival import browser
from tests_survival.browser import Outcome, Served
from tests_survival.edits import browser as edits

__all__: list[str] = []

OURS = "ownlab"  # off, if the environment has it
COLLABORATION = ("jupyter_server_ydoc", "jupyter_collaboration", "jupyter_server_nbmodel", "jupyter_server_fileid")
PAGES = ("@jupyter/collaboration-extension", "@jupyter/docprovider-extension", "@datalayer/jupyter-server-nbmodel")
# Those switch these off, even where they are off themselves.
OWN = ("@jupyterlab/notebook-extension:cell-executor", "@jupyterlab/filebrowser-extension:defaultFileBrowser")


def peer(venv: Path, root: Path, together: bool) -> Served:
    """Plain JupyterLab, or with collaboration and execution in the server."""
    name = "jupyter-collaboration + nbmodel" if together else "JupyterLab"
    folder = root / ("together" if together else "plain")
    (folder / "work").mkdir(parents=True)
    (folder / "config" / "labconfig").mkdir(parents=True)
    if not together:
        off = {"ServerApp": {"jpserver_extensions": dict.fromkeys((OURS, *COLLABORATION), False)}}
        (folder / "config" / "jupyter_server_config.json").write_text(json.dumps(off))
        pages = {"disabledExtensions": {**dict.fromkeys((OURS, *PAGES), True), **dict.fromkeys(OWN, False)}}
        (folder / "config" / "labconfig" / "page_config.json").write_text(json.dumps(pages))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("JUPYTER", "OWNLAB", "VIRTUAL_ENV"))}
    environ = {
        **kept,
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "IPYTHONDIR": str(folder / "ipython"),
    }
    port = unused_port()
    command = [str(venv / "bin" / "python"), "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [
        f"--port={port}",
        "--IdentityProvider.token=a-token-of-the-tests",
        f"--ServerApp.root_dir={folder / 'work'}",
    ]
    command += ["--ServerApp.port_retries=0"]
    return Served(name, folder / "work", command, environ, port)


def summary(name: str, outcomes: list[Outcome]) -> str:
    """Runs with losses or duplicates, by kind of interruption; runs that could not be judged are counted separately."""
    judged = [outcome for outcome in outcomes if not outcome.unjudged]
    runs, wrong = (
        Counter(outcome.kind for outcome in judged),
        Counter(outcome.kind for outcome in judged if outcome.wrong),
    )
    kinds = ", ".join(f"{kind} {wrong[kind]} of {runs[kind]}" for kind in runs)
    unjudged = ", ".join(outcome.kind for outcome in outcomes if outcome.unjudged) or "none"
    return f"{name}: losses or doubles in {wrong.total()} of {len(judged)} runs ({kinds}); not judged: {unjudged}"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("venv", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--edits", action="store_true", help="the notebooks are edited, too")
    parser.add_argument("--only", choices=("plain", "together"))
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.runs)
    lines = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for together in (False, True):
            if options.only == ("plain" if together else "together"):
                continue
            system = peer(options.venv.absolute(), Path(folder), together)
            system.start()
            try:
                outcomes = (edits if options.edits else browser).run_all(system, seeds, ours=False)
            finally:
                system.end(signal.SIGTERM)
            lines.append(summary(system.name, outcomes))
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
