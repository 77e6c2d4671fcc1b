"""What the page lists: runtime types, and "python3" for the CPU's.

Most notebooks of the world name the kernel "python3". ipykernel's own would see every card, end with the server, and
stand in the launcher beside our types; so in a lab that name is the CPU runtime, which is the same Python, and a notebook
that was written here opens elsewhere too.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import sys
from pathlib import Path

from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, KernelSpec, KernelSpecManager
from msgspec import structs

from ownlab.lab.runtimes.records import CPU_TYPE, Snapshot

__all__ = ["OwnlabSpecManager", "as_listed"]


class OwnlabSpecManager(KernelSpecManager):
    """Kernelspecs on disk, with the CPU runtime in the place of ipykernel's own spec."""

    def find_kernel_specs(self) -> dict[str, str]:
        """Called for every list."""
        found = super().find_kernel_specs()
        if self.stands_in(found):
            found[NATIVE_KERNEL_NAME] = found.pop(CPU_TYPE)
        return found

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Called for every kernel that is started; a type's own name serves too."""
        if kernel_name in (NATIVE_KERNEL_NAME, "python") and self.stands_in():
            kernel_name = CPU_TYPE
        return super().get_kernel_spec(kernel_name)

    def stands_in(self, found: dict[str, str] | None = None) -> bool:
        """Not where a person made a "python3" of their own, in their home, say: that one is meant then."""
        found = super().find_kernel_specs() if found is None else found
        native = found.get(NATIVE_KERNEL_NAME)
        return CPU_TYPE in found and (native is None or Path(sys.prefix) in Path(native).parents)

    def listed_name(self, kernel_type: str) -> str:
        """The name under which the page knows a runtime type."""
        return NATIVE_KERNEL_NAME if kernel_type == CPU_TYPE and self.stands_in() else kernel_type


def as_listed(found: Snapshot, specs: OwnlabSpecManager) -> Snapshot:
    """A snapshot whose types have the names that the page knows."""
    cpu = specs.listed_name(CPU_TYPE)
    return structs.replace(
        found,
        types=tuple(structs.replace(one, name=cpu) if one.name == CPU_TYPE else one for one in found.types),
        runtimes=tuple(structs.replace(one, type=cpu) if one.type == CPU_TYPE else one for one in found.runtimes),
    )
