"""Loads the user's model: `FILE.py:build`, `package.module:build`, or `hf:CONFIG.json` (transformers; no weights, no network)."""

import importlib
import importlib.util
import inspect
import json
import os
import sys
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from ownlab_guest.fit.errors import FitError, error_from, is_fatal
from ownlab_guest.fit.request import Request
from ownlab_guest.fit.training_step import Built, default_loss
from ownlab_guest.text import listing, template, text


def build(request: Request) -> Built:
    """Build the target. Called where tensors have no data."""
    if request.target.startswith("hf:"):
        return build_transformers(request.target[3:], request)
    function, file = find_function(request.target)
    sizes = _sizes(function, request)
    try:
        made = function(**sizes)
    except (Exception, SystemExit) as exc:
        if is_fatal(exc):
            raise
        raise error_from(exc, "build-raised", template("{target} raised {error}"), file, target=request.target) from exc
    return _checked(made, request.target, file)


def find_function(target: str) -> Tuple[Callable[..., Any], Optional[str]]:
    """Return the function that a target names, and its file."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise FitError(
            "no-target", text("{target}: expected FILE.py:build, package.module:build or hf:CONFIG.json", target=target)
        )
    file = os.path.abspath(place) if place.endswith(".py") else None
    if file is not None and not os.path.isfile(file):
        raise FitError("no-file", text("There is no file {file}", file=place), file)
    try:
        module = importlib.import_module(place) if file is None else _load(file)
    except ModuleNotFoundError as exc:
        if file is None and exc.name is not None and (place == exc.name or place.startswith(exc.name + ".")):
            raise FitError("no-module", text("This Python has no module {name}", name=exc.name)) from exc
        raise error_from(
            exc, "import-raised", template("importing {module} raised {error}"), file, module=place
        ) from exc
    except (Exception, SystemExit) as exc:
        if is_fatal(exc):
            raise
        raise error_from(
            exc, "import-raised", template("importing {module} raised {error}"), file, module=place
        ) from exc
    function = getattr(module, name, None)
    file = getattr(module, "__file__", file)
    if not callable(function):
        there = sorted(
            defined
            for defined, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        )
        if not there:
            raise FitError(
                "no-function", text("{place} has no function {name}; it has none", place=place, name=name), file
            )
        raise FitError(
            "no-function",
            text(
                "{place} has no function {name}; it has {functions}",
                place=place,
                name=name,
                functions=listing(there, "{items}, {last}"),
            ),
            file,
        )
    return function, file


def _load(file: str) -> Any:
    """Import a file; its folder comes first on the path, as when it is run."""
    sys.path.insert(0, os.path.dirname(file))
    name = os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise FitError("no-file", text("{file} is not a Python file", file=file), file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _sizes(function: Callable[..., Any], request: Request) -> Dict[str, int]:
    """Return batch and sequence length as arguments of build(), if they were requested."""
    given = {name: value for name, value in (("batch", request.batch), ("seq", request.seq)) if value is not None}
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        parameters = inspect.signature(lambda: None).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return given
    missing = [name for name in given if name not in parameters]
    if missing:
        raise FitError(
            "no-size",
            text(
                "{target} takes no argument {argument}: write def build({argument}=…)",
                target=request.target,
                argument=missing[0],
            ),
        )
    return given


def _checked(made: Any, target: str, file: Optional[str]) -> Built:
    import torch

    if not isinstance(made, (tuple, list)) or len(made) not in (2, 3) or not isinstance(made[0], torch.nn.Module):
        if isinstance(made, (tuple, list)):
            raise FitError(
                "bad-return",
                text(
                    "{target} returned {count} values; expected (model, inputs) or (model, inputs, loss)",
                    target=target,
                    count=len(made),
                ),
                file,
            )
        raise FitError(
            "bad-return",
            text(
                "{target} returned {type}; expected (model, inputs) or (model, inputs, loss)",
                target=target,
                type=type(made).__name__,
            ),
            file,
        )
    model, inputs = made[0], made[1]
    loss = made[2] if len(made) == 3 and made[2] is not None else default_loss
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)) and not hasattr(inputs, "keys"):
        raise FitError(
            "bad-return",
            text(
                "{target}: the inputs are {type}; expected a tuple or a dict", target=target, type=type(inputs).__name__
            ),
            file,
        )
    if not callable(loss):
        raise FitError(
            "bad-return",
            text("{target}: the loss must be a function, not {type}", target=target, type=type(loss).__name__),
            file,
        )
    return Built(model, dict(inputs) if hasattr(inputs, "keys") else tuple(inputs), loss, file)


def read_json(path: str) -> Dict[str, Any]:
    """Read a configuration file, or the one in a folder."""
    if os.path.isdir(path):
        path = os.path.join(path, "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
    except OSError as exc:
        raise FitError(
            "no-file", text("{path} cannot be read: {reason}", path=path, reason=exc.strerror), path
        ) from exc
    except ValueError as exc:
        raise FitError("bad-configuration", text("{path} is not JSON: {reason}", path=path, reason=exc), path) from exc
    if not isinstance(read, dict):
        raise FitError("bad-configuration", text("{path} is not a JSON object", path=path), path)
    return read


# Defaults if neither the request nor the configuration has sizes: examples, tokens, pixels per side, a second of sound.
BATCH, SEQ, SIDE, SAMPLES = 1, 512, 224, 16000
# Models with a label per token; others have one per example.
_LABEL_EACH = ("LMHeadModel", "LM", "ConditionalGeneration", "ForTokenClassification", "ForPreTraining")


def build_transformers(path: str, request: Request) -> Built:
    """Build the model of a configuration, and inputs of the requested sizes."""
    fields = read_json(path)
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError as exc:
        raise FitError("no-transformers", text("hf: needs transformers in this Python: {reason}", reason=exc)) from exc
    kind = fields.pop("model_type", None)
    names = fields.get("architectures") or []
    if not isinstance(kind, str):
        raise FitError("bad-configuration", text("{path} has no model_type", path=path), path)
    try:
        config = transformers.AutoConfig.for_model(kind, **fields)
        if getattr(config, "use_cache", False) and request.train:
            config.use_cache = False  # as training loops do: the cache is for generation
        if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
            config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0  # labels are shifted by it
        named = getattr(transformers, names[0], None) if names else None
        model = named(config) if named is not None else _automatic(transformers, config)
        inputs = make_transformers_inputs(model, config, request)
    except ImportError as exc:  # transformers imports its models when they are named
        raise FitError(
            "no-transformers", text("transformers does not work in this Python: {reason}", reason=exc)
        ) from exc
    except Exception as exc:
        if is_fatal(exc) or isinstance(exc, FitError):
            raise
        raise error_from(
            exc, "bad-configuration", template("transformers, given {path}, raised {error}"), path, path=path
        ) from exc
    return Built(model, inputs, default_loss)


def _automatic(transformers: Any, config: Any) -> Any:
    for name in ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForImageClassification", "AutoModel"):
        auto = getattr(transformers, name)
        if type(config) in auto._model_mapping:
            return auto.from_config(config)
    raise FitError("bad-configuration", text("transformers has no model of type {type}", type=config.model_type))


def make_transformers_inputs(model: Any, config: Any, request: Request) -> Dict[str, Any]:
    """Make the inputs of a model: token ids, pixels, sound; and labels for training."""
    takes = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    batch = request.batch or BATCH
    tokens = torch.zeros(batch, request.seq or _length(config), dtype=torch.long)
    inputs: Dict[str, Any] = {}
    if main == "pixel_values":
        inputs[main] = _pixels(config, batch)
    elif main == "input_values":
        inputs[main] = torch.randn(batch, request.seq or SAMPLES)
    elif main == "input_features":  # a spectrogram, whose length the first layers halve
        inputs[main] = torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions)
    else:
        inputs["input_ids"] = tokens
        if "pixel_values" in takes and "return_loss" in takes:  # one encoder for each: it needs both
            inputs["pixel_values"] = _pixels(config, batch)
    labels = _labels(type(model).__name__, takes, tokens, of_tokens=main != "pixel_values") if request.train else {}
    if getattr(config, "is_encoder_decoder", False) and "labels" not in labels and "decoder_input_ids" in takes:
        inputs["decoder_input_ids"] = tokens
    return {**inputs, **labels}


def _length(config: Any) -> int:
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    limits = (getattr(text, name, None) for name in ("max_position_embeddings", "n_positions", "max_target_positions"))
    return min(SEQ, int(next((limit for limit in limits if limit), SEQ)))


def _pixels(config: Any, batch: int) -> Any:
    seen = getattr(config, "vision_config", None) or config
    size = getattr(seen, "image_size", None) or SIDE
    height, width = (size, size) if isinstance(size, int) else size
    return torch.randn(batch, getattr(seen, "num_channels", 3), height, width)


def _labels(name: str, takes: Any, tokens: Any, *, of_tokens: bool) -> Dict[str, Any]:
    """Make the labels for a model of this name; none if the model has no loss of its own."""
    per_token, per_example = tokens, tokens[:, 0]  # a label per token, or one per example
    if "start_positions" in takes:
        return {"start_positions": per_example, "end_positions": per_example}
    if "return_loss" in takes:
        return {"return_loss": True}
    if "labels" not in takes or name.endswith(
        "ForCTC"
    ):  # the memory of its loss depends on the lengths of labels: data
        return {}
    many = of_tokens and name.endswith(_LABEL_EACH)
    labels = {"labels": per_token if many else per_example}
    if "next_sentence_label" in takes and many:
        labels["next_sentence_label"] = per_example
    return labels
