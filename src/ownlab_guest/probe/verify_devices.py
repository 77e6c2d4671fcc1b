"""Verifies that a framework's devices compute: a matrix product on each, compared with the CPU's in double precision."""

import importlib.util
import math
from typing import Any, Callable, Dict, Iterator, List, Tuple

from ownlab_guest.probe.framework_report import exception_text
from ownlab_guest.text import text

ROWS, INNER, COLUMNS = 1024, 768, 512

# Half the distance from 1 to the next number: the error of one rounding.
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

Check = Dict[str, Any]
Result = Tuple[float, str]  # largest error relative to the largest element; the device that holds the product


def tolerance(dtype: str) -> float:
    """The largest error, relative to the largest element, that rounding explains.

    Each element is a sum of INNER products, accumulated in float32. The sum's roundings add up as a random walk does,
    to about sqrt(INNER) of them; 8 leaves room for any order of summation and for the worst of half a million elements.
    The inputs are exact in their type. The sum is rounded to it, twice where a library splits the sum: 4 has room.
    For float32 that is 1.3e-5. Seen on an H200: 7e-7, and 2.7e-4 with TF32, which rounds the inputs to 11 bits.
    For bfloat16, 1.6e-2: seen, 2.9e-3. For float16, 2e-3: seen, 2.8e-4.
    """
    return 8 * math.sqrt(INNER) * ROUNDOFF["float32"] + 4 * ROUNDOFF[dtype]


def answer(arguments: List[str]) -> List[Check]:
    """Return a check for each device that the framework sees, in each type."""
    return list(_PRODUCTS[arguments[0]]())


def check(framework: str, device: str, name: str, dtype: str, multiply: Callable[..., Result], *given: Any) -> Check:
    """Check one product, `multiply(*given)`; an exception becomes the check's error."""
    allowed = tolerance(dtype)
    result: Check = {"framework": framework, "device": device, "name": name, "dtype": dtype, "tolerance": allowed}
    result["passed"] = False
    try:
        error, result["ran_on"] = multiply(*given)
    except Exception as exc:
        result["error"] = exception_text(exc)
        return result
    finite = math.isfinite(error)
    if finite:
        result["largest_error"] = error
    result["wrong"] = not error <= allowed
    if result["ran_on"] != device:
        result["error"] = text(
            "the product was requested on {device}, but computed on {other}", device=device, other=result["ran_on"]
        )
    elif not finite:
        result["error"] = text("the product contains values that are not numbers")
    elif error > allowed:
        result["error"] = text(
            "the product differs from the CPU's by {difference:.2g} of its largest element; the tolerance is {tolerance:.2g}",
            difference=error,
            tolerance=allowed,
        )
    else:
        result["passed"] = True
    return result


# --- torch: its own CPU computes the reference, since numpy may be absent ----------------------------------------------


def torch_product(torch: Any, device: str, dtype: str) -> Result:
    """Compute the product on a device of torch; return its error and the device that holds it."""
    random = torch.Generator().manual_seed(0)
    left = torch.randn(ROWS, INNER, generator=random).to(getattr(torch, dtype))
    right = torch.randn(INNER, COLUMNS, generator=random).to(getattr(torch, dtype))
    product = left.to(device) @ right.to(device)
    expected = left.double() @ right.double()
    error = (product.cpu().double() - expected).abs().max() / expected.abs().max()
    return error.item(), str(product.device)


def _torch_checks() -> Iterator[Check]:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    for kind in ("cuda", "xpu", "npu", "mps"):
        if kind == "npu":
            _load_torch_npu()
        accelerator: Any = getattr(torch, kind, None)
        count = getattr(accelerator, "device_count", None)  # torch.mps has none before 2.3
        for index in range(count() if count is not None else 0):
            device = f"{kind}:{index}"
            name = "Apple GPU" if kind == "mps" else accelerator.get_device_name(index)
            # bfloat16 is emulated, or refused, before compute capability 8.0.
            wide = kind == "cuda" and not torch.version.hip and accelerator.get_device_capability(index) >= (8, 0)
            for dtype in ("float32", "bfloat16" if wide else "float16"):
                yield check("torch", device, name, dtype, torch_product, torch, device, dtype)


def _load_torch_npu() -> None:
    """Import Huawei's plug-in if it is installed, which adds torch.npu."""
    if importlib.util.find_spec("torch_npu") is not None:
        importlib.import_module("torch_npu")


# --- the others all need numpy -----------------------------------------------------------------------------------------


def numpy_matrices(dtype: Any) -> Tuple[Any, Any]:
    """Make the two factors; `dtype` may come from another library (bfloat16)."""
    import numpy

    random = numpy.random.RandomState(0)
    left = random.standard_normal((ROWS, INNER)).astype(numpy.float32).astype(dtype)
    return left, random.standard_normal((INNER, COLUMNS)).astype(numpy.float32).astype(dtype)


def numpy_error(left: Any, right: Any, product: Any) -> float:
    """Return how far a product is from numpy's in double precision."""
    expected = left.astype("float64") @ right.astype("float64")
    return float(abs(product.astype("float64") - expected).max() / abs(expected).max())


def _tensorflow_checks() -> Iterator[Check]:
    import tensorflow

    tensorflow.config.experimental.enable_tensor_float_32_execution(False)
    tensorflow.config.set_soft_device_placement(False)  # otherwise the CPU silently does what a GPU cannot do

    def multiply(device: str, dtype: str) -> Result:
        left, right = numpy_matrices(getattr(tensorflow, dtype).as_numpy_dtype)
        with tensorflow.device("/" + device):
            product = tensorflow.matmul(tensorflow.constant(left), tensorflow.constant(right))
        return numpy_error(left, right, product.numpy()), product.device.rpartition("/device:")[2]

    for physical in tensorflow.config.list_physical_devices("GPU"):
        device = physical.name.rpartition("physical_device:")[2]  # GPU:0
        details = tensorflow.config.experimental.get_device_details(physical)
        wide = tuple(details.get("compute_capability") or ()) >= (8, 0)
        for dtype in ("float32", "bfloat16" if wide else "float16"):
            name = details.get("device_name") or device
            yield check("tensorflow", device, name, dtype, multiply, device, dtype)


def _jax_checks() -> Iterator[Check]:
    import jax
    import jax.numpy
    import numpy

    def multiply(device: Any, dtype: str) -> Result:
        left, right = numpy_matrices(getattr(jax.numpy, dtype))
        product = jax.numpy.matmul(  # HIGHEST: neither TF32 nor a TPU's single pass in bfloat16
            jax.device_put(left, device), jax.device_put(right, device), precision=jax.lax.Precision.HIGHEST
        )
        return numpy_error(left, right, numpy.asarray(product)), ", ".join(str(each) for each in product.devices())

    for device in jax.local_devices():  # of a pod slice, only what this machine holds
        if device.platform == "cpu":
            continue
        capability = str(getattr(device, "compute_capability", ""))  # 9.0; on AMD's cards gfx942
        wide = device.platform == "tpu" or (capability[:1].isdigit() and float(capability) >= 8)
        for dtype in ("float32", "bfloat16" if wide else "float16"):
            yield check("jax", str(device), device.device_kind, dtype, multiply, device, dtype)


def _cupy_checks() -> Iterator[Check]:
    import cupy

    def multiply(index: int, dtype: str) -> Result:
        left, right = numpy_matrices(dtype)
        with cupy.cuda.Device(index):
            product = cupy.asarray(left) @ cupy.asarray(right)
            return numpy_error(left, right, cupy.asnumpy(product)), f"cuda:{product.device.id}"

    for index in range(cupy.cuda.runtime.getDeviceCount()):
        name = cupy.cuda.runtime.getDeviceProperties(index)["name"].decode(errors="replace")
        for dtype in ("float32", "float16"):
            yield check("cupy", f"cuda:{index}", name, dtype, multiply, index, dtype)


def _numba_checks() -> Iterator[Check]:
    import numpy
    from numba import cuda

    def product_kernel(left: Any, right: Any, product: Any) -> None:
        row, column = cuda.grid(2)
        if row < product.shape[0] and column < product.shape[1]:
            total = numpy.float32(0)
            for inner in range(left.shape[1]):
                total += left[row, inner] * right[inner, column]
            product[row, column] = total

    def multiply(index: int) -> Result:
        left, right = numpy_matrices("float32")
        with cuda.gpus[index]:
            product = cuda.device_array((ROWS, COLUMNS), dtype=numpy.float32)
            kernel = cuda.jit(product_kernel)
            kernel[(ROWS // 16, COLUMNS // 16), (16, 16)](cuda.to_device(left), cuda.to_device(right), product)
            return numpy_error(left, right, product.copy_to_host()), f"cuda:{product.gpu_data.context.device.id}"

    for device in cuda.gpus:
        name = device.name.decode(errors="replace") if isinstance(device.name, bytes) else device.name
        yield check("numba", f"cuda:{device.id}", name, "float32", multiply, device.id)


_PRODUCTS: Dict[str, Callable[[], Iterator[Check]]] = {
    "torch": _torch_checks,
    "tensorflow": _tensorflow_checks,
    "jax": _jax_checks,
    "cupy": _cupy_checks,
    "numba": _numba_checks,
}
