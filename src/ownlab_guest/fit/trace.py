"""Traces a step without a card: `launch.py fit.trace REQUEST.json` prints its allocations, FLOPs and parameters.

The model is built of tensors without data (torch's FakeTensorMode). If a size depends on data, the step is computed on the
processor instead (`trace_with_data`), with the memory of attention and recurrent layers as a processor has it.
"""

import contextlib
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ownlab_guest.fit.errors import FitError, before_deadline, error_from, is_fatal
from ownlab_guest.fit.request import Request, read_request
from ownlab_guest.text import template, text


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Return the trace, or an error with its line."""
    try:
        request = read_request(arguments[0])
        try:
            import torch  # noqa: F401
        except ImportError as exc:
            raise FitError("no-torch", text("This Python has no torch: {reason}", reason=exc)) from exc
        with before_deadline(request.target):
            return _best_trace(request)
    except FitError as exc:
        return exc.answer()


def _best_trace(request: Request) -> Dict[str, Any]:
    """Trace without data; else with data, where sizes depend on it or the step fails; else with guessed sizes."""
    try:
        return trace_step(request, guess=False)
    except FitError as exc:
        why = exc
    try:
        return trace_with_data(request, why)
    except FitError:
        if why.kind != "data-dependent-value":
            raise
        return trace_step(request)


def trace_step(
    request: Request, build: Optional[Callable[[Request], Any]] = None, data: bool = False, guess: bool = True
) -> Dict[str, Any]:
    """Build the model (the target, or what `build` returns), and run its steps on tensors without data; or with data.

    `guess`: whether whole numbers that depend on data may be guessed in a step.
    """
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
        with tensor_values.GuessingMode(mode) as guessed:
            built = (build or model_loader.build)(request)
        built, left_out = _prepare(built, request)
        inputs = training_step.to_device(built.inputs, "cpu", request)
        instead = cuda_semantics.common_operations() if data else cuda_semantics.operations(request.card)
        trace = dispatch_trace.TracingMode(built.model, request, instead, mode, guessed.values)
        trace.guesses = tensor_values.Guesses(patience=1000, whole=guess)
        if not data:
            instead.update(recurrent_layers.operations(trace))
        kept = _forget_batch_counts(built.model)  # until the trace has ended
        _hold_weights(trace, built.model)
        for given, tensor in zip(_tensors(built.inputs), _tensors(inputs)):
            trace.add_input(given, tensor)
        step = training_step.make_step(built, inputs, request, "cpu", trace.add_optimizer_state)
        try:
            with cuda_semantics.emulate_cuda(instead):
                _record_steps(trace, step, request.steps)
        except (Exception, SystemExit) as exc:
            if is_fatal(exc) or isinstance(exc, FitError):
                raise
            raise error_from(exc, "step-raised", template("the step raised {error}"), built.file) from exc
    del kept
    return {
        "parameters": dispatch_trace.count_parameters(built.model),
        "flops": trace.flops,
        "optimizer_arguments": trace.optimizer_arguments,
        **trace.stream.answer(),
        "marks": trace.marks,
        "guesses": _notes(request, guessed.guesses.messages + trace.guesses.messages, left_out),
        "torch": torch.__version__,
        **_sizes(inputs),
    }


def _prepare(built: Any, request: Request) -> Tuple[Any, List[str]]:
    """The model as it is trained: unwrapped, with the request's weights and adapters; and what was left out."""
    from ownlab_guest.fit import training_step

    model, left_out = training_step.unwrap(built.model)
    if request.checkpointing:
        training_step.enable_checkpointing(model)
    convert_weights(model, request)
    adapt_model(model, request)
    return built._replace(model=model), left_out


def _notes(request: Request, guesses: List[str], left_out: List[str]) -> List[str]:
    """What the prediction assumes, each once: guessed values, the optimizer's and the weights' rules, and what was left out."""
    from ownlab_guest.fit import quantization, training_step

    rules = training_step.optimizer_notes(request) + quantization.quantization_notes(request)
    return list(dict.fromkeys(guesses + rules + left_out))


def _record_steps(trace: Any, step: Callable[[], None], count: int) -> None:
    with _hooked(trace), trace:
        for _ in range(count):
            trace.begin_step()
            step()
            trace.end_step()
        trace.end()


def _sizes(inputs: Any) -> Dict[str, Optional[int]]:
    """Read the batch from the first input, and the sequence length from the first input of tokens."""
    import torch

    tensors = [
        tensor
        for tensor in torch.utils._pytree.tree_leaves(inputs)
        if isinstance(tensor, torch.Tensor) and tensor.dim() > 0
    ]
    tokens = [tensor for tensor in tensors if tensor.dim() == 2 and not tensor.is_floating_point()]
    return {"batch": tensors[0].shape[0] if tensors else None, "seq": tokens[0].shape[1] if tokens else None}


@contextlib.contextmanager
def _converting(without_data: bool) -> Iterator[None]:
    """Make Module.half(), .to() and similar work for weights without data: torch would swap the tensors, and cannot.

    Weights stay the same objects, as with torch's own `param.data = …`, so that tied weights stay tied. Modules with data,
    which other threads of a notebook may convert meanwhile, are left to torch.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    before = torch.nn.Module._apply

    def apply(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        own = (*self._parameters.values(), *self._buffers.values())
        if not any(isinstance(tensor, FakeTensor) for tensor in own):
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


def adapt_model(model: Any, request: Request) -> None:
    """Store weights in fewer bits, and add adapters, where that was requested."""
    from ownlab_guest.fit import adapters, quantization

    if request.weights:
        quantization.quantize(model, request)
    if request.lora:
        adapters.add_adapters(model, request)


def convert_weights(model: Any, request: Request) -> None:
    """Convert weights to their dtype and layout. Module.to() would keep the objects, but deep-copied ones must be replaced."""
    import torch

    from ownlab_guest.fit import adapters, recurrent_layers

    adapted = adapters.float32_adapters(model)
    done: Dict[int, Tuple[Any, Any]] = {}  # tied weights stay tied; old weights are kept, else an id could be reused
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                if id(parameter) not in done:
                    wanted = request._replace(precision="fp32") if id(parameter) in adapted else request
                    tensor = _converted(parameter.detach(), parameter, wanted)
                    new = parameter if tensor is None else torch.nn.Parameter(tensor, parameter.requires_grad)
                    done[id(parameter)] = parameter, new
                module._parameters[name] = done[id(parameter)][1]
        for name, buffer in module._buffers.items():
            tensor = None if buffer is None else _converted(buffer.detach(), buffer, request)
            if tensor is not None:
                module._buffers[name] = tensor
    recurrent_layers.flatten_weights(model)


def _converted(tensor: Any, held: Any, request: Request) -> Any:
    """Return the converted tensor; None if no conversion is needed."""
    import torch

    from ownlab_guest.fit.training_step import to_device

    new = to_device(tensor, "cpu", request)
    if new is not tensor:
        return new
    # After copy.deepcopy(), views of a tensor without data are no views of it any more.
    whole = tensor.untyped_storage()._cdata == held.untyped_storage()._cdata
    return None if whole else torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def _forget_batch_counts(model: Any) -> List[Any]:
    """Take the numbers away that counts of batches in norms keep beside their tensors without data, and return them.

    torch would add to them in place. With torch 2.13 that ended in a crash of the process for some models, and also if they were
    released before the step.
    """
    from torch.nn.modules.batchnorm import _NormBase

    kept = []
    for module in model.modules():
        count: Any = getattr(module, "num_batches_tracked", None) if isinstance(module, _NormBase) else None
        if getattr(count, "constant", None) is not None:
            kept.append(count.constant)
            count.constant = None
    return kept


def _hold_weights(trace: Any, model: Any) -> None:
    from ownlab_guest.fit import recurrent_layers

    for name, module in _in_order(model, ""):
        own = [tensor for tensor in (*module._parameters.values(), *module._buffers.values()) if tensor is not None]
        if recurrent_layers.is_flattened(module):
            trace.add_flattened_weights(name, own)
        else:
            trace.add_tensors("weights", [(name, tensor) for tensor in own])


def _in_order(module: Any, name: str) -> Iterator[Tuple[str, Any]]:
    """Yield names and modules in the order in which Module.to() moves them: children first."""
    for part, child in module.named_children():
        yield from _in_order(child, f"{name}.{part}" if name else part)
    yield name, module


def _tensors(tree: Any) -> List[Any]:
    import torch

    return [tensor for tensor in torch.utils._pytree.tree_leaves(tree) if isinstance(tensor, torch.Tensor)]


@contextlib.contextmanager
def _hooked(trace: Any) -> Iterator[None]:
    from torch.nn.modules import module
    from torch.optim.optimizer import register_optimizer_step_post_hook

    hooks = [
        register_optimizer_step_post_hook(trace.after_optimizer_step),
        module.register_module_forward_pre_hook(trace.enter_module),
        module.register_module_forward_hook(trace.leave_module, always_call=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


COMPUTABLE_ERRORS = ("data-dependent-shape", "data-dependent-value", "cannot-be-traced", "step-raised")
MEMORY_SHARE = 0.7  # of the free memory: leave the rest to other programs


def trace_with_data(request: Request, why: FitError) -> Dict[str, Any]:
    """Trace a step by computing it, and note this as a guess. Raise `why` again if that is impossible or fails."""
    if why.kind not in COMPUTABLE_ERRORS or not _limit_memory():
        raise why
    try:
        traced = trace_step(request, data=True)
    except FitError as exc:
        if why.kind == "step-raised":
            raise  # with data it is the program's own error
        raise FitError(
            why.kind,
            text("{reason}; computing it on the processor also failed: {failure}", reason=why, failure=exc),
            why.file,
            why.line,
        ) from exc
    guess = template(
        "computed with data on the processor, with attention and recurrent layers of a processor: {reason}"
    )
    if why.line is not None:
        guess = template(
            "computed with data on the processor, with attention and recurrent layers of a processor: {reason} (line {line})"
        )
    return {**traced, "guesses": [guess.fill(reason=why, line=why.line), *traced["guesses"]]}


def _limit_memory() -> bool:
    """Limit the memory of this process; return whether that was possible."""
    free = _free_bytes()
    if free is None or not sys.platform.startswith("linux"):
        return False
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    resource.setrlimit(
        resource.RLIMIT_DATA, (data + int(MEMORY_SHARE * free), resource.getrlimit(resource.RLIMIT_DATA)[1])
    )
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
