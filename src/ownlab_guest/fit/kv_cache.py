"""Decoding: `launch.py fit.kv_cache REQUEST.json TOKENS`; the cache of keys and values, and the step that makes the last token.

For models that take `past_key_values` and return them, as those of transformers do. The last token's step is traced with a
cache of full length; the cache itself is what the model returns for so many tokens, so windows and shared heads are in it.
"""

import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set

from ownlab_guest.fit.errors import Refused, in_time, is_fatal, refused
from ownlab_guest.fit.request import Request, read

DEEP = 6  # caches are objects in objects; tensors lie no deeper


def answer(arguments: List[str]) -> Dict[str, Any]:
    """The trace of the last token's step, and the cache's sizes beside it; or what was wrong."""
    try:
        request, count = read(arguments[0]), int(arguments[1])
        try:
            import torch  # noqa: F401
        except ImportError as exc:
            raise Refused("no-torch", f"this Python has no torch: {exc}") from exc
        with in_time(request.target):
            return traced(request, count)
    except Refused as exc:
        return exc.answer()


def traced(request: Request, count: int) -> Dict[str, Any]:
    """One step: each lengthens the cache, and what is meant is the last token's."""
    from ownlab_guest.fit import trace

    sizes: Dict[str, Any] = {}
    last = trace.traced(request._replace(steps=1, train=False), lambda asked: _last(asked, count, sizes))
    return {"trace": last, **sizes}


class Prompt(NamedTuple):
    """What is given at first, and by which name the new tokens come."""

    given: Dict[str, Any]
    tokens: str  # input_ids, or decoder_input_ids of models that have an encoder

    def of_length(self, length: int) -> Dict[str, Any]:
        """The same with so many tokens."""
        import torch

        tokens = self.given[self.tokens]
        longer = torch.zeros(tokens.shape[0], length, dtype=tokens.dtype, device=tokens.device)
        return {**self.given, self.tokens: longer}

    def after(self, output: Any, tokens: Any) -> Dict[str, Any]:
        """What is given for the next token."""
        said = {self.tokens: tokens, "past_key_values": cache_of(output)}
        hidden = getattr(output, "encoder_last_hidden_state", None)
        if hidden is not None:
            said["encoder_outputs"] = (hidden,)
        return said


def prompt_of(inputs: Any) -> Prompt:
    """Inputs without masks and labels: a mask would have to grow with each token, and all of them count here."""
    import torch

    named = inputs if isinstance(inputs, dict) else {"input_ids": inputs[0]} if inputs else {}
    kept = {name: one for name, one in named.items() if "mask" not in name and "labels" not in name}
    tokens = "decoder_input_ids" if "decoder_input_ids" in kept else "input_ids"
    one = kept.get(tokens)
    if not isinstance(one, torch.Tensor) or one.dim() != 2 or one.is_floating_point():
        raise Refused("no-decoding", f"the inputs have no {tokens} of tokens, batch by length: nothing can be decoded")
    return Prompt({**kept, "use_cache": True}, tokens)


def cache_of(output: Any) -> Any:
    """Keys and values, as the model returned them."""
    cache = output.get("past_key_values") if isinstance(output, dict) else getattr(output, "past_key_values", None)
    if cache is None:
        raise Refused("no-decoding", "the model returns no past_key_values: it keeps no cache for decoding")
    return cache


def cache_bytes(cache: Any) -> int:
    """Bytes of all tensors in it, each storage once."""
    found = (one.untyped_storage() for one in _inside(cache, DEEP, set()))
    storages = {one._cdata: one.nbytes() for one in found}
    return int(sum(storages.values()))


def _inside(thing: Any, deep: int, seen: Set[int]) -> Iterator[Any]:
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
        yield from _inside(part, deep - 1, seen)


def _last(request: Request, count: int, sizes: Dict[str, Any]) -> Any:
    """The model, and as inputs what makes the last of the new tokens. Called where tensors have no data."""
    import torch

    from ownlab_guest.fit import model_loader, trace, training_step

    built = model_loader.build(request)
    trace.convert(built.model, request)
    built.model.eval()
    prompt = prompt_of(training_step.moved(built.inputs, "cpu", request))
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
        prompt_bytes=cache_bytes(cache_of(first)),
        cache_bytes=cache_bytes(cache_of(after)),
    )
    return built._replace(inputs={**last, "use_cache": True})


def _check_length(model: Any, length: int) -> None:
    config = getattr(model, "config", None)
    most = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if isinstance(most, int) and length > most:
        raise Refused("too-long", f"prompt and new tokens are {length}, and the model has places for {most}")


def _output(built: Any, given: Dict[str, Any], request: Request) -> Any:
    import torch

    from ownlab_guest.fit import training_step

    kind = training_step.dtype_of(request.autocast)
    try:
        with torch.no_grad(), torch.autocast("cpu", kind or torch.bfloat16, enabled=kind is not None):
            return built.model(**given)
    except Exception as exc:
        if is_fatal(exc) or isinstance(exc, Refused):
            raise
        raise refused(exc, "no-decoding", "the model, called with use_cache=True,", built.file) from exc


def measured(model: Any, inputs: Any, request: Request, device: str, count: int) -> Dict[str, Any]:
    """Seconds of the prompt and of each new token, the likeliest taken each time; and the cache at the end."""
    import torch

    from ownlab_guest.fit import training_step

    kind = training_step.dtype_of(request.autocast)
    prompt = prompt_of(inputs)
    _check_length(model, int(prompt.given[prompt.tokens].shape[1]) + count)
    model.eval()
    with (
        torch.inference_mode(),
        torch.autocast(torch.device(device).type, kind or torch.bfloat16, enabled=kind is not None),
    ):
        _decoded(model, prompt, device, min(count, 3))  # libraries choose and load their kernels
        return _decoded(model, prompt, device, count)


def _decoded(model: Any, prompt: Prompt, device: str, count: int) -> Dict[str, Any]:
    clock = _Clock(device)
    output = model(**prompt.given)
    first = clock.lap()
    seconds = []
    for _ in range(count):
        tokens = output.logits[:, -1:].argmax(-1)
        output = model(**prompt.after(output, tokens), use_cache=True)
        seconds.append(clock.lap())
    return {"prompt_seconds": first, "token_seconds": seconds, "cache_bytes": cache_bytes(cache_of(output))}


class _Clock:
    def __init__(self, device: str) -> None:
        self._device: Optional[str] = None if device == "cpu" else device
        self._last = self._now()

    def lap(self) -> float:
        """Seconds since the last lap, until the device has finished."""
        before, self._last = self._last, self._now()
        return self._last - before

    def _now(self) -> float:
        import torch

        if self._device is not None:
            torch.cuda.synchronize(self._device)
        return time.perf_counter()
