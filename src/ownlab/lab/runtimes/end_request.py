"""end_request.json: the wish that a runtime on a node of a cluster ends, for a relay that does not answer now.

Whoever stops such a runtime and finds its relay dead or hanging leaves it in the runtime's folder; the next relay cancels the job.
"""

from __future__ import annotations

import json
import os

from ownlab.atomic_files import replace_file
from ownlab.errors import LabError
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.text import pack_texts, text, unpack_texts

__all__ = ["FILE", "has_job_folder", "may_have_job", "read_end_request", "request_end"]

FILE = "end_request.json"


def request_end(plan: Plan, why: str) -> None:
    """Have the next relay end the runtime. LabError if that cannot be written."""
    try:
        replace_file(os.path.join(plan.home, FILE), json.dumps(pack_texts({"why": why})))
    except OSError as exc:
        message = text("Cannot write to {folder}: {reason}.", folder=plan.home, reason=exc.strerror)
        raise LabError(message) from exc


def read_end_request(plan: Plan) -> str:
    """Why the runtime is to end; "" if nobody wants that."""
    try:
        with open(os.path.join(plan.home, FILE), encoding="utf-8") as file:
            return str(unpack_texts(json.load(file))["why"]) or text("it was stopped")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError):  # damaged; that it is there says enough
        return text("it was stopped")


def may_have_job(plan: Plan) -> bool:
    """Whether the runtime may have a job on a cluster: a relay removes the folder of the job when that has ended."""
    return plan.node is not None and has_job_folder(plan.home)


def has_job_folder(home: str) -> bool:
    """The same, by the folder of the runtime."""
    return os.path.isdir(os.path.join(home, "node"))
