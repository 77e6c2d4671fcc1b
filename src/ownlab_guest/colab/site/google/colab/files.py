"""Files in and out of a notebook that is run without a page.

Where Colab opens a picker, the files of a folder are taken (`ownlab run --uploads DIR`); where it starts a download in
the browser, the file is copied into a folder (`--outputs DIR`).
"""

import filecmp
import os
import shutil
from typing import Dict

__all__ = ["download", "upload", "upload_file", "view"]

UPLOADS, OUTPUTS = "OWNLAB_UPLOADS", "OWNLAB_OUTPUTS"


def upload(target_dir: str = "") -> Dict[str, bytes]:
    """Every file of the folder of uploads, saved into target_dir or the working folder; name -> content."""
    folder = _folder(UPLOADS, "upload", "--uploads DIR", "takes the files of DIR")
    saved = {}
    for name in sorted(os.listdir(folder)):
        source = os.path.join(folder, name)
        if os.path.isfile(source):
            target = _place(source, target_dir, name)
            print(f"Saving {name} to {target}")
            saved[target] = _copy(source, target)
    return saved


def upload_file(filename: str) -> None:
    """One file, saved under this name: that of the same name in the folder of uploads, or the only one there."""
    folder = _folder(UPLOADS, "upload_file", "--uploads DIR", "takes the files of DIR")
    there = [name for name in sorted(os.listdir(folder)) if os.path.isfile(os.path.join(folder, name))]
    wanted = os.path.basename(filename)
    if wanted not in there and len(there) != 1:
        raise ValueError(f"{folder} has no file {wanted}, and not just one file: {', '.join(there) or 'none'}")
    name = wanted if wanted in there else there[0]
    print(f"Saving {name} to {filename}")
    _copy(os.path.join(folder, name), filename)


def download(filename: str) -> None:
    """Copy a file into the folder of outputs."""
    if not os.path.exists(filename):
        raise FileNotFoundError(f"Cannot find file: {filename}")
    folder = _folder(OUTPUTS, "download", "--outputs DIR", "copies the file into DIR")
    target = _place(filename, folder, os.path.basename(os.path.abspath(filename)))
    if os.path.isdir(filename):
        shutil.copytree(filename, target, dirs_exist_ok=True)
    elif not _is_same(filename, target):
        shutil.copy2(filename, target)


def view(filepath: str) -> None:
    """There is nobody who could look at it: say where it is."""
    if not os.path.exists(filepath):
        raise FileNotFoundError(f"Cannot find file: {filepath}")
    print(os.path.abspath(filepath))


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
