"""why_generated: the scores of outputs of `generate` of transformers, computed in one call of the model for several
outputs and many interpolation points.

The model computes for all labels of an output at once what `generate` computes step by step with a cache. Embeddings of
the source (of an encoder, else of the prompt) and of the labels are interpolated, as in the runs of `why_parts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from rfnb.core.errors import value_error

_SAME = 1e-3


class GeneratedScores:
    """The scores of outputs of a running `generate`, for interpolated embeddings.

    Args:
        session: The running call.
        ways: The labels of the outputs.
        seq: Index of the prompt.

    Attributes:
        source: The tokens of the encoder, or of the prompt: {position}.
        is_prompt: Whether they are the prompt of a model without encoder.
    """

    def __init__(self, session: Any, ways: Sequence[Sequence[int]], seq: int):
        self.model, self._ways = session.model, ways
        before, given = session.prompt_of(seq)
        self.is_prompt = not self.model.config.is_encoder_decoder
        self._more = {} if self.is_prompt else given
        read = before[None] if self.is_prompt else given.get(self.model.main_input_name)
        self.source = None if read is None or read.is_floating_point() else read[0]
        longest = max(map(len, ways)) - 1
        rows = [[*way[:-1], *[0] * (longest - len(way) + 1)] for way in ways]
        ids = torch.tensor(rows, device=before.device, dtype=before.dtype)
        self._ids = torch.cat([before.expand(len(ways), -1), ids], 1)  # values after the end are not used
        self._prefix, self._longest = len(before), longest
        mask = given.get("attention_mask") if self.is_prompt else None
        self._mask = None if mask is None else torch.cat([mask[0], mask.new_ones(longest)])

    def __call__(self, scaled: torch.Tensor) -> list[torch.Tensor]:
        """{place, label} of each output, for {place, column}: interpolation weights of the source, then of the labels."""
        count = len(scaled)
        ids = self._ids.repeat_interleave(count, 0)
        rows = {name: each[:1].expand(len(ids), *each.shape[1:]) for name, each in self._more.items()}
        if self.is_prompt:
            mask = {} if self._mask is None else {"attention_mask": self._mask.expand(len(ids), -1)}
            inputs = self.model.prepare_inputs_for_generation(ids, use_cache=False, **mask)
        else:
            inputs = {**rows, "decoder_input_ids": ids}
        with _Lookups(self, ids, scaled.repeat(len(self._ways), 1)):
            logits = self.model(**{**inputs, "use_cache": False, "return_dict": True}).logits
        out = logits[:, self._prefix - 1 :].float().log_softmax(-1).double()
        each = []
        for number, way in enumerate(self._ways):
            own = out[number * count : (number + 1) * count, : len(way)]
            labels = torch.tensor(way, device=own.device).expand(count, -1)[..., None]
            each.append(own.gather(2, labels)[..., 0].cumsum(1).to("cpu"))
        return each

    def check(self, scores: Sequence[torch.Tensor]) -> None:
        """Refuse scores that differ from those of the call.

        Args:
            scores: {label} of each output, as reported by `generate`.

        Raises:
            ValueError: If they differ.
        """
        size = 0 if self.source is None else len(self.source)
        with torch.no_grad():
            own = self(torch.ones((1, size + self._longest), dtype=torch.float64, device="cpu"))
        gaps = [float((each[0] - other.cpu()).abs().max()) for each, other in zip(own, scores)]
        if not max(gaps) <= _SAME * (1 + max(float(each.abs().max()) for each in scores)):
            raise value_error(
                "why_not: the scores of this generate are not those of its model alone.",
                {"apart": f"{max(gaps):.3g} nats", "in training": self.model.training},
                "The margin can be attributed if no processor changes scores, as repetition_penalty does, and dropout is off.",
                "rf.atlas(run)    # changes one after the other",
            )


class _Lookups(TorchFunctionMode):
    """Intercepts the first lookup of the source and of the labels."""

    def __init__(self, of: GeneratedScores, ids: torch.Tensor, scaled: torch.Tensor):
        super().__init__()
        size = 0 if of.source is None else len(of.source)
        ones = scaled.new_ones((len(scaled), of._prefix))
        self._shares = {"labels": torch.cat([scaled[:, :size] if of.is_prompt else ones, scaled[:, size:]], 1)}
        self._ids = {"labels": ids}
        if of.source is not None and not of.is_prompt:
            self._shares["source"], self._ids["source"] = scaled[:, :size], of.source.expand(len(ids), -1)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in (torch.nn.functional.embedding, torch.embedding):
            weight, ids = args[:2] if func is torch.embedding else args[1::-1]
            for what, own in [*self._ids.items()]:
                if ids.shape == own.shape and torch.equal(ids, own):
                    del self._ids[what]
                    mean, share = weight.detach().mean(0), self._shares[what].to(out.device, out.dtype)[..., None]
                    return mean + share * (out - mean)
        return out
