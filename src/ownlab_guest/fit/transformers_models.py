"""`hf:CONFIG.json`: a model of transformers from its configuration; no weights, and no network."""

import importlib
import inspect
from typing import Any, Dict

import torch

from ownlab_guest.fit.errors import Refused, is_fatal, refused
from ownlab_guest.fit.model_loader import read_json
from ownlab_guest.fit.request import Request
from ownlab_guest.fit.training_step import Built, loss_of

# Where neither the request nor the configuration names any: examples, tokens, pixels to a side, a second of sound.
BATCH, SEQ, SIDE, SAMPLES = 1, 512, 224, 16000
# Models with a label for each token; others have one for each example.
_LABEL_EACH = ("LMHeadModel", "LM", "ConditionalGeneration", "ForTokenClassification", "ForPreTraining")


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
        if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
            config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0  # labels are shifted by it
        named = getattr(transformers, names[0], None) if names else None
        model = named(config) if named is not None else _automatic(transformers, config)
        inputs = inputs_of(model, config, request)
    except ImportError as exc:  # transformers imports its models, and what they need, when they are named
        raise Refused("no-transformers", f"transformers does not work in this Python: {exc}") from exc
    except Exception as exc:
        if is_fatal(exc) or isinstance(exc, Refused):
            raise
        raise refused(exc, "bad-configuration", f"transformers, given {path},", path) from exc
    return Built(model, inputs, loss_of)


def _automatic(transformers: Any, config: Any) -> Any:
    for name in ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForImageClassification", "AutoModel"):
        auto = getattr(transformers, name)
        if type(config) in auto._model_mapping:
            return auto.from_config(config)
    raise Refused("bad-configuration", f"transformers has no model of the type {config.model_type}")


def inputs_of(model: Any, config: Any, request: Request) -> Dict[str, Any]:
    """What the model takes: ids of tokens, pixels, sound; and labels where it is trained."""
    takes = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    batch = request.batch or BATCH
    tokens = torch.zeros(batch, request.seq or _length(config), dtype=torch.long)
    inputs: Dict[str, Any] = {}
    if main == "pixel_values":
        inputs[main] = _pixels(config, batch)
    elif main == "input_values":
        inputs[main] = torch.randn(batch, request.seq or SAMPLES)
    elif main == "input_features":  # a spectrum, which the encoder's first layers make half as long
        inputs[main] = torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions)
    else:
        inputs["input_ids"] = tokens
        if "pixel_values" in takes and "return_loss" in takes:  # an encoder of each: text alone is nothing to it
            inputs["pixel_values"] = _pixels(config, batch)
    labels = _labels(type(model).__name__, takes, tokens, of_tokens=main != "pixel_values") if request.train else {}
    if getattr(config, "is_encoder_decoder", False) and "labels" not in labels and "decoder_input_ids" in takes:
        inputs["decoder_input_ids"] = tokens
    return {**inputs, **labels}


def _length(config: Any) -> int:
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    most = (getattr(text, name, None) for name in ("max_position_embeddings", "n_positions", "max_target_positions"))
    return min(SEQ, int(next((one for one in most if one), SEQ)))


def _pixels(config: Any, batch: int) -> Any:
    seen = getattr(config, "vision_config", None) or config
    size = getattr(seen, "image_size", None) or SIDE
    height, width = (size, size) if isinstance(size, int) else size
    return torch.randn(batch, getattr(seen, "num_channels", 3), height, width)


def _labels(name: str, takes: Any, tokens: Any, *, of_tokens: bool) -> Dict[str, Any]:
    """What a model of this name is trained with; a model without a loss of its own has none."""
    each, one = tokens, tokens[:, 0]  # a label for each token, or one for each example
    if "start_positions" in takes:
        return {"start_positions": one, "end_positions": one}
    if "return_loss" in takes:
        return {"return_loss": True}
    if "labels" not in takes or name.endswith("ForCTC"):  # its loss takes as much as its labels are long: data
        return {}
    many = of_tokens and name.endswith(_LABEL_EACH)
    labels = {"labels": each if many else one}
    if "next_sentence_label" in takes and many:
        labels["next_sentence_label"] = one
    return labels
