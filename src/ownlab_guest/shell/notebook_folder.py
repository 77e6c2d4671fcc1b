"""Where the kernel's notebook is, and a hint after a cell that looked in /content for a file that is beside the notebook."""

import os
import shlex
from typing import List, Optional

from ownlab_guest.text import Text, text

__all__ = ["hints_for_missing_file", "notebook_path"]


def notebook_path() -> str:
    """Return the path of the notebook whose kernel this is; "" if it is not known."""
    return os.environ.get("OWNLAB_NOTEBOOK") or os.environ.get("JPY_SESSION_NAME", "")


def hints_for_missing_file(error: Optional[BaseException]) -> List[Text]:
    """Return a hint if the error is that of a file which is missing in the working folder and is beside the notebook."""
    beside = os.path.dirname(notebook_path())
    while error is not None and os.path.isabs(beside):
        if isinstance(error, FileNotFoundError) and isinstance(error.filename, (str, os.PathLike)):
            wanted = os.fspath(error.filename)
            name = os.path.relpath(wanted) if isinstance(wanted, str) and wanted else ""
            path = os.path.join(beside, name)
            if name and not name.startswith(os.pardir) and not os.path.exists(wanted) and os.path.exists(path):
                return [_where_it_is(name, path)]
        error = error.__cause__ or error.__context__
    return []


def _where_it_is(name: str, path: str) -> Text:
    return text(
        "{name} is in the notebook's folder. In Colab mode a notebook works in /content, as on Colab. Use the path {path}, or "
        "copy it: {command}",
        name=name,
        path=path,
        command=f"!cp -r {shlex.quote(path)} {shlex.quote(os.path.join(os.getcwd(), name))}",
    )
