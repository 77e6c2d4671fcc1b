"""Proves that the accelerators compute: a product on every device of every framework, against the CPU's."""

from __future__ import annotations

from collections.abc import Mapping

from ownlab import guest_client
from ownlab.errors import OwnlabError
from ownlab.instruments.doctor.records import ProductCheck
from ownlab.machine.facts import value_of
from ownlab.machine.interpreter import GUEST_ENVIRONMENT
from ownlab.machine.records import Framework, FrameworkDevice, Interpreter

__all__ = ["verify"]


def verify(
    interpreter: Interpreter, *, deadline: float = 120.0, env: Mapping[str, str] | None = None
) -> tuple[ProductCheck, ...]:
    """A check for each device and type, in each framework that sees a device; none where none does.

    `deadline` is in seconds, for each framework by itself. They compute one after the other, so that none takes the
    memory, or in exclusive mode the whole card, from another. `env` is added to ours.
    """
    python = value_of(interpreter.path)
    if python is None:
        return ()
    able = [each for each in value_of(interpreter.frameworks) or () if value_of(each.devices)]
    return tuple(check for framework in able for check in _verify_framework(python, framework, deadline, env))


def _verify_framework(
    python: str, framework: Framework, deadline: float, env: Mapping[str, str] | None
) -> tuple[ProductCheck, ...]:
    try:
        checks = guest_client.ask(
            python,
            "probe.verify_devices",
            [framework.name],
            answer=tuple[ProductCheck, ...],
            deadline=deadline,
            env={**GUEST_ENVIRONMENT, "CUPY_TF32": "0", **(env or {})},
        )
    except OwnlabError as exc:  # it crashed or hung: so none of its devices is proved
        return _all_failed(framework, exc.message)
    return checks or _all_failed(framework, f"{framework.name} saw this device before, and sees none now")


def _all_failed(framework: Framework, error: str) -> tuple[ProductCheck, ...]:
    devices: tuple[FrameworkDevice, ...] = value_of(framework.devices) or ()
    return tuple(
        ProductCheck(
            framework=framework.name, device=_label(device, index), name=device.name, passed=False, error=error
        )
        for index, device in enumerate(devices)
    )


def _label(device: FrameworkDevice, index: int) -> str:
    return f"{'cuda' if device.kind == 'rocm' else device.kind}:{index}"
