"""The line of the user's own code behind a call: the innermost frame that belongs to no installed library."""

import contextlib
import os
import site
import sysconfig
from types import CodeType, FrameType
from typing import Dict, NamedTuple, Optional, Tuple

__all__ = ["Place", "full_name", "is_user_file", "library_of", "place_of", "user_place"]

_DEEPEST = 200


class Place(NamedTuple):
    """A line of a file, and the function around it."""

    file: str
    line: int
    function: str


def _library_folders() -> Tuple[str, ...]:
    named = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    with contextlib.suppress(AttributeError):  # an old virtualenv replaces the module
        named += [*site.getsitepackages(), site.getusersitepackages()]
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = {os.path.realpath(path) for path in named if path} | {path for path in named if path} | {ours}
    return tuple(sorted(path.rstrip(os.sep) + os.sep for path in folders))


_FOLDERS = _library_folders()
_known: Dict[str, bool] = {}
# A loop calls from few lines, thousands of times.
_places: Dict[Tuple[CodeType, Optional[int]], Place] = {}
_MOST_PLACES = 5000


# Cells of IPython have such names; those of ipykernel are files in the temporary folder, which do not exist.
_CELL = "<ipython-input-"


def full_name(file: str) -> str:
    """The whole path of a file; the name of a cell as it is."""
    return file if file.startswith(_CELL) else os.path.abspath(file)


def is_user_file(file: str) -> bool:
    """Whether a file is the user's own code: a file outside of the installed packages."""
    known = _known.get(file)
    if known is None:
        full = full_name(file)
        library = full.startswith(_FOLDERS) or f"{os.sep}site-packages{os.sep}" in full
        made_up = file.startswith("<") and not file.startswith(_CELL)
        known = _known[file] = (
            not library and not made_up and not _is_generated(full) and "ipykernel" not in full.split(os.sep)
        )
    return known


def _is_generated(full: str) -> bool:
    """Whether torch.compile has written the file."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return f"{os.sep}torchinductor_" in full or bool(folder and full.startswith(os.path.abspath(folder) + os.sep))


def user_place(frame: Optional[FrameType]) -> Optional[Place]:
    """Return the innermost line of user code from this frame outwards."""
    for _ in range(_DEEPEST):
        if frame is None:
            return None
        if is_user_file(frame.f_code.co_filename):
            return place_of(frame)
        frame = frame.f_back
    return None


def place_of(frame: FrameType) -> Place:
    """The line that a frame executes."""
    code = frame.f_code
    key = (code, frame.f_lineno)
    place = _places.get(key)
    if place is None:
        name = getattr(code, "co_qualname", code.co_name)
        place = Place(full_name(code.co_filename), frame.f_lineno or code.co_firstlineno, name)
        if len(_places) < _MOST_PLACES:
            _places[key] = place
    return place


def library_of(file: str) -> str:
    """ ".../site-packages/sklearn/metrics/_base.py" -> "sklearn"; "" for the user's own files."""
    head, _, tail = file.rpartition(f"{os.sep}site-packages{os.sep}")
    if head:
        return tail.split(os.sep)[0].partition(".")[0]
    if _is_generated(full_name(file)):
        return "torch"
    return "" if is_user_file(file) else "python"
