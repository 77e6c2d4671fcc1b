"""Records what passes torch's dispatcher in a step as a stream of allocations and frees."""

import contextlib
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ownlab_guest.fit import flop_count, workspaces
from ownlab_guest.fit.event_stream import EventStream, Tag
from ownlab_guest.fit.request import Request
from ownlab_guest.fit.tensor_values import READS_A_VALUE, Guesses, KnownValues, fix_random_scalar

aten = torch.ops.aten
# Operations whose kernels are made of others that allocate: only their results would be seen.
_KEYS = torch._C.DispatchKey
_EXPLICIT = {
    aten.binary_cross_entropy_with_logits.default: _KEYS.CompositeExplicitAutograd,
    aten._euclidean_dist.default: _KEYS.CompositeExplicitAutograd,
    aten.masked_scatter_backward.default: _KEYS.CompositeExplicitAutograd,
    aten.dist.default: _KEYS.CompositeExplicitAutograd,
    # A processor has kernels of its own.
    aten.pixel_shuffle.default: _KEYS.CompositeExplicitAutogradNonFunctional,
    aten.pixel_unshuffle.default: _KEYS.CompositeExplicitAutogradNonFunctional,
}
# What a node of autograd computes in place with plain tensors (torch/csrc/autograd/FunctionsManual.cpp and ATen/native).
_IN_PLACE = {
    "IndexBackward0": {"aten.index_put"},
    "GatherBackward0": {"aten.scatter_add"},
    "IndexSelectBackward0": {"aten.index_add"},
    "TakeBackward0": {"aten.put"},
    "MaskedSelectBackward0": {"aten.masked_scatter"},
    "BinaryCrossEntropyWithLogitsBackward0": {"aten.sub", "aten.mul"},
    **{
        f"{name}Backward{number}": {"aten.scatter", "aten.scatter_add"}
        for name in ("Max", "Min", "Median", "Nanmedian", "Kthvalue", "Mode", "Topk", "Sort", "Cummax", "Cummin")
        for number in range(3)
    },
}


class TracingMode(TorchDispatchMode):  # type: ignore[misc]  # torch is not there where types are checked
    """Records the stream while operations pass. `instead`: replacements for operations that differ on a card; `mode`: the mode of
    tensors without data, None if they have data; `values`: those that are known."""

    def __init__(
        self, model: Any, request: Request, instead: Dict[Any, Callable[..., Any]], mode: Any, values: KnownValues
    ) -> None:
        super().__init__()
        self.stream = EventStream()
        self.marks: List[int] = []
        self.guesses = Guesses(patience=1000)  # the caller may replace them
        self.flops = {"forward": 0, "backward": 0}
        self.optimizer_arguments: Dict[str, Any] = {}
        self.card = request.card
        self._model, self._train, self._instead, self._mode, self._values = model, request.train, instead, mode, values
        self._names: Dict[int, int] = {}  # id of a storage -> name in the stream
        self._watched: Dict[int, Any] = {}  # weak references by id: their callbacks record frees
        self._made_by: Dict[int, int] = {}  # id of a storage -> autograd node
        self._outside: List[Tuple[int, int]] = []  # tensors from outside of the step: id and name
        self._phase = "setup"
        self._modules: List[str] = []
        self._module_names = {id(module): name for name, module in model.named_modules()}
        self._module_of = {id(parameter): name.rpartition(".")[0] for name, parameter in model.named_parameters()}
        self._of_node: Dict[int, str] = {}  # number of an autograd node -> module whose forward created it
        self._handles: Set[Tuple[str, str]] = set()  # workspaces that exist: library, thread
        self._finite: List[int] = []  # storages in which a gradient scaler records overflow
        self._composite: Dict[Any, bool] = {}
        # Storages of the first argument and of the result of the last operation that autograd itself computes in place.
        self._in_place = (0, 0)

    # -- before the first step

    def add_tensors(self, kind: str, tensors: Iterable[Tuple[str, Any]]) -> None:
        """Add weights and inputs, as they are on the card before the step, with their modules."""
        for module, tensor in tensors:
            self._record(tensor.untyped_storage(), Tag(kind, "setup", module, ""))

    def add_flattened_weights(self, module: str, tensors: List[Any]) -> None:
        """Add weights that are moved to the card one by one, and are then copied into one block."""
        tag = Tag("weights", "setup", module, "")
        alone = [self.stream.allocate(tensor.numel() * tensor.dtype.itemsize, tag) for tensor in tensors]
        self.add_tensors("weights", [(module, tensor) for tensor in tensors])
        for name in alone:
            self.stream.free(name)

    def add_input(self, given: Any, moved: Any) -> None:
        """Add an input that is moved to the card, and is then converted to the dtype and layout of the weights."""
        before = [given] if given.dtype != moved.dtype else []
        # A cast changes the strides of an expanded tensor without another copy.
        if given.stride() != moved.stride() and not moved.is_contiguous():
            before.append(moved)  # as large as the result
        tag, last = Tag("inputs", "setup", "", ""), None
        for tensor in before:
            name = self.stream.allocate(tensor.numel() * tensor.dtype.itemsize, tag)
            if last is not None:
                self.stream.free(last)
            last = name
        self.add_tensors("inputs", [("", moved)])
        if last is not None:
            self.stream.free(last)

    def add_optimizer_state(self, optimizer: Any) -> None:
        """Add what an optimizer holds before its first step, as Adagrad does."""
        for parameter, state in optimizer.state.items():
            module = self._module_of.get(id(parameter), "")
            self.add_tensors("optimizer", [(module, tensor) for tensor in _tensors(state) if tensor.dim()])

    # -- during a step

    def begin_step(self) -> None:
        """Begin a step: until `end_step`, operations belong to it."""
        self._phase = "forward"
        self._finite.clear()

    def end_step(self) -> None:
        """End a step: tensors from outside are freed."""
        self._enter_phase("optimizer")
        for key, name in self._outside:
            if self._names.get(key) == name:
                self._record_free(key)
        self._outside.clear()
        self.marks.append(len(self.stream.names))

    def end(self) -> None:
        """End the trace: what is freed from now on does not belong to a step."""
        self._phase = "over"

    def enter_module(self, module: Any, inputs: Any) -> None:
        """Global hook: the forward of a module begins."""
        if not self._modules and not _in_backward():
            self._enter_phase("forward")
        self._modules.append(self._module_names.get(id(module), type(module).__name__))

    def leave_module(self, module: Any, inputs: Any, output: Any) -> None:
        """Global hook: the forward of a module has ended."""
        if self._modules:
            self._modules.pop()

    def after_optimizer_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Global hook: an optimizer took its step; the tensors that it holds per parameter are its state."""
        self.optimizer_arguments = {
            name: value for name, value in optimizer.defaults.items() if isinstance(value, (bool, int, float))
        }
        for parameter, state in optimizer.state.items():
            for tensor in _tensors(state):
                name = self._names.get(id(tensor.untyped_storage()))
                if name is not None:
                    self.stream.retag(name, kind="optimizer", module=self._module_of.get(id(parameter), ""))

    def keep_workspace(self, library: str, size: int) -> None:
        """Add a library's workspace, which it allocates at its first use in a thread and keeps."""
        thread = "backward" if self._phase == "backward" else "forward"
        if (library, thread) not in self._handles:
            self._handles.add((library, thread))
            self.stream.allocate(size, Tag("workspace", self._phase, "", library))

    def add_workspace(self, size: int, operation: str) -> None:
        """Add bytes that an operation allocates besides its results, until it ends."""
        if size > 0:
            with self.workspace(size, operation):
                pass

    def add_workspaces(self, sizes: Tuple[int, ...], operation: str) -> None:
        """The same for several at once."""
        tag = self._tag(operation)._replace(kind="workspace")
        names = [self.stream.allocate(size, tag) for size in sizes if size > 0 or any(getattr(size, "likely", ()))]
        for name in reversed(names):
            self.stream.free(name)

    @contextlib.contextmanager
    def workspace(self, size: int, operation: str) -> Iterator[None]:
        """The same, while results are allocated inside of the block."""
        name = self.stream.allocate(size, self._tag(operation)._replace(kind="workspace"))
        yield
        self.stream.free(name)

    def count_flops(self, flops: int) -> None:
        """Count the FLOPs of the first step."""
        if flops and not self.marks:
            self.flops["backward" if self._phase == "backward" else "forward"] += flops

    # -- operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)  # queries, such as for the device
        if func in self._instead:
            with self:
                return self._instead[func](*args, **kwargs)
        if func in _EXPLICIT:
            with self:
                return func._op_dk(_EXPLICIT[func], *args, **kwargs)
        if self._is_composite(func):
            # Not func.decompose(): it prefers the versions for compilers, which resize images by indexing.
            with self:
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        if func in READS_A_VALUE and self._mode is not None:
            return self._read_value(func, args, kwargs)
        self._update_phase()
        self._add_outside_tensors(func, (args, kwargs))
        out = self._run(func, args, kwargs)
        fix_random_scalar(func, out)
        operation = str(func.overloadpacket)
        if func is aten._amp_foreach_non_finite_check_and_unscale_.default:
            self._finite.append(id(args[1].untyped_storage()))
        results = _tensors(out)
        if self._phase == "optimizer" and not any(tensor.dim() for tensor in (*results, *_tensors((args, kwargs)))):
            return out  # the step count of an optimizer is in the computer's memory
        self._record_results(operation, args, out, results)
        self.count_flops(flop_count.flops(operation, args, out))
        return out

    def _read_value(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return a value that the program reads out of a tensor without data: the known one, else a guess."""
        if id(args[0].untyped_storage()) in self._finite:
            return 0.0
        known = self._values.computed(func, args, kwargs, self._values.given(args, kwargs))
        return self.guesses.value(func, args[0]) if known is None else known

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call an operation, and follow values that are known."""
        if self._mode is None:
            return _call(func, args, kwargs)
        given = self._values.given(args, kwargs)
        try:
            out = _call(func, args, kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            known = self._values.computed(func, args, kwargs, given)
            if known is None:
                raise
            return self._values.stand_ins(known, self._mode)
        if given is not None:
            self._values.follow(func, args, kwargs, given, out)
        return out

    def _record_results(self, operation: str, args: Any, out: Any, results: List[Any]) -> None:
        """Record the results of an operation, and its workspaces."""
        tag = self._tag(operation)
        before = workspaces.around(operation, args)
        held = [self.stream.allocate(size, tag._replace(kind="workspace")) for size in before.held if size > 0]
        self.add_workspaces(before.sort, operation)
        sizes = workspaces.workspace_bytes(operation, args, out, self.card)
        larger = workspaces.result_bytes(operation, args)
        for index, tensor in workspaces.in_order(operation, results):
            empty = workspaces.EMPTY.get(operation) == index
            new = self._record(tensor.untyped_storage(), tag, 0 if empty else larger)
            if index < len(sizes) - 1 and len(results) > 1:
                self.add_workspaces(sizes[index], operation)
            if new is not None and not self._took_over(operation, args, new, tensor):
                self._in_place = self._sum_of(operation, args, tensor)
        for library, size in workspaces.persistent_workspaces(operation, args, self.card):
            self.keep_workspace(library, size)
        for last in sizes if len(results) <= 1 else sizes[-1:]:
            self.add_workspaces(last, operation)
        for name in reversed(held):
            self.stream.free(name)

    def _is_composite(self, func: Any) -> bool:
        """Whether an operation is composite: in inference mode autograd does not decompose these."""
        if func not in self._composite:
            has = torch._C._dispatch_has_kernel_for_dispatch_key
            self._composite[func] = has(func.name(), "CompositeImplicitAutograd") and not has(func.name(), "CPU")
        return self._composite[func]

    def _update_phase(self) -> None:
        """Determine the phase, and the module of the next backward node."""
        self._in_place = (0, 0)
        if _in_backward():
            if self._phase != "backward":
                self._enter_phase("backward")
        elif self._phase == "backward" and not self._modules:
            self._enter_phase("optimizer")
        if self._modules:
            self._of_node.setdefault(torch.autograd._get_sequence_nr() - 1, self._modules[-1])

    def _enter_phase(self, phase: str) -> None:
        if self._phase == "backward" and phase != "backward":
            for parameter in self._model.parameters():
                if parameter.grad is not None:
                    known = self._names.get(id(parameter.grad.untyped_storage()))
                    if known is not None:
                        self.stream.retag(known, kind="gradients", module=self._module_of[id(parameter)])
        self._phase = phase

    def _tag(self, operation: str) -> Tag:
        if self._modules:
            return Tag("activations", self._phase, self._modules[-1], operation)
        if self._phase == "backward":
            return Tag("temporary", "backward", self._of_node.get(_node(), ""), operation)
        kind = "activations" if self._phase == "forward" else "temporary"
        return Tag(kind, self._phase, "", operation)

    # -- storages

    def _record(self, storage: Any, tag: Tag, size: Optional[int] = None) -> Optional[int]:
        """Record a new storage and return its name; None if it is known. `size`: its bytes on a card, if they differ."""
        key = id(storage)
        if key in self._names:
            return None
        name = self._names[key] = self.stream.allocate(storage.nbytes() if size is None else size, tag)
        self._watched[key] = weakref.ref(storage, lambda _: self._record_free(key))
        if self._phase == "backward":
            self._made_by[key] = _node()
        return name

    def _record_free(self, key: int) -> None:
        if self._phase == "over" or self._added_in_place(key):
            return
        name = self._names.pop(key, None)
        self._forget(key)
        if name is None:
            return
        if self._train and self._phase == "forward" and self.stream.tag_of(name).phase == "forward":
            self.stream.retag(name, kind="temporary")
        self.stream.free(name)

    def _forget(self, key: int) -> None:
        self._watched.pop(key, None)
        self._made_by.pop(key, None)

    def _add_outside_tensors(self, func: Any, arguments: Any) -> None:
        """Add tensors from outside of the step: they would be copied to the card for it (targets, for instance)."""
        for tensor in _tensors(arguments):
            if tensor.dim() > 0:
                storage = tensor.untyped_storage()
                name = self._record(storage, Tag("inputs", self._phase, "", str(func.overloadpacket)))
                if name is not None:
                    self._outside.append((id(storage), name))

    def _sum_of(self, operation: str, args: Any, result: Any) -> Tuple[int, int]:
        """Return the storages of the summand and of the sum, if autograd itself adds them in place, and only ours not."""
        if operation != "aten.add" or self._modules or not _in_backward() or not self._is_gradient_sum(args[0]):
            return 0, 0
        return id(args[0].untyped_storage()), id(result.untyped_storage())

    def _took_over(self, operation: str, args: Any, new: int, result: Any) -> bool:
        """Whether a node of autograd computes this in place with plain tensors, on a tensor that it has made itself.

        With ours it does not (isTensorSubclassLike in its sources): the result takes the place of that tensor then.
        """
        if not _in_backward() or operation not in _IN_PLACE.get(_node_name(), ()):
            return False
        old_key = id(args[0].untyped_storage())
        if self._made_by.get(old_key) != _node() or old_key not in self._names or self.stream.newest() != new:
            return False
        self.stream.cancel(new)
        self._names[id(result.untyped_storage())] = self._names.pop(old_key)
        return True

    def _is_gradient_sum(self, first: Any) -> bool:
        """Whether autograd itself adds gradients between two nodes: the summand was made by another node than the last one."""
        storage = first.untyped_storage()
        made_by = self._made_by.get(id(storage))
        if made_by is None or made_by == _node():
            return False
        # A view holds the tensor that it is a view of (H200: gradients of weights that are used twice).
        whole = first.numel() * first.dtype.itemsize == storage.nbytes()
        return bool(whole and not first._is_view())

    def _added_in_place(self, old_key: int) -> bool:
        """Whether the result of the last operation is its first argument, which nothing else held.

        Here the result was allocated, and then the first argument was freed.
        """
        first, sum_key = self._in_place
        name = self._names.get(sum_key)
        if first != old_key or name is None or self.stream.newest() != name:
            return False
        self.stream.cancel(name)
        self._names[sum_key] = self._names.pop(old_key)
        self._forget(old_key)
        return True


def _call(func: Any, args: Any, kwargs: Any) -> Any:
    """Call an operation. torch defines the sizes of grouped products only for bfloat16; a card multiplies other dtypes, too."""
    if str(func) != "aten._grouped_mm.default" or args[0].dtype is torch.bfloat16:
        return func(*args, **kwargs)
    like = func(*(tensor.to(torch.bfloat16) for tensor in args[:2]), *args[2:], **kwargs)
    return torch.empty_strided(like.shape, like.stride(), dtype=args[0].dtype)


def _in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)


def _node() -> int:
    """Return the number of the current autograd node, or of the last one."""
    node = torch._C._current_autograd_node()
    return -1 if node is None else int(node._sequence_nr())


def _node_name() -> str:
    """Return the name of the current autograd node."""
    node = torch._C._current_autograd_node()
    return "" if node is None else str(node.name())


def _tensors(tree: Any) -> List[Any]:
    return [tensor for tensor in tree_leaves(tree) if isinstance(tensor, torch.Tensor)]


def count_parameters(model: Any) -> Dict[str, int]:
    """Count the parameters of a model; tied ones count once."""
    once: List[Tuple[str, Any]] = list(model.named_parameters())
    every = list(model.named_parameters(remove_duplicate=False))
    quantized = [module for module in model.modules() if hasattr(module, "parameter_count")]
    return {
        "total": sum(parameter.numel() for _, parameter in once) + sum(layer.parameter_count for layer in quantized),
        "trainable": sum(parameter.numel() for _, parameter in once if parameter.requires_grad),
        "buffers": sum(buffer.numel() for buffer in model.buffers()) - sum(layer.stored_values for layer in quantized),
        "tied": sum(parameter.numel() for _, parameter in every) - sum(parameter.numel() for _, parameter in once),
    }
