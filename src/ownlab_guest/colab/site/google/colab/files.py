"""Files in and out of a notebook.

In the page a person picks files, and a download starts in the browser. Without a page the files of a folder are taken
(`ownlab run --uploads DIR`), and what is downloaded is copied into one (`--outputs DIR`).
"""

import filecmp
import os
import shutil
from typing import Dict, List, Tuple

from . import _message, _paths

__all__ = ["download", "upload", "upload_file", "view"]

UPLOADS, OUTPUTS = "OWNLAB_UPLOADS", "OWNLAB_OUTPUTS"


def upload(target_dir: str = "") -> Dict[str, bytes]:
    """Files that a person picks, saved into target_dir or the working folder; saved name -> content."""
    if _message.can_ask():
        folder = _paths.staging()
        try:
            return _save(_picked(folder, {"multiple": True}), target_dir)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return _save(_given("upload"), target_dir)


def upload_file(filename: str) -> None:
    """One file, saved under this name. Without a page: that of the same name, or the only one there."""
    if _message.can_ask():
        folder = _paths.staging()
        try:
            _save_one(_picked(folder, {"multiple": False, "filename": os.path.basename(filename)}), filename)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    there = _given("upload_file")
    named = [each for each in there if each[0] == os.path.basename(filename)]
    if not named and len(there) != 1:
        names = ", ".join(name for name, _ in there) or "none"
        raise ValueError(
            f"{os.environ[UPLOADS]} has no file {os.path.basename(filename)}, and not just one file: {names}"
        )
    _save_one(named or there, filename)


def download(filename: str) -> None:
    """Give a file to the person: a download in the browser, or a copy in the folder of outputs."""
    _check(filename)
    if _message.can_ask():
        _tell("ownlab_download", _paths.for_server(filename), filename)
        return
    folder = _folder(OUTPUTS, "download", "--outputs DIR", "copies the file into DIR")
    target = _place(filename, folder, os.path.basename(os.path.abspath(filename)))
    if os.path.isdir(filename):
        shutil.copytree(filename, target, dirs_exist_ok=True)
    elif not _is_same(filename, target):
        shutil.copy2(filename, target)


def view(filepath: str) -> None:
    """Open a file in the page. Without one it is said where the file is."""
    _check(filepath)
    if _message.can_ask():
        _tell("ownlab_view", _paths.for_server(filepath), filepath)
        return
    print(os.path.abspath(filepath))


def _check(path: str) -> None:
    if not os.path.exists(path):
        raise FileNotFoundError(f"Cannot find file: {path}")


def _tell(request_type: str, path: str, given: str) -> None:
    try:
        _message.blocking_request(request_type, {"path": path}, timeout_sec=None)
    except _message.MessageError as exc:
        raise _message.MessageError(f"{exc}; the file is where it was: {os.path.abspath(given)}") from None


def _picked(folder: str, request: Dict[str, object]) -> List[Tuple[str, str]]:
    """(name, path) of the files that a person picks; the page puts them into this folder, which is ours alone."""
    answer = _message.blocking_request("ownlab_upload", {**request, "target_dir": folder}, timeout_sec=None) or {}
    found = [(os.path.basename(each["name"]), os.path.realpath(each["path"])) for each in answer.get("files", [])]
    for _, path in found:
        if os.path.dirname(path) != os.path.realpath(folder):
            raise _message.MessageError(f"the page put a file elsewhere than it was asked to: {path}")
    return found


def _given(call: str) -> List[Tuple[str, str]]:
    """(name, path) of the files in the folder of uploads."""
    folder = _folder(UPLOADS, call, "--uploads DIR", "takes the files of DIR")
    there = [(name, os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
    return [(name, path) for name, path in there if os.path.isfile(path)]


def _save(files: List[Tuple[str, str]], target_dir: str) -> Dict[str, bytes]:
    if target_dir:
        os.makedirs(target_dir, exist_ok=True)
    saved = {}
    for name, source in files:
        target = _place(source, target_dir, name)
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
            f"files.{call}() has nobody to ask: this notebook is run without a page. "
            f"`ownlab run NOTEBOOK {option}` {does}."
        )
    return folder


def _place(source: str, folder: str, name: str) -> str:
    """A name that is free, as Colab makes them: "a (1).txt"; or that of a file that is the same."""
    stem, ending = os.path.splitext(name)
    target, number = os.path.join(folder, name), 0
    while os.path.lexists(target) and not _is_same(source, target):
        number += 1
        target = os.path.join(folder, f"{stem} ({number}){ending}")
    return target


def _is_same(one: str, other: str) -> bool:
    if not os.path.isfile(one) or not os.path.isfile(other):
        return False
    return os.path.samefile(one, other) or filecmp.cmp(one, other, shallow=False)


def _copy(source: str, target: str) -> bytes:
    with open(source, "rb") as file:
        content = file.read()
    if not _is_same(source, target):
        with open(target, "wb") as file:
            file.write(content)
    return content
