"""The runtime type that a notebook runs on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ownlab.config.loader import resolve_lab_options
from ownlab.errors import InputError, UsageError
from ownlab.lab.colab.detection import accelerator_of
from ownlab.lab.forms.field_values import closest_match
from ownlab.lab.runtimes.accelerator import Proposal, propose
from ownlab.lab.runtimes.kernelspecs import read_types
from ownlab.lab.runtimes.records import CPU_TYPE, RuntimeType
from ownlab.lab.runtimes.runtime_types import refresh_specs
from ownlab.text import listing, text

__all__ = ["TypeChoice", "check_node_type", "choose_type", "cpu_of_environment", "find_named_type"]

_PREFIX = "ownlab-"
_PLAIN = ("python", "python3")


class TypeChoice(NamedTuple):
    """A runtime type, and a notice about the choice."""

    type: RuntimeType
    notice: str = ""


def choose_type(path: str, notebook: Mapping[str, Any], given: str | None, env: Mapping[str, str]) -> TypeChoice:
    """The type that was requested, or the one that the notebook names, or was made for on Colab; else the CPU.

    `given` may also be the name of an environment: then the type is chosen in it. Nothing waits for a card that nobody has
    requested: where those of the last kind are taken, it is the CPU too.
    """
    metadata = notebook.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    spec = metadata.get("kernelspec")
    spec = spec if isinstance(spec, dict) else {}
    if given is not None:
        cpu = cpu_of_environment(given, env)
        return TypeChoice(find_named_type(given, env)) if cpu is None else _choose_made_for(notebook, cpu, "", env)
    _check_language(path, metadata, spec)
    name = str(spec.get("name") or "")
    if name.startswith(_PREFIX):
        return TypeChoice(find_named_type(name, env))
    return _choose_made_for(notebook, CPU_TYPE, _notice(name), env)


def check_node_type(path: str, notebook: Mapping[str, Any], kind: RuntimeType) -> TypeChoice:
    """A type on a node of a cluster, which was chosen already. InputError if the notebook is not written in Python."""
    metadata = notebook.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    spec = metadata.get("kernelspec")
    _check_language(path, metadata, spec if isinstance(spec, dict) else {})
    return TypeChoice(kind)


def _choose_made_for(notebook: Mapping[str, Any], cpu: str, notice: str, env: Mapping[str, str]) -> TypeChoice:
    """The type that the notebook was made for on Colab, in the environment of the CPU type `cpu`; otherwise that one."""
    proposal = propose(notebook, _types_now(env), cpu) if accelerator_of(notebook) else None
    if proposal is None:
        return TypeChoice(find_named_type(cpu, env), notice)
    return TypeChoice(
        find_named_type(proposal.type if proposal.type and proposal.free else cpu, env), _notice_of(proposal)
    )


def cpu_of_environment(name: str, env: Mapping[str, str]) -> str | None:
    """The CPU type of an environment; None if there is none of that name, or a type has the same name."""
    types = _by_name(env)
    if name in types or _PREFIX + name in types:
        return None
    return next((each.name for each in types.values() if each.environment == name and each.kind is None), None)


def find_named_type(name: str, env: Mapping[str, str]) -> RuntimeType:
    """Find a type by its name, with or without `ownlab-`; a lab lists the CPU type as python3. The list on disk may be outdated or missing."""
    whole = CPU_TYPE if name in _PLAIN else name if name.startswith(_PREFIX) else _PREFIX + name
    types = _by_name(env)
    if whole not in types:
        refresh_specs(env)
        types = _by_name(env)  # always: another run may have just written them
    if whole not in types:
        near = closest_match(whole, list(types))
        hint = text("Choose one with -t: {types}.", types=listing(types, "{items}, {last}"))
        if near:
            raise UsageError(text("Unknown runtime type {name}. Did you mean {near}?", name=name, near=near), hint=hint)
        raise UsageError(text("Unknown runtime type {name}.", name=name), hint=hint)
    return types[whole]


def _by_name(env: Mapping[str, str]) -> dict[str, RuntimeType]:
    return {each.name: each for each in read_types(env)}


def _check_language(path: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    info = metadata.get("language_info")
    language = str(spec.get("language") or (info.get("name") if isinstance(info, dict) else "") or "python")
    if not language.lower().startswith(("python", "ipython")):
        kernel = spec.get("name") or text("unknown")
        raise InputError(
            text(
                "{path} is written in {language} (kernel {kernel}). Only Python notebooks can be run.",
                path=path,
                language=language,
                kernel=kernel,
            ),
            hint=text("If it is Python nevertheless, choose a type: -t ownlab-cpu."),
        )


def _types_now(env: Mapping[str, str]) -> tuple[RuntimeType, ...]:
    from ownlab.lab.runtimes.cards import read_devices
    from ownlab.lab.runtimes.runtime_types import current_types
    from ownlab.lab.runtimes.snapshot import with_availability
    from ownlab.lab.store.location import choose_store
    from ownlab.lab.store.locks_only import open_any

    options, devices = resolve_lab_options(environ=env), read_devices(env)
    with open_any(choose_store(options, env).folder) as store:
        return with_availability(current_types(env, devices), store, devices, options)


def _notice_of(proposal: Proposal) -> str:
    if proposal.type is None:
        return text("{proposal} It runs on the CPU.", proposal=proposal.words)
    if proposal.free:
        return text(
            "{made_for}: it runs on {offer}. Choose another type with -t TYPE (the CPU: -t cpu).",
            made_for=proposal.made_for,
            offer=proposal.offer,
        )
    return text(
        "{proposal} It runs on the CPU. To wait for a card: -t {type}.",
        proposal=proposal.words,
        type=proposal.type.removeprefix(_PREFIX),
    )


def _notice(name: str) -> str:
    if name and name not in _PLAIN:
        return text(
            "The notebook names the kernel {kernel}; it runs on {type}. Choose another type with -t TYPE.",
            kernel=name,
            type=CPU_TYPE,
        )
    return ""
