"""`hf:CONFIG.json`: a model of transformers from its configuration; no weights, and no network."""

import importlib
from typing import Any, Dict

import torch

from ownlab_guest.fit.building import read_json
from ownlab_guest.fit.refusal import Refused, is_fatal, refused
from ownlab_guest.fit.request import Request
from ownlab_guest.fit.stepping import Built, loss_of

BATCH, SEQ = 1, 512  # where the request names none


def build(path: str, request: Request) -> Built:
    """The model that a configuration describes, and inputs of the sizes that are asked for."""
    said = read_json(path)
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError as exc:
        raise Refused("no-transformers", f"hf: needs transformers in this Python: {exc}") from exc
    kind = said.pop("model_type", None)
    names = said.get("architectures") or []
    if not isinstance(kind, str):
        raise Refused("bad-configuration", f"{path} names no model_type", path)
    try:
        config = transformers.AutoConfig.for_model(kind, **said)
        if getattr(config, "use_cache", False) and request.train:
            config.use_cache = False  # as training loops do: it is for generating
        named = getattr(transformers, names[0], None) if names else None
        model = named(config) if named is not None else _automatic(transformers, config)
    except ImportError as exc:  # transformers imports its models, and what they need, when they are named
        raise Refused("no-transformers", f"transformers does not work in this Python: {exc}") from exc
    except Exception as exc:
        if is_fatal(exc) or isinstance(exc, Refused):
            raise
        raise refused(exc, "bad-configuration", f"transformers, given {path},", path) from exc
    return Built(model, _inputs(model, config, request), loss_of)


def _automatic(transformers: Any, config: Any) -> Any:
    for name in ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForImageClassification", "AutoModel"):
        auto = getattr(transformers, name)
        if type(config) in auto._model_mapping:
            return auto.from_config(config)
    raise Refused("bad-configuration", f"transformers has no model of the type {config.model_type}")


def _inputs(model: Any, config: Any, request: Request) -> Dict[str, Any]:
    batch = request.batch or BATCH
    if getattr(model, "main_input_name", "input_ids") == "pixel_values":
        side = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
        inputs = {"pixel_values": torch.randn(batch, getattr(config, "num_channels", 3), side, side)}
        labels = torch.zeros(batch, dtype=torch.long)
    else:
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        most = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or SEQ
        seq = request.seq or min(SEQ, int(most))
        tokens = torch.zeros(batch, seq, dtype=torch.long)
        inputs = {"input_ids": tokens}
        if getattr(config, "is_encoder_decoder", False) and not request.train:
            inputs["decoder_input_ids"] = tokens
        labels = (
            tokens if type(model).__name__.endswith(("LMHeadModel", "LM", "ConditionalGeneration")) else tokens[:, 0]
        )
    if request.train:
        inputs["labels"] = labels
    return inputs
