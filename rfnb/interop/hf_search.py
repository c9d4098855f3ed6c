"""Beam search of rfnb over a model of `transformers`, to inspect the search.

    inputs = tokenizer(["Where is it ?"], return_tensors="pt", padding=True)
    result = rf.beam_search(**rf.hf_search_options(model, tokenizer=tokenizer, **inputs), beam_size=4, max_seq_len=50)
    result.nbest(0), rf.show(result.history)

Nothing of `transformers` is imported: models are recognised by their attributes.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.errors import type_error, value_error
from rfnb.viz.dims.transformers_rows import CACHE_NAMES, cache_in

Processor = Callable[[Any, Any], Any]


def hf_search_options(
    model: Any,
    *,
    tokenizer: Any = None,
    logits_processor: Sequence[Processor] = (),
    start_token_id: int | None = None,
    end_token_id: int | None = None,
    **inputs: Any,
) -> dict[str, Any]:
    """Arguments of `rf.beam_search` for a generating model of `transformers`, with its key-value cache if it has one.

    The n-best list of `model.generate(num_beams=k, num_return_sequences=k, max_new_tokens=n, length_penalty=p)` is then

        result = rf.beam_search(
            **options, beam_size=k, num_best=k, max_seq_len=n, length_exponent=p, ended="leave", early_stopping="likely"
        )
        result.nbest(seq, unfinished=True)[:k]

    - There, ended hypotheses leave the beam; here they keep their slots without `ended="leave"`.
    - `early_stopping` False there (the default) is "likely" here, True is "complete", and "never" is True (provably the best).
    - There, hypotheses truncated by max_new_tokens are normal results; here only with `unfinished`.
    - In both, scores are summed log probabilities / length ** exponent, over the labels after the start or prompt, including the end.
    - Settings of the generation config that change scores (forced or bad words, n-grams, minimal length) are options of
    `rf.beam_search` here (prefix, banned, no_repeat_ngram), or can be passed as `logits_processor`.

    Args:
        model: An encoder-decoder (Bart, Marian, T5, Whisper, ...) or a decoder-only model (GPT-2, Llama, ...), in eval mode.
        tokenizer: The tokenizer for the texts of labels.
        logits_processor: Functions (labels so far (n, time), log probabilities (n, vocabulary)) -> log probabilities, such as the
            LogitsProcessors of `transformers`. Labels start with the start label or the prompt, as there.
        start_token_id, end_token_id: Default: decoder_start_token_id (or bos_token_id) and eos_token_id of model.generation_config.
        **inputs: Inputs of the encoder: input_ids, attention_mask, input_features, ... For a decoder-only model:
            input_ids, the prompts, padded on the left, and attention_mask.

    Returns:
        step, state, batch, start_label, end_label and vocab. They can be reused for several searches.

    Raises:
        TypeError: For an input that the model does not accept.
        ValueError: If there is no start or end token, or several ends; or if prompts are missing, empty or padded on the right.
    """
    import torch

    config, mask = model.generation_config, inputs.get("attention_mask")
    end = _end(config.eos_token_id if end_token_id is None else end_token_id)
    if model.config.is_encoder_decoder:
        start: Any = _start(config) if start_token_id is None else start_token_id
        _check_inputs(model.get_encoder(), inputs)
        with torch.no_grad():
            encoded = model.get_encoder()(**inputs).last_hidden_state
        past = _Past(model, encoded.new_zeros((len(encoded), 0), dtype=torch.int64), mask, False, encoded)
    else:
        prompts = _prompts(inputs)
        _check_inputs(model, inputs, ("input_ids", "attention_mask"))
        if mask is not None and not bool(mask[:, -1].all()):
            raise ValueError(
                "hf_search_options: the prompts are padded on the right.\nThe generated labels come right after the prompt.\n"
                '    tokenizer.padding_side = "left"'
            )
        start = prompts[:, -1]
        padded = mask is not None and not bool(mask.all())
        past = _Past(model, prompts[:, :-1], torch.ones_like(prompts) if mask is None else mask, padded)

    def step(labels: Any, past: _Past) -> tuple[Any, _Past]:
        with torch.no_grad():
            past = past.with_labels(labels)
            scores = torch.log_softmax(past.logits().float(), -1)
            for processor in logits_processor:
                scores = processor(past.labels, scores)
        return scores, past

    vocab = _vocab(tokenizer, model)
    return {
        "step": step,
        "state": past,
        "batch": len(past.labels),
        "start_label": start,
        "end_label": end,
        "vocab": vocab,
    }


# Settings that a search takes from its own options, and the corresponding ones of `generate`.
_OF_SEARCH = {
    "num_beams": "beam_size", "num_return_sequences": "num_best", "max_new_tokens": "max_seq_len", "max_length": "max_seq_len",
    "length_penalty": "length_exponent", "no_repeat_ngram_size": "no_repeat_ngram", "early_stopping": "early_stopping",
    "bad_words_ids": "banned", "forced_decoder_ids": "prefix", "do_sample": "sampling", "temperature": "temperature",
    "top_k": "top_k", "top_p": "top_p",
}  # fmt: skip


def _check_inputs(module: Any, inputs: dict[str, Any], known: Sequence[str] | None = None) -> None:
    """Refuse unknown inputs: many models accept and ignore any keyword.

    Raises:
        TypeError: Suggests the intended name.
    """
    if known is None:
        parameters = inspect.signature(getattr(module, "forward", module)).parameters.values()
        known = [each.name for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
        known = [name for name in known if name not in _NO_INPUTS]
    for name in inputs if known else ():
        if name in known:
            continue
        alike = difflib.get_close_matches(
            name, [*known, "tokenizer", "logits_processor", "start_token_id", "end_token_id"], 1
        )
        if not alike and name.endswith("mask") and "attention_mask" in known:
            alike = ["attention_mask"]
        fix: str | None
        if name in _OF_SEARCH:
            rule, fix = "That is an option of the search:", f"rf.beam_search(**options, {_OF_SEARCH[name]}=...)"
        else:
            rule = "Models often accept and ignore unknown keywords." + (" Did you mean:" if alike else "")
            fix = f"rf.hf_search_options(model, {alike[0]}=...)" if alike else None
        rows = [("model", type(module).__name__), ("known", ", ".join(known))]
        raise type_error(f"hf_search_options: {name} is not an input of the model.", rows, rule, fix)


# Options of the same call about how it runs and what it returns.
_NO_INPUTS = {
    "return_dict", "output_attentions", "output_hidden_states", "use_cache", *CACHE_NAMES, "labels", "cache_position",
    "cross_attn_head_mask", "encoder_hidden_states", "encoder_attention_mask",
}  # fmt: skip


class _Past:
    """The history that the model has seen, as the state of a search: labels, and from the first step on the key-value cache.

    Args:
        labels: (n, time), the start or prompt and the following labels.
        mask: The mask of the encoder, or of the prompt for a decoder-only model.
        padded: Whether the mask of a prompt hides anything: computed once, since it waits for a GPU.
        encoded: The output of the encoder.
    """

    def __init__(self, model: Any, labels: Any, mask: Any, padded: bool, encoded: Any = None, cache: Any = None):
        self.model, self.labels, self.mask, self.padded = model, labels, mask, padded
        self.encoded, self.cache = encoded, cache

    def with_labels(self, labels: Any) -> _Past:
        """The states with one more label each."""
        import torch

        both = torch.cat([self.labels, labels[:, None].to(self.labels.device)], 1)
        return _Past(self.model, both, self.mask, self.padded, self.encoded, self.cache)

    def logits(self) -> Any:
        """The logits of the next label, (n, vocabulary)."""
        import torch

        new = self.labels if self.cache is None else self.labels[:, -1:]
        parameters = inspect.signature(self.model.forward).parameters
        name = next((name for name in CACHE_NAMES if name in parameters), CACHE_NAMES[-1])
        cached = {name: self.cache, "use_cache": True}
        if self.encoded is not None:
            encoded = {"encoder_outputs": (self.encoded,), "attention_mask": self.mask}
            out = self.model(decoder_input_ids=new, **encoded, **cached)
        else:
            if self.padded:  # only then: some models accept no positions, and models with recurrent states no mask of the cached positions
                mask = torch.nn.functional.pad(self.mask, (0, self.labels.shape[1] - self.mask.shape[1]), value=1)
                cached["attention_mask"] = mask
                cached["position_ids"] = mask.cumsum(1)[:, -new.shape[1] :].sub(1).clamp(min=0)
            out = self.model(input_ids=new, **cached)
        cache = cache_in(out)
        # Without a cache, all labels are processed again in each step.
        follows = hasattr(cache, "reorder_cache") and not (self.padded and _has_states(cache))
        self.cache = cache if follows else None
        return out.logits[:, -1]

    def reorder_cache(self, rows: Any) -> None:
        """Gather the rows of the hypotheses' parents; called by the search."""
        cache = self.cache
        if len(rows) != len(self.labels):
            self.mask = None if self.mask is None else self.mask[rows]
            self.encoded = None if self.encoded is None else self.encoded[rows]
        else:  # hypotheses of one sequence share the source
            cache = getattr(cache, "self_attention_cache", cache)
        self.labels = self.labels[rows]
        if cache is not None:
            cache.reorder_cache(rows)


def _has_states(cache: Any) -> bool:
    """Whether layers keep a recurrent state instead of all keys and values, like Mamba."""
    return any(hasattr(layer, "conv_states") for layer in getattr(cache, "layers", ()))


def _prompts(inputs: dict[str, Any]) -> Any:
    prompts = inputs.get("input_ids")
    if prompts is None or not prompts.shape[1]:
        raise value_error(
            "hf_search_options: a decoder-only model needs input_ids.",
            {"given": ", ".join(inputs)},
            "It continues its prompts, which need at least the first label.",
            "rf.hf_search_options(model, input_ids=ids, attention_mask=mask)",
        )
    return prompts


def _start(config: Any) -> int:
    start = config.bos_token_id if config.decoder_start_token_id is None else config.decoder_start_token_id
    if start is None:
        raise ValueError(
            "hf_search_options: the generation config has no decoder_start_token_id and no bos_token_id.\n"
            "The decoder starts with a label.\n    rf.hf_search_options(model, start_token_id=0, ...)"
        )
    return int(start)


def _end(end: Any) -> int:
    ends = end if isinstance(end, (list, tuple)) else [end]
    if len(ends) != 1 or ends[0] is None:
        raise value_error(
            "hf_search_options: the end label is not unique.",
            {"eos_token_id": end},
            "A search ends hypotheses with one label.",
            "rf.hf_search_options(model, end_token_id=2, ...)",
        )
    return int(ends[0])


def _vocab(tokenizer: Any, model: Any) -> list[str] | None:
    if tokenizer is None:
        return None
    tokens = list(map(str, tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))))
    size = getattr(model.config, "vocab_size", len(tokens))  # models pad their vocabulary to a round size
    return tokens[:size] + [f"<{index}>" for index in range(len(tokens), size)]
