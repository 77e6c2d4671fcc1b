"""The kernelspecs that the page lists: the runtime types, with the CPU type under the name "python3".

Most notebooks name the kernel "python3". ipykernel's own kernelspec of that name would see every card, end with the
server, and appear in the launcher next to our types. Therefore in a lab "python3" is the CPU runtime, which is the same
Python. A notebook written in a lab thus also opens elsewhere.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import sys
from pathlib import Path

from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, KernelSpec, KernelSpecManager
from msgspec import structs
from traitlets import default

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import cluster_kernels_folder
from ownlab.lab.engines.registry import DEFAULT_ENGINE
from ownlab.lab.runtimes.records import CPU_TYPE, Snapshot

__all__ = ["OwnlabSpecManager", "as_listed"]


class OwnlabSpecManager(KernelSpecManager):
    """The kernelspecs on disk, with the CPU runtime in place of ipykernel's own, and those of the cluster that this lab uses."""

    @default("kernel_dirs")
    def _dirs_with_cluster(self) -> list[str]:
        dirs: list[str] = self._kernel_dirs_default()
        if resolve_lab_options().lab_engine != DEFAULT_ENGINE:
            dirs.append(str(cluster_kernels_folder()))
        return dirs

    def find_kernel_specs(self) -> dict[str, str]:
        """Called for every listing."""
        folders = super().find_kernel_specs()
        if self.replaces_native(folders):
            folders[NATIVE_KERNEL_NAME] = folders.pop(CPU_TYPE)
        return folders

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Called for every kernel that is started. The type's own name is accepted, too."""
        if kernel_name in (NATIVE_KERNEL_NAME, "python") and self.replaces_native():
            kernel_name = CPU_TYPE
        return super().get_kernel_spec(kernel_name)

    def replaces_native(self, folders: dict[str, str] | None = None) -> bool:
        """Return whether the CPU type replaces "python3".

        Not if the user has installed a "python3" kernelspec of their own.
        """
        folders = super().find_kernel_specs() if folders is None else folders
        native = folders.get(NATIVE_KERNEL_NAME)
        return CPU_TYPE in folders and (native is None or Path(sys.prefix) in Path(native).parents)

    def listed_name(self, kernel_type: str) -> str:
        """Return the name under which the page knows a runtime type."""
        return NATIVE_KERNEL_NAME if kernel_type == CPU_TYPE and self.replaces_native() else kernel_type


def as_listed(snapshot: Snapshot, specs: OwnlabSpecManager) -> Snapshot:
    """Return a snapshot in which runtime types have the names that the page knows."""
    cpu = specs.listed_name(CPU_TYPE)
    return structs.replace(
        snapshot,
        types=tuple(structs.replace(each, name=cpu) if each.name == CPU_TYPE else each for each in snapshot.types),
        runtimes=tuple(
            structs.replace(each, type=cpu) if each.type == CPU_TYPE else each for each in snapshot.runtimes
        ),
    )
