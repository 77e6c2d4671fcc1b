"""/opt/bin/nvidia-smi: notebooks for Colab call it by this path."""

import contextlib
import os
import shutil
import sys

__all__ = ["add_nvidia_smi"]

OPT = "/opt"
NAME = "nvidia-smi"


def add_nvidia_smi(place: str, is_private: bool) -> None:
    """Link the machine's nvidia-smi, if it has one, to Colab's path, in this process's mount namespace.

    `is_private`: /opt is an overlay, and can be changed. Otherwise a new folder is mounted on it, with everything in it.
    It is made at `place`, a folder that nobody uses yet. Most notebooks do without, so it may fail.
    """
    program = shutil.which(NAME)
    if not program or os.path.lexists(os.path.join(OPT, "bin", NAME)) or not os.path.isdir(OPT) or os.path.islink(OPT):
        return
    with contextlib.suppress(OSError):
        if is_private:
            os.makedirs(os.path.join(OPT, "bin"), exist_ok=True)
            os.symlink(program, os.path.join(OPT, "bin", NAME))
        elif sys.platform.startswith("linux"):
            _cover(place, program)


def _cover(place: str, program: str) -> None:
    from ownlab_guest.colab import mount_namespace

    mount_namespace.mount("ownlab", place, "tmpfs", data="mode=755,size=1m")
    try:
        _bind_entries(OPT, place)
        folder = os.path.join(place, "bin")
        if os.path.isdir(folder):  # the machine's own: rebuild it with one entry more
            mount_namespace.umount(folder)
            _bind_entries(os.path.join(OPT, "bin"), folder)
        else:
            os.mkdir(folder, 0o755)
        os.symlink(program, os.path.join(folder, NAME))
        mount_namespace.set_read_only(place)
        mount_namespace.mount(place, OPT, flags=mount_namespace.MS_MOVE)
    except OSError:
        mount_namespace.umount(place)
        raise


def _bind_entries(folder: str, target: str) -> None:
    from ownlab_guest.colab import mount_namespace

    with os.scandir(folder) as entries:
        for entry in entries:
            mount_namespace.bind_entry(entry, os.path.join(target, entry.name))
