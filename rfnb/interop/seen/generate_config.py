"""GenerateConfig: the search method of a `generate` call, from its arguments and the generation config of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.interop.seen.calls import argument

_DEFAULTS = {
    "num_beams": 1,
    "length_penalty": 1.0,
    "early_stopping": False,
    "num_return_sequences": 1,
    "do_sample": False,
}
# Options that select a search that is not supported here.
_OTHER = {
    "assistant_model": "assisted generation", "prompt_lookup_num_tokens": "assisted generation",
    "assistant_early_exit": "assisted generation", "use_mtp": "assisted generation", "penalty_alpha": "contrastive search",
    "constraints": "constrained beam search", "force_words_ids": "constrained beam search", "dola_layers": "DoLa",
    "custom_generate": "a custom generate",
}  # fmt: skip
_SAID = (
    "num_beams", "do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "length_penalty",
    "early_stopping", "num_return_sequences", "repetition_penalty", "no_repeat_ngram_size", "min_new_tokens", "max_new_tokens",
    "max_length", "guidance_scale",
)  # fmt: skip
_OF_SAMPLES = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
_NEUTRAL = {
    "temperature": 1.0, "top_p": 1.0, "typical_p": 1.0, "top_k": 50, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "min_p": None,
    "repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "early_stopping": False, "num_return_sequences": 1, "do_sample": False,
    "max_length": 20, "min_new_tokens": None, "guidance_scale": None,
}  # fmt: skip


class GenerateConfig:
    """The search method of a call.

    Attributes:
        beams, samples: num_beams; num_return_sequences if it samples.
        cannot: The reason why it cannot be followed, or "".
        said: The given options, as plain data.
        given: The arguments by name.
    """

    def __init__(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.given = {**({"inputs": args[0]} if args else {}), **kwargs}
        given = argument(args, kwargs, 1, "generation_config")
        self._places = (kwargs, *(vars(one) for one in (given, model.generation_config) if one is not None))
        other = next((words for name, words in _OTHER.items() if self.of(name)), None)
        if other is None and (self.of("num_beam_groups") or 1) > 1:
            other = "group beam search"
        self.cannot = f"{other}, whose steps cannot be recorded" if other else ""
        self.beams = int(self.of("num_beams"))
        self.samples = int(self.of("num_return_sequences")) if self.beams == 1 else 1
        ends = self.of("eos_token_id")
        self.ends = frozenset(() if ends is None else map(int, np.ravel(ends.cpu() if hasattr(ends, "cpu") else ends)))
        said = {name: self.of(name) for name in _SAID}
        self.said = {
            name: value for name, value in said.items()
            if isinstance(value, (bool, int, float, str)) and (name == "num_beams" or value != _NEUTRAL.get(name, _NEUTRAL))
            and (self.of("do_sample") or name not in _OF_SAMPLES)
            and (self.beams > 1 or name not in ("length_penalty", "early_stopping"))
        }  # fmt: skip

    def of(self, name: str) -> Any:
        """An option: from the call, else from its generation config, else from that of the model."""
        return next((place[name] for place in self._places if place.get(name) is not None), _DEFAULTS.get(name))

    def most_steps(self, prompt: int) -> int | None:
        """The maximal number of labels of a hypothesis."""
        new, most = self.of("max_new_tokens"), self.of("max_length")
        return int(new) if new is not None else max(int(most) - prompt, 1) if most is not None else None

    @property
    def text(self) -> str:
        """The options in one line: "num_beams=4, length_penalty=1.0"."""
        return ", ".join(f"{name}={value!r}" for name, value in self.said.items())
