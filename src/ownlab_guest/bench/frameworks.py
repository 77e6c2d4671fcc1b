"""The same product in TensorFlow and JAX, if they are installed, each in its own process.

Two frameworks in one process compete for the memory of the card, and a crash would end everything.
`launch.py bench.frameworks NAME DEVICE DTYPE SIZE SECONDS` runs one of them.
"""

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any, Callable, Dict, List, Tuple

from ownlab_guest.bench.device import Device
from ownlab_guest.bench.timing import HostClock, Outcome, Skipped, Step, measure
from ownlab_guest.text import received, text

LAUNCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "launch.py")
NAMES = ("jax", "tensorflow")
TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
# For importing, finding the card and compiling.
START_SECONDS = 60.0
# Keeps them from allocating all memory of the card at the start.
ENVIRONMENT = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


def installed() -> List[str]:
    """Return the installed frameworks."""
    return [name for name in NAMES if importlib.util.find_spec(name) is not None]


def product(device: Device, seconds: float, name: str, dtype: str, size: int) -> Outcome:
    """Multiply in another framework, in its own process."""
    device.free_memory()
    before = device.read_state()
    command = [sys.executable, LAUNCH, "bench.frameworks", name, device.name, dtype, str(size), repr(seconds)]
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            timeout=START_SECONDS + 2 * seconds,
            env={**os.environ, **ENVIRONMENT},
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise Skipped(
            "failed",
            text("{name} did not answer within {seconds:.0f} s", name=name, seconds=START_SECONDS + 2 * seconds),
        ) from exc
    try:
        answer: Dict[str, Any] = json.loads(ran.stdout)
    except ValueError as exc:
        lines = ran.stderr.decode(errors="replace").strip().splitlines()
        if lines:
            raise Skipped("failed", text("{name}: {error}", name=name, error=lines[-1][:300])) from exc
        raise Skipped("failed", text("{name}: exit status {code}", name=name, code=ran.returncode)) from exc
    if "error" in answer:
        raise Skipped(answer["reason"], received(answer["error"], answer))
    note = text("It used {library} {version}.", library=name, version=answer["version"])
    return Outcome(answer["seconds"], 2.0 * size**3, before=before, after=device.read_state(), notes=(note,))


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Measure one framework. launch.py calls this in its own process."""
    name, device, dtype = arguments[:3]
    size, seconds = int(arguments[3]), float(arguments[4])
    try:
        step, wait, version = PREPARE[name](device, TYPES[dtype], size)
        taken, _, _ = measure(HostClock(wait), step, seconds)
    except Skipped as exc:
        return {"reason": exc.reason, "error": str(exc)}
    except Exception as exc:
        message = f"{type(exc).__name__}: {' '.join(str(exc).split())[:300]}"
        full = "resource_exhausted" in message.lower() or "out of memory" in message.lower()
        return {"reason": "out-of-memory" if full else "failed", "error": message}
    return {"seconds": taken, "version": version}


Prepared = Tuple[Step, Callable[[], Any], str]


def _prepare_jax(device: str, dtype: str, size: int) -> Prepared:
    import jax

    kind, _, number = device.partition(":")
    devices = [known for known in jax.local_devices() if (known.platform == "cpu") == (kind == "cpu")]
    if len(devices) <= int(number or 0):
        raise Skipped(
            "no-gpu",
            text(
                "jax {version} sees no {device}, only {devices}",
                version=jax.__version__,
                device=device,
                devices=jax.local_devices(),
            ),
        )
    with jax.default_device(devices[int(number or 0)]):
        left, right = (
            jax.random.normal(key, (size, size), dtype=dtype) for key in jax.random.split(jax.random.PRNGKey(0))
        )
        multiply = jax.jit(jax.numpy.matmul)
        last = [multiply(left, right)]

    def step(number: int) -> None:
        last[0] = multiply(left, right)

    return step, lambda: last[0].block_until_ready(), jax.__version__


def _prepare_tensorflow(device: str, dtype: str, size: int) -> Prepared:
    import tensorflow

    kind, _, number = device.partition(":")
    devices = tensorflow.config.list_physical_devices("GPU" if kind == "cuda" else "CPU")
    if len(devices) <= int(number or 0):
        raise Skipped(
            "no-gpu", text("tensorflow {version} sees no {device}", version=tensorflow.__version__, device=device)
        )
    name = f"/{'GPU' if kind == 'cuda' else 'CPU'}:{number or 0}"
    with tensorflow.device(name):
        left, right = (tensorflow.cast(tensorflow.random.normal((size, size)), dtype) for _ in range(2))
    last = [left]

    def step(number: int) -> None:
        with tensorflow.device(name):
            last[0] = tensorflow.matmul(left, right)

    # Reading one value waits for all launched work; older versions have no sync_devices().
    return step, lambda: last[0][0, 0].numpy(), tensorflow.__version__


PREPARE: Dict[str, Callable[[str, str, int], Prepared]] = {"jax": _prepare_jax, "tensorflow": _prepare_tensorflow}
