"""Configuration, resolved once into frozen options, each with where it came from."""

from __future__ import annotations

from ownlab.options.machine import MachineOptions, resolve_machine_options

__all__ = ["MachineOptions", "resolve_machine_options"]
