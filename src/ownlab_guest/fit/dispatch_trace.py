"""Memory as events: it comes with a tag, and it goes."""

import contextlib
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ownlab_guest.fit import flop_count
from ownlab_guest.fit import workspaces as hidden
from ownlab_guest.fit.request import Request
from ownlab_guest.fit.tensor_values import VALUES, Guesses, drawn

GONE = -1


class Tag(NamedTuple):
    """What a piece of memory is for, and who asked for it."""

    kind: str  # weights gradients optimizer activations inputs temporary workspace
    phase: str  # setup forward backward optimizer
    module: str
    op: str


class Stream:
    """Events in their order. A tag may turn out later: what lives until the backward is an activation."""

    def __init__(self) -> None:
        self.names: List[int] = []
        self.bytes: List[int] = []
        self.tags: List[int] = []
        self._tags: Dict[Tag, int] = {}
        self._table: List[Tag] = []
        self._came: Dict[int, int] = {}  # name -> index of the event; only of what is there
        self._next = 0

    def come(self, size: int, tag: Tag) -> int:
        """Some bytes are taken; the answer is their name."""
        name, self._next = self._next, self._next + 1
        self._came[name] = len(self.names)
        self._append(name, size, self._index(tag))
        return name

    def go(self, name: int) -> None:
        """They are given back."""
        at = self._came.pop(name, None)
        if at is not None:
            self._append(name, GONE, self.tags[at])

    def tag_of(self, name: int) -> Tag:
        """What it was said to be for."""
        return self._table[self.tags[self._came[name]]]

    def retag(self, name: int, **changed: str) -> None:
        """It turned out to be something else."""
        if name in self._came:
            self.tags[self._came[name]] = self._index(self.tag_of(name)._replace(**changed))

    def newest(self) -> int:
        """The name of what came last, of all that is there."""
        return next(reversed(self._came), -1)

    def undo(self, name: int) -> None:
        """The newest never came: what went since went before it would have."""
        at = self._came.pop(name)
        for column in (self.names, self.bytes, self.tags):
            del column[at]

    def answer(self) -> Dict[str, Any]:
        """As the host reads it."""
        return {
            "events": {"name": self.names, "bytes": self.bytes, "tag": self.tags},
            "tags": [tag._asdict() for tag in self._table],
        }

    def _append(self, name: int, size: int, tag: int) -> None:
        self.names.append(name)
        self.bytes.append(size)
        self.tags.append(tag)

    def _index(self, tag: Tag) -> int:
        if tag not in self._tags:
            self._tags[tag] = len(self._table)
            self._table.append(tag)
        return self._tags[tag]


aten = torch.ops.aten


class Tracing(TorchDispatchMode):  # type: ignore[misc]  # torch is not there where types are checked
    """Writes the stream while operations pass. `instead`: operations that are other ones on a card; `data`: tensors have it."""

    def __init__(self, model: Any, request: Request, instead: Dict[Any, Callable[..., Any]], data: bool) -> None:
        super().__init__()
        self.stream = Stream()
        self.marks: List[int] = []
        self.guesses = Guesses(patience=1000)
        self.flops = {"forward": 0, "backward": 0}
        self.card = request.card
        self._model, self._train, self._instead, self._data = model, request.train, instead, data
        self._names: Dict[int, int] = {}  # id of a storage -> name in the stream
        self._watched: Dict[int, Any] = {}  # weak references, by id; without them nobody would hear of the end
        self._made_by: Dict[int, int] = {}  # id of a storage -> autograd node
        self._lent: List[Tuple[int, int]] = []  # tensors that came from elsewhere during this step: id and name
        self._phase = "setup"
        self._modules: List[str] = []
        self._module_names = {id(module): name for name, module in model.named_modules()}
        self._module_of = {id(one): name.rpartition(".")[0] for name, one in model.named_parameters()}
        self._of_node: Dict[int, str] = {}  # number of an autograd node -> module in whose forward it was made
        self._handles: Set[Tuple[str, str]] = set()  # workspaces that are there: of which library, for which thread
        self._finite: List[int] = []  # storages in which a gradient scaler looks for overflow
        self._composite: Dict[Any, bool] = {}
        self._sum = (0, 0)  # storages of the first and of the sum, where autograd itself added last

    # -- what is there before the first step

    def hold(self, kind: str, tensors: Iterable[Tuple[str, Any]]) -> None:
        """Weights and inputs, as they lie on the card before the step; with the module that they are of."""
        for module, tensor in tensors:
            self._see(tensor.untyped_storage(), Tag(kind, "setup", module, ""))

    def hold_joined(self, module: str, tensors: List[Any]) -> None:
        """Weights that came to the card one by one, and were then copied into the one piece in which they lie here."""
        tag = Tag("weights", "setup", module, "")
        alone = [self.stream.come(one.numel() * one.dtype.itemsize, tag) for one in tensors]
        self.hold("weights", [(module, one) for one in tensors])
        for name in alone:
            self.stream.go(name)

    def hold_moved(self, given: Any, moved: Any) -> None:
        """An input that came to the card as it was given, and was there brought into the type and layout of the weights."""
        before = [given] if given.dtype != moved.dtype else []
        # One that was expanded has other strides when it was cast, and was not laid out anew for that.
        if given.stride() != moved.stride() and not moved.is_contiguous():
            before.append(moved)  # as large as it is in the end
        tag, last = Tag("inputs", "setup", "", ""), None
        for one in before:
            name = self.stream.come(one.numel() * one.dtype.itemsize, tag)
            if last is not None:
                self.stream.go(last)
            last = name
        self.hold("inputs", [("", moved)])
        if last is not None:
            self.stream.go(last)

    # -- the course of a step

    def begin_step(self) -> None:
        """Until `end_step`, operations are those of one step."""
        self._phase = "forward"
        self._finite.clear()

    def end_step(self) -> None:
        """What was lent goes."""
        self._turn("optimizer")
        for key, name in self._lent:
            if self._names.get(key) == name:
                self._gone(key)
        self._lent.clear()
        self.marks.append(len(self.stream.names))

    def end(self) -> None:
        """What goes from now on is the trace itself, not the step."""
        self._phase = "over"

    def enter(self, module: Any, inputs: Any) -> None:
        """A module's forward begins (a global hook)."""
        if not self._modules and not _in_backward():
            self._turn("forward")
        self._modules.append(self._module_names.get(id(module), type(module).__name__))

    def leave(self, module: Any, inputs: Any, output: Any) -> None:
        """It ended."""
        if self._modules:
            self._modules.pop()

    def stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """An optimizer took its step (a global hook): what it holds for each parameter is its state."""
        for parameter, state in optimizer.state.items():
            for tensor in _tensors(state):
                name = self._names.get(id(tensor.untyped_storage()))
                if name is not None:
                    self.stream.retag(name, kind="optimizer", module=self._module_of.get(id(parameter), ""))

    def keep(self, library: str, size: int) -> None:
        """A library's workspace, which it takes at its first use in a thread, and keeps."""
        thread = "backward" if self._phase == "backward" else "forward"
        if (library, thread) not in self._handles:
            self._handles.add((library, thread))
            self.stream.come(size, Tag("workspace", self._phase, "", library))

    def temporary(self, size: int, operation: str) -> None:
        """Bytes that an operation takes beside its results, until it ends."""
        if size > 0:
            with self.for_a_while(size, operation):
                pass

    @contextlib.contextmanager
    def for_a_while(self, size: int, operation: str) -> Iterator[None]:
        """The same, where something that stays comes meanwhile."""
        name = self.stream.come(size, self._tag(operation)._replace(kind="workspace"))
        yield
        self.stream.go(name)

    def count(self, flops: int) -> None:
        """Of one step: the first."""
        if flops and not self.marks:
            self.flops["backward" if self._phase == "backward" else "forward"] += flops

    # -- operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)  # questions, such as for the device
        if func in self._instead:
            with self:
                return self._instead[func](*args, **kwargs)
        if self._is_composite(func):
            # Not func.decompose(): versions for compilers come first there, which resize images by indexing.
            with self:
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        if func in VALUES and not self._data:
            return 0.0 if id(args[0].untyped_storage()) in self._finite else self.guesses.value(func, args[0])
        self._follow()
        self._lend(func, (args, kwargs))
        out = _called(func, args, kwargs)
        drawn(func, out)
        operation = str(func.overloadpacket)
        if func is aten._amp_foreach_non_finite_check_and_unscale_.default:
            self._finite.append(id(args[1].untyped_storage()))
        results = _tensors(out)
        if self._phase == "optimizer" and not any(one.dim() for one in (*results, *_tensors((args, kwargs)))):
            return out  # an optimizer's count of steps lies in the computer's memory
        self._results(operation, args, out, results)
        self.count(flop_count.flops(operation, args, out))
        return out

    def _results(self, operation: str, args: Any, out: Any, results: List[Any]) -> None:
        """They come, and with them what the operation takes beside them."""
        tag = self._tag(operation)
        sizes = hidden.hidden_bytes(operation, args, out, self.card)
        for place, one in enumerate(results):
            new = self._see(one.untyped_storage(), tag)
            if place < len(sizes) - 1:
                self.temporary(sizes[place], operation)
            if new is not None and operation == "aten.add" and self._is_of_engine(args[0]):
                self._sum = id(args[0].untyped_storage()), id(one.untyped_storage())
        for library, size in hidden.kept_workspaces(operation, args, self.card):
            self.keep(library, size)
        if sizes:
            self.temporary(sizes[-1], operation)

    def _is_composite(self, func: Any) -> bool:
        """In inference mode operations come whole which autograd takes apart otherwise."""
        if func not in self._composite:
            has = torch._C._dispatch_has_kernel_for_dispatch_key
            self._composite[func] = has(func.name(), "CompositeImplicitAutograd") and not has(func.name(), "CPU")
        return self._composite[func]

    def _follow(self) -> None:
        """In which phase we are, and which module the next backward node belongs to."""
        self._sum = (0, 0)
        if _in_backward():
            if self._phase != "backward":
                self._turn("backward")
        elif self._phase == "backward" and not self._modules:
            self._turn("optimizer")
        if self._modules:
            self._of_node.setdefault(torch.autograd._get_sequence_nr() - 1, self._modules[-1])

    def _turn(self, phase: str) -> None:
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

    def _see(self, storage: Any, tag: Tag) -> Optional[int]:
        """The name of a storage that was not there before, else None."""
        key = id(storage)
        if key in self._names:
            return None
        name = self._names[key] = self.stream.come(storage.nbytes(), tag)
        self._watched[key] = weakref.ref(storage, lambda _: self._gone(key))
        if self._phase == "backward":
            self._made_by[key] = _node()
        return name

    def _gone(self, key: int) -> None:
        if self._phase == "over" or self._added_in_place(key):
            return
        name = self._names.pop(key, None)
        self._forget(key)
        if name is None:
            return
        if self._train and self._phase == "forward" and self.stream.tag_of(name).phase == "forward":
            self.stream.retag(name, kind="temporary")
        self.stream.go(name)

    def _forget(self, key: int) -> None:
        self._watched.pop(key, None)
        self._made_by.pop(key, None)

    def _lend(self, func: Any, arguments: Any) -> None:
        """A tensor that nobody made here: on a card it would have been copied there for this step (targets, for instance)."""
        for tensor in _tensors(arguments):
            if tensor.dim() > 0:
                storage = tensor.untyped_storage()
                name = self._see(storage, Tag("inputs", self._phase, "", str(func.overloadpacket)))
                if name is not None:
                    self._lent.append((id(storage), name))

    def _is_of_engine(self, first: Any) -> bool:
        """Whether autograd itself adds, between two nodes: to what another node made than the one that it just left."""
        storage = first.untyped_storage()
        made_by = self._made_by.get(id(storage))
        if self._modules or made_by is None or made_by == _node():
            return False
        # It is no part of another one, and not expanded.
        return bool(first.numel() * first.dtype.itemsize == storage.nbytes())

    def _added_in_place(self, old_key: int) -> bool:
        """Two gradients of one tensor were added, and nobody else has the first.

        Autograd adds a plain tensor in place, and one without data never: here a new one came, and then the first went.
        """
        first, sum_key = self._sum
        name = self._names.get(sum_key)
        if first != old_key or name is None or self.stream.newest() != name:
            return False
        self.stream.undo(name)
        self._names[sum_key] = self._names.pop(old_key)
        self._forget(old_key)
        return True


def _called(func: Any, args: Any, kwargs: Any) -> Any:
    """Of products of experts torch knows the sizes in bfloat16 alone; a card multiplies the other types as well."""
    if str(func) != "aten._grouped_mm.default" or args[0].dtype is torch.bfloat16:
        return func(*args, **kwargs)
    like = func(*(one.to(torch.bfloat16) for one in args[:2]), *args[2:], **kwargs)
    return torch.empty_strided(like.shape, like.stride(), dtype=args[0].dtype)


def _in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)


def _node() -> int:
    """The number of the autograd node that is computed now, or was computed last."""
    node = torch._C._current_autograd_node()
    return -1 if node is None else int(node._sequence_nr())


def _tensors(tree: Any) -> List[Any]:
    return [one for one in tree_leaves(tree) if isinstance(one, torch.Tensor)]


def parameters_of(model: Any) -> Dict[str, int]:
    """How many numbers the model has; tied ones are counted once."""
    once: List[Tuple[str, Any]] = list(model.named_parameters())
    every = list(model.named_parameters(remove_duplicate=False))
    return {
        "total": sum(one.numel() for _, one in once),
        "trainable": sum(one.numel() for _, one in once if one.requires_grad),
        "buffers": sum(one.numel() for one in model.buffers()),
        "tied": sum(one.numel() for _, one in every) - sum(one.numel() for _, one in once),
    }
