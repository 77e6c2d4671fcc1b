"""The tests of each profile on a device. Results of different machines are matched by name, so names never change."""

import os
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ownlab_guest.bench import frameworks, image_loading, model_steps, numpy_operations, torch_operations
from ownlab_guest.bench.device import Device
from ownlab_guest.bench.disk import Disk
from ownlab_guest.bench.request import PROFILES
from ownlab_guest.bench.timing import Outcome
from ownlab_guest.text import text

SECONDS = {"quick": 0.4, "default": 1.5, "full": 4.0}
FILE_MIB = {"quick": 256, "default": 1024, "full": 4096}
ON_CARD: Tuple[str, ...] = ("products", "memory", "copies", "launch")
WITH_TORCH: Tuple[str, ...] = (*ON_CARD, "training", "inference", "layers")
BATCH_SIZE = 800
HOST_MIB = 512  # larger than the cache of nearly every processor


class Test(NamedTuple):
    """One test; without enough memory, `smaller` is tried instead."""

    name: str
    group: str
    unit: str
    run: Callable[[Device, float], Outcome]
    device: str
    dtype: str = ""
    shape: Optional[Dict[str, int]] = None
    seconds: float = 1.0
    smaller: Tuple[Any, ...] = ()


class Missing(NamedTuple):
    """A group that cannot be measured here."""

    group: str
    reason: str
    message: str


def plan_tests(device: Device) -> List[Test]:
    """Return the requested tests in the order of measurement."""
    request = device.request
    known = [*_all_tests(device, PROFILES.index(request.profile))]
    basic = SECONDS[request.profile]
    return [test._replace(seconds=basic * test.seconds) for test in known if request.wants(test.group)]


def missing_groups(device: Device) -> List[Missing]:
    """Return the requested groups that need something that is missing here."""
    missing: List[Missing] = []
    if device.torch is None:
        missing = [Missing(group, "no-torch", device.no_card_reason) for group in WITH_TORCH]
        if device.numpy is None:
            missing.append(Missing("cpu", "no-numpy", text("this Python has neither torch nor numpy")))
    elif not device.on_card:
        missing = [Missing(group, "no-gpu", device.no_card_reason) for group in ON_CARD]
    request = device.request
    explicit = request.groups is not None or request.device != "cpu"
    return [group for group in missing if explicit and request.wants(group.group)]


def _all_tests(device: Device, level: int) -> Iterator[Test]:
    """Yield the most important tests first, for interrupted runs: the card, or the processors."""
    host = (_cpu, _disk, _loader)
    models = (_training, _inference, _layers) if device.torch is not None else ()
    ordered = (_products, _memory_and_copies, _launches, *models, *host) if device.on_card else (*host, *models)
    for group in (*ordered, _frameworks):
        yield from group(device, level)


# --- the card ---------------------------------------------------------------------------------------------------------


PRODUCTS: Dict[str, Tuple[Tuple[int, ...], ...]] = {  # sizes by type: quick, default, full
    "bf16": ((8192,), (8192, 4096, 2048), (16384, 8192, 4096, 2048, 1024)),
    "fp16": ((), (8192,), (16384, 8192, 4096, 2048, 1024)),
    "tf32": ((8192,), (8192,), (16384, 8192, 4096, 2048)),
    "fp32": ((4096,), (8192, 4096), (8192, 4096, 2048)),
    "fp8": ((), (8192,), (16384, 8192, 4096)),
    "fp64": ((), (4096,), (8192, 4096, 2048)),
}
SMALLEST = 512
SMALLEST_MIB = 256  # less may fit in a cache


def _products(device: Device, level: int) -> Iterator[Test]:
    def product(dtype: str, size: int) -> Test:
        run = partial(torch_operations.product, dtype=dtype, size=size)
        smaller = (product(dtype, size // 2),) if size > SMALLEST else ()
        shape = {"m": size, "n": size, "k": size}
        name = f"matmul {dtype} {size}"
        return Test(name, "products", "FLOP/s", run, device.name, dtype, shape, smaller=smaller)

    for dtype, sizes in PRODUCTS.items():
        chosen = "fp16" if dtype == "bf16" and level == 0 and device.fast_dtype == "fp16" else dtype
        yield from (product(chosen, size) for size in sizes[level])
    if level > 0:
        size = BATCH_SIZE
        shape = {"batch": size, "m": size, "n": size, "k": size}
        run = partial(torch_operations.batch_product, size=size)
        yield Test(f"batch matmul fp32 {size}", "products", "FLOP/s", run, device.name, "fp32", shape)


def _memory_and_copies(device: Device, level: int) -> Iterator[Test]:
    def copy_test(what: str, run: Callable[..., Outcome], mib: int) -> Test:
        smaller = (copy_test(what, run, mib // 2),) if mib > SMALLEST_MIB else ()
        name = f"memory {what} {mib} MiB"
        shape = {"bytes": mib << 20}
        return Test(name, "memory", "B/s", partial(run, mib=mib), device.name, "fp32", shape, smaller=smaller)

    yield copy_test("copy", torch_operations.copy_within, 1024)
    if level > 0:
        yield copy_test("triad", torch_operations.triad, 1024)
    for pinned in (True, False) if level > 0 else (True,):
        for to_card in (True, False):
            for mib in (256, 16, 1) if level > 1 else (256,):
                way = "host to device" if to_card else "device to host"
                name = f"{way} {'pinned' if pinned else 'pageable'} {mib} MiB"
                run = partial(torch_operations.between, mib=mib, pinned=pinned, to_card=to_card)
                yield Test(name, "copies", "B/s", run, device.name, "", {"bytes": mib << 20})


def _launches(device: Device, level: int) -> Iterator[Test]:
    yield Test("launch back to back", "launch", "s", torch_operations.back_to_back, device.name, seconds=0.5)
    yield Test("launch and wait", "launch", "s", torch_operations.and_wait, device.name, seconds=0.5)
    if level > 0:
        shape = {"batch": BATCH_SIZE, "m": BATCH_SIZE, "n": BATCH_SIZE, "k": BATCH_SIZE}
        run = partial(torch_operations.without_waiting, size=BATCH_SIZE)
        yield Test(f"launch of batch matmul fp32 {BATCH_SIZE}", "launch", "s", run, device.name, "fp32", shape)


# --- models -----------------------------------------------------------------------------------------------------------------


def _training(device: Device, level: int) -> Iterator[Test]:
    def resnet(dtype: str, batch: int) -> Test:
        run = partial(model_steps.train_resnet50, dtype=dtype, batch=batch)
        shape = {"batch": batch, "height": model_steps.SIDE, "width": model_steps.SIDE}
        smaller = (resnet(dtype, batch // 2),) if batch > 1 else ()
        name = f"resnet50 training {dtype} {batch}"
        return Test(name, "training", "images/s", run, device.name, dtype, shape, 2.0, smaller)

    def gpt2(dtype: str, batch: int, length: int) -> Test:
        run = partial(model_steps.train_gpt2, dtype=dtype, batch=batch, length=length)
        smaller = (gpt2(dtype, batch // 2, length),) if batch > 1 else ()
        name, shape = f"gpt2 training {dtype} {batch}x{length}", {"batch": batch, "seq": length}
        return Test(name, "training", "tokens/s", run, device.name, dtype, shape, 2.0, smaller)

    if not device.on_card:
        if level > 0:
            yield resnet("fp32", 4)
            yield gpt2("fp32", 1, 128)
        return
    yield resnet(device.fast_dtype, 128)
    yield gpt2(device.fast_dtype, 8, 1024)
    if level > 1:
        whole = "tf32" if device.capability >= (8, 0) else "fp32"
        yield resnet(device.fast_dtype, 256)
        yield gpt2(device.fast_dtype, 32, 1024)
        yield resnet(whole, 128)
        yield gpt2(whole, 8, 1024)


def _inference(device: Device, level: int) -> Iterator[Test]:
    def resnet(dtype: str, batch: int) -> Test:
        run = partial(model_steps.infer_resnet50, dtype=dtype, batch=batch)
        shape = {"batch": batch, "height": model_steps.SIDE, "width": model_steps.SIDE}
        smaller = (resnet(dtype, batch // 2),) if batch > 1 else ()
        name = f"resnet50 inference {dtype} {batch}"
        return Test(name, "inference", "images/s", run, device.name, dtype, shape, 1.0, smaller)

    def gpt2(dtype: str, batch: int, length: int) -> Test:
        run = partial(model_steps.infer_gpt2, dtype=dtype, batch=batch, length=length)
        name, shape = f"gpt2 inference {dtype} {batch}x{length}", {"batch": batch, "seq": length}
        return Test(name, "inference", "tokens/s", run, device.name, dtype, shape)

    on_card: Tuple[Tuple[int, ...], ...] = ((1, 32), (1, 8, 32, 128), (1, 2, 4, 8, 16, 32, 64, 128, 256))
    on_host: Tuple[Tuple[int, ...], ...] = ((1,), (1, 8), (1, 2, 4, 8, 16))
    for batch in (on_card if device.on_card else on_host)[level]:
        yield resnet(device.fast_dtype, batch)
    if level > 0:
        yield gpt2(device.fast_dtype, 1, 1024 if device.on_card else 128)


def _layers(device: Device, level: int) -> Iterator[Test]:
    if level == 0:
        return
    dtype = device.fast_dtype
    batch, heads, length = (64, 16, 2048) if device.on_card else (4, 12, 512)
    for train in (False, True):
        way = "forward and backward" if train else "forward"
        shape = {"batch": batch, "channels": 256, "side": 56, "kernel": 3}
        run = partial(model_steps.convolution, dtype=dtype, batch=batch, channels=256, side=56, train=train)
        name = f"convolution {way} {dtype} {batch}x256x56"
        yield Test(name, "layers", "FLOP/s", run, device.name, dtype, shape)
        shape = {"batch": batch // 8 or 1, "heads": heads, "seq": length, "dim": 64}
        run = partial(model_steps.attention, dtype=dtype, batch=shape["batch"], heads=heads, length=length, train=train)
        name = f"attention {way} {dtype} {shape['batch']}x{heads}x{length}"
        yield Test(name, "layers", "FLOP/s", run, device.name, dtype, shape)


# --- the host ---------------------------------------------------------------------------------------------------------------


def _cpu(device: Device, level: int) -> Iterator[Test]:
    """With torch and numpy if both are installed; with one of them in the quick profile."""
    libraries: List[Tuple[str, Any]] = []
    if device.torch is not None:
        libraries.append(("torch", torch_operations))
    if device.numpy is not None:
        libraries.append(("numpy", numpy_operations))
    for library, operations in libraries[:1] if level == 0 else libraries:
        short = ("bf16",) if level > 1 and library == "torch" else ()
        for dtype in ("fp32",) if level == 0 else ("fp32", "fp64", *short):
            for size in (2048,) if level < 2 else (4096, 2048):
                run = partial(operations.product, dtype=dtype, size=size)
                shape = {"m": size, "n": size, "k": size}
                yield Test(f"cpu matmul {dtype} {size} {library}", "cpu", "FLOP/s", run, "cpu", dtype, shape)
        shape, run = {"bytes": HOST_MIB << 20}, partial(operations.copy_within, mib=HOST_MIB)
        yield Test(f"cpu memory copy {HOST_MIB} MiB {library}", "cpu", "B/s", run, "cpu", "", shape)
    for library, operations in libraries[:1] if level > 0 else ():
        size = BATCH_SIZE
        shape = {"batch": size, "m": size, "n": size, "k": size}
        run = partial(operations.batch_product, size=size)
        yield Test(f"cpu batch matmul fp32 {size} {library}", "cpu", "FLOP/s", run, "cpu", "fp32", shape)


def _disk(device: Device, level: int) -> Iterator[Test]:
    disk = Disk(FILE_MIB[PROFILES[level]])
    folder = os.path.abspath(device.request.folder or ".")
    if level > 0:
        yield Test("disk sequential write", "disk", "B/s", disk.write, folder)
    yield Test("disk sequential read", "disk", "B/s", disk.read_sequential, folder)
    for depth in (1,) if level == 0 else (1, 16):
        run = partial(disk.read_random, depth=depth)
        yield Test(f"disk 4K random reads x{depth}", "disk", "reads/s", run, folder, "", {"depth": depth})


def _loader(device: Device, level: int) -> Iterator[Test]:
    # The number of cores differs between machines, so the name is "all cores".
    for name, workers in (("1 worker", 1), ("all cores", device.cores))[0 if level > 0 else 1 :]:
        run = partial(image_loading.decode, workers=workers)
        yield Test(f"jpeg decode {name}", "loader", "images/s", run, "cpu", "", {"workers": workers})


def _frameworks(device: Device, level: int) -> Iterator[Test]:
    if level == 0:
        return
    size, dtype = (8192 if device.on_card else 2048), device.fast_dtype
    for name in frameworks.installed():
        run = partial(frameworks.product, name=name, dtype=dtype, size=size)
        shape = {"m": size, "n": size, "k": size}
        yield Test(f"{name} matmul {dtype} {size}", "frameworks", "FLOP/s", run, device.name, dtype, shape)
