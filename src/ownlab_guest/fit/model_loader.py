"""The user's model: `FILE.py:build`, `package.module:build`, or `hf:CONFIG.json`; made of tensors without data."""

import importlib
import importlib.util
import inspect
import json
import os
import sys
from typing import Any, Callable, Dict, Optional, Tuple

from ownlab_guest.fit.errors import Refused, is_fatal, refused
from ownlab_guest.fit.request import Request
from ownlab_guest.fit.training_step import Built, loss_of


def build(request: Request) -> Built:
    """What the target makes; to be called where tensors have no data."""
    if request.target.startswith("hf:"):
        from ownlab_guest.fit import transformers_models

        return transformers_models.build(request.target[3:], request)
    function, file = find(request.target)
    sizes = _sizes(function, request)
    try:
        made = function(**sizes)
    except (Exception, SystemExit) as exc:
        if is_fatal(exc):
            raise
        raise refused(exc, "build-raised", f"{request.target}", file) from exc
    return _checked(made, request.target, file)


def find(target: str) -> Tuple[Callable[..., Any], Optional[str]]:
    """The function that a target names, and the file that it is in."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise Refused("no-target", f"{target}: FILE.py:build, package.module:build or hf:CONFIG.json is meant")
    file = os.path.abspath(place) if place.endswith(".py") else None
    if file is not None and not os.path.isfile(file):
        raise Refused("no-file", f"there is no file {place}", file)
    try:
        module = importlib.import_module(place) if file is None else _load(file)
    except ModuleNotFoundError as exc:
        if file is None and exc.name is not None and (place == exc.name or place.startswith(exc.name + ".")):
            raise Refused("no-module", f"this Python finds no module {exc.name}") from exc
        raise refused(exc, "import-raised", f"importing {place}", file) from exc
    except (Exception, SystemExit) as exc:
        if is_fatal(exc):
            raise
        raise refused(exc, "import-raised", f"importing {place}", file) from exc
    function = getattr(module, name, None)
    file = getattr(module, "__file__", file)
    if not callable(function):
        there = sorted(
            one
            for one, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        )
        raise Refused("no-function", f"{place} has no function {name}; it has {', '.join(there) or 'none'}", file)
    return function, file


def _load(file: str) -> Any:
    """A file as a module; its folder comes first on the path, as when it is run."""
    sys.path.insert(0, os.path.dirname(file))
    name = os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Refused("no-file", f"{file} is no Python file", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _sizes(function: Callable[..., Any], request: Request) -> Dict[str, int]:
    """Batch and sequence go in by name; a build that takes neither keeps its own."""
    given = {name: value for name, value in (("batch", request.batch), ("seq", request.seq)) if value is not None}
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        parameters = inspect.signature(lambda: None).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return given
    missing = [name for name in given if name not in parameters]
    if missing:
        raise Refused("no-size", f"{request.target} takes no argument {missing[0]}: write def build({missing[0]}=…)")
    return given


def _checked(made: Any, target: str, file: Optional[str]) -> Built:
    import torch

    if not isinstance(made, (tuple, list)) or len(made) not in (2, 3) or not isinstance(made[0], torch.nn.Module):
        said = type(made).__name__ if not isinstance(made, (tuple, list)) else f"{len(made)} values"
        raise Refused(
            "bad-return", f"{target} returned {said}; (model, inputs) or (model, inputs, loss) is meant", file
        )
    model, inputs = made[0], made[1]
    loss = made[2] if len(made) == 3 and made[2] is not None else loss_of
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)) and not hasattr(inputs, "keys"):
        raise Refused(
            "bad-return", f"{target}: the inputs are {type(inputs).__name__}; a tuple or a dict is meant", file
        )
    if not callable(loss):
        raise Refused("bad-return", f"{target}: the loss is no function but {type(loss).__name__}", file)
    return Built(model, dict(inputs) if hasattr(inputs, "keys") else tuple(inputs), loss, file)


def read_json(path: str) -> Dict[str, Any]:
    """A configuration file, or a folder that has one."""
    if os.path.isdir(path):
        path = os.path.join(path, "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
    except OSError as exc:
        raise Refused("no-file", f"{path} cannot be read: {exc.strerror}", path) from exc
    except ValueError as exc:
        raise Refused("bad-configuration", f"{path} is no JSON: {exc}", path) from exc
    if not isinstance(read, dict):
        raise Refused("bad-configuration", f"{path} holds no object", path)
    return read
