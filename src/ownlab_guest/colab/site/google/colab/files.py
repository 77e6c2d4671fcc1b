"""google.colab.files: upload and download.

In the page a person picks files, and a download starts in the browser. Without a page, uploads come from a folder
(`ownlab run --uploads DIR`), and downloads are copied into one (`--outputs DIR`).
"""

import filecmp
import os
import shutil
from typing import Dict, List, Tuple

from . import _message, _paths

__all__ = ["download", "upload", "upload_file", "view"]

UPLOADS, OUTPUTS = "OWNLAB_UPLOADS", "OWNLAB_OUTPUTS"


def upload(target_dir: str = "") -> Dict[str, bytes]:
    """Save the files that a person picks in target_dir or the working folder. Return their contents by saved name."""
    if _message.can_ask():
        folder = _paths.staging()
        try:
            return _save(_picked(folder, {"multiple": True}), target_dir)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return _save(_provided("upload"), target_dir)


def upload_file(filename: str) -> None:
    """Save one uploaded file under this name. Without a page: the file of the same name, or the only one."""
    if _message.can_ask():
        folder = _paths.staging()
        try:
            _save_one(_picked(folder, {"multiple": False, "filename": os.path.basename(filename)}), filename)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    available = _provided("upload_file")
    named = [each for each in available if each[0] == os.path.basename(filename)]
    if not named and len(available) != 1:
        names = ", ".join(name for name, _ in available) or "none"
        raise ValueError(
            f"{os.environ[UPLOADS]} has no file {os.path.basename(filename)}, and not exactly one file: {names}"
        )
    _save_one(named or available, filename)


def download(filename: str) -> None:
    """Download a file in the browser, or copy it into the folder of outputs."""
    _check(filename)
    if _message.can_ask():
        _request("ownlab_download", _paths.for_server(filename), filename)
        return
    folder = _folder(OUTPUTS, "download", "--outputs DIR", "copies the file into DIR")
    target = _free_path(filename, folder, os.path.basename(os.path.abspath(filename)))
    if os.path.isdir(filename):
        shutil.copytree(filename, target, dirs_exist_ok=True)
    elif not _is_same(filename, target):
        shutil.copy2(filename, target)


def view(filepath: str) -> None:
    """Open a file in the page; without one, print its path."""
    _check(filepath)
    if _message.can_ask():
        _request("ownlab_view", _paths.for_server(filepath), filepath)
        return
    print(os.path.abspath(filepath))


def _check(path: str) -> None:
    if not os.path.exists(path):
        raise FileNotFoundError(f"Cannot find file: {path}")


def _request(request_type: str, path: str, given: str) -> None:
    try:
        _message.blocking_request(request_type, {"path": path}, timeout_sec=None)
    except _message.MessageError as exc:
        raise _message.MessageError(f"{exc}; the file is still at {os.path.abspath(given)}") from None


def _picked(folder: str, request: Dict[str, object]) -> List[Tuple[str, str]]:
    """Return (name, path) of the files that a person picks. The page puts them into this private folder."""
    reply = _message.blocking_request("ownlab_upload", {**request, "target_dir": folder}, timeout_sec=None) or {}
    picked = [(os.path.basename(each["name"]), os.path.realpath(each["path"])) for each in reply.get("files", [])]
    for _, path in picked:
        if os.path.dirname(path) != os.path.realpath(folder):
            raise _message.MessageError(f"the page put a file into another folder: {path}")
    return picked


def _provided(call: str) -> List[Tuple[str, str]]:
    """Return (name, path) of the files in the folder of uploads."""
    folder = _folder(UPLOADS, call, "--uploads DIR", "takes the files of DIR")
    entries = [(name, os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
    return [(name, path) for name, path in entries if os.path.isfile(path)]


def _save(files: List[Tuple[str, str]], target_dir: str) -> Dict[str, bytes]:
    if target_dir:
        os.makedirs(target_dir, exist_ok=True)
    saved = {}
    for name, source in files:
        target = _free_path(source, target_dir, name)
        print(f"Saving {name} to {target}")
        saved[target] = _copy(source, target)
    return saved


def _save_one(files: List[Tuple[str, str]], filename: str) -> None:
    if not files:
        raise ValueError("File has not been uploaded")
    if len(files) > 1:
        raise ValueError("Multiple files received, please upload a single file")
    name, source = files[0]
    print(f"Saving {name} to {filename}")
    if not _is_same(source, filename):
        shutil.copyfile(source, filename)


def _folder(variable: str, call: str, option: str, does: str) -> str:
    folder = os.environ.get(variable, "")
    if not folder:
        raise RuntimeError(
            f"files.{call}() needs a page, and this notebook runs without one. `ownlab run NOTEBOOK {option}` {does}."
        )
    return folder


def _free_path(source: str, folder: str, name: str) -> str:
    """Return a free name, as Colab makes them: "a (1).txt"; or the name of an identical file."""
    stem, ending = os.path.splitext(name)
    target, number = os.path.join(folder, name), 0
    while os.path.lexists(target) and not _is_same(source, target):
        number += 1
        target = os.path.join(folder, f"{stem} ({number}){ending}")
    return target


def _is_same(first: str, second: str) -> bool:
    if not os.path.isfile(first) or not os.path.isfile(second):
        return False
    return os.path.samefile(first, second) or filecmp.cmp(first, second, shallow=False)


def _copy(source: str, target: str) -> bytes:
    with open(source, "rb") as file:
        content = file.read()
    if not _is_same(source, target):
        with open(target, "wb") as file:
            file.write(content)
    return content
