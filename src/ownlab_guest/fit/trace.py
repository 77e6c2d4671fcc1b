"""Traces a step without a card: `launch.py fit.trace REQUEST.json`; prints the stream of memory, FLOPs and parameters."""

import contextlib
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ownlab_guest.fit.errors import Refused, in_time, is_fatal, refused
from ownlab_guest.fit.request import Request, read


def answer(arguments: List[str]) -> Dict[str, Any]:
    """The trace, or what was wrong and where."""
    try:
        request = read(arguments[0])
        try:
            import torch  # noqa: F401
        except ImportError as exc:
            raise Refused("no-torch", f"this Python has no torch: {exc}") from exc
        with in_time(request.target):
            try:
                return traced(request)
            except Refused as exc:
                return traced_instead(request, exc)
    except Refused as exc:
        return exc.answer()


def traced(request: Request, build: Optional[Callable[[Request], Any]] = None, data: bool = False) -> Dict[str, Any]:
    """Build (the target, or what `build` makes), then run the steps on tensors without data; or with it."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from ownlab_guest.fit import (
        cuda_semantics,
        dispatch_trace,
        model_loader,
        recurrent_layers,
        tensor_values,
        training_step,
    )

    mode = None if data else FakeTensorMode(allow_non_fake_inputs=True)
    with warnings.catch_warnings(), mode or contextlib.nullcontext(), _converting(mode is not None):
        warnings.simplefilter("ignore")
        with tensor_values.Guessing(mode) as guessed:
            built = (build or model_loader.build)(request)
        model, left_out = training_step.bare(built.model)
        built = built._replace(model=model)
        if request.checkpointing:
            training_step.checkpointed(built.model)
        convert(built.model, request)
        inputs = training_step.moved(built.inputs, "cpu", request)
        instead = cuda_semantics.everywhere() if data else cuda_semantics.operations(request.card)
        trace = dispatch_trace.Tracing(built.model, request, instead, data)
        if not data:
            instead.update(recurrent_layers.operations(trace))
        _hold_weights(trace, built.model)
        for given, one in zip(_tensors(built.inputs), _tensors(inputs)):
            trace.hold_moved(given, one)
        step = training_step.step_of(built, inputs, request, "cpu")
        try:
            with cuda_semantics.as_cuda(instead), _hooked(trace), trace:
                for _ in range(request.steps):
                    trace.begin_step()
                    step()
                    trace.end_step()
                trace.end()
        except (Exception, SystemExit) as exc:
            if is_fatal(exc) or isinstance(exc, Refused):
                raise
            raise refused(exc, "step-raised", "the step", built.file) from exc
    return {
        "parameters": dispatch_trace.parameters_of(built.model),
        "flops": trace.flops,
        **trace.stream.answer(),
        "marks": trace.marks,
        "guesses": list(
            dict.fromkeys(guessed.guesses.said + trace.guesses.said + training_step.guesses(request) + left_out)
        ),
        "torch": torch.__version__,
        **_sizes(inputs),
    }


def _sizes(inputs: Any) -> Dict[str, Optional[int]]:
    """Batch and length, as the inputs show them: the first of them, and the first of tokens."""
    import torch

    tensors = [
        one for one in torch.utils._pytree.tree_leaves(inputs) if isinstance(one, torch.Tensor) and one.dim() > 0
    ]
    tokens = [one for one in tensors if one.dim() == 2 and not one.is_floating_point()]
    return {"batch": tensors[0].shape[0] if tensors else None, "seq": tokens[0].shape[1] if tokens else None}


@contextlib.contextmanager
def _converting(without_data: bool) -> Iterator[None]:
    """Module.half(), .to() and their like, for weights without data: torch itself would swap these, and cannot.

    Weights stay the same objects, as by torch's own `param.data = …`, so that tied ones stay tied. Modules with data, which
    other threads of a notebook may convert meanwhile, are torch's to convert.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    before = torch.nn.Module._apply

    def apply(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        own = (*self._parameters.values(), *self._buffers.values())
        if not any(isinstance(one, FakeTensor) for one in own):
            return before(self, fn, recurse)
        for module in self.children() if recurse else ():
            module._apply(fn)
        with torch.no_grad():
            for parameter in self._parameters.values():
                if parameter is not None:
                    parameter.data = fn(parameter)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    if without_data:
        torch.nn.Module._apply = apply
    try:
        yield
    finally:
        torch.nn.Module._apply = before


def convert(model: Any, request: Request) -> None:
    """Weights in their type and layout. Not by Module.to(), which keeps each: one that was deep-copied must become another."""
    import torch

    from ownlab_guest.fit import recurrent_layers

    done: Dict[int, Tuple[Any, Any]] = {}  # tied weights stay tied; the old ones stay, else an id could come twice
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                if id(parameter) not in done:
                    tensor = _converted(parameter.detach(), parameter, request)
                    new = parameter if tensor is None else torch.nn.Parameter(tensor, parameter.requires_grad)
                    done[id(parameter)] = parameter, new
                module._parameters[name] = done[id(parameter)][1]
        for name, buffer in module._buffers.items():
            tensor = None if buffer is None else _converted(buffer.detach(), buffer, request)
            if tensor is not None:
                module._buffers[name] = tensor
    recurrent_layers.join(model)


def _converted(tensor: Any, held: Any, request: Request) -> Any:
    """None where it is right as it is."""
    import torch

    from ownlab_guest.fit.training_step import moved

    new = moved(tensor, "cpu", request)
    if new is not tensor:
        return new
    # copy.deepcopy() of a tensor without data gives one whose views are no views of it.
    whole = tensor.untyped_storage()._cdata == held.untyped_storage()._cdata
    return None if whole else torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def _hold_weights(trace: Any, model: Any) -> None:
    from ownlab_guest.fit import recurrent_layers

    for name, module in _in_order(model, ""):
        own = [one for one in (*module._parameters.values(), *module._buffers.values()) if one is not None]
        if recurrent_layers.is_joined(module):
            trace.hold_joined(name, own)
        else:
            trace.hold("weights", [(name, one) for one in own])


def _in_order(module: Any, name: str) -> Iterator[Tuple[str, Any]]:
    """Modules as Module.to() moves them to a card, the parts of each before itself; with their names."""
    for part, child in module.named_children():
        yield from _in_order(child, f"{name}.{part}" if name else part)
    yield name, module


def _tensors(tree: Any) -> List[Any]:
    import torch

    return [one for one in torch.utils._pytree.tree_leaves(tree) if isinstance(one, torch.Tensor)]


@contextlib.contextmanager
def _hooked(trace: Any) -> Iterator[None]:
    from torch.nn.modules import module
    from torch.optim.optimizer import register_optimizer_step_post_hook

    hooks = [
        register_optimizer_step_post_hook(trace.stepped),
        module.register_module_forward_pre_hook(trace.enter),
        module.register_module_forward_hook(trace.leave, always_call=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


KINDS = ("data-dependent-shape", "data-dependent-value", "cannot-be-traced")
SHARE = 0.7  # of the memory that is free: more is not taken from whoever else works here


def traced_instead(request: Request, why: Refused) -> Dict[str, Any]:
    """The trace of a computed step, which says so; `why` again, where that is no way out, or does not work either."""
    if why.kind not in KINDS or not _limited():
        raise why
    try:
        found = traced(request, data=True)
    except Refused as exc:
        raise Refused(
            why.kind, f"{why}; computing it on the processor failed as well: {exc}", why.file, why.line
        ) from exc
    place = "" if why.line is None else f" (line {why.line})"
    said = f"computed with data, on the processor, and attention and recurrent layers as there: {why}{place}"
    return {**found, "guesses": [said, *found["guesses"]]}


def _limited() -> bool:
    """Whether this process can be kept from taking all of the computer's memory: then it is."""
    free = _free_bytes()
    if free is None or not sys.platform.startswith("linux"):
        return False
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (data + int(SHARE * free), resource.getrlimit(resource.RLIMIT_DATA)[1]))
    return True


def _free_bytes() -> Optional[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None  # not Linux
    return None
