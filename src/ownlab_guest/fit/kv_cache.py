"""The KV cache of decoding: `launch.py fit.kv_cache REQUEST.json TOKENS` traces the step of the last token; also measured here.

For models that take and return `past_key_values`, as those of transformers do. The step of the last token is traced with a
cache of full length. The cache is what the model returns for that many tokens, so that windows and shared heads are included.
"""

import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set

from ownlab_guest.fit.errors import FitError, before_deadline, error_from, is_fatal
from ownlab_guest.fit.request import Request, read_request
from ownlab_guest.text import template, text

MAX_DEPTH = 6  # caches are nested objects; tensors are not deeper


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Return the trace of the last token's step and the sizes of the cache, or an error."""
    try:
        request, count = read_request(arguments[0]), int(arguments[1])
        try:
            import torch  # noqa: F401
        except ImportError as exc:
            raise FitError("no-torch", text("This Python has no torch: {reason}", reason=exc)) from exc
        with before_deadline(request.target):
            return trace_step(request, count)
    except FitError as exc:
        return exc.answer()


def trace_step(request: Request, count: int) -> Dict[str, Any]:
    """Trace one step: each step lengthens the cache, and only the last one counts."""
    from ownlab_guest.fit import trace

    sizes: Dict[str, Any] = {}
    last = trace.trace_step(request._replace(steps=1, train=False), lambda asked: _last(asked, count, sizes))
    return {"trace": last, **sizes}


class Prompt(NamedTuple):
    """The arguments of the first call, and the name of the argument for new tokens."""

    given: Dict[str, Any]
    tokens: str  # input_ids, or decoder_input_ids with an encoder

    def of_length(self, length: int) -> Dict[str, Any]:
        """Return the arguments with this many tokens."""
        import torch

        tokens = self.given[self.tokens]
        longer = torch.zeros(tokens.shape[0], length, dtype=tokens.dtype, device=tokens.device)
        return {**self.given, self.tokens: longer}

    def after(self, output: Any, tokens: Any) -> Dict[str, Any]:
        """Return the arguments for the next token."""
        arguments = {self.tokens: tokens, "past_key_values": find_cache(output)}
        hidden = getattr(output, "encoder_last_hidden_state", None)
        if hidden is not None:
            arguments["encoder_outputs"] = (hidden,)
        return arguments


def make_prompt(inputs: Any) -> Prompt:
    """Make a prompt of inputs, without masks and labels: a mask would have to grow with each token."""
    import torch

    named = inputs if isinstance(inputs, dict) else {"input_ids": inputs[0]} if inputs else {}
    kept = {name: tensor for name, tensor in named.items() if "mask" not in name and "labels" not in name}
    tokens = "decoder_input_ids" if "decoder_input_ids" in kept else "input_ids"
    ids = kept.get(tokens)
    if not isinstance(ids, torch.Tensor) or ids.dim() != 2 or ids.is_floating_point():
        raise FitError(
            "no-decoding",
            text(
                "The inputs have no {tokens} with tokens of the shape (batch, length): nothing can be decoded",
                tokens=tokens,
            ),
        )
    return Prompt({**kept, "use_cache": True}, tokens)


def find_cache(output: Any) -> Any:
    """Return the cache of an output."""
    cache = output.get("past_key_values") if isinstance(output, dict) else getattr(output, "past_key_values", None)
    if cache is None:
        raise FitError("no-decoding", text("The model returns no past_key_values: it has no cache for decoding"))
    return cache


def cache_bytes(cache: Any) -> int:
    """Return the bytes of all tensors of a cache; each storage counts once."""
    storages = [tensor.untyped_storage() for tensor in _tensors_in(cache, MAX_DEPTH, set())]
    sizes = {storage._cdata: storage.nbytes() for storage in storages}
    return int(sum(sizes.values()))


def _tensors_in(thing: Any, deep: int, seen: Set[int]) -> Iterator[Any]:
    import torch

    if id(thing) in seen or deep < 0:
        return
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        yield thing
        return
    if isinstance(thing, (list, tuple)):
        parts = list(thing)
    else:
        parts = list(thing.values()) if isinstance(thing, dict) else list(getattr(thing, "__dict__", {}).values())
    for part in parts:
        yield from _tensors_in(part, deep - 1, seen)


def _last(request: Request, count: int, sizes: Dict[str, Any]) -> Any:
    """Build the model with the inputs of the last new token. Called where tensors have no data."""
    import torch

    from ownlab_guest.fit import model_loader, trace, training_step

    built = model_loader.build(request)
    trace.convert_weights(built.model, request)
    built.model.eval()
    prompt = make_prompt(training_step.to_device(built.inputs, "cpu", request))
    length = int(prompt.given[prompt.tokens].shape[1])
    _check_length(built.model, length + count)
    first = _output(built, prompt.of_length(length), request)
    before = _output(built, prompt.of_length(length + count - 1), request)
    batch = int(prompt.given[prompt.tokens].shape[0])
    last = prompt.after(before, torch.zeros(batch, 1, dtype=torch.long))
    after = _output(built, prompt.of_length(length + count), request)
    sizes.update(
        batch=batch,
        prompt_tokens=length,
        new_tokens=count,
        prompt_bytes=cache_bytes(find_cache(first)),
        cache_bytes=cache_bytes(find_cache(after)),
    )
    return built._replace(inputs={**last, "use_cache": True})


def _check_length(model: Any, length: int) -> None:
    config = getattr(model, "config", None)
    most = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if isinstance(most, int) and length > most:
        raise FitError(
            "too-long",
            text(
                "Prompt and new tokens are {count}, and the model has {positions} positions",
                count=length,
                positions=most,
            ),
        )


def _output(built: Any, given: Dict[str, Any], request: Request) -> Any:
    import torch

    from ownlab_guest.fit import training_step

    kind = training_step.torch_dtype(request.autocast)
    try:
        with torch.no_grad(), torch.autocast("cpu", kind or torch.bfloat16, enabled=kind is not None):
            return built.model(**given)
    except Exception as exc:
        if is_fatal(exc) or isinstance(exc, FitError):
            raise
        raise error_from(
            exc, "no-decoding", template("the model, called with use_cache=True, raised {error}"), built.file
        ) from exc


def measure_decoding(model: Any, inputs: Any, request: Request, device: str, count: int) -> Dict[str, Any]:
    """Measure the seconds of the prompt and of each new token (greedy), and the cache at the end."""
    import torch

    from ownlab_guest.fit import training_step

    kind = training_step.torch_dtype(request.autocast)
    prompt = make_prompt(inputs)
    _check_length(model, int(prompt.given[prompt.tokens].shape[1]) + count)
    model.eval()
    with (
        torch.inference_mode(),
        torch.autocast(torch.device(device).type, kind or torch.bfloat16, enabled=kind is not None),
    ):
        _decode(model, prompt, device, min(count, 3))  # warm-up: libraries choose and load their kernels
        return _decode(model, prompt, device, count)


def _decode(model: Any, prompt: Prompt, device: str, count: int) -> Dict[str, Any]:
    clock = _Clock(device)
    output = model(**prompt.given)
    first = clock.lap()
    seconds = []
    for _ in range(count):
        tokens = output.logits[:, -1:].argmax(-1)
        output = model(**prompt.after(output, tokens), use_cache=True)
        seconds.append(clock.lap())
    return {"prompt_seconds": first, "token_seconds": seconds, "cache_bytes": cache_bytes(find_cache(output))}


class _Clock:
    def __init__(self, device: str) -> None:
        self._device: Optional[str] = None if device == "cpu" else device
        self._last = self._now()

    def lap(self) -> float:
        """Return the seconds since the last lap, after the device has finished."""
        before, self._last = self._last, self._now()
        return self._last - before

    def _now(self) -> float:
        import torch

        if self._device is not None:
            torch.cuda.synchronize(self._device)
        return time.perf_counter()
