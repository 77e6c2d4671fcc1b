"""Which runtime type a notebook is run on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import kernels_folder
from ownlab.errors import InputError, UsageError
from ownlab.lab.colab.detection import accelerator_of
from ownlab.lab.forms.field_values import closest_match
from ownlab.lab.runtimes.accelerator import Proposal, propose
from ownlab.lab.runtimes.kernelspecs import read_specs
from ownlab.lab.runtimes.records import CPU_TYPE, RuntimeType
from ownlab.lab.runtimes.runtime_types import refresh_specs

__all__ = ["Kind", "choose_kind"]

_PREFIX = "ownlab-"
_PLAIN = ("python", "python3")


class Kind(NamedTuple):
    """A type, and what is to be said about the choice."""

    type: RuntimeType
    notice: str = ""


def choose_kind(path: str, notebook: Mapping[str, Any], given: str | None, env: Mapping[str, str]) -> Kind:
    """The type that was asked for, or the one that the notebook names, or was made for on Colab; else the CPU.

    Nothing waits for a card that nobody has asked for: where those of the last kind are taken, it is the CPU too.
    """
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
    proposal = propose(notebook, _types_now(env), CPU_TYPE) if accelerator_of(notebook) else None
    if proposal is None:
        return Kind(_find(CPU_TYPE, env), _notice(name))
    return Kind(_find(proposal.type if proposal.type and proposal.free else CPU_TYPE, env), _notice_of(proposal))


def _find(name: str, env: Mapping[str, str]) -> RuntimeType:
    """By its name, also without `ownlab-`. The list on disk may be older than what is wanted, or not be there yet."""
    whole = name if name.startswith(_PREFIX) else _PREFIX + name
    types = _by_name(env)
    if whole not in types:
        refresh_specs(env)
        types = _by_name(env)  # in any case: another run may have written them just now
    if whole not in types:
        near = closest_match(whole, list(types))
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


def _types_now(env: Mapping[str, str]) -> tuple[RuntimeType, ...]:
    from ownlab.lab.runtimes.cards import read_devices
    from ownlab.lab.runtimes.runtime_types import current_types
    from ownlab.lab.runtimes.snapshot import with_availability
    from ownlab.lab.store.location import choose_store
    from ownlab.lab.store.store import Store

    options, devices = resolve_lab_options(environ=env), read_devices(env)
    with Store.open(choose_store(options, env).folder) as store:
        return with_availability(current_types(env, devices), store, devices, options)


def _notice_of(proposal: Proposal) -> str:
    if proposal.type is None:
        return f"{proposal.words} It is run on the CPU."
    if proposal.free:
        return f"{proposal.made_for}: it is run on {proposal.offer}. Elsewhere: -t TYPE (on the CPU: -t cpu)."
    return f"{proposal.words} It is run on the CPU. To wait: -t {proposal.type.removeprefix(_PREFIX)}."


def _notice(name: str) -> str:
    if name and name not in _PLAIN:
        return f"The notebook names a kernel {name}, and is run on {CPU_TYPE}. Another one: -t TYPE."
    return ""
