"""Many runs as one job array: one submission, one entry of the queue, which Slurm starts whether or not anybody here lives.

Each run has its own folder with its own batch script. The folder of the array has a link to each, named by the number of
the task, since the names of logs and the script of the array can contain nothing else that differs.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from ownlab.config.settings import LabOptions
from ownlab.errors import InputError
from ownlab.lab.engines.interface import Task
from ownlab.lab.engines.slurm.batch_script import LOG, NOT_STARTED, batch_script
from ownlab.lab.engines.slurm.requests import comment_of, sbatch_options
from ownlab.text import text

__all__ = ["array_name", "array_options", "write_array"]

_SCRIPT = """\
#!/bin/sh
# Written by ownlab for sbatch.
folder={folder}/$SLURM_ARRAY_TASK_ID
[ -r "$folder/job.sh" ] || {{ echo "ownlab: folder $SLURMD_NODENAME" >&2; exit {not_started}; }}
exec /bin/sh "$folder/job.sh"
"""


def write_array(tasks: Sequence[Task], folder: str) -> str:
    """Write the batch scripts of the tasks, and that of their array. Return the path of the latter."""
    path = Path(folder, "array.sh")
    try:
        path.parent.mkdir(parents=True)
        for number, task in enumerate(tasks):
            script = batch_script(task.folder, task.cwd, task.offer.type.python)
            Path(task.folder, "job.sh").write_text(script, encoding="utf-8")
            os.symlink(task.folder, path.parent / str(number))
        path.write_text(_SCRIPT.format(folder=shlex.quote(folder), not_started=NOT_STARTED), encoding="utf-8")
    except OSError as exc:
        message = text("Cannot write to {folder}: {reason}.", folder=exc.filename or folder, reason=exc.strerror)
        raise InputError(message) from exc
    return str(path)


def array_name(folder: str) -> str:
    """By which an array is found again: the end of the path of its folder."""
    return "/".join(Path(folder).parts[-2:])


def array_options(tasks: Sequence[Task], script: str, at_once: int | None, options: LabOptions) -> list[str]:
    """The options of sbatch for an array. Those of the setting slurm.options stand last, as in every job."""
    folder = os.path.dirname(script).replace("%", "%%")
    limit = "" if at_once is None else f"%{at_once}"
    given = sbatch_options(tasks[0], options)
    own = {
        "--output": os.path.join(folder, "%a", LOG),
        "--array": f"0-{len(tasks) - 1}{limit}",
        "--comment": comment_of(array_name(os.path.dirname(script))),
    }
    return [f"{name}={value}" for name, value in own.items()] + [
        option for option in given if option.partition("=")[0] not in own
    ]
