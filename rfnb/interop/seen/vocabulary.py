"""The texts of the labels of a model, by its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.errors import type_error, value_error


def vocabulary_of(tokenizer: Any, size: int, place: str) -> list[str] | None:
    """The text of each label.

    Args:
        tokenizer: Of transformers, or a list of texts; None: there are no texts.
        size: How many labels there are. Models pad their vocabulary to a round size; tokenizers do not have more than the model.

    Raises:
        TypeError: If it is neither.
        ValueError: If it has more labels than the model.
    """
    if tokenizer is None:
        return None
    if isinstance(tokenizer, Sequence) and not isinstance(tokenizer, str):
        labels = list(map(str, tokenizer))
    elif callable(getattr(tokenizer, "convert_ids_to_tokens", None)):
        labels = list(map(str, tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))))
    else:
        raise type_error(
            f"{place}: this is no tokenizer.",
            [("given", type(tokenizer).__name__)],
            "It has convert_ids_to_tokens, as those of transformers; or it is a list of texts.",
            "transformers.AutoTokenizer.from_pretrained(...)",
        )
    if len(labels) > size:
        raise value_error(
            f"{place}: the tokenizer has more labels than the model.",
            [("tokenizer", len(labels)), ("model", size)],
            "It is that of another model, or labels were added to it and not to the model:",
            "model.resize_token_embeddings(len(tokenizer))",
        )
    return labels + [f"<{index}>" for index in range(len(labels), size)]
