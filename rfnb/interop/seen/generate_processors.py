"""The processors of scores in `generate`, and which labels each of them has made impossible in a step."""

from __future__ import annotations

import copy
from typing import Any

import torch

# What the arguments of `generate` call them.
_NAMES = {
    "TopKLogitsWarper": "top_k", "TopPLogitsWarper": "top_p", "MinPLogitsWarper": "min_p", "TypicalLogitsWarper": "typical_p",
    "EpsilonLogitsWarper": "epsilon_cutoff", "EtaLogitsWarper": "eta_cutoff", "TopHLogitsWarper": "top_h",
    "NoRepeatNGramLogitsProcessor": "no_repeat_ngram_size", "NoBadWordsLogitsProcessor": "bad_words_ids",
    "MinLengthLogitsProcessor": "min_length", "MinNewTokensLengthLogitsProcessor": "min_new_tokens",
    "PrefixConstrainedLogitsProcessor": "prefix_allowed_tokens_fn", "SuppressTokensLogitsProcessor": "suppress_tokens",
    "SuppressTokensAtBeginLogitsProcessor": "begin_suppress_tokens", "ForcedBOSTokenLogitsProcessor": "forced_bos_token_id",
    "ForcedEOSTokenLogitsProcessor": "forced_eos_token_id", "EncoderNoRepeatNGramLogitsProcessor": "encoder_no_repeat_ngram_size",
}  # fmt: skip
DECIDED = "a decision from outside"


class Blocked:
    """The labels of a step that something has made impossible.

    Attributes:
        by: (rows, labels): 0, or the number in `names`, from 1, of what did it.
        names: In words.
    """

    def __init__(self) -> None:
        self.by: torch.Tensor | None = None
        self.names: list[str] = []

    def watched(self, processors: Any) -> Any:
        """The same list, whose processors say what they make impossible; a new step begins."""
        self.by = None
        seen = copy.copy(processors)
        seen[:] = [_Watched(processor, self) for processor in processors]
        return seen

    def note(self, name: str, before: torch.Tensor, after: torch.Tensor) -> None:
        """Note what was possible before, bool (rows, labels), and is not after."""
        gone = before & ~(after > -torch.inf)
        if not bool(gone.any()):
            return
        if name not in self.names:
            self.names.append(name)
        if self.by is None:
            self.by = torch.zeros(gone.shape, dtype=torch.uint8, device=gone.device)
        self.by.masked_fill_(gone, self.names.index(name) + 1)


class _Watched:
    def __init__(self, processor: Any, blocked: Blocked):
        self._processor, self._blocked = processor, blocked
        self.__dict__["__call__"] = processor.__call__  # its parameters are asked for

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        before = scores > -torch.inf  # some change scores in place
        result = self._processor(input_ids, scores, **kwargs)
        if isinstance(result, torch.Tensor) and result.shape == before.shape:
            kind = type(self._processor).__name__
            self._blocked.note(_NAMES.get(kind, kind), before, result)
        return result
