"""Which runtime type a notebook is run on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ownlab.errors import InputError, UsageError
from ownlab.lab.colab.values import nearest
from ownlab.lab.runtimes.kernelspecs import read_specs
from ownlab.lab.runtimes.records import CPU_TYPE, RuntimeType
from ownlab.lab.runtimes.refresh import refresh_specs
from ownlab.options.places import kernels_folder

__all__ = ["Kind", "choose_kind"]

_PREFIX = "ownlab-"
_PLAIN = ("python", "python3")


class Kind(NamedTuple):
    """A type, and what is to be said about the choice."""

    type: RuntimeType
    notice: str = ""


def choose_kind(path: str, notebook: Mapping[str, Any], given: str | None, env: Mapping[str, str]) -> Kind:
    """The type that was asked for, or the one that the notebook names, or the CPU."""
    metadata = notebook.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    spec = metadata.get("kernelspec")
    spec = spec if isinstance(spec, dict) else {}
    if given is not None:
        return Kind(_find(given, env))
    _check_language(path, metadata, spec)
    name = str(spec.get("name") or "")
    if name.startswith(_PREFIX):
        return Kind(_find(name, env))
    return Kind(_find(CPU_TYPE, env), _notice(name, metadata))


def _find(name: str, env: Mapping[str, str]) -> RuntimeType:
    """By its name, also without `ownlab-`. The list on disk may be older than what is wanted, or not be there yet."""
    whole = name if name.startswith(_PREFIX) else _PREFIX + name
    types = _by_name(env)
    if whole not in types:
        refresh_specs(env)
        types = _by_name(env)  # in any case: another run may have written them just now
    if whole not in types:
        near = nearest(whole, list(types))
        raise UsageError(
            f"there is no runtime type {name} here." + (f" Did you mean {near}?" if near else ""),
            hint=f"Choose one with -t: {', '.join(types)}.",
        )
    return types[whole]


def _by_name(env: Mapping[str, str]) -> dict[str, RuntimeType]:
    return {each.name: each for each in read_specs(kernels_folder(env))}


def _check_language(path: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    info = metadata.get("language_info")
    language = str(spec.get("language") or (info.get("name") if isinstance(info, dict) else "") or "python")
    if not language.lower().startswith(("python", "ipython")):
        kernel = f" (kernel {spec['name']})" if spec.get("name") else ""
        raise InputError(
            f"{path} is written in {language}{kernel}: only Python can be run here",
            hint="If it is Python all the same, say on what to run it: -t ownlab-cpu.",
        )


def _notice(name: str, metadata: Mapping[str, Any]) -> str:
    if str(metadata.get("accelerator", "")).upper() in ("GPU", "TPU"):
        return "The notebook asks for a GPU, and is run on the CPU. On a card: -t TYPE (`ownlab types` lists them)."
    if name and name not in _PLAIN:
        return f"The notebook names a kernel {name}, and is run on {CPU_TYPE}. Another one: -t TYPE."
    return ""
