"""Runs the real step on a card or processor: `launch.py fit.measure REQUEST.json SETTINGS.json` prints what it took.

On a processor only time is measured: its memory does not show what a step takes on a card.
"""

import json
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ownlab_guest.fit.errors import FitError, before_deadline, error_from, is_fatal
from ownlab_guest.fit.request import Request, read_request
from ownlab_guest.text import template, text

MIN_REPETITIONS, MAX_REPETITIONS = 5, 200  # repetitions that are timed
# Messages about missing memory other than torch's OutOfMemoryError: of CUDA and of its libraries.
OUT_OF_MEMORY = (
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "cudaErrorMemoryAllocation",
)


class Settings(NamedTuple):
    """How to measure."""

    device: Optional[str] = None  # by torch's name; None: a card if there is one
    look: bool = False  # only describe the device
    seconds: float = 5.0  # for timed repetitions; 0: none
    parts: bool = True  # run an extra step with the allocator's history
    cap_bytes: Optional[int] = None  # limit for what torch may reserve
    decode: int = 0  # number of new tokens after the prompt


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Return the measurement, or an error with its line."""
    try:
        request = read_request(arguments[0])
        with open(arguments[1], encoding="utf-8") as file:
            settings = Settings(**json.load(file))
        try:
            import torch
        except ImportError as exc:
            raise FitError("no-torch", text("This Python has no torch: {reason}", reason=exc)) from exc
        from ownlab_guest.fit import device as on_device

        device = on_device.choose_device(settings.device)
        about = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
        if settings.look:
            return {**about, "device": on_device.describe_device(device)}
        with warnings.catch_warnings(), before_deadline(request.target):
            warnings.simplefilter("ignore")
            return {**about, **measure_step(request, settings, device)}
    except FitError as exc:
        return exc.answer()


def measure_step(request: Request, settings: Settings, device: str) -> Dict[str, Any]:
    """Build on the processor, move to the device, and run."""
    import torch

    from ownlab_guest.fit import model_loader, peak_memory, training_step

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high" if request.precision == "tf32" else "highest")
    built = model_loader.build(request)
    if request.checkpointing:
        training_step.enable_checkpointing(built.model)
    started = _start(device, settings)
    phases = peak_memory.Phases(None if device == "cpu" else peak_memory.cuda_counters(device))
    run = Run(request, settings, device, phases)
    try:
        with phases.track():
            run.prepare(built)
            run.steps()
        run.time()
        run.decode()
        with phases.track():
            run.history()
    except (Exception, SystemExit) as exc:
        if is_fatal(exc) or isinstance(exc, FitError):
            raise
        if not _is_out_of_memory(exc):
            raise error_from(exc, "step-raised", template("the step raised {error}"), built.file) from exc
        run.result["out_of_memory"] = {"message": str(exc)[:2000], "phase": phases.current, "step": run.step_number}
    return {"device": started.pop("device"), **run.answer(started), **run.result}


def _start(device: str, settings: Settings) -> Dict[str, Any]:
    """Create the CUDA context, read what it takes, and empty the cache."""
    import torch

    from ownlab_guest.fit import device as on_device

    about: Dict[str, Any] = {"device": on_device.describe_device(device)}
    if device == "cpu":
        return about
    torch.cuda.set_device(device)
    torch.zeros(1, device=device)
    used, _ = on_device.process_bytes()
    about["start_bytes"] = None if used is None else used - torch.cuda.memory_reserved(device)
    torch.cuda.empty_cache()
    if settings.cap_bytes is not None:
        total = torch.cuda.get_device_properties(device).total_memory  # the base of torch's fraction
        # One byte more: torch rounds the product down, and the last segment would be one byte short.
        torch.cuda.set_per_process_memory_fraction(min(1.0, (settings.cap_bytes + 1) / total), device)
    return about


def _is_out_of_memory(exc: BaseException) -> bool:
    return type(exc).__name__ == "OutOfMemoryError" or (
        isinstance(exc, RuntimeError) and any(words in str(exc) for words in OUT_OF_MEMORY)
    )


class Run:
    """The measurement of one model on one device."""

    def __init__(self, request: Request, settings: Settings, device: str, phases: Any) -> None:
        self.request, self.settings, self.device, self.phases = request, settings, device, phases
        self.result: Dict[str, Any] = {}  # the answer so far
        self.step_number = 0
        self._model: Any = None
        self._inputs: Any = None
        self._step: Callable[[], None] = lambda: None
        self._memory: Optional[Dict[str, Any]] = None

    def prepare(self, built: Any) -> None:
        """Move weights and inputs to the device, and make the optimizer."""
        import torch

        from ownlab_guest.fit import trace, training_step

        dtype = training_step.torch_dtype(self.request.dtype)
        self._model = built.model.to(self.device, dtype=dtype)
        if self.request.channels_last:
            self._model = self._model.to(memory_format=torch.channels_last)
        trace.adapt_model(self._model, self.request)
        self._inputs = training_step.to_device(built.inputs, self.device, self.request)
        kind = "cpu" if self.device == "cpu" else "cuda"
        self._step = training_step.make_step(built._replace(model=self._model), self._inputs, self.request, kind)

    def step(self) -> None:
        """Run one step, and follow its phases."""
        self.phases.enter("forward")
        self._step()

    def steps(self) -> None:
        """Run as many steps as the prediction traces."""
        by_step = []
        for _ in range(self.request.steps):
            self.step_number += 1
            self.step()
            self._wait()
            self.phases.read()
            by_step.append(max((most for phase, most in self.phases.allocated.items() if phase != "setup"), default=0))
        if self.device != "cpu":
            self._memory = self._counted(by_step)

    def _counted(self, by_step: List[int]) -> Dict[str, Any]:
        import torch

        from ownlab_guest.fit import device as on_device

        used, source = on_device.process_bytes()
        counts = torch.cuda.memory_stats(self.device)
        in_steps = {phase: most for phase, most in self.phases.allocated.items() if phase != "setup"}
        return {
            "allocated_bytes": max(in_steps.values()),
            "reserved_bytes": max(self.phases.reserved.values()),
            "device_bytes": used,
            "device_source": source,
            "context_bytes": None if used is None else used - torch.cuda.memory_reserved(self.device),
            "phases": in_steps,
            "steps": by_step,
            "retries": counts.get("num_alloc_retries", 0),
            "segments": counts.get("segment.all.current", 0),
        }

    def time(self) -> None:
        """Time repetitions, back to back and with synchronization, after the first steps."""
        if self.settings.seconds <= 0:
            return
        from ownlab_guest.fit import device as on_device

        self.result["times"] = on_device.time_step(
            self._step, self.device, self.settings.seconds, MIN_REPETITIONS, MAX_REPETITIONS
        )
        self.phases.read()

    def decode(self) -> None:
        """Generate new tokens after the prompt."""
        if self.settings.decode > 0:
            from ownlab_guest.fit import kv_cache

            self.result["decoding"] = kv_cache.measure_decoding(
                self._model, self._inputs, self.request, self.device, self.settings.decode
            )

    def history(self) -> None:
        """Find what holds the memory at the peak, by kind; skipped if this torch's history cannot be read."""
        if self._memory is None or not self.settings.parts:
            return
        from ownlab_guest.fit import peak_memory

        known = {
            "weights": [*self._model.parameters(), *self._model.buffers()],
            "inputs": _tensors(self._inputs),
        }
        try:
            self._memory["parts"] = peak_memory.History(peak_memory.Recorder(self.device)).parts(
                self._step, self.phases, known
            )
        except (AttributeError, KeyError, RuntimeError, TypeError) as exc:
            self._memory["parts_reason"] = text(
                "the allocator's history cannot be read: {error}: {reason}", error=type(exc).__name__, reason=exc
            )

    def answer(self, started: Dict[str, Any]) -> Dict[str, Any]:
        """Return memory and batch."""
        if self._memory is not None:
            self._memory.update(started)
            # Later steps may have reserved more than the first ones.
            self._memory["later_bytes"] = max(self.phases.reserved.values())
        return {"memory": self._memory, "batch": _batch(self._inputs)}

    def _wait(self) -> None:
        import torch

        if self.device != "cpu":
            torch.cuda.synchronize(self.device)


def _tensors(tree: Any) -> List[Any]:
    import torch

    return [tensor for tensor in torch.utils._pytree.tree_leaves(tree) if isinstance(tensor, torch.Tensor)]


def _batch(inputs: Any) -> Optional[int]:
    tensors = [tensor for tensor in _tensors(inputs) if tensor.dim() > 0]
    return int(tensors[0].shape[0]) if tensors else None
