"""Verification that the accelerators compute: a matrix product on every device, compared with the CPU's."""

from __future__ import annotations

from collections.abc import Mapping

from ownlab import guest_client
from ownlab.errors import OwnlabError
from ownlab.instruments.doctor.records import ProductCheck
from ownlab.machine.facts import value_of
from ownlab.machine.interpreter import GUEST_ENVIRONMENT
from ownlab.machine.records import Framework, FrameworkDevice, Interpreter
from ownlab.text import text

__all__ = ["verify"]


def verify(
    interpreter: Interpreter, *, deadline: float = 120.0, env: Mapping[str, str] | None = None
) -> tuple[ProductCheck, ...]:
    """Return a check for each device and data type, in each framework that sees a device.

    `deadline` is in seconds and applies to each framework separately. Frameworks compute one after the other, because
    each may take the memory or, in exclusive mode, the whole card. `env` is added to the current environment.
    """
    python = value_of(interpreter.path)
    if python is None:
        return ()
    able = [framework for framework in value_of(interpreter.frameworks) or () if value_of(framework.devices)]
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
    except OwnlabError as exc:  # it crashed or hung, so none of its devices is verified
        return _all_failed(framework, exc.message)
    return checks or _all_failed(
        framework, text("{framework} found this device earlier, but finds none now", framework=framework.name)
    )


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
