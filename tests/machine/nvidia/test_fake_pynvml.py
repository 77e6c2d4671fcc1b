"""The fake pynvml has only names and parameters of the real one; otherwise it would prove nothing."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ownlab_guest
from ownlab.processes import runner

LIST_NAMES = """
import inspect, json, pynvml
def parameters(value):
    return len(inspect.signature(value).parameters) if inspect.isfunction(value) else None
print(json.dumps({name: parameters(value) for name, value in vars(pynvml).items() if not name.startswith("_")}))
"""


def list_names(env: dict[str, str]) -> dict[str, int | None]:
    ran = runner.run([sys.executable, "-c", LIST_NAMES], deadline=60, env={**os.environ, **env})
    assert ran.returncode == 0, ran.stderr
    names: dict[str, int | None] = json.loads(ran.stdout)
    return names


def test_the_fake_has_only_what_the_real_module_has(fake_nvml: Callable[[dict[str, Any]], dict[str, str]]) -> None:
    fake = list_names(fake_nvml({"cards": []}))
    real = list_names({})
    ours = {name: count for name, count in fake.items() if name.lower().startswith(("nvml", "c_nvml"))}
    assert len(ours) > 40
    assert ours == {name: real.get(name, "missing") for name in ours}


def test_the_probe_uses_only_functions_of_the_real_module() -> None:
    assert ownlab_guest.__file__ is not None
    source = (Path(ownlab_guest.__file__).parent / "probe" / "nvml.py").read_text()
    used = set(re.findall(r"\b(?:pynvml|nvml)\.((?:nvml|NVML|c_nvml)\w+)", source))
    used |= set(re.findall(r'"((?:nvml[DS]|c_nvml)\w+)"', source))
    kinds = ("Compute", "MPSCompute", "Graphics")
    used |= {f"nvmlDeviceGet{kind}RunningProcesses{v}" for kind in kinds for v in ("_v3", "_v2", "")}
    assert len(used) > 50
    assert sorted(used - set(list_names({}))) == []
