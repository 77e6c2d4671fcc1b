"""Which tests a profile has on a device. Their names join results of different machines: they are never changed."""

import os
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ownlab_guest.bench import frameworks, image_loading, model_steps, numpy_operations, torch_operations
from ownlab_guest.bench.device import Place
from ownlab_guest.bench.disk import Disk
from ownlab_guest.bench.timing import Outcome

PROFILES = ("quick", "default", "full")
SECONDS = {"quick": 0.4, "default": 1.5, "full": 4.0}
FILE_MIB = {"quick": 256, "default": 1024, "full": 4096}
ON_CARD: Tuple[str, ...] = ("products", "memory", "copies", "launch")
WITH_TORCH: Tuple[str, ...] = (*ON_CARD, "training", "inference", "layers")
BATCH_SIZE = 800
HOST_MIB = 512  # beyond the cache of nearly every processor


class Test(NamedTuple):
    """One thing that is measured; `smaller` are tried in their order where memory does not suffice."""

    name: str
    group: str
    unit: str
    run: Callable[[Place, float], Outcome]
    device: str
    dtype: str = ""
    shape: Optional[Dict[str, int]] = None
    seconds: float = 1.0
    smaller: Tuple[Any, ...] = ()


class Missing(NamedTuple):
    """A whole group that cannot be measured here."""

    group: str
    reason: str
    message: str


def tests_of(place: Place) -> List[Test]:
    """In the order of their groups."""
    request = place.request
    known = [*_all(place, PROFILES.index(request.profile))]
    basic = SECONDS[request.profile]
    return [test._replace(seconds=basic * test.seconds) for test in known if request.wants(test.group)]


def missing_of(place: Place) -> List[Missing]:
    """The groups that were asked for, or are in every run, and that need what is not here."""
    gone: List[Missing] = []
    if place.torch is None:
        gone = [Missing(group, "no-torch", place.why) for group in WITH_TORCH]
        if place.numpy is None:
            gone.append(Missing("cpu", "no-numpy", "this Python has neither torch nor numpy"))
    elif not place.on_card:
        gone = [Missing(group, "no-gpu", place.why) for group in ON_CARD]
    said = place.request
    return [one for one in gone if said.wants(one.group) and (said.groups is not None or said.device != "cpu")]


def _all(place: Place, level: int) -> Iterator[Test]:
    """What most people ask for comes first, so that an interrupted run has it: the card, or the processors."""
    host = (_processors, _disk, _loader)
    models = (_training, _inference, _layers) if place.torch is not None else ()
    ordered = (_products, _moving, _launching, *models, *host) if place.on_card else (*host, *models)
    for group in (*ordered, _frameworks):
        yield from group(place, level)


# --- a card's own ---------------------------------------------------------------------------------------------------------


PRODUCTS: Dict[str, Tuple[Tuple[int, ...], ...]] = {  # sizes by type: quick, default, full
    "bf16": ((8192,), (8192, 4096, 2048), (16384, 8192, 4096, 2048, 1024)),
    "fp16": ((), (8192,), (16384, 8192, 4096, 2048, 1024)),
    "tf32": ((8192,), (8192,), (16384, 8192, 4096, 2048)),
    "fp32": ((4096,), (8192, 4096), (8192, 4096, 2048)),
    "fp8": ((), (8192,), (16384, 8192, 4096)),
    "fp64": ((), (4096,), (8192, 4096, 2048)),
}
SMALLEST = 512
SMALLEST_MIB = 256  # less may come out of a cache


def _products(place: Place, level: int) -> Iterator[Test]:
    def product(dtype: str, size: int) -> Test:
        run = partial(torch_operations.product, dtype=dtype, size=size)
        smaller = (product(dtype, size // 2),) if size > SMALLEST else ()
        shape = {"m": size, "n": size, "k": size}
        name = f"matmul {dtype} {size}"
        return Test(name, "products", "FLOP/s", run, place.device, dtype, shape, smaller=smaller)

    for dtype, sizes in PRODUCTS.items():
        chosen = "fp16" if dtype == "bf16" and level == 0 and place.half == "fp16" else dtype
        yield from (product(chosen, size) for size in sizes[level])
    if level > 0:
        size = BATCH_SIZE
        shape = {"batch": size, "m": size, "n": size, "k": size}
        run = partial(torch_operations.batch_product, size=size)
        yield Test(f"batch matmul fp32 {size}", "products", "FLOP/s", run, place.device, "fp32", shape)


def _moving(place: Place, level: int) -> Iterator[Test]:
    def within(what: str, run: Callable[..., Outcome], mib: int) -> Test:
        smaller = (within(what, run, mib // 2),) if mib > SMALLEST_MIB else ()
        name = f"memory {what} {mib} MiB"
        shape = {"bytes": mib << 20}
        return Test(name, "memory", "B/s", partial(run, mib=mib), place.device, "fp32", shape, smaller=smaller)

    yield within("copy", torch_operations.copy_within, 1024)
    if level > 0:
        yield within("triad", torch_operations.triad, 1024)
    for pinned in (True, False) if level > 0 else (True,):
        for to_card in (True, False):
            for mib in (256, 16, 1) if level > 1 else (256,):
                way = "host to device" if to_card else "device to host"
                name = f"{way} {'pinned' if pinned else 'pageable'} {mib} MiB"
                run = partial(torch_operations.between, mib=mib, pinned=pinned, to_card=to_card)
                yield Test(name, "copies", "B/s", run, place.device, "", {"bytes": mib << 20})


def _launching(place: Place, level: int) -> Iterator[Test]:
    yield Test("launch back to back", "launch", "s", torch_operations.back_to_back, place.device, seconds=0.5)
    yield Test("launch and wait", "launch", "s", torch_operations.and_wait, place.device, seconds=0.5)
    if level > 0:
        shape = {"batch": BATCH_SIZE, "m": BATCH_SIZE, "n": BATCH_SIZE, "k": BATCH_SIZE}
        run = partial(torch_operations.without_waiting, size=BATCH_SIZE)
        yield Test(f"launch of batch matmul fp32 {BATCH_SIZE}", "launch", "s", run, place.device, "fp32", shape)


# --- models -----------------------------------------------------------------------------------------------------------------


def _training(place: Place, level: int) -> Iterator[Test]:
    def resnet(dtype: str, batch: int) -> Test:
        run = partial(model_steps.train_resnet50, dtype=dtype, batch=batch)
        shape = {"batch": batch, "height": model_steps.SIDE, "width": model_steps.SIDE}
        smaller = (resnet(dtype, batch // 2),) if batch > 1 else ()
        name = f"resnet50 training {dtype} {batch}"
        return Test(name, "training", "images/s", run, place.device, dtype, shape, 2.0, smaller)

    def gpt2(dtype: str, batch: int, length: int) -> Test:
        run = partial(model_steps.train_gpt2, dtype=dtype, batch=batch, length=length)
        smaller = (gpt2(dtype, batch // 2, length),) if batch > 1 else ()
        name, shape = f"gpt2 training {dtype} {batch}x{length}", {"batch": batch, "seq": length}
        return Test(name, "training", "tokens/s", run, place.device, dtype, shape, 2.0, smaller)

    if not place.on_card:
        if level > 0:
            yield resnet("fp32", 4)
            yield gpt2("fp32", 1, 128)
        return
    yield resnet(place.half, 128)
    yield gpt2(place.half, 8, 1024)
    if level > 1:
        whole = "tf32" if place.capability >= (8, 0) else "fp32"
        yield resnet(place.half, 256)
        yield gpt2(place.half, 32, 1024)
        yield resnet(whole, 128)
        yield gpt2(whole, 8, 1024)


def _inference(place: Place, level: int) -> Iterator[Test]:
    def resnet(dtype: str, batch: int) -> Test:
        run = partial(model_steps.infer_resnet50, dtype=dtype, batch=batch)
        shape = {"batch": batch, "height": model_steps.SIDE, "width": model_steps.SIDE}
        smaller = (resnet(dtype, batch // 2),) if batch > 1 else ()
        name = f"resnet50 inference {dtype} {batch}"
        return Test(name, "inference", "images/s", run, place.device, dtype, shape, 1.0, smaller)

    def gpt2(dtype: str, batch: int, length: int) -> Test:
        run = partial(model_steps.infer_gpt2, dtype=dtype, batch=batch, length=length)
        name, shape = f"gpt2 inference {dtype} {batch}x{length}", {"batch": batch, "seq": length}
        return Test(name, "inference", "tokens/s", run, place.device, dtype, shape)

    on_card: Tuple[Tuple[int, ...], ...] = ((1, 32), (1, 8, 32, 128), (1, 2, 4, 8, 16, 32, 64, 128, 256))
    on_host: Tuple[Tuple[int, ...], ...] = ((1,), (1, 8), (1, 2, 4, 8, 16))
    for batch in (on_card if place.on_card else on_host)[level]:
        yield resnet(place.half, batch)
    if level > 0:
        yield gpt2(place.half, 1, 1024 if place.on_card else 128)


def _layers(place: Place, level: int) -> Iterator[Test]:
    if level == 0:
        return
    dtype = place.half
    batch, heads, length = (64, 16, 2048) if place.on_card else (4, 12, 512)
    for train in (False, True):
        way = "forward and backward" if train else "forward"
        shape = {"batch": batch, "channels": 256, "side": 56, "kernel": 3}
        run = partial(model_steps.convolution, dtype=dtype, batch=batch, channels=256, side=56, train=train)
        name = f"convolution {way} {dtype} {batch}x256x56"
        yield Test(name, "layers", "FLOP/s", run, place.device, dtype, shape)
        shape = {"batch": batch // 8 or 1, "heads": heads, "seq": length, "dim": 64}
        run = partial(model_steps.attention, dtype=dtype, batch=shape["batch"], heads=heads, length=length, train=train)
        name = f"attention {way} {dtype} {shape['batch']}x{heads}x{length}"
        yield Test(name, "layers", "FLOP/s", run, place.device, dtype, shape)


# --- the host ---------------------------------------------------------------------------------------------------------------


def _processors(place: Place, level: int) -> Iterator[Test]:
    """By torch and by numpy where both are here; by one of them in the quick profile."""
    libraries: List[Tuple[str, Any]] = []
    if place.torch is not None:
        libraries.append(("torch", torch_operations))
    if place.numpy is not None:
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


def _disk(place: Place, level: int) -> Iterator[Test]:
    disk = Disk(FILE_MIB[PROFILES[level]])
    device = os.path.abspath(place.request.folder or ".")
    if level > 0:
        yield Test("disk sequential write", "disk", "B/s", disk.write, device)
    yield Test("disk sequential read", "disk", "B/s", disk.sequential, device)
    for depth in (1,) if level == 0 else (1, 16):
        run = partial(disk.at_random, depth=depth)
        yield Test(f"disk 4K random reads x{depth}", "disk", "reads/s", run, device, "", {"depth": depth})


def _loader(place: Place, level: int) -> Iterator[Test]:
    # As many workers as cores is another number on each machine, and one name: "all".
    for name, workers in (("1 worker", 1), ("all cores", place.cores))[0 if level > 0 else 1 :]:
        run = partial(image_loading.decode, workers=workers)
        yield Test(f"jpeg decode {name}", "loader", "images/s", run, "cpu", "", {"workers": workers})


def _frameworks(place: Place, level: int) -> Iterator[Test]:
    if level == 0:
        return
    size, dtype = (8192 if place.on_card else 2048), place.half
    for name in frameworks.installed():
        run = partial(frameworks.product, name=name, dtype=dtype, size=size)
        shape = {"m": size, "n": size, "k": size}
        yield Test(f"{name} matmul {dtype} {size}", "frameworks", "FLOP/s", run, place.device, dtype, shape)
