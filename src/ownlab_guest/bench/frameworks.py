"""The same product by TensorFlow and JAX, where they are installed: each in a process of its own.

Two frameworks in one process fight for the card's memory, and one that crashes would take everything with it.
`launch.py bench.frameworks NAME DEVICE DTYPE SIZE SECONDS` is such a process.
"""

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any, Callable, Dict, List, Tuple

from ownlab_guest.bench.device import Place
from ownlab_guest.bench.timing import HostClock, Outcome, Skipped, Step, measure

LAUNCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "launch.py")
NAMES = ("jax", "tensorflow")
TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
# To be imported, to find the card and to compile.
START_SECONDS = 60.0
# So that they do not take all of the card's memory at their start.
ENVIRONMENT = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


def installed() -> List[str]:
    """Which of them are here."""
    return [name for name in NAMES if importlib.util.find_spec(name) is not None]


def product(place: Place, seconds: float, name: str, dtype: str, size: int) -> Outcome:
    """As the framework itself measured it."""
    place.tidy()
    before = place.look()
    command = [sys.executable, LAUNCH, "bench.frameworks", name, place.device, dtype, str(size), repr(seconds)]
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            timeout=START_SECONDS + 2 * seconds,
            env={**os.environ, **ENVIRONMENT},
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise Skipped("failed", f"{name} did not answer within {START_SECONDS + 2 * seconds:.0f} s") from exc
    try:
        said: Dict[str, Any] = json.loads(ran.stdout)
    except ValueError as exc:
        words = ran.stderr.decode(errors="replace").strip().splitlines()
        raise Skipped("failed", f"{name}: {words[-1][:300] if words else f'exit status {ran.returncode}'}") from exc
    if "error" in said:
        raise Skipped(said["reason"], said["error"])
    note = f"{name} {said['version']}"
    return Outcome(said["seconds"], 2.0 * size**3, before=before, after=place.look(), note=note)


def answer(arguments: List[str]) -> Dict[str, Any]:
    """One framework, in its own process."""
    name, device, dtype = arguments[:3]
    size, seconds = int(arguments[3]), float(arguments[4])
    try:
        step, wait, version = MAKERS[name](device, TYPES[dtype], size)
        taken, _, _ = measure(HostClock(wait), step, seconds)
    except Skipped as exc:
        return {"reason": exc.reason, "error": str(exc)}
    except Exception as exc:
        words = f"{type(exc).__name__}: {' '.join(str(exc).split())[:300]}"
        full = "resource_exhausted" in words.lower() or "out of memory" in words.lower()
        return {"reason": "out-of-memory" if full else "failed", "error": words}
    return {"seconds": taken, "version": version}


Made = Tuple[Step, Callable[[], Any], str]


def _on_jax(device: str, dtype: str, size: int) -> Made:
    import jax

    kind, _, number = device.partition(":")
    found = [one for one in jax.local_devices() if (one.platform == "cpu") == (kind == "cpu")]
    if len(found) <= int(number or 0):
        raise Skipped("no-gpu", f"jax {jax.__version__} sees no {device}, only {jax.local_devices()}")
    with jax.default_device(found[int(number or 0)]):
        left, right = (
            jax.random.normal(key, (size, size), dtype=dtype) for key in jax.random.split(jax.random.PRNGKey(0))
        )
        multiply = jax.jit(jax.numpy.matmul)
        last = [multiply(left, right)]

    def step(number: int) -> None:
        last[0] = multiply(left, right)

    return step, lambda: last[0].block_until_ready(), jax.__version__


def _on_tensorflow(device: str, dtype: str, size: int) -> Made:
    import tensorflow

    kind, _, number = device.partition(":")
    found = tensorflow.config.list_physical_devices("GPU" if kind == "cuda" else "CPU")
    if len(found) <= int(number or 0):
        raise Skipped("no-gpu", f"tensorflow {tensorflow.__version__} sees no {device}")
    name = f"/{'GPU' if kind == 'cuda' else 'CPU'}:{number or 0}"
    with tensorflow.device(name):
        left, right = (tensorflow.cast(tensorflow.random.normal((size, size)), dtype) for _ in range(2))
    last = [left]

    def step(number: int) -> None:
        with tensorflow.device(name):
            last[0] = tensorflow.matmul(left, right)

    # Reading one number waits for all that was launched before it; sync_devices() is newer than many who have this.
    return step, lambda: last[0][0, 0].numpy(), tensorflow.__version__


MAKERS: Dict[str, Callable[[str, str, int], Made]] = {"jax": _on_jax, "tensorflow": _on_tensorflow}
